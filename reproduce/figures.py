"""The papers' other tables and figures, of runs: `python -m reproduce figures NAME …`.

sentence-length, mention-length   F1 by length, from the stored predictions of runs
changes                           tokens that a refinement corrects and breaks
tokens                            draft, refined label and uncertainty token by token
chunk-recall                      parts of an attention encoder, each alone
heat-map                          relations or attention of a sentence, as a plot

Published values are in `figures.toml` and follow the measured ones. Speed is in
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
from jaxner.analysis import drafts, heatmaps, lengths, parts
from jaxner.data import schemes
from jaxner.data.corpora import Split
from jaxner.errors import InputError
from jaxner.evaluation import plots, predictions
from jaxner.terminal import LineConsole
from jaxner.training import corpus
from jaxner.workdir import Workdir, names_of
from reproduce.plan import HERE

Row = dict[str, Any]
console = LineConsole()


def lengths_of(options: argparse.Namespace) -> list[Row]:
    """Returns scores by the length of sentences or mentions, a column for each run."""
    is_mentions = options.figure == "mention-length"
    score: Any = lengths.by_mention if is_mentions else lengths.by_sentence
    known = lengths.MENTIONS if is_mentions else lengths.SENTENCES
    runs: dict[str, Any] = {}
    first = None
    for name, folder in zip(names_of(options.workdir), options.workdir, strict=True):
        run = Workdir(folder)
        scheme = run.vocabulary().scheme
        gold, predicted = predictions.read(run.predictions(options.split or "dev"))
        # The spans do not depend on the scheme.
        spans = gold if scheme == schemes.TAGS else list(map(schemes.to_spans, gold))
        if first not in (None, (spans, list(map(len, gold)))):
            raise InputError(
                f"scored on other sentences than {options.workdir[0]}", folder
            )
        first = spans, list(map(len, gold))
        bounds = options.bounds or known
        runs[name] = score(gold, predicted, bounds, rule=options.rule, scheme=scheme)
        if is_mentions and any(part.first == 2 for part in runs[name]):
            runs[name] = [*runs[name], lengths.multi_token(runs[name])]
    base, *others = runs
    items = "mentions" if is_mentions else "sentences"
    rows = []
    for number, part in enumerate(runs[base]):
        scores = {name: found[number].percent for name, found in runs.items()}
        gaps = {f"{name} − {base}": scores[name] - scores[base] for name in others}
        rows.append({"tokens": part.name, items: part.items, **scores, **gaps})
    if options.plot:
        columns = {name: [row[name] for row in rows] for name in runs}
        ranges, counts = ([row[x] for row in rows] for x in ("tokens", items))
        plots.by_length(options.plot, ranges, columns, counts, items, "score")
    return rows


def changes(options: argparse.Namespace) -> list[Row]:
    """Returns the tokens that a refinement corrects and breaks (UANet, Table 1)."""
    params, split = tagging.load(options.workdir[0]), split_of(options, "test")
    kept = {"samples": options.samples, "layer": options.layer}
    traces = drafts.traces(params, split, **kept)
    examples = split.to_scheme(params.vocabulary.scheme)
    table = drafts.table1([e.labels or () for e in examples], traces)
    rows = []
    for where, changed in (("all", table.changes), ("above Γ", table.final)):
        for name, mean in (("broken", "mean_right"), ("mended", "mean_wrong")):
            row = {"refined": where, "change": name, "tokens": getattr(changed, name)}
            row["mean u, nats"] = getattr(changed, f"{name}_uncertainty")
            drafted = "right" if name == "broken" else "wrong"
            row["such drafts"] = getattr(table.detection, drafted)
            rows.append({**row, "their mean u": getattr(table.detection, mean)})
    return rows


def tokens(options: argparse.Namespace) -> list[Row]:
    """Returns draft and refinement of each token (UANet, Table 7)."""
    params, split = tagging.load(options.workdir[0]), chosen(options)
    kept = {"samples": options.samples, "layer": options.layer}
    rows = []
    for number, (example, trace) in enumerate(
        zip(split.examples, drafts.traces(params, split, **kept), strict=True), 1
    ):
        for i, token in enumerate(example.tokens):
            row = {"sentence": number, "token": token}
            row |= {"gold": example.labels[i]} if example.labels else {}
            row |= {"draft": trace.draft[i], "refined": trace.refined[i]}
            row |= {"u, nats": trace.uncertainty[i], "final": trace.final[i]}
            rows.append(row)
    return rows


def chunk_recall(options: argparse.Namespace) -> list[Row]:
    """Returns recalls of chunk labels, and their change with one part alone."""
    params, split = tagging.load(options.workdir[0]), split_of(options, "dev")
    config = Workdir(options.workdir[0]).read_json("config.json")
    kept = {"constrained": config["evaluation"]["constrained"]}
    recalls = parts.recalls(params, split, **kept)
    if options.baseline:
        other = tagging.load(options.baseline)
        if other.vocabulary.scheme != params.vocabulary.scheme:
            raise InputError(
                f"Another scheme than {options.workdir[0]}", options.baseline
            )
        recalls["baseline"] = parts.of_tagger(other, split, **kept)
    rows = []
    for label, whole in recalls[parts.WHOLE].items():
        percents = {x: 100 * (r[label].share or 0.0) for x, r in recalls.items()}
        row: Row = {"label": label, "tokens": whole.gold}
        for part, percent in percents.items():
            is_whole = part == parts.WHOLE
            row[part] = percent if is_whole else percent - percents[parts.WHOLE]
        rows.append(row)
    return rows


def heat_map(options: argparse.Namespace) -> list[Row]:
    """Draws relations (GRN, Figure 4) or attention weights of one sentence."""
    params, split = tagging.load(options.workdir[0]), chosen(options)
    if len(split.examples) != 1 or not options.plot:
        raise InputError("A heat map needs one sentence and --plot")
    words = list(split.examples[0].tokens)
    vectors = None if split.vectors is None else split.vectors[0]
    if parts.is_attentive(params):
        weights = heatmaps.attention(params, words, vectors=vectors)
        maps = {f"head {i}": weight for i, weight in enumerate(weights, 1)}
    else:
        maps = {"relations": heatmaps.relations(params, words, vectors=vectors)}
    rows = list(range(len(words)))
    if options.rows == "entities":
        labels = tagging.tag(params, words, vectors=vectors)
        rows = [i for i, label in enumerate(labels) if label != "O"] or rows
    maps = {title: matrix[rows] for title, matrix in maps.items()}
    named = [words[i] for i in rows]
    plots.heat_maps(options.plot, maps, named, words, "weight, 0 to 1")
    return [
        {"map": title, "word": word, **dict(zip(words, map(float, line), strict=False))}
        for title, matrix in maps.items()
        for word, line in zip(named, matrix, strict=True)
    ]


FIGURES = {
    "sentence-length": lengths_of,
    "mention-length": lengths_of,
    "changes": changes,
    "tokens": tokens,
    "chunk-recall": chunk_recall,
    "heat-map": heat_map,
}


def declare(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `show`."""
    count = int
    add = parser.add_argument
    add("figure", choices=FIGURES)
    add("--workdir", required=True, nargs="+", help="folders of runs")
    add("--split", choices=("train", "dev", "test"))
    add("--bounds", type=count, nargs="+", help="largest length of each part")
    add("--rule", default="conlleval", help="how ill-formed labels are read")
    add("--samples", type=count, help="passes with dropout; default: the run's")
    add("--layer", type=count, help="layer of a LAN whose draft is read, from 1")
    add("--text", nargs="+", help="sentences, their tokens between blanks")
    add("--number", type=count, nargs="+", help="sentences of the split, from 1")
    add("--baseline", help="folder of a run without attention")
    add("--rows", default="all", choices=("all", "entities"), help="of a heat map")
    add("--plot", help="file to write the plot to: .png, .pdf or .svg")
    add("--json", type=Path, help="file to write the rows to")


