"""The commands of `jaxner`: each is a typed function, and its docstring is the help.

`jaxner.cli` reads the options from the signature. A module here imports little before a
command runs, so that help comes at once.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

Folder = Annotated[Path, "folder"]
"""A folder; it need not be there."""
Output = Annotated[Path, "output"]
"""A file to write: it can be written, and is none of the files that a command reads."""
