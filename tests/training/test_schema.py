"""Every option of a config is a flag, and its range is checked."""

import copy
import dataclasses
import functools
import inspect
import itertools
import math
import typing
from pathlib import Path
from typing import Annotated

import pytest

from jaxner import configuration, fields, models
from jaxner.fields import OneOf, Range
from jaxner.models import Chain
from jaxner.training import optimizers, schema

# Together they have every part of the library, and so every option.
CONFIGS = (
    *(f"grn:sample,encoder={name}" for name in models.ENCODERS if name != "chain"),
    *(f"grn:sample,head={name}" for name in models.HEADS if name != "scores"),
    *(f"grn:sample,chars={name}" for name in models.CHARACTERS),
    *("idcnn:sample", "uanet:sample", "bert:sample", "grn:sample,elmo"),
    *("cnn_bilstm_crf:sample,attention", "lan:sample"),
)


@functools.cache
def config_of(name):
    config = configuration.load(name)
    if "bert" in name:
        config.data.pretrained = str(Path(__file__).parent)
    return config.to_dict()


def options():
    """Every option of these configs once: where it is, and what it may be."""
    seen = {}
    for name in CONFIGS:
        for section in schema.sections(configuration.load(name)):
            kind = section.values.get("name", "")
            for option, field in section.fields.items():
                key = (section.path, kind, option)
                seen.setdefault(key, (name, section.path, option, field))
    return list(seen.values())


OPTIONS = options()


def ranges_of(hint):
    """The ranges within an annotation, with the type of the numbers."""
    if typing.get_origin(hint) is Annotated:
        base, *rules = typing.get_args(hint)
        return [(base, rule) for rule in rules if isinstance(rule, Range)]
    return [pair for kind in typing.get_args(hint) for pair in ranges_of(kind)]


def bare_numbers(hint):
    if typing.get_origin(hint) is Annotated:
        base, *rules = typing.get_args(hint)
        has_range = any(isinstance(rule, Range | OneOf) for rule in rules)
        return False if has_range else bare_numbers(base)
    return hint in (int, float) or any(map(bare_numbers, typing.get_args(hint)))


def test_every_option_has_a_meaning_and_every_number_a_range():
    for config, path, option, field in OPTIONS:
        assert field.meaning, f"{config}: {path}.{option}"
        assert not bare_numbers(field.hint), f"{config}: {path}.{option}"


def with_value(config, path, option, value):
    changed = copy.deepcopy(config_of(config))
    section = changed
    for name in filter(None, path.split(".")):
        section = section[name]
    section[option] = value
    return changed


def borders(kind, range_):
    """Numbers just within a range, and just beyond it."""
    tiny = range_.step or (1 if kind is int else 1e-9)
    pairs = [
        *((x, x - tiny) for x in (range_.least,) if x is not None),
        *((x, x + tiny) for x in (range_.most,) if x is not None),
        *((x + tiny, x) for x in (range_.above,) if x is not None),
        *((x - tiny, x) for x in (range_.below,) if x is not None),
        *((range_.least, range_.least + 1) for _ in range(range_.step > 1)),
    ]
    return [[kind(x) for x in xs] for xs in zip(*pairs, strict=True)] or [[], []]


NUMBERS = [
    (config, path, option, field.default, kind, range_)
    for config, path, option, field in OPTIONS
    for kind, range_ in ranges_of(field.hint)
]


def name_of(value):
    return value if isinstance(value, str) else ""


@pytest.mark.parametrize(
    ("config", "path", "option", "default", "kind", "range_"), NUMBERS, ids=name_of
)
def test_every_number_is_held_to_its_range(config, path, option, default, kind, range_):
    flag = f"--config.{path}{'.' if path else ''}{option}"
    inside, outside = borders(kind, range_)
    wrap = (lambda x: (x,)) if type(default) is tuple else (lambda x: x)
    for value in inside:
        try:
            schema.check(with_value(config, path, option, wrap(value)))
        except ValueError as error:  # beside the others it may not work
            assert f"{flag} must be" not in str(error)  # noqa: PT017
    for value in (*outside, math.nan, math.inf, -math.inf):
        with pytest.raises(ValueError) as error:  # noqa: PT011 - compared below
            schema.check(with_value(config, path, option, wrap(value)))
        text = str(error.value)
        or_word = f"Unknown {flag} {value}; known: "
        assert text.startswith((f"{flag} must be", or_word)), text
        assert repr(value) in text
        assert "\n" not in text


def parsed(config, *overrides):
    """What the command line makes of a config."""
    read = configuration.load(config)
    for flag in overrides:
        name, _, text = flag.removeprefix("--config.").partition("=")
        configuration.override(read, name, text)
    return read


def flag_value(field):
    """Another value than the default, as one would type it."""
    choices = [
        rule.known
        for kind in (field.hint, *typing.get_args(field.hint))
        for rule in getattr(kind, "__metadata__", ())
        if isinstance(rule, OneOf)
    ]
    if choices:
        return choices[0][0 if field.hint == fields.Encoding else -1]
    number = "3" if fields.fits(3, field.hint) else "4"
    by_kind = {
        int: number,
        float: "0.25",
        bool: str(field.default is not True),
        str: "x",
    }
    return by_kind.get(field.kind, "(3, 5)")


@pytest.mark.parametrize("config", CONFIGS)
def test_every_option_of_every_part_is_a_flag(config):
    wanted = {}
    for section in schema.sections(configuration.load(config)):
        for option, field in section.fields.items():
            if option != "name":
                wanted[section.flag(option)] = flag_value(field)
    flags = [f"{flag}={value}" for flag, value in wanted.items()]
    read = parsed(config, *flags)
    for flag, value in wanted.items():
        *path, option = flag.removeprefix("--config.").split(".")
        section = functools.reduce(lambda s, name: s[name], path, read)
        assert str(section[option]).replace("'", "") in (value, f"({value},)"), flag


def test_sizes_that_the_data_give_are_no_options():
    derived = {"num_labels", "num_chars", "num_trained", "num_frozen", "singletons"}
    assert not derived & {option for _, _, option, _ in OPTIONS}
    with pytest.raises(ValueError, match="num_labels"):
        parsed("grn", "--config.model.head.num_labels=3")


def test_optimizers_have_the_arguments_of_their_makers():
    made = itertools.chain(
        *(inspect.signature(make).parameters for make in optimizers.OPTIMIZERS.values())
    )
    ours = {"decay", "warmup", "clip_norm", "clip"}
    not_for_flags = {"mu_dtype", "accumulator_dtype", "mask"}
    assert set(fields.of(optimizers.Options)) == {*made} - not_for_flags | ours


def test_sections_say_what_the_modules_say():
    for name, module in models.ENCODERS.items():
        if module is Chain:
            continue
        section = configuration.load(f"grn:sample,encoder={name}").model.encoder
        section = section.to_dict()
        assert section.pop("name") == name
        defaults = {f.name: f.default for f in dataclasses.fields(module)}
        assert section == {option: defaults[option] for option in section}
        assert set(section) == set(defaults) - {"parent", "name", "num_labels"}


@pytest.mark.parametrize(
    ("config", "path", "option", "value"),
    [
        ("grn", "model.representation.chars", "width", 2),
        ("cross_bilstm", "model.encoder.then", "keep", ("x",)),
        ("lan", "model.encoder", "num_heads", 7),
        ("idcnn", "model.encoder", "dilations", ()),
    ],
)
def test_the_options_of_a_module_are_checked_together(config, path, option, value):
    with pytest.raises(ValueError, match=f"--config.{path}: "):
        schema.check(with_value(config, path, option, value))
