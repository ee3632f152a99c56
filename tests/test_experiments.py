"""The papers' experiments of `reproduce`: refinements, parts of attention, the probe.

Where a model must fail at the probe, the failure is a proof: an identity of its scores.
That others succeed shows that training is no excuse.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxner
from jaxner import models, tagging
from jaxner.data import corpora
from jaxner.evaluation import scoring
from reproduce import figures, probes, refinement
from tests import fence
from tests.marks import slow
from tests.models import draws


@pytest.mark.slow  # compiles UANet for several settings
def test_each_point_is_what_the_tagger_scores_with_that_setting(uanet_run):
    """Loads the run again with a changed option."""
    params, dev = jaxner.load(uanet_run), corpora.load("sample", "dev")
    # Of two padded shapes, each with its own program.
    short = [e for e in dev.examples if len(e.tokens) <= 12]
    dev = dataclasses.replace(dev, examples=tuple(short[:20]))
    points = dict(refinement.sweep(params, dev, (0.0, 0.3, 5.0), (1, 3, 8)))
    assert [*points] == ["Γ=0.0", "Γ=0.3", "Γ=5.0", "M=1", "M=3", "M=8"]
    for name, option in (("Γ=0.3", "refinement.threshold"), ("M=3", "mc_dropout.num_")):
        option += "samples" * name.startswith("M")
        tagger = jaxner.load(uanet_run, {option: float(name[2:]) if "Γ" in name else 3})
        scores = scoring.score(*tagging.label_split(tagger, dev), scheme="BIOES")
        assert points[name]["final"] == pytest.approx(100 * scores.f1)
    assert points["Γ=0.0"]["final"] == points["Γ=0.0"]["refined"]  # all are uncertain
    assert points["Γ=5.0"]["final"] == points["Γ=5.0"]["draft"]
    key = jax.random.key(params.model.mc_dropout.seed)
    tokens = [e.tokens for e in dev.to_scheme("BIOES")]
    answers = jaxner.uncertainty(params, tokens, key, 8)
    drafts = refinement.drafts(params, dev)
    for entropy, uncertainty in zip(drafts.entropy, answers, strict=True):
        np.testing.assert_allclose(entropy, uncertainty.entropy, rtol=1e-3, atol=1e-5)
    assert drafts.detection["auroc"] > 0.5


@pytest.mark.slow
def test_without_dropout_the_draft_is_the_mean_attention_of_its_layer(tmp_path):
    lan, dev = jaxner.load(fence.unpack("lan", tmp_path)), corpora.load("sample", "dev")
    split = dataclasses.replace(dev, examples=dev.examples[:2])
    drafts = refinement.drafts(lan, split, 0)
    assert drafts.final == jaxner.tag(lan, [e.tokens for e in split.examples])
    for i, example in enumerate(split.examples):
        sentence = jax.tree.map(jnp.asarray, lan.vocabulary.encode(example.tokens))
        values = lan.model.apply(lan.weights, sentence, train=False)[1]
        chances = np.asarray(values["label_attention"], np.float64)[-1].mean(axis=0)
        np.testing.assert_allclose(chances.sum(axis=1), 1, rtol=1e-5)
        entropy = -(chances * np.log(chances)).sum(axis=1)
        np.testing.assert_allclose(drafts.entropy[i], entropy, rtol=1e-4)
        best = chances.argmax(axis=1).tolist()
        assert drafts.draft[i] == lan.vocabulary.decode(best)
    with pytest.raises(ValueError, match="no threshold"):
        next(refinement.sweep(lan, split))


def test_table_1_counts_each_kind_of_change():
    gold = [["A", "B"], ["C", "A"]]
    sides = [["A", "A"], ["A", "B"]], [["B", "B"], ["B", "B"]], [[0.5, 0.7], [0.1, 0.3]]
    drafts = refinement.Drafts(gold, *sides, threshold=0.6)
    assert drafts.final == [["A", "B"], ["A", "B"]]
    rows = drafts.changes(drafts.refined).values()
    assert [[*row.values()] for row in rows] == [[1, 0.7], [1, 0.5], [1, 0.1]]
    rows = drafts.changes(drafts.final).values()
    assert [row["tokens"] for row in rows] == [1, 0, 0]
    assert [drafts.detection[x]["tokens"] for x in "✗✓"] == [3, 1]
    assert drafts.detection["auroc"] == pytest.approx(1 / 3)
    right = refinement.Drafts(gold, gold, gold, sides[2], 0.6).detection
    assert [right[x]["tokens"] for x in "✗✓"] == [0, 4]
    assert np.isnan([right["auroc"], right["✗"]["uncertainty"]]).all()


@pytest.mark.slow
def test_chunk_recalls_are_by_prefix_and_by_part(att_run):
    def labels(*arguments):
        gold = [["B-P", "I-P", "E-P", "O", "S-L"], ["O", "B-O", "E-O"], ["S-L", "O"]]
        # Types do not matter, prefixes do.
        predicted = "B-L O E-P O B-L", "S-P B-O O", "S-M S-M"
        return gold, [row.split() for row in predicted]

    names = ["all", "hidden", "context", *(f"context{i}" for i in range(1, 6))]
    rows = dict(figures.measured("chunk-recall", str(att_run), "dev", 4))
    assert [*rows] == names
    assert len({str(row) for row in rows.values()}) > 1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tagging, "label_split", labels)
        _, row = next(iter(figures.measured("chunk-recall", str(att_run), "dev", 4)))
    assert row == {"O": 1 / 3, "S": 1 / 2, "B": 1, "I": 0, "E": 1 / 2}


BASELINE = {"name": "bilstm", "hidden_dim": 8, "cross": False}
DEEP = BASELINE | {"num_layers": 2}
CROSS = DEEP | {"cross": True}
HEADS = {"name": "attention", "num_heads": 2}
ATTENTION = {"name": "chain", "first": DEEP, "then": HEADS}
GRN = {"name": "grn", "hidden_dim": 16}
# Drawn, since the identity has a plateau: see `probes.fit`.
IDCNN = {"name": "idcnn", "hidden_dim": 16, "initializer": "glorot"}


@pytest.mark.parametrize(
    ("encoder", "head"), [(DEEP, "softmax"), (DEEP, "direction"), (CROSS, "softmax")]
)
def test_scores_of_directions_that_never_meet_add_up(encoder, head):
    """The proof of Li, Fu and Ma: for any weights, and so for any training.

    At "and" of the works of art, and of the other two phrases, the scores of the
    directions (or probabilities) have the same sum.
    """
    _, model, batch = probes.build(encoder, head)
    weights = draws.weights_of(model)
    apply = jax.jit(jax.vmap(lambda sentence: models.apply(model, weights, sentence)))
    middle = np.asarray(apply(batch).emissions)[:, 1]
    middle = np.exp(middle) if head == "direction" else middle
    difference = np.abs(middle[:2].sum(axis=0) - middle[2:].sum(axis=0)).max()
    assert (difference > 0.01) if encoder is CROSS else (difference < 1e-5)
    assert np.abs(middle[0] - middle[1]).max() > 0.01  # and not since all are the same


@pytest.mark.parametrize(
    ("encoder", "head"),
    [
        (IDCNN, "softmax"),
        *slow((CROSS, "softmax"), (ATTENTION, "softmax"), (GRN, "softmax")),
        *slow((models.GRN(hidden_dim=16), "softmax")),
        # The paper decodes token by token; the labels at both ends imply the middle.
        *slow((DEEP, "crf")),
    ],
)
def test_what_sees_both_sides_at_once_learns_xor(encoder, head):
    assert probes.fit(encoder, head) == 1
