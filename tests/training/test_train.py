"""The training script: what it writes, how it resumes, and what it refuses."""

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pytest

import jaxner
from jaxner import models, tagging
from jaxner.checkpoints import Checkpoints
from jaxner.data import corpora, formats
from jaxner.errors import InputError
from jaxner.evaluation import predictions, scoring
from jaxner.runs import Workdir
from jaxner.training import cluster, environment, monitor, train
from reproduce import plan, results
from tests import tiny
from tests.marks import slow

ROOT = Path(__file__).parents[2]


def metrics_without_times(folder):
    return [
        {k: v for k, v in line.items() if k not in ("seconds", "saving_seconds")}
        for line in Workdir(folder).metrics()
    ]


def assert_same_run(folder, other):
    """Bitwise the same weights, the same history, the same scores."""
    left, right = jaxner.load(folder), jaxner.load(other)
    assert left.vocabulary == right.vocabulary
    for a, b in zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True):
        np.testing.assert_array_equal(a, b)
    assert metrics_without_times(folder) == metrics_without_times(other)
    results = [Workdir(f).read_json("result.json") for f in (folder, other)]
    for result in results:
        del result["seconds"], result["peak_memory_mb"]
    assert results[0] == results[1]


def test_the_commits_of_a_resumed_run_are_kept(tmp_path):
    folder, now = Workdir(tmp_path / "run"), environment.commit()
    record = {"commits": [now]}
    assert environment.continued(folder, record) == record
    for before, kept in (
        (["1234567"], ["1234567", now]),
        ([now], [now]),
    ):
        folder.write_json("environment.json", {"commits": before})
        assert environment.continued(folder, record) == {"commits": kept}


def test_run_folder(finished, corpus):
    folder = Workdir(finished)
    assert folder.read_json("config.json")["model"]["encoder"]["hidden_dim"] == 32
    record = folder.read_json("environment.json")
    assert record["versions"]["jax"] == jax.__version__
    assert record["commits"] == [environment.commit()]
    assert len(record["data"]["train"]["sha256"]) == 64
    assert "test" not in record["data"]
    lines = folder.metrics()
    assert [line["epoch"] for line in lines] == [1, 2, 3]
    assert lines[0]["loss"] > lines[-1]["loss"]
    assert set(lines[0]) == {
        *("epoch", "step", "loss", "seconds", "saving_seconds"),
        *("dev_precision", "dev_recall", "dev_f1", "dev_ill_formed"),
    }
    result = folder.read_json("result.json")
    assert result["best_epoch"] == 1 + int(np.argmax([m["dev_f1"] for m in lines]))
    assert result["dev"]["f1"] == pytest.approx(max(m["dev_f1"] for m in lines))
    assert result["test"]["rule"] == "conlleval"
    assert (
        result["test"]["gold"]
        == corpora.load(None, "test", directory=corpus).sizes()[2]
    )
    assert not list(folder.path.rglob("*.tmp"))


def test_predictions_are_kept_as_the_tagger_gave_them(finished, corpus, params):
    folder = Workdir(finished)
    for name in ("dev", "test"):
        split = corpora.load(None, name, directory=corpus)
        gold, predicted = predictions.read(folder.predictions(name))
        assert list(gold) == [e.labels for e in split.to_scheme("BIOES")]
        tokens = [list(example.tokens) for example in split.examples]
        assert [list(labels) for labels in predicted] == jaxner.tag(params, tokens)
        f1 = 100 * scoring.score(gold, predicted).f1
        assert f1 == pytest.approx(folder.read_json("result.json")[name]["f1"])


def test_stopped_and_resumed_equals_uninterrupted(
    finished, corpus, tmp_path, monkeypatch
):
    config = tiny.config(corpus)
    original, calls = monitor.Monitor.advance, []

    def advance(self, *arguments):
        calls.append(arguments)
        if len(calls) in (3, 20):  # within the first epoch, and within a later one
            os.kill(os.getpid(), signal.SIGINT)
        original(self, *arguments)

    monkeypatch.setattr(monitor.Monitor, "advance", advance)
    for attempt in range(2):
        with pytest.raises(SystemExit) as stop:
            train.main_run(config, tmp_path / "run")
        assert stop.value.code == 130
        step = Checkpoints(Workdir(tmp_path / "run").part("latest")).step
        assert step == (3, 20)[attempt]
    train.main_run(config, tmp_path / "run")
    assert_same_run(tmp_path / "run", finished)


