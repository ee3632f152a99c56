"""Formats are read as documented and written to be read back; nothing is lost."""

import gzip
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxner.data import formats, schemes
from jaxner.data.formats import DOCSTART, FORMATS, Example, read, write, write_columns
from jaxner.errors import InputError

# Characters that str.split() and str.splitlines() take for separators are favoured.
ODD = "\xa0\x85\u2028\u2029\x0b\x0c\x1c\x1f\u3000\ufeff#-é组"
letters = st.sampled_from(ODD) | st.characters(
    exclude_characters=" \t\r\n", exclude_categories=["Cs"]
)
cells = st.text(letters, min_size=1, max_size=3)  # shorter than words of a header
# In files separated by tabs, cells may hold blanks.
blank_cells = st.text(letters | st.just(" "), min_size=1, max_size=3).filter(
    lambda s: s.strip(" ")
)


@pytest.fixture
def file(tmp_path):
    def make(content, name="a.conll"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return make


def rows_of(path, *arguments, **options):
    examples = read(path, *arguments, **options).examples
    return [(e.document, e.line, e.tokens, e.labels) for e in examples]


# Columns


@st.composite
def documents_of(draw, cells):
    """Documents of sentences of rows."""
    width = draw(st.integers(2, 4))
    row = st.lists(cells, min_size=width, max_size=width)
    sentence = st.lists(row, min_size=1, max_size=4)
    documents = draw(st.lists(st.lists(sentence, max_size=3), min_size=1, max_size=3))
    return documents if any(documents) else [[draw(sentence)]]


def expected(documents, first):
    return [
        (number, tuple(row[0] for row in sentence), tuple(row[-1] for row in sentence))
        for number, document in enumerate(documents, first)
        for sentence in document
    ]


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_no_token_is_lost_whatever_columns_look_like(tmp_path_factory, data):
    def draw(*choices):
        return data.draw(st.sampled_from(choices))

    tabs = draw(True, False)
    documents = data.draw(documents_of(blank_cells if tabs else cells))
    marked = len(documents) > 1 or draw(True, False)
    lines = []
    for document in documents:
        lines += [DOCSTART + draw("", " -X- O O", "\tO")] if marked else []
        for sentence in document:
            lines += [
                (draw("\t") if tabs else draw(" ", "   ")).join(r) for r in sentence
            ]
            lines += [draw("", " ", "\t", " \t") for _ in range(draw(1, 2))]
    newline = draw("\n", "\r\n")
    text = newline.join(lines) + draw("", newline)
    content = ("\ufeff" + text if text[0] == "\ufeff" else text).encode()
    path = tmp_path_factory.getbasetemp() / "random.conll"
    path.write_bytes(gzip.compress(content, 1) if draw(True, False) else content)
    examples = read(path).examples
    content = [(e.document, e.tokens, e.labels) for e in examples]
    assert content == expected(documents, int(marked))
    for example in examples:
        for number, token in zip(example.lines, example.tokens, strict=True):
            assert lines[number - 1].startswith(token)


def test_columns_comments_and_encodings_can_be_chosen(file):
    path = file("1\tEU\tNNP\n2\tx y\tVB\n")
    options = {"token_column": -2, "label_column": 0}
    assert rows_of(path, **options) == [(0, 1, ("EU", "x y"), ("1", "2"))]
    path = file("# one\n#nlp O\n# O\n\n#x B\n")
    assert rows_of(path)[0][2] == ("#", "#nlp", "#")
    # The second "# O" stands within a sentence, so that it is a token.
    tokens = [(line, tokens) for _, line, tokens, _ in rows_of(path, comments="# ")]
    assert tokens == [(2, ("#nlp", "#")), (5, ("#x",))]
    assert rows_of(file("é B-X\n".encode("utf-16")), encoding="utf-16")[0][2] == ("é",)


# The other formats

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


def test_conll_2012(file):
    path = file(gzip.compress(CONLL2012.encode()), "cctv_0000.v4_gold_conll.gz")
    assert rows_of(path) == [
        (1, 2, ("In", "the", "summer", ",/."), ("O", "B-DATE", "I-DATE", "O")),
        (1, 7, ("Xinhua",), ("B-ORG",)),
        (2, 10, ("Taihang", "Mountain"), ("B-LOC", "I-LOC")),
    ]
    assert rows_of(path, tags=True)[0][3] == ("IN", "DT", "NN", ",")
    folder = file(CONLL2012, "train/b_gold_conll").parent
    path = file(CONLL2012, "train/a_gold_conll")
    examples = read(folder).examples
    assert [e.document for e in examples] == [1, 1, 2, 3, 3, 4]
    assert examples[0].path == str(path)


# A contraction, an omitted verb, documents.
CONLLU = """\
# newdoc id = one
# text = I don't, Sue tea.
1\tI\tI\tPRON\tPRP\tCase=Nom\t2\tnsubj\t_\t_
2-3\tdon't\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No
2\tdo\tdo\tAUX\tVBP\t_\t0\troot\t_\t_
3\tn't\tnot\tPART\tRB\t_\t2\tadvmod\t_\t_
4\tSue\tSue\tPROPN\tNNP\t_\t2\tparataxis\t_\t_
4.1\tdrinks\tdrink\tVERB\tVBZ\t_\t_\t_\t0:root\t_
5\tgreen tea\ttea\tNOUN\tNN\t_\t5\torphan\t_\t_

# newpar
1\t#\t#\tSYM\tNFP\t_\t0\troot\t_\t_
2\t_\t_\tPUNCT\tNFP\t_\t1\tpunct\t_\t_


# newdoc
# newdocument is no comment that CoNLL-U knows
1\tYes\tyes\tINTJ\tUH\t_\t0\troot\t_\t_
"""


@pytest.mark.parametrize(
    "change", [str, lambda t: ("\ufeff" + t).replace("\n", "\r\n")]
)
def test_conll_u(file, change):
    path = file(change(CONLLU), "a.conllu")
    examples = read(path).examples
    assert [e.labels for e in examples] == [
        ("PRON", "AUX", "PART", "PROPN", "NOUN"),
        ("SYM", "PUNCT"),
        ("INTJ",),
    ]
    assert [e.document for e in examples] == [1, 1, 2]
    lines = CONLLU.split("\n")
    for example in examples:
        for number, token in zip(example.lines, example.tokens, strict=True):
            assert lines[number - 1].split("\t")[1] == token
    assert rows_of(path, label_column=4)[0][3] == ("PRP", "VBP", "RB", "NNP", "NN")
    other = rows_of(path, token_column=2, label_column=-3)[0]
    assert other[2] == ("I", "do", "not", "Sue", "tea")
    assert other[3][1:3] == ("root", "advmod")


def test_entities_of_conll_u_are_in_misc(file):
    text = u(1).replace("_\n", "SpaceAfter=No|NER=O\n")
    text += u(2).replace("_\n", "NER=B-City-Name|ner=x\n") + u(3)
    path = file(text, "a.conllu")
    assert rows_of(path)[0][3] == ("O", "B-City-Name", "O")
    assert rows_of(path, tags=True)[0][3] == ("X", "X", "X")


TABLE = """\
Sentence #\tWord\tPOS\tTag
Sentence: 1\tNew York\tNNP\tB-geo
\twins\tVBZ\tO
Sentence: 2\tYes\tUH\tO
"""


def test_tables_with_a_header(file):
    path = file(TABLE, "train.tsv")
    assert rows_of(path) == [
        (0, 2, ("New York", "wins"), ("B-geo", "O")),
        (0, 4, ("Yes",), ("O",)),
    ]
    assert rows_of(path, label_column=2)[0][3] == ("NNP", "VBZ")
    documents = file("doc_id\tform\tner\na\tx\tO\n\na\ty\tO\nb\tz\tO\n", "a.tsv")
    assert [e.document for e in read(documents).examples] == [1, 1, 2]
    assert formats.guess(file("Milan\tB-ORG\n", "dev.tsv")) == "conll"


def test_json_lines(file):
    records = [
        {"tokens": ["New York", "wins"], "ner_tags": ["B-City-Name", "O"]},
        {"text": "Ada Preston left", "spans": [[0, 11, "PER"]], "document": "a"},
        {"text": "In  Rome", "spans": [{"start": 4, "end": 8, "label": "LOC"}]},
        {"text": "don't", "tokens": ["do", "n't"], "spans": [], "document": "b"},
    ]
    text = "\n".join(json.dumps(record) for record in records)
    examples = read(file(text, "train.jsonl")).examples
    assert [e.labels for e in examples] == [
        ("B-City-Name", "O"),
        ("B-PER", "I-PER", "O"),
        ("O", "B-LOC"),
        ("O", "O"),
    ]
    assert [e.document for e in examples] == [0, 1, 1, 2]
    assert [e.offsets for e in examples[2:]] == [((0, 2), (4, 8)), ((0, 2), (2, 5))]
    assert list(examples[1].lines) == [2, 2, 2]


def test_labels_of_json_lines_may_be_numbers_with_names(file):
    """As `to_json` of a Hugging Face data set writes them."""
    record = line(id="0", tokens=["EU", "rejects"], ner_tags=[1, 0])
    names = ["O", "B-ORG", "I-ORG"]
    for head, options in (
        ("", {"label_names": names}),
        ("", {"label_names": "O,B-ORG,I-ORG"}),
        (line(label_names=names), {}),
    ):
        path = file(head + record, "a.jsonl")
        assert rows_of(path, **options)[0][2:] == (("EU", "rejects"), ("B-ORG", "O"))
    for options in ({}, {"label_names": ["O"]}):
        with pytest.raises(InputError):
            read(file(record, "a.jsonl"), **options)


ANN = """\
T1\tPerson-Name 0 11\tAda Preston
R1\tworks Arg1:T1 Arg2:T2
T2\tORG 17 22\tMilan
#1\tAnnotatorNotes T2\tthe club
A1\tOld T2
"""


def test_brat(file):
    folder = file("Ada Preston left\nMilan beat Ajax. No.\n\n", "train/a.txt").parent
    path = file(ANN, "train/a.ann")
    file("", "train/b.txt")
    file("", "train/b.ann")
    file("Yes\n", "train/c.txt")
    file("T1\tX 0 3\tYes\n", "train/c.ann")
    words = "Milan", "beat", "Ajax", ".", "No", "."
    assert rows_of(folder) == [
        (1, 1, ("Ada", "Preston", "left"), ("B-Person-Name", "I-Person-Name", "O")),
        (1, 2, words, ("B-ORG", *"OOOOO")),
        (3, 1, ("Yes",), ("B-X",)),
    ]
    write(folder.parent / "again", read(folder).examples, "brat")
    assert rows_of(folder.parent / "again") == rows_of(folder)
    options = {"tokenizer": "whitespace", "split_sentences": True}
    assert [row[2] for row in rows_of(path, **options)[1:]] == [
        ("Milan", "beat", "Ajax."),
        ("No.",),
    ]
    (note,) = read(folder).notes
    assert "3 annotations" in note


def test_spans_that_do_not_fit_are_reported(file):
    spans = [[0, 4, "A"], [10, 18, "B"], [14, 18, "C"]]
    path = file(line(text="Romans in old Rome", spans=spans), "a.jsonl")
    dropped, widened = (read(path, unfit=unfit) for unfit in ("drop", "widen"))
    assert dropped.examples[0].labels == ("O", "O", "B-B", "I-B")
    assert widened.examples[0].labels == ("B-A", "O", "B-B", "I-B")
    assert len(dropped.notes) == len(widened.notes) == 2
    assert [error.line for error in read(path, collect=True).errors] == [1, 1]
    with pytest.raises(InputError):
        read(path, unfit="ignore")


# What is malformed


def u(number, form="a", tag="X"):
    return f"{number}\t{form}\t_\t{tag}\t_\t_\t_\t_\t_\t_\n"


def c12(number, entity="*", word="a"):
    return f"d 0 {number} {word} - * - - - - {entity} -\n"


def line(**record):
    return json.dumps(record) + "\n"


# Name, content, options, and the line of each error (0: without line).
BAD = [
    ("a.conll", "-DOCSTART- O\n \n\t\n", {}, [0]),
    ("a.conll", "a O\nb c O\nd\n\ne\n", {}, [2, 3, 5]),
    ("a.conll", "a\nb\n", {}, [1]),
    ("a.conll", "a\tO\nNew York\nb\tO\t\n", {}, [2, 3]),
    ("a.conll", "a\tO\n\tO\nb\t \n", {}, [2, 3]),
    ("a.conll", "a O\rb O\r", {}, [1]),
    ("a.conll", "a O\né O\n".encode("latin-1"), {}, [2]),
    ("a.conll", "# id 3\na O\n", {}, [2]),
    ("a.conll", "token pos label\nEU NNP B-ORG\n", {}, [1]),
    ("a.conll", "a O\n", {"label_column": 5}, [1]),
    ("a.conll", "a O\n", {"token_column": 1}, [1]),
    ("a.conll.gz", gzip.compress(b"a O\n" * 100)[:-9], {}, [0]),
    ("a.conllu", "1 a X\n", {}, [1]),
    ("a.conllu", u(1) + "# x\n" + u(2), {}, [2]),
    ("a.conllu", u(1) + u(3) + u(4, tag="_") + "\n" + u(1) + "2\n", {}, [2, 3, 6]),
    ("a.conllu", u("x"), {}, [1]),
    ("a.conllu", u(1, form=" "), {}, [1]),
    ("a.conllu", u("1-2") + "\n" + u(1), {}, [1]),
    ("a.conllu", u(1, "a\rb"), {}, [1]),
    ("a.conllu", u(1), {"label_column": 9}, [1]),
    ("a.conllu", u(1), {"label_column": 10}, [0]),
    ("a_conll", "a b\n", {}, [1]),
    ("a_conll", c12(0) + c12(2), {}, [2]),
    ("a_conll", c12(0, "*)"), {}, [1]),
    ("a_conll", c12(0, "(A*(B)"), {}, [1]),
    ("a_conll", c12(0, "(X*") + c12(1, "(Y)"), {}, [2]),
    ("a_conll", c12(0, "(X*"), {}, [1]),
    ("a.tsv", "token\tlabel\nx\n\ny\t \nz\ty\rz\n", {}, [2, 4, 5]),
    ("a", "a\tb\nx\tO\n", {"format": "tsv"}, [1]),
    ("a.jsonl", "[" * 100_000 + '\n["a"]\n{"a": 1}\n', {}, [1, 2, 3]),
    ("a.jsonl", line(tokens=["a"]), {}, [1]),
    ("a.jsonl", line(text=3, spans=[]), {}, [1]),
    ("a.jsonl", line(text="a"), {}, [1]),
    ("a.jsonl", line(text="a b", tokens=["b"], spans=[]), {}, [1]),
    *(
        ("a.jsonl", line(tokens=tokens, labels=["O"]), {}, [1])
        for tokens in ("a b", [], [1], [" "], ["a\nb"], ["\ud800"])
    ),
    *(
        ("a.jsonl", line(tokens=["a"], labels=labels), {}, [1])
        for labels in ([3], ["O", "O"], [], [""])
    ),
    *(
        ("a.jsonl", line(text="a Roman", spans=spans), {}, [1])
        for spans in (
            *([[0, 1]], [[0.0, 1, "X"]], [[0, 9, "X"]], [[-1, 1, "X"]], [[1, 2, "X"]]),
            *([[2, 6, "X"]], [[0, 7, "X"], [2, 7, "Y"]], [[0, 1, "X"], [0, 1, "X"]]),
        )
    ),
]


@pytest.mark.parametrize(
    ("name", "content", "options", "lines"), BAD, ids=range(len(BAD))
)
def test_the_first_bad_line_is_an_error_and_all_can_be_listed(
    file, name, content, options, lines
):
    path = file(content, name)
    errors = read(path, collect=True, **options).errors
    assert [error.line or 0 for error in errors] == lines
    with pytest.raises(InputError) as caught:
        read(path, **options)
    assert str(caught.value) == str(errors[0])
    assert caught.value.path == path


@pytest.mark.parametrize(
    ("annotations", "bad"),
    [
        (ANN.replace("0 11", "0 10"), 1),
        ("T1 LOC 0 4 Rome\n", 1),
        ("#\tx\nT1\tX 0 3;12 16\tAda left\n", 2),
        ("T1\tX 12 22\tleft Milan\n", 1),
        ("T1\tX 90 94\t\n", 1),
        ("T1\tX 0 2\tAd\n", 1),
    ],
)
def test_malformed_annotations_of_brat(file, annotations, bad):
    file("Ada Preston left\nMilan beat Ajax.\n\n", "a.txt")
    path = file(annotations, "a.ann")
    with pytest.raises(InputError) as caught:
        read(path)
    assert (caught.value.path, caught.value.line) == (path, bad)


def test_both_files_of_a_pair_have_to_be_there(file):
    path = file("Rome", "train/a.txt")
    file("T1 X 0 4\n", "train/b.ann")
    errors = read(path.parent, collect=True).errors
    assert [error.path.name for error in errors] == ["a.ann", "b.txt"]
    with pytest.raises(IsADirectoryError):
        read(file("x", "other/readme").parent)


def test_options_of_other_formats_are_refused(file):
    path = file(line(tokens=["a"], labels=["O"]), "a.jsonl")
    for wrong in ({"label_column": 1}, {"comments": "#"}, {"encoding": "utf-99"}):
        with pytest.raises(InputError):
            read(path, **wrong)
    with pytest.raises(InputError):
        read(path, "parquet")
    with pytest.raises(FileNotFoundError, match=r"a\.jsonl"):
        read(path.with_name("b.conll"))


# Writing

# What every format can hold: no blanks, brackets, stars, bars nor semicolons.
plain = st.sampled_from("\xa0\u2028\ufeff#-é組'\"{") | st.characters(
    exclude_characters=" \t\r\n()*|;_", exclude_categories=["Cs", "Cc"]
)
plain_cells = st.text(plain, min_size=1, max_size=4).filter(
    lambda s: s[0] not in "-\ufeff#"
)
types = st.sampled_from(["PER", "Person-Name", "B-x", "é"])


@st.composite
def corpora(draw):
    examples, document = [], 1
    for _ in range(draw(st.integers(1, 4))):
        tokens = draw(st.lists(plain_cells, min_size=1, max_size=5))
        cuts = sorted(draw(st.sets(st.integers(0, len(tokens)), max_size=4)))
        pairs = zip(cuts[::2], cuts[1::2], strict=False)
        spans = [schemes.Span(a, b, draw(types)) for a, b in pairs]
        labels = tuple(schemes.to_labels(spans, len(tokens), "BIO"))
        examples.append(Example(tuple(tokens), labels, document))
        document += draw(st.integers(0, 1))
    return examples


def content_of(examples):
    first = examples[0].document
    return [(e.document - first, e.tokens, e.labels) for e in examples]


@settings(max_examples=60, deadline=None)
@given(examples=corpora(), data=st.data())
def test_formats_convert_into_each_other(tmp_path_factory, examples, data):
    folder = tmp_path_factory.mktemp("chain")
    wanted = content_of(examples)
    for i, format in enumerate(data.draw(st.permutations(list(FORMATS)))):
        write(folder / str(i), examples, format)
        back = read(folder / str(i), format, tokenizer="whitespace")
        examples = back.examples
        assert not back.notes
    assert content_of(examples) == wanted


@pytest.mark.parametrize("format", ["conll", "conll2012", "conllu", "jsonl", "tsv"])
def test_tags_are_written_and_read_back(tmp_path, format):
    examples = [Example(("Rome", "wins"), ("NNP", "VBZ"), 1)]
    write(tmp_path / "a", examples, format, tags=True)
    back = read(tmp_path / "a", format, tags=True).examples
    assert content_of(back) == content_of(examples)


@pytest.mark.parametrize(
    ("format", "token", "label"),
    [
        ("conll2012", "a b", "O"),
        ("conll2012", "a", "B-("),
        ("conllu", "a\tb", "O"),
        ("conllu", "a", "B-x|y"),
        ("tsv", "a\nb", "O"),
        ("brat", "a", "B-x y"),
        ("jsonl-spans", "a", "NOUN"),
        ("conll", DOCSTART, "O"),
        ("conll", "\t", "O"),
        ("parquet", "a", "O"),
    ],
)
def test_what_cannot_be_written_is_refused(tmp_path, format, token, label):
    with pytest.raises(InputError):
        write(tmp_path / "a", [Example((token,), (label,))], format)
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("rows", "options"),
    [
        ([[("a", "O")], [("b c", "O")]], {}),
        ([[("a b",)]], {"separator": "\t"}),
        ([[("a\r", "O")]], {"separator": "\t"}),
        ([[("a", "O"), ("b",)]], {}),
        ([[]], {}),
        ([[("a",)], [("b",)]], {"documents": [2, 1]}),
    ],
)
def test_writing_columns_is_all_or_nothing(file, rows, options):
    path = file("before")
    with pytest.raises(InputError):
        write_columns(path, rows, **options)
    assert path.read_text() == "before"
    assert [entry.name for entry in path.parent.iterdir()] == ["a.conll"]


def test_tags_are_no_spans_and_brat_overwrites_nothing(tmp_path):
    examples = [Example(("a",), ("O",))]
    with pytest.raises(InputError):
        write(tmp_path / "a", examples, "brat", tags=True)
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(FileExistsError):
        write(tmp_path, examples, "brat")


def test_names_show_the_formats_of_files_to_tag_and_of_their_labels():
    outputs = {"a.conll": "conll", "a.txt": "conll", "a.jsonl.gz": "jsonl"}
    assert {p: formats.guess_output(p, "text") for p in outputs} == outputs
    for guess in (lambda p: formats.guess_output(p, "text"), formats.guess_raw):
        for path in ("a.csv", "a.conllu"):
            with pytest.raises(InputError):
                guess(path)
