"""Gathers the content of `jaxner evaluate --report`, for one run or several."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from typing import Any, NamedTuple

from jaxner import tagging
from jaxner.analysis import reporting
from jaxner.data.corpora import Split
from jaxner.evaluation import comparing, describing, pages, tally
from jaxner.evaluation.describing import Prediction, Value
from jaxner.evaluation.scoring import jaxner_version
from jaxner.training import corpus
from jaxner.workdir import Workdir, names_of


class Scored(NamedTuple):
    """A run to report, and how it is scored.

    Attributes:
        name: Of the run, or of one of its restarts.
        folder: Of the tagger.
        tagger: What `jaxner.load` returned.
        split: Sentences with gold labels.
        rule: How spans are read.
        decoding: As in `jaxner.tag`.
        constrained: As in `jaxner.tag`.
        seed: Of the draws for the decoding "sampled".
    """

    name: str
    folder: str
    tagger: tagging.Tagger
    split: Split
    rule: str
    decoding: str = "viterbi"
    constrained: bool = False
    seed: int = 0


COMPARED = ("precision", "recall", "f1", "macro f1", "weighted f1", "accuracy")


def write(
    path: str,
    folders: Sequence[str],
    load: Callable[[str, str], Scored],
    log: Callable[[str], object],
) -> Value:
    """Writes the report of some runs as a page, and the same content as JSON and CSV.

    Args:
        path: The file of the page.
        folders: The folders of the runs.
        load: Maps a name and a folder to the run, and how to score it.
        log: Gets lines for the user.

    Returns:
        The content of the report, as JSON values.

    Raises:
        ValueError: The runs are scored on different sentences, or a run is named twice.
    """
    pages.check(path)
    runs, predictions, names = [], [], []
    for name, folder in zip(names_of(folders), folders, strict=True):
        scored = load(name, folder)
        value, prediction = of_run(scored)
        runs.append({"name": scored.name, **value})
        predictions.append(prediction)
        names.append(scored.name)
    _check_same(names, predictions)
    title = f"{scored.split.name} {scored.split.split}".strip()
    report = {
        "title": title if len(runs) > 1 else f"{names[0]} on {title}",
        "jaxner": jaxner_version(),
        "runs": runs,
        "comparisons": _compared(names, predictions),
    }
    written = pages.write(path, describing.plain(report))
    log(f"Report written to {', '.join(map(str, written))}")
    return report


def of_run(scored: Scored) -> tuple[Value, Prediction]:
    """Describes one run; returns its description and its labels."""
    run, split = Workdir(scored.folder), scored.split
    config = _json(run, "config.json")
    train = _train(config)
    value, prediction = reporting.describe(
        scored.tagger,
        split,
        train,
        has_vectors=bool(config.get("data", {}).get("vectors")),
        rule=scored.rule,
        decoding=scored.decoding,
        constrained=scored.constrained,
        seed=scored.seed,
    )
    result = _json(run, "result.json")
    learning = run.metrics()
    if train is not None and learning:
        tokens = sum(len(example.tokens) for example in train.examples)
        seconds = median(epoch["seconds"] for epoch in learning)
        speed = f"{tokens / max(seconds, 1e-9):,.0f}"
        value["speed"].insert(0, ["training, tokens a second", speed])
    value |= {"learning": learning, "best_epoch": result.get("best_epoch")}
    value["about"] = _about(run, split, config, result)
    return value, prediction


def _json(run: Workdir, name: str) -> Value:
    """Reads a file of a run; empty for a tagger from `jaxner.save`, which lacks it."""
    return run.read_json(name) if (run.path / name).is_file() else {}


def _train(config: Value) -> Split | None:
    try:
        return corpus.load_split(config["data"], "train")
    except (FileNotFoundError, KeyError):
        return None


def _about(run: Workdir, split: Split, config: Value, result: Value) -> Value:
    about = _json(run, "environment.json")
    facts: list[list[Any]] = [["scored file", str(split.path)]]
    for name, value in (
        ("best epoch", result.get("best_epoch")),
        ("training, seconds", result.get("seconds")),
        ("peak memory, MiB", result.get("peak_memory_mb")),
        ("seed", config.get("seed")),
        ("devices", ", ".join(sorted(set(about.get("devices", ()))))),
        ("trained with", ", ".join(_versions(about))),
        ("notes", "; ".join(split.notes)),
    ):
        if value not in (None, ""):
            facts.append([name, value])
    files = {name: its["sha256"] for name, its in about.get("data", {}).items()}
    files["scored"] = split.sha256
    return {
        "folder": str(run.path),
        "facts": facts,
        "data": [list(item) for item in files.items()],
        "config": config,
    }


def _versions(about: Value) -> list[str]:
    versions = about.get("versions", {})
    return [
        f"{name} {versions[name]}" for name in ("jaxner", "jax") if name in versions
    ]


def _check_same(names: Sequence[str], predictions: Sequence[Prediction]) -> None:
    for name, its in zip(names[1:], predictions[1:], strict=True):
        if its.tokens != predictions[0].tokens:
            raise ValueError(
                f"{name} and {names[0]} are scored on different sentences: give a file "
                "for all runs (--data)"
            )


def _compared(names: Sequence[str], predictions: Sequence[Prediction]) -> list[Value]:
    """Compares each run with the first one, if their labels are of one kind."""
    kinds = {(its.scheme == "tags", its.rule) for its in predictions}
    if len(predictions) < 2 or len(kinds) > 1:
        return []
    types = sorted({x.split("-", 1)[-1] for p in predictions for x in _labels(p)})
    tallies = [_tally(its, types) for its in predictions]
    found = []
    for name, its in zip(names[1:], tallies[1:], strict=True):
        differences = comparing.compare([tallies[0]], [its])
        figures = {x: differences[x]._asdict() for x in COMPARED if x in differences}
        found.append({"first": names[0], "second": name, "figures": figures})
    return found


def _labels(its: Prediction) -> set[str]:
    rows = [*its.gold, *its.predicted]
    return {label for row in rows for label in row} - {"O"}


def _tally(its: Prediction, types: Sequence[str]) -> tally.Tally:
    if its.scheme == "tags":
        return tally.of_tags(its.gold, its.predicted)
    return tally.of_spans(its.gold, its.predicted, its.rule, its.scheme, types)
