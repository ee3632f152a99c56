"""Allowed values of options: ranges and choices, as annotations of fields.

The annotation of a field, such as `dropout: Rate = 0.5`, is the only place that states
its allowed values: modules check themselves by it, and configs check their flags.
"""

from __future__ import annotations

import argparse
import collections.abc
import dataclasses
import functools
import inspect
import itertools
import numbers
import re
import types
import typing
from collections.abc import Callable, Iterable
from typing import Annotated, Any, NamedTuple

from jaxner.ranges import Encodings, OneOf, Range

_SEQUENCES = (tuple, collections.abc.Sequence)
_UNIONS = (typing.Union, types.UnionType)
_NUMBERS = (int, float)
_MOST_VALUES = 100  # of an option with several values, such as sizes of layers


DERIVED = "derived"
"""Marks a field whose value comes from the data, so it is not an option."""

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
Rate = Annotated[
    float,
    Range(
        least=0,
        below=1,
        note="it is the share that is dropped, not the one that is kept",
    ),
]
Share = Annotated[float, Range(least=0, most=1)]
Momentum = Annotated[float, Range(least=0, below=1)]
Weight = Annotated[float, Range(least=0)]
Positive = Annotated[float, Range(above=0)]
Real = Annotated[float, Range()]
Column = Annotated[int, Range(least=-1000, most=1000)]
_KNOWN = ("utf-8", "latin-1", "cp1252", "all other text encodings of Python")
Encoding = Annotated[str, Encodings(_KNOWN)]


