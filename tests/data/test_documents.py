"""Documents: joined with separators, taken apart again, and encoded for training."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxner.data import documents, splits, vocab
from jaxner.data.readers import conll
from jaxner.training import prepare
from jaxner.types import Caps
from tests.sentences import spelled


def sentence(words, width=2, caps=True):
    words = np.array(words, np.int32)
    kinds = np.full(len(words), Caps.LOWER, np.int32) if caps else None
    return spelled(words, np.ones((len(words), width), np.int32), words > 0, kinds)


# --- Joining and splitting -----------------------------------------------------------


def test_groups_are_in_the_order_of_their_first_sentences():
    assert documents.groups([7, 2, 7, 1, 2]) == [[0, 2], [1, 4], [3]]
    assert documents.groups(["b", ("a", 1), "b"]) == [[0, 2], [1]]
    assert documents.groups([]) == []


def test_separators_stand_before_between_and_after():
    joined = documents.join([sentence([5, 6], 3), sentence([7], 1)])
    assert joined.words.tolist() == [0, 5, 6, 0, 7, 0]
    assert joined.mask.all()  # a separator is a token, ...
    separators = joined.words == 0
    read = joined.chars[joined.char_index]
    assert not read[separators].any()  # ... but one without any feature
    assert set(joined.caps[separators]) == {Caps.NONE}
    assert read.tolist()[4] == [1, 0, 0]
    labels = documents.join_labels([np.array([1, 2]), np.array([3])], separator=9)
    assert labels.tolist() == [9, 1, 2, 9, 3, 9]


def test_sentences_without_tokens_or_caps_can_be_joined():
    assert documents.join([sentence([])]).words.tolist() == [0, 0]
    assert documents.join([sentence([]), sentence([5])]).words.tolist() == [0, 0, 5, 0]
    joined = documents.join([sentence([5], caps=False)])
    assert joined.caps.tolist() == [Caps.NONE] * 3


sizes = st.lists(
    st.tuples(st.integers(0, 5), st.integers(1, 4)), min_size=1, max_size=6
)


@given(sizes, st.integers(0, 2**32 - 1))
def test_splitting_undoes_joining(sizes, seed):
    rng = np.random.default_rng(seed)
    sentences = [
        spelled(
            rng.integers(1, 9, n, np.int32),
            rng.integers(1, 9, (n, width), np.int32),
            np.ones(n, bool),
            rng.integers(1, 8, n, np.int32),
        )
        for n, width in sizes
    ]
    labels = [rng.integers(0, 5, n, np.int32) for n, _ in sizes]
    joined = documents.join(sentences)
    joined_labels = documents.join_labels(labels, separator=5)
    lengths = [n for n, _ in sizes]
    total = sum(lengths) + len(lengths) + 1
    per_token = (joined.words, joined.char_index, joined.mask, joined.caps)
    assert {len(values) for values in (*per_token, joined_labels)} == {total}
    np.testing.assert_array_equal(joined.words == 0, joined_labels == 5)
    assert np.count_nonzero(joined.words == 0) == len(lengths) + 1
    for name, parts in (
        ("words", documents.split(joined.words, lengths)),
        ("mask", documents.split(joined.mask, lengths)),
        ("caps", documents.split(joined.caps, lengths)),
    ):
        for before, after in zip(sentences, parts, strict=True):
            np.testing.assert_array_equal(getattr(before, name), after)
    chars = documents.split(joined.chars[joined.char_index], lengths)
    for before, after in zip(sentences, chars, strict=True):
        width = before.chars.shape[1]
        own = before.chars[before.char_index]
        assert own.tolist() == after[:, :width].tolist()
        assert not after[:, width:].any()
    for before, after in zip(
        labels, documents.split(joined_labels, lengths), strict=True
    ):
        np.testing.assert_array_equal(before, after)


# --- Vocabularies that read documents ------------------------------------------------


def test_the_separator_has_the_last_label():
    tokens, types = [["Rome", "wins"]], ["LOC"]
    plain, _ = vocab.build(tokens, types, scheme="BILOU")
    reads, _ = vocab.build(tokens, types, scheme="BILOU", documents=True)
    assert reads.label_names == (*plain.label_names, vocab.SEPARATOR)
    assert reads.reads_documents
    assert not plain.reads_documents
    assert vocab.Vocabulary.from_json(reads.to_json()) == reads != plain
    assert reads.words == plain.words  # no word of a text is the separator
    assert reads.word_id(vocab.SEPARATOR) == vocab.UNKNOWN


# --- Splits of documents -------------------------------------------------------------

TWO = "-DOCSTART- O\n\nRome B-LOC\nwins O\n\nYes O\n\n-DOCSTART- O\n\nOslo B-LOC\n\n"


@pytest.fixture
def vocabulary():
    tokens = [["Rome", "wins"], ["Yes"], ["Oslo"]]
    return vocab.build(tokens, ["LOC"], scheme="BIO", documents=True)[0]


def read(folder, text):
    path = folder / "train.conll"
    path.write_text(text, encoding="utf-8")
    return splits.read(path)


def test_a_split_is_encoded_as_documents(vocabulary, tmp_path):
    sentences, labels = prepare.encode_split(read(tmp_path, TWO), vocabulary)
    ids = {word: vocabulary.word_id(word) for word in ("Rome", "wins", "Yes", "Oslo")}
    assert [s.words.tolist() for s in sentences] == [
        [0, ids["Rome"], ids["wins"], 0, ids["Yes"], 0],
        [0, ids["Oslo"], 0],
    ]
    assert [vocabulary.decode(row) for row in labels] == [
        ["<sep>", "B-LOC", "O", "<sep>", "O", "<sep>"],
        ["<sep>", "B-LOC", "<sep>"],
    ]


def test_sentences_before_the_first_mark_are_a_document(vocabulary, tmp_path):
    text = "Yes O\n\nYes O\n\n-DOCSTART- O\n\nOslo B-LOC\n"
    sentences, _ = prepare.encode_split(read(tmp_path, text), vocabulary)
    assert [len(s.words) for s in sentences] == [5, 3]


def test_a_single_document_is_one(vocabulary, tmp_path):
    text = "-DOCSTART- O\n\nYes O\n\nOslo B-LOC\n"
    sentences, _ = prepare.encode_split(read(tmp_path, text), vocabulary)
    assert [len(s.words) for s in sentences] == [5]


def test_a_file_without_documents_is_refused(vocabulary, tmp_path):
    split = read(tmp_path, TWO.replace("-DOCSTART- O\n\n", ""))
    with pytest.raises(ValueError, match=r"train\.conll does not mark .* -DOCSTART-"):
        prepare.encode_split(split, vocabulary)
    with pytest.raises(ValueError, match=r"--config\.data\.unit=sentence"):
        documents.of_examples(split.path, split.examples)
    # Sentences of a vocabulary that reads no documents need none.
    plain, _ = vocab.build([["Rome"]], ["LOC"], scheme="BIO")
    sentences, _ = prepare.encode_split(split, plain)
    assert [len(s.words) for s in sentences] == [2, 1, 1]


def test_document_numbers_survive_writing_and_reading(tmp_path):
    split = read(tmp_path, TWO)
    rows = [zip(e.tokens, e.labels, strict=True) for e in split.examples]
    numbers = [e.document for e in split.examples]
    conll.write(tmp_path / "again.conll", rows, documents=numbers)
    again = conll.read(tmp_path / "again.conll")
    assert documents.of_examples("", again) == [[0, 1], [2]]
