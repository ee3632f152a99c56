"""Labels chosen in several ways from one checkpoint, and their probabilities."""

import dataclasses
import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp

import jaxner
from jaxner import inference, models, tagging
from jaxner.answers import probabilities
from jaxner.data import corpora, schemes
from jaxner.evaluation import scoring
from jaxner.tagging import DECODINGS
from tests.inference import enumeration
from tests.marks import slow

apply = jax.jit(models.apply, static_argnums=0)
SENTENCES = [["Rome", "beat", "Milan"], [], ["Ms", "Preston"], ["x"] * 9]


def tiny(head, types=("LOC",), documents=False, scheme="BIOES", **parts):
    """A tagger of random weights, large enough that labels differ."""
    sentences = [["Rome", "beat", "Milan", "Ms", "Preston"]]
    options = {"documents": documents, "scheme": scheme}
    vocabulary, _ = jaxner.build_vocabulary(sentences, types, **options)
    model = jaxner.build(
        vocabulary,
        representation={"words": {"dim": 6}, "chars": None, "dropout": 0.5},
        head={"name": head},
        **{"encoder": {"name": "projection", "hidden_dim": 8}, **parts},
    )
    # Of other draws, two labellings are so close that rounding decides between them.
    weights = jaxner.init(model, jax.random.key(0))
    keys = iter(jax.random.split(jax.random.key(1), 100))
    wild = jax.tree.map(lambda x: jax.random.normal(next(keys), x.shape), weights)
    return jaxner.Tagger(wild, model, vocabulary)


@pytest.fixture(scope="module")
def crf():
    return tiny("crf")


def enumerated(params, tokens):
    """Every labelling, its probability by plain loops, and the emissions."""
    sentence = jaxner.encode(params, tokens)
    potentials = apply(params.model, params.weights, sentence)
    labellings, scores = enumeration.enumerate_scores(potentials, len(tokens))
    scores /= params.temperature
    chances = np.exp(scores - logsumexp(scores))
    return labellings, chances, np.asarray(potentials.emissions)


def test_decodings_equal_enumeration(crf):
    params = dataclasses.replace(crf, temperature=3.0)
    tokens = SENTENCES[0]
    labellings, chances, emissions = enumerated(params, tokens)
    decode = params.vocabulary.decode

    def tag(decoding):
        return jaxner.tag(params, tokens, decoding=decoding)

    best = labellings[int(chances.argmax())]
    assert tag("viterbi") == jaxner.tag(params, tokens) == decode(best)
    rows = enumerate(map(decode, labellings))
    legal = [i for i, labels in rows if not schemes.violations(labels, "BIOES")]
    best_legal = labellings[max(legal, key=lambda i: chances[i])]
    assert tag("constrained") == decode(best_legal)
    assert jaxner.tag(params, tokens, constrained=True) == decode(best_legal)
    assert tag("independent") == decode(emissions.argmax(axis=1))
    expected = np.zeros_like(emissions)
    for y, chance in zip(labellings, chances, strict=True):
        expected[range(3), y] += chance
    assert tag("max_marginal") == decode(expected.argmax(axis=1))
    np.testing.assert_allclose(jaxner.marginals(params, tokens), expected, atol=2e-6)
    share = chances[legal].sum()
    first = jaxner.n_best(params, tokens, 2, constrained=True)[0]
    assert first.labels == decode(best_legal)
    assert first.probability == pytest.approx(chances[legal].max() / share, rel=1e-4)
    single = jaxner.tag(params, tokens, decoding="independent", constrained=True)
    assert schemes.violations(single, "BIOES") == []
    # Of the well-formed labellings, the one with the most expected right labels.
    table = jaxner.marginals(params, tokens, constrained=True)
    hits = [sum(table[t][y] for t, y in enumerate(labellings[i])) for i in legal]
    most = labellings[legal[int(np.argmax(hits))]]
    labels = jaxner.tag(params, tokens, decoding="max_marginal", constrained=True)
    assert labels == decode(most)


@pytest.mark.parametrize("decoding", DECODINGS)
def test_batch_mates_padding_and_jit_change_nothing(crf, decoding):
    key = jax.random.key(3)
    rows = jaxner.tag(crf, SENTENCES, decoding=decoding, key=key)
    singles = [jaxner.tag(crf, s, decoding=decoding, key=key) for s in SENTENCES]
    assert rows == singles
    tag = functools.partial(jaxner.tag, decoding=decoding, key=key)
    ids = jax.jit(tag)(crf, jaxner.encode(crf, SENTENCES))
    assert [len(row) for row in ids] == [9] * 4
    for row, labels in zip(ids, rows, strict=True):
        assert crf.vocabulary.decode(row[: len(labels)].tolist()) == labels
        assert not row[len(labels) :].any()


def test_no_choice_of_the_n_best_beats_the_oracle(crf, file):
    text = "Milan S-LOC\nx O\nRome S-LOC\n\nbeat O\n\nPreston O\n"
    split = corpora.read(file(text), scheme="BIOES")
    gold, best = probabilities.oracle_split(crf, split, 6)
    rows = jaxner.n_best(crf, [[*x.tokens] for x in split.examples], 6)

    def f1(labels):
        return scoring.score(gold, labels, scheme="BIOES").f1 or 0.0

    choices = itertools.product(*([x.labels for x in row] for row in rows))
    assert f1(best) == max(map(f1, choices)) > 0


