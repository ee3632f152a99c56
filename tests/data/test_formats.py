"""Formats are read as documented and written to be read back; nothing is lost."""

import bz2
import gzip
import json
import lzma
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxner.data import formats, schemes
from jaxner.data.formats import DOCSTART, FORMATS, Example, read, write
from jaxner.data.tokens import read as split
from jaxner.errors import InputError
from jaxner.evaluation import predictions
from tests.growth import LINEAR, growth

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


def rows_of(path, *arguments, **options):
    examples = read(path, *arguments, **options).examples
    return [(e.document, e.lines[0], e.tokens, e.labels) for e in examples]


@st.composite
def corpora(draw, cell, labels_of, steps, document=0):
    """Sentences, whose documents are some steps apart."""
    examples = []
    for _ in range(draw(st.integers(1, 4))):
        document += draw(steps)
        tokens = tuple(draw(st.lists(cell, min_size=1, max_size=5)))
        labels = tuple(draw(labels_of(len(tokens))))
        examples.append(Example(tokens, labels, document))
    return examples


def content_of(examples):
    return [(e.document - examples[0].document, e.tokens, e.labels) for e in examples]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.conll", "a\tO\n\tB-X\nb\tI-X\n\n\tO\n"),
        ("a.tsv", "a\tO\n\tB-X\nb\tI-X\n\n\tO\n"),
        ("b.conll", "a O\n B-X\nb I-X\n\n O\n"),
        (
            "a.jsonl",
            '{"tokens": ["a", "", "b"], "labels": ["O", "B-X", "I-X"]}\n'
            '{"tokens": [" "], "labels": ["O"]}\n',
        ),
    ],
)
def test_blank_tokens_are_errors_or_dropped_and_counted(name, text, file):
    path = file(text, name)
    with pytest.raises(InputError, match="set blank to drop"):
        read(path)
    content = read(path, blank="drop")
    (example,) = content.examples
    assert (example.tokens, example.labels) == (("a", "b"), ("O", "I-X"))
    assert any("left out 2 blank tokens" in note for note in content.notes)


# Columns


@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_no_token_is_lost_whatever_columns_look_like(tmp_path_factory, data):
    def draw(*choices):
        return data.draw(st.sampled_from(choices))

    def labels_of(count):
        return st.lists(cell, min_size=count, max_size=count)

    tabs = draw(True, False)
    cell = blank_cells if tabs else cells
    corpus = data.draw(corpora(cell, labels_of, st.integers(0, 2)))
    extra = data.draw(st.lists(cell, max_size=2))
    lines, document = [], 0
    for example in corpus:
        for _ in range(document, example.document):
            lines.append(DOCSTART + draw("", " -X- O O", "\tO"))
        document = example.document
        for token, label in zip(example.tokens, example.labels, strict=True):
            blank = "\t" if tabs else draw(" ", "   ")
            lines.append(blank.join([token, *extra, label]))
        lines += [draw("", " ", "\t", " \t") for _ in range(draw(1, 2))]
    newline = draw("\n", "\r\n")
    text = newline.join(lines) + draw("", newline)
    content = ("\ufeff" + text if text[0] == "\ufeff" else text).encode()
    path = tmp_path_factory.getbasetemp() / "random.conll"
    path.write_bytes(gzip.compress(content, 1) if draw(True, False) else content)
    examples = read(path).examples
    assert examples[0].document == corpus[0].document
    assert content_of(examples) == content_of(corpus)
    for example in examples:
        for number, token in zip(example.lines, example.tokens, strict=True):
            assert lines[number - 1].startswith(token)


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

TABLE = """\
Sentence #\tWord\tPOS\tTag
Sentence: 1\tNew York\tNNP\tB-geo
\twins\tVBZ\tO
Sentence: 2\tYes\tUH\tO
"""

COMMENTS = "# one\n#nlp O\n# O\n\n#x B\n"
PLAIN = "Ada Preston left\nMilan beat Ajax.\n\n"


# As annotation tools export them: twice Ada Preston, in a text or by tokens.
TEXT, WORDS = "Ada Preston left", ["Ada", "Preston", "left"]
PLACES = ((0, 3), (4, 11), (12, 16))
PRODIGY = [
    {"text": word, "start": start, "end": end, "id": i}
    for i, (word, (start, end)) in enumerate(zip(WORDS, PLACES, strict=True))
]
ENTITY = {"start": 0, "end": 11, "text": "Ada Preston", "labels": ["PER"]}
RESULT = [
    {"type": "labels", "id": "a", "value": ENTITY},
    {"type": "relation", "from_id": "a", "to_id": "a"},
]
TASK = {"data": {"text": TEXT}, "id": 3}
REFUSAL = {"was_cancelled": True, "result": RESULT}
TOOLS = [
    {"text": TEXT, "label": [[0, 11, "PER"]], "Comments": []},
    {"data": TEXT, "label": [[0, 11, "PER"]]},
    {"text": TEXT, "labels": [[0, 11, "PER"]]},
    {
        "text": TEXT,
        "entities": [{"id": 1, "label": "PER", "start_offset": 0, "end_offset": 11}],
        "relations": [{"id": 1, "from_id": 1, "to_id": 1, "type": "x"}],
    },
    {
        "text": TEXT,
        "tokens": [*PRODIGY, {"text": "\n", "start": 16, "end": 17, "id": 3}],
        "spans": [{"start": 0, "end": 11, "token_start": 0, "label": "PER"}],
        "answer": "accept",
    },
    {
        **TASK,
        "annotations": [{"result": RESULT}, {"was_cancelled": True, "result": []}],
    },
    {"text": TEXT, "label": [ENTITY], "annotator": 1},
    {"text": TEXT, "spans": [ENTITY, {**ENTITY, "answer": "reject"}]},
    {"text": TEXT, "spans": [{"start": 0, "end": 11, "type": "PER"}]},
    {"text": TEXT, "spans": [{"start": 0, "end": 11, "type": "x", "label": "PER"}]},
    {"text": "Ada\nPreston left", "label": [{**ENTITY, "text": r"Ada\nPreston"}]},
]
# Accepted texts without entities.
EMPTY = [
    {"text": TEXT, "tokens": PRODIGY, "answer": "accept"},
    {"text": TEXT, "annotation_id": 1},
]
# What no annotator accepted.
DRAFTS = [
    {"text": TEXT, "spans": [[0, 3, "PER"]], "answer": "reject"},
    {"text": TEXT, "spans": [], "answer": "ignore"},
    {**TASK, "annotations": []},
    {**TASK, "annotations": [REFUSAL]},
    {**TASK, "predictions": [{"result": RESULT}]},
]


