"""Corpora are found by name or folder, and compared with published facts."""

import hashlib
import os
import re
from pathlib import Path

import pytest

from jaxner.data import corpora, schemes
from jaxner.data.readers import conll
from jaxner.data.readers.examples import ConllError

TEXT = "EU NNP I-ORG\nsays VB O\n\nParis NNP I-LOC\nLondon NNP B-LOC\n"


@pytest.fixture
def data(tmp_path, monkeypatch):
    """The folder that JAXNER_DATA names."""
    monkeypatch.setenv(corpora.DATA_VARIABLE, str(tmp_path))
    return tmp_path


def put(folder, name, text=TEXT):
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(text)
    return path


def test_the_data_folder_is_that_of_the_variable_or_data(data, monkeypatch):
    assert corpora.data_folder() == data
    monkeypatch.delenv(corpora.DATA_VARIABLE)
    assert corpora.data_folder() == Path("data")


@pytest.mark.parametrize("split", corpora.SPLITS)
def test_the_sample_corpus_is_always_there(split):
    found = corpora.load("sample", split)
    assert (found.scheme, found.ill_formed, found.notes) == ("BIO", 0, ())
    assert found.types() == ("LOC", "MISC", "ORG", "PER")


@pytest.mark.parametrize(
    ("corpus", "split", "name"),
    [
        ("conll2003", "train", "eng.train"),
        ("conll2003", "dev", "eng.testa"),
        ("conll2003", "test", "test.txt"),
        ("conll2003", "dev", "dev.conll.gz"),
        ("wnut17", "test", "emerging.test.annotated"),
        ("ontonotes5", "dev", "valid.bio"),
        ("ud_ewt", "train", "train.conllu"),
        ("ud_ewt", "dev", "en_ewt-ud-dev.conllu.gz"),
        ("wsj", "test", "test.txt"),
    ],
)
def test_corpora_are_found_under_their_usual_names(data, corpus, split, name):
    path = put(data / corpus, name)
    assert corpora.find(corpus, split) == path


UD = """1\tI\t_\tPRON\tPRP\t_\t_\t_\t_\t_
2-3\tdon't\t_\t_\t_\t_\t_\t_\t_\t_
2\tdo\t_\tAUX\tVBP\t_\t_\t_\t_\t_
3\tn't\t_\tPART\tRB\t_\t_\t_\t_\t_
"""


def test_tags_are_read_as_they_are(data):
    put(data / "ud_ewt", "test.conllu", UD)
    found = corpora.load("ud_ewt", "test")
    assert found.examples[0].labels == ("PRON", "AUX", "PART")
    assert (found.scheme, found.ill_formed, found.notes) == (schemes.TAGS, 0, ())
    assert found.types() == ("AUX", "PART", "PRON")
    assert found.words() == {"I", "do", "n't"}
    assert found.sizes() == (1, 3)
    assert found.summary() == "ud_ewt test: 1 sentence, 3 tokens of 3 tags"
    assert found.to_scheme(schemes.TAGS) == found.examples
    with pytest.raises(
        ValueError, match=r"are tags and cannot be converted to BIOES.*scheme=tags"
    ):
        found.to_scheme("BIOES")
    xpos = corpora.load("ud_ewt", "test", label_column=4)
    assert xpos.examples[0].labels == ("PRP", "VBP", "RB")


def test_two_columns_of_words_and_tags(data):
    put(data / "wsj", "dev.txt", "Pierre NNP\n, ,\n\n`` ``\n")
    found = corpora.load("wsj", "dev")
    assert found.types() == (",", "NNP", "``")
    assert found.notes == (
        "expected 5,527 sentences as published, got 2",
        "expected 131,768 tokens as published, got 3",
    )


def test_a_column_of_tags_beside_one_of_entities(data):
    put(data / "conll2003", "eng.testa")
    found = corpora.load("conll2003", "dev", scheme=schemes.TAGS, label_column=1)
    assert found.types() == ("NNP", "VB")
    assert [note.split(" as ")[0] for note in found.notes] == [
        "expected 3,250 sentences",
        "expected 51,362 tokens",
    ]
    spans = corpora.load("conll2003", "dev")
    with pytest.raises(
        ValueError, match=r"are spans \(IOB1\) and cannot be converted to tags"
    ):
        spans.to_scheme(schemes.TAGS)


