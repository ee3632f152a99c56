"""The lexicon: ids, look-up rules, and which vectors are trained."""

import numpy as np
import pytest

from jaxner.data import vocab
from jaxner.data.vectors import Vectors

SENTENCES = [["Rome", "wins", "Rome"], ["rome", "WINS", "naïve"]]


def vectors(*words):
    values = np.arange(2 * len(words), dtype=np.float32).reshape(-1, 2)
    return Vectors(tuple(words), values, 0, 0)


def test_ids_come_from_training_words_by_frequency():
    lexicon, _ = vocab.build(SENTENCES, ["LOC", "ORG"])
    assert lexicon.words == ("<pad>", "<unk>", "Rome", "WINS", "naïve", "rome", "wins")
    assert lexicon.num_trained == 7
    assert lexicon.encode(["Rome", "falls", "NAÏVE"]).words.tolist() == [2, 1, 4]
    assert lexicon.label_names[0] == "O"
    assert len(lexicon.label_names) == 9


def test_lower_casing_leaves_characters_alone():
    lexicon, _ = vocab.build(SENTENCES, ["LOC"], lowercase=True)
    assert lexicon.words[2:] == ("rome", "wins", "naïve")
    sentence = lexicon.encode(["ROME", "Rome"])
    assert sentence.words.tolist() == [2, 2]
    assert sentence.chars[0].tolist() != sentence.chars[1].tolist()
    assert lexicon.encode(["Rx"]).chars[0, 1] == vocab.UNKNOWN


def test_rare_words_without_a_vector_are_unknown():
    lexicon, aligned = vocab.build(
        SENTENCES, ["LOC"], vectors=vectors("rome", "Paris", "wins"), min_count=2
    )
    # "Rome" is frequent; "WINS" shares the row of "wins"; "naïve" is unknown.
    assert lexicon.words[: lexicon.num_trained] == (
        "<pad>",
        "<unk>",
        "Rome",
        "wins",
        "rome",
    )
    assert lexicon.words[lexicon.num_trained :] == ("Paris",)
    assert lexicon.encode(["WINS", "naïve", "Paris"]).words.tolist() == [3, 1, 5]
    # "Rome" begins at the vector of "rome"; both are trained apart.
    assert aligned.rows.tolist() == [2, 3, 4]
    assert aligned.trained.tolist() == [[0, 1], [4, 5], [0, 1]]
    assert aligned.frozen.tolist() == [[2, 3]]
    assert aligned.types_matched == pytest.approx(4 / 5)
    assert aligned.tokens_matched == pytest.approx(5 / 6)


def test_every_training_token_has_a_trained_row():
    given = vectors("rome", "wins", "Rome", "x", "y")
    for lowercase in (False, True):
        for min_count in (1, 2, 5):
            lexicon, _ = vocab.build(
                SENTENCES,
                ["LOC"],
                vectors=given,
                lowercase=lowercase,
                min_count=min_count,
            )
            ids = np.concatenate([lexicon.encode(s).words for s in SENTENCES])
            assert ids.max() < lexicon.num_trained
            assert set(ids) | {0, 1} == set(range(lexicon.num_trained))


def test_unreachable_vectors_are_left_out():
    lexicon, aligned = vocab.build(
        SENTENCES, ["LOC"], vectors=vectors("Rome", "x"), lowercase=True
    )
    assert "Rome" not in lexicon.words
    assert aligned.frozen.tolist() == [[2, 3]]


def test_the_special_entries_are_no_words():
    lexicon, _ = vocab.build([["<unk>", "<pad>"]], ["LOC"])
    assert lexicon.encode(["<pad>", "<unk>"]).words.min() >= 2


def test_empty_sentences_and_tokens():
    lexicon, _ = vocab.build(SENTENCES, ["LOC"])
    assert lexicon.encode([]).chars.shape == (0, 1)
    assert lexicon.encode([""]).chars.tolist() == [[0]]


def test_json_round_trip_keeps_the_fingerprint():
    lexicon, _ = vocab.build(SENTENCES, ["LOC", "événement"])
    again = vocab.Lexicon.from_json(lexicon.to_json())
    assert again == lexicon
    assert hash(again) == hash(lexicon)
    other, _ = vocab.build(SENTENCES, ["LOC"])
    assert other != lexicon


def test_labels_both_ways():
    lexicon, _ = vocab.build(SENTENCES, ["LOC"], scheme="BIO")
    assert lexicon.decode(lexicon.label_ids(["O", "B-LOC", "I-LOC"])) == [
        "O",
        "B-LOC",
        "I-LOC",
    ]
    with pytest.raises(ValueError, match=r"'B-PER' is not in the label set.*I-LOC"):
        lexicon.label_ids(["B-PER"])
