"""Every question about a sentence's labellings, against enumeration in float64."""

import functools
import itertools
import pydoc

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.sharding import PartitionSpec
from jax.test_util import check_grads
from scipy.special import logsumexp

from jaxner import inference
from jaxner.data import schemes
from jaxner.errors import InputError
from jaxner.inference import FORBIDDEN, LabelSpans
from jaxner.types import Autoregressive, Potentials
from tests.inference import enumeration
from tests.models import draws

# One shape each, so that each function is compiled once.
SIZE, NUM_DRAWS, NUM_ROWS = 5, 2000, 40

value_and_slope = jax.jit(jax.value_and_grad(inference.log_partition))
marginals = jax.jit(inference.marginals)
viterbi = jax.jit(inference.viterbi)
n_best = jax.jit(inference.n_best, static_argnums=2)
entropy = jax.jit(inference.labelling_entropy)
scores_of = jax.jit(jax.vmap(inference.score, (None, 0, None)))
logs_of = jax.jit(jax.vmap(inference.log_probability, (None, 0, None)))
entities_of = jax.jit(inference.entity_probabilities)
chances_of = jax.jit(jax.vmap(inference.entity_probabilities, (None, 0, None, None)))
of_spans = jax.jit(inference.span_probabilities)
summarise = jax.jit(inference.summarise)
table_of = jax.jit(inference.span_table, static_argnums=(3, 4))


@jax.jit
def draw_many(p, mask):
    keys = jax.random.split(jax.random.key(0), NUM_DRAWS)
    return jax.vmap(lambda key: inference.sample(p, mask, key))(keys)


def test_functions_belong_to_the_package():
    """`help` lists them, and other processes get them."""
    assert "viterbi(potentials" in pydoc.render_doc(inference, renderer=pydoc.plaintext)
    assert getattr(inference, inference.viterbi.__qualname__) is inference.viterbi
    assert inference.viterbi.__module__ == inference.__name__


@pytest.mark.usefixtures("no_checks")
@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"emissions": jnp.zeros((4, 3, 3))}, ValueError, r"one sent.*\[4, 3, 3\]"),
        ({"transitions": jnp.zeros(())}, ValueError, r"\[3, 3\].* got \[\]"),
        ({"transitions": jnp.zeros((2, 2))}, ValueError, r"got \[2, 2\]"),
        ({"start": jnp.zeros(1)}, ValueError, r"start \[3\].* got \[1\]"),
        ({"end": jnp.zeros((3, 3))}, ValueError, r"end \[3\].* got \[3, 3\]"),
        ({"mask": jnp.ones(1, bool)}, ValueError, r"mask \[4\] beside .* \[4, 3\]"),
        ({"mask": jnp.ones((4, 1), bool)}, ValueError, r"got \[4, 1\]"),
        ({"mask": [1, 1, 1, 1]}, TypeError, "mask of booleans, got int32"),
        ({"labels": jnp.zeros(4)}, TypeError, "labels as whole numbers, got float32"),
        ({"labels": jnp.zeros(1, int)}, ValueError, r"labels \[4\].* got \[1\]"),
    ],
)
@pytest.mark.parametrize("is_chain", [True, False])
def test_what_is_not_of_one_sentence_is_refused(changes, error, message, is_chain):
    pair = jnp.zeros((3, 3)) if is_chain else None
    arrays = {"mask": jnp.ones(4, bool), "labels": jnp.zeros(4, int)} | changes
    mask, labels = arrays.pop("mask"), arrays.pop("labels")
    potentials = Potentials(jnp.zeros((4, 3)), pair)._replace(**arrays)
    with pytest.raises(error, match=message):
        inference.log_probability(potentials, labels, mask)
    for kernel in (inference.log_partition, inference.viterbi):
        if "labels" not in changes:
            with pytest.raises(error, match=message):
                jax.jit(kernel)(potentials, mask)
    with pytest.raises(TypeError, match=r"jaxner\.types\.Potentials"):
        inference.viterbi((potentials.emissions, pair), mask)


