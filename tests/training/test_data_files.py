"""How a run reads its files: what looks wrong, any format, and dev out of train."""

import pytest

from jaxner.data import corpora, formats, tokens
from jaxner.training import corpus
from tests import tiny


@pytest.fixture
def folder(tmp_path):
    return tiny.write_corpus(tmp_path / "corpus", documents=True)


def options(folder, **changes):
    return tiny.config(folder).data.to_dict() | changes


def load(folder, **changes):
    """Returns the lines that a run prints, and its data."""
    lines = []
    data = corpus.load_data(options(folder, **changes), word_dim=8, log=lines.append)
    return lines, data


def warnings(lines):
    return [line for line in lines if line.startswith("WARNING")]


def test_a_run_says_what_looks_wrong(folder):
    assert not warnings(load(folder)[0])
    path = folder / "train.conll"
    path.write_text(path.read_text() + "[/b] O\n\xa0 O\n")
    (warning,) = warnings(load(folder)[0])
    assert "1 token without" in warning
    assert "train.conll:" in warning
    lines, _ = load(folder, min_count=9)
    assert any("distinct training words are known" in line for line in warnings(lines))


def test_dev_is_taken_from_train(folder):
    with pytest.raises(ValueError, match=r"There is a dev file, .*dev\.conll"):
        load(folder, split_dev=0.1)
    (folder / "dev.conll").unlink()
    with pytest.raises(FileNotFoundError, match="split_dev"):
        load(folder)
    _, data = load(folder, split_dev=0.2)
    whole = corpora.load(None, "train", directory=folder)
    assert len(data.sentences) + len(data.dev.examples) == len(whole.examples)
    record = data.record["data"]["dev taken from train"]
    assert record["first_lines"] == [e.line for e in data.dev.examples]
    again = corpus.load_split(options(folder, split_dev=0.2), "dev")
    assert again.examples == data.dev.examples


def test_a_run_reads_any_format(folder):
    _, expected = load(folder)
    places = {"train": "train.jsonl", "dev": "dev", "test": "test.v4_gold_conll"}
    for split, name in places.items():
        file = folder / f"{split}.conll"
        # brat's sentences are cut again when they are read.
        examples = [
            example
            for example in formats.read(file).examples
            if tuple(t.text for t in tokens.tokenise(" ".join(example.tokens)))
            == example.tokens
        ]
        formats.write(folder / name, examples, "brat" if split == "dev" else None)
        file.unlink()
    lines, data = load(folder)
    assert data.dev.path == folder / "dev"
    known = {example.labels for example in expected.dev.examples}
    assert {example.labels for example in data.dev.examples} <= known
    assert not warnings(lines)
