"""`jaxner train` and `jaxner options`."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from jaxner import fields
from jaxner.commands import Folder
from jaxner.errors import InputError


@dataclasses.dataclass(kw_only=True)
class Processes:
    """The processes of a command; without options, JAX finds those of a cluster.

    Attributes:
        coordinator: HOST:PORT of the first of several processes.
        num_processes: Number of processes; 1: this process runs alone.
        process_id: Index of this process, from 0.
    """

    coordinator: str | None = None
    num_processes: fields.Size | None = None
    process_id: fields.Count | None = None

    def join(self) -> bool:
        """Connects to the others; returns whether this process writes files."""
        from jaxner.training import cluster

        cluster.join(self.coordinator, self.num_processes, self.process_id)
        return cluster.is_writer()


def train(
    *,
    config: str = "",
    workdir: Folder | None = None,
    processes: Processes,
    **overrides: str,
) -> None:
    """Trains a tagger.

        jaxner train --config grn
        jaxner train --config grn:conll2003 --workdir runs/grn
        jaxner train --config grn --config.num_epochs=50
        jaxner train --config grn --help               # with all of its options

    The text after the colon picks data set and variant (each config's docstring
    lists them), and with `encoder=`, `head=` and `chars=` another part of the
    model; `--config.x=…` sets a value. The same command resumes a stopped run.

    Args:
        config: Name of a config that comes with jaxner, or file of your own; needed.
        workdir: Folder of the run; default: runs/<config>.
        processes: The processes of a cluster.
        **overrides: Values of the config, as `config.num_epochs`.
    """
    from jaxner import configuration
    from jaxner.training import cluster
    from jaxner.training.train import main_run

    values = configuration.load(config) if config else None
    for name, text in overrides.items():
        if not name.startswith("config."):
            meant = configuration.meant(values, name, text) if values else ""
            raise InputError(f"Unknown option --{name}{meant}")
    if values is None:
        raise InputError(
            "--config must name a config, as in --config grn:sample; known: "
            f"{', '.join(configuration.names())}"
        )
    for name, text in overrides.items():
        configuration.override(values, name.removeprefix("config."), text)
    if values.deterministic:
        cluster.make_deterministic()
    processes.join()
    if workdir is None:
        file, variant = configuration.split(config)
        parts = [Path(file).stem, *filter(None, variant.replace("=", "-").split(","))]
        workdir = Path("runs") / "-".join(parts)
    main_run(values, workdir, config)


def options(config: str = "", /) -> None:
    """Lists all options of a config: default, meaning and allowed values.

        jaxner options grn
        jaxner options uanet:conll2003,draft=grn

    Args:
        config: Name of a config that comes with jaxner, or file of your own; needed.
    """
    from jaxner import configuration

    print(configuration.describe(config))
