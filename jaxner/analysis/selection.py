"""Which sentences to annotate next: uncertain ones, unlike each other.

A sentence's uncertainty is the mean of −ln p over its tokens, where p is the marginal
probability of the predicted label. The most uncertain sentences are a pool, from which
a greedy search chooses those that maximise Σᵢ uᵢ maxⱼ sim(i, j), over all i of the pool
and the chosen j: facility location on a filtered pool (Wei, Iyer and Bilmes,
"Submodularity in Data Subset Selection and Active Learning", ICML 2015), here weighted
by the uncertainty u. The similarity is the cosine of words, weighted by tf-idf.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from jaxner import outputs
from jaxner.answers.entities import arrays, entity_types
from jaxner.answers.mentions import read_spans, types_of
from jaxner.data import formats, schemes
from jaxner.data.formats import Example
from jaxner.data.spans import text_and_spans
from jaxner.errors import InputError
from jaxner.tagger import Tagger

_POOL, _LIMIT = 10, 4000  # sentences for each one that is chosen; in all


class Choice(NamedTuple):
    """A sentence worth annotating."""

    example: Example  # with the predicted labels
    uncertainty: float  # mean of −ln p of a token's label, in nats
    probabilities: list[float]  # of the predicted entities, from left to right


def select(tagger: Tagger, pieces: Iterable[Example], budget: int) -> list[Choice]:
    """Returns the sentences to annotate, the most useful first; equal ones once.

    `InputError`: there are no sentences, the tagger returns tags, or its head has no
    probabilities.

    Example:
        >>> import jaxner
        >>> texts = [("Rome", "fell"), ("Rome", "fell"), ("Ann", "saw", "Rome")]
        >>> len(select(jaxner.load("runs/grn"), map(Example, texts), 3))
        2
    """
    entity_types(tagger)
    if not tagger.vocabulary.reads_documents:  # else equal sentences differ
        pieces = {piece.tokens: piece for piece in pieces}.values()
    pieces = [*pieces]
    if not pieces:
        raise InputError("There are no sentences to choose from")
    choices, types = [], types_of(tagger)
    words = [list(piece.tokens) for piece in pieces]
    # A record without a document is one itself.
    documents = [
        x.document or tuple(x.lines[:1]) or (-i,) for i, x in enumerate(pieces)
    ]
    answers = arrays(tagger, words, documents=documents)
    for piece, answer in zip(pieces, answers, strict=True):
        chances = dict(sorted(read_spans(types, answer).items()))
        labels = schemes.to_labels(chances, len(piece.tokens), "BIO")
        p = np.clip(np.asarray(answer.label_probability, float), 1e-12, 1.0)
        fields = {"text": piece.text, "offsets": piece.offsets}
        example = Example(piece.tokens, tuple(labels), **fields)
        choices.append(Choice(example, -np.log(p).mean(), [*chances.values()]))
    choices.sort(key=lambda choice: choice.uncertainty)  # of equal ones, the last
    choices = [*{choice.example.tokens: choice for choice in choices}.values()]
    choices.sort(key=lambda choice: -choice.uncertainty)
    pool = choices[: max(budget, min(_POOL * budget, _LIMIT))]
    if len(pool) <= budget:
        return pool
    weights = np.array([choice.uncertainty for choice in pool])
    words = [choice.example.tokens for choice in pool]
    return [pool[i] for i in spread(words, weights, budget)]


def spread(
    sentences: Sequence[Sequence[str]], weights: np.ndarray, budget: int
) -> list[int]:
    """Returns the sentences that stand for most of the weight of all, greedily.

    Example:
        >>> sentences = [["a", "b"], ["a", "b", "c"], ["d"]]
        >>> spread(sentences, np.array([3.0, 2.9, 1.0]), 3)
        [0, 2, 1]
    """
    from sklearn.feature_extraction import text  # which takes a while to import

    # The cosine of each two sentences, as bags of words in lower case.
    options: Any = {"analyzer": lambda x: [*map(str.lower, x)], "dtype": np.float32}
    matrix: Any = text.TfidfVectorizer(**options).fit_transform(sentences)
    similarities = (matrix @ matrix.T).toarray()
    coverage = np.zeros((len(similarities), 1), np.float32)
    indices: list[int] = []
    for _ in range(budget):
        gains = weights.astype(np.float32) @ np.maximum(similarities - coverage, 0)
        gains[indices] = -1.0
        indices.append(int(gains.argmax()))
        coverage = np.maximum(coverage, similarities[:, indices[-1:]])
    return indices


def write(path: Path, choices: Sequence[Choice], tool: str) -> None:
    """Writes sentences, with the predicted entities to correct, for a tool.

    Label Studio: a JSON array of tasks with predictions; doccano: JSON lines; brat: a
    new folder with one document, a sentence a line.
    """
    if tool == "brat":
        formats.write(path, [choice.example for choice in choices], "brat")
    elif tool == "doccano":
        lines = [json.dumps(x, ensure_ascii=False) + "\n" for x in map(_line, choices)]
        outputs.write_text(path, "".join(lines))
    else:
        tasks = [_task(choice) for choice in choices]
        outputs.write_text(path, json.dumps(tasks, ensure_ascii=False, indent=1) + "\n")


def _line(choice: Choice) -> dict[str, Any]:
    """Returns a line of doccano, whose offsets count units of UTF-16."""
    text, spans = text_and_spans(choice.example)
    units = [0, *itertools.accumulate(1 + (char > "\uffff") for char in text)]
    spans = [(units[start], units[end], kind) for start, end, kind in spans]
    return {"text": text, "label": spans, "uncertainty": choice.uncertainty}


def _task(choice: Choice) -> dict[str, Any]:
    """Returns a task of Label Studio; its labelling config names `label` and `text`."""
    text, spans = text_and_spans(choice.example)
    names = {"from_name": "label", "to_name": "text", "type": "labels"}
    result = []
    for (start, end, kind), chance in zip(spans, choice.probabilities, strict=True):
        value = {"start": start, "end": end, "text": text[start:end], "labels": [kind]}
        entry = {"id": str(len(result)), "value": value}
        result.append({**names, **entry, "score": chance})
    score = math.exp(-choice.uncertainty)
    predictions = [{"model_version": "jaxner", "score": score, "result": result}]
    return {"data": {"text": text}, "predictions": predictions}
