"""The training script: what it writes, how it resumes, and what it refuses."""

import dataclasses
import hashlib
import json
import os
import re
import shutil
import signal
import sys
import warnings
from pathlib import Path

import jax
import numpy as np
import pytest

import jaxner
from jaxner import cli, models
from jaxner.checkpoints import Checkpoints
from jaxner.data import corpora
from jaxner.errors import InputError
from jaxner.evaluation import predictions, scoring
from jaxner.runs import Workdir
from jaxner.serving.programs import Programs
from jaxner.tagger import ensemble
from jaxner.training import environment, train
from jaxner.training.corpus import split_of_run
from tests import tiny
from tests.marks import slow
from tests.training import runs


@pytest.fixture
def copy(corpus, tmp_path):
    return shutil.copytree(corpus, tmp_path / "corpus")


@pytest.fixture(scope="module")
def whole(corpus, tmp_path_factory):
    """The folder of a run that nothing stopped."""
    folder = tmp_path_factory.mktemp("runs") / "whole"
    train.main_run(tiny.plain_config(corpus), folder)
    return folder


# --- What a run writes ----------------------------------------------------------------


def test_the_commits_of_a_resumed_run_are_kept(tmp_path):
    folder, commit = Workdir(tmp_path / "run"), environment.commit()
    record = {"commits": [commit]}
    assert environment.continued(folder, record) == record
    for old, expected in ((["1234567"], ["1234567", commit]), ([commit], [commit])):
        folder.write_json("environment.json", {"commits": old})
        assert environment.continued(folder, record) == {"commits": expected}


def test_run_folder(tiny_run, corpus, params):
    folder = Workdir(tiny_run)
    assert folder.read_json("config.json")["model"]["encoder"]["hidden_dim"] == 32
    record = folder.read_json("environment.json")
    assert record["precision"] == "highest"
    assert record["versions"]["jax"] == jax.__version__
    assert record["commits"] == [environment.commit()]
    assert len(record["data"]["train"]["sha256"]) == 64
    assert "test" not in record["data"]
    lines = folder.metrics()
    assert [line["epoch"] for line in lines] == [1, 2, 3]
    assert lines[0]["loss"] > lines[-1]["loss"]
    names = "epoch step loss seconds dev_precision dev_recall dev_f1 dev_ill_formed"
    assert {*lines[0]} == {*names.split()}
    result, f1 = folder.read_json("result.json"), [m["dev_f1"] for m in lines]
    assert result["best_epoch"] == 1 + int(np.argmax(f1))
    assert result["dev"]["f1"] == pytest.approx(max(f1))
    assert result["test"]["rule"] == "conlleval"
    test = corpora.load(None, "test", directory=corpus)
    gold, predicted = predictions.read(folder.predictions("test"))
    assert list(gold) == [e.labels for e in test.to_scheme("BIOES")]
    tokens = [list(example.tokens) for example in test.examples]
    assert [list(labels) for labels in predicted] == jaxner.tag(params, tokens)
    f1 = 100 * scoring.score(gold, predicted).f1
    assert f1 == pytest.approx(result["test"]["f1"])
    assert not list(folder.path.rglob("*.tmp"))


def test_a_run_tells_what_it_does(copy, tmp_path, capsys, monkeypatch):
    """On the screen and for TensorBoard, what is odd included; vectors are kept."""
    (copy / "test.conll").unlink()
    with (copy / "dev.conll").open("a") as file:
        file.write("\nSmaug S-DRAGON\n")
    config, strangers = tiny.plain_config(copy, 1), [f"w{i}" for i in range(40)]
    path = runs.write_vectors(tmp_path, ["the", "of", *strangers])
    with open(path, "a", encoding="utf-8") as file:
        file.write("broken 1 2\nw1" + " 1" * 8 + "\n")
    config.data.vectors, config.data.min_vector_match = path, 0.0
    config.data.standardise_vectors = config.tensorboard = True
    config.optimizer.parts = {"encoder": {"name": "sgd", "learning_rate": 0.1}}
    config.seed = 1
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "tensorboardX", None)
        with pytest.raises(ImportError, match="needs tensorboardX"):
            train.main_run(config, tmp_path / "run")
    assert "Reading" not in capsys.readouterr().out
    result = train.main_run(config, tmp_path / "run", "my_config")
    output = capsys.readouterr().out
    for part in ("my_config", str(tmp_path / "run"), "DRAGON", "42 vectors", "broken"):
        assert part in output
    assert "--tokenizer" not in output
    assert "test" not in result
    (metrics,) = Workdir(tmp_path / "run").metrics()
    assert metrics["gradient_norm_encoder"] > 0
    assert metrics["gradient_norm_rest"] > 0
    assert list((tmp_path / "run" / "tensorboard").glob("events*"))
    record = Workdir(tmp_path / "run").read_json("environment.json")["data"]["vectors"]
    assert record["sha256"] == hashlib.sha256(Path(path).read_bytes()).hexdigest()
    # Words have a vector also by their lower case; other training words are drawn.
    tagger = jaxner.load(tmp_path / "run")
    words = tagger.vocabulary.words
    params = models.init(tagger.model, jax.random.key(1))["params"]
    table = np.array(params["representation"]["words"]["trained"])
    table[[i for i, word in enumerate(words) if word.lower() in ("the", "of")]] = 0.5
    expected = np.full((40, 8), 0.5 / table[1:].std(), np.float32)
    frozen = tagger.weights["frozen"]["representation"]["words"]["vectors"]
    np.testing.assert_allclose(frozen, expected, rtol=1e-5)
    assert list(words[-40:]) == strangers


