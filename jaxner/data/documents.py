"""Documents: joins sentences to one sequence, and splits them again.

Separators are before, between and after the sentences, as in the code of Strubell et
al. (2017). A separator is a token whose ids are all 0. Its label is trained, but no
word ever gets it.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from jaxner.data import padding, unique_words
from jaxner.data.readers.examples import Example
from jaxner.types import Caps, Pieces, Sentence


def groups(documents: Sequence[Hashable]) -> list[list[int]]:
    """Returns the indices of the sentences in each document.

    Args:
        documents: The document of each sentence.

    Returns:
        Indices of sentences, for documents in the order of their first sentences.

    Example:
        >>> groups([1, 1, 2])
        [[0, 1], [2]]
    """
    members: dict[Hashable, list[int]] = {}
    for i, document in enumerate(documents):
        members.setdefault(document, []).append(i)
    return list(members.values())


def of_examples(path: object, examples: Sequence[Example]) -> list[list[int]]:
    """Returns the indices of the sentences in each document of a file.

    Raises:
        ValueError: The file does not mark where documents begin.
    """
    if not any(example.document for example in examples):
        raise ValueError(
            f"{path} does not mark where documents begin: no line -DOCSTART-. Put one "
            "before each document, or set --config.data.unit=sentence."
        )
    return groups([example.document for example in examples])


def join(sentences: Sequence[Sentence]) -> Sentence:
    """Returns the encoded sentences of one document as one, with separators.

    Args:
        sentences: Encoded sentences without padding.

    Returns:
        One sequence of all tokens, with one more separator than sentences. The word
        pieces of each sentence keep their own windows.

    Example:
        >>> ids, chars = np.array([5, 6]), np.array([[0], [7], [8]])
        >>> one = Sentence(ids, chars, np.array([1, 2]), ids > 0)
        >>> join([one, one]).words.tolist()
        [0, 5, 6, 0, 5, 6, 0]
    """
    starts = positions([len(s.words) for s in sentences])
    length = sum(len(s.words) for s in sentences) + len(sentences) + 1
    unique, index = unique_words.merge(sentences)
    all_caps = np.full(length, Caps.NONE, np.int32)
    joined = Sentence(
        np.zeros(length, np.int32),
        unique_words.rows(unique, max(map(unique_words.length, unique)) or 1),
        np.zeros(length, np.int32),
        np.ones(length, bool),
        all_caps,
        _join_vectors(sentences, starts, length),
        _join_pieces(sentences, starts, length),
    )
    for start, sentence, own in zip(starts, sentences, index, strict=True):
        place = slice(start, start + len(own))
        joined.words[place] = sentence.words
        joined.char_index[place] = own
        if sentence.caps is not None:
            all_caps[place] = sentence.caps
    return joined


def _join_vectors(
    sentences: Sequence[Sentence], starts: Sequence[int], length: int
) -> np.ndarray | None:
    arrays = [np.asarray(s.vectors) for s in sentences if s.vectors is not None]
    if not arrays:
        return None
    joined = np.zeros((length, *arrays[0].shape[1:]), np.float32)
    for start, array in zip(starts, arrays, strict=True):
        joined[start : start + len(array)] = array
    return joined


def _join_pieces(
    sentences: Sequence[Sentence], starts: Sequence[int], length: int
) -> Pieces | None:
    given = [s.pieces for s in sentences if s.pieces is not None]
    if not given:
        return None
    _, width, longest = padding.piece_shape(given)
    count = sum(len(pieces.windows) for pieces in given)
    windows = np.zeros((count, width), np.int32)
    mask = np.zeros((count, width), bool)
    positions = np.full((length, longest), -1, np.int32)
    before = 0
    for start, pieces in zip(starts, given, strict=True):
        rows, own_width = pieces.windows.shape
        windows[before : before + rows, :own_width] = pieces.windows
        mask[before : before + rows, :own_width] = pieces.mask
        moved = padding.reindexed(pieces.positions, own_width, width, before)
        positions[start : start + len(moved), : moved.shape[1]] = moved
        before += rows
    return Pieces(windows, mask, positions)


def join_labels(labels: Sequence[np.ndarray], separator: int) -> np.ndarray:
    """Returns the label ids of one document, with separators.

    Args:
        labels: Label ids of each sentence.
        separator: Label id of separators.

    Example:
        >>> join_labels([np.array([1, 2]), np.array([3])], separator=9).tolist()
        [9, 1, 2, 9, 3, 9]
    """
    joined = np.full(sum(map(len, labels)) + len(labels) + 1, separator, np.int32)
    for start, ids in zip(positions([len(ids) for ids in labels]), labels, strict=True):
        joined[start : start + len(ids)] = ids
    return joined


def joined(
    members: Sequence[Sequence[int]],
    sentences: Sequence[Sentence],
    labels: Sequence[np.ndarray],
    separator: int,
) -> tuple[list[Sentence], list[np.ndarray]]:
    """Returns the documents of encoded sentences, and their label ids.

    Args:
        members: Indices of the sentences in each document, from `groups`.
        sentences: Encoded sentences without padding.
        labels: Label ids of each sentence.
        separator: Label id of separators.
    """
    return (
        [join([sentences[i] for i in own]) for own in members],
        [join_labels([labels[i] for i in own], separator) for own in members],
    )


def split(values: np.ndarray, lengths: Sequence[int]) -> list[np.ndarray]:
    """Returns the values of a document's tokens by sentence.

    Args:
        values: One value for each token and separator.
        lengths: Number of tokens in each sentence.

    Example:
        >>> [part.tolist() for part in split(np.array([9, 1, 2, 9, 3, 9]), [2, 1])]
        [[1, 2], [3]]
    """
    starts = positions(lengths)
    return [values[i : i + n] for i, n in zip(starts, lengths, strict=True)]


def positions(lengths: Sequence[int]) -> list[int]:
    """Returns the position of each sentence's first token in its document."""
    ends = np.cumsum([n + 1 for n in lengths])
    return [int(end) - n for end, n in zip(ends, lengths, strict=True)]
