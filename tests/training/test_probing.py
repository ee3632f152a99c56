"""Measures the papers' claims about what encoders and heads can distinguish.

Where a model must fail, the failure is a proof: an identity of its scores. That others
succeed shows that training is no excuse.
"""

import jax
import numpy as np
import pytest

from jaxner import models
from jaxner.data import probes
from jaxner.training import probing
from tests.marks import slow
from tests.models import draws

XOR = probes.xor()
BASELINE = {"name": "bilstm", "hidden_dim": 8, "cross": False}
DEEP = BASELINE | {"num_layers": 2}
CROSS = DEEP | {"cross": True}
HEADS = {"name": "attention", "num_heads": 2}
ATTENTION = {"name": "chain", "first": DEEP, "then": HEADS}
GRN = {"name": "grn", "hidden_dim": 16}
# Drawn, since the identity has a plateau: see `probing.fit`.
IDCNN = {"name": "idcnn", "hidden_dim": 16, "initializer": "glorot"}


@pytest.mark.parametrize(
    ("encoder", "head"), [(DEEP, "softmax"), (DEEP, "direction"), (CROSS, "softmax")]
)
def test_scores_of_directions_that_never_meet_add_up(encoder, head):
    """The proof of Li, Fu and Ma: for any weights, and so for any training.

    At "and" of the works of art, and of the other two phrases, the scores of the
    directions (or probabilities) have the same sum.
    """
    vocabulary, model = probing.build(XOR, encoder=encoder, head={"name": head})
    weights = draws.weights_of(model)
    batch, _ = probing.encode(vocabulary, XOR.test)
    apply = jax.jit(jax.vmap(lambda sentence: models.apply(model, weights, sentence)))
    middle = np.asarray(apply(batch).emissions)[:, 1]
    middle = np.exp(middle) if head == "direction" else middle
    difference = np.abs(middle[:2].sum(axis=0) - middle[2:].sum(axis=0)).max()
    assert (difference > 0.01) if encoder is CROSS else (difference < 1e-5)
    assert np.abs(middle[0] - middle[1]).max() > 0.01  # and not since all are the same


@pytest.mark.parametrize(
    ("encoder", "head"),
    [
        (IDCNN, "softmax"),
        *slow((CROSS, "softmax"), (ATTENTION, "softmax"), (GRN, "softmax")),
        # The paper decodes token by token; the labels at both ends imply the middle.
        *slow((DEEP, "crf")),
    ],
)
def test_what_sees_both_sides_at_once_learns_xor(encoder, head):
    result = probing.fit(XOR, encoder=encoder, head={"name": head})
    assert result.accuracy == 1


def test_only_scored_tokens_count():
    """The example of `xor` shows that either neighbour alone says nothing."""
    predicted = [list(case.labels) for case in XOR.test]
    for place, accuracy in ((0, 1), (1, 0.75)):
        predicted[0][place] = "O"
        assert XOR.accuracy(predicted) == accuracy


def test_fit_is_a_function_of_its_arguments():
    """Rates of dropout make no noise, and an encoder may be one's own module."""
    first, *rest = (
        probing.fit(
            XOR,
            encoder=encoder,
            head={"name": "softmax", "dropout": rate},
            representation={"words": {"dim": 16}, "dropout": rate},
            steps=100,
        )
        for encoder, rate in ((GRN, 0.0), (GRN, 0.9), (models.GRN(hidden_dim=16), 0.0))
    )
    assert rest == [first, first]
    with pytest.raises(ValueError, match=r"objective\.stage"):
        probing.fit(XOR, encoder=GRN, objective={"stage": "sum"})