_KILLED = """
import sys, os, signal
import jax
import train
from pathlib import Path
from jaxner.checkpoints import Checkpoints
from jaxner.training import cluster, monitor
from tests import tiny
moment = sys.argv[3]
begin, save = monitor.Monitor.begin, Checkpoints.save
def killed_begin(self, epoch, done):
    if moment == "begin" and epoch == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    begin(self, epoch, done)
def killed_save(self, step, arrays, progress):
    save(self, step, arrays, progress)
    if self.path.name == moment and progress["epoch"] == 3:  # it is being written
        os.kill(os.getpid(), signal.SIGKILL)
monitor.Monitor.begin, Checkpoints.save = killed_begin, killed_save
train.main_run(tiny.config(Path(sys.argv[1])), sys.argv[2])
"""


@pytest.mark.parametrize("moment", ["latest", *slow("begin", "best")])
def test_killed_and_resumed_equals_uninterrupted(moment, finished, corpus, tmp_path):
    killed = subprocess.run(
        [sys.executable, "-c", _KILLED, str(corpus), str(tmp_path / "run"), moment],
        cwd=ROOT,
        check=False,
        capture_output=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    train.main_run(tiny.config(corpus), tmp_path / "run")
    assert_same_run(tmp_path / "run", finished)


@pytest.mark.parametrize("moment", ["log", "best", "latest"])
def test_broken_off_between_saves_equals_uninterrupted(
    moment, finished, corpus, tmp_path, monkeypatch
):
    """A kill at the end of an epoch may follow metrics, best or latest checkpoint."""
    config = tiny.config(corpus)

    class Killed(BaseException):
        pass

    original_log, original_save = Workdir.log, Checkpoints.save

    def log(self, metrics):
        original_log(self, metrics)
        if moment == "log" and metrics["epoch"] == 3:
            raise Killed

    def save(self, step, arrays, progress):
        if self.path.name == moment == "latest" and progress["epoch"] == 3:
            raise Killed
        original_save(self, step, arrays, progress)
        if self.path.name == moment == "best" and progress["epoch"] == 3:
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Workdir, "log", log)
        patch.setattr(Checkpoints, "save", save)
        with pytest.raises(Killed):
            train.main_run(config, tmp_path / "run")
    assert [m["epoch"] for m in Workdir(tmp_path / "run").metrics()] == [1, 2, 3]
    train.main_run(config, tmp_path / "run")
    assert_same_run(tmp_path / "run", finished)


def test_a_best_checkpoint_that_was_not_written_is_saved_again(
    finished, corpus, tmp_path, monkeypatch
):
    """Both are written in the background, and the latest one may be done first."""
    assert Workdir(finished).read_json("result.json")["best_epoch"] == 3

    class Killed(BaseException):
        pass

    original = Checkpoints.save

    def save(self, step, arrays, progress):
        if (self.path.name, progress["epoch"]) != ("best", 3):
            original(self, step, arrays, progress)
        if (self.path.name, progress["epoch"]) == ("latest", 3):
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoints, "save", save)
        with pytest.raises(Killed):
            train.main_run(tiny.config(corpus), tmp_path / "run")
    train.main_run(tiny.config(corpus), tmp_path / "run")
    assert_same_run(tmp_path / "run", finished)


def test_prolonged_run_equals_a_long_one(finished, corpus, tmp_path):
    train.main_run(tiny.config(corpus, num_epochs=1), tmp_path / "run")
    assert len(metrics_without_times(tmp_path / "run")) == 1
    train.main_run(tiny.config(corpus, num_epochs=3), tmp_path / "run")
    assert_same_run(tmp_path / "run", finished)


def test_finished_run_trains_no_more(finished, corpus, monkeypatch):
    before = metrics_without_times(finished)
    monkeypatch.setattr(train.corpora.Corpus, "epoch", None)
    train.main_run(tiny.config(corpus), finished)
    assert metrics_without_times(finished) == before


def test_torn_metrics_line_is_dropped(finished, tmp_path):
    folder = Workdir(tmp_path)
    folder.write_text("metrics.jsonl", '{"epoch": 1}\n{"epoch": 2, "lo')
    assert folder.metrics() == [{"epoch": 1}]