def test_a_treebank_of_your_own_will_do(tmp_path):
    path = put(tmp_path / "gsd", "de_gsd-ud-train.conllu", UD)
    put(tmp_path / "gsd", "de_gsd-ud-train.txt", "Its text.")
    found = corpora.load(None, "train", directory=path.parent, scheme=schemes.TAGS)
    assert (found.path, found.sizes()) == (path, (1, 3))
    with pytest.raises(ConllError) as caught:  # lines are right behind a skipped one
        corpora.load(None, "train", directory=path.parent)
    lines = [problem.split(" ")[0] for problem in caught.value.problems]
    assert lines == [f"{path}:{number}:" for number in (1, 3, 4)]


@pytest.mark.parametrize(
    ("split", "sizes", "documents"),
    [
        ("train", (12_544, 204_577), 540),
        ("dev", (2_001, 25_147), 318),
        ("test", (2_077, 25_094), 316),
    ],
)
def test_the_real_treebank_is_read_whole(split, sizes, documents, unchecked):
    if corpora.DATA_VARIABLE not in os.environ:
        pytest.skip(f"{corpora.DATA_VARIABLE} is not set")
    try:
        found = corpora.load("ud_ewt", split)
    except FileNotFoundError as error:
        pytest.skip(str(error))
    if not found.sha256.startswith(("3fb78e2b", "531a54ff", "e266e515")):
        pytest.skip("another release of the treebank")
    assert found.sizes() == sizes
    assert len(found.types()) == 17
    assert found.examples[-1].document == documents


@pytest.mark.parametrize("name", ["dev.tsv", "valid.iob", "dev.txt.gz"])
def test_a_folder_of_your_own_will_do(tmp_path, name):
    path = put(tmp_path / "mine", name)
    assert corpora.find(path.parent, "dev") == path
    found = corpora.load(None, "dev", directory=path.parent)
    assert (found.name, found.split, found.path) == ("mine", "dev", path)
    assert (found.scheme, found.ill_formed, found.notes) == ("IOB1", 0, ())
    assert found.examples == tuple(conll.read(path))
    assert found.sha256 == hashlib.sha256(TEXT.encode()).hexdigest()
    assert found.types() == ("LOC", "ORG")
    assert found.sizes() == (2, 4, 3)
    summary = "mine dev: 2 sentences, 4 tokens, 3 entities of 2 types, IOB1"
    assert found.summary() == summary


def test_labels_are_converted_on_demand(tmp_path):
    put(tmp_path, "dev.conll")
    found = corpora.load(None, "dev", directory=tmp_path)
    converted = found.to_scheme("BIOES")
    assert [e.labels for e in converted] == [("S-ORG", "O"), ("S-LOC", "S-LOC")]
    assert [e.tokens for e in converted] == [e.tokens for e in found.examples]


def test_columns_can_be_chosen(tmp_path):
    put(tmp_path, "dev.conll", "1 O EU\n2 B-X Paris\n")
    found = corpora.load(
        None, "dev", directory=tmp_path, token_column=2, label_column=1
    )
    assert found.examples[0].tokens == ("EU", "Paris")
    assert found.examples[0].labels == ("O", "B-X")


def test_what_differs_from_the_published_corpus_is_noted(tmp_path):
    put(tmp_path, "eng.testa", "\n\nEU B-ORG\nsays O\nEU B-PER\nParis I-LOC\n")
    found = corpora.load("conll2003", "dev", directory=tmp_path)
    assert (found.scheme, found.ill_formed) == ("BIO", 1)
    assert found.notes == (
        "labels are BIO, not IOB1 as published",
        "1 label breaks BIO, in line 6",
        "expected 3,250 sentences as published, got 1",
        "expected 51,362 tokens as published, got 4",
        "expected 5,942 entities as published, got 3",
    )
    assert found.summary().splitlines()[1:] == [f"  {note}" for note in found.notes]


def test_the_published_scheme_is_kept_unless_another_one_fits_better(tmp_path):
    put(tmp_path, "eng.testa", "EU B-ORG\nParis I-LOC\n")
    found = corpora.load("conll2003", "dev", directory=tmp_path)
    assert (found.scheme, found.ill_formed) == ("IOB1", 1)
    assert found.notes[0] == "1 label breaks IOB1, in line 1"


def test_malformed_labels_are_reported_with_their_lines(tmp_path):
    path = put(tmp_path, "dev.conll", "EU NNP\nsays O\n\nParis I-LOC\nis VB\n")
    with pytest.raises(ConllError) as caught:
        corpora.load(None, "dev", directory=tmp_path)
    assert [problem.split(" Label ")[0] for problem in caught.value.problems] == [
        f"{path}:1:",
        f"{path}:5:",
    ]
    assert "Label 'NNP' is neither 'O' nor PREFIX-TYPE" in str(caught.value)
    assert "Is it the right column? Set `label_column`." in str(caught.value)
    assert "Are they tags without spans? Set `scheme='tags'`" in str(caught.value)