@pytest.mark.parametrize("problem", [r"test\.conll:2: expected 2 col", "No file"])
def test_the_test_split_is_opened_when_all_else_is_done(problem, copy, tmp_path):
    (path := copy / "test.conll").unlink(missing_ok=True)
    path.symlink_to("away") if problem == "No file" else path.write_text("a O\nb\n")
    with pytest.warns(match=f"test is not scored: .*{problem}"):
        result = train.main_run(tiny.plain_config(copy, 1), tmp_path / "run")
    assert result["dev"]["gold"] > 0
    assert "test" not in result
    assert (tmp_path / "run" / "README.md").is_file()


# --- Data -----------------------------------------------------------------------------


def load_data(folder, log=lambda text: None, **options):
    options = tiny.config(folder).data.to_dict() | options
    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always")
        data = train.corpora.load_data(options, word_dim=8, log=log)
    return data, [str(warning.message) for warning in notes]


def test_a_run_says_what_looks_wrong(copy):
    assert not load_data(copy)[1]
    with (copy / "train.conll").open("a") as file:
        file.write("[/b] O\n\xa0 O\n")
    _, (warning,) = load_data(copy)
    assert "train.conll:" in warning
    assert any("min_count" in line for line in load_data(copy, min_count=9)[1])
    (copy / "train.conll").write_text("Nothing O\n\n")
    with pytest.raises(InputError, match="no entities"):
        load_data(copy)


def test_a_run_without_vectors_says_what_they_would_bring(copy):
    """Words are unknown as the tagger reads them, here in lower case."""
    (copy / "train.conll").write_text("Rome B-LOC\nfell O\n")
    (copy / "dev.conll").write_text("rome B-LOC\nFELL O\nwas O\nat O\n")
    for options, share in (({"lowercase": True}, "50%"), ({}, "75%")):
        lines = []
        load_data(copy, lines.append, name="files", **options)
        assert f"No word vectors: {share} of dev's tokens" in "\n".join(lines)
    lines = []
    load_data(copy, lines.append)  # a corpus of its own
    assert "No word vectors" not in "\n".join(lines)


def test_dev_is_taken_from_train(copy):
    with pytest.raises(ValueError, match=r"dev\.conll"):
        load_data(copy, split_dev=0.1)
    (copy / "dev.conll").unlink()
    with pytest.raises(FileNotFoundError, match="split_dev"):
        load_data(copy)
    data, _ = load_data(copy, split_dev=0.2)
    whole = corpora.load(None, "train", directory=copy)
    assert len(data.sentences) + len(data.dev.examples) == len(whole.examples)


# --- Resuming -------------------------------------------------------------------------


