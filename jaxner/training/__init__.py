"""Training: objectives, optimizers and the step."""

import functools

from jaxner import submodule

__getattr__ = functools.partial(submodule, __name__)
