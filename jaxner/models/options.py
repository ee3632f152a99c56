"""From the options of a config to a model: its sections, and its modules.

The options of a part are the fields of its module. A part has a `name`: one in the
tables of `jaxner.models`, or the place of a module of your own, such as
`mypackage.module:MyEncoder`.
"""

from __future__ import annotations

import os
import pkgutil
import sys
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import flax.linen as nn

from jaxner import fields, models
from jaxner.errors import InputError
from jaxner.fields import Field, Rate
from jaxner.models import pretrained
from jaxner.models.bert import WordPieces
from jaxner.models.bilstm import Chain
from jaxner.models.checks import check_part
from jaxner.models.model import MCDropout, Model
from jaxner.models.representation import Capitalisation, Representation, Vectors, Words
from jaxner.models.seq2seq import Seq2seqHead
from jaxner.models.transformer import Refinement, TwoStream

# What a config calls an encoder's rates of dropout, and what its folder does.
_RATES = {
    "dropout": "hidden_dropout_prob",
    "attention_dropout": "attention_probs_dropout_prob",
}


# --- Parts ----------------------------------------------------------------------------


class Part(NamedTuple):
    """A part of a model: a class, or the table of those that `name` chooses from.

    `more` are options that are no fields of the class, `inner` the parts within.
    """

    kinds: Any
    default: str = ""
    more: Mapping[str, Field] = {}
    inner: Mapping[str, Part] = {}


def _parts() -> Iterator[tuple[str, Part]]:
    """Yields the parts of a model, by name."""
    rate = Field(Rate | None, None, "Rate of the encoder; None: by its config.json.")
    place = Field(str | None, None, "Your encoder, package.module:Class, if any.")
    pieces = {"encoder": place, **dict.fromkeys(_RATES, rate)}
    features = {
        "words": Part(Words),
        "caps": Part(Capitalisation),
        "vectors": Part(Vectors),
        "chars": Part(models.CHARACTERS, "cnn"),
        "bert": Part(WordPieces, more=pieces),
    }
    yield "representation", Part(Representation, inner=features)
    yield "encoder", Part(models.ENCODERS)
    about = "Whether each stage of the encoder has its own head."
    more = {"per_stage": Field(bool, False, about)}
    yield "head", Part(models.HEADS, more=more)
    yield "mc_dropout", Part(MCDropout)
    about = "Whether the refinement has its own word and character features."
    streams = {"own_representation": Field(bool, True, about), **fields.of(TwoStream)}
    head = {"head": Part(models.HEADS, "softmax")}
    yield "refinement", Part(Refinement, more=streams, inner=head)


MODEL = Part(Model, inner=dict(_parts()))


def kind_of(part: str, name: Any, table: Mapping[str, Any]) -> tuple[Any, Any]:
    """Returns the class of a part's name, and the options that the name implies.

    A name is in the table, whose entries may be pairs of a class and implied options,
    or the place of a module, which is also searched in the current folder.

    Raises:
        InputError: The name is unknown, or there is no such module.
    """
    if isinstance(name, str) and ":" in name:
        here = os.getcwd()
        is_new = here not in sys.path and "" not in sys.path
        if is_new:  # only for this import: beside data may lie any jinja2.py
            sys.path.append(here)
        try:
            kind = pkgutil.resolve_name(name)
        except (ImportError, AttributeError, ValueError) as error:
            raise InputError(f"{part} {name!r} cannot be imported: {error}") from None
        finally:
            if is_new:
                sys.path.remove(here)
        if not (isinstance(kind, type) and issubclass(kind, nn.Module)):
            raise InputError(f"{part} {name!r} is not the class of a Linen module")
        return kind, {}
    if name not in table:
        raise InputError(
            f"Unknown {part} {name!r}; known: {', '.join(sorted(table))}, or a module "
            "of your own, package.module:Class"
        )
    kind = table[name]
    return kind if isinstance(kind, tuple) else (kind, {})


# --- Sections -------------------------------------------------------------------------


class Section(NamedTuple):
    """A section of a config, at a path such as `model.encoder.first`.

    `values` is a mutable mapping; `fields` are its options, `inner` the parts within
    it, `module` is the class that is built from it, with what its name implies.
    """

    path: str
    values: Any
    fields: Mapping[str, Field]
    inner: Mapping[str, Any] = {}
    module: Any = None
    implied: Mapping[str, Any] = {}

    def flag(self, option: str = "") -> str:
        """Returns the flag of an option, or of the section."""
        return "--config." + ".".join(filter(None, (self.path, option)))


