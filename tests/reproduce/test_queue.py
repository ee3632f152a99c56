"""The queue: its order, resuming, skipping, and lines that are never doubled."""

import itertools
import json
import os
import signal
import subprocess
import sys
import time

import pytest

from jaxner import workdir
from jaxner.commands import reproduce
from jaxner.reproduce import plan, programs, published, queue, record
from jaxner.reproduce.plan import Job
from jaxner.reproduce.programs import Outcome
from jaxner.reproduce.published import Cell
from jaxner.reproduce.queue import Queue
from jaxner.reproduce.results import Results
from jaxner.workdir import Workdir
from tests.marks import slow
from tests.reproduce import lines

KNOWN = published.load()
PLAN = plan.load(KNOWN.cells)
SAMPLE = Cell("grn/sample", "grn", "Chen et al. 2019", "GRN", "grn:sample")
OTHER = Cell("ncrfpp/sample", "uanet", "Gui", "X", "ncrfpp:sample", rule="ncrfpp")
EMPTY = plan.Plan((), (), ())


# --- The plan ----------------------------------------------------------------------


def test_every_cell_is_planned_once_for_each_seed():
    jobs = PLAN.jobs(KNOWN.cells)
    assert len({job.key for job in jobs}) == len(jobs)
    assert {job.cell.id for job in jobs} == set(KNOWN.cells)


def test_the_order_of_worth():
    jobs = PLAN.jobs(KNOWN.cells)
    first = [job.key for job in jobs[:24]]
    assert first[0] == ("ncrfpp-crf/conll2003", 0)
    # The first seed of all eight comes before the second of one.
    assert [seed for _, seed in first] == [0] * 8 + [1] * 8 + [2] * 8
    assert [name for name, _ in first[:8]] == [name for name, _ in first[8:16]]
    order = list(dict.fromkeys(job.cell.id for job in jobs))
    sought = [
        *("grn/conll2003", "parallel-rnn/conll2003", "cross-bilstm/wnut17"),
        *("uanet/conll2003", "grn-fusion/conll2003", "lan/conll2003"),
        *("idcnn-document/conll2003", "idcnn/ontonotes5", "bert/conll2003"),
    ]
    assert sorted(sought, key=order.index) == sought
    for cell in KNOWN.cells.values():
        if cell.begins_with:
            assert order.index(cell.begins_with) < order.index(cell.id)


def test_seeds_tables_and_cells_are_chosen():
    jobs = PLAN.jobs(KNOWN.cells, seeds=5)
    assert len(jobs) == 5 * len(KNOWN.cells)
    grn = plan.chosen(jobs, ["grn"])
    assert {job.cell.table for job in grn} == {"grn"}
    assert len(grn) == 5 * 16
    one = plan.chosen(jobs, [], ["lan/wsj"])
    assert [job.key for job in one] == [("lan/wsj", seed) for seed in range(5)]


@pytest.mark.parametrize("cell", KNOWN.cells.values(), ids=lambda cell: cell.id)
def test_overrides_are_options_of_the_config(cell):
    config = programs.config_of(cell)
    names = {"glove50+wiki50.cased.100d.txt"}
    overrides = PLAN.overrides(cell, config.data.vectors, names.__contains__)
    config.update_from_flattened_dict(overrides)
    for name, value in overrides.items():
        section = config
        for part in name.split("."):
            section = section[part]
        assert section == value
    if config.data.vectors:
        assert config.data.vectors in names
        assert config.model.representation.words.dim == 100
        assert not config.data.lowercase
    assert config.num_epochs <= 400


def test_the_papers_vectors_come_first():
    cell = KNOWN.cell("grn/conll2003")
    found = PLAN.overrides(cell, "glove.6B.100d.txt", lambda name: True)
    assert not any(name.startswith("data.") for name in found)
    found = PLAN.overrides(cell, "glove.6B.100d.txt", lambda name: False)
    assert not any(name.startswith("data.") for name in found)


