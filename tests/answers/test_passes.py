"""`jaxner.sample` and `jaxner.uncertainty` of a trained tagger."""

import jax
import numpy as np

import jaxner

KEY = jax.random.key(3)
SENTENCES = [["Ms", "Preston", "left", "Lakeside"], ["Rain", "fell"]]


def test_arrays_under_jit_give_what_strings_give(uanet_run):
    uanet = jaxner.load(uanet_run)
    strings = jaxner.uncertainty(uanet, SENTENCES, KEY, 3)
    batch = jaxner.encode(uanet, SENTENCES)
    compute = jax.jit(jaxner.uncertainty, static_argnames="num_samples")
    arrays = compute(uanet, batch, KEY, num_samples=3)
    samples = jax.jit(jaxner.sample, static_argnums=3)(uanet, batch, KEY, 3)
    assert samples.shape[:3] == (2, 3, 4)
    fewer = jaxner.sample(uanet, SENTENCES[1], KEY, 2)
    np.testing.assert_allclose(fewer, samples[1, :2, :2], atol=1e-5)
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
