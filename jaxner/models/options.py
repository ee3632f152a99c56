"""From the options of a config to a model, section by section.

The options of a part are the fields of its module. A part has a `name`: one in the
tables of `jaxner.models`, or the place of a module of your own, such as
`mypackage.module:MyEncoder`.
"""

from __future__ import annotations

import dataclasses
import os
import pkgutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Annotated, Any, NamedTuple

import flax.linen as nn

from jaxner import fields, models
from jaxner.errors import InputError
from jaxner.fields import Field, OneOf, Rate
from jaxner.models.bert import BERT, WordPieces
from jaxner.models.bilstm import Chain
from jaxner.models.checks import check_part
from jaxner.models.model import DTYPES, MCDropout, Model
from jaxner.models.representation import Capitalisation, Representation, Vectors, Words
from jaxner.models.seq2seq import Seq2seqHead
from jaxner.models.transformer import Refinement, TwoStream

_LINEN = ("parent", "name")  # fields that Linen adds to every module
_LINKS = ("first", "then")
_PARTS = {"words": Words, "caps": Capitalisation, "vectors": Vectors}
# What a config calls BERT's rates of dropout, and what its folder does.
_RATES = {
    "dropout": "hidden_dropout_prob",
    "attention_dropout": "attention_probs_dropout_prob",
}


def kind_of(part: str, name: Any, table: Mapping[str, Any]) -> Any:
    """Returns the class of a part's name, and the options that the name implies.

    A name is in the table, whose entries may be pairs of a class and implied options,
    or the place of a module, which is also searched in the current folder.

    Raises:
        InputError: The name is unknown, or there is no such module.

    Example:
        >>> kind_of("encoder", "jaxner.models.grn:GRN", {})[0].__name__
        'GRN'
    """
    if isinstance(name, str) and ":" in name:
        return _own(part, name), {}
    if name not in table:
        raise InputError(
            f"Unknown {part} {name!r}; known: {', '.join(sorted(table))}, or a module "
            "of your own, package.module:Class"
        )
    kind = table[name]
    return kind if isinstance(kind, tuple) else (kind, {})


def _own(part: str, name: str) -> Callable[..., Any]:
    here = os.getcwd()
    if here not in sys.path and "" not in sys.path:
        sys.path.append(here)  # a console script does not search the current folder
    try:
        kind = pkgutil.resolve_name(name)
    except (ImportError, AttributeError, ValueError) as error:
        raise InputError(f"{part} {name!r} cannot be imported: {error}") from None
    if not (isinstance(kind, type) and issubclass(kind, nn.Module)):
        raise InputError(f"{part} {name!r} is not the class of a Linen module")
    return kind


# --- Sections -------------------------------------------------------------------------


class Section(NamedTuple):
    """A section of a config.

    Attributes:
        path: Path of the section, such as `model.encoder.first`.
        values: Values of its options, a mutable mapping.
        fields: Its options, by name.
        inner: Names of sections within it.
        module: The module to build from it, which checks its options together.
    """

    path: str
    values: Any
    fields: Mapping[str, Field]
    inner: tuple[str, ...] = ()
    module: Any = None

    def flag(self, option: str = "") -> str:
        """Returns the flag of an option, or of the section."""
        return "--config." + ".".join(filter(None, (self.path, option)))


def choice(known: Iterable[str], default: str, meaning: str = "") -> Field:
    """Returns an option with the allowed values `known`."""
    return Field(Annotated[str, OneOf(sorted(known))], default, meaning)


_PER_STAGE = Field(bool, False, "Whether each stage of the encoder has its own head.")
_OWN_REPRESENTATION = Field(
    bool, True, "Whether the refinement has its own word and character features."
)
_TYPES = Field(bool, False, "Whether to read types, too.")
_RATE = Field(
    Rate | None, None, "Rate of this dropout in BERT; None: that of its config.json."
)