def test_a_rate_that_falls_to_the_end_is_not_stopped_early():
    names = "uanet/", "uanet-no-labels/", "uanet-transformer"
    falling = [cell for cell in KNOWN.cells.values() if cell.id.startswith(names)]
    assert {"uanet/ontonotes5", "uanet-transformer/ontonotes5"} <= {
        cell.id for cell in falling
    }
    for cell in falling:
        planned = PLAN.overrides(cell, None, lambda _: True)
        assert planned["patience"] == 0, cell.id


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"grn/conll2003"', '"grn/conll"', "Unknown cell 'grn/conll'"),
        (
            '"grn-fusion/conll2003"',
            '"lan/conll2003"',
            "name the cell lan/conll2003 twice",
        ),
        ('cells = ["grn*"', 'cells = ["gnr*"', "setting 'gnr\\*' matches no cell"),
    ],
)
def test_a_wrong_plan_is_refused(tmp_path, old, new, message):
    text = plan.FILE.read_text("utf-8")
    assert old in text
    (tmp_path / "plan.toml").write_text(text.replace(old, new), "utf-8")
    with pytest.raises(ValueError, match=message):
        plan.load(KNOWN.cells, tmp_path / "plan.toml")


# --- The queue ---------------------------------------------------------------------


class Fake:
    """Pretends to train; `endings` are statuses, or functions that return them."""

    def __init__(self, *endings):
        self.endings = list(endings)
        self.calls = []

    def __call__(self, job, overrides, runs, *, device, must_stop):
        self.calls.append(job.key)
        ending = self.endings.pop(0) if self.endings else 0
        if callable(ending):
            ending = ending()
        if ending:
            return Outcome(ending, f"ended with {ending}")
        if job.num_seeds == 1:
            lines.finish(job.folder(runs))
            return Outcome(0)
        for one in job.each():
            lines.finish(job.folder(runs) / f"seed-{one.seed}")
        return Outcome(0)


def queue_of(tmp_path, train, plan_=EMPTY, **options):
    said = []
    line = Queue(
        plan_,
        Results(tmp_path / "results"),
        tmp_path / "runs",
        log=said.append,
        train=train,
        **options,
    )
    return line, said


OTHER_KEY = OTHER.id, 0
JOBS = [Job(SAMPLE, 0), Job(OTHER, 0), Job(SAMPLE, 1)]


def test_overrides_are_what_differs_from_the_config(tmp_path, monkeypatch):
    folder = tmp_path / "vectors"
    folder.mkdir()
    (folder / "glove50+wiki50.cased.100d.txt").write_text("")
    monkeypatch.setenv("JAXNER_DATA", str(tmp_path))
    line, _ = queue_of(tmp_path, Fake(), PLAN, device="gpu")
    stand_in = {"data.vectors": "glove50+wiki50.cased.100d.txt"}
    stand_in |= {"num_blocks": 1}
    found = line.overrides(Job(KNOWN.cell("idcnn/conll2003"), 0))
    assert found == {"patience": 15, **stand_in}  # no word is in lower case anyway
    found = line.overrides(Job(KNOWN.cell("grn/conll2003"), 0))
    short = {"num_epochs": 100, "patience": 12, "data.lowercase": False}
    assert found == {**short, **stand_in}


def test_a_finished_run_has_a_line(tmp_path):
    line, said = queue_of(tmp_path, Fake(), device="cpu")
    assert line.work(JOBS) == 0
    assert said[-1] == "No jobs left"
    found = line.results.by_job()
    assert set(found) == {job.key for job in JOBS}
    its = found["ncrfpp/sample", 0]
    assert its["config"] == "ncrfpp:sample"
    assert its["dev"] == {"ncrfpp": 100.0, "conlleval": 100.0, "strict": 100.0}
    assert list(its["test"]) == list(its["dev"])
    assert len(set(its["test"].values())) == 1  # no ill-formed label
    assert 99.9 < its["test"]["ncrfpp"] < 100
    assert (its["best_epoch"], its["epochs"], its["seconds"]) == (4, 5, 1.5)
    assert its["data"] == {"train": "train", "dev": "dev", "test": "test"}
    assert (its["vectors"], its["device"]) == ("vectors", "cpu")
    assert {"commit", "date", "versions", "seed", "overrides"} <= set(its)
    assert (tmp_path / "results" / "uanet.jsonl").read_text().count("\n") == 1
    assert str(tmp_path) not in json.dumps(found["grn/sample", 0])


