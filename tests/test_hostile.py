"""Hostile numbers in a run folder are refused before they take memory or time."""

import errno
import json
import resource
import shutil
from pathlib import Path

import pytest

import jaxner
from jaxner import saving
from jaxner.integrity import DamagedFileError
from jaxner.training import train
from tests import tiny


@pytest.fixture
def run(finished, tmp_path):
    """A copy of a finished run."""
    return Path(shutil.copytree(finished, tmp_path / "run"))


HOSTILE = [
    ("encoder", {"hidden_dim": 10**9}, "32, and is 1000000000"),
    (
        "encoder",
        {"name": "bilstm", "num_layers": 10**9},
        "num_layers .*1, 100",
    ),
    ("encoder", {"name": "idcnn", "num_blocks": 10**9}, "num_blocks .*1, 100"),
    ("encoder", {"name": "idcnn", "dilations": [10**9]}, "dilations .* 65536"),
    ("encoder", {"name": "idcnn", "dilations": [1] * 10**4}, "at most 100 values"),
    ("mc_dropout", {"num_samples": 10**12}, r"num_samples .* in \[0, 10000\]"),
    ("representation", {"words": {"dim": 10**9}}, "dim was 8, and is 1000000000"),
    ("representation", {"chars": {"width": 10**9 + 1}}, r"width .* in \[1, 999\]"),
]


@pytest.mark.parametrize(("section", "options", "message"), HOSTILE)
def test_hostile_numbers_of_a_config_take_no_memory(section, options, message, run):
    file = run / "config.json"
    content = json.loads(file.read_text())
    content["model"][section] = {**content["model"][section], **options}
    if "name" in options:
        content["model"][section] = options
    content.pop("checksum")
    file.write_text(json.dumps(content))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(DamagedFileError, match=message) as error:
        jaxner.load(run)
    assert "config.json" in str(error.value)
    assert len(str(error.value).splitlines()) == 1
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 200 << 10  # KiB


@pytest.mark.parametrize("has_about", [True, False])
def test_a_model_too_large_for_its_weights_takes_no_memory(has_about, run):
    """Even if the identity kept with the checkpoint was edited, too."""
    file = run / "config.json"
    content = json.loads(file.read_text())
    content["model"]["encoder"]["hidden_dim"] = 10**6
    content.pop("checksum")
    file.write_text(json.dumps(content))
    for part in ("best", "frozen"):
        for sums in (run / "checkpoints" / part).rglob("checksums.json"):
            if not has_about:
                sums.unlink()
                continue
            sealed = json.loads(sums.read_text())
            sealed["about"]["model"] = content["model"]
            sealed.pop("checksum")
            sums.write_text(json.dumps(sealed))
    with pytest.raises(DamagedFileError, match="does not fit the model") as error:
        jaxner.load(run)
    assert "1000000" in str(error.value)
    assert len(str(error.value).splitlines()) == 1


def test_an_error_of_a_save_that_is_not_the_disk_s_is_named(tmp_path):
    with (
        pytest.raises(OSError, match="not written: TypeError: no such type") as error,
        saving.saving(tmp_path / "best"),
    ):
        raise TypeError("no such\n type")
    text = str(error.value)
    assert "The previous checkpoint is unchanged" in text
    assert "space" not in text
    assert len(text.splitlines()) == 1
    with (
        pytest.raises(OSError, match=r"No space left .* Free some space"),
        saving.saving(tmp_path / "best"),
    ):
        raise OSError(errno.ENOSPC, "while writing")


def test_a_model_larger_than_the_memory_is_refused(corpus, tmp_path):
    config = tiny.config(corpus)
    config.model.encoder.hidden_dim = 10**9
    with pytest.raises(ValueError, match=r"GiB.*more than this machine has memory"):
        train.main_run(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()
