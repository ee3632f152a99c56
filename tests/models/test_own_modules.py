"""Modules of one's own: what they may be, and that a broken contract is refused."""

import json
import sys
import traceback
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

import jaxner
from jaxner import configuration
from jaxner.models import BiLSTM, Chain, CharacterCNN
from jaxner.training import schema
from jaxner.types import Potentials
from tests import tiny
from tests.models import draws

VOCABULARY, _ = jaxner.build_vocabulary([["Rome", "fell"]], ["LOC"])  # 5 labels
pytestmark = pytest.mark.usefixtures("no_checks")  # what a user's process does


def build(**parts):
    return jaxner.build(VOCABULARY, **{**tiny.PARTS, **parts})


class Own(nn.Module):
    output: Any  # a function of features [T, 8]

    @nn.compact
    def __call__(self, x, *mask, train):
        return self.output(nn.Dense(8)(x))


class Reader(Own):
    """Reads words of a sentence [T], or characters [U, C]."""

    @nn.compact
    def __call__(self, x, *, train):
        return self.output(nn.Embed(300, 8)(getattr(x, "words", x)))


class Keeper(nn.Module):
    @nn.compact
    def __call__(self, x, mask, *, train):
        return nn.BatchNorm(use_running_average=not train)(x), {}


class WithoutTrain(nn.Module):
    @nn.compact
    def __call__(self, x, mask):
        return x, {}


@pytest.mark.parametrize(
    ("part", "module", "error", "message"),
    [
        ("head", Own(lambda x: Potentials(x)), ValueError, r"\[2, 5\] .* Own .*, 8\]"),
        ("head", Own(lambda x: Potentials(x[:, :5], x[0])), ValueError, r"got \[8\]"),
        ("head", Own(lambda x: x), TypeError, "Own .*Potentials"),
        ("encoder", Own(lambda x: x), TypeError, "Own .*zeros under padding"),
        ("encoder", Own(lambda x: (x.mean(0), {})), TypeError, r"float32 \[8\] for T"),
        ("encoder", Own(lambda x: (x[:1], {})), TypeError, r"float32 \[1, 8\] for T=2"),
        ("encoder", Own(lambda x: (x.astype(int), {})), TypeError, r"Own .*int32 \["),
        ("encoder", Own(lambda x: ((x, None), {})), TypeError, "Own .*NoneType for T"),
        ("encoder", WithoutTrain(), TypeError, "WithoutTrain as encoder .*train"),
        ("encoder", Keeper(), TypeError, r"keeps state \(batch_stats\): it may"),
        ("representation", Reader(lambda x: (x, {})), TypeError, "tuple for T"),
        ("representation", Reader(lambda x: x[:1]), TypeError, r"\[1, 8\] for T=2"),
        ("representation", Reader(lambda x: x > 0), TypeError, "Reader .*bool"),
        ("words", Own(lambda x: x), ValueError, "words takes options, not your module"),
        ("refinement", Own(lambda x: x), ValueError, "takes options, .* Own"),
        ("encoder", BiLSTM(output_dropout=1.5), ValueError, "output_dropout of BiLSTM"),
        ("encoder", Chain(BiLSTM(8), Own(lambda x: x)), TypeError, "Own .*zeros under"),
        ("encoder", Chain(BiLSTM(0), BiLSTM(8)), ValueError, "hidden_dim of BiLSTM"),
        ("chars", CharacterCNN(num_chars=3), ValueError, "has num_chars=3"),
        ("chars", Reader(lambda x: x), TypeError, r"\[1, 1, 8\] for U=1; .*characters"),
        ("chars", Reader(lambda x: x.sum((0, 1))[None]), TypeError, "for U="),
    ],
)
def test_a_module_that_breaks_its_contract_is_refused(part, module, error, message):
    if part in ("words", "chars"):
        module = {"words": {"dim": 4}, "chars": {"name": "cnn"}, part: module}
        part = "representation"
    with pytest.raises(error, match=message):
        build(**{part: module})


def test_stages_of_ones_own_have_heads_if_their_number_is_known():
    class Stages(nn.Module):
        @nn.compact
        def __call__(self, x, mask, *, train):
            return (x, nn.Dense(4)(x)), {}

    class Counted(Stages):
        num_stages = 2

    class Miscounted(Stages):
        num_stages = 3

    head = {"name": "softmax", "per_stage": True}
    assert len(build(encoder=Counted(), head=head).earlier_heads) == 1
    with pytest.raises(ValueError, match="needs the attribute num_stages of Stages"):
        build(encoder=Stages(), head=head)
    with pytest.raises(ValueError, match="2 stages, and num_stages says 3"):
        build(encoder=Miscounted(), head=head)


