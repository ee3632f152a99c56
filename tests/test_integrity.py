"""A damaged or foreign file of a run is named, and what to do; nothing tags wrongly."""

import contextlib
import json
import re
import shutil
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxner
from jaxner import integrity, writing
from jaxner.checkpoints import Checkpoints
from jaxner.integrity import DamagedFileError
from jaxner.training import environment, train
from jaxner.workdir import Workdir
from tests import tiny


@pytest.fixture
def run(finished, tmp_path):
    """A copy of a finished run."""
    return Path(shutil.copytree(finished, tmp_path / "run"))


def flip(path, at=None):
    content = bytearray(path.read_bytes())
    content[len(content) // 2 if at is None else at] ^= 1
    path.write_bytes(content)


def step_of(run, part):
    (folder,) = (run / "checkpoints" / part).iterdir()
    return folder


def data_file(run, part):
    """The largest file of a checkpoint: its arrays."""
    files = (f for f in step_of(run, part).rglob("*") if f.is_file())
    return max(files, key=lambda f: f.stat().st_size)


def told(error):
    """Returns the message of an error: file, problem and remedy in one line."""
    text = str(error.value)
    assert len(text.splitlines()) == 1
    assert str(error.value.path) in text
    assert re.search(r"Remove|remove|Copy|Put|Run|delete|raises", error.value.remedy)
    return text


def test_a_flipped_byte_in_the_arrays_is_found(run):
    flip(data_file(run, "best"))
    with pytest.raises(DamagedFileError, match="is damaged: its checksum") as error:
        jaxner.load(run)
    assert data_file(run, "best").name in told(error)


def test_a_flipped_byte_in_any_file_of_a_checkpoint_is_found(run):
    for file in sorted(step_of(run, "best").rglob("*")):
        if file.is_file():
            flip(file)
            with pytest.raises(DamagedFileError) as error:
                Workdir(run).best(read_only=True).check()
            told(error)
            flip(file)
    Workdir(run).best(read_only=True).check()


def test_a_cut_or_missing_file_is_told(run):
    file = data_file(run, "best")
    content = file.read_bytes()
    file.write_bytes(content[:-3])
    size = len(content)
    with pytest.raises(DamagedFileError, match=f"{size - 3} bytes instead of {size}"):
        jaxner.load(run)
    file.unlink()
    with pytest.raises(DamagedFileError, match="is missing") as error:
        jaxner.load(run)
    assert file.name in told(error)
    assert "resumes from the latest" in told(error)


def test_resuming_finds_damage_and_changes_nothing(run, corpus):
    flip(data_file(run, "latest"))
    before = {f: f.read_bytes() for f in run.rglob("*") if f.is_file()}
    with pytest.raises(DamagedFileError, match="is damaged") as error:
        train.main_run(tiny.config(corpus, num_epochs=4), run)
    assert "The best checkpoint can still be loaded" in told(error)
    assert before == {f: f.read_bytes() for f in run.rglob("*") if f.is_file()}


def test_weights_that_are_not_numbers_are_refused(tmp_path, params):
    weights = jax.tree.map(jnp.array, params.weights)
    weights["params"]["head"]["start"] = (
        weights["params"]["head"]["start"].at[3].set(jnp.nan)
    )
    broken = jaxner.Tagger(weights, params.model, params.vocabulary)
    jaxner.save(tmp_path / "nan", broken)
    with pytest.raises(DamagedFileError, match="NaN weights in head/start") as error:
        jaxner.load(tmp_path / "nan")
    told(error)


def test_a_run_without_checksums_loads_and_says_so_once(run, corpus, params, capsys):
    for file in run.rglob(integrity.CHECKSUMS):
        file.unlink()
    for name in ("config.json", "environment.json"):
        content = json.loads((run / name).read_text())
        del content[integrity.CHECKSUM]
        (run / name).write_text(json.dumps(content))
    with pytest.warns(UserWarning, match="no checksums") as warned:
        loaded = jaxner.load(run)
    assert len(warned) == 1
    for a, b in zip(jax.tree.leaves(loaded), jax.tree.leaves(params), strict=True):
        np.testing.assert_array_equal(a, b)
    train.main_run(tiny.config(corpus), run)
    assert capsys.readouterr().out.count("no checksums") == 1
    jaxner.load(run)  # has them now


def test_reordered_labels_are_refused(run):
    content = json.loads((run / "vocabulary.json").read_text())
    content["label_names"][1:3] = content["label_names"][2:0:-1]
    (run / "vocabulary.json").write_text(json.dumps(content))
    with pytest.raises(
        DamagedFileError, match=r"vocabulary\.json: is not the"
    ) as error:
        jaxner.load(run)
    told(error)


def test_a_damaged_calibration_is_made_again(run):
    file = run / "calibration.json"
    for text in ("", "{", '{"temperature": -1.0}'):
        file.write_text(text)
        with pytest.raises(DamagedFileError, match="Remove it and run `jaxner calibr"):
            jaxner.load(run)
    file.unlink()
    assert jaxner.load(run).temperature == 1.0


def test_an_edited_config_is_refused(run, attending):
    file, text = run / "config.json", (run / "config.json").read_text()
    content = json.loads(text)
    content["model"]["encoder"]["hidden_dim"] = 64
    file.write_text(json.dumps(content))
    with pytest.raises(DamagedFileError, match="edited or damaged") as error:
        jaxner.load(run)
    assert 'delete its line "checksum"' in told(error)
    lines = text.replace('"hidden_dim": 32', '"hidden_dim": 64').splitlines(True)
    file.write_text("".join(x for x in lines if '"checksum"' not in x))
    with pytest.raises(
        DamagedFileError, match=r"encoder\.hidden_dim was 32, and is 64"
    ) as error:
        jaxner.load(run)
    told(error)
    for part in ("best", "latest"):
        (step_of(run, part) / integrity.CHECKSUMS).unlink()
    with pytest.raises(DamagedFileError, match=r"bias is \[32\] there, \[64\] in it"):
        jaxner.load(run)
    content["model"] = json.loads((attending / "config.json").read_text())["model"]
    del content[integrity.CHECKSUM]
    file.write_text(json.dumps(content))
    with pytest.raises(
        DamagedFileError,
        match=r"of the (model|checkpoint) is not in the (model|checkpoint)",
    ):
        jaxner.load(run)


def test_a_model_of_other_weights_is_refused(run, params):
    parts = json.loads((run / "config.json").read_text())["model"]
    parts["encoder"]["hidden_dim"] = 16
    other = jaxner.build(params.vocabulary, **parts)
    with pytest.raises(DamagedFileError, match=r"does not fit the model: .*\[16\]"):
        jaxner.load(run, model=other)
    same = jaxner.load(run, model=params.model)
    assert same.model == params.model


@pytest.mark.parametrize("name", ["vocabulary.json", "config.json", "environment.json"])
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"\0\0\0\0", "is empty"),
        (b"\xff\xfe{}", "is not UTF-8 text"),
        (b'{"a": ', "is not valid JSON"),
        (b"[1, 2]", "is not a JSON object|cannot be used"),
        (b"[" * 200 + b"]" * 200, "more than 100 levels"),
        (b"[" * 200_000 + b"]" * 200_000, "more than 100 levels"),
        (b'{"a": ' + b"9" * 5000 + b"}", "number that is too long"),
        (b'{"a": 1}', "cannot be used|has no section model|another config"),
    ],
)
def test_garbled_small_files_are_told(name, content, message, run, params):
    (run / name).write_bytes(content)
    record = {"data": {}}

    def read():
        if name == "environment.json":
            environment.check_same_data(Workdir(run), record, params.vocabulary)
        else:
            jaxner.load(run)

    with pytest.raises(DamagedFileError, match=message) as error:
        read()
    assert name in told(error)


