"""The papers' tables: published figures, lines of runs, tables and verdicts."""

import fnmatch
import itertools
import json
import os
import signal

import numpy as np
import pytest

from jaxner import configuration
from jaxner.data import corpora
from jaxner.evaluation import predictions, scoring
from jaxner.runs import Workdir
from reproduce import __main__ as command
from reproduce import figures, own, results, tables
from reproduce.plan import Cell, Job, Plan, Published
from reproduce.queue import ROOT, TRAIN, execute
from reproduce.results import Results
from tests import fence, tiny
from tests.test_configs import shapes_of

PAPERS, PLAN = Published.load(), Plan.load()
CELLS, CLAIMS = PAPERS.cells, [*itertools.chain(*PAPERS.claims.values())]
RESULTS = Results(ROOT / "results")

# --- Published figures and the plan ---------------------------------------------------


def test_all_configs_have_their_cells_and_claims_are_orders_of_published_figures():
    files = {p.stem for p in (ROOT / "configs").glob("[!_]*.py")}
    configs = {cell.config for cell in CELLS.values()}
    assert files - {"own"} == {config.partition(":")[0] for config in configs}
    assert len(configs) + 1 == len(CELLS) == 113  # GRN* is also run without ELMo
    assert len({*CLAIMS}) == len(CLAIMS)
    assert {*PAPERS.claims} == {*PAPERS.tables}
    for claim in CLAIMS:
        high, low = map(PAPERS.cell, claim.split(" > "))
        assert high.figure == low.figure
        if high.published and low.published:
            assert high.published > low.published, claim


@pytest.mark.parametrize("cell", CELLS.values(), ids=lambda cell: cell.id)
def test_a_cell_is_complete_and_its_overrides_are_options(cell):
    config = configuration.load(cell.config)
    if ",size=" not in cell.config:  # other sizes are built in the same way
        assert shapes_of(config)
    assert config.data.name == cell.id.rpartition("/")[2] in corpora.CORPORA
    assert cell.rule in (*scoring.RULES, "accuracy")
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


def test_the_plan_has_every_cell_after_its_source():
    jobs = PLAN.jobs(CELLS)
    assert len(set(jobs)) == len(jobs)
    assert {job.cell.id for job in jobs} == set(CELLS)
    names = [name for group in PLAN.groups for name in group["cells"]]
    assert len(set(names)) == len(names)
    assert set(names) <= set(CELLS)
    for pattern in (p for setting in PLAN.settings for p in setting["cells"]):
        assert fnmatch.filter(CELLS, pattern), pattern
    order = [job.cell.id for job in jobs]
    for cell in CELLS.values():
        if cell.begins_with:
            assert order.index(cell.begins_with) < order.index(cell.id)
    assert len(PLAN.jobs(CELLS, seeds=5)) == 5 * len(CELLS)


# --- Runs ----------------------------------------------------------------------------

SAMPLE = Cell("grn/sample", "grn", "Chen et al. 2019", "GRN", "grn:sample")
RIVAL = Cell("ncrfpp/sample", "uanet", "Gui", "X", "ncrfpp:sample", rule="ncrfpp")