@pytest.mark.parametrize("is_array", [False, True])
def test_annotation_tools(file, is_array):
    records = [*TOOLS, *EMPTY, *DRAFTS]
    lines = "".join(line(**record) for record in records)
    text = json.dumps(records, indent=1) if is_array else lines
    result = read(file(text, "a.json"))
    sentences = [(e.tokens, e.labels) for e in result.examples]
    labels = [("B-PER", "I-PER", "O")] * len(TOOLS) + [("O", "O", "O")] * len(EMPTY)
    assert sentences == [(tuple(WORDS), row) for row in labels]
    assert [e.lines[0] for e in result.examples] == [*range(1, len(labels) + 1)]
    unit = "record" if is_array else "line"
    assert {e.unit for e in result.examples} == {unit}
    task, relation = result.notes
    fate = "left out, since"
    assert task.startswith(f"{unit} 14: {fate} no annotator accepted them: 5 records")
    assert relation.startswith(f"{unit} 4: {fate} they are no entities: 3 annotations")


def test_a_span_with_several_labels_or_none_is_shown(file):
    region = {"type": "labels", "value": {**ENTITY, "labels": ["PER", "LOC"]}}
    other = {"start": 0, "end": 3, "entity_group": "PER"}
    for record, words in (
        ({**TASK, "annotations": [{"result": [region]}]}, "'PER', 'LOC'"),
        ({"text": TEXT, "entities": [other]}, "entity_group"),
    ):
        with pytest.raises(InputError, match=rf"one label, got \{{.*{words}"):
            read(file(line(**record), "a.jsonl"))


def test_offsets_in_utf16(file):
    """They are converted on demand; what shows that they are meant is said."""
    wide, span = "\U00010100\U0010fffd A B won", [5, 6, "ORG"]
    path = file(line(text=wide, label=[span]), "a.jsonl")
    counts = {}
    for unit in ("characters", "utf-16"):
        data = read(path, offsets=unit)
        words = zip(data.examples[0].tokens, data.examples[0].labels, strict=True)
        counts[unit] = [word for word, label in words if label != "O"], len(data.notes)
    assert counts == {"characters": (["B"], 1), "utf-16": (["A"], 0)}
    for spans in ([[9, 12, "X"]], [{"start": 5, "end": 6, "label": "X", "text": "A"}]):
        path = file(line(text=wide, spans=spans), "a.jsonl")
        with pytest.raises(InputError, match="offsets=utf-16"):
            read(path)
        assert read(path, offsets="utf-16").notes == []
    path = file(line(text=wide, spans=[[1, 13, "X"]]), "a.jsonl")  # 1: half an emoji
    with pytest.raises(InputError):
        read(path, offsets="utf-16")
    # What repeats the text of its spans needs no note: brat's files, and our own.
    file(wide, "a.txt")
    data = read(file("T1\tX 5 6\tA\n", "a.ann"))
    assert data.examples[0].labels == ("O", "O", "B-X", "O", "O")
    assert data.notes[0].endswith("count units of UTF-16")
    write(path.with_name("b"), data.examples, "jsonl-spans")
    assert read(path.with_name("b"), "jsonl").notes == []
    path = file(line(text=f"A {wide}", spans=[[0, 1, "X"]]), "a.jsonl")
    assert read(path).notes == []


def test_brat_with_line_ends_of_windows(file):
    for start in (14, 15):  # CRLF as one character, or two
        file("Ann Lee fell.\r\nRome won.\r\n", "a.txt")
        annotations = f"T1\tPER 0 7\tAnn Lee\nT2\tLOC {start} {start + 4}\tRome\n"
        result = read(file(annotations, "a.ann"))
        assert [e.labels[0] for e in result.examples] == ["B-PER", "B-LOC"]
        assert [e.lines[0] for e in result.examples] == [1, 2]
        assert ["CRLF" in note for note in result.notes] == [True] * (15 - start)
    # An entity over two lines: brat repeats its text with the carriage return.
    path = file("T1\tX 8 14;15 19\tfell.\r Rome\n", "a.ann")
    (note,) = read(path, unfit="drop").notes
    assert "2 fragments" in note


def test_entities_of_multiword_tokens(file):
    def labels(*lines):
        return read(file("".join(lines), "a.conllu")).examples[0].labels

    for whole in ("SBE", "BBI", "EIE", "III", "UBL", "LIL"):
        for size in (2, 3, 4):
            parts = [f"{x}-PER" for x in (whole[1], *"I" * (size - 2), whole[2])]
            token = u(f"2-{size + 1}", misc=f"ner={whole[0]}-PER")
            rest = *map(u, range(2, size + 2)), u(size + 2, misc="name=U-X")
            assert labels(u(1), token, *rest) == ("O", *parts, "U-X")
            words = [u(i, misc=f"NER={part}") for i, part in enumerate(parts, 2)]
            assert labels(u(1), token, *words) == ("O", *parts)
    for wrong in (
        u("1-2", misc="NER=S-X") + u(1, misc="NER=S-Y") + u(2),
        u("1-3", misc="NER=S-X") + u(1) + u(2),
        u("1-2", misc="NER=X") + u(1) + u(2),
    ):
        with pytest.raises(InputError, match="conllu:1"):
            labels(wrong)


def doc_bin(path, *docs):
    spacy = pytest.importorskip("spacy")
    store, vocab = spacy.tokens.DocBin(), spacy.Vocab()
    for words, options in docs:
        store.add(spacy.tokens.Doc(vocab, words, **options))
    store.to_disk(path)
    return path