def show(options: argparse.Namespace) -> None:
    """Prints a figure's rows, then the published values."""
    if options.plot:
        plots.check(options.plot)
    about = tomllib.loads((HERE / "figures.toml").read_text("utf-8"))[options.figure]
    rows = FIGURES[options.figure](options)
    for row in rows if options.figure != "heat-map" else ():
        say("  ".join(f"{key} {cell(value)}" for key, value in row.items()))
    say(f"Published: {about['paper']}, {about['source']}")
    for key, values in about.get("values", {}).items():
        say(f"  {key}: {', '.join(f'{k} {v}' for k, v in values.items())}")
    say(f"Not in the text: {about['absent']}")
    for text in about.get("says", ()):
        say(f"The text says: {text}")
    if options.json:
        content = {"rows": rows, "published": about}
        options.json.write_text(
            json.dumps(content, indent=1, ensure_ascii=False) + "\n"
        )


def cell(value: Any) -> str:
    """Returns a value as text."""
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def say(text: str) -> None:
    """Prints a line."""
    console.print(text, markup=False)


def split_of(options: argparse.Namespace, default: str) -> Split:
    """Returns the split of a run's data."""
    config = Workdir(options.workdir[0]).read_json("config.json")
    return corpus.load_split(config["data"], options.split or default)


def chosen(options: argparse.Namespace) -> Split:
    """Returns the chosen sentences: given texts, or some of a split."""
    split = split_of(options, "dev")
    if options.text:
        words = [tuple(text.split()) for text in options.text]
        example = dataclasses.replace(split.examples[0], labels=None)
        examples = tuple(dataclasses.replace(example, tokens=x) for x in words)
        return dataclasses.replace(split, examples=examples, vectors=None)
    numbers = options.number or [1]
    if not all(1 <= number <= len(split.examples) for number in numbers):
        raise InputError(f"expected sentences 1 to {len(split.examples):,}", split.path)
    examples = tuple(split.examples[number - 1] for number in numbers)
    vectors: Any = split.vectors and [split.vectors[number - 1] for number in numbers]
    return dataclasses.replace(split, examples=examples, vectors=vectors)
