"""Strict JAX for all tests; shapes in signatures are checked (see pyproject.toml)."""

import os
from pathlib import Path

# The first halves the compile time of the many small programs; the second gives the
# tests of sharding two devices on any machine.
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_backend_optimization_level=0 --xla_force_host_platform_device_count=2",
)

# The same small programs are compiled by many tests and scripts: compile them once.
_CACHE = Path(__file__).parents[1] / ".pytest_cache" / "jax"
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(_CACHE))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.2")

import jax
import pytest

# jaxner is imported inside the fixtures: jaxtyping's pytest plugin has to come first.

jax.config.update("jax_numpy_rank_promotion", "raise")


@pytest.fixture
def float64():
    """Computes in double precision within one test."""
    with jax.enable_x64(True):
        yield


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    """A folder with a tiny train, dev and test file."""
    from tests import tiny

    return tiny.write_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="session")
def finished(corpus, tmp_path_factory):
    """The folder of a finished tiny run."""
    import train
    from tests import tiny

    folder = tmp_path_factory.mktemp("runs") / "finished"
    train.main_run(tiny.config(corpus), folder)
    return folder


@pytest.fixture(scope="session")
def params(finished):
    """The tagger of the finished run."""
    import jaxner

    return jaxner.load(finished)
