"""The vocabulary: ids, look-up rules, and which vectors are trained."""

import copy
import dataclasses

import numpy as np
import pytest

from jaxner.data import vocab
from jaxner.data.vectors import Vectors

SENTENCES = [["Rome", "wins", "Rome"], ["rome", "WINS", "naïve"]]


def vectors(*words):
    values = np.arange(2 * len(words), dtype=np.float32).reshape(-1, 2)
    return Vectors(tuple(words), values, 0, 0)


def test_ids_come_from_training_words_by_frequency():
    vocabulary, _ = vocab.build(SENTENCES, ["LOC", "ORG"])
    assert vocabulary.words == (
        "<pad>",
        "<unk>",
        "Rome",
        "WINS",
        "naïve",
        "rome",
        "wins",
    )
    assert vocabulary.num_trained == 7
    assert vocabulary.encode(["Rome", "falls", "NAÏVE"]).words.tolist() == [2, 1, 4]
    assert vocabulary.label_names[0] == "O"
    assert len(vocabulary.label_names) == 9


def once(vocabulary):
    first, end = vocabulary.singletons
    return list(vocabulary.words[first:end])


def test_words_that_occur_once_are_the_last_of_the_trained_ones():
    vocabulary, _ = vocab.build(SENTENCES, ["LOC"], vectors=vectors("Paris", "Rome"))
    assert once(vocabulary) == ["WINS", "naïve", "rome", "wins"]
    assert vocabulary.singletons == (3, 7)
    assert vocab.Vocabulary.from_json(vocabulary.to_json()).singletons == (3, 7)
    # "wins" and "WINS" are one word, and so are "Rome" and "rome".
    vocabulary, _ = vocab.build(SENTENCES, ["LOC"], lowercase=True)
    assert once(vocabulary) == ["naïve"]
    # What is rare and has no vector is unknown, and nothing occurs once.
    vocabulary, _ = vocab.build(SENTENCES, ["LOC"], min_count=2)
    assert once(vocabulary) == []


def test_words_that_occur_once_are_the_first_where_none_is_trained():
    given = vectors("x", "naïve", "Rome", "y", "wins")
    vocabulary, aligned = vocab.build(
        SENTENCES, ["LOC"], vectors=given, train_words=False
    )
    # WINS counts as "wins", its lower case.
    assert vocabulary.words[2:] == ("naïve", "x", "Rome", "y", "wins")
    assert once(vocabulary) == ["naïve"]
    assert aligned.frozen[:, 0].tolist() == [2, 0, 4, 6, 8]
    strict, _ = vocab.build(
        SENTENCES,
        ["LOC"],
        vectors=given,
        train_words=False,
        lowercase_fallback=False,
    )
    assert once(strict) == ["naïve", "wins"]


def test_lower_casing_leaves_characters_alone():
    vocabulary, _ = vocab.build(SENTENCES, ["LOC"], lowercase=True)
    assert vocabulary.words[2:] == ("rome", "wins", "naïve")
    sentence = vocabulary.encode(["ROME", "Rome"])
    assert sentence.words.tolist() == [2, 2]
    assert sentence.chars[1].tolist() != sentence.chars[2].tolist()
    assert vocabulary.encode(["Rx"]).chars[1, 1] == vocab.UNKNOWN


def test_rare_words_without_a_vector_are_unknown():
    vocabulary, aligned = vocab.build(
        SENTENCES, ["LOC"], vectors=vectors("rome", "Paris", "wins"), min_count=2
    )
    # "Rome" is frequent; "WINS" shares the row of "wins"; "naïve" is unknown.
    assert vocabulary.words[: vocabulary.num_trained] == (
        "<pad>",
        "<unk>",
        "Rome",
        "wins",
        "rome",
    )
    assert vocabulary.words[vocabulary.num_trained :] == ("Paris",)
    assert vocabulary.encode(["WINS", "naïve", "Paris"]).words.tolist() == [3, 1, 5]
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
            vocabulary, _ = vocab.build(
                SENTENCES,
                ["LOC"],
                vectors=given,
                lowercase=lowercase,
                min_count=min_count,
            )
            ids = np.concatenate([vocabulary.encode(s).words for s in SENTENCES])
            assert ids.max() < vocabulary.num_trained
            assert set(ids) | {0, 1} == set(range(vocabulary.num_trained))


def test_unreachable_vectors_are_left_out():
    vocabulary, aligned = vocab.build(
        SENTENCES, ["LOC"], vectors=vectors("Rome", "x"), lowercase=True
    )
    assert "Rome" not in vocabulary.words
    assert aligned.frozen.tolist() == [[2, 3]]


