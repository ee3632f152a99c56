"""The configs that come with jaxner, one for each published system."""

from __future__ import annotations

import difflib
import importlib.util
from pathlib import Path
from typing import Any


def folder() -> Path:
    """Returns the folder of the configs: in the package, or next to it in a clone."""
    package = Path(__file__).parents[1]
    installed = package / "configs"
    return installed if installed.is_dir() else package.parent / "configs"


def names() -> list[str]:
    """Returns the names of all configs, sorted.

    Example:
        >>> "grn" in names()
        True
    """
    return sorted(path.stem for path in folder().glob("[!_]*.py"))


def split(text: str) -> tuple[str, str]:
    r"""Returns file or name, and the argument after it, from a value of `--config`.

    Example:
        >>> split("grn:conll2003,elmo"), split("configs/grn.py")
        (('grn', 'conll2003,elmo'), ('configs/grn.py', ''))
        >>> split(r"C:\mine\grn.py:sample")[1]  # the first colon is a drive's
        'sample'
    """
    file, suffix, arg = text.partition(".py:")
    if suffix:
        return f"{file}.py", arg
    if text.endswith(".py"):
        return text, ""
    name, _, arg = text.partition(":")
    return name, arg


def find(text: str) -> Path:
    """Returns the file of a config.

    Args:
        text: A path, or the name of a config that comes with jaxner; text after a colon
            is ignored.

    Raises:
        ValueError: The config is unknown; the message lists the known ones.

    Example:
        >>> find("grn:conll2003").name
        'grn.py'
    """
    name, _ = split(text)
    is_path = name.endswith(".py") or "/" in name or "\\" in name
    file = Path(name) if is_path else folder() / f"{name}.py"
    if (is_path or name in names()) and file.is_file():
        return file
    kind = "config file" if is_path else "config"
    close = difflib.get_close_matches(Path(name).stem, names(), 1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    raise ValueError(f"No {kind} {name!r}; known: {', '.join(names())}.{hint}")


def load(text: str) -> Any:
    """Returns the config of a file.

    Args:
        text: A path or name, and an argument after a colon.

    Raises:
        ValueError: The config is unknown, or does not accept the argument.

    Example:
        >>> load("grn:wnut17").data.name
        'wnut17'
    """
    file = find(text)
    spec = importlib.util.spec_from_file_location(f"jaxner_{file.stem}_config", file)
    if spec is None or spec.loader is None:
        raise ValueError(f"{file} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.get_config(split(text)[1])
