"""What the systems of Strubell et al. (2017) share, as their code has it."""

from __future__ import annotations

from typing import Any

from ml_collections import ConfigDict

from jaxner.configuration import sections


def data(config: Any, document: bool) -> None:
    """Sets the data section.

    A word is looked up as it is, or is unknown: the authors' program knows no lower
    case. (It gives the vector of a file's word to its lower case if the vocabulary
    lacks the word itself, which never happens: all words of the file belong to it.) So
    training words without a vector of their own begin with a drawn one.
    """
    config.num_epochs = 100
    config.data.lowercase_fallback = False
    config.data.unit = "document" if document else "sentence"
    if config.data.scheme != "tags":
        config.data.scheme = "BILOU"
    config.data.zero_digits = True
    if config.data.name != "sample":
        config.data.min_count = 4
        config.data.vectors = "lample-embeddings-pre.txt"


def sample(config: Any) -> None:
    """Shrinks a config to the embedded sample: more and longer steps, fewer of them."""
    config.num_epochs = 30
    config.batch_size = 16 if config.data.unit == "sentence" else 8
    config.optimizer.learning_rate = 1e-3
    config.data.num_shapes = 3


def representation(inputs: float, words: float) -> Any:
    """Returns vectors and shapes of words, with two kinds of dropout."""
    return ConfigDict(
        {
            "words": {"dim": 100, "initializer": "glorot"},
            "chars": None,
            "caps": {"rule": "shape", "dim": 5},
            "dropout": inputs,
            "word_dropout": words,
        }
    )


def head(crf: bool, dropout: float) -> Any:
    """Returns the section of the head."""
    head = {"dropout": dropout, "initializer": "glorot", "bias": 0.01}
    if crf:
        return ConfigDict({"name": "crf", "boundaries": False, **head})
    return ConfigDict({"name": "softmax", **head})


def adam(rate: float, b2: float, eps: float, clip_norm: float | None) -> Any:
    """Returns the section of the optimizer: TensorFlow's Adam.

    It adds ε to √v before the bias correction, where optax and PyTorch add it after; so
    the authors' 1e-4 and 1e-6 damp the first steps much more. See
    `jaxner.training.optim.adam_eps_hat`; `--config.optimizer.name=adam` is the other.
    """
    return sections.optimizer(
        "adam_eps_hat", rate, b1=0.9, b2=b2, eps=eps, clip_norm=clip_norm
    )
