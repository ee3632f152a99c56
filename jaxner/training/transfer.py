"""Learning on: a run that starts from the weights of another, on other data.

The new vocabulary has everything that the old one has, and what is new in the data.
Rows of weights follow their words, characters and labels; rows of new ones are drawn.
Old types of entities are kept by two terms of the loss, see `Objective`.

Shape letters: `T` tokens, `L` labels of the new tagger.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxner import models
from jaxner.answers import probabilities
from jaxner.data import schemes
from jaxner.data.corpora import Split
from jaxner.data.vocabulary import Vocabulary
from jaxner.errors import InputError
from jaxner.models.model import map_named, named
from jaxner.tagger import OF_THE_VOCABULARY, Tagger
from jaxner.training.objectives import Objective
from jaxner.types import Weights, WordVectors
from jaxner.wording import counted

Log = Callable[[str], object]
_WORDS = "/words/trained", "/words/vectors"


def extend(
    vocabulary: Vocabulary,
    vectors: WordVectors | None,
    old: Vocabulary,
    log: Log,
) -> tuple[Vocabulary, WordVectors | None]:
    """Returns a vocabulary, and its vectors, with what it lacks of an old one.

    Words that only the old one has join the frozen ones, since no gradient reaches
    them. `vocabulary` has the old types already; without pieces, it gets the old ones.

    Raises:
        InputError: The old one has another scheme, other rules, or another encoder.
    """
    if vocabulary.pieces is None and old.pieces is not None:
        vocabulary = dataclasses.replace(
            vocabulary, pieces=old.pieces, encoder_sizes=old.encoder_sizes
        )
    if vocabulary.pieces != old.pieces:
        raise InputError(
            "The run in --config.init_from has another pretrained encoder: leave "
            "--config.data.pretrained out"
        )
    sides = old, vocabulary
    facts = {name: [getattr(x, name) for x in sides] for name in OF_THE_VOCABULARY}
    sizes = [dict(x.encoder_sizes or ()) for x in sides]
    for name in sizes[0] | sizes[1]:
        facts[f"pretrained: {name}"] = [x.get(name) for x in sizes]
    for name, (before, now) in facts.items():
        if now != before:
            run = f"the run in --config.init_from has {before!r}"
            raise InputError(f"--config.data.{name} is {now!r}, {run}: take the same")
    missing = _without(old.words, vocabulary.words)
    words, chars, types = (
        _without(getattr(vocabulary, kind), getattr(old, kind))
        for kind in ("words", "chars", "types")
    )
    log(
        f"New beside the run in --config.init_from: {counted(len(words), 'word')}, "
        f"{counted(len(chars), 'character')}, types {', '.join(types) or 'none'}"
    )
    if vectors is not None:
        rows = np.zeros((len(missing), vectors.frozen.shape[1]), np.float32)
        vectors = vectors._replace(frozen=np.concatenate([vectors.frozen, rows]))
    changes: Any = {
        "words": (*vocabulary.words, *missing),
        "chars": (*old.chars, *chars),
    }
    return dataclasses.replace(vocabulary, **changes), vectors


def start(
    old: Tagger,
    weights: Weights,
    vocabulary: Vocabulary,
    build: Callable[[Vocabulary], Any],
    log: Log,
) -> Weights:
    """Returns drawn weights with those of an old tagger in their places.

    `build` makes the model of a vocabulary. The optimizer starts fresh; in the code of
    Strubell et al. (2017) it continues.

    Raises:
        InputError: No weights of the old tagger fit.
    """
    sources, drawn = named(old.weights), []
    kinds = _kinds(build, vocabulary)
    places = {
        "chars": _places(vocabulary.chars, old.vocabulary.chars),
        "labels": _places(vocabulary.label_names, old.vocabulary.label_names),
    }
    words = _places(vocabulary.words, old.vocabulary.words)
    count = vocabulary.num_trained

    def take(name: str, leaf: Any) -> Any:
        source, kind = sources.get(name), kinds.get(name, {})
        rows = {axis: places[k] for axis, k in kind.items()}
        if name.endswith(_WORDS):
            # A word may have moved between the trained and the frozen ones.
            place, _, table = name.partition("/")[2].rpartition("/")
            tables = (f"params/{place}/trained", f"frozen/{place}/vectors")
            both = [sources[table] for table in tables if table in sources]
            source = np.concatenate(both) if both else None
            rows = {0: words[:count] if table == "trained" else words[count:]}
        if source is None or not _fits(leaf.shape, source.shape, rows):
            drawn.append(name)
            return leaf
        if not rows:
            return source
        indices = [np.arange(size) for size in leaf.shape]
        for axis, index in rows.items():
            indices[axis] = index
        there = np.ix_(*(np.flatnonzero(row >= 0) for row in indices))
        filled = np.array(leaf)
        filled[there] = np.asarray(source)[np.ix_(*(row[row >= 0] for row in indices))]
        return jnp.asarray(filled)

    merged = map_named(take, weights)
    drawn = [name for name in drawn if name.startswith("params/")]
    if len(drawn) == len(jax.tree.leaves(weights["params"])):
        raise InputError("No weights of the run in --config.init_from fit this model")
    log(f"Started from trained weights; freshly drawn: {', '.join(drawn) or 'none'}")
    return merged


def _without(names: Sequence[str], known: Sequence[str]) -> list[str]:
    old = {*known}
    return [name for name in names if name not in old]


def _places(new: Sequence[str], old: Sequence[str]) -> np.ndarray:
    """Returns where each new name is among the old ones, or -1."""
    index = {name: i for i, name in enumerate(old)}
    return np.array([index.get(name, -1) for name in new], int)


def _fits(new: tuple[int, ...], old: tuple[int, ...], rows: Any) -> bool:
    axes = range(len(new))
    return len(old) == len(new) and all(a in rows or new[a] == old[a] for a in axes)


def _kinds(build: Callable[[Vocabulary], Any], vocabulary: Vocabulary):
    """Returns which axes of which weights have a row for each label or character.

    They are those that grow with one more.
    """

    def shapes(vocabulary: Vocabulary) -> dict[str, tuple[int, ...]]:
        weights = named(models.shapes(build(vocabulary)))
        return {name: leaf.shape for name, leaf in weights.items()}

    names, chars = vocabulary.label_names, vocabulary.chars
    first, rest = names[:1], names[1:]
    larger = {
        "labels": dataclasses.replace(vocabulary, label_names=(*first, "\0", *rest)),
        "chars": dataclasses.replace(vocabulary, chars=(*chars, "\0")),
    }
    plain, kinds = shapes(vocabulary), {}
    for kind, grown in larger.items():
        for name, shape in shapes(grown).items():
            pairs = enumerate(zip(plain[name], shape, strict=True))
            axes = {axis: kind for axis, (a, b) in pairs if a != b}
            kinds[name] = kinds.get(name, {}) | axes
    return kinds


# --- Old types ------------------------------------------------------------------------


def with_types(
    objective: Objective, vocabulary: Vocabulary, old: Vocabulary, ids: np.ndarray
) -> Objective:
    """Returns an objective that knows which types are new, and which the data lack.

    `ids` are the label ids of the training data.
    """
    if not (objective.retain or objective.partial):
        return objective
    if vocabulary.scheme == schemes.TAGS or vocabulary.reads_documents:
        raise InputError(
            "--config.objective.retain and .partial are for entities in sentences"
        )
    names = vocabulary.label_names
    labelled = schemes.types_of(names[i] for i in np.unique(ids))

    def others(known: Sequence[str]) -> tuple[int, ...]:
        kinds = [schemes.parse(name)[1] for name in names]
        return tuple(i for i, kind in enumerate(kinds) if kind and kind not in known)

    hidden = others(labelled) if objective.partial else ()
    return dataclasses.replace(
        objective, hidden_labels=hidden, new_labels=others(old.types)
    )


def kept(old: Tagger, split: Split, vocabulary: Vocabulary) -> list[np.ndarray]:
    """Returns the old tagger's probabilities of the new tagger's labels, [T, L] each.

    Labels that it does not know have none.
    """
    places = _places(old.vocabulary.label_names, vocabulary.label_names)
    rows = []
    for chances in probabilities.marginals(old, split):
        row = np.zeros((len(chances), len(vocabulary.label_names)), np.float32)
        row[:, places] = chances
        rows.append(row)
    return rows


def without(labels: Sequence[Sequence[str]], hidden: Sequence[str]) -> list[list[str]]:
    """Returns labels with O in the place of those that the data do not mark."""
    names = {*hidden}
    return [["O" if label in names else label for label in row] for row in labels]
