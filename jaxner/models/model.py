"""The model: three parts, and potentials as a pure function of one sentence.

Shape letters: `M` passes, `T` tokens, `D` features, `L` labels.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.core import Tracer
from jaxtyping import Array, Float, PyTree

from jaxner import devices, inference
from jaxner.arguments import expect
from jaxner.driver import check_key
from jaxner.errors import InputError
from jaxner.fields import DERIVED, Field, OneOf, Part, Passes, Seed
from jaxner.models import axes
from jaxner.models.checks import check_returned
from jaxner.models.heads import LanguageModel
from jaxner.models.layers import Features
from jaxner.models.representation import Representation, with_long_words
from jaxner.models.transformer import Refinement
from jaxner.types import (
    FORBIDDEN,
    AnyPotentials,
    Potentials,
    Sentence,
    Weights,
    WordVectors,
)
from jaxner.wording import shown

Stages = tuple[tuple[AnyPotentials, ...], dict[str, Array]]
"""Each stage's potentials, the final one last, and intermediates by name."""

PARTS = ("representation", "encoder", "head")  # what can have dropout in a pass
_LOW = ("representation", "encoder", "streams")  # parts that may compute in less


class Keys(NamedTuple):
    """The PRNG keys of one pass, for each kind of noise; None switches it off.

    Dropout of the sentence; words that count as unknown; masks that the sentences of a
    batch share, and dropout on characters that they share (None: from `dropout`).
    """

    dropout: Array | None = None
    words: Array | None = None
    shared: Array | None = None
    chars: Array | None = None

    @classmethod
    def of(cls, key: Array) -> Keys:
        """Returns the keys of one sentence."""
        return cls(key, jax.random.fold_in(key, 1), jax.random.fold_in(key, 2))

    def rngs(self) -> dict[str, Array]:
        """Returns the keys that are not None, by Flax's stream names."""
        return {name: key for name, key in self._asdict().items() if key is not None}


@dataclasses.dataclass(frozen=True)
class MCDropout:
    """How a tagger drafts labels: in one pass, or in several with dropout.

    Gal and Ghahramani, "Dropout as a Bayesian Approximation", ICML 2016; Gui et al.,
    "Uncertainty-Aware Label Refinement for Sequence Labeling", EMNLP 2020.

    Attributes:
        num_samples: Number of passes with dropout, M; 0 for one pass without dropout.
        parts: Parts with dropout; those before them are computed once.
        average: Means that choose labels: "scores" (the code of Gui et al., 2020), or
            "probabilities" (eq. 4; a CRF's marginals), as always for the uncertainty.
        seed: Seed of the masks if the caller gives no key.
    """

    num_samples: Passes = 0
    parts: tuple[Annotated[str, OneOf(PARTS)], ...] = PARTS
    average: Literal["scores", "probabilities"] = "scores"
    seed: Seed = 0


_MEANING = "Whether each stage of the encoder has its own head."
_PER_STAGE = {"per_stage": Field(bool, False, _MEANING)}


