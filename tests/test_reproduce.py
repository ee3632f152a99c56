"""The papers' tables: published figures, the queue of runs, tables and verdicts."""

import fnmatch
import json
import shutil
import signal

import numpy as np
import pytest

from jaxner import configuration
from jaxner.data import corpora
from jaxner.evaluation import predictions
from jaxner.runs import Workdir
from reproduce import __main__ as command
from reproduce import figures, own, results, tables
from reproduce.plan import Cell, Job, Plan, Published
from reproduce.queue import ROOT, Queue, train
from reproduce.results import Results
from tests import fence, tiny
from tests.test_configs import shapes_of

PAPERS, PLAN = Published.load(), Plan.load()
CELLS = PAPERS.cells
RESULTS = Results(ROOT / "results")

# --- Published figures and the plan ---------------------------------------------------


def test_all_configs_have_their_cells_and_claims_are_orders_of_published_figures():
    files = {p.stem for p in (ROOT / "configs").glob("[!_]*.py")}
    configs = {cell.config for cell in CELLS.values()}
    assert files - {"own"} == {config.partition(":")[0] for config in configs}
    assert len(configs) + 1 == len(CELLS) == 113  # GRN* is also run without ELMo
    pairs = {(claim["better"], claim["worse"]) for claim in PAPERS.claims}
    assert len(pairs) == len(PAPERS.claims)
    for claim in PAPERS.claims:
        high, low = PAPERS.cell(claim["better"]), PAPERS.cell(claim["worse"])
        assert claim["table"] in PAPERS.tables
        assert high.figure == low.figure
        if high.published and low.published:
            assert high.published > low.published, claim


@pytest.mark.parametrize("cell", CELLS.values(), ids=lambda cell: cell.id)
def test_a_cell_is_complete_and_its_overrides_are_options(cell):
    config = configuration.load(cell.config)
    if ",size=" not in cell.config:  # other sizes are built in the same way
        assert shapes_of(config)
    assert config.data.name == cell.id.rpartition("/")[2] in corpora.CORPORA
    assert (cell.figure == "accuracy") == (config.data.scheme == "tags")
    is_published = cell.verified and cell.source and cell.published
    assert cell.note or is_published or cell.table == "minilm"  # no paper's
    assert bool(cell.begins_with) == (",document" in cell.config)
    if cell.begins_with:
        source = configuration.load(PAPERS.cell(cell.begins_with).config)
        assert source.data.unit == "sentence"
        assert source.model.encoder.name == config.model.encoder.name
        assert source.model.head.name == config.model.head.name
    names = {"glove50+wiki50.cased.100d.txt"}
    overrides = PLAN.overrides(cell, config.data.vectors, names.__contains__)
    config.update_from_flattened_dict(overrides)
    assert config.num_epochs <= 400
    if config.data.vectors:
        assert config.data.vectors in names
        assert config.model.representation.words.dim == 100
        assert not config.data.lowercase


def test_the_plan_has_every_cell_by_priority():
    jobs = PLAN.jobs(CELLS)
    assert len(set(jobs)) == len(jobs)
    assert {job.cell.id for job in jobs} == set(CELLS)
    names = [name for group in PLAN.groups for name in group["cells"]]
    assert len(set(names)) == len(names)
    assert set(names) <= set(CELLS)
    for pattern in (p for setting in PLAN.settings for p in setting["cells"]):
        assert fnmatch.filter(CELLS, pattern), pattern
    # The first seed of all eight comes before the second of one.
    assert [job.seed for job in jobs[:24]] == [0] * 8 + [1] * 8 + [2] * 8
    order = [job.cell.id for job in jobs]
    for cell in CELLS.values():
        if cell.begins_with:
            assert order.index(cell.begins_with) < order.index(cell.id)
    assert len(PLAN.jobs(CELLS, seeds=5)) == 5 * len(CELLS)


# --- The queue ------------------------------------------------------------------------

SAMPLE = Cell("grn/sample", "grn", "Chen et al. 2019", "GRN", "grn:sample")
RIVAL = Cell("ncrfpp/sample", "uanet", "Gui", "X", "ncrfpp:sample", rule="ncrfpp")
JOBS = [Job(SAMPLE, 0), Job(RIVAL, 0), Job(SAMPLE, 1)]


