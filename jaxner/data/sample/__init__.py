"""The embedded corpus: English news-like text with CoNLL-2003's four entity types.

Every sentence was written for this project. The three files beside this module are in
CoNLL-2003's four columns (word, part of speech, chunk, entity) with BIO labels;
In a clone, ``python -m tools.sample_corpus.compose`` writes them again, byte for byte.
"""

from pathlib import Path

SPLITS = ("train", "dev", "test")


def path(split: str) -> Path:
    """Finds the file of one split.

    Args:
        split: ``"train"``, ``"dev"`` or ``"test"``.

    Returns:
        The path of the split's ``.conll`` file.

    Raises:
        ValueError: If there is no such split.
    """
    if split not in SPLITS:
        raise ValueError(f"no split {split!r}; choose from {', '.join(SPLITS)}")
    return Path(__file__).with_name(f"{split}.conll")
