"""Splits are compared with each other, and a run prints probable mistakes."""

import dataclasses

import pytest

from jaxner.data import audit, conll, corpora, dividing, readers
from jaxner.data.readers import Example, spans
from jaxner.training import corpus
from tests import tiny


def options(folder, **changes):
    config = tiny.config(folder).data.to_dict()
    return config | changes


@pytest.fixture
def folder(tmp_path):
    return tiny.write_corpus(tmp_path / "corpus", documents=True)


def load(folder, **changes):
    """Returns the lines that a run prints, and its data."""
    lines = []
    data = corpus.load_data(options(folder, **changes), word_dim=8, log=lines.append)
    return lines, data


def rewrite(folder, split, change):
    path = folder / f"{split}.conll"
    path.write_bytes(change(path.read_bytes()))


def test_splits_that_share_sentences(folder):
    splits = {
        name: corpora.load(None, name, directory=folder) for name in corpora.SPLITS
    }
    kinds = {(f.level, f.check) for f in audit.of_splits(splits)}
    assert ("note", "out of vocabulary") in kinds
    splits["test"] = dataclasses.replace(splits["train"], split="test")
    (overlap,) = [
        f
        for f in audit.of_splits(splits)
        if (f.level, f.check) == ("warning", "overlap")
    ]
    assert "(100.0% of those with 4 tokens or more) also in train" in overlap.message
    assert overlap.line == splits["train"].examples[0].line
    odd = Example(("x",), ("B-NEW",), 0, 1)
    splits["dev"] = dataclasses.replace(splits["dev"], examples=(odd,))
    (unseen,) = [f for f in audit.of_splits(splits) if f.check == "unseen types"]
    assert unseen.message == "train lacks 1 type of dev: NEW"
    assert audit.of_splits({"dev": splits["dev"]}) == []


def test_texts_with_several_types(tmp_path):
    path = tmp_path / "a.conll"
    path.write_text("Milan B-LOC\n\nMilan B-ORG\n\nMilan B-ORG\n\nOslo B-LOC\n")
    _, (finding,) = audit.of_file(path)
    assert finding.message == "1 text with several types: 'Milan' (ORG 2, LOC 1)"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda d: d.rstrip() + b"\nRome B-LOCAL",
            "ends without a line end",
        ),
        (lambda d: b"a O\n" * 4782 + d, "Are blank lines between"),
        (
            lambda d: (b"-DOCSTART- O\n\n" + b"Rome B-LOC\n" * 75 + b"\n") * 100,
            "half of the sentences have 75 tokens or more",
        ),
        (
            lambda d: d.replace(b"the ", b"the\0 ", 1),
            "1 token with a control ch",
        ),
        (lambda d: d + b"[/b] O\n\xc2\xa0 O\n", "1 token without"),
    ],
)
def test_a_run_says_what_looks_wrong(folder, change, said):
    rewrite(folder, "train", change)
    lines, _ = load(folder)
    warnings = [line for line in lines if line.startswith("WARNING  ")]
    assert any(said in line and "train.conll:" in line for line in warnings), lines


def test_a_run_says_that_its_tokens_are_numbers(folder):
    examples = corpora.load(None, "train", directory=folder).examples
    rows = [
        [
            (str(i), *row)
            for i, row in enumerate(zip(e.tokens, e.labels, strict=True), 1)
        ]
        for e in examples
    ]
    conll.write(folder / "train.conll", rows)
    lines, _ = load(folder)
    assert any(
        line.startswith("WARNING")
        and "running numbers, not words. Set --config.data.token_column" in line
        for line in lines
    )


def test_a_run_says_that_few_words_are_known(folder):
    lines, _ = load(folder, min_count=9)
    (warning,) = [line for line in lines if "distinct training words are known" in line]
    assert "WARNING" in warning
    assert "(--config.data.min_count is 9)" in warning
    lines, data = load(folder, min_count=9, min_count_without_vectors=1)
    assert not any("training words are known" in line for line in lines)
    assert len(data.vocabulary.words) > len(data.words)


def test_the_variant_files_keeps_all_words_without_vectors():
    from configs import grn, idcnn

    for config in (grn, idcnn):
        data = config.get_config("files").data
        assert data.min_count > 1
        assert data.min_count_without_vectors == 1
        assert config.get_config("conll2003").data.min_count_without_vectors is None


def test_dev_is_taken_from_train(folder):
    (folder / "dev.conll").unlink()
    with pytest.raises(
        FileNotFoundError, match=r"instead: --config\.data\.split_dev=0\.1"
    ):
        load(folder)
    lines, data = load(folder, split_dev=0.2)
    whole = corpora.load(None, "train", directory=folder)
    assert len(data.sentences) + len(data.dev.examples) == len(whole.examples)
    documents = {e.document for e in whole.examples}
    if len(documents) > 1:
        taken = {e.document for e in data.dev.examples}
        left = {
            e.document
            for e in corpus.load_split(options(folder, split_dev=0.2), "train").examples
        }
        assert not taken & left
    assert "seed 0" in lines[0]
    record = data.record["data"]["dev taken from train"]
    assert record["first_lines"] == [e.line for e in data.dev.examples]
    again = corpus.load_split(options(folder, split_dev=0.2), "dev")
    assert again.examples == data.dev.examples
    other = corpus.load_split(options(folder, split_dev=0.2, split_seed=1), "dev")
    assert other.examples != data.dev.examples


def test_dev_is_not_taken_twice(folder):
    with pytest.raises(ValueError, match=r"There is a dev file, .*dev\.conll: leave"):
        load(folder, split_dev=0.1)
    (folder / "dev.conll").unlink()
    with pytest.raises(ValueError, match="does not go with --config"):
        load(folder, split_dev=0.1, contextual="a{split}")
    for share in (0.0, 1.0, -0.1):
        train = corpora.load(None, "train", directory=folder)
        with pytest.raises(ValueError, match=r"a share within \(0, 1\) for dev, got"):
            dividing.divide(train, share, 0)


def test_a_run_reads_any_format(folder):
    """Each of three formats has one split; the training data are the same."""
    _, expected = load(folder)
    places = {"train": "train.jsonl", "dev": "dev", "test": "test.v4_gold_conll"}
    for split, name in places.items():
        file = folder / f"{split}.conll"
        examples = readers.read(file).examples
        # brat's sentences are cut again when they are read.
        examples = [e for e in examples if tokens_of(" ".join(e.tokens)) == e.tokens]
        format = "brat" if split == "dev" else None
        readers.write(folder / name, examples, format=format)
        file.unlink()
    lines, data = load(folder)
    assert data.dev.path == folder / "dev"
    assert data.dev.scheme == "BIO"
    known = {example.labels for example in expected.dev.examples}
    assert {example.labels for example in data.dev.examples} <= known
    assert corpora.load(None, "test", directory=folder).types() == data.dev.types()
    assert not [line for line in lines if line.startswith("WARNING")]


def tokens_of(text):
    return tuple(text[a:b] for a, b in spans.words(text))


def test_sentences_are_drawn_where_there_are_no_documents():
    train = corpora.load("sample", "train")
    examples = tuple(dataclasses.replace(e, document=0) for e in train.examples[:20])
    train = dataclasses.replace(train, examples=examples)
    rest, dev = dividing.divide(train, 0.1, 0)
    assert (len(rest.examples), len(dev.examples)) == (18, 2)
    one = dataclasses.replace(train, examples=examples[:1])
    with pytest.raises(ValueError, match="has a single sentence: none is left for dev"):
        dividing.divide(one, 0.5, 0)