@pytest.mark.parametrize("is_chain", [True, False])
def test_a_label_that_is_none_of_the_labels_has_no_score(is_chain):
    """JAX would count -1 from the end; under padding, any label will do."""
    p, mask = enumeration.draw(4, 3, dtype=np.float32), jnp.arange(4) < 3
    p = p if is_chain else Potentials(p.emissions)
    rows = jnp.array([[0, 2, 1, 0], [0, -1, 1, 0], [0, 5, 1, 0], [0, 2, 1, -100]])
    for compute in (scores_of, logs_of):
        right, *wrong, padded = compute(p, rows, mask)
        assert np.isfinite(right)
        assert np.isnan(wrong).all()
        assert padded == right


def test_whole_numbers_are_scores_too():
    p, mask = enumeration.draw(4, 3, dtype=np.float32), jnp.arange(4) < 3
    whole = jax.tree.map(lambda scores: (4 * scores).astype(int), p)
    same = jax.tree.map(lambda scores: scores.astype(jnp.float32), whole)
    for compute in (marginals, entropy, viterbi):
        np.testing.assert_allclose(compute(whole, mask), compute(same, mask))


@pytest.mark.parametrize("parts", [["transitions"], ["start"], ["transitions", "end"]])
def test_absent_scores_are_zeros_and_dtypes_may_differ(parts):
    p, mask = enumeration.draw(SIZE, 3, dtype=np.float32), jnp.arange(SIZE) < 4
    labels, emissions = jnp.arange(SIZE) % 3, p.emissions.astype(jnp.bfloat16)
    scores = {part: getattr(p, part) for part in parts}
    some = Potentials(emissions, **scores)
    zeros = jax.tree.map(jnp.zeros_like, p)
    full = zeros._replace(emissions=emissions.astype(jnp.float32), **scores)
    for kernel in (viterbi, marginals, entropy, logs_of):
        args = (labels[None], mask) if kernel is logs_of else (mask,)
        np.testing.assert_allclose(kernel(some, *args), kernel(full, *args), rtol=1e-6)
    for answer, right in zip(n_best(some, mask, 3), n_best(full, mask, 3), strict=True):
        np.testing.assert_allclose(answer, right, rtol=1e-6)
    (value, slope), (total, slopes) = (value_and_slope(x, mask) for x in (some, full))
    assert float(value) == pytest.approx(float(total))
    assert slope.emissions.dtype == jnp.bfloat16
    for part in parts:
        np.testing.assert_allclose(getattr(slope, part), getattr(slopes, part), 1e-5)


@pytest.mark.parametrize(
    ("kind", "scheme"),
    [
        *(("crf", "IOB1"), ("crf", "BIOES"), ("constrained", "BILOU")),
        ("independent", "BIO"),
    ],
)
def test_answers_equal_enumeration(float64, scheme, kind):
    names = enumeration.SCHEMES[scheme]
    spans, types = enumeration.spans_of(names)
    for length in range(5):
        p = enumeration.build(kind, scheme, SIZE, seed=length)
        mask = jnp.arange(SIZE) < length
        labellings, scores = enumeration.enumerate_scores(p, length)
        total = logsumexp(scores)
        chances = np.exp(scores - total)
        rows = np.zeros((len(scores), SIZE), np.int32)
        rows[:, :length] = np.array(labellings).reshape(len(scores), length)

        value, slope = value_and_slope(p, mask)
        counts = enumeration.expectations(labellings, chances, SIZE, len(names))
        assert float(value) == pytest.approx(total, rel=1e-12)
        np.testing.assert_allclose(marginals(p, mask), counts.emissions, atol=1e-12)
        for leaf, count in zip(slope, counts, strict=True):
            if leaf is not None:
                np.testing.assert_allclose(leaf, count, atol=1e-12)
        picks = np.linspace(0, len(rows) - 1, NUM_ROWS).astype(int)
        np.testing.assert_allclose(scores_of(p, rows[picks], mask), scores[picks])
        logs = np.asarray(logs_of(p, rows[picks], mask))
        np.testing.assert_allclose(np.exp(logs), chances[picks], rtol=1e-9, atol=1e-300)

        possible = chances[chances > 0]
        expected = -(possible * np.log(possible)).sum()
        assert float(entropy(p, mask)) == pytest.approx(expected, abs=1e-10)

        order = np.argsort(-chances, kind="stable")[:100]
        count = min(100, len(possible))
        best, best_scores = n_best(p, mask, 100)
        assert best[:count].tolist() == rows[order[:count]].tolist()
        assert viterbi(p, mask).tolist() == rows[order[0]].tolist()
        np.testing.assert_allclose(best_scores[:count], scores[order[:count]])
        assert (best_scores[count:] == -np.inf).all()
        assert not best[count:].any()

        table = enumeration.span_chances(labellings, chances, names)
        bounds = itertools.combinations(range(SIZE + 1), 2)
        cells = [(*pair, k) for pair in bounds for k in range(len(types))]
        expected = [table.get((start, end, types[k]), 0.0) for start, end, k in cells]
        close = functools.partial(np.testing.assert_allclose, rtol=1e-10, atol=1e-13)
        close(of_spans(p, jnp.array(cells), mask, spans), expected)
        chart = np.asarray(table_of(p, mask, spans, len(types), SIZE))
        close([chart[start, end - start - 1, k] for start, end, k in cells], expected)
        for width in (2, 9):
            part = np.asarray(table_of(p, mask, spans, len(types), width))
            close(part[:, :SIZE], chart[:, :width])
            assert not part[:, SIZE:].any()
        starts = np.zeros(rows[picks].shape)
        for row, number in zip(starts, picks, strict=True):
            for span in schemes.to_spans([names[y] for y in labellings[number]]):
                row[span.start] = table[tuple(span)]
        close(chances_of(p, rows[picks], mask, spans), starts)


