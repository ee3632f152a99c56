"""The commit of the code, for the records of runs."""

from __future__ import annotations

import subprocess
from importlib import metadata
from pathlib import Path

_ROOT = Path(__file__).parents[2]


def current() -> str:
    """Returns the commit that is checked out, `+` if the code differs from it."""
    code = ("jaxner", "configs", "pyproject.toml")
    if not (_ROOT / "pyproject.toml").is_file():
        return f"jaxner {metadata.version('jaxner')}"
    found = _git("rev-parse", "--short=12", "HEAD")
    if not found:
        return "unknown"
    return found + ("+" if _git("diff", "--name-only", "HEAD", "--", *code) else "")


def _git(*arguments: str) -> str:
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=_ROOT, capture_output=True, text=True, check=False
        )
    except OSError:  # no git
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
