"""Parameters of tests that only `pytest -m slow` runs, and the browser of some."""

import pytest

CHROMIUM = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic"),
    *("--no-first-run", "--disable-sync", "--disable-background-networking"),
    "--disable-component-update",
)


def slow(*values):
    """Returns parameters marked as slow; a tuple holds those of one test."""
    rows = (value if isinstance(value, tuple) else (value,) for value in values)
    return [pytest.param(*row, marks=pytest.mark.slow) for row in rows]