def test_spans_of_spacy_that_are_no_entities_are_counted(tmp_path):
    spacy = pytest.importorskip("spacy")
    doc = spacy.tokens.Doc(spacy.Vocab(), ["Ann", "Lee"], ents=["B-PER", "I-PER"])
    doc.spans["sc"] = [doc[:1], doc[:2]]
    spacy.tokens.DocBin(docs=[doc]).to_disk(tmp_path / "a.spacy")
    (note,) = read(tmp_path / "a.spacy").notes
    assert note.endswith(
        "left out, since they are in doc.spans, not in doc.ents: 2 spans"
    )


def test_documents_of_spacy(tmp_path):
    """No white space, no sentence that cuts an entity, no missing annotation."""
    words = ["Ann", " ", "Lee", "fell", ".", "\n\n", "\xa0", "Bob"]
    ents = ["B-PER", "I-PER", "I-PER", "", "O", "", "", "B-PER"]
    starts = [True, *[False] * 5, True, False]
    options = {"ents": ents, "sent_starts": starts, "spaces": [1, 1, 1, 0, *[1] * 4]}
    path = doc_bin(tmp_path / "a.spacy", (["x", "y"], {}), (words, options))
    copy = read(path)
    assert [(e.tokens, e.labels, e.place(0)) for e in copy.examples] == [
        (("x", "y"), ("O", "O"), "document 1"),
        (("Ann", "Lee", "fell", "."), ("B-PER", "I-PER", "O", "O"), "document 2"),
        (("\xa0", "Bob"), ("O", "B-PER"), "document 2"),
    ]
    assert [e.text for e in copy.examples[1:]] == ["Ann   Lee fell.", "\xa0 Bob"]
    write(path, copy.examples)
    assert read(path).examples[1].text == "Ann Lee fell."
    (note,) = copy.notes
    assert (note[:11], note[-8:]) == ("document 1:", "4 tokens")
    starts = [True, False, True]
    crossing = {"ents": ["B-X", "I-X", "I-X"], "sent_starts": starts}
    blank = {"ents": ["O", "B-X", "O"]}
    for doc in ((["Go", "!", "Live"], crossing), (["Go", " ", "!"], blank)):
        path = doc_bin(tmp_path / "b.spacy", doc)
        with pytest.raises(InputError, match=r"b\.spacy, document 1: ") as error:
            read(path)
        assert (error.value.line, error.value.unit) == (1, "document")
        assert read(path, unfit="drop").examples[0].labels == ("O", "O")
    path = doc_bin(tmp_path / "b.spacy", (["Go", "!", "Live"], crossing))
    (example,) = read(path, split_sentences=True).examples
    assert example.labels == ("B-X", "I-X", "I-X")


def test_texts_with_tokens_have_sentences(tmp_path, file):
    """Those of our rules, unless labels say that the tokens are one."""
    words, text = ["Ann", "ran.", "He", "won."], "Ann ran. He won."
    spans = [{"start": 9, "end": 11, "label": "X"}]
    ents = {"ents": ["O", "O", "B-X", "O"]}
    for path in (
        file(line(text=text, tokens=words, spans=spans), "a.jsonl"),
        doc_bin(tmp_path / "a.spacy", (words, ents)),
    ):
        first, last = read(path, split_sentences=True).examples
        assert (first.tokens, last.tokens) == (("Ann", "ran."), ("He", "won."))
        assert (last.labels, last.text, last.start) == (("B-X", "O"), "He won.", 9)
        assert len(read(path).examples) == 1
    for name in ("labels", "ner_tags"):
        path = file(line(text=text, tokens=words, **{name: ["O"] * 4}), "b.jsonl")
        assert len(read(path, split_sentences=True).examples) == 1


def test_sentences_of_tables(file):
    """Documents and sentences are named; a name that comes back is said."""
    table = "doc_id\tsentence\ttoken\tlabel\n{}"
    rows = [(doc, name, "x", "O") for doc, name in ("a0", "a0", "a1", "b1", "b0", "a0")]
    text = table.format("".join("\t".join(row) + "\n" for row in rows))
    result = read(file(text, "a.tsv"))
    sizes = [(e.document, len(e.tokens)) for e in result.examples]
    assert sizes == [(1, 2), (1, 1), (2, 1), (2, 1), (3, 1)]
    (note,) = result.notes
    assert note.startswith("line 7: 1 sentence")
    # A comment names nothing, and belongs to the sentence after it.
    text = table.format("# 1\na\t0\tx\tO\n\n# 2\na\t1\tx\tO\n\n# 3\n\t2\tx\tO\n")
    result = read(file(f"# 0\n{text}", "a.tsv"), comments="#")
    assert [(e.document, e.lines[0]) for e in result.examples] == [
        (1, 4),
        (1, 7),
        (1, 10),
    ]
    assert result.notes == []


def test_tokens_that_csv_quotes_are_counted(file):
    tokens = ['"', "a", 'b"', '""', "'"]
    table = pytest.importorskip("pandas").DataFrame({"token": tokens, "label": "O"})
    result = read(file(table.to_csv(sep="\t", index=False), "a.tsv"))
    note = "line 2: quoted as in CSV, and read with the quotes: 3 tokens"
    assert [text.partition(";")[0] for text in result.notes] == [note]
    result = read(file(table.to_csv(sep="\t", index=False, quoting=3), "b.tsv"))
    assert ([*result.examples[0].tokens], result.notes) == (tokens, [])


@pytest.mark.parametrize("mark", [",", ";"])
def test_csv_is_read_as_tools_write_it(file, mark):
    tokens = ('"', "a", 'b"', '""', "'", ",", ";", " x", "é")
    columns = {"Sentence #": ["1"] + [None] * 8, "Word": tokens, "Tag": "O"}
    frame = pytest.importorskip("pandas").DataFrame(columns)
    text = frame.to_csv(sep=mark, lineterminator="\r\n").encode("latin-1")
    result = read(file(text, "a.csv"), encoding="latin-1")
    assert ([e.tokens for e in result.examples], result.notes) == ([tokens], [])
    path = file(f'token{mark}label\n"a{mark}O\nb{mark}O\n{mark * 3}\n', "b.csv")
    errors = [(e.line, e.message[:26]) for e in read(path, collect=True).errors]
    expected = "expected 2 columns, got "
    assert errors == [(2, f"{expected}1:"), (4, f"{expected}4:")]
    text = '-DOCSTART-,O\n,\ntoken,label\na,O\n,\n"-DOCSTART-,",O\n'
    text += '"-DOCSTART-","O"\nb,O\n'
    examples = read(file(text.replace(",", mark), "c.csv")).examples
    places = [("a", 1), ("-DOCSTART-" + mark, 1), ("b", 2)]
    assert [(*e.tokens, e.document) for e in examples] == places


