"""Data settings of a run: its files, and what looks wrong in them."""

import pytest

from jaxner.data import corpora
from jaxner.training import corpus as training_corpus
from tests import tiny


@pytest.fixture
def folder(tmp_path):
    return tiny.write_corpus(tmp_path / "corpus", documents=True)


def options(folder, **changes):
    return tiny.config(folder).data.to_dict() | changes


def load(folder, **changes):
    """The warnings that a run prints, and its data."""
    lines, data = [], options(folder, **changes)
    data = training_corpus.load_data(data, word_dim=8, log=lines.append)
    return [line for line in lines if line.startswith("WARNING")], data


def test_a_run_says_what_looks_wrong(folder):
    assert not load(folder)[0]
    path = folder / "train.conll"
    path.write_text(path.read_text() + "[/b] O\n\xa0 O\n")
    (warning,) = load(folder)[0]
    assert "train.conll:" in warning
    assert any("min_count" in line for line in load(folder, min_count=9)[0])


def test_dev_is_taken_from_train(folder):
    with pytest.raises(ValueError, match=r"dev\.conll"):
        load(folder, split_dev=0.1)
    (folder / "dev.conll").unlink()
    with pytest.raises(FileNotFoundError, match="split_dev"):
        load(folder)
    _, data = load(folder, split_dev=0.2)
    whole = corpora.load(None, "train", directory=folder)
    assert len(data.sentences) + len(data.dev.examples) == len(whole.examples)
    again = training_corpus.load_split(options(folder, split_dev=0.2), "dev")
    assert again.examples == data.dev.examples
