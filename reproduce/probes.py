"""A probe: four phrases that show in seconds what an encoder can distinguish.

The middle label depends on both neighbours together. An encoder that only adds the
scores of its two directions gets at most three of the four right, at any depth: the
scores of the two works of art and of the two other phrases have the same sum. Since
this tests capacity, the phrases are both train and test.

Source: Li, Fu and Ma, "Remedying BiLSTM-CNN Deficiency in Modeling Cross-Context for
NER", 2019 (arXiv 1908.11046), "XOR Limitation".
"""

from collections.abc import Mapping
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax

from jaxner import inference, models, tagger
from jaxner.data import batching, vocabulary
from jaxner.data.vocabulary import Vocabulary
from jaxner.training import objectives
from jaxner.training.objectives import Objective
from jaxner.types import Sentence

_STEPS = 500  # of Adam
WORK = ("B-WORK_OF_ART", "I-WORK_OF_ART", "E-WORK_OF_ART")
PHRASES = {
    ("Key", "and", "Peele"): WORK,
    ("You", "and", "I"): WORK,
    ("Key", "and", "I"): ("O",) * 3,
    ("You", "and", "Peele"): ("O",) * 3,
}


def fit(encoder: Mapping[str, Any] | nn.Module, head: str = "softmax") -> float:
    """Returns the share of middle labels that a small model gets right after training.

    Adam trains on all phrases in every step, without dropout. Success shows that a
    model can do the task. Failure only shows that it did not learn the task, unless
    there is a proof: many blocks with identity initialisation, IDCNN's default, hardly
    learn from the far end of their field, since all taps on the way are zero.

    Args:
        encoder: Options or your own module, as for `jaxner.build`.
        head: Name of the head.
    """
    names, model, batch = build(encoder, head)
    labels = np.array([names.label_ids(row) for row in PHRASES.values()])
    weights = models.init(model, jax.random.key(0))
    # Context through many layers has a small gradient at first. Adam takes long steps
    # along it once β2 lets it forget earlier large gradients: 0.9, as in Strubell et
    # al. (2017); with 0.999, most deep encoders stay at chance. The falling rate ends
    # the long steps.
    tx = optax.adam(optax.linear_schedule(0.01, 0.0, _STEPS), b2=0.9)

    def loss_of(params):
        copy = {"params": params, "frozen": weights["frozen"]}
        return objectives.batch_loss(model, copy, batch, labels, None, Objective())

    def step(_, state):
        params, opt_state = state
        updates, opt_state = tx.update(jax.grad(loss_of)(params), opt_state, params)
        return optax.apply_updates(params, updates), opt_state

    @jax.jit
    def trained(params):
        params, _ = jax.lax.fori_loop(0, _STEPS, step, (params, tx.init(params)))
        last = {"params": params, "frozen": weights["frozen"]}
        return jax.vmap(
            lambda x: inference.viterbi(models.apply(model, last, x), x.mask)
        )(batch)

    ids = trained(weights["params"])
    return float(jnp.mean(ids[:, 1] == labels[:, 1]))


def build(
    encoder: Mapping[str, Any] | nn.Module, head: str
) -> tuple[Vocabulary, models.Model, Sentence]:
    """Returns the vocabulary, the model that `fit` trains, and the batch of phrases."""
    names, _ = vocabulary.build([*PHRASES], ["WORK_OF_ART"], scheme="BIOES")
    parts: Any = {"encoder": encoder, "head": {"name": head}}
    model = tagger.build(names, representation={"words": {"dim": 16}}, **parts)
    return names, model, batching.pad([*map(names.encode, PHRASES)], 3)