def test_a_row_of_a_whole_sentence_is_no_token(file):
    path = file('tokens,labels\n"Ann saw Rome","B-PER O B-LOC"\n', "a.csv")
    with pytest.raises(InputError, match=r"2: .*, got a sentence"):
        formats.read(path)
    rest = file('tokens,labels\n"New York","B-big city"\nis,B-U O\n', "b.csv")
    (example,) = formats.read(rest).examples
    assert example.labels == ("B-big city", "B-U O")


def test_csv_may_have_tabs(file):
    path = file('sentence\ttoken\tlabel\n1\t"a;,"\tB-X\n\t""""\tO\n2\tb\tO\n', "a.csv")
    assert [e.tokens for e in read(path).examples] == [("a;,", '"'), ("b",)]
    path = file('-DOCSTART-\tO\n\n"\tO\n"b\tO\n', "b.csv")  # CoNLL by another name
    assert [(e.tokens, e.document) for e in read(path).examples] == [(('"', '"b'), 1)]
    with pytest.raises(InputError, match=r"or tabs, got one column: 'a b'$"):
        read(file("a b\n", "c.csv"))


def test_comments_that_look_like_tokens_are_counted(file):
    text = "# id = 1\n#NYC B-LOC\nis O\n\n# O\nbig O\n"
    result = read(file(text), comments="#")
    assert [e.tokens for e in result.examples] == [("is",), ("big",)]
    assert result.notes == ["line 2: left out 2 comments with as many cells as a token"]
    for content in ("# id 1\na O\n", "a O\n\n# id 2\na O\n", "#1\na O\n"):
        with pytest.raises(InputError, match="if # begins comments"):
            read(file(content))
    # They have as many cells as a token: no error, if labels have no prefixes.
    for text, options in (
        ("# a\nx PER\ny O\n\n", {}),
        ("# a\nx V\n\n", {"tags": True}),
    ):
        (note, *_) = read(file(text * 3), **options).notes
        assert note.startswith("line 1: 3 sentences with # as first token; if # begins")
        mixed = "x PER\ny O\n\n" * 3 + text * 2  # sentences about a number, perhaps
        assert "#" not in "".join(read(file(mixed), **options).notes)
    tags = {"tags": True, "comments": "%"}  # as they should be
    assert not read(file("# a\nx V\n\n" * 3), **tags).notes
    assert not read(file(u(1, "#") + "\n", "a.conllu"), tags=True).notes


def u(number, form="a", tag="X", misc="_"):
    return f"{number}\t{form}\t_\t{tag}\t_\t_\t_\t_\t_\t{misc}\n"


def c12(number, entity="*", word="a"):
    return f"d 0 {number} {word} - * - - - - {entity} -\n"


def line(**record):
    return json.dumps(record) + "\n"


NUMBERS = line(id="0", tokens=["EU", "rejects"], ner_tags=[1, 0])

# Name, content and options; of each sentence document:line, and tokens with labels.
CASES = [
    (
        *("a.conll", "1\tEU\tNNP\n2\tx y\tVB\n"),
        *({"token_column": -2, "label_column": -3}, "0:1 EU/1 x·y/2"),
    ),
    ("a.conll", COMMENTS, {}, "0:1 #/one #nlp/O #/O", "0:5 #x/B"),
    # The second "#" stands within a sentence, so that it is a token.
    ("a.conll", COMMENTS, {"comments": "# "}, "0:2 #nlp/O #/O", "0:5 #x/B"),
    ("a.conll", "é X\n".encode("utf-16"), {"encoding": "utf-16"}, "0:1 é/X"),
    (
        *("a.v4_gold_conll.gz", gzip.compress(CONLL2012.encode()), {}),
        *("1:2 In/O the/B-DATE summer/I-DATE ,/./O", "1:7 Xinhua/B-ORG"),
        "2:10 Taihang/B-LOC Mountain/I-LOC",
    ),
    *(
        (
            *("a.conllu", content, {"tags": True}),
            "1:3 I/PRON do/AUX n't/PART Sue/PROPN green·tea/NOUN",
            *("1:12 #/SYM _/PUNCT", "2:18 Yes/INTJ"),
        )
        for content in (CONLLU, "\ufeff" + CONLLU.replace("\n", "\r\n"))
    ),
    (
        *("a.conllu", CONLLU, {"token_column": 2, "label_column": -3}),
        "1:3 I/nsubj do/root not/advmod Sue/parataxis tea/orphan",
        *("1:12 #/root _/punct", "2:18 yes/root"),
    ),
    (
        "a.conllu",
        u(1, misc="MyNER=X|Xname=O|NER=B-Big-City|ner=x") + u(2, misc="MyNER=B-X"),
        *({}, "0:1 a/B-Big-City a/O"),
    ),
    ("a.tsv", TABLE, {}, "0:2 New·York/B-geo wins/O", "0:4 Yes/O"),
    ("a.tsv", TABLE, {"label_column": 2}, "0:2 New·York/NNP wins/VBZ", "0:4 Yes/UH"),
    (
        *("a.tsv", "doc_id\tform\tner\na\tx\tO\n\na\ty\tO\nb\tz\tO\n", {}),
        *("1:2 x/O", "1:4 y/O", "2:5 z/O"),
    ),
    ("dev.tsv", "Milan\tB-ORG\n-DOCSTART-s\tO\n", {}, "0:1 Milan/B-ORG -DOCSTART-s/O"),
    ("a.conll", "token pos label\nEU NNP B-ORG\n", {}, "0:2 EU/B-ORG"),
    (
        "a.jsonl",
        line(tokens=["New York", "wins"], ner_tags=["B-City-Name", "O"])
        + " \t\r\n"
        + line(text="Ada Preston left", spans=[[0, 11, "PER"]], doc_id="a")
        + line(text="In  Rome", spans=[{"start": 4, "end": 8, "label": "LOC"}], doc="")
        + line(text="Milan", spans=[[0, 5, "LOC"]], document="a")
        + line(
            text="\u200fdon't", tokens=["do", "n't"], spans=[[3, 6, "X"]], document="b"
        ),
        *({}, "0:1 New·York/B-City-Name wins/O"),
        *("1:3 Ada/B-PER Preston/I-PER left/O", "1:4 In/O Rome/B-LOC"),
        *("1:5 Milan/B-LOC", "2:6 do/O n't/B-X"),
    ),
    ("a_conll", c12(0).replace(" ", "\t"), {"label_column": 2}, "0:1 a/0"),
    (
        *("a.ann", "T1\tX 0 3;12 16\tAda left\nT2\tY 17 20\tMil\n"),
        *({"unfit": "widen"}, "1:1 Ada/B-X Preston/I-X left/I-X"),
        "1:2 Milan/B-Y beat/O Ajax/O ./O",
    ),
    # As `to_json` of a Hugging Face data set writes them.
    *(
        ("a.jsonl", head + NUMBERS, options, f"0:{number} EU/B-ORG rejects/O")
        for head, options, number in (
            ("", {"label_names": ["O", "B-ORG"]}, 1),
            ("", {"label_names": "O, B-ORG"}, 1),
            (line(label_names=["O", "B-ORG"]), {}, 2),
        )
    ),
]