def test_stopped_and_resumed_equals_uninterrupted(whole, corpus, tmp_path, monkeypatch):
    """Within an epoch, after the last step of one, and while dev is scored."""
    config, label, calls = tiny.plain_config(corpus), train.tagging.label_split, []
    seconds = []

    def scoring_dev(*arguments, **options):
        calls.append(arguments)
        if len(calls) == 2:
            os.kill(os.getpid(), signal.SIGINT)
        return label(*arguments, **options)

    with monkeypatch.context() as patch:
        runs.stop_before(patch, (3, 12, 20), signal.SIGINT)
        patch.setattr(train.tagging, "label_split", scoring_dev)
        for step, num_scored in ((3, 0), (12, 0), (20, 1), (24, 2)):
            with pytest.raises(SystemExit) as stop:
                train.main_run(config, tmp_path / "run")
            assert (stop.value.code, len(calls)) == (130, num_scored)
            latest = Checkpoints(tmp_path / "run" / "checkpoints" / "latest")
            assert latest.step == step
            seconds.append(latest.progress()["seconds"])
    assert 0 < seconds[0] < seconds[1]  # both within the first epoch
    assert not (tmp_path / "run" / "result.json").exists()
    train.main_run(config, tmp_path / "run")
    runs.assert_same_run(tmp_path / "run", whole)
    first, *_ = Workdir(tmp_path / "run").metrics()
    assert first["seconds"] >= round(seconds[1], 2)


@pytest.mark.parametrize("moment", ["log", "best", "no best"])
def test_broken_off_between_saves_equals_uninterrupted(
    moment, whole, corpus, tmp_path, monkeypatch
):
    """A kill at the end of an epoch may follow metrics or the best checkpoint.

    A copy of a run that goes on may have an older best one than its latest.
    """
    config = tiny.plain_config(corpus)
    assert Workdir(whole).read_json("result.json")["best_epoch"] == 3
    train.main_run(tiny.plain_config(corpus, 1), tmp_path / "run")  # then prolonged
    original = Checkpoints.save

    class Killed(BaseException):
        pass

    def save(self, step, arrays, progress):
        name = self.path.name if step == 36 else ""
        if (name, moment) == ("best", "log"):
            raise Killed
        if (name, moment) != ("best", "no best"):
            original(self, step, arrays, progress)
        if (name, moment) in (("best", "best"), ("latest", "no best")):
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoints, "save", save)
        with pytest.raises(Killed):
            train.main_run(config, tmp_path / "run")
    assert [m["epoch"] for m in Workdir(tmp_path / "run").metrics()] == [1, 2, 3]
    left = {"config.json", "environment.json", "vocabulary.json", "metrics.jsonl"}
    names = {file.name for file in (tmp_path / "run").iterdir()}
    assert names == left | {".lock", "checkpoints"}  # no scores of the first epoch
    train.main_run(config, tmp_path / "run")
    runs.assert_same_run(tmp_path / "run", whole)


def test_broken_off_between_records_equals_uninterrupted(
    whole, corpus, tmp_path, monkeypatch
):
    config, write = tiny.plain_config(corpus), Workdir.write_text
    for last in ("vocabulary.json", "environment.json", "metrics.jsonl"):

        def write_text(self, name, text, last=last):
            if name == last:
                raise KeyboardInterrupt
            write(self, name, text)

        with monkeypatch.context() as patch:
            patch.setattr(Workdir, "write_text", write_text)
            with pytest.raises(KeyboardInterrupt):
                train.main_run(config, tmp_path / "run")
    train.main_run(config, tmp_path / "run")
    runs.assert_same_run(tmp_path / "run", whole)


def test_prolonged_run_equals_a_long_one(whole, corpus, tmp_path, monkeypatch):
    folder = tmp_path / "run"
    for number in (1, 3):
        train.main_run(tiny.plain_config(corpus, number), folder)
        assert len(runs.metrics_of(folder)) == number
    runs.assert_same_run(folder, whole)
    config = (folder / "config.json").read_bytes()
    with pytest.raises(InputError, match="3 epochs"):
        train.main_run(tiny.plain_config(corpus, 2), folder)
    assert (folder / "config.json").read_bytes() == config
    monkeypatch.setattr(train.corpora.Corpus, "epoch", None)  # it trains no more
    train.main_run(tiny.plain_config(corpus), folder)
    runs.assert_same_run(folder, whole)
    program = train.Program(tiny.plain_config(corpus), Workdir(folder), None)
    with program.opened():
        program.resume()
        assert program.show.first_loss == runs.losses(folder)[0]


# --- What a run refuses ---------------------------------------------------------------


