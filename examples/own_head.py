"""A head of one's own: a CRF that learns how sharp its scores are.

python examples/own_head.py

A head maps features [T, H] to `Potentials`: scores of labels and of label pairs, in
nats. Losses, decoding, marginals and samples follow from them.
"""

import tempfile

import flax.linen as nn
import jax
import jax.numpy as jnp

import jaxner
from jaxner.types import Potentials


class ScaledHead(nn.Module):
    """A CRF that learns how sharp its emissions are."""

    num_labels: int

    @nn.compact
    def __call__(self, x, *, train):
        """Returns the potentials of a sentence."""
        del train
        size, zeros = self.num_labels, nn.initializers.zeros
        sharpness = self.param("sharpness", nn.initializers.ones, ())
        return Potentials(
            emissions=sharpness * nn.Dense(size)(x),
            transitions=self.param("transitions", zeros, (size, size)),
            start=self.param("start", zeros, (size,)),
            end=self.param("end", zeros, (size,)),
        )


def main(folder: str) -> tuple[float, list[list[str]]]:
    """Returns the loss of a batch, in nats, and labels, by an untrained tagger."""
    text, labels = [["Rome", "fell"], ["Yes"]], [["S-LOC", "O"], ["O"]]
    vocabulary, _ = jaxner.build_vocabulary(text, ["LOC"])
    model = jaxner.build(
        vocabulary,
        representation={"words": {"dim": 8}, "chars": None},
        encoder={"name": "bilstm", "hidden_dim": 8},
        head=ScaledHead(num_labels=len(vocabulary.label_names)),
    )
    weights = jaxner.init(model, jax.random.key(0))
    batches = jaxner.Batches.of(vocabulary, text, labels, batch_size=2)
    ((batch, ids),) = batches.epoch(seed=0, epoch=0)
    loss, grads = jax.value_and_grad(
        lambda params: jaxner.loss(model, {**weights, "params": params}, batch, ids)
    )(weights["params"])
    assert all(jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(grads))
    jaxner.save(folder, jaxner.Tagger(weights, model, vocabulary))
    tagger = jaxner.load(folder, model=model)  # a folder holds no code
    return float(loss), jaxner.tag(tagger, text)


if __name__ == "__main__":
    loss, labels = main(tempfile.mkdtemp())
    print(f"{loss:.3f} nats a sentence", labels)