def test_a_line_has_all_commits_that_trained_its_run(tmp_path):
    job = JOBS[0]
    lines.finish(job.folder(tmp_path))
    assert record.done(job, {}, job.folder(tmp_path), "cpu", "now")["commit"] == "now"
    run = Workdir(job.folder(tmp_path))
    about = run.read_json("environment.json")
    run.write_json("environment.json", {**about, "commits": ["1234", "5678+"]})
    line = record.done(job, {}, job.folder(tmp_path), "cpu", "now")
    assert line["commit"] == "1234 5678+"


def test_what_is_done_is_not_done_again(tmp_path):
    line, _ = queue_of(tmp_path, Fake())
    line.work(JOBS[:1])
    again, _ = queue_of(tmp_path, fake := Fake())
    assert again.work(JOBS) == 0
    assert fake.calls == [job.key for job in JOBS[1:]]
    assert len(again.results.lines()) == 3


def test_a_line_is_never_doubled(tmp_path):
    results = Results(tmp_path)
    first = lines.line("grn/conll2003", test={"conlleval": 90.0})
    assert results.add("grn", first)
    assert not results.add("grn", {**first, "test": {"conlleval": 91.0}})
    assert results.lines() == [first]


def test_a_wrong_line_is_told_with_its_place(tmp_path):
    (tmp_path / "grn.jsonl").write_text('{"cell": \n')
    with pytest.raises(ValueError, match=r"grn\.jsonl:1: expected a JSON object"):
        Results(tmp_path).lines()


@pytest.mark.parametrize(
    "status", [s if s == 130 else slow(s)[0] for s in programs.STOPPED]
)
def test_a_stopped_run_leaves_no_line_and_is_resumed(tmp_path, status):
    line, said = queue_of(tmp_path, fake := Fake(0, status))
    assert line.work(JOBS) == 0
    assert fake.calls == [job.key for job in JOBS[:2]]
    assert said[-1].startswith("Stopped")
    assert set(line.results.by_job()) == {JOBS[0].key}
    line, _ = queue_of(tmp_path, fake := Fake())
    line.work(JOBS)
    assert fake.calls == [job.key for job in JOBS[1:]]


def test_the_queue_stops_on_a_signal(tmp_path):
    def ending():
        os.kill(os.getpid(), signal.SIGTERM)
        return 0

    line, said = queue_of(tmp_path, fake := Fake(ending))
    assert line.work(JOBS) == 143
    assert len(fake.calls) == 1  # that ended by itself, so it has a line
    assert len(line.results.lines()) == 1
    assert said[-1].startswith("Stopped")


def test_the_hours_end(tmp_path):
    line, said = queue_of(tmp_path, fake := Fake())
    assert line.work(JOBS, hours=0.0) == 0
    assert not fake.calls
    assert said == ["Stopped; the same command continues from here"]


def test_a_failing_run_is_recorded_and_not_retried(tmp_path):
    line, said = queue_of(tmp_path, Fake(1))
    assert line.work(JOBS) == 0
    its = line.results.by_job()[JOBS[0].key]
    assert (its["status"], its["error"]) == ("failed", "ended with 1")
    assert any("failed: ended with 1" in text for text in said)
    assert len(line.results.lines()) == 3
    line, _ = queue_of(tmp_path, fake := Fake())
    line.work(JOBS)
    assert not fake.calls
    line.work(JOBS, retry=True)
    assert fake.calls == [JOBS[0].key]
    assert line.results.by_job()[JOBS[0].key]["status"] == "done"
    assert len(line.results.lines()) == 3


def test_predictions_of_another_run_are_a_failure(tmp_path):
    class Wrong(Fake):
        def __call__(self, job, overrides, runs, **options):
            super().__call__(job, overrides, runs, **options)
            file = job.folder(runs) / "result.json"
            content = json.loads(file.read_text().replace('"f1": 100.0', '"f1": 80.0'))
            del content["checksum"]
            file.write_text(json.dumps(content))
            return Outcome(0)

    line, _ = queue_of(tmp_path, Wrong())
    line.work(JOBS[:1])
    assert "the files are from different runs" in line.results.lines()[0]["error"]


def test_a_run_without_result_is_a_failure(tmp_path):
    line, _ = queue_of(tmp_path, lambda *_, **__: Outcome(0))
    line.work(JOBS[:1])
    assert "result.json is missing" in line.results.lines()[0]["error"]