def test_minutes_set_the_epochs_and_the_trial_leaves_no_trace(corpus, tmp_path, capsys):
    """Rates depend on the epochs; the same command resumes.

    A step of a corpus of one batch is tried, too, after it is compiled.
    """

    def config_of(**options):
        config = tiny.plain_config(corpus)
        config.optimizer.update(warmup=0.5, decay=None)
        config.update(options)
        return config

    results, folders = [], [tmp_path / "timed", tmp_path / "counted"]
    trial = {"minutes": 1e-4, "num_epochs": 9}
    for folder, options in zip(folders, (trial, {"num_epochs": 1}), strict=True):
        train.main_run(config_of(**options), folder)
        results.append(jaxner.load(folder).weights)
    text = capsys.readouterr().out
    assert "1 epoch, more than is left of 0.0001 minutes" in text
    trying, _, training = text.partition("An epoch takes")
    assert all("Compiling 1 of " in part for part in (trying, training))
    jax.tree.map(np.testing.assert_array_equal, *results)
    train.main_run(second := config_of(**trial), folders[0])
    assert second.num_epochs == 1
    shutil.rmtree(folders[0] / "checkpoints")  # as killed in the first epoch
    train.main_run(config_of(**trial), folders[0])
    begun = Workdir(tmp_path / "begun")
    begun.write_json("config.json", config_of(minutes=2, num_epochs=5).to_dict())
    with pytest.raises(InputError, match="rates depend on num_epochs"):
        train.main_run(config_of(minutes=2, num_epochs=3), begun.path)
    counts, most = [], 10**6
    for minutes, size, limit in ((1, 4, most), (20, 4, most), (1, 99, most), (1, 4, 2)):
        config = config_of(minutes=minutes, batch_size=size, num_epochs=limit)
        program = train.Program(config, Workdir(tmp_path / "new"), None)
        program.fit_epochs(60.0 * minutes)
        counts.append(config.num_epochs)
    assert 1 < counts[0] < counts[1]
    assert counts[2] > counts[0] / 20  # a fiftieth, with compiling
    assert counts[3] == 2
    assert "all 2 epochs in 1 minute\n" in capsys.readouterr().out
    with pytest.raises(InputError, match="minutes needs one seed and one process"):
        train.main_run(config_of(minutes=1, num_seeds=2), tmp_path / "new")


def test_more_sentences_have_fewer_epochs(corpus, tmp_path, monkeypatch):
    """Without a number; the same command resumes the number that the run has."""
    counts = []
    for usual, fewest in ((1, 1), (12, 9), (99, 12), (30, 21), (99, 99)):
        config = tiny.plain_config(corpus)
        program = train.Program(config, Workdir(tmp_path / "new"), None)
        steps = usual * program.num_steps, fewest * program.num_steps
        monkeypatch.setattr(train, "_STEPS", steps)
        config.num_epochs = config.patience = None
        train.Program(config, Workdir(tmp_path / "new"), None)
        counts.append((config.num_epochs, config.patience))
    assert counts == [(8, 10), (12, 10), (20, 12), (21, 21), (50, 99)]
    for bounds in ((1, 1), (2, 2)):
        monkeypatch.setattr(train, "_EPOCHS", [bounds] * 2)
        config = tiny.plain_config(corpus)
        config.num_epochs = None
        train.main_run(config, tmp_path / "run")
        assert config.num_epochs == 1


def test_a_run_that_is_late_stops_with_its_best_epoch(
    corpus, tmp_path, monkeypatch, capsys
):
    """As if the machine were busier than in the trial; the same command trains on."""
    monkeypatch.setattr(train.Program, "fit_epochs", lambda self, seconds: None)
    for epoch in (1, 2):
        config = tiny.plain_config(corpus, 9)
        config.minutes = 1e-4
        train.main_run(config, tmp_path / "run")
        text = f"Stopped after epoch {epoch} of 9: more than 0.0001 minutes"
        assert text in capsys.readouterr().out
        assert len(Workdir(tmp_path / "run").metrics()) == epoch
        assert (tmp_path / "run" / "result.json").exists()


@pytest.mark.parametrize("part", ["optimizer", "optimizer.parts.encoder"])
def test_epochs_on_which_rates_depend_stay(part, corpus, tmp_path):
    """The same number resumes; another one would change the rates of its steps."""

    def train_for(epochs):
        config = tiny.plain_config(corpus, epochs)
        config.optimizer.parts = {"encoder": {"name": "sgd", "learning_rate": 0.1}}
        options = {f"{part}.warmup": 0.1, f"{part}.decay": None}
        config.update_from_flattened_dict(options)
        train.main_run(config, tmp_path / "run")

    train_for(1)
    train_for(1)
    with pytest.raises(ValueError, match=r"num_epochs: 1 there, 2 now\nWith .*warmup"):
        train_for(2)
    assert len(runs.metrics_of(tmp_path / "run")) == 1


