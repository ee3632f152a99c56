"""The commands of `jaxner`: each is a typed function, and its docstring is the help.

`jaxner.cli` reads the options from the signature. A module here imports little before a
command runs, so that help comes at once.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

from jaxner import disk

Folder = Annotated[Path, "folder"]  # need not be there
Output = Annotated[Path, "output"]  # is written, and is none of the files that are read


def write_json(path: Path | None, content: Any) -> None:
    """Writes what `--json` names, if it names a file."""
    if path:
        text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
        # A name of a file may have lone surrogates.
        disk.write_text(path, text.encode("utf-8", "backslashreplace").decode())
