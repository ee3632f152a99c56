"""Reads and writes the weights of pretrained encoders in local Hugging Face folders.

This module downloads nothing and opens no pickle.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from jaxner import fields
from jaxner.data import pieces, spans
from jaxner.errors import InputError, optional, using
from jaxner.models.bert import BERT, DeBERTa, ModernBERT
from jaxner.models.checks import own_module
from jaxner.models.model import map_named, named
from jaxner.types import Weights

Sizes = Mapping[str, Any]
"""Attributes of an encoder: ours, or those that a `config.json` has."""

PREFIX = "representation/bert/encoder/"
"""Path of the encoder's weights in a tagger's tree."""

# PyTorch's names of our arrays, by family; {} is the number of a layer.
_TOP = {
    "words": "embeddings.word_embeddings",
    "positions": "embeddings.position_embeddings",
    "types": "embeddings.token_type_embeddings",
    "norm": "embeddings.LayerNorm",
    "projection": "embeddings_project",
    "classifier": "classifier",
}
_BODY = {
    "query": "attention.self.query",
    "key": "attention.self.key",
    "value": "attention.self.value",
    "attention_output": "attention.output.dense",
    "attention_norm": "attention.output.LayerNorm",
    "intermediate": "intermediate.dense",
    "output": "output.dense",
    "output_norm": "output.LayerNorm",
}
_ENCODER = "encoder.layer.{}."


def _named(top: dict[str, str], body: dict[str, str], layer: str = _ENCODER):
    return top | {name: layer + torch_name for name, torch_name in body.items()}


class Family(NamedTuple):
    """Encoders whose configs and tensors are spelt alike.

    `facts` are values without which an encoder is another than ours, `head_facts` those
    without which its token classifier is, `spellings` the names of options that differ
    from ours, `our_values` ours, given the config, and `config_values` the config's,
    given ours. `classifier` is transformers' name of a token classifier, in which the
    encoder's tensors begin with `prefix`.
    """

    classifier: str
    prefix: str
    module: type[nn.Module] = BERT
    names: Mapping[str, str] = _named(_TOP, _BODY)
    facts: Mapping[str, bool | int | str] = {}
    spellings: Mapping[str, str] = {}
    our_values: Callable[[Sizes], Sizes] = lambda config: {}
    config_values: Callable[[Sizes], Sizes] = lambda sizes: {}
    head_facts: Mapping[str, bool | str] = {}


def _from_two(config: Sizes) -> Sizes:
    padding = config.get("pad_token_id", 1)
    fields.check("pad_token_id", padding, int)
    return {"first_position": 1 + padding}


_KINDS = {"global": "full_attention", "local": "sliding_attention"}


def _modern(config: Sizes) -> Sizes:
    """Returns what ModernBERT's configs say in two ways, and whether a head follows."""
    fields.check("num_hidden_layers", config["num_hidden_layers"], fields.Depth)
    rotations = config.get("rope_parameters") or {}
    is_known = {*rotations} <= {*_KINDS.values()} and all(
        x.get("rope_type", "default") == "default" for x in rotations.values()
    )
    if not is_known or config.get("rope_scaling"):
        raise ValueError(
            "expected rope_parameters with rope_type 'default' for "
            f"{' and '.join(_KINDS.values())}, and no rope_scaling"
        )
    stride = config.get("global_attn_every_n_layers", 3)
    numbers = range(config["num_hidden_layers"])
    types = [_KINDS["local" if i % stride else "global"] for i in numbers]
    types = config.get("layer_types") or types
    values: dict[str, object] = {"layer_types": tuple(types)}
    for scope, layer_type in _KINDS.items():
        if "rope_theta" in (rotation := rotations.get(layer_type, {})):
            values[f"{scope}_theta"] = rotation["rope_theta"]
    return values | ({"prediction_head": True} if is_classifier(config) else {})


def _disentangled(config: Sizes) -> Sizes:
    kinds = config.get("pos_att_type")
    if kinds not in ("c2p|p2c", "p2c|c2p", ["c2p", "p2c"], ["p2c", "c2p"]):
        raise ValueError(f"expected pos_att_type c2p and p2c, got {kinds!r}")
    return {}


