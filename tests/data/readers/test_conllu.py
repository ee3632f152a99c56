"""Words and tags of a treebank are read; each problem has its line."""

import gzip
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxner.data.readers import conllu
from jaxner.data.readers.examples import ConllError

# As the treebank of the issue has them: a contraction, an omitted verb, documents.
TEXT = """\
# newdoc id = one
# sent_id = 1
# text = I don't, Sue tea.
1\tI\tI\tPRON\tPRP\tCase=Nom\t2\tnsubj\t_\t_
2-3\tdon't\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No
2\tdo\tdo\tAUX\tVBP\t_\t0\troot\t_\t_
3\tn't\tnot\tPART\tRB\t_\t2\tadvmod\t_\t_
4\t,\t,\tPUNCT\t,\t_\t5\tpunct\t_\t_
5\tSue\tSue\tPROPN\tNNP\t_\t2\tparataxis\t_\t_
5.1\tdrinks\tdrink\tVERB\tVBZ\t_\t_\t_\t0:root\t_
6\tgreen tea\ttea\tNOUN\tNN\t_\t5\torphan\t_\t_

# newpar
1\t#\t#\tSYM\tNFP\t_\t0\troot\t_\t_
2\t_\t_\tPUNCT\tNFP\t_\t1\tpunct\t_\t_


# newdoc
# newdocument is no comment that CoNLL-U knows
1\tYes\tyes\tINTJ\tUH\t_\t0\troot\t_\t_
"""
TOKENS = [("I", "do", "n't", ",", "Sue", "green tea"), ("#", "_"), ("Yes",)]


@pytest.fixture
def file(tmp_path):
    def write(content):
        path = tmp_path / "a.conllu"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def row(number, form="a", tag="X"):
    return f"{number}\t{form}\t_\t{tag}\t_\t_\t_\t_\t_\t_\n"


@pytest.mark.parametrize(
    "encoded",
    [
        TEXT.encode(),
        ("\ufeff" + TEXT).replace("\n", "\r\n").encode(),
        gzip.compress(TEXT.encode(), mtime=0),
        TEXT.rstrip("\n").encode(),
    ],
    ids=["plain", "BOM and CRLF", "gzip", "no line end at the end"],
)
def test_words_tags_documents_and_lines(file, encoded):
    examples = conllu.read(file(encoded))
    assert [e.tokens for e in examples] == TOKENS
    assert [e.labels for e in examples] == [
        ("PRON", "AUX", "PART", "PUNCT", "PROPN", "NOUN"),
        ("SYM", "PUNCT"),
        ("INTJ",),
    ]
    assert [e.document for e in examples] == [1, 1, 2]
    lines = TEXT.split("\n")
    for example in examples:
        for position, token in enumerate(example.tokens):
            assert lines[example.line_of(position) - 1].split("\t")[1] == token


def test_other_columns(file):
    path = file(TEXT)
    examples = conllu.read(path, label_column=conllu.XPOS)
    assert examples[0].labels == ("PRP", "VBP", "RB", ",", "NNP", "NN")
    examples = conllu.read(path, token_column=2, label_column=-3)
    assert examples[0].tokens == ("I", "do", "not", ",", "Sue", "tea")
    assert examples[0].labels[1:3] == ("root", "advmod")
    assert conllu.read(path, label_column=None)[1].labels is None
    with pytest.raises(ValueError, match=r"no column 10; it has 0 ID, 1 FORM, .*MISC"):
        conllu.read(path, label_column=10)
    with pytest.raises(ValueError, match="no column -11"):
        conllu.read(path, token_column=-11)