def finish(folder, misses=1, source=None):
    """Writes the files of a finished run that misses some entities of test."""
    run = Workdir(fence.unpack("grn", folder))
    run.write_json("config.json", run.read_json("config.json") | {"init_from": source})
    for name, count in (("dev", 0), ("test", misses)):
        split = corpora.load("sample", name)
        gold = [list(e.labels) for e in split.to_scheme("BIOES")]
        predicted = [list(labels) for labels in gold]
        singles = [labels for labels in predicted if labels.count("S-PER") == 1]
        for labels in singles[:count]:
            labels[labels.index("S-PER")] = "O"
        predictions.write(run.predictions(name), split, gold, predicted)


class Fake:
    """Pretends to train; `endings` are statuses of the runs, 0 after them."""

    def __init__(self, *endings):
        self.endings, self.calls = list(endings), []

    def __call__(self, job, flags, folder, seconds):
        self.calls.append((job.cell.id, job.seed))
        status = self.endings.pop(0) if self.endings else 0
        if status == 0:
            begins = (x.partition("=")[2] for x in flags if "init_from" in x)
            finish(folder, source=next(begins, None))
        return status, f"ended with {status}"


def queue_of(folder, trainer, **options):
    lines = []
    parts = Plan([], [], []), Results(folder / "results"), folder / "runs"
    return Queue(*parts, log=lines.append, train=trainer, **options), lines


def test_a_finished_run_has_a_line(tmp_path):
    queue, _ = queue_of(tmp_path, Fake())
    queue.work(JOBS)
    lines = queue.results.by_job()
    assert set(lines) == {(job.cell.id, job.seed) for job in JOBS}
    line = lines["ncrfpp/sample", 0]
    assert line["dev"] == {"ncrfpp": 100.0, "conlleval": 100.0, "strict": 100.0}
    assert 99.9 < line["test"]["ncrfpp"] < 100
    run = Workdir(tmp_path / "runs/ncrfpp/sample/seed-0")
    assert (line["best_epoch"], line["epochs"], line["seconds"]) == (7, 10, 3.0)
    data = run.read_json("environment.json")["data"]
    data["test"] = run.read_json("result.json")["test"]
    assert line["data"] == {x: data[x]["sha256"] for x in corpora.SPLITS}
    counts = results.sentence_counts(RIVAL, run, "test")["ncrfpp"]
    np.testing.assert_array_equal(results.counts(line, "ncrfpp"), counts)
    tags = RIVAL._replace(figure="accuracy", rule="accuracy")
    line = results.line_of(Job(tags, 0), {}, run.path)
    assert line["dev"] == {"accuracy": 100.0}
    assert 99 < line["test"]["accuracy"] < 100
    with pytest.raises(ValueError, match="init_from to be a run of grn/sample, got N"):
        results.line_of(Job(tags._replace(begins_with="grn/sample"), 0), {}, run.path)


def test_a_stopped_run_goes_on_and_a_failed_one_is_kept_until_a_retry(tmp_path):
    first, _ = queue_of(tmp_path, Fake(0, -signal.SIGTERM))
    first.work(JOBS)
    assert set(first.results.by_job()) == {("grn/sample", 0)}
    failing, lines = queue_of(tmp_path, Fake(1))
    failing.work(JOBS)
    assert failing.results.by_job()["ncrfpp/sample", 0]["error"] == "ended with 1"
    assert failing.state(JOBS[1]) == ("failed", "ended with 1")
    assert any("failed: ended with 1" in line for line in lines)
    trainer = Fake()
    queue, _ = queue_of(tmp_path, trainer)
    queue.work(JOBS)
    assert not trainer.calls
    queue.work(JOBS, retry=True)
    assert trainer.calls == [("ncrfpp/sample", 0)]
    assert queue.state(JOBS[1])[0] == "done"