def section_of(path: str, values: Any, part: Part) -> Section:
    """Returns the section of a part; InputError: its name is unknown."""
    kind, options, implied = part.kinds, dict(part.more), {}
    inner: dict[str, Part] = {**part.inner}
    if isinstance(kind, Mapping):
        kind, implied = kind_of(path, values.get("name", part.default), kind)
        name = Field(str, part.default, "Which of them.")
        options = {"name": name, **options}
    if kind is Chain:
        inner = dict.fromkeys(("first", "then"), part)
        if any(values.get(link) is None for link in inner):
            raise InputError(f"A chain is of {path}.first and {path}.then")
    options |= fields.of(kind)
    if "types" in fields.names(kind):  # a switch here, a table in the module
        options["types"] = Field(bool, False, "Whether to read types, too.")
    options = {name: option for name, option in options.items() if name not in implied}
    return Section(path, values, options, inner, kind, implied)


def sections(path: str, values: Any, part: Part = MODEL) -> Iterator[Section]:
    """Yields the section of a part, and those within it; none if it is absent."""
    if values is not None:
        section = section_of(path, values, part)
        yield section
        for name, within in section.inner.items():
            yield from sections(f"{path}.{name}", values.get(name), within)


# --- Modules --------------------------------------------------------------------------


def build(
    *,
    representation: Mapping[str, Any] | nn.Module,
    encoder: Mapping[str, Any] | nn.Module,
    head: Mapping[str, Any] | nn.Module,
    vector_sizes: tuple[int, int] | None = None,
    encoder_sizes: Mapping[str, Any] | None = None,
    mc_dropout: Mapping[str, Any] | None = None,
    refinement: Mapping[str, Any] | None = None,
    separators: bool = False,
    dtype: str = "float32",
    remat: bool = False,
    **sizes: Any,
) -> Model:
    """Returns a model with the sizes of the data and the choices of a config.

    `jaxner.build` takes the sizes from a vocabulary. `separators`, `dtype` and `remat`
    are those of `Model`.

    Args:
        representation: `words`, `chars`, `caps`, `vectors` and `bert`, each a mapping
            or None, and the other attributes of `Representation`.
        encoder: `name`, one of `ENCODERS`, and its attributes; those of a "chain",
            `first` and `then`, are encoders themselves.
        head: `name`, one of `HEADS`, and its attributes; `per_stage`, whether each
            stage has its own head. Each of the three, and `chars`, may also be a module
            of your own, or have its place as the name; see `checks.CONTRACTS`.
        vector_sizes: Number of layers and dimensions of precomputed vectors.
        encoder_sizes: Attributes of the pretrained encoder, for `bert`.
        mc_dropout: Attributes of `MCDropout`.
        refinement: `own_representation`, `head`, and the attributes of `TwoStream` and
            `Refinement`; None for no refinement.
        **sizes: `num_labels`, `num_trained` and `num_frozen` (words), `num_chars`,
            perhaps `types` and `singletons`, as modules call them.

    Raises:
        TypeError: A part is neither options nor a module.
        InputError: A name or an attribute is unknown, or a value is not allowed.
    """
    if vector_sizes is not None:
        sizes |= {"num_layers": vector_sizes[0], "dim": vector_sizes[1]}
    if encoder_sizes is not None:
        sizes["encoder"] = {**encoder_sizes, "remat": remat}

    def make(name: str, values: Any) -> Any:
        return _module(name, values, MODEL.inner[name], sizes)

    encode = make("encoder", encoder)
    per_stage = isinstance(head, Mapping) and head.get("per_stage", False)
    count = getattr(encode, "num_stages", 1) if per_stage else 1
    # One module each: a module used twice would share its weights.
    *earlier, last = (make("head", head) for _ in range(count))
    refine = None
    if refinement is not None:
        sizes["representation"] = make("representation", representation)
        refine = make("refinement", refinement)
        if Seq2seqHead in (type(last), type(refine.head)):
            raise InputError("A refinement needs heads 'softmax' or 'crf'")
    model = Model(
        representation=make("representation", representation),
        encoder=encode,
        head=last,
        earlier_heads=tuple(earlier),
        refinement=refine,
        mc_dropout=make("mc_dropout", mc_dropout or {}),
        separators=separators,
        dtype=dtype,
        remat=remat,
    )
    fields.check_fields(model)
    return model


