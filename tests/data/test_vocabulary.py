"""The vocabulary: ids, rules of look-up, labels, and which vectors are trained."""

import copy
import dataclasses
import string

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxner.data import vocabulary as vocab
from jaxner.data.vectors import Vectors
from jaxner.errors import InputError
from jaxner.models.representation import NUM_TYPES
from jaxner.types import Caps

SENTENCES = [["Rome", "wins", "Rome"], ["rome", "WINS", "naïve"]]
NUMBERS = [["B-52", "in", "1996"], ["B-17", "in", "2024", "3M"]]


def vectors(*words):
    values = np.arange(2 * len(words), dtype=np.float32).reshape(-1, 2)
    return Vectors(tuple(words), values)


def build(sentences=SENTENCES, types=("LOC",), **options):
    return vocab.build(sentences, types, **options)


def equal(a, b):
    for ours, theirs in zip(a, b, strict=True):
        np.testing.assert_array_equal(ours, theirs)


# --- Surface features ----------------------------------------------------------------

CASES = {
    "": Caps.NONE,
    "EU": Caps.ALL,
    "U.N.": Caps.ALL_FIRST,
    "3M": Caps.ALL_LATER,
    "F-16s": Caps.FIRST,
    "1Ab": Caps.LATER,
    "mid-1990s": Caps.LOWER,
    "1996": Caps.UNCASED,
    "第一": Caps.UNCASED,
}


def test_caps():
    assert {token: vocab.caps(token) for token in CASES} == CASES
    assert [int(kind) for kind in Caps] == list(range(8))


@given(st.text(min_size=1))
def test_caps_are_the_rules_of_python(token):
    kind = vocab.caps(token)
    assert (kind in (Caps.ALL, Caps.ALL_FIRST, Caps.ALL_LATER)) == token.isupper()
    assert (kind is Caps.ALL) == all(char.isupper() for char in token)
    first = kind in (Caps.ALL, Caps.ALL_FIRST, Caps.FIRST)
    assert first == token[0].isupper()
    assert (kind is Caps.LOWER) == token.islower()


def test_character_types():
    letters = string.ascii_uppercase, string.ascii_lowercase
    expected = [*letters, string.digits, string.punctuation]
    for kind, chars in enumerate([*expected, "éÉ第٣ \t–€"], 1):
        types = build(alphabet=chars)[0].char_types
        assert set(types[2:]) == {kind % 5}
    assert len(vocab.CHAR_TYPES) == NUM_TYPES == len(expected)
    assert build(alphabet="aZ9.é")[0].char_types == (0, 0, 4, 3, 1, 2, 0)


# --- Words ---------------------------------------------------------------------------


def once(vocabulary):
    return list(vocabulary.words[slice(*vocabulary.singletons)])


def test_ids_come_from_training_words_by_frequency():
    vocabulary, _ = build(types=["LOC", "ORG"])
    words = ("<pad>", "<unk>", "Rome", "WINS", "naïve", "rome", "wins")
    assert vocabulary.words == words
    assert vocabulary.num_trained == 7
    assert vocabulary.encode(["Rome", "falls", "NAÏVE"]).words.tolist() == [2, 1, 4]
    assert vocabulary.label_names[0] == "O"
    assert len(vocabulary.label_names) == 9


def test_words_that_occur_once_are_the_last_of_the_trained_ones():
    vocabulary, _ = build(vectors=vectors("Paris", "Rome"))
    assert once(vocabulary) == ["WINS", "naïve", "rome", "wins"]
    # "wins" and "WINS" are the same word, and so are "Rome" and "rome".
    assert once(build(lowercase=True)[0]) == ["naïve"]
    # What is rare and has no vector is unknown, and nothing occurs once.
    assert once(build(min_count=2)[0]) == []


def test_words_that_occur_once_are_the_first_where_none_is_trained():
    file = vectors("x", "naïve", "Rome", "y", "wins")
    vocabulary, aligned = build(vectors=file, train_words=False)
    # WINS counts as "wins", its lower case.
    assert vocabulary.words[2:] == ("naïve", "x", "Rome", "y", "wins")
    assert once(vocabulary) == ["naïve"]
    assert aligned.frozen[:, 0].tolist() == [2, 0, 4, 6, 8]
    strict, _ = build(vectors=file, train_words=False, lowercase_fallback=False)
    assert once(strict) == ["naïve", "wins"]


