import json
import random
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from seqeval.metrics import f1_score, precision_score, recall_score
from seqeval.metrics.v1 import precision_recall_fscore_support
from seqeval.scheme import BILOU, IOB1, IOB2, IOBES, IOE1, IOE2

from jaxner.data.schemes import Span, convert, to_labels, violations
from jaxner.evaluation import rules
from jaxner.evaluation.scoring import Counts, score, score_with_seqeval
from tests.evaluation.conlleval_reference import conlleval

TYPES = ("LOC", "PER", "x-y")
LETTERS = {
    "IOB1": "BI",
    "BIO": "BI",
    "BIOES": "BIES",
    "BILOU": "BILU",
    "IOE1": "IE",
    "IOE2": "IE",
}
SEQEVAL = {
    "IOB1": IOB1,
    "BIO": IOB2,
    "BIOES": IOBES,
    "BILOU": BILOU,
    "IOE1": IOE1,
    "IOE2": IOE2,
}
# Many small tests, each of which takes a second for 100 examples on a busy machine; the
# random corpora below cover more sequences in less time.
FEW = settings(max_examples=20, deadline=None)


def any_labels(scheme, length):
    """Label sequences of a scheme's letters, mostly ill-formed."""
    names = ["O", *(f"{p}-{kind}" for p in LETTERS[scheme] for kind in TYPES)]
    return st.lists(st.sampled_from(names), min_size=length, max_size=length)


@st.composite
def well_formed(draw, scheme, length):
    spans, position = [], 0
    while position < length:
        end = draw(st.integers(position + 1, length))
        kind = draw(st.sampled_from((None, *TYPES)))
        if kind is not None:
            spans.append(Span(position, end, kind))
        position = end
    return to_labels(spans, length, scheme)


@st.composite
def corpora(draw, scheme, labels=any_labels):
    """A gold and a predicted side of the same shape, with some sentences alike."""
    lengths = draw(st.lists(st.integers(0, 8), max_size=4))
    gold = [draw(labels(scheme, length)) for length in lengths]
    predicted = [
        right if draw(st.booleans()) else draw(any_labels(scheme, len(right)))
        for right in gold
    ]
    return gold, predicted


def random_corpus(scheme, sentences=4_000):
    """Two sides of ill-formed labels, mostly alike so that spans agree now and then."""
    rng = random.Random(0)
    names = ["O", *(f"{p}-{kind}" for p in LETTERS[scheme] for kind in TYPES)]
    gold = [rng.choices(names, k=rng.randint(0, 8)) for _ in range(sentences)]
    predicted = [
        [label if rng.random() < 0.8 else rng.choice(names) for label in labels]
        for labels in gold
    ]
    return gold, predicted


def figures(counts):
    """Precision, recall and F1; seqeval's 0 where they are undefined."""
    return tuple(x or 0.0 for x in (counts.precision, counts.recall, counts.f1))


def seqeval_figures(gold, predicted, **options):
    if not gold:
        return (0.0, 0.0, 0.0)  # seqeval raises a TypeError
    return tuple(
        metric(gold, predicted, zero_division=0, **options)
        for metric in (precision_score, recall_score, f1_score)
    )


