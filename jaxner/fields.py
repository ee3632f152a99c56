"""Allowed values of options: ranges and choices, as annotations of fields.

An annotation such as `dropout: Rate = 0.5` is the only place that states them: models
check themselves by it, configs their options, and public functions their arguments; the
command line reads and explains values by it.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import difflib
import functools
import inspect
import math
import numbers
import os
import re
import sys
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar

from jaxner.errors import InputError

# --- Rules: which values of its type an annotation allows -----------------------------


@dataclasses.dataclass(frozen=True)
class Range:
    """The allowed numbers of an option; `least` and `most` are allowed themselves.

    `step` is the distance between allowed numbers, from `least` on, or 0 for any; a
    `note` ends the error about a number.
    """

    least: int | float = -math.inf
    above: int | float = -math.inf
    most: int | float = math.inf
    below: int | float = math.inf
    step: int = 0
    note: str = ""

    def __contains__(self, value: Any) -> bool:
        is_within = self.least <= value <= self.most and self.above < value < self.below
        return is_within and (not self.step or (value - self.least) % self.step == 0)

    def __str__(self) -> str:
        bounds = {"at least": self.least, "above": self.above}
        bounds |= {"at most": self.most, "below": self.below}
        texts = [f"{words} {x}" for words, x in bounds.items() if math.isfinite(x)]
        steps = f" in steps of {self.step}" if self.step else ""
        return " and ".join(texts or ["a finite number"]) + steps


@dataclasses.dataclass(frozen=True, eq=False)  # of any iterable, so that all hash
class OneOf:
    """The allowed words of an option, and a test of others, which the note describes.

    A note without a test says what other words are meant for.
    """

    words: Iterable[str]
    note: str = ""
    allows: Callable[[str], bool] = lambda _: False

    def __contains__(self, value: Any) -> bool:
        is_text, is_word = isinstance(value, str), isinstance(value, str | int | None)
        return is_word and (value in self.words or (is_text and self.allows(value)))

    def __str__(self) -> str:
        return ", ".join(filter(None, map(str, self.words)))


@dataclasses.dataclass(frozen=True, eq=False)
class Mark:
    """What an annotation says of a field; `words` ask for a value that it `allows`."""

    words: str = ""
    allows: Callable[[Any], bool] = lambda _: True

    def __contains__(self, value: object) -> bool:
        return self.allows(value)

    def __str__(self) -> str:
        return self.words


def _encodes(encoding: str) -> bool:
    try:
        "a".encode(encoding)
    except (LookupError, ValueError):
        return False
    return True


@dataclasses.dataclass(frozen=True)
class FromData:
    """Marks a field that is no option, as its value comes from the data.

    If it names an `option` of its class, only where that is set; so without it, models
    of other data are equal.
    """

    option: str = ""


DERIVED = FromData()
OUTPUT = Mark()  # it is the path of a file to write

Folder = Annotated[Path, Mark("a folder", lambda path: not path.is_file())]
Output = Annotated[Path, OUTPUT]
Derived = Annotated[int, DERIVED]
Text = Annotated[str, Mark("text that is not empty", bool)]
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
Samples = Annotated[int, Range(least=1, most=10_000)]
Labellings = Annotated[int, Range(least=1, most=10_000)]
Count = Annotated[int, Range(least=0)]
Seed = Annotated[int, Range(least=0, most=2**32 - 1)]
_NOTE = "it is the share that is dropped, not the one that is kept"
Rate = Annotated[float, Range(least=0, below=1, note=_NOTE)]
Share = Annotated[float, Range(least=0, most=1)]
Chance = Annotated[float, Range(above=0, below=1)]
Momentum = Annotated[float, Range(least=0, below=1)]
Weight = Annotated[float, Range(least=0)]
Positive = Annotated[float, Range(above=0)]
Real = Annotated[float, Range()]
Column = Annotated[int, Range(least=-1000, most=1000)]
_ENCODINGS = ("utf-8", "latin-1", "cp1252")
Encoding = Annotated[str, OneOf(_ENCODINGS, "or another one that Python has", _encodes)]

# --- Kinds: how a value is read, checked and explained --------------------------------


def _path(text: str) -> Path | str:
    path = Path(os.path.expanduser(text))
    is_file = str(path) == "-" != text  # pathlib makes `-`, a stream, of `./-`
    return (path.absolute() if is_file else path) if text else text


_BOOLS = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}
# What values of a type are, in code and in words, and how to read them from a text.
_TYPES: dict[Any, tuple[Any, str, Callable[[str], Any]]] = {
    bool: (bool, "true or false", lambda text: _BOOLS[text.lower()]),
    int: (numbers.Integral, "a whole number", int),
    float: (numbers.Real, "a number", float),
    str: (str, "text", lambda x: os.path.expanduser(x) if x[:2] == "~/" else x),
    Path: (Path, "a path", _path),
    types.NoneType: (types.NoneType, "None", {"None": None}.__getitem__),
}


class Kind(NamedTuple):
    """Values of one type that an annotation allows, by a rule; perhaps several."""

    type: Any
    rule: Any = None
    is_several: bool = False

    def __str__(self) -> str:
        words = _TYPES[self.type][1].removeprefix("a ")
        if isinstance(self.rule, OneOf):
            words = ", ".join(filter(None, (str(self.rule), self.rule.note)))
        elif isinstance(self.rule, Range) and self.rule != Range():
            words += f" {self.rule}"
        return f"several, each {words}" if self.is_several else words

    def read(self, text: str) -> Any:
        """Returns the value of a text; the text itself if it is of another type."""
        if self.is_several:
            item = self._replace(is_several=False)
            parts = (x.strip(" '\"") for x in text.strip("()[] ").split(","))
            return tuple(map(item.read, filter(None, parts)))
        try:
            return _TYPES[self.type][2](text)
        except (KeyError, ValueError):
            return text

    def has_type(self, value: object) -> bool:
        """Returns whether a value is of the type, whatever the rule says."""
        python = (tuple, list) if self.is_several else _TYPES[self.type][0]
        is_other = isinstance(value, bool) and self.type is not bool
        return isinstance(value, python) and not is_other

    def problem(self, value: Any, name: str) -> str | None:
        """Returns the message about a value; None if it is allowed."""
        rule, demand, note = self.rule, _TYPES[self.type][1], ""
        if self.is_several:
            if self.has_type(value) and (value or rule is None):
                item = self._replace(is_several=False)
                return next(filter(None, (item.problem(x, name) for x in value)), None)
            demand = "several values, such as (1, 2)"
        elif isinstance(rule, OneOf):
            return None if value in rule else _unknown(value, name, rule)
        elif self.has_type(value):
            if rule is None or value in rule:
                return None
            demand, note = str(rule), getattr(rule, "note", "")
        text = repr(str(value) if isinstance(value, Path) else value)
        return f"{name} must be {demand}, got {text}{f': {note}' * bool(note)}"


def kinds(hint: object) -> tuple[Kind, ...]:
    """Returns the kinds of values that an annotation allows; () if it is no option."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        bases = () if isinstance(inner[-1], FromData) else kinds(inner[0])
        return tuple(kind._replace(rule=inner[-1]) for kind in bases)
    if origin in (typing.Union, types.UnionType):
        parts = [*map(kinds, inner)]
        return sum(parts, ()) if all(parts) else ()
    if origin in (tuple, collections.abc.Sequence):
        return tuple(kind._replace(is_several=True) for kind in kinds(inner[0]))
    if origin is typing.Literal:
        word_types = [*dict.fromkeys(map(type, inner))]
        is_option = _TYPES.keys() >= {*word_types}
        return tuple(Kind(x, OneOf(inner)) for x in word_types if is_option)
    return (Kind(hint),) if hint in _TYPES else ()


