"""The vocabulary: ids, rules of look-up, labels, and which vectors are trained."""

import copy

import numpy as np
import pytest

from jaxner.data import vocabulary as vocab
from jaxner.data.vectors import Vectors
from jaxner.errors import InputError

SENTENCES = [["Rome", "wins", "Rome"], ["rome", "WINS", "naïve"]]
NUMBERS = [["B-52", "in", "1996"], ["B-17", "in", "2024", "3M"]]


def vectors(*words):
    values = np.arange(2 * len(words), dtype=np.float32).reshape(-1, 2)
    return Vectors(tuple(words), values)


def build(sentences=SENTENCES, types=("LOC",), **options):
    return vocab.build(sentences, types, **options)


def equal(a, b):
    for left, right in zip(a, b, strict=True):
        np.testing.assert_array_equal(left, right)


FREEZE, CASE = {"train_words": False}, {"lowercase_fallback": False}
EXACT = {"singletons_with_vectors": False}


@pytest.mark.parametrize(
    ("options", "file", "trained", "frozen", "rare"),
    [
        # By frequency, then by name; those that occur once are the last.
        ({}, "", "Rome WINS naïve rome wins", "", "WINS naïve rome wins"),
        ({"lowercase": True}, "", "rome wins naïve", "", "naïve"),
        ({"min_count": 2}, "", "Rome", "", ""),
        (FREEZE, "", "", "", ""),
        (CASE, "rome naïve", "Rome WINS naïve rome wins", "", "WINS naïve rome wins"),
        # A rare word shares the row of its lower case, or is unknown without a vector.
        ({"min_count": 2}, "rome Paris wins", "Rome wins rome", "Paris", "rome"),
        # Those that occur once are the first where none is trained.
        (FREEZE, "x naïve Rome wins", "", "naïve x Rome wins", "naïve"),
        (FREEZE | CASE, "x naïve wins", "", "naïve wins x", "naïve wins"),
        # Those that have a vector can be read as they are.
        (EXACT, "rome naïve", "Rome naïve rome WINS wins", "", "WINS wins"),
        (FREEZE | EXACT, "x naïve Rome wins", "", "x naïve Rome wins", ""),
        # A lower-cased word never matches a cased key.
        ({**FREEZE, "lowercase": True}, "rome Rome x", "", "rome x", ""),
    ],
)
def test_words_stand_by_frequency_and_vector(options, file, trained, frozen, rare):
    pretrained = vectors(*file.split()) if file else None
    vocabulary, tables = build(vectors=pretrained, **options)
    words = ["<pad>", "<unk>", *trained.split(), *frozen.split()]
    assert vocabulary.words == tuple(words)
    assert vocabulary.num_trained == 2 + len(trained.split())
    assert words[slice(*vocabulary.singletons)] == rare.split()
    if file:
        rows = dict(zip(pretrained.words, pretrained.values.tolist(), strict=True))
        assert tables.frozen.tolist() == [rows[word] for word in frozen.split()]
        # What is trained begins with its vector, or with that of its lower case.
        starts = dict(zip(tables.rows.tolist(), tables.trained.tolist(), strict=True))
        falls_back = options.get("lowercase_fallback", True)
        for i, word in enumerate(trained.split(), 2):
            lower = rows.get(word.lower()) if falls_back else None
            assert starts.get(i) == rows.get(word, lower)


def test_words_without_a_vector_are_unknown_however_frequent():
    vocabulary, tables = build(vectors=vectors("rome", "Rome", "x"), **FREEZE)
    ids = vocabulary.encode(["Rome", "wins", "ROME", "x"]).words
    assert [vocabulary.words[i] for i in ids] == ["Rome", "<unk>", "rome", "x"]
    assert tables.types_matched == pytest.approx(2 / 5)
    assert tables.tokens_matched == pytest.approx(3 / 6)


def test_digits_and_escapes_are_one_for_words_characters_and_capitals():
    numbers = vectors("0000", "1996")
    vocabulary, tables = build(NUMBERS, vectors=numbers, zero_digits=True)
    assert set(vocabulary.words[2:]) == {"B-00", "in", "0000", "0M", "1996"}
    assert set(vocabulary.chars[2:]) == set("B-0inM")
    assert tables.types_matched == pytest.approx(1 / 4)
    first, second = (vocabulary.encode(s) for s in (["B-52", "3M"], ["B-09", "7M"]))
    equal(first[:5], second[:5])
    assert first.caps.tolist() == [2, 3]
    tokens, brackets = ["-LRB-", "Rome", "/."], ["(", "Rome", "."]
    plain, _ = build([brackets])
    vocabulary, _ = build([tokens], unescape=True)
    equal(vocabulary.encode(tokens)[:5], plain.encode(brackets)[:5])


