"""Models: a representation, an encoder and a head, chosen independently by name.

`build` makes the (static, hashable) model, `init` its weights, and `apply` computes the
potentials of one sentence. `jax.vmap` adds the batch.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import flax.linen as nn

from jaxner.models.attention import SelfAttention
from jaxner.models.axes import automatic as automatic
from jaxner.models.axes import beside as beside
from jaxner.models.bert import BERT, WordPieces
from jaxner.models.chain import Chain, Identity, Projection
from jaxner.models.chain import candidate_kernels as candidate_kernels
from jaxner.models.characters import CharacterCNN, CharacterLSTM
from jaxner.models.checks import check_key as check_key
from jaxner.models.checks import check_labels as check_labels
from jaxner.models.checks import check_model as check_model
from jaxner.models.checks import check_own, check_part
from jaxner.models.checks import check_sentence as check_sentence
from jaxner.models.checks import check_weights as check_weights
from jaxner.models.description import describe as describe
from jaxner.models.description import restore as restore
from jaxner.models.grn import GRN
from jaxner.models.grn import relation_scores as relation_scores
from jaxner.models.heads import DirectionHead, Head, ScoresHead
from jaxner.models.idcnn import IDCNN
from jaxner.models.intnet import IntNet
from jaxner.models.lan import LabelAttention
from jaxner.models.lstm import BiLSTM
from jaxner.models.mc_dropout import Keys as Keys
from jaxner.models.mc_dropout import MCDropout as MCDropout
from jaxner.models.mc_dropout import average as average
from jaxner.models.mc_dropout import draft as draft
from jaxner.models.mc_dropout import drafted as drafted
from jaxner.models.mc_dropout import mix as mix
from jaxner.models.mc_dropout import pass_keys as pass_keys
from jaxner.models.mc_dropout import predict as predict
from jaxner.models.mc_dropout import probabilities as probabilities
from jaxner.models.mc_dropout import refine as refine
from jaxner.models.mc_dropout import represent as represent
from jaxner.models.mc_dropout import sample as sample
from jaxner.models.mc_dropout import sentence_key as sentence_key
from jaxner.models.model import DTYPES as DTYPES
from jaxner.models.model import Model as Model
from jaxner.models.model import apply as apply
from jaxner.models.model import apply_stages as apply_stages
from jaxner.models.model import apply_with_intermediates as apply_with_intermediates
from jaxner.models.model import character_readers as character_readers
from jaxner.models.model import init as init
from jaxner.models.refinement import Refinement
from jaxner.models.representation import (
    Capitalisation,
    Representation,
    Vectors,
    Words,
)
from jaxner.models.seq2seq import Seq2seqHead
from jaxner.models.transformer import RelativeTransformer, TwoStream
from jaxner.models.weights import standardise_words as standardise_words
from jaxner.models.weights import transfer as transfer
from jaxner.models.weights import with_vectors as with_vectors

ENCODERS = {
    "attention": SelfAttention,
    "bilstm": BiLSTM,
    "chain": Chain,
    "grn": GRN,
    "identity": Identity,
    "idcnn": IDCNN,
    "lan": LabelAttention,
    "projection": Projection,
    "transformer": RelativeTransformer,
}
HEADS = {
    "crf": (Head, {"transitions": True}),
    "direction": (DirectionHead, {}),
    "scores": (ScoresHead, {}),
    "seq2seq": (Seq2seqHead, {}),
    "softmax": (Head, {"transitions": False}),
}
CHARACTERS = {"cnn": CharacterCNN, "intnet": IntNet, "lstm": CharacterLSTM}


MODULES = {
    kind.__name__: kind
    for kind in (
        *(BERT, Capitalisation, CharacterCNN, CharacterLSTM, Chain, DirectionHead, GRN),
        *(Head, IDCNN, Identity, IntNet, BiLSTM, LabelAttention, MCDropout, Model),
        *(Projection, Refinement, RelativeTransformer, Representation, ScoresHead),
        *(SelfAttention, Seq2seqHead, TwoStream, Vectors, WordPieces, Words),
    )
}
"""The modules that models of this library consist of, by name."""


def build(
    *,
    num_labels: int,
    num_trained_words: int,
    num_frozen_words: int,
    num_chars: int,
    representation: Mapping[str, Any] | nn.Module,
    encoder: Mapping[str, Any] | nn.Module,
    head: Mapping[str, Any] | nn.Module,
    char_types: tuple[int, ...] | None = None,
    vector_sizes: tuple[int, int] | None = None,
    encoder_sizes: Mapping[str, Any] | None = None,
    mc_dropout: Mapping[str, Any] | None = None,
    refinement: Mapping[str, Any] | None = None,
    separators: bool = False,
    singletons: tuple[int, int] = (0, 0),
    dtype: str = "float32",
    remat: bool = False,
) -> Model:
    """Returns a model with the sizes of the data and the choices of a config.

    Args:
        num_labels: Size of the label set.
        num_trained_words: Number of words with trained vectors; see `Words`.
        num_frozen_words: Number of words with frozen vectors.
        num_chars: Size of the character vocabulary.
        representation: `words`, `chars`, `caps`, `vectors` and `bert`, each a mapping
            or None, and the other attributes of `Representation`; `chars` may be a
            module of your own, from `(chars [U, C], *, train)` to features [U, F].
        encoder: `name`, one of `ENCODERS`, and its attributes; those of a "chain",
            `first` and `then`, are encoders themselves.
        head: `name`, one of `HEADS`, and the other attributes of `Head`; `per_stage`,
            whether each stage of the encoder has its own head. Each of the three may
            also be a Linen module of your own: a representation from `(sentence, *,
            train)` to features [T, D], an encoder from `(x [T, D], mask [T], *, train)`
            to `(features [T, H], {})`, both with zeros under padding; a head from `(x
            [T, H], *, train)` to `Potentials`.
        char_types: Type of each character, for character features with `types`.
        vector_sizes: Number of layers and dimensions of precomputed vectors.
        encoder_sizes: Attributes of the pretrained encoder, for `bert`.
        mc_dropout: Attributes of `MCDropout`: how the tagger drafts labels.
        refinement: `own_representation`, whether the refinement has its own word
            features; `head`, as above; and the attributes of `TwoStream` and
            `Refinement`. None for no refinement.
        separators: Whether the last label marks separators; see `Model`.
        singletons: First and last (exclusive) id of the words that occur once in the
            training text, for a representation with `singleton_dropout`.
        dtype: What representation and encoder compute in; see `Model`.
        remat: Whether training saves memory at the expense of time; see `Model`.

    Returns:
        A static module, compared and hashed by value.

    Raises:
        TypeError: A part is neither options nor a module.
        ValueError: A name or an attribute is unknown.

    Example:
        >>> import jax
        >>> model = build(
        ...     num_labels=9, num_trained_words=50, num_frozen_words=0, num_chars=20,
        ...     representation={"words": {"dim": 8}, "chars": None, "dropout": 0.5},
        ...     encoder={"name": "grn", "hidden_dim": 16},
        ...     head={"name": "crf", "dropout": 0.5},
        ... )
        >>> weights = init(model, jax.random.key(0))
        >>> weights["params"]["encoder"]["conv3"]["kernel"].shape
        (24, 16)
    """
    sizes = {"num_trained": num_trained_words, "num_frozen": num_frozen_words}
    characters = {"num_chars": num_chars}
    check_part("representation", representation)
    check_part("encoder", encoder, ENCODERS)
    check_part("head", head, HEADS)
    check_own({"representation": representation, "encoder": encoder, "head": head})
    for part, options in (("mc_dropout", mc_dropout), ("refinement", refinement)):
        check_part(part, {} if options is None else options)
    drafts = _drafts(mc_dropout, head, refinement)

    def represent():
        if isinstance(representation, nn.Module):
            return representation
        options = _contextual(representation, vector_sizes, encoder_sizes, remat)
        if options.get("singleton_dropout"):
            options["singletons"] = singletons
        return _representation(options, sizes, characters, char_types)

    encode = _encoder("encoder", encoder, num_labels)
    per_stage = False
    if not isinstance(head, nn.Module):
        head = dict(head)
        per_stage = head.pop("per_stage", False)
    earlier = getattr(encode, "num_stages", 1) - 1 if per_stage else 0
    return Model(
        representation=represent(),
        encoder=encode,
        head=_head("head", head, num_labels),
        # One module each: a module used twice would share its weights.
        earlier_heads=tuple(_head("head", head, num_labels) for _ in range(earlier)),
        refinement=(
            None
            if refinement is None
            else _refinement(refinement, represent, num_labels)
        ),
        mc_dropout=drafts,
        separators=separators,
        dtype=dtype,
        remat=remat,
    )


def _drafts(options: Any, head: Any, refinement: Any) -> MCDropout:
    drafts = _make(MCDropout, "mc_dropout", options or {})
    is_seq2seq = isinstance(head, Mapping) and head.get("name") == "seq2seq"
    asked = {"refinement": refinement, "mc_dropout.num_samples": drafts.num_samples}
    if is_seq2seq and (wrong := [name for name, value in asked.items() if value]):
        raise ValueError(f"{wrong[0]} needs head 'softmax' or 'crf', not 'seq2seq'")
    return drafts


def _head(part: str, options: Any, num_labels: int) -> Any:
    if isinstance(options, nn.Module):
        return options
    (kind, given), options = _choose(HEADS, part, options)
    return _make(kind, part, {**options, **given, "num_labels": num_labels})


def _refinement(options: Mapping[str, Any], represent, num_labels) -> Any:
    options = dict(options)
    own = options.pop("own_representation", True)
    head = options.pop("head", {"name": "softmax"})
    if head.get("name") == "seq2seq":
        raise ValueError("A refinement needs head 'softmax' or 'crf', not 'seq2seq'")
    given = {name: options[name] for name in _arguments(TwoStream) if name in options}
    rest = {n: v for n, v in options.items() if n not in given or n == "labels"}
    parts = {
        "representation": represent() if own else None,
        "streams": _make(TwoStream, "refinement", given),
        "head": _head("refinement.head", head, num_labels),
    }
    known = {*_arguments(Refinement), *_arguments(TwoStream), "own_representation"}
    known = sorted(known - {"representation", "streams"})
    for option in rest:
        if option not in known:
            raise ValueError(f"Unknown option refinement.{option}; known: {known}")
    return _make(Refinement, "refinement", {**rest, **parts})


def _representation(options: Mapping[str, Any], sizes, characters, char_types):
    options = dict(options)
    words, chars = options.pop("words", None), options.pop("chars", None)
    caps = options.pop("caps", None)
    if all(p is None for p in (words, chars, options["vectors"], options["bert"])):
        raise ValueError(
            "A representation needs at least one of words, chars, vectors and bert; "
            "all are None"
        )
    if words is not None:
        check_part("representation.words", words)
        words = _make(Words, "representation.words", {**words, **sizes})
    if caps is not None:
        caps = _make(Capitalisation, "representation.caps", caps)
    if chars is not None and not isinstance(chars, nn.Module):
        kind, chars = _choose(CHARACTERS, "representation.chars", chars, "cnn")
        if "types" in chars:  # a switch in the config, a table in the module
            if chars["types"] and char_types is None:
                raise ValueError("representation.chars.types needs `char_types`")
            chars["types"] = char_types if chars["types"] else None
        chars = _make(kind, "representation.chars", {**chars, **characters})
    options = {**options, "words": words, "chars": chars, "caps": caps}
    return _make(Representation, "representation", options)


def _contextual(
    options: Mapping[str, Any], vector_sizes, encoder_sizes, remat: bool
) -> dict[str, Any]:
    """Builds the parts of a representation that see a word's context."""
    vectors, bert = options.get("vectors"), options.get("bert")
    for part, sizes in (("vectors", vector_sizes), ("bert", encoder_sizes)):
        if sizes is not None and options.get(part) is None:
            raise ValueError(
                f"The data provide inputs for representation.{part}, but it is None"
            )
    if vectors is not None:
        if vector_sizes is None:
            raise ValueError("representation.vectors needs --config.data.contextual")
        sizes = dict(zip(("num_layers", "dim"), vector_sizes, strict=True))
        vectors = _make(Vectors, "representation.vectors", {**vectors, **sizes})
    if bert is not None:
        if encoder_sizes is None:
            raise ValueError("representation.bert needs --config.data.pretrained")
        bert, own = dict(bert), dict(encoder_sizes)
        for option, name in _DROPOUTS.items():  # None: the rate in the folder's config
            if (rate := bert.pop(option, None)) is not None:
                own[name] = rate
        bert["encoder"] = BERT(**own, remat=remat)
        bert = _make(WordPieces, "representation.bert", bert)
    return {**options, "vectors": vectors, "bert": bert}


