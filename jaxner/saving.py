"""What Orbax says while it saves: errors of a disk in one line, no warnings."""

from __future__ import annotations

import contextlib
import errno
import logging as logs
import os
from collections.abc import Iterator
from pathlib import Path

from absl import logging

# What goes wrong with a disk: full, a quota, a largest file, read only, forbidden.
_DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES)


@contextlib.contextmanager
def saving(path: Path) -> Iterator[None]:
    """Turns Orbax's errors for a full disk into one line."""
    try:
        with quiet():
            yield
    except Exception as error:  # errors of several libraries
        text = " ".join(str(error).split())
        known = (os.strerror(number) for number in _DISK_ERRORS)
        reason = next((name for name in known if name in text), text[:200])
        raise OSError(
            f"{path}: cannot write the checkpoint: {reason}. The previous checkpoint "
            "is unchanged. Free some space or choose another --workdir, and run the "
            "same command."
        ) from None


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