_DISTIL_BODY = {
    **{name: f"attention.{name[0]}_lin" for name in ("query", "key", "value")},
    "attention_output": "attention.out_lin",
    "attention_norm": "sa_layer_norm",
    "intermediate": "ffn.lin1",
    "output": "ffn.lin2",
    "output_norm": "output_layer_norm",
}
_DISTIL_OPTIONS = {
    "hidden_size": "dim",
    "num_hidden_layers": "n_layers",
    "num_attention_heads": "n_heads",
    "intermediate_size": "hidden_dim",
    "hidden_act": "activation",
    "hidden_dropout_prob": "dropout",
    "attention_probs_dropout_prob": "attention_dropout",
}
_MP_BODY = {
    **{name: f"attention.attn.{name[0]}" for name in ("query", "key", "value")},
    "attention_output": "attention.attn.o",
    "attention_norm": "attention.LayerNorm",
}
_MP_TOP = _TOP | {"distances": "encoder.relative_attention_bias"}
_DE_BODY = {name: f"attention.self.{name}_proj" for name in ("query", "key", "value")}
_DE_TOP = {"distances": "encoder.rel_embeddings", "distance_norm": "encoder.LayerNorm"}
_DE_FACTS = {
    "relative_attention": True,
    "share_att_key": True,
    "norm_rel_ebd": "layer_norm",
    "position_biased_input": False,
    "type_vocab_size": 0,
    "conv_kernel_size": 0,
    "max_relative_positions": -1,
}
_MODERN_TOP = {
    "words": "embeddings.tok_embeddings",
    "norm": "embeddings.norm",
    "final_norm": "final_norm",
    "head_dense": "head.dense",
    "head_norm": "head.norm",
    "classifier": "classifier",
}
_MODERN_BODY = {
    "qkv": "attn.Wqkv",
    "attention_output": "attn.Wo",
    "attention_norm": "attn_norm",
    "mlp_norm": "mlp_norm",
    "intermediate": "mlp.Wi",
    "output": "mlp.Wo",
}
_MODERN_OPTIONS = {
    "layer_norm_eps": "norm_eps",
    "hidden_act": "hidden_activation",
    "hidden_dropout_prob": "mlp_dropout",
    "attention_probs_dropout_prob": "attention_dropout",
    "global_theta": "global_rope_theta",
    "local_theta": "local_rope_theta",
}
_PLAIN = {"position_embedding_type": "absolute", "is_decoder": False}
_NO_BIAS = {"norm_bias": False, "attention_bias": False, "mlp_bias": False}

_roberta = functools.partial(
    Family,
    prefix="roberta",
    facts=_PLAIN,
    our_values=_from_two,
    config_values=lambda sizes: {"pad_token_id": sizes["first_position"] - 1},
)
FAMILIES = {
    "bert": Family("Bert", "bert", facts=_PLAIN),
    "electra": Family("Electra", "electra", facts=_PLAIN),
    "roberta": _roberta("Roberta"),
    "xlm-roberta": _roberta("XLMRoberta"),
    "camembert": _roberta("Camembert"),
    "distilbert": Family(
        "DistilBert",
        "distilbert",
        names=_named(_TOP, _DISTIL_BODY, "transformer.layer.{}."),
        spellings=_DISTIL_OPTIONS,
        our_values=lambda config: {"type_vocab_size": 0},
    ),
    "mpnet": Family(
        "MPNet",
        "mpnet",
        names=_named(_MP_TOP, _BODY | _MP_BODY),
        # transformers has no other, whatever the size of the table says.
        facts={"relative_attention_num_buckets": 32},
        # Whatever its pad_token_id.
        our_values=lambda config: {"type_vocab_size": 0, "first_position": 2},
    ),
    "deberta-v2": Family(
        "DebertaV2",
        "deberta",
        DeBERTa,
        _named(_TOP | _DE_TOP, _BODY | _DE_BODY),
        _DE_FACTS,
        our_values=_disentangled,
        config_values=lambda sizes: {"pos_att_type": ["c2p", "p2c"]},
    ),
    "modernbert": Family(
        "ModernBert",
        "model",
        ModernBERT,
        _named(_MODERN_TOP, _MODERN_BODY, "layers.{}."),
        _NO_BIAS,
        _MODERN_OPTIONS,
        _modern,
        head_facts={"classifier_bias": False, "classifier_activation": "gelu"},
    ),
}
"""The families of encoders, by `model_type` of a Hugging Face config."""

