"""One's own data: systems with their defaults on parts of corpora, spaCy beside them.

Each run is a process of its own, with no compiled programs, and ends by its own early
stop; one that is stopped begins anew.
"""

import os
import resource
import shutil
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jaxner import configuration, outputs
from jaxner.data import corpora, formats
from jaxner.runs import Workdir
from reproduce import queue, results, tables
from reproduce.plan import Cell, Job, Plan
from reproduce.results import DONE, FAILED, Line

PAGE, COMMAND = queue.ROOT / "docs/choose.md", "python -m reproduce --own --write"
MARKS = f"<!-- own data: {COMMAND} -->\n", "<!-- /own data -->\n"
VECTORS, TAIL, SPACY = "glove50+wiki50.cased.100d.txt", " + vectors", "spaCy"
SYSTEMS = (
    *("own:files", SPACY, "grn:files", "ncrfpp:files,crf", "cnn_bilstm_crf:files"),
    *("idcnn:files,crf", "bilstm:files,crf", "lan:files", "parallel_rnn:files"),
    *("cross_bilstm:files", "encoder:files"),
)
# Two need vectors, and an encoder reads none.
LIMITED = {"parallel_rnn:files": TAIL, "cross_bilstm:files": TAIL, "encoder:files": ""}
OPTIONS: dict[str, dict[str, Any]] = {
    "encoder:files": {  # a folder here, from the wheel that the page names
        "data.pretrained": "all-MiniLM-L6-v2",
        "optimizer.parts.bert.learning_rate": 1e-4,
    },
    "cross_bilstm:files": {"evaluation.rule": "conlleval"},  # as all; its own is strict
}
SETS = {  # corpus, column of the labels and number of training sentences
    f"{part}, {number or 'all'}": (corpus, column, number)
    for part, corpus, column, numbers in (
        ("CoNLL-2003 entities", "conll2003", 3, (200, 500, 1_500, 5_000, None)),
        ("CoNLL-2003 chunks", "conll2003", 2, (1_000, 5_000)),
        ("CoNLL-2003 tags", "conll2003", 1, (1_000, 5_000)),
        ("WNUT-17", "wnut17", 1, (None,)),
        ("OntoNotes", "ontonotes5", 3, (1_500, 5_000)),
        ("UD EWT tags", "ud_ewt", 3, (1_000, None)),
    )
    for number in numbers
}
_COLUMNS = ("dev", "test", "processor_seconds")


def write_set(name: str, folder: Path) -> list[int]:
    """Writes train, dev and test of a set; returns their numbers of sentences.

    Train is the same random draw for all systems, and part of the larger draws: the
    first sentences of a newspaper are of a few days and topics. Dev has at most as many
    sentences as train; test is whole.
    """
    corpus, column, number = SETS[name]
    scheme, sizes = "tags" if (has_tags := "tags" in name) else None, []
    for split in corpora.SPLITS:
        data = corpora.load(corpus, split, scheme=scheme, label_column=column)
        examples = data.to_scheme(scheme or "BIO")
        draw = np.random.default_rng(0).permutation(len(examples))
        size = None if split == "test" else number
        sample = [examples[i] for i in sorted(draw[:size])]
        formats.write(folder / f"{split}.jsonl", sample, tags=has_tags)
        sizes.append(len(sample))
    return sizes


class Runs(queue.Queue):
    """The runs on one's own data; spaCy is a package of the Python `python`."""

    python = sys.executable

    def state(self, job: Job) -> tuple[str, str]:
        """Returns a job's state, and why it failed."""
        name, _, system = job.cell.id.partition("/")
        if line := self.results.by_job().get((job.cell.id, job.seed)):
            return line["status"], line.get("error", "")
        config = configuration.load(f"own:{SETS[name][0]}")
        config.data.vectors = VECTORS if system.endswith(TAIL) else None
        lack = queue.what_lacks(config)
        return (queue.SKIPPED, lack) if lack else (queue.MISSING, "")

    def _run_locked(self, job: Job, folder: Path, seconds: float) -> int:
        run, (name, _, system) = folder / "run", job.cell.id.partition("/")
        shutil.rmtree(run, ignore_errors=True)
        (run / "data").mkdir(parents=True)
        sizes, has_tags = write_set(name, run / "data"), "tags" in name
        vectors = VECTORS if system.endswith(TAIL) else None
        options = {"seed": job.seed, "data.dir": run / "data"}
        options |= {"data.scheme": "tags"} if has_tags else {}
        options |= {"data.vectors": corpora.find_vectors(vectors)} if vectors else {}
        overrides = OPTIONS.get(job.cell.config, {})
        options |= overrides
        command = [*queue.TRAIN, job.cell.config]
        if job.cell.config == SPACY:
            command = [self.python, "-m", "benchmarks.peers"]
        command += [f"--config.{x}={value}" for x, value in options.items()]
        command.append(f"--output={run}")
        variables = {**os.environ, "XDG_CACHE_HOME": str(run / "cache")}
        start = resource.getrusage(resource.RUSAGE_CHILDREN)
        status, error = queue.execute(command, folder, seconds, variables)
        end = resource.getrusage(resource.RUSAGE_CHILDREN)
        if status in queue.STOPS:
            return status
        line = results.begun(job, overrides, FAILED if status else DONE)
        duration = end.ru_utime + end.ru_stime - start.ru_utime - start.ru_stime
        line |= {"set": name, "sentences": sizes, "vectors": vectors}
        line |= {_COLUMNS[2]: round(duration, 1), "cores": len(os.sched_getaffinity(0))}
        line |= {"error": error} if status else _figures(Workdir(run), has_tags)
        self.results.add("own", line)
        print(f"{job}: {error if status else [line[x] for x in _COLUMNS]}")
        shutil.rmtree(run)
        return status


