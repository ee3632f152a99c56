"""Wrong arguments of public functions get a line that says what would work."""

import dataclasses
import traceback

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxner
from jaxner import arguments, fields
from jaxner.fields import checked
from jaxner.models import checks
from jaxner.tagger import ensemble

NAN = float("nan")
WORDS = ["Rome", "fell"]
KEY = "must be|PRNG key"
OF_TAGGER = "Expected a tagger, got "
PARTS = {
    "representation": {"words": {"dim": 4}, "chars": None},
    "encoder": {"name": "grn", "hidden_dim": 4},
    "head": {"name": "crf"},
}


def vocabulary():
    return jaxner.build_vocabulary([WORDS], ["LOC"])[0]


def model(**changed):
    return jaxner.build(vocabulary(), **{**PARTS, **changed})


pytestmark = pytest.mark.usefixtures("unchecked")  # what a user's process does


def fails(call, message):
    """Checks that a call ends with one line of ours."""
    with pytest.raises((TypeError, ValueError, OSError)) as error:
        call()
    assert len(str(error.value).splitlines()) == 1, error.value
    assert message in str(error.value)
    last = traceback.extract_tb(error.value.__traceback__)[-1]
    assert "/jaxner/" in last.filename, last  # raised on purpose, not from inside
    assert last.line.startswith(("raise", 'f"', '"')), last


@pytest.mark.parametrize(
    "name",
    [
        *("tag", "encode", "entities", "marginals", "n_best", "sample", "uncertainty"),
        *("relations", "attention", "entity_types"),
    ],
)
def test_a_tagger_and_tokens_are_needed(name, params):
    call = getattr(jaxner, name)
    more = (jax.random.key(0),) if name in ("sample", "uncertainty") else ()
    takes_tokens = name != "entity_types"
    for wrong, said in [
        ("runs/grn", "str 'runs/grn': call jaxner.load('runs/grn')"),
        (None, "None: jaxner.load(folder) returns one"),
        (params.weights, "dict: jaxner.load(folder)"),
        (jaxner.Tagger(params.weights, params.model, None), "without vocabulary"),
        (jaxner.Tagger({}, params.model, params.vocabulary), "'frozen', as"),
    ]:
        given = (wrong, WORDS, *more) if takes_tokens else (wrong,)
        fails(lambda given=given: call(*given), said)
    if not takes_tokens:
        return
    for wrong in (None, 3, NAN, {"a": 1}, [None], [[3]], ["a", ["b"]], b"x"):
        fails(lambda wrong=wrong: call(params, wrong, *more), "a list of strings")


MANY_KEYS = [jax.random.split(new(0)) for new in (jax.random.key, jax.random.PRNGKey)]
OPTIONS = [
    *(("tag", "decoding", v, "known: viterbi, ") for v in (None, 3, [], "n_best")),
    ("tag", "decoding", "n_best", "sampled; n best labellings: jaxner.n_best"),
    *(("tag", "key", v, "got an array of keys [2]") for v in MANY_KEYS),
    *(("tag", "vectors", v, "Expected vectors as an array") for v in (5, "x", {})),
    *(("tag", "constrained", v, "must be true or false, got") for v in ("x", None, 3)),
    *(("tag", "key", v, "such as jax.random.key(0), got") for v in ("x", 0, NAN)),
    *(("tag", "documents", v, "[0, 0, 1], got") for v in ("x", 3, NAN)),
    ("entities", "min_probability", "x", "must be a number, got 'x'"),
    ("entities", "min_probability", None, "must be a number, got None"),
    ("entities", "min_probability", [], "must be a number, got []"),
    ("entities", "min_probability", NAN, "must be finite and in [0, 1], got nan"),
    ("entities", "min_probability", -1, "must be in [0, 1], got -1"),
    ("entities", "n_best", 1.5, "must be a whole number, got 1.5"),
    ("entities", "n_best", 10**9, "must be in [1, 10000], got 1000000000"),
    ("entities", "n_best", None, "must be a whole number, got None"),
    ("entities", "raw", "x", "must be true or false, got 'x'"),
    ("entities", "split_sentences", "x", "must be true or false, got 'x'"),
    ("entities", "decoding", None, "Unknown decoding None; known: viterbi, "),
    *(("marginals", "num_samples", v, "num_samples must be") for v in ("x", -1, 1.5)),
    ("marginals", "constrained", "x", "must be true or false, got 'x'"),
    *(("n_best", "n", v, "n must be") for v in (None, "x", 0, -1, 1.5, NAN)),
    ("n_best", "num_samples", 1.5, "must be a whole number, got 1.5"),
]


@pytest.mark.parametrize(("name", "option", "value", "said"), OPTIONS)
def test_options_have_types_and_ranges(name, option, value, said, params):
    given = [WORDS] if option == "vectors" else WORDS
    fails(lambda: getattr(jaxner, name)(params, given, **{option: value}), said)