def test_both_forms_of_an_accent_are_the_same_word():
    """As macOS writes names of files, and as most text has it."""
    composed, decomposed = "Zürich", "Zu\u0308rich"
    vocabulary, tables = build([[decomposed]], vectors=vectors(composed, "x"))
    assert set(vocabulary.words[2:]) == {composed, "x"}
    assert tables.tokens_matched == 1
    equal(*(vocabulary.encode([x])[:5] for x in (composed, decomposed)))
    mixed, _ = build([["x"]], vectors=vectors(decomposed, composed))
    assert set(mixed.words[2:]) == {composed, "x"}


def test_a_word_is_spelled_once_and_its_end_beyond_the_limit_is_not_read(monkeypatch):
    vocabulary, _ = build([["ab", "b"]], lowercase=True)
    long = "a" * (vocab.MAX_CHARACTERS + 5)
    sentence = vocabulary.encode(["ab", long, "ab", long + "b"])
    assert sentence.char_index.tolist() == [1, 2, 1, 2]
    assert sentence.chars.shape == (3, vocab.MAX_CHARACTERS)
    assert sentence.words.tolist() == [2, 1, 2, 1]
    # Lower-casing leaves characters alone.
    assert vocabulary.encode(["Ab"]).words.tolist() == [2]
    assert vocabulary.encode(["Ab"]).chars[1, 0] == vocab.UNKNOWN
    monkeypatch.setattr(vocab, "_CACHE_SIZE", 2)
    vocabulary.encode([*"abcde"])
    assert len(vocabulary._seen) <= 2


def test_characters_have_types_which_unknown_ones_may_keep():
    assert build(alphabet="aZ9.é")[0].char_types == (0, 0, 4, 3, 1, 2, 0)
    vocabulary, _ = build(alphabet="ab.", typed_unknowns=True)
    assert vocabulary.chars == ("<pad>", "<unk>", ".", "a", "b")
    assert vocabulary.char_types == (0, 0, 4, 2, 2, *(1, 2, 3, 4))
    assert vocabulary.encode(["aZz7_é"]).chars[1].tolist() == [3, 5, 6, 7, 8, 1]
    plain, _ = build(alphabet="ab.")
    assert plain.encode(["aZz7_é"]).chars[1].tolist() == [3, 1, 1, 1, 1, 1]


def test_labels_given_as_types_are_understood():
    vocabulary, _ = build(types=["B-ORG", "O"], scheme="BIO")
    assert vocabulary.label_names == ("O", "B-ORG", "I-ORG")
    for types, names in ((["B", "I", "O"], "_"), (["B", "I"], "BI"), (["L"], "L")):
        assert build(types=types, scheme="BIO")[0].types == tuple(names)
    for types, scheme in ((["ORG", "O"], "BIO"), (["NN", "<sep>"], "tags")):
        with pytest.raises(InputError):
            build(types=types, scheme=scheme)
    # Of types that happen to begin like labels, nothing is cut.
    vocabulary, _ = build(types=["B-52", "LOC"], scheme="BIO")
    assert vocabulary.label_names[1] == "B-B-52"


def test_tags_are_labels_and_documents_have_one_for_separators():
    tags = ["VB", "NN", "''", "NN", "O", "B-X"]
    for documents, extra in ((False, ()), (True, (vocab.SEPARATOR,))):
        vocabulary, _ = build(types=tags, scheme="tags", documents=documents)
        assert vocabulary.label_names == ("''", "B-X", "NN", "O", "VB", *extra)
        assert vocabulary.reads_documents == documents
    assert vocabulary.word_id(vocab.SEPARATOR) == vocab.UNKNOWN


def test_json_keeps_the_fingerprint():
    options = {"zero_digits": True, "documents": True, "typed_unknowns": True}
    vocabulary, _ = build(types=["LOC", "événement"], **options)
    twin = vocab.Vocabulary.from_json(vocabulary.to_json())
    assert twin.fingerprint == vocabulary.fingerprint
    assert twin.singletons == vocabulary.singletons
    assert build()[0] != vocabulary
    vocabulary.encode(["Rome"])  # fills a cache
    assert copy.deepcopy(vocabulary) == vocabulary
