"""The embedded corpus: reproducible, well formed, and worth training on."""

import re
import subprocess
import sys
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import pytest

from jaxner.data import sample
from tools.sample_corpus import compose, patterns

Sentence = list[list[str]]
Span = tuple[int, int, str]
TYPES = {"PER", "LOC", "ORG", "MISC"}


def read(split: str) -> list[list[Sentence]]:
    """Reads a split as documents of sentences of rows."""
    documents: list[list[Sentence]] = []
    for block in sample.path(split).read_text(encoding="utf-8").split("\n\n"):
        if block == "-DOCSTART- -X- O O":
            documents.append([])
        elif block:
            documents[-1].append([line.split(" ") for line in block.split("\n")])
    return documents


CORPUS = {split: read(split) for split in sample.SPLITS}


def sentences(split: str) -> list[Sentence]:
    return [sentence for document in CORPUS[split] for sentence in document]


def spans(sentence: Sentence) -> list[Span]:
    found: list[Span] = []
    for i, row in enumerate(sentence):
        if row[3].startswith("B-"):
            found.append((i, i + 1, row[3][2:]))
        elif row[3].startswith("I-"):
            found[-1] = (found[-1][0], i + 1, found[-1][2])
    return found


def entities(split: str) -> list[tuple[str, str]]:
    return [
        (" ".join(row[0] for row in sentence[start:end]), label)
        for sentence in sentences(split)
        for start, end, label in spans(sentence)
    ]


def test_compose_reproduces_the_files_byte_for_byte(tmp_path: Path):
    # A process: with all annotations checked, the thousands of calls take long.
    program = [sys.executable, "-m", compose.__name__, "--out", str(tmp_path)]
    subprocess.run(program, cwd=Path(__file__).parents[2], check=True)
    for split in sample.SPLITS:
        written = (tmp_path / f"{split}.conll").read_bytes()
        assert written == sample.path(split).read_bytes()
        assert b"\r" not in written
        assert written.endswith(b"\n\n")


def test_compose_keeps_its_annotations():
    text = sample.path("dev").read_text(encoding="utf-8")
    assert compose.compose("dev") == text


def test_path_refuses_an_unknown_split():
    with pytest.raises(ValueError, match="Unknown split 'valid'"):
        sample.path("valid")


@pytest.mark.parametrize(
    ("split", "least"), [("train", 1200), ("dev", 300), ("test", 300)]
)
def test_sizes(split: str, least: int):
    assert len(sentences(split)) >= least
    lengths = [len(sentence) for sentence in sentences(split)]
    assert min(lengths) >= 2
    assert 30 <= max(lengths) <= 50
    assert 12 <= sum(lengths) / len(lengths) <= 17
    assert all(3 <= len(document) <= 10 for document in CORPUS[split])


@pytest.mark.parametrize("split", sample.SPLITS)
def test_rows_have_four_columns_and_well_formed_labels(split: str):
    for sentence in sentences(split):
        for column in (2, 3):
            before = "O"
            for row in sentence:
                assert len(row) == 4
                assert all(row)
                assert not re.search(r"[][{}<>|]", row[0]), "a pattern left unfilled"
                label = row[column]
                if label.startswith("I-"):
                    assert before[1:] == label[1:]
                else:
                    assert label == "O" or label.startswith("B-")
                before = label
        assert {label for _, _, label in spans(sentence)} <= TYPES


@pytest.mark.parametrize("split", sample.SPLITS)
def test_every_type_is_common(split: str):
    labels = [label for _, label in entities(split)]
    assert all(labels.count(label) >= 0.07 * len(labels) for label in TYPES)


def test_most_test_entities_are_unseen_in_training():
    known = {name for name, _ in entities("train")}
    mentions = [name for name, _ in entities("test")]
    assert sum(name not in known for name in mentions) >= 0.5 * len(mentions)
    distinct = set(mentions)
    assert len(distinct - known) >= 0.5 * len(distinct)
    assert distinct & known, "some overlap is meant"


def test_the_same_name_stands_for_different_types():
    labels: dict[str, set[str]] = defaultdict(set)
    for name, label in entities("train"):
        labels[name].add(label)
    assert sum(len(seen) > 1 for seen in labels.values()) >= 50
    pairs = [("PER", "LOC"), ("LOC", "ORG"), ("PER", "ORG")]
    assert all(any({*pair} <= seen for seen in labels.values()) for pair in pairs)
    # Training's types do not settle those of the test split either.
    assert any(
        labels[name] and label not in labels[name] for name, label in entities("test")
    )


def test_words_of_names_are_also_ordinary_words():
    names = {word for name, _ in entities("train") for word in name.split()}
    others = {row[0] for rows in sentences("train") for row in rows if row[3] == "O"}
    assert {
        "Reading",
        "Will",
        "April",
        "May",
        "Hope",
        "Bishop",
        "Judge",
    } <= names & others


@pytest.mark.parametrize("split", sample.SPLITS)
@pytest.mark.parametrize("test", [str.islower, str.isupper])
def test_headlines_in_one_case_hold_entities(split: str, test):
    headlines = [
        rows
        for rows in sentences(split)
        if len(rows) > 3 and test("".join(row[0] for row in rows)) and spans(rows)
    ]
    assert len(headlines) >= 5


@pytest.mark.parametrize("split", sample.SPLITS)
def test_long_and_adjacent_entities(split: str):
    lengths = [len(name.split()) for name, _ in entities(split)]
    assert 0.3 <= sum(length > 1 for length in lengths) / len(lengths) <= 0.6
    assert max(lengths) >= 4
    adjacent = sum(
        left[1] == right[0] and left[2] == right[2]
        for rows in sentences(split)
        for left, right in pairwise(spans(rows))
    )
    assert adjacent >= 4


def test_held_out_patterns_are_unknown_to_training():
    tables = [
        {line for kinds in table.values() for lines in kinds.values() for line in lines}
        for table in (patterns.TRAIN, patterns.DEV, patterns.TEST)
    ]
    train, dev, test = tables
    assert len(train) >= 200
    assert len(test) >= 100
    assert not train & test
    assert not train & dev
    assert not dev & test
    assert all(
        set(table) == set(patterns.TRAIN) for table in (patterns.DEV, patterns.TEST)
    )