def test_numbers_of_numpy_are_options(tmp_path):
    chars = {"name": "cnn", "num_filters": np.int64(2), "width": np.int64(3)}
    words = {"dim": np.int64(4)}
    representation = {"words": words, "chars": chars, "dropout": np.float32(0.25)}
    representation["caps"] = {"rule": "shape", "dim": 2, "unknown": np.bool_(True)}
    encoder = BiLSTM(hidden_dim=np.int64(4), cross=np.bool_(False))
    model = build(representation=representation, encoder=encoder)
    tagger = jaxner.Tagger(draws.weights_of(model), model, VOCABULARY)
    jaxner.save(tmp_path / "a", tagger)
    assert jaxner.load(tmp_path / "a").model == model


def test_many_heads_are_checked_in_no_time():
    """Names of 2³¹ heads would fill the memory."""
    with pytest.raises(ValueError, match="'x' in keep"):
        build(encoder={"name": "attention", "num_heads": 2, "keep": "x"})
    for part in (None, "context7"):
        build(encoder={"name": "attention", "num_heads": 2**31, "keep": part})


def test_a_module_may_hold_an_array():
    class Shift(nn.Module):
        table: jnp.ndarray
        num_chars: int = 64  # an option, since it has a default

        @nn.compact
        def __call__(self, x, mask, *, train):
            self.sow("metrics", "mean", x.mean())
            return nn.Dense(4)(x) + self.table, {}

    model = build(encoder=Shift(jnp.ones((1, 4))))
    tagger = jaxner.Tagger(draws.weights_of(model), model, VOCABULARY)
    assert len(jaxner.tag(tagger, ["Rome"])) == 1


def test_a_representation_of_ones_own_may_read_characters():
    """Of long words, too, which large batches hold apart."""

    class Letters(nn.Module):
        @nn.compact
        def __call__(self, sentence, *, train):
            x = nn.Embed(300, 8)(sentence.chars)
            x = jnp.where((sentence.chars > 0)[..., None], x, 0.0).sum(axis=1)
            x = x[sentence.char_index]
            return jnp.where(sentence.mask[:, None], x, 0.0)

    model = build(representation=Letters(), encoder={"name": "projection"})
    tagger = jaxner.Tagger(draws.weights_of(model), model, VOCABULARY)
    text = [["Rome", "fell"] * 4] * 40 + [["Constantinople"] + ["fell"] * 7]
    encoded = jaxner.encode(tagger, text)
    expected = jaxner.marginals(tagger, encoded)
    np.testing.assert_allclose(jaxner.marginals(tagger, text), expected, atol=1e-5)
    labels = [["O"] * 8] * 41
    batches = jaxner.Batches.of(VOCABULARY, text, labels, batch_size=41)
    ((batch, ids),) = batches.epoch(seed=0, epoch=0)
    assert batch.long is not None
    losses = [jaxner.loss(model, tagger.weights, x, ids) for x in (batch, encoded)]
    np.testing.assert_allclose(*losses, rtol=1e-5)


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A module in the current folder, outside the package and `sys.path`."""
    name = f"mine_{tmp_path.name}".replace("-", "_")
    (tmp_path / f"{name}.py").write_text(
        """
from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import flax.linen as nn
import jax.numpy as jnp
from jaxner.fields import Part, Size
from jaxner.types import Potentials

class Twice(nn.Module):
    '''An encoder.

    Attributes:
        size: Features of the output.
    '''
    size: Size = 4

    @nn.compact
    def __call__(self, x, mask, *, train):
        return jnp.where(mask[:, None], nn.Dense(self.size)(2 * x), 0.0), {}

class Around(nn.Module):
    inner: Annotated[nn.Module, Part("encoder")]

    @nn.compact
    def __call__(self, x, mask, *, train):
        return self.inner(x, mask, train=train)

class Scores(nn.Module):
    num_labels: int
    scale: float = 1.0
    power: Literal[1, 2, None] = 1

    @nn.compact
    def __call__(self, x, *, train):
        return Potentials(self.scale * nn.Dense(self.num_labels)(x))

if TYPE_CHECKING:
    from nowhere import Size as Unknown

class Unread(Scores):
    size: Unknown | None = None

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


def test_modules_outside_the_package_have_a_place_as_their_name_and_sizes(package):
    inner = {"name": f"{package}:Twice", "size": 3}
    build(encoder={"name": f"{package}:Around", "inner": inner})
    model = build(
        representation={"words": {"dim": 8}, "chars": {"name": f"{package}:Lengths"}},
        encoder={"name": f"{package}:Twice", "size": 3},
        head={"name": f"{package}:Scores", "scale": 2.0, "power": 2},
    )
    assert (model.head.num_labels, model.head.scale) == (5, 2.0)
    assert model.representation.chars.num_chars == len(VOCABULARY.chars)
    tagger = jaxner.Tagger(jaxner.init(model, jax.random.key(0)), model, VOCABULARY)
    assert tagger.weights["params"]["encoder"]["Dense_0"]["kernel"].shape == (9, 3)
    assert len(jaxner.tag(tagger, ["Rome", "fell"])) == 2
    sys.path.insert(0, str(Path.cwd()))  # as an interpreter has it: it stays there
    old = list(sys.path)
    for name in (f"{package}:Other", "nowhere.at_all:Twice", "math:pi", "json:loads"):
        with pytest.raises(ValueError, match=name):
            build(encoder={"name": name})
    assert sys.path == old
    for kind, options, message in (
        ("Scores", {"scael": 1}, "scael"),
        ("Scores", {"power": 3}, "Unknown head.power 3; known: 1, 2, None"),
        ("Unread", {}, "Unread has an annotation .*'Unknown' is not defined"),
    ):
        with pytest.raises(ValueError, match=message):
            build(head={"name": f"{package}:{kind}", **options})


