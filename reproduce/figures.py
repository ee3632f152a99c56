"""The papers' other figures: `python -m reproduce figures NAME --workdir RUN`.

sentence-length, mention-length   F1 by length (UANet, Figure 3; Li et al.)
changes                           what a refinement corrects and breaks (UANet, Table 1)
tokens                            draft, refinement, uncertainty (nats; UANet, Table 7)
sweep                             F1 over Γ and M, in percent (UANet, Figure 4)
chunk-recall                      parts of an attention encoder, each alone (Li et al.)
heat-map                          relations (GRN, Figure 4) or attention of a sentence

Prints the measured values of the run, then the published ones. `jaxner report`
draws lengths and heat maps; speed is in `python -m benchmarks.orders`.
"""

import argparse
import dataclasses
import itertools
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import jaxner
from jaxner import tagging
from jaxner.analysis import inside
from jaxner.data import schemes
from jaxner.data.corpora import Split
from jaxner.errors import InputError
from jaxner.evaluation import errors, predictions
from jaxner.runs import Workdir
from jaxner.training import corpus
from reproduce import refinement
from reproduce.plan import FOLDER


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
        attention = inside.maps(tagger, words).get("attention")
        rows = jaxner.relations(tagger, words) if attention is None else attention
        rows = rows.astype("f8").round(3).reshape(-1, len(words))
        return zip(itertools.cycle(words), rows.tolist())  # one head after another
    if name == "chunk-recall":
        return chunk_recalls(workdir, data)
    if name == "sweep":
        return refinement.sweep(tagger, data)
    drafts = refinement.drafts(tagger, data)
    if name == "tokens":
        tokens = [" ".join(example.tokens) for example in data.examples]
        sides = drafts.draft, drafts.refined, drafts.entropy, drafts.final
        return zip(tokens, *sides, strict=True)
    changes = {x: drafts.changes(getattr(drafts, x)) for x in ("refined", "final")}
    return [*changes.items(), ("detection", drafts.detection)]


def chunk_recalls(workdir: str, split: Split) -> Iterator[tuple[str, Any]]:
    """Yields the recall of each chunk label, with each part of the attention alone.

    All other parts are zero vectors; no part is trained again. The whole tagger is
    first. The recall is the share of tokens with a gold B (I, E, S, O) whose predicted
    label has the same prefix, from 0 to 1.
    """
    encoder: Any = jaxner.load(workdir).model.encoder
    if not (heads := getattr(getattr(encoder, "then", None), "num_heads", 0)):
        raise InputError(
            "has no attention; use a run of configs/cross_bilstm.py", workdir
        )
    contexts = (f"context{i + 1}" for i in range(heads))
    for part in ("all", "hidden", "context", *contexts):
        changes = {} if part == "all" else {"encoder.then.keep": part}
        sides = tagging.label_split(jaxner.load(workdir, changes), split)
        gold, predicted = ([schemes.parse(x)[0] for y in z for x in y] for z in sides)
        whole, pairs = Counter(gold), zip(gold, predicted, strict=True)
        right = Counter(x for x, y in pairs if x == y)
        yield part, {x: right[x] / whole[x] for x in "OSUBIEL" if whole[x]}


def main(argv: list[str]) -> None:
    """Prints a figure of a run, then the published values."""
    tables = tomllib.loads((FOLDER / "figures.toml").read_text("utf-8"))
    names = [name for name, table in tables.items() if "mode" not in table]  # not speed
    parser = argparse.ArgumentParser("python -m reproduce figures", description=__doc__)
    parser.add_argument("figure", choices=names)
    parser.add_argument("--workdir", required=True, help="folder of the run")
    parser.add_argument("--split", default="dev", choices=("train", "dev", "test"))
    parser.add_argument("--number", type=int, help="one sentence of the split, from 1")
    options = parser.parse_args(argv)
    table = tables[options.figure]
    rows = measured(options.figure, options.workdir, options.split, options.number)
    print(*rows, f"Published: {table['paper']}, {table['source']}", sep="\n")
    absent = f"Not in the text: {table['absent']}"
    print(*table.get("values", {}).items(), absent, *table.get("says", ()), sep="\n")
