"""Each format is read as documented, and what is written reads back."""

import gzip
import json
import re

import pytest

from jaxner.data import readers
from jaxner.data.readers import brat, conll2012, files, jsonl, spans, tsv
from jaxner.data.readers.examples import ConllError, Example

CONLL2012 = """\
#begin document (bc/cctv/00/cctv_0000); part 000
bc/cctv   0   0      In     IN  (TOP(S(PP*   -  -  -  S#1        *           *   -
bc/cctv   0   1        the     DT      (NP(NP*  -  -  -  S#1   (DATE*           *   -
bc/cctv  0  2  summer  NN  *)  summer  -  1  S#1  *)  *  -
bc/cctv   0   3      ,/.        ,         *)    -  -  -  S#1        *           *   -

bc/cctv   0   0    Xinhua   NNP   (TOP*   Xinhua  -  -  S#1  (ORG)  (ARG0*)  *  (12)
#end document
#begin document (bc/cctv/00/cctv_0000); part 001
bc/cctv   1   0      Taihang   NNP   (TOP(NP*   -   -   -   -   (LOC*   -
bc/cctv   1   1      Mountain   NNP   *))   -   -   -   -   *)   -

#end document
"""
TSV = """\
Sentence #\tWord\tPOS\tTag
Sentence: 1\tNew York\tNNP\tB-geo
\twins\tVBZ\tO
Sentence: 2\tYes\tUH\tO
"""
ANN = """\
T1\tPerson-Name 0 10\tAda Preston
R1\tworks Arg1:T1 Arg2:T2
T2\tORG 17 22\tMilan
#1\tAnnotatorNotes T2\tthe club
"""


@pytest.fixture
def file(tmp_path):
    def write(content, name):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def found(path, **options):
    its = readers.read(path, **options).examples
    return [(e.document, e.line, e.tokens, e.labels) for e in its]


def test_conll_2012(file):
    path = file(gzip.compress(CONLL2012.encode()), "cctv_0000.v4_gold_conll.gz")
    assert found(path) == [
        (1, 2, ("In", "the", "summer", ",/."), ("O", "B-DATE", "I-DATE", "O")),
        (1, 7, ("Xinhua",), ("B-ORG",)),
        (2, 10, ("Taihang", "Mountain"), ("B-LOC", "I-LOC")),
    ]
    assert found(path, tags=True)[0][3] == ("IN", "DT", "NN", ",")


def test_a_folder_of_conll_2012_files(file):
    folder = file(CONLL2012, "train/b_gold_conll").parent
    path = file(CONLL2012, "train/a_gold_conll")
    its = readers.read(folder).examples
    assert [e.document for e in its] == [1, 1, 2, 3, 3, 4]
    assert its[0].path == str(path)


def line2012(number, word="a", entity="*"):
    return f"d 0 {number} {word} - * - - - - {entity} -\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("d 0 0 a\n", ":1: expected at least 12 columns, got 4: 'd 0 0 a'"),
        (line2012(1), ":1: expected word 0 of its sentence, got '1'"),
        (line2012(0) + line2012(0), ":2: expected word 1 of its sentence, got '0'"),
        (line2012(0, entity="*)"), ":1: expected (TYPE*, *, *) or (TYPE), got another"),
        (line2012(0, entity="(A*(B)"), ":1: expected (TYPE*"),
        (
            line2012(0, entity="(A*") + line2012(1, entity="(B)"),
            ":2: expected (TYPE*, *, *) or (TYPE), got another within 'A': '(B)'",
        ),
        (line2012(0, entity="(A*"), ":1: the sentence ends within the entity 'A'"),
        ("#begin document (a)\n" * 2, ":2: a document begins within another"),
        ("#end document\n", ":1: a document begins within another, or ends"),
        (line2012(0, "a\rb"), ":1: carriage return within the line"),
        (
            "#begin document (a)\n#end document\n",
            ": expected lines of tokens, got none",
        ),
    ],
)
def test_what_is_wrong_with_conll_2012_has_its_line(file, text, message):
    path = file(text, "a_gold_conll")
    with pytest.raises(ConllError, match=re.escape(f"{path}{message}")):
        readers.read(path)


