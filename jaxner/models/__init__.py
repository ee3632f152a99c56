"""Models: a representation, an encoder and a head, chosen independently by name.

`build` makes the (static, hashable) model, `init` its weights, and `apply` computes the
potentials of one sentence. `jax.vmap` adds the batch.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array

from jaxner.models.grn import GRN
from jaxner.models.grn import relation_scores as relation_scores
from jaxner.models.heads import Head
from jaxner.models.representation import CharacterCNN, Representation, Words
from jaxner.types import Potentials, Sentence, Weights, WordVectors

ENCODERS = {"grn": GRN}
HEADS = {"crf": True, "softmax": False}
CHARACTERS = {"cnn": CharacterCNN}


class Tagger(nn.Module):
    """A representation, an encoder and a head.

    Attributes:
        representation: From a sentence to features of its tokens.
        encoder: From those to features of the tokens in their context.
        head: From those to potentials.
    """

    representation: nn.Module
    encoder: nn.Module
    head: nn.Module

    def __call__(self, sentence: Sentence, *, train: bool):
        """Returns the potentials, and a dict of intermediates."""
        x = self.representation(sentence, train=train)
        x, out = self.encoder(x, sentence.mask, train=train)
        return self.head(x, train=train), out


def build(
    *,
    num_labels: int,
    num_trained_words: int,
    num_frozen_words: int,
    num_chars: int,
    representation: Mapping[str, Any],
    encoder: Mapping[str, Any],
    head: Mapping[str, Any],
) -> Tagger:
    """Builds a model from the sizes that the data give and the choices of a config.

    Args:
        num_labels: Size of the label set.
        num_trained_words: Words whose vectors are trained; see `Words`.
        num_frozen_words: Words whose vectors are not.
        num_chars: Size of the character vocabulary.
        representation: `words` and `chars`, each a mapping or None, and the other
            attributes of `Representation`.
        encoder: `name`, one of `ENCODERS`, and its attributes.
        head: `name`, one of `HEADS`, and the other attributes of `Head`.

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
    options = dict(representation)
    words, chars = options.pop("words", None), options.pop("chars", None)
    if words is None and chars is None:
        raise ValueError("A representation needs `words` or `chars`; both are None.")
    if words is not None:
        sizes = {"num_trained": num_trained_words, "num_frozen": num_frozen_words}
        words = _make(Words, "representation.words", {**words, **sizes})
    if chars is not None:
        kind, chars = _choose(CHARACTERS, "representation.chars", chars, "cnn")
        chars["num_chars"] = num_chars
        chars = _make(kind, "representation.chars", chars)
    options = {**options, "words": words, "chars": chars}
    encode, encoder = _choose(ENCODERS, "encoder", encoder)
    is_crf, head = _choose(HEADS, "head", head)
    head = {**head, "num_labels": num_labels, "transitions": is_crf}
    return Tagger(
        representation=_make(Representation, "representation", options),
        encoder=_make(encode, "encoder", encoder),
        head=_make(Head, "head", head),
    )


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
    return module(**options)


_LINEN = ("parent", "name")


def init(model: Tagger, seed: int) -> Weights:
    """Draws the weights of a model.

    Args:
        model: What `build` returned.
        seed: Decides all of them.

    Returns:
        `{"params": …, "frozen": …}`; frozen vectors are zero until they are filled in.
    """
    tokens = jnp.zeros(1, jnp.int32)
    sentence = Sentence(tokens, jnp.zeros((1, 1), jnp.int32), tokens == 0)
    weights = model.init(jax.random.key(seed), sentence, train=False)
    return {"params": weights["params"], "frozen": weights.get("frozen", {})}


def with_vectors(weights: Weights, vectors: WordVectors) -> Weights:
    """Fills pretrained word vectors into freshly drawn weights.

    Args:
        weights: What `init` returned.
        vectors: Aligned with the model's word ids.

    Returns:
        New weights; trained words without a vector keep the one drawn.
    """
    params, frozen = weights["params"], weights["frozen"]
    trained = params["representation"]["words"]["trained"]
    trained = trained.at[vectors.rows].set(vectors.trained)
    params = _replaced(params, ("representation", "words", "trained"), trained)
    if frozen:
        values = jnp.asarray(vectors.frozen)
        frozen = _replaced(frozen, ("representation", "words", "vectors"), values)
    return {"params": params, "frozen": frozen}


def _replaced(tree: dict[str, Any], path: tuple[str, ...], leaf: Array):
    head, *rest = path
    return {**tree, head: _replaced(tree[head], tuple(rest), leaf) if rest else leaf}


def apply_with_intermediates(
    model: Tagger, weights: Weights, sentence: Sentence, key: Array | None = None
) -> tuple[Potentials, dict[str, Array]]:
    """Computes the potentials of one sentence, and what the encoder lays open.

    `jit` removes the intermediates that are not used.

    Args:
        model: What `build` returned.
        weights: What `init` returned, or its like after training.
        sentence: One sentence; `jax.vmap` this function for a batch.
        key: Switches dropout on.
    """
    rngs = {} if key is None else {"dropout": key}
    output: Any = model.apply(weights, sentence, train=key is not None, rngs=rngs)
    return output


def apply(
    model: Tagger, weights: Weights, sentence: Sentence, key: Array | None = None
) -> Potentials:
    """Computes the potentials of one sentence; a key switches dropout on.

    Args:
        model: What `build` returned.
        weights: What `init` returned, or its like after training.
        sentence: One sentence; `jax.vmap` this function for a batch.
        key: Source of the dropout masks; None for none.
    """
    return apply_with_intermediates(model, weights, sentence, key)[0]
