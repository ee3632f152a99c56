"""A model on a mesh, whatever the types of its axes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec

import jaxner
from jaxner import models
from jaxner.types import batch_axes
from tests.models import test_product as product

PAIRS = [
    *((encoder, "crf") for encoder in product.ENCODERS),
    *(("bilstm", head) for head in product.HEADS),
]
RUN = [("grn", "crf"), ("bilstm", "softmax"), ("bilstm", "seq2seq")]


def tagger_of(encoder, head):
    model = product.build(encoder, head, "words, fixed cnn, case")
    return jaxner.Tagger(product.draw_weights(model), model, product.LEXICON)


def placed(tagger, batch, kind):
    """A tagger on all devices of a mesh, and a batch whose sentences it shares out."""
    mesh = jax.make_mesh((2,), ("data",), axis_types=(kind,))
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


@pytest.mark.parametrize("kind", [AxisType.Explicit, AxisType.Auto])
@pytest.mark.parametrize(("encoder", "head"), PAIRS)
def test_every_encoder_and_head_is_traced_on_a_mesh(encoder, head, kind):
    tagger = tagger_of(encoder, head)
    batch, _ = product.batch_of(product.SENTENCES, product.LABELS, 2, 3)
    on_mesh, shared = placed(tagger, batch, kind)
    assert jax.jit(jaxner.tag).lower(on_mesh, shared).out_info.shape == (2, 2)


@pytest.mark.parametrize(("encoder", "head"), RUN)
def test_labels_are_the_same_on_axes_of_each_type(encoder, head):
    tagger = tagger_of(encoder, head)
    batch, _ = product.batch_of(product.SENTENCES, product.LABELS, 2, 3)
    expected = jax.jit(jaxner.tag)(tagger, batch)
    for kind in (AxisType.Explicit, AxisType.Auto):
        found = jax.jit(jaxner.tag)(*placed(tagger, batch, kind))
        np.testing.assert_array_equal(found, expected)
    on_mesh, shared = placed(tagger, batch, AxisType.Explicit)
    specs = jax.tree.map(lambda leaf: leaf.sharding.spec, shared)
    spread = jax.shard_map(
        jaxner.tag,
        mesh=shared.words.sharding.mesh,
        in_specs=(PartitionSpec(), specs),
        out_specs=PartitionSpec("data"),
    )  # axes are manual inside
    np.testing.assert_array_equal(jax.jit(spread)(on_mesh, shared), expected)


def test_potentials_and_gradients_on_explicit_axes():
    tagger = tagger_of("grn", "crf")
    batch, _ = product.batch_of(product.SENTENCES, product.LABELS, 2, 3)

    def total(weights, batch):
        def one(sentence):
            return jaxner.apply(tagger.model, weights, sentence).emissions

        return jnp.sum(jax.vmap(one, in_axes=(batch_axes(batch),))(batch) ** 2)

    on_mesh, shared = placed(tagger, batch, AxisType.Explicit)
    expected = jax.jit(jax.value_and_grad(total))(tagger.weights, batch)
    found = jax.jit(jax.value_and_grad(total))(on_mesh.weights, shared)
    for ours, theirs in zip(
        jax.tree.leaves(found), jax.tree.leaves(expected), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_without_a_mesh_nothing_is_wrapped():
    double = models.automatic(lambda x: 2 * x, jnp.arange(3))
    assert double.tolist() == [0, 2, 4]