def test_seed_decides(finished, corpus, tmp_path):
    config = tiny.config(corpus, num_epochs=1)
    config.seed = 1
    train.main_run(config, tmp_path / "run")
    assert (
        metrics_without_times(tmp_path / "run")[0] != metrics_without_times(finished)[0]
    )


def test_a_run_of_more_epochs_is_not_taken_for_one_of_fewer(corpus, tmp_path, finished):
    run = shutil.copytree(finished, tmp_path / "run")
    kept = (run / "config.json").read_bytes()
    with pytest.raises(ValueError, match=r"has trained 3 epochs, more than .*epochs=2"):
        train.main_run(tiny.config(corpus, num_epochs=2), run)
    assert (run / "config.json").read_bytes() == kept


def test_test_split_is_not_opened_while_training(corpus, tmp_path, monkeypatch):
    opened, original = [], formats.read

    def read(path, **options):
        opened.append(Path(path).stem)
        return original(path, **options)

    def epoch(*arguments):
        assert "test" not in opened
        return original_epoch(*arguments)

    original_epoch = train.corpora.Corpus.epoch
    monkeypatch.setattr(formats, "read", read)
    monkeypatch.setattr(train.corpora.Corpus, "epoch", epoch)
    train.main_run(tiny.config(corpus, num_epochs=1), tmp_path / "run")
    assert opened[-1] == "test"


def test_two_runs_in_one_folder_are_refused(corpus, tmp_path):
    with (
        Workdir(tmp_path / "run").locked(),
        pytest.raises(BlockingIOError, match="Another process is training"),
    ):
        train.main_run(tiny.config(corpus), tmp_path / "run")


def test_without_a_test_split_only_dev_is_scored(corpus, tmp_path, capsys):
    folder = tmp_path / "corpus"
    shutil.copytree(corpus, folder)
    (folder / "test.conll").unlink()
    result = train.main_run(tiny.config(folder, num_epochs=1), tmp_path / "run")
    assert "test" not in result
    assert result["dev"]["gold"] > 0
    out = capsys.readouterr().out
    assert out.index("the run scores only dev") < out.index("epoch   1")


def test_a_malformed_test_split_costs_no_dev_score(corpus, tmp_path):
    folder = tmp_path / "corpus"
    shutil.copytree(corpus, folder)
    (folder / "test.conll").write_text("a O\nb\n")
    with pytest.raises(InputError, match=r"test\.conll:2"):
        train.main_run(tiny.config(folder, num_epochs=1), tmp_path / "run")
    assert Workdir(tmp_path / "run").read_json("result.json")["dev"]["gold"] > 0


def test_types_that_only_dev_has_are_told(corpus, tmp_path, capsys):
    folder = tmp_path / "corpus"
    shutil.copytree(corpus, folder)
    with (folder / "dev.conll").open("a") as file:
        file.write("\nSmaug S-DRAGON\n")
    train.main_run(tiny.config(folder, num_epochs=1), tmp_path / "run")
    assert "dev has types that train lacks, which the tagger will miss: DRAGON" in (
        capsys.readouterr().out
    )


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("num_epochs", 0, "num_epochs must be at least 1, got 0"),
        ("batch_size", 0, "batch_size must be at least 1, got 0"),
        ("num_blocks", 0, "num_blocks must be at least 1, got 0"),
        ("data.num_shapes", 0, "num_shapes must be at least 1, got 0"),
        ("objective.reduction", "mean", "'mean'; known: sentence, token, sum"),
        ("optimizer.name", "adam", r"Unknown option optimizer\.momentum of adam"),
        ("data.scheme", "IOBES", "IOBES"),
        ("data.label_column", 0, "column"),
    ],
)
def test_unusable_values_leave_no_run_behind(path, value, message, corpus, tmp_path):
    config = tiny.config(corpus)
    section, _, name = path.rpartition(".")
    (config[section] if section else config)[name] = value
    with pytest.raises(ValueError, match=message):
        train.main_run(config, tmp_path / "run")
    assert not (tmp_path / "run" / "config.json").exists()


def test_a_training_split_without_entities_is_refused(tmp_path):
    for split in ("train", "dev", "test"):
        (tmp_path / f"{split}.conll").write_text("Nothing O\n\n")
    with pytest.raises(ValueError, match="no entities: all its labels are O"):
        train.main_run(tiny.config(tmp_path), tmp_path / "run")


