"""The embedded corpus: English news-like text with CoNLL-2003's four entity types.

Every sentence was written for this project. The three files beside this module are in
CoNLL-2003's four columns (word, part of speech, chunk, entity) with BIO labels.
"""

from pathlib import Path

SPLITS = ("train", "dev", "test")


def path(split: str) -> Path:
    """Returns the path of a split's `.conll` file; ValueError: an unknown split."""
    if split not in SPLITS:
        raise ValueError(f"Unknown split {split!r}; known: {', '.join(SPLITS)}")
    return Path(__file__).with_name(f"{split}.conll")
