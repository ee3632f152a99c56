"""Reads the weights of pretrained encoders from local Hugging Face folders.

The folder holds `config.json`, `model.safetensors` (or several such files and
`model.safetensors.index.json`), and the vocabulary, which `data.pieces` reads. This
module downloads nothing and opens no pickle.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxner import errors
from jaxner.data import pieces
from jaxner.models.bert import ACTIVATIONS, BERT
from jaxner.types import Weights

PLACE = "representation/bert/encoder/"
"""Path of the encoder's weights in a tagger's tree."""

_SIZES = (
    *("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads"),
    *("intermediate_size", "max_position_embeddings", "type_vocab_size"),
    *("layer_norm_eps", "hidden_act"),
    *("hidden_dropout_prob", "attention_probs_dropout_prob"),
)
_TABLES = {
    "words": "embeddings.word_embeddings",
    "positions": "embeddings.position_embeddings",
    "types": "embeddings.token_type_embeddings",
}
_LAYER = {
    "query": "attention.self.query",
    "key": "attention.self.key",
    "value": "attention.self.value",
    "attention_output": "attention.output.dense",
    "attention_norm": "attention.output.LayerNorm",
    "intermediate": "intermediate.dense",
    "output": "output.dense",
    "output_norm": "output.LayerNorm",
}
_LEAVES = {"kernel": "weight", "scale": "weight", "embedding": "weight", "bias": "bias"}
# Checkpoints converted from TensorFlow have the older names on the left.
_OLDER = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}
_NO_WEIGHT = ("embeddings.position_ids",)  # 0, 1, 2, …, stored by older versions
_CONVERT = (
    'python -c "from transformers import AutoModel; '
    "AutoModel.from_pretrained('{0}').save_pretrained('{0}', safe_serialization=True)\""
)


def sizes(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """Returns the attributes of `BERT` from the config of a Hugging Face folder.

    Args:
        folder: Holds `config.json`.

    Raises:
        FileNotFoundError: `config.json` is missing.
        ValueError: The config is malformed, or describes a model that `BERT` does not
            support.
    """
    path = Path(folder) / "config.json"
    if not path.is_file():
        raise FileNotFoundError(
            f"{path} is missing: expected a local folder as Hugging Face's "
            "save_pretrained writes it, with config.json, model.safetensors and "
            "vocab.txt or tokenizer.json."
        )
    config = pieces.read_json(path)
    kind = config.get("model_type", "bert")
    fixed = {"position_embedding_type": "absolute", "is_decoder": False}
    if kind != "bert":
        raise ValueError(f"{path}: unknown model_type {kind!r}; known: bert")
    for name, value in fixed.items():
        if config.get(name, value) != value:
            raise ValueError(
                f"{path}: expected {name} {value!r}, got {config[name]!r}, which this "
                "encoder does not support"
            )
    found = {name: config[name] for name in _SIZES if name in config}
    missing = [name for name in _SIZES[:6] if name not in found]
    if missing:
        raise ValueError(f"{path} lacks {', '.join(missing)}")
    if found.get("hidden_act", "gelu") not in list(ACTIVATIONS):
        raise ValueError(
            f"{path}: unknown hidden_act {found['hidden_act']!r}; known: "
            f"{', '.join(ACTIVATIONS)}"
        )
    _check_numbers(found, path)
    return found


def _check_numbers(found: Mapping[str, Any], path: Path) -> None:
    for name, value in found.items():
        if name in _SIZES[:7]:  # by type, for True is an int as well
            fits, expected = type(value) is int and value > 0, "a whole number above 0"
        elif name == "hidden_act":
            continue
        else:
            fits = type(value) in (int, float) and 0 <= value < 1
            expected = "a number from 0 to below 1"
        if not fits:
            raise ValueError(f"{path}: expected {expected} as {name}, got {value!r}")
    size, heads = found["hidden_size"], found["num_attention_heads"]
    if size % heads:
        raise ValueError(
            f"{path}: hidden_size {size} is not divisible by num_attention_heads "
            f"{heads}"
        )


def read(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """Returns the encoder weights of a Hugging Face folder.

    Skips heads on top of the encoder, and converts half precision to float32.

    Args:
        folder: As at the head of this module.

    Returns:
        The tree of `BERT`'s parameters, as NumPy arrays.

    Raises:
        FileNotFoundError: The folder has no weights, or only pickled ones.
        ImportError: The extra `bert` is not installed.
        ValueError: Tensors are missing, unknown or have another shape.
    """
    ids = jnp.zeros(1, jnp.int32)
    model = BERT(**sizes(folder))
    start = functools.partial(model.init, jax.random.key(0), train=False)
    like = jax.eval_shape(start, ids, ids == 0)["params"]
    expected = {_name(path): path for path, _ in _leaves(like)}
    tensors = _named(_tensors(Path(folder)))
    wanted = [
        name
        for pattern in expected
        for name in _of_layers(pattern, model.num_hidden_layers)
    ]
    _compare(folder, "are missing", set(wanted) - tensors.keys())
    unexpected = tensors.keys() - set(wanted) - set(_NO_WEIGHT)
    _compare(folder, "are not known", unexpected)

    def take(path, leaf):
        pattern, is_map = _name(path), path[-1].key == "kernel"
        names = _of_layers(pattern, model.num_hidden_layers)
        shape = leaf.shape[1:] if "{}" in pattern else leaf.shape
        shape = shape[::-1] if is_map else shape  # PyTorch maps x to x Wᵀ
        for name in names:
            if tensors[name].shape != shape:
                raise ValueError(
                    f"{folder}: expected {name} of shape {shape} by config.json, got "
                    f"{tensors[name].shape}"
                )
        arrays = [np.asarray(tensors[name], np.float32) for name in names]
        arrays = [array.T for array in arrays] if is_map else arrays
        return np.stack(arrays) if "{}" in pattern else arrays[0]

    return jax.tree_util.tree_map_with_path(take, like)


def fill(weights: Weights, folder: str | os.PathLike[str]) -> Weights:
    """Returns a tagger's weights with the encoder of a Hugging Face folder filled in.

    Args:
        weights: What `models.init` returned for a model with `representation.bert`.
        folder: As at the head of this module.

    Returns:
        New weights; only the encoder's differ.

    Raises:
        FileNotFoundError, ImportError, ValueError: As for `read`.
    """
    given = {_joined(path): leaf for path, leaf in _leaves(read(folder))}

    def take(path, leaf):
        _, place, name = _joined(path).rpartition(PLACE)
        return jnp.asarray(given[name]) if place else leaf

    return jax.tree_util.tree_map_with_path(take, weights)


def _leaves(tree: Any) -> list[tuple[Any, Any]]:
    return jax.tree_util.tree_leaves_with_path(tree)


def _joined(path: Any) -> str:
    return jax.tree_util.keystr(path, simple=True, separator="/")


def _name(path: Any) -> str:
    """Returns the tensor name of a parameter; {} stands for the layer's number."""
    *parents, leaf = (entry.key for entry in path)
    ending = _LEAVES[leaf]
    if parents == ["norm"]:
        return f"embeddings.LayerNorm.{ending}"
    if parents[0] == "layers":
        return f"encoder.layer.{{}}.{_LAYER[parents[1]]}.{ending}"
    return f"{_TABLES[parents[0]]}.{ending}"


