"""Common settings of the systems of Gui et al. (2020), from their code."""

from __future__ import annotations

from typing import Any

# NCRF++ draws convolutions by PyTorch's default, U(±1/√fan-in), and vectors of words
# and characters from U(±√(3/dim)). Kaiming's draw, our modules' default, makes filters
# √6 times and vectors √2 times as large.
DRAWN = {"initializer": "torch", "table_initializer": "lecun", "dropout": 0.5}
"""How characters are drawn and dropped."""


def settings(config: Any) -> None:
    """Sets data, batches, representation and a loss summed over the batch.

    Draws characters and words as in NCRF++. In all systems with these settings, biases
    of LSTMs and linear layers start at 0, where PyTorch draws them from U(±1/√fan-in).
    """
    config.num_epochs = 100
    config.data.zero_digits = True
    if config.data.name == "sample":
        config.num_epochs = 15
        config.data.num_shapes = 3
    else:
        config.data.vectors = "glove.6B.100d.txt"
    config.objective.reduction = "sum"
    config.model.representation = {
        "words": {"dim": 100, "initializer": "lecun"},
        "chars": {"name": "cnn", "dim": 30, "num_filters": 50, "width": 3, **DRAWN},
        "dropout": 0.5,
    }


def bilstm(hidden_dim: int) -> dict[str, Any]:
    """Returns the section of a BiLSTM that is drawn as PyTorch does."""
    drawn = {"initializer": "torch", "forget_bias": 0.0}
    return {"name": "bilstm", "hidden_dim": hidden_dim, **drawn}


def variational_lstm() -> dict[str, Any]:
    """Returns the section of the variational LSTM that drafts labels."""
    return {**bilstm(hidden_dim=200), "input_dropout": 0.01, "output_dropout": 0.25}


def head(crf: bool, dropout: float) -> dict[str, Any]:
    """Returns the section of a linear layer, and perhaps a CRF, behind dropout."""
    name = "crf" if crf else "softmax"
    return {"name": name, "dropout": dropout, "initializer": "torch"}


def transformer(config: Any) -> dict[str, int]:
    """Returns the sizes of the Transformer; small ones for the embedded sample."""
    if config.data.name == "sample":
        return {"num_layers": 2, "num_heads": 2, "head_dim": 32}
    layers = 3 if config.data.name == "ontonotes5" else 2
    return {"num_layers": layers, "num_heads": 7, "head_dim": 160}


def adamw(**options: Any) -> dict[str, Any]:
    """Returns the section of an optimizer: AdamW with warm-up.

    As in PyTorch, ε is added after the bias correction.
    """
    own = {"eps": 1e-6, "weight_decay": 1e-6, "warmup": 0.1}
    return {"name": "adamw", "learning_rate": 1e-4, **own, **options}


def sgd(learning_rate: float) -> dict[str, Any]:
    """Returns the section of the draft's optimizer; all gradients are clipped."""
    return {
        "name": "sgd",
        "learning_rate": learning_rate,
        "momentum": 0.9,
        "decay": 0.05,  # the rate is 0.015 / (1 + 0.05 · epoch)
        "weight_decay": 1e-6,
        "clip_norm": 5.0,
    }