@pytest.mark.parametrize("kind", enumeration.KINDS)
@pytest.mark.parametrize("length", [0, 3])
def test_draws_have_their_probabilities(kind, length):
    p = enumeration.build(kind, "BIO", 4, seed=6, dtype=np.float32)
    labellings, scores = enumeration.enumerate_scores(p, length)
    chances = np.exp(scores - logsumexp(scores))
    labels = draw_many(p, jnp.arange(4) < length)
    rows, times = np.unique(labels, axis=0, return_counts=True)
    shares = {tuple(row[:length]): n for row, n in zip(rows, times, strict=True)}
    assert not rows[:, length:].any()
    for labels, chance in zip(labellings, chances, strict=True):
        error = 4.5 * np.sqrt(chance * (1 - chance) / NUM_DRAWS) + 2e-3
        assert abs(shares.pop(labels, 0) / NUM_DRAWS - chance) < error
    assert not shares


def test_scores_in_bfloat16_draw_as_in_float32():
    rows = [Potentials(jnp.array([[0.0, 4.0]], x)) for x in ("float32", "bfloat16")]
    first, second = (draw_many(p, jnp.ones(1, bool)) for p in rows)
    assert np.array_equal(first, second)


def test_entities_of_independent_labels_take_no_exponential_of_pairs():
    spans, _ = enumeration.spans_of(enumeration.SCHEMES["BIO"])
    p = enumeration.build("crf", "BIO", 4, dtype=np.float32)
    labels = jnp.zeros(4, int)
    for potentials, is_chain in ((p, True), (Potentials(p.emissions), False)):
        inputs = potentials, labels, labels == 0, spans
        text = str(jax.make_jaxpr(inference.entity_probabilities)(*inputs))
        size = p.emissions.shape[1]
        assert (f"[{size},{size}] = exp" in text) is is_chain


def test_spans_that_do_not_fit_have_no_probability():
    spans, _ = enumeration.spans_of(enumeration.SCHEMES["BIO"])
    p, mask = enumeration.build("crf", "BIO", 5, dtype=np.float32), jnp.arange(5) < 3
    rows = [(0, 0, 0), (2, 1, 0), (-1, 2, 0), (2, 4, 0), (7, 9, 0), (0, 1, -1)]
    assert not of_spans(p, jnp.array([*rows, (0, 1, 7)]), mask, spans).any()
    assert of_spans(p, jnp.zeros((0, 3), int), mask, spans).shape == (0,)


