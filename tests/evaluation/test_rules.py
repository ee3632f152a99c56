"""The papers' own scorers, by hand-worked cases."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxner.data import corpora, schemes
from jaxner.evaluation import predictions, rules, scoring
from jaxner.evaluation.rules import ALONE, LOST


def spans(text, rule, scheme="BIOES"):
    return [tuple(span) for span in rules.spans(text.split(), rule, scheme)]


def counts(gold, predicted, rule, scheme="BIOES"):
    return tuple(rules.count([gold.split()], [predicted.split()], rule, scheme))


# --- NCRF++: from a B to the next E ---------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ("B-A I-A E-A S-B", [("A", 0, 2), ("B", 3, ALONE)]),
        ("B-A I-B E-C", [("A", 0, 2)]),  # types of I and E are ignored
        ("B-A O O E-A", [("A", 0, 3)]),  # an O closes nothing
        ("B-A S-A", [("A", 0, 0), ("A", 1, ALONE)]),  # closed before the next start
        ("B-A I-A B-B E-B", [("A", 0, 1), ("B", 2, 3)]),
        ("I-A E-A O E-B", []),  # nothing has begun
        ("O B-A I-A", [("A", 1, ALONE)]),  # never closed
        ("B-A O E-A E-A", [("A", 0, 2)]),
        ("O O", []),
    ],
)
def test_ncrfpp(labels, expected):
    assert spans(labels, "ncrfpp") == expected
    bilou = labels.replace("E-", "L-").replace("S-", "U-")
    assert spans(bilou, "ncrfpp", "BILOU") == expected


def test_ncrfpp_matches_what_is_never_closed_by_its_start():
    assert counts("O S-A", "O B-A", "ncrfpp") == (1, 1, 1)
    assert counts("O S-A", "O B-A", "conlleval") == (1, 1, 1)
    assert counts("S-A O", "B-A O", "ncrfpp") == (1, 1, 1)
    # Closed by the next start, it has an end, which a single token has not.
    assert counts("S-A S-B", "B-A S-B", "ncrfpp") == (1, 2, 2)
    assert counts("B-A E-A", "B-A I-A", "ncrfpp") == (0, 1, 1)
    assert counts("B-A E-A", "B-A I-A", "conlleval") == (1, 1, 1)


def test_ncrfpp_needs_labels_that_end_spans():
    with pytest.raises(ValueError, match="reads BIOES or BILOU, not 'BIO'"):
        rules.count([["B-A"]], [["B-A"]], "ncrfpp", "BIO")


# --- Strubell et al.: conlleval's, but for what follows at once -----------------------


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ("B-A I-A L-A U-B", [("A", 0, 2), ("B", 3, 3)]),
        ("B-A L-A I-A", [("A", 0, 2)]),  # an L ends nothing
        ("U-A L-A", [("A", 0, 1)]),  # a U is a B
        ("U-A I-B O", [("A", 0, LOST), ("B", 1, 1)]),
        ("B-A L-A L-B", [("A", 0, LOST), ("B", 2, 2)]),
        ("U-A B-B L-B", [("A", 0, 0), ("B", 1, 2)]),  # a start loses nothing
        ("I-A O L-A", [("A", 0, 0), ("A", 2, 2)]),
        ("U-A U-A", [("A", 0, 0), ("A", 1, 1)]),
    ],
)
def test_idcnn(labels, expected):
    assert spans(labels, "idcnn", "BILOU") == expected
    bioes = labels.replace("L-", "E-").replace("U-", "S-")
    assert spans(bioes, "idcnn") == expected


def test_idcnn_counts_the_lost_span_as_predicted():
    assert counts("U-A O", "U-A L-B", "idcnn", "BILOU") == (0, 2, 1)
    assert counts("U-A O", "U-A L-B", "conlleval", "BILOU") == (1, 2, 1)
    # conlleval closes a span at an L, Strubell et al.'s program does not.
    assert counts("B-A L-A O", "B-A L-A L-A", "idcnn", "BILOU") == (0, 1, 1)
    assert counts("B-A L-A O", "B-A L-A L-A", "conlleval", "BILOU") == (1, 2, 1)


# --- Strict, and all together ---------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ("B-A I-A E-A S-B", [("A", 0, 2), ("B", 3, 3)]),
        ("B-A I-B E-A", []),  # a clash of types voids the span
        ("B-A O E-A", []),  # so does an O
        ("B-A I-A O S-A", [("A", 3, 3)]),
        ("I-A E-A", []),
    ],
)
def test_strict(labels, expected):
    assert spans(labels, "strict") == expected


LABELS = ["O", *(f"{p}-{kind}" for kind in "AB" for p in "BIES")]
SENTENCES = st.lists(st.lists(st.sampled_from(LABELS), max_size=8), max_size=4)


@given(SENTENCES)
def test_the_rules_agree_on_well_formed_labels(sentences):
    well_formed = [schemes.convert(labels, "BIOES") for labels in sentences]
    gold = [["O"] * len(labels) for labels in sentences]
    found = {rules.count(gold, well_formed, rule) for rule in rules.RULES}
    assert len(found) == 1
    for rule in rules.RULES:
        its = rules.count(well_formed, well_formed, rule)
        assert its.correct == its.predicted == its.gold


@given(SENTENCES)
def test_rules_are_those_of_scoring(predicted):
    gold = [schemes.convert(labels[::-1], "BIOES") for labels in predicted]
    for rule in rules.RULES:
        expected = scoring.score(gold, predicted, rule=rule, scheme="BIOES").overall
        assert rules.count(gold, predicted, rule) == expected


@given(SENTENCES)
def test_no_more_is_correct_than_there_is(predicted):
    gold = [schemes.convert(labels[::-1], "BIOES") for labels in predicted]
    for rule in rules.RULES:
        its = rules.per_sentence(gold, predicted, rule)
        assert (its[:, 0] <= its[:, 1:].min(1)).all()
        assert rules.total(its) == rules.count(gold, predicted, rule)


def test_unknown_rules_and_lengths_are_told():
    with pytest.raises(ValueError, match="Unknown rule 'muc'; known: conlleval, str"):
        rules.count([], [], "muc")
    with pytest.raises(ValueError, match=r"Sentence 1 .* gold has 1 label, pred.* 2"):
        rules.count([["O"], ["O"]], [["O"], ["O", "O"]], "idcnn")


def test_tokens_of_tags():
    its = rules.tokens_per_sentence([["X", "Y"], ["Z"]], [["X", "X"], ["Z"]])
    np.testing.assert_array_equal(its, [[1, 2, 2], [1, 1, 1]])
    assert rules.total(its).f1 == 2 / 3


# --- Files of predictions -------------------------------------------------------------


def test_predictions_come_back_as_they_were(tmp_path):
    split = corpora.load("sample", "dev")
    gold = [list(e.labels) for e in split.to_scheme("BILOU")]
    predicted = [["I-PER"] * len(labels) for labels in gold]  # ill-formed, and kept
    predictions.write(tmp_path / "dev.conll", split, gold, predicted)
    again = predictions.read(tmp_path / "dev.conll")
    for side, expected in zip(again, (gold, predicted), strict=True):
        assert [list(labels) for labels in side] == expected
