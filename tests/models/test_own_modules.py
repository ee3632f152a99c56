"""Modules of one's own that break their contract are refused, with the contract."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

import jaxner
import train
from configs import grn
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


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A module in the current folder, outside the package and `sys.path`."""
    name = f"mine_{tmp_path.name}".replace("-", "_")
    (tmp_path / f"{name}.py").write_text(
        """
import flax.linen as nn
import jax.numpy as jnp
from jaxner.types import Potentials

class Twice(nn.Module):
    size: int = 4

    @nn.compact
    def __call__(self, x, mask, *, train):
        return jnp.where(mask[:, None], nn.Dense(self.size)(2 * x), 0.0), {}

class Scores(nn.Module):
    num_labels: int
    scale: float = 1.0

    @nn.compact
    def __call__(self, x, *, train):
        return Potentials(self.scale * nn.Dense(self.num_labels)(x))

class Lengths(nn.Module):
    num_chars: int

    @nn.compact
    def __call__(self, chars, *, train):
        return jnp.sum(chars > 0, axis=1, keepdims=True) / self.num_chars
"""
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", list(sys.path))
    return name


def test_a_module_outside_the_package_has_its_place_as_the_name(package):
    encoder = {"name": f"{package}:Twice", "size": 3}
    model = jaxner.build(VOCABULARY, **{**PARTS, "encoder": encoder})
    weights = jaxner.init(model, jax.random.key(0))
    assert weights["params"]["encoder"]["Dense_0"]["kernel"].shape == (8, 3)
    for name in (f"{package}:Other", "nowhere.at_all:Twice", "math:pi", "json:loads"):
        with pytest.raises(ValueError, match=name):
            jaxner.build(VOCABULARY, **{**PARTS, "encoder": {"name": name}})


def test_heads_and_readers_of_characters_have_a_place_and_sizes(
    package,
):
    head = {"name": f"{package}:Scores", "scale": 2.0}
    words_and_chars = {"words": {"dim": 8}, "chars": {"name": f"{package}:Lengths"}}
    parts = {**PARTS, "representation": words_and_chars, "head": head}
    model = jaxner.build(VOCABULARY, **parts)
    assert (model.head.num_labels, model.head.scale) == (5, 2.0)
    assert model.representation.chars.num_chars == len(VOCABULARY.chars)
    tagger = jaxner.Tagger(jaxner.init(model, jax.random.key(0)), model, VOCABULARY)
    assert len(jaxner.tag(tagger, ["Rome", "fell"])) == 2
    with pytest.raises(ValueError, match="scael"):
        jaxner.build(VOCABULARY, **{**parts, "head": {**head, "scael": 1}})


def test_a_config_takes_a_module_outside_the_package(package, corpus, tmp_path):
    config = grn.get_config(f"sample,encoder={package}:Twice")
    config.update_from_flattened_dict(
        {"data.dir": str(corpus), "num_epochs": 1, "model.encoder.size": 5}
    )
    config.data.num_shapes = 1
    train.main_run(config, tmp_path / "run")
    assert jaxner.load(tmp_path / "run").model.encoder.size == 5


def test_a_head_that_scores_all_labels_is_taken():
    model = jaxner.build(VOCABULARY, **{**PARTS, "head": Scores(5)})
    tagger = jaxner.Tagger(jaxner.init(model, jax.random.key(0)), model, VOCABULARY)
    assert len(jaxner.tag(tagger, ["Rome", "fell"])) == 2


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


def test_gold_labels_that_break_the_scheme_are_refused():
    text, labels = [["Rome", "fell"]], [["B-LOC", "O"]]
    with pytest.raises(ValueError, match="break BIOES"):
        jaxner.Batches.of(VOCABULARY, text, labels, batch_size=1)
