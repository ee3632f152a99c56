"""Runs a function in a process of its own, and tells how much memory that took.

Peak memory belongs to a process and only grows, so what is to be compared runs apart.
It is that of the host; what an accelerator holds beside is not seen.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parents[1]
_MARK = "\n#answer "


class FailedError(RuntimeError):
    """The process did not answer: an error, or it was killed (for its memory, say)."""


def call(function: str, arguments: dict[str, Any], **variables: str) -> dict[str, Any]:
    """Runs a function in a new process.

    Args:
        function: `module:name`; it returns a dict that JSON can hold.
        arguments: Its arguments, that JSON can hold.
        **variables: Of its environment, beside those of this process.

    Returns:
        What the function returned, and `peak_mb`, the most memory of the host that the
        process has held, in MiB.

    Raises:
        FailedError: It ended in another way; the message has its last line.
    """
    command = [sys.executable, "-m", "benchmarks.alone", function]
    done = subprocess.run(
        [*command, json.dumps(arguments)],
        capture_output=True,
        text=True,
        env=environment(**variables),
    )
    if done.returncode or _MARK not in done.stdout:
        lines = done.stderr.strip().splitlines() or ["it wrote nothing"]
        raise FailedError(f"{function} ended with {done.returncode}: {lines[-1]}")
    return json.loads(done.stdout.rpartition(_MARK)[2])


def cache(folder: Path) -> dict[str, str]:
    """Returns the variables of JAX's persistent compilation cache in a folder."""
    return {
        "JAX_COMPILATION_CACHE_DIR": str(folder),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }


def environment(**variables: str) -> dict[str, str]:
    """Returns this process's environment, with which another finds the benchmarks."""
    paths = [str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), **variables}


def peak_mb() -> float:
    """Returns the most memory of the host that this process has held, in MiB.

    An accelerator's own memory is no part of it. On Linux `getrusage` counts what the
    process held before it became this program, that is its parent's memory, so the
    kernel's figure of the program is taken.
    """
    status = Path("/proc/self/status")
    if status.exists():
        found = re.search(r"VmHWM:\s*(\d+) kB", status.read_text())
        if found:
            return int(found[1]) / 1024
    from jaxner.training import environment as training_environment

    return float(training_environment.peak_memory_mb() or 0)


def main() -> None:
    """Answers `call`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("function")
    parser.add_argument("arguments")
    given = parser.parse_args()
    module, _, name = given.function.partition(":")
    answer = getattr(importlib.import_module(module), name)(
        **json.loads(given.arguments)
    )
    print(_MARK + json.dumps({**answer, "peak_mb": peak_mb()}))


if __name__ == "__main__":
    main()