def test_early_stopping(corpus, tmp_path):
    config = tiny.config(corpus, num_epochs=20)
    config.optimizer.learning_rate = 0.0  # nothing improves on the first epoch
    config.patience = 2
    result = train.main_run(config, tmp_path / "run")
    assert result["best_epoch"] == 1
    assert len(metrics_without_times(tmp_path / "run")) == 3


def test_the_screen_says_what_is_trained_and_what_comes_next(corpus, tmp_path, capsys):
    config = tiny.config(corpus, num_epochs=2)
    config.data.num_shapes = 3
    train.main_run(config, tmp_path / "run", "my_config")
    lines = capsys.readouterr().out.splitlines()
    (head,) = (line for line in lines if line.startswith("my_config"))
    for part in ("seed 0", "rate 0.1", str(tmp_path / "run")):
        assert part in head
    assert any(re.search(r"^12 batches.* shapes? to compile$", line) for line in lines)
    assert sum("Scored dev in" in line for line in lines) == 1
    best = Workdir(tmp_path / "run").read_json("result.json")["best_epoch"]
    (end,) = (line for line in lines if line.startswith("Best: epoch"))
    assert f"epoch {best}," in end
    assert f"evaluate --workdir {tmp_path / 'run'}" in end


def test_tensorboard_scalars(corpus, tmp_path):
    config = tiny.config(corpus, num_epochs=1)
    config.tensorboard = True
    train.main_run(config, tmp_path / "run")
    assert list((tmp_path / "run" / "tensorboard").glob("events*"))


def test_another_config_is_refused(finished, corpus):
    config = tiny.config(corpus)
    config.model.head.dropout = 0.25
    with pytest.raises(
        ValueError, match=r"model\.head\.dropout: 0\.1 there, 0\.25 now"
    ):
        train.main_run(config, finished)


@pytest.mark.parametrize("split", ["train", "dev"])
def test_changed_data_are_refused(split, corpus, tmp_path):
    shutil.copytree(corpus, tmp_path / "corpus")
    config = tiny.config(tmp_path / "corpus", num_epochs=1)
    train.main_run(config, tmp_path / "run")
    with (tmp_path / "corpus" / f"{split}.conll").open("a", encoding="utf-8") as file:
        file.write("\nMore O\n")
    config.num_epochs = 2
    with pytest.raises(
        ValueError, match=rf"this has changed: {split} \(.*{split}\.conll"
    ):
        train.main_run(config, tmp_path / "run")


def test_divergence_is_an_error(corpus, tmp_path):
    config = tiny.config(corpus, num_epochs=2)
    config.optimizer.learning_rate = 1e30
    config.optimizer.clip_norm = 1e30
    with pytest.raises(FloatingPointError, match=r"Try a lower .*learning_rate"):
        train.main_run(config, tmp_path / "run")
    assert not (tmp_path / "run" / "result.json").exists()


@pytest.mark.slow
def test_a_diverging_run_ends_with_a_line_and_a_status(corpus, tmp_path):
    command = ["train.py", "--config=configs/grn.py", f"--workdir={tmp_path / 'run'}"]
    command += [f"--config.{name}={value}" for name, value in tiny.SMALL.items()]
    command += [f"--config.data.dir={corpus}", "--config.optimizer.clip_norm=1e30"]
    done = run_script(*command, "--config.optimizer.learning_rate=1e30")
    assert done.returncode == 1
    last = (done.stdout + done.stderr).splitlines()[-1]
    assert "loss" in last
    assert "Traceback" not in done.stdout + done.stderr


def vectors_file(folder, dim=8, words=("the", "of", "said", "Estravia")):
    rows = [" ".join([w, *(["0.5"] * dim)]) for w in words]
    path = folder / "vectors.txt"
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return str(path)