def _module(path: str, values: Any, part: Part, sizes: Mapping[str, Any]) -> Any:
    """Returns the module of a part, with those of the parts within."""
    check_part(path, values, part.kinds)
    if isinstance(values, nn.Module):
        return values
    section = section_of(path, values, part)
    kind, names = section.module, fields.names(section.module)
    more = section.fields.keys() - {*names}  # which the module does not have
    options = {n: x for n, x in values.items() if n not in more}
    options |= section.implied
    if kind is Refinement:
        options.setdefault("head", {})
        streams = {n: values[n] for n in fields.of(TwoStream) if n in values}
        sizes = {**sizes, "streams": _make(TwoStream, path, streams, {})}
        if not values.get("own_representation", True):
            sizes["representation"] = None
    for name, within in section.inner.items():
        if options.get(name) is not None:
            options[name] = _module(f"{path}.{name}", options[name], within, sizes)
    if kind is Representation:
        options = {"words": None, "chars": None, **options}
        if not any(map(options.get, ("words", "chars", "vectors", "bert"))):
            raise InputError(
                "A representation needs at least one of words, chars, vectors and bert"
            )
        if not options.get("singleton_dropout"):
            sizes = {**sizes, "singletons": (0, 0)}
    if kind is Vectors and "num_layers" not in sizes:
        raise InputError("representation.vectors needs data.contextual")
    if kind is WordPieces:
        if "encoder" not in sizes:
            raise InputError("representation.bert needs data.pretrained")
        rates = {theirs: values.get(ours) for ours, theirs in _RATES.items()}
        rates = {name: rate for name, rate in rates.items() if rate is not None}
        attributes = {**sizes["encoder"], **rates}
        if place := options.pop("encoder", None):
            module, _ = kind_of(f"{path}.encoder", place, {})
            encoder = _make(module, f"{path}.encoder", {}, attributes)
        else:
            encoder = pretrained.make(attributes)
        sizes = {**sizes, "encoder": encoder}
    return _make(kind, path, options, sizes)


def _make(kind: Any, path: str, options: Any, sizes: Mapping[str, Any]) -> Any:
    """Makes a module from its options, and from sizes what is no option."""
    names = {*fields.names(kind)}
    if unknown := sorted(options.keys() - names):
        listed = ", ".join(sorted(names))
        raise InputError(f"Unknown option {path}.{unknown[0]}; known: {listed}")
    # JSON has no tuples, and lists do not hash.
    values = {n: tuple(x) if isinstance(x, list) else x for n, x in options.items()}
    if not values.get("types"):  # a switch in the config, a table here
        sizes = {**sizes, "types": None}
    is_ours = kind.__module__.startswith("jaxner.")
    derived = names - {*(fields.of(kind) if is_ours else values)}
    values |= {name: sizes[name] for name in derived & sizes.keys()}
    module = kind(**values)
    fields.check_fields(module)
    return module


# --- Descriptions ---------------------------------------------------------------------


def describe(module: Any) -> Any:
    """Returns class and fields of a module as JSON values, for taggers without config.

    Raises TypeError for a class that is none of `models.MODULES`.
    """
    if isinstance(module, (list, tuple)):
        return [*map(describe, module)]
    if not isinstance(module, (nn.Module, MCDropout)):
        return module
    kind = type(module).__name__
    if models.MODULES.get(kind) is not type(module):
        raise TypeError(
            f"{kind} is your own module, and a folder holds no code: pass the model to "
            "`load`"
        )
    parts = {name: getattr(module, name) for name in fields.names(type(module))}
    return {"module": kind} | {name: describe(part) for name, part in parts.items()}


def restore(description: Any) -> Any:
    """Returns a described module; KeyError, TypeError: it or a field is unknown."""
    if isinstance(description, list):
        return tuple(map(restore, description))
    if not isinstance(description, dict):
        return description
    values = {name: restore(value) for name, value in description.items()}
    return models.MODULES[values.pop("module")](**values)
