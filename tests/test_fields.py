"""Allowed values of options, read from annotations."""

import math
from typing import Annotated

import flax.linen as nn
import pytest

from jaxner import fields
from jaxner.fields import Count, Derived, OneOf, Range, Rate, Size

WORD = Annotated[str, OneOf(("top", "mix"))]


class Own(nn.Module):
    part: nn.Module
    num_labels: Derived
    size: Size = 3
    rate: Rate | None = None
    widths: Size | tuple[Size, ...] = 3
    layer: WORD | Count = "top"


def test_options_are_what_a_flag_can_set():
    found = fields.of(Own)
    assert list(found) == ["size", "rate", "widths", "layer"]
    assert [x.kind for x in found.values()] == [int, float, object, object]
    assert [x.default for x in found.values()] == [3, None, 3, "top"]
    assert set(fields.names(Own)) >= {"part", "num_labels", *found}


@pytest.mark.parametrize(
    ("text", "range_", "good", "bad"),
    [
        ("at least 1", Range(least=1), (1, 7.5), (0, -1)),
        ("above 0", Range(above=0), (1e-9, 1), (0, -1e-9)),
        ("at most 2", Range(most=2), (2, -9), (2.5,)),
        ("below 2", Range(below=2), (1.5, -9), (2,)),
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
    ("value", "hint", "message"),
    [
        (0, Size, "x of M must be at least 1, got 0"),
        (2.0, Size, "x of M must be a whole number, got 2.0"),
        (True, Size, "x of M must be a whole number, got True"),
        ("2", Rate, "x of M must be a number, got '2'"),
        (None, Rate, "x of M must be a number, got None"),
        (
            1.0,
            Rate | None,
            "x of M must be at least 0 and below 1, got 1.0: it is the share",
        ),
        (0, bool, "x of M must be true or false, got 0"),
        (3, str, "x of M must be text, got 3"),
        ("end", WORD, "Unknown x 'end' of M; known: top, mix"),
        ("end", WORD | Count, "Unknown x 'end' of M; known: top, mix"),
        (-1, WORD | Count, "x of M must be at least 0, got -1"),
        ((3, 0), Size | tuple[Size, ...], "x of M must be at least 1, got 0"),
        (3, tuple[Size, ...], "x of M must be several values, such as (1, 2), got 3"),
    ],
)
def test_errors_say_what_would_work(value, hint, message):
    assert not fields.fits(value, hint)
    with pytest.raises(ValueError) as error:  # noqa: PT011 - compared below
        fields.check("x", value, hint, " of M")
    assert str(error.value).startswith(message)


def test_what_fits_is_let_through():
    for value, hint in (
        (1, Size),
        (1, Rate | None | Size),
        (None, Rate | None),
        ([3, 5], tuple[Size, ...]),
        (5, Size | tuple[Size, ...]),
        ("mix", WORD | Count),
        (2, WORD | Count),
        (0, Rate),
    ):
        fields.check("x", value, hint)
