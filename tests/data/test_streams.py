"""Records arrive one after another; bad ones have their line."""

import io
import json

import pytest

from jaxner.data import formats, streams
from jaxner.data.streams import Bad, Record, Sink, Source


def records(text, format, **options):
    data = text if isinstance(text, bytes) else text.encode()
    return list(Source(io.BytesIO(data), format, **options))


def written(text, format, to, **options):
    """The output if each token gets its number in its sentence as the label."""
    sink = Sink(format, to)
    its = records(text, format, **options)
    return "".join(
        sink.text(
            r, [["B-X" if i else "O" for i in range(len(p.tokens))] for p in r.pieces]
        )
        for r in its
    )


def test_lines_of_text():
    found = records("Rome wins.\n\n  Ajax  too\r\n", "text")
    assert [(r.line, r.source) for r in found] == [
        (1, "Rome wins."),
        (3, "  Ajax  too"),
    ]
    assert found[1].pieces[0].offsets == ((2, 6), (8, 11))
    (two,) = records("Yes. No.", "text", split_sentences=True)
    assert [(p.start, p.tokens) for p in two.pieces] == [
        (0, ("Yes", ".")),
        (5, ("No", ".")),
    ]


def test_what_becomes_of_text():
    line = json.loads(written("Ada Preston  left", "text", "jsonl"))
    assert line == {
        "text": "Ada Preston  left",
        "spans": [
            {"start": 4, "end": 11, "label": "X"},
            {"start": 13, "end": 17, "label": "X"},
        ],
    }
    cut = [["A", "B"], ["C", "D", "E"]]
    two = written("A B C D E", "text", "jsonl", tokenizer=lambda text: cut)
    assert [(s["start"], s["end"]) for s in json.loads(two)["spans"]] == [
        (2, 3),
        (6, 7),
        (8, 9),
    ]
    assert written("A B", "text", "conll") == "A\tO\nB\tB-X\n\n"


def test_columns_are_kept_and_get_one_more():
    text = "-DOCSTART- -X-\n\na NN\nb VB\n\n\nc\tNN\nd\tVB"
    expected = "-DOCSTART- -X-\n\na NN O\nb VB B-X\n\nc\tNN\tO\nd\tVB\tB-X\n\n"
    assert written(text, "conll", "conll") == expected
    assert [r.line for r in records(text, "conll")] == [1, 3, 7]
    assert [r.document for r in records(text, "conll")] == [1, 1, 1]
    objects = written(text, "conll", "jsonl").splitlines()
    assert json.loads(objects[0]) == {
        "document": 1,
        "tokens": ["a", "b"],
        "labels": ["O", "B-X"],
    }
    text = "# id = 1\n# by x\na NN\n# NN\n\n# end\n"
    expected = "# id = 1\n# by x\na NN O\n# NN B-X\n\n# end\n\n"
    assert written(text, "conll", "conll", comments="# ") == expected
    (line,) = written(text, "conll", "jsonl", comments="# ").splitlines()
    assert json.loads(line) == {"tokens": ["a", "#"], "labels": ["O", "B-X"]}
    assert records("1 a\n2 b\n", "conll", token_column=-1)[0].pieces[0].tokens == (
        "a",
        "b",
    )


def test_objects_keep_their_other_fields():
    text = '{"id": 7, "tokens": ["a", "b"], "labels": ["O", "O"]}\n'
    assert json.loads(written(text, "jsonl", "jsonl")) == {
        "id": 7,
        "tokens": ["a", "b"],
        "labels": ["O", "B-X"],
    }
    assert written(text, "jsonl", "conll") == "a\tO\nb\tB-X\n\n"
    text = '{"text": "  A B", "spans": [[0, 9, "wrong"]], "id": "é"}'
    assert json.loads(written(text, "jsonl", "jsonl")) == {
        "text": "  A B",
        "id": "é",
        "spans": [{"start": 4, "end": 5, "label": "X"}],
    }
    assert '"spans": []' in written('{"text": " "}', "jsonl", "jsonl")


