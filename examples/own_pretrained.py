"""A pretrained encoder of one's own under a CRF: static vectors of pieces.

    python examples/own_pretrained.py

makes a small folder and trains. With a real one:

    python train.py --config configs/encoder.py --config.data.pretrained=FOLDER \
        --config.model.representation.bert.encoder=examples.own_pretrained:StaticVectors
"""

import json
import tempfile
from pathlib import Path

import flax.linen as nn
import jax.numpy as jnp
import numpy as np
from safetensors.numpy import load_file, save_file

import jaxner


class StaticVectors(nn.Module):
    """The vector of each piece, beside the mean of its neighbours: [S] to [S, 2 H].

    Fields that are named as in config.json get its values.
    """

    vocab_size: int
    hidden_size: int

    @nn.compact
    def __call__(self, ids, mask, *, train):
        """Returns the features of the pieces of a window, zero under padding."""
        del train  # there is no dropout here
        x = nn.Embed(self.vocab_size, self.hidden_size, name="vectors")(ids)
        x = jnp.where(mask[:, None], x, 0.0)
        rows = jnp.pad(x, ((1, 1), (0, 0)))
        means = (rows[:-2] + rows[2:]) / 2
        return jnp.where(mask[:, None], jnp.concatenate([x, means], axis=1), 0.0)

    @staticmethod
    def read(folder):
        """Returns the weights in a folder, in the tree of the module's parameters."""
        tensors = load_file(Path(folder) / "model.safetensors")
        return {"vectors": {"embedding": tensors["embeddings"]}}


def main(folder: str) -> jaxner.Tagger:
    """Trains on two sentences."""
    pretrained = Path(folder) / "static"
    pretrained.mkdir()
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "Rome", "fell", "re", "##built"]
    sizes = {"model_type": "static", "vocab_size": len(pieces), "hidden_size": 16}
    vectors = np.random.default_rng(0).normal(size=(len(pieces), 16))
    (pretrained / "vocab.txt").write_text("\n".join(pieces))
    (pretrained / "config.json").write_text(json.dumps(sizes))
    tensors = {"embeddings": vectors.astype(np.float32)}
    save_file(tensors, pretrained / "model.safetensors")
    examples = [
        (["Rome", "fell"], ["B-LOC", "O"]),
        (["rebuilt", "Rome"], ["O", "B-LOC"]),
    ] * 10
    module = "examples.own_pretrained:StaticVectors"
    options = {"model.representation.bert.encoder": module, "num_epochs": 3}
    options |= {"data.pretrained": pretrained, "data.num_shapes": 1}
    return jaxner.train("encoder", examples, workdir=Path(folder) / "run", **options)


if __name__ == "__main__":
    print(main(tempfile.mkdtemp()).tag(["rebuilt", "Rome"]))
