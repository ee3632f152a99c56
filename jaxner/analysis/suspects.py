"""Finds labels that a trained tagger considers improbable: likely annotation errors."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from jaxner import inference, tagging
from jaxner.data.corpora import Split
from jaxner.tagger import Tagger
from jaxner.types import Sentence


class Suspect(NamedTuple):
    """A run of tokens whose labels differ from the tagger's.

    Attributes:
        probability: The lowest marginal probability of these labels in the file.
        line: Line of the first of these tokens, from 1.
        tokens: The whole sentence.
        start: Index of the first of these tokens in the sentence.
        end: Index of the last one plus one.
        labels: Their labels in the file, in the tagger's scheme.
        predicted: The most probable label of each.
        file: The file.
    """

    probability: float
    line: int
    tokens: tuple[str, ...]
    start: int
    end: int
    labels: tuple[str, ...]
    predicted: tuple[str, ...]
    file: str = ""


def find(params: Tagger, split: Split) -> list[Suspect]:
    """Returns likely annotation errors, the most probable first.

    A tagger has also learnt the errors of its training sentences, so use others.

    Args:
        params: What `load` returned; its head has marginals (not `seq2seq`). The
            probabilities are at its temperature.
        split: Sentences with labels.

    Raises:
        ValueError: The head has no marginal probabilities.

    Example:
        >>> from jaxner import load
        >>> from jaxner.data import corpora
        >>> suspects = find(load("runs/grn"), corpora.load("sample", "dev"))
        >>> suspects[0].probability <= suspects[-1].probability
        True
    """

    vocabulary = params.vocabulary
    known = {label: i for i, label in enumerate(vocabulary.label_names)}
    examples = split.to_scheme(vocabulary.scheme)
    passes = params.model.mc_dropout.num_samples
    marginals = tagging.over(_marginals, params, split, passes=passes)
    found = []
    for example, given in zip(examples, marginals, strict=True):
        labels = example.labels
        ids = np.array([known.get(label, -1) for label in labels], np.int32)
        best = given.argmax(-1)
        # Labels unknown to the tagger have no probability, so they are not suspects.
        probability = np.where(ids < 0, 1.0, given[np.arange(len(ids)), ids])
        for start, end in _runs((best != ids) & (ids >= 0)):
            predicted = vocabulary.decode(best[start:end])
            least = float(probability[start:end].min())
            facts = (example.lines[start], example.tokens, start, end)
            its = tuple(labels[start:end]), tuple(predicted)
            found.append(Suspect(least, *facts, *its, str(split.path)))
    return sorted(found)


def _marginals(params: Tagger, sentence: Sentence, key: None) -> Any:
    predicted = tagging.predict(params, sentence, key)
    return predicted.mean(lambda p: inference.marginals(p, sentence.mask))


def _runs(flags: np.ndarray) -> list[tuple[int, int]]:
    """Returns the bounds of runs of True; ends are exclusive."""
    steps = np.flatnonzero(np.diff(np.concatenate([[0], flags.astype(np.int8), [0]])))
    return [(int(a), int(b)) for a, b in zip(steps[::2], steps[1::2], strict=True)]
