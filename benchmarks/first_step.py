"""Starts a training like `train.py`, and exits once it has met all shapes.

`benchmarks.startup` runs this module in a separate process and times its announcements.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

import jax

from benchmarks import ours, startup
from jaxner.training import run
from jaxner.training.corpus import Corpus


class Announced(Corpus):
    """Announces its first step and that with the last shape, then exits."""

    def epoch(self, *arguments, **options):
        """Yields what `Corpus.epoch` yields."""
        is_first = True
        for found in super().epoch(*arguments, **options):
            if is_first:
                jax.block_until_ready(found[0])
                startup.mark(startup.STEP)
                is_first = False
            if len({*self.num_compiled()}) == 1:
                jax.block_until_ready(found[0])
                startup.mark(startup.SHAPES)
                os._exit(0)  # nothing to save
            yield found


def main() -> None:
    """Trains the system in the JSON argument, on the corpus in its folder."""
    given = json.loads(sys.argv[1])
    config = ours.config_of(given["system"], given["quick"])
    config.data.vectors = None
    config.batch_size = startup.BATCH
    config.data.dir = given["corpus"]
    run.Corpus = Announced
    with tempfile.TemporaryDirectory() as name:
        run.main_run(config, Path(name, "run"))


if __name__ == "__main__":
    main()
