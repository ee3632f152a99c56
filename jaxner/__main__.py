"""The command line: `jaxner COMMAND …`, or `python -m jaxner COMMAND …`.

The module imports next to nothing, so that Ctrl-C ends it from the start.
"""

from __future__ import annotations

import sys

from jaxner.commands import interrupts

TYPE_CHECKING = False  # that of typing takes longer to import than all else here
if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line.

    Args:
        arguments: By default, those of the script.
    """
    if arguments is None:
        interrupts.restore()
    from jaxner.commands import line

    line.run(sys.argv[1:] if arguments is None else list(arguments))


if __name__ == "__main__":
    main()
