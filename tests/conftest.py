"""Strict JAX for all tests; shapes in signatures are checked (see pyproject.toml)."""

import os

# Halves the compile time of the many small programs.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")

import jax
import pytest

jax.config.update("jax_numpy_rank_promotion", "raise")


@pytest.fixture
def float64():
    """Computes in double precision within one test."""
    with jax.enable_x64(True):
        yield
