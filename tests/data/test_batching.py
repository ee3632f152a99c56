"""Batches: random draws from the whole corpus, in blocks of few shapes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxner.data import batching, vocab
from jaxner.data.batching import Batches, Shape
from jaxner.data.unique_words import rows as char_rows
from tests.sentences import spelled


def sentence(length, width=3, start=1):
    words = np.arange(start, start + length, dtype=np.int32)
    chars = np.ones((length, width), np.int32) + words[:, None] % 7
    return spelled(words, chars, np.ones(length, bool))


def make(lengths, batch_size=4, num_shapes=3, widths=None, **options):
    widths = widths or [3] * len(lengths)
    starts = [100 * i + 1 for i in range(len(lengths))]
    sentences = [
        sentence(n, w, s) for n, w, s in zip(lengths, widths, starts, strict=True)
    ]
    labels = [s.words + 1_000_000 for s in sentences]
    options = {"batch_size": batch_size, "num_shapes": num_shapes, **options}
    return Batches.make(sentences, labels, **options)


def epoch(batches, seed=0, number=0, skip=0):
    """The blocks of each batch of an epoch."""
    drawn = batches.draw(seed, number, skip=skip)
    return [[block for _, block in batches.blocks(one)] for one in drawn]


def contents(batches, number=0):
    """The (words, characters) of every sentence of an epoch, after a look at labels."""
    found = []
    for blocks in epoch(batches, number=number):
        for (words, chars, index, mask, *_), labels, _ in blocks:
            assert not words[~mask].any()
            assert not labels[~mask].any()
            assert not chars[index[~mask]].any()
            np.testing.assert_array_equal(words[mask] + 1_000_000, labels[mask])
            for own, places, real in zip(words, index, mask, strict=True):
                if real.any():
                    read = [tuple(row[row > 0]) for row in chars[places[real]]]
                    found.append((tuple(own[real].tolist()), tuple(read)))
    return found


CASES = (
    st.lists(st.integers(1, 40), min_size=1, max_size=60),
    st.integers(1, 7),
    st.integers(1, 4),
    st.integers(1, 6),
    st.sampled_from(["distinct", "token"]),
)


@given(*CASES, st.integers(0, 3))
@settings(max_examples=40, deadline=None)
def test_every_sentence_comes_once_in_every_epoch(
    lengths, batch_size, num_blocks, count, chars, number
):
    batches = make(lengths, batch_size, count, num_blocks=num_blocks, chars=chars)
    expected = []
    for i, n in enumerate(lengths):
        words = range(100 * i + 1, 100 * i + 1 + n)
        expected.append((tuple(words), tuple((1 + w % 7,) * 3 for w in words)))
    assert sorted(contents(batches, number)) == sorted(expected)
    assert len(epoch(batches, number=number)) == batches.num_batches


@given(*CASES)
@settings(max_examples=40, deadline=None)
def test_blocks_have_the_shapes_that_programs_are_compiled_for(
    lengths, batch_size, num_blocks, count, chars
):
    batches = make(lengths, batch_size, count, num_blocks=num_blocks, chars=chars)
    assert 1 <= len(batches.shapes) <= count
    for drawn in batches.draw(1, 0):
        blocks = batches.blocks(drawn)
        assert len(blocks) <= num_blocks
        for shape, (found, labels, rows) in blocks:
            assert shape in batches.shapes
            assert found.chars.shape == shape[1:]
            assert labels.shape == found.words.shape == (len(rows), shape.tokens)


def test_a_batch_is_a_draw_from_sentences_of_all_lengths():
    lengths = [2] * 500 + [50] * 500
    batches = make(lengths, batch_size=10, num_blocks=2)
    short = [sum(lengths[i] == 2 for i in one) for one in batches.draw(0, 0)]
    # The number of short ones in a batch of 10 is hypergeometric: 5 ± 1.57.
    assert np.mean(short) == 5
    assert 1.3 < np.std(short) < 1.9


def test_blocks_say_which_place_in_the_batch_a_sentence_has():
    batches = make(list(range(1, 30)), batch_size=6, num_blocks=3)
    for drawn in batches.draw(0, 0):
        for _, (found, _, rows) in batches.blocks(drawn):
            real = found.mask[:, 0]
            own = [batches.labels[drawn[row]][0] - 1_000_000 for row in rows[real]]
            assert found.words[real, 0].tolist() == own


def test_a_distinct_word_has_one_row_and_a_token_one_to_itself():
    text = [[5, 5, 7], [7, 5]]
    sentences = [
        spelled(np.array(w), np.array(w)[:, None], np.ones(len(w), bool)) for w in text
    ]
    labels = [np.zeros(len(w), np.int32) for w in text]
    cases = ("distinct", [0, 5, 7]), ("token", [0, 7, 5, 5, 5, 7, 0])
    for chars, expected in cases:  # the shorter sentence stands first
        batches = Batches.make(sentences, labels, batch_size=2, chars=chars)
        ((_, block),) = batches.blocks(np.array([0, 1]))
        assert block.sentences.chars[:, 0].tolist() == expected
        read = block.sentences.chars[block.sentences.char_index][:, :, 0]
        assert read.tolist() == [[7, 5, 0], [5, 5, 7]]


def test_characters_that_no_model_reads_are_left_out():
    batches = make([3, 5, 2], chars="none")
    ((_, block),) = batches.blocks(np.arange(3))
    assert block.sentences.chars.shape == (1, 1)
    assert not block.sentences.char_index.any()


def test_long_words_do_not_widen_short_blocks():
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 100, 300).tolist()
    widths = [3] * 297 + [50] * 3
    batches = make(lengths, batch_size=2, num_shapes=5, widths=widths)
    assert [shape.chars > 4 for shape in batches.shapes] == [False] * 3 + [True] * 2


def test_order_is_a_function_of_seed_and_epoch():
    def order(seed, number):
        return np.concatenate(list(batches.draw(seed, number))).tolist()

    batches = make(list(range(1, 50)))
    first = order(0, 0)
    assert order(0, 0) == first
    assert order(0, 1) != first
    assert order(1, 0) != first


def test_skip_continues_an_epoch():
    batches = make(list(range(1, 50)))
    whole = [one.tolist() for one in batches.draw(5, 2)]
    assert [one.tolist() for one in batches.draw(5, 2, skip=4)] == whole[4:]


def test_padding_share_is_what_the_batches_hold():
    batches = make([3, 5, 9, 9, 2, 7], batch_size=6, num_shapes=2, num_blocks=2)
    masks = [b.sentences.mask.ravel() for blocks in epoch(batches) for b in blocks]
    share = 1 - np.concatenate(masks).mean()
    assert batches.padding_share() == pytest.approx(share)
    assert f"{share:.1%} padding" in batches.summary()


def test_batches_are_padded_alike_for_several_steps_in_a_call():
    batches = make(list(range(1, 24)), batch_size=4, num_shapes=4)
    drawn = list(batches.draw(0, 0))[:2]
    ((shape, (found, labels, rows)),) = batches.alike(drawn)
    assert labels.shape == (2, 4, shape.tokens)
    assert rows.shape == (2, 4)
    longest = max(len(batches.labels[i]) for one in drawn for i in one)
    assert shape.tokens == min(s.tokens for s in batches.shapes if s.tokens >= longest)
    for k, one in enumerate(drawn):
        assert found.mask[k].sum() == sum(len(batches.labels[i]) for i in one)


def test_pad_shares_the_distinct_words():
    batch = batching.pad([sentence(2), sentence(0, 1), sentence(2)], Shape(4, 5, 4), 4)
    assert batch.words.tolist() == [[1, 2, 0, 0], [0] * 4, [1, 2, 0, 0], [0] * 4]
    assert batch.mask.sum() == 4
    ids = [2, 2, 2], [3, 3, 3]
    words = [np.array(word, np.int32).tobytes() for word in ids]
    expected = char_rows([b"", *words, b"", b""], 4)
    np.testing.assert_array_equal(batch.chars, expected)
    assert batch.char_index.tolist() == [[1, 2, 0, 0], [0] * 4, [1, 2, 0, 0], [0] * 4]


def test_stack_keeps_the_words_of_each_sentence():
    batch = batching.stack([sentence(2), sentence(1, 4)], 3)
    assert batch.chars.shape == (2, 3, 4)
    assert batch.chars[0, :, 0].tolist() == [0, 2, 3]
    assert batch.chars[1, :, 3].tolist() == [0, 2, 0]
    assert batch.char_index.tolist() == [[1, 2, 0], [1, 0, 0]]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "batch_size must be at least 1, got 0"),
        ({"num_blocks": 0}, "num_blocks must be at least 1, got 0"),
        ({"num_shapes": 0}, "num_shapes must be at least 1, got 0"),
        ({"chars": "all"}, "Unknown chars 'all'; known: distinct, token, none"),
    ],
)
def test_wrong_numbers_are_errors(options, message):
    with pytest.raises(ValueError, match=message):
        make([3], **options)


def test_no_sentence_is_an_error():
    with pytest.raises(ValueError, match="training data have no sentences"):
        make([])


def test_wrong_corpora_and_seeds_are_told(unchecked):
    vocabulary, _ = vocab.build([["Rome"]], ["LOC"])
    with pytest.raises(TypeError, match="Expected labels as a list of lists, got None"):
        batching.Batches.of(vocabulary, [["Rome"]], None, batch_size=1)
    with pytest.raises(TypeError, match="got NoneType"):
        batching.Batches.of(vocabulary, None, [["O"]], batch_size=1)
    batches = batching.Batches.of(vocabulary, [["Rome"]], [["O"]], batch_size=1)
    with pytest.raises(ValueError, match="seed must be in"):
        batches.epoch(-1, 0)
    with pytest.raises(ValueError, match="epoch must be a whole number, got 'a'"):
        batches.epoch(0, "a")