def model_sections(model: Any) -> Iterator[Section]:
    """Yields a config's section `model`, and all sections within it."""
    inner = ("representation", "encoder", "head", "refinement", "mc_dropout")
    dtypes = Annotated[str, OneOf(DTYPES)]
    top = {
        "dtype": Field(dtypes, DTYPES[0], "Type of the computed numbers."),
        "remat": Field(bool, False, "Whether to compute twice and save memory."),
    }
    yield Section("model", model, top, inner)
    if (representation := model.get("representation")) is not None:
        yield from _representation_sections(representation)
    if (encoder := model.get("encoder")) is not None:
        yield from encoder_sections("model.encoder", encoder)
    if (head := model.get("head")) is not None:
        yield _named("model.head", head, models.HEADS, per_stage=_PER_STAGE)
    if (drafts := model.get("mc_dropout")) is not None:
        options = fields.of(MCDropout)
        yield Section("model.mc_dropout", drafts, options, module=MCDropout)
    if (refinement := model.get("refinement")) is not None:
        options = fields.of(Refinement) | fields.of(TwoStream)
        options = {"own_representation": _OWN_REPRESENTATION} | options
        yield Section("model.refinement", refinement, options, ("head",))
        if (head := refinement.get("head")) is not None:
            yield _named("model.refinement.head", head, models.HEADS)


def _representation_sections(section: Any) -> Iterator[Section]:
    path = "model.representation"
    inner = (*_PARTS, "chars", "bert")
    yield Section(path, section, fields.of(Representation), inner)
    for name, kind in _PARTS.items():
        if (part := section.get(name)) is not None:
            checked = None if kind is Vectors else kind  # the data have its sizes
            yield Section(f"{path}.{name}", part, fields.of(kind), module=checked)
    if (part := section.get("chars")) is not None:
        yield _named(f"{path}.chars", part, models.CHARACTERS, "cnn")
    if (part := section.get("bert")) is not None:
        options = fields.of(WordPieces) | dict.fromkeys(_RATES, _RATE)
        yield Section(f"{path}.bert", part, options)


def encoder_sections(path: str, section: Any) -> Iterator[Section]:
    """Yields the section of an encoder, and those of a chain's links."""
    whole = _named(path, section, models.ENCODERS)
    if whole.module is not Chain:
        yield whole
        return
    yield whole._replace(inner=_LINKS, module=None)
    for link in _LINKS:
        if section.get(link) is None:
            raise InputError(f"Expected {whole.flag(link)} of a chain, got none")
        yield from encoder_sections(f"{path}.{link}", section[link])


def _named(
    path: str, section: Any, table: Mapping[str, Any], default="", **more: Field
) -> Section:
    """Returns a section whose `name` chooses a module."""
    name = section.get("name", default)
    kind, implied = kind_of(f"--config.{path}.name", name, table)
    options = {"name": Field(str, default, "Which of them.")} | fields.of(kind) | more
    if "types" in fields.names(kind):  # a switch here, a table in the module
        options["types"] = _TYPES
    options = {name: field for name, field in options.items() if name not in implied}
    return Section(path, section, options, module=kind)


def completed(model: Any) -> Any:
    """Returns the model options of a saved run, with the options added since.

    So that two configs can be compared. Returns what is no such section as it is.
    """
    if not (isinstance(model, Mapping) and "representation" in model):
        return model
    whole = copied(model)
    if "module" not in model:  # a description of modules, not of options
        fill(model_sections(whole))
    return whole


def fill(sections: Iterable[Section]) -> None:
    """Adds the missing options to each section, with their defaults."""
    for section in sections:
        for name, field in section.fields.items():
            section.values.setdefault(name, field.default)


def copied(value: Any) -> Any:
    """Copies nested mappings, and turns lists into tuples, which JSON lacks."""
    if isinstance(value, Mapping):
        return {name: copied(inner) for name, inner in value.items()}
    return tuple(value) if isinstance(value, list) else value


