"""A run that takes seconds: a corner of the embedded corpus, and a small GRN."""

from pathlib import Path

from configs import grn
from jaxner.data import conll, corpora


def write_corpus(folder: Path, sentences: int = 48) -> Path:
    """Writes the first sentences of each split of the embedded corpus."""
    folder.mkdir(parents=True, exist_ok=True)
    for split in ("train", "dev", "test"):
        examples = corpora.load("sample", split).examples[:sentences]
        rows = [zip(e.tokens, e.labels, strict=True) for e in examples]
        conll.write(folder / f"{split}.conll", rows)
    return folder


def config(folder: Path, num_epochs: int = 3):
    """The GRN's config, shrunk."""
    tiny = grn.get_config("")
    tiny.num_epochs = num_epochs
    tiny.data.dir = str(folder)
    tiny.batch_size = 4
    tiny.data.num_shapes = 1
    tiny.model.representation.words.dim = 8
    tiny.model.encoder.hidden_dim = 32
    tiny.model.representation.dropout = 0.1
    tiny.model.head.dropout = 0.1
    tiny.optimizer.learning_rate = 0.1
    return tiny
