"""Every question about a sentence's labellings against enumeration, lengths 0 to 6."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxner import inference
from tests.inference.test_spans import NAMES, build, enumerated

SIZE, NUM_DRAWS = 6, 3000
n_best = jax.jit(inference.n_best, static_argnums=2)
marginals = jax.jit(inference.marginals)
entropy = jax.jit(inference.labelling_entropy)
log_probability = jax.jit(
    jax.vmap(inference.log_probability, in_axes=(None, 0, None)),
)


@jax.jit
def draw(p, mask):
    keys = jax.random.split(jax.random.key(0), NUM_DRAWS)
    return jax.vmap(lambda key: inference.sample(p, mask, key))(keys)


def padded(labellings, length):
    rows = np.zeros((len(labellings), SIZE), np.int32)
    rows[:, :length] = np.array(labellings, np.int32).reshape(len(labellings), length)
    return rows


@pytest.mark.parametrize("kind", ["crf", "constrained", "independent"])
@pytest.mark.parametrize("length", range(7))
def test_answers_equal_enumeration(float64, kind, length):
    names = NAMES["IO"] if length > 4 else NAMES["BIO"]
    p, full = build(SIZE, names, length, kind)
    mask = jnp.arange(SIZE) < length
    short = full._replace(emissions=full.emissions[:length])
    _, labellings, chances = enumerated(short, names, length)
    rows, size = padded(labellings, length), len(names)

    logs = log_probability(p, rows, mask)
    np.testing.assert_allclose(np.exp(logs), chances, rtol=1e-9, atol=1e-300)

    expected = np.zeros((SIZE, size))
    for row, chance in zip(rows, chances, strict=True):
        expected[range(length), row[:length]] += chance
    np.testing.assert_allclose(marginals(p, mask), expected, atol=1e-12)

    possible = chances[chances > 0]
    wanted = -(possible * np.log(possible)).sum()
    assert float(entropy(p, mask)) == pytest.approx(wanted, abs=1e-10)

    order = np.argsort(-chances, kind="stable")
    count = min(100, int((chances > 0).sum()))
    found, scores = n_best(p, mask, 100)
    assert found[:count].tolist() == rows[order[:count]].tolist()
    assert not np.isfinite(scores[count:]).any()
    total = float(jax.jit(inference.log_partition)(p, mask))
    share = np.exp(np.asarray(scores[:count]) - total)
    np.testing.assert_allclose(share, chances[order[:count]], rtol=1e-9)

    drawn, times = np.unique(draw(p, mask), axis=0, return_counts=True)
    seen = {tuple(row): n / NUM_DRAWS for row, n in zip(drawn, times, strict=True)}
    for row, chance in zip(rows, chances, strict=True):
        error = 4.5 * np.sqrt(chance * (1 - chance) / NUM_DRAWS) + 2e-3
        assert abs(seen.pop(tuple(row), 0.0) - chance) < error
    assert not seen