words = st.text(
    st.characters(exclude_characters="\t\r\n", exclude_categories=["Cs"]),
    min_size=1,
    max_size=4,
).filter(lambda word: word.strip(" "))
tags = words.filter(lambda tag: tag != "_")


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_no_word_is_lost_whatever_stands_between(tmp_path_factory, data):
    sentence = st.lists(st.tuples(words, tags), min_size=1, max_size=4)
    sentences = data.draw(st.lists(sentence, min_size=1, max_size=3))
    between = st.sampled_from(["", "", "{1}-{2}", "{0}.1", "{0}.1,{1}-{2}"])
    text = ""
    for pairs in sentences:
        text += data.draw(st.sampled_from(["", "# a comment\n", "#\n# newpar\n"]))
        last = 0
        for number, (word, tag) in enumerate(pairs, 1):
            for skipped in filter(None, data.draw(between).split(",")):
                if "-" in skipped:
                    if not last < number < len(pairs):
                        continue  # ranges neither overlap nor end behind the sentence
                    last = number + 1
                skipped = skipped.format(number - 1, number, number + 1)
                text += row(skipped, "of no account")
            text += row(number, word, tag)
        text += data.draw(st.sampled_from(["\n", "\n\n", " \n\t\n"]))
    path = tmp_path_factory.mktemp("read") / "a.conllu"
    path.write_bytes(text.encode())
    examples = conllu.read(path)
    found = [list(zip(e.tokens, e.labels, strict=True)) for e in examples]
    assert found == sentences
    lines = text.split("\n")
    for example in examples:
        last = len(example.tokens) - 1
        assert lines[example.line_of(last) - 1].split("\t")[1] == example.tokens[-1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (row(1) + "2 a X\n", ":2: expected 10 columns, with tabs, got 1: '2 a X'"),
        (row(1) + "2\ta\tX\n", ":2: expected 10 columns, with tabs, got 3"),
        (row(1) + "# x\n" + row(2), ":2: expected a word, got a comment within a sen"),
        (row(1) + row(3), ":2: expected word 2 of its sentence, got '3'"),
        (row(0), ":1: expected word 1 of its sentence, got '0'"),
        (row(1) + row(1), ":2: expected word 2 of its sentence, got '1'"),
        (row("x"), ":1: expected word 1 of its sentence, got 'x'"),
        (row(1, form=" "), ":1: expected a FORM, got a blank"),
        (row(1, tag=""), ":1: expected a UPOS, got a blank"),
        (row(1, tag="_"), ":1: expected a label in UPOS, got _ (no value)"),
        (row("1-2") + "\n" + row(1), ":1: expected a sentence with a word, got none"),
        (
            row("2-1") + row(1),
            ":1: expected a range from word 1 to a later",
        ),
        (row("2-3") + row(1) + row(2), ":1: expected a range from word 1 to a later"),
        (row("1-2") + row(1) + row("2-3") + row(2), ":3: expected a range from word 3"),
        (row("1-3") + row(1) + row(2), ":3: expected words up to 3, which a range"),
        (row(1) + row("2.1"), ":2: expected an empty node 1.1 or later, got '2.1'"),
        (row(1).replace("a", "a\r"), ":1: carriage return within the line"),
        ("# only a comment\n", ": expected lines of tokens, got none"),
        ("", ": expected lines of tokens, got none"),
        (row(1, "é").encode("latin-1"), ":1: byte 0xe9 (number 2 from 0) is not utf-8"),
        (gzip.compress(row(1).encode() * 99, mtime=0)[:-9], ": damaged gzip file"),
    ],
)
def test_what_is_wrong_has_its_line(file, text, message):
    path = file(text)
    with pytest.raises(ConllError, match=re.escape(f"{path}{message}")):
        conllu.read(path)


def test_all_problems_are_told_and_how_to_mend_them(file):
    path = file(row(1) + row(3) + row(4, tag="_") + "\n" + row(1) + "2\n")
    with pytest.raises(ConllError) as caught:
        conllu.read(path)
    # One word too few is one problem, not one for each word after it.
    assert [p.split(": ")[0] for p in caught.value.problems] == [
        f"{path}:2",
        f"{path}:3",
        f"{path}:6",
    ]
    message = str(caught.value)
    assert "Words are numbered from 1, and a blank line ends a sentence." in message
    assert "set `label_column` to a column that is annotated: 3 is UPOS, 4 X" in message
    assert "give a file with a word and its label in each line another name" in message


def test_no_value_is_no_problem_where_no_label_is_read(file):
    examples = conllu.read(file(row(1, tag="_")), label_column=None)
    assert examples[0].tokens == ("a",)


@pytest.mark.parametrize("column", [1, -9])
def test_a_column_cannot_be_token_and_label(tmp_path, column):
    path = tmp_path / "train.conllu"
    path.write_text(TEXT)
    with pytest.raises(ValueError, match="both token and label; CoNLL-U has tags in"):
        conllu.read(path, label_column=column)


NER = "1\tIn\t_\tADP\t_\t_\t_\t_\t_\tSpaceAfter=No|NER=O\n" + (
    "2\tRome\t_\tPROPN\t_\t_\t_\t_\t_\tNER=B-City-Name|ner=x\n3\t.\t_\tX"
    + "\t_" * 6
    + "\n"
)


def test_entities_are_read_from_misc(file):
    path = file(NER)
    (example,) = conllu.read(path, label_column=conllu.MISC)
    assert example.labels == ("O", "B-City-Name", "O")
    assert conllu.has_entities(NER.encode())
    assert not conllu.has_entities(TEXT.encode())
    path = file(TEXT)
    message = r":4: no word has an entity in MISC \(looked for NER, ner, Entity"
    with pytest.raises(ConllError, match=message):
        conllu.read(path, label_column=conllu.MISC)
