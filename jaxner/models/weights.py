"""The weights of a model by name: filled from vectors, or copied from a run."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array

from jaxner.types import Weights, WordVectors


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
