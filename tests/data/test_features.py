"""Surface features of tokens: case, digits, types of characters."""

import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxner.data import features
from jaxner.models.characters import NUM_TYPES
from jaxner.types import Caps

CASES = {
    "": Caps.NONE,
    "EU": Caps.ALL,
    "A": Caps.ALL,
    "МОСКВА": Caps.ALL,
    "U.N.": Caps.ALL_FIRST,
    "B-52": Caps.ALL_FIRST,
    "3M": Caps.ALL_LATER,
    ".NET": Caps.ALL_LATER,
    "'EM": Caps.ALL_LATER,
    "Rome": Caps.FIRST,
    "École": Caps.FIRST,
    "McDonald": Caps.FIRST,
    "F-16s": Caps.FIRST,
    "eBay": Caps.LATER,
    ".Net": Caps.LATER,
    "1Ab": Caps.LATER,
    "rejects": Caps.LOWER,
    "mid-1990s": Caps.LOWER,
    "ß": Caps.LOWER,
    "1996": Caps.UNCASED,
    ",": Caps.UNCASED,
    "第一": Caps.UNCASED,
    " ": Caps.UNCASED,
}


@pytest.mark.parametrize("token", CASES)
def test_caps(token):
    assert features.caps(token) is CASES[token]


def test_every_class_is_met():
    assert set(CASES.values()) == set(Caps)
    assert [int(kind) for kind in Caps] == list(range(8))


@given(st.text(min_size=1))
def test_caps_are_the_rules_of_python(token):
    kind = features.caps(token)
    assert (kind in (Caps.ALL, Caps.ALL_FIRST, Caps.ALL_LATER)) == token.isupper()
    assert (kind is Caps.ALL) == all(char.isupper() for char in token)
    first = kind in (Caps.ALL, Caps.ALL_FIRST, Caps.FIRST)
    assert first == token[0].isupper()
    assert (kind is Caps.LOWER) == token.islower()
    some = kind not in (Caps.LOWER, Caps.UNCASED)
    assert some == any(char.isupper() for char in token)


def test_character_types():
    expected = {
        1: string.ascii_uppercase,
        2: string.ascii_lowercase,
        3: string.digits,
        4: string.punctuation,
        0: "éÉ第٣ \t–€",
    }
    for kind, chars in expected.items():
        assert {features.char_type(char) for char in chars} == {kind}
    assert features.CHAR_TYPES == ("upper", "lower", "digit", "punctuation")
    assert len(features.CHAR_TYPES) == NUM_TYPES


@pytest.mark.parametrize(
    ("token", "expected"),
    [
        ("1996-08-22", "0000-00-00"),
        ("B-52", "B-00"),
        ("mid-1990s", "mid-0000s"),
        ("Rome", "Rome"),
        ("٣", "0"),  # any script's digits
        ("½", "½"),
        ("", ""),
    ],
)
def test_zero_digits(token, expected):
    assert features.zero_digits(token) == expected


@given(st.text())
def test_zero_digits_keeps_the_length_and_the_case(token):
    zeroed = features.zero_digits(token)
    assert len(zeroed) == len(token)
    assert features.zero_digits(zeroed) == zeroed
    assert features.caps(zeroed) is features.caps(token)
    assert not re.search("[1-9]", zeroed)


def test_letters_and_digits():
    assert len(features.ASCII_LETTERS_AND_DIGITS) == 62
    assert features.ASCII_LETTERS_AND_DIGITS.isalnum()
