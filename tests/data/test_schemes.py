"""Schemes against seqeval, against regular grammars, and against themselves."""

import itertools
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from seqeval.metrics.sequence_labeling import get_entities

from jaxner.data import schemes
from jaxner.data.schemes import SCHEMES, Span
from jaxner.errors import InputError

TYPES = ["PER", "PER-x", "événement", "S-B", "O", "组织"]

# The grammars again, as regular expressions over one-letter prefixes of one type.
GRAMMARS = {
    # One type: a B only follows a B or I.
    "IOB1": r"(O|I[BI]*)*",
    "BIO": r"(O|BI*)*",
    "BIOES": r"(O|S|BI*E)*",
    "BILOU": r"(O|U|BI*L)*",
    # One type: what follows an E is an I or E.
    "IOE1": r"(O|E*I+)*",
    "IOE2": r"(O|I*E)*",
}


@st.composite
def sentences(draw):
    """A length and spans that fit it."""
    spans, end = [], 0
    for _ in range(draw(st.integers(0, 5))):
        start = end + draw(st.integers(0, 2))
        end = start + draw(st.integers(1, 4))
        spans.append(Span(start, end, draw(st.sampled_from(TYPES))))
    return end + draw(st.integers(0, 2)), spans


NAMES = ["O", *(f"{p}-{kind}" for p in "BIES" for kind in ("A", "B", "A-B"))]


@settings(max_examples=300)
@given(st.lists(st.sampled_from(NAMES)) | st.lists(st.sampled_from(["O", *"BIESLU"])))
def test_spans_are_those_of_seqeval_also_of_ill_formed_and_bare_labels(labels):
    respelt = [{"L": "E", "U": "S"}.get(label, label) for label in labels]
    expected = [(start, end + 1, kind) for kind, start, end in get_entities(respelt)]
    assert schemes.to_spans(labels) == expected
    assert schemes.to_spans(["I"]) == [(0, 1, schemes.NO_TYPE)]


@pytest.mark.parametrize("scheme", SCHEMES)
@given(sentence=sentences())
@settings(max_examples=50)
def test_labels_give_back_their_spans_and_are_well_formed(scheme, sentence):
    length, spans = sentence
    labels = schemes.to_labels(reversed(spans), length, scheme)
    assert len(labels) == length
    assert schemes.to_spans(labels) == spans
    assert schemes.violations(labels, scheme) == []
    assert {*labels} <= {*schemes.label_names(TYPES, scheme)}
    for target in SCHEMES:
        expected = schemes.to_labels(spans, length, target)
        assert schemes.convert(labels, target) == expected


@pytest.mark.parametrize("scheme", SCHEMES)
def test_violations_and_constraints_agree_with_the_grammar(scheme):
    # All prefixes, also those of other schemes, which must always be ill-formed.
    names = ("O", *(f"{prefix}-X" for prefix in "BIESLU"))
    start, transitions, end = schemes.allowed(names, scheme)
    counts = {True: 0, False: 0}
    for length in range(1, 5):
        for ids in itertools.product(range(len(names)), repeat=length):
            labels = [names[i] for i in ids]
            letters = "".join(label[0] for label in labels)
            expected = re.fullmatch(GRAMMARS[scheme], letters) is not None
            assert (schemes.violations(labels, scheme) == []) is expected, labels
            steps = all(transitions[a, b] for a, b in itertools.pairwise(ids))
            assert bool(start[ids[0]] and steps and end[ids[-1]]) is expected, labels
            counts[expected] += 1
    assert all(counts.values())


@pytest.mark.parametrize("scheme", [*SCHEMES, schemes.TAGS])
def test_constraints_of_two_types_are_those_of_each_pair(scheme):
    names = ("O", *(f"{prefix}-{kind}" for kind in "XY" for prefix in "BIESLU"))
    start, transitions, end = schemes.allowed(names, scheme)
    for (i, a), (j, b) in itertools.product(enumerate(names), repeat=2):
        flaws = schemes.violations([a, b], scheme)
        assert (start[i] and transitions[i, j] and end[j]) == (not flaws), (a, b)


def test_constraints_of_a_thousand_types_take_no_step_for_each_pair(monkeypatch):
    calls, breaks = [], schemes._breaks
    monkeypatch.setattr(schemes, "_breaks", lambda *x: calls.append(x) or breaks(*x))
    names = schemes.label_names(map(str, range(1000)), "BIOES")
    assert schemes.allowed(names, "BIOES")[1].sum() == 2001**2 + 2 * 2000
    assert len(calls) < 100


@pytest.mark.parametrize("scheme", SCHEMES)
@given(corpus=st.lists(sentences(), min_size=1))
@settings(max_examples=20)
def test_the_scheme_of_well_formed_labels_is_found(scheme, corpus):
    labels = [schemes.to_labels(spans, length, scheme) for length, spans in corpus]
    entities = sum(len(spans) for _, spans in corpus)
    expected = scheme if entities else "BIO"
    if expected == "IOE1" and not any(x[0] == "E" for row in labels for x in row):
        expected = "IOB1"  # without spans that touch, both write the same
    assert schemes.fitting(labels)[0] == expected


