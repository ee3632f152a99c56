"""Padding of contextual inputs: with any padding, positions lead to the same piece."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxner.data import batching, documents, padding
from jaxner.data.padding import PieceShape
from jaxner.types import Pieces
from tests.sentences import spelled


def draw(rng, tokens):
    """A sentence with arbitrary positions in its windows; all ids differ."""
    count, width, longest = rng.integers(1, 4), rng.integers(3, 7), rng.integers(1, 4)
    windows = rng.integers(1, 10**6, (count, width)).astype(np.int32)
    positions = rng.integers(-1, count * width, (tokens, longest)).astype(np.int32)
    pieces = Pieces(windows, rng.random((count, width)) < 0.8, positions)
    words = np.arange(1, tokens + 1, dtype=np.int32)
    chars = np.ones((tokens, 2), np.int32)
    vectors = rng.normal(size=(tokens, 2, 3))
    return spelled(words, chars, words > 0, None, vectors, pieces)


def found(pieces):
    """For each token the ids and masks that its positions lead to."""
    ids, mask = pieces.windows.ravel(), pieces.mask.ravel()
    return [[(ids[i], mask[i]) for i in row if i >= 0] for row in pieces.positions]


@given(st.lists(st.integers(0, 5), min_size=1, max_size=5), st.integers(0, 10**6))
@settings(max_examples=60, deadline=None)
def test_places_lead_to_the_same_pieces(lengths, seed):
    rng = np.random.default_rng(seed)
    sentences = [draw(rng, n) for n in lengths]
    all_found = [found(s.pieces) for s in sentences]
    shape = batching.Shape(max(6, *lengths), 1 + sum(lengths), 2)
    for pieces in (None, PieceShape(5, 9, 7)):
        batch = padding.pad(sentences, shape, len(lengths) + 1, pieces)
        rows = [Pieces(*(a[i] for a in batch.pieces)) for i in range(len(lengths))]
        for row, right, sentence in zip(rows, all_found, sentences, strict=True):
            assert found(row)[: len(right)] == right
            assert not any(found(row)[len(right) :])
            assert row.mask.sum() == sentence.pieces.mask.sum()
        assert not batch.pieces.mask[-1].any()
        for array, sentence in zip(batch.vectors[:-1], sentences, strict=True):
            right = sentence.vectors.astype(np.float32)
            np.testing.assert_array_equal(array[: len(right)], right)
            assert not array[len(right) :].any()
    joined = documents.join(sentences)
    words = joined.words != 0
    of_words = [f for f, w in zip(found(joined.pieces), words, strict=True) if w]
    assert of_words == [f for one in all_found for f in one]
    assert (joined.pieces.positions[~words] == -1).all()
    right = np.concatenate([s.vectors for s in sentences]).astype(np.float32)
    np.testing.assert_array_equal(joined.vectors[words], right)
    assert not joined.vectors[~words].any()


def test_shapes_of_pieces():
    rng = np.random.default_rng(0)
    sizes = [(1, 9, 2), (3, 5, 1), (1, 30, 5)]
    given = [
        Pieces(np.ones((w, p), np.int32), np.ones((w, p), bool), np.zeros((4, q), int))
        for w, p, q in sizes
    ]
    assert padding.piece_shape(given) == (3, 30, 5)
    assert padding.piece_shape(given, few=True) == (4, 32, 8)
    assert padding.piece_shape(given[:1], few=True) == (1, 16, 4)
    # An epoch's batches are no larger than their bucket.
    sentences = [draw(rng, n) for n in (1, 2, 3, 4, 4)]
    labels = [s.words for s in sentences]
    batches = batching.Batches.make(sentences, labels, batch_size=2, num_shapes=1)
    right = padding.piece_shape([s.pieces for s in sentences])
    contents = []
    drawn = [b for one in batches.draw(0, 0) for b in batches.blocks(one)]
    for _, (batch, _, _) in drawn:
        assert batch.pieces.windows.shape[1:] == right[:2]
        assert batch.pieces.positions.shape[2] == right.longest
        contents += [p for ids in batch.pieces.windows for p in ids[ids > 0].tolist()]
    ids = np.concatenate([s.pieces.windows.ravel() for s in sentences])
    assert sorted(contents) == sorted(ids.tolist())


def test_no_contextual_inputs_are_none():
    words = np.array([5])
    one = spelled(words, words[None], words > 0)
    batch = padding.pad([one], batching.Shape(2, 3, 3))
    assert (batch.vectors, batch.pieces) == (None, None)
    joined = documents.join([one])
    assert (joined.vectors, joined.pieces) == (None, None)
