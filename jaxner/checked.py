"""Checks the numbers, switches and words that callers pass, by their annotations."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from jaxner import fields

_Function = TypeVar("_Function", bound=Callable[..., Any])


def checked(function: _Function) -> _Function:
    """Returns a function that checks its options before it runs.

    Options are arguments whose annotation says all that is allowed: a number, a switch
    or a word, perhaps with a range of `fields`. Others are left to the function.

    Args:
        function: A function whose errors callers read; not one of an inner loop.

    Example:
        >>> @checked
        ... def repeat(text: str, times: fields.Size = 1) -> str:
        ...     return text * times
        >>> repeat("a", times=0)
        Traceback (most recent call last):
        ...
        ValueError: times must be at least 1, got 0
    """
    signature, names = inspect.signature(function), inspect.unwrap(function).__globals__

    @functools.cache
    def hints() -> dict[str, Any]:
        found = {
            name: _evaluated(one.annotation, names)
            for name, one in signature.parameters.items()
        }
        return {name: hint for name, hint in found.items() if fields.is_single(hint)}

    @functools.wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        try:
            given = signature.bind(*args, **options).arguments
        except TypeError:
            given = {}  # the call below says it with the function's name
        for name, hint in hints().items():
            if name in given:
                fields.check(name, given[name], hint)
        return function(*args, **options)

    return call  # pyright: ignore[reportReturnType]


def _evaluated(annotation: Any, names: dict[str, Any]) -> Any:
    """Returns an annotation; None if it has names that only type checkers import."""
    if not isinstance(annotation, str):
        return annotation
    try:
        return eval(annotation, names)  # as typing.get_type_hints does
    except NameError:
        return None
