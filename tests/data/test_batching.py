"""Batches: few shapes, least padding, and an order that the seed decides."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxner.data import batching
from jaxner.data.batching import Batches, Shape
from jaxner.types import Sentence


def sentence(length, width=3, start=1):
    words = np.arange(start, start + length, dtype=np.int32)
    chars = np.ones((length, width), np.int32)
    return Sentence(words, chars, np.ones(length, bool))


def make(lengths, batch_size=4, num_shapes=3, widths=None):
    widths = widths or [3] * len(lengths)
    starts = [100 * i + 1 for i in range(len(lengths))]
    sentences = [
        sentence(n, w, s) for n, w, s in zip(lengths, widths, starts, strict=True)
    ]
    labels = [s.words + 1_000_000 for s in sentences]
    return Batches.make(sentences, labels, batch_size=batch_size, num_shapes=num_shapes)


def contents(batches):
    """The multiset of (words, labels) in an epoch's batches."""
    found = []
    for batch, labels in batches:
        for words, mask, row in zip(batch.words, batch.mask, labels, strict=True):
            if mask.any():
                np.testing.assert_array_equal(words[mask] + 1_000_000, row[mask])
                assert not words[~mask].any()
                found.append(tuple(words[mask].tolist()))
    return found


@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=60),
    st.integers(1, 7),
    st.integers(1, 6),
    st.integers(0, 3),
)
@settings(max_examples=40, deadline=None)
def test_every_sentence_comes_once_in_every_epoch(lengths, batch_size, count, epoch):
    batches = make(lengths, batch_size, count)
    found = contents(batches.epoch(0, epoch))
    expected = [
        tuple(range(100 * i + 1, 100 * i + 1 + n)) for i, n in enumerate(lengths)
    ]
    assert sorted(found) == sorted(expected)
    assert len(list(batches.epoch(0, epoch))) == batches.num_batches


def test_all_batches_have_one_of_few_shapes():
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 100, 300).tolist()
    widths = [3] * 290 + rng.integers(20, 60, 10).tolist()
    batches = make(lengths, batch_size=8, num_shapes=6, widths=widths)
    seen = {b.chars.shape for epoch in range(3) for b, _ in batches.epoch(0, epoch)}
    assert seen == {(8, *shape) for shape in batches.shapes}
    assert len(seen) <= 6
    # The long words do not widen the other sentences.
    assert sum(shape.chars == 3 for shape in batches.shapes) == 5


def test_order_is_a_function_of_seed_and_epoch():
    batches = make(list(range(1, 50)))
    first = contents(batches.epoch(0, 0))
    assert contents(batches.epoch(0, 0)) == first
    assert contents(batches.epoch(0, 1)) != first
    assert contents(batches.epoch(1, 0)) != first


def test_skip_continues_an_epoch():
    batches = make(list(range(1, 50)))
    whole = [labels.tolist() for _, labels in batches.epoch(5, 2)]
    rest = [labels.tolist() for _, labels in batches.epoch(5, 2, skip=4)]
    assert rest == whole[4:]


def test_padding_share_is_what_the_batches_hold():
    batches = make([3, 5, 9, 9, 2], batch_size=2, num_shapes=2)
    masks = np.concatenate([b.mask.ravel() for b, _ in batches.epoch(0, 0)])
    assert batches.padding_share == pytest.approx(1 - masks.mean())


def test_pad_keeps_what_it_is_given():
    batch = batching.pad([sentence(2), sentence(0, 1)], Shape(4, 5), 3)
    assert batch.words.tolist() == [[1, 2, 0, 0], [0] * 4, [0] * 4]
    assert batch.mask.sum() == 2
    assert batch.chars.shape == (3, 4, 5)
    assert batch.chars[0, :2].tolist() == [[1, 1, 1, 0, 0]] * 2


def test_no_sentence_is_an_error():
    with pytest.raises(ValueError, match=r"at least one training sentence"):
        make([])
