"""Models: a representation, an encoder and a head, chosen independently by name.

`build` makes the (static, hashable) model, `init` its weights, and `apply` computes the
potentials of one sentence. `jax.vmap` adds the batch.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import flax.linen as nn

from jaxner.models.attention import SelfAttention
from jaxner.models.chain import Chain, Projection
from jaxner.models.characters import CharacterCNN, CharacterLSTM
from jaxner.models.grn import GRN
from jaxner.models.grn import relation_scores as relation_scores
from jaxner.models.heads import DirectionHead, Head
from jaxner.models.idcnn import IDCNN
from jaxner.models.lstm import BiLSTM
from jaxner.models.lstm import candidate_kernels as candidate_kernels
from jaxner.models.representation import Capitalisation, Representation, Words
from jaxner.models.tagger import Keys as Keys
from jaxner.models.tagger import Tagger as Tagger
from jaxner.models.tagger import apply as apply
from jaxner.models.tagger import apply_stages as apply_stages
from jaxner.models.tagger import apply_with_intermediates as apply_with_intermediates
from jaxner.models.tagger import init as init
from jaxner.models.tagger import transfer as transfer
from jaxner.models.tagger import with_vectors as with_vectors

ENCODERS = {
    "attention": SelfAttention,
    "bilstm": BiLSTM,
    "chain": Chain,
    "grn": GRN,
    "idcnn": IDCNN,
    "projection": Projection,
}
HEADS = {
    "crf": (Head, {"transitions": True}),
    "direction": (DirectionHead, {}),
    "softmax": (Head, {"transitions": False}),
}
CHARACTERS = {"cnn": CharacterCNN, "lstm": CharacterLSTM}


def build(
    *,
    num_labels: int,
    num_trained_words: int,
    num_frozen_words: int,
    num_chars: int,
    representation: Mapping[str, Any],
    encoder: Mapping[str, Any] | nn.Module,
    head: Mapping[str, Any],
    char_types: tuple[int, ...] | None = None,
) -> Tagger:
    """Builds a model from the sizes that the data give and the choices of a config.

    Args:
        num_labels: Size of the label set.
        num_trained_words: Words whose vectors are trained; see `Words`.
        num_frozen_words: Words whose vectors are not.
        num_chars: Size of the character vocabulary.
        representation: `words`, `chars` and `caps`, each a mapping or None, and the
            other attributes of `Representation`.
        encoder: `name`, one of `ENCODERS`, and its attributes; those of a "chain",
            `first` and `then`, are encoders again. Or an encoder of your own: a Linen
            module that maps `(x [T, D], mask [T], *, train)` to `(features [T, H],
            {})`, with zeros under padding.
        head: `name`, one of `HEADS`, and the other attributes of `Head`; `per_stage`,
            whether each stage of the encoder has a head of its own.
        char_types: The type of each character, for character features with `types`.

    Returns:
        A module that compares and hashes by value.

    Raises:
        ValueError: A name or an attribute is unknown.

    Example:
        >>> model = build(
        ...     num_labels=9, num_trained_words=50, num_frozen_words=0, num_chars=20,
        ...     representation={"words": {"dim": 8}, "chars": None, "dropout": 0.5},
        ...     encoder={"name": "grn", "hidden_dim": 16},
        ...     head={"name": "crf", "dropout": 0.5},
        ... )
        >>> weights = init(model, seed=0)
        >>> weights["params"]["encoder"]["conv3"]["kernel"].shape
        (24, 16)
    """
    sizes = {"num_trained": num_trained_words, "num_frozen": num_frozen_words}
    characters = {"num_chars": num_chars}
    encode = _encoder("encoder", encoder, num_labels)
    head = dict(head)
    per_stage = head.pop("per_stage", False)
    (kind, given), head = _choose(HEADS, "head", head)
    head = {**head, **given, "num_labels": num_labels}
    earlier = getattr(encode, "num_stages", 1) - 1 if per_stage else 0
    return Tagger(
        representation=_representation(representation, sizes, characters, char_types),
        encoder=encode,
        head=_make(kind, "head", head),
        # One module each: one that stands in two places has the same weights there.
        earlier_heads=tuple(_make(kind, "head", head) for _ in range(earlier)),
    )


def _representation(options: Mapping[str, Any], sizes, characters, char_types):
    options = dict(options)
    words, chars = options.pop("words", None), options.pop("chars", None)
    caps = options.pop("caps", None)
    if words is None and chars is None:
        raise ValueError("A representation needs `words` or `chars`; both are None.")
    if words is not None:
        words = _make(Words, "representation.words", {**words, **sizes})
    if caps is not None:
        caps = _make(Capitalisation, "representation.caps", caps)
    if chars is not None:
        kind, chars = _choose(CHARACTERS, "representation.chars", chars, "cnn")
        if "types" in chars:  # a switch in the config, a table in the module
            if chars["types"] and char_types is None:
                raise ValueError("representation.chars.types needs `char_types`")
            chars["types"] = char_types if chars["types"] else None
        chars = _make(kind, "representation.chars", {**chars, **characters})
    options = {**options, "words": words, "chars": chars, "caps": caps}
    return _make(Representation, "representation", options)


def _encoder(part: str, options: Mapping[str, Any] | nn.Module, num_labels: int) -> Any:
    if isinstance(options, nn.Module):
        return options
    kind, options = _choose(ENCODERS, part, options)
    if kind is Chain:
        links = {"first", "then"}
        if set(options) != links:
            raise ValueError(
                f"Expected {part}.first and {part}.then of a chain, got "
                f"{sorted(options)}"
            )
        options = {n: _encoder(f"{part}.{n}", options[n], num_labels) for n in links}
    if "num_labels" in inspect.signature(kind).parameters:
        options = {**options, "num_labels": num_labels}
    return _make(kind, part, options)


def _choose(table: Mapping[str, Any], part: str, options, default: str | None = None):
    """Looks the `name` of a part up; returns what it stands for, and the rest."""
    options = dict(options)
    name = options.pop("name", default)
    if name not in table:
        raise ValueError(f"Unknown {part} {name!r}; known: {', '.join(sorted(table))}")
    return table[name], options


def _make(module: type[nn.Module], part: str, options: Mapping[str, Any]) -> Any:
    known = [p for p in inspect.signature(module).parameters if p not in _LINEN]
    for option in options:
        if option not in known:
            raise ValueError(f"Unknown option {part}.{option}; known: {known}")
    # JSON has no tuples, and lists do not hash.
    values = {k: tuple(v) if isinstance(v, list) else v for k, v in options.items()}
    return module(**values)


_LINEN = ("parent", "name")
