"""The lines of finished runs, `results/<table>.jsonl`: the only source of figures."""

from __future__ import annotations

import base64
import datetime
import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import filelock
import numpy as np

from jaxner import disk
from jaxner.data import schemes
from jaxner.errors import InputError
from jaxner.evaluation import predictions, scoring
from jaxner.runs import Workdir
from jaxner.training import environment
from reproduce.plan import Cell, Job

Line = dict[str, Any]
DONE, FAILED = "done", "failed"
CONLLEVAL, STRICT = "conlleval", "strict"
COUNTS = "test_sentences"  # the part of a line with the counts of each sentence
VERSIONS = ("jaxner", "jax", "jaxlib", "flax", "optax")


class Results:
    """Reads and writes the lines of runs, which cell and seed identify."""

    def __init__(self, folder: Path):
        self.folder = folder  # created with the first line

    def lines(self) -> list[Line]:
        """Returns all lines of runs; raises InputError if one is no JSON."""
        files = sorted(self.folder.glob("*.jsonl"))
        return [x for file in files for x in _read(file) if "cell" in x]

    def by_job(self) -> dict[tuple[str, int], Line]:
        """Returns the lines by cell and seed."""
        return {(line["cell"], line["seed"]): line for line in self.lines()}

    def add(self, table: str, line: Line) -> None:
        """Adds the line of a run unless it is done; replaces that of a failed run."""
        self.folder.mkdir(parents=True, exist_ok=True)
        file = self.folder / f"{table}.jsonl"
        with filelock.FileLock(self.folder / ".lock"):
            kept = []
            for old in _read(file):
                if (old["cell"], old["seed"]) != (line["cell"], line["seed"]):
                    kept.append(old)
                elif old["status"] == DONE:
                    return
            lines = [*kept, line]
            disk.write_text(file, "".join(json.dumps(x) + "\n" for x in lines))


def _read(file: Path) -> list[Line]:
    lines = []
    if file.is_file():
        for number, text in enumerate(file.read_text("utf-8").splitlines(), 1):
            try:
                lines.append(json.loads(text))
            except json.JSONDecodeError as error:
                message = f"expected a JSON object, got {text[:60]!r} ({error})"
                raise InputError(message, file, number) from None
    return lines


def begun(job: Job, overrides: Mapping[str, Any], device: str, status: str) -> Line:
    """Returns the fields that all lines have."""
    line = {"cell": job.cell.id, "seed": job.seed, "status": status}
    line |= {"config": job.cell.config, "overrides": dict(overrides)}
    if job.cell.begins_with:
        line["begins_with"] = job.cell.begins_with
    date = datetime.datetime.now(datetime.UTC).date().isoformat()
    return line | {"commit": environment.commit(), "device": device, "date": date}


def line_of(job: Job, overrides: Mapping[str, Any], device: str, folder: Path) -> Line:
    """Returns the line of a finished run."""
    run, cell = Workdir(folder), job.cell
    result, about = run.read_json("result.json"), run.read_json("environment.json")
    config = run.read_json("config.json")
    data = {name: about["data"][name]["sha256"] for name in ("train", "dev")}
    line = begun(job, overrides, device, DONE)
    line["commit"] = " ".join(about.get("commits", [line["commit"]]))
    packed = {}
    for rule in {cell.rule} if cell.figure == "accuracy" else {cell.rule, CONLLEVAL}:
        counts = np.asarray(sentence_counts(cell, rule, folder, "test"), "<u2")
        packed[rule] = base64.b64encode(zlib.compress(counts.tobytes(), 9)).decode()
    return line | {
        "figure": cell.figure,
        "rule": cell.rule,
        "dev": _figures(cell, run, result, "dev"),
        "test": _figures(cell, run, result, "test"),
        "ill_formed": {x: result[x].get("ill_formed", 0) for x in ("dev", "test")},
        "best_epoch": result["best_epoch"],
        "epochs": run.metrics()[-1]["epoch"],
        "num_epochs": config["num_epochs"],
        "patience": config["patience"],
        "seconds": result["seconds"],
        "data": {**data, "test": result["test"]["sha256"]},
        "vectors": about["data"].get("vectors", {}).get("sha256"),
        "versions": {name: about["versions"][name] for name in VERSIONS},
        "device_kind": sorted(set(about["devices"])),
        COUNTS: packed,
    }


def counts(line: Line, rule: str) -> np.ndarray:
    """Returns the counts of each test sentence from a line that has `COUNTS`."""
    packed = base64.b64decode(line[COUNTS][rule])
    return np.frombuffer(zlib.decompress(packed), "<u2").reshape(-1, 3).astype(int)


def sentence_counts(cell: Cell, rule: str, folder: Path, split: str) -> np.ndarray:
    """Returns correct, predicted and gold spans (or tags) of each sentence."""
    run = Workdir(folder)
    scheme = run.vocabulary().scheme
    gold, predicted = predictions.read(run.predictions(split))
    if cell.figure == "accuracy" or scheme == schemes.TAGS:
        scheme = schemes.TAGS
    return scoring.count(gold, predicted, rule, scheme).sum(1)


def _figures(
    cell: Cell, run: Workdir, result: Mapping[str, Any], split: str
) -> dict[str, float]:
    """Returns scores by the paper's rule, conlleval's and the strict.

    The last two differ by what ill-formed labels cost.
    """
    if cell.figure == "accuracy":
        return {cell.rule: round(result[split]["accuracy"], 4)}
    figures = {}
    strict = [STRICT] if scoring.reads(STRICT, run.vocabulary().scheme) else []
    for rule in dict.fromkeys((cell.rule, CONLLEVAL, *strict)):
        correct, predicted, gold = sentence_counts(cell, rule, run.path, split).sum(0)
        f1 = 2 * correct / (predicted + gold) if predicted + gold else 0.0
        figures[rule] = round(100 * float(f1), 4)
    return figures