class Model(nn.Module):
    """A representation, an encoder and a head; optionally a refinement.

    Attributes:
        representation: Maps a sentence to features of its tokens.
        encoder: Maps these to features of the tokens in context; a tuple of features if
            there are several stages, the final one last.
        head: Maps these to potentials; without earlier heads, those of all stages.
        earlier_heads: Heads of the stages before the last one.
        refinement: Labels the sentence again, given the draft, as an additional stage.
        language_model: Predicts the words beside each token, in training.
        mc_dropout: How the tagger drafts labels.
        separators: Whether the last label marks separators, in a tagger of documents.
            Training learns it; at prediction time separators are known.
        dtype: Precision in which representation and encoder compute. Weights, heads and
            inference over labels stay in float32.
        remat: Whether training keeps only inputs and outputs of representation and
            encoder: less memory, a third more time.
    """

    representation: Annotated[nn.Module, Part(Representation)]
    encoder: Annotated[nn.Module, Part("encoder")]
    head: Annotated[nn.Module, Part("head", more=_PER_STAGE)]
    earlier_heads: tuple[nn.Module, ...] = ()
    refinement: Annotated[nn.Module | None, Part(Refinement)] = None
    language_model: Annotated[nn.Module | None, Part(LanguageModel)] = None
    mc_dropout: Annotated[MCDropout, Part(MCDropout)] = MCDropout()
    separators: Annotated[bool, DERIVED] = False
    dtype: Literal["float32", "bfloat16"] = "float32"
    remat: bool = False

    @property
    def is_quadratic(self) -> bool:
        """Whether time grows with the square of a sentence's length."""
        parts = self.representation, self.encoder, self.head, self.refinement
        return any(getattr(part, "is_quadratic", False) for part in parts)

    def apply(self, variables: Weights, *args: PyTree, **kwargs) -> PyTree:
        """Does what Linen's `apply` does, in the model's precision.

        Matrix products of float32 are exact, unless JAX's own option says otherwise.
        """
        with jax.default_matmul_precision(devices.precision()):
            return super().apply(self._lowered(variables), *args, **kwargs)

    def _lowered(self, variables: Weights) -> Weights:
        variables = jax.tree.map(jnp.asarray, variables)  # NumPy cannot take traced ids
        if self.dtype == "float32":
            return variables

        def cast(name, leaf):
            part = name.replace("/refinement", "").split("/")[1]
            is_float = jnp.issubdtype(leaf.dtype, jnp.floating)
            return leaf.astype(self.dtype) if is_float and part in _LOW else leaf

        return map_named(cast, variables)

    def __call__(self, sentence: Sentence, *, train: bool) -> Stages:
        """Returns the potentials of each stage, and a dict of intermediates."""
        x = self.represent(sentence, train=train)
        stages, arrays = self.draft(sentence, x, parts=PARTS if train else ())
        if self.refinement is None:
            return stages, arrays
        probabilities = inference.marginals(stages[-1], sentence.mask)
        return (*stages, self.refine(sentence, x, probabilities, train=train)), arrays

    def represent(self, sentence: Sentence, *, train: bool) -> Float[Array, "T D"]:
        """Returns the features of each token, without its context."""
        if not isinstance(self.representation, Representation):
            sentence = with_long_words(sentence)  # which a module of your own expects
        x = self._run(self.representation, train, sentence)
        length = sentence.words.shape[0]
        check_returned("representation", self.representation, x, length)
        return x.astype(self.dtype)

    def _run(self, module: nn.Module, train: bool, *inputs: PyTree) -> PyTree:
        """Calls a module whose inner values training may compute twice."""
        if not self.remat:
            return module(*inputs, train=train)
        return nn.remat(lambda m, *inputs: m(*inputs, train=train))(module, *inputs)

    def draft(
        self, sentence: Sentence, x: Features | None = None, *, parts: Sequence[str]
    ) -> Stages:
        """Returns what `__call__` returns, without the refinement's stage.

        `parts` are those of `PARTS` with dropout; `x` is what `represent` returned.
        """
        if x is None:
            x = self.represent(sentence, train="representation" in parts)
        output = self._run(self.encoder, "encoder" in parts, x, sentence.mask)
        check_returned("encoder", self.encoder, output, x.shape[0])
        features, arrays = output
        stages = features if isinstance(features, tuple) else (features,)
        heads = self.earlier_heads or (self.head,) * (len(stages) - 1)
        if len(stages) != len(heads) + 1:
            counts = f"{len(stages)} stages, and num_stages says {len(heads) + 1}"
            raise InputError(f"{type(self.encoder).__name__} returned {counts}")
        scores = []
        for head, stage in zip((*heads, self.head), stages, strict=True):
            scores.append(head(stage.astype(jnp.float32), train="head" in parts))
            check_returned("head", head, scores[-1], x.shape[0])
        if self.language_model is not None:
            representation: Any = self.representation
            table = representation.words.get_variable("params", "trained")
            last = stages[-1].astype(jnp.float32)
            losses = self.language_model(last, sentence.words, sentence.mask, table)
            arrays = {**arrays, "neighbours": losses}
        return tuple(scores), arrays

    def refine(
        self,
        sentence: Sentence,
        x: Features | None,
        probabilities: Float[Array, "T L"],
        *,
        train: bool,
    ) -> Potentials:
        """Returns the refinement's potentials, given the draft's probabilities."""
        refinement: Any = self.refinement
        reader = refinement.representation
        words = x if reader is None else reader(sentence, train=train)
        # The refinement's gradient does not flow into the draft.
        labels = jax.lax.stop_gradient(probabilities).astype(self.dtype)
        potentials = refinement(words, labels, sentence.mask, train=train)
        check_returned("head", refinement.head, potentials, sentence.words.shape[0])
        return jax.tree.map(lambda a: a.astype(jnp.float32), potentials)


