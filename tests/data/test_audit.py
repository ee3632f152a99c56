"""Probable mistakes in files, between splits, and at the start of a run."""

import dataclasses

import pytest

from jaxner.data import audit, corpora, formats
from jaxner.data.formats import Example
from tests.growth import LINEAR, growth

GOOD = "Rome B-LOC\nwins O\n\nAjax B-ORG\nwins O\nagain O\n\n"
LONG = "word O\n" * 4782

# Content, level, line of the finding, and what it says.
ODD = [
    ("a B-X\nb O\nc I-X\nd B-X\n", "scheme", 3),
    ("a O\nb O\n", "labels", None),
    (GOOD * 20 + "Oslo B-Loc\n", "similar types", 141),
    ("a B-PERSON\n\n" * 40 + "b B-PERSONN\n", "similar types", 81),
    ("1 a O\n2 b B-X\n\n1 c O\n", "columns", 1),
    ("0 a O\n1 b B-X\n", "columns", 1),
    ("a B-X\n\xa0 O\n", "blank tokens", 2),
    ("a B-X\nb\0 O\n", "control tokens", 2),
    ("a B-X\nb\u200b O\n", "hidden tokens", 2),
    ("a\tB-X\nb \tO\n", "spaced tokens", 2),
    ("a B-X\n" + "x" * 44_000 + " O\n", "long tokens", 2),
    ("a B-X\nMÃ¼ller O\n", "encoding tokens", 2),
    ("a B-X\nM\ufffdller O\n", "encoding tokens", 2),
    (LONG, "long sentences", 1),
    ("a B-X\n" + "b O\n" * 120, "long sentences", 1),
    (GOOD * 9 + LONG, "long sentences", 64),
    ("Mr B-X\nA I-X\nat O\nit O\n\nMr O\nA B-X\nat O\nit O\n", "contradictions", 1),
]


@pytest.mark.parametrize(("content", "check", "line"), ODD)
def test_probable_mistakes(file, content, check, line):
    path = file(content)
    split, findings = audit.of_file(path)
    assert split is not None
    levels = {f.level for f in findings if (f.check, f.line) == (check, line)}
    assert levels == {"warning"}
    assert all(finding.file == str(path) for finding in findings)
    for good in (GOOD * 2, "a B-LOC\n\n" * 60 + "b B-LOCS\n\n" * 3):
        assert audit.of_file(file(good))[1] == []


def test_what_could_not_be_read_is_not_taken_for_absent(file):
    _, findings = audit.of_file(file("Ann PER-B\n\nso O\nit O\n"))
    assert [x.check for x in findings if x.level != "note"] == ["format"]


def test_contradictions_are_counted_where_labels_differ(file):
    same, other = (f"a {label}\nb O\nc O\nd O\n\n" for label in ("B-X", "O"))
    text = same * 6 + other
    text += "".join((same + other).replace("a", word) for word in "efghi")
    found = {x.check: x.message for x in audit.of_file(file(text))[1]}["contradictions"]
    assert found.startswith("6 sentences with different labels in several places: ")
    assert "'a b c d' in line 1, line 31;" in found


def test_splits_that_share_sentences_or_have_new_types():
    splits = {name: corpora.load("sample", name) for name in corpora.SPLITS}
    odd = Example(("x",), ("B-NEW",), 0, (1,))
    examples = [dataclasses.replace(odd, tokens=tuple("abcd"), labels=("O",))] * 18
    examples[:0] = [x for x in splits["train"].examples if len(x.tokens) > 3][:2]
    splits["test"] = dataclasses.replace(splits["train"], examples=examples)
    splits["dev"] = dataclasses.replace(splits["dev"], examples=(odd,))
    warnings = {f.check: f for f in audit.of_splits(splits) if f.level == "warning"}
    assert warnings["overlap"].line == splits["train"].examples[0].lines[0]
    assert "10.0%" in warnings["overlap"].message
    assert warnings["unseen types"].message == "train lacks 1 type of dev: NEW"
    assert audit.of_splits({"dev": splits["dev"]}) == []


def test_a_run_begins_with_the_gravest(file):
    sample = corpora.load("sample", "dev")
    assert audit.at_start(sample) == []
    path = file("")
    formats.write(path, sample.examples)
    text = LONG + path.read_text().replace("the ", "the\0 ", 1)
    checks = [finding.check for finding in audit.at_start(corpora.read(file(text)))]
    assert checks == ["long sentences", "control tokens"]


def test_few_words_with_a_vector_are_a_warning(file):
    split = corpora.load("sample", "dev")
    words = {word.lower() for word in split.words()}
    assert audit.coverage(split, "v.txt", words).level == "note"
    assert "capitals" not in audit.coverage(split, "v.txt", words).message
    finding = audit.coverage(corpora.read(file("Rome O\nwon O\n")), "v.txt", {"Rome"})
    assert "; 50.0% of the tokens with their capitals alone" in finding.message
    assert audit.coverage(split, "v.txt", set()).level == "warning"


def test_the_cost_of_types_is_linear(file):
    def make(count):
        rows = "".join(f"a B-t{i}\n\n" + "b B-u\n\n" * 3 for i in range(count))
        return corpora.read(file(f"{rows}a B-{'t' * 5 * count}\n"))

    assert growth(audit.at_start, make, 400) < LINEAR
