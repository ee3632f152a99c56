"""Span types of labels, and which labels continue a span, as arrays over label ids."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from jaxner.data import schemes


class LabelTypes(NamedTuple):
    """The spans of `schemes.to_spans`, as arrays over `L` labels and `K` types.

    Attributes:
        names: The K types, sorted; a type's index is its id.
        types: The type id of each label, `[L]`; -1 outside all spans.
        goes_on: Whether label j (column) after label i (row) continues the span of i,
            `[L, L]`.
    """

    names: tuple[str, ...]
    types: np.ndarray
    goes_on: np.ndarray


def label_types(label_names: Sequence[str]) -> LabelTypes:
    """Returns the span types of labels in any scheme, well-formed or not.

    A span begins at a label that is not `O` and does not continue the previous label's
    span. It ends before the first label that does not continue it.

    Args:
        label_names: The labels; a label's index is its id.

    Raises:
        ValueError: A label is malformed, or is a tag, which has no span.

    Example:
        >>> found = label_types(("O", "B-PER", "I-PER"))
        >>> found.names, found.types.tolist(), found.goes_on[1].tolist()
        (('PER',), [-1, 0, 0], [False, False, True])
    """
    parsed = [schemes.parse(name) for name in label_names]
    names = tuple(sorted({kind for _, kind in parsed} - {""}))
    types = [names.index(kind) if kind else -1 for _, kind in parsed]
    # Two adjacent labels of one type form one span or two.
    goes_on = [
        [
            kind != "" and kind == after and len(schemes.to_spans([a, b])) == 1
            for b, (_, after) in zip(label_names, parsed, strict=True)
        ]
        for a, (_, kind) in zip(label_names, parsed, strict=True)
    ]
    size = len(label_names)
    array = np.array(goes_on, bool).reshape(size, size)
    return LabelTypes(names, np.array(types, np.int32), array)
