"""From the options of a config to a model: its sections, and its modules.

The options of a part are the fields of its class. Where a part may be one of several,
`name` chooses: a name in the tables of `jaxner.models`, or the place of a module of
your own, such as `mypackage.module:MyEncoder`.

So `--config.model.encoder.hidden_dim=50` is parsed by the annotation of the field
`hidden_dim` and written into the section `model.encoder` (`configuration.override`),
whose values `build` checks and hands to the class. The data set the fields that have
the name of one of their sizes. A class that needs more than that has a class method
`from_options(options, sizes)`, and perhaps options that are no fields, `MORE`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Mapping
from dataclasses import MISSING
from typing import Any, NamedTuple

import flax.linen as nn

from jaxner import fields, models
from jaxner.errors import InputError
from jaxner.fields import Field
from jaxner.models import pretrained
from jaxner.models.bert import WordPieces
from jaxner.models.bilstm import Chain
from jaxner.models.checks import check_part, own_module
from jaxner.models.model import MCDropout, Model
from jaxner.models.representation import Capitalisation, Representation, Vectors, Words
from jaxner.models.seq2seq import Seq2seqHead
from jaxner.models.transformer import Refinement

# --- Parts ----------------------------------------------------------------------------


class Choice(NamedTuple):
    """A part that `name` chooses in a table of classes, or of partials of classes."""

    table: Mapping[str, Any]
    default: str = ""
    more: Mapping[str, Field] = {}  # options of the part that its class does not have

    def make_of(self, path: str, name: Any) -> Any:
        """Returns what makes the part of a name; InputError: it is unknown."""
        if isinstance(name, str) and ":" in name:
            return own_module(path, name)
        if name not in self.table:
            names = ", ".join(sorted(self.table))
            raise InputError(
                f"Unknown {path} {name!r}; known: {names}, or a module of your own, "
                "package.module:Class"
            )
        return self.table[name]


_ABOUT = "Whether each stage of the encoder has its own head."
CHOICES = {
    "encoder": Choice(models.ENCODERS),
    "head": Choice(models.HEADS, more={"per_stage": Field(bool, False, _ABOUT)}),
    "chars": Choice(models.CHARACTERS, "cnn"),
}
PARTS: dict[Any, dict[str, Any]] = {
    Model: {
        "representation": Representation,
        "encoder": CHOICES["encoder"],
        "head": CHOICES["head"],
        "mc_dropout": MCDropout,
        "refinement": Refinement,
    },
    Representation: {
        "words": Words,
        "caps": Capitalisation,
        "vectors": Vectors,
        "chars": CHOICES["chars"],
        "bert": WordPieces,
    },
    Chain: dict.fromkeys(("first", "then"), CHOICES["encoder"]),
    Refinement: {"head": Choice(models.HEADS, "softmax")},
}
"""The parts of a class, each a class or a `Choice`."""


# --- Sections -------------------------------------------------------------------------


class Section(NamedTuple):
    """A section of a config, at a path such as `model.encoder.first`.

    `values` is a mutable mapping; `fields` are its options, and `inner` the parts
    within it; `kind` is the class that is built from it, with `constants` as further
    arguments. Errors name an option by `root` and path.
    """

    path: str
    values: Any
    fields: Mapping[str, Field]
    inner: Mapping[str, Any] = {}
    kind: Any = None
    constants: Mapping[str, Any] = {}
    root: str = "--config."

    def flag(self, option: str = "") -> str:
        """Returns the flag of an option, or of the section."""
        return self.root + ".".join(filter(None, (self.path, option)))

    def check(self) -> None:
        """Raises InputError if an option is unknown, or a value not allowed."""
        names = sorted({**self.fields, **self.inner})
        for name in sorted(self.values.keys() - names):
            listed = ", ".join(names)
            raise InputError(f"Unknown option {self.flag(name)}; known: {listed}")
        for name, field in self.fields.items():
            if name in self.values:
                fields.check(self.flag(name), self.values[name], field.hint)


def section_of(path: str, values: Any, part: Any, root: str = "--config.") -> Section:
    """Returns the section of a part; InputError: its name is unknown."""
    options = {}
    if isinstance(part, Choice):
        options = {"name": Field(str, part.default, "Which of them."), **part.more}
        part = part.make_of(path, values.get("name", part.default))
    kind, constants = getattr(part, "func", part), getattr(part, "keywords", {})
    options |= {n: x for n, x in fields.of(kind).items() if n not in constants}
    return Section(path, values, options, PARTS.get(kind, {}), kind, constants, root)


def sections(path: str, values: Any, part: Any) -> Iterator[Section]:
    """Yields the section of a part, and those within it; none if it is absent."""
    if values is not None:
        section = section_of(path, values, part)
        yield section
        for name, inner in section.inner.items():
            yield from sections(f"{path}.{name}", values.get(name), inner)


def encoders(values: Any) -> list[Any]:
    """Returns the classes of an encoder and of those within it, the last one last."""
    return [section.kind for section in sections("", values, CHOICES["encoder"])]


def gives_scores(values: Any) -> bool:
    """Returns whether the features of an encoder are scores of labels."""
    return "num_labels" in fields.names(encoders(values)[-1])


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
    root: str = "",
    **sizes: Any,
) -> Model:
    """Returns a model with the sizes of the data and the choices of a config.

    `jaxner.build` takes the sizes from a vocabulary. `separators`, `dtype` and `remat`
    are those of `Model`.

    Args:
        representation: The options of a `Representation`, with those of its parts.
        encoder: `name`, one of `ENCODERS`, and its options.
        head: `name`, one of `HEADS`, its options, and `per_stage`. Each of the three,
            and `chars`, may also be a module of your own, or have its place as the
            name; see `checks.CONTRACTS`.
        vector_sizes: Number of layers and dimensions of precomputed vectors.
        encoder_sizes: Attributes of the pretrained encoder, for `bert`.
        mc_dropout: The options of `MCDropout`.
        refinement: The options of a `Refinement`; None for none.
        root: What errors write before the path of an option, as in `--config.model.`.
        **sizes: `num_labels`, `num_trained` and `num_frozen` (words), `num_chars`,
            perhaps `types` and `singletons`, as modules call them.

    Raises:
        TypeError: A part is neither options nor a module.
        InputError: A name or an attribute is unknown, or a value is not allowed.
    """
    for option, value in {"dtype": dtype, "remat": remat}.items():
        fields.check(f"{root}{option}", value, fields.of(Model)[option].hint)
    if vector_sizes is not None:
        sizes |= {"num_layers": vector_sizes[0], "dim": vector_sizes[1]}
    if encoder_sizes is not None:
        attributes = {**encoder_sizes, "remat": remat}
        sizes["pretrained"] = functools.partial(pretrained.make, attributes)
    features = representation if isinstance(representation, Mapping) else {}
    for name, size, option in (
        ("vectors", vector_sizes, "contextual"),
        ("bert", encoder_sizes, "pretrained"),
    ):
        if features.get(name) is not None and size is None:
            raise InputError(f"{root}representation.{name} needs data.{option}")
    if not features.get("singleton_dropout"):  # then models of other data are equal
        sizes.pop("singletons", None)

    def make(name: str, values: Any) -> Any:
        return _module(name, values, PARTS[Model][name], sizes, root)

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
            raise InputError(f"{root}refinement needs another head than 'seq2seq'")
    return Model(
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


def _module(path: str, values: Any, part: Any, sizes: Any, root: str) -> Any:
    """Returns the module of a part, with those of the parts within."""
    check_part(path, values, getattr(part, "table", None))
    if isinstance(values, nn.Module):
        return values
    section = section_of(path, values, part, root)
    section.check()
    kind, names = section.kind, fields.of(section.kind)
    mandatory = {f.name for f in dataclasses.fields(kind) if f.default is MISSING}
    # JSON has no tuples, and lists do not hash.
    options = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in values.items()
        if name in names or name in section.inner
    }
    for name, inner in section.inner.items():
        if name in mandatory and getattr(inner, "default", ""):
            options.setdefault(name, {})
        if options.get(name) is not None:
            options[name] = _module(f"{path}.{name}", options[name], inner, sizes, root)
    for name in sizes.keys() & fields.names(kind):
        if name in mandatory or name not in names:
            options.setdefault(name, sizes[name])
    make = getattr(kind, "from_options", None)
    if not make and (absent := sorted(mandatory - options.keys())):
        raise InputError(f"{section.flag()} needs {' and '.join(absent)}")
    try:
        module = make(options, sizes) if make else kind(**section.constants, **options)
        if hasattr(module, "check"):
            module.check()
    except ValueError as error:
        raise InputError(f"{section.flag()}: {error}") from None
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
