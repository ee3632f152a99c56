"""Bootstrap intervals and paired tests: known cases, seeds, and a slow reading."""

import numpy as np
import pytest

from jaxner.evaluation import comparing, intervals, scoring, tags, tally
from tests.evaluation.test_scoring import random_corpus


def test_figures_are_those_of_the_scorer():
    gold, predicted = random_corpus("BIOES", sentences=300)
    for rule in ("conlleval", "strict", "idcnn", "ncrfpp"):
        scores = scoring.score(gold, predicted, rule=rule, scheme="BIOES")
        found = tally.of_spans(gold, predicted, rule, "BIOES").of_all
        for name in ("precision", "recall", "f1"):
            assert found[name] == pytest.approx(getattr(scores, name), rel=1e-12)
            for kind, counts in scores.by_type.items():
                its = getattr(counts, name)
                assert found[f"{name} {kind}"] == pytest.approx(its, rel=1e-12)
        assert found["macro f1"] == pytest.approx(scores.macro.f1, rel=1e-12)
        assert found["weighted f1"] == pytest.approx(scores.weighted.f1, rel=1e-12)
        assert found["token accuracy"] == pytest.approx(scores.accuracy, rel=1e-12)
    strict = tally.of_spans(gold, predicted, "conlleval", "BIOES").of_all
    assert strict["strict match f1"] == pytest.approx(strict["f1"], rel=1e-12)


def test_partial_figures_by_hand():
    # One exact with the wrong type, one overlap of one type, one missed, one spurious.
    gold = [["B-A", "E-A", "O", "B-A", "I-A", "E-A", "S-A", "O"]]
    found = [["B-B", "E-B", "O", "O", "B-A", "E-A", "O", "S-B"]]
    its = tally.of_spans(gold, found, "conlleval", "BIOES").of_all
    assert its["strict match f1"] == 0
    assert its["exact match f1"] == pytest.approx(1 / 3)
    assert its["type match f1"] == pytest.approx(1 / 3)
    assert its["partial match f1"] == pytest.approx((1 + 0.5) / 3)
    assert its["chunk recall B"] == pytest.approx(1 / 2)


def test_undefined_figures_stay_undefined():
    its = tally.of_spans([["O"]], [["O"]], types=["A"])
    found = intervals.bootstrap(its, rounds=10)
    assert found["f1"] == found["f1 A"] == found["macro f1"] == (None, None, None)
    assert found["token accuracy"] == (1.0, 1.0, 1.0)
    assert set(intervals.bootstrap(tally.of_spans([], []), rounds=3)["f1"]) == {None}


def test_bounds_are_those_of_a_slow_bootstrap():
    gold, predicted = random_corpus("BIOES", sentences=60)
    its = tally.of_spans(gold, predicted, scheme="BIOES")
    found = intervals.bootstrap(its, rounds=200, seed=3)
    drawn = np.concatenate(list(intervals.draws(60, 200, 3))).astype(int)
    assert (drawn.sum(1) == 60).all()
    f1, macro = [], []
    for row in drawn:
        which = np.repeat(np.arange(60), row)
        scores = scoring.score(
            [gold[i] for i in which], [predicted[i] for i in which], scheme="BIOES"
        )
        f1.append(scores.f1)
        macro.append(scores.macro.f1)
    for name, values in (("f1", f1), ("macro f1", macro)):
        expected = np.quantile(values, [0.025, 0.975])
        assert found[name][1:] == pytest.approx(expected, rel=1e-12)


def test_intervals_hold_what_they_promise():
    """The true share is within the 95 % bounds in about 95 % of corpora."""
    generator = np.random.default_rng(0)
    hits = 0
    for _ in range(200):
        right = generator.random(100) < 0.7
        gold = [["B-A"]] * 100
        its = tally.of_spans(gold, [["B-A"] if x else ["B-B"] for x in right])
        low, high = intervals.bootstrap(its, rounds=200)["precision"][1:]
        hits += low <= 0.7 <= high
    assert 0.88 <= hits / 200 <= 0.99


def test_equal_seeds_give_equal_bounds():
    its = tally.of_spans(*random_corpus("BIO", sentences=50))
    one, same, other = (intervals.bootstrap(its, rounds=50, seed=s) for s in (0, 0, 1))
    assert one == same != other
    assert intervals.bootstrap(its, rounds=50)["f1"].value == one["f1"].value
    for wrong in ({"rounds": 0}, {"level": 1.0}):
        with pytest.raises(ValueError, match="at least one round and a level"):
            intervals.bootstrap(its, **wrong)


