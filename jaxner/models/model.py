"""The model: three parts, and potentials as a pure function of one sentence."""

from __future__ import annotations

from typing import Annotated, Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxner import inference
from jaxner.fields import OneOf, check_fields
from jaxner.models import axes
from jaxner.models.checks import (
    check_encoded,
    check_key,
    check_model,
    check_scores,
    check_sentence,
    check_weights,
)
from jaxner.models.mc_dropout import PARTS, Keys, MCDropout
from jaxner.types import AnyPotentials, Sentence, Weights

DTYPES = ("float32", "bfloat16")
"""What a model computes in: bfloat16 has the range of float32 and 8 bits of precision,
for accelerators, which multiply it several times faster."""

_LOW = ("representation", "encoder", "streams")  # parts that may compute in less


class Model(nn.Module):
    """A representation, an encoder and a head; optionally a refinement.

    Attributes:
        representation: Maps a sentence to features of its tokens.
        encoder: Maps these to features of the tokens in context; a tuple of features if
            there are several stages, the final one last.
        head: Maps these to potentials, for the last stage; for all stages if there are
            no earlier heads.
        earlier_heads: Heads of the stages before the last one.
        refinement: Labels the sentence a second time, given the head's draft labels
            (`models.refinement.Refinement`); its potentials are an additional stage.
        mc_dropout: How the tagger drafts labels at prediction time.
        separators: Whether the last label marks separators, in a tagger of documents.
            Training learns this label; at prediction time separators are known, and no
            word gets it.
        dtype: One of `DTYPES`: what representation and encoder compute in. Weights,
            heads and inference over labels stay in float32.
        remat: Whether training keeps only the inputs and outputs of representation and
            encoder (and the inputs of BERT's layers) and computes the rest again on the
            way back: less memory, a third more time.
    """

    representation: nn.Module
    encoder: nn.Module
    head: nn.Module
    earlier_heads: tuple[nn.Module, ...] = ()
    refinement: nn.Module | None = None
    mc_dropout: MCDropout = MCDropout()
    separators: bool = False
    dtype: Annotated[str, OneOf(DTYPES)] = "float32"
    remat: bool = False

    def __post_init__(self):
        check_fields(self)
        super().__post_init__()

    def apply(self, variables: Any, *args: Any, **kwargs: Any) -> Any:
        """Does what Linen's `apply` does, in the model's precision.

        Matrix products of float32 are exact, which accelerators else round to fewer
        digits; JAX's own option `jax_default_matmul_precision` decides if it is set.
        """
        precision = jax.config.jax_default_matmul_precision or "highest"
        with jax.default_matmul_precision(precision):
            return super().apply(self._lowered(variables), *args, **kwargs)

    def _lowered(self, variables: Any) -> Any:
        """Casts the weights of what is computed in a lower precision."""
        if self.dtype == "float32":
            return variables

        def cast(leaf):
            is_float = jnp.issubdtype(leaf.dtype, jnp.floating)
            return leaf.astype(self.dtype) if is_float else leaf

        def chosen(weights):
            weights = {**weights}
            if "refinement" in weights:
                weights["refinement"] = chosen(weights["refinement"])
            low = (name for name in _LOW if name in weights)
            return weights | {n: jax.tree.map(cast, weights[n]) for n in low}

        return {kind: chosen(weights) for kind, weights in variables.items()}

    def __call__(self, sentence: Sentence, *, train: bool):
        """Returns the potentials of each stage, and a dict of intermediates."""
        x = self.represent(sentence, train=train)
        stages, out = self._label(x, sentence, train, train)
        if self.refinement is None:
            return stages, out
        probabilities = inference.marginals(stages[-1], sentence.mask)
        refined = self._refine(x, sentence, probabilities, train)
        return (*stages, refined), out

    def represent(self, sentence: Sentence, *, train: bool) -> Float[Array, "T D"]:
        """Returns the features of each token, without its context."""

        def features(module, sentence):
            return module(sentence, train=train)

        x = self._lean(features)(self.representation, sentence)
        return x.astype(self.dtype)

    def _lean(self, function: Any) -> Any:
        """Computes what a function of a module held in between again, if asked to."""
        return nn.remat(function) if self.remat else function

    def draft(
        self,
        x: Float[Array, "T D"],
        sentence: Sentence,
        *,
        train: bool,
        parts: tuple[str, ...] = PARTS,
    ):
        """Returns what `__call__` returns, without the refinement's stage.

        Args:
            x: What `represent` returned.
            sentence: One sentence.
            train: Whether to apply dropout.
            parts: Parts to apply it in.
        """
        return self._label(
            x, sentence, train and "encoder" in parts, train and "head" in parts
        )

    def refine(
        self,
        x: Float[Array, "T D"],
        sentence: Sentence,
        probabilities: Float[Array, "T L"],
    ):
        """Returns the refinement's potentials, given the draft's probabilities."""
        return self._refine(x, sentence, probabilities, False)

    def _label(self, x, sentence, in_encoder, in_head):
        def encode(module, x, mask):
            return module(x, mask, train=in_encoder)

        encoded = self._lean(encode)(self.encoder, x, sentence.mask)
        check_encoded(self.encoder, encoded)
        features, out = encoded
        stages = features if isinstance(features, tuple) else (features,)
        heads = self.earlier_heads or (self.head,) * (len(stages) - 1)
        found = []
        for head, stage in zip((*heads, self.head), stages, strict=True):
            found.append(head(stage.astype(jnp.float32), train=in_head))
            check_scores(head, found[-1])
        return tuple(found), out

    def _refine(self, x, sentence, probabilities, train):
        refinement: Any = self.refinement
        own: Any = refinement.representation
        words = x if own is None else own(sentence, train=train)
        # The refinement's gradient does not flow into the draft.
        given = jax.lax.stop_gradient(probabilities)
        potentials = refinement(
            words, given.astype(self.dtype), sentence.mask, train=train
        )
        return jax.tree.map(lambda a: a.astype(jnp.float32), potentials)


