"""Every encoder works with every head and every representation.

Each two of them are put together at least once, at the smallest sizes: one training
step and both kinds of decoding are traced, which compiles nothing and checks all shapes
and types. Each one is run, too. Padding and batch mates are tried with every encoder
and with every head.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxner import inference, models
from jaxner.data import schemes
from jaxner.data import vocabulary as vocab
from jaxner.data.batching import Shape, pad
from jaxner.training import objectives, optimizers, step
from jaxner.types import batch_axes
from tests.marks import slow

DIM = 4
LSTM = {"name": "bilstm", "hidden_dim": 2}
IDCNN = {"name": "idcnn", "hidden_dim": DIM, "dilations": (1, 2), "num_blocks": 2}
ATTENTION = {"name": "attention", "num_heads": 2}


def chain(first, then):
    return {"name": "chain", "first": first, "then": then}


ENCODERS = {
    "grn": {"name": "grn", "hidden_dim": DIM},
    "grn without relation": {"name": "grn", "hidden_dim": DIM, "relation": "none"},
    "idcnn": IDCNN,
    "bilstm": LSTM,
    "parallel": {
        **LSTM,
        "hidden_dim": 1,
        "num_units": 2,
        "input_dropout": 0.1,
        "state_dropout": 0.1,
    },
    "baseline": {
        **LSTM,
        "num_layers": 2,
        "cross": False,
        "state_dropout": 0.1,
        "dropout_scope": "batch",
    },
    "attention": chain(LSTM, ATTENTION),
    "projection": chain(LSTM, {"name": "projection", "hidden_dim": DIM}),
    "idcnn, attention": chain(IDCNN, ATTENTION),
    "transformer": {
        "name": "transformer",
        "num_layers": 1,
        "num_heads": 2,
        "head_dim": 2,
    },
    "lan": {"name": "lan", "hidden_dim": 2, "num_layers": 2, "num_heads": 2},
}
HEADS = {
    "crf": {"name": "crf"},
    "crf without boundaries": {"name": "crf", "boundaries": False},
    "softmax": {"name": "softmax"},
    "direction": {"name": "direction"},
    "scores": {"name": "scores"},
    "seq2seq": {"name": "seq2seq", "tag_dim": 1, "hidden_dim": 1, "beam_size": 2},
}
# All have four features, so that the encoders' programs are the same.
REPRESENTATIONS = {
    "words": {"words": {"dim": 4}, "chars": None},
    "words, cnn": {
        "words": {"dim": 2},
        "chars": {"name": "cnn", "dim": 2, "num_filters": 2},
    },
    "words, lstm, shape": {
        "words": {"dim": 1},
        "chars": {"name": "lstm", "dim": 2, "hidden_dim": 1},
        "caps": {"rule": "shape", "dim": 1},
    },
    "words, fixed cnn, case": {
        "words": {"dim": 2, "initializer": "normal"},
        "chars": {
            "dim": 2,
            "num_filters": 1,
            "width": (1, 2),
            "length": 3,
            "types": True,
            "bias": False,
        },
        "caps": {"rule": "case", "unknown": True},
        "word_dropout": 0.2,
    },
    "chars": {"words": None, "chars": {"name": "cnn", "dim": 2, "num_filters": 4}},
    "words, intnet": {
        "words": {"dim": 2},
        "chars": {
            "name": "intnet",
            "dim": 2,
            "num_filters": 1,
            "growth": 1,
            "num_blocks": 1,
            "widths": (3,),
        },
    },
}

SENTENCES = [["EU", "is"], ["A.1"]]
LABELS = [["S-LOC", "O"], ["O"]]
LEXICON, _ = vocab.build(SENTENCES, ["LOC"])
CONSTRAINTS = inference.Constraints(
    *map(jnp.asarray, schemes.allowed(LEXICON.label_names, LEXICON.scheme))
)


def cover():
    """Chooses a representation for each encoder and head, so that it meets all of both.

    In a table with a row for each encoder and a column for each head, the next
    representation stands to the right and below.
    """
    names = list(REPRESENTATIONS)
    return [
        (encoder, head, names[(i + j) % len(names)])
        for i, encoder in enumerate(ENCODERS)
        for j, head in enumerate(HEADS)
    ]


def fitting(encoder, head):
    """Returns an encoder with as many features as the head accepts."""
    options, labels = ENCODERS[encoder], len(LEXICON.label_names)
    if head == "scores" and encoder != "lan":
        return chain(options, {"name": "projection", "hidden_dim": labels})
    if head == "direction" and encoder == "lan":  # an odd number of labels
        return chain(options, {"name": "projection", "hidden_dim": DIM})
    return options


def build(encoder, head, representation, dropout=0.2):
    rate = {} if head == "scores" else {"dropout": dropout}
    return models.build(
        num_labels=len(LEXICON.label_names),
        num_trained_words=LEXICON.num_trained,
        num_frozen_words=0,
        num_chars=len(LEXICON.chars),
        char_types=LEXICON.char_types,
        representation={"dropout": dropout, **REPRESENTATIONS[representation]},
        encoder=fitting(encoder, head),
        head={**rate, **HEADS[head]},
    )


def draw_weights(model):
    rng = np.random.default_rng(0)
    shapes = jax.eval_shape(lambda: models.init(model, jax.random.key(0)))
    return jax.tree.map(
        lambda leaf: jnp.asarray(rng.uniform(-0.5, 1, leaf.shape), leaf.dtype), shapes
    )


def batch_of(sentences, labels, length, width):
    encoded = [LEXICON.encode(s) for s in sentences]
    words = len(sentences) * length + 1
    batch = pad(encoded, Shape(length, words, width))
    gold = np.zeros((len(sentences), length), np.int32)
    for row, its in zip(gold, labels, strict=True):
        row[: len(its)] = LEXICON.label_ids(its)
    return jax.tree.map(jnp.asarray, batch), jnp.asarray(gold)


@jax.jit  # few programs: one for each type of potentials
def decode(potentials, mask):
    ruled = inference.constrain(potentials, CONSTRAINTS)
    return [inference.viterbi(p, mask) for p in (potentials, ruled)]


def test_each_two_parts_meet():
    tables = (ENCODERS, HEADS, REPRESENTATIONS)
    for one, other in itertools.combinations(range(3), 2):
        met = {(case[one], case[other]) for case in cover()}
        assert met == set(itertools.product(tables[one], tables[other]))


def chosen():
    """Chooses those to run: one of each encoder, of all heads and representations."""
    seen, cases = set(), []
    for encoder in ENCODERS:
        own = [case for case in cover() if case[0] == encoder]
        cases.append(max(own, key=lambda case: len(set(case[1:]) - seen)))
        seen |= set(cases[-1])
    return cases


def others():
    """Those to run that only `pytest -m slow` runs."""
    return [case for i, case in enumerate(chosen()) if i % 8]


def learn_and_label(model, weights, batch, gold):
    """One step, and the potentials of the first sentence after it."""
    tx = optimizers.build({"name": "sgd", "learning_rate": 0.1}, 1)
    objective, sizes = objectives.Objective(stages="sum"), objectives.sizes_of(batch)
    recipe = step.Recipe(model, tx, objective, sizes)
    rows, key = jnp.arange(len(gold)), jax.random.key(0)
    given = recipe, weights["params"], weights["frozen"], batch, gold, rows, key
    state = step.init(weights["params"], tx)
    after = step.update(recipe, state, *step.loss_and_gradient(*given))
    trained = {"params": after.params, "frozen": weights["frozen"]}
    first = jax.tree.map(lambda leaf: leaf[0], batch._replace(chars=None))
    first = first._replace(chars=batch.chars)  # all sentences share them
    return after, models.apply(model, trained, first)


run = jax.jit(learn_and_label, static_argnums=0)


REST = [case for case in cover() if case not in chosen()]


@pytest.mark.parametrize(
    ("encoder", "head", "representation"), [*REST[::2], *slow(*REST[1::2])]
)
def test_each_two_parts_fit(encoder, head, representation):
    """Traces a step and both decodings; CI checks the shapes in signatures, too."""
    model = build(encoder, head, representation)
    batch, gold = batch_of(SENTENCES, LABELS, 2, 3)

    def trace():
        weights = models.init(model, jax.random.key(0))
        after, potentials = learn_and_label(model, weights, batch, gold)
        return weights["params"], after, decode(potentials, batch.mask[0])

    params, after, labels = jax.eval_shape(trace)
    assert jax.tree.map(jnp.shape, after.params) == jax.tree.map(jnp.shape, params)
    assert after.sums["loss"].shape == ()
    assert [found.shape for found in labels] == [(2,), (2,)]


@pytest.mark.parametrize(
    ("encoder", "head", "representation"), [*chosen()[::8], *slow(*others())]
)
def test_a_step_and_a_decoding(encoder, head, representation):
    model = build(encoder, head, representation)
    weights = draw_weights(model)
    batch, gold = batch_of(SENTENCES, LABELS, 2, 3)
    after, potentials = run(model, weights, batch, gold)
    assert 0 < float(after.sums["loss"]) < 1e3
    # Not each number: a ReLU may be shut, or a maximum lie elsewhere.
    for part, old in jax.tree.map(np.asarray, weights["params"]).items():
        new = jax.tree.map(np.asarray, after.params[part])
        pairs = list(zip(jax.tree.leaves(new), jax.tree.leaves(old), strict=True))
        assert all(np.isfinite(leaf).all() for leaf, _ in pairs), part
        assert not pairs or any((one != other).any() for one, other in pairs), part
    free, ruled = decode(potentials, batch.mask[0])
    assert free.shape == ruled.shape == (2,)
    labels = LEXICON.decode(ruled.tolist())
    assert not schemes.violations(labels, LEXICON.scheme), labels


# A head sees nothing of the encoder but its features.
@pytest.mark.parametrize(
    ("encoder", "head"),
    [
        *((encoder, "crf") for encoder in ENCODERS),
        *(("bilstm", head) for head in HEADS),
    ],
)
def test_padding_and_batch_mates_change_no_potential(encoder, head):
    """A sentence of one token alone, and beside one of two."""
    model = build(encoder, head, "words, fixed cnn, case")
    weights = draw_weights(model)
    batch, _ = batch_of(SENTENCES, LABELS, 2, 3)
    # What stands under the padding must not matter.
    dirty = batch._replace(words=jnp.where(batch.mask, batch.words, 2))
    apply = lambda s: models.apply(model, weights, s)  # noqa: E731
    together = jax.jit(jax.vmap(apply, in_axes=(batch_axes(dirty),)))(dirty)
    short = jax.tree.map(jnp.asarray, LEXICON.encode(SENTENCES[1]))
    for name, expected in jax.jit(apply)(short)._asdict().items():
        found = getattr(together, name)
        assert (found is None) == (expected is None)
        if expected is not None:
            found = found[1]
            if name in ("emissions", "words", "word_gates"):  # of each token
                found = found[:1]
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "encoder",
    ["grn", "parallel", *slow(*sorted(ENCODERS.keys() - {"grn", "parallel"}))],
)
def test_no_token_and_no_sentence(encoder):
    """No token at all, and padding alone: no number is NaN."""
    model = build(encoder, "scores" if encoder == "lan" else "softmax", "words")
    weights = draw_weights(model)
    batch, _ = batch_of(SENTENCES, LABELS, 2, 3)

    @jax.jit
    @jax.grad
    def gradient(weights, sentence):
        scores = models.apply(model, weights, sentence, jax.random.key(0)).emissions
        return jnp.sum(jnp.where(sentence.mask[:, None], scores, 0.0))

    for length in (0, 2):
        one = batch._replace(chars=None)
        one = jax.tree.map(lambda leaf, n=length: jnp.zeros_like(leaf[0, :n]), one)
        found = gradient(weights, one._replace(chars=batch.chars))
        assert not any(leaf.any() for leaf in jax.tree.leaves(found))
    nobody = jax.tree.map(lambda leaf: leaf[:0], batch._replace(chars=None))
    nobody = nobody._replace(chars=batch.chars)
    each = jax.vmap(
        lambda s: models.apply(model, weights, s).emissions, (batch_axes(nobody),)
    )
    assert each(nobody).shape[:2] == (0, 2)
