"""Taggers of documents: labels, training, and initial weights."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxner
import train
from jaxner import models, tagging
from jaxner.analysis import selection
from jaxner.answers.entities import arrays
from jaxner.data import batching, formats, schemes
from jaxner.data import vocabulary as vocab
from jaxner.errors import InputError
from jaxner.runs import Workdir
from tests import tiny
from tests.marks import slow
from tests.models import draws

WORDS = ("cue", "x", "y")
SOFTMAX = {"name": "softmax", "dropout": 0.0}
CRF = {"name": "crf", "dropout": 0.0}
CHAIN = {"name": "crf", "dropout": 0.0, "boundaries": False}


def tagger(head, seed):
    """A small ID-CNN; random weights make all labels likely."""
    vocabulary, _ = vocab.build([WORDS], ["A"], scheme="BIO", documents=True)
    model = jaxner.build(
        vocabulary,
        representation={"words": {"dim": 6}, "chars": None, "dropout": 0.0},
        encoder={"name": "idcnn", "hidden_dim": 6, "dilations": (1,)},
        head=head,
    )
    return tagging.Tagger(draws.weights_of(model, seed=seed), model, vocabulary)


def some_sentences(count, seed=0):
    rng = np.random.default_rng(seed)
    return [list(rng.choice(WORDS, rng.integers(1, 4))) for _ in range(count)]


@pytest.mark.parametrize("constrained", [False, True])
@pytest.mark.parametrize("head", [SOFTMAX, CRF, *slow(CHAIN)])
def test_labels_are_the_best_of_all(head, constrained):
    """Compares with all labellings of a document whose separators have their label."""
    sentences = [["cue", "y"], ["x"], ["y", "x"]]
    outputs, lengths = [], [2, 1, 2]
    apply = jax.jit(models.apply, static_argnums=0)
    for seed in range(4):
        params = tagger(head, seed=seed)
        names = params.vocabulary.label_names
        document = batching.join([params.vocabulary.encode(s) for s in sentences])
        arrays = jax.tree.map(jnp.asarray, document)
        scores = apply(params.model, params.weights, arrays)
        emissions, transitions, start, end = jax.tree.map(np.asarray, scores)
        sep, best, most = len(names) - 1, (), -np.inf
        for a, b, c, d, e in itertools.product(range(sep), repeat=5):
            ids = np.array([sep, a, b, sep, c, sep, d, e, sep])
            score = emissions[np.arange(len(ids)), ids].sum()
            if transitions is not None:
                score += transitions[ids[:-1], ids[1:]].sum()
                score += start[ids[0]] + end[ids[-1]]
            rows = [[names[i] for i in row] for row in batching.split(ids, lengths)]
            is_fit = not any(schemes.violations(row, "BIO") for row in rows)
            if score > most and (is_fit or not constrained):
                best, most = rows, score
        options = {"documents": [0, 0, 0], "constrained": constrained}
        labels = jaxner.tag(params, sentences, **options)
        assert labels == best
        outputs += labels
    assert len({label for row in outputs for label in row}) > 1


@pytest.fixture(scope="module")
def wild():
    return tagger(CRF, seed=3)


def test_answers_are_in_the_order_of_the_sentences(wild):
    sentences = [*some_sentences(13, seed=2), []]
    numbers = [5, 0, 5, "b", 0, 5, "b", "b", 1, 5, 1, 0, (2, 3), 1]
    labels = jaxner.tag(wild, sentences, documents=numbers)
    for members in batching.groups(numbers):
        group = [sentences[i] for i in members]
        expected = jaxner.tag(wild, group, documents=[0] * len(group))
        assert [labels[i] for i in members] == expected
    assert labels != jaxner.tag(wild, sentences)  # context matters here
    assert labels == jaxner.tag(wild, sentences, documents=tuple(numbers))
    assert jaxner.tag(wild, [], documents=[]) == jaxner.tag(wild, []) == []
    assert jaxner.tag(wild, [[]]) == [[]]


def test_sentences_to_annotate_are_read_in_their_documents(wild):
    """Both sentences of line 2, and the first again alone."""
    rows, lines = [["cue", "y"], ["x"], ["cue", "y"]], [2, 2, 3]
    pairs = zip(rows, lines, strict=True)
    pieces = [formats.Example((*row,), lines=[n] * len(row)) for row, n in pairs]
    answers = arrays(wild, rows, documents=lines)
    chances = [-np.log(answer.label_probability).mean() for answer in answers]
    assert chances[0] != pytest.approx(chances[2], rel=1e-3)
    choices = selection.select(wild, pieces, 3)
    expected = sorted([chances[1], max(chances[0], chances[2])], reverse=True)
    result = [choice.uncertainty for choice in choices]
    np.testing.assert_allclose(result, expected, rtol=1e-5)
    (choice,) = selection.select(wild, [formats.Example(("cue", "y"))] * 2, 3)
    np.testing.assert_allclose(choice.uncertainty, chances[2], rtol=1e-5)


def test_the_wrong_number_of_documents_is_an_error(wild):
    for numbers in ([0], [0, 0, 0], []):
        with pytest.raises(InputError, match="document"):
            jaxner.tag(wild, [["x"], ["y"]], documents=numbers)
    with pytest.raises(TypeError, match="documents"):
        jaxner.tag(wild, jaxner.encode(wild, [["x"], ["y"]]), documents=[0, 0])


def test_a_run_on_documents(answer, tmp_path):
    source = tiny.write_corpus(tmp_path / "corpus", 24, documents=True)
    config = tiny.plain_config(source, 8)
    config.update_from_flattened_dict({"data.unit": "document", "batch_size": 1})
    train.main_run(config, tmp_path / "run")
    folder, params = Workdir(tmp_path / "run"), jaxner.load(tmp_path / "run")
    assert folder.read_json("config.json")["data"]["unit"] == "document"
    assert params.vocabulary.reads_documents
    data, predicted = source / "test.conll", tmp_path / "predicted.conll"
    scores = answer("evaluate", folder.path, "--split", data, "--output", predicted)
    assert scores["f1"] == folder.read_json("result.json")["test"]["f1"]
    gold, examples = (formats.read(path).examples for path in (data, predicted))
    tokens, documents = [e.tokens for e in gold], [e.document for e in gold]
    assert [e.tokens for e in examples] == tokens
    assert [e.document for e in examples] == documents
    labels = jaxner.tag(params, tokens, documents=documents)
    assert [list(e.labels) for e in examples] == labels
    assert any(label != "O" for row in labels for label in row)


def test_batches_of_ones_own_are_documents():
    vocabulary, _ = jaxner.build_vocabulary([WORDS], ["A"], documents=True)
    text, labels = [["cue", "x"], ["cue"], ["x"]], [["S-A", "O"], ["O"], ["S-A"]]
    for documents, lengths in (([7, 7, "b"], [3, 6]), (None, [3, 3, 4])):
        options = {"batch_size": 9, "documents": documents}
        batches = jaxner.Batches.of(vocabulary, text, labels, **options)
        ((batch, ids),) = batches.epoch(seed=0, epoch=0)
        assert sorted(n for n in batch.mask.sum(axis=1) if n) == lengths
        separator = len(vocabulary.label_names) - 1
        np.testing.assert_array_equal(ids == separator, batch.mask & (batch.words == 0))