# --- Weights --------------------------------------------------------------------------


def init(model: Model, key: Array) -> Weights:
    """Returns freshly drawn weights of a model.

    They are `{"params": …, "frozen": …}`; frozen vectors are zero until `with_vectors`.

    Raises:
        TypeError: `key` is not a PRNG key.

    Example:
        >>> import jax, jaxner
        >>> model = jaxner.load("runs/grn").model
        >>> sorted(jaxner.init(model, jax.random.key(0)))
        ['frozen', 'params']
    """
    check_model(model)
    check_key(key)
    try:
        hash(model)
    except TypeError:  # a module of your own holds an array
        return _drawn(model, key)
    # In one program: alone, each draw would be compiled. As it runs once, XLA's full
    # effort does not pay.
    is_inside = any(isinstance(x, Tracer) for x in (key, jnp.zeros(())))
    options = None if is_inside else devices.compiler_options(runs_once=True)
    draw = jax.jit(_drawn, static_argnums=0, compiler_options=options)
    return draw(model, key)


def _drawn(model: Model, key: Array) -> Weights:
    tokens = jnp.zeros(1, jnp.int32)
    chars = jnp.zeros((1, 1), jnp.int32)
    sentence = Sentence(tokens, chars, tokens, tokens == 0, tokens)
    weights = model.init(key, sentence, train=False)
    if states := weights.keys() & {"batch_stats", "cache"}:
        names = ", ".join(sorted(states))
        raise TypeError(f"A module keeps state ({names}): it may have only parameters.")
    return {"params": weights["params"], "frozen": weights.get("frozen", {})}


def map_named(function: Callable[[str, PyTree], object], weights: PyTree) -> PyTree:
    """Maps a function over names of arrays, such as `params/head/bias`, and arrays."""

    def call(path, leaf):
        return function(jax.tree_util.keystr(path, simple=True, separator="/"), leaf)

    return jax.tree_util.tree_map_with_path(call, weights)


def named(weights: PyTree) -> dict[str, PyTree]:
    """Returns the arrays of weights by their names."""
    arrays: dict[str, PyTree] = {}
    map_named(arrays.__setitem__, weights)
    return arrays


def shapes(model: Model) -> Weights:
    """Returns the shapes of a model's weights, as a tree of `jax.ShapeDtypeStruct`."""
    return jax.eval_shape(lambda key: init(model, key), jax.random.key(0))


_WORDS = "representation/words/"


def with_vectors(weights: Weights, vectors: WordVectors) -> Weights:
    """Returns freshly drawn weights with `WordVectors` filled into all word tables."""

    def fill(name, leaf):
        if name.endswith(f"{_WORDS}trained"):
            return leaf.at[vectors.rows].set(vectors.trained)
        is_frozen = name.endswith(f"{_WORDS}vectors")
        return jnp.asarray(vectors.frozen) if is_frozen else leaf

    return map_named(fill, weights)


def standardise_words(weights: Weights) -> Weights:
    """Returns weights with each word table divided by its standard deviation.

    As in the code of Gui et al. (2020). The deviation is over all trained words but
    padding; over all words, if only the unknown word is trained.
    """
    leaves = named(weights)

    def divide(name, leaf):
        if _WORDS not in name:
            return leaf
        path = name[name.index("/") : name.rindex("/")]
        trained_table = leaves[f"params{path}/trained"]
        frozen = leaves.get(f"frozen{path}/vectors")
        rows = [trained_table[1:]]
        if frozen is not None and len(trained_table) == 2:
            rows.append(frozen)
        return leaf / jnp.std(jnp.concatenate(rows))

    return map_named(divide, weights)


