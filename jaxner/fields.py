"""Allowed values of options: ranges and choices, as annotations of fields.

An annotation such as `dropout: Rate = 0.5` is the only place that states them: models
check themselves by it, configs their options, and public functions their arguments.
"""

from __future__ import annotations

import argparse
import collections.abc
import contextlib
import dataclasses
import difflib
import functools
import inspect
import math
import numbers
import operator
import re
import types
import typing
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any, NamedTuple, TypeVar

from jaxner.errors import InputError


@dataclasses.dataclass(frozen=True)
class Range:
    """The allowed numbers of an option; `least` and `most` are allowed themselves.

    `step` is the distance between allowed numbers, from `least` on, or 0 for any;
    `note` is a hint for the error.
    """

    least: int | float | None = None
    above: int | float | None = None
    most: int | float | None = None
    below: int | float | None = None
    step: int = 0
    note: str = ""

    def __contains__(self, value: Any) -> bool:
        compared = all(compare(value, bound) for _, compare, bound in self._bounds())
        in_step = not self.step or (value - (self.least or 0)) % self.step == 0
        return math.isfinite(value) and compared and in_step

    def __str__(self) -> str:
        bounds = [f"{words} {bound}" for words, _, bound in self._bounds()]
        steps = f" in steps of {self.step}" if self.step else ""
        return " and ".join(bounds or ["a finite number"]) + steps

    def _bounds(self) -> Iterator[tuple[str, Callable, float]]:
        for words, compare, bound in (
            ("at least", operator.ge, self.least),
            ("above", operator.gt, self.above),
            ("at most", operator.le, self.most),
            ("below", operator.lt, self.below),
        ):
            if bound is not None:
                yield words, compare, bound


class OneOf:
    """The allowed words of an option; a note says what other words are meant for."""

    def __init__(self, known: Iterable[str], note: str = ""):
        self.known = tuple(known)
        self.note = note

    def __contains__(self, value: Any) -> bool:
        return isinstance(value, str) and value in self.known


class Encodings(OneOf):
    """The encodings of text that Python knows."""

    def __contains__(self, value: Any) -> bool:
        try:
            "a".encode(value)
        except (LookupError, TypeError, ValueError):
            return False
        return True


DERIVED = "derived"  # marks a field whose value comes from the data: no option

Derived = Annotated[int, DERIVED]
Size = Annotated[int, Range(least=1)]
EvenSize = Annotated[int, Range(least=2, step=2, note="half sines, half cosines")]
OddSize = Annotated[int, Range(least=1, most=999, step=2)]
# Each of what is built or compiled one by one: too many would take for ever.
Depth = Annotated[int, Range(least=1, most=100)]
Width = Annotated[int, Range(least=1, most=999)]
# What no weight's shape shows, but memory is allocated for.
Distance = Annotated[int, Range(least=1, most=2**16)]
Hypotheses = Annotated[int, Range(least=1, most=1000)]
Passes = Annotated[int, Range(least=0, most=10_000)]
Labellings = Annotated[int, Range(least=1, most=10_000)]
Count = Annotated[int, Range(least=0)]
Seed = Annotated[int, Range(least=0, most=2**32 - 1)]
_DROPPED = "it is the share that is dropped, not the one that is kept"
Rate = Annotated[float, Range(least=0, below=1, note=_DROPPED)]
Share = Annotated[float, Range(least=0, most=1)]
Chance = Annotated[float, Range(above=0, below=1)]
Momentum = Annotated[float, Range(least=0, below=1)]
Weight = Annotated[float, Range(least=0)]
Positive = Annotated[float, Range(above=0)]
Real = Annotated[float, Range()]
Column = Annotated[int, Range(least=-1000, most=1000)]
_KNOWN = ("utf-8", "latin-1", "cp1252", "all other text encodings of Python")
Encoding = Annotated[str, Encodings(_KNOWN)]

_SEQUENCES = (tuple, collections.abc.Sequence)
_UNIONS = (typing.Union, types.UnionType)
_MOST_VALUES = 100  # of an option with several values, such as sizes of layers
_TYPES: dict[Any, tuple[Any, str]] = {
    bool: (bool, "true or false"),
    int: (numbers.Integral, "a whole number"),
    float: (numbers.Real, "a number"),
    str: (str, "text"),
    tuple: ((tuple, list), "several values, such as (1, 2)"),
    types.NoneType: (types.NoneType, "None"),
}


class Field(NamedTuple):
    """An option: its annotation, its default (or MISSING) and its meaning."""

    hint: Any
    default: Any
    meaning: str = ""

    @property
    def kind(self) -> type:
        """The type of its flag; `object` if several types are allowed."""
        return _kind(self.hint)


@functools.cache
def of(module: type) -> dict[str, Field]:
    """Returns the options of a dataclass or Linen module, by name.

    Fields that contain other modules, and those marked `Derived`, are not options.
    """
    hints = typing.get_type_hints(module, include_extras=True)
    told = {}
    for kind in reversed(module.__mro__):
        told |= meanings(kind.__doc__, "Attributes")
    return {
        field.name: Field(hints[field.name], field.default, told.get(field.name, ""))
        for field in dataclasses.fields(module)
        if field.name not in ("parent", "name") and _is_option(hints[field.name])
    }


def meanings(docstring: str | None, heading: str) -> dict[str, str]:
    """Returns what "Args" or "Attributes" of a docstring say of each name."""
    text = inspect.cleandoc(docstring or "")
    section = re.search(rf"^{heading}:\n((?: {{4}}.*\n?|\n)*)", text, re.MULTILINE)
    entry = r"^ {4}[*]*(\w+): (.*(?:\n {5,}.*)*)"
    entries = re.findall(entry, section[1] if section else "", re.MULTILINE)
    return {name: " ".join(meaning.split()) for name, meaning in entries}


