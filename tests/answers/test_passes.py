"""`jaxner.sample` and `jaxner.uncertainty` of trained taggers."""

import jax
import numpy as np
import pytest

import jaxner

KEY = jax.random.key(3)
SENTENCES = [["Ms", "Preston", "left", "Lakeside"], ["Rain", "fell"], []]


@pytest.fixture(scope="module")
def uanet(uanet_run):
    return jaxner.load(uanet_run)


@pytest.mark.parametrize("tagger", ["params", "uanet"])
def test_samples_of_strings_are_probabilities(request, tagger):
    params = request.getfixturevalue(tagger)
    samples = jaxner.sample(params, SENTENCES, KEY, 3)
    assert [s.shape[:2] for s in samples] == [(3, 4), (3, 2), (3, 0)]
    for sample in samples[:2]:
        np.testing.assert_allclose(sample.sum(axis=2), 1, rtol=1e-5)
        assert np.ptp(sample, axis=0).max() > 1e-4  # the passes differ
    part = jaxner.sample(params, SENTENCES[1], KEY, 2)
    np.testing.assert_allclose(part, samples[1][:2], atol=1e-5)


def test_arrays_under_jit_give_what_strings_give(uanet):
    strings = jaxner.uncertainty(uanet, SENTENCES[:2], KEY, 3)
    batch = jaxner.encode(uanet, SENTENCES[:2])
    compute = jax.jit(jaxner.uncertainty, static_argnames="num_samples")
    arrays = compute(uanet, batch, KEY, num_samples=3)
    sample = jax.jit(jaxner.sample, static_argnums=3)
    assert sample(uanet, batch, KEY, 3).shape[:3] == (2, 3, 4)
    rows = [jaxner.marginals(uanet, SENTENCES[0], key=key) for key in (None, KEY)]
    assert np.ptp(rows, axis=0).max() > 5e-6  # the drafts differ
    assert arrays.entropy.shape == (2, 4)
    for i, summary in enumerate(strings):
        length = len(SENTENCES[i])
        ids = arrays.labels[i][:length].tolist()
        assert summary.labels == uanet.vocabulary.decode(ids)
        for name in ("entropy", "expected_entropy", "mutual_information", "vote_share"):
            row = np.asarray(getattr(arrays, name)[i])
            np.testing.assert_allclose(row[:length], getattr(summary, name), atol=1e-5)
            assert not row[length:].any()