def test_tables_with_a_header(file):
    path = file(TSV, "train.tsv")
    assert found(path) == [
        (0, 2, ("New York", "wins"), ("B-geo", "O")),
        (0, 4, ("Yes",), ("O",)),
    ]
    assert readers.guess(path) == "tsv"
    assert found(path, label_column=2)[0][3] == ("NNP", "VBZ")
    plain = file("Milan\tB-ORG\n", "dev.tsv")
    assert readers.guess(plain) == "conll"
    documents = file("doc_id\tform\tner\na\tx\tO\n\na\ty\tO\nb\tz\tO\n", "a.tsv")
    assert [e.document for e in readers.read(documents).examples] == [1, 1, 2]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\tb\nx\tO\n", ":1: expected a header with a token (token, tokens, word"),
        ("token\tlabel\nx\n", ":2: expected 2 columns, got 1: 'x'"),
        ("token\tlabel\nx\t \n", ":2: the token or the label is blank"),
        ("token\tlabel\nx\ty\rz\n", ":2: carriage return within the line"),
        ("token\tlabel\n\n", ": expected lines of tokens, got none"),
    ],
)
def test_what_is_wrong_with_tables_has_its_line(file, text, message):
    path = file(text, "a.tsv")
    with pytest.raises(ConllError, match=re.escape(f"{path}{message}")):
        readers.read(path, format="tsv")


def test_json_lines(file):
    lines = [
        {"tokens": ["New York", "wins"], "ner_tags": ["B-City-Name", "O"]},
        {"text": "Ada Preston left", "label": [[0, 11, "PER"]], "doc_id": "a"},
        {"text": "In  Rome", "entities": [{"start": 4, "end": 8, "type": "LOC"}]},
        {"text": "don't", "tokens": ["do", "n't"], "spans": [], "doc_id": "b"},
        {
            "text": "Ajax!",
            "tokens": [
                {"text": "Ajax", "start": 0, "end": 4},
                {"text": "!", "start": 4, "end": 5},
            ],
            "spans": [{"start_offset": 0, "end_offset": 4, "label": "ORG"}],
        },
    ]
    text = "\n".join(json.dumps(line) for line in lines)
    its = readers.read(file(text, "train.jsonl")).examples
    assert [e.labels for e in its] == [
        ("B-City-Name", "O"),
        ("B-PER", "I-PER", "O"),
        ("O", "B-LOC"),
        ("O", "O"),
        ("B-ORG", "O"),
    ]
    assert [e.document for e in its] == [0, 1, 1, 2, 2]
    assert its[2].offsets == ((0, 2), (4, 8))
    assert its[4].tokens == ("Ajax", "!")
    assert its[1].line_of(2) == 2