def test_changed_data_are_refused(copy, copied_run):
    tiny.with_data(copied_run, dir=str(copy))
    with (copy / "dev.conll").open("a", encoding="utf-8") as file:
        file.write("\nMore O\n")
    with pytest.raises(ValueError, match=r"changed: dev \(.*dev\.conll"):
        train.main_run(tiny.config(copy), copied_run)


@pytest.mark.parametrize("num_seeds", [1, 2])
def test_a_relative_path_leads_to_the_same_data_from_anywhere(
    num_seeds, corpus, tmp_path, monkeypatch
):
    config = tiny.plain_config(Path("data"), 1)
    config.num_seeds, run = num_seeds, Workdir(tmp_path / "run")
    shutil.copytree(corpus, tmp_path / "data")
    monkeypatch.chdir(tmp_path)
    train.main_run(config, run.path)
    lines = (tmp_path / "data" / "train.conll").read_text("utf-8").split("\n\n")
    other = tmp_path / "other"
    shutil.copytree(corpus, other / "data")
    (other / "data" / "train.conll").write_text("\n\n".join(lines[1:]), "utf-8")
    monkeypatch.chdir(other)
    with pytest.raises(InputError, match="this has changed: train"):
        train.main_run(config, run.path)
    train_split = split_of_run(run, "train")
    assert train_split.path == tmp_path / "data" / "train.conll"
    (tmp_path / "data").rename(tmp_path / "moved")
    config.data.dir = "../moved"
    train.main_run(config, run.path)
    assert split_of_run(run, "train").sha256 == train_split.sha256
    (tmp_path / "moved" / "test.conll").write_text("\n\n".join(lines[1:]), "utf-8")
    with pytest.warns(UserWarning, match="is not the test file of the run"):
        train.main_run(config, run.path)
    home = next(map(run.seed, run.seeds()), run)
    figures = home.read_json("result.json")["test"]
    (tmp_path / "moved" / "test.conll").unlink()
    train.main_run(config, run.path)
    assert home.read_json("result.json")["test"] == figures


def test_figures_of_a_lost_checkpoint_are_not_those_of_its_heir(copy, tmp_path):
    config, run = tiny.plain_config(copy, 2), Workdir(tmp_path / "run")
    config.optimizer.learning_rate = 0.0  # so that the first epoch is the best
    assert "test" in train.main_run(config, run.path)
    shutil.rmtree(run.part("best"))
    (copy / "test.conll").unlink()
    assert "test" not in train.main_run(config, run.path)


def test_a_run_on_characters_names_the_tokenizer(tmp_path, capsys):
    text = "".join(f"{x} O\n" for x in ("น้ำ", "ภู", "ก็", "ต", "Rome"))
    text += "北 B-LOC\n京 I-LOC\n\n"
    (tmp_path / "train.conll").write_text(text, "utf-8")
    (tmp_path / "dev.conll").write_text(text[text.index("Rome") :], "utf-8")
    train.main_run(tiny.plain_config(tmp_path, 1), tmp_path / "run")
    assert "jaxner tag" in (output := capsys.readouterr().out)
    assert output.count("FILE --tokenizer characters\n") == 1