def _unknown(value: object, name: str, rule: OneOf) -> str:
    """Returns the message about an unknown word: all words, and what may be meant."""
    close = difflib.get_close_matches(str(value).lower(), map(str, rule.words), 1)
    hint = f". Did you mean {close[0]!r}?" if close else ""
    words = "; ".join(filter(None, (str(rule), rule.note)))
    return f"{f'Unknown {name}'.rstrip()} {value!r}; known: {words}{hint}"


# --- Values ---------------------------------------------------------------------------


def parse(text: str, hint: object) -> Any:
    """Returns the value of a text by an annotation, or the text, which `check` refuses.

    Several values stand between commas, perhaps in brackets. Of a union, a word is
    what is nothing else.
    """
    has_several = text[:1] in ("(", "[") or "," in text

    def order(kind: Kind) -> tuple[bool, bool]:
        return kind.type is str, kind.is_several != has_several

    for kind in sorted(kinds(hint), key=order):
        value = kind.read(text)
        if value != text or kind.type is str:
            return value
    return text


def problem(value: Any, hint: object, name: str = "") -> str | None:
    """Returns the message about a value; None if an annotation allows it."""
    value = value.tolist() if getattr(value, "shape", None) == () else value
    order = sorted(kinds(hint), key=lambda kind: not kind.has_type(value))
    problems = [kind.problem(value, name) for kind in order]
    # The problem of the type that the value has says most.
    return None if None in problems else next(iter(problems), None)


