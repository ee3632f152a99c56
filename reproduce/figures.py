"""The papers' other tables and figures, of runs: `python -m reproduce figures NAME …`.

sentence-length, mention-length   F1 by length, from the stored predictions of runs
changes                           tokens that a refinement corrects and breaks
tokens                            draft, refined label and uncertainty token by token
chunk-recall                      parts of an attention encoder, each alone
heat-map                          relations or attention of a sentence

The measured rows come first, then the published values of `figures.toml`. Speed is in
`python -m benchmarks.papers`.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import tomllib
from pathlib import Path
from typing import Any

from jaxner import tagging
from jaxner.analysis import inside, refinement
from jaxner.data.corpora import Split
from jaxner.errors import InputError
from jaxner.evaluation import drawings, errors, predictions, scoring
from jaxner.evaluation.scoring import Counts
from jaxner.runs import Workdir
from jaxner.training import corpus
from reproduce.plan import HERE

Row = dict[str, Any]


def by_length(options: argparse.Namespace) -> list[Row]:
    """Returns scores by the length of sentences or mentions, a column for each run."""
    is_mentions = options.figure == "mention-length"
    rows: dict[str, Row] = {}
    for folder in options.workdir:
        run = Workdir(folder)
        labels = predictions.read(run.predictions(options.split))
        scheme = run.vocabulary().scheme
        if is_mentions:
            pairs = errors.pairs(*labels, scheme=scheme)
            groups = errors.by_length(pairs, errors.MENTIONS)
            longer = sum((row.counts for row in groups[1:]), Counts())
            groups.append(errors.Row("2+", longer, longer.gold))
        else:
            counts = scoring.count(*labels, scheme=scheme)
            groups = errors.by_sentence_length(counts, labels[0])
        for name, counts, items in groups:
            row = rows.setdefault(name, {"tokens": name, "items": items})
            if row["items"] != items:
                raise InputError("scored on other sentences than the first run", folder)
            row[folder] = float("nan") if counts.f1 is None else 100 * counts.f1
    return list(rows.values())


def changes(options: argparse.Namespace) -> list[Row]:
    """Returns the tokens that a refinement corrects and breaks (UANet, Table 1)."""
    params, split = tagging.load(options.workdir[0]), split_of(options)
    examples = split.to_scheme(params.vocabulary.scheme)
    gold = [example.labels or () for example in examples]
    table = refinement.table1(gold, refinement.traces(params, split))
    rows = []
    for where, changed in (("all", table.changes), ("above Γ", table.final)):
        for name, drafted in (("broken", "right"), ("mended", "wrong")):
            row = {"refined": where, "change": name, "tokens": getattr(changed, name)}
            row["mean u, nats"] = getattr(changed, f"{name}_uncertainty")
            row["such drafts"] = getattr(table.detection, drafted)
            row["their mean u"] = getattr(table.detection, f"mean_{drafted}")
            rows.append(row)
    return rows


def tokens(options: argparse.Namespace) -> list[Row]:
    """Returns draft and refinement of each token (UANet, Table 7)."""
    params, split = tagging.load(options.workdir[0]), split_of(options)
    rows = []
    traces = refinement.traces(params, split)
    for example, trace in zip(split.examples, traces, strict=True):
        columns = {"token": example.tokens, "gold": example.labels or example.tokens}
        columns |= {"draft": trace.draft, "refined": trace.refined}
        columns |= {"u, nats": trace.uncertainty, "final": trace.final}
        values = zip(*columns.values(), strict=True)
        rows += [dict(zip(columns, row, strict=True)) for row in values]
    return rows


def chunk_recall(options: argparse.Namespace) -> list[Row]:
    """Returns recalls of chunk labels, in percent, with all parts and each alone."""
    recalls = inside.chunk_recalls(tagging.load(options.workdir[0]), split_of(options))
    return [
        {"label": label, "tokens": whole.gold}
        | {part: 100 * (each[label].share or 0.0) for part, each in recalls.items()}
        for label, whole in recalls[inside.WHOLE].items()
    ]


def heat_map(options: argparse.Namespace) -> list[Row]:
    """Returns, and draws, relations (GRN, Figure 4) or attention of a sentence."""
    params, split = tagging.load(options.workdir[0]), split_of(options)
    words = list(split.examples[0].tokens)
    vectors = None if split.vectors is None else split.vectors[0]
    if inside.is_attentive(params):
        weights = inside.attention(params, words, vectors=vectors)
        maps = {f"head {i}": weight for i, weight in enumerate(weights, 1)}
    else:
        maps = {"relations": inside.relations(params, words, vectors=vectors)}
    if options.plot:
        drawings.heat_maps(maps, words, words, "weight, 0 to 1", options.plot)
    return [
        {"map": title, "word": word, "weights": [round(float(x), 3) for x in line]}
        for title, matrix in maps.items()
        for word, line in zip(words, matrix, strict=True)
    ]


FIGURES = {
    "sentence-length": by_length,
    "mention-length": by_length,
    "changes": changes,
    "tokens": tokens,
    "chunk-recall": chunk_recall,
    "heat-map": heat_map,
}


def main(argv: list[str]) -> None:
    """Prints a figure's rows, then the published values."""
    parser = argparse.ArgumentParser("python -m reproduce figures")
    parser.add_argument("figure", choices=FIGURES)
    parser.add_argument("--workdir", required=True, nargs="+", help="folders of runs")
    parser.add_argument("--split", default="dev", choices=("train", "dev", "test"))
    parser.add_argument("--number", type=int, help="one sentence of the split, from 1")
    parser.add_argument("--plot", help="of a heat map: .png, .pdf or .svg")
    parser.add_argument("--json", type=Path, help="file to write the rows to")
    options = parser.parse_args(argv)
    if options.figure == "heat-map":
        options.number = options.number or 1
    about = tomllib.loads((HERE / "figures.toml").read_text("utf-8"))[options.figure]
    rows = FIGURES[options.figure](options)
    for row in rows:
        texts = (f"{x:.3f}" if isinstance(x, float) else str(x) for x in row.values())
        print("  ".join(f"{key} {text}" for key, text in zip(row, texts, strict=True)))
    print(f"Published: {about['paper']}, {about['source']}")
    for key, values in about.get("values", {}).items():
        print(f"  {key}: {', '.join(f'{k} {v}' for k, v in values.items())}")
    for text in (f"Not in the text: {about['absent']}", *about.get("says", ())):
        print(text)
    if options.json:
        content = json.dumps({"rows": rows, "published": about}, ensure_ascii=False)
        options.json.write_text(content + "\n", "utf-8")


def split_of(options: argparse.Namespace) -> Split:
    """Returns a split of a run's data, or the one sentence of `--number`."""
    config = Workdir(options.workdir[0]).read_json("config.json")
    split = corpus.load_split(config["data"], options.split)
    if options.number is None:
        return split
    if not 1 <= options.number <= len(split.examples):
        raise InputError(f"expected sentences 1 to {len(split.examples):,}", split.path)
    i = options.number - 1
    vectors: Any = None if split.vectors is None else [split.vectors[i]]
    return dataclasses.replace(split, examples=(split.examples[i],), vectors=vectors)