class Field(NamedTuple):
    """An option of a module or section.

    Attributes:
        hint: Annotation of the field.
        default: Default value; `dataclasses.MISSING` without one.
        meaning: What it does, for the list of all options.
    """

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

    Args:
        module: The class.

    Fields that contain other modules, and those marked `Derived`, are not options.

    Example:
        >>> @dataclasses.dataclass
        ... class Own:
        ...     num_labels: Derived
        ...     size: Size = 3
        >>> of(Own)["size"].default, list(of(Own))
        (3, ['size'])
    """
    hints = typing.get_type_hints(module, include_extras=True)
    told = meanings(module.__doc__, "Attributes")
    return {
        field.name: Field(hints[field.name], field.default, told.get(field.name, ""))
        for field in dataclasses.fields(module)
        if field.name not in ("parent", "name") and _is_option(hints[field.name])
    }


def meanings(docstring: str | None, heading: str) -> dict[str, str]:
    """Returns what a section of a docstring says of each name, in one line each.

    Args:
        docstring: A docstring in Google's style.
        heading: "Args" or "Attributes".

    Example:
        >>> meanings(meanings.__doc__, "Args")["heading"]
        '"Args" or "Attributes".'
    """
    text = inspect.cleandoc(docstring or "")
    section = re.search(rf"^{heading}:\n((?: {{4}}.*\n?|\n)*)", text, re.MULTILINE)
    entry = r"^ {4}[*]*(\w+): (.*(?:\n {5,}.*)*)"
    entries = re.findall(entry, section[1] if section else "", re.MULTILINE)
    return {name: " ".join(meaning.split()) for name, meaning in entries}


def names(module: type) -> list[str]:
    """Returns the names of all fields of a dataclass or Linen module."""
    return [field.name for field in dataclasses.fields(module)]


def check_fields(instance: Any) -> None:
    """Checks the options of an instance of a dataclass or Linen module.

    Raises:
        ValueError: An option is out of its range, or not among its choices.

    Example:
        >>> @dataclasses.dataclass
        ... class Own:
        ...     dropout: Rate = 0.5
        >>> try:
        ...     check_fields(Own(-1.0))
        ... except ValueError as error:
        ...     print(str(error).partition(":")[0])
        dropout of Own must be in [0, 1), got -1.0
    """
    kind = type(instance)
    for name, field in of(kind).items():
        check(name, getattr(instance, name), field.hint, f" of {kind.__name__}")


def check(name: str, value: Any, hint: Any, whose: str = "") -> None:
    """Checks the value of one option.

    Args:
        name: Name of the option, for the error.
        value: Value of the option.
        hint: Annotation of its field.
        whose: Text after the name in the error, such as " of CharacterCNN".

    Raises:
        ValueError: The value is out of range, not among the choices, or of another
            type.

    Example:
        >>> check("--config.batch_size", 0, Size)
        Traceback (most recent call last):
        ...
        ValueError: --config.batch_size must be at least 1, got 0
    """
    found = _problem(value, hint)
    if not found:
        return
    if found.startswith("must"):
        raise ValueError(f"{name}{whose} {found}")
    raise ValueError(f"Unknown {name} {value!r}{whose}; known: {found}")


def argument(hint: Any, example: str = "") -> Callable[[str], Any]:
    """Returns a parser of a command line's option, for argparse's `type`.

    Args:
        hint: Annotation with the allowed values.
        example: Example of several values between commas, which the parser returns
            sorted and distinct; "" for an option with one value.

    Example:
        >>> argument(Size)("3"), argument(Size, "1,2,8")("8,2,2")
        (3, [2, 8])
        >>> argument(Size)("0")
        Traceback (most recent call last):
        ...
        argparse.ArgumentTypeError: must be at least 1, got 0
    """

    def one(text: str) -> Any:
        kind = _kind(hint)
        try:
            value = kind(text)
        except ValueError:
            raise argparse.ArgumentTypeError(
                f"must be numbers and commas, such as {example}, got {text!r}"
                if example
                else f"must be {_TYPES[kind][1]}, got {text!r}"
            ) from None
        if found := _problem(value, hint):
            is_range = found.startswith("must")
            known = f"is unknown: {value!r}; known: {found}"
            raise argparse.ArgumentTypeError(found if is_range else known)
        return value

    return (lambda text: sorted({*map(one, text.split(","))})) if example else one


def fits(value: Any, hint: Any) -> bool:
    """Returns whether a value is allowed for an option.

    Example:
        >>> fits(0, Size), fits(0, Count)
        (False, True)
    """
    return not _problem(value, hint)


def _problem(value: Any, hint: Any) -> str:
    """Returns "must be …" or the known words; empty if the value is allowed."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        base, *rules = arguments
        of_rules = filter(None, _broken(value, rules))
        if any(isinstance(rule, OneOf) for rule in rules):
            return next(of_rules, "")  # the choices say more than the type
        return _problem(value, base) or next(of_rules, "")
    if origin in _UNIONS:
        problems = [_problem(value, one) for one in arguments]
        fits = (not _problem(value, _kind(one)) for one in arguments)
        nearest = next(itertools.compress(problems, fits), problems[0])
        numbers = [
            _TYPES[kind][1] for kind in map(_kind, arguments) if kind in _NUMBERS
        ]
        if numbers and not nearest.startswith("must"):
            nearest += f" or {numbers[0]}"
        return "" if "" in problems else nearest
    if origin in _SEQUENCES:
        if other := _problem(value, tuple):
            return other
        if len(value) > _MOST_VALUES:
            return f"must be at most {_MOST_VALUES} values, got {len(value):,}"
        ones = map(functools.partial(_problem, hint=arguments[0]), value)
        return next(filter(None, ones), "")
    wanted, text = _TYPES.get(hint, (object, ""))
    is_other = isinstance(value, bool) and hint in (int, float)
    if isinstance(value, wanted) and not is_other:
        return ""
    return f"must be {text}, got {value!r}"


_TYPES: dict[Any, tuple[Any, str]] = {
    bool: (bool, "true or false"),
    int: (numbers.Integral, "a whole number"),
    float: (numbers.Real, "a number"),
    str: (str, "text"),
    tuple: ((tuple, list), "several values, such as (1, 2)"),
    types.NoneType: (types.NoneType, "None"),
}


def _broken(value: Any, rules: Iterable[Any]) -> Iterable[str]:
    for rule in rules:
        if isinstance(rule, Range):
            yield rule.problem(value)
        elif isinstance(rule, OneOf) and value not in rule:
            yield ", ".join(rule.known) + (f"; {rule.note}" if rule.note else "")


def _kind(hint: Any) -> type:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        return _kind(arguments[0])
    if origin in _UNIONS:
        kinds = {_kind(one) for one in arguments} - {types.NoneType}
        return kinds.pop() if len(kinds) == 1 else object
    if origin in _SEQUENCES:
        return tuple
    return hint if hint in _TYPES else object


def is_single(hint: Any) -> bool:
    """Returns whether an annotation is that of an option with one value."""
    return _is_option(hint) and _kind(hint) is not tuple


def _is_option(hint: Any) -> bool:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        return DERIVED not in arguments and _is_option(arguments[0])
    if origin in (*_UNIONS, *_SEQUENCES):
        return all(_is_option(one) for one in arguments if one is not Ellipsis)
    return hint in _TYPES
