"""The folder of compiled programs; importing jaxner alone writes none."""

import subprocess
import sys
from pathlib import Path

import jax
import pytest

from jaxner.commands import cache

NAMES = (
    "jax_compilation_cache_dir",
    "jax_enable_compilation_cache",
    "jax_persistent_cache_min_compile_time_secs",
)


@pytest.fixture(autouse=True)
def _as_before():
    before = {name: getattr(jax.config, name) for name in NAMES}
    yield
    for name, value in before.items():
        jax.config.update(name, value)


def test_the_folder_is_where_the_system_keeps_caches(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache.folder() == tmp_path / "jaxner"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    assert cache.folder() == tmp_path / "local" / "jaxner"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert cache.folder() == Path.home() / "Library/Caches/jaxner"


def test_the_variable_of_jax_is_respected_and_a_choice_goes_first(tmp_path):
    given = jax.config.jax_compilation_cache_dir
    assert given  # tests/conftest.py
    cache.enable(None)
    assert jax.config.jax_compilation_cache_dir == given
    cache.enable(str(tmp_path / "mine"))
    assert jax.config.jax_compilation_cache_dir == str(tmp_path / "mine")
    assert (tmp_path / "mine").is_dir()
    cache.enable("off")
    assert not jax.config.jax_enable_compilation_cache


def test_without_a_choice_it_is_the_users_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", raising=False)
    jax.config.update("jax_compilation_cache_dir", None)
    cache.enable(None)
    assert jax.config.jax_compilation_cache_dir == str(tmp_path / "jaxner")
    assert jax.config.jax_persistent_cache_min_compile_time_secs == 0.5


def test_a_folder_that_cannot_be_made(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        cache.enable(str(tmp_path / "file" / "x"))
    jax.config.update("jax_compilation_cache_dir", None)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    cache.enable(None)  # goes without
    assert jax.config.jax_compilation_cache_dir is None


def test_importing_jaxner_changes_no_cache_and_leaves_orbax_alone():
    code = (
        "import sys, jax; d = jax.config.jax_compilation_cache_dir; import jaxner;"
        "assert jax.config.jax_compilation_cache_dir == d;"
        "print([m for m in ('orbax', 'sklearn', 'seqeval') if m in sys.modules])"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=root, check=True, capture_output=True
    )
    assert done.stdout.strip() == b"[]"