def test_tokens_without_order_are_refused(params):
    fails(lambda: jaxner.tag(params, set(WORDS)), "set, which has no order: give")


def test_a_temperature_is_positive(params):
    for wrong in (0.0, -1, NAN, "x"):
        fails(
            lambda t=wrong: jaxner.Tagger(
                params.weights, params.model, params.vocabulary, t
            ),
            "temperature must be",
        )
    traced = jax.jit(lambda t: dataclasses.replace(params, temperature=t).temperature)
    assert traced(2.0) == 2.0


@pytest.mark.parametrize("name", ["sample", "uncertainty"])
def test_passes_need_a_key_and_a_number(name, params):
    call, key = getattr(jaxner, name), jax.random.key(0)
    for number in (None, "x", 0, -1, 1.5, NAN):
        fails(lambda n=number: call(params, WORDS, key, n), "num_samples must be")
    for wrong in (None, "x", 0, NAN):
        fails(lambda k=wrong: call(params, WORDS, k), "such as jax.random.key(0), got")


def test_a_folder_is_a_path_to_a_folder(tmp_path, params):
    file = tmp_path / "file.txt"
    file.write_text("x")
    for call in (jaxner.load, lambda folder: jaxner.save(folder, params)):
        for wrong in (None, 3, NAN, [], b"x", params):
            fails(lambda c=call, w=wrong: c(w), "such as 'runs/grn', got ")
        fails(lambda c=call: c(""), "got ''; '.' is the current folder")
        fails(lambda c=call: c("\0"), "the current folder")
        fails(lambda c=call: c(str(file)), f"got the file {file}")
    for wrong in (None, "", 3, params.weights):
        fails(lambda w=wrong: jaxner.save(tmp_path / "new", w), OF_TAGGER)
    assert not (tmp_path / "new").exists()


def test_what_load_takes_besides_is_checked(finished):
    for wrong in (3, "x", NAN, {3: 1}):
        fails(lambda w=wrong: jaxner.load(finished, w), "changes as a dictionary")
    for wrong in (3, "x", {}):
        fails(lambda w=wrong: jaxner.load(finished, model=w), "Expected a model")


VOCABULARY = [
    *(
        ("sentences", v, "Expected")
        for v in (None, "", 3, "Rome", WORDS, [[3]], [None])
    ),
    *(("types", v, "types as a list of strings") for v in (None, 3, [3], "LOC", NAN)),
    ("scheme", None, "scheme must be text, got None"),
    ("vectors", {}, "vectors must be what vectors.read returns"),
    ("lowercase", "x", "lowercase must be true or false, got 'x'"),
    *(("min_count", v, "min_count must be") for v in (None, "x", -1, NAN, 1.5)),
    ("alphabet", 3, "alphabet must be text, got 3"),
    ("documents", "x", "documents must be true or false, got 'x'"),
]


@pytest.mark.parametrize(("option", "value", "said"), VOCABULARY)
def test_a_vocabulary_is_built_of_sentences_and_types(option, value, said):
    given = {"sentences": [WORDS], "types": ["LOC"], option: value}
    fails(lambda: jaxner.build_vocabulary(**given), said)


def test_a_text_may_be_long():
    assert len(jaxner.build_vocabulary([WORDS] * 200, ["LOC"])[0].words) == 4


def test_types_may_be_any_iterable_of_strings():
    types = (name for name in ("LOC", "PER"))
    assert len(jaxner.build_vocabulary([WORDS], types)[0].label_names) == 9


def test_a_model_is_built_of_parts():
    for wrong in (None, 3, {}, (vocabulary(), None)):
        fails(lambda w=wrong: jaxner.build(w, **PARTS), "Expected a vocabulary")
    for part in PARTS:
        for wrong in (None, 3, "grn", NAN):
            fails(lambda p=part, w=wrong: model(**{p: w}), f"{part} as a dictionary of")
        others = {name: x for name, x in PARTS.items() if name != part}
        fails(
            lambda o=others: jaxner.build(vocabulary(), **o), f"Missing part '{part}'"
        )
    fails(lambda: model(encoder="grn"), "bilstm")
    fails(lambda: model(foo=3), "Unknown part 'foo'; known: representation")
    for part in ("mc_dropout", "refinement"):
        fails(lambda p=part: model(**{p: 3}), f"{part} as a dictionary of options")
    fails(lambda: model(representation={"words": 3}), "representation.words as a dict")


