"""Modules of one's own that break their contract are refused, with the contract."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

import jaxner
from jaxner.types import Potentials

VOCABULARY, _ = jaxner.build_vocabulary([["Rome", "fell"]], ["LOC"])  # 5 labels
pytestmark = pytest.mark.usefixtures("unchecked")  # what a user's process does

PARTS = {
    "representation": {"words": {"dim": 8}, "chars": None},
    "encoder": {"name": "grn", "hidden_dim": 8},
    "head": {"name": "softmax"},
}


class Scores(nn.Module):
    size: int

    @nn.compact
    def __call__(self, x, *, train):
        none = jnp.zeros(self.size)
        scores = nn.Dense(self.size)(x)
        return Potentials(scores, jnp.zeros((self.size, self.size)), none, none)


class Logits(nn.Module):
    @nn.compact
    def __call__(self, x, *, train):
        return nn.Dense(5)(x)


class Features(nn.Module):
    @nn.compact
    def __call__(self, x, mask, *, train):
        return nn.Dense(8)(x) * mask[:, None]


class WithoutTrain(nn.Module):
    @nn.compact
    def __call__(self, x, mask):
        return x, {}


class Rotated(nn.Module):
    """Holds an array, so that it cannot be hashed."""

    matrix: np.ndarray

    @nn.compact
    def __call__(self, x, mask, *, train):
        return x @ self.matrix, {}


@pytest.mark.parametrize(
    ("part", "module", "error", "message"),
    [
        ("head", Scores(3), ValueError, r"\[2, 5\] .* Scores returned \[2, 3\]"),
        ("head", Scores(7), ValueError, r"\[2, 5\] .* Scores returned \[2, 7\]"),
        ("head", Logits(), TypeError, r"an array \[1, 5\]; a head maps .*Potentials"),
        ("encoder", Features(), TypeError, r"returned an array .*, \{\}\), with zeros"),
        ("encoder", WithoutTrain(), TypeError, "WithoutTrain as encoder needs .*train"),
    ],
)
def test_a_module_that_breaks_its_contract_is_refused(part, module, error, message):
    with pytest.raises(error, match=message):
        jaxner.build(VOCABULARY, **{**PARTS, part: module})


def test_a_head_that_scores_all_labels_is_taken():
    model = jaxner.build(VOCABULARY, **{**PARTS, "head": Scores(5)})
    tagger = jaxner.Tagger(jaxner.init(model, jax.random.key(0)), model, VOCABULARY)
    assert len(jaxner.tag(tagger, ["Rome", "fell"])) == 2


def test_the_weights_of_a_module_with_an_array_are_drawn():
    encoder = Rotated(np.eye(8, dtype=np.float32))
    model = jaxner.build(VOCABULARY, **{**PARTS, "encoder": encoder})
    assert sorted(jaxner.init(model, jax.random.key(0))) == ["frozen", "params"]


def test_label_ids_outside_the_label_set_are_refused():
    model = jaxner.build(VOCABULARY, **PARTS)
    weights = jaxner.init(model, jax.random.key(0))
    tagger = jaxner.Tagger(weights, model, VOCABULARY)
    batch = jaxner.encode(tagger, [["Rome", "fell"], ["Rome"]])
    for wrong in (-1, 5):
        with pytest.raises(ValueError, match=f"from 0 to 4 .*, got {wrong}; under"):
            jaxner.loss(model, weights, batch, jnp.array([[0, wrong], [0, 0]]))
    given = jnp.array([[4, 0], [4, -100]])  # the last is under padding
    plain = jaxner.loss(model, weights, batch, given)
    assert jnp.isfinite(plain)
    np.testing.assert_allclose(
        jax.jit(jaxner.loss, static_argnums=0)(
            model, weights, batch, given.at[1, 1].set(0)
        ),
        plain,
        rtol=1e-6,
    )


def test_a_batch_is_no_sentence():
    model = jaxner.build(VOCABULARY, **PARTS)
    weights = jaxner.init(model, jax.random.key(0))
    batch = jaxner.encode(jaxner.Tagger(weights, model, VOCABULARY), [["Rome"]])
    with pytest.raises(TypeError, match=r"words of shape \[T\], got \[1, 1\]: map"):
        jaxner.apply(model, weights, batch)


def test_gold_labels_that_break_the_scheme_are_refused():
    text, labels = [["Rome", "fell"]], [["B-LOC", "O"]]
    with pytest.raises(ValueError, match="1 of 1 sentence break BIOES, first in sen"):
        jaxner.Batches.of(VOCABULARY, text, labels, batch_size=1)


def test_a_model_is_passed_by_name(tmp_path):
    model = jaxner.build(VOCABULARY, **PARTS)
    with pytest.raises(TypeError, match=r"load\(folder, model=model\)"):
        jaxner.load(tmp_path, model)
