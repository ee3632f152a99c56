"""Converts the folder of a finished run to its line in the results."""

from __future__ import annotations

import base64
import datetime
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from jaxner.data import schemes
from jaxner.evaluation import predictions, rules
from jaxner.reproduce.plan import Job
from jaxner.reproduce.published import Cell
from jaxner.reproduce.results import DONE, FAILED, Line
from jaxner.workdir import Workdir

CONLLEVAL, STRICT = "conlleval", "strict"
COUNTS = "test_sentences"  # the part of a line with the counts of each sentence
_VERSIONS = ("jaxner", "jax", "jaxlib", "flax", "optax")


def done(
    job: Job, overrides: Mapping[str, Any], folder: Path, device: str, commit: str
) -> Line:
    """Returns the line of a finished run.

    Args:
        job: The run.
        overrides: Overrides of its config.
        folder: Its folder.
        device: "cpu", "gpu", or "" for JAX's choice.
        commit: Commit of the code now, for a run that did not record its own.

    Raises:
        FileNotFoundError: The run is not finished: a file is missing.
        ValueError: The stored predictions do not match the run's scores.
    """
    run = Workdir(folder)
    result, about = run.read_json("result.json"), run.read_json("environment.json")
    config, epochs = run.read_json("config.json"), run.metrics()
    data = {name: about["data"][name]["sha256"] for name in ("train", "dev")}
    data["test"] = result["test"]["sha256"]
    vectors = about["data"].get("vectors", {}).get("sha256")
    return {
        **_begin(job, overrides, DONE),
        "figure": job.cell.figure,
        "rule": job.cell.rule,
        "dev": _figures(job.cell, run, result, "dev"),
        "test": _figures(job.cell, run, result, "test"),
        "ill_formed": {x: result[x].get("ill_formed", 0) for x in ("dev", "test")},
        "best_epoch": result["best_epoch"],
        "epochs": epochs[-1]["epoch"],
        "num_epochs": config["num_epochs"],
        "patience": config["patience"],
        "seconds": result["seconds"],
        "data": data,
        "vectors": vectors,
        "versions": {name: about["versions"][name] for name in _VERSIONS},
        **_end(device, " ".join(about.get("commits", [commit]))),
        "device_kind": sorted(set(about["devices"])),
        COUNTS: _counts_by_rule(job.cell, folder),
    }


def failed(
    job: Job, overrides: Mapping[str, Any], error: str, device: str, commit: str
) -> Line:
    """Returns the line of a failed run; see `done` for the arguments."""
    end = _end(device, commit)
    return {**_begin(job, overrides, FAILED), "error": error, **end}


def counts(line: Line, rule: str) -> np.ndarray:
    """Returns the counts of each test sentence from a run's line.

    Args:
        line: Line of a finished run, with `COUNTS`.
        rule: Rule of the cell's paper, or conlleval's.

    Returns:
        As `sentence_counts`.
    """
    packed = base64.b64decode(line[COUNTS][rule])
    return np.frombuffer(zlib.decompress(packed), "<u2").reshape(-1, 3).astype(int)


def _counts_by_rule(cell: Cell, folder: Path) -> dict[str, str]:
    """Returns the counts of test, packed: later comparisons need no folder of a run."""
    packed, also = {}, [CONLLEVAL] if cell.figure == "f1" else []
    for rule in dict.fromkeys((cell.rule, *also)):
        each = np.asarray(sentence_counts(cell, rule, folder, "test"), "<u2")
        packed[rule] = base64.b64encode(zlib.compress(each.tobytes(), 9)).decode()
    return packed


def sentence_counts(cell: Cell, rule: str, folder: Path, split: str) -> np.ndarray:
    """Returns the counts of each sentence in a run's predictions.

    Args:
        cell: The cell.
        rule: How to read spans.
        folder: Folder of the run.
        split: "dev" or "test".

    Returns:
        Correct, predicted and gold spans of each sentence (tokens if labels are tags),
        `[sentences, 3]`.

    Raises:
        FileNotFoundError: The run or its file of predictions is missing.
    """
    run = Workdir(folder)
    scheme = run.vocabulary().scheme
    gold, predicted = predictions.read(run.predictions(split))
    if cell.figure == "accuracy" or scheme == schemes.TAGS:
        return rules.tokens_per_sentence(gold, predicted)
    return rules.per_sentence(gold, predicted, rule, scheme)


def _figures(
    cell: Cell, run: Workdir, result: Mapping[str, Any], split: str
) -> dict[str, float]:
    """Returns scores by the paper's rule, conlleval's and the strict.

    The last two differ by what ill-formed labels cost.
    """
    if cell.figure == "accuracy":
        return {cell.rule: round(result[split]["accuracy"], 4)}
    figures, scheme = {}, run.vocabulary().scheme
    wanted = (cell.rule, CONLLEVAL, *[STRICT] * rules.reads(STRICT, scheme))
    for rule in dict.fromkeys(wanted):
        found = rules.total(sentence_counts(cell, rule, run.path, split))
        figures[rule] = round(100 * (found.f1 or 0.0), 4)
    # A run by the strict rule has conlleval's figure beside its own.
    scored = result[split].get("by_conlleval", result[split]["f1"])
    if abs(figures[CONLLEVAL] - scored) > 1e-3:
        raise ValueError(
            f"{run.predictions(split)} has F1 {figures[CONLLEVAL]} by conlleval's "
            f"rule, result.json has {scored}: the files are from different runs. "
            "Remove both and run the command again."
        )
    return figures


def _begin(job: Job, overrides: Mapping[str, Any], status: str) -> Line:
    begin = {"begins_with": job.cell.begins_with} if job.cell.begins_with else {}
    return {
        "cell": job.cell.id,
        "seed": job.seed,
        "status": status,
        "config": job.cell.config,
        "overrides": dict(overrides),
        **begin,
    }


def _end(device: str, commit: str) -> Line:
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    return {"commit": commit, "device": device or "default", "date": today}
