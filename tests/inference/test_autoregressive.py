"""Labels that depend on all labels before them: head and inference, against NumPy."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxner import inference
from jaxner.inference import Constraints
from jaxner.models.seq2seq import Seq2seqHead
from jaxner.types import FORBIDDEN, Autoregressive
from tests.models import draws

LABELS, SIZE = 3, 2
FUSIONS = ("shared", "integrate", "joint")
EVERY = [list(labels) for labels in itertools.product(range(LABELS), repeat=3)]
score, search = jax.jit(inference.score), jax.jit(inference.viterbi)


def build(fusion, **options):
    return Seq2seqHead(LABELS, fusion, tag_dim=2, hidden_dim=SIZE, **options)


def potentials_of(fusion, seed=0, padding=1, scale=1.5, **options):
    """Potentials of a sentence of three tokens, its mask, and log p by NumPy."""
    head = build(fusion, **options)
    x, mask = draws.features(3, padding, dim=4, seed=seed)
    weights = draws.weights_of(head, x, scale=scale, seed=seed)
    potentials = draws.apply(head, weights, x)
    return potentials, mask, numpy_reader(draws.in_float64(weights), fusion, x)


def numpy_reader(p, fusion, x):
    """A function of the state and the last label at token t: log p, and the new state.

    The label None is that before the first token.
    """

    def read(t, last, state):
        tag = p["tags"][LABELS if last is None else last]
        row = np.concatenate([x[t], tag]) if fusion == "shared" else tag
        _, state = draws.lstm(p["lstm"], [row], 0, begin=state)
        h = state[0]
        if fusion == "integrate":
            inputs = np.concatenate([x[t], h]) @ p["fusion_kernel"] + p["fusion_bias"]
            scores = np.tanh(inputs) @ p["output_kernel"] + p["bias"]
        else:
            scores = h @ p["state_kernel"] + p["bias"]
        if fusion == "joint":
            scores = scores + x[t] @ p["word_kernel"]
        return scores - np.log(np.exp(scores).sum()), state

    return read


def numpy_score(read, labels):
    """The log-probability of a labelling, one label at a time."""
    last, state, total = None, (0.0, 0.0), 0.0
    for t, label in enumerate(labels):
        logs, state = read(t, last, state)
        total, last = total + logs[label], label
    return total


def numpy_search(read, width, legal=EVERY):
    """Beam search over lists of hypotheses that begin a legal labelling."""
    beam = [(0.0, [], (0.0, 0.0))]
    for t in range(3):
        longer = []
        for total, labels, state in beam:
            logs, new = read(t, labels[-1] if labels else None, state)
            for label in range(LABELS):
                begin = [*labels, label]
                if begin in [y[: t + 1] for y in legal]:
                    longer.append((total + logs[label], begin, new))
        beam = sorted(longer, key=lambda hypothesis: -hypothesis[0])[:width]
    return beam[0][1]


@pytest.mark.parametrize("fusion", FUSIONS)
def test_score_equals_numpy_and_all_labellings_sum_to_one(fusion):
    potentials, mask, read = potentials_of(fusion)
    rows = jnp.asarray([[*labels, 2] for labels in EVERY], jnp.int32)
    scores = jax.jit(jax.vmap(lambda y: inference.score(potentials, y, mask)))(rows)
    draws.close(scores, np.array([numpy_score(read, labels) for labels in EVERY]))
    assert np.exp(scores).sum() == pytest.approx(1.0, abs=1e-5)
    assert np.std(scores) > 0.3
    assert inference.log_partition(potentials, mask) == 0


@pytest.mark.parametrize("fusion", FUSIONS)
def test_beam_search_equals_lists_of_hypotheses(fusion):
    """The widest beam holds every labelling, and so finds the best one."""
    for seed, width in itertools.product((0, 22, 29), (1, 2, 27)):
        options = {"seed": seed, "scale": 1.0, "beam_size": width}
        potentials, mask, read = potentials_of(fusion, **options)
        labels = search(potentials, mask).tolist()
        assert labels == [*numpy_search(read, width), 0]
        if width == 27:
            assert labels[:3] == max(EVERY, key=lambda y: numpy_score(read, y))


# After 0 comes 1, after 1 comes 1 or 2, after 2 comes 0; 0 begins and 2 ends.
CHAIN = Constraints(
    start=jnp.array([True, False, False]),
    transitions=jnp.array([[0, 1, 0], [0, 1, 1], [1, 0, 0]], bool),
    end=jnp.array([False, False, True]),
)
FREE = jax.tree.map(jnp.ones_like, CHAIN)
NOT_ZERO = FREE._replace(start=jnp.array([False, True, True]))


@pytest.mark.parametrize("width", [1, 2, 27])
def test_constraints_hold_whatever_the_width_and_add_up(width):
    """A label from which no end can be reached is a dead end, and is not taken."""
    legal = [y for y in EVERY if y[0]]
    for seed in range(4):
        potentials, mask, read = potentials_of("shared", seed, beam_size=width)
        strict = inference.constrain(potentials, NOT_ZERO)
        labels = search(strict, mask)
        assert labels.tolist() == [*numpy_search(read, width, legal), 0]
        assert score(strict, labels, mask) == score(potentials, labels, mask)
        for first, second in ((FREE, CHAIN), (CHAIN, FREE)):
            joint = inference.constrain(inference.constrain(potentials, first), second)
            assert search(joint, mask).tolist() == [0, 1, 2, 0]
        impossible = inference.constrain(strict, CHAIN)  # no labelling obeys both
        assert set(search(impossible, mask).tolist()) <= {0, 1, 2}


@pytest.mark.parametrize("fusion", FUSIONS)
def test_no_token_scores_zero_and_has_no_label(fusion):
    potentials, mask, _ = potentials_of(fusion, beam_size=4)
    assert score(potentials, jnp.array([2, 0, 1, 2]), mask & False) == 0
    assert not search(potentials, mask & False).any()
    head = build(fusion, beam_size=4)
    weights = draws.weights_of(head, jnp.zeros((3, 4)))
    empty = draws.apply(head, weights, jnp.zeros((0, 4)))
    assert inference.score(empty, jnp.zeros(0, int), mask[:0]) == 0
    for p in (empty, inference.constrain(empty, CHAIN)):
        assert inference.viterbi(p, mask[:0]).shape == (0,)


def test_long_sentences_keep_their_digits():
    """After 20,000 nats, a label is still decided by one hundredth."""
    words = jnp.zeros((5000, LABELS)).at[:, 1].set(0.01)
    gates = jnp.zeros((LABELS + 1, 4, 1)), jnp.zeros((1, 4, 1))
    from_state, beam = jnp.zeros((1, LABELS)), jnp.array([0.0, FORBIDDEN])
    potentials = Autoregressive(words, None, *gates, from_state, None, None, beam)
    assert (search(potentials, jnp.ones(5000, bool)) == 1).all()
