"""Parameters of tests that only `pytest -m slow` runs."""

import pytest


def slow(*values):
    """Returns parameters marked as slow; a tuple holds those of one test."""
    return [
        pytest.param(
            *(value if isinstance(value, tuple) else (value,)), marks=pytest.mark.slow
        )
        for value in values
    ]
