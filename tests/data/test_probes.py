"""Probes are balanced, well-formed, and differ where they should."""

import pytest

from jaxner.data import probes, schemes

CUED = {
    "before": lambda **options: probes.cue(4, length=9, **options),
    "after": lambda **options: probes.cue(4, side="after", length=9, **options),
    "long": lambda **options: probes.cue(1, entity_length=5, length=9, **options),
}


def check(probe):
    for case in (*probe.train, *probe.test):
        assert len(case.tokens) == len(case.labels)
        assert not schemes.violations(case.labels, probes.SCHEME)
    assert probe.accuracy(case.labels for case in probe.test) == 1


def test_xor_needs_both_neighbours():
    check(probes.xor())
    cases = probes.xor().test
    assert all(case.tokens[case.scored[0]] == "and" for case in cases)
    for side in (0, 2):  # either neighbour alone says nothing
        for word in {case.tokens[side] for case in cases}:
            labels = [case.labels[1] for case in cases if case.tokens[side] == word]
            assert sorted(labels) == ["I-WORK_OF_ART", "O"]


@pytest.mark.parametrize("draw", CUED.values(), ids=CUED)
def test_pairs_differ_in_the_cue_alone(draw):
    check(draw())
    for cases in (draw().train, draw().test):
        for first, second in zip(cases[::2], cases[1::2], strict=True):
            differing = [
                i
                for i, pair in enumerate(zip(first.tokens, second.tokens, strict=True))
                if len(set(pair)) > 1
            ]
            assert len(differing) == 1
            assert not set(differing) & set(first.scored)
            assert first.scored == second.scored
            for i in first.scored:
                assert first.labels[i] != second.labels[i]
                assert first.tokens[i] == second.tokens[i]
    assert draw(seed=1) == draw(seed=1) != draw(seed=2)
    assert len(draw(count=6).train) == len(draw(count=6).test) == 6


def test_accuracy_counts_scored_tokens_only():
    probe = probes.cue(1, entity_length=2, length=4, count=2)
    predicted = [list(case.labels) for case in probe.test]
    predicted[0][probe.test[0].scored[0]] = "O"
    assert probe.accuracy(predicted) == 0.75
    with pytest.raises(ValueError, match="longer"):
        probe.accuracy(predicted[:1])
