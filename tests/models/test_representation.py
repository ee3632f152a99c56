"""Features of each token, against independent readings of the papers."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxner.data import vocabulary as vocab
from jaxner.models import CharacterCNN, CharacterLSTM, IntNet, layers
from jaxner.models.representation import Capitalisation, Vectors
from jaxner.types import Pieces
from tests.golden.make_encoders import SMALL
from tests.marks import slow
from tests.models import draws
from tests.sentences import spelled

NUM_CHARS = 9
TYPES = (0, 0, 1, 2, 3, 4, 1, 2, 0)  # of each character id


# Lengths from a word of none, as under padding, to one that has to be cut.
WORDS = [
    np.random.default_rng(n).integers(1, NUM_CHARS, n).tolist()
    for n in (3, 1, 0, 7, 20, 23, 2)
]
ROWS = jnp.array([word + [0] * (23 - len(word)) for word in WORDS])

ACTIVATIONS = {"none": lambda x: x, "tanh": np.tanh, "relu": lambda x: np.maximum(x, 0)}


def numpy_cnn(m, p, word):
    values = draws.convolve(p["table"][word], **p["conv"], width=m.width)
    return ACTIVATIONS[m.activation](values).max(axis=0)


def numpy_fixed(m, p, word):
    """Li, Fu and Ma (2020): cut, pad, convolve within the word, maximum of all."""
    word = (word + [0] * 20)[:20]
    rows = p["table"][word]
    if m.types is not None:
        kinds = [[m.types[char] == kind for kind in (1, 2, 3, 4)] for char in word]
        rows = np.concatenate([rows, kinds], axis=1)
    assert {*p} == {"table", "conv1", "conv2", "conv3"}
    parts = []
    for width in (1, 2, 3):
        windows = np.stack([rows[i : i + width].ravel() for i in range(20 - width + 1)])
        parts.append((windows @ p[f"conv{width}"]["kernel"]).max(axis=0))
    return np.concatenate(parts)


def numpy_lstm(m, p, word):
    """[forward; backward] over real characters, one step at a time, and pooled."""
    cells, rows = p["lstm"]["lstm"]["layer1"], p["table"][word]
    runs = [draws.lstm(cells, rows, side) for side in (0, 1)]
    if m.pool == "last":
        return np.concatenate([end for _, (end, _) in runs])
    return np.concatenate([np.max(states, axis=0) for states, _ in runs])


def numpy_intnet(m, p, word):
    """[The first convolutions; block 1; block 2; …]."""

    def layer(p, rows, width):
        return np.maximum(draws.convolve(rows, **p, width=width), 0)

    rows = p["table"][word]
    parts = [layer(p[f"first_conv{w}"], rows, w) for w in (3, 5)]
    for block in range(1, m.num_blocks + 1):
        inputs = np.concatenate(parts, axis=1)
        narrow = layer(p[f"block{block}_narrow"], inputs, 1)
        parts += [layer(p[f"block{block}_conv{w}"], narrow, w) for w in (3, 5)]
    return np.concatenate(parts, axis=1).max(axis=0)


FILTERS = CharacterCNN(NUM_CHARS, 3, 4, (1, 2, 3), length=20, bias=False)
READINGS = {
    numpy_cnn: [
        CharacterCNN(NUM_CHARS, 3, 4, width, activation=activation)
        for width, activation in ((1, "tanh"), (3, "none"), (5, "relu"))
    ],
    numpy_fixed: [FILTERS.clone(types=TYPES), FILTERS],
    numpy_lstm: [CharacterLSTM(NUM_CHARS, 3, 4, pool=pool) for pool in ("max", "last")],
    numpy_intnet: [IntNet(NUM_CHARS, 3, 4, 2, num_blocks=2)],
}


@pytest.mark.parametrize(
    ("reading", "module"), [(f, module) for f in READINGS for module in READINGS[f]]
)
def test_features_of_words_equal_a_reading(reading, module):
    """Those of a word of none are zero."""
    weights = draws.weights_of(module, ROWS, scale=0.7)
    vectors, p = draws.apply(module, weights, ROWS), draws.in_float64(weights)
    for row, word in zip(vectors, WORDS, strict=True):
        draws.close(row, reading(module, p, word) if word else 0 * row)


@pytest.mark.parametrize(("count", "products"), [(23 * len(WORDS), 3), (5000, 1)])
def test_a_cpu_looks_up_where_ids_are_fewer_than_places(count, products):
    """A product for each tap of a look-up; large alphabets would take longer so."""
    arrays = jnp.ones((count, 3)), ROWS, jnp.ones((9, 4))
    trace = jax.jit(functools.partial(layers.best_values, width=3)).trace(*arrays)
    text = trace.lower(lowering_platforms=("cpu",)).as_text()
    assert text.count("stablehlo.dot_general") == products


@pytest.mark.parametrize("types", [TYPES, *slow(None)])
def test_values_that_a_cpu_looks_up_are_those_of_a_convolution(types):
    """So are the gradients; with dropout, which is next to none here, it convolves."""
    quick = CharacterCNN(NUM_CHARS, 3, 4, (3, 5), types=types)
    whole, rngs = quick.clone(dropout=1e-9), {"dropout": jax.random.key(0)}
    weights = draws.weights_of(quick, ROWS, scale=0.7)

    def loss(weights, module):
        features = module.apply(weights, ROWS, train=True, rngs=rngs)
        return jnp.sum(jnp.sin(features)), features

    slope = jax.jit(jax.grad(loss, has_aux=True), static_argnums=1)
    results = [slope(weights, x) for x in (quick, whole)]
    jax.tree.map(draws.close, *results)
    low = jax.tree.map(lambda x: x.astype(jnp.bfloat16), weights)
    for module in (quick, whole.clone(bias=False)):
        assert draws.apply(module, low, ROWS).dtype == jnp.bfloat16
    # Forward over reverse, as a Hessian takes it; the maximum is locally linear.
    first = jax.grad(lambda w: loss(w, quick)[0])
    curvature = jax.jit(lambda w: jax.jvp(first, (w,), (w,)))(weights)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(curvature))


TEXT = """
    EU rejects German call British U.N. eBay iPhone McDonald 3M mid-1990s B-52 U2 1996 ,
    -- I A a x É é École éCOLE ß STRASSE Straße 'Em 'EM 'em F-16s O'Brien dos-à-dos 第一
    Москва МОСКВА 1996-08-22 C 0000s 00S A1 1A aB Ab ABc .NET .Net