class TestAgainstSeqeval:
    @pytest.mark.parametrize("scheme", ["IOB1", "BIO", "BIOES"])
    @pytest.mark.parametrize("labels", [any_labels, well_formed])
    @given(data=st.data())
    @FEW
    def test_conlleval_rule_is_default_mode(self, scheme, labels, data):
        gold, predicted = data.draw(corpora(scheme, labels))
        ours = score(gold, predicted, scheme=scheme)
        expected = seqeval_figures(gold, predicted)
        assert figures(ours) == pytest.approx(expected, rel=1e-12, abs=0)

    @pytest.mark.parametrize("scheme", SEQEVAL)
    @pytest.mark.parametrize("labels", [any_labels, well_formed])
    @given(data=st.data())
    @FEW
    def test_strict_rule_is_strict_mode(self, scheme, labels, data):
        gold, predicted = data.draw(corpora(scheme, labels))
        ours = score(gold, predicted, rule="strict", scheme=scheme)
        options = {"mode": "strict", "scheme": SEQEVAL[scheme]}
        expected = seqeval_figures(gold, predicted, **options)
        assert figures(ours) == pytest.approx(expected, rel=1e-12, abs=0)
        if gold:
            *by_type, support = precision_recall_fscore_support(
                gold, predicted, scheme=SEQEVAL[scheme], average=None, zero_division=0
            )
            assert [counts.gold for counts in ours.by_type.values()] == list(support)
            for ours_of_type, *theirs in zip(
                ours.by_type.values(), *by_type, strict=True
            ):
                assert figures(ours_of_type) == pytest.approx(theirs, rel=1e-12, abs=0)

    @pytest.mark.parametrize("scheme", ["IOB1", "BIO", "BIOES", "BILOU"])
    @given(data=st.data())
    @FEW
    def test_score_with_seqeval_counts_as_score(self, scheme, data):
        gold, predicted = data.draw(corpora(scheme))
        ours = score(gold, predicted, scheme=scheme)
        theirs = score_with_seqeval(gold, predicted, scheme=scheme)
        assert theirs.to_dict() == ours.to_dict()  # also the rule's name
        assert list(theirs.by_type) == list(ours.by_type)

    @pytest.mark.parametrize("scheme", SEQEVAL)
    def test_random_corpus(self, scheme):
        gold, predicted = random_corpus(scheme)
        ours = score(gold, predicted, scheme=scheme)
        theirs = score_with_seqeval(gold, predicted, scheme=scheme)
        assert theirs.by_type == ours.by_type
        assert 0.3 < ours.f1 < 0.9  # else the comparison would say little
        strict = score(gold, predicted, rule="strict", scheme=scheme)
        options = {"mode": "strict", "scheme": SEQEVAL[scheme]}
        expected = seqeval_figures(gold, predicted, **options)
        assert figures(strict) == pytest.approx(expected, rel=1e-12, abs=0)
        assert 0 < strict.overall.correct < ours.overall.correct
        assert strict.ill_formed == sum(len(violations(x, scheme)) for x in predicted)

    @pytest.mark.parametrize("scheme", SEQEVAL)
    def test_averages_are_those_of_seqeval(self, scheme):
        gold, predicted = random_corpus(scheme)
        options = {"scheme": SEQEVAL[scheme], "mode": "strict"}
        ours = score(gold, predicted, rule="strict", scheme=scheme)
        for average in ("macro", "weighted"):
            expected = seqeval_figures(gold, predicted, average=average, **options)
            assert getattr(ours, average) == pytest.approx(expected, rel=1e-12)

    def test_accepts_other_sequences_than_lists(self):
        gold = (("B-PER", "L-PER", "U-LOC"), ())
        for scores in (score(gold, gold), score_with_seqeval(gold, gold)):
            assert scores.overall == Counts(2, 2, 2)


class TestAgainstConlleval:
    @pytest.mark.parametrize("scheme", ["IOB1", "BIO", "IOE1", "IOE2"])
    @given(data=st.data())
    @FEW
    def test_program_of_2003(self, scheme, data):
        gold, predicted = data.draw(corpora(scheme))
        assert score(gold, predicted).by_type == conlleval(gold, predicted)

    @given(data=st.data())
    @FEW
    def test_extended_to_bioes(self, data):
        gold, predicted = data.draw(corpora("BIOES"))
        assert score(gold, predicted).by_type == conlleval(gold, predicted, bioes=True)

    @pytest.mark.parametrize("scheme", ["IOB1", "BIO", "BIOES", "IOE1", "IOE2"])
    def test_random_corpus(self, scheme):
        gold, predicted = random_corpus(scheme)
        expected = conlleval(gold, predicted, bioes=scheme == "BIOES")
        assert score(gold, predicted).by_type == expected

    def test_we_see_a_break_between_e_and_b_that_the_program_does_not(self):
        gold = [["B-PER", "E-PER", "B-PER", "E-PER"]]
        predicted = [["B-PER", "I-PER", "I-PER", "E-PER"]]
        assert conlleval(gold, predicted) == {"PER": (1, 1, 1)}
        assert score(gold, predicted).overall == Counts(0, 1, 2)


# The rows of the table in the note on demands: predicted labels, and the spans that
# seqeval's default and strict mode read from them.
MALFORMED = [
    ("BIO", "I-PER I-PER O", [(0, 2, "PER")], []),
    ("BIO", "B-PER I-LOC O", [(0, 1, "PER"), (1, 2, "LOC")], [(0, 1, "PER")]),
    ("BIOES", "B-PER I-PER O", [(0, 2, "PER")], []),
    ("BIOES", "I-PER E-PER O", [(0, 2, "PER")], []),
    ("BIOES", "B-PER E-LOC O", [(0, 1, "PER"), (1, 2, "LOC")], []),
    ("BIOES", "B-PER O E-PER", [(0, 1, "PER"), (2, 3, "PER")], []),
    ("BIOES", "S-PER E-PER O", [(0, 1, "PER"), (1, 2, "PER")], [(0, 1, "PER")]),
    ("BIOES", "B-PER B-PER E-PER", [(0, 1, "PER"), (1, 3, "PER")], [(1, 3, "PER")]),
]