def test_vectors_of_another_length_are_refused(corpus, tmp_path):
    config = tiny.config(corpus)
    config.data.vectors = vectors_file(tmp_path, dim=5)
    with pytest.raises(ValueError, match=r"5 dimensions.*words\.dim=5"):
        train.main_run(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_vectors_that_match_too_little_are_refused(corpus, tmp_path):
    config = tiny.config(corpus)
    config.data.vectors = vectors_file(tmp_path)
    with pytest.raises(ValueError, match=r"expected at least 50% of the words"):
        train.main_run(config, tmp_path / "run")


@pytest.mark.slow
def test_frozen_vectors_are_restored(corpus, tmp_path):
    config = tiny.config(corpus, num_epochs=1)
    strangers = tuple(f"w{i}" for i in range(40))
    words = ("the", "of", *strangers)
    config.data.vectors = vectors_file(tmp_path, words=words)
    config.data.min_vector_match = 0.0
    config.data.standardise_vectors = True
    train.main_run(config, tmp_path / "run")
    params = jaxner.load(tmp_path / "run")
    frozen = params.weights["frozen"]["representation"]["words"]["vectors"]
    # These have a vector, also by their lower case; other training words are drawn.
    drawn = models.init(params.model, jax.random.key(config.seed))["params"][
        "representation"
    ]["words"]
    table = np.array(drawn["trained"])
    given = [i for i, w in enumerate(params.vocabulary.words) if w.lower() in words[:2]]
    table[given] = 0.5
    expected = np.full((40, 8), 0.5 / table[1:].std(), np.float32)
    np.testing.assert_allclose(frozen, expected, rtol=1e-5)
    assert params.vocabulary.words[-40:] == strangers
    record = Workdir(tmp_path / "run").read_json("environment.json")["data"]["vectors"]
    content = Path(config.data.vectors).read_bytes()
    assert record["sha256"] == hashlib.sha256(content).hexdigest()


@pytest.mark.slow
def test_the_rule_picks_the_best_epoch_and_scores_the_result(
    corpus, tmp_path, evaluated
):
    config = tiny.config(corpus, num_epochs=9)
    config.model.head = {"name": "softmax", "dropout": 0.0}  # ill-formed labels occur
    config.evaluation.rule = "x"
    with pytest.raises(
        ValueError, match=r"evaluation\.rule 'x'; known: conlleval, strict"
    ):
        train.main_run(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()
    config.evaluation.rule = "strict"
    train.main_run(config, tmp_path / "run")
    folder = Workdir(tmp_path / "run")
    result, metrics = folder.read_json("result.json"), folder.metrics()
    best = max(metrics, key=lambda each: each["dev_f1"])
    assert result["best_epoch"] == best["epoch"]
    assert result["dev"]["f1"] == best["dev_f1"]
    # The same predictions by both rules.
    params = jaxner.load(tmp_path / "run")
    dev = corpora.load(None, "dev", directory=corpus)
    labels = tagging.label_split(params, dev, constrained=False)
    for rule, found in (
        ("strict", result["dev"]["f1"]),
        ("conlleval", result["dev"]["by_conlleval"]),
    ):
        expected = scoring.score(*labels, rule=rule, scheme="BIOES").f1
        assert found == pytest.approx(100 * expected, abs=1e-9)
    assert result["dev"]["rule"] == "strict"
    assert result["dev"]["f1"] != result["dev"]["by_conlleval"]
    # What scores the run later goes by the same rule, if it is not told.
    strict = evaluated("--workdir", tmp_path / "run", "--split=dev")
    assert (strict["rule"], strict["f1"]) == ("strict", result["dev"]["f1"])
    loose = evaluated("--workdir", tmp_path / "run", "--split=dev", "--rule=seqeval")
    assert loose["f1"] == pytest.approx(result["dev"]["by_conlleval"])
    # Its line in the results has both figures.
    cell = plan.Cell("grn/tiny", "grn", "Chen", "GRN", "grn:files", rule="strict")
    line = results.line_of(plan.Job(cell, 0), {}, "cpu", folder.path)
    for split in ("dev", "test"):
        its = result[split]
        expected = {"strict": its["f1"], "conlleval": its["by_conlleval"]}
        assert line[split] == pytest.approx(expected, abs=1e-4)


@pytest.mark.slow
def test_the_norms_of_parts_are_written_for_each_epoch(corpus, tmp_path):
    config = tiny.config(corpus, num_epochs=2)
    config.optimizer.parts = {"encoder": {"name": "sgd", "learning_rate": 0.1}}
    train.main_run(config, tmp_path / "run")
    for metrics in Workdir(tmp_path / "run").metrics():
        assert metrics["gradient_norm_encoder"] > 0
        assert metrics["gradient_norm_rest"] > 0


def test_odd_vector_rows_are_told(corpus, tmp_path, capsys):
    config = tiny.config(corpus, num_epochs=1)
    path = vectors_file(tmp_path, words=[f"w{i}" for i in range(40)])
    with open(path, "a", encoding="utf-8") as file:
        file.write("broken 1 2\nw1" + " 1" * 8 + "\n")
    config.data.vectors, config.data.min_vector_match = path, 0.0
    train.main_run(config, tmp_path / "run")
    out = capsys.readouterr().out
    assert "40 vectors of 8 dimensions" in out
    assert "skipped 1 malformed row and 1 repeated word" in out
    assert "broken" in out


def run_script(*arguments, **options):
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
        **options,
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--config", "grm"], "Did you mean 'grn'?"),
        (["--config", "configs/grn.py", "--config.model.head.dropuot=0.1"], "dropout"),
        *slow(
            (["--config", "grn:files"], "--config.data.dir must be the folder with"),
            (
                ["--config", "configs/grn.py:conll2003,context=no", "--verbosity=1"],
                "Traceback",
            ),
            (["--config", "configs/grn.py:conl2003"], "Unknown data set 'conl2003'"),
            (["--config", "gnr:sample"], "No config 'gnr'; known: bert, "),
            (["--config", "my/grn.py"], "No config file 'my/grn.py'; known: bert, "),
            (["--config", "configs/grn.py:sample,relatoin=none"], "'relation'"),
            (["--config", "configs/grn.py", "--config.data.dir=/nowhere"], "/nowhere"),
            (["--config", "configs/grn.py", "extra"], "Expected flags only"),
            (["--config", "grn", "--config.data.dir=README.md"], "is a file"),
            ([], "--config must name a config, as in --config grn:sample"),
            (
                ["--config", "grn", "--config.data.vectors=docs"],
                "must be a file, got the",
            ),
            (
                ["--config", "grn", "--config.data.encoding=u"],
                "Unknown --config.data.enc",
            ),
            (
                ["--config", "grn:sample,head=scores"],
                "train: head=scores takes scores of",
            ),
            (
                ["--config", "grn", "--config.seed=-1"],
                "--config.seed must be at least 0 and at most 42949",
            ),
            (
                ["--config", "grn", "--config.optimizer.learning_rate=-1"],
                "--config.optimizer.learning_rate must be at least 0, got -1.0",
            ),
        ),
    ],
)
def test_wrong_command_lines_say_what_is_wrong(arguments, message, tmp_path):
    arguments = [*arguments, "--workdir", str(tmp_path / "run")]
    done = run_script("train.py", *arguments)
    assert done.returncode
    assert message in done.stdout + done.stderr
    if message != "Traceback":
        assert len((done.stdout + done.stderr).splitlines()) == 1
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_sigterm_of_the_script_saves_and_the_same_command_resumes(corpus, tmp_path):
    command = ["train.py", "--config=configs/grn.py", "--config.num_epochs=2"]
    command += [f"--config.{name}={value}" for name, value in tiny.SMALL.items()]
    command += [f"--config.data.dir={corpus}", f"--workdir={tmp_path / 'run'}"]
    process = subprocess.Popen(
        [sys.executable, *command], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 120
    metrics = tmp_path / "run" / "metrics.jsonl"
    while not (metrics.exists() and metrics.read_text()):
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=120)
    if process.returncode:  # else the run was already over
        assert process.returncode == 128 + signal.SIGTERM
        assert "the same command resumes" in out
    done = run_script(*command)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(metrics.read_text().splitlines()) == 2
    assert json.loads((tmp_path / "run" / "result.json").read_text())["test"]


def test_equal_runs_write_equal_bytes(finished, corpus, tmp_path):
    train.main_run(tiny.config(corpus), tmp_path / "run")
    for name in ("vocabulary.json", "predictions-dev.conll", "predictions-test.conll"):
        texts = [(Path(f) / name).read_bytes() for f in (finished, tmp_path / "run")]
        assert texts[0] == texts[1]
    assert_same_run(tmp_path / "run", finished)


def test_what_makes_a_gpu_deterministic_is_set_once(monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", f"--xla_one=1 {cluster.DETERMINISTIC[0]}")
    cluster.make_deterministic()
    cluster.make_deterministic()
    given = os.environ["XLA_FLAGS"].split()
    assert given == ["--xla_one=1", *cluster.DETERMINISTIC]
