"""Settings that the systems of a paper share; config files start from them."""

from __future__ import annotations

import ast
from typing import Any

from ml_collections import ConfigDict


def sgd(learning_rate: float, decay: float, **values: Any) -> dict[str, Any]:
    """Returns the section of SGD; gradients are clipped at a norm of 5 by default."""
    rates = {"learning_rate": learning_rate, "decay": decay}
    return {"name": "sgd", "clip_norm": 5.0, **rates, **values}


def chen(config: Any) -> None:
    """Sets all but encoder and head, as Chen et al. (2019)."""
    if config.data.name == "sample":
        # Without vectors, every training word is known, and unknown words have only
        # their characters.
        config.num_epochs = 15
        config.data.num_shapes = 4  # a small corpus compiles longer than it trains
    else:
        config.num_epochs = 200
        config.data.vectors = "glove.6B.100d.txt"
        config.data.lowercase = True
        config.data.min_count = 3
    config.model.representation = {
        "words": {"dim": 100},
        "chars": {"name": "cnn", "dim": 30, "num_filters": 30, "width": 3},
        "dropout": 0.5,
    }
    config.optimizer = sgd(0.02, decay=0.02, momentum=0.9)


# --- Gui et al. (2020) and NCRF++, from their code ------------------------------------

# NCRF++ draws convolutions by PyTorch's default, U(±1/√fan-in), and vectors of words
# and characters from U(±√(3/dim)). Kaiming's draw, our modules' default, makes filters
# √6 times and vectors √2 times as large.
NCRFPP_DRAWS = {"initializer": "torch", "table_initializer": "lecun", "dropout": 0.5}


def gui(config: Any) -> None:
    """Sets data, representation and a loss summed over the batch.

    Biases start at 0, where PyTorch draws them from U(±1/√fan-in).
    """
    config.num_epochs = 100
    config.data.zero_digits = True
    if config.data.name == "sample":
        config.num_epochs = 15
        config.data.num_shapes = 3
    else:
        config.data.vectors = "glove.6B.100d.txt"
    config.objective.reduction = "sum"
    cnn = {"name": "cnn", "dim": 30, "num_filters": 50, "width": 3, **NCRFPP_DRAWS}
    config.model.representation = {
        "words": {"dim": 100, "initializer": "lecun"},
        "chars": cnn,
        "dropout": 0.5,
    }


def torch_bilstm(hidden_dim: int) -> dict[str, Any]:
    """Returns the section of a BiLSTM that is drawn as PyTorch does."""
    initialization = {"initializer": "torch", "forget_bias": 0.0}
    return {"name": "bilstm", "hidden_dim": hidden_dim, **initialization}


def torch_head(crf: bool, dropout: float) -> dict[str, Any]:
    """Returns the section of a linear layer, and perhaps a CRF, behind dropout."""
    name = "crf" if crf else "softmax"
    return {"name": name, "dropout": dropout, "initializer": "torch"}


def transformer(config: Any) -> dict[str, int]:
    """Returns the sizes of the Transformer; small ones for the embedded sample."""
    if config.data.name == "sample":
        return {"num_layers": 2, "num_heads": 2, "head_dim": 32}
    layers = 3 if config.data.name == "ontonotes5" else 2
    return {"num_layers": layers, "num_heads": 7, "head_dim": 160}


def warm_adamw(**values: Any) -> dict[str, Any]:
    """Returns the section of AdamW with warm-up; UANet's program adds ε earlier."""
    usual = {"eps": 1e-6, "weight_decay": 1e-6, "warmup": 0.1}
    return {"name": "adamw", "learning_rate": 1e-4, **usual, **values}


