"""The options of a model: the fields of its modules, section by section.

Each option is declared once. `jaxner.training.schema` adds the rest of a config.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, NamedTuple

from jaxner import fields, models
from jaxner.fields import Field, OneOf, Rate
from jaxner.models.bert import WordPieces
from jaxner.models.chain import Chain
from jaxner.models.refinement import Refinement
from jaxner.models.representation import Capitalisation, Representation, Vectors, Words
from jaxner.models.transformer import TwoStream


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


_PER_STAGE = "Whether each stage of the encoder has its own head."
_OWN_REPRESENTATION = "Whether the refinement has its own word and character features."
_RATE = "Rate of this dropout in BERT; None: that of its config.json."


def model_sections(model: Any) -> Iterator[Section]:
    """Yields a config's section `model`, and all sections within it."""
    inner = ("representation", "encoder", "head", "refinement", "mc_dropout")
    dtypes = Annotated[str, OneOf(models.DTYPES)]
    own = {
        "dtype": Field(dtypes, models.DTYPES[0], "Type of the computed numbers."),
        "remat": Field(bool, False, "Whether to compute twice and save memory."),
    }
    yield Section("model", model, own, inner)
    if (representation := model.get("representation")) is not None:
        yield from _representation(representation)
    if (encoder := model.get("encoder")) is not None:
        yield from encoder_sections("model.encoder", encoder)
    if (head := model.get("head")) is not None:
        yield _head("model.head", head, per_stage=Field(bool, False, _PER_STAGE))
    if (drafts := model.get("mc_dropout")) is not None:
        own = fields.of(models.MCDropout)
        yield Section("model.mc_dropout", drafts, own, module=models.MCDropout)
    if (refinement := model.get("refinement")) is not None:
        own = {"own_representation": Field(bool, True, _OWN_REPRESENTATION)}
        own |= fields.of(Refinement) | fields.of(TwoStream)
        yield Section("model.refinement", refinement, own, ("head",))
        if (head := refinement.get("head")) is not None:
            yield _head("model.refinement.head", head)


def _representation(section: Any) -> Iterator[Section]:
    path = "model.representation"
    inner = ("words", "chars", "caps", "vectors", "bert")
    yield Section(path, section, fields.of(Representation), inner)
    for name, module in (("words", Words), ("caps", Capitalisation)):
        if (part := section.get(name)) is not None:
            yield Section(f"{path}.{name}", part, fields.of(module), module=module)
    if (part := section.get("chars")) is not None:
        yield _named(f"{path}.chars", part, models.CHARACTERS, "cnn")
    if (part := section.get("vectors")) is not None:
        yield Section(f"{path}.vectors", part, fields.of(Vectors))
    if (part := section.get("bert")) is not None:
        rates = dict.fromkeys(
            ("dropout", "attention_dropout"), Field(Rate | None, None, _RATE)
        )
        yield Section(f"{path}.bert", part, fields.of(WordPieces) | rates)


def encoder_sections(path: str, section: Any) -> Iterator[Section]:
    """Yields the section of an encoder, and those of a chain's links."""
    found = _named(path, section, models.ENCODERS)
    if found.module is not Chain:
        yield found
        return
    links = ("first", "then")
    yield found._replace(inner=links, module=None)
    for link in links:
        if section.get(link) is None:
            raise ValueError(f"Expected {found.flag(link)} of a chain, got none")
        yield from encoder_sections(f"{path}.{link}", section[link])


def _head(path: str, section: Any, **more: Field) -> Section:
    kinds = {name: kind for name, (kind, _) in models.HEADS.items()}
    found = _named(path, section, kinds)
    _, given = models.HEADS[section["name"]]
    own = {name: x for name, x in found.fields.items() if name not in given}
    return found._replace(fields=own | more)


def _named(path: str, section: Any, table: Mapping[str, Any], default="") -> Section:
    """Returns a section whose `name` chooses a module from a table."""
    found = Section(path, section, {})
    name = section.get("name", default)
    fields.check(found.flag("name"), name, Annotated[str, OneOf(sorted(table))])
    own = {"name": choice(table, default, "Which of them.")} | fields.of(table[name])
    if "types" in fields.names(table[name]):  # a switch here, a table in the module
        own["types"] = Field(bool, False, "Whether to read types, too.")
    return found._replace(fields=own, module=table[name])


def completed(model: Any) -> Any:
    """Returns the model options of an earlier version, with the options added since.

    This makes the options of runs from different versions comparable.

    Args:
        model: The section `model` of `config.json`, which stays unchanged; returns any
            other value as it is.
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