def test_a_tagger_splits_texts_as_its_run_did(tmp_path, run):
    (tmp_path / "data").mkdir()
    text, folder, file = "他在北京。" * 2, tmp_path / "run", tmp_path / "tagger.zip"
    spans = [(2, 4, "LOC"), (7, 9, "LOC")]
    for name, words in (("train.jsonl", "在他北京。" * 2), ("dev.jsonl", text)):
        line = json.dumps({"text": words, "spans": spans})
        (tmp_path / "data" / name).write_text(line, "utf-8")
    config = tiny.plain_config(tmp_path / "data", 9)
    config.data.tokenizer = "characters"
    train.main_run(config, folder)
    tagger = jaxner.load(folder)
    jaxner.export(tagger, file)
    rebuilt = jaxner.load_exported(file, program=False)
    jaxner.save(tmp_path / "saved", tagger)
    saved, pair = jaxner.load(tmp_path / "saved"), ensemble([tagger, tagger])
    exported = jaxner.load_exported(file)
    for copy in (tagger, saved, pair, pair.member(1), exported, rebuilt):
        answer = copy.entities(text)
        assert [(e.start_char, e.end_char, e.type) for e in answer] == spans
    assert tagger.entities(text, tokenizer="words") != answer
    assert jaxner.evaluate(saved, tmp_path / "data" / "dev.jsonl").f1 == 1
    output = run("evaluate", folder, "--tokenizer", "words", "--blank", "drop")[1]
    assert "tokenizer=characters" in output
    (tmp_path / "a.txt").write_text(text, "utf-8")
    for name, *options in (
        ("show", "--json"),
        ("show", "--json", "--one-sentence-a-line"),
        ("tag",),
    ):
        output = run(name, folder, tmp_path / "a.txt", *options)[1]
        assert output.count('"text": "北京"') == 2, options
    assert Programs(tagger, 16, 16).tokenizer == "characters"
    # A run from before texts had sentences stays what it is.
    content = Workdir(folder).read_json("config.json")
    del content["data"]["split_sentences"]
    Workdir(folder).write_json("config.json", content)
    assert train.main_run(config, folder)["dev"]["sentences"] == 1


# --- The choice of the epoch ----------------------------------------------------------


@pytest.mark.parametrize("patience", [0, 2])
def test_a_few_drawn_sentences_choose_no_epoch(patience, copy, tmp_path, capsys):
    """Unless they end the run."""
    (copy / "dev.conll").unlink()
    config = tiny.plain_config(copy, 3)
    config.data.split_dev, config.patience = 0.05, patience
    config.optimizer.learning_rate = 0.0  # so that no epoch is better than the first
    result = train.main_run(config, tmp_path / "run")
    output = capsys.readouterr().out
    assert ("2 sentences: the last epoch is kept" in output) is not bool(patience)
    assert result["best_epoch"] == (1 if patience else 3)
    assert result["chosen_by"] == ("dev f1" if patience else "last epoch")
    config.patience = 0  # what dev has chosen remains its choice until a later epoch
    assert train.main_run(config, tmp_path / "run")["chosen_by"] == result["chosen_by"]
    config.num_epochs = 4
    result = train.main_run(config, tmp_path / "run")
    assert (result["best_epoch"], result["chosen_by"]) == (4, "last epoch")


@pytest.mark.parametrize("num_seeds", [1, *slow(2)])
def test_dev_without_entities_keeps_the_last_epoch(num_seeds, copy, tmp_path, capsys):
    """Resumed or not; patience, which has nothing to wait for, stops nothing."""
    (copy / "dev.conll").write_text("it O\nrained O\n\nnobody O\ncame O\n")

    def result_of(name, *epochs):
        for number in epochs:
            config = tiny.plain_config(copy, number)
            config.patience, config.num_seeds = 1, num_seeds
            config.restarts = "together"
            train.main_run(config, tmp_path / name)
        folder = Workdir(tmp_path / name)
        return folder if num_seeds == 1 else folder.seed(config.seed)

    with pytest.warns(UserWarning, match="dev has no entities"):
        whole = result_of("whole", 3)
    with pytest.warns(UserWarning, match="dev has no entities"):
        rival = result_of("resumed", 1, 3)
    runs.assert_same_run(rival.path, whole.path)
    result = whole.read_json("result.json")
    assert (result["best_epoch"], result["chosen_by"]) == (3, "last epoch")
    assert "The last epoch" in (whole.path / "README.md").read_text("utf-8")
    output = capsys.readouterr().out
    assert "jaxner report" in output
    assert "jaxner check" not in output  # against labels of a tagger that has none


def test_patience_counts_from_the_first_score_above_0(
    corpus, tmp_path, monkeypatch, capsys
):
    score, calls = scoring.Task.score, []

    def delayed(*args, **options):
        calls.append(score(*args, **options))
        right = calls[-1].counts * [len(calls) > 3, 1, 1]
        return dataclasses.replace(calls[-1], counts=right)

    monkeypatch.setattr(scoring.Task, "score", delayed)
    config = tiny.plain_config(corpus, 6)
    config.patience = 1
    result = train.main_run(config, tmp_path / "run")
    f1 = [line["dev_f1"] or 0.0 for line in Workdir(tmp_path / "run").metrics()]
    assert not any(f1[:3])
    lines = re.findall(r"(?m)^epoch .*", capsys.readouterr().out)
    assert ["*" in line for line in lines][:4] == [*map(bool, f1[:4])]
    assert len(f1) > 4
    assert result["best_epoch"] == 1 + int(np.argmax(f1)) > 3  # of equals, the first
    assert result["chosen_by"] == "dev f1"


