"""A tagger's answers beyond labels: entities, probabilities, and their calibration."""

import functools

from jaxner import submodule

__getattr__ = functools.partial(submodule, __name__)
