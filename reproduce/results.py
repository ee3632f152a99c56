"""The lines of finished runs, `results/<table>.jsonl`: the only source of figures."""

import base64
import datetime
import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import filelock
import numpy as np

from jaxner import outputs
from jaxner.data import schemes
from jaxner.errors import InputError
from jaxner.evaluation import predictions, scoring
from jaxner.evaluation.stats import Tally
from jaxner.runs import Workdir
from jaxner.training import environment
from reproduce.plan import Cell, Job

Line = dict[str, Any]
DONE, FAILED = "done", "failed"
CONLLEVAL, STRICT = "conlleval", "strict"
COUNTS = "test_sentences"  # the part of a line with the counts of each sentence


class Results:
    """Reads and writes the lines of runs, which cell and seed identify."""

    def __init__(self, folder: Path):
        self.folder = folder  # created with the first line

    def lines(self) -> list[Line]:
        """Returns all lines of runs, which have a cell; InputError: one is no JSON."""
        files = sorted(self.folder.glob("*.jsonl"))
        return [line for file in files for line in _read(file) if "cell" in line]

    def by_job(self) -> dict[tuple[str, int], Line]:
        """Returns the lines by cell and seed."""
        return {(line["cell"], line["seed"]): line for line in self.lines()}

    def costs(self) -> dict[str, dict[str, float]]:
        """Returns what `benchmarks.costs` stored, by config."""
        file = self.folder / "costs.json"
        return json.loads(file.read_text("utf-8")) if file.is_file() else {}

    def add(self, table: str, line: Line) -> None:
        """Adds the line of a run unless it is done; replaces that of a failed run."""
        self.folder.mkdir(parents=True, exist_ok=True)
        file = self.folder / f"{table}.jsonl"
        with filelock.FileLock(self.folder / ".lock"):
            lines = {(x["cell"], x["seed"]): x for x in _read(file)}
            old = lines.pop((line["cell"], line["seed"]), None)
            if old is None or old["status"] != DONE:
                content = [*lines.values(), line]
                outputs.write_text(file, "".join(json.dumps(x) + "\n" for x in content))


def _read(file: Path) -> list[Line]:
    lines = file.read_text("utf-8").splitlines() if file.is_file() else []
    try:
        return json.loads("[" + ",\n".join(lines) + "]")
    except json.JSONDecodeError as error:
        message = f"expected a JSON object in each line ({error.msg})"
        raise InputError(message, file, error.lineno) from None


def begun(job: Job, overrides: Mapping[str, Any], status: str) -> Line:
    """Returns the fields that all lines have."""
    line = {"cell": job.cell.id, "seed": job.seed, "status": status}
    line |= {"config": job.cell.config, "overrides": dict(overrides)}
    date = datetime.datetime.now(datetime.UTC).date().isoformat()
    return line | {"commit": environment.commit(), "date": date}


def line_of(job: Job, overrides: Mapping[str, Any], folder: Path) -> Line:
    """Returns the line of a finished run.

    Raises:
        InputError: The run began with other weights than its cell says.
    """
    run, cell = Workdir(folder), job.cell
    result, facts = run.read_json("result.json"), run.read_json("environment.json")
    config = run.read_json("config.json")
    source = config.get("init_from")
    if "/".join(Path(source or "").parts[-3:-1]) != cell.begins_with:
        expected = f"a run of {cell.begins_with}" if cell.begins_with else None
        raise InputError(f"expected init_from to be {expected}, got {source}", folder)
    data = {name: facts["data"][name]["sha256"] for name in ("train", "dev")}
    line = begun(job, overrides, DONE) | {"commit": " ".join(facts["commits"])}
    tallies = {split: sentence_counts(cell, run, split) for split in ("dev", "test")}
    content = {
        rule: base64.b64encode(zlib.compress(x.astype("<u2").tobytes(), 9)).decode()
        for rule, x in tallies["test"].items()
        if rule != STRICT or rule == cell.rule
    }
    return line | {
        **{split: _figures(of_rules) for split, of_rules in tallies.items()},
        "ill_formed": {x: result[x].get("ill_formed", 0) for x in ("dev", "test")},
        "best_epoch": result["best_epoch"],
        "epochs": run.metrics()[-1]["epoch"],
        "num_epochs": config["num_epochs"],
        "patience": config["patience"],
        "seconds": result["seconds"],
        "data": {**data, "test": result["test"]["sha256"]},
        "vectors": facts["data"].get("vectors", {}).get("sha256"),
        "versions": facts["versions"],
        "device_kind": sorted(set(facts["devices"])),
        "precision": facts.get("precision", "highest"),
        COUNTS: content,
    }


def tally(line: Line, rule: str) -> Tally:
    """Returns the counts of each test sentence from a line that has `COUNTS`."""
    content = zlib.decompress(base64.b64decode(line[COUNTS][rule]))
    counts = np.frombuffer(content, "<u2").reshape(-1, 3).astype(int)
    return Tally({scoring.FIGURES: counts})


def sentence_counts(cell: Cell, run: Workdir, split: str) -> dict[str, np.ndarray]:
    """Returns correct, predicted and gold spans (or tags) of each sentence.

    By the paper's rule, conlleval's and the strict one: the last two differ by what
    ill-formed labels cost.
    """
    gold, predicted = predictions.read(run.predictions(split))
    if cell.figure == "accuracy":
        return {cell.rule: scoring.count(gold, predicted, scheme=schemes.TAGS).sum(1)}
    scheme = run.vocabulary().scheme
    strict = [STRICT] if scoring.reads(STRICT, scheme) else []
    rules = dict.fromkeys((cell.rule, CONLLEVAL, *strict))
    return {rule: scoring.count(gold, predicted, rule, scheme).sum(1) for rule in rules}


def _figures(tallies: Mapping[str, np.ndarray]) -> dict[str, float]:
    """Returns F1 in percent, which for tags is their accuracy, by rule."""
    sums = {rule: scoring.total(x) for rule, x in tallies.items()}
    return {rule: round(100 * (counts.f1 or 0), 4) for rule, counts in sums.items()}