# --- Rules ----------------------------------------------------------------------------


def test_the_result_follows_the_rule_and_names_conllevals(
    corpus, dev, copied_run, monkeypatch
):
    def label(tagger, split, **options):
        gold = [example.labels for example in split.to_scheme("BIOES")]
        return gold, [["I-X" if x == "O" else x for x in labels] for labels in gold]

    folder = Workdir(copied_run)
    program = train.Program(tiny.config(corpus), folder, None)
    program.splits = ("dev",)
    monkeypatch.setattr(train.tagging, "label_split", label)
    sides = label(None, dev)
    f1 = {
        rule: 100 * scoring.score(*sides, rule=rule, scheme="BIOES").f1
        for rule in scoring.RULES
    }
    assert f1["idcnn"] < f1["conlleval"] < f1["ncrfpp"] == f1["strict"] == 100
    for rule in scoring.RULES:
        program.task = scoring.Task("BIOES", rule=rule)
        with program.opened():
            program.final_scores(program.runs[0])
        dev = folder.read_json("result.json")["dev"]
        assert (dev["rule"], dev["f1"]) == (rule, f1[rule])
        expected = None if rule == "conlleval" else f1["conlleval"]
        assert dev.get("by_conlleval") == expected


@pytest.mark.slow
def test_the_rule_picks_the_best_epoch_and_scores_the_result(corpus, tmp_path, answer):
    config = tiny.plain_config(corpus, 9, ",head=softmax")  # ill-formed labels occur
    config.evaluation.rule = "strict"
    train.main_run(config, tmp_path / "run")
    folder = Workdir(tmp_path / "run")
    result = folder.read_json("result.json")
    best = max(folder.metrics(), key=lambda x: x["dev_f1"])
    assert result["best_epoch"] == best["epoch"]
    assert result["dev"]["f1"] == best["dev_f1"]
    # What scores the run later goes by the same rule, if it is not told.
    strict = answer("evaluate", tmp_path / "run", "--split=dev")
    assert (strict["rule"], strict["f1"]) == ("strict", result["dev"]["f1"])
    loose = answer("evaluate", tmp_path / "run", "--split=dev", "--rule=conlleval")
    assert loose["f1"] == result["dev"]["by_conlleval"] != strict["f1"]


# --- The script -----------------------------------------------------------------------


def test_a_diverging_run_ends_with_a_line_and_a_status(corpus, tmp_path, capsys):
    rates = {"optimizer.clip_norm": 1e30, "optimizer.learning_rate": 1e30}
    command = runs.plain_command(corpus, tmp_path / "run", num_epochs=2, **rates)
    with pytest.raises(SystemExit) as end:
        cli.run(command)
    output = capsys.readouterr().err
    assert (end.value.code, output.count("\n")) == (1, 1)
    assert "learning_rate" in output
    assert not (tmp_path / "run" / "result.json").exists()


def test_strict_settings_of_jax_do_not_stop_a_run(corpus, tmp_path):
    settings = {"numpy_dtype_promotion": "strict", "transfer_guard": "disallow"}
    old = {f"jax_{name}": getattr(jax.config, f"jax_{name}") for name in settings}
    try:
        for name, value in settings.items():
            jax.config.update(f"jax_{name}", value)
        train.main_run(tiny.plain_config(corpus, 1), tmp_path / "run")
    finally:
        for name, value in old.items():
            jax.config.update(name, value)
    assert len(runs.losses(tmp_path / "run")) == 1


@pytest.mark.filterwarnings("default")
def test_quiet_runs_print_warnings_alone_and_learn_on_lowercased(copy, tmp_path, run):
    with (copy / "train.conll").open("a") as file:
        file.write("\xa0 O\n")
    folders, changes = [tmp_path / "old", tmp_path / "new"], {}
    for folder in folders:
        options = {"num_epochs": 1, "data.lowercase": True, **changes}
        status, output = run(*runs.plain_command(copy, folder, **options), "--quiet")
        (line,) = output.splitlines()
        assert (status, line.startswith(f"Warning: {copy}")) == (0, True)
        changes["init_from"] = folder
    old, new = (jaxner.load(folder).vocabulary for folder in folders)
    assert (old.lowercase, old) == (True, new)
