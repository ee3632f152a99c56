"""Which spans the labels of a scheme write, as arrays over label ids."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from jaxner.data import schemes


class LabelTypes(NamedTuple):
    """What `schemes.to_spans` reads, as arrays.

    `L` labels, `K` types.

    Attributes:
        names: The K types, sorted; a type's index is its id.
        types: The type id of each label, `[L]`; -1 outside all spans.
        goes_on: `[L, L]`: whether column j, after row i, goes on with the span of i.
    """

    names: tuple[str, ...]
    types: np.ndarray
    goes_on: np.ndarray


def label_types(label_names: Sequence[str]) -> LabelTypes:
    """Gives the spans of labels of any scheme, well-formed or not.

    A span begins at a label that is not `O` and does not go on with the span of the
    label before it; it ends where the next label does not go on with it.

    Args:
        label_names: A label's index is its id.

    Raises:
        ValueError: A label is malformed; tags have no spans.

    Example:
        >>> found = label_types(("O", "B-PER", "I-PER"))
        >>> found.names, found.types.tolist(), found.goes_on[1].tolist()
        (('PER',), [-1, 0, 0], [False, False, True])
    """
    parsed = [schemes.parse(name) for name in label_names]
    names = tuple(sorted({kind for _, kind in parsed} - {""}))
    types = [names.index(kind) if kind else -1 for _, kind in parsed]
    # Two labels of one type are one span, or two that touch.
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