def names(module: type) -> list[str]:
    """Returns the names of all fields of a dataclass or Linen module."""
    return [field.name for field in dataclasses.fields(module)]


def check_fields(instance: Any) -> None:
    """Checks each option of a dataclass or Linen module, then all by its `check`."""
    kind = type(instance)
    for name, field in of(kind).items():
        check(name, getattr(instance, name), field.hint, f" of {kind.__name__}")
    if hasattr(instance, "check"):
        instance.check()


def check(name: str, value: Any, hint: Any, owner: str = "") -> None:
    """Raises InputError, with `name` and `owner` in it, unless a value is allowed."""
    if wrong := _problem(value, hint, name, owner):
        raise InputError(wrong)


def check_word(name: str, value: Any, known: Iterable[str], note: str = "") -> None:
    """Raises InputError unless a value is one of the known words."""
    check(name, value, Annotated[str, OneOf(known, note)])


def fits(value: Any, hint: Any) -> bool:
    """Returns whether a value is allowed for an option."""
    return not _problem(value, hint)


def argument(hint: Any) -> Callable[[str], Any]:
    """Returns a parser of a command line's option, for argparse's `type`."""
    kind = _kind(hint)

    def parse(text: str) -> Any:
        try:
            value = kind(text)
        except ValueError:
            value = text
        if wrong := _problem(value, hint):
            raise argparse.ArgumentTypeError(wrong.strip())
        return value

    return parse


_Function = TypeVar("_Function", bound=Callable[..., Any])


def checked(function: _Function) -> _Function:
    """Returns a function that checks its options before it runs.

    Options are arguments whose annotation says all that is allowed: a number, a switch
    or a word, perhaps with a range.

    Example:
        >>> @checked
        ... def repeat(text: str, times: Size = 1) -> str:
        ...     return text * times
        >>> repeat("a", times=0)
        Traceback (most recent call last):
        ...
        jaxner.errors.InputError: times must be at least 1, got 0
    """
    signature = inspect.signature(function)

    @functools.cache
    def hints() -> dict[str, Any]:
        evaluated = {}
        for name, parameter in signature.parameters.items():
            hint = parameter.annotation
            with contextlib.suppress(NameError):  # imported for type checkers alone
                space = inspect.unwrap(function).__globals__
                evaluated[name] = eval(hint, space) if isinstance(hint, str) else hint
        return {
            name: hint
            for name, hint in evaluated.items()
            if _is_option(hint) and _kind(hint) is not tuple
        }

    @functools.wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        try:
            values = signature.bind(*args, **options).arguments
        except TypeError:
            values = {}  # the call below says it with the function's name
        for name, hint in hints().items():
            if name in values:
                check(name, values[name], hint)
        return function(*args, **options)

    return call  # pyright: ignore[reportReturnType]


def _problem(value: Any, hint: Any, name: str = "", owner: str = "") -> str | None:
    """Returns the message about a value; None if it is allowed."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    note = ""
    if origin is Annotated:
        rule = inner[-1]
        if isinstance(rule, OneOf):
            return None if value in rule else _unknown(value, rule, name, owner)
        wrong = _problem(value, inner[0], name, owner)
        if wrong or not isinstance(rule, Range) or value in rule:
            return wrong
        is_said = math.isfinite(value) or rule == Range(note=rule.note)
        text = f"{'' if is_said else 'finite and '}{rule}"
        note = rule.note and f": {rule.note}"
    elif origin in _UNIONS:
        problems = [_problem(value, each, name, owner) for each in inner]
        # The problem of the type that the value has says most.
        of_type = [not _problem(value, _kind(each)) for each in inner]
        told = problems[of_type.index(True) if True in of_type else 0]
        return None if None in problems else told
    elif origin in _SEQUENCES:
        if wrong := _problem(value, tuple, name, owner):
            return wrong
        if len(value) <= _MOST_VALUES:
            each = (_problem(x, inner[0], name, owner) for x in value)
            return next(filter(None, each), None)
        text, value = f"at most {_MOST_VALUES} values", len(value)
    else:
        wanted, text = _TYPES.get(hint, (object, ""))
        is_other = isinstance(value, bool) and hint in (int, float)
        if isinstance(value, wanted) and not is_other:
            return None
    return f"{name}{owner} must be {text}, got {value!r}{note}"


def _unknown(value: Any, rule: OneOf, name: str, owner: str) -> str:
    close = difflib.get_close_matches(str(value).lower(), rule.known, 1)
    hint = f". Did you mean {close[0]!r}?" if close else ""
    words = ", ".join(filter(None, rule.known))
    known = "; ".join(filter(None, (words, rule.note)))
    subject = f"Unknown {name}".rstrip()
    return f"{subject} {value!r}{owner}; known: {known}{hint}"


def _kind(hint: Any) -> type:
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        return _kind(inner[0])
    if origin in _UNIONS:
        kinds = {_kind(each) for each in inner} - {types.NoneType}
        return kinds.pop() if len(kinds) == 1 else object
    if origin in _SEQUENCES:
        return tuple
    return hint if hint in _TYPES else object


def _is_option(hint: Any) -> bool:
    """Returns whether an annotation says all that is allowed."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        return DERIVED not in inner and _is_option(inner[0])
    if origin in (*_UNIONS, *_SEQUENCES):
        return all(_is_option(each) for each in inner if each is not Ellipsis)
    return hint in _TYPES