def test_what_the_machine_lacks_is_skipped_with_a_word(tmp_path, monkeypatch):
    monkeypatch.setenv("JAXNER_DATA", str(tmp_path / "nothing"))
    line, said = queue_of(tmp_path, fake := Fake(), PLAN)
    jobs = [Job(KNOWN.cell("grn/conll2003"), seed) for seed in (0, 1)]
    assert line.work([*jobs, Job(KNOWN.cell("lan/wsj"), 0)]) == 0
    assert not fake.calls
    assert said == [
        "grn/conll2003: skipped, no train split of conll2003",
        "lan/wsj: skipped, no train split of wsj",
        "No jobs left",
    ]


def test_missing_vectors_and_encoders_are_told(tmp_path):
    config = programs.config_of(KNOWN.cell("grn/conll2003"))
    config.data.name = "sample"
    config.data.vectors = "no-such.txt"
    assert queue.what_lacks(config) == "no vectors no-such.txt"
    config = programs.config_of(KNOWN.cell("bert/conll2003"))
    config.data.name = "sample"
    assert "with a pretrained encoder" in queue.what_lacks(config)
    config.data.pretrained = str(tmp_path)
    assert queue.what_lacks(config) == ""


@pytest.mark.slow
def test_on_a_gpu_the_missing_seeds_of_a_cell_train_together(tmp_path):
    jobs = [Job(SAMPLE, seed) for seed in range(4)] + [Job(OTHER, 0)]
    line, _ = queue_of(tmp_path, Fake(), device="cpu")
    line.work(jobs[1:2])  # seed 1 of SAMPLE is there already
    line, said = queue_of(tmp_path, fake := Fake(), device="gpu")
    assert line.work(jobs) == 0
    assert fake.calls == [("grn/sample", 0), ("grn/sample", 2), ("ncrfpp/sample", 0)]
    assert said[0] == "grn/sample seed 0: begun with no"
    found = line.results.by_job()
    assert set(found) == {job.key for job in jobs}
    shared = {key: its.get("num_seeds", 1) for key, its in found.items()}
    assert [shared[job.key] for job in jobs] == [1, 1, 2, 2, 1]
    assert all((job.folder(line.runs) / "result.json").is_file() for job in jobs)


def test_seeds_that_train_together_fail_and_stop_together(tmp_path):
    jobs = [Job(SAMPLE, seed) for seed in range(3)]
    line, _ = queue_of(tmp_path, fake := Fake(143), device="gpu")
    line.work(jobs)
    assert (fake.calls, line.results.lines()) == ([("grn/sample", 0)], [])
    line, _ = queue_of(tmp_path, Fake(1), device="gpu")
    line.work(jobs)
    assert [x["error"] for x in line.results.lines()] == ["ended with 1"] * 3


def test_the_command_of_seeds_that_train_together(tmp_path):
    job = plan.together(JOBS[0], [Job(SAMPLE, s) for s in (0, 1, 2, 4)])
    assert str(job) == "grn/sample seeds 0 to 2"
    flags = programs.command(job, {"patience": 3}, tmp_path)
    assert {"--config.num_seeds=3", "--config.restarts=together"} < set(flags)
    assert flags[-1] == str(tmp_path / "grn/sample/seeds-0-2")
    later = Job(Cell("d/x", "grn", "", "", "idcnn:sample", begins_with="s"), 0)
    assert plan.together(later, [Job(later.cell, 1)]) == later


def begin(folder):
    (folder / "checkpoints/latest/1").mkdir(parents=True)


def begin_together(job, runs):
    begin(job.folder(runs))
    for one in job.each():
        (job.folder(runs) / f"seed-{one.seed}").mkdir()
    return 143


