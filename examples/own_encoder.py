"""An encoder of one's own in a tagger that is saved and loaded again.

python examples/own_encoder.py
"""

import tempfile

import flax.linen as nn
import jax
import jax.numpy as jnp

import jaxner


class WindowEncoder(nn.Module):
    """Sees each token beside its neighbours: [T, D] to [T, 3 D] to [T, H]."""

    hidden_dim: int

    @nn.compact
    def __call__(self, x, mask, *, train):
        """Returns features, zero under padding, and no intermediates."""
        del train  # there is no dropout here
        left = jnp.pad(x, ((1, 0), (0, 0)))[:-1]
        right = jnp.pad(x, ((0, 1), (0, 0)))[1:]
        windows = jnp.concatenate([left, x, right], axis=1)
        features = jax.nn.relu(nn.Dense(self.hidden_dim)(windows))
        return jnp.where(mask[:, None], features, 0.0), {}


def main(folder: str) -> list[str]:
    """Returns the labels of a sentence, by an untrained tagger."""
    vocabulary, _ = jaxner.build_vocabulary([["Rome", "fell"]], ["LOC"])
    model = jaxner.build(
        vocabulary,
        representation={"words": {"dim": 8}, "chars": {"name": "cnn"}},
        encoder=WindowEncoder(hidden_dim=16),
        head={"name": "crf"},
    )
    weights = jaxner.init(model, jax.random.key(0))
    jaxner.save(folder, jaxner.Tagger(weights, model, vocabulary))
    tagger = jaxner.load(folder, model=model)  # a folder holds no code
    return jaxner.tag(tagger, ["Rome", "fell", "again"])


if __name__ == "__main__":
    print(main(tempfile.mkdtemp()))