# ModernBERT's first layer has no norm before its attention.
_ABSENT = "layers.0.attn_norm.weight"
_MANDATORY = ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads")
_MANDATORY += ("intermediate_size", "max_position_embeddings")
# Checkpoints converted from TensorFlow have the older names on the left.
_OLDER = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}
# What an encoder's tensors begin with; others belong to heads.
_ROOTS = ("embeddings", "encoder.", "transformer.", "layers.", "final_norm.")
_NO_WEIGHT = {"embeddings.position_ids"}  # 0, 1, 2, …, stored by older versions
_DERIVED = {"first_position", "prediction_head"}  # no config has them
_CLASSIFIER = "ForTokenClassification"


def is_classifier(config: Sizes) -> bool:
    """Returns whether a Hugging Face config is that of a token classifier."""
    return any(str(x).endswith(_CLASSIFIER) for x in config.get("architectures") or ())


def classifiers() -> dict[str, str]:
    """Returns transformers' name of the token classifier of each family."""
    return {kind: x.classifier + _CLASSIFIER for kind, x in FAMILIES.items()}


def sizes(folder: str | os.PathLike[str]) -> Sizes:
    """Returns `model_type` and the attributes of the encoder in a Hugging Face folder.

    Raises:
        FileNotFoundError: `config.json` is missing.
        InputError: The config is malformed.
    """
    path = Path(folder) / "config.json"
    if not path.is_file():
        raise FileNotFoundError(
            f"{path} is missing: expected a local folder as Hugging Face's "
            "save_pretrained writes it, with config.json, model.safetensors and "
            "tokenizer.json or vocab.txt."
        )
    config = spans.read_json(path)
    kind = config.get("model_type", "bert")
    if not isinstance(kind, str):
        raise InputError(f"expected model_type as a string, got {kind!r}", path)
    if kind not in FAMILIES:  # maybe for an encoder of the user's own
        plain = {n: x for n, x in config.items() if isinstance(x, int | float | str)}
        return {**plain, "model_type": kind}
    family = FAMILIES[kind]
    head_facts = family.head_facts if is_classifier(config) else {}
    for name, value in {**family.facts, **head_facts}.items():
        # An option that is missing has the value of a file of this family.
        if config.get(name, value) != value:
            raise InputError(f"expected {name} {value!r}, got {config[name]!r}", path)
    options = {n: family.spellings.get(n, n) for n in fields.of(family.module)}
    attributes = {n: config[name] for n, name in options.items() if name in config}
    if absent_names := [options[name] for name in _MANDATORY if name not in attributes]:
        raise InputError(f"lacks {', '.join(absent_names)}", path)
    with using(path):
        attributes |= {"model_type": kind, **family.our_values(config)}
        make(attributes)
    return attributes


def make(sizes: Sizes, place: str | None = None, **rates: object) -> Any:
    """Returns the encoder of `sizes`; without `model_type`, BERT's.

    `place` is that of a module of one's own; `rates` that are not None go first.

    Raises:
        InputError: There is no such encoder here, or the sizes do not fit together.
    """
    attributes = {n: tuple(x) if isinstance(x, list) else x for n, x in sizes.items()}
    attributes |= {name: rate for name, rate in rates.items() if rate is not None}
    kind = attributes.pop("model_type", "bert")
    if place:
        module = own_module("encoder", place)
        names = fields.all_of(module)
        attributes = {name: x for name, x in attributes.items() if name in names}
    elif kind in FAMILIES:
        module = FAMILIES[kind].module
    else:
        raise InputError(
            f"Expected an encoder whose config.json has a model_type of "
            f"{', '.join(FAMILIES)}, got {kind!r}; for an encoder of your own, set "
            "--config.model.representation.bert.encoder"
        )
    encoder = module(**attributes)
    fields.check_fields(encoder)
    return encoder


def length(sizes: Sizes) -> int:
    """Returns the most pieces of a window."""
    is_own = sizes["model_type"] not in FAMILIES
    return sizes.get("max_position_embeddings", 512) if is_own else make(sizes).length


