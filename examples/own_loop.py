"""Trains a GRN in your own loop, saves it, loads it, and tags.

python examples/own_loop.py [FOLDER] [EPOCHS]
"""

import sys
import tempfile

import jax
import optax

import jaxner
from jaxner.data import corpora


def main(folder: str, num_epochs: int = 5) -> list[str]:
    """Returns the labels of a sentence, by the tagger that was saved and loaded."""
    train = corpora.load("sample", "train")
    sentences = [list(example.tokens) for example in train.examples]
    labels = [list(e.labels) for e in train.to_scheme("BIOES")]
    vocabulary, _ = jaxner.build_vocabulary(sentences, train.types())
    model = jaxner.build(
        vocabulary,
        representation={"words": {"dim": 50}, "chars": {"name": "cnn"}, "dropout": 0.5},
        encoder={"name": "grn", "hidden_dim": 100},
        head={"name": "crf", "dropout": 0.5},
    )
    weights = jaxner.init(model, jax.random.key(0))
    optimizer = optax.chain(optax.clip_by_global_norm(5.0), optax.adam(2e-3))
    opt_state = optimizer.init(weights["params"])

    @jax.jit
    def step(params, opt_state, batch, labels, key):
        def loss_of(params):
            return jaxner.loss(model, {**weights, "params": params}, batch, labels, key)

        loss, grads = jax.value_and_grad(loss_of)(params)
        updates, opt_state = optimizer.update(grads, opt_state, params)
        return optax.apply_updates(params, updates), opt_state, loss

    batches = jaxner.Batches.of(
        vocabulary, sentences, labels, batch_size=16, num_shapes=2
    )
    params, key = weights["params"], jax.random.key(1)
    for epoch in range(num_epochs):
        for batch, ids in batches.epoch(seed=0, epoch=epoch):
            key, step_key = jax.random.split(key)
            params, opt_state, loss = step(params, opt_state, batch, ids, step_key)
        print(f"epoch {epoch + 1}: loss of the last batch {float(loss):.3f}")

    jaxner.save(folder, jaxner.Tagger({**weights, "params": params}, model, vocabulary))
    return jaxner.tag(jaxner.load(folder), ["Ms", "Preston", "left", "Lakeside"])


if __name__ == "__main__":
    folder = sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp()
    print(main(folder, *map(int, sys.argv[2:])))
