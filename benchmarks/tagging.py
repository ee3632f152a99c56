r"""Tokens per second of tagging, beside PyTorch and spaCy.

    python -m benchmarks.tagging
    python -m benchmarks.tagging --dataset conll2003 --limit 1000 --batch 1 32 128
    python -m benchmarks.tagging --against ../before --peers

Runs go from strings to strings; our vocabulary's cache of looked-up tokens is emptied
before each. Batch b means calls of b sentences for our systems, in the order of the
corpus, and for the peers one call for the whole corpus with batch size b, which PyTorch
cuts after sorting by length; in batch 0, each system gets the corpus in one call and
chooses its batches. The peers train for an epoch first, since spaCy's time depends on
its predictions; our weights are random.
"""

import functools

from benchmarks import measure

main = functools.partial(measure.beside_peers, "tag", __doc__, [1, 32, 128, 0])

if __name__ == "__main__":
    main()