def test_a_finished_run_has_a_line(tmp_path):
    """It misses one entity of test."""
    run = Workdir(fence.unpack("grn", tmp_path / "run"))
    for name, misses in (("dev", 0), ("test", 1)):
        split = corpora.load("sample", name)
        gold = [list(e.labels) for e in split.to_scheme("BIOES")]
        predicted = [list(labels) for labels in gold]
        singles = [labels for labels in predicted if labels.count("S-PER") == 1]
        for labels in singles[:misses]:
            labels[labels.index("S-PER")] = "O"
        predictions.write(run.predictions(name), split, gold, predicted)
    line = results.line_of(Job(RIVAL, 0), {}, run.path)
    assert line["dev"] == {"ncrfpp": 100.0, "conlleval": 100.0, "strict": 100.0}
    assert 99.9 < line["test"]["ncrfpp"] < 100
    assert (line["best_epoch"], line["epochs"], line["seconds"]) == (7, 10, 3.0)
    data = run.read_json("environment.json")["data"]
    data["test"] = run.read_json("result.json")["test"]
    assert line["data"] == {x: data[x]["sha256"] for x in corpora.SPLITS}
    counts = results.sentence_counts(RIVAL, run, "test")["ncrfpp"]
    tally = results.tally(line, "ncrfpp")
    np.testing.assert_array_equal(tally.counts[:, 0], counts)
    tags = RIVAL._replace(rule="accuracy")
    line = results.line_of(Job(tags, 0), {}, run.path)
    assert line["dev"] == {"accuracy": 100.0}
    assert 99 < line["test"]["accuracy"] < 100
    with pytest.raises(ValueError, match="init_from to be a run of grn/sample, got N"):
        results.line_of(Job(tags._replace(begins_with="grn/sample"), 0), {}, run.path)


@pytest.mark.slow  # trains a small system in another process
def test_a_run_is_trained_stopped_and_resumed(corpus, tmp_path):
    folder, job = tmp_path / "runs" / "grn" / "sample" / "seed-0", Job(SAMPLE, 0)
    folder.mkdir(parents=True)
    small = {**tiny.SMALL, "data.dir": corpus, "num_epochs": 3}
    flags = [f"--config.{option}={value}" for option, value in small.items()]
    command = [*TRAIN, SAMPLE.config, f"--output={folder}"]
    status, _ = execute([*command, *flags], folder, 2.0, os.environ)
    assert status in (143, -signal.SIGTERM)
    status, last = execute([*command, *flags], folder, float("inf"), os.environ)
    assert status == 0, last
    assert results.line_of(job, {}, folder)["epochs"] == 3
    status, last = execute([*command, "--config.nope=1"], folder, 99.0, os.environ)
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


def test_pages_hold_the_tables_as_they_are_made():
    lines, costs = RESULTS.lines(), RESULTS.costs()
    for page, table in tables.pages(PAPERS, lines, costs).items():
        text = (ROOT / page).read_text("utf-8")
        assert tables.inserted(text, table) == text, tables.COMMAND
    text = own.PAGE.read_text("utf-8")
    assert tables.inserted(text, own.table(lines), own.MARKS) == text, own.COMMAND
    old = json.loads((RESULTS.folder / "bootstrap.json").read_text())
    report, new = (ROOT / "results" / "README.md").read_text("utf-8"), {**old}
    new.pop("minilm-uanet/conll2003 > minilm-crf/conll2003", None)  # comes again
    assert tables.report(PAPERS, lines, new, costs) == report, tables.COMMAND
    assert new == old


def test_what_departs_from_a_paper_is_never_published():
    lines = RESULTS.lines()
    words = {
        x.id: tables.settings(x, tables.finished(x, lines)) for x in CELLS.values()
    }
    assert words["grn/conll2003"] == words["lan/conll2003"] == tables.PUBLISHED
    assert words["parallel-rnn/conll2003"].startswith(
        "penalty of pairs, frozen vectors"
    )
    assert (
        "30 of 100 epochs, `model.refinement.num_heads=5`" in words["uanet/conll2003"]
    )
    report = (ROOT / "results" / "README.md").read_text("utf-8")  # as made: see above
    for claim in CLAIMS:
        pair = claim.split(" > ")
        cells = [f"`{x}`" + " *" * (words[x] != tables.PUBLISHED) for x in pair]
        assert f"| {cells[0]} | {cells[1]} |" in report


def test_the_report_has_failures():
    line = {"cell": "lan/conll2003", "seed": 0, "status": "failed"}
    assert "no memory" in tables.report(PAPERS, [line | {"error": "no memory"}], {}, {})


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
