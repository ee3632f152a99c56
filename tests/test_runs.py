"""Run folders: damage and mix-ups are found and named; a kill leaves whole files."""

import contextlib
import json
import logging
import os
import resource
import shutil
from concurrent import futures
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxner
import train
from jaxner import models, outputs, runs
from jaxner.checkpoints import Checkpoints
from jaxner.errors import DamagedFileError, InputError
from jaxner.runs import Workdir
from jaxner.tagger import write
from tests import tiny

GARBAGE = b"", b"\0\0\0", b"\xff\xfe{}", b'{"a": ', b"[1]", b"[" * 200_000, b'{"a": 1}'


@pytest.fixture
def run(tiny_run, tmp_path):
    return Path(shutil.copytree(tiny_run, tmp_path / "run"))


def flip(path, index=None):
    content = bytearray(path.read_bytes())
    content[len(content) // 2 if index is None else index] ^= 1
    path.write_bytes(content)


def step_of(run, part):
    (folder,) = (run / "checkpoints" / part).iterdir()
    return folder


def arrays_of(run, part):
    files = (f for f in step_of(run, part).rglob("*") if f.is_file())
    return max(files, key=lambda f: f.stat().st_size)


def contents(run):
    return {f: f.read_bytes() for f in run.rglob("*") if f.is_file()}


def edit(file, change):
    """Edits a JSON file as a user does who means it: without the checksum."""
    content = json.loads(file.read_text())
    content.pop(runs.CHECKSUM, None)
    change(content)
    file.write_text(json.dumps(content))


def refused(run, path, **options):
    """Expects that loading names a file, in one line; returns the error."""
    with pytest.raises(DamagedFileError) as error:
        jaxner.load(run, **options)
    assert Path(error.value.path) == path
    assert str(error.value).startswith(f"{path}: ")
    assert len(str(error.value).splitlines()) == 1
    return error.value


def test_a_flipped_byte_in_any_file_of_a_checkpoint_is_found(run):
    files = [f for f in step_of(run, "best").rglob("*") if f.is_file()]
    files = [f for f in files if f.stat().st_size]  # one of Orbax is empty
    assert len(files) > 4
    for file in files:
        flip(file)
        refused(run, file)
        flip(file)
    jaxner.load(run)


def test_cut_missing_and_foreign_files_are_named(run):
    file = arrays_of(run, "best")
    content = file.read_bytes()
    file.write_bytes(content[:-3])
    refused(run, file)
    file.unlink()
    assert isinstance(refused(run, file), FileNotFoundError)
    file.write_bytes(content)
    (file.parent / "other").write_text("x")
    refused(run, file.parent / "other")
    folder = step_of(run, "best")
    shutil.rmtree(folder)
    folder.mkdir()
    refused(run, folder)
    shutil.rmtree(folder.parent)
    refused(run, folder.parent)
    (run / "config.json").unlink()
    for path, name in ((run, "config.json"), (run / "nowhere", "nowhere; train one: ")):
        with pytest.raises(FileNotFoundError, match=name):
            jaxner.load(path)


def test_loading_writes_and_removes_nothing(run):
    # Another process is writing its next checkpoint.
    (run / "checkpoints" / "best" / "99.orbax-checkpoint-tmp").mkdir()
    paths = sorted(run.rglob("*"))
    jaxner.load(run)
    assert sorted(run.rglob("*")) == paths


def test_a_checkpoint_that_a_run_replaces_is_read_again(run, monkeypatch):
    restore = Checkpoints.restore

    def replace(self, shapes):
        if self.step < 99:
            self.folder().rename(self.path / "99")
        return restore(self, shapes)

    monkeypatch.setattr(Checkpoints, "restore", replace)
    jaxner.load(run)


def test_threads_load_at_once_and_leave_the_log_on(tiny_run):
    with futures.ThreadPoolExecutor(8) as pool:
        taggers = [*pool.map(jaxner.load, [tiny_run] * 8)]
    assert len({jax.tree.structure(tagger) for tagger in taggers}) == 1
    assert not logging.root.manager.disable


@pytest.mark.parametrize("name", ["config.json", "vocabulary.json"])
@pytest.mark.parametrize("content", [*GARBAGE, b'{"a": ' + b"9" * 5000 + b"}"])
def test_garbled_small_files_are_named(run, name, content):
    (run / name).write_bytes(content)
    refused(run, run / name)


def test_files_of_another_run_are_refused(run, params, no_checks):
    vocabulary, config = run / "vocabulary.json", run / "config.json"
    text = vocabulary.read_text()

    def swap(content):
        names = content["label_names"]
        names[1], names[2] = names[2], names[1]

    edit(vocabulary, swap)
    refused(run, vocabulary)
    fields = [("words", []), ("chars", [1]), ("label_names", {}), ("num_trained", 0)]
    fields += [("singletons", x) for x in (None, [1], [0, {}], [0, 10**12])]
    for odd in fields:
        edit(vocabulary, lambda content, odd=odd: content.update([odd]))
        assert f"expected {odd[0]} as" in refused(run, vocabulary).message
        vocabulary.write_text(text)
    settings = config.read_text()
    edit(config, lambda content: content.update(data="x"))
    refused(run, config)
    config.write_text(settings)
    config.write_text(config.read_text().replace('"num_epochs": 3', '"num_epochs": 9'))
    assert runs.CHECKSUM in refused(run, config).message  # which `edit` removes
    edit(config, lambda c: c["model"]["encoder"].update(hidden_dim=10**9))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert "hidden_dim" in refused(run, config).message
    # Nor where the identity beside the weights is missing: shapes are compared first.
    for part in ("best", "latest"):
        (step_of(run, part) / runs.CHECKSUMS).unlink()
    arrays = step_of(run, "best") / "arrays"
    assert "1000000000" in refused(run, arrays).message
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 200 << 10
    parts = json.loads(config.read_text())["model"]
    parts["encoder"] = {"name": "grn", "hidden_dim": 16}
    refused(run, arrays, model=jaxner.build(params.vocabulary, **parts))


@pytest.mark.parametrize(
    ("name", "value"), [("scheme", "BIO"), ("unit", "document"), ("lowercase", True)]
)
def test_data_options_of_another_vocabulary_are_refused(run, name, value):
    edit(run / "config.json", lambda content: content["data"].update({name: value}))
    assert f"data.{name} is" in refused(run, run / "config.json").message


def test_weights_that_are_not_numbers_are_refused(tmp_path, params):
    weights = jax.tree.map(jnp.array, params.weights)
    head = weights["params"]["head"]
    head["start"] = head["start"].at[3].set(jnp.nan)
    tagger = jaxner.Tagger(weights, params.model, params.vocabulary)
    description = {"model": models.describe(params.model)}
    write(Workdir(tmp_path / "nan"), tagger, "model.json", description)
    arrays = tmp_path / "nan" / "checkpoints" / "best" / "0" / "arrays"
    assert "head/start" in refused(tmp_path / "nan", arrays).message


def test_a_run_without_checksums_yet_loads_and_warns_once(run, corpus, params):
    for file in run.rglob(runs.CHECKSUMS):
        file.unlink()
    with pytest.warns(UserWarning, match="no checksums.*next checkpoint") as notes:
        tagger = jaxner.load(run)
    assert len(notes) == 1
    for a, b in zip(jax.tree.leaves(tagger), jax.tree.leaves(params), strict=True):
        np.testing.assert_array_equal(a, b)
    train.main_run(tiny.config(corpus), run)
    jaxner.load(run)  # has them now


def test_a_damaged_or_old_calibration_is_named(run):
    file = run / "calibration.json"
    for text in ("", "{", '{"temperature": -1.0}'):
        file.write_text(text)
        refused(run, file)
    step = int(step_of(run, "best").name)
    Workdir(run).write_json(file.name, {"temperature": 1.3, "step": step})
    assert float(jaxner.load(run).temperature) == pytest.approx(1.3)
    Workdir(run).write_json(file.name, {"temperature": 1.3, "step": step + 1})
    with pytest.warns(UserWarning, match="calibrate"):
        assert jaxner.load(run).temperature == 1


def test_resuming_finds_damage_and_changes_nothing(run, corpus):
    flip(arrays_of(run, "latest"))
    old = contents(run)
    with pytest.raises(DamagedFileError) as error:
        train.main_run(tiny.config(corpus, num_epochs=4), run)
    assert error.value.path == arrays_of(run, "latest")
    assert old == contents(run)
    shutil.rmtree(run / "checkpoints" / "latest")
    with pytest.raises(DamagedFileError, match="had reached epoch 3"):
        train.main_run(tiny.config(corpus), run)
    jaxner.load(run)


def test_without_a_best_checkpoint_the_latest_stands_in(run, corpus):
    shutil.rmtree(run / "checkpoints" / "best")
    refused(run, run / "checkpoints" / "best")
    assert train.main_run(tiny.config(corpus), run)["best_epoch"] == 3
    jaxner.load(run)


def test_a_second_process_is_refused_and_writes_nothing(run, corpus, tmp_path):
    old = contents(run)
    with Workdir(run).locked(), pytest.raises(BlockingIOError):
        train.main_run(tiny.config(corpus, num_epochs=9), run)
    assert contents(run).items() - old.items() <= {(run / ".lock", b"")}
    with Workdir(tmp_path / "new").locked():
        assert (tmp_path / "new").is_dir()
    assert not (tmp_path / "new").exists()


def test_a_readme_of_no_run_stays(corpus, tmp_path):
    (tmp_path / "README.md").write_text("of the user")
    with pytest.raises(InputError, match=r"README\.md: belongs to no run"):
        train.main_run(tiny.config(corpus), tmp_path)


def test_a_flipped_byte_in_the_metrics_is_found_or_harmless(tmp_path):
    run = Workdir(tmp_path)
    for epoch in (1, 2):
        run.log({"epoch": epoch, "dev_f1": 12.5})
    expected, file = run.metrics(), tmp_path / "metrics.jsonl"
    for index in range(file.stat().st_size):
        flip(file, index)
        with contextlib.suppress(DamagedFileError):
            assert run.metrics() == expected, index
        flip(file, index)
    assert expected == [{"epoch": epoch, "dev_f1": 12.5} for epoch in (1, 2)]
    for text in ('{"epoch": 1}\n{"epo\n{"epoch": 3}\n', '{"step": 2}\n', "[]\n"):
        file.write_text(text)
        with pytest.raises(DamagedFileError, match=r"line \d is damaged"):
            run.metrics()


def test_what_a_kill_cut_off_is_no_damage(tmp_path):
    run, file = Workdir(tmp_path), tmp_path / "metrics.jsonl"
    run.log({"epoch": 1})
    whole = file.read_bytes()
    run.log({"epoch": 2})
    lines = file.read_bytes()
    for size in range(len(whole), len(lines) - 1):
        file.write_bytes(lines[:size])
        assert run.metrics() == [{"epoch": 1}]
    file.write_bytes(lines)
    run.forget_after(1)
    assert file.read_bytes() == whole


def test_files_of_others_stay_in_a_run(tmp_path, monkeypatch):
    run = Workdir(tmp_path)
    names = {".mine.tmp", "predictions-news.conll", ".lock"}
    for name in ("README.md", "result.json", "predictions-dev.conll", *names):
        (tmp_path / name).touch()
    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", lambda *_, **__: None)
        with pytest.raises(KeyError), outputs.writing(tmp_path / "x"):  # as of a kill
            raise KeyError
    assert {x.name for x in tmp_path.glob(".*.tmp")} > {".mine.tmp"}
    with run.locked():
        run.forget_result()
    assert {x.name for x in tmp_path.iterdir()} == names


def test_a_full_disk_is_told_in_a_line(tmp_path, capfd, caplog):
    latest = Checkpoints(tmp_path / "latest")
    latest.save(1, {"a": jnp.zeros(8)}, {"epoch": 1})
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, limits[1]))
    noise = {"a": jax.random.normal(jax.random.key(0), (1 << 18,))}
    try:
        with pytest.raises(OSError, match="cannot write the checkpoint") as error:
            latest.save(2, noise, {"epoch": 2})
        with pytest.raises(OSError, match="cannot write the checkpoint") as first:
            Checkpoints(tmp_path / "first").save(1, noise, {"epoch": 1})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert len(str(error.value).splitlines()) == 1
    assert "The previous one is unchanged" in str(error.value)
    assert "previous" not in str(first.value)
    assert not "".join(capfd.readouterr()) + caplog.text
    assert len(list((tmp_path / "latest").iterdir())) == 2  # a half-written one
    latest = Checkpoints(tmp_path / "latest")
    assert [folder.name for folder in latest.path.iterdir()] == ["1"]
    assert latest.step == 1
    assert latest.check()


