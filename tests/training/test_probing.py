"""Measures the papers' claims about what encoders and heads can distinguish.

Where a model must fail, the failure is a proof: an identity of its scores, or sentences
that are the same for all it sees. That others succeed shows that training is no excuse.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxner import models
from jaxner.data import probes
from jaxner.training import probing
from tests.marks import slow

SEEDS = range(3)
XOR = probes.xor()
BASELINE = {"name": "bilstm", "hidden_dim": 8, "cross": False}
CROSS = {**BASELINE, "cross": True, "num_layers": 2}
ATTENTION = {
    "name": "chain",
    "first": {**BASELINE, "num_layers": 2},
    "then": {"name": "attention", "num_heads": 2},
}
GRN = {"name": "grn", "hidden_dim": 16}
# Drawn, since the identity has a plateau: see `probing.fit`.
IDCNN = {"name": "idcnn", "hidden_dim": 16, "initializer": "glorot"}

ADDITIVE = {
    "1 layer": ({**BASELINE, "num_layers": 1}, "softmax"),
    "2 layers": ({**BASELINE, "num_layers": 2}, "softmax"),
    "3 layers": ({**BASELINE, "num_layers": 3}, "softmax"),
    "2 layers, by direction": ({**BASELINE, "num_layers": 2}, "direction"),
}


@pytest.mark.parametrize(
    "name", ["1 layer", *slow("2 layers, by direction", "2 layers", "3 layers")]
)
def test_directions_that_never_meet_cannot_learn_xor(name):
    encoder, head = ADDITIVE[name]
    for seed in SEEDS:
        result = probing.fit(XOR, encoder=encoder, head={"name": head}, seed=seed)
        assert result.accuracy <= 3 / 4


@pytest.mark.parametrize(("encoder", "head"), ADDITIVE.values(), ids=ADDITIVE)
def test_scores_of_directions_that_never_meet_add_up(encoder, head):
    """The proof of Li, Fu and Ma: for any weights, and so for any training."""
    works, others = scores(encoder, head)
    np.testing.assert_allclose(works.sum(axis=0), others.sum(axis=0), atol=1e-5)
    assert np.abs(works[0] - works[1]).max() > 0.01  # and not since all are the same


def test_scores_of_directions_that_meet_do_not_add_up():
    works, others = scores(CROSS, "softmax")
    assert np.abs(works.sum(axis=0) - others.sum(axis=0)).max() > 0.01


def scores(encoder, head):
    """The sum over the directions at "and": of scores, or of probabilities.

    Of the works of art, and of the other two phrases, each [2, L], for drawn weights.
    """
    vocabulary, model = probing.build(XOR, encoder=encoder, head={"name": head})
    rng = np.random.default_rng(0)
    weights = jax.tree.map(
        lambda leaf: jnp.asarray(rng.normal(size=leaf.shape), leaf.dtype),
        jax.eval_shape(lambda: models.init(model, jax.random.key(0))),
    )
    batch, _ = probing.encode(vocabulary, XOR.test)
    apply = jax.jit(jax.vmap(lambda sentence: models.apply(model, weights, sentence)))
    middle = np.asarray(apply(batch).emissions)[:, 1]
    middle = np.exp(middle) if head == "direction" else middle
    return middle[:2], middle[2:]


@pytest.mark.parametrize(
    "encoder",
    [IDCNN, *slow(CROSS, ATTENTION, GRN)],
    ids=["idcnn", "cross", "attention", "grn"],
)
def test_encoders_that_see_both_sides_at_once_learn_xor(encoder):
    for seed in SEEDS:
        assert probing.fit(XOR, encoder=encoder, seed=seed).accuracy == 1


@pytest.mark.slow
def test_a_crf_learns_xor_on_directions_that_never_meet():
    """The paper decodes token by token; the labels at both ends imply the middle."""
    encoder, head = {**BASELINE, "num_layers": 2}, {"name": "crf"}
    for seed in SEEDS:
        assert probing.fit(XOR, encoder=encoder, head=head, seed=seed).accuracy == 1


BOUNDED = {
    "4-layer CNN": {**IDCNN, "dilations": (1, 1, 1)},
    "5-layer CNN": {**IDCNN, "dilations": (1, 1, 1, 1)},
    "ID-CNN": IDCNN,
    "ID-CNN, 3 blocks": {**IDCNN, "num_blocks": 3},
    "GRN without relation": {**GRN, "relation": "none"},
}
QUICK = ("ID-CNN", "GRN without relation")  # the others repeat these, deeper


def reach(encoder):
    """How far an encoder sees to one side, in tokens."""
    _, model = probing.build(XOR, encoder=encoder)
    return model.encoder.receptive_field // 2


@pytest.mark.parametrize(
    "encoder",
    [
        pytest.param(its, id=name, marks=[] if name in QUICK else [pytest.mark.slow])
        for name, its in BOUNDED.items()
    ],
)
def test_a_receptive_field_ends_where_it_is_said_to(encoder):
    last = reach(encoder)
    for side in probes.SIDES:
        inside, outside = (
            probes.cue(distance, side=side, length=last + 4)
            for distance in (last, last + 1)
        )
        assert probing.fit(inside, encoder=encoder).accuracy == 1
        result = probing.fit(outside, encoder=encoder)
        assert result.labels[::2] == result.labels[1::2]  # the cue is not seen at all
        assert result.accuracy == 0.5


@pytest.mark.parametrize("encoder", [GRN, *slow(CROSS)], ids=["grn", "bilstm"])
def test_encoders_of_the_whole_sentence_see_any_distance(encoder):
    _, model = probing.build(XOR, encoder=encoder)
    assert getattr(model.encoder, "receptive_field", None) is None
    assert probing.fit(probes.cue(14), encoder=encoder).accuracy == 1


APART = probes.cue(6, length=10, apart=True)


@pytest.mark.parametrize(
    "encoder",
    [pytest.param(GRN, marks=pytest.mark.slow), {**IDCNN, "num_blocks": 2}],
    ids=["grn", "idcnn"],
)
def test_documents_show_what_no_sentence_does(encoder):
    alone = probing.fit(APART, encoder=encoder)
    assert alone.labels[::2] == alone.labels[1::2]
    assert alone.accuracy == 0.5
    assert probing.fit(APART, encoder=encoder, documents=True).accuracy == 1


ENTITY = probes.cue(1, entity_length=8)


def types(labels):
    """The types of an entity's tokens, given their labels."""
    return [label.partition("-")[2] for label in labels]


