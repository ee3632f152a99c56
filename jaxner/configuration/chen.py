"""Common settings of the systems of Chen et al. (2019)."""

from __future__ import annotations

from typing import Any


def settings(config: Any) -> None:
    """Sets all but the encoder and the head."""
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
    config.optimizer = {
        "name": "sgd",
        "learning_rate": 0.02,
        "momentum": 0.9,
        "decay": 0.02,  # the rate is 0.02 / (1 + 0.02 · epoch)
        "clip_norm": 5.0,
    }
