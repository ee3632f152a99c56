"""Scores and reports of trained taggers, and labels that they consider improbable.

`evaluation.report` describes labels. This module adds a tagger's probabilities, its
run, and heat maps of encoders that have them, by `inside`.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable
from typing import NamedTuple

import jax
import numpy as np

from jaxner import __version__, tagging
from jaxner.analysis import inside
from jaxner.answers import entities, probabilities
from jaxner.checkpoints import Checkpoints
from jaxner.data import schemes
from jaxner.data.corpora import Split
from jaxner.data.schemes import TAGS
from jaxner.errors import InputError
from jaxner.evaluation import calibration, guarantees, page, report
from jaxner.evaluation.report import Prediction, Value
from jaxner.runs import CALIBRATION, Workdir
from jaxner.tagger import Ensemble, Tagger
from jaxner.training import corpus

_EXAMPLE = (5, 14)  # minimum and maximum tokens of the sentence in heat maps
_MAPS = 6  # maximum number of attention heads in heat maps


def label(
    tagger: Tagger,
    split: Split,
    train: Split | None = None,
    *,
    rule: str = "conlleval",
    decoding: str = "viterbi",
    n: int = 10,
    seed: int = 0,
    constrained: bool = False,
) -> Prediction:
    """Returns the labels of a tagger on a split, without probabilities; see `tag`.

    "n_best" chooses of the n best labellings of a sentence the one that is nearest to
    the gold one; `seed` is that of the draws for "sampled".
    """
    options: Value = {"constrained": constrained}
    if decoding == "n_best":
        options["rule"] = rule
        gold, labels = probabilities.oracle_split(tagger, split, n, **options)
    else:
        key = jax.random.key(seed) if decoding == "sampled" else None
        options |= {"key": key, "decoding": decoding}
        gold, labels = tagging.label_split(tagger, split, **options)
    tokens, scheme = [x.tokens for x in split.examples], tagger.vocabulary.scheme
    training = train and train.examples
    return Prediction(tokens, gold, labels, scheme, rule, training=training)


# --- The inside of a model ------------------------------------------------------------


def _maps(tagger: Tagger, split: Split) -> list[Value]:
    """Returns heat maps of a sentence with entities; empty if the encoder has none."""
    minimum, maximum = _EXAMPLE
    fits = [e for e in split.examples if minimum <= len(e.tokens) <= maximum]
    fits = fits or [e for e in split.examples if len(e.tokens) <= 2 * maximum]
    if not fits or split.vectors is not None:
        return []
    example = max(fits, key=lambda e: len(schemes.to_spans(e.labels)))
    words = list(example.tokens)
    maps = inside.maps(tagger, words)
    names = {"relations": ("Relations of the GRN", "strength")}
    names["attention"] = ("Attention", "weight")
    caption = "Row i, column j: how much of token i's context is token j's"
    pictures = []
    for name, (title, unit) in names.items():
        if name in maps:
            heads = {f"head {i + 1}": x for i, x in enumerate(maps[name][:_MAPS])}
            heads = {"": maps[name]} if maps[name].ndim == 2 else heads
            picture: Value = {"title": title, "label": unit}
            picture |= {"note": f"{caption} ({unit}, 0 to 1).", "maps": heads}
            pictures.append(picture | {"rows": words, "columns": words})
    return pictures


# --- Reports of runs ------------------------------------------------------------------


class Run(NamedTuple):
    """A run to report (or one of its restarts), and how it is scored."""

    name: str
    folder: str
    tagger: Tagger
    split: Split
    rule: str
    settings: Value  # decoding, constrained and seed, as in `label`


def write(path: str, runs: Iterable[Run], log: Callable[[str], object]) -> Value:
    """Writes the report of some runs as a page and JSON; returns its content."""
    values, predictions, texts, title = [], [], [], ""
    for run in runs:
        texts.append([x.tokens for x in run.split.examples])
        if predictions:
            pair = f"{run.name} and {values[0]['name']}"
            kinds = {run.tagger.vocabulary.scheme, predictions[0].scheme}
            if schemes.TAGS in kinds and kinds != {schemes.TAGS}:
                raise InputError(f"{pair} have tags and spans: report each alone")
            if texts[-1] != texts[0]:
                message = f"{pair} are scored on different sentences: "
                raise InputError(f"{message}give one file for all runs (--split FILE)")
        value, prediction = of_run(run)
        values.append({"name": run.name, **value})
        predictions.append(prediction)
        title = f"{run.split.name} {run.split.split}".strip()
    names = [value["name"] for value in values]
    content = {
        "title": title if len(values) > 1 else f"{names[0]} on {title}",
        "jaxner": __version__,
        "runs": values,
        "comparisons": report.comparisons(names, predictions),
    }
    paths = page.write(path, content)
    log(f"Report written to {', '.join(map(str, paths))}")
    return content


def of_run(run: Run) -> tuple[Value, Prediction]:
    """Describes one run: values for `page`, and its labels."""
    tagger, split, folder = run.tagger, run.split, Workdir(run.folder)
    config, result = _json(folder, "config.json"), _json(folder, "result.json")
    train = corpus.training_text(config["data"]) if config else None
    decoding, seed = run.settings["decoding"], run.settings["seed"]
    key = jax.random.key(seed) if decoding == "sampled" else None
    constrained = run.settings["constrained"]
    options: Value = {"decoding": decoding, "constrained": constrained, "key": key}
    facts: Value = {"rule": run.rule, "training": train and train.examples}
    prediction = entities.predict(tagger, split, **facts, **options)
    value = report.describe(prediction)
    value["decoding"] = {"name": decoding, "constrained": constrained}
    if decoding == "sampled":
        value["decoding"]["seed"] = seed
    degrees = np.atleast_1d(tagger.temperature).tolist()
    if prediction.certainty is not None and {*degrees} != {1.0}:
        plain = dataclasses.replace(tagger, temperature=1.0)
        baseline = report.calibrated(entities.predict(plain, split, **options))
        value["temperature"] = degrees
        value["calibration_before"] = {x: y.to_dict() for x, y in baseline.items()}
    if isinstance(tagger, Ensemble):
        value["inside_note"] = (
            f"This is an ensemble of {len(tagger)} taggers: a report of one of them "
            "(--restart SEED) shows what is inside."
        )
    elif tagger.vocabulary.scheme != TAGS:
        value["pictures"] = _maps(tagger, split)
    if learning := folder.metrics():
        value |= {"learning": learning, "best_epoch": result.get("best_epoch")}
    value["file"], value["sha256"] = str(split.path), split.sha256
    value["folder"] = str(folder.path)
    # A folder of restarts has none, nor has one that `jaxner import` wrote.
    value["has_card"] = (folder.path / "README.md").is_file()
    fit = _json(folder, CALIBRATION)
    record, best = fit.get("guarantees"), folder.part("best")
    if record and fit["step"] == Checkpoints(best, read_only=True).step:
        answer = entities.predict(tagger, split, n_best=record["n_best"])
        for row in record["types"]:
            row["measured"], row["sentences"] = guarantees.risk_on(answer, row)
        value["guarantees"] = record["types"]
    return calibration.plain(value), prediction


def _json(run: Workdir, name: str) -> Value:
    """Reads a file of a run; empty for a tagger from `jaxner.save`, which lacks it."""
    return run.read_json(name) if (run.path / name).is_file() else {}


# --- Improbable labels ----------------------------------------------------------------


class Suspect(NamedTuple):
    """Tokens in a row of a file's sentence whose labels differ from the tagger's.

    `probability` is the lowest marginal probability of these labels in the file, `line`
    that of the first, from 1; they are in the tagger's scheme.
    """

    probability: float
    line: int
    tokens: tuple[str, ...]
    start: int
    end: int
    labels: tuple[str, ...]
    predicted: tuple[str, ...]
    file: str = ""
    unit: str = "line"


def suspects(tagger: Tagger, split: Split) -> list[Suspect]:
    """Returns likely annotation errors, the most probable first.

    A tagger has also learnt the errors of its training sentences, so use others.
    """
    vocabulary = tagger.vocabulary
    label_ids = {label: i for i, label in enumerate(vocabulary.label_names)}
    marginals = probabilities.marginals(tagger, split)
    improbable = []
    for example, chances in zip(
        split.to_scheme(vocabulary.scheme), marginals, strict=True
    ):
        labels, best = example.labels, vocabulary.decode(chances.argmax(-1))
        # Labels unknown to the tagger have no probability, so they are not suspects.
        odd = [a != b and a in label_ids for a, b in zip(labels, best, strict=True)]
        for is_odd, places in itertools.groupby(range(len(odd)), odd.__getitem__):
            if is_odd:
                positions = [*places]
                start, end = positions[0], positions[-1] + 1
                chance = min(float(chances[i, label_ids[labels[i]]]) for i in positions)
                pair = tuple(labels[start:end]), tuple(best[start:end])
                line, file = example.lines[start], str(example.path or split.path)
                mention = example.tokens, start, end
                improbable.append(
                    Suspect(chance, line, *mention, *pair, file, example.unit)
                )
    return sorted(improbable)
