"""Learning on: rows follow their names, and old types are kept."""

import dataclasses
import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp

import jaxner
from jaxner import models
from jaxner.data import corpora, formats
from jaxner.data.pieces import word_pieces
from jaxner.errors import InputError
from jaxner.models.model import named
from jaxner.runs import Workdir
from jaxner.tagger import Tagger
from jaxner.training import objectives, train, transfer
from jaxner.training.objectives import Objective
from tests import tiny
from tests.inference import enumeration
from tests.marks import slow
from tests.models import draws

CHARS = {"name": "cnn", "dim": 3, "num_filters": 3}
PARTS = {
    "representation": {"words": {"dim": 4}, "chars": CHARS},
    "encoder": {"name": "bilstm", "hidden_dim": 3},
    "head": {"name": "crf"},
}


def tagger(text, types, seed=0, documents=False, **parts):
    """A tagger of random weights, and what builds its model."""
    options = {"scheme": "BIO", "documents": documents}
    vocabulary, _ = jaxner.build_vocabulary(text, types, **options)
    build = functools.partial(jaxner.build, **PARTS | parts)
    model = build(vocabulary)
    return Tagger(draws.weights_of(model, seed=seed), model, vocabulary), build


LAN = {"name": "lan", "num_layers": 1}
SIZES = {"num_layers": 1, "num_heads": 2, "head_dim": 4, "label_dim": 5}
PAIRS = {
    "crf": {"head": {"name": "crf", "constrained": True}},
    "seq2seq": {"head": {"name": "seq2seq"}},
    "lan": {"head": {"name": "scores"}, "encoder": LAN},
    "lan-seq2seq": {"head": {"name": "seq2seq"}, "encoder": LAN},
    "uanet": {"head": {"name": "softmax"}, "refinement": SIZES},
}


@pytest.mark.parametrize("system", [*[*PAIRS][:3], *slow(*[*PAIRS][3:])])
def test_rows_follow_words_characters_and_labels(system):
    """A word that was trained may be frozen now, and the other way round."""
    log, parts, text = [], PAIRS[system], [["Rome", "rose", "é"]]
    old, _ = tagger([["Rome", "fell", "so"]], ["LOC", "PER"], **parts)
    start, build = tagger(text, ["LOC", "ORG", "PER"], 1, **parts)
    vocabulary, _ = transfer.extend(start.vocabulary, None, old.vocabulary, log.append)
    assert vocabulary.words[-2:] == ("fell", "so")
    assert vocabulary.num_trained == 5
    assert set(vocabulary.chars) == {*old.vocabulary.chars, *start.vocabulary.chars}
    assert "2 words, 2 characters, types ORG" in log[0]
    model = build(vocabulary)
    weights = draws.weights_of(model, seed=2)
    new = transfer.start(old, weights, vocabulary, build, log.append)
    assert log[1].endswith("freshly drawn: the rows of what is new")
    # The old tagger's answers to old words, but for the labels that are new.
    tokens, names = ["so", "Rome", "fell"], old.vocabulary.label_names
    copy = Tagger(new, model, vocabulary)
    if system == "crf":
        columns = np.array([vocabulary.label_names.index(name) for name in names])
        taggers = ((t, t.vocabulary.encode(tokens)) for t in (old, copy))
        apply = jax.jit(models.apply, static_argnums=0)
        scores = [apply(t.model, t.weights, x) for t, x in taggers]
        indices = [(slice(None), columns), np.ix_(columns, columns), columns, columns]
        for left, right, index in zip(*scores, indices, strict=True):
            draws.close(right[index], left)
    left, right, fresh = map(named, (old.weights, new, weights))
    for name, leaf in right.items():
        assert leaf.shape == fresh[name].shape
        # Every old number is somewhere; what is not old was drawn.
        numbers = [x.ravel() for n, x in left.items() if same(n, name)]
        is_old = np.isin(leaf, np.concatenate(numbers))
        assert np.array_equal(leaf[~is_old], fresh[name][~is_old]), name
        assert is_old.any(), name
        if name == "params/head/tags":  # the last row is what is before a sentence
            assert is_old[-1].all()
        if name == "params/head/lstm/input":  # and its features, after the labels'
            assert np.array_equal(leaf[:, :, -50:], left[name][:, :, -50:])
        if "words" not in name and left[name].shape == leaf.shape:
            assert is_old.all(), name


