"""Shapes: optimal bounds, and only as many shapes as are worth compiling."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxner.data import shapes
from jaxner.data.shapes import Shape


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


SIZES = st.lists(
    st.tuples(st.integers(1, 30), st.integers(1, 50), st.integers(1, 20)), min_size=1
)


@given(SIZES, st.integers(1, 6))
@settings(max_examples=60, deadline=None)
def test_every_block_has_a_shape(sizes, count):
    sizes = np.array(sizes)
    largest = Shape(*(sizes.max(axis=0) + 1).tolist())
    chosen = shapes.choose(sizes, largest, count)
    assert len(chosen) <= count
    assert chosen[-1] == largest
    assert [shape.tokens for shape in chosen] == sorted({s.tokens for s in chosen})
    for size in sizes.tolist():
        assert np.all(np.array(size) <= chosen[shapes.fit(size, chosen)])


def test_a_shape_that_saves_little_is_not_taken():
    sizes = np.array([[n, 5, 5] for n in (99, 100) * 50])
    assert shapes.choose(sizes, Shape(100, 5, 5), 5) == [Shape(100, 5, 5)]
    sizes = np.array([[n, 5, 5] for n in (10, 100) * 50])
    chosen = shapes.choose(sizes, Shape(100, 5, 5), 5)
    assert [shape.tokens for shape in chosen] == [10, 100]


def test_a_rare_long_word_widens_only_the_two_longest_shapes():
    sizes = np.array([[n, 9, 10] for n in (10, 20, 40, 80)] * 100)
    sizes[0, 2] = 60
    chosen = shapes.choose(sizes, Shape(80, 9, 60), 4)
    assert [shape.chars for shape in chosen] == [15, 10, 60, 60]
    assert chosen[shapes.fit(sizes[0].tolist(), chosen)].tokens == 40


def test_the_first_shape_that_holds_a_block_is_taken():
    chosen = [Shape(5, 4, 6), Shape(9, 8, 6), Shape(9, 9, 9)]
    assert shapes.fit((5, 4, 6), chosen) == 0
    assert shapes.fit((5, 5, 6), chosen) == 1
    assert shapes.fit((1, 1, 7), chosen) == 2
    with pytest.raises(ValueError, match="No shape holds a block of"):
        shapes.fit((1, 10, 1), chosen)


def test_no_shape_is_refused():
    with pytest.raises(ValueError, match="at least 1 shape, got num_shapes=0"):
        shapes.choose(np.ones((1, 3), int), Shape(1, 1, 1), 0)