def test_limits_can_be_raised(run, monkeypatch):
    path = run / "deep.json"
    path.write_text('{"a": ' * 120 + "1" + "}" * 120)
    with pytest.raises(DamagedFileError, match="JAXNER_MAX_DEPTH raises"):
        integrity.read_json(path, "")
    monkeypatch.setenv("JAXNER_MAX_DEPTH", "120")
    assert integrity.read_json(path, "")
    monkeypatch.setenv("JAXNER_MAX_DEPTH", "many")
    with pytest.raises(ValueError, match=r"positive integer in \$JAXNER_MAX_DEPTH"):
        integrity.read_json(path, "")


def test_arrays_out_of_all_proportion_are_refused(tmp_path):
    (tmp_path / "small").write_bytes(b"1234")
    integrity.check_size(tmp_path, 1 << 26)
    with pytest.raises(DamagedFileError, match="4 bytes to 68,719,476,736"):
        integrity.check_size(tmp_path, 1 << 36)


@pytest.mark.parametrize(
    "text",
    ['{"epoch": 1}\n{"epo\n{"epoch": 3}\n', '{"epoch": 1}\n{"step": 2}\n', "{}\n[]\n"],
)
def test_garbled_metrics_are_told(text, tmp_path):
    (tmp_path / "metrics.jsonl").write_text(text)
    with pytest.raises(DamagedFileError, match=r"line \d is damaged") as error:
        Workdir(tmp_path).metrics()
    assert "Remove the line" in told(error)


def test_a_flipped_byte_in_the_metrics_is_found_or_harmless(tmp_path):
    run = Workdir(tmp_path)
    for epoch in (1, 2):
        run.log({"epoch": epoch, "dev_f1": 12.5})
    expected, file = run.metrics(), tmp_path / "metrics.jsonl"
    for place in range(file.stat().st_size):
        flip(file, place)
        with contextlib.suppress(DamagedFileError):
            assert run.metrics() == expected, place
        flip(file, place)
    assert expected == [{"epoch": epoch, "dev_f1": 12.5} for epoch in (1, 2)]


def test_what_a_kill_cut_off_is_no_damage(tmp_path):
    run = Workdir(tmp_path)
    run.log({"epoch": 1})
    whole = (tmp_path / "metrics.jsonl").read_bytes()
    run.log({"epoch": 2})
    both = (tmp_path / "metrics.jsonl").read_bytes()
    for size in range(len(whole), len(both) - 1):
        (tmp_path / "metrics.jsonl").write_bytes(both[:size])
        assert run.metrics() == [{"epoch": 1}]


