"""Wrong arguments of public functions are refused at the door, in one line of ours."""

import dataclasses
import functools
import traceback

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxner
from jaxner.driver import check_key
from jaxner.tagger import ensemble
from tests.tiny import PARTS

WORDS = ["Rome", "fell"]
NAN = float("nan")
KEY = jax.random.key(0)
VOCABULARY = jaxner.build_vocabulary([WORDS], ["LOC"])[0]
NAMES = "tag encode entities marginals n_best sample uncertainty relations attention"
pytestmark = pytest.mark.usefixtures("no_checks")  # what a user's process does


def fails(function, *args, **options):
    """Checks that a call ends with one line, raised on purpose, not from inside."""
    with pytest.raises((TypeError, ValueError, OSError)) as error:
        function(*args, **options)
    assert len(str(error.value).splitlines()) == 1, error.value
    last = traceback.extract_tb(error.value.__traceback__)[-1]
    assert "/jaxner/" in last.filename, last
    assert last.line.startswith(("raise", 'f"', '"')), last


def fail_by(function, wrong, **right):
    """Checks that each wrong value of each option fails beside right ones."""
    for option, values in wrong.items():
        for value in values:
            fails(function, **{**right, option: value})


@pytest.mark.parametrize("name", [*NAMES.split(), "entity_types"])
def test_a_tagger_and_tokens_are_needed(name, params):
    call, extra = getattr(jaxner, name), (KEY,) * (name in ("sample", "uncertainty"))
    tokens = () if name == "entity_types" else (WORDS,)
    unfit = [jaxner.Tagger(params.weights, params.model, None)]
    unfit.append(jaxner.Tagger({}, params.model, params.vocabulary))
    fails(params.show, WORDS)  # not one text
    for wrong in ("runs/grn", None, params.weights, *unfit):
        fails(call, wrong, *tokens, *extra)
    for wrong in (None, 3, NAN, {"a": 1}, [None], [[3]], ["a", ["b"]], b"x", {"a"}):
        if tokens:
            fails(call, params, wrong, *extra)


OPTIONS = {
    "tag": {
        "decoding": (None, 3, [], "n_best"),
        "key": (jax.random.split(KEY), "x", 0, NAN),
        "constrained": ("x", None, 3),
        "documents": ("x", 3, NAN),
    },
    "entities": {
        "min_probability": ("x", NAN, -1, None, [], np.ones(2), np.array(NAN)),
        "n_best": (1.5, 10**9, None),
        "split_sentences": ("x",),
    },
    "marginals": {"num_samples": ("x", -1, 1.5), "constrained": ("x",)},
    "n_best": {"n": (None, "x", 0, -1, 1.5, NAN), "num_samples": (1.5,)},
    "uncertainty": {"num_samples": (None, "x", 0, -1, 1.5, NAN), "key": ("x", 0)},
}


@pytest.mark.parametrize("name", OPTIONS)
def test_options_have_types_and_ranges(name, params):
    call = functools.partial(getattr(jaxner, name), params, WORDS, key=KEY)
    fail_by(call, OPTIONS[name])
    for option in OPTIONS[name].keys() - {"key", "documents", "min_probability"}:
        with pytest.raises(TypeError, match=f"{option} .*traced: .*static_argnums"):
            jax.jit(lambda x, name=option: call(**{name: x}))(1)


def test_a_temperature_is_positive(params):
    arrays = np.float32(-1), jnp.float32(NAN), np.ones(1), jnp.ones(2)
    for wrong in (0.0, -1, NAN, "x", True, *arrays):
        fails(jaxner.Tagger, params.weights, params.model, params.vocabulary, wrong)
    pair = ensemble([params, params])
    fails(dataclasses.replace, pair, temperature=jnp.array([1.0, -2.0]))
    program = jax.jit(lambda t: dataclasses.replace(params, temperature=t).temperature)
    assert program(2.0) == 2.0


def test_a_folder_is_a_path_and_load_takes_changes(tmp_path, params, tiny_run):
    file = tmp_path / "file.txt"
    file.write_text("x")
    for wrong in (None, 3, NAN, [], b"x", params, "", "\0", str(file)):
        fails(jaxner.load, wrong)
        fails(jaxner.save, wrong, params)
    for wrong in (None, "", 3, params.weights, ensemble([params, params])):
        fails(jaxner.save, tmp_path / "new", wrong)
    assert not (tmp_path / "new").exists()
    wrong = {"changes": (3, "x", NAN, {3: 1}), "model": (3, "x", {})}
    fail_by(jaxner.load, wrong, workdir=tiny_run)


