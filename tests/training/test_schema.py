"""Every option of a config is a flag, and its range is checked."""

import copy
import functools
import inspect
import itertools
import math

import pytest

from jaxner import configuration, fields, models
from jaxner.fields import OneOf, Range
from jaxner.training import optimizers, schema
from tests.tiny import pretrained_folder

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
        config.data.pretrained = pretrained_folder()
    return config.to_dict()


# Every option of these configs: where it is, and what it may be.
OPTIONS = {
    (section.path, section.values.get("name"), option): (config, field)
    for config in CONFIGS
    for section in schema.sections(configuration.load(config))
    for option, field in section.fields.items()
}


def numbers_of(field):
    return [kind for kind in fields.kinds(field.hint) if kind.type in (int, float)]


def test_every_option_has_a_meaning_and_every_number_a_range():
    for (path, _, option), (config, field) in OPTIONS.items():
        assert field.meaning, f"{config}: {path}.{option}"
        for kind in numbers_of(field):
            assert isinstance(kind.rule, Range), f"{config}: {path}.{option}"


def section_of(config, path):
    return functools.reduce(lambda section, name: section[name], path, config)


def with_value(config, path, option, value):
    result = copy.deepcopy(config_of(config))
    names = path.removeprefix("--config").split(".")
    section_of(result, filter(None, names))[option] = value
    return result


def test_every_number_is_held_to_its_range():
    value = math.nan
    for (path, _, option), (config, field) in OPTIONS.items():
        if numbers_of(field):
            values = (value,) if type(field.default) is tuple else value
            flag = f"{path}.{option}"
            with pytest.raises(ValueError, match=rf"^(Unknown )?{flag} .*{value}"):
                schema.check(with_value(config, path, option, values))


def another_value(field):
    """A value that an option may have, besides its default."""
    rules = [kind.rule for kind in fields.kinds(field.hint)]
    words = [w for r in rules if isinstance(r, OneOf) for w in reversed(r.words)]
    rest = (5, 7), ("x", "y"), 3, 4, 5, 0.25, True, False, "x", "{split}"
    for value in (*words, *((word,) for word in words), *rest):
        if not fields.problem(value, field.hint) and value != field.default:
            return value
    raise AssertionError(field)


@pytest.mark.parametrize("config", CONFIGS)
def test_every_option_of_every_part_is_a_flag(config):
    settings = configuration.load(config)
    values = {
        section.flag(option).removeprefix("--config."): another_value(field)
        for section in schema.sections(settings)
        for option, field in section.fields.items()
        if option != "name"
    }
    for name, value in values.items():
        configuration.override(settings, name, str(value))
    for name, value in values.items():
        *path, option = name.split(".")
        assert section_of(settings, path)[option] == value, name


def test_optimizers_have_the_arguments_of_their_makers():
    makers = optimizers.OPTIMIZERS.values()
    names = itertools.chain(*(inspect.signature(make).parameters for make in makers))
    extra = {"name", "decay", "warmup", *optimizers.SHARED[:2]}
    extra |= {"layer_decay", "frozen_layers"}
    not_for_flags = {"mu_dtype", "accumulator_dtype", "mask"}
    assert set(fields.of(optimizers.Options)) == {*names} - not_for_flags | extra


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("model.representation", {"chars": 3}, r"\.chars must be a dictionary of"),
        ("model", {"encoder": "grn"}, r"\.encoder must be .* a name, got 'grn'"),
        ("model", {"encoder": None}, "--config.model needs encoder"),
        ("", {"data": 1}, "--config.data must be a dictionary of options, got 1"),
        ("data", {"contextual": "x"}, r"contextual must be a path with {split}, got"),
        ("", {"num_seeds": 2**33}, r"the last seed of --config\.num_seeds must be"),
        ("", {"optimizer": None}, "--config.optimizer must be a dictionary"),
        ("optimizer", {"parts": 1}, r"optimizer\.parts must be a dictionary"),
        ("model.encoder", {"then": None}, r"--config\.model\.encoder needs then"),
        ("model.encoder.then", {"keep": ("x",)}, r"--config\.model\.encoder\.then: "),
    ],
)
def test_what_is_wrong_with_a_section_is_told_by_its_flag(path, value, message):
    ((option, content),) = value.items()
    with pytest.raises(ValueError, match=message):
        schema.check(with_value("cross_bilstm", path, option, content))


def test_a_language_model_needs_trained_words():
    with pytest.raises(ValueError, match=r"num_words needs data\.train_words"):
        schema.check(with_value("own", "data", "train_words", False))
