"""Intervals and paired tests: known cases, seeds, and a slow reading."""

import numpy as np
import pytest

from jaxner.evaluation import report, scoring, stats
from tests.evaluation.test_scoring import random_corpus


def test_figures_are_those_of_the_scorer():
    gold, predicted = random_corpus("BIOES", sentences=60)
    for rule in scoring.RULES:
        scores = scoring.score(gold, predicted, rule=rule, scheme="BIOES")
        figures = stats.tally(gold, predicted, rule, "BIOES").of_all
        for name in ("precision", "recall", "f1"):
            assert figures[name] == pytest.approx(getattr(scores, name), rel=1e-12)
            for kind, counts in scores.by_type.items():
                expected = pytest.approx(getattr(counts, name), rel=1e-12)
                assert figures[f"{name} {kind}"] == expected
        assert figures["macro f1"] == pytest.approx(scores.macro.f1, rel=1e-12)
        assert figures["weighted f1"] == pytest.approx(scores.weighted.f1, rel=1e-12)
        assert figures["token accuracy"] == pytest.approx(scores.accuracy, rel=1e-12)
        if rule in scoring.WITH_LENGTHS:
            assert figures["strict match f1"] == pytest.approx(figures["f1"], rel=1e-12)


def test_undefined_figures_stay_undefined():
    bounds = stats.bootstrap(stats.tally([["O"]], [["O"]], types=["A"]), rounds=10)
    assert bounds["f1"] == bounds["f1 A"] == bounds["macro f1"] == (None, None, None)
    assert bounds["token accuracy"] == (1.0, None, None)  # of one sentence
    assert set(stats.bootstrap(stats.tally([], []), rounds=3)["f1"]) == {None}
    runs = [stats.tally([["O"]], [["O"]])] * 2
    assert stats.compare(runs, runs, rounds=5)["f1"] == (None,) * 8
    runs = [[stats.tally([["B-A"]], [[label]])] for label in ("B-A", "O")]
    gap = stats.compare(*runs, rounds=9)["f1"]
    assert (gap.difference, gap.low, gap.high, gap.bootstrap) == (1, None, None, None)
    figures = stats.tally([["B-B"]], [["B-B"]], types=["A"]).of_all
    assert (figures["f1 A"], figures["f1 B"], figures["macro f1"]) == (None, 1, 1)
    assert "f1 B" not in stats.tally([["S-A"]], [["I-B"]], "strict", "BIOES").of_all


def test_a_figure_of_one_sentence_has_no_bounds_nor_p_by_the_bootstrap():
    gold = [["B-A"]] * 9 + [["O"], ["B-B", "O", "B-B"]]
    sides = [["B-A"]] * 7 + [["O"]] * 3 + [["B-B", "O", "B-B"]], [*gold[:-1], ["O"] * 3]
    runs = [[stats.tally(gold, side, types=["A", "B"])] for side in sides]
    bounds = stats.bootstrap(*runs[0], rounds=50)
    assert bounds["f1 B"] == bounds["precision B"] == (1, None, None)
    assert bounds["f1 A"].low < bounds["f1 A"].value < bounds["f1 A"].high
    gaps = stats.compare(*runs, rounds=50)
    assert gaps["f1 B"] == (1, 0, 1, None, None, None, 1, None)
    assert gaps["f1 A"].low < gaps["f1 A"].difference <= gaps["f1 A"].high
    more = [stats.tally(gold, [["B-B"], *sides[0][1:]], types=["A", "B"])]
    for pair in ((runs[0], more), (more, runs[0])):  # two sentences of one system
        assert stats.compare(*pair, rounds=50)["precision B"].bootstrap < 1


def test_bounds_are_those_of_a_slow_bootstrap():
    gold, predicted = random_corpus("BIOES", sentences=60)
    tally = stats.tally(gold, predicted, scheme="BIOES")
    bounds = stats.bootstrap(tally, rounds=100, seed=3)
    generator = np.random.default_rng(3)
    f1, macro = [], []
    for _ in range(100):
        rows = generator.integers(60, size=60)
        sides = [[side[i] for i in rows] for side in (gold, predicted)]
        scores = scoring.score(*sides, scheme="BIOES")
        f1.append(scores.f1)
        macro.append(scores.macro.f1)
    for name, values in (("f1", f1), ("macro f1", macro)):
        expected = np.quantile(values, [0.025, 0.975])
        assert bounds[name][1:] == pytest.approx(expected, rel=1e-12)


