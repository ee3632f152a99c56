"""Allowed values of options, read from annotations."""

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import pytest

from jaxner import fields
from jaxner.fields import Count, OneOf, Range, Rate, Size

WORD = Annotated[str, OneOf(("top", "mix"))]
NAN, INF = math.nan, math.inf
SHARE, EVEN = "above 0 and at most 1", "at least 2 in steps of 2"
Positive = Annotated[float, Range(above=0, most=1)]
Even = Annotated[float, Range(least=2, step=2)]
Finite = Annotated[float, Range()]


@pytest.mark.parametrize(
    ("hint", "right", "wrong"),
    [
        (Size, (1, 7), {0: "at least 1", 2.0: "whole", True: "whole", "2": "whole"}),
        (Rate, (0, 0.5), {"2": "a number", None: "a number", 1.0: "the share"}),
        (Rate, (0,), {-0.1: "the share", NAN: "the share"}),
        (Rate | None, (None, 0.1), {1.0: "below 1"}),
        (Rate | None | Size, (1,), {"x": "number"}),
        (Positive, (0.5, 1), {0: SHARE, 1.1: SHARE, NAN: SHARE, INF: SHARE}),
        (Even, (2, 10), {0: EVEN, 3: EVEN, -INF: EVEN}),
        (Finite, (-1e30, 0, 7), {NAN: "finite", INF: "finite", -INF: "finite"}),
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
        assert fields.problem(value, hint)
        with pytest.raises(ValueError, match=f"x.* of M.*{text}"):
            fields.check("x of M", value, hint)


ODD = "a, (b) [1]"


@pytest.mark.parametrize(
    ("hint", "texts"),
    [
        (str | None, {ODD: ODD, "None": None, "": "", "~/a": str(Path.home() / "a")}),
        (fields.Folder, {ODD: Path(ODD), "-": Path("-"), "./-": Path("-").absolute()}),
        (Size | None, {"3": 3, "None": None, "x": "x"}),
        (Size | tuple[Size, ...], {"3": 3, "(3,)": (3,), "3,x": (3, "x")}),
        (str | Sequence[str] | None, {"a": "a", "a,b": ("a", "b"), "": ""}),
        (WORD | Count, {"2": 2, "mix": "mix"}),
        (Rate, {"1e-3": 0.001, "nan": pytest.approx(NAN, nan_ok=True), "x": "x"}),
        (bool | None, {"T": True, "0": False, "None": None, "maybe": "maybe"}),
    ],
)
def test_a_text_is_read_by_the_annotation_and_what_is_none_stays_a_text(hint, texts):
    for text, value in texts.items():
        assert fields.parse(text, hint) == value


@dataclasses.dataclass
class Base:
    """A class.

    Attributes:
        size: Its size,
            in metres.
    """

    size: Size
    names: list[str]


@dataclasses.dataclass
class Heir(Base):
    """An heir.

    Attributes:
        rate: Its rate.
    """

    rate: Rate = 0.5


def function(size: Size, names, rate: Rate = 0.5):
    """A function.

    Args:
        size: Its size,
            in metres.
        rate: Its rate.
    """


@pytest.mark.parametrize("owner", [Heir, function])
def test_the_fields_of_a_class_are_read_as_the_parameters_of_a_function(owner):
    options = fields.all_of(owner)
    assert [*options] == ["size", "names", "rate"]
    assert [*fields.of(owner)] == ["size", "rate"]
    assert options["size"].default is options["names"].default is fields.REQUIRED
    assert options["size"].meaning == "Its size, in metres."
    assert options["rate"] == (Rate, 0.5, "Its rate.")