def refine(config: Any, arg: Any, learning_rate: float = 0.015, **values: Any) -> None:
    """Sets UANet on a variational LSTM: the draft, and what refines its labels, if any.

    The learning rate is the draft's, under SGD; `values` are the refinement's.
    """
    rates = {"input_dropout": 0.01, "output_dropout": 0.25}
    config.model.encoder = {**torch_bilstm(hidden_dim=200), **rates}
    config.model.head.dropout = 0.0
    config.model.mc_dropout = {"num_samples": 8, "parts": ("encoder",)}
    if arg.encoder not in ("", "bilstm"):  # it may have no dropout of its own
        config.model.head.dropout = 0.25
        config.model.mc_dropout["parts"] = ("head",)
    draft = sgd(learning_rate, 0.05, momentum=0.9, weight_decay=1e-6)
    config.optimizer = draft
    if values:
        head = torch_head(crf=False, dropout=0.15)
        config.model.refinement = {"head": head, **transformer(config), **values}
        config.objective.stages = "sum"
        config.optimizer = {**draft, "parts": {"refinement": warm_adamw()}}


def tune(config: Any, arg: Any, learning_rate: float = 3e-5) -> None:
    """Sets a pretrained encoder, with a rate of its own, under a head.

    `arg.model` is "softmax", "crf" or "uanet", `arg.pool` that of `WordPieces`.
    """
    config.num_epochs = 10
    config.batch_size = 16
    if arg.dataset == "sample":
        config.data.num_shapes = 3
    config.model.representation = {
        "words": None,
        "chars": None,
        "bert": {"pool": arg.pool},  # its dropout is that of its config.json
        "dropout": 0.0,
    }
    config.model.encoder = {"name": "identity"}
    config.model.head = torch_head(arg.model == "crf", dropout=0.1)
    warm = {"name": "adamw", "warmup": 0.1}
    encoder_options = {**warm, "learning_rate": learning_rate, "weight_decay": 0.01}
    head = {**warm, "learning_rate": 1e-3, "clip_norm": 1.0}
    config.optimizer = {**head, "parts": {"bert": encoder_options}}
    if arg.model == "uanet":  # its settings, except batches and epochs
        refine(config, arg, own_representation=False, label_scale=1.0)
        config.objective.reduction = "sum"
        config.optimizer["parts"]["bert"] = encoder_options


# --- Strubell et al. (2017), from their code ------------------------------------------


def table(text: str) -> dict[str, Any]:
    """Reads a table of settings by key: a line of names, then rows with a key first."""
    (_, *columns), *rows = (line.split() for line in text.strip().splitlines())
    return {
        name: ConfigDict(dict(zip(columns, map(ast.literal_eval, cells), strict=True)))
        for name, *cells in rows
    }


def strubell(config: Any, arg: Any, row: Any) -> None:
    """Sets all but the encoder, as Strubell et al. (2017).

    Look-up is case-sensitive, as in the authors' program, so training words without a
    pretrained vector start from a drawn one.

    The optimizer is TensorFlow's Adam. It adds ε to √v before the bias correction,
    while optax and PyTorch add it after; the authors' 1e-4 and 1e-6 thus damp the first
    steps much more. `--config.optimizer.name=adam` selects the other form.

    `arg` has `document`, `crf` and `dr` (the dropout regulariser); `row` is a line of
    the `table`.
    """
    is_sample = config.data.name == "sample"  # more and longer steps, fewer of them
    config.num_epochs = 30 if is_sample else 100
    config.batch_size = row.batch
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
        "learning_rate": 1e-3 if is_sample else row.rate,
        "b1": 0.9,
        "b2": row.b2,
        "eps": row.eps,
        "clip_norm": row.clip,
    }
    config.model.representation = {
        "words": {"dim": 100, "initializer": "glorot"},
        "chars": None,
        "caps": {"rule": "shape", "dim": 5},
        "dropout": row.inputs,
        "word_dropout": row.words,
    }
    head = {"dropout": row.features, "initializer": "glorot", "bias": 0.01}
    crf = {"name": "crf", "boundaries": False}
    config.model.head = {**(crf if arg.crf else {"name": "softmax"}), **head}
    config.objective.reduction = "sentence" if arg.crf else "token"
    config.objective.dropout_penalty = row.penalty if arg.dr else 0.0
