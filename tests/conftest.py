"""Strict JAX for all tests; shapes in signatures are checked (see pyproject.toml)."""

import os

# Halves the compile time of the many small programs.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")

import jax
import pytest

import jaxner
import train
from tests import tiny

jax.config.update("jax_numpy_rank_promotion", "raise")


@pytest.fixture
def float64():
    """Computes in double precision within one test."""
    with jax.enable_x64(True):
        yield


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    """A folder with a tiny train, dev and test file."""
    return tiny.write_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="session")
def finished(corpus, tmp_path_factory):
    """The folder of a finished tiny run."""
    folder = tmp_path_factory.mktemp("runs") / "finished"
    train.main_run(tiny.config(corpus), folder)
    return folder


@pytest.fixture(scope="session")
def params(finished):
    """The tagger of the finished run."""
    return jaxner.load(finished)
