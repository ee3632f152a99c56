"""Shapes: the best bounds there are, and no more of them than the padding asks for."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxner.data import shapes


def padded_size(lengths, chosen):
    return sum(min(b for b in chosen if b >= max(n, 1)) for n in lengths)


@given(st.lists(st.integers(0, 12), min_size=1, max_size=25), st.integers(1, 4))
@settings(max_examples=60, deadline=None)
def test_bounds_are_the_best_of_all_choices(lengths, count):
    chosen = shapes.bounds(lengths, count)
    assert chosen == sorted(set(chosen))
    assert len(chosen) <= count
    assert chosen[-1] == max(1, *lengths)
    sizes = sorted({max(n, 1) for n in lengths})
    best = min(
        padded_size(lengths, set(picked) | {sizes[-1]})
        for picked in itertools.combinations(sizes, min(count, len(sizes)) - 1)
    )
    assert padded_size(lengths, chosen) == best


SIZES = np.array([[n, 3] for n in range(1, 41)])


def padding(members):
    positions = sum(len(rows) * shape.tokens for shape, rows in members.items())
    return 1 - SIZES[:, 0].sum() / positions


@pytest.mark.parametrize("share", [0.0, 0.05, 0.1, 0.2, 0.3, 0.9])
def test_no_more_shapes_than_the_padding_asks_for(share):
    chosen = shapes.choose(SIZES, 1, 40, share)
    assert padding(chosen) <= max(share, 0.01)  # less is not worth a shape
    fewer = shapes.choose(SIZES, 1, max(len(chosen) - 1, 1), share)
    assert len(chosen) == 1 or padding(fewer) > share


def test_no_more_shapes_than_are_allowed():
    chosen = shapes.choose(SIZES, 1, 3, 0.0)
    assert len(chosen) == 3
    assert padding(chosen) < padding(shapes.choose(SIZES, 1, 2, 0.0))


def test_filling_up_batches_counts_as_padding():
    # Forty shapes would waste nothing, were it not for the batches of eight.
    chosen = shapes.choose(SIZES, 8, 40, 0.0)
    assert len(chosen) < 10


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(1, 20)), min_size=1),
    st.integers(1, 9),
    st.floats(0, 0.99),
)
@settings(max_examples=60, deadline=None)
def test_every_sentence_has_one_shape_that_it_fits(pairs, count, share):
    sizes = np.array(pairs)
    chosen = shapes.choose(sizes, 2, count, share)
    assert list(chosen) == sorted(chosen)
    assert len(chosen) <= count
    assert sorted(np.concatenate(list(chosen.values()))) == list(range(len(sizes)))
    for shape, rows in chosen.items():
        assert np.all(sizes[rows] <= shape)
