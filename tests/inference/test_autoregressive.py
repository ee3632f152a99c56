"""Labels that depend on all labels before them: head and inference."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxner import inference
from jaxner.inference import Constraints
from jaxner.models.seq2seq import FUSIONS, Seq2seqHead
from jaxner.types import FORBIDDEN, Autoregressive

LABELS, DIM, SIZE, TAG = 3, 4, 2, 2


def build(fusion, **options):
    options = {"tag_dim": TAG, "hidden_dim": SIZE, **options}
    return Seq2seqHead(LABELS, fusion=fusion, **options)


def init(head, dim=DIM):
    return head.init(jax.random.key(0), jnp.zeros((1, dim)), train=False)


def draw_weights(head, seed=0, scale=1.5):
    rng = np.random.default_rng(seed)
    return jax.tree.map(
        lambda leaf: jnp.asarray(rng.normal(size=leaf.shape) * scale, leaf.dtype),
        jax.eval_shape(lambda: init(head)),
    )


def draw(length, padding=0, seed=0):
    rng = np.random.default_rng(seed)
    x = np.zeros((length + padding, DIM), np.float32)
    x[:length] = rng.normal(size=(length, DIM))
    return jnp.asarray(x), jnp.arange(length + padding) < length


def apply(head, weights, x, key=None):
    rngs = None if key is None else {"dropout": key}
    return head.apply(weights, x, train=key is not None, rngs=rngs)


score = jax.jit(inference.score)
search = jax.jit(inference.viterbi)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def numpy_reader(weights, fusion, x):
    """A function of the state and the last label at token t: log p, and the new state.

    The label None is that before the first token.
    """
    p = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), weights["params"])
    w, u, b = (p["lstm"][name][0, 0] for name in ("input", "recurrent", "bias"))

    def read(t, last, state):
        h, c = state
        tag = p["tags"][LABELS if last is None else last]
        seen = np.concatenate([x[t], tag]) if fusion == "shared" else tag
        i, f, o, g = (seen @ w[:, k] + h @ u[:, k] + b[k] for k in range(4))
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        if fusion == "integrate":
            joined = np.concatenate([x[t], h]) @ p["fusion_kernel"] + p["fusion_bias"]
            scores = np.tanh(joined) @ p["output_kernel"] + p["bias"]
        else:
            scores = h @ p["state_kernel"] + p["bias"]
        if fusion == "joint":
            scores = scores + x[t] @ p["word_kernel"]
        return scores - np.log(np.exp(scores).sum()), (h, c)

    return read


def numpy_score(read, labels):
    """The log-probability of a labelling, one label at a time."""
    last, state, total = None, (np.zeros(SIZE), np.zeros(SIZE)), 0.0
    for t, label in enumerate(labels):
        logs, state = read(t, last, state)
        total, last = total + logs[label], label
    return total


def numpy_search(read, length, width, allowed=lambda labels: True):
    """Beam search over lists of hypotheses; `allowed` is of a whole beginning."""
    zero = np.zeros(SIZE)
    beam = [(0.0, [], (zero, zero))]
    for t in range(length):
        found = []
        for total, labels, state in beam:
            logs, new = read(t, labels[-1] if labels else None, state)
            found += [
                (total + logs[label], [*labels, label], new)
                for label in range(LABELS)
                if allowed([*labels, label])
            ]
        beam = sorted(found, key=lambda hypothesis: -hypothesis[0])[:width]
    return beam[0][1]


def every_labelling(length):
    return [list(y) for y in itertools.product(range(LABELS), repeat=length)]


@pytest.mark.parametrize("fusion", FUSIONS)
def test_score_equals_numpy_and_all_labellings_sum_to_one(fusion):
    head, (x, mask) = build(fusion), draw(3, padding=1)
    weights = draw_weights(head)
    read = numpy_reader(weights, fusion, np.asarray(x, np.float64))
    potentials = apply(head, weights, x)
    labellings = every_labelling(3)
    padded = jnp.asarray([[*labels, 2] for labels in labellings], jnp.int32)
    found = jax.jit(jax.vmap(lambda y: inference.score(potentials, y, mask)))(padded)
    expected = [numpy_score(read, labels) for labels in labellings]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    assert np.exp(found).sum() == pytest.approx(1.0, abs=1e-5)
    assert np.std(expected) > 0.3
    assert inference.log_partition(potentials, mask) == 0


# The last seed of each is one where a greedy search misses the best labelling.
@pytest.mark.parametrize(
    ("fusion", "seeds"),
    [("shared", (0, 22)), ("integrate", (0, 29)), ("joint", (0, 29))],
)
def test_beam_search_equals_lists_of_hypotheses(fusion, seeds):
    """The widest beam holds every labelling, and so finds the best one."""
    for seed in seeds:
        x, mask = draw(3, padding=1, seed=seed)
        weights = draw_weights(build(fusion), seed, scale=1.0)
        read = numpy_reader(weights, fusion, np.asarray(x, np.float64))
        best = max(every_labelling(3), key=lambda y: numpy_score(read, y))
        for width in (1, 2, 27):
            potentials = apply(build(fusion, beam_size=width), weights, x)
            found = search(potentials, mask).tolist()
            assert found[3:] == [0]
            assert found[:3] == numpy_search(read, 3, width)
            if width == 27:
                assert found[:3] == best
            elif width == 1 and seed:
                assert found[:3] != best


# After 0 comes 1, after 1 comes 1 or 2, after 2 comes 0; 0 begins and 2 ends.
CHAIN = Constraints(
    start=jnp.array([True, False, False]),
    transitions=jnp.array([[0, 1, 0], [0, 1, 1], [1, 0, 0]], bool),
    end=jnp.array([False, False, True]),
)


def obeys(labels, constraints):
    start, transitions, end = (np.asarray(leaf) for leaf in constraints)
    pairs = itertools.pairwise(labels)
    return start[labels[0]] and end[labels[-1]] and all(transitions[p] for p in pairs)


@pytest.mark.parametrize("width", [1, 2, 243])
def test_constraints_hold_whatever_the_width(width):
    """A label from which no end can be reached is a dead end, and is not taken."""
    for seed in range(4):
        x, mask = draw(5, padding=1, seed=seed)
        weights = draw_weights(build("shared"), seed)
        read = numpy_reader(weights, "shared", np.asarray(x, np.float64))
        potentials = apply(build("shared", beam_size=width), weights, x)
        ruled = inference.constrain(potentials, CHAIN)
        found = search(ruled, mask).tolist()[:5]
        legal = [y for y in every_labelling(5) if obeys(y, CHAIN)]
        assert found in legal
        beginnings = {tuple(y[:n]) for y in legal for n in range(6)}
        allowed = lambda labels, known=beginnings: tuple(labels) in known  # noqa: E731
        assert found == numpy_search(read, 5, width, allowed)
        y = jnp.asarray([*found, 0], jnp.int32)
        assert score(ruled, y, mask) == score(potentials, y, mask)


def test_constraints_are_added_to_those_before():
    x, mask = draw(3)
    potentials = apply(build("shared"), draw_weights(build("shared")), x)
    free = Constraints(*(jnp.ones_like(leaf) for leaf in CHAIN))
    for first, second in ((free, CHAIN), (CHAIN, free)):
        twice = inference.constrain(inference.constrain(potentials, first), second)
        assert search(twice, mask).tolist() == [0, 1, 2]
    without_zero = free._replace(start=jnp.array([False, True, True]))
    found = search(inference.constrain(potentials, without_zero), mask).tolist()
    assert found[0] != 0


def test_what_no_labelling_obeys_still_has_an_answer():
    x, mask = draw(2)
    potentials = apply(build("shared", beam_size=2), draw_weights(build("shared")), x)
    found = search(inference.constrain(potentials, CHAIN), mask)  # 0, 1, 2 is shortest
    assert all(0 <= label < LABELS for label in found.tolist())


@pytest.mark.parametrize("fusion", FUSIONS)
def test_no_token_one_token_and_padding(fusion):
    head = build(fusion, beam_size=4)
    weights = draw_weights(head)
    with jax.disable_jit():
        potentials = apply(head, weights, draw(0)[0])
    empty = jnp.zeros(0, jnp.int32), jnp.zeros(0, bool)
    assert inference.score(potentials, *empty) == 0
    for p in (potentials, inference.constrain(potentials, CHAIN)):
        assert inference.viterbi(p, empty[1]).shape == (0,)
    for n in (0, 1, 2):
        x, mask = draw(n, 3 - n)
        y = jnp.array([2, 0, 1])
        potentials = apply(head, weights, x)
        # What stands under the padding must not matter.
        dirty = apply(head, weights, jnp.where(mask[:, None], x, 7.0))
        for labels in (y, jnp.where(mask, y, 1)):
            assert score(potentials, labels, mask) == score(dirty, labels, mask)
        found = search(dirty, mask)
        assert found.tolist() == search(potentials, mask).tolist()
        assert not found[n:].any()
        if n == 1:
            read = numpy_reader(weights, fusion, np.asarray(x, np.float64))
            assert found[0] == np.argmax(read(0, None, (np.zeros(SIZE),) * 2)[0])
            expected = numpy_score(read, [2])
            assert score(dirty, y, mask) == pytest.approx(expected, rel=1e-4)
        elif n == 0:
            assert score(dirty, y, mask) == 0


@pytest.mark.parametrize("fusion", FUSIONS)
def test_gradients_equal_finite_differences(fusion, float64):
    head, (x, mask) = build(fusion), draw(3, padding=1)
    weights = jax.tree.map(lambda leaf: leaf.astype(float), draw_weights(head))
    y = jnp.array([2, 0, 1, 1])

    @jax.jit
    def loss(weights, x):
        return -inference.score(apply(head, weights, x), y, mask)

    grads = jax.jit(jax.grad(loss, argnums=(0, 1)))(weights, x.astype(float))
    assert not grads[1][3].any()
    rng = np.random.default_rng(1)
    point = (weights, x.astype(float))
    for _ in range(3):
        way = jax.tree.map(lambda leaf: jnp.asarray(rng.normal(size=leaf.shape)), point)
        ends = [
            loss(*jax.tree.map(lambda p, w, s=s: p + s * 1e-5 * w, point, way))
            for s in (1, -1)
        ]
        slope = sum(
            jnp.sum(g * w)
            for g, w in zip(*map(jax.tree.leaves, (grads, way)), strict=True)
        )
        assert float(slope) == pytest.approx(float(ends[0] - ends[1]) / 2e-5, rel=1e-6)
    for path, leaf in jax.tree_util.tree_leaves_with_path(grads[0]):
        assert leaf.any(), jax.tree_util.keystr(path)


def test_long_sentences_keep_their_digits():
    """After 20,000 nats, a label is still decided by one hundredth."""
    words = np.zeros((5000, LABELS), np.float32)
    words[:, 1] = 0.01
    potentials = Autoregressive(
        words=jnp.asarray(words),
        word_gates=None,
        previous=jnp.zeros((LABELS + 1, 4, 1)),
        recurrent=jnp.zeros((1, 4, 1)),
        from_state=jnp.zeros((1, LABELS)),
        output_kernel=None,
        output_bias=None,
        beam=jnp.array([0.0, FORBIDDEN]),
    )
    assert (search(potentials, jnp.ones(5000, bool)) == 1).all()