@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_what_is_read(file, case):
    name, content, options, *expected = case
    file(PLAIN, "a.txt")  # of a.ann
    sentences = [
        f"{document}:{number} " + " ".join(map("/".join, zip(*row, strict=True)))
        for document, number, *row in rows_of(file(content, name), **options)
    ]
    assert sentences == [sentence.replace("·", " ") for sentence in expected]


def test_documents_of_a_folder_are_counted_on(file):
    folder = file(gzip.compress(CONLL2012.encode()), "train/b_gold_conll.gz").parent
    path = file(CONLL2012, "train/a_gold_conll")
    file(c12(0), "train/c_gold_conll")  # without a line that begins one
    examples = read(folder).examples
    assert [e.document for e in examples] == [1, 1, 2, 3, 3, 4, 5]
    assert examples[0].path == str(path)


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
    assert rows_of(folder) == [
        (1, 1, ("Ada", "Preston", "left"), ("B-Person-Name", "I-Person-Name", "O")),
        (1, 2, ("Milan", "beat", "Ajax", ".", "No", "."), ("B-ORG", *"OOOOO")),
        (3, 1, ("Yes",), ("B-X",)),
    ]
    options = {"tokenizer": "whitespace", "split_sentences": True}
    copy = read(path.with_suffix(".txt"), "brat", **options).examples
    split = [(e.labels[0], *e.tokens, e.offsets[-1][1]) for e in copy[1:]]
    assert split == [("B-ORG", "Milan", "beat", "Ajax.", 16), ("O", "No.", 3)]
    (note,) = read(folder).notes
    assert "3 annotations" in note
    file("T1\tX 12 16;17 22\tleft Milan\n", "train/a.ann")  # what no option mends
    for unfit in ("error", "widen"):
        (error,) = read(folder, unfit=unfit, collect=True).errors
        assert str(error).endswith("the X 12:22 has 2 fragments")
    joined, _ = read(path, unfit="widen", split_sentences=True).examples
    assert joined.labels == (*"OO", "B-X", "I-X", *"OOO")
    assert joined.lines == (1, 1, 1, 2, 2, 2, 2)
    file("😀" * 10 + "\nMilan beat Ajax\n", "train/a.txt")
    file("T1\tX 21 26;32 36\tMilan Ajax\n", "train/a.ann")  # in units of UTF-16
    rows = rows_of(folder, unfit="widen")
    assert rows[1][3] == ("B-X", "I-X", "I-X")


@given(st.lists(st.sampled_from(["Ann ran.", "😀 Yes! ", "b", "\n\n"])), st.data())
def test_no_sentence_ends_within_a_span(tmp_path_factory, parts, data):
    text, path = " ".join(parts), tmp_path_factory.getbasetemp() / "a.jsonl"
    words = [word for part in split(text) for word in part]
    places = st.lists(st.integers(0, len(words)), unique=True, max_size=6)
    ends = sorted(data.draw(places))
    spans = [
        (words[a].start, words[b - 1].end, "X")
        for a, b in zip(ends[::2], ends[1::2], strict=False)
    ]
    path.write_text(line(text=text, spans=spans))
    examples = read(path, split_sentences=True).examples if words else []
    starts = {part[0].start for part in split(text)}
    assert [e.start for e in examples] == sorted(
        start for start in starts if not any(a < start < b for a, b, _ in spans)
    )
    result = []
    for e in examples:
        assert e.text == text[e.start : e.start + e.offsets[-1][1]]
        assert e.tokens == tuple(e.text[a:b] for a, b in e.offsets)
        result += [
            (e.start + e.offsets[a][0], e.start + e.offsets[b - 1][1], kind)
            for a, b, kind in schemes.to_spans(e.labels)
        ]
    assert result == spans


