"""The papers' other figures: `python -m reproduce figures NAME --workdir RUN`.

sentence-length, mention-length   F1 by length (UANet, Figure 3; Li et al.)
changes                           what a refinement corrects and breaks (UANet, Table 1)
tokens                            draft, refinement, uncertainty (nats; UANet, Table 7)
chunk-recall                      parts of an attention encoder, each alone (Li et al.)
heat-map                          relations (GRN, Figure 4) or attention of a sentence

Prints what the library's functions return, then the published values. `evaluate
--report` draws them; speed is in `python -m benchmarks.deviceless --orders`.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import tomllib
from collections.abc import Iterable
from typing import Any

import jaxner
from jaxner.analysis import inside, refinement
from jaxner.evaluation import errors, predictions
from jaxner.runs import Workdir
from jaxner.training import corpus
from reproduce.plan import HERE


def measured(name: str, workdir: str, split: str, number: int | None) -> Iterable[Any]:
    """Returns a figure of a run, of all sentences of a split or of one of them."""
    run = Workdir(workdir)
    if name in ("sentence-length", "mention-length"):
        labels = predictions.read(run.predictions(split))
        pairs = errors.pairs(*labels, scheme=run.vocabulary().scheme)
        if name == "mention-length":
            return errors.by_length(pairs).items()
        return errors.by_sentence_length(pairs, labels[0]).items()
    tagger: Any = jaxner.load(workdir)
    data = corpus.load_split(run.read_json("config.json")["data"], split)
    if number is not None:
        data = dataclasses.replace(data, examples=data.examples[number - 1 : number])
    if name == "heat-map":
        words = list(data.examples[0].tokens)
        show = jaxner.attention if inside.is_attentive(tagger) else jaxner.relations
        rows = show(tagger, words).astype("f8").round(3).reshape(-1, len(words))
        return zip(itertools.cycle(words), rows.tolist())  # one head after another
    if name == "chunk-recall":
        return inside.chunk_recalls(tagger, data).items()
    drafts = refinement.drafts(tagger, data)
    if name == "tokens":
        tokens = [" ".join(example.tokens) for example in data.examples]
        sides = drafts.draft, drafts.refined, drafts.entropy, drafts.final
        return zip(tokens, *sides, strict=True)
    changes = {x: drafts.changes(getattr(drafts, x)) for x in ("refined", "final")}
    return [*changes.items(), ("detection", drafts.detection)]


def main(argv: list[str]) -> None:
    """Prints a figure of a run, then the published values."""
    known = tomllib.loads((HERE / "figures.toml").read_text("utf-8"))
    names = [name for name, about in known.items() if "mode" not in about]  # not speed
    parser = argparse.ArgumentParser("python -m reproduce figures", description=__doc__)
    parser.add_argument("figure", choices=names)
    parser.add_argument("--workdir", required=True, help="folder of the run")
    parser.add_argument("--split", default="dev", choices=("train", "dev", "test"))
    parser.add_argument("--number", type=int, help="one sentence of the split, from 1")
    options = parser.parse_args(argv)
    about = known[options.figure]
    rows = measured(options.figure, options.workdir, options.split, options.number)
    print(*rows, f"Published: {about['paper']}, {about['source']}", sep="\n")
    absent = f"Not in the text: {about['absent']}"
    print(*about.get("values", {}).items(), absent, *about.get("says", ()), sep="\n")
