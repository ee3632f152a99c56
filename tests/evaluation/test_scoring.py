"""Scores against seqeval, and counts by hand."""

import json
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from seqeval.metrics import f1_score, precision_score, recall_score
from seqeval.scheme import BILOU, IOB1, IOB2, IOBES, IOE1, IOE2

from jaxner.data import corpora, schemes
from jaxner.data.schemes import convert, violations
from jaxner.errors import InputError
from jaxner.evaluation import predictions, scoring
from jaxner.evaluation.scoring import NO_END, RULES, SINGLE, Counts, Task, score

TYPES = ("LOC", "PER", "x-y")
SEQEVAL = {"IOB1": IOB1, "BIO": IOB2, "BIOES": IOBES, "BILOU": BILOU}
SEQEVAL |= {"IOE1": IOE1, "IOE2": IOE2}
BIOES = ["O", *(f"{p}-{kind}" for kind in "AB" for p in "BIES")]
SENTENCES = st.lists(st.lists(st.sampled_from(BIOES), max_size=8), max_size=4)


def random_corpus(scheme, sentences=400, well_formed=False):
    """Two sides of labels, mostly alike so that spans agree now and then.

    Predicted labels are ill-formed, gold ones unless they are to be `well_formed`.
    """
    rng = random.Random(0)
    names = schemes.label_names(TYPES, scheme)
    gold = [rng.choices(names, k=rng.randint(0, 8)) for _ in range(sentences)]
    predicted = [
        [label if rng.random() < 0.8 else rng.choice(names) for label in labels]
        for labels in gold
    ]
    if well_formed:
        gold = [convert(labels, scheme) for labels in gold]
    return gold, predicted


def figures(counts):
    """Precision, recall and F1; seqeval's 0 where they are undefined."""
    return tuple(x or 0.0 for x in (counts.precision, counts.recall, counts.f1))


def seqeval_figures(*sides, **options):
    metrics = (precision_score, recall_score, f1_score)
    return tuple(metric(*sides, zero_division=0, **options) for metric in metrics)


def same_as(expected):
    return pytest.approx(expected, rel=1e-12, abs=0)


@pytest.mark.parametrize("well_formed", [False, True])
@pytest.mark.parametrize("scheme", SEQEVAL)
def test_seqeval_counts_the_same(scheme, well_formed):
    gold, predicted = random_corpus(scheme, well_formed=well_formed)
    result = score(gold, predicted, scheme=scheme)
    assert 0.3 < result.f1 < 0.9  # else the comparison would say little
    strict = score(gold, predicted, rule="strict", scheme=scheme)
    assert strict.ill_formed == sum(len(violations(x, scheme)) for x in predicted)
    spelling = str.maketrans("LU", "ES")  # seqeval's default mode knows no L and U
    pair = (
        [[x[0].translate(spelling) + x[1:] for x in y] for y in side]
        for side in (gold, predicted)
    )
    assert figures(result) == same_as(seqeval_figures(*pair))
    if scheme == "IOE1":
        return  # seqeval loses well-formed spans: see test_schemes
    options = {"mode": "strict", "scheme": SEQEVAL[scheme]}
    assert figures(strict) == same_as(seqeval_figures(gold, predicted, **options))
    for average in ("macro", "weighted"):
        expected = seqeval_figures(gold, predicted, average=average, **options)
        assert getattr(strict, average) == same_as(expected)


def counts(gold, predicted, rule, scheme="BIOES"):
    sides = [gold.split()], [predicted.split()]
    return scoring.total(scoring.count(*sides, rule, scheme))


BY_NCRFPP = {
    "B-A I-A E-A S-B": [("A", 0, 3), ("B", 3, SINGLE)],
    "B-A I-B E-C": [("A", 0, 3)],  # types of I and E are ignored
    "B-A O O E-A": [("A", 0, 4)],  # an O closes nothing
    "B-A S-A": [("A", 0, 1), ("A", 1, SINGLE)],  # closed before the next start
    "B-A I-A B-B E-B": [("A", 0, 2), ("B", 2, 4)],
    "I-A E-A O E-B": [],  # nothing has begun
    "O B-A I-A": [("A", 1, SINGLE)],  # never closed
    "B-A O E-A E-A": [("A", 0, 3)],
    "O O": [],
}
BY_IDCNN = {
    "B-A I-A E-A S-B": [("A", 0, 3), ("B", 3, 4)],
    "B-A E-A I-A": [("A", 0, 3)],  # an E ends nothing
    "S-A E-A": [("A", 0, 2)],  # an S is a B
    "S-A I-B O": [("A", 0, NO_END), ("B", 1, 2)],
    "B-A E-A E-B": [("A", 0, NO_END), ("B", 2, 3)],
    "S-A B-B E-B": [("A", 0, 1), ("B", 1, 3)],  # a start loses nothing
    "I-A O E-A": [("A", 0, 1), ("A", 2, 3)],
    "S-A S-A": [("A", 0, 1), ("A", 1, 2)],
}
CASES = {"ncrfpp": BY_NCRFPP, "idcnn": BY_IDCNN}


