"""The lexicon: ids, look-up rules, and which vectors are trained."""

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
    lexicon, _ = vocab.build(SENTENCES, ["LOC", "ORG"])
    assert lexicon.words == ("<pad>", "<unk>", "Rome", "WINS", "naïve", "rome", "wins")
    assert lexicon.num_trained == 7
    assert lexicon.encode(["Rome", "falls", "NAÏVE"]).words.tolist() == [2, 1, 4]
    assert lexicon.label_names[0] == "O"
    assert len(lexicon.label_names) == 9


def once(lexicon):
    first, end = lexicon.singletons
    return list(lexicon.words[first:end])


def test_words_that_occur_once_are_the_last_of_the_trained_ones():
    lexicon, _ = vocab.build(SENTENCES, ["LOC"], vectors=vectors("Paris", "Rome"))
    assert once(lexicon) == ["WINS", "naïve", "rome", "wins"]
    assert lexicon.singletons == (3, 7)
    assert vocab.Lexicon.from_json(lexicon.to_json()).singletons == (3, 7)
    # "wins" and "WINS" are one word, and so are "Rome" and "rome".
    lexicon, _ = vocab.build(SENTENCES, ["LOC"], lowercase=True)
    assert once(lexicon) == ["naïve"]
    # What is rare and has no vector is unknown, and nothing occurs once.
    lexicon, _ = vocab.build(SENTENCES, ["LOC"], min_count=2)
    assert once(lexicon) == []


def test_words_that_occur_once_are_the_first_where_none_is_trained():
    given = vectors("x", "naïve", "Rome", "y", "wins")
    lexicon, aligned = vocab.build(SENTENCES, ["LOC"], vectors=given, train_words=False)
    # WINS counts as "wins", its lower case.
    assert lexicon.words[2:] == ("naïve", "x", "Rome", "y", "wins")
    assert once(lexicon) == ["naïve"]
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
    lexicon, _ = vocab.build(SENTENCES, ["LOC"], lowercase=True)
    assert lexicon.words[2:] == ("rome", "wins", "naïve")
    sentence = lexicon.encode(["ROME", "Rome"])
    assert sentence.words.tolist() == [2, 2]
    assert sentence.chars[1].tolist() != sentence.chars[2].tolist()
    assert lexicon.encode(["Rx"]).chars[1, 1] == vocab.UNKNOWN


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
    assert lexicon.encode([]).chars.tolist() == [[0]]
    assert lexicon.encode([""]).chars.tolist() == [[0]]
    assert lexicon.encode([""]).char_index.tolist() == [0]


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


# --- Digits, characters, capitals, and vectors that stay as given ---------------------

NUMBERS = [["B-52", "in", "1996"], ["B-17", "in", "2024", "3M"]]


def test_digits_are_one_for_words_characters_and_capitals():
    lexicon, _ = vocab.build(NUMBERS, ["LOC"], zero_digits=True)
    assert set(lexicon.words[2:]) == {"B-00", "in", "0000", "0M"}
    assert set(lexicon.chars[2:]) == set("B-0inM")
    one, other = (lexicon.encode(s) for s in (["B-52", "3M"], ["B-09", "7M"]))
    for left, right in zip(one, other, strict=True):
        np.testing.assert_array_equal(left, right)
    assert one.words.min() >= 2
    assert (one.chars[1] >= 2).all()
    assert one.caps.tolist() == [2, 3]
    assert lexicon.word_id("B-99") == one.words[0]
    # The tokens that come in are left alone.
    tokens = ["B-52"]
    lexicon.encode(tokens)
    assert tokens == ["B-52"]


def test_digits_count_together_and_meet_vectors_of_zeros():
    lexicon, aligned = vocab.build(
        NUMBERS, ["LOC"], vectors=vectors("0000", "1996"), zero_digits=True, min_count=2
    )
    assert lexicon.words[2 : lexicon.num_trained] == ("0000", "B-00", "in")
    assert lexicon.words[lexicon.num_trained :] == ("1996",)  # never met again
    assert aligned.rows.tolist() == [2]
    assert aligned.trained.tolist() == [[0, 1]]
    assert aligned.types_matched == pytest.approx(1 / 4)
    assert aligned.tokens_matched == pytest.approx(2 / 7)
    assert lexicon.encode(["1996", "3M"]).words.tolist() == [2, 1]


def test_digits_stay_by_default():
    lexicon, _ = vocab.build(NUMBERS, ["LOC"])
    assert {"1996", "2024", "B-52"} <= set(lexicon.words)
    assert not lexicon.zero_digits


def test_vectors_that_stay_as_given():
    given = vectors("rome", "Rome", "x")
    lexicon, aligned = vocab.build(SENTENCES, ["LOC"], vectors=given, train_words=False)
    assert lexicon.num_trained == 2  # padding, and the unknown word
    assert lexicon.words == ("<pad>", "<unk>", "rome", "Rome", "x")
    assert aligned.rows.shape == (0,)
    assert aligned.trained.shape == (0, 2)
    np.testing.assert_array_equal(aligned.frozen, given.values)
    # Words without a vector are unknown, however frequent.
    assert lexicon.encode(["Rome", "wins", "ROME", "x"]).words.tolist() == [3, 1, 2, 4]
    assert aligned.types_matched == pytest.approx(2 / 5)
    assert aligned.tokens_matched == pytest.approx(3 / 6)


