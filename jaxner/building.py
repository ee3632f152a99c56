"""Models whose sizes are those of a vocabulary, and changes of their options."""

from __future__ import annotations

import copy
import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import jax
from flax import linen as nn

from jaxner import arguments, models
from jaxner.data.vocabulary import Vocabulary


def build_model(vocabulary: Vocabulary, options: dict[str, Any]) -> models.Model:
    """Builds a model whose sizes are those of a vocabulary.

    Args:
        vocabulary: Gives the sizes.
        options: `representation`, `encoder` and `head`, as in `models.build`.

    Raises:
        ValueError: As `models.build`; or the head cannot label documents.
    """
    head = options["head"]
    is_seq2seq = isinstance(head, Mapping) and head.get("name") == "seq2seq"
    if vocabulary.reads_documents and is_seq2seq:
        raise ValueError(
            "A tagger of documents gives separators their label after the model has "
            "scored it, which head 'seq2seq' has no scores for; take 'softmax' or 'crf'"
        )
    sizes = _sizes(vocabulary)
    return models.build(
        num_labels=sizes["num_labels"],
        num_trained_words=sizes["num_trained"],
        num_frozen_words=sizes["num_frozen"],
        num_chars=sizes["num_chars"],
        char_types=vocabulary.char_types,
        vector_sizes=vocabulary.vector_sizes,
        encoder_sizes=dict(vocabulary.encoder_sizes or ()) or None,
        separators=vocabulary.reads_documents,
        singletons=vocabulary.singletons,
        **options,
    )


def _sizes(vocabulary: Vocabulary) -> dict[str, int]:
    """Returns the sizes that a vocabulary gives the fields of modules, by field."""
    return {
        "num_labels": len(vocabulary.label_names),
        "num_trained": vocabulary.num_trained,
        "num_frozen": len(vocabulary.words) - vocabulary.num_trained,
        "num_chars": len(vocabulary.chars),
    }


def check_sizes(model: nn.Module, vocabulary: Vocabulary) -> None:
    """Raises ValueError unless a model's sizes are those of the vocabulary.

    A tagger with another vocabulary would read ids as other words, silently.

    Args:
        model: A model; modules of one's own are compared by the fields they share with
            this library's (`num_labels`, `num_trained`, `num_frozen`, `num_chars`).
        vocabulary: The vocabulary it should belong to.

    Example:
        >>> import jaxner
        >>> params = jaxner.load("runs/grn")
        >>> other, _ = jaxner.build_vocabulary([["Rome", "fell"]], ["LOC"])
        >>> check_sizes(params.model.head, other)
        Traceback (most recent call last):
        ...
        ValueError: The model is of another vocabulary: Head has num_labels=17, the \
vocabulary has 5. Pass the vocabulary that the model was built for, or build a model \
for this one.
    """
    for name, wanted in _sizes(vocabulary).items():
        found = getattr(model, name, wanted)
        if found != wanted:
            raise ValueError(
                f"The model is of another vocabulary: {type(model).__name__} has "
                f"{name}={found}, the vocabulary has {wanted}. Pass the vocabulary "
                "that the model was built for, or build a model for this one."
            )
    for field in dataclasses.fields(model):
        value = getattr(model, field.name, None)
        for part in value if isinstance(value, tuple) else (value,):
            if isinstance(part, nn.Module) and field.name != "parent":
                check_sizes(part, vocabulary)


def build(vocabulary: Vocabulary, **parts: Any) -> models.Model:
    """Builds a model for a vocabulary from choices of its parts.

    Args:
        vocabulary: What `build_vocabulary` returned; gives the sizes.
        **parts: `representation`, `encoder` and `head`, each the name of a choice and
            its options, or a Linen module of your own; and what else `models.build`
            takes (`mc_dropout`, `refinement`).

    Returns:
        A Linen module that compares and hashes by value: a static argument of `jit`.

    Raises:
        TypeError: The vocabulary is not a `Vocabulary`, a part is neither options nor
            a module, or a module of your own takes or returns something else.
        ValueError: A part is missing; a name or an option is unknown, and the error
            lists the known ones; or your head scores another number of labels.

    Example:
        >>> import jax, jaxner
        >>> vocabulary, _ = jaxner.build_vocabulary([["Rome", "fell"]], ["LOC"])
        >>> model = jaxner.build(
        ...     vocabulary,
        ...     representation={"words": {"dim": 8}, "chars": {"name": "cnn"}},
        ...     encoder={"name": "grn", "hidden_dim": 16},
        ...     head={"name": "crf"},
        ... )
        >>> weights = jaxner.init(model, jax.random.key(0))
        >>> tagger = jaxner.Tagger(weights, model, vocabulary)
        >>> len(jaxner.tag(tagger, ["Rome", "fell"]))
        2
    """
    arguments.check_vocabulary(vocabulary)
    needed = ("representation", "encoder", "head")
    known = (*needed, "mc_dropout", "refinement", "dtype", "remat")
    if absent := [part for part in needed if part not in parts]:
        raise ValueError(f"Missing part {absent[0]!r}; needed: {', '.join(needed)}")
    if unknown := [part for part in parts if part not in known]:
        raise ValueError(f"Unknown part {unknown[0]!r}; known: {', '.join(known)}")
    model = build_model(vocabulary, parts)
    if any(isinstance(parts[part], nn.Module) for part in needed):
        _check_scores(model, vocabulary)
    return model


def _check_scores(model: models.Model, vocabulary: Vocabulary) -> None:
    """Raises ValueError unless modules of one's own score the vocabulary's labels."""
    if vocabulary.vector_sizes is not None:
        return  # a sentence needs vectors
    sentence = vocabulary.encode(["a", "b"])
    weights = jax.eval_shape(functools.partial(models.init, model), jax.random.key(0))
    found = jax.eval_shape(functools.partial(models.apply, model), weights, sentence)
    wanted = 2, len(vocabulary.label_names)
    emissions = getattr(found, "emissions", None)  # a seq2seq head has none
    if emissions is not None and emissions.shape != wanted:
        raise ValueError(
            f"Expected emissions {list(wanted)} of two tokens and the vocabulary's "
            f"labels, {type(model.head).__name__} returned {list(emissions.shape)}."
        )


def changed(options: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Returns options with changes, named by path as on the command line.

    Raises:
        TypeError: The changes are no dictionary.
        ValueError: A path leads to no option, or to a section.

    Example:
        >>> changed({"head": {"name": "crf"}}, {"head.name": "softmax"})
        {'head': {'name': 'softmax'}}
    """
    arguments.check_mapping("changes", changes, "{'head.name': 'softmax'}")
    copied = copy.deepcopy(dict(options))
    for path, value in changes.items():
        *parents, name = path.split(".")
        section: Any = copied
        for parent in parents:
            section = section.get(parent) if isinstance(section, dict) else None
        if not isinstance(section, dict) or not (parents or name in section):
            raise ValueError(f"The model has no section for the option {path!r}.")
        if isinstance(section.get(name), dict) and not isinstance(value, Mapping):
            raise ValueError(f"{path!r} is a section: set one of its options.")
        section[name] = value
    return copied