@pytest.mark.parametrize(
    ("rule", "labels"), [(rule, labels) for rule in CASES for labels in CASES[rule]]
)
def test_spans_by_the_rules_of_papers(rule, labels):
    bilou = labels.replace("E-", "L-").replace("S-", "U-")
    for text, scheme in ((labels, "BIOES"), (bilou, "BILOU")):
        entities = scoring.reader(rule, scheme)(text.split())
        assert [(x.type, x.start, x.end) for x in entities] == CASES[rule][labels]


def test_ncrfpp_matches_what_is_never_closed_by_its_start():
    for gold, predicted in (("O S-A", "O B-A"), ("S-A O", "B-A O")):
        assert counts(gold, predicted, "ncrfpp") == (1, 1, 1)
    # Closed by the next start, it has an end, which a single token has not.
    assert counts("S-A S-B", "B-A S-B", "ncrfpp") == (1, 2, 2)
    assert counts("B-A E-A", "B-A I-A", "ncrfpp") == (0, 1, 1)
    assert counts("B-A E-A", "B-A I-A", "conlleval") == (1, 1, 1)


def test_idcnn_counts_the_lost_span_as_predicted():
    assert counts("U-A O", "U-A L-B", "idcnn", "BILOU") == (0, 2, 1)
    assert counts("U-A O", "U-A L-B", "conlleval", "BILOU") == (1, 2, 1)
    # Nor does a lost gold span count as found, by an equal one or by another.
    assert counts("S-A I-B", "S-A I-B", "idcnn") == (1, 2, 2)
    assert counts("S-A I-B", "S-A O", "idcnn") == (0, 1, 2)
    # conlleval closes a span at an L, Strubell et al.'s program does not.
    assert counts("B-A L-A O", "B-A L-A L-A", "idcnn", "BILOU") == (0, 1, 1)


# Types that differ in a hyphen, look like prefixes, or have no letters.
NAMES = st.sampled_from(["A", "A-", "-A", "B", "O", "_", "B-A", " ", "组织", "I"])
NAMES = st.one_of(NAMES, st.text(min_size=1, max_size=3))


@pytest.mark.parametrize("scheme", schemes.SCHEMES)
@given(spans=st.lists(st.tuples(st.integers(0, 2), st.integers(1, 3), NAMES)))
def test_the_rules_agree_on_well_formed_labels(scheme, spans):
    triples, end = [], 0
    for gap, length, kind in spans:
        triples.append((end + gap, end + gap + length, kind))
        end = triples[-1][1]
    sides = [[schemes.to_labels(x, end + 1, scheme)] for x in (triples, triples[1:])]
    rules = [rule for rule in RULES if scoring.reads(rule, scheme)]
    counts = [scoring.count(*sides, rule, scheme) for rule in rules]
    assert scoring.total(counts[0]).gold == len(triples)
    for count in counts[1:]:
        np.testing.assert_array_equal(counts[0], count)


def test_a_small_table():
    gold = ["B-PER I-PER O B-LOC", "O B-ORG I-ORG I-ORG", "B-LOC B-LOC O"]
    # PER right, ORG of the wrong type; ORG too short; LOC wrong, PER ill-formed, wrong.
    predicted = ["B-PER I-PER O B-ORG", "O B-ORG I-ORG O", "B-LOC I-LOC I-PER"]
    gold, predicted = ([text.split() for text in side] for side in (gold, predicted))
    scores = score(gold, predicted, scheme="BIO")
    assert scores.by_type == {
        "LOC": Counts(correct=0, predicted=1, gold=3),
        "ORG": Counts(correct=0, predicted=2, gold=1),
        "PER": Counts(correct=1, predicted=2, gold=1),
    }
    assert scores.overall == sum(scores.by_type.values(), Counts()) == Counts(1, 5, 5)
    assert figures(scores.by_type["PER"]) == (0.5, 1.0, pytest.approx(2 / 3))
    assert scores.accuracy == 7 / 11
    assert (scores.ill_formed, scores.ill_formed_sentences) == (1, 1)
    strict = score(gold, predicted, rule="strict", scheme="BIO")
    assert strict.overall == Counts(correct=1, predicted=4, gold=5)
    assert repr(strict) == "Scores(precision=25.0, recall=20.0, f1=22.22, ill_formed=1)"
    plain = scores.to_dict()
    assert json.loads(json.dumps(plain)) == plain
    assert plain["f1"] == pytest.approx(20, rel=1e-12)
    assert (plain["tokens"], plain["correct_tokens"], plain["sentences"]) == (11, 7, 3)
    assert (plain["rule"], plain["scheme"]) == ("conlleval", "BIO")
    assert plain["by_type"]["PER"]["recall"] == 100


