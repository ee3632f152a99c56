"""Distinct words: every token's characters are found again."""

import tracemalloc

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxner.data import unique_words
from jaxner.types import Sentence
from tests.sentences import spelled

WORDS = st.lists(st.lists(st.integers(1, 3), max_size=4), max_size=6)


def sentence(words):
    width = max((len(word) for word in words), default=1) or 1
    chars = np.array([w + [0] * (width - len(w)) for w in words], np.int32)
    chars = chars.reshape(len(words), width)
    return spelled(chars[:, 0], chars, np.ones(len(words), bool))


@given(st.lists(WORDS, max_size=5))
@settings(max_examples=100, deadline=None)
def test_distinct_words_of_several_sentences(texts):
    words, index = unique_words.merge([sentence(text) for text in texts])
    kinds = {tuple(word) for text in texts for word in text} | {()}
    rows = unique_words.rows(words, 4)
    assert rows.dtype == np.int32
    read = [
        tuple(row[: unique_words.length(w)]) for row, w in zip(rows, words, strict=True)
    ]
    assert not any(0 in word for word in read)
    assert sorted(read) == sorted(kinds)
    assert read[0] == ()
    for text, own in zip(texts, index, strict=True):
        assert [read[i] for i in own] == [tuple(word) for word in text]


@given(st.lists(st.sampled_from([b"", b"abcd", b"abcdefgh", b"efgh"])))
def test_numbers_stand_for_words_in_order_of_appearance(words):
    unique, index = unique_words.number(words)
    assert [unique[i] for i in index] == words
    assert unique == list(dict.fromkeys([b"", *words]))


@given(st.lists(st.integers(0, 9), max_size=12))
@settings(max_examples=100, deadline=None)
def test_once(numbers):
    places = np.array(numbers, np.int64)
    words, where = unique_words.once(places)
    assert words.tolist() == sorted({0, *numbers})
    np.testing.assert_array_equal(words[where], places)


def test_characters_whose_bytes_end_in_zeros_are_told_apart():
    text = [[256], [1], [65536, 256], [65536], [256], [1, 65536]]
    words, index = unique_words.merge([sentence(text)])
    assert index[0].tolist() == [1, 2, 3, 4, 1, 5]
    assert [unique_words.length(word) for word in words] == [0, 1, 1, 2, 1, 2]
    rows = unique_words.rows(words, 3)
    assert [row[row > 0].tolist() for row in rows[index[0]]] == text


def test_a_longer_word_is_cut():
    words, _ = unique_words.merge([sentence([[1, 2, 3], [4]])])
    assert unique_words.rows(words, 2).tolist() == [[0, 0], [1, 2], [4, 0]]


def test_sentences_without_characters_share_the_empty_word():
    ids = np.arange(3)
    blank = Sentence(ids, np.zeros((1, 1), np.int32), 0 * ids, ids >= 0)
    words, index = unique_words.merge([sentence([[1]]), blank])
    assert len(words) == 2
    assert [own.tolist() for own in index] == [[1], [0, 0, 0]]


def test_a_long_word_takes_the_memory_of_its_own_characters():
    text = [sentence([[1 + i % 7, 1 + i // 7]]) for i in range(5000)]
    text.append(sentence([list(range(1, 300_001))]))
    tracemalloc.start()
    try:
        words, _ = unique_words.merge(text)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(words) == 5002
    assert peak < 8 << 20  # the word takes 1.2 MB
