"""Data settings of a run: its files, what looks wrong in them, and words."""

import jax
import numpy as np
import pytest

import jaxner
import train
from jaxner import models
from jaxner.data import corpora
from jaxner.training import corpus as training_corpus
from tests import tiny
from tests.training.runs import sentences

DIM = 8


# --- Files ----------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path):
    return tiny.write_corpus(tmp_path / "corpus", documents=True)


def options(folder, **changes):
    return tiny.config(folder).data.to_dict() | changes


def load(folder, **changes):
    """The warnings that a run prints, and its data."""
    lines, data = [], options(folder, **changes)
    data = training_corpus.load_data(data, word_dim=DIM, log=lines.append)
    return [line for line in lines if line.startswith("WARNING")], data


def test_a_run_says_what_looks_wrong(folder):
    assert not load(folder)[0]
    path = folder / "train.conll"
    path.write_text(path.read_text() + "[/b] O\n\xa0 O\n")
    (warning,) = load(folder)[0]
    assert "train.conll:" in warning
    assert any("min_count" in line for line in load(folder, min_count=9)[0])


def test_dev_is_taken_from_train(folder):
    with pytest.raises(ValueError, match=r"dev\.conll"):
        load(folder, split_dev=0.1)
    (folder / "dev.conll").unlink()
    with pytest.raises(FileNotFoundError, match="split_dev"):
        load(folder)
    _, data = load(folder, split_dev=0.2)
    whole = corpora.load(None, "train", directory=folder)
    assert len(data.sentences) + len(data.dev.examples) == len(whole.examples)
    record = data.record["data"]["dev taken from train"]
    assert record["first_lines"] == [e.line for e in data.dev.examples]
    again = training_corpus.load_split(options(folder, split_dev=0.2), "dev")
    assert again.examples == data.dev.examples


# --- Words that are not trained -------------------------------------------------------


def test_words_that_are_not_trained_come_back_as_they_were(corpus, tmp_path):
    words = sorted({token for s in sentences(corpus, "train") for token in s})[::2]
    rows = np.random.default_rng(0).normal(size=(len(words), DIM)).astype(np.float32)
    vectors = dict(zip(words, rows, strict=True))
    lines = [f"{w} {' '.join(map(str, row.tolist()))}" for w, row in vectors.items()]
    (tmp_path / "vectors.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    config = tiny.config(corpus, num_epochs=1)
    config.data.vectors = str(tmp_path / "vectors.txt")
    config.data.update({"min_vector_match": 0.3, "train_words": False})
    train.main_run(config, tmp_path / "run")
    tagger = jaxner.load(tmp_path / "run")
    vocabulary = tagger.vocabulary
    assert vocabulary.num_trained == 2  # padding and the unknown word
    frozen = tagger.weights["frozen"]["representation"]["words"]["vectors"]
    expected = np.stack([vectors[word] for word in vocabulary.words[2:]])
    np.testing.assert_array_equal(frozen, expected)
    drawn, trained = (
        np.asarray(weights["params"]["representation"]["words"]["trained"])
        for weights in (models.init(tagger.model, jax.random.key(0)), tagger.weights)
    )
    assert trained.shape == (2, DIM)
    assert (trained[0] == drawn[0]).all()
    assert (trained[1] != drawn[1]).all()