def test_n_best_of_all_doors(crf):
    lists = jaxner.n_best(crf, SENTENCES, 3)
    assert [len(best) for best in lists] == [3, 1, 3, 3]
    assert lists[1] == [jaxner.Labelling([], 1.0)]
    assert jaxner.n_best(crf, SENTENCES[2], 3)[0].labels == lists[2][0].labels
    batch = jaxner.encode(crf, SENTENCES)
    n_best = jax.jit(jaxner.n_best, static_argnums=2)
    arrays = n_best(crf, batch, 3)
    assert arrays.labels.shape == (4, 3, 9)
    for i in (0, 2, 3):
        expected = [answer.probability for answer in lists[i]]
        np.testing.assert_allclose(arrays.probability[i], expected, rtol=1e-4)
        ids = arrays.labels[i, 0, : len(SENTENCES[i])].tolist()
        assert crf.vocabulary.decode(ids) == lists[i][0].labels
    word = n_best(crf, jaxner.encode(crf, ["Rome"]), 7)
    assert word.labels.shape == (7, 1)
    assert (word.probability[:5] > 0).all()  # as many labellings as labels
    assert not word.probability[5:].any()
    result = n_best(crf, crf.vocabulary.encode([]), 2)
    assert result.labels.shape == (2, 0)
    assert result.probability.tolist() == [1.0, 0.0]


def test_passes_are_averaged():
    params = tiny("crf", mc_dropout={"num_samples": 3, "parts": ("representation",)})
    tokens, key = SENTENCES[0], jax.random.key(13)
    sentence = jaxner.encode(params, tokens)
    samples = jaxner.sample(params, tokens, key, 3)
    marginals = jaxner.marginals(params, tokens, key=key)
    np.testing.assert_allclose(marginals, samples.mean(axis=0), atol=1e-6)
    single = jaxner.marginals(params, tokens, key=key, num_samples=0)
    assert (single.argmax(axis=1) != marginals.argmax(axis=1)).any()

    @jax.jit
    def probability(labels):
        passes = tagging.predict(params, sentence, key).passes
        parts = [inference.one_pass(passes, i) for i in range(3)]
        logs = [inference.log_probability(p, labels, sentence.mask) for p in parts]
        return jnp.mean(jnp.exp(jnp.stack(logs)))

    for answer in jaxner.n_best(params, tokens, 4, key=key):
        ids = jnp.array(params.vocabulary.label_ids(answer.labels))
        assert answer.probability == pytest.approx(float(probability(ids)), rel=1e-4)
    best = params.vocabulary.decode(marginals.argmax(axis=1))
    assert jaxner.tag(params, tokens, decoding="max_marginal", key=key) == best


def test_passes_of_arrays_under_jit_are_those_of_strings(uanet_run):
    uanet, texts, key = jaxner.load(uanet_run), SENTENCES[::2], jax.random.key(3)
    strings = jaxner.uncertainty(uanet, texts, key, 3)
    batch = jaxner.encode(uanet, texts)
    compute = jax.jit(jaxner.uncertainty, static_argnames="num_samples")
    arrays = compute(uanet, batch, key, num_samples=3)
    samples = jax.jit(jaxner.sample, static_argnums=3)(uanet, batch, key, 3)
    assert samples.shape[:3] == (2, 3, 3)
    fewer = jaxner.sample(uanet, texts[1], key, 2)
    np.testing.assert_allclose(fewer, samples[1, :2, :2], atol=1e-5)
    rows = [jaxner.marginals(uanet, texts[0], key=k) for k in (None, key)]
    assert np.ptp(rows, axis=0).max() > 5e-6  # the drafts differ
    assert arrays.entropy.shape == (2, 3)
    for i, summary in enumerate(strings):
        length = len(texts[i])
        ids = arrays.labels[i][:length].tolist()
        assert summary.labels == uanet.vocabulary.decode(ids)
        for name in ("entropy", "expected_entropy", "mutual_information", "vote_share"):
            row = np.asarray(getattr(arrays, name)[i])
            np.testing.assert_allclose(row[:length], getattr(summary, name), atol=1e-5)
            assert not row[length:].any()


@pytest.mark.parametrize("refinement", [None, *slow({"head": {"name": "softmax"}})])
def test_labels_and_passes_are_drawn_by_different_keys(refinement, monkeypatch):
    params = tiny("softmax", mc_dropout={"num_samples": 9}, refinement=refinement)
    sentence, key, calls = jaxner.encode(params, SENTENCES[0]), jax.random.key(2), []
    sample = inference.sample

    def draw(potentials, mask, key):
        calls.append(key)
        return sample(potentials, mask, key)

    monkeypatch.setattr(tagging.inference, "sample", draw)
    tagging.choose(params, sentence, key, decoding="sampled")
    of_tokens = [jax.random.fold_in(*calls, t) for t in range(len(SENTENCES[0]))]
    of_passes = models.pass_keys(key, sentence, 9)
    values = [tuple(jax.random.key_data(k).tolist()) for k in (*calls, *of_tokens)]
    assert not {*values} & {*map(tuple, jax.random.key_data(of_passes).tolist())}