"""
TOKENS = TEXT.split()


def strubell(token):
    """Strubell et al. (2017), as their preprocessing has it: AA, Aa, aAa, a."""
    if all(char.isupper() for char in token):
        return 1
    if token[0].isupper():
        return 2
    return 3 if any(char.isupper() for char in token) else 4


def li(token):
    """Li, Fu and Ma (2020): upper, upper-initial, lower, mixed or without letters."""
    if token.isupper():
        return 1
    if token[0].isupper():
        return 2
    return 3 if token.islower() else 4


@pytest.mark.parametrize("dim", [None, 5])
@pytest.mark.parametrize(("rule", "paper"), [("shape", strubell), ("case", li)])
def test_capitalisation_follows_the_paper(rule, paper, dim):
    module = Capitalisation(rule, dim)
    caps = jnp.array([vocab.caps(token) for token in TOKENS])
    weights = draws.weights_of(module, caps, caps)
    table = weights["params"]["table"] if dim else np.eye(5)[:, 1:]
    classes = [paper(token) for token in TOKENS]
    assert {*classes} == {1, 2, 3, 4}
    vectors = module.apply(weights, caps, jnp.zeros(len(TOKENS), int))
    np.testing.assert_array_equal(vectors, table[np.array(classes)])
    absent = jnp.array([vocab.caps(""), 0])
    assert not module.apply(weights, absent, jnp.zeros(2, int)).any()


VECTORS = jnp.asarray(np.random.default_rng(0).normal(size=(4, 3, 5)), jnp.float32)


@pytest.mark.parametrize(
    ("layer", "shares"),
    [
        ("top", [0, 0, 1]),
        ("average", [1 / 3, 1 / 3, 1 / 3]),
        ("mix", [1 / 3, 1 / 3, 1 / 3]),  # to begin with
        (1, [0, 1, 0]),
    ],
)
def test_layers_of_vectors(layer, shares):
    model = Vectors(3, 5, layer)
    weights = model.init(jax.random.key(0), VECTORS)
    assert bool(weights) == (layer == "mix")
    draws.close(model.apply(weights, VECTORS), np.einsum("tsd,s->td", VECTORS, shares))
    if layer == "mix":
        logits = [0.3, -1.0, 2.0]
        mix = {"shares": jnp.array(logits), "scale": jnp.array(1.7)}
        expected = 1.7 * np.einsum("tsd,s->td", VECTORS, draws.softmax(logits))
        draws.close(model.apply({"params": mix}, VECTORS), expected)


def represented(**options):
    parts = {"words": {"dim": 3}, "chars": None, "dropout": 0.0, **options}
    return draws.build(
        representation=parts,
        num_trained=30,
        num_frozen=4,
        num_chars=NUM_CHARS,
        vector_sizes=(3, 5) if "vectors" in options else None,
        encoder_sizes=SMALL if "bert" in options else None,
    ).representation


def draw_sentence(length, padding=0, separators=(), seed=0):
    rng = np.random.default_rng(seed)
    total = length + padding
    words, chars = rng.integers(2, 34, total), rng.integers(1, NUM_CHARS, (total, 4))
    caps, mask = rng.integers(1, 8, total), np.arange(total) < length
    absent = np.isin(np.arange(total), separators) | ~mask
    words[absent], chars[absent], caps[absent] = 0, 0, 0
    return jax.tree.map(jnp.asarray, spelled(words, chars, mask, caps))


def test_parts_stand_side_by_side():
    module = represented(
        chars={"name": "cnn", "dim": 2, "num_filters": 3},
        caps={"rule": "shape", "dim": 2},
    )
    sentence = draw_sentence(6, 2, separators=(0, 3))
    weights = draws.weights_of(module, sentence)
    p, frozen = weights["params"], weights["frozen"]["words"]["vectors"]
    words = np.concatenate([p["words"]["trained"], frozen])[sentence.words]
    spelling = sentence.chars[sentence.char_index]
    chars = draws.apply(module.chars, {"params": p["chars"]}, spelling)
    caps = module.caps.apply({"params": p["caps"]}, sentence.caps, sentence.words)
    expected = np.concatenate([words, caps, chars], axis=1)
    expected[[0, 3, 6, 7]] = 0
    draws.close(draws.apply(module, weights, sentence), expected, 1e-6)


def test_contextual_parts_do_not_see_padding():
    module = represented(vectors={"layer": "average"}, bert={"pool": "first"})

    def sentence(size):
        words = jnp.where(jnp.arange(size) < 3, jnp.arange(size) + 2, 0)
        ids = jnp.array([[1, 4, 5, 6, 2, 0, 0]])
        positions = jnp.where(words > 0, jnp.arange(size) + 1, -1)[:, None]
        vectors = jnp.zeros((size, 3, 5)).at[:3].set(VECTORS[:3])
        inputs = vectors, Pieces(ids, ids > 0, positions)
        return spelled(words, jnp.zeros((size, 1), int), words > 0, None, *inputs)

    weights = draws.weights_of(module, sentence(3))
    single, batch = (draws.apply(module, weights, sentence(size)) for size in (3, 5))
    draws.close(single[:, 3:8], VECTORS[:3].mean(axis=1))
    assert single[:, 8:].any(axis=1).all()
    draws.close(batch[:3], single)
    assert not batch[3:].any()


RATE = 0.3


def test_words_are_dropped_at_their_rate_and_nothing_else_is():
    module = represented(word_dropout=RATE, caps={"rule": "case", "unknown": True})
    sentence = draw_sentence(4000, 500, tuple(range(0, 4000, 10)))
    weights = draws.weights_of(module, sentence)
    plain = module.apply(weights, sentence, train=False)
    rngs = {"words": jax.random.key(1)}
    vectors = np.asarray(module.apply(weights, sentence, train=False, rngs=rngs))
    p = weights["params"]
    unknown = np.append(p["words"]["trained"][1], p["caps"]["unknown"][0])
    drops = (vectors == unknown).all(axis=1)
    np.testing.assert_array_equal(vectors[~drops], np.asarray(plain)[~drops])
    present = np.asarray(sentence.words) > 0
    assert not vectors[~present].any()
    tolerance = 4 * (RATE * (1 - RATE) / present.sum()) ** 0.5
    assert drops[present].mean() == pytest.approx(RATE, abs=tolerance)
