"""The tagger as a pytree, and the same weights in a model that differs in an option."""

import dataclasses
import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxner
from jaxner import models
from jaxner.data import schemes
from jaxner.tagger import ensemble
from tests.marks import slow

TOKENS = ["Rome", "beat", "Milan", "in", "1996", "."]


def emissions(params):
    sentence = jax.tree.map(jnp.asarray, params.vocabulary.encode(TOKENS))
    apply = jax.jit(models.apply, static_argnums=0)
    return np.asarray(apply(params.model, params.weights, sentence).emissions)


def test_a_run_is_loaded_with_other_options(att_run):
    """What they do is tested with the models."""
    whole = jaxner.load(att_run)
    changes = {"encoder.then.num_heads": 5, "head.dropout": 0.0}
    assert jaxner.load(att_run, changes).model == whole.model
    copy = jaxner.load(att_run, {"encoder.then.keep": ["hidden", "context"]})
    np.testing.assert_array_equal(emissions(copy), emissions(whole))
    part = jaxner.load(att_run, {"encoder.then.keep": "hidden"})
    assert np.abs(emissions(part) - emissions(whole)).max() > 1e-3


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"encoder.last.keep": "hidden"}, "no section for the option 'encoder.last"),
        ({"encoder.then.keap": "hidden"}, "Unknown option encoder.then.keap; known: "),
        ({"encoder.then.keep": "context6"}, "Unknown part 'context6' in keep"),
        ({"encoder.then": "hidden"}, "'encoder.then' is a section"),
        ({"encoder.then.num_heads": 4}, "needs other weights than the run has"),
        ({"head.name": "crf"}, "needs other weights than the run has"),
    ],
)
def test_wrong_changes_say_what_is_wrong(att_run, changes, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        jaxner.load(att_run, changes)


def test_a_tagger_is_a_pytree_of_weights_and_temperature(params):
    assert len(jax.tree.leaves(params)) == len(jax.tree.leaves(params.weights)) + 1
    double = jax.tree.map(lambda leaf: 2 * leaf, params)
    assert double.temperature == 2
    assert double.model == params.model
    for leaf in (0, True, "frozen"):  # axes of `jax.vmap`, masks and names of Optax
        assert jax.tree.map(lambda _, x=leaf: x, params).temperature is leaf
    tagger = jaxner.Tagger(params.weights, params.model, params.vocabulary)
    assert jax.tree.map(lambda old, new: new - old, tagger, tagger).temperature == 0
    half = jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), tagger)
    assert (half.temperature, half.temperature.dtype) == (1, jnp.bfloat16)
    assert double.tag.__func__ is jaxner.Tagger.tag is jaxner.tag
    program = jax.jit(jaxner.marginals)
    sentence = jaxner.encode(params, TOKENS)
    for temperature in (1.0, 3.0, jnp.float32(0.5)):  # compiled once for all
        warm = dataclasses.replace(params, temperature=temperature)
        expected = jaxner.marginals(warm, [TOKENS])[0]
        np.testing.assert_allclose(program(warm, sentence), expected, atol=1e-6)


def test_a_loss_is_float32_where_jax_has_float64(params):
    batch = jaxner.encode(params, [TOKENS])
    labels = np.zeros(batch.words.shape, int)
    with jax.enable_x64(True):
        loss = functools.partial(jaxner.loss, params.model)
        assert jax.eval_shape(loss, params.weights, batch, labels).dtype == jnp.float32


