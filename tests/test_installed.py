"""The wheel away from the clone: its size, its files, and its commands."""

import json
import os
import shutil
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests import tiny
from tests.tiny import output_of as run

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[1]
SOURCES = "LICENSE MANIFEST.in README.md configs jaxner pyproject.toml setup.py tests"


@pytest.fixture(scope="module")
def dist(tmp_path_factory):
    """The folder of the wheel and the sdist; both are built of a copy."""
    pytest.importorskip("build")
    copy = tmp_path_factory.mktemp("copy")
    for name in SOURCES.split():
        source = ROOT / name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, copy / name)
    build = [sys.executable, "-m", "build", "--no-isolation"]
    run(*build, "--outdir", copy / "dist", copy)
    return copy / "dist"


def test_the_wheel_is_small_and_has_every_module_and_config(dist):
    (wheel,) = dist.glob("*.whl")
    assert wheel.stat().st_size < 1e6
    names = set(zipfile.ZipFile(wheel).namelist())
    for folder, target in (("jaxner", "jaxner"), ("configs", "jaxner/configs")):
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in (".py", ".toml", ".conll", ".typed"):
                member = path.relative_to(ROOT / folder).as_posix()
                assert f"{target}/{member}" in names
    assert not any(name.startswith(("tests/", "reproduce/")) for name in names)
    (sdist,) = dist.glob("*.tar.gz")
    with tarfile.open(sdist) as sources:
        folders = {name.split("/")[1] for name in sources.getnames() if "/" in name}
    assert "configs" in folders
    assert "tests" not in folders  # a part of them would not run


def test_its_description_is_valid(dist):
    pytest.importorskip("twine")
    run(sys.executable, "-m", "twine", "check", "--strict", *dist.iterdir())


def test_the_commands_run_away_from_the_clone(dist, corpus, tmp_path):
    folder, python = tmp_path / "packages", sys.executable
    pip = [python, "-m", "pip", "install", "-q", "--no-deps", "--no-index"]
    run(*pip, "--target", folder, *dist.glob("*.whl"))
    command = folder / "bin" / "jaxner"
    environment = {**os.environ, "PYTHONPATH": str(folder)}  # before the clone's
    environment["XDG_CACHE_HOME"] = str(tmp_path / "caches")
    environment.pop("JAX_COMPILATION_CACHE_DIR", None)
    options = {"cwd": tmp_path, "env": environment}
    home = run(python, "-c", "import jaxner; print(jaxner.__file__)", **options)
    assert Path(home.strip()).is_relative_to(folder)
    (tmp_path / "mine.py").write_text(
        "import flax.linen as nn\nfrom jaxner.fields import Size\n"
        "class Mine(nn.Module):\n    depth: Size = 7\n"
    )
    text = run(command, "options", "grn:sample,encoder=mine:Mine", **options)
    assert "--config.model.encoder.depth=7" in text
    small = [f"--config.{name}={value}" for name, value in tiny.SMALL.items()]
    small += [f"--config.data.dir={corpus}", "--config.num_epochs=1"]
    train = ["train", "grn:sample,encoder=projection", "--output=run"]
    output = run(command, *train, *small, **options)
    assert "Everything is in" in output
    assert list((tmp_path / "caches" / "jaxner").iterdir())
    evaluate = ["evaluate", "run", "--split=test", "--cache=off", "--json"]
    scores = json.loads(run(python, "-m", "jaxner", *evaluate, **options))
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert scores["f1"] == result["test"]["f1"]
