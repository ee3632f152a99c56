"""Heads, and stages that have one each or share one, against NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxner import inference
from jaxner.models import DirectionHead, Head
from jaxner.models.heads import ScoresHead
from tests.models import draws

LABELS = 4


@pytest.mark.parametrize("transitions", [True, False])
@pytest.mark.parametrize("boundaries", [True, False])
def test_linear_heads(transitions, boundaries):
    head, x = Head(LABELS, transitions, boundaries), draws.features(5)[0]
    weights = draws.weights_of(head, x)
    drawn = {"transitions"} if transitions else set()
    if transitions and boundaries:
        drawn |= {"start", "end"}
    assert set(weights["params"]) == {"emissions"} | drawn
    potentials = draws.apply(head, weights, x)
    draws.close(
        potentials.emissions, draws.dense(draws.in_float64(weights)["emissions"], x)
    )
    for name in ("transitions", "start", "end"):
        value = getattr(potentials, name)
        if name in drawn:
            np.testing.assert_array_equal(value, weights["params"][name])
        elif transitions:  # a first or last label costs nothing
            assert not value.any()
        else:
            assert value is None


def test_direction_head_averages_two_softmaxes():
    head, x = DirectionHead(LABELS), draws.features(5)[0]
    weights = draws.weights_of(head, x)
    p, potentials = draws.in_float64(weights), draws.apply(head, weights, x)
    sides = {"forward": x[:, :3], "backward": x[:, 3:]}
    chances = [draws.softmax(draws.dense(p[name], x)) for name, x in sides.items()]
    assert potentials[1:] == (None, None, None)
    mean = np.mean(chances, axis=0)
    np.testing.assert_allclose(jnp.exp(potentials.emissions), mean, rtol=1e-5)
    total = inference.log_partition(potentials, jnp.ones(5, bool))
    assert float(total) == pytest.approx(0, abs=1e-5)


def test_scores_are_the_potentials():
    scores = draws.features(3, dim=5)[0]
    assert ScoresHead(5).apply({}, scores, train=True).emissions is scores
    head = ScoresHead(5, transitions=True)
    potentials, weights = head.init_with_output(jax.random.key(0), scores, train=False)
    assert set(weights["params"]) == {"transitions", "start", "end"}
    assert potentials.emissions is scores
    with pytest.raises(ValueError, match="ScoresHead"):
        ScoresHead(5).apply({}, scores[:, :4], train=False)


@pytest.mark.parametrize(("name", "per_stage"), [("softmax", True), ("crf", False)])
def test_stages_have_one_head_or_one_each(name, per_stage):
    model = draws.build(
        encoder={"name": "idcnn", "hidden_dim": 5, "num_blocks": 3},
        head={"name": name, "dropout": 0.0, "per_stage": per_stage},
    )
    weights = draws.weights_of(model)
    scores, _ = draws.apply(model, weights, draws.SENTENCE)
    p = weights["params"]
    x = p["representation"]["words"]["trained"][draws.SENTENCE.words]
    encoder = {"params": p["encoder"]}
    stages, _ = draws.apply(model.encoder, encoder, x, draws.SENTENCE.mask)
    heads = ["earlier_heads_0", "earlier_heads_1"] if per_stage else ["head", "head"]
    assert set(p) == {"representation", "encoder", "head", *heads}
    for potentials, read, head in zip(scores, stages, [*heads, "head"], strict=True):
        expected = draws.dense(draws.in_float64(weights)[head]["emissions"], read)
        np.testing.assert_allclose(potentials.emissions, expected, rtol=1e-4, atol=1e-4)
        if name == "crf":
            for part in ("transitions", "start", "end"):
                np.testing.assert_array_equal(getattr(potentials, part), p[head][part])