@pytest.mark.slow
def test_gradients_equal_finite_differences(float64):
    spans, types = enumeration.spans_of(enumeration.SCHEMES["BIO"])
    p, mask = enumeration.build("crf", "BIO", 4, seed=5), jnp.arange(4) < 3
    labels, rows = jnp.array([1, 2, 3, 0]), jnp.array([[0, 2, 0], [1, 3, 1]])
    total = lambda p: inference.log_partition(p, mask)  # noqa: E731
    check_grads(jax.jit(total), (p,), order=2, modes=["rev"])

    @jax.jit
    def compute(p):
        return (
            inference.marginals(p, mask),
            inference.labelling_entropy(p, mask),
            inference.entity_probabilities(p, labels, mask, spans),
            inference.span_probabilities(p, rows, mask, spans),
            inference.span_table(p, mask, spans, len(types), 2),
            inference.log_probability(p, labels, mask),
        )

    check_grads(compute, (p,), order=1, modes=["fwd", "rev"])


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 10_000),
    st.sampled_from([1, 2, 4]),
    st.sampled_from([0.1, 5.0, 60.0, 1000.0]),
    st.sampled_from([0.0, 0.15, 0.35]),
)
def test_float32_with_forbidden_entries_anywhere(seed, length, scale, share):
    """Nothing is NaN, even where everything is forbidden."""
    p, rng = enumeration.draw(4, 3, seed, scale, np.float32), np.random.default_rng(1)
    p = jax.tree.map(lambda x: jnp.where(rng.random(x.shape) < share, FORBIDDEN, x), p)
    mask = jnp.arange(4) < length
    value, slope = value_and_slope(p, mask)
    for leaf in jax.tree.leaves((value, slope, entropy(p, mask))):
        assert np.isfinite(leaf).all()
    labellings, scores = enumeration.enumerate_scores(p, length)
    total = logsumexp(scores)
    if total > FORBIDDEN / 2:
        counts = enumeration.expectations(labellings, np.exp(scores - total), 4, 3)
        assert float(value) == pytest.approx(total, rel=1e-5, abs=1e-4)
        for leaf, count in zip(slope, counts, strict=True):
            np.testing.assert_allclose(leaf, count, atol=2e-3)
        _, best_scores = n_best(p, mask, 5)
        count = min(5, int((scores > FORBIDDEN / 2).sum()))
        expected = -np.sort(-scores)[:count]
        np.testing.assert_allclose(best_scores[:count], expected, rtol=1e-5, atol=1e-3)
        assert (best_scores[count:] == -np.inf).all()


@pytest.mark.slow
@pytest.mark.parametrize("forbid", [True, False])
def test_float32_is_exact_for_thousands_of_tokens(no_checks, forbid):
    size = 9
    p32, mask = enumeration.draw(4096, size, 1, dtype=np.float32), np.ones(4096, bool)
    if forbid:
        p32 = p32._replace(transitions=p32.transitions.at[1, 2].set(FORBIDDEN))
    value, slope = value_and_slope(p32, mask)
    chances, uncertain = marginals(p32, mask), float(entropy(p32, mask))
    log = logs_of(p32, viterbi(p32, mask)[None], mask)
    best, scores = n_best(p32, mask, 4)
    spans = LabelSpans(jnp.arange(size) - 1, jnp.eye(size, dtype=bool))
    part, labels = p32._replace(emissions=p32.emissions[:400]), best[0, :400]
    chances_of_spans = entities_of(part, labels, mask[:400], spans)
    with jax.enable_x64(True):
        p64 = jax.tree.map(lambda x: jnp.asarray(np.asarray(x), jnp.float64), p32)
        part = p64._replace(emissions=p64.emissions[:400])
        exact_of_spans = entities_of(part, labels, mask[:400], spans)
        exact, exact_slope = value_and_slope(p64, mask)
        exact_entropy = float(entropy(p64, mask))
        exact_log = logs_of(p64, viterbi(p64, mask)[None], mask)
        exact_best, exact_scores = n_best(p64, mask, 4)
    assert float(value) == pytest.approx(float(exact), rel=3e-7)
    np.testing.assert_allclose(chances, exact_slope.emissions, atol=2e-5)
    np.testing.assert_allclose(slope.emissions, exact_slope.emissions, atol=2e-5)
    np.testing.assert_allclose(slope.transitions, exact_slope.transitions, rtol=1e-4)
    assert uncertain == pytest.approx(exact_entropy, rel=3e-6)
    np.testing.assert_allclose(chances_of_spans, exact_of_spans, rtol=2e-5, atol=1e-30)
    np.testing.assert_allclose(log, exact_log, rtol=1e-5)
    assert best[0].tolist() == exact_best[0].tolist()
    np.testing.assert_allclose(scores, exact_scores, rtol=1e-6)
    assert (np.diff(scores) <= 0).all()