def test_an_empty_step_folder_is_told(run):
    folder = step_of(run, "best")
    shutil.rmtree(folder)
    folder.mkdir()
    with pytest.raises(DamagedFileError, match="is empty: its files are gone"):
        jaxner.load(run)


def test_a_run_stopped_in_its_first_epoch_is_not_called_damaged(run):
    shutil.rmtree(run / "checkpoints" / "best")
    (run / "metrics.jsonl").unlink()
    with pytest.raises(DamagedFileError, match="holds no checkpoint") as error:
        jaxner.load(run)
    assert "was stopped in its first epoch. Run `jaxner train` with" in told(error)
    assert "emove" not in told(error)


def test_without_a_best_checkpoint_the_latest_stands_in(run, corpus, capsys):
    shutil.rmtree(run / "checkpoints" / "best")
    with pytest.raises(DamagedFileError, match="holds no checkpoint") as error:
        jaxner.load(run)
    assert "Run `jaxner train`" in told(error)
    assert "resumes from the latest checkpoint" in told(error)
    capsys.readouterr()
    result = train.main_run(tiny.config(corpus), run)
    out = capsys.readouterr().out
    assert "The best checkpoint (epoch 3) is missing: the latest one (epoch 3)" in out
    assert result["best_epoch"] == 3
    jaxner.load(run)


def test_a_latest_checkpoint_without_f1_stands_in(run, corpus):
    shutil.rmtree(run / "checkpoints" / "best")
    file = run / "metrics.jsonl"
    *others, last = map(integrity.from_line, file.read_text().splitlines())
    last["dev_f1"] = None  # no span, neither found nor in the text
    lines = map(integrity.to_line, (*others, last))
    file.write_text("".join(f"{line}\n" for line in lines))
    result = train.main_run(tiny.config(corpus, num_epochs=4), run)
    assert result["best_epoch"] in (3, 4)
    jaxner.load(run)


def test_without_a_latest_checkpoint_nothing_is_overwritten(run, corpus):
    shutil.rmtree(run / "checkpoints" / "latest")
    with pytest.raises(DamagedFileError, match="had reached epoch 3") as error:
        train.main_run(tiny.config(corpus), run)
    told(error)
    jaxner.load(run)


def test_a_refused_process_writes_nothing(run, corpus):
    before = {f: f.read_bytes() for f in run.rglob("*") if f.is_file()}
    with (
        Workdir(run).locked(),
        pytest.raises(BlockingIOError, match="Another process"),
    ):
        train.main_run(tiny.config(corpus, num_epochs=9), run)
    assert before == {f: f.read_bytes() for f in run.rglob("*") if f.is_file()}


def test_a_lock_leaves_no_new_folder_behind(tmp_path):
    with Workdir(tmp_path / "run").locked():
        assert (tmp_path / "run").is_dir()
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", ["checkpoints", "checkpoints/latest", "metrics.jsonl"])
def test_links_are_not_followed_when_a_run_is_written(name, run, corpus, tmp_path):
    (run / name).rename(tmp_path / "elsewhere")
    (run / name).symlink_to(tmp_path / "elsewhere")

    def write():
        if name == "metrics.jsonl":
            Workdir(run).log({"epoch": 4})
        else:
            train.main_run(tiny.config(corpus), run)

    with pytest.raises(DamagedFileError, match="is a symbolic link") as error:
        write()
    told(error)


def test_a_link_in_the_place_of_a_small_file_is_replaced(tmp_path):
    (tmp_path / "precious").write_text("precious")
    (tmp_path / "config.json").symlink_to(tmp_path / "precious")
    Workdir(tmp_path).write_json("config.json", {"a": (1, 2.5, None)})
    assert (tmp_path / "precious").read_text() == "precious"
    assert Workdir(tmp_path).read_json("config.json") == {"a": [1, 2.5, None]}


def test_an_error_while_writing_leaves_the_file_as_it_was(tmp_path):
    path = tmp_path / "file"
    writing.write_text(path, "before")

    def write():
        with writing.replacing(path) as file:
            file.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write()
    assert path.read_text() == "before"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_a_full_disk_is_told_in_a_line(tmp_path, capfd):
    resource = pytest.importorskip("resource")
    with Checkpoints(tmp_path / "latest") as latest:

        def save(step, values):
            latest.save(step, {"a": values}, {"epoch": step})
            latest.finish()

        save(1, jnp.zeros(8))
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, before[1]))
        noise = jax.random.normal(jax.random.key(0), (1 << 18,))
        try:
            with pytest.raises(
                OSError, match="cannot write the checkpoint: File too large"
            ) as e:
                save(2, noise)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert len(str(e.value).splitlines()) == 1
    assert "The previous checkpoint is unchanged" in str(e.value)
    assert not "".join(capfd.readouterr())
    with Checkpoints(tmp_path / "latest") as latest:
        assert latest.step == 1
        assert latest.check() == {}