def _figures(run: Workdir, has_tags: bool) -> dict[str, Any]:
    """Returns F1 or accuracy in percent and, unless spaCy's, epochs and versions."""
    result, figure = run.read_json("result.json"), "accuracy" if has_tags else "f1"
    figures = {x: round(result[x][figure], 2) for x in _COLUMNS[:2]}
    if "best_epoch" not in result:
        return figures
    figures |= {"best_epoch": result["best_epoch"], "epochs": len(run.metrics())}
    return figures | run.read_json("environment.json")["versions"]


def table(lines: Sequence[Line]) -> str:
    """Returns a table of what systems have on sets, and of the regret of ours.

    Regret is what a system lacks of the best of ours, on the sets on which several ran.
    """
    runs: dict[str, dict[str, list[Line]]] = {}
    for line in lines:
        if line["cell"].partition("/")[0] in SETS and line["status"] == DONE:
            name = line["set"] + (TAIL if line["vectors"] else "")
            runs.setdefault(name, {}).setdefault(line["config"], []).append(line)
    systems = [x for x in SYSTEMS if any(x in groups for groups in runs.values())]
    rows, choices = [], []
    for name in (x + tail for x in SETS for tail in ("", TAIL) if x + tail in runs):
        means, cells = {}, {}
        for system, group in runs[name].items():
            means[system] = [statistics.fmean(x[y] for x in group) for y in _COLUMNS]
            count = f"{len(group)}\xa0×\xa0" * (len(group) > 1)
            # Figures stay in a line, and seconds in another: a cell is narrow.
            show = "{1:.1f}\xa0/\xa0{2:.1f} ({0}{3:,.0f}\xa0s)".format
            cells[system] = show(count, *means[system])
        title = name.replace(" ", "\xa0").replace(",\xa0", ", ").replace("-", "\u2011")
        rows.append([title, *(cells.get(x, "") for x in systems)])  # no line ends in it
        means.pop(SPACY, None)
        choices += [means] * (len(means) > 1)  # else there is nothing to choose from
    rows.append(["regret: mean (largest)"])
    for system in systems:
        gaps = [
            [max(x[i] for x in means.values()) - means[system][i] for i in (0, 1)]
            for means in choices
            if system in means
        ]
        splits = zip(*gaps, strict=True)
        pairs = (f"{statistics.fmean(x):.1f}\xa0({max(x):.1f})" for x in splits)
        rows[-1].append(" / ".join(pairs))
    names = [x.replace(":files", "").replace(",", " ") for x in systems]
    return tables.markdown(["set: dev / test", *names], rows)


def main(options: Any, store: results.Results) -> None:
    """Runs what is missing, or writes the table, as the command's options say."""
    if options.write:
        text = PAGE.read_text("utf-8")
        text = tables.inserted(text, table(store.lines()), MARKS)
        return outputs.write_text(PAGE, text)
    cells = [
        Cell(f"{name}/{system}{tail}", "own", "", system, system)
        for name in options.set or SETS
        for tail in ("", TAIL)
        for system in options.system or SYSTEMS
        if system not in LIMITED or LIMITED[system] == tail
    ]
    jobs = [Job(cell, seed) for seed in range(options.seeds or 2) for cell in cells]
    runs = Runs(Plan([], [], []), store, options.runs)
    runs.python = options.python
    runs.work(jobs, options.hours, options.retry)