def test_the_special_entries_are_no_words():
    vocabulary, _ = vocab.build([["<unk>", "<pad>"]], ["LOC"])
    assert vocabulary.encode(["<pad>", "<unk>"]).words.min() >= 2


def test_empty_sentences_and_tokens():
    vocabulary, _ = vocab.build(SENTENCES, ["LOC"])
    assert vocabulary.encode([]).chars.tolist() == [[0]]
    assert vocabulary.encode([""]).chars.tolist() == [[0]]
    assert vocabulary.encode([""]).char_index.tolist() == [0]


def test_json_round_trip_keeps_the_fingerprint():
    vocabulary, _ = vocab.build(SENTENCES, ["LOC", "événement"])
    again = vocab.Vocabulary.from_json(vocabulary.to_json())
    assert again == vocabulary
    assert hash(again) == hash(vocabulary)
    other, _ = vocab.build(SENTENCES, ["LOC"])
    assert other != vocabulary


def test_labels_both_ways():
    vocabulary, _ = vocab.build(SENTENCES, ["LOC"], scheme="BIO")
    assert vocabulary.decode(vocabulary.label_ids(["O", "B-LOC", "I-LOC"])) == [
        "O",
        "B-LOC",
        "I-LOC",
    ]
    with pytest.raises(
        ValueError, match=r"'B-PER' does not occur in the training data.*I-LOC"
    ):
        vocabulary.label_ids(["B-PER"])


# --- Digits, characters, capitals, and vectors that stay as given ---------------------

NUMBERS = [["B-52", "in", "1996"], ["B-17", "in", "2024", "3M"]]


def test_digits_are_one_for_words_characters_and_capitals():
    vocabulary, _ = vocab.build(NUMBERS, ["LOC"], zero_digits=True)
    assert set(vocabulary.words[2:]) == {"B-00", "in", "0000", "0M"}
    assert set(vocabulary.chars[2:]) == set("B-0inM")
    one, other = (vocabulary.encode(s) for s in (["B-52", "3M"], ["B-09", "7M"]))
    for left, right in zip(one, other, strict=True):
        np.testing.assert_array_equal(left, right)
    assert one.words.min() >= 2
    assert (one.chars[1] >= 2).all()
    assert one.caps.tolist() == [2, 3]
    assert vocabulary.word_id("B-99") == one.words[0]
    # The tokens that come in are left alone.
    tokens = ["B-52"]
    vocabulary.encode(tokens)
    assert tokens == ["B-52"]


def test_digits_count_together_and_meet_vectors_of_zeros():
    vocabulary, aligned = vocab.build(
        NUMBERS, ["LOC"], vectors=vectors("0000", "1996"), zero_digits=True, min_count=2
    )
    assert vocabulary.words[2 : vocabulary.num_trained] == ("0000", "B-00", "in")
    assert vocabulary.words[vocabulary.num_trained :] == ("1996",)  # never met again
    assert aligned.rows.tolist() == [2]
    assert aligned.trained.tolist() == [[0, 1]]
    assert aligned.types_matched == pytest.approx(1 / 4)
    assert aligned.tokens_matched == pytest.approx(2 / 7)
    assert vocabulary.encode(["1996", "3M"]).words.tolist() == [2, 1]


def test_digits_stay_by_default():
    vocabulary, _ = vocab.build(NUMBERS, ["LOC"])
    assert {"1996", "2024", "B-52"} <= set(vocabulary.words)
    assert not vocabulary.zero_digits


def test_vectors_that_stay_as_given():
    given = vectors("rome", "Rome", "x")
    vocabulary, aligned = vocab.build(
        SENTENCES, ["LOC"], vectors=given, train_words=False
    )
    assert vocabulary.num_trained == 2  # padding, and the unknown word
    assert vocabulary.words == ("<pad>", "<unk>", "rome", "Rome", "x")
    assert aligned.rows.shape == (0,)
    assert aligned.trained.shape == (0, 2)
    np.testing.assert_array_equal(aligned.frozen, given.values)
    # Words without a vector are unknown, however frequent.
    assert vocabulary.encode(["Rome", "wins", "ROME", "x"]).words.tolist() == [
        3,
        1,
        2,
        4,
    ]
    assert aligned.types_matched == pytest.approx(2 / 5)
    assert aligned.tokens_matched == pytest.approx(3 / 6)


def test_vectors_that_stay_as_given_and_are_lower_cased():
    vocabulary, aligned = vocab.build(
        SENTENCES,
        ["LOC"],
        vectors=vectors("rome", "Rome"),
        lowercase=True,
        train_words=False,
    )
    assert vocabulary.words == ("<pad>", "<unk>", "rome")
    assert aligned.frozen.tolist() == [[0, 1]]