def test_vectors_that_stay_as_given_and_are_lower_cased():
    lexicon, aligned = vocab.build(
        SENTENCES,
        ["LOC"],
        vectors=vectors("rome", "Rome"),
        lowercase=True,
        train_words=False,
    )
    assert lexicon.words == ("<pad>", "<unk>", "rome")
    assert aligned.frozen.tolist() == [[0, 1]]


def test_words_without_vectors_and_training_are_all_unknown():
    lexicon, aligned = vocab.build(SENTENCES, ["LOC"], train_words=False)
    assert aligned is None
    assert lexicon.words == ("<pad>", "<unk>")
    assert lexicon.encode(["Rome"]).words.tolist() == [1]


def test_an_alphabet_takes_the_place_of_the_training_characters():
    lexicon, _ = vocab.build(SENTENCES, ["LOC"], alphabet="mRo!mo")
    assert lexicon.chars == ("<pad>", "<unk>", "!", "R", "m", "o")
    assert lexicon.encode(["Rome!"]).chars.tolist()[1:] == [[3, 5, 4, 1, 2]]
    assert lexicon.words == vocab.build(SENTENCES, ["LOC"])[0].words


def test_character_types_belong_to_ids():
    lexicon, _ = vocab.build(SENTENCES, ["LOC"], alphabet="aZ9.é")
    types = dict(zip(lexicon.chars, lexicon.char_types, strict=True))
    assert types == {"<pad>": 0, "<unk>": 0, "a": 2, "Z": 1, "9": 3, ".": 4, "é": 0}


def test_unknown_characters_may_keep_their_type():
    options = {"alphabet": "ab.", "typed_unknowns": True}
    lexicon, _ = vocab.build(SENTENCES, ["LOC"], **options)
    assert lexicon.chars == ("<pad>", "<unk>", ".", "a", "b")
    assert lexicon.char_types == (0, 0, 4, 2, 2, *(1, 2, 3, 4))
    chars = lexicon.encode(["aZz7_é"]).chars[1]
    assert chars.tolist() == [3, 5, 6, 7, 8, vocab.UNKNOWN]
    types = [lexicon.char_types[char] for char in chars]
    assert types == [2, 1, 2, 3, 4, 0]
    assert vocab.Lexicon.from_json(lexicon.to_json()) == lexicon
    plain, _ = vocab.build(SENTENCES, ["LOC"], alphabet="ab.")
    assert plain.encode(["aZz7_é"]).chars[1].tolist() == [3, 1, 1, 1, 1, 1]


def test_capitals_are_those_of_the_token_whatever_the_look_up():
    tokens = ["EU", "U.N.", "3M", "Rome", "eBay", "wins", "1996"]
    for lowercase in (False, True):
        lexicon, _ = vocab.build(SENTENCES, ["LOC"], lowercase=lowercase)
        encoded = lexicon.encode(tokens)
        assert encoded.caps.tolist() == [1, 2, 3, 4, 5, 6, 7]
        assert encoded.caps.dtype == np.int32
        assert encoded.mask.all()
    assert lexicon.encode([]).caps.shape == (0,)
    assert lexicon.encode([""]).caps.tolist() == [0]


def test_a_lexicon_of_before_has_the_defaults():
    """What a run wrote that knew no `zero_digits` still loads."""
    text = (
        '{"words": ["<pad>", "<unk>", "B-52"], "num_trained": 3, "chars": ["<pad>", '
        '"<unk>", "-", "2", "5", "B"], "label_names": ["O", "B-LOC", "I-LOC"], '
        '"scheme": "BIO", "lowercase": false}'
    )
    lexicon = vocab.Lexicon.from_json(text)
    assert lexicon.zero_digits is False
    assert not lexicon.reads_documents
    assert lexicon.encode(["B-52", "B-00"]).words.tolist() == [2, 1]
    assert lexicon.singletons == (0, 0)  # it was not recorded which these are
    assert not lexicon.typed_unknowns
    now, _ = vocab.build([["B-52"]], ["LOC"], scheme="BIO")
    assert lexicon == dataclasses.replace(now, singletons=(0, 0))
    other, _ = vocab.build([["B-52"]], ["LOC"], scheme="BIO", zero_digits=True)
    assert lexicon != other


def test_documents_have_a_label_for_separators():
    lexicon, _ = vocab.build(SENTENCES, ["LOC"], scheme="BIO", documents=True)
    assert lexicon.label_names == ("O", "B-LOC", "I-LOC", vocab.SEPARATOR)
    assert lexicon.reads_documents
    assert vocab.Lexicon.from_json(lexicon.to_json()).reads_documents