def init(model: Model, key: Array) -> Weights:
    """Returns freshly drawn weights of a model.

    Args:
        model: What `build` returned.
        key: Determines all weights.

    Returns:
        `{"params": …, "frozen": …}`; frozen vectors are zero until `with_vectors`.

    Raises:
        TypeError: `key` is not a PRNG key.

    Example:
        >>> import jax, jaxner
        >>> vocabulary, _ = jaxner.build_vocabulary([["Rome", "fell"]], ["LOC"])
        >>> representation = {"words": {"dim": 8}, "chars": None}
        >>> encoder, head = {"name": "grn", "hidden_dim": 16}, {"name": "crf"}
        >>> model = jaxner.build(
        ...     vocabulary, representation=representation, encoder=encoder, head=head
        ... )
        >>> sorted(jaxner.init(model, jax.random.key(0)))
        ['frozen', 'params']
    """
    check_model(model)
    check_key(key)
    try:
        hash(model)
    except TypeError:  # a module of your own holds an array
        return _drawn(model, key)
    return _drawn_at_once(model, key)


def _drawn(model: Model, key: Array) -> Weights:
    tokens = jnp.zeros(1, jnp.int32)
    chars = jnp.zeros((1, 1), jnp.int32)
    sentence = Sentence(tokens, chars, tokens, tokens == 0, tokens)
    weights = model.init(key, sentence, train=False)
    return {"params": weights["params"], "frozen": weights.get("frozen", {})}


# One program: alone, each draw would be compiled, and so would a forward pass.
_drawn_at_once = jax.jit(_drawn, static_argnums=0)


def character_readers(model: Model) -> list[Any]:
    """Returns the modules of a model that read characters."""
    own = getattr(model.refinement, "representation", None)
    readers = (getattr(part, "chars", None) for part in (model.representation, own))
    return [reader for reader in readers if reader is not None]


def apply_stages(
    model: Model, weights: Weights, sentence: Sentence, keys: Keys | None = None
) -> tuple[tuple[AnyPotentials, ...], dict[str, Array]]:
    """Returns the potentials of every stage of one sentence, the final one last.

    Args:
        model: What `build` returned.
        weights: What `init` returned, or its like after training.
        sentence: One sentence; `jax.vmap` this function for a batch.
        keys: PRNG keys, one for each kind of noise; None switches a kind off.

    Returns:
        The potentials, and the encoder's intermediates; `jit` removes unused ones.
    """
    rngs = {} if keys is None else keys.rngs()
    sentence = jax.tree.map(
        jnp.asarray, sentence
    )  # unmapped fields may be NumPy arrays

    def compute(weights: Any, sentence: Sentence, rngs: Any) -> Any:
        return model.apply(weights, sentence, train="dropout" in rngs, rngs=rngs)

    return axes.automatic(compute, weights, sentence, rngs)


def apply_with_intermediates(
    model: Model, weights: Weights, sentence: Sentence, key: Array | None = None
) -> tuple[AnyPotentials, dict[str, Array]]:
    """Returns the potentials of one sentence and the encoder's intermediates.

    `jit` removes unused intermediates.

    Args:
        model: What `build` returned.
        weights: What `init` returned, or its like after training.
        sentence: One sentence; `jax.vmap` this function for a batch.
        key: Switches dropout on.
    """
    keys = None if key is None else Keys.of(key)
    stages, out = apply_stages(model, weights, sentence, keys)
    return stages[-1], out


def apply(
    model: Model, weights: Weights, sentence: Sentence, key: Array | None = None
) -> AnyPotentials:
    """Returns the potentials of one sentence; a key switches dropout on.

    Args:
        model: What `build` returned.
        weights: What `init` returned, or its like after training.
        sentence: One sentence; `jax.vmap` this function for a batch.
        key: Draws the dropout masks; None for no dropout.

    Returns:
        Scores of labels in nats; also of label pairs if the head is a CRF.

    Example:
        >>> import jaxner
        >>> tagger = jaxner.load("runs/grn")
        >>> sentence = jaxner.encode(tagger, ["Rome", "fell"])
        >>> apply(tagger.model, tagger.weights, sentence).emissions.shape[0]
        2
    """
    check_model(model)
    check_weights(weights)
    check_sentence(sentence)
    if key is not None:
        check_key(key)
    return apply_with_intermediates(model, weights, sentence, key)[0]
