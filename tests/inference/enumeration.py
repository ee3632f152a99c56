"""Every labelling of a short sentence, its score and its spans, by plain loops."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np

from jaxner import inference
from jaxner.data import schemes
from jaxner.data.schemes import label_types
from jaxner.inference import Constraints, LabelSpans
from jaxner.types import Potentials

# Of five labels each, so that each function is compiled once; a type without all
# prefixes among them.
SCHEMES = {
    "IOB1": ("O", "B-A", "I-A", "I-B", "B-B"),
    "BIO": ("O", "B-A", "I-A", "B-B", "I-B"),
    "BIOES": ("O", "B-A", "I-A", "E-A", "S-B"),
    "BILOU": ("U-B", "B-A", "I-A", "L-A", "O"),
}
KINDS = ("crf", "constrained", "independent")


def draw(length, size, seed=0, scale=1.0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    shapes = (length, size), (size, size), (size,), (size,)
    return Potentials(*(jnp.asarray(scale * rng.normal(size=s), dtype) for s in shapes))


def build(kind, scheme, length, seed=0, scale=1.5, dtype=np.float64):
    """Potentials of a kind for the labels of a scheme."""
    names = SCHEMES[scheme]
    potentials = draw(length, len(names), seed, scale, dtype)
    if kind == "independent":
        return Potentials(potentials.emissions)
    if kind == "constrained":
        rules = map(jnp.asarray, schemes.allowed(names, scheme))
        return inference.constrain(potentials, Constraints(*rules))
    return potentials


def spans_of(names):
    """What labels say about spans, and the types of the spans."""
    types = label_types(tuple(names))
    return LabelSpans(jnp.asarray(types.types), jnp.asarray(types.goes_on)), types.names


def enumerate_scores(potentials, length):
    """Every labelling of the first tokens, and its score."""
    emissions, *chain = (None if x is None else np.asarray(x) for x in potentials)
    size = emissions.shape[1]
    labellings = list(itertools.product(range(size), repeat=length))
    transitions, start, end = (
        (np.zeros((size, size)), *np.zeros((2, size))) if chain[0] is None else chain
    )
    scores = [
        (start[y[0]] + end[y[-1]] if y else 0.0)
        + sum(emissions[t, label] for t, label in enumerate(y))
        + sum(transitions[pair] for pair in itertools.pairwise(y))
        for y in labellings
    ]
    return labellings, np.array(scores, np.float64)


def expectations(labellings, chances, length, size):
    """The expected count of each potential, padded to `length`."""
    shapes = (length, size), (size, size), size, size
    counts = Potentials(*map(np.zeros, shapes))
    for labels, chance in zip(labellings, chances, strict=True):
        for t, label in enumerate(labels):
            counts.emissions[t, label] += chance
        for pair in itertools.pairwise(labels):
            counts.transitions[pair] += chance
        if labels:
            counts.start[labels[0]] += chance
            counts.end[labels[-1]] += chance
    return counts


def span_chances(labellings, chances, names):
    """The probability of each span, by the reader of labels that tagging uses."""
    table = {}
    for labels, chance in zip(labellings, chances, strict=True):
        for span in schemes.to_spans([names[label] for label in labels]):
            table[tuple(span)] = table.get(tuple(span), 0.0) + chance
    return table


def stack(trees):
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)