def test_no_lower_case_stands_in_where_that_is_switched_off():
    options = {"vectors": vectors("rome", "x"), "train_words": False}
    lexicon, _ = vocab.build([["Rome"]], ["LOC"], **options)
    assert lexicon.words[lexicon.word_id("Rome")] == "rome"
    strict, _ = vocab.build([["Rome"]], ["LOC"], lowercase_fallback=False, **options)
    assert strict.word_id("Rome") == vocab.UNKNOWN
    assert strict.words[strict.word_id("rome")] == "rome"
    assert vocab.Lexicon.from_json(strict.to_json()) == strict != lexicon


@pytest.mark.parametrize("fallback", [True, False])
def test_trained_words_begin_with_their_lower_case_only_where_it_stands_in(fallback):
    """As in NCRF++; Strubell et al.'s program has a drawn vector for such a word."""
    lexicon, aligned = vocab.build(
        [["Rome", "x"]],
        ["LOC"],
        vectors=vectors("rome", "x"),
        min_count=1,
        lowercase_fallback=fallback,
    )
    # Either way it is a word of its own.
    rome = lexicon.word_id("Rome")
    assert lexicon.words[rome] == "Rome"
    assert (rome in aligned.rows) == fallback
    # ROME does not occur in training.
    known = lexicon.words[lexicon.word_id("ROME")]
    assert known == ("rome" if fallback else "<unk>")


def test_treebank_escapes_are_undone_for_words_characters_and_capitals():
    tokens = ["-LRB-", "Rome", "-RRB-", "/."]
    plain, _ = vocab.build([["(", "Rome", ")", "."]], ["LOC"])
    lexicon, _ = vocab.build([tokens], ["LOC"], unescape=True)
    assert lexicon.words == plain.words
    for a, b in zip(
        lexicon.encode(tokens), plain.encode(["(", "Rome", ")", "."]), strict=True
    ):
        np.testing.assert_array_equal(a, b)


def test_tags_are_labels_as_they_are():
    tags = ["VB", "NN", "''", "NN"]
    lexicon, _ = vocab.build(SENTENCES, tags, scheme="tags")
    assert lexicon.label_names == ("''", "NN", "VB")
    assert lexicon.label_ids(["NN", "''"]).tolist() == [1, 0]
    assert not lexicon.reads_documents
    assert vocab.Lexicon.from_json(lexicon.to_json()) == lexicon
    documents, _ = vocab.build(SENTENCES, tags, scheme="tags", documents=True)
    assert documents.label_names == ("''", "NN", "VB", vocab.SEPARATOR)
    with pytest.raises(ValueError, match="'<sep>' is the label of what stands between"):
        vocab.build(SENTENCES, ["NN", "<sep>"], scheme="tags")


def test_tokens_seen_before_are_forgotten_before_they_fill_the_memory(monkeypatch):
    lexicon, _ = vocab.build([["Rome", "is", "old"]], ["LOC"])
    before = lexicon.encode(["Rome", "was", "OLD"])
    monkeypatch.setattr(vocab, "_MOST_SEEN", 2)
    for _ in range(2):
        after = lexicon.encode(["Rome", "was", "OLD"])
        assert len(lexicon._seen) <= 3
        for ours, theirs in zip(after[:4], before[:4], strict=True):
            np.testing.assert_array_equal(ours, theirs)
    after.words[0] = 0  # what is handed out is the caller's
    assert lexicon.encode(["Rome"]).words[0] == before.words[0]


def test_what_is_forgotten_is_looked_up_anew(monkeypatch):
    lexicon, _ = vocab.build([["Rome", "is", "old"]], ["LOC"])
    looked_up, normalise = [], vocab.Lexicon.normalise

    def spy(self, token):
        looked_up.append(token)
        return normalise(self, token)

    monkeypatch.setattr(vocab.Lexicon, "normalise", spy)
    before = lexicon.encode(["Rome", "was", "Rome"])
    lexicon.encode(["was"])
    assert looked_up == ["Rome", "was"]
    lexicon.forget()
    after = lexicon.encode(["Rome", "was", "Rome"])
    assert looked_up == ["Rome", "was"] * 2
    for ours, theirs in zip(after[:4], before[:4], strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_lexicon_in_use_can_be_copied():
    lexicon, _ = vocab.build([["Rome"]], ["LOC"])
    lexicon.encode(["Rome"])
    other = copy.deepcopy(lexicon)
    assert other == lexicon
    assert other.encode(["Rome"]).words.tolist() == [2]


def test_a_word_is_spelled_once_and_its_end_beyond_the_limit_is_not_read():
    lexicon, _ = vocab.build([["ab", "b"]], ["LOC"])
    long = "a" * (vocab.MAX_CHARACTERS + 5)
    sentence = lexicon.encode(["ab", long, "ab", long + "b"])
    assert sentence.char_index.tolist() == [1, 2, 1, 2]
    assert sentence.chars.shape == (3, vocab.MAX_CHARACTERS)
    assert sentence.words.tolist() == [2, 1, 2, 1]
