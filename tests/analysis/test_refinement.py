"""Refinements: sweeps over Γ and M, changed tokens, and the drafts of a LAN."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxner
from jaxner import models, tagging
from jaxner.analysis import refinement
from jaxner.data import corpora
from jaxner.data import vocabulary as vocab
from jaxner.evaluation import scoring
from jaxner.tagger import Tagger, build
from tests import fence
from tests.models import draws


@pytest.fixture(scope="session")
def dev():
    """Sentences of two padded shapes, each with its own program."""
    split = corpora.load("sample", "dev")
    short = [e for e in split.examples if len(e.tokens) <= 12]
    return dataclasses.replace(split, examples=tuple(short[:20]))


def score_of(params, dev):
    gold, predicted = tagging.label_split(params, dev)
    return 100 * scoring.score(gold, predicted, scheme="BIOES").f1


@pytest.mark.slow  # compiles UANet for several settings
def test_each_point_is_what_the_tagger_scores_with_that_setting(refining, dev):
    """Loads the run again with a changed option."""
    params = jaxner.load(refining)
    sweep = refinement.sweep(params, dev, thresholds=(0.0, 0.3, 5.0), samples=(1, 3, 8))
    for point in (sweep.by_threshold[1], sweep.by_samples[1]):
        changes = {
            "refinement.threshold": point.threshold,
            "mc_dropout.num_samples": point.samples,
        }
        loaded = jaxner.load(refining, changes)
        assert point.score == pytest.approx(score_of(loaded, dev))
    settings = [(p.samples, p.threshold) for p in sweep.by_threshold + sweep.by_samples]
    assert settings == [(8, 0.0), (8, 0.3), (8, 5.0), (1, 0.3), (3, 0.3), (8, 0.3)]
    everywhere, _, nowhere = sweep.by_threshold
    assert everywhere.score == everywhere.refined  # entropy is positive everywhere
    assert everywhere.changes.mended + everywhere.changes.broken > 0
    assert nowhere.score == nowhere.draft == everywhere.draft
    assert nowhere.changes[:3] == (0, 0, 0)
    key = jax.random.key(params.model.mc_dropout.seed)
    tokens = [e.tokens for e in dev.to_scheme("BIOES")]
    each = jaxner.uncertainty(params, tokens, key, 8)
    entropy = np.concatenate([u.entropy for u in each])
    detection = sweep.detection
    assert detection.wrong + detection.right == len(entropy)
    total = detection.wrong * detection.mean_wrong
    total += detection.right * detection.mean_right
    assert total / len(entropy) == pytest.approx(entropy.mean(), rel=1e-4)
    assert detection.auroc > 0.5


def drawn(dev, documents=False, head="softmax", **options):
    """A small tagger with a refinement and drawn weights."""
    vocabulary, _ = vocab.build(
        [e.tokens for e in dev.examples], dev.types(), documents=documents
    )
    streams = {"num_layers": 1, "num_heads": 1, "head_dim": 4, "label_dim": 4}
    streams |= {"label_scale": 1.0, "threshold": 2.2, "head": {"name": "crf"}}
    model = build(
        vocabulary,
        representation={"words": {"dim": 8}, "chars": None, "dropout": 0.0},
        encoder={"name": "bilstm", "hidden_dim": 4, "output_dropout": 0.5},
        head={"name": head, "dropout": 0.0},
        mc_dropout={"parts": ("encoder",), **options},
        refinement=streams,
    )
    return Tagger(draws.weights_of(model), model, vocabulary)


@pytest.mark.parametrize(
    ("documents", "head", "options"),
    [(False, "softmax", {"num_samples": 0}), (True, "crf", {"num_samples": 2})],
)
@pytest.mark.slow
def test_what_is_swept_is_what_is_tagged(dev, documents, head, options):
    """With CRFs, without passes, and in documents, whose separators are known."""
    params = drawn(dev, documents, head, **options)
    sweep = refinement.sweep(params, dev, thresholds=(2.2,), samples=(1,))
    (point,) = sweep.by_threshold
    assert point.score == pytest.approx(score_of(params, dev))
    assert point.samples == options["num_samples"]
    assert point.changes.mended + point.changes.broken + point.changes.moved > 0
    sure = jaxner.uncertainty(params, dev.examples[0].tokens, jax.random.key(0), 2)
    assert "<sep>" not in sure.labels
    if documents:
        assert not sure.probabilities[:, -1].any()


def test_without_dropout_the_draft_is_the_mean_attention_of_its_layer(tmp_path):
    lan, dev = jaxner.load(fence.unpack("lan", tmp_path)), corpora.load("sample", "dev")
    split = dataclasses.replace(dev, examples=dev.examples[:2])
    readings = refinement.read(lan, split, [0], refinement.of_lan)
    expected = jaxner.tag(lan, [e.tokens for e in split.examples])
    for read, labels, example in zip(readings, expected, split.examples, strict=True):
        assert lan.vocabulary.decode(read.refined[:, 0].tolist()) == labels
        sentence = jax.tree.map(jnp.asarray, lan.vocabulary.encode(example.tokens))
        out = models.apply_stages(lan.model, lan.weights, sentence)[1]
        chances = np.asarray(out["label_attention"], np.float64)[-1].mean(axis=0)
        np.testing.assert_allclose(chances.sum(axis=1), 1, rtol=1e-5)
        entropy = -(chances * np.log(chances)).sum(axis=1)
        np.testing.assert_allclose(read.entropy[:, 0], entropy, rtol=1e-4)
        assert read.draft[:, 0].tolist() == chances.argmax(axis=1).tolist()


def test_table_1_counts_each_kind_of_change():
    gold = [["A", "B", "C", "A"]]
    sides = [["A", "A", "A", "B"]], [["B", "B", "B", "B"]], [[0.5, 0.7, 0.1, 0.3]]
    drafts = refinement.Drafts(gold, *sides, threshold=0.6)
    assert drafts.final == [["A", "B", "A", "B"]]
    assert drafts.changes(drafts.refined)[:3] == (1, 1, 1)
    assert drafts.changes(drafts.final)[:3] == (1, 0, 0)
    assert (drafts.detection.wrong, drafts.detection.right) == (3, 1)
    assert drafts.detection.auroc == pytest.approx(1 / 3)
