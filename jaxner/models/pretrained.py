"""Reads the weights of pretrained encoders from local Hugging Face folders.

This module downloads nothing and opens no pickle.
"""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxner import fields
from jaxner.data import formats
from jaxner.errors import InputError, optional
from jaxner.models.bert import BERT
from jaxner.models.model import map_named, named
from jaxner.types import Weights

PLACE = "representation/bert/encoder/"
"""Path of the encoder's weights in a tagger's tree."""

_NEEDED = (
    *("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads"),
    *("intermediate_size", "max_position_embeddings"),
)
_FIXED = {"model_type": "bert", "position_embedding_type": "absolute"}
_FIXED |= {"is_decoder": False}
# PyTorch's names of our arrays.
_NAMES = {
    "words": "embeddings.word_embeddings",
    "positions": "embeddings.position_embeddings",
    "types": "embeddings.token_type_embeddings",
    "norm": "embeddings.LayerNorm",
    "query": "attention.self.query",
    "key": "attention.self.key",
    "value": "attention.self.value",
    "attention_output": "attention.output.dense",
    "attention_norm": "attention.output.LayerNorm",
    "intermediate": "intermediate.dense",
    "output": "output.dense",
    "output_norm": "output.LayerNorm",
}
# Checkpoints converted from TensorFlow have the older names on the left.
_OLDER = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}
_HEADS = ("pooler.", "cls.", "classifier.")
_NO_WEIGHT = {"embeddings.position_ids"}  # 0, 1, 2, …, stored by older versions


def sizes(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """Returns the attributes of `BERT` from the config of a Hugging Face folder.

    Raises:
        FileNotFoundError: `config.json` is missing.
        InputError: The config is malformed, or that of a model other than BERT.
    """
    path = Path(folder) / "config.json"
    if not path.is_file():
        raise FileNotFoundError(
            f"{path} is missing: expected a local folder as Hugging Face's "
            "save_pretrained writes it, with config.json, model.safetensors and "
            "vocab.txt or tokenizer.json."
        )
    config = formats.read_json(path)
    for name, value in _FIXED.items():
        if config.get(name, value) != value:
            raise InputError(f"expected {name} {value!r}, got {config[name]!r}", path)
    attributes = {n: config[n] for n in fields.of(BERT) if n in config}
    if missing := [name for name in _NEEDED if name not in attributes]:
        raise InputError(f"lacks {', '.join(missing)}", path)
    try:
        fields.check_fields(BERT(**attributes))
    except ValueError as error:
        raise InputError(str(error), path) from None
    return attributes


def read(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """Returns the encoder weights of a Hugging Face folder, as NumPy arrays.

    They have the tree of `BERT`'s parameters. Skips heads on top of the encoder, and
    converts half precision to float32.

    Raises:
        FileNotFoundError: The folder has no weights, or only pickled ones.
        ImportError: safetensors is not installed.
        InputError: Tensors are missing, unknown or have another shape.
    """
    model, ids = BERT(**sizes(folder)), jnp.zeros(1, jnp.int32)
    start = functools.partial(model.init, jax.random.key(0), train=False)
    tensors = _tensors(Path(folder))

    def take(name, shape, is_map):
        shape = shape[::-1] if is_map else shape  # PyTorch maps x to x Wᵀ
        tensor = tensors.pop(name, None)
        if tensor is None or tensor.shape != shape:
            got = "none" if tensor is None else tensor.shape
            message = f"expected {name} of shape {shape} by config.json, got {got}"
            raise InputError(message, folder)
        array = np.asarray(tensor, np.float32)
        return array.T if is_map else array

    def fill(path, leaf):
        *keys, kind = (entry.key for entry in path)
        name = f"{_NAMES[keys[-1]]}.{'bias' if kind == 'bias' else 'weight'}"
        if keys[0] != "layers":
            return take(name, leaf.shape, is_map=False)
        names = (f"encoder.layer.{i}.{name}" for i in range(len(leaf)))
        return np.stack([take(x, leaf.shape[1:], kind == "kernel") for x in names])

    like = jax.eval_shape(start, ids, ids == 0)["params"]
    weights = jax.tree_util.tree_map_with_path(fill, like)
    if unknown := sorted(tensors.keys() - _NO_WEIGHT):
        raise InputError(
            f"{len(unknown)} tensors are not known: {', '.join(unknown[:8])}. Does "
            "config.json belong to these weights?",
            folder,
        )
    return weights


def fill(weights: Weights, folder: str | os.PathLike[str]) -> Weights:
    """Returns a tagger's weights with the encoder that `read` reads filled in."""
    pretrained = named(read(folder))

    def take(name, leaf):
        _, place, rest = name.rpartition(PLACE)
        return jnp.asarray(pretrained[rest]) if place else leaf

    return map_named(take, weights)


def _tensors(folder: Path) -> dict[str, np.ndarray]:
    """Returns the encoder's tensors under their current names."""
    files = optional("safetensors.numpy", "A pretrained encoder")
    error_of_files = optional("safetensors", "A pretrained encoder").SafetensorError
    tensors: dict[str, np.ndarray] = {}
    for path in _files(folder):
        try:
            tensors.update(files.load_file(path))
        except (error_of_files, OSError) as error:
            raise InputError(f"cannot be read: {error}", path) from None
    prefix = "bert." if any(name.startswith("bert.") for name in tensors) else ""
    current_ones = {}
    for name, tensor in tensors.items():
        current = name.removeprefix(prefix)
        for older, today in _OLDER.items():
            current = current.replace(older, today)
        if name.startswith(prefix) and not current.startswith(_HEADS):
            current_ones[current] = tensor
    return current_ones


def _files(folder: Path) -> list[Path]:
    whole, index = (folder / f"model.safetensors{end}" for end in ("", ".index.json"))
    if whole.is_file():
        return [whole]
    if index.is_file():
        files = formats.read_json(index).get("weight_map")
        if not isinstance(files, dict) or {*map(type, files.values())} - {str}:
            raise InputError("expected weight_map, from tensors to files", index)
        return [folder / name for name in sorted(set(files.values()))]
    if pickles := sorted(path.name for path in folder.glob("*.bin")):
        raise FileNotFoundError(
            f"{folder} has its weights in {', '.join(pickles)}, a pickle, which could "
            "run any code; expected model.safetensors. If you trust the file, load it "
            "with transformers, and save it by save_pretrained(safe_serialization=True)"
        )
    raise FileNotFoundError(f"Neither {whole.name} nor {index.name} in {folder}")
