"""Inference over the label sequences of one sentence, for the output of any head.

Each function takes `potentials`, scores in nats; `mask`, True at the tokens; `labels`,
label ids, ignored under padding, which is on the right and changes no result.
`jax.vmap` adds the batch. Potentials without transitions skip all scans. Those of the
head 'seq2seq' have a beam search; functions that need sums or maxima over all
labellings raise InputError for them. The empty sentence has one labelling, of score 0.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

import jax.numpy as jnp
from jaxtyping import Array

from jaxner.errors import InputError
from jaxner.inference import autoregressive, crf, spans
from jaxner.inference.crf import Constraints as Constraints
from jaxner.inference.spans import LabelSpans as LabelSpans
from jaxner.inference.spans import entity_bounds as entity_bounds
from jaxner.inference.uncertainty import Uncertainty as Uncertainty
from jaxner.inference.uncertainty import each_pass as each_pass
from jaxner.inference.uncertainty import entropy as entropy
from jaxner.inference.uncertainty import logs as logs
from jaxner.inference.uncertainty import mean_over_passes as mean_over_passes
from jaxner.inference.uncertainty import one_pass as one_pass
from jaxner.inference.uncertainty import summarise as summarise
from jaxner.types import FORBIDDEN as FORBIDDEN
from jaxner.types import AnyPotentials, Autoregressive, Potentials

P = ParamSpec("P")
R = TypeVar("R")


def _of_any_head(
    kernel: Callable[Concatenate[Potentials, P], R],
) -> Callable[Concatenate[AnyPotentials, P], R]:
    """Returns a function that calls the kernel of this name for its potentials."""
    name, signature = kernel.__name__, inspect.signature(kernel)
    counterpart = getattr(autoregressive, name, None)

    @functools.wraps(kernel)
    def choose(potentials: AnyPotentials, /, *args: P.args, **options: P.kwargs) -> R:
        call = signature.bind_partial(potentials, *args, **options)
        values = call.arguments
        for part in {"mask", "labels"} & values.keys():
            values[part] = jnp.asarray(values[part])
        check(potentials, values.get("mask"), values.get("labels"))
        if "labels" in values:  # where JAX would count from the end, as for others: NaN
            labels = values["labels"].astype(jnp.int32)
            values["labels"] = jnp.where(labels < 0, jnp.iinfo(jnp.int32).max, labels)
        if not isinstance(potentials, Autoregressive):
            return kernel(*call.args, **call.kwargs)
        if counterpart is None:
            raise InputError(
                f"{name} has no form for an autoregressive head (head 'seq2seq'), nor "
                "have sums and maxima over all its L^T labellings. Use head 'softmax' "
                "or 'crf'."
            )
        return counterpart(*call.args, **call.kwargs)

    choose.__module__ = __name__  # for `help`, and for other processes
    return choose


def check(
    potentials: AnyPotentials, mask: Array | None = None, labels: Array | None = None
) -> None:
    """Raises TypeError or ValueError unless all are of the tokens of one sentence."""
    if isinstance(potentials, Autoregressive):
        name, scores, shapes = "words", potentials.words, {}
    elif isinstance(potentials, Potentials):
        name, scores = "emissions", potentials.emissions
        size = jnp.shape(scores)[-1:]
        shapes = {"transitions": size * 2, "start": size, "end": size}
    else:
        raise TypeError(f"Expected jaxner.types.Potentials, got {type(potentials)}")
    if jnp.ndim(scores) != 2:
        raise InputError(
            f"Expected the {name} of one sentence, [T, L], got "
            f"{list(jnp.shape(scores))}: `jax.vmap` adds a batch"
        )
    arrays = {part: getattr(potentials, part) for part in shapes}
    arrays |= {"mask": mask, "labels": labels}
    for part, array in arrays.items():
        shape = shapes.get(part, jnp.shape(scores)[:1])
        if array is not None and jnp.shape(array) != shape:
            raise InputError(
                f"Expected {part} {list(shape)} beside {name} "
                f"{list(jnp.shape(scores))}, got {list(jnp.shape(array))}"
            )
    if mask is not None and mask.dtype != jnp.bool_:
        raise TypeError(f"Expected a mask of booleans, got {mask.dtype}")
    if labels is not None and not jnp.issubdtype(labels.dtype, jnp.integer):
        raise TypeError(f"Expected labels as whole numbers, got {labels.dtype}")


constrain = _of_any_head(crf.constrain)
at_temperature = _of_any_head(crf.at_temperature)
score = _of_any_head(crf.score)
log_partition = _of_any_head(crf.log_partition)
marginals = _of_any_head(crf.marginals)
viterbi = _of_any_head(crf.viterbi)
n_best = _of_any_head(crf.n_best)
sample = _of_any_head(crf.sample)
labelling_entropy = _of_any_head(crf.labelling_entropy)
log_probability = _of_any_head(spans.log_probability)
entity_probabilities = _of_any_head(spans.entity_probabilities)
span_probabilities = _of_any_head(spans.span_probabilities)
span_table = _of_any_head(spans.span_table)