@pytest.mark.parametrize(
    ("record", "kept"),
    [
        ({"tokens": ["a"], "ner_tags": [3]}, {}),
        ({"tokens": ["a"], "entities": [{"no": "span"}], "ner": None}, {}),
        ({"tokens": ["a"], "labels": ["B-Y"], "label": "spam"}, {"label": "spam"}),
        ({"tokens": ["a"], "tags": ["old", "new"]}, {"tags": ["old", "new"]}),
        ({"tokens": ["a"], "spans": 7, "label": [[0, 1, "Y"]]}, {"spans": 7}),
    ],
)
def test_labels_are_not_read_but_replaced(record, kept):
    found = json.loads(written(json.dumps(record), "jsonl", "jsonl"))
    assert found == {"tokens": ["a"], "labels": ["O"], **kept}
    del record["tokens"]
    text = json.dumps({"text": "a", **record})
    assert json.loads(written(text, "jsonl", "jsonl"))["text"] == "a"


def test_documents_of_objects_as_columns():
    rows = [("x", "a"), ("x", "b"), (None, "c"), ("y", "d")]
    fields = [{"tokens": [t]} | ({"doc_id": d} if d else {}) for d, t in rows]
    text = "\n".join(map(json.dumps, fields))
    mark = "-DOCSTART-\n\n"
    expected = f"{mark}a\tO\n\nb\tO\n\nc\tO\n\n{mark}d\tO\n\n"
    assert written(text, "jsonl", "conll") == expected


def test_line_ends_of_several_bytes_are_refused():
    with pytest.raises(ValueError, match="utf-16 cannot be read line by line"):
        records("a\n".encode("utf-16"), "text", encoding="utf-16")


@pytest.mark.parametrize(
    ("text", "format", "line", "problem"),
    [
        (b"a\n\xe9\nb\n", "text", 2, "byte 0xe9 is not utf-8"),
        ("a\n" + "b" * 99 + "\nc\n", "text", 2, "a line of more than 64 bytes"),
        ("a x\n\nb\nc\n\nd x\n", "conll", 3, "expected a token in column 1, got"),
        ("a x\n\n\t\tx\n\nd x\n", "conll", 3, "a blank token or a carriage return in"),
        ('{"tokens": ["a"]}\n{\n{"tokens": ["b"]}', "jsonl", 2, "this is not JSON"),
        (
            '{"text": "a"}\n{"x": 1}\n{"text": "b"}',
            "jsonl",
            2,
            "expected tokens and labels, or",
        ),
    ],
)
def test_bad_records_have_their_line_and_the_others_come(text, format, line, problem):
    columns = {"token_column": 1} if format == "conll" else {}
    first, bad, last = records(text, format, max_line=64, **columns)
    assert isinstance(first, Record)
    assert isinstance(last, Record)
    assert isinstance(bad, Bad)
    assert (bad.index, bad.line) == (1, line)
    assert bad.problem.startswith(problem)


def test_sentences_without_end_are_not_held(monkeypatch):
    monkeypatch.setattr(streams, "MAX_TOKENS", 3)
    bad, good = records("a\n" * 9 + "\nb\n", "conll")
    assert isinstance(bad, Bad)
    assert "is a blank line missing?" in bad.problem
    assert good.pieces[0].tokens == ("b",)


def test_formats_are_told_by_names():
    names = ["-", "a.txt", "a.jsonl.gz", "a.conll", "eng.testb"]
    assert [formats.guess_raw(name) for name in names] == [
        "text",
        "text",
        "jsonl",
        "conll",
        "conll",
    ]
    with pytest.raises(ValueError, match="Unknown format 'tsv'; known: text, conll"):
        records("a", "tsv")


def test_tokens_with_an_empty_text():
    (record,) = records('{"tokens": ["Rome"], "text": null}', "jsonl")
    found = json.loads(streams.Sink("jsonl", "jsonl").text(record, [["B-LOC"]]))
    assert found == {"text": None, "tokens": ["Rome"], "labels": ["B-LOC"]}
