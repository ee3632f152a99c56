"""`jaxner.tag` with all forms of input, and `Tagger` as a pytree."""

import dataclasses
import functools
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import jaxner
from jaxner import models, tagging
from jaxner.data import corpora, schemes, vocab


@pytest.fixture(scope="module")
def sentences(corpus):
    examples = corpora.load(None, "dev", directory=corpus).examples
    return [list(example.tokens) for example in examples]


@pytest.fixture(scope="module")
def labels(params, sentences):
    return jaxner.tag(params, sentences)


def test_strings_in_strings_out(params, sentences, labels):
    assert [len(row) for row in labels] == [len(s) for s in sentences]
    assert {label for row in labels for label in row} <= set(
        params.vocabulary.label_names
    )
    assert {label for row in labels for label in row} != {"O"}
    assert jaxner.tag(params, sentences[0]) == labels[0]
    assert jaxner.tag(params, tuple(sentences[0])) == labels[0]
    assert jaxner.tag(params, np.array(sentences[0])) == labels[0]


def test_empty_input(params):
    assert jaxner.tag(params, []) == []
    assert jaxner.tag(params, [[]]) == [[]]
    assert jaxner.tag(params, [["Rome"], [], ["x", "y"]])[1] == []
    assert len(jaxner.tag(params, [""])) == 1
    for empty, shape in (([], (0, 0)), ([[]], (1, 0)), ([[], []], (2, 0))):
        assert jaxner.tag(params, jaxner.encode(params, empty)).shape == shape
    assert jaxner.tag(params, params.vocabulary.encode([])).shape == (0,)


def test_batch_mates_and_order_change_nothing(params, sentences, labels):
    alone = [jaxner.tag(params, sentence) for sentence in sentences]
    assert alone == labels
    order = np.random.default_rng(0).permutation(len(sentences))
    shuffled = jaxner.tag(params, [sentences[i] for i in order])
    assert shuffled == [labels[i] for i in order]


def test_nothing_is_truncated(params, sentences, labels):
    long = [token for sentence in sentences for token in sentence] * 4
    assert len(long) > 2000
    found = jaxner.tag(params, [long, sentences[0]])
    assert len(found[0]) == len(long)
    assert found[1] == labels[0]
    wide = ["x" * 5000, "Rome"]
    assert len(jaxner.tag(params, wide)) == 2
    # The last character that is read counts, and no further one does.
    for before, counts in ((vocab.MAX_CHARACTERS - 1, True), (5000, False)):
        ids = [params.vocabulary.encode(["x" * before + end]).chars for end in "ab"]
        assert ids[0].shape == (2, vocab.MAX_CHARACTERS)
        assert (ids[0] != ids[1]).any() == counts


def test_encoded_arrays_in_ids_out(params, sentences, labels):
    one = jaxner.encode(params, sentences[0])
    found = jaxner.tag(params, one)
    assert found.shape == one.words.shape
    assert params.vocabulary.decode(found.tolist()) == labels[0]
    batch = jaxner.encode(params, sentences)
    found = jaxner.tag(params, batch)
    assert found.shape == batch.words.shape
    assert not found[~batch.mask].any()
    for row, expected in zip(found, labels, strict=True):
        assert params.vocabulary.decode(row[: len(expected)].tolist()) == expected


def test_under_jit_and_vmap(params, sentences):
    batch = jaxner.encode(params, sentences)
    expected = jaxner.tag(params, batch)
    jitted = jax.jit(lambda params, batch: jaxner.tag(params, batch))
    np.testing.assert_array_equal(jitted(params, batch), expected)
    mapped = jax.jit(jax.vmap(jaxner.tag, in_axes=(None, 0)))(params, batch)
    np.testing.assert_array_equal(mapped, expected)
    pairs = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), batch)
    twice = jax.vmap(functools.partial(jaxner.tag, params))(pairs)
    np.testing.assert_array_equal(twice[1], expected)


def test_over_a_sharded_batch_and_shard_map(params, sentences):
    mesh = Mesh(np.array(jax.devices()[:2]), ("data",))
    batch = jaxner.encode(params, sentences[:8])
    expected = jaxner.tag(params, batch)
    sharded = jax.device_put(batch, NamedSharding(mesh, PartitionSpec("data")))
    np.testing.assert_array_equal(jax.jit(jaxner.tag)(params, sharded), expected)
    spread = jax.shard_map(
        jaxner.tag,
        mesh=mesh,
        in_specs=(PartitionSpec(), PartitionSpec("data")),
        out_specs=PartitionSpec("data"),
    )
    np.testing.assert_array_equal(jax.jit(spread)(params, batch), expected)


def test_params_are_a_pytree(params, sentences, labels):
    leaves, tree = jax.tree.flatten(params)
    assert all(isinstance(leaf, jax.Array) for leaf in leaves)
    again = jax.tree.unflatten(tree, leaves)
    assert jaxner.tag(again, sentences) == labels
    zeroed = jax.tree.map(jnp.zeros_like, params)
    assert zeroed.vocabulary is params.vocabulary
    moved = jax.device_put(params, jax.devices()[0])
    assert jaxner.tag(moved, sentences) == labels
    assert hash(tree) == hash(jax.tree.structure(zeroed))


