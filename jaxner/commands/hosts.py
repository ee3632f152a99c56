"""Flags of a command that several processes run together, on one or several hosts."""

from __future__ import annotations

from absl import flags

from jaxner.training import cluster


def define(values: flags.FlagValues) -> None:
    """Declares the flags; without them, JAX finds the processes of a cluster it knows.

    Args:
        values: Where to.
    """
    text, number = flags.DEFINE_string, flags.DEFINE_integer
    about = "HOST:PORT of the first process, where several run together."
    text("coordinator", None, about, flag_values=values)
    about = "How many processes run together; 1: this one is alone."
    number("num_processes", None, about, lower_bound=1, flag_values=values)
    about = "Number of this process, from 0."
    number("process_id", None, about, lower_bound=0, flag_values=values)


def join(values: flags.FlagValues) -> bool:
    """Joins the other processes, as the flags or the cluster say.

    Returns:
        Whether this process is the one that writes.
    """
    cluster.join(values.coordinator, values.num_processes, values.process_id)
    return cluster.is_writer()