def same(left, right):
    """Whether words may have moved between two tables."""
    return left == right or ("/words/" in left and "/words/" in right)


def pieces_of(letter):
    pytest.importorskip("tokenizers")
    return word_pieces(["[UNK]", "[CLS]", "[SEP]", letter])


def test_what_does_not_fit_is_told_or_refused():
    old, _ = tagger([["Rome"]], ["LOC"])
    wide = {"name": "bilstm", "hidden_dim": 5}
    new, build = tagger([["Rome"]], ["LOC"], 1, encoder=wide)
    log = []
    weights = transfer.start(old, new.weights, new.vocabulary, build, log.append)
    assert "params/encoder" in log[0]
    assert "words" not in log[0]
    words = "params/representation/words/trained"
    assert np.array_equal(named(weights)[words], named(old.weights)[words])
    wrong = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], old)
    with pytest.raises(InputError, match="No weights of the run"):
        transfer.start(wrong, new.weights, new.vocabulary, build, print)
    for changes, message in (
        ({"scheme": "BIOES"}, "data.scheme is 'BIO', .* has 'BIOES'"),
        ({"encoder_sizes": (("size", 8),)}, "another pretrained encoder"),
        ({"pieces": pieces_of("a")}, "another pretrained encoder"),
    ):
        pieces = dataclasses.replace(new.vocabulary, pieces=pieces_of("b"))
        changes = {"pieces": pieces.pieces, **changes}
        rival = dataclasses.replace(old.vocabulary, **changes)
        with pytest.raises(InputError, match=message):
            transfer.extend(pieces, None, rival, print)


def test_words_follow_their_spelling_by_other_rules_of_look_up():
    log, parts = [], PAIRS["crf"]
    old, _ = tagger([["Rome", "rome", "1984"]], ["LOC"], **parts)
    text = [["Rome", "1984", "fell"]]
    options = {"scheme": "BIO", "lowercase": True, "zero_digits": True}
    vocabulary, _ = jaxner.build_vocabulary(text, ["LOC"], **options)
    vocabulary, _ = transfer.extend(vocabulary, None, old.vocabulary, log.append)
    rules = "data.lowercase is True, .* has False", "data.zero_digits is True"
    assert all(any(re.search(rule, line) for line in log) for rule in rules)
    build = functools.partial(jaxner.build, **PARTS | parts)
    weights = draws.weights_of(build(vocabulary), seed=2)
    new = transfer.start(old, weights, vocabulary, build, log.append)
    copy = Tagger(new, build(vocabulary), vocabulary)

    def row_of(tagger, word):
        tables = named(tagger.weights)
        path = "/representation/words/"
        rows = [tables[f"params{path}trained"], tables.get(f"frozen{path}vectors")]
        rows = np.concatenate([x for x in rows if x is not None])
        return rows[tagger.vocabulary.word_id(word)]

    assert np.array_equal(row_of(copy, "ROME"), row_of(old, "rome"))
    assert not np.array_equal(row_of(copy, "1984"), row_of(old, "1984"))


def test_a_tagger_of_sentences_begins_one_of_documents():
    """The separator's row is drawn."""
    old, _ = tagger([["Rome"]], ["LOC"])
    new, build = tagger([["Rome"]], ["LOC"], 1, documents=True)
    weights = transfer.start(old, new.weights, new.vocabulary, build, print)
    trees = weights, old.weights, new.weights
    bias, old_bias, new_bias = (named(t)["params/head/emissions/bias"] for t in trees)
    assert np.array_equal(bias, [*old_bias, new_bias[-1]])