def test_memory_does_not_grow_with_the_rounds(monkeypatch):
    tally = stats.tally(*random_corpus("BIO", sentences=50), scheme="BIO")
    pair = [tally], [tally]
    whole = stats.bootstrap(tally, rounds=50), stats.compare(*pair, rounds=50)
    assert whole[1]["f1"][-3:] == (1, 1, None)  # no difference: p is 1
    monkeypatch.setattr(stats, "_BLOCK", 120)  # two rounds at a time
    assert stats.bootstrap(tally, rounds=50) == whole[0]
    assert stats.compare(*pair, rounds=50) == whole[1]


def noisy(gold, share, seed):
    generator = np.random.default_rng(seed)
    return [[x if generator.random() > share else "O" for x in row] for row in gold]


def sides(first, second, sentences=300, runs=(1, 1)):
    """Tallies of runs that lose such shares of labels."""
    gold, _ = random_corpus("BIO", sentences=sentences)
    return [
        [stats.tally(gold, noisy(gold, share, (k, r)), scheme="BIO") for r in range(n)]
        for k, (share, n) in enumerate(zip((first, second), runs, strict=True))
    ]


def test_a_better_system_is_found():
    f1 = stats.compare(*sides(0.1, 0.3), rounds=1000)["f1"]
    assert f1.difference == pytest.approx(f1.first - f1.second)
    assert 0 < f1.low < f1.difference < f1.high
    assert f1.bootstrap == f1.permutation - 1 / 1001 + 1 / 1000 <= 0.001
    assert f1.welch is None


def test_p_is_uniform_where_nothing_differs():
    """Each test cries wolf in about 10 % of the cases at p below 0.1."""
    cries = np.zeros(2)
    gold, _ = random_corpus("BIO", sentences=80)
    for k in range(60):
        pair = (noisy(gold, 0.2, (k, side)) for side in range(2))
        tallies = ([stats.tally(gold, labels, scheme="BIO")] for labels in pair)
        f1 = stats.compare(*tallies, rounds=200)["f1"]
        cries += f1.bootstrap < 0.1, f1.permutation < 0.1
    assert (cries / 60 > 0.02).all()
    assert (cries / 60 < 0.2).all()


def test_several_seeds_on_a_side():
    f1 = stats.compare(*sides(0.1, 0.3, runs=(5, 5)), rounds=500)["f1"]
    assert f1.bootstrap <= 0.002
    assert f1.permutation == pytest.approx(2 / 252)  # all divisions of 10 runs
    assert f1.welch < 0.001
    uneven = stats.compare(*sides(0.1, 0.3, runs=(1, 3)), rounds=500)["f1"]
    assert (uneven.permutation, uneven.welch) == (pytest.approx(1 / 4), None)


def test_runs_without_variance_are_equal_or_not():
    assert stats.welch([0.5, 0.5], [0.5, 0.5, 0.5]) == 1
    assert stats.welch([0.5, 0.5], [0.6, 0.6]) == 0
    assert 0 < stats.welch([0.5, 0.5], [0.5, 0.6]) < 1  # t is defined


def test_other_sentences_are_refused():
    system = [stats.tally([["B-A"], ["O"]], [["B-A"], ["O"]])]
    fewer = [stats.tally([["B-A"]], [["B-A"]])]
    rival = [stats.tally([["O"], ["B-A"]], [["O"], ["B-A"]])]
    with pytest.raises(ValueError, match="got 2 and 1 sentences"):
        stats.compare(system, fewer)
    with pytest.raises(ValueError, match=r"sentence 0 \(counted from 0\) has 1 and 0"):
        stats.compare(system, rival)
    with pytest.raises(ValueError, match="a run or more on each side"):
        stats.compare(system, [])
    row, options = [["N"]], {"scheme": "tags", "tokens": [["a"]]}
    pair = [[stats.tally(row, row, known_words=x, **options)] for x in ({"b"}, None)]
    assert [*stats.compare(*pair, rounds=5)] == ["accuracy"]  # which both have


def test_each_run_is_read_in_its_own_scheme():
    """Well-formed BIO is not ill-formed BIOES: the fault of issue 34."""
    gold = [["B-A", "I-A", "O"], ["O", "B-B"]]
    bioes = [["B-A", "E-A", "O"], ["O", "S-B"]]
    runs = [report.Prediction(None, gold, gold, "BIO", "strict")]
    rivals = [report.Prediction(None, bioes, bioes, "BIOES", "strict")]
    for pair in ((runs, rivals), (rivals, runs)):
        table = report.compare(*pair, rounds=50)
        assert table["ill_formed"] == [0, 0]
        f1 = table["figures"]["f1"]
        assert f1["first"] == f1["second"] == 100
    odd = [report.Prediction(None, bioes, [["B-A", "I-A", "O"], ["O", "O"]], "BIOES")]
    assert report.compare(runs[:1], odd, rounds=50)["ill_formed"] == [0, 1]