def test_spans_that_do_not_fit_are_reported(file):
    spans = [[0, 4, "A"], [10, 18, "B"], [10, 13, "C"], [8, 8, "D"]]
    path = file(line(text="Romans in old Rome", spans=spans), "a.jsonl")
    kinds = "drop", "widen", "error"
    drop, wide, strict = (read(path, unfit=x, collect=True) for x in kinds)
    assert drop.examples[0].labels == ("O", "O", "B-B", "I-B")
    assert wide.examples[0].labels == ("B-A", "O", "B-B", "I-B")
    # What overlaps or is empty cannot be widened, and is not dropped unless the user
    # says so.
    assert [len(x.notes) for x in (drop, wide, strict)] == [3, 1, 0]
    assert [len(x.errors) for x in (drop, wide, strict)] == [0, 2, 3]
    assert {error.line for error in strict.errors} == {1}
    assert any("overlaps the B 10:18" in str(error) for error in strict.errors)
    with pytest.raises(InputError):
        read(path, unfit="ignore")
    for text, end, tokenizer, remedy in (
        ("他在北京。", 1, "words", "tokenizer=characters splits into characters"),
        ("เขาไปภูเก็ต", 9, "words", "tokenizer=characters splits into characters"),
        ("Paris在他家", 6, "words", "tokenizer=characters splits into characters"),
        ("เขาไปภูเก็ต", 9, "characters", "unfit=widen extends it to whole tokens"),
        ("ذهب للقاهرة", 2, "words", "unfit=widen extends it to whole tokens"),
    ):
        path = file(line(text=text, spans=[[0, end, "A"]]), "a.jsonl")
        (error,) = read(path, tokenizer=tokenizer, collect=True).errors
        assert str(error).endswith(remedy)
    empty = [line(text=text, spans=[]) for text in ("", "a", " ")]
    (note,) = read(file("".join(empty), "a.jsonl")).notes
    assert note == "line 1: left out 2 texts without tokens"
    both = line(text="a", tokens=["a"], labels=["O"], spans=[[0, 1, "A"]])
    (note,) = read(file(both, "a.jsonl")).notes
    assert note == "line 1: 1 record with labels and spans: the labels are read"
    row = {
        "tokens": ["a"],
        "labels": ["O"],
        "label": 1,
        "completions": [{"result": []}],
    }
    assert not read(file(line(**row), "a.jsonl")).notes
    path = file(line(text="a", spans=[[0, 9, "A"]] * 7), "a.jsonl")
    notes = read(path, unfit="drop").notes
    assert (len(notes), notes[5][:10]) == (6, "and 2 more")


# What is malformed

# Name, content, options, and the line of each error (0: without line).
BAD = [
    ("a.conll", "-DOCSTART- O\n \n\t\n", {}, [0]),
    ("a.conll", "a O\nb c O\nd\n\ne\n", {}, [2, 3, 5]),
    ("a.conll", "a\nb\n", {}, [1]),
    ("a.conll", "a\tO\nNew York\nb\tO\t\n", {}, [2, 3]),
    ("a.conll", "a\tO\n\tO\nb\t \n", {}, [2, 3]),
    ("a.conll", "a O\rb O\r", {}, [1]),
    ("a.conll", "a O\nÿ O\n\x80 O\n".encode("latin-1"), {}, [2, 3]),
    ("a.conll", "a O\nb O\n".encode("utf-16")[:-1], {"encoding": "utf-16"}, [2]),
    ("a.conll", "a O\n", {"label_column": 5}, [0]),
    ("a.conll.gz", gzip.compress(b"a O\n" * 100)[:-9], {}, [0]),
    ("a.conll.bz2", bz2.compress(b"a O\n"), {}, [0]),
    ("a.conll", lzma.compress(b"a O\n"), {}, [0]),
    ("a.txt", b"%PDF-1.7\n", {}, [0]),
    ("a.tsv", "#FORMAT=WebAnno TSV 3.3\nRome\tB-LOC\n", {}, [0]),
    ("a.txt", b"\xff\xff\xff\xff\x88\x02", {}, [0]),
    ("a.conllu", "1 a X\n", {}, [1]),
    ("a.conllu", u(1) + "# x\n" + u(2), {}, [2]),
    ("a.conllu", u(1, tag="_") + "2\n\n" + u(1) + "2\n", {"tags": True}, [1, 2, 5]),
    ("a.conllu", u(1, form=" "), {}, [1]),
    ("a.conllu", u(1, "a\rb"), {}, [1]),
    ("a.conllu", u(1), {"label_column": 10}, [0]),
    ("a_conll", "a b\n", {}, [1]),
    ("a_conll", c12(0, "*)"), {}, [1]),
    ("a_conll", c12(0, "(A*(B)"), {}, [1]),
    ("a_conll", c12(0, "(X*") + c12(1, "(Y)"), {}, [2]),
    ("a_conll", c12(0, "(X*"), {}, [1]),
    ("a.tsv", "token\tlabel\nx\n\ny\t \nz\ty\rz\n", {}, [2, 4, 5]),
    ("a.ann", ANN.replace("17 22", "17 21"), {}, [3]),
    ("a.spacy", "x", {}, [0]),
    ("a.ann", "T1 LOC 0 4 Rome\n", {}, [1]),
    ("a.ann", f"T1\tX 0 {'9' * 5000}\tAda\n", {}, [1]),
    ("a.ann", "#\tx\nT1\tX 0 3;12 16\tAda left\n", {}, [2]),
    ("a.ann", "T1\tX 12 22\tleft Milan\n", {}, [1]),
    ("a.ann", "T1\tX 90 94\t\n", {}, [1]),
    ("a.ann", "T1\tX 0 2\tAd\n", {}, [1]),
    ("a.jsonl", '{"a": 1}\n' + "[" * 100_000 + "\n{}", {}, [1, 2, 3]),
    ("a.jsonl", line(tokens=["a"]), {}, [1]),
    ("a.jsonl", NUMBERS, {}, [1]),
    ("a.jsonl", NUMBERS, {"label_names": ["O"]}, [1]),
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
    ("a.jsonl", line(text="a b", spans=[[0, 1, "X"]], label=[[2, 3, "X"]]), {}, [1]),
    ("a.jsonl", line(**TASK, annotations=[{"result": RESULT}] * 2), {}, [1]),
    ("a.jsonl", line(text=TEXT, annotations=[REFUSAL]), {}, [1]),
    ("a.jsonl", line(label_names=[3]) + NUMBERS, {}, [1, 2]),
    ("a.json", "[{},\n3]", {}, [1]),
    ("a.jsonl", '{"tokens": ["a"], "labels": ["O"], "tokens": ["b"]}', {}, [1]),
    ("a.jsonl", line(text="a b", spans=[[False, True, "X"]]), {}, [1]),
    ("a.jsonl", line(text="a b", answer="accept", label="[[0, 1]]"), {}, [1]),
    ("a.jsonl", line(text="a b", answer="b"), {}, [1]),  # to a question
    ("a.conllu", u("1-999999999", misc="NER=B-X") + u(1), {}, [1]),
    ("a.conllu", u("2-1", misc="NER=B-X") + u(1) + u(2), {}, [1]),
    ("a.conllu", u("1-2", misc="NER=B-X") * 2 + u(1) + u(2), {}, [2]),
]


