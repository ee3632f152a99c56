"""Wrong arguments of public functions are refused at the door, in one line of ours."""

import dataclasses
import traceback

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxner
from jaxner import fields
from jaxner.fields import checked
from jaxner.models import checks

WORDS = ["Rome", "fell"]
NAN = float("nan")
KEY = jax.random.key(0)
PARTS = {
    "representation": {"words": {"dim": 4}, "chars": None},
    "encoder": {"name": "grn", "hidden_dim": 4},
    "head": {"name": "crf"},
}
pytestmark = pytest.mark.usefixtures("unchecked")  # what a user's process does


def fails(function, *args, **options):
    """Checks that a call ends with one line, raised on purpose, not from inside."""
    with pytest.raises((TypeError, ValueError, OSError)) as error:
        function(*args, **options)
    assert len(str(error.value).splitlines()) == 1, error.value
    last = traceback.extract_tb(error.value.__traceback__)[-1]
    assert "/jaxner/" in last.filename, last
    assert last.line.startswith(("raise", 'f"', '"')), last


def vocabulary():
    return jaxner.build_vocabulary([WORDS], ["LOC"])[0]


@pytest.mark.parametrize(
    "name",
    [
        *("tag", "encode", "entities", "marginals", "n_best", "sample", "uncertainty"),
        *("relations", "attention", "entity_types"),
    ],
)
def test_a_tagger_and_tokens_are_needed(name, params):
    call, more = getattr(jaxner, name), (KEY,) * (name in ("sample", "uncertainty"))
    tokens = () if name == "entity_types" else (WORDS,)
    unfit = [jaxner.Tagger(params.weights, params.model, None)]
    unfit.append(jaxner.Tagger({}, params.model, params.vocabulary))
    for wrong in ("runs/grn", None, params.weights, *unfit):
        fails(call, wrong, *tokens, *more)
    for wrong in (None, 3, NAN, {"a": 1}, [None], [[3]], ["a", ["b"]], b"x", {"a"}):
        if tokens:
            fails(call, params, wrong, *more)


OPTIONS = {
    "tag": {
        "decoding": (None, 3, [], "n_best"),
        "key": (jax.random.split(KEY), "x", 0, NAN),
        "constrained": ("x", None, 3),
        "documents": ("x", 3, NAN),
    },
    "entities": {
        "min_probability": ("x", NAN, -1, None, []),
        "n_best": (1.5, 10**9, None),
        "split_sentences": ("x",),
    },
    "marginals": {"num_samples": ("x", -1, 1.5), "constrained": ("x",)},
    "n_best": {"n": (None, "x", 0, -1, 1.5, NAN), "num_samples": (1.5,)},
    "uncertainty": {"num_samples": (None, "x", 0, -1, 1.5, NAN), "key": ("x", 0)},
}


@pytest.mark.parametrize("name", OPTIONS)
def test_options_have_types_and_ranges(name, params):
    needed = {"key": KEY} if name == "uncertainty" else {}
    for option, values in OPTIONS[name].items():
        for value in values:
            fails(getattr(jaxner, name), params, WORDS, **{**needed, option: value})


def test_a_temperature_is_positive(params):
    for wrong in (0.0, -1, NAN, "x"):
        fails(jaxner.Tagger, params.weights, params.model, params.vocabulary, wrong)
    traced = jax.jit(lambda t: dataclasses.replace(params, temperature=t).temperature)
    assert traced(2.0) == 2.0


def test_a_folder_is_a_path_to_a_folder(tmp_path, params):
    file = tmp_path / "file.txt"
    file.write_text("x")
    for wrong in (None, 3, NAN, [], b"x", params, "", "\0", str(file)):
        fails(jaxner.load, wrong)
        fails(jaxner.save, wrong, params)
    for wrong in (None, "", 3, params.weights):
        fails(jaxner.save, tmp_path / "new", wrong)
    assert not (tmp_path / "new").exists()


def test_what_load_takes_besides_is_checked(finished):
    for wrong in (3, "x", NAN, {3: 1}):
        fails(jaxner.load, finished, wrong)
    for wrong in (3, "x", {}):
        fails(jaxner.load, finished, model=wrong)


@pytest.mark.parametrize(
    "options",
    [
        *({"sentences": v} for v in (None, "", 3, "Rome", WORDS, [[3]], [None])),
        *({"types": v} for v in (None, 3, [3], "LOC", NAN)),
        *({"min_count": v} for v in (None, "x", -1, NAN, 1.5)),
        *({"scheme": None}, {"vectors": {}}, {"lowercase": "x"}, {"alphabet": 3}),
    ],
)
def test_a_vocabulary_is_built_of_sentences_and_types(options):
    fails(
        jaxner.build_vocabulary, **{"sentences": [WORDS], "types": ["LOC"], **options}
    )


