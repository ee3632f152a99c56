"""What would fix a file, in the words of Python or of a command line.

Remedies name a reader's arguments in backticks: `label_column`, or with a value,
`unfit='widen'`. A command has flags for some of them.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable

from jaxner.data.readers.examples import ConllError

_NAMES = "token_column|label_column|comments|encoding|unfit|scheme|tokenise"
_ARGUMENT = re.compile(rf"`(?P<name>{_NAMES})(='(?P<value>[^']*)')?`")

FlagOf = Callable[[str], str | None]
"""A function from a name or `name=value` to the command's flag; None without one."""


def with_flags(remedy: str, flag_of: FlagOf) -> str:
    """Returns a remedy that names flags instead of arguments, where there are some.

    Example:
        >>> with_flags("Set `comments='#'` or `unfit`.", {"comments": "--comments"}.get)
        "Set --comments='#' or `unfit`."
    """

    def replaced(match: re.Match[str]) -> str:
        name, value = match["name"], match["value"]
        if value is None:
            return flag_of(name) or match[0]
        if switch := flag_of(f"{name}={value}"):
            return switch
        flag = flag_of(name)
        return f"{flag}={shlex.quote(value)}" if flag else match[0]

    return _ARGUMENT.sub(replaced, remedy)


def of_command(error: Exception, flag_of: FlagOf) -> Exception:
    """Returns an error whose remedies name a command's flags.

    A remedy that is a value of an argument without a flag is left out.
    """
    if not isinstance(error, ConllError):
        return error
    remedies = [with_flags(remedy, flag_of) for remedy in error.remedies]
    return ConllError(error.problems, [r for r in remedies if not _has_value(r)])


def _has_value(remedy: str) -> bool:
    return any(match["value"] for match in _ARGUMENT.finditer(remedy))
