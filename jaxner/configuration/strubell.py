"""Common settings of the systems of Strubell et al. (2017), from their code."""

from __future__ import annotations

import ast
from typing import Any

from ml_collections import ConfigDict


def table(text: str) -> dict[str, Any]:
    """Reads settings from a table, whose first line names the columns.

    The columns are `rate`, `b2` and `eps` of Adam; dropout of `inputs`, `features` and
    `words`, shares that are dropped; `batch`, its size; `clip`, the largest norm of the
    gradient; `penalty`, the weight of the dropout regulariser; and others.

    Returns:
        The settings of each line, by its first cell.

    Example:
        >>> table("of rate clip \\n conll 5e-4 None")["conll"].rate
        0.0005
    """
    (_, *names), *rows = (line.split() for line in text.strip().splitlines())
    return {
        of: ConfigDict(dict(zip(names, map(ast.literal_eval, cells), strict=True)))
        for of, *cells in rows
    }


def settings(config: Any, arg: Any, given: Any) -> None:
    """Sets all but the encoder.

    Look-up is case-sensitive, as in the authors' program. (Their program would give a
    vector to a word's lower case if the vocabulary lacked the word, but the vocabulary
    has all words of the file.) Training words without a pretrained vector therefore
    start from a drawn one.

    The optimizer is TensorFlow's Adam. It adds ε to √v before the bias correction,
    while optax and PyTorch add it after; the authors' 1e-4 and 1e-6 thus damp the first
    steps much more. See `jaxner.training.optim.adam_eps_hat`;
    `--config.optimizer.name=adam` selects the other form.

    Args:
        config: What `sections.base` returned.
        arg: The options `document`, `crf` and `dr` (the dropout regulariser).
        given: A line of the `table`.
    """
    is_sample = config.data.name == "sample"  # more and longer steps, fewer of them
    config.num_epochs = 30 if is_sample else 100
    config.batch_size = given.batch
    config.data.lowercase_fallback = False
    config.data.unit = "document" if arg.document else "sentence"
    if config.data.scheme != "tags":
        config.data.scheme = "BILOU"
    config.data.zero_digits = True
    if is_sample:
        config.batch_size = 8 if arg.document else 16
        config.data.num_shapes = 3
    else:
        config.data.min_count = 4
        config.data.vectors = "lample-embeddings-pre.txt"
    config.optimizer = {
        "name": "adam_eps_hat",
        "learning_rate": 1e-3 if is_sample else given.rate,
        "b1": 0.9,
        "b2": given.b2,
        "eps": given.eps,
        "clip_norm": given.clip,
    }
    config.model.representation = {
        "words": {"dim": 100, "initializer": "glorot"},
        "chars": None,
        "caps": {"rule": "shape", "dim": 5},
        "dropout": given.inputs,
        "word_dropout": given.words,
    }
    head = {"dropout": given.features, "initializer": "glorot", "bias": 0.01}
    crf = {"name": "crf", "boundaries": False}
    config.model.head = {**(crf if arg.crf else {"name": "softmax"}), **head}
    config.objective.reduction = "sentence" if arg.crf else "token"
    config.objective.dropout_penalty = given.penalty if arg.dr else 0.0
