"""From the options of a config to a model: its sections, and its modules.

The options of a part are the fields of its class, and those that are marked as a `Part`
are sections of options within it. Where a part may be one of several, `name` chooses: a
name in `models.TABLES`, or the place of a module of your own, such as
`mypackage.module:MyEncoder`.

`build` checks the values of each section and hands them to its class; "A flag" in
docs/design.md has the steps before. The data set the fields that have the name of one
of their sizes. A class that needs more than that has a class method
`from_options(options, sizes)`, and perhaps options that are no fields, `MORE`.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, NamedTuple

import flax.linen as nn
import numpy as np

from jaxner import fields, models
from jaxner.errors import InputError
from jaxner.fields import Field, OneOf, Part
from jaxner.models import pretrained
from jaxner.models.checks import check_module, own_module
from jaxner.models.model import MCDropout, Model
from jaxner.models.seq2seq import Seq2seqHead

# --- Sections -------------------------------------------------------------------------

_NOTE = "or a module of your own, package.module:Class"


class Section(NamedTuple):
    """A section of a config, at a path such as `--config.model.encoder.first`.

    `values` is a mutable mapping; `fields` are its options, and `inner` the parts
    within it; `kind` is the class that `make` builds from it.
    """

    path: str
    values: Any
    make: Any
    kind: Any
    fields: Mapping[str, Field]
    inner: Mapping[str, Part]

    def flag(self, option: str) -> str:
        """Returns the flag of an option, or the path of a part."""
        return f"{self.path}.{option}".lstrip(".")

    def check(self) -> None:
        """Raises InputError if an option is unknown, or a value not allowed."""
        names = sorted({**self.fields, **self.inner})
        for name in sorted(self.values.keys() - names):
            listing = ", ".join(names)
            raise InputError(f"Unknown option {self.flag(name)}; known: {listing}")
        for name, field in self.fields.items():
            if name in self.values:
                fields.check(self.flag(name), self.values[name], field.hint)


def section_of(path: str, values: Any, part: Part) -> Section:
    """Returns the section of a part; InputError: it is none, or its name is unknown."""
    make, options = part.kind, {}
    if not hasattr(values, "keys"):
        demand = "a dictionary of options" + ", with a name" * isinstance(make, str)
        raise InputError(f"{path} must be {demand}, got {values!r}")
    if part.is_many:
        return Section(path, values, None, None, {}, dict.fromkeys(values, Part(make)))
    if isinstance(make, str):
        table, name = models.TABLES[make], values.get("name", part.default)
        hint = Annotated[str, OneOf(sorted(table), _NOTE, lambda text: ":" in text)]
        fields.check(path, name, hint)
        meaning = f"CONFIG:{make}=NAME changes it."
        meaning += " CONFIG:chars=none leaves it out." * (make == "chars")
        options = {"name": Field(hint, part.default, meaning), **part.more}
        make = own_module(path, name) if ":" in name else table[name]
    kind, constants = getattr(make, "func", make), getattr(make, "keywords", ())
    options |= {n: x for n, x in fields.of(kind).items() if n not in constants}
    return Section(path, values, make, kind, options, fields.parts(kind))


def sections(path: str, values: Any, part: Part) -> Iterator[Section]:
    """Yields the section of a part, and those within it."""
    section = section_of(path, values, part)
    yield section
    for name, inner in section.inner.items():
        if (value := values.get(name)) is not None:
            yield from sections(section.flag(name), value, inner)


def gives_scores(values: object) -> bool:
    """Returns whether the features of an encoder are scores of labels."""
    *_, last = sections("", values, Part("encoder"))
    return "num_labels" in fields.all_of(last.kind)


# --- Modules --------------------------------------------------------------------------


def build(
    *,
    vector_sizes: tuple[int, int] | None = None,
    encoder_sizes: pretrained.Sizes | None = None,
    path: str = "",
    **options: object,
) -> Model:
    """Returns a model with the sizes of the data and the choices of a config.

    `jaxner.build` takes the sizes from a vocabulary.

    Args:
        vector_sizes: Number of layers and dimensions of precomputed vectors.
        encoder_sizes: Attributes of the pretrained encoder, for `bert`.
        path: What errors write before the path of an option, as in `--config.model`.
        **options: The options of a `Model` and of its parts; where `name` chooses a
            part, that is one of its table. `representation`, its `chars`, `encoder` and
            `head` may also be a module of your own, or have its place as the name; see
            `checks.CONTRACTS`. And sizes: `num_labels`, `num_trained` and `num_frozen`
            (words), `num_chars`, perhaps `types`, `singletons` and `separators`, as
            modules call them.

    Raises:
        TypeError: A module of your own does not take `train`.
        InputError: A part is neither options nor a module, a name or an option is
            unknown, or a value is not allowed.
    """
    names = {*fields.of(Model), *fields.parts(Model)}
    values = {name: x for name, x in options.items() if name in names}
    sizes = {name: x for name, x in options.items() if name not in names}
    section = section_of(path, values, Part(Model))
    if vector_sizes is not None:
        sizes |= {"num_layers": vector_sizes[0], "dim": vector_sizes[1]}
    if encoder_sizes is not None:
        attributes = {**encoder_sizes, "remat": values.get("remat", False)}
        sizes["pretrained"] = functools.partial(pretrained.make, attributes)
    choices = (values.get(name) for name in ("representation", "head"))
    features, head = (x if isinstance(x, Mapping) else {} for x in choices)
    for name, size, option in (
        ("vectors", vector_sizes, "contextual"),
        ("bert", encoder_sizes, "pretrained"),
    ):
        if features.get(name) is not None and size is None:
            flag = section.flag(f"representation.{name}")
            raise InputError(f"{flag} needs data.{option}")
    if values.get("refinement") is not None:  # it may read the sentence itself
        field = "representation"
        part = section.inner[field]
        sizes[field] = _module(section.flag(field), values[field], part, sizes)
    model = _module(path, values, Part(Model), sizes)
    heads = model.head, getattr(model.refinement, "head", None)
    if model.refinement is not None and Seq2seqHead in map(type, heads):
        flag = section.flag("refinement")
        raise InputError(f"{flag} needs another head than 'seq2seq'")
    if model.language_model is not None:
        flag = section.flag("language_model")
        remedy = f"; {flag}=None leaves it out"
        if not isinstance(getattr(model.representation, "words", None), models.Words):
            raise InputError(f"{flag} needs representation.words{remedy}")
        if not getattr(model.encoder, "has_directions", False):
            demand = "encoder 'bilstm' of one layer, or whose layers do not cross"
            raise InputError(f"{flag} needs {demand}{remedy}")
    if head.get("per_stage"):
        # One module each: a module used twice would share its weights.
        is_known = isinstance(model.encoder, tuple(models.MODULES.values()))
        if not (is_known or hasattr(model.encoder, "num_stages")):
            demand = f"the attribute num_stages of {type(model.encoder).__name__}"
            raise InputError(f"{section.flag('head.per_stage')} needs {demand}")
        count = getattr(model.encoder, "num_stages", 1)
        copies = tuple(model.head.clone() for _ in range(count - 1))
        model = model.clone(earlier_heads=copies)
    return model


def _module(path: str, values: Any, part: Part, sizes: Any) -> Any:
    """Returns the module of a part, with those of the parts within."""
    if isinstance(values, nn.Module):
        if type(values) not in models.MODULES.values():
            check_module(path, _role(part), values)
            return values
        fields.check_fields(values)
        for name, inner in fields.parts(type(values)).items():
            if isinstance(module := getattr(values, name), nn.Module):
                _module(f"{path}.{name}", module, inner, sizes)
        return values
    if isinstance(values, Mapping):
        values = {name: _plain(x) for name, x in values.items()}
    section = section_of(path, values, part)
    section.check()
    kind, names = section.kind, fields.of(section.kind)
    choices = fields.all_of(kind)
    mandatory = {name for name, x in choices.items() if x.default is fields.REQUIRED}
    options = {name: value for name, value in values.items() if name in names}
    for name, inner in section.inner.items():
        is_needed = name in mandatory and inner.default
        inner_values = values.get(name, {} if is_needed else None)
        if inner_values is not None:
            options[name] = _module(section.flag(name), inner_values, inner, sizes)
    for name in sizes.keys() & choices:
        option = getattr(choices[name].mark, "option", "")
        is_wanted = not option or options.get(option)
        if name in mandatory or (name not in names and is_wanted):
            options.setdefault(name, sizes[name])
    make = getattr(kind, "from_options", None)
    if not make and (absent := sorted(mandatory - options.keys())):
        raise InputError(f"{path or 'A model'} needs {' and '.join(absent)}")
    try:
        module = make(options, sizes) if make else section.make(**options)
        if hasattr(module, "check"):
            module.check()
    except ValueError as error:
        raise InputError(f"{path}: {error}") from None
    if isinstance(module, nn.Module) and type(module) not in models.MODULES.values():
        check_module(path, _role(part), module)
    return module


def _role(part: Part) -> str:
    """Returns the name of a part in `checks.CONTRACTS`; others have none."""
    return part.kind if isinstance(part.kind, str) else part.kind.__name__.lower()


def _plain(value: object) -> object:
    """Returns a value that hashes and that JSON has: no list, nothing of NumPy."""
    value = value.tolist() if isinstance(value, np.generic | np.ndarray) else value
    return tuple(map(_plain, value)) if isinstance(value, list | tuple) else value


# --- Descriptions ---------------------------------------------------------------------


def describe(module: object) -> object:
    """Returns class and fields of a module as JSON values, for taggers without config.

    Raises TypeError for a class that is none of `models.MODULES`.
    """
    if isinstance(module, (list, tuple)):
        return [*map(describe, module)]
    if not isinstance(module, (nn.Module, MCDropout)):
        return _plain(module)
    kind = type(module).__name__
    if models.MODULES.get(kind) is not type(module):
        raise TypeError(f"{kind} is your own module, whose code no file holds")
    parts = {name: getattr(module, name) for name in fields.all_of(type(module))}
    return {"module": kind} | {name: describe(part) for name, part in parts.items()}


def restore(description: object) -> Any:
    """Returns a described module; KeyError, TypeError: it or a field is unknown."""
    if isinstance(description, list):
        return tuple(map(restore, description))
    if not isinstance(description, dict):
        return description
    values = {name: restore(value) for name, value in description.items()}
    return models.MODULES[values.pop("module")](**values)
