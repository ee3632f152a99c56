"""Accepted tokens, and errors for others that name a call that works."""

import numpy as np
import pytest

from jaxner.data.sentences import is_one_sentence


@pytest.mark.parametrize(
    ("tokens", "is_one"),
    [
        (["Rome"], True),
        (("Rome", "fell"), True),
        (np.array(["Rome", "fell"]), True),
        (np.array([["Rome", "fell"]]), False),
        ([], False),
        ([[]], False),
        ([["Rome"], ()], False),
        ([np.array(["Rome"], object)], False),
    ],
)
def test_lists_tuples_and_arrays_are_taken(tokens, is_one):
    assert is_one_sentence(tokens) is is_one


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        (["Rome", None], "NoneType as token 1."),
        (["Rome", float("nan")], "float as token 1."),
        ([["Rome"], ["fell", None]], "NoneType as token 1 of sentence 1."),
        ([["Rome"], "fell"], "list as token 0."),
        ([["Rome"], None], "NoneType as item 1."),
        ([[b"Rome"]], "bytes as token 0 of sentence 0: decode it."),
        ((x for x in [["Rome"]]), "generator: give list(tokens)."),
        ({"Rome": 1}.keys(), "dict_keys: give list(tokens)."),
        ([iter(["Rome"])], "list_iterator as item 0: give list(item)."),
        (np.array("Rome"), "an array without axes: give [tokens.item()]."),
        ([np.array("Rome")], "an array without axes as item 0: give [item.item()]."),
        (np.arange(3), "an array of int64."),
        (b"Rome fell", "bytes."),
        ({"Rome": 1}, "dict."),
        (7, "int."),
        ("Rome fell", "the string 'Rome fell'. Split it into tokens first."),
    ],
)
def test_anything_else_is_refused_with_what_works(tokens, message):
    with pytest.raises(TypeError) as error:
        is_one_sentence(tokens)
    assert str(error.value).endswith(f"got {message}")


def test_a_column_of_a_table_is_refused_with_what_works():
    pandas = pytest.importorskip("pandas")
    column = pandas.Series(["Rome", "fell"])
    with pytest.raises(TypeError, match=r"got Series: give list\(tokens\)"):
        is_one_sentence(column)
    assert is_one_sentence(list(column))
