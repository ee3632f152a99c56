"""Compiled programs are kept from one command to the next, in a user's cache folder."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import jax

HELP = "Folder of compiled programs, or off; default: a user's cache folder."
_MIN_SECONDS = 0.5  # a program that compiles faster is not kept


def folder() -> Path:
    """Returns the folder by default: where the system keeps a user's caches.

    `$XDG_CACHE_HOME` counts on every system.
    """
    if given := os.environ.get("XDG_CACHE_HOME"):
        return Path(given) / "jaxner"
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        return (Path(local) if local else Path.home() / "AppData/Local") / "jaxner"
    caches = "Library/Caches" if sys.platform == "darwin" else ".cache"
    return Path.home() / caches / "jaxner"


def enable(choice: str | None) -> None:
    """Makes JAX keep compiled programs.

    Args:
        choice: A folder, or "off". None is the folder of `JAX_COMPILATION_CACHE_DIR`,
            else `folder()`; if that cannot be written, nothing is kept.

    Raises:
        OSError: The folder of choice cannot be made.
    """
    if choice == "off":
        jax.config.update("jax_enable_compilation_cache", False)
        return
    if choice is None and jax.config.values.get("jax_compilation_cache_dir"):
        return
    try:
        path = Path(choice) if choice else folder()
        path.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # RuntimeError: there is no home
        if choice:
            raise
        return
    jax.config.update("jax_compilation_cache_dir", str(path.absolute()))
    if "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS" not in os.environ:
        name = "jax_persistent_cache_min_compile_time_secs"
        jax.config.update(name, _MIN_SECONDS)