def pieces_and_sizes(
    folder: str | os.PathLike[str],
) -> tuple[pieces.PieceTokenizer, Sizes]:
    """Returns what splits tokens for the encoder of a folder, and what `sizes` does.

    Raises:
        FileNotFoundError, ImportError, InputError: They cannot be read, or differ in
            the number of pieces.
    """
    attributes = sizes(folder)
    tokenizer = pieces.read(folder, length(attributes))
    if tokenizer.size > (limit := attributes.get("vocab_size", tokenizer.size)):
        message = (
            f"expected a vocab_size of at least {tokenizer.size:,}, the number of "
        )
        message += f"ids in the tokenizer, got {limit:,}"
        raise InputError(message, Path(folder) / "config.json")
    return tokenizer, attributes


def files(folder: str | os.PathLike[str]) -> dict[str, Path]:
    """Returns what is read in a folder, by names for the record of a run."""
    paths = sorted(Path(folder).iterdir())
    suffixes = (".json", ".txt", ".safetensors")
    return {f"pretrained {x.name}": x for x in paths if x.suffix in suffixes}


def read(
    folder: str | os.PathLike[str], num_labels: int | None = None
) -> tuple[Weights, dict[str, np.ndarray]]:
    """Returns the encoder weights of a Hugging Face folder, as NumPy arrays.

    They have the tree of the module's parameters; half precision becomes float32.
    Second comes the linear layer of a token classifier with so many labels, or nothing
    for None; other heads are skipped.

    Raises:
        FileNotFoundError: The folder has no weights, or only pickled ones.
        ImportError: safetensors is not installed.
        InputError: Tensors are missing, unknown or have another shape.
    """
    attributes = sizes(folder)
    model, ids = make(attributes), jnp.zeros(1, jnp.int32)
    names = FAMILIES[attributes["model_type"]].names
    start = functools.partial(model.init, jax.random.key(0), train=False)
    path, tensors, head_tensors = _tensors(Path(folder))
    if attributes.get("prediction_head"):
        tensors |= {n: x for n, x in head_tensors.items() if n.startswith("head.")}

    def take(tensors, name, shape, is_map):
        shape = shape[::-1] if is_map else shape  # PyTorch maps x to x Wᵀ
        tensor = tensors.pop(name, None)
        if name == _ABSENT:
            return np.ones(shape, np.float32)
        if tensor is None or tensor.shape != shape:
            actual = "none" if tensor is None else tensor.shape
            message = f"expected {name} of shape {shape} by config.json, got {actual}"
            raise InputError(message, path)
        is_real = jnp.issubdtype(tensor.dtype, jnp.floating)
        array = np.asarray(tensor, np.float32) if is_real else None
        if array is None or not np.isfinite(array).all():
            kind = "NaN or infinity" if is_real else tensor.dtype
            message = f"expected finite numbers of floating point in {name}, got {kind}"
            raise InputError(message, path)
        return array.T if is_map else array

    def fill(name, leaf):
        torch_name, is_stacked, is_map = _spelt(name, names)
        if not is_stacked:
            return take(tensors, torch_name, leaf.shape, is_map)
        numbers, shape = range(len(leaf)), leaf.shape[1:]
        rows = (take(tensors, torch_name.format(i), shape, is_map) for i in numbers)
        return np.stack([*rows])

    with using(Path(folder) / "config.json"):  # sizes that no weight shows may lie
        shapes = jax.eval_shape(start, ids, ids == 0)["params"]
    weights = map_named(fill, shapes)
    if surplus := sorted(tensors.keys() - _NO_WEIGHT):
        raise InputError(
            f"{len(surplus)} tensors are not known: {', '.join(surplus[:8])}. Does "
            "config.json belong to these weights?",
            path,
        )
    if num_labels is None:
        return weights, {}
    size = attributes["hidden_size"]
    return weights, {
        "kernel": take(head_tensors, "classifier.weight", (size, num_labels), True),
        "bias": take(head_tensors, "classifier.bias", (num_labels,), False),
    }


