"""Allowed values of options, read from annotations."""

import math
from typing import Annotated

import pytest

from jaxner import fields
from jaxner.fields import Count, OneOf, Range, Rate, Size

WORD = Annotated[str, OneOf(("top", "mix"))]


@pytest.mark.parametrize(
    ("text", "range_", "good", "bad"),
    [
        ("at least 0 and below 1", Range(least=0, below=1), (0, 0.5), (-0.1, 1)),
        ("above 0 and at most 1", Range(above=0, most=1), (0.5, 1), (0, 1.1)),
        ("at least 2 in steps of 2", Range(least=2, step=2), (2, 10), (0, 3)),
        ("a finite number", Range(), (-1e30, 0, 7), ()),
    ],
)
def test_ranges(text, range_, good, bad):
    assert str(range_) == text
    assert all(value in range_ for value in good)
    assert not any(value in range_ for value in (*bad, math.nan, math.inf, -math.inf))


@pytest.mark.parametrize(
    ("hint", "right", "wrong"),
    [
        (Size, (1, 7), {0: "at least 1", 2.0: "whole", True: "whole", "2": "whole"}),
        (Rate, (0, 0.5), {"2": "a number", None: "a number", 1.0: "the share"}),
        (Rate | None, (None, 0.1), {1.0: "below 1"}),
        (Rate | None | Size, (1,), {"x": "number"}),
        (bool, (True,), {0: "true or false"}),
        (str, ("",), {3: "text"}),
        (WORD, ("mix",), {"end": "top, mix"}),
        (WORD | Count, ("mix", 2), {"end": "top, mix", -1: "at least 0"}),
        (tuple[Size, ...], ([3, 5],), {3: "several values", (3, 0): "at least 1"}),
        (Size | tuple[Size, ...], (5, (1, 2)), {(3, 0): "at least 1"}),
    ],
)
def test_values_that_fit_and_errors_that_say_what_would(hint, right, wrong):
    for value in right:
        fields.check("x", value, hint)
    for value, text in wrong.items():
        assert not fields.fits(value, hint)
        with pytest.raises(ValueError, match=f"x.* of M.*{text}"):
            fields.check("x of M", value, hint)
