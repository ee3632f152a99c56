"""Takes a dev split out of the training split."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from jaxner.data import batching
from jaxner.data.splits import Split


def divide(train: Split, share: float, seed: int) -> tuple[Split, Split]:
    """Takes a random dev split out of the training split.

    Takes whole documents if the file marks them, otherwise sentences.

    Args:
        train: The training split.
        share: Share of the sentences (or documents) for dev, within (0, 1); dev gets at
            least one.
        seed: Seed of the draw, which depends only on it, the share and the text.

    Returns:
        The rest of train, and dev, both in the order of the file.

    Raises:
        ValueError: The share is not within (0, 1), or train has only one sentence (or
            document).

    Example:
        >>> from jaxner.data import corpora
        >>> train, dev = divide(corpora.load("sample", "train"), 0.1, seed=0)
        >>> len(train.examples) + len(dev.examples)
        1500
    """
    if not 0 < share < 1:
        raise ValueError(f"Expected a share within (0, 1) for dev, got {share}")
    has_documents = len({example.document for example in train.examples}) > 1
    what = "documents" if has_documents else "sentences"
    numbers = [
        example.document if has_documents else i
        for i, example in enumerate(train.examples)
    ]
    groups = batching.groups(numbers)
    if len(groups) < 2:
        raise ValueError(f"{train.path} has a single sentence: none is left for dev")
    count = min(max(1, round(share * len(groups))), len(groups) - 1)
    drawn = np.random.default_rng(seed).permutation(len(groups))[:count]
    its = {i for group in drawn for i in groups[group]}
    pairs = list(enumerate(train.examples))
    rest = tuple(example for i, example in pairs if i not in its)
    taken = tuple(example for i, example in pairs if i in its)
    note = f"{count:,} of {len(groups):,} {what} of {train.path.name}, seed {seed}"
    return (
        replace(train, examples=rest, notes=(*train.notes, f"without {note}")),
        replace(train, split="dev", examples=taken, notes=(note,), last_line=None),
    )