def _spelt(name: str, names: Mapping[str, str]) -> tuple[str, bool, bool]:
    """Returns PyTorch's name of an array, and if it is of all layers, and if a map."""
    *keys, kind = name.split("/")
    torch_name = names[keys[-1] if keys else kind]
    torch_name += ".bias" if kind == "bias" else ".weight"
    return torch_name, keys[:1] == ["layers"], kind == "kernel"


def classifier(
    sizes: Sizes, encoder: Weights, linear: Weights
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Returns config and tensors of a token classifier: undoes `sizes` and `read`."""
    kind = sizes["model_type"]
    family = FAMILIES[kind]
    tensors, arrays = {}, {"classifier": linear, **encoder}
    for name, leaf in named(arrays).items():
        torch_name, is_stacked, is_map = _spelt(name, family.names)
        rows = np.asarray(leaf, np.float32)
        for i, row in enumerate(rows if is_stacked else rows[None]):
            whole = torch_name.format(i)
            is_beside = whole.startswith(("head.", "classifier."))
            target = whole if is_beside else f"{family.prefix}.{whole}"
            tensors[target] = np.ascontiguousarray(row.T if is_map else row)
    tensors.pop(f"{family.prefix}.{_ABSENT}", None)
    attributes = {n: x for n, x in sizes.items() if n not in _DERIVED}
    config = {family.spellings.get(n, n): x for n, x in attributes.items()}
    config |= {**family.facts, **family.config_values(sizes)}
    return {"architectures": [classifiers()[kind]], **config}, tensors


def fill(
    weights: Weights, folder: str | os.PathLike[str], encoder: nn.Module
) -> Weights:
    """Returns a tagger's weights with those of a folder filled in.

    `read` reads them; for an encoder of your own, its method of this name, if any.
    """
    if any(type(encoder) is family.module for family in FAMILIES.values()):
        pretrained = named(read(folder)[0])
    elif hasattr(encoder, "read"):
        pretrained = named(encoder.read(folder))
    else:
        return weights

    def take(name, leaf):
        _, prefix, rest = name.rpartition(PREFIX)
        return jnp.asarray(pretrained[rest]) if prefix else leaf

    return map_named(take, weights)


def _tensors(
    folder: Path,
) -> tuple[Path, dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Returns the file of all tensors, or their list; those of the encoder; others."""
    files = optional("safetensors.numpy", "A pretrained encoder")
    tensors: dict[str, np.ndarray] = {}
    whole, paths = _files(folder)
    for path in paths:
        with using(path):
            tensors.update(files.load_file(path))
    # Models with heads have the encoder below their name: "bert.", "model.", ….
    words = ("embeddings.word_embeddings.weight", "embeddings.tok_embeddings.weight")
    first = next((name for name in tensors if name.endswith(words)), "")
    prefix = first[: first.find("embeddings.")]
    encoder_tensors, head_tensors = {}, {}
    for name, tensor in tensors.items():
        current = name.removeprefix(prefix)
        for old_name, new_name in _OLDER.items():
            current = current.replace(old_name, new_name)
        if name.startswith(prefix) and current.startswith(_ROOTS):
            encoder_tensors[current] = tensor
        else:
            head_tensors[name] = tensor
    return whole, encoder_tensors, head_tensors


def _files(folder: Path) -> tuple[Path, list[Path]]:
    """Returns the file or list of weights, and the files."""
    whole, index = (folder / f"model.safetensors{end}" for end in ("", ".index.json"))
    if whole.is_file():
        return whole, [whole]
    if index.is_file():
        files = spans.read_json(index).get("weight_map")
        if not isinstance(files, dict) or {*map(type, files.values())} - {str}:
            raise InputError("expected weight_map, from tensors to files", index)
        paths = [folder / name for name in sorted(set(files.values()))]
        if absent := [path for path in paths if path not in [*folder.iterdir()]]:
            raise InputError(f"lists {absent[0]}, which is not in its folder", index)
        return index, paths
    if pickles := sorted(path.name for path in folder.glob("*.bin")):
        raise FileNotFoundError(
            f"{folder} has its weights in {', '.join(pickles)}, a pickle, which could "
            "run any code; expected model.safetensors. If you trust the file, "
            f"{pieces.conversion(folder, 't.AutoModel')}"
        )
    raise FileNotFoundError(f"Neither {whole.name} nor {index.name} in {folder}")