def test_a_model_takes_weights_sentences_and_keys(params):
    one, batch = (jaxner.encode(params, x) for x in (WORDS, [WORDS]))
    weights, own, gold = params.weights, params.model, jnp.zeros((1, 2), int)
    for wrong in (None, 3, "x"):
        fails(lambda w=wrong: jaxner.init(w, jax.random.key(0)), "Expected a model")
        fails(lambda w=wrong: jaxner.apply(w, weights, one), "Expected a model")
        fails(lambda w=wrong: jaxner.loss(w, weights, batch, gold), "Expected a model")
    for wrong in (None, 3, {}, weights["params"]):
        said = "a dictionary with 'params' and 'frozen'"
        fails(lambda w=wrong: jaxner.apply(own, w, one), said)
        fails(lambda w=wrong: jaxner.loss(own, w, batch, gold), said)
    for wrong in (None, 3, WORDS):
        fails(lambda w=wrong: jaxner.apply(own, weights, w), "Expected an encoded sent")
        fails(lambda w=wrong: jaxner.loss(own, weights, w, gold), "an encoded batch")
    fails(lambda: jaxner.loss(own, weights, one, gold), "got [2]: call jaxner")
    for wrong in (None, 3, ["O", "O"], jnp.zeros((1, 3), int), jnp.zeros((1, 2))):
        fails(lambda w=wrong: jaxner.loss(own, weights, batch, w), "integers [1, 2] as")
    for wrong in (0, "x", NAN):
        fails(lambda w=wrong: jaxner.init(own, w), "Expected a PRNG key")
        fails(lambda w=wrong: jaxner.apply(own, weights, one, w), "Expected a PRNG key")
        fails(lambda w=wrong: jaxner.loss(own, weights, batch, gold, w), "a PRNG key")
    fails(lambda: jaxner.loss(own, weights, batch, gold, None, 3), "jaxner.Objective")
    fails(lambda: jaxner.Objective.of(None), "objective as a dictionary")
    fails(lambda: jaxner.Objective(dropout_penalty="x"), "must be a number, got 'x'")


def test_keys_of_the_old_form_are_keys():
    checks.check_key(jax.random.PRNGKey(0))
    jax.vmap(checks.check_key)(jax.random.split(jax.random.key(0)))


BATCHES = [
    *(("sentences", v, "Expected sentences as a list") for v in (3, "x")),
    *(("sentences", [v], "Vocabulary.encode returns as") for v in (3, WORDS)),
    *(("labels", v, "Expected labels as a list, got") for v in (None, 3)),
    ("labels", [], "labels for each of the 1 sentence, got 0"),
    ("labels", [["O", "O"]], "the ids of 2 labels for sentence 0, got <U1 [2]"),
    ("labels", [np.zeros(3, int)], "the ids of 2 labels for sentence 0, got int64 [3]"),
    *(("batch_size", v, "batch_size must be") for v in (None, 0, "x", 1.5, NAN)),
    *(("num_blocks", v, "num_blocks must be") for v in (0, "x", None)),
    *(("num_shapes", v, "num_shapes must be") for v in ("x", None, 1.5)),
    ("unit", "x", "Unknown unit 'x'; known: sentence, document"),
    ("chars", 3, "Unknown chars 3; known: distinct, token, none"),
    ("parts", 0, "parts must be at least 1, got 0"),
]


@pytest.mark.parametrize(("option", "value", "said"), BATCHES)
def test_batches_are_made_of_sentences_and_their_labels(option, value, said):
    given = {"sentences": [vocabulary().encode(WORDS)], "labels": [np.zeros(2, int)]}
    given |= {"batch_size": 2, option: value}
    fails(lambda: jaxner.Batches.make(**given), said)


def test_a_vocabulary_takes_words_labels_and_ids():
    own = vocabulary()
    for wrong in (None, 3, "x", [3], [None]):
        fails(lambda w=wrong: own.encode(w), "a list of strings")
        fails(lambda w=wrong: own.label_ids(w), "labels as a list of strings")
    for wrong in (None, 3, "x", [None], [99], [-1], [1.5]):
        fails(lambda w=wrong: own.decode(w), "Expected ids of labels, from 0 to 4, got")
    fails(lambda: own.decode(np.eye(2, dtype=int)), "of 2 axes: decode each row")
    assert own.decode(np.array([1, 0])) == ["B-LOC", "O"]


def test_an_ensemble_is_of_taggers(params):
    both = ensemble([params, params])
    for wrong in (2, -1, "x", None):
        fails(lambda w=wrong: both.member(w), "Expected a member from 0 to 1, got")
    fails(lambda: ensemble(3), "Expected a list of taggers, got int 3")
    fails(lambda: ensemble([None]), OF_TAGGER)


def test_a_wrong_name_is_told_by_the_function_itself():
    with pytest.raises(TypeError, match=r"build\(\) got an unexpected .* 'typos'"):
        jaxner.build_vocabulary([WORDS], ["LOC"], typos=1)


def test_what_is_no_option_is_not_checked():
    @checked
    def call(array: "jax.Array", size: fields.Size = 1):
        return array, size

    assert call("anything", 2) == ("anything", 2)
    with pytest.raises(ValueError, match="size must be at least 1, got 0"):
        call("anything", 0)
    assert arguments.shown("x" * 99) == "str"