def test_words_without_vectors_and_training_are_all_unknown():
    vocabulary, aligned = vocab.build(SENTENCES, ["LOC"], train_words=False)
    assert aligned is None
    assert vocabulary.words == ("<pad>", "<unk>")
    assert vocabulary.encode(["Rome"]).words.tolist() == [1]


def test_an_alphabet_takes_the_place_of_the_training_characters():
    vocabulary, _ = vocab.build(SENTENCES, ["LOC"], alphabet="mRo!mo")
    assert vocabulary.chars == ("<pad>", "<unk>", "!", "R", "m", "o")
    assert vocabulary.encode(["Rome!"]).chars.tolist()[1:] == [[3, 5, 4, 1, 2]]
    assert vocabulary.words == vocab.build(SENTENCES, ["LOC"])[0].words


def test_character_types_belong_to_ids():
    vocabulary, _ = vocab.build(SENTENCES, ["LOC"], alphabet="aZ9.é")
    types = dict(zip(vocabulary.chars, vocabulary.char_types, strict=True))
    assert types == {"<pad>": 0, "<unk>": 0, "a": 2, "Z": 1, "9": 3, ".": 4, "é": 0}


def test_unknown_characters_may_keep_their_type():
    options = {"alphabet": "ab.", "typed_unknowns": True}
    vocabulary, _ = vocab.build(SENTENCES, ["LOC"], **options)
    assert vocabulary.chars == ("<pad>", "<unk>", ".", "a", "b")
    assert vocabulary.char_types == (0, 0, 4, 2, 2, *(1, 2, 3, 4))
    chars = vocabulary.encode(["aZz7_é"]).chars[1]
    assert chars.tolist() == [3, 5, 6, 7, 8, vocab.UNKNOWN]
    types = [vocabulary.char_types[char] for char in chars]
    assert types == [2, 1, 2, 3, 4, 0]
    assert vocab.Vocabulary.from_json(vocabulary.to_json()) == vocabulary
    plain, _ = vocab.build(SENTENCES, ["LOC"], alphabet="ab.")
    assert plain.encode(["aZz7_é"]).chars[1].tolist() == [3, 1, 1, 1, 1, 1]


def test_capitals_are_those_of_the_token_whatever_the_look_up():
    tokens = ["EU", "U.N.", "3M", "Rome", "eBay", "wins", "1996"]
    for lowercase in (False, True):
        vocabulary, _ = vocab.build(SENTENCES, ["LOC"], lowercase=lowercase)
        encoded = vocabulary.encode(tokens)
        assert encoded.caps.tolist() == [1, 2, 3, 4, 5, 6, 7]
        assert encoded.caps.dtype == np.int32
        assert encoded.mask.all()
    assert vocabulary.encode([]).caps.shape == (0,)
    assert vocabulary.encode([""]).caps.tolist() == [0]


def test_a_vocabulary_of_before_has_the_defaults():
    """What a run wrote that knew no `zero_digits` still loads."""
    text = (
        '{"words": ["<pad>", "<unk>", "B-52"], "num_trained": 3, "chars": ["<pad>", '
        '"<unk>", "-", "2", "5", "B"], "label_names": ["O", "B-LOC", "I-LOC"], '
        '"scheme": "BIO", "lowercase": false}'
    )
    vocabulary = vocab.Vocabulary.from_json(text)
    assert vocabulary.zero_digits is False
    assert not vocabulary.reads_documents
    assert vocabulary.encode(["B-52", "B-00"]).words.tolist() == [2, 1]
    assert vocabulary.singletons == (0, 0)  # it was not recorded which these are
    assert not vocabulary.typed_unknowns
    now, _ = vocab.build([["B-52"]], ["LOC"], scheme="BIO")
    assert vocabulary == dataclasses.replace(now, singletons=(0, 0))
    other, _ = vocab.build([["B-52"]], ["LOC"], scheme="BIO", zero_digits=True)
    assert vocabulary != other


def test_documents_have_a_label_for_separators():
    vocabulary, _ = vocab.build(SENTENCES, ["LOC"], scheme="BIO", documents=True)
    assert vocabulary.label_names == ("O", "B-LOC", "I-LOC", vocab.SEPARATOR)
    assert vocabulary.reads_documents
    assert vocab.Vocabulary.from_json(vocabulary.to_json()).reads_documents


def test_no_lower_case_stands_in_where_that_is_switched_off():
    options = {"vectors": vectors("rome", "x"), "train_words": False}
    vocabulary, _ = vocab.build([["Rome"]], ["LOC"], **options)
    assert vocabulary.words[vocabulary.word_id("Rome")] == "rome"
    strict, _ = vocab.build([["Rome"]], ["LOC"], lowercase_fallback=False, **options)
    assert strict.word_id("Rome") == vocab.UNKNOWN
    assert strict.words[strict.word_id("rome")] == "rome"
    assert vocab.Vocabulary.from_json(strict.to_json()) == strict != vocabulary


