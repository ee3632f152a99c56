"""Each format reads back what it writes, also after conversion to another."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxner.data import readers, schemes
from jaxner.data.readers import spans
from jaxner.data.readers.examples import Example
from jaxner.data.schemes import Span

# What every format can hold: no blanks, brackets, stars, bars nor semicolons.
odd = st.sampled_from("\xa0\u2028\ufeff#-é組'\"{")
letters = odd | st.characters(
    exclude_characters=" \t\r\n()*|;_", exclude_categories=["Cs", "Cc"]
)
cells = st.text(letters, min_size=1, max_size=4).filter(
    lambda s: s[0] not in "-\ufeff#"
)
types = st.sampled_from(["PER", "Person-Name", "B-x", "é"])


@st.composite
def corpora(draw):
    examples, document = [], 1
    for _ in range(draw(st.integers(1, 4))):
        tokens = draw(st.lists(cells, min_size=1, max_size=5))
        cuts = sorted(draw(st.sets(st.integers(0, len(tokens)), max_size=4)))
        its = [
            Span(a, b, draw(types)) for a, b in zip(cuts[::2], cuts[1::2], strict=False)
        ]
        labels = tuple(schemes.to_labels(its, len(tokens), "BIO"))
        examples.append(Example(tuple(tokens), labels, document, 1))
        document += draw(st.integers(0, 1))
    return examples


def content(examples):
    first = examples[0].document
    return [(e.document - first, e.tokens, e.labels) for e in examples]


@settings(max_examples=40, deadline=None)
@given(examples=corpora())
@pytest.mark.parametrize("format", readers.FORMATS)
def test_what_is_written_is_read_back(tmp_path_factory, format, examples):
    path = tmp_path_factory.mktemp("written") / "a"
    readers.write(path, examples, format=format)
    format = format.replace("-spans", "")
    back = readers.read(path, format=format, tokenise=spans.at_blanks)
    assert content(back.examples) == content(examples)
    assert not back.notes


@settings(max_examples=25, deadline=None)
@given(examples=corpora(), data=st.data())
def test_formats_convert_into_each_other(tmp_path_factory, examples, data):
    folder = tmp_path_factory.mktemp("chain")
    expected = content(examples)
    for i, format in enumerate(data.draw(st.permutations(readers.FORMATS))):
        readers.write(folder / str(i), examples, format=format)
        options = {"format": format, "tokenise": spans.at_blanks}
        examples = readers.read(folder / str(i), **options).examples
    assert content(examples) == expected


@pytest.mark.parametrize("format", ["conll", "conll2012", "conllu", "jsonl", "tsv"])
def test_tags_are_written_and_read_back(tmp_path, format):
    examples = [Example(("Rome", "wins"), ("NNP", "VBZ"), 1, 1)]
    readers.write(tmp_path / "a", examples, format=format, tags=True)
    back = readers.read(tmp_path / "a", format=format, tags=True).examples
    assert content(back) == content(examples)


@pytest.mark.parametrize(
    ("format", "token", "label", "message"),
    [
        ("conll2012", "a b", "O", "Sentence 0 cannot be written as CoNLL-2012: 'a b'"),
        ("conll2012", "a", "B-(", r"The type '\(' holds a blank, a bracket or a star"),
        ("conllu", "a\tb", "O", "Sentence 0 cannot be written as CoNLL-U"),
        ("conllu", "a", "B-x|y", r"MISC holds no \|, but a label is 'B-x\|y'"),
        ("tsv", "a\nb", "O", "Sentence 0 cannot be written as a table"),
        ("brat", "a", "B-x y", "The type 'x y' holds a blank or a semicolon"),
        ("jsonl-spans", "a", "NOUN", "Label 'NOUN' is neither"),
        ("parquet", "a", "O", "Unknown format 'parquet'; known: conll, conll2012"),
    ],
)
def test_what_cannot_be_written_is_refused(tmp_path, format, token, label, message):
    with pytest.raises(ValueError, match=message):
        readers.write(
            tmp_path / "a", [Example((token,), (label,), 0, 1)], format=format
        )
    assert not any(tmp_path.iterdir())


def test_tags_are_no_spans_and_brat_overwrites_nothing(tmp_path):
    examples = [Example(("a",), ("O",), 0, 1)]
    with pytest.raises(ValueError, match="brat holds spans, and these labels are tags"):
        readers.write(tmp_path / "a", examples, format="brat", tags=True)
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="new or empty folder for brat"):
        readers.write(tmp_path, examples, format="brat")