def test_what_is_missing_or_waited_for_is_said(tmp_path, monkeypatch):
    monkeypatch.setenv("JAXNER_DATA", str(tmp_path))
    queue, lines = queue_of(tmp_path, Fake())
    document = SAMPLE._replace(id="grn-doc/sample", begins_with="grn/sample")
    absent, last = PAPERS.cell("grn/conll2003"), Job(document, 0)
    queue.work([Job(absent, 0), Job(absent, 1), last])
    reason = "skipped, no train split of conll2003"
    assert lines[:2] == [f"grn/conll2003 seed {seed}: {reason}" for seed in (0, 1)]
    assert queue.state(last) == ("waiting", "for the weights of grn/sample")
    queue.work([JOBS[0], last])
    assert queue.state(last)[0] == "done"
    with pytest.raises(ValueError, match="init_from to be None, got /"):
        results.line_of(JOBS[0], {}, tmp_path / "runs/grn-doc/sample/seed-0")


def test_two_queues_do_not_train_the_same_run(tmp_path):
    inner = Fake()

    def trainer(job, flags, folder, *rest):
        rival, lines = queue_of(tmp_path, inner)
        rival.work([job])
        assert any("another process" in line for line in lines)
        finish(folder)
        return 0, ""

    queue_of(tmp_path, trainer)[0].work(JOBS[:1])
    assert not inner.calls


@pytest.mark.slow  # trains a small system in another process
def test_a_run_is_trained_stopped_and_resumed(corpus, tmp_path):
    folder = tmp_path / "runs" / "grn" / "sample" / "seed-0"
    folder.mkdir(parents=True)
    small = {**tiny.SMALL, "data.dir": corpus, "num_epochs": 3}
    flags = [f"--config.{option}={value}" for option, value in small.items()]
    status, _ = train(JOBS[0], flags, folder, 2.0)
    assert status in (143, -signal.SIGTERM)
    status, last = train(JOBS[0], flags, folder, float("inf"))
    assert status == 0, last
    assert results.line_of(JOBS[0], {}, folder)["epochs"] == 3
    status, last = train(JOBS[0], ["--config.nope=1"], folder, 100.0)
    assert status in (1, 2)
    assert "nope" in last
    figures.main(["sentence-length", "--workdir", str(folder)])
    figures.main(["heat-map", "--workdir", str(folder)])


def test_the_command_lists_and_refuses(capsys, tmp_path):
    command.main(["--list", "--table", "grn"])
    assert "grn/conll2003 " in capsys.readouterr().out
    with pytest.raises(ValueError, match="grn"):
        command.main(["--table", "grm"])
    with pytest.raises(SystemExit):
        command.main([])
    (tmp_path / "grn.jsonl").write_text('{"cell": "a"}\nnope\n')
    with pytest.raises(ValueError, match=r"grn\.jsonl:2"):
        Results(tmp_path).lines()


# --- Tables and verdicts --------------------------------------------------------------


def line_of(cell, seed=0, status="done", overrides=None, **fields):
    """Returns a line; dev and test are dictionaries by rule."""
    entry = PAPERS.cell(cell)
    line = {"cell": cell, "seed": seed, "status": status, "overrides": overrides or {}}
    line |= {"config": entry.config, "rule": entry.rule, "dev": {entry.rule: 90.0}}
    line |= {"best_epoch": 7, "epochs": 22, "num_epochs": 100, "patience": 15}
    return {**line, **fields}


def test_pages_hold_the_tables_as_they_are_made():
    lines, costs = RESULTS.lines(), RESULTS.costs()
    for page, table in tables.pages(PAPERS, lines, costs).items():
        text = (ROOT / page).read_text("utf-8")
        assert tables.inserted(text, table) == text, tables.COMMAND
    text = own.PAGE.read_text("utf-8")
    assert tables.inserted(text, own.table(lines), own.MARKS) == text, own.COMMAND
    old = json.loads((RESULTS.folder / "bootstrap.json").read_text())
    report, new = (ROOT / "results" / "README.md").read_text("utf-8"), {**old}
    assert tables.report(PAPERS, lines, new, costs) == report, tables.COMMAND
    assert new == old