@pytest.mark.parametrize("rule", ["conlleval", "strict", "idcnn", "ncrfpp"])
def test_other_spellings_of_a_label_are_the_same_label(rule):
    gold = [["B-PER", "I-PER", "E-PER", "S-LOC"], ["B-_", "E-_", "S-_"]]
    other = [["B-PER", "M-PER", "E-PER", "W-LOC"], ["B", "E", "W"]]
    for sides in ((gold, other), (other, gold), (other, other)):
        scores = score(*sides, rule=rule, scheme="BIOES")
        assert (scores.f1, scores.accuracy, scores.ill_formed) == (1, 1, 0)


def test_what_is_undefined_is_none():
    for labels in ([], [[]], [["O", "O"], []]):
        for rule in ("conlleval", "strict", "idcnn"):
            scores = score(labels, labels, rule=rule, scheme="BIO")
            assert (scores.by_type, scores.overall) == ({}, Counts(0, 0, 0))
            assert (scores.precision, scores.recall, scores.f1) == (None, None, None)
            assert scores.macro == scores.weighted == (None, None, None)
            assert scores.to_dict()["f1"] is None
    scores = score([["B-PER"]], [["O"]])
    assert (scores.precision, scores.recall, scores.f1) == (None, 0.0, 0.0)
    assert scores.macro == scores.weighted == (0.0, 0.0, 0.0)  # as in seqeval
    scores = score([["O"]], [["B-PER"]])
    assert (scores.precision, scores.recall, scores.f1) == (0.0, None, 0.0)
    assert (scores.macro, scores.weighted) == ((0.0,) * 3, (None,) * 3)
    assert repr(scores) == "Scores(precision=0.0, recall=None, f1=0.0, ill_formed=0)"
    assert score([], []).accuracy is None


def test_wrong_input_is_refused():
    blank, ends = [["O"]], [["E-A"]]
    for gold, predicted, options in (
        ([["O"], ["O"]], blank, {}),
        ([["O"], ["O", "O"]], [["O"], ["O"]], {}),
        (blank, [["PER"]], {}),
        ([], [], {"rule": "exact"}),
        (blank, blank, {"scheme": "IOB2"}),
        # Their programs misread well-formed labels.
        (blank, blank, {"rule": "ncrfpp", "scheme": "BIO"}),
        (blank, blank, {"rule": "idcnn", "scheme": "IOB1"}),
        (blank, blank, {"rule": "idcnn", "scheme": "IOE2"}),
        (blank, ends, {"rule": "strict", "scheme": "BIO"}),
        (ends, blank, {"rule": "strict", "scheme": "BIO"}),
    ):
        with pytest.raises(InputError):
            score(gold, predicted, **options)
    with pytest.raises(TypeError, match="for each sentence, got str 'B'"):
        score(["B", "I"], ["B", "I"])


def test_tags_are_counted_as_numpy_does():
    rng = np.random.default_rng(0)
    names = np.array(["A", "B", "''", "-LRB-", "O", "B-PER"])
    a, b = names[rng.integers(0, 6, (2, 40, 3))]
    words = np.array([f"w{i}" for i in rng.integers(0, 20, 120)]).reshape(40, 3)
    vocabulary = {f"w{i}" for i in range(12)}
    sides = words.tolist(), a.tolist(), b.tolist()
    scores = Task("tags", vocabulary).score(*sides)
    new = ~np.isin(words, sorted(vocabulary))
    assert scores.accuracy == scores.f1 == pytest.approx((a == b).mean())
    assert scores.oov_accuracy == pytest.approx((a == b)[new].mean())
    assert scores.known_accuracy == pytest.approx((a == b)[~new].mean())
    for name in names:
        right = ((a == name) & (b == name)).sum()
        assert scores.by_type[name] == (right, (b == name).sum(), (a == name).sum())
    plain = json.loads(json.dumps(scores.to_dict()))
    assert plain["oov_accuracy"] == pytest.approx(100 * scores.oov_accuracy)
    assert (plain["scheme"], plain["oov_tokens"]) == ("tags", new.sum())
    assert "f1" not in plain


def test_figures_of_tags_that_are_not_defined_are_left_out():
    gold, guess, words = [["D", "N"]], [["D", "V"]], [["the", "boat"]]
    assert score(gold, guess, scheme="tags").figures() == {"accuracy": 50.0}
    for vocab, name in ((set("x"), "oov_accuracy"), (set(words[0]), "known_accuracy")):
        scores = score(gold, guess, scheme="tags", tokens=words, known_words=vocab)
        assert scores.figures() == {"accuracy": 50.0, name: 50.0}
    assert score([], [], scheme="tags").accuracy is None


def test_ill_formed_predictions_are_kept_in_files(tmp_path):
    split = corpora.load("sample", "dev")
    labels = [["I-PER"] * len(example.labels) for example in split.examples]
    predictions.write(tmp_path / "a.conll", split, labels, labels)
    assert [*map(list, predictions.read(tmp_path / "a.conll")[1])] == labels