def test_independent_labels_beyond_the_field_contradict_the_others():
    seen = reach(IDCNN)
    result = probing.fit(ENTITY, encoder=IDCNN)
    for i in range(0, len(ENTITY.test), 2):
        near, far = zip(
            *(split(result.labels[k], ENTITY.test[k], seen) for k in (i, i + 1)),
            strict=True,
        )
        assert near[0] != near[1]
        assert far[0] == far[1]
    size = len(ENTITY.test[0].scored)
    assert result.accuracy == (seen + (size - seen) / 2) / size


def split(labels, case, seen):
    """The types of the entity's tokens that see the cue, and of those that do not."""
    found = types(labels[i] for i in case.scored)
    return found[:seen], found[seen:]


@pytest.mark.parametrize(
    ("encoder", "head", "stages"),
    [
        (IDCNN, "crf", "last"),
        ({**IDCNN, "num_blocks": 2}, "softmax", "sum"),
        *slow(({**IDCNN, "num_blocks": 2}, "softmax", "last")),
    ],
    ids=["transitions", "iteration, loss of each block", "iteration"],
)
def test_what_keeps_a_long_entity_of_one_type(encoder, head, stages):
    result = probing.fit(
        ENTITY, encoder=encoder, head={"name": head}, objective={"stages": stages}
    )
    assert result.accuracy == 1


def test_fit_is_a_function_of_its_arguments():
    first, second = (probing.fit(XOR, encoder=GRN, steps=3) for _ in range(2))
    assert first == second


def test_dropout_rates_make_no_noise():
    quiet, rates = (
        probing.fit(
            XOR,
            encoder=GRN,
            head={"name": "softmax", "dropout": rate},
            representation={"words": {"dim": 16}, "dropout": rate},
        )
        for rate in (0.0, 0.9)
    )
    assert quiet == rates


def test_an_unknown_option_is_named():
    with pytest.raises(ValueError, match="Unknown encoder 'lstm'"):
        probing.fit(XOR, encoder={"name": "lstm"})
    with pytest.raises(ValueError, match="Unknown option objective\\.stage"):
        probing.fit(XOR, encoder=GRN, objective={"stage": "sum"})


def test_an_encoder_of_ones_own():
    own = probing.fit(XOR, encoder=models.GRN(hidden_dim=16))
    assert own == probing.fit(XOR, encoder=GRN)
