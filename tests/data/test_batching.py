"""Batches: random draws, few shapes; padding and documents lose and add nothing."""

import itertools
import tracemalloc
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxner.data import batching
from jaxner.data.batching import Batches, Shape
from jaxner.types import Caps, Pieces
from tests.sentences import content, row_of, spelled

FREE = {"_BLOCK": 0, "_PROGRAM": 0}  # costs: else few sentences have one shape


def spelling(word):
    """Three characters; of some words nine."""
    return (1 + word % 7,) * (9 if word % 97 == 0 else 3)


def sentence(count, start, distinct=10**6):
    """Words whose ids follow each other, and begin again after the last one."""
    words = np.arange(start - 1, start - 1 + count, dtype=np.int32) % distinct + 1
    chars = np.array([(*spelling(w), *[0] * 6)[:9] for w in words], np.int32)
    return spelled(words, chars, np.ones(count, bool))


def make(lengths, batch_size=4, num_shapes=3, distinct=10**6, **options):
    sentences = [sentence(n, 100 * i + 1, distinct) for i, n in enumerate(lengths)]
    labels = [s.words + 1_000_000 for s in sentences]
    options = {"batch_size": batch_size, "num_shapes": num_shapes, **options}
    return Batches(sentences, labels, **options)


def with_everything(rng, tokens):
    """A sentence with arbitrary positions in its windows; all ids differ."""
    count, width, longest = rng.integers(1, 4), rng.integers(3, 7), rng.integers(1, 4)
    windows = rng.integers(1, 10**6, (count, width)).astype(np.int32)
    positions = rng.integers(-1, count * width, (tokens, longest)).astype(np.int32)
    pieces = Pieces(windows, rng.random((count, width)) < 0.8, positions)
    words = np.arange(1, tokens + 1, dtype=np.int32)
    # As bytes, some of these characters end in zeros.
    chars = rng.choice([1, 256, 65536], (tokens, rng.integers(1, 4))).astype(np.int32)
    vectors = rng.normal(size=(tokens, 2, 3)).astype(np.float32)
    caps = rng.integers(1, 8, tokens, np.int32)
    return spelled(words, chars, words > 0, caps, vectors, pieces)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=5), st.integers(0, 10**6))
@settings(max_examples=60)
def test_every_token_keeps_all_it_has_and_padding_has_nothing(lengths, seed):
    rng = np.random.default_rng(seed)
    sentences = [with_everything(rng, n) for n in lengths]
    right = [content(s) for s in sentences]
    tokens = max(lengths) + 1
    for shape in (Shape(tokens, 2 + sum(lengths), 4), tokens):
        batch = batching.pad(sentences, shape, len(lengths) + 1)
        assert batch.mask.sum() == sum(lengths)
        padding = ~batch.mask
        for field in (batch.words, batch.caps, batch.char_index, batch.vectors):
            assert not field[padding].any()
        assert (batch.pieces.positions[padding] == -1).all()
        assert not batch.pieces.mask[-1].any()
        for i, expected in enumerate(right):
            row = row_of(batch, i)
            assert content(row, row.mask) == expected
    document = batching.join(sentences)
    assert document.mask.all()
    assert len(np.unique(document.chars, axis=0)) == len(document.chars)
    places = document.words > 0
    fields = {k: [*itertools.chain(*(r[k] for r in right))] for k in right[0]}
    assert content(document, places) == fields
    assert np.count_nonzero(~places) == len(lengths) + 1
    assert not document.char_index[~places].any()
    assert set(document.caps[~places]) == {Caps.NONE}
    assert not document.vectors[~places].any()
    labels = [rng.integers(0, 5, n, np.int32) for n in lengths]
    _, (whole,) = batching.joined([0] * len(lengths), sentences, labels, separator=9)
    np.testing.assert_array_equal(whole == 9, ~places)
    parts = batching.split(whole, lengths)
    assert [x.tolist() for x in parts] == [x.tolist() for x in labels]


def padded_size(lengths, bounds):
    return sum(min(b for b in bounds if b >= max(n, 1)) for n in lengths)


@given(st.lists(st.integers(0, 12), min_size=1, max_size=25), st.integers(1, 4))
@settings(max_examples=60)
def test_bounds_are_the_best_of_all_choices(lengths, count):
    bounds = batching.bounds(lengths, count)
    assert bounds == sorted(set(bounds))
    assert len(bounds) <= count
    assert bounds[-1] == max(1, *lengths)
    sizes = sorted({max(n, 1) for n in lengths})
    best = min(
        padded_size(lengths, {*choice, sizes[-1]})
        for choice in itertools.combinations(sizes, min(count, len(sizes)) - 1)
    )
    assert padded_size(lengths, bounds) == best