# --- Modules --------------------------------------------------------------------------


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
        num_labels: Size of the label set; other sizes are those of the vocabulary.
        representation: `words`, `chars`, `caps`, `vectors` and `bert`, each a mapping
            or None, and the other attributes of `Representation`.
        encoder: `name`, one of `ENCODERS`, and its attributes; those of a "chain",
            `first` and `then`, are encoders themselves.
        head: `name`, one of `HEADS`, and its attributes; `per_stage`, whether each
            stage of the encoder has its own head. Each of the three, and `chars`, may
            also be a module of your own, or have its place as the name; see
            `checks.CONTRACTS`.
        char_types: Type of each character, for character features with `types`.
        vector_sizes: Number of layers and dimensions of precomputed vectors.
        encoder_sizes: Attributes of the pretrained encoder, for `bert`.
        mc_dropout: Attributes of `MCDropout`.
        refinement: `own_representation`, `head`, and the attributes of `TwoStream` and
            `Refinement`; None for no refinement.
        separators: See `Model`, as for `dtype` and `remat`.
        singletons: See `Representation`.

    Raises:
        TypeError: A part is neither options nor a module.
        InputError: A name or an attribute is unknown, or a value is not allowed.
    """
    sizes = {
        "num_labels": num_labels,
        "num_trained": num_trained_words,
        "num_frozen": num_frozen_words,
        "num_chars": num_chars,
        "singletons": singletons,
        "types": char_types,
    }
    if vector_sizes is not None:
        sizes |= {"num_layers": vector_sizes[0], "dim": vector_sizes[1]}

    def represent() -> nn.Module:
        check_part("representation", representation)
        if isinstance(representation, nn.Module):
            return representation
        return _representation(representation, sizes, encoder_sizes, remat)

    def score(part: str, head: Any) -> nn.Module:
        module = _part(part, head, models.HEADS, sizes)
        if refinement is not None and isinstance(module, Seq2seqHead):
            raise InputError(f"{part}: a refinement needs 'softmax' or 'crf'")
        return module

    encode = _part("encoder", encoder, models.ENCODERS, sizes)
    per_stage = isinstance(head, Mapping) and head.get("per_stage", False)
    earlier = getattr(encode, "num_stages", 1) - 1 if per_stage else 0
    # One module each: a module used twice would share its weights.
    *heads, last = (score("head", head) for _ in range(earlier + 1))
    refine = None
    if refinement is not None:
        refine = _refinement(refinement, represent, score)
    model = Model(
        representation=represent(),
        encoder=encode,
        head=last,
        earlier_heads=tuple(heads),
        refinement=refine,
        mc_dropout=_make(MCDropout, "mc_dropout", mc_dropout or {}, {}),
        separators=separators,
        dtype=dtype,
        remat=remat,
    )
    fields.check_fields(model)
    return model


def _part(part: str, options: Any, table: Mapping[str, Any], sizes: Any, default=None):
    """Returns the module of a part whose `name` chooses it."""
    check_part(part, options, table)
    if isinstance(options, nn.Module):
        return options
    options = {name: value for name, value in options.items() if name != "per_stage"}
    kind, implied = kind_of(part, options.pop("name", default), table)
    if kind is Chain:
        if set(options) != set(_LINKS):
            raise InputError(f"A chain is of {part}.first and {part}.then")
        links = (_part(f"{part}.{x}", options[x], table, sizes) for x in _LINKS)
        return Chain(*links)
    return _make(kind, part, {**options, **implied}, sizes)


def _make(kind: Any, part: str, options: Any, sizes: Mapping[str, Any]) -> Any:
    """Makes a module from its options, and from sizes what is no option."""
    check_part(part, options)
    names = [name for name in fields.names(kind) if name not in _LINEN]
    values = {}
    for name, value in options.items():
        if name not in names:
            listed = ", ".join(names)
            raise InputError(f"Unknown option {part}.{name}; known: {listed}")
        # JSON has no tuples, and lists do not hash.
        values[name] = tuple(value) if isinstance(value, list) else value
    if "types" in names and not values.get("types"):
        sizes = {**sizes, "types": None}  # a switch in the config, a table here
    derived = set(names) - set(fields.of(kind))
    if not kind.__module__.startswith("jaxner."):
        derived = set(names) - set(values)
    values |= {name: sizes[name] for name in derived & set(sizes)}
    module = kind(**values)
    fields.check_fields(module)
    return module


def _representation(options: Any, sizes, encoder_sizes, remat: bool) -> Any:
    names = (*_PARTS, "chars", "bert")
    parts = {n: options[n] for n in names if options.get(n) is not None}
    if parts.keys() <= {"caps"}:
        raise InputError(
            "A representation needs at least one of words, chars, vectors and bert"
        )
    if "vectors" in parts and "num_layers" not in sizes:
        raise InputError("representation.vectors needs data.contextual")
    for name, part in parts.items():
        path = f"representation.{name}"
        if name == "chars":
            parts[name] = _part(path, part, models.CHARACTERS, sizes, "cnn")
        elif name in _PARTS:
            parts[name] = _make(_PARTS[name], path, part, sizes)
        elif encoder_sizes is None:
            raise InputError("representation.bert needs data.pretrained")
        else:
            bert, attributes = dict(part), {**encoder_sizes, "remat": remat}
            for option, rate in _RATES.items():  # None: that of the folder's config
                if bert.get(option) is not None:
                    attributes[rate] = bert[option]
                bert.pop(option, None)
            bert["encoder"] = _make(BERT, path, attributes, {})
            parts[name] = _make(WordPieces, path, bert, {})
    if not options.get("singleton_dropout"):
        sizes = {**sizes, "singletons": (0, 0)}
    parts = {"words": None, "chars": None, **options, **parts}
    return _make(Representation, "representation", parts, sizes)


def _refinement(options: Any, represent: Callable[[], Any], score: Callable) -> Any:
    check_part("refinement", options)
    options = dict(options)
    has_own = options.pop("own_representation", True)
    head = options.pop("head", {"name": "softmax"})
    streams = {n: options[n] for n in fields.of(TwoStream) if n in options}
    rest = {n: v for n, v in options.items() if n not in streams or n == "labels"}
    parts = {
        "representation": represent() if has_own else None,
        "streams": _make(TwoStream, "refinement", streams, {}),
        "head": score("refinement.head", head),
    }
    return _make(Refinement, "refinement", {**rest, **parts}, {})


# --- Descriptions ---------------------------------------------------------------------


def describe(module: Any, known: Mapping[str, type]) -> Any:
    """Returns a description of a module: its class and fields, as JSON values.

    For saved taggers that were built without a config.

    Raises:
        TypeError: A class is not in `known`.

    Example:
        >>> class Own(nn.Module):
        ...     size: int
        >>> describe(Own(3), {"Own": Own})
        {'module': 'Own', 'size': 3}
    """
    if isinstance(module, (nn.Module, MCDropout)):
        kind = type(module).__name__
        if known.get(kind) is not type(module):
            raise TypeError(
                f"{kind} is your own module, and a folder holds no code: pass the "
                "model to `load`"
            )
        names = [f.name for f in dataclasses.fields(module) if f.name not in _LINEN]
        values = {name: describe(getattr(module, name), known) for name in names}
        return {"module": kind, **values}
    if isinstance(module, (list, tuple)):
        return [describe(part, known) for part in module]
    return module


def restore(description: Any, known: Mapping[str, type]) -> Any:
    """Returns the module of a description by `describe`.

    Raises:
        ValueError: A class or a field is unknown.
    """
    if isinstance(description, list):
        return tuple(restore(part, known) for part in description)
    if not isinstance(description, dict):
        return description
    values = dict(description)
    kind = values.pop("module", None)
    if kind not in known:
        names = ", ".join(sorted(known))
        raise ValueError(f"Unknown module {kind!r} of a model; known: {names}")
    try:
        return known[kind](**{k: restore(v, known) for k, v in values.items()})
    except TypeError as error:
        raise ValueError(f"{kind} of a model has other fields: {error}") from None
