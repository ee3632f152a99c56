"""Runs a function in a separate process, and measures its peak memory.

Peak memory belongs to a process and only grows, so each candidate runs in its own
process. Figures are for the host, without an accelerator's memory.
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
    """The process failed or was killed, for example for its memory."""


def call(function: str, arguments: dict[str, Any], **variables: str) -> dict[str, Any]:
    """Returns the result of a function in a new process.

    Args:
        function: `module:name` of a function that returns a dict of JSON values.
        arguments: Arguments of the function, as JSON values.
        **variables: Environment variables, in addition to this process's.

    Returns:
        The function's result, and `peak_mb`, the peak host memory of the process, in
        MiB.

    Raises:
        FailedError: The process failed; the message has its last line.
    """
    command = [sys.executable, "-m", "benchmarks.alone", function]
    done = subprocess.run(
        [*command, json.dumps(arguments)],
        capture_output=True,
        text=True,
        env=environment(**variables),
    )
    if done.returncode or _MARK not in done.stdout:
        lines = done.stderr.strip().splitlines() or ["no output"]
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
    """Returns this process's environment, extended so that a child finds benchmarks."""
    paths = [str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), **variables}


def peak_mb() -> float:
    """Returns the peak host memory of this process, in MiB.

    An accelerator's memory is not included. On Linux, `getrusage` counts the memory
    before `exec`, that is the parent's, so this function reads the kernel's figure for
    the program.
    """
    status = Path("/proc/self/status")
    if status.exists():
        found = re.search(r"VmHWM:\s*(\d+) kB", status.read_text())
        if found:
            return int(found[1]) / 1024
    from jaxner.training import environment as training_environment

    return float(training_environment.peak_memory_mb() or 0)


def main() -> None:
    """Runs the function that `call` names."""
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