def test_sentences_of_a_text_are_cut_by_choice(file):
    record = {"text": "Rome wins. Ajax, too.", "spans": [[0, 4, "A"], [11, 15, "B"]]}
    path = file(json.dumps(record), "a.jsonl")

    def cut(text):
        return [(0, 10), (11, 21)]

    options = {"tokenise": spans.at_blanks, "unfit": "widen"}
    its = readers.read(path, sentences=cut, **options).examples
    assert [(e.text, e.labels) for e in its] == [
        ("Rome wins.", ("B-A", "O")),
        ("Ajax, too.", ("B-B", "O")),
    ]
    its = readers.read(path, sentences=spans.sentences).examples
    assert [e.tokens for e in its] == [
        ("Rome", "wins", "."),
        ("Ajax", ",", "too", "."),
    ]


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ("{", "this is not JSON"),
        ("[" * 100_000, "this is not JSON (it is nested too deeply)"),
        ("[1]", "expected a JSON object, got a list: '[1]'"),
        ({"a": 1}, "expected the tokens or the text, got the fields ['a']"),
        ({"tokens": "a b", "labels": ["O"]}, "expected a list of tokens"),
        ({"tokens": [], "labels": []}, "expected a list of tokens, with one at least"),
        ({"tokens": [1], "labels": ["O"]}, "a token has no text, start or end"),
        ({"tokens": ["a"]}, "expected a list of labels, got only the fields tokens"),
        (
            {"tokens": ["a"], "labels": [3]},
            "expected the names of labels in labels, got",
        ),
        (
            {"tokens": ["a"], "labels": ["O", "O"]},
            "expected 1 label, one per token, got 2",
        ),
        (
            {"tokens": ["a"], "labels": [""]},
            "expected a list of strings in labels, none",
        ),
        (
            {"tokens": [" "], "labels": ["O"]},
            "token 0 is blank, or holds a tab or a line",
        ),
        (
            {"tokens": ["a\nb"], "labels": ["O"]},
            "token 0 is blank, or holds a tab or a",
        ),
        (
            '{"tokens": ["\\ud800"], "labels": ["O"]}',
            "token 0 holds half of a surrogate",
        ),
        ({"text": 3, "spans": []}, "expected a string in text"),
        ({"text": "a"}, "expected a list of spans, got the fields text"),
        ({"text": "a", "spans": [[0, 1]]}, "expected a span with start, end and label"),
        (
            {"text": "a", "spans": [[0.0, 1, "X"]]},
            "expected a span with start, end and",
        ),
        (
            {"text": "a", "spans": [[0, 2, "X"]]},
            "expected a span within the 1 characters",
        ),
        (
            {"text": "a", "spans": [[-1, 1, "X"]]},
            "expected a span within the 1 characters",
        ),
        ({"text": "a b", "spans": [[1, 2, "X"]]}, "the X 1:2 has no token: ' '"),
        (
            {"text": "Roman", "spans": [[0, 4, "X"]]},
            "the X 0:4 does not match the tokens of 'Roman': 'Roma'",
        ),
        (
            {"text": "a b", "spans": [[0, 3, "X"], [2, 3, "Y"]]},
            "the Y 2:3 overlaps 'a b': 'b'",
        ),
        (
            {"text": "a", "spans": [[0, 1, "X"], [0, 1, "X"]]},
            "the X 0:1 occurs twice",
        ),
        (
            {"text": "a b", "tokens": ["b"], "spans": []},
            "the token 'b' does not follow",
        ),
        (
            {"text": "a", "tokens": [{"text": "b", "start": 0, "end": 1}], "spans": []},
            "the token 'b' is not at 0:1 of the text",
        ),
    ],
)
def test_what_is_wrong_with_json_lines_has_its_line(file, record, message):
    text = record if isinstance(record, str) else json.dumps(record)
    path = file("\n" + text + "\n", "a.jsonl")
    with pytest.raises(ConllError, match=re.escape(f"{path}:2: {message}")):
        readers.read(path)


RECORD = {
    "text": "Romans in old Rome",
    "spans": [[0, 4, "A"], [10, 18, "B"], [14, 18, "C"]],
}


def test_spans_that_do_not_fit_are_told_and_counted(file):
    path = file(json.dumps(RECORD), "a.jsonl")
    dropped = readers.read(path, unfit="drop")
    assert dropped.examples[0].labels == ("O", "O", "B-B", "I-B")
    assert dropped.notes == (
        f"{path}:1: the A 0:4 does not match the tokens of 'Romans', left out: 'Roma'",
        f"{path}:1: the C 14:18 overlaps 'old Rome', left out: 'Rome'",
    )
    widened = readers.read(path, unfit="widen")
    assert widened.examples[0].labels == ("B-A", "O", "B-B", "I-B")
    assert "widened to 'Romans'" in widened.notes[0]
    with pytest.raises(ConllError) as caught:
        readers.read(path)
    assert len(caught.value.problems) == 2
    assert "`unfit='widen'` extends such spans to whole tokens" in str(caught.value)
    with pytest.raises(ValueError, match="known: error, drop, widen"):
        readers.read(path, unfit="ignore")


def test_brat(file):
    text = "Ada Preston left\nMilan beat Ajax.\n\n"
    folder = file(text, "train/a.txt").parent
    path = file(ANN.replace("0 10", "0 11"), "train/a.ann")
    file("\ufeffYes\n", "train/b.txt")
    file("T1\tX 1 4\tYes\n", "train/b.ann")
    assert found(folder) == [
        (1, 1, ("Ada", "Preston", "left"), ("B-Person-Name", "I-Person-Name", "O")),
        (1, 2, ("Milan", "beat", "Ajax", "."), ("B-ORG", "O", "O", "O")),
        (2, 1, ("Yes",), ("B-X",)),
    ]
    assert found(path, tokenise=spans.at_blanks)[1][2] == ("Milan", "beat", "Ajax.")


