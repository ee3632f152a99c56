"""Data settings of a run: its files, what looks wrong in them, words and versions."""

import shutil

import jax
import numpy as np
import pytest

import jaxner
import train
from jaxner import models, runs
from jaxner.data import corpora, formats, tokens
from jaxner.runs import Workdir
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


def test_a_run_reads_any_format(folder):
    _, expected = load(folder)
    places = {"train": "train.jsonl", "dev": "dev", "test": "test.v4_gold_conll"}
    for split, name in places.items():
        file = folder / f"{split}.conll"
        # brat's sentences are cut again when they are read.
        examples = [
            example
            for example in formats.read(file).examples
            if tuple(t.text for t in tokens.tokenise(" ".join(example.tokens)))
            == example.tokens
        ]
        formats.write(folder / name, examples, "brat" if split == "dev" else None)
        file.unlink()
    warnings, data = load(folder)
    assert data.dev.path == folder / "dev"
    known = {example.labels for example in expected.dev.examples}
    assert {example.labels for example in data.dev.examples} <= known
    assert not warnings


# --- Words that are not trained, and runs of earlier versions -------------------------


@pytest.fixture(scope="module")
def vectors(corpus, tmp_path_factory):
    """Vectors of every second word of the training split, and their file."""
    words = sorted({token for s in sentences(corpus, "train") for token in s})[::2]
    rows = np.random.default_rng(0).normal(size=(len(words), DIM)).astype(np.float32)
    path = tmp_path_factory.mktemp("vectors") / "vectors.txt"
    pairs = dict(zip(words, rows, strict=True))
    lines = [f"{w} {' '.join(map(str, row.tolist()))}\n" for w, row in pairs.items()]
    path.write_text("".join(lines), encoding="utf-8")
    return path, pairs


def config_of(corpus, vectors, num_epochs=1):
    config = tiny.config(corpus, num_epochs=num_epochs)
    config.data.update(
        {"vectors": str(vectors[0]), "min_vector_match": 0.3, "train_words": False}
    )
    return config


@pytest.fixture(scope="module")
def run(corpus, vectors, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "settings"
    train.main_run(config_of(corpus, vectors), folder)
    return folder


def test_words_that_are_not_trained_come_back_as_given(run, vectors):
    tagger = jaxner.load(run)
    vocabulary = tagger.vocabulary
    assert vocabulary.num_trained == 2  # padding and the unknown word
    frozen = tagger.weights["frozen"]["representation"]["words"]["vectors"]
    expected = np.stack([vectors[1][word] for word in vocabulary.words[2:]])
    np.testing.assert_array_equal(frozen, expected)
    drawn = models.init(tagger.model, jax.random.key(0))
    drawn, trained = (
        np.asarray(weights["params"]["representation"]["words"]["trained"])
        for weights in (drawn, tagger.weights)
    )
    assert trained.shape == (2, DIM)
    assert (trained[0] == drawn[0]).all()
    assert (trained[1] != drawn[1]).all()


def test_a_run_of_a_version_with_fewer_options_loads_and_goes_on(
    run, corpus, vectors, tmp_path
):
    folder = Workdir(shutil.copytree(run, tmp_path / "run"))
    old = folder.read_json("config.json")
    for section, option in (
        *((old, "num_devices"), (old["optimizer"], "nesterov")),
        *((old["model"]["head"], "bias"), (old["model"]["head"], "per_stage")),
        *((old["data"], "typed_unknowns"), (old["model"]["encoder"], "relation")),
    ):
        del section[option]
    folder.write_json("config.json", old)
    for file in folder.path.rglob(runs.CHECKSUMS):
        about = runs.read_json(file)["about"]
        runs.seal(file.parent, about | {"model": old["model"]})
    taggers = jaxner.load(folder.path), jaxner.load(run)
    labels = [jaxner.tag(tagger, ["In", "1996", "Rome", "fell"]) for tagger in taggers]
    assert labels[0] == labels[1]
    config = config_of(corpus, vectors, num_epochs=2)
    train.main_run(config, folder.path)
    assert [line["epoch"] for line in folder.metrics()] == [1, 2]
    config.model.head.bias = 0.5
    with pytest.raises(ValueError, match=r"model\.head\.bias: 0\.0 there, 0\.5 now"):
        train.main_run(config, folder.path)
