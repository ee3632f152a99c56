"""The entities of texts, tokens or encoded sentences, with exact probabilities.

Shape letters: `T` tokens, `N` labellings.
"""

from __future__ import annotations

import functools
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from jaxner import driver, inference, tagging
from jaxner.answers import mentions
from jaxner.answers.mentions import Entity as Entity
from jaxner.answers.mentions import EntityArrays as EntityArrays
from jaxner.answers.probabilities import count_passes
from jaxner.arguments import check_tagger
from jaxner.data import schemes
from jaxner.data.corpora import Split
from jaxner.data.formats import Example
from jaxner.data.tokens import Tokenizer
from jaxner.errors import InputError
from jaxner.evaluation.report import Prediction
from jaxner.fields import Labellings, Passes, checked
from jaxner.tagger import Tagger
from jaxner.tagging import Decoding, Tokens
from jaxner.types import Sentence, Vectors


def entity_types(tagger: Tagger) -> tuple[str, ...]:
    """Returns the entity types of a tagger, in the order of their ids.

    `InputError`: the tagger returns tags, which are not spans.

    Example:
        >>> import jaxner
        >>> "PER" in entity_types(jaxner.load("runs/grn"))
        True
    """
    check_tagger(tagger)
    mentions.check_spans(tagger.vocabulary)
    return mentions.types_of(tagger).names


@checked
def entities(
    tagger: Tagger,
    text_or_tokens: str | Tokens,
    *,
    min_probability: float | int | Array | Mapping[str, float] = 0.0,
    n_best: Labellings = 1,
    raw: bool = False,
    tokenizer: str | Tokenizer | None = None,
    split_sentences: bool = True,
    decoding: Decoding = "viterbi",
    constrained: bool = False,
    documents: Sequence[Hashable] | None = None,
    key: Array | None = None,
    num_samples: Passes | None = None,
    vectors: Vectors = None,
) -> Any:
    """Returns the entities of a text, each with its exact probability.

    These are the entities of the labelling that `tag` returns, or of the n best ones.
    For an ensemble, a probability is the mean of the members' exact probabilities.
    `decoding`, `constrained`, `key` and `vectors` are as in `tag`; each entity has its
    probability under all labellings, whatever the decoding.

    Args:
        tagger: What `load` returned: a tagger, or the ensemble of a folder of restarts.
        text_or_tokens: A raw text (a string), or a list of texts with `raw=True`; or
            tokens as in `tag`: without `raw`, a list of strings is one sentence.
        min_probability: Minimum probability of the entities, from 0 to 1; or one for
            each type, as `jaxner.answers.temperature.guaranteed` says.
        n_best: Number of labellings to take entities from; static. Above 1, each entity
            appears once, some may overlap, and later labellings may have likelier ones.
        raw: Whether the strings of a list are texts, not the tokens of a sentence.
        tokenizer: For raw text, "words" (the default, unless the run had another; see
            `jaxner.data.tokens`), "whitespace", "characters", or a function from a text
            to its tokens, in order: substrings or pairs (start, end), or lists of
            these, one for each sentence.
        split_sentences: Whether to split a raw text into sentences, or take it as one.
        documents: As in `tag`; each raw text is a document.
        num_samples: Number of passes with dropout, whose probabilities are averaged;
            None: the number in the tagger's config, 0 for most. Not for an ensemble.

    Returns:
        A list of `Entity`, from left to right; a list of such lists for several texts
        or sentences; `EntityArrays` for encoded sentences.

    Raises:
        TypeError: As `tag`; or documents or vectors are given for raw text.
        InputError: As `tag`; the tagger returns tags; an option is out of its range, or
            does not go with another; or tokens do not occur in the text.

    Example:
        >>> from jaxner import load
        >>> tagger, text = load("runs/grn"), "Ms. Preston left  Lakeside."
        >>> answer = entities(tagger, text)
        >>> all(text[e.start_char : e.end_char] == e.text for e in answer)
        True
    """
    if n_best > 1 and decoding not in ("viterbi", "constrained"):
        raise InputError(f"n_best={n_best} does not go with decoding={decoding!r}.")
    mentions.check_least(entity_types(tagger), min_probability)
    find = functools.partial(
        arrays,
        tagger,
        n_best=n_best,
        decoding=decoding,
        constrained=constrained,
        key=key,
        num_samples=num_samples,
    )
    if isinstance(text_or_tokens, Sentence):
        answer = find(text_or_tokens, documents=documents, vectors=vectors)
        if n_best > 1:
            answer = jax.tree.map(lambda array: jnp.moveaxis(array, -1, -2), answer)
        if isinstance(min_probability, Mapping):
            types = entity_types(tagger)
            minima = [mentions.least_of(min_probability, kind) for kind in types]
            min_probability = jnp.array(minima)[answer.type]
        return answer.only(answer.start & (answer.probability >= min_probability))
    return mentions.entities(
        find,
        tagger,
        text_or_tokens,
        min_probability=min_probability,
        raw=raw,
        tokenizer=tokenizer,
        split_sentences=split_sentences,
        documents=documents,
        vectors=vectors,
    )


