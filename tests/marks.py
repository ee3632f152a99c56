"""Parameters of tests that only `pytest -m slow` runs."""

import pytest


def slow(*values):
    """Returns parameters marked as slow."""
    return [pytest.param(value, marks=pytest.mark.slow) for value in values]
