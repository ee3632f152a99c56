"""Keeps compiled programs between processes, in the user's cache folder."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from jaxner import outputs


def folder() -> Path:
    """Returns the default folder of compiled programs: the system's for user caches.

    `$XDG_CACHE_HOME` overrides it on every system.
    """
    if path := os.environ.get("XDG_CACHE_HOME"):
        return Path(path) / "jaxner"
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        return (Path(local) if local else Path.home() / "AppData/Local") / "jaxner"
    caches = "Library/Caches" if sys.platform == "darwin" else ".cache"
    return Path.home() / caches / "jaxner"


def use(choice: str | None = None) -> None:
    """Makes JAX keep compiled programs; each command, and what loads a tagger, does so.

    In the chosen folder, or "off". None for the folder that JAX already has or that of
    `JAX_COMPILATION_CACHE_DIR`, else `folder()`; if that is not writable, nothing is
    stored.
    """
    if choice == "off":
        _set_jax("jax_enable_compilation_cache", False)
        return
    jax = sys.modules.get("jax")
    has_folder = os.environ.get("JAX_COMPILATION_CACHE_DIR") or (
        jax is not None and jax.config.jax_compilation_cache_dir
    )
    if choice is None and has_folder:
        return
    try:
        path = outputs.expanded(choice) if choice else folder()
        path.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # RuntimeError: no home folder
        if choice:
            raise
        return
    _set_jax("jax_compilation_cache_dir", str(path.absolute()))
    if "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS" not in os.environ:
        _set_jax("jax_persistent_cache_min_compile_time_secs", 0.5)
    if jax is not None:  # which may have compiled something without a folder
        from jax.experimental.compilation_cache import compilation_cache

        compilation_cache.reset_cache()


def _set_jax(option: str, value: object) -> None:
    """Sets an option of JAX without importing it."""
    if "jax" in sys.modules:
        sys.modules["jax"].config.update(option, value)
    else:
        os.environ[option.upper()] = str(value)