def test_unknown_corpora_are_refused_with_the_known_ones():
    known = "known: sample, conll2003, wnut17, ontonotes5, ud_ewt, wsj; or a directory"
    message = f"Unknown corpus 'conll03'; did you mean 'conll2003'? {known}"
    with pytest.raises(ValueError, match=re.escape(message)):
        corpora.load("conll03", "dev")
    with pytest.raises(ValueError, match=re.escape(f"Unknown corpus 'xyz'; {known}")):
        corpora.find("xyz", "dev")
    with pytest.raises(ValueError, match=re.escape(f"Unknown corpus None; {known}")):
        corpora.load(None, "dev")


def test_unknown_splits_are_refused_with_the_known_ones():
    with pytest.raises(ValueError, match="Unknown split 'valid'; known: train, dev, t"):
        corpora.load("sample", "valid")


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("conll2003", "https://www.clips.uantwerpen.be/conll2003/ner"),
        ("wnut17", "https://github.com/leondz/emerging_entities_17"),
        ("ontonotes5", "LDC2013T19"),
        ("ud_ewt", "https://github.com/UniversalDependencies/UD_English-EWT"),
        ("wsj", "LDC99T42 .*sections 0-18 .*19-21 as dev and 22-24 as test: one word"),
    ],
)
def test_a_missing_corpus_is_an_error_that_says_where_to_get_it(data, name, source):
    with pytest.raises(FileNotFoundError) as caught:
        corpora.load(name, "train")
    message = str(caught.value)
    assert f"No train file of {name}; tried {data / name / 'train.conll'}, " in message
    assert f"{data / name / 'train.conll.gz'}" in message
    assert f"Set JAXNER_DATA to the folder that holds the folder {name}" in message
    assert re.search(source, message)


def test_a_missing_split_of_your_own_folder_is_an_error(tmp_path):
    put(tmp_path, "train.conll")
    with pytest.raises(
        FileNotFoundError,
        match=r"No dev file .* it holds train\.conll.*valid",
    ):
        corpora.load(None, "dev", directory=tmp_path)


def test_several_files_for_one_split_are_an_error(tmp_path):
    put(tmp_path, "dev.conll")
    put(tmp_path, "valid.txt")
    with pytest.raises(
        ValueError, match=r"Several dev files .* dev\.conll, valid\.txt;"
    ):
        corpora.load(None, "dev", directory=tmp_path)


def test_vectors_are_found_by_path_or_by_name(data):
    inside = put(data / "vectors", "glove.txt.gz")
    beside = put(data, "other.txt")
    assert corpora.find_vectors("glove.txt") == inside
    assert corpora.find_vectors("glove.txt.gz") == inside
    assert corpora.find_vectors("other.txt") == beside
    assert corpora.find_vectors(inside) == inside


def test_missing_vectors_are_an_error_that_says_where_to_get_them(data):
    with pytest.raises(FileNotFoundError) as caught:
        corpora.find_vectors("glove.txt")
    message = str(caught.value)
    assert "No word vectors 'glove.txt'; tried glove.txt, glove.txt.gz, " in message
    assert str(data / "vectors" / "glove.txt.gz") in message
    assert "Set JAXNER_DATA" in message
    assert "https://nlp.stanford.edu/projects/glove" in message


# Without OntoNotes' training split, which takes seconds and is no published version.
@pytest.mark.parametrize(
    ("name", "split", "documents"),
    [
        ("conll2003", "train", 946),
        ("conll2003", "dev", 216),
        ("conll2003", "test", 231),
        ("wnut17", "train", 0),
        ("wnut17", "dev", 0),
        ("wnut17", "test", 0),
        ("ontonotes5", "dev", 207),
        ("ontonotes5", "test", 207),
    ],
)
def test_real_corpora_have_their_published_sizes(name, split, documents, unchecked):
    if corpora.DATA_VARIABLE not in os.environ:
        pytest.skip(f"{corpora.DATA_VARIABLE} is not set")
    try:
        found = corpora.load(name, split)
    except FileNotFoundError as error:
        pytest.skip(str(error))
    assert found.sizes() == corpora.CORPORA[name].sizes[split]
    assert found.scheme == corpora.CORPORA[name].scheme
    assert found.examples[-1].document == documents
    # In CoNLL-2003's training split, two entities after an O begin with B.
    assert found.ill_formed == (2 if (name, split) == ("conll2003", "train") else 0)
    assert len(found.notes) == bool(found.ill_formed)
    for example in found.to_scheme("BIOES"):
        assert schemes.violations(example.labels or (), "BIOES") == []
