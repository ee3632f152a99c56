"""Bad files, and the message that each must get with its line."""

import gzip
import json

import pytest

from jaxner.data import audit

GOOD = "Rome B-LOC\nwins O\n\nAjax B-ORG\nwins O\nagain O\n\n"


def u(number, form="a", rest="\t_\tX" + "\t_" * 6):
    return f"{number}\t{form}{rest}\n"


def c12(number, entity="*", word="a"):
    return f"d 0 {number} {word} - * - - - - {entity} -\n"


def line(**record):
    return json.dumps(record) + "\n"


LONG = "word O\n" * 4782

# Name, content, options, line, level, and what is said.
BAD = [
    # Columns
    ("empty.conll", "", {}, None, "error", "expected lines of tokens, got none"),
    (
        "blank.conll",
        "\n \n\t\n",
        {},
        None,
        "error",
        "expected lines of tokens, got none",
    ),
    ("starts.conll", "-DOCSTART- O\n\n", {}, None, "error", "expected lines of tokens"),
    ("short.conll", "a b O\nc O\n", {}, 2, "error", "expected 3 columns, got 2: 'c O'"),
    (
        "long.conll",
        "a O\nb c O\n",
        {},
        2,
        "error",
        "expected 2 columns, got 3: 'b c O'",
    ),
    (
        "one.conll",
        "a\nb\n",
        {},
        1,
        "error",
        "expected a token and a label, got one column: 'a'",
    ),
    ("tab.conll", "a\tO\nb O\n", {}, 2, "error", "expected 2 columns, got 1: 'b O'"),
    ("end_tab.conll", "a\tO\nb\tO\t\n", {}, 2, "error", "expected 2 columns, got 3"),
    (
        "no_token.conll",
        "a\tO\n\tO\n",
        {},
        2,
        "error",
        "the token or the label is blank",
    ),
    (
        "no_label.conll",
        "a\tO\nb\t \n",
        {},
        2,
        "error",
        "the token or the label is blank",
    ),
    ("mac.conll", "a O\rb O\r", {}, 1, "error", "carriage return within the line"),
    ("latin.conll", "a O\né O\n".encode("latin-1"), {}, 2, "error", "is not utf-8"),
    (
        "utf16.conll",
        GOOD.encode("utf-16"),
        {},
        1,
        "error",
        "byte 0xff (number 0 from 0)",
    ),
    ("comment.conll", "# id 3\na O\n", {}, 2, "error", "expected 3 columns, got 2"),
    ("column.conll", GOOD, {"label_column": 5}, 1, "error", "tokens and labels in col"),
    (
        "cut.conll.gz",
        gzip.compress(GOOD.encode())[:-9],
        {},
        None,
        "error",
        "damaged gz",
    ),
    # Labels
    (
        "pos.conll",
        "a NN\n",
        {},
        1,
        "error",
        "Label 'NN' is neither 'O' nor PREFIX-TYPE",
    ),
    ("lower.conll", "a b-per\n", {}, 1, "error", "Label 'b-per' is neither 'O'"),
    ("ids.conll", "a 3\nb 0\n", {}, 1, "error", "Label '3' is neither 'O' nor"),
    ("no_type.conll", "a B-\n", {}, 1, "error", "Label 'B-' is neither 'O'"),
    ("prefix.conll", "a X-PER\n", {}, 1, "error", "Label 'X-PER' is neither 'O'"),
    ("under.conll", "a B_PER\n", {}, 1, "error", "Label 'B_PER' is neither 'O'"),
    (
        "nbsp.conll",
        "a B-ORG\xa0\n",
        {},
        1,
        "error",
        "invisible character (U+00A0)",
    ),
    ("zero.conll", "a B-O\u200bRG\n", {}, 1, "error", "invisible character (U+200B)"),
    ("padded.conll", "a\tB-ORG \n", {}, 1, "error", "invisible character (U+0020)"),
    ("nul.conll", "a B-OR\0G\n", {}, 1, "error", "invisible character (U+0000)"),
    (
        "broken.conll",
        "a B-X\nb O\nc I-X\nd B-X\n",
        {},
        3,
        "warning",
        "1 label breaks BIO, in line ",
    ),
    (
        "all_o.conll",
        "a O\nb O\n",
        {},
        None,
        "warning",
        "there is no entity: all labels",
    ),
    (
        "case.conll",
        GOOD * 20 + "Oslo B-Loc\n",
        {},
        141,
        "warning",
        "the type 'Loc' (1) looks like 'LOC' (20)",
    ),
    (
        "typo.conll",
        ("a B-PERSON\n\n") * 40 + "b B-PERSONN\n",
        {},
        81,
        "warning",
        "the type 'PERSONN' (1) looks like 'PERSON' (40)",
    ),
    (
        "cut_end.conll",
        GOOD + "Rome B-LO",
        {},
        8,
        "warning",
        "the file ends without a line end, in the label 'B-LO' of no other token",
    ),
    # Tokens and sentences
    ("nbsp_token.conll", "a B-X\n\xa0 O\n", {}, 2, "warning", "1 token without"),
    ("nul_token.conll", "a B-X\nb\0 O\n", {}, 2, "warning", "with a control ch"),
    ("zero_token.conll", "a B-X\nb\u200b O\n", {}, 2, "warning", "an invisible"),
    (
        "letters.conll",
        "a B-X\n" + "x" * 44_000 + " O\n",
        {},
        2,
        "warning",
        "100 char",
    ),
    ("mojibake.conll", "a B-X\nMÃ¼ller O\n", {}, 2, "warning", "the wrong encod"),
    ("lost.conll", "a B-X\nM\ufffdller O\n", {}, 2, "warning", "the wrong encod"),
    (
        "numbers.conll",
        "1 Rome B-LOC\n2 is O\n3 old O\n\n1 Yes O\n2 it O\n3 is O\n",
        {},
        1,
        "warning",
        "the tokens are running numbers, not words",
    ),
    (
        "lines.conll",
        "".join(f"{i} w B-X\n" + "\n" * (i % 9 == 0) for i in range(100, 160)),
        {},
        1,
        "warning",
        "the tokens are running numbers",
    ),
    (
        "one_sentence.conll",
        LONG,
        {},
        1,
        "warning",
        "the only sentence has 4,782 tokens",
    ),
    (
        "two.conll",
        GOOD * 9 + LONG,
        {},
        64,
        "warning",
        "a sentence has 4,782 tokens, the",
    ),
    (
        "contradiction.conll",
        "Mr B-X\nA I-X\nwent O\nhome O\n\nMr O\nA B-X\nwent O\nhome O\n",
        {},
        1,
        "warning",
        "the same sentence has different labels in lines 1, 6: 'Mr A went home'",
    ),
    # CoNLL-U
    ("few.conllu", "1 a X\n", {}, 1, "error", "expected 10 columns, with tabs, got 1"),
    ("gap.conllu", u(1) + u(3), {}, 2, "error", "expected word 2 of its sentence"),
    ("range.conllu", u("2-1") + u(1), {}, 1, "error", "expected a range from word 1"),
    ("past.conllu", u("1-3") + u(1), {}, 2, "error", "expected words up to 3"),
    ("empty.conllu", u(1) + u("3.1"), {}, 2, "error", "expected an empty node 1.1"),
    ("within.conllu", u(1) + "# x\n" + u(2), {}, 2, "error", "comment within a sen"),
    ("spans.conllu", u(1), {}, 1, "error", "Label 'X' is neither 'O' nor"),
    # CoNLL-2012
    ("few_conll", "a b\n", {}, 1, "error", "expected at least 12 columns, got 2"),
    ("order_conll", c12(0) + c12(2), {}, 2, "error", "expected word 1 of its sentence"),
    ("open_conll", c12(0, "(X*"), {}, 1, "error", "ends within the entity 'X'"),
    ("close_conll", c12(0, "*)"), {}, 1, "error", "got another outside of brackets"),
    (
        "nested_conll",
        c12(0, "(X*") + c12(1, "(Y)"),
        {},
        2,
        "error",
        "another within 'X'",
    ),
    (
        "end_conll",
        "#end document\n" + c12(0),
        {},
        1,
        "error",
        "or ends that never began",
    ),
    # JSON lines
    ("cut.jsonl", '{"tokens": ["a"], "la', {}, 1, "error", "this is not JSON"),
    ("list.jsonl", '["a"]\n', {}, 1, "error", "expected a JSON object, got a list"),
    ("array.jsonl", '[\n{"tokens": []}\n]', {}, None, "error", "over 3 lines"),
    ("fields.jsonl", line(words=["a"]), {}, 1, "error", "expected a list of labels"),
    ("count.jsonl", line(tokens=["a"], tags=[]), {}, 1, "error", "expected 1 label"),
    ("ids.jsonl", line(tokens=["a"], tags=[0]), {}, 1, "error", "the names of labels"),
    ("text.jsonl", line(text="a b"), {}, 1, "error", "expected a list of spans"),
    (
        "off.jsonl",
        line(text="Romans", spans=[[0, 4, "X"]]),
        {},
        1,
        "error",
        "the X 0:4 does not match the tokens of 'Romans': 'Roma'",
    ),
    (
        "past.jsonl",
        line(text="Rome", spans=[[0, 5, "X"]]),
        {},
        1,
        "error",
        "expected a span within the 4 characters of its text, got 0:5",
    ),
    (
        "overlap.jsonl",
        line(text="a b", spans=[[0, 3, "X"], [2, 3, "Y"]]),
        {},
        1,
        "error",
        "the Y 2:3 overlaps 'a b': 'b'",
    ),
    (
        "widened.jsonl",
        line(text="Romans", spans=[[0, 4, "X"]]),
        {"unfit": "widen"},
        None,
        "note",
        "1 span",
    ),
    # Tables
    ("names.tsv", "a\tb\nx\tO\n", {"format": "tsv"}, 1, "error", "expected a header"),
    ("few.tsv", "token\tlabel\nx\n", {}, 2, "error", "expected 2 columns, got 1"),
    (
        "blank.tsv",
        "token\tlabel\n \tO\n",
        {},
        2,
        "error",
        "the token or the label is b",
    ),
]