def _of_layers(pattern: str, count: int) -> list[str]:
    if "{}" not in pattern:
        return [pattern]
    return [pattern.format(i) for i in range(count)]


def _named(tensors: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns the encoder's tensors under their current names."""
    prefix = "bert." if any(name.startswith("bert.") for name in tensors) else ""
    named = {}
    for name, tensor in tensors.items():
        name, inside = name.removeprefix(prefix), name.startswith(prefix)
        for older, today in _OLDER.items():
            name = name.replace(older, today)
        if inside and not name.startswith(("pooler.", "cls.", "classifier.")):
            named[name] = tensor
    return named


def _tensors(folder: Path) -> dict[str, np.ndarray]:
    try:
        from safetensors import SafetensorError
        from safetensors.numpy import load_file
    except ImportError:
        raise errors.needs("A pretrained encoder", "safetensors") from None
    found: dict[str, np.ndarray] = {}
    for path in _files(folder):
        try:
            found.update(load_file(path))
        except (SafetensorError, OSError) as error:
            raise ValueError(f"{path} cannot be read: {error}") from None
    return found


def _files(folder: Path) -> Iterator[Path]:
    whole, index = (folder / f"model.safetensors{end}" for end in ("", ".index.json"))
    if whole.is_file():
        yield whole
    elif index.is_file():
        files = pieces.read_json(index).get("weight_map")
        if not isinstance(files, dict) or {*map(type, files.values())} - {str}:
            raise ValueError(f"{index}: expected weight_map, from tensors to files")
        for name in sorted(set(files.values())):
            yield folder / name
    elif pickles := sorted(path.name for path in folder.glob("*.bin")):
        raise FileNotFoundError(
            f"{folder} has its weights in {', '.join(pickles)}, a pickle, which could "
            "run any code; expected model.safetensors. If you trust the file, convert "
            f"it where transformers is installed: {_CONVERT.format(folder)}"
        )
    else:
        raise FileNotFoundError(f"Neither {whole.name} nor {index.name} in {folder}")


def _compare(folder: object, problem: str, names: set[str]) -> None:
    if names:
        some = sorted(names)
        more = f" and {len(some) - 8} more" if len(some) > 8 else ""
        raise ValueError(
            f"{folder}: {len(some)} tensors {problem}: {', '.join(some[:8])}{more}. "
            "Does config.json belong to these weights?"
        )
