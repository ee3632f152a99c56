"""Features of each token, against independent readings of the papers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxner import models
from jaxner.data import vocabulary as vocab
from jaxner.models import CharacterCNN, CharacterLSTM, IntNet, representation
from jaxner.models.representation import Capitalisation
from tests.sentences import spelled

NUM_CHARS = 9
TYPES = (0, 0, 1, 2, 3, 4, 1, 2, 0)  # of each character id


def call(module, weights, *inputs, key=None):
    """Applies a module; those that read characters can have dropout, by a key."""
    if not isinstance(module, (CharacterCNN, CharacterLSTM, IntNet)):
        return module.apply(weights, *inputs)
    rngs = None if key is None else {"dropout": key}
    return module.apply(weights, *inputs, train=key is not None, rngs=rngs)


def init(module, *inputs):
    reads = isinstance(module, (CharacterCNN, CharacterLSTM, IntNet))
    options = {"train": False} if reads else {}
    return module.init(jax.random.key(0), *inputs, **options)


def draw_weights(module, *inputs, seed=0):
    rng = np.random.default_rng(seed)
    return jax.tree.map(
        lambda leaf: jnp.asarray(rng.normal(size=leaf.shape), leaf.dtype),
        jax.eval_shape(lambda: init(module, *inputs)),
    )


apply = jax.jit(call, static_argnames="module")


def in_float64(weights):
    return jax.tree.map(lambda a: np.asarray(a, np.float64), weights["params"])


def pad(rows, width):
    padded = np.zeros((len(rows), width), np.int32)
    for row, chars in zip(padded, rows, strict=True):
        row[: len(chars)] = chars
    return jnp.asarray(padded)


# Lengths from a word of none, as under padding, to one that has to be cut.
WORDS = [
    np.random.default_rng(n).integers(1, NUM_CHARS, n).tolist()
    for n in (3, 1, 0, 7, 20, 23, 2)
]

# --- Characters: convolutions ---------------------------------------------------------

ACTIVATIONS = {"none": lambda x: x, "tanh": np.tanh, "relu": lambda x: np.maximum(x, 0)}


def numpy_free_cnn(p, chars, width, activation):
    """The features of one word of any length, zeros beside it."""
    best = np.full(p["bias"].shape, -np.inf)
    for i in range(len(chars)):
        total = p["bias"].copy()
        for k in range(width):
            j = i + k - width // 2
            if 0 <= j < len(chars):
                vector = p["table"][chars[j]]
                total += vector @ p["kernel"][k * len(vector) : (k + 1) * len(vector)]
        best = np.maximum(best, ACTIVATIONS[activation](total))
    return best if len(chars) else np.zeros_like(best)


@pytest.mark.parametrize("activation", ["none", "tanh", "relu"])
@pytest.mark.parametrize("width", [1, 3, 5])
def test_cnn_of_free_length_equals_numpy(width, activation):
    cnn = CharacterCNN(
        NUM_CHARS, dim=3, num_filters=4, width=width, activation=activation
    )
    chars = pad(WORDS, 23)
    weights = draw_weights(cnn, chars)
    p = in_float64(weights)
    p = {"table": p["table"], **p["conv"]}
    expected = [numpy_free_cnn(p, word, width, activation) for word in WORDS]
    found = apply(cnn, weights, chars)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def numpy_fixed_cnn(p, chars, length, widths, types):
    """Li, Fu and Ma (2020): cut, pad, convolve within the word, maximum of all."""
    chars = (chars + [0] * length)[:length]
    if not any(chars):
        return np.zeros(sum(p[f"conv{w}"]["kernel"].shape[1] for w in widths))
    rows = []
    for char in chars:
        vector = list(p["table"][char])
        if types is not None:
            vector += [float(types[char] == kind) for kind in (1, 2, 3, 4)]
        rows.append(vector)
    parts = []
    for width in widths:
        values = [
            np.concatenate(rows[i : i + width]) @ p[f"conv{width}"]["kernel"]
            for i in range(length - width + 1)
        ]
        parts.append(np.max(values, axis=0))
    return np.concatenate(parts)


def fixed_cnn(**options):
    defaults = {"dim": 3, "num_filters": 4, "width": (1, 2, 3), "length": 20}
    return CharacterCNN(NUM_CHARS, **{**defaults, "bias": False, **options})


@pytest.mark.parametrize("types", [None, TYPES])
def test_cnn_of_fixed_length_equals_numpy(types):
    cnn = fixed_cnn(types=types)
    chars = pad(WORDS, 23)
    weights = draw_weights(cnn, chars)
    assert set(weights["params"]) == {"table", "conv1", "conv2", "conv3"}
    assert all(set(weights["params"][f"conv{w}"]) == {"kernel"} for w in (1, 2, 3))
    p = in_float64(weights)
    expected = [numpy_fixed_cnn(p, word, 20, (1, 2, 3), types) for word in WORDS]
    found = apply(cnn, weights, chars)
    assert found.shape == (len(WORDS), 12)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


# --- Characters: an LSTM --------------------------------------------------------------


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def numpy_char_lstm(p, chars, pool="max"):
    """[forward; backward] over real characters, one step at a time, and pooled."""
    cells = p["lstm"]["lstm"]["layer1"]
    directions = []
    for direction, order in ((0, 1), (1, -1)):
        w, u, b = (cells[name][direction, 0] for name in ("input", "recurrent", "bias"))
        h = c = np.zeros(b.shape[1])
        states = []
        for char in chars[::order]:
            x = p["table"][char]
            i, f, o, g = (x @ w[:, k] + h @ u[:, k] + b[k] for k in range(4))
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
            h = sigmoid(o) * np.tanh(c)
            states.append(h)
        best = h if pool == "last" or not chars else np.max(states, axis=0)
        directions.append(best)
    return np.concatenate(directions)


@pytest.mark.parametrize("pool", ["max", "last"])
def test_lstm_equals_numpy(pool):
    lstm = CharacterLSTM(NUM_CHARS, dim=3, hidden_dim=4, pool=pool)
    chars = pad(WORDS, 23)
    weights = draw_weights(lstm, chars)
    p = in_float64(weights)
    found = apply(lstm, weights, chars)
    assert found.shape == (len(WORDS), 8)
    expected = [numpy_char_lstm(p, word, pool) for word in WORDS]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    # The maximum of a word's features may be below zero, where padding's would be.
    assert (np.asarray(found)[[i for i, w in enumerate(WORDS) if w]] < 0).any()


CHARACTERS = {
    "free": CharacterCNN(NUM_CHARS, dim=3, num_filters=4),
    "fixed": fixed_cnn(types=TYPES),
    "lstm": CharacterLSTM(NUM_CHARS, dim=3, hidden_dim=2),
    "lstm-last": CharacterLSTM(NUM_CHARS, dim=3, hidden_dim=2, pool="last"),
    "intnet": IntNet(NUM_CHARS, dim=3, num_filters=4, growth=3, num_blocks=2),
}


@pytest.mark.parametrize("name", CHARACTERS)
def test_dropout_of_the_characters(name):
    """Elements of the character vectors are zeroed, each by itself, and no others."""
    module, chars = CHARACTERS[name].clone(dropout=0.5), pad(WORDS, 23)
    weights = draw_weights(module, chars)
    quiet = apply(CHARACTERS[name].clone(dropout=0.0), weights, chars)
    np.testing.assert_array_equal(apply(module, weights, chars), quiet)
    noisy = apply(module, weights, chars, key=jax.random.key(0))
    assert not noisy[2].any()  # a word of no characters
    longest = np.asarray(WORDS[5])
    same = pad([longest, longest], 23)
    noisy = apply(module, weights, same, key=jax.random.key(0))
    assert not np.allclose(noisy[0], noisy[1])
    assert not np.allclose(noisy, apply(module, weights, same, key=jax.random.key(1)))


# --- Capitalisation -------------------------------------------------------------------

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


RULES = {"shape": strubell, "case": li}


def caps_of(tokens):
    return jnp.array([vocab.caps(token) for token in tokens])


@pytest.mark.parametrize("rule", RULES)
def test_one_hot_capitalisation_follows_the_paper(rule):
    module, caps = Capitalisation(rule), caps_of(TOKENS)
    weights = init(module, caps, caps)
    assert not weights  # nothing is learned
    expected = np.eye(4)[[RULES[rule](token) - 1 for token in TOKENS]]
    found = module.apply(weights, caps, jnp.full(len(TOKENS), 1))
    np.testing.assert_array_equal(found, expected)
    assert expected.any(axis=0).all()  # every class has a token
    assert not module.apply(weights, jnp.zeros(2, int), jnp.zeros(2, int)).any()


@pytest.mark.parametrize("rule", RULES)
def test_learned_capitalisation_looks_a_vector_up(rule):
    module, caps = Capitalisation(rule, dim=5), caps_of(TOKENS)
    weights = draw_weights(module, caps, caps)
    table = np.asarray(weights["params"]["table"])
    assert table.shape == (5, 5)
    found = module.apply(weights, caps, jnp.zeros(len(TOKENS), int))
    expected = table[[RULES[rule](token) for token in TOKENS]]
    np.testing.assert_array_equal(found, expected)
    assert not module.apply(weights, jnp.zeros(2, int), jnp.zeros(2, int)).any()


@pytest.mark.parametrize("dim", [None, 3])
def test_unknown_words_have_a_vector_in_place_of_their_class(dim):
    module = Capitalisation("case", dim, unknown=True)
    caps = caps_of(["EU", "Rome", "eBay", "Rome"])
    words = jnp.array([1, 2, 1, 3])
    weights = draw_weights(module, caps, words)
    own = weights["params"]["unknown"]
    assert own.shape == (1, dim or 4)
    found = module.apply(weights, caps, words)
    np.testing.assert_array_equal(found[0], own[0])
    np.testing.assert_array_equal(found[2], own[0])
    known = Capitalisation("case", dim).apply(weights, caps, words)
    np.testing.assert_array_equal(found[1::2], known[1::2])


# --- All together ---------------------------------------------------------------------


def tagger(**options):
    """The head hands the features on, so that the potentials show them."""
    return models.build(
        num_labels=2,
        num_trained_words=30,
        num_frozen_words=4,
        num_chars=NUM_CHARS,
        representation={
            "words": {"dim": 3},
            "chars": None,
            "dropout": 0.0,
            **options,
        },
        encoder={"name": "projection", "hidden_dim": 2},
        head={"name": "softmax", "dropout": 0.0},
    ).representation


def draw_sentence(length, padding=0, separators=(), seed=0):
    rng = np.random.default_rng(seed)
    total = length + padding
    words, chars = rng.integers(2, 34, total), rng.integers(1, NUM_CHARS, (total, 4))
    caps, mask = rng.integers(1, 8, total), np.arange(total) < length
    for place in separators:
        words[place], chars[place], caps[place] = 0, 0, 0
    words[length:], chars[length:], caps[length:] = 0, 0, 0
    return jax.tree.map(jnp.asarray, spelled(words, chars, mask, caps))


@jax.jit(static_argnames=("module", "train"))
def represent(module, weights, sentence, keys, train=False):
    return module.apply(weights, sentence, train=train, rngs=keys)


def draw(module, seed=0):
    rng = np.random.default_rng(seed)
    shapes = jax.eval_shape(
        lambda: module.init(jax.random.key(0), draw_sentence(1), train=False)
    )
    return jax.tree.map(
        lambda leaf: jnp.asarray(rng.normal(size=leaf.shape), leaf.dtype), shapes
    )


def test_parts_stand_side_by_side():
    module = tagger(
        chars={"name": "cnn", "dim": 2, "num_filters": 3},
        caps={"rule": "shape", "dim": 2},
    )
    weights, sentence = draw(module), draw_sentence(6, 2, separators=(0, 3))
    p, frozen = weights["params"], weights["frozen"]["words"]["vectors"]
    words = np.concatenate([p["words"]["trained"], frozen])[sentence.words]
    spelling = sentence.chars[sentence.char_index]
    chars = call(module.chars, {"params": p["chars"]}, spelling)
    caps = module.caps.apply({"params": p["caps"]}, sentence.caps, sentence.words)
    expected = np.concatenate([words, caps, chars], axis=1)
    expected[[0, 3, 6, 7]] = 0
    found = represent(module, weights, sentence, None)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


RATE = 0.3


def test_words_are_dropped_at_their_rate_and_nothing_else_is():
    module = tagger(word_dropout=RATE, caps={"rule": "case", "unknown": True})
    weights = draw(module)
    length, separators = 4000, tuple(range(0, 4000, 10))
    sentence = draw_sentence(length, 500, separators)
    plain = represent(module, weights, sentence, None)
    found = np.asarray(
        represent(module, weights, sentence, {"words": jax.random.key(1)})
    )
    unknown = np.concatenate(
        [
            weights["params"]["words"]["trained"][1],
            weights["params"]["caps"]["unknown"][0],
        ]
    )
    dropped = (found == unknown).all(axis=1)
    np.testing.assert_array_equal(found[~dropped], np.asarray(plain)[~dropped])
    absent = np.isin(np.arange(length + 500), separators) | (
        np.arange(length + 500) >= length
    )
    assert not dropped[absent].any()
    assert not found[absent].any()
    count = int((~absent).sum())
    tolerance = 4 * (RATE * (1 - RATE) / count) ** 0.5
    assert dropped[~absent].mean() == pytest.approx(RATE, abs=tolerance)


def test_only_the_key_of_words_drops_words():
    """Without that key, training drops no words; a pass without dropout may."""
    module = tagger(word_dropout=0.5, dropout=0.5)
    weights, sentence = draw(module), draw_sentence(30)
    keys = models.Keys.of(jax.random.key(3))
    plain = represent(module, weights, sentence, None)
    features_alone = represent(
        module, weights, sentence, {"dropout": keys.dropout}, train=True
    )
    kept = np.asarray(features_alone) != 0
    np.testing.assert_array_equal(
        np.asarray(features_alone)[kept], 2 * np.asarray(plain)[kept]
    )
    words_alone = represent(module, weights, sentence, {"words": keys.words})
    unknown = weights["params"]["words"]["trained"][1]
    dropped = np.asarray((words_alone == unknown[None]).all(axis=1))
    assert 5 < dropped.sum() < 25
    both = np.asarray(
        represent(
            module,
            weights,
            sentence,
            {"words": keys.words, "dropout": keys.dropout},
            train=True,
        )
    )
    # The same words are dropped whether features are dropped or not.
    kept = both != 0
    np.testing.assert_array_equal(both[kept], 2 * np.asarray(words_alone)[kept])
    assert 0.3 < kept.mean() < 0.7


def test_types_come_from_the_vocabulary():
    vocabulary, _ = vocab.build([["aA1.é"]], ["LOC"])
    model = models.build(
        num_labels=2,
        num_trained_words=3,
        num_frozen_words=0,
        num_chars=len(vocabulary.chars),
        char_types=vocabulary.char_types,
        representation={
            "words": None,
            "chars": {"types": True, "length": 6, "dim": 2, "width": (1,)},
        },
        encoder={"name": "projection", "hidden_dim": 2},
        head={"name": "softmax"},
    )
    known = dict(zip(vocabulary.chars, model.representation.chars.types, strict=True))
    assert known == {"<pad>": 0, "<unk>": 0, "A": 1, "a": 2, "1": 3, ".": 4, "é": 0}
    shapes = jax.eval_shape(lambda: models.init(model, jax.random.key(0)))["params"][
        "representation"
    ]
    assert shapes["chars"]["conv1"]["kernel"].shape == (6, 30)


@pytest.mark.parametrize("stream", ["dropout", "chars"])
def test_tokens_of_one_word_share_a_mask_only_where_they_share_a_row(stream):
    chars = CharacterCNN(NUM_CHARS, dim=3, num_filters=4, dropout=0.5)
    module = representation.Representation(words=None, chars=chars, dropout=0.0)
    spelling = jnp.tile(jnp.arange(1, 7, dtype=jnp.int32), (8, 1))
    apart = spelled(jnp.ones(8, jnp.int32), spelling, jnp.ones(8, bool))
    shared = apart._replace(char_index=jnp.ones(8, jnp.int32))
    weights = module.init(jax.random.key(0), apart, train=False)
    keys = {"dropout": jax.random.key(1), stream: jax.random.key(2)}
    found = [
        np.asarray(module.apply(weights, sentence, train=True, rngs=keys))
        for sentence in (apart, shared)
    ]
    assert len(np.unique(found[0], axis=0)) == 8
    if stream == "chars":
        assert (found[1] == found[0][0]).all()
    else:  # rows are copied to the tokens first
        np.testing.assert_array_equal(*found)