class TestByHand:
    @pytest.mark.parametrize(("scheme", "text", "lenient", "strict"), MALFORMED)
    def test_malformed_predictions(self, scheme, text, lenient, strict):
        predicted = text.split()
        for rule, spans in (("conlleval", lenient), ("strict", strict)):
            # Gold labels that hold exactly the spans expected: all must be found.
            gold = to_labels(spans, len(predicted), scheme)
            scores = score([gold], [predicted], rule=rule, scheme=scheme)
            assert scores.overall == Counts(len(spans), len(spans), len(spans))
            assert scores.ill_formed == len(violations(predicted, scheme)) > 0
            assert scores.ill_formed_sentences == 1

    def test_ncrfpp_scorer_gives_100_for_these_and_we_do_not(self):
        gold = [["B-PER", "I-PER", "E-PER"]]
        for text in ("B-PER O E-PER", "B-PER I-ORG E-ORG", "B-PER I-LOC E-ORG"):
            for rule in ("conlleval", "strict"):
                scores = score(gold, [text.split()], rule=rule, scheme="BIOES")
                assert scores.f1 == 0.0

    def test_a_small_table(self):
        gold = [
            ["B-PER", "I-PER", "O", "B-LOC"],  # PER 0-2, LOC 3-4
            ["O", "B-ORG", "I-ORG", "I-ORG"],  # ORG 1-4
            ["B-LOC", "B-LOC", "O"],  # LOC 0-1, LOC 1-2
        ]
        predicted = [
            ["B-PER", "I-PER", "O", "B-ORG"],  # PER right; ORG 3-4 has the wrong type
            ["O", "B-ORG", "I-ORG", "O"],  # ORG 1-3 is too short
            ["B-LOC", "I-LOC", "I-PER"],  # LOC 0-2 wrong; PER 2-3 ill-formed, wrong
        ]
        scores = score(gold, predicted, scheme="BIO")
        assert scores.by_type == {
            "LOC": Counts(correct=0, predicted=1, gold=3),
            "ORG": Counts(correct=0, predicted=2, gold=1),
            "PER": Counts(correct=1, predicted=2, gold=1),
        }
        assert scores.overall == Counts(correct=1, predicted=5, gold=5)
        assert figures(scores) == (0.2, 0.2, 0.2)
        assert figures(scores.by_type["PER"]) == (0.5, 1.0, pytest.approx(2 / 3))
        assert (scores.tokens, scores.correct_tokens) == (11, 7)
        assert scores.accuracy == 7 / 11
        assert (scores.ill_formed, scores.ill_formed_sentences) == (1, 1)
        assert (scores.sentences, scores.rule, scores.scheme) == (3, "conlleval", "BIO")
        # Strict drops the one span that begins with an I.
        strict = score(gold, predicted, rule="strict", scheme="BIO")
        assert strict.overall == Counts(correct=1, predicted=4, gold=5)
        assert strict.precision == 0.25

    def test_type_that_the_model_never_saw(self):
        scores = score([["B-GPE", "B-PER"]], [["O", "B-PER"]])
        assert scores.by_type == {"GPE": Counts(0, 0, 1), "PER": Counts(1, 1, 1)}
        assert figures(scores.by_type["GPE"]) == (0.0, 0.0, 0.0)

    def test_type_that_gold_does_not_have(self):
        assert score([["O"]], [["S-GPE"]]).by_type == {"GPE": Counts(0, 1, 0)}

    def test_type_names_that_look_like_prefixes(self):
        labels = [["B-S-B-x", "I-S-B-x", "O", "B-B"]]
        assert list(score(labels, labels).by_type) == ["B", "S-B-x"]

    def test_sides_in_different_schemes(self):
        gold = [["I-PER", "I-PER", "B-PER", "O", "I-LOC"]]
        for scheme in ("BIO", "BIOES", "BILOU"):
            predicted = [convert(gold[0], scheme)]
            scores = score(gold, predicted, scheme=scheme)
            assert (scores.f1, scores.ill_formed) == (1.0, 0)

    def test_scheme_is_detected_from_gold(self):
        scores = score([["B-PER", "E-PER"]], [["B-PER", "I-PER"]])
        assert (scores.scheme, scores.ill_formed) == ("BIOES", 1)


