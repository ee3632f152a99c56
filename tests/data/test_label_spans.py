"""The spans of labels as arrays, against the reader of labels."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxner.data import schemes
from jaxner.data.label_spans import label_types
from jaxner.data.schemes import Span

NAMES = ("S-B", "O", *(f"{p}-{k}" for k in ("A", "A-x") for p in "BIESLU"))


@given(st.lists(st.sampled_from(NAMES), max_size=9))
def test_walking_along_the_arrays_reads_the_spans(labels):
    kinds, types, goes_on = label_types(NAMES)
    ids = [NAMES.index(label) for label in labels]
    found = []
    for t, y in enumerate(ids):
        if t and goes_on[ids[t - 1], y]:
            found[-1] = found[-1]._replace(end=t + 1)
        elif types[y] >= 0:
            found.append(Span(t, t + 1, kinds[types[y]]))
    assert found == schemes.to_spans(labels)


def test_ids_of_types():
    kinds, types, goes_on = label_types(NAMES)
    assert kinds == ("A", "A-x", "B")
    assert types.tolist() == [2, -1, *[0] * 6, *[1] * 6]
    for i, j in itertools.product(range(len(NAMES)), repeat=2):
        assert not goes_on[i, j] or types[i] == types[j] >= 0


def test_no_labels_and_no_spans():
    assert label_types(()).goes_on.shape == (0, 0)
    assert label_types(("O",)).names == ()
    with pytest.raises(ValueError, match="neither 'O' nor PREFIX-TYPE"):
        label_types(("O", "NOUN"))