def character_readers(model: Model) -> list[nn.Module]:
    """Returns the modules of a model that read characters.

    A representation of your own may, unless it has an attribute `chars`, which is None.
    """
    second = getattr(model.refinement, "representation", None)
    readers = (getattr(m, "chars", m) for m in (model.representation, second))
    return [reader for reader in readers if reader is not None]


# --- Potentials -----------------------------------------------------------------------


def check_model(model: object) -> None:
    """Raises TypeError unless a value is a Linen module; RuntimeError after a fork."""
    devices.check_fork()
    is_module = isinstance(model, nn.Module)
    expect(is_module, "a model, which jaxner.build returns", model)


def check_inputs(
    model: object,
    weights: object,
    sentence: object,
    key: object,
    is_batch: bool = False,
) -> None:
    """Raises TypeError unless a model, weights, a sentence (or batch) and a key fit."""
    check_model(model)
    expectation = "the weights of a model, a dictionary with 'params' and 'frozen' as "
    is_right = isinstance(weights, Mapping) and "params" in weights
    expect(is_right, f"{expectation}jaxner.init returns it", weights)
    is_sentence = isinstance(sentence, Sentence)
    rank = jnp.ndim(sentence.words) if is_sentence else 0
    if rank != 1 + is_batch:
        kind, axes = ("batch", "[B, T]") if is_batch else ("sentence", "[T]")
        raise TypeError(
            f"Expected an encoded {kind}, words {axes}, got "
            f"{f'{rank} axes' if is_sentence else shown(sentence)}: call "
            f"jaxner.encode(tagger, {'[tokens]' if is_batch else 'tokens'}), and map "
            "over batches with jax.vmap."
        )
    if key is not None:
        check_key(key)


def apply(
    model: Model, weights: Weights, sentence: Sentence, key: Array | None = None
) -> AnyPotentials:
    """Returns the potentials of one sentence, in nats; a key switches dropout on.

    `jax.vmap` this function for a batch; one of `jaxner.Batches` shares characters, and
    needs `in_axes=(None, None, jaxner.types.batch_axes(batch))`.

    Example:
        >>> import jaxner
        >>> tagger = jaxner.load("runs/grn")
        >>> sentence = jaxner.encode(tagger, ["Rome", "fell"])
        >>> apply(tagger.model, tagger.weights, sentence).emissions.shape[0]
        2
    """
    check_inputs(model, weights, sentence, key)
    keys = Keys() if key is None else Keys.of(key)
    # Fields that are not mapped over may be NumPy arrays.
    operands = weights, jax.tree.map(jnp.asarray, sentence), keys.rngs()

    def compute(weights: Weights, sentence: Sentence, rngs: dict[str, Array]) -> Stages:
        return model.apply(weights, sentence, train=bool(rngs), rngs=rngs)

    return axes.automatic(compute, operands)(*operands)[0][-1]


def sentence_key(key: Array, sentence: Sentence) -> Array:
    """Returns the key of a sentence, derived from its words, whatever the padding."""
    positions = jnp.arange(sentence.words.shape[0], dtype=jnp.uint32)
    # An order-dependent hash of the words; 2654435761 is Knuth's multiplier.
    hashes = (sentence.words.astype(jnp.uint32) + 1) * (2 * positions + 1)
    hashes = (hashes ^ (hashes >> 15)) * jnp.uint32(2654435761)
    number = jnp.sum(jnp.where(sentence.mask, hashes, 0), dtype=jnp.uint32)
    return jax.random.fold_in(key, number)


def pass_keys(key: Array, sentence: Sentence, num_samples: object) -> Array:
    """Returns a sentence's key of each pass; fewer passes get a prefix of these."""
    key = sentence_key(key, sentence)
    return jax.vmap(lambda i: jax.random.fold_in(key, i))(jnp.arange(num_samples))