class TestEmpty:
    @pytest.mark.parametrize("labels", [[], [[]], [["O", "O"], []]])
    @pytest.mark.parametrize(
        "scorer", [score, score_with_seqeval, lambda g, p: score(g, p, rule="strict")]
    )
    def test_without_spans_all_is_undefined(self, labels, scorer):
        scores = scorer(labels, labels)
        assert (scores.by_type, scores.overall) == ({}, Counts(0, 0, 0))
        assert (scores.precision, scores.recall, scores.f1) == (None, None, None)
        assert scores.macro == scores.weighted == (None, None, None)
        assert scores.sentences == len(labels)
        assert scores.to_dict()["f1"] is None

    def test_without_predictions_precision_is_undefined(self):
        scores = score([["B-PER"]], [["O"]])
        assert (scores.precision, scores.recall, scores.f1) == (None, 0.0, 0.0)
        assert scores.macro == scores.weighted == (0.0, 0.0, 0.0)  # as in seqeval

    def test_without_gold_recall_is_undefined(self):
        scores = score([["O"]], [["B-PER"]])
        assert (scores.precision, scores.recall, scores.f1) == (0.0, None, 0.0)
        assert scores.weighted == (None, None, None)

    def test_accuracy_without_tokens(self):
        assert score([], []).accuracy is None


class TestErrors:
    @pytest.mark.parametrize("scorer", [score, score_with_seqeval])
    def test_number_of_sentences(self, scorer):
        with pytest.raises(ValueError, match="got 2 gold and 1 predicted"):
            scorer([["O"], ["O"]], [["O"]])

    def test_length_names_the_sentence_and_both_lengths(self):
        with pytest.raises(ValueError, match=r"Sentence 1 .*gold has 2 .*predicted 3"):
            score([["O"], ["O", "O"]], [["O"], ["O", "O", "O"]])

    def test_malformed_label_names_sentence_and_position(self):
        with pytest.raises(ValueError, match=r"Sentence 1 .*Position 0: .*'PER'"):
            score([["O"], ["O"]], [["O"], ["PER"]])

    def test_unknown_rule(self):
        with pytest.raises(
            ValueError, match="'exact'; known: conlleval, strict, idcnn"
        ):
            score([], [], rule="exact")

    def test_unknown_scheme(self):
        with pytest.raises(ValueError, match="Unknown scheme 'IOB2'"):
            score([["O"]], [["O"]], scheme="IOB2")

    def test_strict_refuses_labels_of_another_scheme(self):
        for gold, predicted in (("E-PER", "O"), ("O", "E-PER")):
            with pytest.raises(ValueError, match=r"as BIO, which has no label E-"):
                score([[gold]], [[predicted]], rule="strict", scheme="BIO")

    def test_rules_that_need_another_scheme(self):
        with pytest.raises(ValueError, match="reads BIOES or BILOU, not 'BIO'"):
            score([["O"]], [["O"]], rule="ncrfpp", scheme="BIO")


def test_counts_add_up():
    assert Counts(1, 2, 3) + Counts(10, 20, 30) == Counts(11, 22, 33)
    assert sum([Counts(1, 1, 1)] * 3, Counts()) == Counts(3, 3, 3)


def test_to_dict_is_json_in_percent():
    plain = score([["B-PER", "O", "O"]], [["B-PER", "B-LOC", "B-LOC"]]).to_dict()
    assert json.loads(json.dumps(plain)) == plain
    assert plain["precision"] == pytest.approx(100 / 3, rel=1e-12)
    assert (plain["recall"], plain["f1"]) == (100, 50)
    assert plain["accuracy"] == plain["precision"]
    assert (plain["correct"], plain["predicted"], plain["gold"]) == (1, 3, 1)
    assert (plain["rule"], plain["scheme"]) == ("conlleval", "BIO")
    assert (plain["tokens"], plain["correct_tokens"], plain["sentences"]) == (3, 1, 1)
    assert (plain["ill_formed"], plain["ill_formed_sentences"]) == (0, 0)
    assert plain["by_type"]["PER"]["f1"] == 100
    assert isinstance(plain["jaxner"], str)
    assert "overall" not in plain


def test_a_million_tokens_a_second(unchecked):
    """A fifth of a million in a fifth of a second, by every rule."""
    rng = random.Random(0)
    names = ["O"] * 20 + [f"{p}-{kind}" for p in "BIES" for kind in TYPES]
    sides = [[rng.choices(names, k=16) for _ in range(12_500)] for _ in range(2)]
    for rule in rules.RULES:
        seconds = []
        for _ in range(3):
            began = time.process_time()
            score(*sides, rule=rule, scheme="BIOES")
            seconds.append(time.process_time() - began)
        assert min(seconds) < 0.2


@pytest.mark.parametrize(("gold", "predicted"), [(None, [["O"]]), ([["O"]], 3)])
def test_no_sentences_at_all_are_told(gold, predicted, unchecked):
    with pytest.raises(TypeError, match=r"Expected (gold|predicted) as a list of sen"):
        score(gold, predicted)