@pytest.mark.parametrize("num_wanted", [1, 3, 5])
def test_seeds_that_began_together_go_on_together(tmp_path, num_wanted):
    runs = tmp_path / "runs"
    joined = Job(SAMPLE, 0, num_seeds=3)
    first = Fake(lambda: begin_together(joined, runs))
    line, _ = queue_of(tmp_path, first, device="gpu")
    line.work(joined.each())
    # The next call wants more seeds, or fewer.
    jobs = [Job(SAMPLE, seed) for seed in range(num_wanted)]
    line, said = queue_of(tmp_path, fake := Fake(), device="gpu")
    line.work(jobs)
    assert said[0] == "grn/sample seeds 0 to 2: resumed with no"
    assert fake.calls == [("grn/sample", 0), ("grn/sample", 3)][: 1 + (num_wanted > 3)]
    assert {key for _, key in line.results.by_job()} == set(range(max(3, num_wanted)))
    # Once each has its own folder, one of them can be measured again alone.
    alone = joined.each()[1]
    (alone.folder(runs) / "result.json").unlink()
    (line.results.folder / "grn.jsonl").unlink()
    line, said = queue_of(tmp_path, Fake(), device="gpu")
    line.work([alone])
    assert said[0] == "grn/sample seed 1: begun with no"


def test_a_queue_killed_while_recording_loses_no_seed(tmp_path, monkeypatch):
    runs = tmp_path / "runs"
    joined = Job(SAMPLE, 0, num_seeds=3)
    line, _ = queue_of(tmp_path, Fake(lambda: begin_together(joined, runs)))
    line.device = "gpu"
    line.work(joined.each())
    add, added = line.results.add, []

    def killed(table, its):
        if len(added) == 1:
            raise KeyboardInterrupt
        added.append(its["seed"])
        return add(table, its)

    monkeypatch.setattr(line.results, "add", killed)
    line.train = Fake()
    with pytest.raises(KeyboardInterrupt):
        line.work(joined.each())
    assert [its["seed"] for its in line.results.lines()] == [0]
    line, said = queue_of(tmp_path, fake := Fake(), device="gpu")
    line.work(joined.each())
    assert said[0] == "grn/sample seeds 0 to 2: resumed with no"
    assert fake.calls == [("grn/sample", 0)]
    assert [its["status"] for its in line.results.lines()] == ["done"] * 3
    assert all((job.folder(runs) / "result.json").is_file() for job in joined.each())


def test_a_folder_where_another_queue_works_is_left_alone(tmp_path):
    jobs = [Job(SAMPLE, seed) for seed in range(2)]
    line, _ = queue_of(tmp_path, Fake(), device="gpu")
    target = jobs[1].folder(line.runs)
    with queue._locked(target) as is_ours:
        assert is_ours
        (target / "train.log").write_text("of another process")
        line.work(jobs)
    assert [its["status"] for its in line.results.lines()] == ["done"] * 2
    assert (target / "train.log").read_text() == "of another process"
    assert (jobs[0].folder(line.runs) / "result.json").is_file()


def test_seeds_that_another_process_trains_do_not_join(tmp_path):
    jobs = [Job(SAMPLE, seed) for seed in range(3)]
    line, said = queue_of(tmp_path, fake := Fake(), device="gpu")
    with Workdir(jobs[1].folder(line.runs)).locked():
        line.work(jobs)
    assert fake.calls == [("grn/sample", 0), ("grn/sample", 2)]
    assert said.count("grn/sample seed 1: another process is training it") == 1


def test_a_run_that_was_hardly_begun_makes_way(tmp_path):
    job = plan.together(JOBS[0], [Job(SAMPLE, s) for s in (0, 1)])
    one, target = job.each()[0], job.each()[0].folder(tmp_path)
    source = job.folder(tmp_path) / "seed-0"
    for folder, text in ((source, "new"), (target, "old")):
        folder.mkdir(parents=True)
        (folder / "train.log").write_text(text)
    queue._take_out(one, job, tmp_path)
    assert (target / "train.log").read_text() == "new"
    assert not source.exists()


@pytest.mark.slow
def test_real_runs_that_trained_together_have_lines(tmp_path, monkeypatch):
    small = {"num_epochs": 1, "num_blocks": 1, "model.encoder.hidden_dim": 8}
    tiny_plan = plan.Plan((), (plan.Setting(("*",), small),), ())
    jobs = [Job(SAMPLE, seed) for seed in (0, 1)]

    def on_this_machine(*arguments, device, **options):
        return programs.train(*arguments, device="cpu", **options)

    def killed(*_):
        raise KeyboardInterrupt

    line, said = queue_of(tmp_path, on_this_machine, tiny_plan, device="gpu")
    with monkeypatch.context() as patched:
        patched.setattr(line.results, "add", killed)
        with pytest.raises(KeyboardInterrupt):
            line.work(jobs)
    assert line.work(jobs) == 0  # the finished runs are recorded, not trained again
    log = jobs[0].folder(line.runs).parent / "seeds-0-1" / programs.LOG
    assert log.read_text().count("epoch   1") == 1
    found = line.results.by_job()
    assert [its["status"] for its in found.values()] == ["done"] * 2, said
    assert [its["num_seeds"] for its in found.values()] == [2, 2]
    assert found["grn/sample", 0]["dev"] != found["grn/sample", 1]["dev"]