def passes(
    model: Model,
    weights: Weights,
    sentence: Sentence,
    key: Array | None,
    num_samples: object,  # an int, or the size of an exported program
    x: Features | None = None,
) -> Potentials:
    """Returns the draft's potentials in several passes with dropout.

    Emissions are `[M, T, L]`; the other fields are the same in all passes. Without a
    key, masks are drawn from `mc_dropout.seed`. `x` are features without dropout.

    Raises:
        ValueError: The head is autoregressive.
    """
    parts = model.mc_dropout.parts
    if "representation" in parts:
        x = None
    elif x is None:
        x = model.apply(weights, sentence, train=False, method="represent")

    def run(key: Array) -> tuple[Array, Potentials]:
        options = {"parts": parts, "rngs": Keys.of(key).rngs(), "method": "draft"}
        stages, _ = model.apply(weights, sentence, x, **options)
        potentials = _with_separators(model, stages[-1], sentence)
        if not isinstance(potentials, Potentials):
            raise InputError(
                "Monte Carlo dropout needs head 'softmax' or 'crf': the passes of "
                "head 'seq2seq' have no common scores"
            )
        return potentials.emissions, potentials._replace(emissions=None)

    if key is None:  # not of a generator that an option of JAX names
        key = jax.random.key(model.mc_dropout.seed, impl="threefry2x32")
    # Fields without dropout have no pass axis.
    keys = pass_keys(key, sentence, num_samples)
    emissions, rest = jax.vmap(run, out_axes=(0, None))(keys)
    return rest._replace(emissions=emissions)


def predict(
    model: Model, weights: Weights, sentence: Sentence, key: Array | None = None
) -> AnyPotentials:
    """Returns the potentials by which a tagger labels a sentence.

    The draft's; with a refinement, log-probabilities: the refinement's where the
    entropy of the draft is above its threshold, the draft's elsewhere (Gui et al.,
    2020, section 3.3). Without a key, masks are drawn from `mc_dropout.seed`.
    """
    model = model.clone(language_model=None)  # only the loss depends on it
    mask, refinement, mc_dropout = sentence.mask, model.refinement, model.mc_dropout
    x = model.apply(weights, sentence, train=False, method="represent")
    probabilities = None
    if mc_dropout.num_samples:
        runs = passes(model, weights, sentence, key, mc_dropout.num_samples, x)
        probabilities = inference.mean_over_passes(
            lambda p: inference.marginals(p, mask), runs
        )
        draft = runs._replace(emissions=jnp.mean(runs.emissions, axis=0))
        if mc_dropout.average == "probabilities":
            draft = Potentials(inference.logs(probabilities))
    else:
        stages, _ = model.apply(weights, sentence, x, parts=(), method="draft")
        draft = _with_separators(model, stages[-1], sentence)
    if refinement is None:
        return draft
    if probabilities is None:
        probabilities = inference.marginals(draft, mask)
    inputs = sentence, x, probabilities
    second = model.apply(weights, *inputs, train=False, method="refine")
    second = _with_separators(model, second, sentence)
    is_uncertain = inference.entropy(probabilities) > refinement.threshold

    def logs(potentials: AnyPotentials) -> Float[Array, "T L"]:
        is_known = isinstance(potentials, Potentials)
        if is_known and not inference.crf.is_chain(potentials):
            return jax.nn.log_softmax(potentials.emissions, axis=-1)
        return inference.logs(inference.marginals(potentials, mask))

    return Potentials(jnp.where(is_uncertain[:, None], logs(second), logs(draft)))


def _with_separators(
    model: Model, potentials: AnyPotentials, sentence: Sentence
) -> AnyPotentials:
    """Returns potentials that give separators, and only them, the last label."""
    if not model.separators or not isinstance(potentials, Potentials):
        return potentials
    emissions = potentials.emissions
    is_label = jnp.arange(emissions.shape[1]) == emissions.shape[1] - 1
    is_separator = sentence.mask & (sentence.words == 0)
    fits = is_separator[:, None] == is_label[None]
    return potentials._replace(emissions=jnp.where(fits, emissions, FORBIDDEN))
