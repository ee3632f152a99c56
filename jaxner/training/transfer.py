"""Learning on: a run that starts from the weights of another, on other data.

The new vocabulary has everything that the old one has, and what is new in the data.
Rows of weights follow their words, characters and labels; rows of new ones are drawn.
Old types of entities are kept by two terms of the loss, see `Objective`.

Shape letters: `T` tokens, `L` labels of the new tagger.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

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
    source: Vocabulary,
    log: Log,
) -> tuple[Vocabulary, WordVectors | None]:
    """Returns a vocabulary, and its vectors, with what it lacks of an old one.

    Words that only the old one has join the frozen ones, since no gradient reaches
    them. `vocabulary` has the old types already; without pieces, it gets the old ones.

    Raises:
        InputError: The old one has another scheme, or another encoder.
    """
    if vocabulary.pieces is None and source.pieces is not None:
        vocabulary = dataclasses.replace(
            vocabulary, pieces=source.pieces, encoder_sizes=source.encoder_sizes
        )
    new, old = ((x.pieces, dict(x.encoder_sizes or ())) for x in (vocabulary, source))
    if new != old:
        raise InputError(
            "The run in --config.init_from has another pretrained encoder: leave "
            "--config.data.pretrained out"
        )
    for name in OF_THE_VOCABULARY:
        value, old_value = getattr(vocabulary, name), getattr(source, name)
        if value != old_value:
            text = f"--config.data.{name} is {value!r}, the run in --config.init_from "
            text += f"has {old_value!r}"
            if name == "scheme":
                raise InputError(f"{text}: leave it out")
            log(f"{text}: words that are spelt differently now start anew")
    new_words = _without(source.words, vocabulary.words)
    words, chars, types = (
        _without(getattr(vocabulary, kind), getattr(source, kind))
        for kind in ("words", "chars", "types")
    )
    log(
        f"New beside the run in --config.init_from: {counted(len(words), 'word')}, "
        f"{counted(len(chars), 'character')}, types {', '.join(types) or 'none'}"
    )
    if vectors is not None:
        rows = np.zeros((len(new_words), vectors.frozen.shape[1]), np.float32)
        vectors = vectors._replace(frozen=np.concatenate([vectors.frozen, rows]))
    words, chars = (*vocabulary.words, *new_words), (*source.chars, *chars)
    return dataclasses.replace(vocabulary, words=words, chars=chars), vectors


def start(
    source: Tagger,
    weights: Weights,
    vocabulary: Vocabulary,
    build: Callable[[Vocabulary], models.Model],
    log: Log,
) -> Weights:
    """Returns drawn weights with those of an old tagger in their places.

    `build` makes the model of a vocabulary. The optimizer starts draws; in the code of
    Strubell et al. (2017) it continues.

    Raises:
        InputError: No weights of the old tagger fit.
    """
    arrays, draws = named(source.weights), []
    kinds = _kinds(build, vocabulary)
    places = {
        "chars": _index(vocabulary.chars, source.vocabulary.chars),
        "labels": _index(vocabulary.label_names, source.vocabulary.label_names),
    }
    words = _index(vocabulary.words, source.vocabulary.words)
    count = vocabulary.num_trained

    def take(name: str, leaf: Array) -> Array | np.ndarray:
        array, kind = arrays.get(name), kinds.get(name, {})
        rows = {axis: places[k] for axis, k in kind.items()}
        if name.endswith(_WORDS):
            # A word may have moved between the trained and the frozen ones.
            path, _, table = name.partition("/")[2].rpartition("/")
            tables = (f"params/{path}/trained", f"frozen/{path}/vectors")
            parts = [arrays[table] for table in tables if table in arrays]
            array = np.concatenate(parts) if parts else None
            rows = {0: words[:count] if table == "trained" else words[count:]}

        def sizes(array):  # of axes without such rows
            return [n * (axis not in rows) for axis, n in enumerate(array.shape)]

        if array is None or sizes(array) != sizes(leaf):
            draws.append(name)
            return leaf
        if not rows:
            return array
        for axis in kind:  # of what is before a sentence, and other features of a head
            num_after, size = leaf.shape[axis] - len(rows[axis]), array.shape[axis]
            rows[axis] = np.append(rows[axis], np.arange(size - num_after, size))
        indices = [rows.get(a, np.arange(n)) for a, n in enumerate(leaf.shape)]
        cells = np.ix_(*(np.flatnonzero(row >= 0) for row in indices))
        table = np.array(leaf)
        table[cells] = np.asarray(array)[np.ix_(*(row[row >= 0] for row in indices))]
        return jnp.asarray(table)

    result = map_named(take, weights)
    draws = [name for name in draws if name.startswith("params/")]
    if len(draws) == len(jax.tree.leaves(weights["params"])):
        raise InputError("No weights of the run in --config.init_from fit this model")
    if any(-1 in index for index in (words[:count], *places.values())):
        draws.insert(0, "the rows of what is new")
    log(f"Started from trained weights; freshly drawn: {', '.join(draws) or 'none'}")
    return result


def _without(names: Sequence[str], other_names: Sequence[str]) -> list[str]:
    name_set = {*other_names}
    return [name for name in names if name not in name_set]


def _index(names: Sequence[str], inventory: Sequence[str]) -> np.ndarray:
    """Returns where each name is among others, or -1."""
    index = {name: i for i, name in enumerate(inventory)}
    return np.array([index.get(name, -1) for name in names], int)


def _kinds(build: Callable[[Vocabulary], models.Model], vocabulary: Vocabulary):
    """Returns which axes of which weights have a row for each label or character.

    They are those that grow with one more.
    """

    def shapes(vocabulary: Vocabulary) -> dict[str, tuple[int, ...]]:
        weights = named(models.shapes(build(vocabulary)))
        return {name: leaf.shape for name, leaf in weights.items()}

    (first, *rest), chars = vocabulary.label_names, vocabulary.chars
    names = first, "I-\0", *rest  # a constrained head parses them
    larger = {
        "labels": dataclasses.replace(vocabulary, label_names=names),
        "chars": dataclasses.replace(vocabulary, chars=(*chars, "\0")),
    }
    plain, kinds = shapes(vocabulary), {}
    for kind, example in larger.items():
        for name, shape in shapes(example).items():
            pairs = enumerate(zip(plain[name], shape, strict=True))
            axes = {axis: kind for axis, (a, b) in pairs if a != b}
            kinds[name] = kinds.get(name, {}) | axes
    return kinds


# --- Old types ------------------------------------------------------------------------


def with_types(
    objective: Objective, vocabulary: Vocabulary, source: Vocabulary, ids: np.ndarray
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
    gold_types = schemes.types_of(names[i] for i in np.unique(ids))

    def others(types: Sequence[str]) -> tuple[int, ...]:
        kinds = [schemes.parse(name)[1] for name in names]
        return tuple(i for i, kind in enumerate(kinds) if kind and kind not in types)

    hidden_labels = others(gold_types) if objective.partial else ()
    return dataclasses.replace(
        objective, hidden_labels=hidden_labels, new_labels=others(source.types)
    )


def old_probabilities(
    source: Tagger, split: Split, vocabulary: Vocabulary
) -> list[np.ndarray]:
    """Returns the old tagger's probabilities of the new tagger's labels, [T, L] each.

    Labels that it does not know have none.
    """
    columns = _index(source.vocabulary.label_names, vocabulary.label_names)
    rows = []
    for chances in probabilities.marginals(source, split):
        row = np.zeros((len(chances), len(vocabulary.label_names)), np.float32)
        row[:, columns] = chances
        rows.append(row)
    return rows