def test_an_encoder_of_ones_own_takes_part_in_every_config(package):
    for suffix, section in (("", "encoder"), ("+bilstm", "encoder.first")):
        config = configuration.load(f"grn:sample,encoder={package}:Twice{suffix}")
        configuration.override(config, f"model.{section}.size", "5")
        schema.check(config.to_dict())
        encoder = jaxner.build(VOCABULARY, **config.model.to_dict()).encoder
        assert (encoder.first if suffix else encoder).size == 5
    page = configuration.describe(f"grn:sample,encoder={package}:Twice")
    assert "Features of the output" in page
    name = f"grn:sample,head={package}:Scores,chars={package}:Lengths"
    config = configuration.load(name).to_dict()
    schema.check(config)
    json.dumps(schema.values(config))  # which a run compares
    head = jaxner.build(VOCABULARY, **config["model"]).head
    assert (head.num_labels, head.scale) == (5, 1.0)  # the data set what has no default


@pytest.mark.parametrize("place", ["run.mine", "run", "mine"])
def test_code_in_a_run_is_not_imported(place, tmp_path, monkeypatch):
    run = tmp_path / "run"
    (run / "checkpoints").mkdir(parents=True)
    (run / "vocabulary.json").touch()
    name = "__init__" if place == "run" else "mine"
    (run / f"{name}.py").write_text("raise SystemExit")
    monkeypatch.chdir(run if place == "mine" else tmp_path)
    with pytest.raises(ValueError, match=r"lies in the run .*run, whose code"):
        build(encoder={"name": f"{place}:Encoder"})


def test_a_part_of_ones_own_module_is_a_section(package):
    config = configuration.load("grn:sample").to_dict()
    inner = {"name": "grn", "hidden_dim": 3}
    config["model"]["encoder"] = {"name": f"{package}:Around", "inner": inner}
    schema.check(config)
    encoder = jaxner.build(VOCABULARY, **config["model"]).encoder
    assert encoder.inner.hidden_dim == 3
    flag = r"--config\.model\.encoder\.inner\."
    for value, message in (
        ({"hidden_dim": 0}, f"{flag}hidden_dim must be at least 1"),
        ({"dim": 1}, f"Unknown option {flag}dim"),
    ):
        config["model"]["encoder"]["inner"] = inner | value
        with pytest.raises(ValueError, match=message):
            schema.check(config)


def test_label_ids_outside_the_label_set_are_refused():
    row = jnp.zeros(5)
    model = build(head=Own(lambda x: Potentials(x[:, :5], jnp.zeros((5, 5)), row, row)))
    weights = jaxner.init(model, jax.random.key(0))
    tagger = jaxner.Tagger(weights, model, VOCABULARY)
    batch = jaxner.encode(tagger, [["Rome", "fell"], ["Rome"]])
    for wrong in (-1, 5):
        with pytest.raises(ValueError, match=str(wrong)):
            jaxner.loss(build(), weights, batch, jnp.array([[0, wrong], [0, 0]]))
        inside = jax.jit(lambda ids: jaxner.loss(model, weights, batch, ids))
        assert np.isnan(inside(jnp.array([[0, wrong], [0, 0]])))
    gold = jnp.array([[4, 0], [4, -100]])  # the last is under padding
    plain = jaxner.loss(model, weights, batch, gold)
    clean = jaxner.loss(model, weights, batch, gold.at[1, 1].set(0))
    assert float(plain) == pytest.approx(float(clean), rel=1e-6)
    for alone in ({"retain": 1.0}, {"partial": True}):  # there is no old tagger
        with pytest.raises(ValueError, match="init_from"):
            jaxner.loss(model, weights, batch, gold, None, jaxner.Objective(**alone))


def test_few_frames_lie_between_a_loop_and_the_model():
    """Five at most from the loop over batches, or a loss, to the model."""
    frames, package = [], str(Path(jaxner.__file__).parent)

    def record(x):
        stack = traceback.extract_stack()
        frames[:] = [f.name for f in stack if f.filename.startswith(package)]
        return x, {}

    model = build(encoder=Own(record))
    weights = jaxner.init(model, jax.random.key(0))
    tagger = jaxner.Tagger(weights, model, VOCABULARY)
    tagger.tag(["Rome", "fell"])
    assert frames.index("draft") - frames.index("_in_batches") <= 6, frames
    batch = jaxner.encode(tagger, [["Rome", "fell"]])
    jaxner.loss(model, weights, batch, jnp.zeros((1, 2), int), jax.random.key(0))
    assert frames.index("__call__") - frames.index("batch_loss") <= 4, frames