def test_bounds_of_thousands_of_lengths_are_nearly_the_best():
    """Thirds would be; the costs of all pairs of lengths take 288 megabytes."""
    lengths = np.arange(1, 6_001)
    tracemalloc.start()
    bounds = batching.bounds(lengths, 3)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100 << 20
    assert bounds[-1] == 6_000
    assert padded_size(lengths, bounds) <= 1.001 * 6_000 * (2_000 + 4_000 + 6_000) / 3


def test_a_shape_must_save():
    """As many positions an epoch as its program takes to compile: 1,000."""
    lengths, counts = np.array([[99, 100]] * 50), np.array([2] * 50)
    for rows in (1, 2, None):
        assert batching.choose(lengths, counts, 5, rows) == [(100, rows or 2)]
    lengths = np.repeat([[16, 20, 44, 80]], 50, axis=0)
    tokens = [
        [size for size, _ in batching.choose(lengths, counts * 2, 4, 1, 1, batches)]
        for batches in (7, 10, 240, 260)
    ]
    assert tokens == [[80], [20, 80], [20, 44, 80], [16, 20, 44, 80]]
    _, cost = batching.cut(lengths, counts * 2, np.array([80]), np.array([1]))
    assert cost == 4 * (80 + 64)  # of a batch


def test_many_short_sentences_stand_beside_few_long_ones():
    """Each shape takes its own class of sentences, with hardly any padding."""
    batches = make([8] * 96 + [120] * 4, batch_size=25, num_blocks=None)
    short, long = [(s.tokens, s.rows) for s in batches.shapes]
    assert short[0] == 8
    assert short[1] >= 8
    assert long == (120, 1)
    _, numbers = batches.plan([0], 1)
    positions = sum(batches.shapes[i].tokens * batches.shapes[i].rows for i in numbers)
    assert positions <= 1.2 * batches.num_tokens


@pytest.mark.parametrize(("longest", "is_uniform"), [(600, True), (4_000, False)])
def test_the_first_step_needs_one_shape(longest, is_uniform):
    """Unless its longest sentence is so long that padding costs more than a program.

    Its short sentences would take less time in another shape.
    """
    rng = np.random.default_rng(0)
    lengths = [*rng.integers(1, 60, 400).tolist(), *[longest] * 40]
    batches = make(lengths, batch_size=24, num_blocks=None)
    sizes = [shape.tokens * shape.rows for shape in batches.shapes]
    assert min(sizes) < sizes[-1]
    counts = []
    for epoch in (0, 1):
        plan, numbers = batches.plan([0], epoch)
        numbers_by_step = np.split(numbers, plan.steps[0, 1:])
        counts.append([len(np.unique(part)) for part in numbers_by_step])
        members = [*map(sorted, np.split(plan.rows[0], range(24, 440, 24)))]
        assert members == [*map(sorted, batches.draw(0, epoch).tolist())]
    assert (counts[0][0] == 1) == is_uniform
    assert min(counts[0][1:] + counts[1]) > 1


def test_a_block_takes_the_cheapest_shape_that_holds_it():
    shapes = Shape(8, 9, 4, rows=20), Shape(30, 9, 4, rows=2)
    sizes = np.array([[2, 5, 9, 0], [3, 5, 9, 0], [3, 9, 9, 0], [2, 30, 10, 0]])
    assert batching.fit(sizes, shapes).tolist() == [1, 0, -1, -1]


@pytest.mark.parametrize("num_blocks", [1, None])
def test_a_single_long_sentence_costs_no_others(num_blocks):
    """Shapes follow all sentences, not only those of some batches."""
    lengths = [*range(1, 21)] * 200 + [2_000]
    batches = make(lengths, batch_size=8, num_blocks=num_blocks)
    _, numbers = batches.plan([0], 0)
    sizes = np.array([s.tokens * s.rows for s in batches.shapes])[numbers]
    long = sizes == sizes.max()
    assert np.count_nonzero(long) == 1
    assert sizes[~long].sum() <= 2 * batches.num_tokens


def test_blocks_with_many_long_words_are_halved():
    """In the draws they are far apart; in one order, together."""
    text = [sentence(4, 97 * i + (1 if i % 40 else -1)) for i in range(1, 401)]
    text += [sentence(60, 1)] * 20
    batches = Batches(text, [s.words for s in text], batch_size=21, num_blocks=None)
    short, long = batches.shapes
    assert (short.tokens, long.tokens) == (4, 60)
    order = np.argsort(np.arange(1, 421) % 40 > 0).reshape(20, 21)
    counts = []
    for draw in (batches.draw, lambda *_: order):
        batches.draw = draw
        plan, numbers = batches.plan([0], 0)
        rooms = np.array([batches.shapes[i].long for i in numbers])
        needs = plan.long_ranges[0, 1][: len(numbers)]
        assert (needs <= rooms).all()
        counts.append(np.count_nonzero(numbers == 0))
    assert 0 < counts[0] < counts[1]


