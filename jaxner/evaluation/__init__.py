"""Scores and reports: host code, no JAX."""

import functools

from jaxner import submodule

__getattr__ = functools.partial(submodule, __name__)