def test_there_are_enough():
    assert len(BAD) >= 50
    assert len({name for name, *_ in BAD}) == len(BAD)


@pytest.mark.parametrize(
    ("name", "content", "options", "line", "level", "message"),
    BAD,
    ids=[name for name, *_ in BAD],
)
def test_bad_files(tmp_path, unchecked, name, content, options, line, level, message):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    split, findings = audit.of_file(path, **options)
    assert (split is None) == (level == "error")
    found = [(f.level, f.line) for f in findings if message in f.message]
    assert found[:1] == [(level, line)], [str(finding) for finding in findings]
    assert all(finding.file == str(path) for finding in findings)
    assert all(finding.remedy for finding in findings if finding.level == "error")


def test_pairs_of_brat(tmp_path):
    (tmp_path / "a.txt").write_text("Romans left\n")
    (tmp_path / "a.ann").write_text("T1\tX 0 4\tRoma\nT2 X 0 4\nT3\tX 0 4\tParis\n")
    (tmp_path / "b.txt").write_text("alone\n")
    split, findings = audit.of_file(tmp_path)
    assert split is None
    assert [(f.file, f.line) for f in findings] == [
        (str(tmp_path / "a.ann"), 2),
        (str(tmp_path / "a.ann"), 3),
        (str(tmp_path / "a.ann"), 1),
        (str(tmp_path / "b.ann"), None),
    ]