@pytest.mark.parametrize("kind", ["chain", "independent"])
def test_o_may_be_any_hidden_label(kind):
    potentials = enumeration.build(kind, "BIO", 3, dtype=np.float32)
    labels, hidden, mask = np.array([0, 2, 0]), (1, 3), jnp.ones(3, bool)
    labellings, scores = enumeration.enumerate_scores(potentials, 3)
    agrees = (labellings == labels) | (labels == 0) & np.isin(labellings, hidden)
    expected = logsumexp(scores) - logsumexp(scores[agrees.all(axis=1)])
    labels = jnp.asarray(labels)
    loss_of = jax.jit(objectives.negative_log_likelihood, static_argnums=3)
    loss = loss_of(potentials, labels, mask, hidden)
    assert potentials.emissions.shape[1] > 3
    np.testing.assert_allclose(loss, expected, rtol=1e-5)


def only(folder, source, kinds):
    """A corpus in which only some types are labelled."""
    folder.mkdir()
    for split in ("train", "dev"):
        rows = []
        for example in corpora.load(None, split, directory=source).examples:
            labels = [x if x[2:] in kinds else "O" for x in example.labels]
            rows.append(zip(example.tokens, labels, strict=True))
        formats.write_columns(folder / f"{split}.conll", rows)
    return folder


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*if some mean the same, rename them")
def test_old_types_stay_while_new_ones_are_learnt(tmp_path):
    """From data in which only the new ones are labelled; then it resumes."""
    corpus = tiny.write_corpus(tmp_path / "all")
    split = corpora.load(None, "train", directory=corpus)
    examples = [(e.tokens, e.labels) for e in split.examples]

    def f1_of(folder):
        counts = jaxner.evaluate(jaxner.load(folder), examples).by_type
        return {name: counts[name].f1 or 0 for name in ("PER", "LOC", "ORG")}

    def config_of(name, kinds):
        config = tiny.plain_config(only(tmp_path / name, corpus, kinds), 10)
        config.optimizer.learning_rate = 0.03
        config.model.head.constrained = True
        return config

    train.main_run(config_of("first", {"PER", "LOC"}), tmp_path / "old")
    files = {p: p.stat().st_mtime_ns for p in (tmp_path / "old").rglob("*")}
    second = config_of("second", {"ORG"})
    second.init_from = str(tmp_path / "old")
    ends = {}
    for name, weight in {"kept": 1.0, "lost": 0.0}.items():
        second.objective.update({"retain": weight, "partial": weight > 0})
        train.main_run(second, tmp_path / name)
        ends[name] = f1_of(tmp_path / name)
    # The run's own scores leave out what its data do not label.
    result = Workdir(tmp_path / "kept").read_json("result.json")
    assert [*result["dev"]["by_type"]] == ["ORG"]
    start = f1_of(tmp_path / "old")
    assert start["ORG"] == 0
    for kind in ("PER", "LOC"):
        assert ends["lost"][kind] < 0.5 * start[kind]
        assert ends["kept"][kind] > 0.8 * start[kind] > 0.5
    assert ends["kept"]["ORG"] > 0.5
    assert {p: p.stat().st_mtime_ns for p in (tmp_path / "old").rglob("*")} == files
    second.num_epochs = 11
    train.main_run(second, tmp_path / "lost")


def test_old_and_new_labels_are_those_of_both_vocabularies():
    vocabulary, _ = jaxner.build_vocabulary([["Rome"]], ["LOC", "PER"], scheme="BIO")
    old, _ = jaxner.build_vocabulary([["Rome"]], ["LOC"], scheme="BIO")
    terms = Objective(retain=1.0, partial=True)
    objective = transfer.with_types(terms, vocabulary, old, np.array([0, 3]))
    names = vocabulary.label_names
    assert {names[i] for i in objective.hidden_labels} == {"B-LOC", "I-LOC"}
    assert {names[i] for i in objective.new_labels} == {"B-PER", "I-PER"}
    documents = dataclasses.replace(vocabulary, label_names=(*names, "<sep>"))
    plain = transfer.with_types(Objective(), documents, old, np.array([0]))
    assert plain == Objective()