@pytest.mark.parametrize("bad", ["X-PER", "B-", "b", "", "b-PER", "O-PER", "BPER"])
def test_malformed_labels_are_named_with_their_position(bad):
    for call in (schemes.violations, schemes.allowed, schemes.convert):
        with pytest.raises(InputError, match=re.escape(f"Position 1: Label {bad!r}")):
            call(["O", bad], "BIO")


def test_labels_without_prefixes_are_known_from_other_columns():
    many = [f"PERSON-{'NAME' * i}" for i in range(1, 100)]  # Few-NERD has 66
    assert schemes.is_io(["O", "PER", *many, "O"])
    assert schemes.from_io(["PER", "O"]) == ["I-PER", "O"]
    for label in ("B-PER", "B_PER", "PER-B", "X-PER", "o", "B-", "O-PER", "M-PER"):
        assert not schemes.is_io(["O", "PER", label])
    assert not schemes.is_io(["NNP", "VBZ"])
    assert not schemes.is_io(["O"])
    assert not schemes.is_io(["O", *map(str, range(100, 200))])
    # A prefix among other types is a type; alone, L and M could begin no entity.
    assert all(map(schemes.is_io, (["O", "PER", "B"], ["O", "L"], ["O", "P", "L"])))
    assert "B is read as I-B" in schemes.choices(["O", "ART", "B"])[0]


def test_prefixes_of_chinese_corpora_and_bare_ones_are_said():
    assert schemes.to_spans(["B-A", "M-A", "E-A", "W-A"]) == [(0, 3, "A"), (3, 4, "A")]
    assert schemes.fitting([["B", "M", "E", "S"], ["W"]])[0] == "BIOES"
    for names in ("BI", "I", "BIES", "BILU", "BMES", "BMEW", "S", "E"):
        assert not schemes.is_io(["O", *names])
        assert not schemes.is_io(["O", *names.lower()])
        assert len(schemes.choices(["O", *names])) == 1
        assert schemes.flaws(["O", *names, "B-_"]) == {}
        assert set(schemes.flaws(["O", *names, "B-A"])) == {*names}  # lost its type
    assert schemes.choices(["O", "M-A", "B-A"]) == ["M-A is read as I-A"]
    assert schemes.choices(["O", "B-A", "L-A"]) == []


def test_schemes_that_fit_alike_are_all_named():
    assert schemes.fitting([["I-A", "O", "I-B"]]) == ("IOB1", "IOE1")
    assert schemes.fitting([["S-A", "U-A"]]) == ("BIOES", "BILOU")  # both broken
    assert schemes.fitting([["O"], []]) == schemes.fitting([]) == ("BIO",)


def test_what_no_labels_can_write_is_refused():
    for span in ((1, 3, "B"), (2, 4, "A"), (2, 2, "A"), (2, 3, "")):
        with pytest.raises(InputError):
            schemes.to_labels([(0, 2, "A"), span], 3, "BIO")
    for scheme in ("IOB2", schemes.TAGS):
        with pytest.raises(InputError):
            schemes.to_labels([], 1, scheme)
        with pytest.raises(InputError):
            schemes.convert(["O"], scheme)
    with pytest.raises(InputError):
        schemes.violations(["O"], "IOB2")


def test_labels_are_a_list_of_strings(no_checks):
    with pytest.raises(TypeError):
        schemes.convert("O", "BIO")


@pytest.mark.parametrize(
    ("names", "scheme", "labels"),
    [
        ("I-PER B-PER O B-LOC", "BIO", None),
        ("B-LOC I-LOC I-PER O", "IOB1", None),  # of the CoNLL-2003 of 2003
        ("I-PER I-LOC O", "IOB1", None),
        ("E-A O S-A I-A B-A", "BIOES", None),
        ("L-A O U-A I-A B-A", "BILOU", None),
        ("B-A M-A E-A S-A O", "BIOES", "B-A I-A E-A S-A O"),
        ("LOC O PER", "IOB1", "I-LOC O I-PER"),
        ("art-film O event-war", "IOB1", "I-art-film O I-event-war"),
        ("B I", "BIO", "B-_ I-_"),  # words of Chinese
        ("NOUN X VERB PUNCT", "tags", None),
        (". , ? : -", "tags", None),
    ],
)
def test_the_labels_of_a_tagger_tell_their_scheme(names, scheme, labels):
    expected = tuple((labels or names).split()), scheme
    assert schemes.inventory(names.split()) == expected
    assert schemes.inventory(names.split(), scheme) == expected


@pytest.mark.parametrize(
    ("names", "scheme", "message"),
    [
        ("B-PER X O", None, "'X' is neither"),
        ("B-PER S-PER O", "BIO", "'S-PER' is none of BIO"),
        ("I-PER M-PER O", None, "'I-PER' occurs twice"),
        ("I-PER", "BIO", "No labels of 1 token are well-formed in BIO"),
        ("B-A E-A", "BIOES", "No labels of 1 token"),
        ("O B-A", "IOB9", "Unknown scheme 'IOB9'"),
    ],
)
def test_labels_that_no_tagger_has(names, scheme, message):
    with pytest.raises(InputError, match=message):
        schemes.inventory(names.split(), scheme)
