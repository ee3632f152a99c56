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
import tomllib
from typing import Any

import jaxner
from jaxner.analysis import inside, refinement
from jaxner.evaluation import errors, predictions
from jaxner.runs import Workdir
from jaxner.training import corpus
from reproduce.plan import HERE


def measured(name: str, workdir: str, split: str, number: int | None) -> Any:
    """Returns a figure of a run, of all sentences of a split or of one of them."""
    run = Workdir(workdir)
    if name in ("sentence-length", "mention-length"):
        labels = predictions.read(run.predictions(split))
        scheme = run.vocabulary().scheme
        pairs = errors.pairs(*labels, scheme=scheme)
        if name == "mention-length":
            return errors.by_length(pairs)
        return errors.by_sentence_length(pairs, labels[0])
    tagger: Any = jaxner.load(workdir)
    data = corpus.load_split(run.read_json("config.json")["data"], split)
    if number is not None:
        data = dataclasses.replace(data, examples=data.examples[number - 1 : number])
    if name == "heat-map":
        words = list(data.examples[0].tokens)
        show = jaxner.attention if inside.is_attentive(tagger) else jaxner.relations
        return dict(zip(words, show(tagger, words).round(3).tolist(), strict=False))
    if name == "chunk-recall":
        return inside.chunk_recalls(tagger, data)
    drafts = refinement.drafts(tagger, data)
    if name == "tokens":
        tokens = [" ".join(example.tokens) for example in data.examples]
        sides = drafts.draft, drafts.refined, drafts.entropy, drafts.final
        return dict(zip(tokens, zip(*sides, strict=True), strict=True))
    changes = drafts.changes(drafts.refined), drafts.changes(drafts.final)
    return {"changes": changes[0], "final": changes[1], "detection": drafts.detection}


def main(argv: list[str]) -> None:
    """Prints a figure of a run, then the published values."""
    parser = argparse.ArgumentParser("python -m reproduce figures", description=__doc__)
    names = ("sentence-length", "mention-length", "changes", "tokens")
    names += ("chunk-recall", "heat-map")
    parser.add_argument("figure", choices=names)
    parser.add_argument("--workdir", required=True, help="folder of the run")
    parser.add_argument("--split", default="dev", choices=("train", "dev", "test"))
    parser.add_argument("--number", type=int, help="one sentence of the split, from 1")
    options = parser.parse_args(argv)
    about = tomllib.loads((HERE / "figures.toml").read_text("utf-8"))[options.figure]
    rows = measured(options.figure, options.workdir, options.split, options.number)
    for row in rows.items() if isinstance(rows, dict) else rows:
        print(row)
    print(f"Published: {about['paper']}, {about['source']}")
    for row in about.get("values", {}).items():
        print(row)
    for text in (f"Not in the text: {about['absent']}", *about.get("says", ())):
        print(text)