def test_the_report_has_failures_and_systems_of_equal_vectors():
    lines = [line_of("lan/conll2003", status="failed", error="no memory")]
    assert "no memory" in tables.report(PAPERS, lines, {}, {})
    lines = [line_of(x, vectors="a") for x in ("idcnn/conll2003", "grn/ontonotes5")]
    lines += [line_of("bert/conll2003", vectors=None)]
    overrides = {"data.contextual": "minilm/{split}.npz"}
    lines += [line_of("grn-minilm/conll2003", overrides=overrides, vectors="a")]
    cells = tables.under_equal_vectors(PAPERS, lines)
    assert [cell.id for cell in cells] == ["idcnn/conll2003"]


def test_rows_say_how_their_settings_depart():
    def settings(**run):
        return tables.settings([line_of("grn/conll2003", **run)])

    base, extra = {"num_epochs": 30, "patience": 5}, {"data.vectors": "a", "seed": 3}
    assert settings(overrides=base, epochs=22) == "published"  # stopped early
    assert settings(overrides=base, epochs=30) == "30 of 200 epochs"
    assert settings(overrides=base | extra, epochs=30) == "30 of 200 epochs, `seed=3`"


NAMES = "grn/conll2003", "cnn-bilstm-crf/conll2003"
(CLAIM,) = (x for x in PAPERS.claims if (x["better"], x["worse"]) == NAMES)


def judged(high, low, *pair, claims=1):
    """Returns a claim's difference, runs, p and verdict; other claims have no runs."""
    lines = [
        line_of(name, seed, test={"conlleval": test})
        for name, side in zip(NAMES, (high, low), strict=True)
        for seed, test in enumerate(side)
    ]
    p_values = {" > ".join(NAMES): {"figures": x[:2], "p": x[2]} for x in [pair] if x}
    orders = [CLAIM, *PAPERS.claims[: claims - 1]]
    return tables.verdicts(orders, PAPERS, lines, p_values)[0][3:]


def test_verdicts_by_runs():
    high, low, middle = (91.0, 91.1, 91.2), (90.0, 90.1, 90.2), (90.75, 90.85, 90.95)
    assert judged(high, low)[:3] == ["+1.00", "3, 3", "< 0.001 (Welch)"]
    assert judged(high, low)[3:] == ["< 0.001", "holds"]
    assert judged(low, high)[4] == "does not hold"
    assert judged((90.0,), ()) == ["", "1, 0", "", "", "too few runs"]
    assert judged(high, middle)[2:] == ["0.038 (Welch)", "0.038", "holds"]
    assert judged(high, middle, claims=2)[3:] == ["0.075", "undecided"]
    # One or two runs decide nothing; the difference is always that of all runs.
    row = judged((91.0, 92.0), (90.0,), [91.0], [90.0], 0.01)
    assert row == ["+1.50", "1, 1", "0.010 (bootstrap, one seed)", "", "too few runs"]
    row = judged((91.0, 91.01), (90.0, 90.01), [91.0, 91.01], [90.0, 90.01], 0.0009)
    assert row[2:] == ["< 0.001 (bootstrap)", "", "too few runs"]


def test_the_bootstrap_needs_no_run_folder(tmp_path):
    def pair(seed):
        for name, misses in zip(NAMES, (1, 60), strict=True):
            finish(tmp_path / name, misses)
            yield results.line_of(Job(PAPERS.cell(name), seed), {}, tmp_path / name)
            shutil.rmtree(tmp_path / name)

    lines, p_values = [*pair(0)], {}
    assert "one seed" in tables.verdicts([CLAIM], PAPERS, lines, p_values)[0][5]
    assert len(p_values) == 1
    # What is known is not computed again, and stands for lines without counts.
    for line in lines:
        del line[results.COUNTS]
    p_values[" > ".join(NAMES)]["p"] = 0.5
    assert tables.verdicts([CLAIM], PAPERS, lines, p_values)[0][5].startswith("0.500 (")
    assert tables.verdicts([CLAIM], PAPERS, lines, {})[0][5] == ""
    # Three runs of each are compared by their figures.
    lines += [*pair(1), *pair(2)]
    assert "Welch" in tables.verdicts([CLAIM], PAPERS, lines, p_values)[0][5]
    assert not p_values


