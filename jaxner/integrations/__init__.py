"""Taggers in the pipelines of other libraries, each imported only if it is used."""

import functools

from jaxner import submodule

__getattr__ = functools.partial(submodule, __name__)
