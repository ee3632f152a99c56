"""The reader returns all that is in a file, and reports each problem's line."""

import gzip
import io
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxner.data.readers import conll
from jaxner.data.readers.examples import ConllError, Example

# Characters that str.split() and str.splitlines() take for separators are favoured.
ODD = "\xa0\x85\u2028\u2029\x0b\x0c\x1c\x1f\u3000\ufeff#-é组"
letters = st.sampled_from(ODD) | st.characters(
    exclude_characters=" \t\r\n", exclude_categories=["Cs"]
)
cells = st.text(letters, min_size=1, max_size=4).filter(lambda s: s != conll.DOCSTART)
# In files separated by tabs, cells may hold blanks.
blank_cells = st.text(letters | st.just(" "), min_size=1, max_size=4).filter(
    lambda s: s.strip(" ") and s != conll.DOCSTART
)


@st.composite
def corpora(draw, cells):
    """Documents of sentences of rows."""
    width = draw(st.integers(2, 4))
    row = st.lists(cells, min_size=width, max_size=width)
    sentence = st.lists(row, min_size=1, max_size=4)
    documents = draw(st.lists(st.lists(sentence, max_size=3), min_size=1, max_size=3))
    return documents if any(documents) else [[draw(sentence)]]


def expected(documents, first):
    return [
        (number, [row[0] for row in sentence], [row[-1] for row in sentence])
        for number, document in enumerate(documents, first)
        for sentence in document
    ]


def found(examples):
    return [(e.document, list(e.tokens), list(e.labels)) for e in examples]


@settings(max_examples=150)
@given(data=st.data())
def test_no_token_is_lost_whatever_the_file_looks_like(tmp_path_factory, data):
    tabs = data.draw(st.booleans(), "tabs")
    documents = data.draw(corpora(blank_cells if tabs else cells), "documents")
    marked = len(documents) > 1 or data.draw(st.booleans(), "marked")
    separators = st.just("\t") if tabs else st.sampled_from([" ", "  ", "   "])
    ends = st.sampled_from(["", " ", "\t", " \t"])
    lines = []
    for document in documents:
        if marked:
            rest = data.draw(st.sampled_from(["", " -X- O O", "\tid\tO"]))
            lines.append(conll.DOCSTART + rest)
            lines += [""] * data.draw(st.integers(0, 1))
        for sentence in document:
            lines += [data.draw(separators).join(row) for row in sentence]
            lines += [data.draw(ends) for _ in range(data.draw(st.integers(1, 2)))]
    if data.draw(st.booleans(), "no blank line at the end"):
        while lines and not lines[-1].strip(" \t"):
            lines.pop()
    newline = data.draw(st.sampled_from(["\n", "\r\n"]), "newline")
    text = newline.join(lines) + data.draw(st.sampled_from(["", newline]), "end")
    if text.startswith("\ufeff") or data.draw(st.booleans(), "mark"):
        text = "\ufeff" + text
    content = text.encode()
    if data.draw(st.booleans(), "zipped"):
        content = gzip.compress(content, 1)
    path = tmp_path_factory.getbasetemp() / "random.conll"
    path.write_bytes(content)

    examples = conll.read(path)

    assert found(examples) == expected(documents, int(marked))
    for example in examples:
        assert (
            lines[example.line - 1]
            .lstrip("\ufeff")
            .startswith(example.tokens[0].lstrip("\ufeff"))
        )


@settings(max_examples=60)
@given(data=st.data(), ending=st.sampled_from(["conll", "conll.gz"]))
def test_what_is_written_is_read_back(tmp_path_factory, data, ending):
    tabs = data.draw(st.booleans(), "tabs")
    documents = data.draw(corpora(blank_cells if tabs else cells), "documents")
    path = tmp_path_factory.getbasetemp() / f"written.{ending}"
    conll.write(
        path,
        [sentence for document in documents for sentence in document],
        separator="\t" if tabs else " ",
        documents=[n for n, document in enumerate(documents) for _ in document],
    )
    assert found(conll.read(path)) == expected(documents, 0)


