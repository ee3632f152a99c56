"""Flags of commands that run in several processes, on one or several hosts."""

from __future__ import annotations

from absl import flags

from jaxner.training import cluster


def define(values: flags.FlagValues) -> None:
    """Declares the flags; without them, JAX finds the processes of a cluster it knows.

    Args:
        values: The flags of the command.
    """
    text, number = flags.DEFINE_string, flags.DEFINE_integer
    about = "HOST:PORT of the first of several processes."
    text("coordinator", None, about, flag_values=values)
    about = "Number of processes; 1: this process runs alone."
    number("num_processes", None, about, lower_bound=1, flag_values=values)
    about = "Index of this process, from 0."
    number("process_id", None, about, lower_bound=0, flag_values=values)


def join(values: flags.FlagValues) -> bool:
    """Connects to the other processes, by the flags or the cluster's settings.

    Returns:
        Whether this process writes logs and reports.
    """
    cluster.join(values.coordinator, values.num_processes, values.process_id)
    return cluster.is_writer()