def test_a_model_is_built_of_parts():
    for wrong in (None, 3, {}, (vocabulary(), None)):
        fails(jaxner.build, wrong, **PARTS)
    for part in PARTS:
        for wrong in (None, 3, "grn", NAN, {"nme": 1}):
            fails(jaxner.build, vocabulary(), **{**PARTS, part: wrong})
        others = {name: x for name, x in PARTS.items() if name != part}
        fails(jaxner.build, vocabulary(), **others)
    head, encoder = PARTS["head"], PARTS["encoder"]
    for changes in (
        *({"foo": 3}, {"mc_dropout": 3}, {"refinement": 3}, {"dtype": "float8"}),
        *({"representation": {"words": 3}}, {"representation": {"words": None}}),
        *({"encoder": {"name": "lstm"}}, {"encoder": {**encoder, "hidden_dim": 0}}),
        *({"encoder": {**encoder, "size": 1}}, {"head": {**head, "dropout": 1.0}}),
        *({"encoder": {"name": "idcnn", "dilations": ()}}, {"encoder": {"name": 3}}),
        *({"encoder": {"name": "chain", "first": encoder}}, {"mc_dropout": {"x": 1}}),
        *({"refinement": {"treshold": 1}}, {"refinement": {"form": "letter"}}),
        *({"encoder": {"name": "attention", "keep": "x"}}, {"head": {"name": "x"}}),
        {"head": {"name": "seq2seq"}, "refinement": {}},
        {"representation": {"chars": {"name": "cnn", "width": 2}}},
        {"representation": {"chars": {"name": "intnet", "widths": (2,)}}},
        {"representation": {"words": {}, "vectors": {}}},
        {"encoder": {"name": "lan", "hidden_dim": 4, "num_heads": 3}},
    ):
        fails(jaxner.build, vocabulary(), **{**PARTS, **changes})


def test_a_model_takes_weights_sentences_and_keys(params):
    one, batch = (jaxner.encode(params, x) for x in (WORDS, [WORDS]))
    weights, model, gold = params.weights, params.model, jnp.zeros((1, 2), int)
    for wrong in (None, 3, "x"):
        fails(jaxner.init, wrong, KEY)
        fails(jaxner.apply, wrong, weights, one)
        fails(jaxner.loss, wrong, weights, batch, gold)
        fails(jaxner.apply, model, weights, wrong)
        fails(jaxner.init, model, wrong)
    for wrong in (None, 3, {}, weights["params"]):
        fails(jaxner.apply, model, wrong, one)
        fails(jaxner.loss, model, wrong, batch, gold)
    fails(jaxner.loss, model, weights, one, gold)
    fails(jaxner.apply, model, weights, batch)
    for wrong in (None, 3, ["O"], jnp.zeros((1, 3), int), jnp.zeros((1, 2))):
        fails(jaxner.loss, model, weights, batch, wrong)
    for wrong in (0, "x", NAN):
        fails(jaxner.apply, model, weights, one, wrong)
        fails(jaxner.loss, model, weights, batch, gold, wrong)
    fails(jaxner.loss, model, weights, batch, gold, None, 3)
    checks.check_key(jax.random.PRNGKey(0))  # of the old form
    jax.vmap(checks.check_key)(jax.random.split(KEY))


@pytest.mark.parametrize(
    "options",
    [
        *({"sentences": v} for v in (3, "x", [3], WORDS)),
        *({"labels": v} for v in (None, 3, [], [["O"]])),
        *({"batch_size": v} for v in (None, 0, "x", 1.5, NAN)),
        *({"num_shapes": "x"}, {"documents": "x"}),
    ],
)
def test_batches_are_made_of_sentences_and_their_labels(options):
    given = {"sentences": [WORDS], "labels": [["O"] * len(WORDS)], "batch_size": 2}
    fails(jaxner.Batches.of, vocabulary(), **{**given, **options})


def test_a_vocabulary_takes_words_labels_and_ids():
    own = vocabulary()
    for wrong in (None, 3, "x", [3], [None]):
        fails(own.encode, wrong)
        fails(own.label_ids, wrong)
    for wrong in (None, 3, "x", [None], [99], [-1], [1.5], np.eye(2, dtype=int)):
        fails(own.decode, wrong)
    assert own.decode(np.array([1, 0])) == ["B-LOC", "O"]


def test_what_is_no_option_is_not_checked():
    @checked
    def call(array: "jax.Array", size: fields.Size = 1):
        return array, size

    assert call("anything", 2) == ("anything", 2)
    fails(call, "anything", 0)