def test_a_vocabulary_is_built_of_sentences_and_types_and_takes_words_and_ids():
    wrong = {
        "sentences": (None, "", 3, "Rome", WORDS, [[3]], [None]),
        "types": (None, 3, [3], "LOC", NAN),
        "min_count": (None, "x", -1, NAN, 1.5),
        **{"scheme": (None,), "vectors": ({},), "lowercase": ("x",), "alphabet": (3,)},
    }
    fail_by(jaxner.build_vocabulary, wrong, sentences=[WORDS], types=["LOC"])
    for value in (None, 3, "x", [3], [None]):
        fails(VOCABULARY.encode, value)
        fails(VOCABULARY.label_ids, value)
    for value in (None, 3, "x", [None], [99], [-1], [1.5], np.eye(2, dtype=int)):
        fails(VOCABULARY.decode, value)


def test_a_model_is_built_of_parts():
    encoder, head, chars = PARTS["encoder"], PARTS["head"], ("cnn", "intnet")
    for wrong in (None, 3, {}, (VOCABULARY, None)):
        fails(jaxner.build, wrong, **PARTS)
    wrong = {part: (None, 3, "grn", NAN, {"nme": 1}) for part in PARTS}
    wrong["encoder"] += (
        *({"name": "lstm"}, {**encoder, "hidden_dim": 0}, {**encoder, "size": 1}),
        *({"name": "idcnn", "dilations": ()}, {"name": 3}),
        *({"name": "chain", "first": encoder}, {"name": "attention", "keep": "x"}),
        {"name": "lan", "hidden_dim": 4, "num_heads": 3},
    )
    wrong["head"] += ({**head, "dropout": 1.0}, {"name": "x"})
    wrong["representation"] += (
        *({"words": 3}, {"words": None}, {"words": {}, "vectors": {}}),
        *({"chars": {"name": name, "width": 2, "widths": (2,)}} for name in chars),
        *({"chars": {"width": 2}}, {"chars": {"name": "intnet", "widths": (2,)}}),
    )
    wrong |= {"foo": (3,), "mc_dropout": (3, {"x": 1}), "dtype": ("float8",)}
    wrong["refinement"] = (3, {"treshold": 1}, {"form": "letter"})
    fail_by(jaxner.build, wrong, vocabulary=VOCABULARY, **PARTS)
    seq2seq = {**PARTS, "head": {"name": "seq2seq"}}
    fails(jaxner.build, VOCABULARY, **seq2seq, refinement={})
    for part in PARTS:
        rest = {name: x for name, x in PARTS.items() if name != part}
        fails(jaxner.build, VOCABULARY, **rest)


def test_a_model_takes_weights_sentences_and_keys(params):
    sentence, batch = (jaxner.encode(params, x) for x in (WORDS, [WORDS]))
    fails(jaxner.tag, params, jax.tree.map(lambda leaf: leaf[None], batch))
    weights, model, gold = params.weights, params.model, jnp.zeros((1, 2), int)
    wrong = {"model": (None, 3, "x"), "weights": (None, 3, {}, weights["params"])}
    wrong["key"] = 0, "x", NAN
    single = {"model": model, "weights": weights, "sentence": sentence}
    fail_by(jaxner.apply, {**wrong, "sentence": (None, 3, "x", batch)}, **single)
    labels = None, 3, ["O"], jnp.zeros((1, 3), int), jnp.zeros((1, 2))
    of_batch = {"model": model, "weights": weights, "batch": batch, "labels": gold}
    wrong |= {"batch": (sentence,), "labels": labels, "objective": (3,)}
    fail_by(jaxner.loss, wrong, **of_batch)
    wrong = {"model": (None, 3), "key": (None, 3, "x")}
    fail_by(jaxner.init, wrong, model=model, key=KEY)
    check_key(jax.random.PRNGKey(0))  # of the old form
    jax.vmap(check_key)(jax.random.split(KEY))


def test_batches_are_made_of_sentences_and_their_labels():
    wrong = {
        "sentences": (3, "x", [3], WORDS),
        "labels": (None, 3, [], [None], ["OO"], [["O"]]),
        "batch_size": (None, 0, "x", 1.5, NAN),
        **{"num_shapes": ("x",), "documents": ("x",)},
    }
    right = {"sentences": [WORDS], "labels": [["O", "O"]], "batch_size": 2}
    # These break BIOES; and have an unknown type.
    wrong["labels"] += [["B-LOC", "O"]], [["S-PER", "O"]]
    fail_by(jaxner.Batches.of, wrong, vocabulary=VOCABULARY, **right)
    fails(jaxner.Batches.of, VOCABULARY, [], [], batch_size=2)