@pytest.mark.slow
def test_weights_may_be_arrays_of_numpy(params):
    """In a batch, where ids are traced, and as constants; no type is promoted."""
    copy, batch = jax.device_get(params), jaxner.encode(params, [TOKENS] * 2)
    labels = np.zeros(batch.words.shape, int)

    def compute(tagger):
        loss = jaxner.loss(tagger.model, tagger.weights, batch, labels)
        functions = jaxner.tag, jaxner.marginals, jaxner.entities
        return loss, *(function(tagger, batch) for function in functions)

    expected = compute(params)
    with jax.numpy_dtype_promotion("strict"):
        strict = jax.jit(compute)(params)
    for result in (strict, compute(copy), jax.jit(lambda: compute(copy))()):
        leaves = map(jax.tree.leaves, (result, expected))
        for a, b in zip(*leaves, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


def test_a_saved_tagger_is_loaded_as_it_was(params, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    warm = dataclasses.replace(params, temperature=1.3)
    jaxner.save("~/saved", warm)
    assert (tmp_path / "saved" / "model.json").is_file()
    tagger = jaxner.load("~/saved")
    assert tagger.model == params.model
    assert tagger.vocabulary == params.vocabulary
    for a, b in zip(jax.tree.leaves(tagger), jax.tree.leaves(warm), strict=True):
        np.testing.assert_array_equal(a, np.float32(b))
    assert jaxner.tag(tagger, TOKENS) == jaxner.tag(params, TOKENS)
    with pytest.raises(FileExistsError):
        jaxner.save(tmp_path / "saved", warm)
    assert len({tagger, warm, tagger}) == 2  # equality is identity
    with pytest.raises(ValueError, match="changed by name"):
        jaxner.load(tmp_path / "saved", {"head.dropout": 0.5})
    with pytest.raises(TypeError, match="not both"):
        jaxner.load(tmp_path / "saved", {"head.dropout": 0.5}, model=params.model)


def test_what_load_would_refuse_is_not_saved(params, tmp_path):
    """Nor is a file of it written."""
    head = params.weights["params"]["head"]
    end = head["end"]
    for wrong, message in (
        (end[:2], r"head/end is float \[2\], float \["),
        (end.astype(int), "head/end is int32"),
        (end.tolist(), "head/end is absent"),
        (jnp.stack([end, end]), r"head/end is float \[2, "),
        (end.at[0].set(jnp.inf), "infinite or NaN weights in params/head/end"),
    ):
        tree = {**params.weights["params"], "head": {**head, "end": wrong}}
        tagger = dataclasses.replace(params, weights={**params.weights, "params": tree})
        with pytest.raises(ValueError, match=message):
            jaxner.save(tmp_path / "saved", tagger)
    tree = {**params.weights["params"], "stray": 1.0}
    tagger = dataclasses.replace(params, weights={**params.weights, "params": tree})
    with pytest.raises(ValueError, match=r"stray is float.* \[\], absent in the model"):
        jaxner.save(tmp_path / "saved", tagger)
    with pytest.raises(ValueError, match="temperature"):
        jaxner.save(tmp_path / "saved", dataclasses.replace(params, temperature=None))
    with pytest.raises(TypeError, match="traced"):
        jax.jit(lambda tagger: jaxner.save(tmp_path / "saved", tagger))(params)
    assert not (tmp_path / "saved").exists()


def test_numbers_that_no_reader_expects_are_not_exported(params, tmp_path):
    exports = {"file.zip": jaxner.export, "model.onnx": jaxner.export_onnx}
    exports["folder"] = jaxner.export_transformers
    for factor, message in ((0.0, "temperature must be above 0"), (np.nan, "NaN")):
        wrong = jax.tree.map(lambda leaf, x=factor: x * leaf, params)
        wrong = wrong if factor == 0 else dataclasses.replace(wrong, temperature=1.0)
        for name, write in exports.items():
            with pytest.raises(ValueError, match=message):
                write(wrong, tmp_path / name)
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("documents", [True, *slow(False)])
def test_a_constrained_tagger_gives_well_formed_labels_everywhere(tmp_path, documents):
    """Its head is, so no call has to ask; of the same weights without, some are not."""
    text = [TOKENS]
    vocabulary, _ = jaxner.build_vocabulary(text, ["LOC", "PER"], documents=documents)
    parts = {"representation": {"words": {"dim": 8}}, "encoder": {"name": "identity"}}
    heads = ({"name": "crf", "constrained": x} for x in (False, True))
    free, model = (jaxner.build(vocabulary, head=head, **parts) for head in heads)
    weights = jaxner.init(free, jax.random.key(1))
    weights = jax.tree.map(lambda leaf: 9 * leaf, weights)
    jaxner.save(tmp_path / "saved", jaxner.Tagger(weights, model, vocabulary))
    tagger = jaxner.load(tmp_path / "saved")
    assert tagger.model == model
    noise = models.MCDropout(num_samples=2, average="probabilities")
    noisy = dataclasses.replace(tagger, model=model.clone(mc_dropout=noise))
    taggers = tagger, ensemble([tagger, tagger]), noisy
    results = [jaxner.tag(x, TOKENS) for x in taggers]
    for decoding in ("max_marginal", "independent"):
        results.append(jaxner.tag(tagger, TOKENS, decoding=decoding))
    if not documents:
        for x in (tagger, dataclasses.replace(tagger, temperature=9.0)):
            results += [best.labels for best in jaxner.n_best(x, TOKENS[:1], 99)]
    assert not any(schemes.violations(x, vocabulary.scheme) for x in results)
    rival = jaxner.tag(jaxner.Tagger(weights, free, vocabulary), TOKENS)
    assert schemes.violations(rival, vocabulary.scheme)
    spans = {(e.start, e.end, e.type) for e in jaxner.entities(tagger, TOKENS)}
    labels = jaxner.tag(tagger, TOKENS)
    assert spans == {(s.start, s.end, s.type) for s in schemes.to_spans(labels)}
