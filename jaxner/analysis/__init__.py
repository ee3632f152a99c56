"""Reports of runs, the inside of a model, and sentences worth annotating."""

import functools

from jaxner import submodule

__getattr__ = functools.partial(submodule, __name__)
