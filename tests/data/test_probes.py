"""Probes are balanced, well-formed, and differ where they should."""

import pytest

from jaxner.data import probes, schemes


def test_cases_are_well_formed():
    probe = probes.xor()
    for case in (*probe.train, *probe.test):
        assert len(case.tokens) == len(case.labels)
        assert not schemes.violations(case.labels, probes.SCHEME)
        assert set(case.scored) <= set(range(len(case.tokens)))
    assert probe.accuracy(case.labels for case in probe.test) == 1


def test_xor_needs_both_neighbours():
    cases = probes.xor().test
    assert all(case.tokens[case.scored[0]] == "and" for case in cases)
    for side in (0, 2):  # either neighbour alone says nothing
        for word in {case.tokens[side] for case in cases}:
            labels = [case.labels[1] for case in cases if case.tokens[side] == word]
            assert sorted(labels) == ["I-WORK_OF_ART", "O"]


def test_accuracy_counts_scored_tokens_only():
    probe = probes.xor()
    predicted = [list(case.labels) for case in probe.test]
    predicted[0][0] = "O"
    assert probe.accuracy(predicted) == 1
    predicted[0][1] = "O"
    assert probe.accuracy(predicted) == 0.75
    with pytest.raises(ValueError, match="longer"):
        probe.accuracy(predicted[:1])