@pytest.mark.parametrize("fallback", [True, False])
def test_trained_words_begin_with_their_lower_case_only_where_it_stands_in(fallback):
    """As in NCRF++; Strubell et al.'s program has a drawn vector for such a word."""
    vocabulary, aligned = vocab.build(
        [["Rome", "x"]],
        ["LOC"],
        vectors=vectors("rome", "x"),
        min_count=1,
        lowercase_fallback=fallback,
    )
    # Either way it is a word of its own.
    rome = vocabulary.word_id("Rome")
    assert vocabulary.words[rome] == "Rome"
    assert (rome in aligned.rows) == fallback
    # ROME does not occur in training.
    known = vocabulary.words[vocabulary.word_id("ROME")]
    assert known == ("rome" if fallback else "<unk>")


def test_treebank_escapes_are_undone_for_words_characters_and_capitals():
    tokens = ["-LRB-", "Rome", "-RRB-", "/."]
    plain, _ = vocab.build([["(", "Rome", ")", "."]], ["LOC"])
    vocabulary, _ = vocab.build([tokens], ["LOC"], unescape=True)
    assert vocabulary.words == plain.words
    for a, b in zip(
        vocabulary.encode(tokens), plain.encode(["(", "Rome", ")", "."]), strict=True
    ):
        np.testing.assert_array_equal(a, b)


def test_tags_are_labels_as_they_are():
    tags = ["VB", "NN", "''", "NN"]
    vocabulary, _ = vocab.build(SENTENCES, tags, scheme="tags")
    assert vocabulary.label_names == ("''", "NN", "VB")
    assert vocabulary.label_ids(["NN", "''"]).tolist() == [1, 0]
    assert not vocabulary.reads_documents
    assert vocab.Vocabulary.from_json(vocabulary.to_json()) == vocabulary
    documents, _ = vocab.build(SENTENCES, tags, scheme="tags", documents=True)
    assert documents.label_names == ("''", "NN", "VB", vocab.SEPARATOR)
    with pytest.raises(ValueError, match="'<sep>' is reserved for separators"):
        vocab.build(SENTENCES, ["NN", "<sep>"], scheme="tags")


def test_tokens_seen_before_are_forgotten_before_they_fill_the_memory(monkeypatch):
    vocabulary, _ = vocab.build([["Rome", "is", "old"]], ["LOC"])
    before = vocabulary.encode(["Rome", "was", "OLD"])
    monkeypatch.setattr(vocab, "_MOST_SEEN", 2)
    for _ in range(2):
        after = vocabulary.encode(["Rome", "was", "OLD"])
        assert len(vocabulary._seen) <= 3
        for ours, theirs in zip(after[:4], before[:4], strict=True):
            np.testing.assert_array_equal(ours, theirs)
    after.words[0] = 0  # what is handed out is the caller's
    assert vocabulary.encode(["Rome"]).words[0] == before.words[0]


def test_what_is_forgotten_is_looked_up_anew(monkeypatch):
    vocabulary, _ = vocab.build([["Rome", "is", "old"]], ["LOC"])
    looked_up, normalise = [], vocab.Vocabulary.normalise

    def spy(self, token):
        looked_up.append(token)
        return normalise(self, token)

    monkeypatch.setattr(vocab.Vocabulary, "normalise", spy)
    before = vocabulary.encode(["Rome", "was", "Rome"])
    vocabulary.encode(["was"])
    assert looked_up == ["Rome", "was"]
    vocabulary.forget()
    after = vocabulary.encode(["Rome", "was", "Rome"])
    assert looked_up == ["Rome", "was"] * 2
    for ours, theirs in zip(after[:4], before[:4], strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_vocabulary_in_use_can_be_copied():
    vocabulary, _ = vocab.build([["Rome"]], ["LOC"])
    vocabulary.encode(["Rome"])
    other = copy.deepcopy(vocabulary)
    assert other == vocabulary
    assert other.encode(["Rome"]).words.tolist() == [2]


def test_a_word_is_spelled_once_and_its_end_beyond_the_limit_is_not_read():
    vocabulary, _ = vocab.build([["ab", "b"]], ["LOC"])
    long = "a" * (vocab.MAX_CHARACTERS + 5)
    sentence = vocabulary.encode(["ab", long, "ab", long + "b"])
    assert sentence.char_index.tolist() == [1, 2, 1, 2]
    assert sentence.chars.shape == (3, vocab.MAX_CHARACTERS)
    assert sentence.words.tolist() == [2, 1, 2, 1]
