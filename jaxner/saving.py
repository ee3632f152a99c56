"""Context managers around Orbax: disk errors in one line, and no warnings."""

from __future__ import annotations

import contextlib
import errno
import logging as logs
import os
from collections.abc import Iterator
from pathlib import Path

from absl import logging

# Disk full, quota exceeded, file too large, read-only file system, no permission.
_DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES)


@contextlib.contextmanager
def saving(path: Path) -> Iterator[None]:
    """Reports a failed save in one line.

    Raises:
        OSError: Saving failed, for example because the disk is full.
    """
    try:
        with quiet():
            yield
    except Exception as error:  # Orbax passes on errors of several libraries
        text = " ".join(str(error).split())
        reason = _disk_error(error, text)
        if reason is None:
            raise OSError(
                f"{path}: the checkpoint was not written: {type(error).__name__}: "
                f"{text[:200]}. The previous checkpoint is unchanged; the same command "
                "goes on from it."
            ) from error
        raise OSError(
            f"{path}: cannot write the checkpoint: {reason}. The previous checkpoint "
            "is unchanged. Free some space or choose another --workdir, and run the "
            "same command."
        ) from None


def _disk_error(error: Exception, text: str) -> str | None:
    """Returns what is wrong with the disk; None if something else is."""
    if isinstance(error, OSError) and error.errno in _DISK_ERRORS:
        return os.strerror(error.errno)
    known = (os.strerror(number) for number in _DISK_ERRORS)
    return next((name for name in known if name in text), None)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Hides Orbax's warnings from the user, such as that a folder is read-only."""
    before, disabled = logging.get_verbosity(), logs.root.manager.disable
    logging.set_verbosity(logging.FATAL)
    logs.disable(logs.CRITICAL)
    try:
        yield
    finally:
        logging.set_verbosity(before)
        logs.disable(disabled)
