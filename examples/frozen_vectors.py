"""Frozen vectors of a pretrained encoder, in files for configs that read some.

    python examples/frozen_vectors.py all-MiniLM-L6-v2 vectors conll2003
    python train.py --config configs/grn.py:conll2003,elmo \
        --config.data.contextual='vectors/{split}.npz'

A token is the mean of its pieces in the encoder's last layer.
"""

import dataclasses
import pathlib
import sys

import jax

import jaxner
from jaxner import tagging
from jaxner.data import corpora, pieces, vectors
from jaxner.models import pretrained


def features(tagger, sentence, key):
    """Returns the encoder's features of a sentence, [T, H]; `tagging.over` maps it."""
    del key  # nothing is drawn
    return tagger.model.apply(tagger.weights, sentence, train=False, method="represent")


def main(folder: str, output: str, data: str = "sample") -> None:
    """Writes a file for each split of a corpus, known by name or in a folder."""
    sizes = pretrained.sizes(folder)
    vocabulary, _ = jaxner.build_vocabulary([["a"]], ["PER"])  # no words are read
    vocabulary = dataclasses.replace(
        vocabulary,
        pieces=pieces.read(folder, pretrained.length(sizes)),
        encoder_sizes=tuple(sorted(sizes.items())),
    )
    model = jaxner.build(
        vocabulary,
        representation={"words": None, "chars": None, "bert": {"pool": "mean"}},
        encoder={"name": "identity"},
        head={"name": "softmax"},
    )
    encoder = model.representation.bert.encoder
    weights = pretrained.fill(jaxner.init(model, jax.random.key(0)), folder, encoder)
    tagger = jaxner.Tagger(weights, model, vocabulary)
    pathlib.Path(output).mkdir(parents=True, exist_ok=True)
    corpus, folder = (data, None) if data in corpora.CORPORA else (None, data)
    for name in corpora.SPLITS:
        split = corpora.load(corpus, name, directory=folder)
        texts = [example.tokens for example in split.examples]
        arrays = tagging.over(features, tagger, texts)
        vectors.write_contextual(f"{output}/{name}.npz", arrays, texts)


if __name__ == "__main__":
    main(*sys.argv[1:])
