"""Every encoder, head and representation works in a whole model, and on every mesh.

A head sees nothing of the encoder but its features, and an encoder nothing of the
representation, so each stands in a few models only. The fence trains all systems.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from jax.sharding import AxisType, NamedSharding, PartitionSpec

import jaxner
from jaxner import models
from jaxner.data import vocabulary as vocab
from jaxner.data.batching import Shape, pad, pad_labels
from jaxner.models.transformer import RelativeAttention
from jaxner.training import objectives
from jaxner.types import batch_axes
from tests.marks import slow
from tests.models import draws

DIM = 4
LSTM = {"name": "bilstm", "hidden_dim": 2}
IDCNN = {"name": "idcnn", "hidden_dim": DIM, "dilations": (1, 2), "num_blocks": 2}
ATTENTION = {"name": "attention", "num_heads": 2}
NOISE = {"input_dropout": 0.1, "state_dropout": 0.1, "output_dropout": 0.1}


def chain(first, then):
    return {"name": "chain", "first": first, "then": then}


ENCODERS = {
    "grn": {"name": "grn", "hidden_dim": DIM},
    "idcnn": IDCNN,
    "bilstm": LSTM,
    "parallel": {**LSTM, "hidden_dim": 1, "num_units": 2, **NOISE},
    "lan": {"name": "lan", "hidden_dim": 2, "num_layers": 2, "num_heads": 2},
    "baseline": {**LSTM, "num_layers": 2, "cross": False, "dropout_scope": "batch"}
    | NOISE,
    "attention": chain(LSTM, ATTENTION),
    "idcnn, attention": chain(IDCNN, ATTENTION),
    "transformer": {"name": "transformer", "num_heads": 2, "head_dim": 2},
}
HEADS = {
    "crf": {"name": "crf"},
    "crf without boundaries": {"name": "crf", "boundaries": False},
    "softmax": {"name": "softmax"},
    "direction": {"name": "direction"},
    "scores": {"name": "scores"},
    "seq2seq": {"name": "seq2seq", "tag_dim": 1, "hidden_dim": 1, "beam_size": 2},
}
CNN = {"name": "cnn", "dim": 2, "num_filters": 2, "dropout": 0.5}
SIZES = {"width": (1, 2), "length": 3, "types": True, "bias": False}
INTNET = {"dim": 2, "num_filters": 1, "growth": 1, "num_blocks": 1, "widths": (3,)}
# All have four features, so that the encoders' programs are the same.
REPRESENTATIONS = {
    "words": {"words": {"dim": 4}, "chars": None},
    "words, cnn": {"words": {"dim": 2}, "chars": CNN},
    "words, lstm, shape": {
        "words": {"dim": 1},
        "chars": {"name": "lstm", "dim": 2, "hidden_dim": 1, "dropout": 0.5},
        "caps": {"rule": "shape", "dim": 1},
    },
    "words, fixed cnn, case": {
        "words": {"dim": 2, "initializer": "normal"},
        "chars": {**CNN, "num_filters": 1, **SIZES},
        "caps": {"rule": "case", "unknown": True},
        "word_dropout": 0.2,
    },
    "chars": {"words": None, "chars": {**CNN, "num_filters": 4}},
    "words, intnet": {"words": {"dim": 2}, "chars": {"name": "intnet", **INTNET}},
}

SENTENCES = [["EU", "is"], ["A.1"]]
LABELS = [["S-LOC", "O"], ["O"]]
LEXICON, _ = vocab.build(SENTENCES, ["LOC"])


def build(encoder, head, representation, **options):
    rate = {} if head == "scores" else {"dropout": 0.5}
    return models.build(
        num_labels=len(LEXICON.label_names),
        num_trained=LEXICON.num_trained,
        num_frozen=0,
        num_chars=len(LEXICON.chars),
        types=LEXICON.char_types,
        representation={"dropout": 0.5, **REPRESENTATIONS[representation]},
        encoder=ENCODERS[encoder],
        head={**rate, **HEADS[head]},
        **options,
    )


ROWS = [LEXICON.encode(sentence) for sentence in SENTENCES]
BATCH = jax.tree.map(jnp.asarray, pad(ROWS, Shape(2, 5, 3)))
GOLD = jnp.asarray(pad_labels([LEXICON.label_ids(x) for x in LABELS], 2, 2))


def without_chars(change, batch):
    """Changes all of a batch but its characters, which its sentences share."""
    return jax.tree.map(change, batch._replace(chars=None))._replace(chars=batch.chars)


SIDES = itertools.cycle(HEADS), itertools.cycle(REPRESENTATIONS)
CASES = list(zip(ENCODERS, *SIDES, strict=False))


@pytest.mark.parametrize(("encoder", "head", "representation"), CASES)
def test_padding_and_batch_mates_change_no_potential(encoder, head, representation):
    """A sentence alone, and beside one of more tokens; masks are drawn by place."""
    model = build(encoder, head, representation)
    weights = draws.weights_of(model, scale=0.5)
    # What stands under the padding must not matter.
    dirty = BATCH._replace(words=jnp.where(BATCH.mask, BATCH.words, 2))
    keys = None, jax.random.key(2)
    apply = lambda s: [models.apply(model, weights, s, key) for key in keys]  # noqa: E731
    rows = jax.jit(jax.vmap(apply, in_axes=(batch_axes(dirty),)))(dirty)
    single = jax.jit(apply)(jax.tree.map(jnp.asarray, LEXICON.encode(SENTENCES[1])))
    pairs = zip(*map(jax.tree.leaves, single), strict=True)
    assert max(np.abs(a - b).max() for a, b in pairs) > 1e-4
    for row, potentials in zip(rows, single, strict=True):
        for name, expected in potentials._asdict().items():
            value = getattr(row, name)
            assert (value is None) == (expected is None)
            if expected is not None:
                value = value[1]
                if name in ("emissions", "words", "word_gates"):  # of each token
                    value = value[:1]
                draws.close(value, expected)


@pytest.mark.parametrize(
    "encoder", ["grn", "parallel", *slow("lan", "attention", "transformer")]
)
def test_no_token_and_no_sentence(encoder):
    """No token at all, and padding alone: no number is NaN."""
    model = build(encoder, "scores" if encoder == "lan" else "softmax", "words")
    weights = draws.weights_of(model, scale=0.5)

    @jax.jit
    @jax.grad
    def gradient(weights, sentence):
        scores = models.apply(model, weights, sentence, jax.random.key(0)).emissions
        return jnp.sum(jnp.where(sentence.mask[:, None], scores, 0.0))

    for length in (0, 2):
        batch = without_chars(lambda leaf, n=length: jnp.zeros_like(leaf[0, :n]), BATCH)
        assert not any(leaf.any() for leaf in jax.tree.leaves(gradient(weights, batch)))
    empty_batch = without_chars(lambda leaf: leaf[:0], BATCH)
    axes = (batch_axes(empty_batch),)
    scores = jax.vmap(lambda s: models.apply(model, weights, s).emissions, axes)
    assert jax.jit(scores)(empty_batch).shape[:2] == (0, 2)


KINDS = {"explicit": AxisType.Explicit, "auto": AxisType.Auto, "manual": None}
SPLIT, WHOLE = PartitionSpec("data"), PartitionSpec()


def mesh_of(kind):
    """A mesh of two devices; manual axes are Explicit outside."""
    types = (KINDS[kind] or AxisType.Explicit,)
    return jax.make_mesh((2,), ("data",), axis_types=types)


def on_axes(kind, tagger):
    """A tagger on all devices of a mesh, and the batch whose sentences it shares."""
    specs = [SPLIT if axis == 0 else WHOLE for axis in batch_axes(BATCH)]
    arrays = [
        None if leaf is None else jax.device_put(leaf, NamedSharding(mesh_of(kind), s))
        for leaf, s in zip(BATCH, specs, strict=True)
    ]
    whole = NamedSharding(mesh_of(kind), WHOLE)
    return jax.device_put(tagger, whole), type(BATCH)(*arrays)


def manually(function, batch, num_more, spec):
    """Lets each device call a function of a tree, its sentences and more of them."""
    specs = jax.tree.map(lambda leaf: jax.typeof(leaf).sharding.spec, batch)
    inputs, mesh = (WHOLE, specs, *[SPLIT] * num_more), mesh_of("manual")
    return jax.shard_map(function, mesh=mesh, in_specs=inputs, out_specs=spec)


def answers(tagger, kind=None, key=None):
    """The labels of the batch, its loss and the gradient, perhaps on two devices."""
    batch, gold = BATCH, GOLD
    if kind is not None:
        tagger, batch = on_axes(kind, tagger)

    def loss_of(params, batch, gold):
        weights = {**tagger.weights, "params": params}
        return jaxner.loss(tagger.model, weights, batch, gold, key)

    tag, loss = jaxner.tag, loss_of
    if kind == "manual":
        mean = lambda *inputs: jax.lax.pmean(loss_of(*inputs), "data")  # noqa: E731
        tag, loss = manually(tag, batch, 0, SPLIT), manually(mean, batch, 1, WHOLE)
        gold = jax.device_put(gold, NamedSharding(mesh_of(kind), SPLIT))
    slope = jax.jit(jax.value_and_grad(loss))(tagger.weights["params"], batch, gold)
    return np.asarray(jax.jit(tag)(tagger, batch)), slope


MOST = [("grn", "crf"), ("bilstm", "seq2seq"), ("parallel", "direction")]
MOST += [("lan", "scores"), ("transformer", "softmax"), ("idcnn, attention", "crf")]


@pytest.mark.slow
@pytest.mark.parametrize(("encoder", "head"), MOST)
def test_labels_losses_and_gradients_are_the_same_on_all_axes(encoder, head):
    model = build(encoder, head, "words, fixed cnn, case")
    tagger = jaxner.Tagger(draws.weights_of(model, scale=0.5), model, LEXICON)
    expected = answers(tagger)
    for kind in ("explicit", "manual"):  # auto asks least of a model
        draws.close(answers(tagger, kind), expected, 1e-4)
    if encoder == "grn":  # dropout draws the same masks
        key = jax.random.key(0)
        draws.close(answers(tagger, "explicit", key), answers(tagger, key=key), 1e-4)
        texts = [["Rome", "fell"], ["Rome"], ["Ajax", "fell"]]
        labels = jaxner.tag(tagger, texts)
        for kind in ("explicit", "auto"):  # strings share their words on all devices
            assert jaxner.tag(on_axes(kind, tagger)[0], texts) == labels


# --- bfloat16 and rematerialisation: the same model, computed more cheaply ------------

REFINEMENT = {"num_layers": 1, "num_heads": 2, "head_dim": 4, "label_dim": 6}


def gradient_of(model, weights):
    """A compiled function of the trained weights: the loss of a batch, its gradient."""

    def loss(params):
        whole = {**weights, "params": params}
        return objectives.batch_loss(model, whole, BATCH, GOLD, jax.random.key(1))

    return jax.jit(jax.value_and_grad(loss))


@pytest.mark.parametrize("precision", [None, "tensorfloat32"])
def test_products_are_exact_unless_jax_is_asked_for_less(precision):
    model = build("attention", "crf", "words, cnn")
    weights = draws.weights_of(model)
    with jax.default_matmul_precision(precision):
        text = gradient_of(model, weights).lower(weights["params"]).as_text()
    products = [line for line in text.splitlines() if "dot_general" in line]
    exact = [line for line in products if "precision = [HIGHEST, HIGHEST]" in line]
    assert len(products) > 5
    assert (len(exact) == len(products)) == (precision is None)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["grn", "attention", "parallel"])
def test_bfloat16_is_float32_rounded(name):
    options = {"representation": "words, cnn"}
    options["refinement"] = REFINEMENT if name == "parallel" else None
    dtypes = ("float32", "bfloat16")
    full, low = (build(name, "crf", **options, dtype=x) for x in dtypes)
    weights = models.init(full, jax.random.key(0))
    twin = models.init(low, jax.random.key(0))
    jax.tree.map(np.testing.assert_array_equal, weights, twin)
    loss, gradient = gradient_of(full, weights)(weights["params"])
    value, slope = gradient_of(low, weights)(weights["params"])
    kinds = {leaf.dtype.name for leaf in jax.tree.leaves((twin, value, slope))}
    assert kinds == {"float32"}
    assert float(value) == pytest.approx(float(loss), rel=0.02)
    assert float(value) != float(loss)
    (rough, _), (right, _) = map(ravel_pytree, (slope, gradient))
    assert np.linalg.norm(rough - right) < 0.05 * np.linalg.norm(right)


def test_distances_beyond_256_tokens_stay_apart():
    module = RelativeAttention(1, 4, attention_dropout=0.0)
    x = jnp.asarray(np.random.default_rng(0).normal(size=(600, 4)), jnp.bfloat16)
    mask = jnp.ones(600, bool)
    # Weights depend on the distance alone.
    zeros = jax.tree.map(jnp.zeros_like, draws.weights_of(module, x, x, mask))
    changes = {"value": jnp.eye(4)[:, None], "position": jnp.eye(4)}
    changes["position_bias"] = jnp.full((1, 4), 8.0)

    def states(dtype):
        params = jax.tree.map(lambda w: w.astype(dtype), zeros["params"] | changes)
        rows = x.astype(dtype)
        return np.asarray(draws.apply(module, {"params": params}, rows, rows, mask))

    exact, low = states(jnp.float32), states(jnp.bfloat16).astype(float)
    assert np.abs(low - exact).mean() < 0.1 * np.abs(exact).mean()


def test_rematerialisation_changes_no_gradient():
    plain, lean = (build("idcnn", "crf", "words", remat=x) for x in (False, True))
    weights = draws.weights_of(plain, scale=0.5)
    draws.close(*(gradient_of(m, weights)(weights["params"]) for m in (lean, plain)))
