"""What the systems of Gui et al. (2020) share, as their code has it."""

from __future__ import annotations

from typing import Any

from jaxner.configuration import arguments, sections


def settings(config: Any, chars: str) -> None:
    """Sets data, batches, representation and the sum over a batch as its loss.

    Characters and words are drawn as in NCRF++. One departure stays in all systems that
    use this: biases of LSTMs and linear layers begin at 0, where PyTorch draws them
    from U(±1/√fan-in).

    Args:
        config: What `base` returned.
        chars: "cnn", as in NCRF++, or "intnet" (Xin et al., 2018).
    """
    arguments.known("chars", chars, ("cnn", "intnet"))
    config.num_epochs = 100
    config.data.zero_digits = True
    if config.data.name == "sample":
        config.num_epochs = 15
        config.data.num_shapes = 3
    else:
        config.data.vectors = "glove.6B.100d.txt"
    config.objective.reduction = "sum"
    # NCRF++ leaves convolutions to PyTorch, U(±1/√fan-in), and draws the vectors of
    # words and characters from U(±√(3/dim)). Kaiming's filters, which are the modules'
    # default, begin √6 times as large and on vectors √2 times as large.
    drawn = {"initializer": "torch", "table_initializer": "lecun", "dropout": 0.5}
    cnn = {"name": "cnn", "dim": 30, "num_filters": 50, "width": 3}
    config.model.representation = {
        "words": {"dim": 100, "initializer": "lecun"},
        "chars": (cnn if chars == "cnn" else {"name": "intnet"}) | drawn,
        "dropout": 0.5,
    }


def transformer(config: Any) -> dict[str, int]:
    """Returns the sizes of the Transformer: on the embedded sample, small ones."""
    if config.data.name == "sample":
        return {"num_layers": 2, "num_heads": 2, "head_dim": 32}
    layers = 3 if config.data.name == "ontonotes5" else 2
    return {"num_layers": layers, "num_heads": 7, "head_dim": 160}


def adamw(**options: Any) -> Any:
    """Returns the section of an optimizer: AdamW with warm-up.

    As in PyTorch, ε is added after the bias correction.
    """
    return sections.optimizer(
        "adamw", 1e-4, eps=1e-6, weight_decay=1e-6, warmup=0.1, **options
    )


def lstm(**options: Any) -> Any:
    """Returns the section of the variational LSTM that drafts labels."""
    return sections.bilstm(
        **{
            "hidden_dim": 200,
            "input_dropout": 0.01,
            "output_dropout": 0.25,
            "initializer": "torch",
            "forget_bias": 0.0,
            **options,
        }
    )


def sgd(learning_rate: float) -> Any:
    """Returns the section of the draft's optimizer; all gradients are clipped."""
    return sections.optimizer(
        "sgd",
        learning_rate,
        momentum=0.9,
        decay=0.05,  # the rate is 0.015 / (1 + 0.05 · epoch)
        weight_decay=1e-6,
        clip_norm=5.0,
    )
