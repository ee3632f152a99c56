"""A CRF on top of scores that come from anywhere: loss, gradient, labels, marginals.

python examples/crf_on_my_logits.py
"""

import jax
import jax.numpy as jnp

from jaxner import inference
from jaxner.types import Potentials


def loss(params, logits, labels, mask):
    """Returns -log p(labels) of each sentence of a batch, in nats: [B]."""

    def sentence_loss(logits, labels, mask):
        potentials = Potentials(logits, **params)
        gold = inference.score(potentials, labels, mask)
        return inference.log_partition(potentials, mask) - gold

    return jax.vmap(sentence_loss)(logits, labels, mask)


def main():
    """Returns the loss, the best labels and their marginal probabilities."""
    batch, length, size = 2, 4, 3
    logits = jax.random.normal(jax.random.key(0), (batch, length, size))
    labels = jnp.array([[0, 1, 2, 0], [1, 1, 0, 0]])
    mask = jnp.array([[True] * 4, [True, True, False, False]])  # padding on the right
    params = {
        "transitions": jnp.zeros((size, size)),  # from row to column
        "start": jnp.zeros(size),
        "end": jnp.zeros(size),
    }
    total, grads = jax.value_and_grad(lambda p: loss(p, logits, labels, mask).sum())(
        params
    )
    best = jax.vmap(lambda x, m: inference.viterbi(Potentials(x, **params), m))
    chances = jax.vmap(lambda x, m: inference.marginals(Potentials(x, **params), m))
    assert grads["transitions"].shape == (size, size)
    return float(total), best(logits, mask), chances(logits, mask)


if __name__ == "__main__":
    total, best, chances = main()
    print(f"{total:.3f} nats", best.tolist(), chances.shape)
