"""Every option of a config is a flag, and its range is checked."""

import copy
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


def has_numbers(hint):
    return hint in (int, float) or any(map(has_numbers, typing.get_args(hint)))


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


def test_every_number_is_held_to_its_range():
    value = math.nan
    for config, path, option, field in OPTIONS:
        if has_numbers(field.hint):
            values = (value,) if type(field.default) is tuple else value
            flag = f"--config.{path}{'.' if path else ''}{option}"
            with pytest.raises(ValueError, match=rf"^(Unknown )?{flag} .*{value}"):
                schema.check(with_value(config, path, option, values))


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
    kinds = [kind for kind in fields.kinds(field.hint) if kind.type is not fields.NONE]
    are_several = any(kind.is_several for kind in kinds)
    return "(3, 5)" if are_several else by_kind[kinds[0].type]


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


def test_optimizers_have_the_arguments_of_their_makers():
    made = itertools.chain(
        *(inspect.signature(make).parameters for make in optimizers.OPTIMIZERS.values())
    )
    ours = {"decay", "warmup", "clip_norm", "clip", "layer_decay", "frozen_layers"}
    not_for_flags = {"mu_dtype", "accumulator_dtype", "mask"}
    assert set(fields.of(optimizers.Options)) == {*made} - not_for_flags | ours


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