@pytest.fixture
def file(tmp_path):
    """Writes a file and returns its path."""

    def make(content, name="a.conll"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return make


def test_examples_know_their_lines_and_documents(file):
    path = file("-DOCSTART- -X- O\n\nEU NNP I-ORG\n\n\n-DOCSTART- O\nA B C\nD E F")
    assert conll.read(path) == [
        Example(("EU",), ("I-ORG",), 1, 3),
        Example(("A", "D"), ("C", "F"), 2, 7),
    ]


def test_columns_can_be_chosen(file):
    path = file("1\tEU\tNNP\n2\tx y\tVB\n")
    examples = conll.read(path, token_column=1, label_column=None)
    assert examples == [Example(("EU", "x y"), None, 0, 1)]
    examples = conll.read(path, token_column=-2, label_column=0)
    assert examples == [Example(("EU", "x y"), ("1", "2"), 0, 1)]
    assert conll.read(file("a\nb\n"), label_column=None)[0].tokens == ("a", "b")


def test_hashes_begin_tokens_unless_comments_are_asked_for(file):
    path = file("# one\n#nlp O\n# O\n\n#x B\n")
    assert conll.read(path)[0].tokens == ("#", "#nlp", "#")
    tokens = [e.tokens for e in conll.read(path, comments="# ")]
    # The second "# O" stands within a sentence, so that it is a token.
    assert tokens == [("#nlp", "#"), ("#x",)]
    assert conll.read(path, comments="# ")[0].line == 2


def test_other_encodings_can_be_read(file):
    path = file("é B-X\n".encode("utf-16"))
    assert conll.read(path, encoding="utf-16")[0].tokens == ("é",)


def test_all_lines_with_other_column_counts_are_reported(file):
    lines = ["EU NNP I-NP I-ORG"] + ["EU NNP B-NP"] * 30
    path = file("\n".join(lines))
    with pytest.raises(ConllError) as caught:
        conll.read(path)
    message = str(caught.value)
    assert f"{path}:2: expected 4 columns, got 3: 'EU NNP B-NP'\n" in message
    assert f"{path}:21: " in message
    assert f"{path}:22: " not in message
    assert "the first 20 of 30 problems" in message
    assert "as many columns as line 1" in message
    assert len(caught.value.problems) == 30


def test_a_line_without_tabs_in_a_file_with_tabs_is_not_split_at_blanks(file):
    with pytest.raises(ConllError, match="2: expected 2 columns, got 1: 'New York'"):
        conll.read(file("a\tO\nNew York\n"))


def test_a_stray_tab_is_shown(file):
    with pytest.raises(ConllError, match=re.escape(r"got 3: 'EU\tO\t'")):
        conll.read(file("a\tO\nEU\tO\t\n"))


@pytest.mark.parametrize("text", ["# a b c\nEU O\n", "# id\nEU X O\n"])
def test_a_comment_that_sets_the_columns_is_suspected(file, text):
    with pytest.raises(ConllError, match="line 1 is a comment, set `comments='#'`"):
        conll.read(file(text))


@pytest.mark.parametrize("line", ["\tO", "EU\t", "  \tO", "EU\t "])
def test_blank_tokens_and_labels_are_reported(file, line):
    with pytest.raises(ConllError, match=":2: the token or the label is blank"):
        conll.read(file(f"a\tO\n{line}\n"))


@pytest.mark.parametrize("text", ["a O\rb O\r", "a O\r\r\nb O\n"])
def test_carriage_returns_within_lines_are_reported(file, text):
    with pytest.raises(ConllError, match=":1: carriage return within the line"):
        conll.read(file(text))


def test_bytes_that_are_no_text_are_reported_with_their_line(file):
    path = file("a O\nb O\nété O\n".encode("latin-1"))
    with pytest.raises(
        ConllError, match=r":3: byte 0xe9 .* is not utf-8: (.|\n)*UTF-8"
    ):
        conll.read(path)


@pytest.mark.parametrize("text", ["", "\n\n", "-DOCSTART- O\n\n", "\ufeff"])
def test_files_without_tokens_are_refused(file, text):
    with pytest.raises(ConllError, match="expected lines of tokens, got none"):
        conll.read(file(text))


@pytest.mark.parametrize(
    ("token", "label"), [(0, 2), (2, -1), (-3, 1), (0, -2), (1, -1), (0, 0)]
)
def test_columns_that_are_not_there_are_refused(file, token, label):
    message = rf":1: expected tokens and labels in columns {token}, {label}, got 2"
    with pytest.raises(ConllError, match=message):
        conll.read(file("a O\n"), token_column=token, label_column=label)


def test_a_file_of_one_column_has_no_labels(file):
    with pytest.raises(
        ConllError, match="one column: 'a'\nSeparate columns by tabs or"
    ):
        conll.read(file("a\n"))
    with pytest.raises(ConllError, match="by tabs or blanks, not commas"):
        conll.read(file("Milan,B-LOC\n"))


def test_missing_files_are_named_with_their_neighbours(file):
    path = file("a O\n")
    with pytest.raises(FileNotFoundError, match=r"No file .*b\.conll; .*a\.conll"):
        conll.read(path.with_name("b.conll"))


def test_damaged_gzip_is_reported(file):
    path = file(gzip.compress(b"a O\n" * 100)[:-10])
    with pytest.raises(ConllError, match=r"a\.conll: damaged gzip file"):
        conll.read(path)


def test_writing_is_all_or_nothing(file):
    path = file("before")
    with pytest.raises(ValueError, match="Sentence 1 could not be read back"):
        conll.write(path, [[("a", "O")], [("b c", "O")]])
    assert path.read_text() == "before"
    assert [entry.name for entry in path.parent.iterdir()] == ["a.conll"]


@pytest.mark.parametrize(
    ("rows", "separator"),
    [
        ([("a b", "O")], " "),
        ([("a\tb", "O")], " "),
        ([("a\tb", "O")], "\t"),
        ([("a b",)], "\t"),
        ([("a\r", "O")], "\t"),
        ([("a\n", "O")], " "),
        ([("", "O")], " "),
        ([(" ", "O")], "\t"),
        ([("-DOCSTART-", "O")], " "),
        ([("a", "O"), ("b",)], " "),
    ],
)
def test_rows_that_could_not_be_read_back_are_refused(rows, separator):
    with pytest.raises(ValueError, match=r"Sentence 0 could not be read back: \['"):
        conll.write(io.StringIO(), [rows], separator=separator)


def test_sentences_that_could_not_be_read_back_are_refused():
    with pytest.raises(ValueError, match="Sentence 0 has no tokens"):
        conll.write(io.StringIO(), [[]])
    with pytest.raises(ValueError, match="Sentence 1 has a lower document"):
        conll.write(io.StringIO(), [[("a",)], [("b",)]], documents=[2, 1])
    with pytest.raises(ValueError, match="shorter"):
        conll.write(io.StringIO(), [[("a",)], [("b",)]], documents=[1])
    with pytest.raises(ValueError, match="Unknown separator ','; known"):
        conll.write(io.StringIO(), [[("a",)]], separator=",")


def test_documents_are_written_as_lines_of_their_own():
    out = io.StringIO()
    conll.write(out, [[("a", "O")], [("b", "O")], [("c", "O")]], documents=[1, 1, 2])
    bound = "-DOCSTART- O\n\n"
    assert out.getvalue() == f"{bound}a O\n\nb O\n\n{bound}c O\n\n"