@pytest.mark.parametrize("temperature", [1.0, 20.0])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_forbidden_labellings_do_not_exist(dtype, temperature):
    mask, scores = jnp.ones(2, bool), jnp.array([[0, 4], [0, 5]], dtype)
    rules = inference.Constraints(mask, ~jnp.eye(2, dtype=bool), mask)
    p = inference.constrain(Potentials(scores), rules)
    p = inference.at_temperature(p, temperature)
    best, scores = n_best(p, mask, 4)
    assert best.tolist() == [[0, 1], [1, 0], [0, 0], [0, 0]]
    assert np.isfinite(scores).tolist() == [True, True, False, False]
    assert np.isfinite(entropy(p, mask))


def test_independent_labels_in_float16_have_spans():
    p, mask = Potentials(jnp.zeros((2, 2), "float16")), jnp.ones(2, bool)
    spans = inference.LabelSpans(jnp.array([-1, 0]), jnp.zeros((2, 2), bool))
    table = inference.span_table(p, mask, spans, num_types=1, max_width=2)
    assert table.ravel().tolist() == [0.5, 0, 0.5, 0]


@pytest.mark.parametrize("kind", ["crf", "independent"])
def test_the_first_of_equals_is_that_of_viterbi(kind):
    p = enumeration.build(kind, "BIO", 4, dtype=np.float32)
    p = jax.tree.map(jnp.zeros_like, p)
    mask = jnp.ones(4, bool)
    best, scores = n_best(p, mask, 5)
    assert best[0].tolist() == viterbi(p, mask).tolist() == [0, 0, 0, 0]
    assert len({tuple(labels) for labels in best.tolist()}) == 5
    assert not scores.any()


def answers(p, mask, labels=None):
    spans, types = enumeration.spans_of(enumeration.SCHEMES["BIO"])
    labels = jnp.array([1, 2, 0, 3, 4]) if labels is None else labels
    return {
        "log_partition": inference.log_partition(p, mask),
        "slope": jax.grad(inference.log_partition)(p, mask).emissions,
        "score": inference.score(p, labels, mask),
        "marginals": inference.marginals(p, mask),
        "viterbi": inference.viterbi(p, mask),
        "n_best": inference.n_best(p, mask, 3),
        "sample": inference.sample(p, mask, jax.random.key(0)),
        "entropy": inference.labelling_entropy(p, mask),
        "log": inference.log_probability(p, labels, mask),
        "entities": inference.entity_probabilities(p, labels, mask, spans),
        "spans": inference.span_probabilities(p, jnp.array([[0, 2, 0]]), mask, spans),
        "table": inference.span_table(p, mask, spans, len(types), 2),
    }


@pytest.mark.parametrize("kind", ["crf", "independent"])
def test_an_array_without_a_place_has_one_labelling(kind):
    p, mask = enumeration.build(kind, "BIO", 0, dtype=np.float32), jnp.zeros(0, bool)
    spans, types = enumeration.spans_of(enumeration.SCHEMES["BIO"])
    labels = jnp.zeros(0, jnp.int32)
    answer = jax.jit(answers)(p, mask, labels)
    assert answer.pop("n_best")[1].tolist() == [0.0, -np.inf, -np.inf]
    assert not any(leaf.any() for leaf in jax.tree.leaves(answer))
    assert answer["table"].shape == (0, 2, len(types))
    assert [x.shape for x in inference.entity_bounds(labels, mask, spans)] == [(0,)] * 3