def test_lower_casing_leaves_characters_alone():
    vocabulary, _ = build(lowercase=True)
    assert vocabulary.words[2:] == ("rome", "wins", "naïve")
    sentence = vocabulary.encode(["ROME", "Rome"])
    assert sentence.words.tolist() == [2, 2]
    assert sentence.chars[1].tolist() != sentence.chars[2].tolist()
    assert vocabulary.encode(["Rx"]).chars[1, 1] == vocab.UNKNOWN


def test_rare_words_without_a_vector_are_unknown():
    vocabulary, aligned = build(vectors=vectors("rome", "Paris", "wins"), min_count=2)
    # "Rome" is frequent; "WINS" shares the row of "wins"; "naïve" is unknown.
    assert vocabulary.words[2:] == ("Rome", "wins", "rome", "Paris")
    assert vocabulary.num_trained == 5
    assert vocabulary.encode(["WINS", "naïve", "Paris"]).words.tolist() == [3, 1, 5]
    # "Rome" begins at the vector of "rome"; both are trained apart.
    assert aligned.rows.tolist() == [2, 3, 4]
    assert aligned.trained.tolist() == [[0, 1], [4, 5], [0, 1]]
    assert aligned.frozen.tolist() == [[2, 3]]
    assert aligned.types_matched == pytest.approx(4 / 5)
    assert aligned.tokens_matched == pytest.approx(5 / 6)


def test_vectors_that_stay_as_given():
    file = vectors("rome", "Rome", "x")
    vocabulary, aligned = build(vectors=file, train_words=False)
    assert vocabulary.num_trained == 2  # padding, and the unknown word
    assert vocabulary.words == ("<pad>", "<unk>", "rome", "Rome", "x")
    assert (aligned.rows.shape, aligned.trained.shape) == ((0,), (0, 2))
    np.testing.assert_array_equal(aligned.frozen, file.values)
    # Words without a vector are unknown, however frequent.
    ids = vocabulary.encode(["Rome", "wins", "ROME", "x"]).words
    assert ids.tolist() == [3, 1, 2, 4]
    assert aligned.types_matched == pytest.approx(2 / 5)
    assert aligned.tokens_matched == pytest.approx(3 / 6)
    # A lower-cased word never matches a cased key.
    lower, aligned = build(vectors=file, lowercase=True, train_words=False)
    assert lower.words[2:] == ("rome", "x")
    assert aligned.frozen.tolist() == [[0, 1], [4, 5]]
    nothing, aligned = build(train_words=False)
    assert (nothing.words, aligned) == (("<pad>", "<unk>"), None)


@pytest.mark.parametrize("fallback", [True, False])
def test_trained_words_begin_with_their_lower_case_only_where_it_stands_in(fallback):
    """As in NCRF++; Strubell et al.'s program has a drawn vector for such a word."""
    vocabulary, aligned = build(
        [["Rome", "x"]], vectors=vectors("rome", "x"), lowercase_fallback=fallback
    )
    rome = vocabulary.word_id("Rome")
    assert vocabulary.words[rome] == "Rome"
    assert (rome in aligned.rows) == fallback
    # ROME does not occur in training.
    known = vocabulary.words[vocabulary.word_id("ROME")]
    assert known == ("rome" if fallback else "<unk>")


def test_digits_and_escapes_are_one_for_words_characters_and_capitals():
    vocabulary, aligned = build(
        NUMBERS, vectors=vectors("0000", "1996"), zero_digits=True
    )
    assert set(vocabulary.words[2:]) == {"B-00", "in", "0000", "0M", "1996"}
    assert set(vocabulary.chars[2:]) == set("B-0inM")
    assert aligned.types_matched == pytest.approx(1 / 4)
    first, second = (vocabulary.encode(s) for s in (["B-52", "3M"], ["B-09", "7M"]))
    equal(first[:5], second[:5])
    assert first.caps.tolist() == [2, 3]
    tokens = ["-LRB-", "Rome", "-RRB-", "/."]
    plain, _ = build([["(", "Rome", ")", "."]])
    vocabulary, _ = build([tokens], unescape=True)
    assert vocabulary.words == plain.words
    equal(vocabulary.encode(tokens)[:5], plain.encode(["(", "Rome", ")", "."])[:5])


# --- Encoding ------------------------------------------------------------------------


def test_empty_sentences_and_tokens():
    vocabulary, _ = build()
    for tokens in ([], [""]):
        encoded = vocabulary.encode(tokens)
        assert encoded.chars.tolist() == [[0]]
        assert encoded.char_index.tolist() == encoded.caps.tolist() == [0] * len(tokens)