# --- One's own data -------------------------------------------------------------------


def test_a_set_is_the_same_draw_for_all(monkeypatch, tmp_path):
    monkeypatch.setattr(own, "SETS", {f"a {n}": ("sample", None, n) for n in (20, 400)})
    sets = {}
    for name, folder in (("a 20", "x"), ("a 20", "y"), ("a 400", "z")):
        (tmp_path / folder).mkdir()
        sizes = own.write_set(name, tmp_path / folder)
        sets[folder] = (tmp_path / folder / "train.jsonl").read_text().splitlines()
        number = int(name.split()[1])
        assert sizes == [number, min(number, 352), 401]
    assert sets["x"] == sets["y"] == [x for x in sets["z"] if x in {*sets["x"]}]


def test_the_tables_have_means_and_regret():
    def line(system, seed, dev, test, seconds, name="WNUT-17, all"):
        facts = {"cell": f"{name}/{system}", "seed": seed, "status": "done"}
        facts |= {"set": name, "config": system, "vectors": None}
        return facts | {"dev": dev, "test": test, "processor_seconds": seconds}

    lines = [line("own:files", 0, 60, 50, 900), line("own:files", 1, 62, 54, 1_100)]
    lines += [line("lan:files", 0, 63, 50, 90), line("spaCy", 0, 70, 70, 60)]
    lines += [line("lan:files", 0, 80, 80, 90, "UD EWT tags, all")]  # runs alone
    both, ours = (
        [x.strip("|\n").split("|") for x in part.strip().split("\n")]
        for part in own.table(lines).split("\n\n")
    )
    assert " ".join(" ".join(both[2][1:]).split()) == "2 61.0 52.0 1,000 1 70.0 70.0 60"
    assert [x.strip() for x in both[3]] == ["UD EWT tags, all", *[""] * 8]
    assert [[x.strip() for x in row] for row in (ours[0], *ours[2:])] == [
        ["set", "own", "lan"],
        ["WNUT-17, all", "52.0 (1,000 s)", "50.0 (90 s)"],
        ["regret on dev: mean (largest)", "2.0 (2.0)", "0.0 (0.0)"],
        ["regret on test: mean (largest)", "0.0 (0.0)", "2.0 (2.0)"],
    ]


def test_runs_on_ones_own_data_have_lines_unless_they_stop(monkeypatch, tmp_path):
    calls, endings = [], [0, -signal.SIGTERM, 1]

    def execute(words, folder, seconds, environment):
        calls.append(words)
        assert environment["XDG_CACHE_HOME"].startswith(str(folder))
        figures = {"dev": {"f1": 60.0}, "test": {"f1": 50.0}}
        (folder / "run" / "result.json").write_text(json.dumps(figures))
        return endings.pop(0), "the last line"

    monkeypatch.setattr(own, "SETS", {"a": ("sample", None, 20)})
    monkeypatch.setattr(own.queue, "execute", execute)
    monkeypatch.setattr(own.corpora, "find_vectors", lambda name: tmp_path / name)
    words = ["--own", "--seeds=1", f"--results={tmp_path}", f"--runs={tmp_path}/runs"]
    words += ["--system=spaCy", "--python=another"]
    command.main(words)
    assert set(Results(tmp_path).by_job()) == {("a/spaCy", 0)}
    command.main(words)
    command.main(words)
    assert len(calls) == 3
    assert all(x[:3] == ["another", "-m", "benchmarks.peers"] for x in calls)
    assert [any("vectors" in x for x in call) for call in calls] == [False, True, True]
    first, last = Results(tmp_path).lines()
    assert (first["dev"], first["test"], first["sentences"]) == (60, 50, [20, 20, 401])
    assert (first["vectors"], last["vectors"]) == (None, own.VECTORS)
    assert (last["status"], last["error"]) == ("failed", "the last line")
    endings += [1, 1]
    command.main([*words[:3], "--system=encoder:files", "--system=cross_bilstm:files"])
    cells = [line["cell"] for line in Results(tmp_path).lines()[2:]]
    assert cells == ["a/encoder:files", f"a/cross_bilstm:files{own.TAIL}"]