@pytest.mark.parametrize("case", BAD, ids=range(len(BAD)))
def test_the_first_bad_line_is_an_error_and_all_can_be_listed(file, case):
    name, content, options, lines = case
    file(PLAIN, "a.txt")  # of a.ann
    path = file(content, name)
    errors = read(path, collect=True, **options).errors
    assert [error.line or 0 for error in errors] == lines
    with pytest.raises(InputError) as end:
        read(path, **options)
    assert str(end.value) == str(errors[0])
    assert not any(error.message.startswith("None") for error in errors)
    assert end.value.path == path


def test_errors_say_what_is_missing(file):
    for fields in ({}, {"text": None, "spans": []}, {"text": 3, "tokens": ["a"]}):
        with pytest.raises(InputError, match="expected tokens or a text"):
            read(file(line(**fields), "a.jsonl"))
    with pytest.raises(InputError, match=r"right file\?$"):
        read(file("", "a.conllu"))


def test_options_of_other_formats_are_refused(file):
    path = file(line(tokens=["a"], labels=["O"]), "a.jsonl")
    wrong = {"label_column": 1, "comments": "#", "encoding": "utf-99", "format": "xml"}
    for option, value in wrong.items():
        with pytest.raises(InputError):
            read(path, **{option: value})
    with pytest.raises(FileNotFoundError, match=r"a\.jsonl"):
        read(path.with_name("b.conll"))


def test_both_files_of_a_pair_have_to_be_there(file):
    path = file("Rome", "train/a.txt")
    file("T1 X 0 4\n", "train/b.ann")
    file("", "train/c.ann")
    file("a\n\xe9".encode("latin-1"), "train/c.txt")
    errors = read(path.parent, collect=True).errors
    places = [(error.path.name, error.line or 0) for error in errors]
    assert places == [("a.ann", 0), ("b.txt", 0), ("c.txt", 2)]
    with pytest.raises(IsADirectoryError):
        read(file("x", "other/readme").parent)


# Writing

# What a reader can yield; docs/data.md has what a format cannot hold.
tokens = st.sampled_from(["word", DOCSTART, "-DOCSTART- x", "#begin", "\ufeffa"])
tokens |= blank_cells
kinds = st.sampled_from(["PER", "Person-Name", "B-x", "é", "A", "A-", "S", "_"])
kinds |= blank_cells


@st.composite
def spans_of(draw, length):
    labels, position = ["O"] * length, 0
    while position < length:
        size = draw(st.integers(1, length - position))
        if draw(st.booleans()):
            names = schemes.to_labels([(0, size, draw(kinds))], size, "BIO")
            labels[position : position + size] = names
        position += size
    return labels


def holds(format, example):
    """Whether the page says that a format can hold a sentence."""
    types = {label[2:] for label in example.labels} - {""}
    forbidden = {"conllu": "|", "conll2012": " ()*", "brat": " ;"}.get(format, "")
    words = example.tokens if format == "conll2012" else ()
    return not any({*x} & {*forbidden} for x in types) and " " not in "".join(words)


@pytest.mark.parametrize("format", FORMATS)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_what_a_reader_yields_comes_back_or_is_refused(tmp_path_factory, data, format):
    has_all = format in ("conll2012", "brat", "spacy")  # all are in documents
    steps = st.integers(0, 2 if "conll" in format or format == "brat" else 1)
    examples = data.draw(corpora(tokens, spans_of, steps, int(has_all)))
    path = tmp_path_factory.mktemp("wild") / "a"
    if not all(holds(format, example) for example in examples):
        with pytest.raises(InputError):
            write(path, examples, format)
        assert not path.exists()
        return
    write(path, examples, format)
    options = {"tokenizer": "whitespace"} if format == "brat" else {}
    copy = read(path, format, **options)
    if format == "brat" and any(" " in t for e in examples for t in e.tokens):
        texts = [
            [" ".join(e.tokens).split() for e in x] for x in (copy.examples, examples)
        ]
        assert texts[0] == texts[1]  # brat has no tokens, only a text
        return
    assert content_of(copy.examples) == content_of(examples)
    assert not copy.notes or format == "conllu"  # which says that there is no entity
    if not FORMATS[format].has_spans:
        path = path.with_name("tags")
        write(path, examples, format, tags=True)
        copy = read(path, format, tags=True).examples
        assert content_of(copy) == content_of(examples)


def test_what_cannot_be_written_is_refused(tmp_path):
    cases = {
        **{"conll": [(x, "O") for x in ("\t", "a\r", " ")]},
        "tsv": [("a\nb", "O"), ("\ud800", "O"), ("\udfff", "O")],
        **{"conll2012": [("a b", "O"), ("a", "B-(")], "brat": [("a", "B-x y")]},
        **{"conllu": [("a\tb", "O"), ("a", "B-x|y")], "parquet": [("a", "O")]},
        "jsonl-spans": [("a", "NOUN")],
    }
    for format, rows in cases.items():
        for token, label in rows:
            with pytest.raises(InputError):
                write(tmp_path / "a", [Example((token,), (label,))], format)
    for format, label in (("brat", "O"), ("jsonl-spans", "O"), ("conllu", "_")):
        examples = [Example(("a",), (label,))]
        with pytest.raises(InputError):
            write(tmp_path / "a", examples, format, tags=True)
    assert not any(tmp_path.iterdir())
    (tmp_path / "mine.txt").write_text("mine")
    for path in (tmp_path, tmp_path / "mine.txt"):
        with pytest.raises(FileExistsError):
            write(path, examples, "brat")


def test_rows_that_look_like_a_header_come_back(tmp_path):
    path, rows = tmp_path / "a.conll.gz", [("word", "x", "tag"), ("a", "b", "c")]
    formats.write_columns(path, [rows, [("a", "b b", "c")]], [0, 2])
    expected = [(0, 2, ("word", "a"), ("tag", "c")), (2, 9, ("a",), ("c",))]
    assert rows_of(path) == expected
    assert path.read_bytes()[:2] == b"\x1f\x8b"


