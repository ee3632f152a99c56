r"""Trains a tagger.

    jaxner train --config grn
    jaxner train --config grn:conll2003 --workdir runs/grn
    jaxner train --config grn --config.num_epochs=50

`--config` takes the name of a config that comes with jaxner, or the path of
your own. The text after the colon picks the data set and variant (each
config's docstring lists them), and with `encoder=`, `head=` and `chars=`
another part of the model; `--config.x=…` sets a value. The run folder
(`--workdir`) has all files of the run; the same command resumes a stopped
run.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from absl import flags
from ml_collections import config_flags

from jaxner.commands import flagged, hosts
from jaxner.configuration import shipped
from jaxner.training import checks, cluster
from jaxner.training.seeds import main_run


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs `jaxner train`.

    Args:
        arguments: Arguments after the command's name; by default, the script's.
    """
    given = sys.argv[1:] if arguments is None else list(arguments)
    given = flagged.spelled(given, "_", _ConfigOptions())
    try:
        check_config(given)
        given = with_config_file(given)
    except ValueError as error:
        flagged.end(f"jaxner train: {error}")

    define = functools.partial(define_flags, arguments=given)
    flagged.start("train", __name__, define, run, given)


class _ConfigOptions:
    """Contains the names of all options of a config; their names have no hyphen."""

    def __contains__(self, name: str) -> bool:
        return name.startswith("config.")


def check_config(arguments: Sequence[str]) -> None:
    """Raises ValueError unless the command line names a config or asks for help.

    Raises:
        ValueError: No config and no help option.
    """
    names = {argument.partition("=")[0] for argument in arguments}
    if not names & {"-config", "--config", "-h", "-help", "--help"}:
        raise ValueError(
            "--config must name a config, as in --config grn:sample; known: "
            f"{', '.join(shipped.names())}"
        )


def with_config_file(arguments: Sequence[str]) -> list[str]:
    """Returns the arguments with a config's path instead of its name.

    Raises:
        ValueError: The config is unknown.

    Example:
        >>> _, value = with_config_file(["--config", "grn:wnut17"])
        >>> value.endswith("grn.py:wnut17")
        True
    """
    changed = list(arguments)
    for i, argument in enumerate(changed):
        flag, equals, value = argument.partition("=")
        if flag not in ("-config", "--config"):
            continue
        if equals:
            changed[i] = f"{flag}={_file(value)}"
        elif i + 1 < len(changed):
            changed[i + 1] = _file(changed[i + 1])
    return changed


def _file(config: str) -> str:
    path = str(shipped.find(config))
    if ":" in path:  # of a drive; after ml_collections' first colon is the argument
        path = os.path.relpath(path)
    _, arg = shipped.split(config)
    return f"{path}:{arg}" if arg else path


def define_flags(values: flags.FlagValues, arguments: Sequence[str]) -> None:
    """Declares the command line.

    Args:
        values: Flags to declare in.
        arguments: Command line with values for the config.
    """
    config_flags.DEFINE_config_file(
        "config",
        None,
        "Name of a config that comes with jaxner, or file of your own; needed.",
        flag_values=values,
        sys_argv=["jaxner", *arguments],
    )
    flags.DEFINE_string(
        "workdir",
        None,
        "Folder of the run; default: runs/<config>.",
        flag_values=values,
    )
    flags.mark_flag_as_required("config", flag_values=values)
    hosts.define(values)


def run(values: flags.FlagValues) -> None:
    """Runs the command."""
    if values.config.deterministic:
        cluster.make_deterministic()
    hosts.join(values)
    workdir = values.workdir
    if workdir is None:
        name = config_flags.get_config_filename(values["config"])
        file, variant = shipped.split(name)
        parts = [Path(file).stem, *filter(None, variant.replace("=", "-").split(","))]
        workdir = Path("runs") / "-".join(parts)
    if not str(workdir):  # an unset variable of the shell: not the current folder
        raise ValueError("--workdir must name a folder, got an empty name")
    checks.check_folder("--workdir", workdir)
    main_run(values.config, workdir)