@pytest.mark.parametrize(
    ("annotations", "message"),
    [
        (ANN, ":1: expected 'Ada Preston' at 0 10 of a.txt, got: 'Ada Presto'"),
        ("T1 LOC 0 4 Rome\n", ":1: expected ID, tab, type, start and end, tab, text"),
        ("T1\tX 0 3;12 16\tAda left\n", ":1: the X 0:16 has 2 fragments"),
        ("T1\tX 12 22\tleft Milan\n", ":1: the X 12:22 is not within a sentence"),
        ("T1\tX 90 94\t\n", ":1: expected a span within the 35 characters"),
        ("T1\tX 0 2\tAd\n", ":1: the X 0:2 does not match the tokens of 'Ada': 'Ad'"),
    ],
)
def test_what_is_wrong_with_brat_has_its_line(file, annotations, message):
    file("Ada Preston left\nMilan beat Ajax.\n\n", "a.txt")
    path = file(annotations, "a.ann")
    with pytest.raises(ConllError, match=re.escape(f"{path}{message}")):
        readers.read(path)


def test_both_files_of_a_pair_have_to_be_there(file):
    path = file("Rome", "train/a.txt")
    with pytest.raises(ConllError, match=r"a\.ann: expected this file beside its pair"):
        readers.read(path.parent, format="brat")
    folder = file("x", "train/readme").parent
    path.unlink()
    with pytest.raises(IsADirectoryError, match="folders hold brat's"):
        readers.read(folder)


def test_options_of_other_formats_are_refused(file):
    path = file('{"tokens": ["a"], "labels": ["O"]}', "a.jsonl")
    with pytest.raises(ValueError, match="label_column is set, but jsonl has none"):
        readers.read(path, label_column=1)
    with pytest.raises(ValueError, match="comments is set, but tsv has none"):
        readers.read(path, format="tsv", comments="#")
    with pytest.raises(ValueError, match="Unknown encoding 'utf-99'; known are Python"):
        readers.read(path, encoding="utf-99")


def test_compressed_files_are_read_under_a_limit(file, monkeypatch):
    path = file(gzip.compress(b"a O\n" * 1000), "a.conll.gz")
    assert len(readers.read(path).examples[0].tokens) == 1000
    monkeypatch.setenv(files.LIMIT_VARIABLE, "3999")
    with pytest.raises(ConllError, match="unpacks to more than 3,999 bytes\nIf it is"):
        readers.read(path)
    monkeypatch.setenv(files.LIMIT_VARIABLE, "4000")
    assert readers.read(path).sha256
    monkeypatch.setenv(files.LIMIT_VARIABLE, "4 GB")
    with pytest.raises(ValueError, match="Expected a number of bytes in JAXNER_MAX"):
        readers.read(path)


def test_the_last_line_is_told_if_nothing_ends_it(file):
    assert readers.read(file("a O\nb B-L", "a.conll")).last_line == "b B-L"
    assert readers.read(file("a O\nb B-LOC\n", "b.conll")).last_line is None


def test_modules_read_by_themselves(file):
    assert conll2012.read(file(CONLL2012, "a"))[0].labels[1] == "B-DATE"
    assert tsv.read(file(TSV, "b"))[0].labels == ("B-geo", "O")
    assert jsonl.read(file(json.dumps(RECORD), "c"), unfit="drop")
    with pytest.raises(ConllError):
        brat.read(file("x", "d.txt"))
    assert spans.of_example(Example(("a", "b"), ("O", "B-X"), 0, 7)) == [(2, 3, "X", 7)]


def test_json_over_several_lines_is_told_in_one(tmp_path):
    path = tmp_path / "config.jsonl"
    path.write_text(json.dumps({"tokens": ["EU"], "labels": ["O"]}, indent=2) + "\n")
    with pytest.raises(ConllError, match="is one JSON value over 9 lines") as error:
        jsonl.read(path)
    assert list(error.value.problems) == [f"{path}: is one JSON value over 9 lines"]
    path.write_text('{"tokens": [}\n')
    with pytest.raises(ConllError, match=r"config\.jsonl:1: this is not JSON"):
        jsonl.read(path)
    path.write_text("[1]\n")
    with pytest.raises(ConllError, match=r":1: expected a JSON object, got a list"):
        jsonl.read(path)