def test_documents_wait_for_sentences(tmp_path):
    later = Cell("d/sample", "grn", "", "", "idcnn:sample,document", begins_with="s")
    line, said = queue_of(tmp_path, fake := Fake())
    line.work([Job(later, 0)])
    assert not fake.calls
    assert said[0] == "d/sample: waiting, for the weights of s"
    (tmp_path / "runs" / "s" / "seed-0").mkdir(parents=True)
    (tmp_path / "runs" / "s" / "seed-0" / "result.json").write_text("{}")
    assert line.state(Job(later, 0)).name == "missing"
    flags = programs.command(Job(later, 0), {}, tmp_path)
    assert f"--config.init_from={tmp_path / 's' / 'seed-0'}" in flags


def test_a_line_without_weights_lets_no_document_wait(tmp_path):
    source = "idcnn/conll2003"
    later = Cell("d/sample", "grn", "", "", "idcnn:sample,document", begins_with=source)
    line, _ = queue_of(tmp_path, Fake())
    line.results.add("idcnn", lines.line(source, 0, test={"conlleval": 90.0}))
    state = line.state(Job(later, 0))
    assert state.name == "skipped"
    assert f"is missing, the run folder of {source}: bring it, or" in state.why
    assert line.state(Job(later, 1)).name == "waiting"


def test_a_config_that_cannot_be_made_stops_nothing(tmp_path):
    wrong = plan.Plan((), (plan.Setting(("grn/*",), {"no.such": 1}),), ())
    line, said = queue_of(tmp_path, fake := Fake(), wrong)
    assert line.work(JOBS) == 0
    assert fake.calls == [OTHER_KEY]
    assert said[0].startswith("grn/sample: skipped, its config cannot be built:")


def test_two_queues_do_not_train_the_same_run(tmp_path):
    job = JOBS[0]
    with queue._locked(job.folder(tmp_path / "runs")) as is_ours:
        assert is_ours
        line, said = queue_of(tmp_path, fake := Fake())
        line.work([job])
    assert not fake.calls
    assert "another process is training it" in said[0]


# --- The command -------------------------------------------------------------------


def test_the_list_tells_where_cells_stand(tmp_path):
    line, _ = queue_of(tmp_path, Fake(0, 1))
    line.work(JOBS[:2])
    told = reproduce.listing(line, JOBS)
    assert told[0].split(None, 1) == ["grn/sample", "done 0; missing 1"]
    assert told[1].split(None, 1) == ["ncrfpp/sample", "failed 0 (ended with 1)"]
    assert told[-1] == "3 runs: 1 done, 1 failed, 1 missing"


def test_nothing_to_do_and_unknown_names_are_told(capsys):
    from jaxner.__main__ import main

    for arguments, message in (
        ([], "Expected --table NAME, --cell ID"),
        (["--table", "gnr"], "Unknown table 'gnr'; known are grn"),
        (["--cell", "grn/conll"], "Unknown cell 'grn/conll'"),
    ):
        with pytest.raises(SystemExit) as ending:
            main(["reproduce", *arguments])
        assert ending.value.code == 1
        assert message in capsys.readouterr().out


# --- Processes ---------------------------------------------------------------------


@pytest.fixture
def script(monkeypatch, tmp_path):
    """Runs Python code in the place of `jaxner train`."""

    def become(code):
        (tmp_path / "fake.py").write_text(code)
        monkeypatch.setattr(programs, "command", lambda *_: [str(tmp_path / "fake.py")])

    return become


