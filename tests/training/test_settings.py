"""Data settings of a run, from the config to the tagger."""

import re
import shutil

import jax
import numpy as np
import pytest

import jaxner
import train
from jaxner import models
from jaxner.data import corpora
from jaxner.data import vocabulary as vocab
from jaxner.runs import Workdir
from tests import tiny

ALPHABET = "abcdefgABCDEFG0."
DIM = 8


def zeroed(token):
    return re.sub(r"\d", "0", token)


@pytest.fixture(scope="module")
def given(corpus, tmp_path_factory):
    """Vectors of every second word of the training split, digits zeroed, and others."""
    examples = corpora.load(None, "train", directory=corpus).examples
    tokens = sorted({zeroed(t) for e in examples for t in e.tokens})
    words = list(dict.fromkeys([*tokens[::2], "zyzzyva", "0000", "1996"]))
    values = np.random.default_rng(0).normal(size=(len(words), DIM)).astype(np.float32)
    path = tmp_path_factory.mktemp("vectors") / "vectors.txt"
    vectors = dict(zip(words, values, strict=True))
    rows = [" ".join([w, *map(str, v.tolist())]) for w, v in vectors.items()]
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path, vectors


def config_of(corpus, given, num_epochs=1):
    config = tiny.config(corpus, num_epochs=num_epochs)
    config.batch_size = 16
    config.data.vectors = str(given[0])
    config.data.min_vector_match = 0.3
    config.data.train_words = False
    config.data.alphabet = ALPHABET
    config.data.zero_digits = True
    return config


@pytest.fixture(scope="module")
def run(corpus, given, tmp_path_factory):
    """A run whose words are not trained, with an alphabet and zeroed digits."""
    config = config_of(corpus, given)
    folder = tmp_path_factory.mktemp("runs") / "settings"
    train.main_run(config, folder)
    return folder


@pytest.fixture(scope="module")
def tagger(run):
    return jaxner.load(run)


def test_words_that_are_not_trained_come_back_as_given(tagger, given):
    vocabulary, vectors = tagger.vocabulary, given[1]
    assert vocabulary.num_trained == 2  # padding and the unknown word
    assert set(vocabulary.words[2:]) == set(vectors)
    frozen = tagger.weights["frozen"]["representation"]["words"]["vectors"]
    expected = np.stack([vectors[word] for word in vocabulary.words[2:]])
    np.testing.assert_array_equal(frozen, expected)


def test_the_unknown_word_alone_is_trained(tagger, run):
    seed = Workdir(run).read_json("config.json")["seed"]
    drawn = models.init(tagger.model, jax.random.key(seed))["params"]["representation"][
        "words"
    ]
    trained = tagger.weights["params"]["representation"]["words"]["trained"]
    assert trained.shape == (2, DIM)
    np.testing.assert_array_equal(trained[0], drawn["trained"][0])
    assert (np.asarray(trained[1]) != np.asarray(drawn["trained"][1])).all()


def test_words_without_a_vector_are_unknown(tagger, given, corpus):
    examples = corpora.load(None, "train", directory=corpus).examples
    tokens = {token for example in examples for token in example.tokens}
    ids = {token: tagger.vocabulary.word_id(token) for token in tokens}
    known = {token for token, i in ids.items() if i != vocab.UNKNOWN}
    lowered = {token: zeroed(token).lower() for token in tokens}
    vectors = given[1]
    assert known == {
        token
        for token in tokens
        if zeroed(token) in vectors or lowered[token] in vectors
    }
    assert 0 < len(known) < len(tokens)


def test_the_alphabet_decides_which_characters_are_known(tagger):
    assert tagger.vocabulary.chars == ("<pad>", "<unk>", *sorted(ALPHABET))
    table = tagger.weights["params"]["representation"]["chars"]["table"]
    assert len(table) == len(ALPHABET) + 2
    chars = tagger.vocabulary.encode(["aß7"]).chars[1].tolist()
    assert chars[1] == vocab.UNKNOWN  # German sharp s is not in it
    assert tagger.vocabulary.chars[chars[0]] == "a"
    assert tagger.vocabulary.chars[chars[2]] == "0"  # digits are zeroed before


def test_digits_are_zeroed_wherever_a_word_is_looked_at(tagger):
    vocabulary = tagger.vocabulary
    assert vocabulary.zero_digits
    for array, other in zip(
        vocabulary.encode(["In", "1996", "3M"]),
        vocabulary.encode(["In", "2024", "7M"]),
        strict=True,
    ):
        np.testing.assert_array_equal(array, other)
    assert vocabulary.words[vocabulary.word_id("1996")] == "0000"
    ids = [vocabulary.word_id(word) for word in ("0000", "2024", "99")]
    assert ids[0] == ids[1] != ids[2]
    left, right = (
        models.apply(
            tagger.model,
            tagger.weights,
            jax.tree.map(jax.numpy.asarray, vocabulary.encode(["In", year])),
        )
        for year in ("1996", "2024")
    )
    np.testing.assert_array_equal(left.emissions, right.emissions)
    assert jaxner.tag(tagger, ["In", "1996"]) == jaxner.tag(tagger, ["In", "2024"])


def test_a_run_of_a_version_with_fewer_options_loads_and_goes_on(
    run, corpus, given, tmp_path
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
    for file in folder.path.rglob("checksums.json"):
        sealed = Workdir(file.parent).read_json(file.name)
        sealed["about"]["model"] = old["model"]
        Workdir(file.parent).write_json(file.name, sealed)
    tokens = ["In", "1996", "Rome", "fell"]
    new = jaxner.load(run)
    assert jaxner.tag(jaxner.load(folder.path), tokens) == jaxner.tag(new, tokens)
    train.main_run(config_of(corpus, given, num_epochs=2), folder.path)
    assert [line["epoch"] for line in folder.metrics()] == [1, 2]
    other = config_of(corpus, given, num_epochs=2)
    other.model.head.bias = 0.5
    with pytest.raises(ValueError, match=r"model\.head\.bias: 0\.0 there, 0\.5 now"):
        train.main_run(other, folder.path)
