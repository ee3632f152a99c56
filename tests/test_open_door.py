"""Users' own modules and training loops: they train, save and load."""

import dataclasses
import runpy
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxner
from jaxner.analysis import describe
from jaxner.data import corpora, vectors
from jaxner.errors import InputError
from tests.models import draws
from tests.models.test_bert import opened
from tests.models.test_own_modules import Reader

EXAMPLES = Path(__file__).parents[1] / "examples"
TEXT = [["Rome", "fell", "in", "Rome"], ["Yes"]]
LABELS = [["S-LOC", "O", "O", "S-LOC"], ["O"]]
VOCABULARY, _ = jaxner.build_vocabulary(TEXT, ["LOC"])


def example(name, function="main"):
    return runpy.run_path(str(EXAMPLES / f"{name}.py"))[function]


def test_modules_of_your_own_stand_in_any_place(tmp_path):
    model = jaxner.build(
        VOCABULARY,
        representation=Reader(lambda x: x),
        encoder=example("own_encoder", "WindowEncoder")(hidden_dim=5),
        head=example("own_head", "ScaledHead")(num_labels=len(VOCABULARY.label_names)),
    )
    tagger = jaxner.Tagger(draws.weights_of(model), model, VOCABULARY)
    jaxner.save(tmp_path / "own", tagger)
    with pytest.raises(ValueError, match=r"module of your own.*load\(folder, model="):
        jaxner.load(tmp_path / "own")
    copy = jaxner.load(tmp_path / "own", model=tagger.model)
    assert jaxner.tag(copy, TEXT) == jaxner.tag(tagger, TEXT)
    batches = jaxner.Batches.of(VOCABULARY, TEXT, LABELS, batch_size=2)
    ((batch, ids),) = batches.epoch(seed=0, epoch=0)
    key = jax.random.key(0)
    loss = jax.jit(jaxner.loss, static_argnums=0)
    assert jnp.isfinite(loss(tagger.model, tagger.weights, batch, ids, key))


@pytest.mark.slow
def test_encoders_and_heads_of_your_own(tmp_path):
    assert len(example("own_encoder")(str(tmp_path / "encoder"))) == 3
    loss, labels = example("own_head")(str(tmp_path / "head"))
    assert loss > 0
    assert [len(row) for row in labels] == [2, 1]


def test_a_crf_on_scores_from_anywhere():
    total, best, chances = example("crf_on_my_logits")()
    assert total > 0
    assert best.shape == (2, 4)
    np.testing.assert_allclose(chances[0].sum(axis=1), 1, rtol=1e-5)


@pytest.mark.slow
def test_a_loop_of_your_own_learns(corpus, tmp_path, capsys, monkeypatch):
    train = corpora.load(None, "train", directory=corpus)
    monkeypatch.setattr(corpora, "load", lambda *_: train)
    labels = example("own_loop")(str(tmp_path / "grn"), 30)
    losses = [float(line.split()[-1]) for line in capsys.readouterr().out.splitlines()]
    assert losses[-1] < losses[0] / 2
    assert len(labels) == 4
    scores = describe.label(jaxner.load(tmp_path / "grn"), train, rule="strict").scores
    assert scores.f1 > 0.3


def test_a_model_of_another_vocabulary_is_refused(params):
    with pytest.raises(ValueError, match="of another vocabulary: Words has num_train"):
        jaxner.Tagger(params.weights, params.model, VOCABULARY)
    labels = {"label_names": ("O", "B-A", "I-A")}
    vocabulary = dataclasses.replace(params.vocabulary, **labels)
    with pytest.raises(ValueError, match=r"num_labels=.*, the vocabulary has 3"):
        dataclasses.replace(params, vocabulary=vocabulary)


def test_a_pretrained_encoder_of_ones_own_is_tuned_and_loaded(tmp_path, monkeypatch):
    pytest.importorskip("tokenizers")
    monkeypatch.chdir(EXAMPLES.parent)
    tagger = example("own_pretrained")(str(tmp_path))
    encoder = tagger.model.representation.bert.encoder
    assert (encoder.vocab_size, encoder.hidden_size) == (8, 16)
    weights = tagger.weights["params"]["representation"]["bert"]["encoder"]
    values = np.random.default_rng(0).normal(size=(8, 16))
    np.testing.assert_allclose(weights["vectors"]["embedding"], values, atol=0.01)
    # Without it, the folder's model is unknown.
    options = {"workdir": tmp_path / "b", "data.pretrained": tmp_path / "static"}
    with pytest.raises(InputError, match=r"has a model_type of .* got 'static'"):
        jaxner.train("encoder", [(["Rome"], ["B-LOC"])] * 20, **options)


def test_frozen_vectors_of_an_encoder_are_written_for_each_split(tmp_path):
    pytest.importorskip("tokenizers")
    model, _, encode = opened("bert", tmp_path)
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "rome", "fell"]
    (tmp_path / "vocab.txt").write_text("\n".join(pieces))
    for split in corpora.SPLITS:
        (tmp_path / f"{split}.conll").write_text("Rome B-LOC\nfell O\n\nYes O\n")
    example("frozen_vectors")(str(tmp_path), str(tmp_path / "out"), str(tmp_path))
    texts = [["Rome", "fell"], ["Yes"]]
    result = vectors.read_contextual(tmp_path / "out/dev.npz", texts)
    assert result[0].sizes == (1, model.hidden_size)
    ids = jnp.array([2, 4, 5, 3])
    states = encode(ids, ids > 0)
    np.testing.assert_allclose(result[0], states[1:3, None], atol=1e-6)
