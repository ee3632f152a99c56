r"""Tokens per second and peak memory of training, beside PyTorch and spaCy.

    python -m benchmarks.training
    python -m benchmarks.training --dataset conll2003 --limit 2000 --batch 10 32
    python -m benchmarks.training --against ../before --peers
    python -m benchmarks.training --peers --set model.dtype=bfloat16 num_seeds=10

Each run is an epoch over the same sentences; ours is one of `train.py`, from line to
line, with the scores of 8 sentences and the checkpoint; the last column is of its steps
alone. Batch b means b sentences, and `--against` trains the same systems in another
checkout, in turn. The first epoch compiles a program for each padded shape. `--set`
changes our systems' options; a GPU or TPU trains several seeds together: the figure is
of each. Peak memory is the host's.
"""

import functools

from benchmarks import measure

main = functools.partial(measure.beside_peers, "train", __doc__, [10, 32])

if __name__ == "__main__":
    main()
