"""Models run on meshes with axes of any type."""

import jax
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec

import jaxner
from jaxner.types import batch_axes
from tests.models import test_product as product

PAIRS = [
    *((encoder, "crf") for encoder in product.ENCODERS),
    *(("bilstm", head) for head in product.HEADS if head != "crf"),
    ("lan", "scores"),
]
RUN = [("grn", "crf"), ("bilstm", "seq2seq")]


def tagger_of(encoder, head):
    model = product.build(encoder, head, "words, fixed cnn, case")
    return jaxner.Tagger(product.draw_weights(model), model, product.LEXICON)


def mesh_of(kind):
    return jax.make_mesh((2,), ("data",), axis_types=(kind,))


def placed(tagger, batch, kind):
    """A tagger on all devices of a mesh, and a batch whose sentences it shares out."""
    mesh = mesh_of(kind)
    rows = [
        PartitionSpec("data") if axis == 0 else PartitionSpec()
        for axis in batch_axes(batch)
    ]
    return jax.device_put(tagger, NamedSharding(mesh, PartitionSpec())), type(batch)(
        *(
            None if leaf is None else jax.device_put(leaf, NamedSharding(mesh, spec))
            for leaf, spec in zip(batch, rows, strict=True)
        )
    )


def manually(function, batch, num_more, out):
    """Lets each device call a function of a tree, its sentences and more of them."""
    specs = jax.tree.map(lambda leaf: jax.typeof(leaf).sharding.spec, batch)
    rows = PartitionSpec("data")
    return jax.shard_map(
        function,
        mesh=mesh_of(AxisType.Explicit),
        in_specs=(PartitionSpec(), specs, *[rows] * num_more),
        out_specs=out,
    )


def on_axes(kind, tagger, batch):
    """A tagger and a batch on two devices; manual axes are Explicit outside."""
    return placed(tagger, batch, AxisType.Explicit if kind == "manual" else kind)


def tagged(kind, tagger, batch):
    """Tags a batch on two devices."""
    tagger, batch = on_axes(kind, tagger, batch)
    rows = PartitionSpec("data")
    tag = manually(jaxner.tag, batch, 0, rows) if kind == "manual" else jaxner.tag
    return jax.jit(tag)(tagger, batch)


def loss_and_gradient(tagger, batch, gold, key=None, kind=None):
    """The loss of a batch, and its gradient; perhaps on two devices."""
    if kind is not None:
        tagger, batch = on_axes(kind, tagger, batch)

    def own(params, batch, gold):
        weights = {**tagger.weights, "params": params}
        return jaxner.loss(tagger.model, weights, batch, gold, key)

    def mean(*arguments):
        return jax.lax.pmean(own(*arguments), "data")

    loss = own
    if kind == "manual":
        loss = manually(mean, batch, 1, PartitionSpec())
        rows = NamedSharding(mesh_of(AxisType.Explicit), PartitionSpec("data"))
        gold = jax.device_put(gold, rows)
    return jax.jit(jax.value_and_grad(loss))(tagger.weights["params"], batch, gold)


KINDS = [AxisType.Explicit, AxisType.Auto, "manual"]
by_kind = pytest.mark.parametrize("kind", KINDS, ids=["explicit", "auto", "manual"])
# The others compile for minutes.
by_parts = pytest.mark.parametrize(
    ("encoder", "head"),
    [
        pytest.param(*pair, marks=[] if pair in RUN else pytest.mark.slow)
        for pair in dict.fromkeys([*RUN, *PAIRS])
    ],
)


@by_kind
@by_parts
def test_labels_are_the_same_on_axes_of_each_type(encoder, head, kind):
    tagger = tagger_of(encoder, head)
    batch, _ = product.batch_of(product.SENTENCES, product.LABELS, 2, 3)
    expected = jax.jit(jaxner.tag)(tagger, batch)
    np.testing.assert_array_equal(tagged(kind, tagger, batch), expected)


@by_kind
@by_parts
def test_losses_and_gradients_are_the_same_on_axes_of_each_type(encoder, head, kind):
    tagger = tagger_of(encoder, head)
    batch, gold = product.batch_of(product.SENTENCES, product.LABELS, 2, 3)
    expected = loss_and_gradient(tagger, batch, gold)
    assert_close(loss_and_gradient(tagger, batch, gold, kind=kind), expected)


def test_dropout_draws_the_same_masks_on_explicit_axes():
    tagger = tagger_of("grn", "crf")
    batch, gold = product.batch_of(product.SENTENCES, product.LABELS, 2, 3)
    key = jax.random.key(0)
    expected = loss_and_gradient(tagger, batch, gold, key)
    found = loss_and_gradient(tagger, batch, gold, key, AxisType.Explicit)
    assert_close(found, expected)


def assert_close(found, expected):
    for ours, theirs in zip(
        jax.tree.leaves(found), jax.tree.leaves(expected), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)