def check(name: str, value: object, hint: object) -> None:
    """Raises InputError unless a value is allowed; TypeError if JAX traces it."""
    if (jax := sys.modules.get("jax")) and isinstance(value, jax.core.Tracer):
        remedy = "name it in static_argnames (static_argnums) of jax.jit, or bind it"
        raise TypeError(f"{name} must not be traced: {remedy}")
    if message := problem(value, hint, name):
        raise InputError(message)


def check_word(name: str, value: object, words: Iterable[str], note: str = "") -> None:
    """Raises InputError unless a value is one of some words."""
    check(name, value, Annotated[str, OneOf(words, note)])


# --- Options of classes and of functions ----------------------------------------------

REQUIRED = inspect.Parameter.empty  # in place of a default


class Field(NamedTuple):
    """A field or a parameter: its annotation, default (or REQUIRED) and meaning."""

    hint: Any
    default: Any
    meaning: str = ""

    @property
    def mark(self) -> Any:
        """What stands beside the type in the annotation, or None."""
        return getattr(self.hint, "__metadata__", (None,))[0]


@dataclasses.dataclass(frozen=True, eq=False)
class Part:
    """Marks a field that holds a section of options.

    `kind` is the class that is built from it, or the name of the table in
    `models.TABLES` in which the section's `name`, by default `default`, chooses a
    class. `more` are options of the section that no class has. Where `is_many`, the
    field holds such sections by name.
    """

    kind: type | str
    default: str = ""
    more: Mapping[str, Field] = dataclasses.field(default_factory=dict)
    is_many: bool = False


@functools.cache
def all_of(owner: Callable[..., Any]) -> Mapping[str, Field]:
    """Returns the parameters of a function, or of a dataclass or Linen module.

    "Args" of a docstring, or "Attributes" of a class and its bases, give the meanings.
    """
    try:
        hints = typing.get_type_hints(owner, include_extras=True)
    except NameError as error:  # such as of an import for type checkers alone
        message = f"{owner.__name__} has an annotation that cannot be read: {error}"
        raise InputError(message) from None
    bases = reversed(getattr(owner, "__mro__", [owner]))
    texts = dict(pair for base in bases for pair in _meanings(base.__doc__))
    return {
        name: Field(hints.get(name), parameter.default, texts.get(name, ""))
        for name, parameter in inspect.signature(owner).parameters.items()
        if "parent" not in hints or name not in ("parent", "name")  # of Linen
    }


@functools.cache
def parts(module: type) -> Mapping[str, Part]:
    """Returns the sections within a dataclass or Linen module, by name."""
    marks = {name: field.mark for name, field in all_of(module).items()}
    return {name: mark for name, mark in marks.items() if isinstance(mark, Part)}


@functools.cache
def of(owner: Callable[..., Any]) -> Mapping[str, Field]:
    """Returns the options of a dataclass, a Linen module or a function, by name.

    Fields that contain other modules, and those marked `Derived`, are not options. What
    a class lists as `MORE` are options that are no fields.
    """
    options = {name: x for name, x in all_of(owner).items() if kinds(x.hint)}
    return {**getattr(owner, "MORE", {}), **options}


def _meanings(docstring: str | None) -> list[tuple[str, str]]:
    """Returns what "Args" or "Attributes" of a docstring say of each name."""
    text = inspect.cleandoc(docstring or "")
    section = r"^(?:Args|Attributes):\n((?: {4}.*\n?|\n)*)"
    lines = "".join(re.findall(section, text, re.MULTILINE))
    entry = r"^ {4}[*]*(\w+): (.*(?:\n {5,}.*)*)"
    entries = re.findall(entry, lines, re.MULTILINE)
    return [(name, " ".join(meaning.split())) for name, meaning in entries]


def check_fields(instance: Any) -> None:
    """Checks each option of a dataclass or Linen module, then all by its `check`."""
    kind = type(instance)
    for name, field in of(kind).items():
        if name in getattr(kind, "MORE", ()):
            continue  # an option that is no field
        check(f"{name} of {kind.__name__}", getattr(instance, name), field.hint)
    if hasattr(instance, "check"):
        instance.check()


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

    @functools.wraps(function)
    def call(*args: Any, **keywords: Any) -> Any:
        try:
            values = signature.bind(*args, **keywords).arguments
        except TypeError:
            values = {}  # the call below says it with the function's name
        for name, field in of(function).items():
            if name in values and not kinds(field.hint)[0].is_several:
                check(name, values[name], field.hint)
        return function(*args, **keywords)

    return call  # pyright: ignore[reportReturnType]