def test_what_cannot_be_answered_raises():
    mask, zero = jnp.ones(2, bool), jnp.zeros
    gates = zero((3, 4, 1)), zero((1, 4, 1)), zero((1, 2))
    head = Autoregressive(zero((2, 2)), None, *gates, None, None, zero(1))
    for name in ("marginals", "n_best", "sample", "labelling_entropy", "span_table"):
        with pytest.raises(InputError, match=name):
            getattr(inference, name)(head, mask)


@pytest.mark.slow  # a fast test asks whole taggers, see `test_product`
def test_jit_vmap_and_shard_map_change_nothing():
    potentials = enumeration.build("crf", "BIO", 5, dtype=np.float32)
    chains = (enumeration.draw(5, 5, seed, dtype=np.float32) for seed in range(4))
    rows = [chain.emissions for chain in chains]
    masks = jnp.arange(5)[None] < jnp.array([[5], [2], [0], [1]])
    batch, axes = potentials._replace(emissions=jnp.stack(rows)), Potentials(0)

    compute = jax.jit(answers)
    pairs = zip(rows, masks, strict=True)
    singles = [compute(potentials._replace(emissions=row), mask) for row, mask in pairs]

    mesh = jax.make_mesh((2,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))
    split, whole = PartitionSpec("d"), PartitionSpec()
    specs = jax.tree.map(lambda _: whole, batch)._replace(emissions=split)
    places = {"in_specs": (specs, split), "out_specs": split}
    program = jax.shard_map(jax.vmap(answers, (axes, 0)), mesh=mesh, **places)
    draws.close(jax.jit(program)(batch, masks), enumeration.stack(singles), 3e-6)


def test_independent_labels_need_no_scan():
    p, mask = Potentials(jnp.zeros((5, 3))), jnp.ones(5, bool)
    for kernel in (
        inference.log_partition,
        inference.viterbi,
        inference.marginals,
        inference.labelling_entropy,
        lambda p, mask: inference.sample(p, mask, jax.random.key(0)),
        lambda p, mask: inference.score(p, jnp.zeros(5, jnp.int32), mask),
    ):
        assert "scan" not in str(jax.make_jaxpr(kernel)(p, mask))


# --- Uncertainty of several passes ----------------------------------------------------


def numpy_summary(samples, labels):
    """Each quantity by its formula, token by token, in double precision.

    Labels are given, since rounding decides between equal means.
    """
    rows = []
    tokens = np.asarray(samples, np.float64).transpose(1, 0, 2)
    for token, label in zip(tokens, np.asarray(labels).tolist(), strict=True):
        mean = sum(token) / len(token)
        assert mean[label] > max(mean) - 1e-6
        total = -sum(p * np.log(p) for p in mean if p > 0)
        nats = [-sum(p * np.log(p) for p in row if p > 0) for row in token]
        votes = sum(row.argmax() == label for row in token)
        expected = sum(nats) / len(nats)
        rows.append((label, mean, total, expected, total - expected, votes / len(nats)))
    return [np.stack(column) for column in zip(*rows, strict=True)]


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 1000), st.sampled_from([0.0, 1.0, 30.0]))
def test_summary_equals_its_formulas_and_stays_in_range(seed, sharpness):
    scores = np.random.default_rng(seed).normal(size=(5, 4, 3))
    samples = jax.nn.softmax(jnp.asarray(scores * sharpness, jnp.float32))
    summary = summarise(samples)
    for x, right in zip(summary, numpy_summary(samples, summary.labels), strict=True):
        np.testing.assert_allclose(x, right, atol=2e-6)
    assert (summary.entropy <= np.log(3) + 1e-6).all()
    assert (summary.mutual_information >= 0).all()
    values = summarise(samples.at[:, 2:].set(0.0))
    for value, whole in zip(values, summary, strict=True):
        np.testing.assert_array_equal(value[:2], whole[:2])
        assert not np.asarray(value)[2:].any()


def test_entropy_of_certain_and_impossible_labels_has_a_finite_gradient():
    assert float(inference.entropy(jnp.array([1.0, 0.0, 0.0]))) == 0
    slope = jax.jit(jax.grad(lambda x: inference.entropy(jax.nn.softmax(x))))
    assert np.isfinite(slope(jnp.array([200.0, 0.0, 0.0]))).all()