def test_errors_come_from_the_log(script, tmp_path):
    place = programs.ROOT / "x"
    script(f"print('jaxner train: no {place}'); print('bye'); raise SystemExit(1)")
    done = programs.train(JOBS[0], {}, tmp_path, device=None, must_stop=bool)
    assert done == Outcome(1, "no ./x")
    # Messages of earlier attempts in the same log are not this one's.
    script("raise RuntimeError('new')")
    done = programs.train(JOBS[0], {}, tmp_path, device=None, must_stop=bool)
    assert done == Outcome(1, "RuntimeError: new")
    script("raise SystemExit(3)")
    done = programs.train(JOBS[0], {}, tmp_path, device=None, must_stop=bool)
    assert done == Outcome(3, "exit status 3 without a message")
    script("import os; os.kill(os.getpid(), 9)")
    done = programs.train(JOBS[0], {}, tmp_path, device=None, must_stop=bool)
    assert done.status == -9
    assert "killed by signal 9" in done.error


def test_a_process_is_asked_to_stop_once(script, tmp_path):
    script(
        "import signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))\n"
        "print('ready', flush=True)\n"
        "time.sleep(60)\n"
    )
    log = JOBS[0].folder(tmp_path) / programs.LOG
    began = time.monotonic()
    done = programs.train(
        JOBS[0],
        {},
        tmp_path,
        device="cpu",
        must_stop=lambda: log.exists() and "ready" in log.read_text(),
    )
    assert done.is_stopped
    assert time.monotonic() - began < 30


TRAINS = """
import sys, time
from jaxner.workdir import Workdir
with Workdir(sys.argv[1]).locked():
    print("locked", flush=True)
    time.sleep(60)
"""


def test_what_a_killed_queue_trains_stays_locked(tmp_path):
    trains = subprocess.Popen(
        [sys.executable, "-c", TRAINS, str(tmp_path)],
        cwd=programs.ROOT,
        stdout=subprocess.PIPE,
    )
    assert trains.stdout.readline() == b"locked\n"
    with queue._locked(tmp_path) as is_ours:  # no queue has it
        assert not is_ours
    trains.kill()
    trains.communicate()
    with queue._locked(tmp_path) as is_ours:
        assert is_ours


def test_a_run_that_another_process_trains_has_not_failed(tmp_path):
    busy = Outcome(1, f"{workdir.IS_LOCKED} runs/a. Wait for it")
    line, said = queue_of(tmp_path, lambda *_, **__: busy)
    assert line.work(JOBS[:1]) == 0
    assert "another process is training it" in said[1]
    assert not line.results.lines()


TINY = """
import sys
from pathlib import Path
from jaxner.reproduce import plan, published, queue
from jaxner.reproduce.results import Results
cell = published.Cell("grn/sample", "grn", "Chen", "GRN", "grn:sample")
small = {"num_epochs": int(sys.argv[2]), "data.num_shapes": 1}
small |= {"model.encoder.hidden_dim": 8, "batch_size": 8}
small["optimizer.learning_rate"] = 0.1
its = plan.Plan((), (plan.Setting(("*",), small),), ())
folder = Path(sys.argv[1])
line = queue.Queue(its, Results(folder / "results"), folder / "runs", device="cpu")
sys.exit(line.work([plan.Job(cell, 0)]))
"""


@pytest.mark.slow
def test_from_the_queue_to_the_line_through_a_stop(tmp_path):
    """A real run of the embedded corpus, stopped once and resumed."""

    def start():
        return subprocess.Popen(
            [sys.executable, "-c", TINY, str(tmp_path), "6"], cwd=programs.ROOT
        )

    log = tmp_path / "runs" / "grn" / "sample" / "seed-0" / programs.LOG
    process = start()
    for _ in itertools.count():
        if log.is_file() and "epoch   1" in log.read_text("utf-8"):
            break
        assert process.poll() is None
        time.sleep(0.2)
    process.send_signal(signal.SIGTERM)
    assert process.wait() == 143
    results = Results(tmp_path / "results")
    assert results.lines() == []
    assert start().wait() == 0
    assert "Resumed at step" in log.read_text("utf-8")
    (line,) = results.lines()
    assert line["status"] == "done"
    assert line["test"]["conlleval"] > 10
    assert line["epochs"] == 6
    assert start().wait() == 0
    assert len(results.lines()) == 1
