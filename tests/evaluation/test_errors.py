"""Pairs of spans, kinds of errors and groups: by hand, and slowly."""

import pytest
from hypothesis import given

from jaxner.data import schemes
from jaxner.data.formats import Example
from jaxner.data.schemes import Span
from jaxner.evaluation import errors, report, scoring
from jaxner.evaluation.scoring import Counts
from tests.evaluation.test_scoring import SENTENCES, random_corpus
from tests.growth import LINEAR, growth

GOLD = [row.split() for row in ("B-A E-A O S-B B-A I-A E-A", "O S-A O B-B E-B")]
GUESS = [row.split() for row in ("B-A E-A O S-A O B-A E-A", "S-B O O O S-A")]


def test_each_kind_is_found():
    pairs = errors.pairs(GOLD, GUESS)
    assert [(p.sentence, p.name) for p in pairs if p.kind] == [
        (0, "type: B as A"),
        (0, "boundary: A"),
        (1, "spurious: B"),
        (1, "missed: A"),
        (1, "boundary and type: B as A"),
    ]
    assert pairs[0] == (0, Span(0, 2, "A"), Span(0, 2, "A"))
    assert errors.counts(pairs) == dict.fromkeys(errors.KINDS, 1)
    assert errors.largest(pairs)[0] == ("boundary and type: B as A", 1)
    rows = {"A": [2, 0, 1], "B": [2, 0, 0], errors.OUTSIDE: [0, 1, 0]}
    expected = {x: dict(zip(rows, row, strict=True)) for x, row in rows.items()}
    assert errors.confusion(pairs) == expected


def test_confusions_tell_a_type_called_o_from_no_entity():
    pairs = errors.pairs([["S-O", "O", "S-O"]], [["S-O", "S-O", "O"]])
    rows = {"O": {"O": 1, errors.OUTSIDE: 1}, errors.OUTSIDE: {"O": 1}}
    cells = errors.confusion(pairs)
    assert {x: {y: n for y, n in cells[x].items() if n} for x in cells} == rows
    assert errors.confusion(pairs[:1]) == {"O": {"O": 1}}


@pytest.mark.parametrize(
    ("gold", "predicted", "strict", "exact", "overlap", "kind"),
    [
        # The scenarios of the task: all right, spurious, missed, wrong type, wrong
        # boundary, both wrong.
        ("B-A E-A", "B-A E-A", 1, 1, 1, 1),
        ("O O", "B-A E-A", 0, 0, 0, 0),
        ("B-A E-A", "B-B E-B", 0, 1, 1, 0),
        ("B-A I-A E-A", "O B-A E-A", 0, 0, 1, 1),
        ("B-A I-A E-A", "O B-B E-B", 0, 0, 1, 0),
    ],
)
def test_matches(gold, predicted, strict, exact, overlap, kind):
    pairs = errors.pairs([gold.split()], [predicted.split()])
    hits = {"strict": strict, "exact": exact, "partial": (exact + overlap) / 2}
    sides = [len(schemes.to_spans(side.split())) for side in (predicted, gold)]
    matches = errors.matches(pairs, 1)
    assert {name: counts[0].tolist() for name, counts in matches.items()} == {
        name: [hit, *sides] for name, hit in {**hits, "type": kind}.items()
    }


def slowly(gold, predicted):
    """Pairs spans one after the other, by the rule of the module's docstring."""
    free, partners = list(gold), {}
    overlaps = lambda a, b: a.start < b.end and b.start < a.end  # noqa: E731
    for fits in (
        lambda a, b: (a.start, a.end) == (b.start, b.end),
        lambda a, b: overlaps(a, b) and a.type == b.type,
        overlaps,
    ):
        for span in predicted:
            matches = [x for x in free if fits(span, x)]
            if span not in partners and matches:
                partners[span] = matches[0]
                free.remove(matches[0])
    return [partners.get(span) for span in predicted]


@given(SENTENCES)
def test_partners_are_those_of_a_slow_reading(predicted):
    for labels in predicted:
        sides = schemes.to_spans(labels[::-1]), schemes.to_spans(labels)
        assert errors.align(*sides) == slowly(*sides)


@pytest.mark.parametrize("pair", ["S-A S-A", "S-A S-B", "S-A O", "B-A S-B", "S-B B-A"])
def test_the_errors_of_one_long_sentence_take_linear_time(pair):
    """B-A stands for one entity of the whole sentence."""

    def make(length):
        entity = ["B-A", *["I-A"] * (length - 2), "E-A"]
        sides = [entity if x == "B-A" else [x] * length for x in pair.split()]
        return sides, [schemes.to_spans(side) for side in sides]

    def explain(value):
        sides, spans = value
        errors.pairs(*([side] for side in sides))
        for side in spans:
            report._pieces(["w"] * len(sides[0]), side, None, 0, len(sides[0]))

    assert growth(explain, make, 400) < LINEAR


@pytest.mark.parametrize("rule", scoring.WITH_LENGTHS)
def test_groups_add_up_to_what_is_scored(rule):
    gold, predicted = random_corpus("BIOES", sentences=300)
    pairs = errors.pairs(gold, predicted, rule, "BIOES")
    scores = scoring.score(gold, predicted, rule=rule, scheme="BIOES")
    assert pairs == sorted(pairs, key=lambda p: p.sentence)
    lengths = errors.by_length(pairs)
    assert list(lengths) == ["1", "2", "3", "4", "5+"]
    assert sum(lengths.values(), Counts()) == scores.overall
    rows = errors.by_sentence_length(pairs, gold)
    assert sum(rows.values(), Counts()) == scores.overall
    short = [i for i, labels in enumerate(gold) if len(labels) <= 7]
    part = [[side[i] for i in short] for side in (gold, predicted)]
    assert rows["1–7"] == scoring.total(scoring.count(*part, rule, "BIOES"))


def test_groups_by_training():
    tokens = [["New", "York", "and", "Rome", "Old", "New", "Rome"], [*"abcde"]]
    training = [Example(("New", "York"), ("B-A", "E-A")), Example(("Rome",), ("S-B",))]
    prediction = report.Prediction(tokens, GOLD, GUESS, "BIOES", training=training * 2)
    *_, by_frequency = report.describe(prediction, rounds=1)["groups"].values()
    for name, expected in {"2–4": (1, 2, 2), "1": (0, 0, 0), "0": (0, 3, 3)}.items():
        row = by_frequency[name]
        assert (row["correct"], row["predicted"], row["gold"]) == expected


def test_a_run_names_its_weakest_type_and_most_frequent_errors():
    gold = [["S-A", "O", "S-B"], ["S-A", "O", "O"]]
    predicted = [["S-B", "S-A", "S-B"], ["S-A", "S-A", "O"]]

    def line_of(*sides, scheme="BIOES"):
        return report.weakness_line(scoring.score(*sides, scheme=scheme), *sides)

    start = "Weakest type: A, F1 40.00. Most frequent errors:"
    assert line_of(gold, predicted) == f"{start} spurious: A (2), type: A as B (1)"
    assert line_of(gold, gold) == ""
    line = line_of([["N", "V", "N"]], [["N", "N", "V"]], scheme="tags")
    assert line.startswith("Weakest tag: V, F1 0.00. Most frequent errors: N as V (1)")
