"""The model: three parts, and potentials as a pure function of one sentence."""

from __future__ import annotations

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxner import inference
from jaxner.models import axes
from jaxner.models.mc_dropout import PARTS, Keys, MCDropout
from jaxner.types import AnyPotentials, Sentence, Weights, WordVectors


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
    """

    representation: nn.Module
    encoder: nn.Module
    head: nn.Module
    earlier_heads: tuple[nn.Module, ...] = ()
    refinement: nn.Module | None = None
    mc_dropout: MCDropout = MCDropout()
    separators: bool = False

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
        return self.representation(sentence, train=train)

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
        features, out = self.encoder(x, sentence.mask, train=in_encoder)
        stages = features if isinstance(features, tuple) else (features,)
        heads = self.earlier_heads or (self.head,) * (len(stages) - 1)
        return tuple(
            head(stage, train=in_head)
            for head, stage in zip((*heads, self.head), stages, strict=True)
        ), out

    def _refine(self, x, sentence, probabilities, train):
        refinement: Any = self.refinement
        own: Any = refinement.representation
        words = x if own is None else own(sentence, train=train)
        # The refinement's gradient does not flow into the draft.
        given = jax.lax.stop_gradient(probabilities)
        return refinement(words, given, sentence.mask, train=train)


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
    if not hasattr(key, "dtype"):
        raise TypeError(f"Expected a PRNG key, such as jax.random.key(0), got {key!r}")
    tokens = jnp.zeros(1, jnp.int32)
    chars = jnp.zeros((1, 1), jnp.int32)
    sentence = Sentence(tokens, chars, tokens, tokens == 0, tokens)
    weights = model.init(key, sentence, train=False)
    return {"params": weights["params"], "frozen": weights.get("frozen", {})}


def with_vectors(weights: Weights, vectors: WordVectors) -> Weights:
    """Returns freshly drawn weights with pretrained word vectors filled in.

    Args:
        weights: What `init` returned.
        vectors: Aligned with the model's word ids.

    Returns:
        New weights; trained words without a pretrained vector keep the drawn one. A
        refinement with its own word table starts from the same vectors.
    """

    def fill(path, leaf):
        if _name(path).endswith("representation/words/trained"):
            return leaf.at[vectors.rows].set(vectors.trained)
        if _name(path).endswith("representation/words/vectors"):
            return jnp.asarray(vectors.frozen)
        return leaf

    return jax.tree_util.tree_map_with_path(fill, weights)


def standardise_words(weights: Weights) -> Weights:
    """Returns weights with word vectors divided by the vocabulary's standard deviation.

    The deviation is over all trained words: drawn vectors and the unknown word count,
    padding does not. If only the unknown word is trained, all words count. Frozen words
    are divided by the same number.

    The code of Gui et al. (2020) does the same to its whole embedding matrix, which
    also holds the words of dev and test.

    Args:
        weights: What `with_vectors` returned.

    Returns:
        New weights. A refinement's own word table has its own deviation.

    Example:
        >>> import jax.numpy as jnp
        >>> words = {"trained": jnp.array([[9.0], [1.0], [5.0]])}
        >>> params = {"representation": {"words": words}}
        >>> new = standardise_words({"params": params, "frozen": {}})
        >>> new["params"]["representation"]["words"]["trained"].ravel().tolist()
        [4.5, 0.5, 2.5]
    """
    tables: dict[str, list[Array]] = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(weights):
        owner = _owner_of_words(path)
        if owner is not None:
            tables.setdefault(owner, []).append(leaf)
    deviations = {}
    for owner, leaves in tables.items():
        # "frozen", if present, comes before "params".
        *frozen, trained = leaves
        rows = [trained[1:]] + (frozen if len(trained) == 2 else [])
        deviations[owner] = jnp.std(jnp.concatenate(rows))

    def divide(path, leaf):
        owner = _owner_of_words(path)
        return leaf if owner is None else leaf / deviations[owner]

    return jax.tree_util.tree_map_with_path(divide, weights)


def _owner_of_words(path) -> str | None:
    """Returns the path of the module that owns a word table; None for other arrays."""
    _, _, name = _name(path).partition("/")
    module, _, leaf = name.rpartition("/")
    is_table = leaf in ("trained", "vectors") and f"/{module}".endswith(
        "/representation/words"
    )
    return module if is_table else None


def transfer(weights: Weights, source: Weights) -> tuple[Weights, list[str]]:
    """Returns weights copied from another model where name and shape agree.

    Args:
        weights: Freshly drawn weights.
        source: Weights of a trained model.

    Returns:
        New weights, and the names of the arrays that keep their drawn values.

    Example:
        >>> import jax.numpy as jnp
        >>> old = {"params": {"a": jnp.ones(2), "b": jnp.ones(2)}, "frozen": {}}
        >>> new = {"params": {"a": jnp.zeros(2), "b": jnp.zeros(3)}, "frozen": {}}
        >>> merged, kept = transfer(new, old)
        >>> merged["params"]["a"].tolist(), kept
        ([1.0, 1.0], ['params/b'])
    """
    given = {
        _name(path): leaf for path, leaf in jax.tree_util.tree_leaves_with_path(source)
    }
    kept = []

    def take(path, leaf):
        found = given.get(_name(path))
        if found is not None and found.shape == leaf.shape:
            return found
        kept.append(_name(path))
        return leaf

    return jax.tree_util.tree_map_with_path(take, weights), kept


def _name(path) -> str:
    return jax.tree_util.keystr(path, simple=True, separator="/")


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
    return apply_with_intermediates(model, weights, sentence, key)[0]
