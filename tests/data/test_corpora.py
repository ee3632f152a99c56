"""Corpora are loaded by name or folder, and compared with published facts."""

import dataclasses
import errno
import functools
import gzip
import hashlib
import os

import pytest

from jaxner.checkpoints import Checkpoints
from jaxner.data import audit, corpora, formats, schemes
from jaxner.errors import InputError, using

TEXT = "EU NNP I-ORG\nsays VB O\n\nParis NNP I-LOC\nLondon NNP B-LOC\n"


@pytest.fixture
def data(tmp_path, monkeypatch):
    """The folder that JAXNER_DATA names."""
    monkeypatch.setenv(corpora.DATA_VARIABLE, str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("split", corpora.SPLITS)
def test_the_sample_corpus_is_always_there(split):
    corpus = corpora.load("sample", split)
    assert (corpus.scheme, corpus.ill_formed) == ("BIO", 0)
    assert ("genres" in corpus.summary()) == (split == "test")  # why its scores are low
    assert corpus.types() == ("LOC", "MISC", "ORG", "PER")


def test_files_are_found_under_their_usual_names(data, file):
    for corpus, split, name in (
        *(("conll2003", "train", "eng.train"), ("conll2003", "dev", "dev.conll.gz")),
        ("wnut17", "test", "emerging.test.annotated"),
        *(("ontonotes5", "dev", "valid.bio"), ("wsj", "test", "test.txt")),
        ("ud_ewt", "dev", "en_ewt-ud-dev.conllu.gz"),
    ):
        path = file(TEXT, f"{corpus}/{name}")
        assert corpora.find(corpus, split) == path
    vectors = file(TEXT, "vectors/glove.txt.gz")
    neighbour = file(TEXT, "other.txt")
    assert corpora.find_vectors("other.txt") == neighbour
    for name in ("glove.txt", "glove.txt.gz", vectors):
        assert corpora.find_vectors(name) == vectors


UD = """1\tI\t_\tPRON\tPRP\t_\t_\t_\t_\t_
2-3\tdon't\t_\t_\t_\t_\t_\t_\t_\t_
2\tdo\t_\tAUX\tVBP\t_\t_\t_\t_\t_
3\tn't\t_\tPART\tRB\t_\t_\t_\t_\t_
"""


def test_tags_are_read_as_they_are(data, file):
    file(UD, "ud_ewt/de_gsd-ud-test.conllu")
    file("Its text.", "ud_ewt/de_gsd-ud-test.txt")
    corpus = corpora.load("ud_ewt", "test")
    assert corpus.examples[0].labels == ("PRON", "AUX", "PART")
    assert (corpus.scheme, corpus.ill_formed, corpus.notes) == (schemes.TAGS, 0, ())
    assert corpus.types() == ("AUX", "PART", "PRON")
    assert corpus.words() == {"I", "do", "n't"}
    assert corpus.summary() == "ud_ewt test: 1 sentence, 3 tokens of 3 tags"
    assert corpus.to_scheme(schemes.TAGS) == corpus.examples
    with pytest.raises(InputError, match="cannot be converted to BIOES"):
        corpus.to_scheme("BIOES")
    folder = corpus.path.parent
    copy = corpora.load(None, "test", directory=folder, scheme=schemes.TAGS)
    assert copy.examples == corpus.examples
    spans = corpora.load(None, "test", directory=folder)
    assert (spans.types(), "UPOS has tags" in spans.notes[0]) == ((), True)


@pytest.mark.parametrize(
    "name", ["dev.tsv", "val.bio", "valid.iob", "validation.conll", "devel.txt.gz"]
)
def test_a_folder_of_your_own_will_do(file, name, monkeypatch):
    """It may have the name of a known corpus."""
    path = file(TEXT, f"sample/{name}")
    monkeypatch.chdir(path.parents[1])
    assert corpora.find(path.parent, "dev") == path
    corpus = corpora.load(None, "dev", directory="sample")
    assert (corpus.ill_formed, corpus.path.absolute()) == (0, path)
    assert list(corpus.examples) == formats.read(path).examples
    assert corpus.sha256 == hashlib.sha256(TEXT.encode()).hexdigest()
    assert corpus.types() == ("LOC", "ORG")
    summary = "sample dev: 2 sentences, 4 tokens, 3 entities of 2 types, IOB1"
    assert corpus.summary() == summary


@pytest.mark.parametrize(
    ("text", "scheme", "notes"),
    [
        # Scheme, ill-formed labels, three sizes; without the scheme if it is as good.
        ("\n\nEU B-ORG\nsays O\nEU B-PER\nParis I-LOC\n", "BIO", 5),
        ("EU B-ORG\nParis I-LOC\n", "IOB1", 4),
    ],
)
def test_what_differs_from_the_published_corpus_is_noted(file, text, scheme, notes):
    corpus = corpora.load("conll2003", "dev", directory=file(text, "eng.testa").parent)
    assert (corpus.scheme, corpus.ill_formed, len(corpus.notes)) == (scheme, 1, notes)
    assert corpus.summary().splitlines()[1:] == [f"  {note}" for note in corpus.notes]


LETTERS = ("B I O", "B E O", "B L O", "B M O", "I I O", "B-PER M-PER O", "S O W")


@pytest.mark.parametrize("letters", LETTERS)
@pytest.mark.parametrize("form", formats.FORMATS)
def test_bare_and_chinese_prefixes_are_said_and_converted_back(letters, form, file):
    pairs = zip(("Ada", "Lee", "ran"), letters.split(), strict=True)
    split = corpora.read(file("".join(f"{a} {b}\n" for a, b in pairs), "dev.conll"))
    assert any("read as" in note for note in split.notes)
    spans = [schemes.to_spans(example.labels) for example in split.examples]
    assert spans != [[]]
    target, scheme = split.path.with_name("out"), "BIOES"
    for examples in (split.examples, split.to_scheme(scheme), split.to_scheme("IOE1")):
        target = target.with_name(f"{target.name}x")
        formats.write(target, examples, form)
        options = {"tokenizer": "whitespace"} if form == "brat" else {}
        copy = corpora.read(target, format=form.removesuffix("-spans"), **options)
        assert [schemes.to_spans(example.labels) for example in copy.examples] == spans


@pytest.mark.parametrize("ending", ["tsv", "csv.gz", "conll"])
def test_an_unknown_header_is_suspected_in_a_table(file, ending):
    def read(*rows, **options):
        mark = "\t" if ending != "csv.gz" else ","
        text = "\n".join(mark.join(row) for row in rows) + "\n"
        content = gzip.compress(text.encode()) if ending[-2:] == "gz" else text
        return corpora.read(file(content, f"a.{ending}"), **options)

    head, is_table = ("Wort", "Etikett"), ending != "conll"
    for rows, options in (
        ([("EU", "ORG"), *[("says", "O")] * 30], {}),
        ([("EU", "NN"), *[("says", "VB")] * 30], {"scheme": "tags"}),
    ):
        for text, expected in (([head, *rows], is_table), ([*rows, rows[0]], False)):
            notes = " ".join(read(*text, **options).notes)
            assert ("'Wort' and 'Etikett', may be a header" in notes) == expected
    with pytest.raises(InputError, match="may be a header" if is_table else "neither"):
        read(head, ("EU", "B-ORG"), *[("says", "O")] * 30)


def test_only_lines_of_columns_are_asked_about_their_columns(file):
    line = '{"tokens": ["Ann", "ran"], "labels": ["%s", "O"]}'
    json_lines = file("\n".join([line % "B-PER", line % "PER"]), "a.jsonl")
    columns = file("Ann B-PER\nran O\n\nAnn PER\nran O\n", "a.conll")
    for path, question in ((json_lines, "; are these"), (columns, "; are token_col")):
        with pytest.raises(InputError, match=f"as 'B-PER'{question}"):
            corpora.read(path)


@pytest.mark.parametrize("name", ["a.tsv", "a.csv", "a.txt"])
def test_a_column_of_sentences_with_another_name_is_said(file, name):
    rows = "Satz,Token,Label\n1,EU,B-X\n" + "1,says,O\n" * 60 + "2,so,O\n"
    rows = rows if name == "a.csv" else rows.replace(",", "\t")
    (note,) = corpora.read(file(rows, name)).notes
    assert note == (
        "one sentence of 62 tokens: no column sentence or sentence_id; not read: Satz"
    )
    head, start = rows.replace("Satz", "sentence"), rows[: rows.rindex("1", 0, 200)]
    for other in (head, start):
        assert not corpora.read(file(other, name)).notes


@pytest.mark.parametrize(
    ("text", "line", "hint"),
    [
        ("EU B-ORG\nsays O\nParis I\n", 3, "type"),
        ("EU b\nsays O\n", 1, "write B"),
        ("EU PER_M\nsays O\n", 1, "write M-PER"),
        ("EU NNP\nsays VB\n", 1, "label_column"),
        ("B-ORG EU\nO says\nO yes\n", 1, "token_column"),
        ("EU B-ORG\nsays B_person\n", 2, "write B-person"),
        ("EU b-org\nsays o\n", 1, "write B-org"),
        ("EU B-X\nsays 0\n", 2, "write O, the letter"),
        ("EU ORG-B\nsays O\n", 1, "write B-ORG"),
        ("EU B-ORG\nsays B-OR\u200bG\n", 2, r"\(U\+200B\)"),
        ("EU\tB-ORG \n", 1, r"\(U\+0020\)"),
    ],
)
def test_malformed_labels_are_errors_with_line_and_hint(file, text, line, hint):
    path = file(text, "dev.conll")
    with pytest.raises(InputError, match=hint) as error:
        corpora.read(path)
    assert (error.value.path, error.value.line) == (path, line)


def test_a_malformed_type_of_a_span_is_an_error_without_hint_at_columns(file):
    span = '{"text": "EU says", "spans": [[0, 2, "A\\tB"]]}'
    with pytest.raises(InputError, match=r"\(U\+0009\); remove it$"):
        corpora.read(file(span, "dev.jsonl"))


def test_labels_in_the_first_column_are_said_once(file):
    path, errors = file("O the\nB-LOC Rome\n\n" * 20), []
    message = r"the tokens look like labels \(O, B-LOC\): set label_column"
    with pytest.raises(InputError, match=message):
        corpora.read(path)
    assert not corpora.read(path, errors=errors).examples
    assert len(errors) == 1
    assert len(corpora.read(path, token_column=1, label_column=0).examples) == 20


def test_dev_is_taken_from_train_by_documents_texts_or_sentences():
    train = corpora.load("sample", "train")
    rest, dev = corpora.divide(train, 0.2, 0)
    assert len(rest.examples) + len(dev.examples) == len(train.examples)
    assert not {e.document for e in rest.examples} & {e.document for e in dev.examples}
    assert corpora.divide(train, 0.2, 0)[1].examples == dev.examples
    assert corpora.divide(train, 0.2, 1)[1].examples != dev.examples
    examples = tuple(dataclasses.replace(e, document=0) for e in train.examples[:20])
    rest, dev = corpora.divide(dataclasses.replace(train, examples=examples), 0.1, 0)
    assert (len(rest.examples), len(dev.examples)) == (18, 2)
    # Sentences of a text stay together.
    examples = tuple(
        dataclasses.replace(e, lines=(i // 4,)) for i, e in enumerate(examples)
    )
    rest, dev = corpora.divide(dataclasses.replace(train, examples=examples), 0.2, 0)
    assert (len(rest.examples), len({e.lines for e in dev.examples})) == (16, 1)
    assert dev.notes == (f"1 of 5 texts of {train.path.name}, seed 0",)
    examples = tuple(dataclasses.replace(e, lines=(1,)) for e in examples)
    rest, dev = corpora.divide(dataclasses.replace(train, examples=examples), 0.2, 0)
    assert dev.notes == (f"4 of 20 sentences of {train.path.name}, seed 0",)
    sentence = dataclasses.replace(train, examples=examples[:1])
    for split, share in ((sentence, 0.5), (train, 0.0), (train, 1.0), (train, -0.1)):
        with pytest.raises(InputError):
            corpora.divide(split, share, 0)


def test_what_is_missing_is_an_error_that_says_where_to_get_it(data):
    for name, split in (("conll03", "dev"), ("sample", "x")):
        with pytest.raises(InputError):
            corpora.load(name, split)
    for name in corpora.CORPORA.keys() - {"sample"}:
        with pytest.raises(FileNotFoundError) as error:
            corpora.load(name, "train")
        assert corpora.CORPORA[name].source in str(error.value)
    with pytest.raises(FileNotFoundError):
        corpora.find_vectors("glove.txt")


def test_a_folder_that_may_not_be_read_is_not_taken_for_empty(
    file, tmp_path, monkeypatch
):
    closed = tmp_path / "train" / "more"
    for name in ("train/a", "train/more/a"):
        file("Ann ran", f"{name}.txt")
        file("T1\tPER 0 3\tAnn\n", f"{name}.ann")
    assert len(corpora.load(None, "train", directory=tmp_path).examples) == 2

    def list_open(function, path="."):
        if str(path) == str(closed):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return function(path)

    for name in ("listdir", "scandir"):
        old_function = getattr(os, name)
        monkeypatch.setattr(os, name, functools.partial(list_open, old_function))
    for call in (
        lambda: corpora.load(None, "train", directory=tmp_path),
        lambda: corpora.find(closed, "dev"),
        lambda: Checkpoints(closed, read_only=True),
    ):
        with pytest.raises(PermissionError, match="more"):
            call()
    assert "train/more: Permission denied" in str(audit.findings(tmp_path)[1][0])
    with pytest.raises(PermissionError), using(closed):
        os.listdir(closed)


def test_each_split_of_a_folder_is_one_file(file, tmp_path):
    file(TEXT, "dev.conll")
    with pytest.raises(FileNotFoundError, match=r"it holds dev\.conll"):
        corpora.load(None, "train", directory=tmp_path)
    file(TEXT, "valid.txt")
    with pytest.raises(InputError, match=r"dev\.conll, valid\.txt"):
        corpora.load(None, "dev", directory=tmp_path)
    with pytest.raises(FileNotFoundError, match=r"dev file: there is no folder .*y$"):
        corpora.find(tmp_path / "away", "dev")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["conll2003", "wnut17", "ontonotes5", "ud_ewt"])
@pytest.mark.parametrize("split", corpora.SPLITS)
def test_real_corpora_are_read_whole(name, split, no_checks):
    if corpora.DATA_VARIABLE not in os.environ or name + split == "ontonotes5train":
        pytest.skip(f"{corpora.DATA_VARIABLE} is not set, or the split takes seconds")
    try:
        corpus = corpora.load(name, split)  # notes if sizes are not the published ones
    except FileNotFoundError as error:
        pytest.skip(str(error))
    assert corpus.scheme == corpora.CORPORA[name].scheme
    # In CoNLL-2003's training split, two entities after an O begin with B.
    assert corpus.ill_formed == (2 if name + split == "conll2003train" else 0)
    assert len(corpus.notes) == bool(corpus.ill_formed)
