"""Keeps compiled programs between commands, in the user's cache folder."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import jax

HELP = (
    'folder for compiled programs, or "off"; '
    "default: jaxner in the user's cache folder"
)
_MIN_SECONDS = 0.5  # minimum compile time of a stored program


def folder() -> Path:
    """Returns the default folder: the system's folder for user caches.

    `$XDG_CACHE_HOME` overrides it on every system.
    """
    if given := os.environ.get("XDG_CACHE_HOME"):
        return Path(given) / "jaxner"
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        return (Path(local) if local else Path.home() / "AppData/Local") / "jaxner"
    caches = "Library/Caches" if sys.platform == "darwin" else ".cache"
    return Path.home() / caches / "jaxner"


def enable(choice: str | None) -> None:
    """Makes JAX store compiled programs.

    Args:
        choice: A folder, or "off". None for the folder of `JAX_COMPILATION_CACHE_DIR`,
            else `folder()`; if that is not writable, nothing is stored.

    Raises:
        OSError: The chosen folder cannot be created.
    """
    if choice == "off":
        jax.config.update("jax_enable_compilation_cache", False)
        return
    if choice is None and getattr(jax.config, "jax_compilation_cache_dir", None):
        return
    try:
        path = Path(choice) if choice else folder()
        path.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # RuntimeError: no home folder
        if choice:
            raise
        return
    jax.config.update("jax_compilation_cache_dir", str(path.absolute()))
    if "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS" not in os.environ:
        name = "jax_persistent_cache_min_compile_time_secs"
        jax.config.update(name, _MIN_SECONDS)
