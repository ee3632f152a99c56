"""Probabilities of spans and labellings, against enumeration in float64."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

from jaxner import inference
from jaxner.data import schemes
from jaxner.data.label_spans import label_types
from jaxner.inference import Constraints, LabelSpans
from jaxner.types import Autoregressive, Potentials
from tests.inference.test_crf import enumerate_scores, log_sum_exp, potentials
from tests.marks import slow

NAMES = {
    "IO": ("O", "I-A", "I-B"),  # IOB1 without a B
    "IOB1": ("O", "B-A", "I-A", "I-B"),
    "BIO": ("O", "B-A", "I-A", "B-B", "I-B"),
    "BIOES": ("O", "B-A", "I-A", "E-A", "S-A", "S-B"),
    "BILOU": ("U-B", "B-A", "I-A", "L-A", "O", "I-B"),
}
LENGTHS = (0, 1, 2, 3, 4, 6)

labelling = jax.jit(inference.entity_probabilities)
given = jax.jit(inference.span_probabilities)
table = jax.jit(inference.span_table, static_argnums=(3, 4))
log_probability = jax.jit(inference.log_probability)


def spans_of(names):
    found = label_types(names)
    return LabelSpans(jnp.asarray(found.types), jnp.asarray(found.goes_on)), found.names


def build(length, names, seed, kind, dtype=np.float64):
    """Potentials of a kind, and the full ones that enumeration takes."""
    p = potentials(length, len(names), seed, 1.5, dtype)
    if kind == "independent":
        zeros = jax.tree.map(jnp.zeros_like, p)
        return Potentials(p.emissions), zeros._replace(emissions=p.emissions)
    if kind == "constrained":
        scheme = "IOB1" if "B-B" not in names and "S-B" not in names else "BIO"
        scheme = "BIOES" if "S-B" in names else "BILOU" if "U-B" in names else scheme
        allowed = schemes.allowed(names, scheme)
        p = inference.constrain(p, Constraints(*map(jnp.asarray, allowed)))
    return p, p


def enumerated(full, names, length):
    """The probability of each span, by the reader of labels that tagging uses."""
    if not length:
        return {}, [()], np.ones(1)
    labellings, scores = enumerate_scores(full, length)
    chances = np.exp(scores - log_sum_exp(scores))
    found = {}
    for labels, chance in zip(labellings, chances, strict=True):
        for span in schemes.to_spans([names[i] for i in labels]):
            found[span] = found.get(span, 0.0) + chance
    return found, labellings, chances


@pytest.mark.parametrize("kind", ["crf", "constrained", "independent"])
@pytest.mark.parametrize("scheme", NAMES)
def test_spans_equal_enumeration(float64, scheme, kind):
    """All spans, given ones, those of labellings, and labellings themselves."""
    names = NAMES[scheme]
    spans, types = spans_of(names)
    size = 6  # one shape, so that each function is compiled once
    for length in LENGTHS if len(names) < 6 else LENGTHS[:-1]:
        p, full = build(size, names, length, kind)
        mask = jnp.arange(size) < length
        short = full._replace(emissions=full.emissions[:length])
        expected, labellings, chances = enumerated(short, names, length)
        everything = table(p, mask, spans, len(types), size)
        rows = [
            (s, e, k)
            for s in range(size)
            for e in range(s + 1, size + 1)
            for k in range(len(types))
        ]
        wanted = [expected.get((s, e, types[k]), 0.0) for s, e, k in rows]
        found = [everything[s, e - s - 1, k] for s, e, k in rows]
        np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-13)
        assert float(everything.sum()) == pytest.approx(sum(wanted))
        asked = given(p, jnp.array(rows), mask, spans)
        np.testing.assert_allclose(asked, wanted, rtol=1e-10, atol=1e-13)
        likely = sorted(range(len(chances)), key=lambda i: -chances[i])
        for i in likely[:2] + likely[len(likely) // 2 :: 97]:
            labels = labellings[i]
            ids = jnp.array([*labels, *[1] * (size - length)], jnp.int32)
            at_first = np.zeros(size)
            for span in schemes.to_spans([names[y] for y in labels]):
                at_first[span.start] = expected[span]
            found = labelling(p, ids, mask, spans)
            np.testing.assert_allclose(found, at_first, rtol=1e-10, atol=1e-13)
            log = float(log_probability(p, ids, mask))
            assert np.exp(log) == pytest.approx(chances[i], rel=1e-10, abs=1e-300)


def test_spans_that_do_not_fit_are_none(float64):
    names = NAMES["BIO"]
    spans, _ = spans_of(names)
    p, _ = build(5, names, 0, "crf")
    mask = jnp.arange(5) < 3
    rows = [(0, 0, 0), (2, 1, 0), (-1, 2, 0), (2, 4, 0), (7, 9, 0), (0, 1, -1)]
    assert not given(p, jnp.array([*rows, (0, 1, 7)]), mask, spans).any()
    assert given(p, jnp.zeros((0, 3), int), mask, spans).shape == (0,)
    none = Potentials(p.emissions[:0], *p[1:])
    nothing = jnp.zeros(0, bool)
    assert labelling(none, jnp.zeros(0, int), nothing, spans).shape == (0,)
    assert given(none, jnp.zeros((2, 3), int), nothing, spans).tolist() == [0.0, 0.0]
    assert table(none, nothing, spans, 2, 3).shape == (0, 3, 2)
    assert float(log_probability(none, jnp.zeros(0, int), nothing)) == 0.0


def test_a_narrower_table_is_a_part_of_the_wider(float64):
    names = NAMES["BIOES"]
    spans, types = spans_of(names)
    p, _ = build(6, names, 3, "crf")
    mask = jnp.arange(6) < 5
    wide, narrow = (table(p, mask, spans, len(types), w) for w in (9, 2))
    np.testing.assert_allclose(wide[:, :2], narrow, rtol=1e-12)
    assert not wide[:, 6:].any()


@pytest.mark.parametrize("kind", ["crf", *slow("independent")])
def test_gradients_equal_finite_differences(float64, kind):
    names = NAMES["BIO"]
    spans, types = spans_of(names)
    p, _ = build(4, names, 5, kind)
    mask = jnp.arange(4) < 3
    labels = jnp.array([1, 2, 3, 0])
    rows = jnp.array([[0, 2, 0], [1, 3, 1]])
    for compute in (
        lambda p: inference.entity_probabilities(p, labels, mask, spans),
        lambda p: inference.span_probabilities(p, rows, mask, spans),
        lambda p: inference.span_table(p, mask, spans, len(types), 2),
        lambda p: inference.log_probability(p, labels, mask),
    ):
        check_grads(jax.jit(compute), (p,), order=1, modes=["fwd", "rev"])


@pytest.mark.parametrize("scale", [300.0, *slow(1.0)])
def test_float32_is_finite_and_keeps_its_digits(unchecked, scale):
    """Exact at any scale, also if constraints forbid most probable labellings."""
    names = NAMES["BIOES"]
    spans, types = spans_of(names)
    length = 400
    p = potentials(length, len(names), 1, scale, np.float32)
    allowed = Constraints(*map(jnp.asarray, schemes.allowed(names, "BIOES")))
    p = inference.constrain(p, allowed)
    mask = jnp.arange(length) < length - 3
    labels = inference.viterbi(p, mask)
    with jax.enable_x64(True):
        wide = jax.tree.map(lambda x: jnp.asarray(x, jnp.float64), p)
        exact = inference.entity_probabilities(wide, labels, mask, spans)
        exact_log = inference.log_probability(wide, labels, mask)
    found = inference.entity_probabilities(p, labels, mask, spans)
    tolerance = 2e-5 if scale == 1.0 else 2e-2  # a score of 900 has four digits left
    np.testing.assert_allclose(found, exact, rtol=tolerance, atol=1e-30)
    log = inference.log_probability(p, labels, mask)
    np.testing.assert_allclose(log, exact_log, rtol=1e-4, atol=1e-2)

    def total(p):
        everything = inference.span_table(p, mask, spans, len(types), 4)
        return everything.sum() + inference.log_probability(p, labels, mask)

    for leaf in jax.tree.leaves(jax.grad(total)(p)):
        assert np.isfinite(leaf).all()


def test_jit_and_vmap_change_nothing():
    names = NAMES["BIO"]
    spans, types = spans_of(names)
    ps = [potentials(5, len(names), seed=s, dtype=np.float32) for s in range(3)]
    masks = jnp.arange(5)[None] < jnp.array([[5], [2], [0]])
    batch = jax.tree.map(lambda *leaves: jnp.stack(leaves), *ps)
    labels, rows = jnp.array([1, 2, 0, 3, 4]), jnp.array([[0, 1, 0], [1, 2, 1]])
    for compute in (
        lambda p, mask: inference.entity_probabilities(p, labels, mask, spans),
        lambda p, mask: inference.span_probabilities(p, rows, mask, spans),
        lambda p, mask: inference.span_table(p, mask, spans, len(types), 3),
        lambda p, mask: inference.log_probability(p, labels, mask),
    ):
        together = jax.jit(jax.vmap(compute))(batch, masks)
        each = [jax.jit(compute)(p, mask) for p, mask in zip(ps, masks, strict=True)]
        np.testing.assert_allclose(together, jnp.stack(each), rtol=1e-5, atol=1e-7)
        assert not together[2].any()


@pytest.mark.parametrize("is_chain", [True, False])
def test_means_over_passes_are_those_of_the_mixture(float64, is_chain):
    """Of passes that share their transitions, and of taggers that share nothing."""
    names = NAMES["BIO"]
    spans, _ = spans_of(names)
    mask, labels = jnp.ones(3, bool), jnp.array([1, 2, 3])
    kind = "crf" if is_chain else "independent"
    built = [build(3, names, seed, kind) for seed in range(4)]
    compute = functools.partial(
        inference.entity_probabilities, labels=labels, mask=mask, label_spans=spans
    )
    tables = [enumerated(full, names, 3)[0] for _, full in built]
    wanted = np.zeros(3)
    for span in schemes.to_spans([names[y] for y in labels]):
        wanted[span.start] = np.mean([t[span] for t in tables])
    stacked = jax.tree.map(lambda *x: jnp.stack(x), *(p for p, _ in built))
    found = inference.mean_over_passes(compute, stacked)
    np.testing.assert_allclose(found, wanted, rtol=1e-10)
    first = built[0][0]
    shared = first._replace(emissions=stacked.emissions)
    each = [compute(first._replace(emissions=e)) for e in stacked.emissions]
    found = inference.mean_over_passes(compute, shared)
    np.testing.assert_allclose(found, np.mean(each, axis=0), rtol=1e-12)


@pytest.mark.parametrize("kind", ["crf", "constrained", "independent"])
def test_temperature_is_a_power_of_the_distribution(float64, kind):
    p, full = build(4, NAMES["BIO"], 2, kind)
    mask = jnp.ones(4, bool)
    cooled = inference.at_temperature(p, 2.5)
    labellings, scores = enumerate_scores(full, 4)
    chances = np.exp(scores / 2.5 - log_sum_exp(scores / 2.5))
    for i in np.argsort(-chances)[[0, 1, 5]]:
        log = float(log_probability(cooled, jnp.array(labellings[i]), mask))
        assert np.exp(log) == pytest.approx(chances[i], rel=1e-10)
    best, before = (inference.viterbi(q, mask).tolist() for q in (cooled, p))
    assert best == before


def test_what_cannot_be_answered_says_so():
    spans, _ = spans_of(NAMES["BIO"])
    mask, zero = jnp.ones(2, bool), jnp.zeros
    head = Autoregressive(
        zero((2, 2)), None, zero((3, 4, 1)), zero((1, 4, 1)), zero((1, 2)), None, None,
        zero(1),
    )  # fmt: skip
    for name, rest in (
        ("entity_probabilities", (jnp.zeros(2, int), mask, spans)),
        ("span_probabilities", (jnp.zeros((1, 3), int), mask, spans)),
        ("span_table", (mask, spans, 1, 1)),
        ("at_temperature", (2.0,)),
    ):
        with pytest.raises(ValueError, match=f"{name} needs sums or maxima over all"):
            getattr(inference, name)(head, *rest)
    with pytest.raises(ValueError, match="width of at least 1 token, got 0"):
        inference.span_table(Potentials(zero((2, 5))), mask, spans, 2, 0)


def test_probabilities_are_honest_on_draws_from_a_known_crf(unchecked):
    """In 1,000 bins of predictions, as many come true as are predicted.

    Of 200 CRFs and 200 labellings of each, the spans that have a chance: 750,000
    outcomes. If chances are exact, the squared z-scores of the bins have a mean of 1,
    or a little less, since spans of one labelling exclude each other.
    """
    names, length, width, bins = NAMES["BIOES"], 7, 4, 1000
    spans, types = spans_of(names)
    mask = jnp.ones(length, bool)

    @jax.jit
    @jax.vmap
    def draw(seed):
        keys = jax.random.split(jax.random.key(seed), 5)
        shapes = ((length, len(names)), (len(names),) * 2, (len(names),), (len(names),))
        normal = jax.random.normal
        scores = (2 * normal(k, s) for k, s in zip(keys[:4], shapes, strict=True))
        p = Potentials(*scores)
        drawn = jax.vmap(lambda key: inference.sample(p, mask, key))(
            jax.random.split(keys[4], 200)
        )
        return inference.span_table(p, mask, spans, len(types), width), drawn

    tables, drawn = map(np.asarray, draw(jnp.arange(200)))
    happened = np.zeros((*drawn.shape[:2], *tables.shape[1:]), bool)
    number = {kind: k for k, kind in enumerate(types)}
    cache = {}
    for c, d in np.ndindex(*drawn.shape[:2]):
        labels = tuple(drawn[c, d].tolist())
        if labels not in cache:
            cache[labels] = schemes.to_spans([names[y] for y in labels])
        for start, end, kind in cache[labels]:
            if end - start <= width:
                happened[c, d, start, end - start - 1, number[kind]] = True
    predicted = np.broadcast_to(tables[:, None], happened.shape)
    likely = predicted > 1e-3
    predicted, happened = predicted[likely].astype(float), happened[likely]
    assert predicted.size > 700_000
    order = np.argsort(predicted, kind="stable")
    z = []
    for part in np.array_split(order, bins):
        chance, seen = predicted[part], happened[part]
        z.append((seen.sum() - chance.sum()) / np.sqrt((chance * (1 - chance)).sum()))
    z = np.array(z)
    assert abs(z.mean()) < 0.15
    assert 0.8 < (z**2).mean() < 1.2
    assert np.abs(z).max() < 4.8