def test_utf_16_is_suspected(file):
    wide = "a O\n".encode("utf-16")
    line = json.dumps({"tokens": ["a"], "labels": ["O"]}).encode("utf-16")
    for content, name in ((wide, "b.conll"), (line, "b.json")):
        with pytest.raises(InputError, match=r"is not utf-8; .* file, utf-16"):
            read(file(content, name))
    with pytest.raises(InputError, match=r"to that of the file: '"):
        read(file("það O\n".encode("latin-1"), "b.conll"))
    (example,) = read(file(wide, "b.conll"), encoding="utf-16").examples
    assert example.tokens == ("a",)


def test_predictions_of_a_token_that_looks_like_a_mark_come_back(tmp_path):
    rows = [[(DOCSTART, "O", "B-X")], [("a", "B-X", "O"), (f"{DOCSTART} b", "O", "O")]]
    formats.write_columns(path := tmp_path / "a.conll", rows, [0, 2])
    gold, predicted, tokens, _ = predictions.read_labels(path)
    sentences = zip(tokens, gold, predicted, strict=True)
    assert [[*zip(*columns, strict=True)] for columns in sentences] == rows
    assert [example.document for example in read(path).examples] == [0, 2]


def test_lines_that_are_written(tmp_path):
    examples = [Example(("a",), ("B-X",)), Example(("b", "c"), ("B-X", "I-X"), 2)]
    a, b, c = u(1, *"a_", "NER=B-X"), u(1, *"b_", "NER=B-X"), u(2, *"c_", "NER=I-X")
    for format, expected in {
        "conll": "a B-X\n\n" + "-DOCSTART- O\n\n" * 2 + "b B-X\nc I-X\n\n",
        "conllu": f"{a}\n# newdoc\n# newdoc\n{b}{c}\n",
    }.items():
        write(path := tmp_path / "a", examples, format)
        assert path.read_text() == expected
    write(tmp_path / "b", [Example(("a ",), ("B-X",), 1)], "brat")
    assert (tmp_path / "b" / "00001.ann").read_text() == "T1\tX 0 1\ta\n"


def test_names_show_the_formats_of_files_to_tag_and_of_their_labels(tmp_path):
    outputs = {"a.conll": "conll", "a.txt": "conll", "a.JSONL.gz": "jsonl"}
    assert {p: formats.guess_output(p, "text") for p in outputs} == outputs
    names = [formats.guess_output("-", x) for x in formats.RAW]
    assert names == ["jsonl", "conll", "jsonl"]
    raw = {"-": "text", "a.TXT.GZ": "text", "a.text": "text", "a.json": "jsonl"}
    raw |= {"a.tsv": "conll", "a.iob2": "conll"}
    assert {path: formats.guess_raw(path) for path in raw} == raw
    os.mkfifo(pipe := tmp_path / "a.jsonl")
    assert formats.guess_raw(str(pipe)) == "jsonl"
    for guess in (lambda p: formats.guess_output(p, "text"), formats.guess_raw):
        for path in ("a.csv", "a.conllu"):
            with pytest.raises(InputError):
                guess(path)
    # As --format conll, an ID would be a token.
    with pytest.raises(InputError, match=r"OUT\.conll first$"):
        formats.guess_raw("a.conllu")
    # Read as columns, prose would lose all words but the first of each line.
    for name in ("A", "a.md", "a.log.gz"):
        (tmp_path / name).touch()
        with pytest.raises(
            InputError, match=f"The name '{name}' shows no format: give"
        ):
            formats.guess_raw(str(tmp_path / name))
    (tmp_path / "texts").mkdir()
    with pytest.raises(IsADirectoryError, match="Expected a file"):
        formats.guess_raw(str(tmp_path / "texts"))


# Cost


def nested(count):
    """Spans of a text, each within the one before."""
    spans = [[i, 2 * count - 1, "X"] for i in range(0, count, 2)]
    return line(text="a " * count, spans=spans)


def wrong_texts(count):
    span = {"start": 0, "end": 2 * count, "label": "X", "text": "a"}
    return line(text="a " * count, spans=[span] * count)


def fragments(count):
    lines = (f"T{i}\tX {4 * i} {4 * i + 3}\tabc\n" for i in range(count))
    return "".join(lines), "abc\n" * count


PAIR = '"k{}":1,'.format
COSTLY = {
    "rows": ("a.conll", lambda n: "a O\n" * n, {}),
    "sentences": ("a.conll", lambda n: "a O\n\n" * n, {}),
    "wrong rows": ("a.conll", lambda n: "a O\n" + "a\n" * n, {}),
    "groups": ("a.tsv", lambda n: "sent\tword\ttag\n" + "1\ta\tO\n2\ta\tO\n" * n, {}),
    "ranges": ("a.conllu", lambda n: u(f"1-{n}") * n + u(1), {}),
    "entities": ("a_conll", lambda n: c12(0, "(X)") * n, {}),
    "text": ("a.jsonl", lambda n: line(text="a b " * n, spans=[]), {}),
    "nested": ("a.jsonl", nested, {"unfit": "drop"}),
    "overlaps": ("a.jsonl", nested, {}),
    "whole": (
        "a.jsonl",
        lambda n: line(text="A ran. " * n, spans=[[0, 7 * n - 1, "X"]]),
        {"split_sentences": True},
    ),
    "wrong texts": ("a.jsonl", wrong_texts, {}),
    "wrong ends": ("a.ann", lambda n: (f"T1\tX 0 {4 * n}\tab\n" * n, "abc\n" * n), {}),
    "emoji": ("a.jsonl", lambda n: line(text="😀 " * n, spans=[[0, 1, "X"]]), {}),
    "keys": ("a.jsonl", lambda n: f'{{{"".join(map(PAIR, range(n)))}"0":1,"0":1}}', {}),
    "objects": ("a.json", lambda n: "[" + "{}," * n + "{}]", {}),
    "brat": ("a.ann", fragments, {}),
}


@pytest.mark.parametrize("name", COSTLY)
def test_cost_grows_with_the_file(tmp_path, name):
    file_name, make, options = COSTLY[name]

    def write_file(count):
        path, content = tmp_path / str(count) / file_name, make(count)
        path.parent.mkdir(exist_ok=True)
        content, text = content if isinstance(content, tuple) else (content, "")
        path.with_suffix(".txt").write_text(text)
        path.write_text(content)
        return path

    def read_file(path):
        return read(path, collect=True, **options)

    assert growth(read_file, write_file, 600) < LINEAR
