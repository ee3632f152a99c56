"""The papers' other tables and figures: `jaxner reproduce NAME …`.

sentence-length, mention-length   F1 by length, from the stored predictions of runs
changes                           tokens that a refinement corrects and breaks
tokens                            draft, refined label and uncertainty token by token
chunk-recall                      parts of an attention encoder, each alone
heat-map                          relations or attention of a sentence, as a plot
speed                             alias of `python -m benchmarks.papers`

Published values are in `figures.toml`.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jaxner import tagging
from jaxner.analysis import drafts, heatmaps, lengths, parts
from jaxner.data import schemes
from jaxner.data.readers.examples import Example
from jaxner.data.splits import Split
from jaxner.evaluation import plots, predictions
from jaxner.reproduce import figure_tables, figures, printing, programs
from jaxner.training import prepare
from jaxner.workdir import Workdir, names_of


def sentence_length(options: argparse.Namespace) -> None:
    """Runs `reproduce sentence-length`."""
    _by_length(options, mentions=False)


def mention_length(options: argparse.Namespace) -> None:
    """Runs `reproduce mention-length`."""
    _by_length(options, mentions=True)


def _by_length(options: argparse.Namespace, mentions: bool) -> None:
    printing.check(options)
    score: Callable[..., list[lengths.Part]]
    score = lengths.by_mention if mentions else lengths.by_sentence
    found: dict[str, list[lengths.Part]] = {}
    first: Any = None
    has_tags = False
    for name, folder in zip(names_of(options.workdir), options.workdir, strict=True):
        run = Workdir(folder)
        scheme = run.vocabulary().scheme
        gold, predicted = predictions.read(run.predictions(options.split))
        words = [len(x) for x in gold], _spans(gold, scheme)
        if first is not None and words != first:
            raise ValueError(
                f"{folder} and {options.workdir[0]} were scored on different "
                "sentences: their gold labels differ"
            )
        first, has_tags = words, scheme == schemes.TAGS
        found[name] = score(
            gold, predicted, options.bounds, rule=options.rule, scheme=scheme
        )
    figure = "accuracy" if has_tags else "f1"
    rows = figure_tables.by_length(found, mentions)
    name = "mention-length" if mentions else "sentence-length"
    title = f"{options.split}: {figure} by {name.replace('-', ' ')}"
    rule = "" if has_tags else f", rule {options.rule}"
    printing.show(f"{title} (%{rule})", rows, figures.load(name), options)
    if options.plot:
        its = next(iter(found.values()))
        plots.by_length(
            options.plot,
            [part.name for part in its],
            {run: [part.percent for part in each] for run, each in found.items()},
            [part.items for part in its],
            "mentions" if mentions else "sentences",
            figure,
        )
        printing.say(f"Plot written to {options.plot}")


def changes(options: argparse.Namespace) -> None:
    """Runs `reproduce changes`."""
    printing.check(options)
    params, split = tagging.load(options.workdir), _split(options)
    printing.say(split.summary())
    found = drafts.traces(params, split, samples=options.samples, layer=options.layer)
    gold = [e.labels or () for e in split.to_scheme(params.vocabulary.scheme)]
    its = drafts.table1(gold, found)
    refinement: Any = params.model.refinement
    gamma = None if refinement is None else float(refinement.threshold)
    figure = figures.load("changes")
    rows = figure_tables.changes(its, figure, gamma)
    drafted = its.detection
    total = drafted.right + drafted.wrong
    printing.show(
        f"{split.name} {options.split}: changed tokens", rows, figure, options
    )
    printing.say(
        f"{drafted.right:,} of {total:,} draft labels are right; wrong ones are "
        f"{drafted.ratio:.1f} times as uncertain"
    )


def tokens(options: argparse.Namespace) -> None:
    """Runs `reproduce tokens`."""
    printing.check(options)
    params, split = tagging.load(options.workdir), _chosen(options)
    figure = figures.load("tokens")
    found = drafts.traces(params, split, samples=options.samples, layer=options.layer)
    has_gold = not options.text
    examples = split.to_scheme(params.vocabulary.scheme) if has_gold else split.examples
    tables = [
        figure_tables.tokens(e.tokens, trace, figure, e.labels if has_gold else None)
        for e, trace in zip(examples, found, strict=True)
    ]
    refinement: Any = params.model.refinement
    gamma = "" if refinement is None else f", Γ = {float(refinement.threshold):g}"
    for number, rows in enumerate(tables, 1):
        printing.console.print(
            printing.table(f"sentence {number}{gamma}; u in nats", rows)
        )
    printing.notes(figure)
    printing.write(options, {"sentences": tables}, figure)


def chunk_recall(options: argparse.Namespace) -> None:
    """Runs `reproduce chunk-recall`."""
    printing.check(options)
    params, split = tagging.load(options.workdir), _split(options)
    printing.say(split.summary())
    config = Workdir(options.workdir).read_json("config.json")
    constrained = config["evaluation"]["constrained"]
    found = parts.recalls(params, split, constrained=constrained)
    if options.baseline:
        other = tagging.load(options.baseline)
        if other.vocabulary.scheme != params.vocabulary.scheme:
            raise ValueError(
                f"The baseline has scheme {other.vocabulary.scheme}, the run "
                f"{params.vocabulary.scheme}; both need the same"
            )
        found[figure_tables.BASELINE] = parts.of_tagger(
            other, split, constrained=constrained
        )
    figure = figures.load("chunk-recall")
    rows = figure_tables.chunk_recall(found, figure)
    title = f"{split.name} {options.split}: recall of chunk labels (%), and its change"
    printing.show(f"{title} with one part alone", rows, figure, options)


def heat_map(options: argparse.Namespace) -> None:
    """Runs `reproduce heat-map`."""
    printing.check(options)
    params, split = tagging.load(options.workdir), _chosen(options)
    if len(split.examples) != 1:
        raise ValueError("A heat map shows one sentence: give one --text or --number")
    words = list(split.examples[0].tokens)
    vectors = None if split.vectors is None else split.vectors[0]
    if parts.is_attentive(params):
        weights = heatmaps.attention(params, words, vectors=vectors)
        maps = {f"head {i + 1}": weights[i] for i in range(len(weights))}
        label = "attention weight"
    else:
        maps = {"": heatmaps.relations(params, words, vectors=vectors)}
        label = "norm of the gates, 0 to 1"
    labels = tagging.tag(params, words, vectors=vectors)
    rows = list(range(len(words)))
    if options.rows == "entities":
        if params.vocabulary.scheme == schemes.TAGS:
            raise ValueError("This run's labels are tags, not entities: use --rows all")
        rows = [i for i, name in enumerate(labels) if name != "O"]
        if not rows:
            raise ValueError("No entities found in this sentence: use --rows all")
    named = [words[i] for i in rows]
    chosen = {title: matrix[rows] for title, matrix in maps.items()}
    plots.heat_maps(options.plot, chosen, named, words, label)
    figure = figures.load("heat-map")
    printing.notes(figure)
    plain = {title or "relations": m.tolist() for title, m in chosen.items()}
    printing.write(options, {"rows": named, "columns": words, "maps": plain}, figure)
    printing.say(f"Plot written to {options.plot}")


def speed(options: argparse.Namespace) -> None:
    """Runs `reproduce speed`, an alias of `benchmarks.papers`."""
    printing.check(options)
    programs.benchmark(options.arguments)


# --- Shared ---------------------------------------------------------------------


def _split(options: argparse.Namespace) -> Split:
    config = Workdir(options.workdir).read_json("config.json")
    return prepare.load_split(config["data"], options.split)


def _chosen(options: argparse.Namespace) -> Split:
    """Returns the chosen sentences: given texts, or some of a split."""
    if bool(options.text) == bool(options.number):
        raise ValueError("Expected either --text or --number (with --split)")
    if options.text:
        examples = tuple(
            Example(tuple(text.split()), None, 0, 0) for text in options.text
        )
        if not all(example.tokens for example in examples):
            raise ValueError("--text is empty; expected tokens separated by spaces")
        return Split("text", "", Path(), examples, "BIO", 0, "")
    split = _split(options)
    count = len(split.examples)
    for number in options.number:
        if not 1 <= number <= count:
            raise ValueError(
                f"No sentence {number} in {split.path}; it has 1 to {count:,}"
            )
    places = [number - 1 for number in options.number]
    examples = tuple(split.examples[i] for i in places)
    given: Any = split.vectors
    vectors: Any = None if given is None else [given[i] for i in places]
    return dataclasses.replace(split, examples=examples, vectors=vectors)


def _spans(gold: Any, scheme: str) -> Any:
    """Returns a form of gold labels that does not depend on the scheme."""
    if scheme == schemes.TAGS:
        return list(map(list, gold))
    return list(map(schemes.to_spans, gold))
