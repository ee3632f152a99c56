"""Tags a Ray Dataset by actors, which load the tagger once and map it over batches.

    pip install 'ray[data]'
    python examples/ray_data.py runs/grn news.txt tagged/

Each line of the input is a sentence, whose tokens stand between blanks. The output is a
folder of JSON lines with the columns `tokens` and `labels`. Ray cuts the data into
blocks, so what is larger than memory is streamed; rows come in the order of the input.
"""

from __future__ import annotations

import sys
from typing import Any

import ray
import ray.data

import jaxner


class Labeller:
    """An actor: it holds a tagger, which is loaded and compiled once.

    Args:
        workdir: Folder of the run.
    """

    def __init__(self, workdir: str):
        self._params = jaxner.load(workdir)

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Adds the labels of a batch of texts."""
        tokens = [str(text).split() for text in batch["text"]]
        labels = jaxner.tag(self._params, tokens)
        return {"tokens": tokens, "labels": labels}


def tag(
    texts: ray.data.Dataset, workdir: str, *, actors: int = 1, gpus: float = 0
) -> ray.data.Dataset:
    """Maps a tagger over a data set with the column `text`.

    Args:
        texts: The data set.
        workdir: Folder of the run, which each actor can read.
        actors: How many there are.
        gpus: How many each of them has.
    """
    return texts.map_batches(
        Labeller,
        fn_constructor_args=(workdir,),
        batch_size=1024,
        compute=ray.data.ActorPoolStrategy(size=actors),
        num_gpus=gpus,
    )


def main(workdir: str, source: str, target: str) -> None:
    """Tags the lines of a file."""
    ray.data.DataContext.get_current().execution_options.preserve_order = True
    tag(ray.data.read_text(source), workdir).write_json(target)


if __name__ == "__main__":
    main(*sys.argv[1:])
