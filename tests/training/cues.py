"""Probes that measure how far an encoder sees."""

import numpy as np

from jaxner.data import probes, schemes
from jaxner.data.probes import Case, Probe
from jaxner.data.schemes import Span

ENTITY = "Walla"  # a city and a team: the word alone is ambiguous
CUES = {"LOC": "city", "ORG": "team"}
FILLERS = ("near", "again")  # two fillers, so that few sentences show all contexts


def cue(distance, *, size=1, length=16):
    """Returns sentences with an entity whose type depends on a distant word, the cue.

    All other words are fillers. Sentences come in pairs that differ only in the cue, so
    an encoder whose receptive field does not reach the cue gets at most one of each
    pair right: the receptive fields that Strubell et al. (2017) count. All words of the
    entity are the same: the label of one far from the cue depends on the cue (through
    iterated blocks) or on the label before (through the transitions of a CRF).
    """
    rng = np.random.default_rng(0)

    def pair():
        fillers = rng.choice(FILLERS, length).tolist()
        at = int(rng.integers(length - distance - size + 1))
        start = at + distance
        for kind, word in CUES.items():
            tokens = list(fillers)
            tokens[at] = word
            tokens[start : start + size] = [ENTITY] * size
            spans = [Span(start, start + size, kind)]
            labels = schemes.to_labels(spans, length, probes.SCHEME)
            yield Case(tuple(tokens), tuple(labels), tuple(range(start, start + size)))

    train, test = (tuple(case for _ in range(16) for case in pair()) for _ in range(2))
    return Probe(train, test)
