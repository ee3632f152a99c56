from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from jaxner.evaluation.report import per_type_table, summary_line
from jaxner.evaluation.scoring import Counts, Scores, score

SCORES = Scores(
    overall=Counts(correct=1_503, predicted=1_648, gold=1_655),
    by_type={
        "PER": Counts(correct=1_500, predicted=1_600, gold=1_650),
        "LOC": Counts(correct=3, predicted=48, gold=5),
        "GPE": Counts(correct=0, predicted=0, gold=0),
    },
    tokens=51_000,
    correct_tokens=50_000,
    sentences=3_250,
    ill_formed=3,
    ill_formed_sentences=2,
    rule="conlleval",
    scheme="BIOES",
)


def render(table):
    console = Console(file=StringIO(), width=100)
    console.print(table)
    return console.file.getvalue()


def cells(text, first):
    """The cells of the row whose first cell is `first`."""
    rows = (
        [c.strip() for c in line.strip("│┃ \n").split("│")] for line in text.split("\n")
    )
    return next(row[1:] for row in rows if row[0] == first)


class TestSummaryLine:
    def test_figures_rule_and_ill_formed(self):
        # 1503/1648 = 0.912014, 1503/1655 = 0.908157, 3006/3303 = 0.910082
        assert summary_line(SCORES) == (
            "P 91.20  R 90.82  F1 91.01 "
            "(conlleval rule; 3 ill-formed labels in 2 of 3,250 sentences)"
        )

    @pytest.mark.parametrize(
        ("ill_formed", "sentences", "expected"),
        [
            (0, 3_250, "no ill-formed label in 3,250 sentences"),
            (1, 1, "1 ill-formed label in 1 of 1 sentence"),
            (4_000, 3_250, "4,000 ill-formed labels in 1 of 3,250 sentences"),
        ],
    )
    def test_numbers_of_nouns(self, ill_formed, sentences, expected):
        scores = replace(
            SCORES, ill_formed=ill_formed, ill_formed_sentences=1, sentences=sentences
        )
        assert f"; {expected})" in summary_line(scores)

    def test_nothing_to_score(self):
        assert summary_line(score([], [])).startswith("P –  R –  F1 – (")


class TestPerTypeTable:
    def test_rows(self):
        text = render(per_type_table(SCORES, "CoNLL-2003 test"))
        assert "CoNLL-2003 test" in text
        assert cells(text, "PER") == [
            "93.75",
            "90.91",
            "92.31",
            "1,650",
            "1,600",
            "1,500",
        ]
        assert cells(text, "LOC") == ["6.25", "60.00", "11.32", "5", "48", "3"]
        assert cells(text, "GPE") == ["–", "–", "–", "0", "0", "0"]
        overall = ["91.20", "90.82", "91.01", "1,655", "1,648", "1,503"]
        assert cells(text, "overall") == overall
        # (93.75 + 6.25 + 0) / 3; GPE's undefined figures count as 0, as in seqeval
        assert cells(text, "macro mean")[:3] == ["33.33", "50.30", "34.54"]
        assert cells(text, "weighted mean")[:3] == ["93.49", "90.82", "92.06"]

    def test_types_are_sorted_and_overall_is_last(self):
        text = render(per_type_table(SCORES))
        places = [text.index(f" {name} ") for name in ("GPE", "LOC", "PER", "overall")]
        assert places == sorted(places)

    def test_caption_names_rule_and_ill_formed(self):
        text = render(per_type_table(SCORES))
        assert "conlleval rule; 3 ill-formed labels in 2 of 3,250 sentences" in text

    def test_names_in_brackets_are_no_markup(self):
        scores = replace(SCORES, by_type={"[red]": Counts(1, 1, 1)})
        text = render(per_type_table(scores, "[bold] set"))
        assert "[bold] set" in text
        assert cells(text, "[red]")[:3] == ["100.00", "100.00", "100.00"]


def test_means_say_how_they_count_undefined_figures():
    table = per_type_table(score([["B-A", "B-B"]], [["B-A", "O"]]))
    assert "undefined figure (–) counts as 0" in str(table.caption)
    table = per_type_table(score([["B-A"]], [["B-A"]]))
    assert "undefined" not in str(table.caption)