def test_a_copied_project_has_its_own_data(tmp_path, monkeypatch):
    (tmp_path / "a" / "data").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "a")
    Workdir("runs/x").write_json("config.json", {"data": {"dir": "data"}})
    monkeypatch.chdir("/")
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    (tmp_path / "link").symlink_to(tmp_path / "a" / "runs")
    for run, project in (("a/runs/x", "a"), ("link/x", "a"), ("b/runs/x", "b")):
        config = Workdir(tmp_path / run).read_json("config.json")
        assert config == {"data": {"dir": str(tmp_path / project / "data")}}


def test_a_run_loads_although_the_folder_it_began_in_cannot_be_seen(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(os, "getcwd", lambda: "/" + "n" * 300)  # an error, as of rights
    Workdir(tmp_path).write_json("config.json", {"data": {"dir": "data"}})
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    config = Workdir(tmp_path).read_json("config.json")
    assert config == {"data": {"dir": "data"}}
    (tmp_path / "data").rmdir()
    assert Workdir(tmp_path).read_json("config.json")["data"]["dir"].endswith("n/data")


def test_restarts_are_chosen_by_their_seed(run, tmp_path):
    for seed in (1, 11):
        shutil.copytree(run, tmp_path / "several" / f"seed-{seed}")
    folder = tmp_path / "several"
    assert len(jaxner.load(folder, seed="all")) == 2
    (folder / "seed-11" / "result.json").unlink()
    Workdir(folder).write_json("config.json", {"num_seeds": 2})
    with pytest.warns(UserWarning, match="several: 1 of 2 restarts are done, 2 can be"):
        jaxner.load(folder, seed="all")
    for seed in (11, 11.0):
        assert not isinstance(jaxner.load(folder, seed=seed), jaxner.Ensemble)
    hints = {None: ": .* such as .*seed-1", 0: ", got 0", True: ", got", "some": ""}
    for seed, hint in hints.items():
        with pytest.raises(ValueError, match=f"seeds 1, 11{hint}"):
            jaxner.load(folder, seed=seed)


def test_a_half_copied_checkpoint_costs_none_before_it(tmp_path):
    Checkpoints(tmp_path / "latest").save(1, {"x": np.zeros(1)}, {})
    (tmp_path / "latest" / "2" / "arrays").mkdir(parents=True)
    assert Checkpoints(tmp_path / "latest").step == 1
    assert [entry.name for entry in (tmp_path / "latest").iterdir()] == ["1"]


@pytest.mark.parametrize("name", [b"a (1), [b]", rb"a\b", b"\xff?"])
def test_a_run_may_have_any_name(tmp_path, name, monkeypatch):
    """Orbax takes brackets for patterns, and knows UTF-8 alone.

    A link gets around that, but Orbax wants the same name in all processes.
    """
    for _ in range(2):
        series = Checkpoints(tmp_path / os.fsdecode(name) / "latest")
        series.save(1, {"x": np.arange(3.0)}, {"epoch": 1})
    assert series.restore({"x": np.zeros(3)})["x"].tolist() == [0, 1, 2]
    monkeypatch.setattr(jax, "process_count", lambda: 2)
    with pytest.raises(InputError, match="several processes"):
        Checkpoints(series.path)