def contents(batches, number=0):
    """The (words, characters) of every sentence of an epoch, after a look at labels."""
    sentences = []
    for batch, labels in batches.epoch(0, number):
        words, chars, index, mask, *_, long = batch
        assert not words[~mask].any()
        assert not labels[~mask].any()
        assert not chars[index[~mask]].any()
        np.testing.assert_array_equal(words[mask] + 1_000_000, labels[mask])
        sizes = 0 if long is None else len(long.rows), batches.shapes[0].longest
        shape = words.shape[1], *chars.shape, *sizes, None, len(words)
        assert shape in batches.shapes
        if long is not None:  # past the end: padding
            assert long.chars.shape[1] == batches.shapes[0].longest
            assert not long.chars[long.rows >= len(chars)].any()
        rows = (content(row_of(batch, i), mask[i]) for i in range(len(mask)))
        sentences += [(row["words"], row["chars"]) for row in rows if row["words"]]
    return sentences


@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=60),
    *(st.integers(1, 7), st.integers(1, 4) | st.none(), st.integers(1, 6)),
    *(st.sampled_from(["distinct", "token"]), st.integers(0, 3), st.integers(1, 4)),
    *(st.sampled_from([1, 8]), st.sampled_from([1, 3, 10**6])),
)
@settings(max_examples=100)
def test_every_sentence_comes_once_in_an_epoch_in_shapes_that_are_compiled(
    lengths, batch_size, num_blocks, count, chars, number, pool, multiple, distinct
):
    options = {"num_blocks": num_blocks, "chars": chars, "pool": pool}
    options["multiple"] = multiple
    with mock.patch.multiple(batching, **FREE):
        batches = make(lengths, batch_size, count, distinct, **options)
    words = [sentence(n, 100 * i + 1, distinct) for i, n in enumerate(lengths)]
    words = [s.words.tolist() for s in words]
    expected = [(row, [*map(spelling, row)]) for row in words]
    assert sorted(contents(batches, number)) == sorted(expected)
    assert 1 <= len(batches.shapes) <= count
    assert not any(shape.tokens % multiple for shape in batches.shapes)
    most = len(batches.words) if chars == "distinct" else np.inf
    assert all(shape.words <= most for shape in batches.shapes)
    plan, numbers = batches.plan([1], 0)
    steps = plan.steps[0].tolist()
    assert len(steps) == batches.num_batches
    bounds = [*steps, len(numbers)]
    most = max(end - start for start, end in itertools.pairwise(bounds))
    assert most <= (num_blocks or batch_size)
    assert batches.is_whole == (1 in (num_blocks, batch_size))
    assert most == 1 or not batches.is_whole


def test_a_pool_has_batches_of_similar_lengths_in_any_order():
    batches = make([*range(1, 41)] * 5, batch_size=10, pool=20)
    rows = batches.draw(0, 0)
    lengths = [[len(batches.labels[i]) for i in members] for members in rows]
    assert max(max(row) - min(row) for row in lengths) <= 8  # 40 of 10 lots
    firsts = [row[0] for row in lengths]
    assert firsts != sorted(firsts)
    assert sorted(np.concatenate(rows)) == [*range(200)]


@pytest.mark.parametrize("num_blocks", [2, 3, None])
def test_restarts_have_blocks_of_the_same_shapes(num_blocks):
    """Each all sentences, wherever the last, smaller batch of each comes."""
    with mock.patch.multiple(batching, **FREE):
        options = {"num_shapes": 5, "num_blocks": num_blocks, "pool": 2}
        batches = make([*range(1, 12)] * 3, batch_size=3, **options)
        plan, numbers = batches.plan([0, 1, 2], 0)
    for rows, blocks in zip(plan.rows, plan.blocks[..., : len(numbers)], strict=True):
        members = [rows[start : start + count] for start, count in blocks.T]
        assert sorted(np.concatenate(members)) == [*range(33)]
        for block, number in zip(members, numbers, strict=True):
            longest = max((len(batches.labels[i]) for i in block), default=0)
            assert longest <= batches.shapes[number].tokens


def test_pieces_of_tokens_are_what_has_to_fit():
    sentences, rows = [], [np.zeros(n, int) for n in (2, 2, 9, 2)]
    for row, width in zip(rows, (30, 4, 11, 5), strict=True):
        window = np.ones((1, width), np.int32)
        pieces = Pieces(window, window > 0, np.ones((len(row), 1), np.int32))
        sentences.append(sentence(len(row), 1)._replace(pieces=pieces))
    batches = Batches(sentences, rows, batch_size=4, num_blocks=2)
    plan, _ = batches.plan([0], 0)
    assert plan.rows[0].tolist() == [1, 3, 2, 0]
    assert plan.blocks[0].tolist() == [[0, 2], [2, 2]]
    assert batches.bounds[-1].tokens == 30
    assert batches.shapes[-1].tokens == 9
