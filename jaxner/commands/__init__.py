"""The commands of `jaxner`: each is a typed function, and its docstring is the help.

`jaxner.cli` reads the options from the signature. A module here imports little before a
command runs, so that help comes at once.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from jaxner import outputs
from jaxner.fields import Folder as Folder
from jaxner.fields import Output as Output


def write_json(path: Path | None, content: Any) -> None:
    """Writes what `--json` names, if it names a file."""
    if path:
        text = json.dumps(content, indent=2, ensure_ascii=False)
        outputs.write_text(path, f"{text}\n")
