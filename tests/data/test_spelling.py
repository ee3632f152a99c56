"""Distinct words: every token's characters are found again."""

import tracemalloc

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxner.data import spelling
from jaxner.types import Sentence

WORDS = st.lists(st.lists(st.integers(1, 3), max_size=4), max_size=6)


def sentence(words):
    width = max((len(word) for word in words), default=1) or 1
    chars = np.array([w + [0] * (width - len(w)) for w in words], np.int32)
    chars = chars.reshape(len(words), width)
    return Sentence(chars[:, 0], chars, np.ones(len(words), bool))


@given(st.lists(WORDS, max_size=5))
@settings(max_examples=100, deadline=None)
def test_distinct_words(texts):
    words, places = spelling.distinct([sentence(text) for text in texts])
    kinds = {tuple(word) for text in texts for word in text} | {()}
    rows = spelling.rows(words, 4)
    assert rows.dtype == np.int32
    spelled = [
        tuple(row[: spelling.length(w)]) for row, w in zip(rows, words, strict=True)
    ]
    assert not any(0 in word for word in spelled)
    assert sorted(spelled) == sorted(kinds)
    assert spelled[0] == ()
    for text, own in zip(texts, places, strict=True):
        assert [spelled[i] for i in own] == [tuple(word) for word in text]


@given(st.lists(st.integers(0, 9), max_size=12), st.integers(0, 14))
@settings(max_examples=100, deadline=None)
def test_once(numbers, room):
    places = np.array(numbers, np.int64)
    found = spelling.once(places, room)
    distinct = {0, *numbers}
    assert (found is None) == (len(distinct) > room)
    if found is not None:
        words, where = found
        assert len(words) == room
        assert set(words.tolist()) == distinct
        np.testing.assert_array_equal(words[where], places)


def test_characters_whose_bytes_end_in_zeros_are_told_apart():
    text = [[256], [1], [65536, 256], [65536], [256], [1, 65536]]
    words, places = spelling.distinct([sentence(text)])
    assert places[0].tolist() == [1, 2, 3, 4, 1, 5]
    assert [spelling.length(word) for word in words] == [0, 1, 1, 2, 1, 2]
    rows = spelling.rows(words, 3)
    assert [row[row > 0].tolist() for row in rows[places[0]]] == text


def test_a_longer_word_is_cut():
    words, _ = spelling.distinct([sentence([[1, 2, 3], [4]])])
    assert spelling.rows(words, 2).tolist() == [[0, 0], [1, 2], [4, 0]]


def test_words_without_columns_of_characters():
    words, places = spelling.distinct([sentence([[1]]), blank(3), blank(0)])
    assert len(words) == 2
    assert [own.tolist() for own in places] == [[1], [0, 0, 0], []]


def blank(length):
    ids = np.arange(length)
    return Sentence(ids, np.zeros((length, 0), np.int32), ids >= 0)


def test_a_long_word_takes_the_memory_of_its_own_characters():
    text = [sentence([[1 + i % 7, 1 + i // 7]]) for i in range(5000)]
    text.append(sentence([list(range(1, 300_001))]))
    tracemalloc.start()
    try:
        words, _ = spelling.distinct(text)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(words) == 5002
    assert peak < 8 << 20  # the word takes 1.2 MB


@given(st.integers(0, 10**6), st.integers(1, 30), st.integers(1, 6))
@settings(max_examples=60, deadline=None)
def test_no_batch_has_more_distinct_words_than_foreseen(seed, count, size):
    rng = np.random.default_rng(seed)
    places = rng.integers(0, rng.integers(1, 90), (count, 7))
    usual, most = spelling.rooms(places, size)
    assert usual <= most
    for _ in range(20):
        batch = places[rng.permutation(count)[:size]]
        assert spelling.once(batch, most) is not None
    if size >= count:  # there is one batch
        assert usual == most == len({0, *places.ravel().tolist()})


def test_a_rare_batch_has_more_words_than_the_usual_ones():
    places = np.ones((500, 60), np.int64)
    places[:2] = np.arange(1, 121).reshape(2, 60)
    assert spelling.rooms(places, 2) == (72, 121)
    assert spelling.once(places[:2], 72) is None