def test_tags():
    gold, found = [["X", "Y"], ["Z"]], [["X", "X"], ["Z"]]
    its = tally.of_tags(gold, found, [[False, True], [True]])
    scores = tags.score(
        gold, found, tokens=[["a", "b"], ["c"]], known_words=frozenset("a")
    )
    assert its.of_all["accuracy"] == pytest.approx(scores.accuracy)
    assert its.of_all["oov accuracy"] == pytest.approx(scores.oov_accuracy)
    assert its.of_all["known accuracy"] == pytest.approx(scores.known_accuracy)
    with pytest.raises(ValueError, match="one predicted tag for each"):
        tally.of_tags(gold, [["X"], ["Z"]])


# --- Two systems ----------------------------------------------------------------------


def noisy(gold, share, seed):
    """Replaces a share of the labels by O."""
    generator = np.random.default_rng(seed)
    return [[x if generator.random() > share else "O" for x in row] for row in gold]


def sides(first, second, sentences=300, runs=(1, 1)):
    """Tallies of runs that lose such shares of labels."""
    gold, _ = random_corpus("BIO", sentences=sentences)
    return [
        [
            tally.of_spans(gold, noisy(gold, share, (k, r)), scheme="BIO")
            for r in range(n)
        ]
        for k, (share, n) in enumerate(zip((first, second), runs, strict=True))
    ]


def test_a_better_system_is_found():
    found = comparing.compare(*sides(0.1, 0.3), rounds=1000)["f1"]
    assert found.difference == pytest.approx(found.first - found.second)
    assert 0 < found.low < found.difference < found.high
    assert found.bootstrap == found.permutation - 1 / 1001 + 1 / 1000 <= 0.001
    assert found.welch is None


def test_equal_systems_are_not_told_apart():
    one, _ = sides(0.1, 0.1)
    its = comparing.compare(one, one, rounds=200)["f1"]
    assert its[2:] == (0.0, 0.0, 0.0, 1.0, 1.0, None)


def test_p_is_uniform_where_nothing_differs():
    """Each test cries wolf in about 10 % of the cases at p below 0.1."""
    cries = np.zeros(2)
    for k in range(120):
        gold, _ = random_corpus("BIO", sentences=80)
        its = [
            [tally.of_spans(gold, noisy(gold, 0.2, (k, side)), scheme="BIO")]
            for side in range(2)
        ]
        found = comparing.compare(*its, rounds=200)["f1"]
        cries += found.bootstrap < 0.1, found.permutation < 0.1
    assert (cries / 120 > 0.02).all()
    assert (cries / 120 < 0.2).all()


def test_several_seeds_on_a_side():
    found = comparing.compare(*sides(0.1, 0.3, runs=(4, 4)), rounds=500)["f1"]
    assert found.bootstrap <= 0.002
    assert found.permutation == pytest.approx(2 / 70)  # all divisions of 8 runs
    assert found.welch < 0.001
    uneven = comparing.compare(*sides(0.1, 0.3, runs=(1, 3)), rounds=500)["f1"]
    assert (uneven.permutation, uneven.welch) == (pytest.approx(1 / 4), None)


def test_other_sentences_are_refused():
    one = [tally.of_spans([["B-A"], ["O"]], [["B-A"], ["O"]])]
    fewer = [tally.of_spans([["B-A"]], [["B-A"]])]
    other = [tally.of_spans([["O"], ["B-A"]], [["O"], ["B-A"]])]
    with pytest.raises(ValueError, match="got 2 and 1 sentences"):
        comparing.compare(one, fewer)
    with pytest.raises(ValueError, match=r"sentence 0 \(counted from 0\) has 1 and 0"):
        comparing.compare(one, other)
    with pytest.raises(ValueError, match="a run or more on each side"):
        comparing.compare(one, [])
    for options in ({"rounds": 0}, {"level": 95.0}):
        with pytest.raises(ValueError, match="at least one round and a level between"):
            comparing.compare(one, one, **options)
    with pytest.raises(ValueError, match=r"Expected a figure of .*'f1'.*, got 'F1'"):
        comparing.bootstrap(one, one, "F1")