def test_params_can_be_donated(params):
    @functools.partial(jax.jit, donate_argnums=0)
    def halve(params):
        return jax.tree.map(lambda leaf: leaf / 2, params)

    copy = jax.tree.map(jnp.copy, params)
    halved = halve(copy)
    assert all(leaf.is_deleted() for leaf in jax.tree.leaves(copy))
    np.testing.assert_allclose(
        jax.tree.leaves(halved)[0], jax.tree.leaves(params)[0] / 2
    )


def test_loading_twice_traces_once(params, finished):
    """A second load is equal and compiles nothing again."""
    other = jaxner.load(finished)
    batch = jaxner.encode(params, [["Rome", "wins"]])
    traces = []

    @jax.jit
    def run(params, batch):
        traces.append(None)
        return jaxner.tag(params, batch)

    run(params, batch)
    run(other, batch)
    assert len(traces) == 1


class Word(str):
    """A word that does not want to be looked at."""

    __slots__ = ()

    def __eq__(self, other):
        raise AssertionError("a word was compared")

    def __hash__(self):
        raise AssertionError("a word was hashed")


def test_vocabularies_compare_by_fingerprint(params):
    words = params.vocabulary.words
    left, right = (
        dataclasses.replace(params.vocabulary, words=tuple(map(Word, words)))
        for _ in range(2)
    )
    assert left.fingerprint == right.fingerprint  # computed once, here
    assert left == right
    assert hash(left) == hash(right)
    shorter = dataclasses.replace(params.vocabulary, words=words[:-1])
    assert shorter != params.vocabulary


def test_gradient_flows_through_the_weights(params, sentences):
    sentence = jaxner.encode(params, sentences[0])

    def emission_sum(params):
        return models.apply(params.model, params.weights, sentence).emissions.sum()

    gradient = jax.grad(emission_sum)(params)
    assert any(leaf.any() for leaf in jax.tree.leaves(gradient.weights["params"]))


def test_constrained_output_is_well_formed(params, sentences):
    # Random weights, so that there is something to constrain.
    keys = iter(jax.random.split(jax.random.key(0), 100))
    wild = jax.tree.map(lambda leaf: jax.random.normal(next(keys), leaf.shape), params)
    ill_formed = 0
    for constrained in (False, True):
        found = jaxner.tag(wild, sentences, constrained=constrained)
        ill_formed = sum(len(schemes.violations(row, "BIOES")) for row in found)
        assert bool(ill_formed) is not constrained


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        ("Rome wins", "Split it into tokens first"),
        (None, "got NoneType"),
        (7, "got int"),
        ({"Rome": 1}, "got dict"),
        ([1, 2], "got int as item 0"),
        (["Rome", None], "got NoneType as token 1"),
        ([["Rome"], "wins"], "got list as token 0"),
        ([["Rome", b"wins"]], "got bytes as token 1 of sentence 0"),
        (np.zeros(3), "an array of float64"),
        (np.array("Rome"), "an array without axes: give [tokens.item()]"),
        ((s for s in ["Rome"]), "got generator: give list(tokens)"),
    ],
)
def test_wrong_types_say_what_would_be_right(params, tokens, message):
    with pytest.raises(TypeError, match="Expected a list of strings") as error:
        jaxner.tag(params, tokens)
    assert message in str(error.value)


def test_wrong_rank(params):
    sentence = jaxner.encode(params, ["Rome"])
    deep = jax.tree.map(lambda leaf: leaf[None, None], sentence)
    with pytest.raises(TypeError, match="got 3 axes"):
        jaxner.tag(params, deep)


def test_relations(params, corpus, tmp_path):
    scores = jaxner.relations(params, ["Rome", "beat", "Milan"])
    assert scores.shape == (3, 3)
    assert scores.min() == 0
    assert scores.max() == pytest.approx(1)
    assert jaxner.relations(params, []).shape == (0, 0)
    model = tagging.build_model(
        params.vocabulary,
        {
            "representation": {"words": {"dim": 4}, "chars": None},
            "encoder": {"name": "grn", "hidden_dim": 4, "relation": "none"},
            "head": {"name": "softmax"},
        },
    )
    plain = tagging.Tagger(
        models.init(model, jax.random.key(0)), model, params.vocabulary
    )
    with pytest.raises(TypeError):
        jaxner.relations(params, [["Rome"], ["Milan"]])
    with pytest.raises(ValueError, match="no relation layer"):
        jaxner.relations(plain, ["Rome"])


def test_load_says_what_is_missing(tmp_path, finished):
    with pytest.raises(FileNotFoundError, match=r"There is no folder"):
        jaxner.load(tmp_path / "nowhere")
    (tmp_path / "note.txt").touch()
    with pytest.raises(FileNotFoundError, match=r"config\.json.*holds: note\.txt"):
        jaxner.load(tmp_path)
    for name in ("config.json", "vocabulary.json"):
        (tmp_path / name).write_bytes((finished / name).read_bytes())
    with pytest.raises(FileNotFoundError, match="holds no checkpoint"):
        jaxner.load(tmp_path)


def test_loading_writes_and_removes_nothing(finished, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(finished, run)
    # Another process is writing its next checkpoint.
    half_written = run / "checkpoints" / "best" / "99.orbax-checkpoint-tmp"
    half_written.mkdir()
    before = sorted(run.rglob("*"))
    jaxner.load(run)
    assert sorted(run.rglob("*")) == before


def test_loading_again_labels_the_same(params, finished, sentences, labels):
    assert jaxner.tag(jaxner.load(finished), sentences) == labels
    assert jaxner.tag(jaxner.load(str(finished)), sentences) == labels
