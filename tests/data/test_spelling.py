"""Distinct words: every token's characters are found again."""

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
    spelled = [tuple(row[row > 0].tolist()) for row in words]
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


def test_words_whose_sums_agree_are_told_apart(monkeypatch):
    class Zero:
        def integers(self, low, high, size, dtype):
            return np.zeros(size, dtype)

    monkeypatch.setattr(np.random, "default_rng", lambda seed: Zero())
    words, places = spelling.distinct([sentence([[1, 2], [2], [1, 2], [3]])])
    assert words.tolist() == [[0, 0], [1, 2], [2, 0], [3, 0]]
    assert places[0].tolist() == [1, 2, 1, 3]