def arrays(
    tagger: Tagger,
    tokens: Tokens,
    *,
    n_best: int = 1,
    decoding: str = "viterbi",
    constrained: bool = False,
    key: Array | None = None,
    num_samples: int | None = None,
    **options: Any,
) -> Any:
    """Returns `EntityArrays` `[T]`, or `[T, N]` for n labellings; none of tags."""
    tagging.check_draws(decoding, key)
    answer = tagging.over(
        compute,
        tagger,
        tokens,
        key,
        passes=max(count_passes(tagger, num_samples), n_best // 4),
        num_samples=num_samples,
        decoding=decoding,
        constrained=constrained or decoding == "constrained",
        n_best=n_best,
        **options,
    )
    axis = -1 if n_best == 1 else -2
    return driver.of_every(lambda row: mentions.with_ends(row, axis), answer)


def compute(tagger, sentence, key, *, num_samples, decoding, constrained, n_best):
    """Computes `EntityArrays`, `[T]` or `[T, N]`; `end` is a width so far."""
    mask = sentence.mask
    types = mentions.types_of(tagger)
    spans = inference.LabelSpans(jnp.asarray(types.types), jnp.asarray(types.goes_on))
    predictive = tagging.predict(
        tagger, sentence, key, num_samples, constrained=constrained
    )
    tokens = predictive.mean(lambda p: inference.marginals(p, mask))

    def of(labels, exists):
        chances = predictive.mean(
            lambda p: inference.entity_probabilities(p, labels, mask, spans)
        )
        of_labels = jnp.take_along_axis(tokens, labels[:, None], axis=1)[:, 0]
        starts, ends, kinds = inference.entity_bounds(labels, mask, spans)
        widths = ends - jnp.arange(mask.shape[0], dtype=jnp.int32)
        # Rounding errors may exceed 1.
        chances = jnp.minimum(chances, 1.0)
        answer = EntityArrays(labels, of_labels, starts, widths, kinds, chances)
        return answer.only(starts & exists)

    if n_best == 1:
        labels = tagging.labels_of(
            tagger, predictive, sentence, key, decoding, constrained
        )
        return of(labels, True)
    best, _, exists = tagging.best_labellings(tagger, predictive, sentence, n_best)
    return jax.vmap(of, out_axes=-1)(best, exists)


def predict(
    tagger: Tagger,
    split: Split,
    *,
    rule: str = "conlleval",
    training: Sequence[Example] | None = None,
    n_best: int = 1,
    **options: Any,
) -> Prediction:
    """Labels a split (by the first labelling), with probabilities if there are any."""
    scheme = tagger.vocabulary.scheme
    tokens = [list(example.tokens) for example in split.examples]
    gold = [list(example.labels) for example in split.to_scheme(scheme)]
    facts: dict[str, Any] = {"rule": rule, "training": training}
    try:
        answers = arrays(tagger, split, n_best=n_best, **options)
    except ValueError:  # an autoregressive head has no marginals
        labels = [list(row) for row in tagging.label_split(tagger, split, **options)[1]]
        return Prediction(tokens, gold, labels, scheme, **facts)
    if scheme != schemes.TAGS:
        types = mentions.types_of(tagger)
        facts["entity_certainty"] = {
            (i, *span): chance
            for i, row in enumerate(answers)
            for span, chance in mentions.read_spans(types, row).items()
        }
    best = [(row.labels, row.label_probability) for row in answers]
    if n_best > 1:
        best = [(ids[:, 0], chances[:, 0]) for ids, chances in best]
    labels = [tagger.vocabulary.decode(ids.tolist()) for ids, _ in best]
    certainty = [np.clip(chances, 0.0, 1.0).tolist() for _, chances in best]
    return Prediction(tokens, gold, labels, scheme, certainty=certainty, **facts)
