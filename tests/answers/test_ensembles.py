"""Entities and probabilities of an ensemble: means over its members."""

import dataclasses

import jax
import numpy as np
import pytest

import jaxner
from jaxner.data import schemes
from jaxner.tagger import ensemble
from tests.marks import slow
from tests.test_decoding import SENTENCES, enumerated, tiny


@pytest.fixture(scope="module")
def members():
    """Two taggers that differ in their weights and their temperature."""
    one = tiny("crf", ("LOC", "PER"), scheme="BIO")
    keys = iter(jax.random.split(jax.random.key(7), 100))

    def moved(x):
        return 0.8 * x + 0.5 * jax.random.normal(next(keys), x.shape)

    weights = jax.tree.map(moved, one.weights)
    other = dataclasses.replace(one, weights=weights, temperature=2.0)
    return [one, other]


@pytest.fixture(scope="module")
def both(members):
    return ensemble(members)


def mixture(members, tokens):
    """Every labelling of a sentence, and its mean probability, by enumeration."""
    each = [enumerated(member, tokens) for member in members]
    return each[0][0], np.mean([chances for _, chances, _ in each], axis=0)


def spans_of(members, tokens):
    found = {}
    for labels, chance in zip(*mixture(members, tokens), strict=True):
        for span in schemes.to_spans(members[0].vocabulary.decode(labels)):
            found[span] = found.get(span, 0.0) + chance
    return found


@pytest.mark.parametrize("n_best", [30, *slow(1)])
def test_entities_have_the_mean_of_the_exact_probabilities(members, both, n_best):
    total = 0
    for tokens in (SENTENCES[0], SENTENCES[2], ["Rome"]):
        expected = spans_of(members, tokens)
        found = jaxner.entities(both, tokens, n_best=n_best)
        if n_best == 1:
            spans = schemes.to_spans(jaxner.tag(both, tokens))
            assert [(e.start, e.end, e.type) for e in found] == spans
        for e in found:
            chance = expected[e.start, e.end, e.type]
            assert e.probability == pytest.approx(chance, rel=1e-3)
        total += len(found)
    assert total > 2


def test_strings_batches_and_arrays_agree(both):
    text = " ".join(SENTENCES[0])
    alone = jaxner.entities(both, text)
    assert alone
    assert all(text[e.start_char : e.end_char] == e.text for e in alone)
    many = jaxner.entities(both, SENTENCES)
    assert [e[:6] for e in many[0]] == [e[:6] for e in alone]
    assert many[1] == []
    batch = jaxner.encode(both, SENTENCES)
    arrays = jax.jit(jaxner.entities)(both, batch)
    chances = jax.jit(jaxner.marginals)(both, batch)
    names = jaxner.entity_types(both)
    for i, own in enumerate(many):
        where = np.flatnonzero(arrays.start[i])
        found = [(s, int(arrays.end[i, s]), names[arrays.type[i, s]]) for s in where]
        assert found == [(e.start, e.end, e.type) for e in own]
        expected = [e.probability for e in own]
        np.testing.assert_allclose(arrays.probability[i][where], expected, rtol=1e-4)
        if words := SENTENCES[i]:
            expected = jaxner.marginals(both, words)
            np.testing.assert_allclose(chances[i, : len(words)], expected, rtol=1e-4)


def test_marginals_are_the_mean_of_the_members(members, both):
    tokens = SENTENCES[0]
    each = [jaxner.marginals(member, tokens) for member in members]
    np.testing.assert_allclose(
        jaxner.marginals(both, tokens), np.mean(each, axis=0), rtol=1e-4
    )
    for number, member in enumerate(members):
        own = both.member(number)
        assert own.temperature == member.temperature
        np.testing.assert_allclose(jaxner.marginals(own, tokens), each[number])


def test_the_best_labellings_are_those_of_the_mixture(members, both):
    tokens = SENTENCES[2]
    labellings, chances = mixture(members, tokens)
    decode = both.vocabulary.decode
    of = {tuple(decode(y)): p for y, p in zip(labellings, chances, strict=True)}
    whole = jaxner.n_best(both, tokens, len(of) + 3)
    assert len(whole) == len(of)
    assert len({tuple(one.labels) for one in whole}) == len(of)
    for one in whole:
        chance = of[tuple(one.labels)]
        assert one.probability == pytest.approx(chance, rel=1e-3, abs=1e-6)
    few = jaxner.n_best(both, tokens, 3)
    ranked = sorted(of.values(), reverse=True)
    found = [one.probability for one in few]
    np.testing.assert_allclose(found, ranked[:3], rtol=1e-3)
    for one in jaxner.n_best(both, tokens, 5, constrained=True):
        assert not schemes.violations(one.labels, "BIO")


def test_what_an_ensemble_has_not_says_what_works(both):
    with pytest.raises(ValueError, match=r"leave num_samples out.*member\(0\)"):
        jaxner.entities(both, "Rome fell", num_samples=3)
    with pytest.raises(ValueError, match=r"ensemble\.member\(0\).*jaxner\.marginals"):
        jaxner.uncertainty(both, ["Rome"], jax.random.key(0))
