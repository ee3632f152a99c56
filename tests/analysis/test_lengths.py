"""F1 by length against a count by hand and against a split of the corpus."""

import numpy as np
import pytest

from jaxner.analysis import lengths
from jaxner.evaluation import rules

LABELS = ["O", "B-A", "I-A", "E-A", "S-A", "B-B", "E-B", "S-B"]


def draw(seed=0, count=300):
    rng = np.random.default_rng(seed)
    gold = [
        [LABELS[i] for i in rng.integers(len(LABELS), size=rng.integers(1, 40))]
        for _ in range(count)
    ]
    noisy = [
        [x if rng.random() < 0.8 else LABELS[rng.integers(len(LABELS))] for x in row]
        for row in gold
    ]
    return gold, noisy


@pytest.mark.parametrize("rule", ["conlleval", "strict"])
def test_parts_by_sentence_are_scores_of_the_sentences_of_those_lengths(rule):
    gold, predicted = draw()
    found = lengths.by_sentence(gold, predicted, rule=rule)
    for part in found:
        rows = [
            i
            for i, row in enumerate(gold)
            if part.first <= len(row) <= (part.last or 99)
        ]
        alone = rules.per_sentence(
            [gold[i] for i in rows], [predicted[i] for i in rows], rule, "BIOES"
        )
        assert part.items == len(rows)
        assert part.counts == rules.total(alone)
    assert sum(part.items for part in found) == len(gold)


@pytest.mark.parametrize("rule", lengths.MENTION_RULES)
def test_parts_by_mention_add_up_to_the_whole(rule):
    gold, predicted = draw(1)
    whole = rules.total(rules.per_sentence(gold, predicted, rule, "BIOES"))
    found = lengths.by_mention(gold, predicted, rule=rule)
    assert tuple(map(sum, zip(*(p.counts for p in found), strict=True))) == whole
    longer = lengths.multi_token(found)
    assert longer.items == sum(part.items for part in found[1:])


def test_what_cannot_be_counted_is_refused():
    with pytest.raises(ValueError, match="ascending bounds from 1"):
        lengths.by_sentence([["O"]], [["O"]], [3, 2])
    with pytest.raises(ValueError, match="tags"):
        lengths.by_mention([["NN"]], [["NN"]], scheme="tags")
    with pytest.raises(ValueError, match="choose one of conlleval, strict"):
        lengths.by_mention([["O"]], [["O"]], rule="ncrfpp")
    with pytest.raises(ValueError, match="gold has 2 labels, predicted 1"):
        lengths.by_mention([["O", "O"]], [["O"]])