_DROPOUTS = {
    "dropout": "hidden_dropout_prob",
    "attention_dropout": "attention_probs_dropout_prob",
}


def _encoder(part: str, options: Mapping[str, Any] | nn.Module, num_labels: int) -> Any:
    if isinstance(options, nn.Module):
        return options
    kind, options = _choose(ENCODERS, part, options)
    if kind is Chain:
        links = {"first", "then"}
        if set(options) != links:
            raise ValueError(
                f"Expected {part}.first and {part}.then of a chain, got "
                f"{sorted(options)}"
            )
        options = {n: _encoder(f"{part}.{n}", options[n], num_labels) for n in links}
    if "num_labels" in inspect.signature(kind).parameters:
        options = {**options, "num_labels": num_labels}
    return _make(kind, part, options)


def _choose(table: Mapping[str, Any], part: str, options, default: str | None = None):
    """Returns the entry of `table` for the `name` in a part's options, and the rest."""
    options = dict(options)
    name = options.pop("name", default)
    if name not in table:
        raise ValueError(f"Unknown {part} {name!r}; known: {', '.join(sorted(table))}")
    return table[name], options


def _make(module: type[Any], part: str, options: Mapping[str, Any]) -> Any:
    known = _arguments(module)
    for option in options:
        if option not in known:
            raise ValueError(f"Unknown option {part}.{option}; known: {known}")
    # JSON has no tuples, and lists do not hash.
    values = {k: tuple(v) if isinstance(v, list) else v for k, v in options.items()}
    return module(**values)


def _arguments(module: type[Any]) -> list[str]:
    linen = ("parent", "name")
    return [p for p in inspect.signature(module).parameters if p not in linen]