def test_a_word_is_spelled_once_and_its_end_beyond_the_limit_is_not_read():
    vocabulary, _ = build([["ab", "b"]])
    long = "a" * (vocab.MAX_CHARACTERS + 5)
    sentence = vocabulary.encode(["ab", long, "ab", long + "b"])
    assert sentence.char_index.tolist() == [1, 2, 1, 2]
    assert sentence.chars.shape == (3, vocab.MAX_CHARACTERS)
    assert sentence.words.tolist() == [2, 1, 2, 1]


def test_unknown_characters_may_keep_their_type():
    vocabulary, _ = build(alphabet="ab.", typed_unknowns=True)
    assert vocabulary.chars == ("<pad>", "<unk>", ".", "a", "b")
    assert vocabulary.char_types == (0, 0, 4, 2, 2, *(1, 2, 3, 4))
    assert vocabulary.encode(["aZz7_é"]).chars[1].tolist() == [3, 5, 6, 7, 8, 1]
    plain, _ = build(alphabet="ab.")
    assert plain.encode(["aZz7_é"]).chars[1].tolist() == [3, 1, 1, 1, 1, 1]


# --- Labels --------------------------------------------------------------------------


def test_labels_both_ways():
    vocabulary, _ = build(scheme="BIO")
    names = ["O", "B-LOC", "I-LOC"]
    assert vocabulary.decode(vocabulary.label_ids(names)) == names
    with pytest.raises(InputError, match="B-PER"):
        vocabulary.label_ids(["B-PER"])


def test_labels_given_as_types_are_understood():
    vocabulary, _ = build(types=["B-ORG", "O"], scheme="BIO")
    assert vocabulary.label_names == ("O", "B-ORG", "I-ORG")
    for types, scheme in ((["ORG", "O"], "BIO"), (["NN", "<sep>"], "tags")):
        with pytest.raises(InputError):
            build(types=types, scheme=scheme)
    # Of types that happen to begin like labels, nothing is cut.
    vocabulary, _ = build(types=["B-52", "LOC"], scheme="BIO")
    assert vocabulary.label_names[1] == "B-B-52"


def test_tags_are_labels_and_documents_have_one_for_separators():
    tags = ["VB", "NN", "''", "NN", "O", "B-X"]
    for documents, more in ((False, ()), (True, (vocab.SEPARATOR,))):
        vocabulary, _ = build(types=tags, scheme="tags", documents=documents)
        assert vocabulary.label_names == ("''", "B-X", "NN", "O", "VB", *more)
        assert vocabulary.reads_documents == documents
    assert vocabulary.word_id(vocab.SEPARATOR) == vocab.UNKNOWN


# --- Identity ------------------------------------------------------------------------


def test_json_keeps_the_fingerprint():
    options = {"zero_digits": True, "documents": True, "typed_unknowns": True}
    vocabulary, _ = build(types=["LOC", "événement"], **options)
    again = vocab.Vocabulary.from_json(vocabulary.to_json())
    assert (again, hash(again)) == (vocabulary, hash(vocabulary))
    assert again.singletons == vocabulary.singletons
    assert build()[0] != vocabulary
    vocabulary.encode(["Rome"])
    copied = copy.deepcopy(vocabulary)
    assert copied == vocabulary
    equal(copied.encode(["Rome"])[:5], vocabulary.encode(["Rome"])[:5])


def test_a_vocabulary_of_before_has_the_defaults():
    """What a run wrote that knew no `zero_digits` still loads."""
    text = (
        '{"words": ["<pad>", "<unk>", "B-52"], "num_trained": 3, "chars": ["<pad>", '
        '"<unk>", "-", "2", "5", "B"], "label_names": ["O", "B-LOC", "I-LOC"], '
        '"scheme": "BIO", "lowercase": false}'
    )
    vocabulary = vocab.Vocabulary.from_json(text)
    assert vocabulary.encode(["B-52", "B-00"]).words.tolist() == [2, 1]
    now, _ = build([["B-52"]], scheme="BIO")
    assert vocabulary == dataclasses.replace(now, singletons=(0, 0))
    assert vocabulary != build([["B-52"]], scheme="BIO", zero_digits=True)[0]


def test_a_fingerprint_is_a_contract_with_saved_runs():
    vocabulary, _ = build(scheme="BIO")
    assert vocabulary.fingerprint.startswith("58e0d8f5af499d12")
