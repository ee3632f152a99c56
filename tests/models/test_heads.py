"""Heads, and stages that have one each or share one, against NumPy."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxner import inference, models
from jaxner.data import schemes
from jaxner.errors import InputError
from jaxner.models import BiLSTM, DirectionHead, Head, LanguageModel
from jaxner.models.heads import ScoresHead
from jaxner.training import optimizers
from tests.models import draws

LABELS = 4
logs_of = jax.jit(jax.vmap(inference.log_probability, (None, 0, None)))


@pytest.mark.parametrize("transitions", [True, False])
@pytest.mark.parametrize("scheme", [*schemes.SCHEMES, schemes.TAGS])
def test_a_constrained_head_knows_well_formed_labellings_alone(scheme, transitions):
    """Its distribution is that over all labellings, given that they are well-formed."""
    names = schemes.label_names("AB", scheme)
    x, mask = draws.features(3)[0], jnp.ones(3, bool)
    free = Head(len(names), transitions)
    head = free.clone(constrained=True, grammar=(scheme, *names))
    weights = draws.weights_of(free, x)
    chances = []
    for module in (free, head):
        potentials = draws.apply(module, weights, x)
        labellings = np.array([*itertools.product(range(len(names)), repeat=3)])
        chances.append(np.exp(logs_of(potentials, labellings, mask)))
    is_tag = scheme == schemes.TAGS
    rows = ([names[i] for i in y] for y in labellings)
    fits = np.array([not schemes.violations(labels, scheme) for labels in rows])
    assert is_tag or 0 < fits.mean() < 1
    expected = np.where(fits, chances[0], 0) / chances[0][fits].sum()
    np.testing.assert_allclose(chances[1], expected, rtol=1e-4, atol=1e-7)
    total = lambda w: inference.log_partition(draws.apply(head, w, x), mask)  # noqa: E731
    slope = jax.jit(jax.grad(total))
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(slope(weights)))


def test_a_head_has_the_grammar_only_where_it_is_constrained():
    """So models of other data are equal; a refinement's head is one of its own."""
    free, strict = ({"name": "crf", "constrained": x} for x in (False, True))
    grammar = ("BIO", "O", "B-A", "I-A")
    for head, second in ((free, strict), (strict, free)):
        parts = {"head": head, "refinement": {"head": second}, "grammar": grammar}
        model = draws.build(**parts)
        assert model.head.grammar == (grammar if head is strict else ())
        assert model.refinement.head.grammar == (grammar if second is strict else ())


def test_a_language_model_predicts_the_words_beside_each_token():
    """One of the first words, unknown (1), or the end of the sentence (0)."""
    x, mask = draws.features(4, padding=2)
    words, table = jnp.array([3, 8, 2, 4, 2, 2]), draws.features(9, seed=1)[0]
    model = LanguageModel(num_words=4)
    weights = draws.weights_of(model, x, words, mask, table)
    losses = jax.jit(model.apply)(weights, x, words, mask, table)
    p, vectors = draws.in_float64(weights), np.asarray(table[:4], np.float64)
    expected = np.zeros(6)
    for name, half, targets in (
        ("forward", x[:4, :3], [1, 2, 1, 0]),
        ("backward", x[:4, 3:], [0, 3, 1, 2]),
    ):
        chances = draws.softmax(draws.dense(p[name], half) @ vectors.T / 6**0.5)
        expected[:4] -= np.log(chances[range(4), targets])
    np.testing.assert_allclose(losses, expected, rtol=1e-5)


@pytest.mark.parametrize(("layers", "cross"), [(1, True), (2, False), (2, True)])
def test_the_directions_of_a_bilstm_have_read_one_side_each(layers, cross):
    """Else a language model would read what it is to predict."""
    x, mask = draws.features(4)
    encoder = BiLSTM(hidden_dim=3, num_layers=layers, cross=cross)
    weights = draws.weights_of(encoder, x, mask)
    states_of = lambda x: draws.apply(encoder, weights, x, mask)[0]  # noqa: E731
    slopes = jax.jit(jax.jacobian(states_of))(x)
    forward, backward = slopes[1, :3, 2:].any(), slopes[1, 3:, :1].any()
    assert (
        (not forward and not backward)
        == encoder.has_directions
        == (not cross or layers == 1)
    )


@pytest.mark.parametrize(
    ("parts", "demand"),
    [
        ({"head": {"name": "crf", "constrained": True}}, "constrained needs `grammar`"),
        ({"encoder": {"name": "bilstm", "num_layers": 2}}, "encoder 'bilstm' of one"),
        ({"encoder": {"name": "grn"}}, "encoder 'bilstm' of one"),
        ({"representation": {"chars": {"name": "cnn"}}}, "needs representation.words"),
    ],
)
def test_parts_need_others(parts, demand):
    """A language model needs words and two directions, a constrained head a grammar."""
    with pytest.raises(InputError, match=demand):
        draws.build(**{"language_model": {}, **parts})


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
    encoder = {"name": "idcnn", "hidden_dim": 5, "num_blocks": 3}
    head = {"name": name, "dropout": 0.0, "per_stage": per_stage}
    model = draws.build(encoder=encoder, head=head)
    weights = draws.weights_of(model)
    scores, _ = draws.apply(model, weights, draws.SENTENCE)
    p = weights["params"]
    x = p["representation"]["words"]["trained"][draws.SENTENCE.words]
    reader = {"params": p["encoder"]}
    stages, _ = draws.apply(model.encoder, reader, x, draws.SENTENCE.mask)
    heads = ["earlier_heads_0", "earlier_heads_1"] if per_stage else ["head", "head"]
    assert set(p) == {"representation", "encoder", "head", *heads}
    for potentials, states, head in zip(scores, stages, [*heads, "head"], strict=True):
        expected = draws.dense(draws.in_float64(weights)[head]["emissions"], states)
        np.testing.assert_allclose(potentials.emissions, expected, rtol=1e-4, atol=1e-4)
        if name == "crf":
            for part in ("transitions", "start", "end"):
                np.testing.assert_array_equal(getattr(potentials, part), p[head][part])


@pytest.mark.parametrize(
    "head",
    [{"name": "crf"}, {"name": "crf", "boundaries": False}, {"name": "seq2seq"}],
)
def test_weights_scores_and_gradients_stay_float32_among_float64(head, float64):
    model = draws.build(head=head, num_frozen=2)
    weights = models.shapes(model)

    def size(weights):
        return optimizers.norm(models.predict(model, weights, draws.SENTENCE))

    answers = jax.eval_shape(jax.value_and_grad(size), weights)
    kinds = {leaf.dtype for leaf in jax.tree.leaves((weights, answers))}
    assert kinds == {jnp.dtype("float32")}
