"""Accuracy against a count by hand, and its text."""

import json
from io import StringIO

import numpy as np
import pytest
from rich.console import Console

from jaxner.evaluation import report, tags
from jaxner.evaluation.scoring import Scores, score
from jaxner.evaluation.tags import TagScores
from jaxner.evaluation.tasks import Task

TOKENS = [["the", "old", "man"], ["The", "boat"]]
GOLD = [["DET", "ADJ", "NOUN"], ["DET", "VERB"]]
PREDICTED = [["DET", "NOUN", "NOUN"], ["DET", "NOUN"]]
VOCABULARY = {"the", "man", "boat"}


def render(table):
    console = Console(file=StringIO(), width=100)
    console.print(table)
    return console.file.getvalue()


def test_counts_of_a_known_case():
    scores = tags.score(GOLD, PREDICTED, tokens=TOKENS, known_words=VOCABULARY)
    assert (scores.tokens, scores.correct_tokens, scores.sentences) == (5, 3, 2)
    assert scores.accuracy == pytest.approx(3 / 5)
    assert {tag: tuple(counts) for tag, counts in scores.by_type.items()} == {
        "ADJ": (0, 0, 1),
        "DET": (2, 2, 2),
        "NOUN": (1, 3, 1),
        "VERB": (0, 0, 1),
    }
    assert list(scores.by_type) == sorted(scores.by_type)
    # "old" and "The", as it is spelled, are not in the vocabulary.
    assert (scores.oov_tokens, scores.correct_oov_tokens) == (2, 1)
    assert scores.oov_accuracy == pytest.approx(1 / 2)
    assert scores.known_accuracy == pytest.approx(2 / 3)


def test_random_corpora_are_counted_as_numpy_does():
    rng = np.random.default_rng(0)
    names = np.array(["A", "B", "''", "-LRB-", "O", "B-PER"])
    lengths = rng.integers(0, 6, size=40)
    gold, guess = (
        [names[rng.integers(0, 6, n)].tolist() for n in lengths] for _ in "ab"
    )
    words = [[f"w{i}" for i in rng.integers(0, 20, n)] for n in lengths]
    known = {f"w{i}" for i in range(12)}
    scores = tags.score(gold, guess, tokens=words, known_words=known)
    a, b, w = (
        np.array([x for row in side for x in row]) for side in (gold, guess, words)
    )
    new = ~np.isin(w, sorted(known))
    assert scores.accuracy == pytest.approx((a == b).mean())
    assert scores.oov_accuracy == pytest.approx((a == b)[new].mean())
    assert scores.known_accuracy == pytest.approx((a == b)[~new].mean())
    for name in names:
        counts = scores.by_type[name]
        right = ((a == name) & (b == name)).sum()
        assert counts == (right, (b == name).sum(), (a == name).sum())


def test_figures_that_are_not_defined_are_left_out():
    assert tags.score(GOLD, PREDICTED).figures() == {"accuracy": pytest.approx(60.0)}
    all_known = tags.score(
        GOLD, PREDICTED, tokens=TOKENS, known_words={w for s in TOKENS for w in s}
    )
    assert set(all_known.figures()) == {"accuracy", "known_accuracy"}
    none_known = tags.score(GOLD, PREDICTED, tokens=TOKENS, known_words=set())
    assert set(none_known.figures()) == {"accuracy", "oov_accuracy"}
    assert tags.score([], []).accuracy is None


def test_sides_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="got 2 gold and 1 predicted"):
        tags.score(GOLD, PREDICTED[:1])
    with pytest.raises(
        ValueError, match=r"Sentence 1 \(.*gold has 2 tags, predicted 1"
    ):
        tags.score(GOLD, [PREDICTED[0], ["DET"]])
    with pytest.raises(ValueError, match="got 2 gold and 1 words"):
        tags.score(GOLD, PREDICTED, tokens=TOKENS[:1], known_words=VOCABULARY)


def test_everything_is_in_the_dict():
    scores = tags.score(GOLD, PREDICTED, tokens=TOKENS, known_words=VOCABULARY)
    found = json.loads(json.dumps(scores.to_dict()))
    assert found["accuracy"] == pytest.approx(60.0)
    assert found["oov_accuracy"] == pytest.approx(50.0)
    assert (found["tokens"], found["correct_tokens"], found["oov_tokens"]) == (5, 3, 2)
    assert found["by_type"]["NOUN"]["precision"] == pytest.approx(100 / 3)
    assert found["scheme"] == "tags"
    assert "f1" not in found


def test_the_line_and_the_table_begin_with_the_accuracy():
    scores = tags.score(GOLD, PREDICTED, tokens=TOKENS, known_words=VOCABULARY)
    line = "accuracy 60.00 (known words 66.67, out of vocabulary 50.00)"
    assert report.summary_line(scores) == line
    assert report.summary_line(tags.score(GOLD, PREDICTED)) == "accuracy 60.00"
    text = render(report.per_type_table(scores, "[bold] dev"))
    lines = [line.strip() for line in text.splitlines()]
    assert lines[:4] == [
        "[bold] dev",
        "accuracy, all tokens: 60.00 of 5",
        "accuracy, known words: 66.67 of 3",
        "accuracy, out of vocabulary: 50.00 of 2",
    ]
    noun = next(line for line in lines if "NOUN" in line)
    assert noun.strip("│ ").replace(" ", "").split("│") == [
        *("NOUN", "33.33", "100.00", "50.00", "1", "3", "1")
    ]
    plain = render(report.per_type_table(tags.score(GOLD, PREDICTED)))
    assert "known words" not in plain
    all_new = tags.score(GOLD, PREDICTED, tokens=TOKENS, known_words=set())
    assert "known words: – of 0" in render(report.per_type_table(all_new))


def test_the_scheme_decides_what_is_scored():
    entities, found = [["B-PER", "O"]], [["B-PER", "B-LOC"]]
    words = [["a", "b"]]
    task = Task("BIO")
    assert isinstance(task.score(words, entities, found), Scores)
    for rule in ("conlleval", "strict"):
        expected = score(entities, found, rule=rule, scheme="BIO")
        assert task.score(words, entities, found, rule) == expected
    assert task.score(words, entities, found, "seqeval").rule == "conlleval"
    assert task.main_figure in task.score(words, entities, found).figures()
    task = Task("tags", frozenset(["a"]))
    scores = task.score(words, entities, found, "seqeval")
    assert isinstance(scores, TagScores)
    assert (scores.accuracy, scores.oov_accuracy) == (0.5, 0.0)
    assert task.main_figure in scores.figures()
    with pytest.raises(ValueError, match="Rule 'strict' reads spans"):
        task.score(words, entities, found, "strict")


def test_a_task_has_a_rule_of_its_own():
    words, entities, ill_formed = [["a", "b"]], [["B-PER", "O"]], [["I-PER", "O"]]
    strict = Task("BIO", rule="strict")
    assert strict.score(words, entities, ill_formed).f1 == 0
    assert strict.score(words, entities, ill_formed, "conlleval").f1 == 1
    assert Task("BIO").score(words, entities, ill_formed).f1 == 1
    assert Task("BIO").score(words, entities, ill_formed, "strict").f1 == 0
    with pytest.raises(
        ValueError, match="Unknown rule 'x'; known: conlleval, strict, idcnn"
    ):
        Task("BIO", rule="x")
    # Tags have no spans, so that the rule does not concern them.
    tagged = Task("tags", rule="strict").score(words, entities, ill_formed)
    assert tagged == Task("tags").score(words, entities, ill_formed)