def test_a_good_file_has_nothing_but_notes(tmp_path):
    path = tmp_path / "a.conll"
    path.write_text(GOOD)
    split, findings = audit.of_file(path)
    assert split.sizes() == (2, 5, 2)
    assert findings == []


MIXED = {
    "a.conll": "a B-X\nb X-Y\n\nc O O\nd Z-Y\ne O\n\nf I-\n",
    "a.tsv": "token\tlabel\na\tX-Y\nb\nc\tO\nd\tZ-Y\n\ne\tI-\n",
    "a.conllu": u(1) + "2 x\n" + u(2) + "\n" + u(1),
}


@pytest.mark.parametrize(
    ("name", "found"),
    [
        (
            "a.conll",
            [(2, "Label 'X-Y'"), (4, "expected 2"), (5, "Label"), (8, "Label")],
        ),
        ("a.tsv", [(2, "Label"), (3, "expected 2"), (5, "Label"), (7, "Label 'I-'")]),
        ("a.conllu", [(1, "Label"), (2, "expected 10"), (3, "Label"), (5, "Label")]),
    ],
)
def test_columns_and_labels_are_told_together_by_line(tmp_path, name, found):
    path = tmp_path / name
    path.write_text(MIXED[name])
    split, findings = audit.of_file(path)
    assert split is None
    assert [f.line for f in findings] == [line for line, _ in found]
    for finding, (_, start) in zip(findings, found, strict=True):
        assert finding.message.startswith(start)
        assert ("column" in finding.remedy) or ("tab" in finding.remedy)
        is_label = finding.message.startswith("Label")
        assert ("Are they tags without spans" in finding.remedy) == is_label


def test_each_problem_has_its_own_remedy(tmp_path):
    path = tmp_path / "a.jsonl"
    labels, spans = {"tokens": ["a", "b"], "labels": ["O"]}, [[0, 4, "X"]]
    wrong = (
        line(**labels) + line(text="Romans", spans=spans) + line(text="a", tags=["O"])
    )
    path.write_text(wrong)
    _, findings = audit.of_file(path)
    assert [(f.line, f.remedy) for f in findings] == [
        (1, "Each token has one label; no entity is 'O'."),
        (2, findings[1].remedy),
        (3, "Add tokens, with one label for each of them."),
    ]
    assert findings[1].remedy.startswith("Fix the annotation")
    assert findings[2].message.startswith("expected the tokens of these labels")


def test_notes_are_known_by_their_field_and_not_by_their_words(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text(line(text="a break", spans=[[0, 4, "X"]]))
    split, findings = audit.of_file(path, unfit="widen")
    assert [f.message for f in findings if f.check == "reading"] == list(split.notes)
    assert len(split.notes) == 2
    path = tmp_path / "a.conll"
    path.write_text("a B-X\nb O\nc I-X\nd B-X\n")
    split, findings = audit.of_file(path)
    assert split.notes == (split.ill_formed_note,)
    assert [f.check for f in findings] == ["scheme"]
