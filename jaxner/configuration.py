"""Configs: how a file builds one, where files lie, how the command line changes one.

A config is a nested `ml_collections.ConfigDict` with the sections `data`, `model`,
`objective`, `optimizer` and `evaluation`. `jaxner.training.schema` declares the options
of each, with their ranges: for a part of a model, they are the fields of its module. A
config file says what differs from the defaults.
"""

from __future__ import annotations

import collections.abc
import difflib
import functools
import importlib.util
import sys
import textwrap
import types
import typing
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any

from ml_collections import ConfigDict, FieldReference

from jaxner import disk, fields
from jaxner.errors import InputError
from jaxner.models import CHARACTERS, ENCODERS, HEADS
from jaxner.models import options as model_options
from jaxner.models.options import Section
from jaxner.training import schema
from jaxner.training.schema import DATASETS, TAGGED

# --- A config file --------------------------------------------------------------------

_TABLES = {"encoder": ENCODERS, "head": HEADS, "chars": CHARACTERS}
PARTS = tuple(_TABLES)
"""Arguments that every config takes: another part in the place of its own."""
# What a part hands on to another one in its place; sizes are the new one's own.
_KEPT = {
    "encoder": ("initializer", "forget_bias"),
    "head": ("dropout", "initializer"),
    "chars": ("dropout", "initializer", "table_initializer"),
}
_SWITCHES = ("crf", "softmax")  # of configs, which mean `head=crf` and `head=softmax`


def options(**defaults: Any) -> Callable[[Callable], Callable]:
    """Makes a `get_config` from what sets the options of a system.

    Args:
        **defaults: The system's own arguments after the colon, and their defaults.
            Every system has three more: `encoder`, `head` and `chars` name a part that
            stands in the place of the system's own. It has its own defaults, but keeps
            dropout and the way weights are drawn where it can.

    Returns:
        A decorator of a function that gets the sections of a run, and the arguments.

    Example:
        >>> @options(wide=False)
        ... def get_config(config, arg):
        ...     config.model.representation = {"words": {"dim": 100}, "chars": None}
        ...     size = 400 if arg.wide else 200
        ...     config.model.encoder = {"name": "grn", "hidden_dim": size}
        ...     config.model.head = {"name": "crf"}
        ...     config.optimizer = {"name": "adam", "learning_rate": 1e-3}
        >>> get_config("conll2003,wide").model.encoder.hidden_dim
        400
        >>> get_config("encoder=bilstm,head=softmax").model.encoder.num_layers
        1
    """
    defaults = {"dataset": "sample", **dict.fromkeys(PARTS, ""), **defaults}

    def decorate(set_up: Callable[[Any, Any], None]) -> Callable:
        def make(arg: Any) -> Any:
            arg, config = ConfigDict(arg), base(arg.dataset)
            set_up(config, arg)
            _replace_parts(config.model, arg)
            return complete(config)

        @functools.wraps(set_up)
        def get_config(arg: str | None = "") -> Any:
            parsed = parse_arg(arg, **defaults)
            _check_parts(parsed)
            config = make(parsed)
            if any(parsed[part] for part in PARTS):
                _check_effects(make, config, parsed, defaults)
            return config

        return get_config

    return decorate


def base(dataset: str) -> Any:
    """Returns the sections of a run that do not depend on the system.

    Raises:
        InputError: The data set is not one of `schema.DATASETS`.
    """
    known("data set", dataset, DATASETS)
    scheme = "tags" if dataset in TAGGED else "BIOES"
    config: Any = ConfigDict({"data": {"name": dataset, "scheme": scheme}})
    config.model = {"mc_dropout": {}}
    for name in ("objective", "optimizer", "evaluation"):
        config[name] = ConfigDict()
    if dataset == "files":  # without vectors, rare words are known, too
        config.data.min_count_without_vectors = 1
    return complete(config)


def complete(config: Any) -> Any:
    """Adds to each section of a config the options that it does not say, in place."""
    for section in list(schema.sections(config)):
        _complete(section)
    return config


def _complete(section: Section) -> None:
    for name, field in section.fields.items():
        value = section.values.get(name, field.default)
        if field.kind is float and isinstance(value, int):
            value = float(value)
        if isinstance(value, list):
            value = tuple(value)
        if value is None or field.kind is object:  # values of several types may follow
            value = FieldReference(value, field_type=field.kind)
        _set(section.values, name, value)


def _set(section: Any, name: str, value: Any) -> None:
    with section.unlocked():
        if name in section:
            del section[name]  # else it keeps its type
        section[name] = value


def part(of: str, **values: Any) -> Any:
    """Returns the section of a part of a model.

    Args:
        of: "encoder", "head", "mc_dropout", "refinement" or "representation".
        **values: Those that are not to be the module's own defaults.

    Example:
        >>> part("encoder", name="grn", relation="fusion").context
        'all'
    """
    model = ConfigDict({of: values})
    for section in list(model_options.model_sections(model)):
        _complete(section)
    return model[of]


def parse_arg(arg: str | None, **defaults: Any) -> Any:
    """Returns the values in the part of `--config file.py:ARG` after the colon.

    They are comma-separated `name=value`; the first needs no name, and a switch needs
    no value to be True. The defaults determine the types.

    Example:
        >>> parse_arg("wnut17,quick", dataset="sample", quick=False).quick
        True
    """
    values = ConfigDict(defaults)
    for i, text in enumerate(filter(None, (arg or "").split(","))):
        name, equals, value = text.partition("=")
        if not equals and not isinstance(defaults.get(name), bool) and i == 0:
            name, value = next(iter(defaults)), text
        elif not equals:
            value = "true"
        known("config option", name, defaults)
        kind = type(defaults[name])
        read = _read(value, kind)
        fields.check(name, read, kind, " after the colon")
        values[name] = read
    return values


def known(name: str, value: str, values: Iterable[str]) -> None:
    """Raises InputError, with a similar word, if a value is not among `values`."""
    if value not in values:
        close = difflib.get_close_matches(value, values, 1)
        hint = f". Did you mean {close[0]!r}?" if close else ""
        words = ", ".join(filter(None, values))
        raise InputError(f"Unknown {name} {value!r}; known: {words}{hint}")


def _check_parts(arg: Any) -> None:
    """Checks the parts; a switch and the argument that means the same say the same."""
    for part, table in _TABLES.items():
        for name in filter(None, arg[part].split("+")):
            if part != "chars" or name not in ("none", "true", "false"):
                model_options.kind_of(part, name, table)
    for switch in set(_SWITCHES) & set(arg):
        if arg[switch] and arg.head not in ("", switch):
            raise InputError(f"{switch} and head={arg.head} are two heads: choose one")
        arg[switch] |= arg.head == switch


def _replace_parts(model: Any, arg: Any) -> None:
    if arg.encoder and arg.encoder != _name(model.encoder):
        names = arg.encoder.split("+")
        links = [_in_place_of(model.encoder, "encoder", name) for name in names]
        model.encoder = functools.reduce(_chain, links)
        _fit_noise(model)
    if arg.head or arg.encoder:
        _replace_head(model, arg)
    if arg.chars in ("none", "false"):
        model.representation.chars = None
    elif arg.chars not in ("", "true"):
        old = model.representation.get("chars") or ConfigDict({"name": ""})
        if old.get("name", "cnn") != arg.chars:
            model.representation.chars = _in_place_of(old, "chars", arg.chars)


def _replace_head(model: Any, arg: Any) -> None:
    """Gives the model the chosen head, which reads scores of labels as scores."""
    *_, last = model_options.encoder_sections("", model.encoder)
    gives_scores = "num_labels" in fields.names(last.module)
    old = model.head.name
    if old == "scores":  # it is a CRF, or independent labels, too
        old = "crf" if model.head.get("transitions") else "softmax"
    is_misread = model.head.name == "scores" and not gives_scores
    if arg.head and (is_misread or arg.head not in (old, model.head.name)):
        model.head = _in_place_of(model.head, "head", arg.head)
    elif is_misread:
        raise InputError(
            f"encoder={arg.encoder} gives features, and head 'scores' takes scores of "
            "the labels: add head=softmax or head=crf"
        )
    elif gives_scores and not arg.head and old in ("crf", "softmax"):
        model.head = ConfigDict({"name": "scores", "transitions": old == "crf"})
    if model.head.name == "scores" and not gives_scores:
        raise InputError("head=scores takes scores of the labels: add encoder=lan")


def _name(encoder: Any) -> str:
    """Names an encoder as the argument does: `bilstm+projection` is a chain."""
    if encoder.name == "chain":
        return f"{_name(encoder.first)}+{_name(encoder.then)}"
    return encoder.name


def _chain(first: Any, then: Any) -> Any:
    return ConfigDict({"name": "chain", "first": first, "then": then})


def _in_place_of(old: Any, part: str, name: str) -> Any:
    """Returns the section of a part that stands in the place of another one."""
    kind, _ = model_options.kind_of(part, name, _TABLES[part])
    taken, new = fields.of(kind), ConfigDict({"name": name})
    for option in set(_KEPT[part]) & set(old) & set(taken):
        if fields.fits(old[option], taken[option].hint):
            new[option] = old[option]
    return new


def _fit_noise(model: Any) -> None:
    """Lets the passes of MC dropout differ: an encoder may have no dropout of its own.

    Then the features behind it are dropped, as often as those of a draft's BiLSTM.
    """
    drafts = model.mc_dropout
    if drafts.get("num_samples") and tuple(drafts.parts) == ("encoder",):
        drafts.parts = ("head",)
        model.head.dropout = model.head.get("dropout") or 0.25


def _check_effects(make: Callable, config: Any, arg: Any, defaults: Any) -> None:
    """Checks that each argument still changes something beside the chosen parts."""
    parts = ", ".join(f"{part}={arg[part]}" for part in PARTS if arg[part])
    for name, default in defaults.items():
        if name in ("dataset", *PARTS, *_SWITCHES) or arg[name] == default:
            continue
        without = ConfigDict({**arg.to_dict(), name: default})
        if make(without).to_dict() == config.to_dict():
            raise InputError(
                f"{name}={arg[name]} changes nothing beside {parts}: leave it out"
            )


# --- The files ------------------------------------------------------------------------


def folder() -> Path:
    """Returns the folder of the configs: in the package, or next to it in a clone."""
    package = Path(__file__).parent
    installed = package / "configs"
    return installed if installed.is_dir() else package.parent / "configs"


def names() -> list[str]:
    """Returns the names of all configs that come with jaxner, sorted.

    Example:
        >>> "grn" in names()
        True
    """
    return sorted(path.stem for path in folder().glob("[!_]*.py"))


def split(text: str) -> tuple[str, str]:
    r"""Returns file or name, and the argument after it, from a value of `--config`.

    Example:
        >>> split("grn:conll2003,elmo"), split("configs/grn.py")
        (('grn', 'conll2003,elmo'), ('configs/grn.py', ''))
        >>> split(r"C:\mine\grn.py:sample")[1]  # the first colon is a drive's
        'sample'
    """
    file, suffix, arg = text.partition(".py:")
    if suffix:
        return f"{file}.py", arg
    if text.endswith(".py"):
        return text, ""
    name, _, arg = text.partition(":")
    return name, arg


def find(text: str) -> Path:
    """Returns the file of a path, or of the name of a config that comes with jaxner.

    Raises:
        InputError: There is none; the message lists the known ones.

    Example:
        >>> find("grn:conll2003").name
        'grn.py'
    """
    name, _ = split(text)
    is_path = name.endswith(".py") or "/" in name or "\\" in name
    file = disk.expanded(name) if is_path else folder() / f"{name}.py"
    if not file.is_file():
        if is_path:
            raise InputError(f"There is no config file {name}")
        known("config", name, names())
    return file


def load(text: str) -> Any:
    """Returns the config of a path or name, with an argument after a colon.

    A file of your own may import modules that lie beside it.

    Raises:
        InputError: It is unknown, cannot be run, or does not accept the argument.

    Example:
        >>> load("grn:wnut17").data.name
        'wnut17'
    """
    _, arg = split(text)
    module = _module(text)
    try:
        return module.get_config(arg)
    except ValueError:
        raise
    except Exception as error:  # a config is Python: it may raise anything
        raise _not_run(error, find(text)) from error


def _module(text: str) -> Any:
    file = find(text)
    if file.parent.resolve() != folder().resolve():
        beside = str(file.parent.resolve())
        if beside not in sys.path:
            sys.path.append(beside)
    spec = importlib.util.spec_from_file_location(f"jaxner_{file.stem}_config", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise _not_run(error, file) from error
    return module


def _not_run(error: Exception, file: Path) -> InputError:
    line, trace = getattr(error, "lineno", None), error.__traceback__
    while trace is not None:
        if Path(trace.tb_frame.f_code.co_filename) == file:
            line = trace.tb_lineno
        trace = trace.tb_next
    reason = " ".join(str(error).split())
    return InputError(f"cannot be run: {type(error).__name__}: {reason}", file, line)


# --- The command line -----------------------------------------------------------------


def override(config: Any, name: str, text: str) -> None:
    """Sets one option of a config, in place.

    Args:
        config: What `load` returned.
        name: Path of the option, such as `optimizer.learning_rate`; hyphens are
            underscores.
        text: The value, as typed; "None" is None, and several values have commas.

    Raises:
        InputError: There is no such option.
        ValueError: The value is not allowed.

    Example:
        >>> config = load("grn")
        >>> override(config, "num-epochs", "3")
        >>> config.num_epochs
        3
    """
    name = name.replace("-", "_")
    path, _, option = name.rpartition(".")
    for section in schema.sections(config):
        if section.path != path:
            continue
        if option in section.inner:
            _override_section(section, option, text)
            return
        if option in section.fields:
            hint = section.fields[option].hint
            value = _read(text, hint)
            fields.check(section.flag(option), value, hint)
            _set(section.values, option, value)
            _complete(section)
            return
    raise InputError(f"Unknown option --config.{name}{meant(config, name, text)}")


def _override_section(section: Section, name: str, text: str) -> None:
    flag = section.flag(name)
    is_needed = name in ("representation", "encoder", "head")
    if text == "None" and section.path.startswith("model") and not is_needed:
        _set(section.values, name, None)
        return
    if name in PARTS:
        raise InputError(
            f"{flag} is a section of options. Another part is an argument of the "
            f"config: --config FILE:{name}={text}"
        )
    raise InputError(f"{flag} is a section of options: set one, as {flag}.NAME=VALUE")


def meant(config: Any, name: str, text: str = "") -> str:
    """Returns a question with the options that an unknown name may mean, or "".

    Example:
        >>> meant(load("grn"), "lr", "0.1")
        '. Did you mean --config.optimizer.learning_rate=0.1?'
    """
    wanted = name.replace("-", "_").rpartition(".")[2]
    ends = {
        section.flag(option): option
        for section in schema.sections(config)
        for option in (*section.fields, *section.inner)
    }
    close = difflib.get_close_matches(wanted, set(ends.values()), 1, 0.7)
    for words in (
        {wanted},
        {x for x in ends.values() if _initials(x) == wanted},
        close,
    ):
        similar = [flag for flag, end in ends.items() if end in words]
        if similar:
            break
    else:
        return ""
    whole = f"--config.{name}"
    nearest = difflib.get_close_matches(whole, similar, 3, 0)
    value = f"={text}" if text else ""
    return f". Did you mean {' or '.join(flag + value for flag in nearest)}?"


def _initials(name: str) -> str:
    return "".join(word[:1] for word in name.split("_"))


_BOOLS = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}


def _read(text: str, hint: Any) -> Any:
    """Returns the value of a text for an annotation; the text itself if it has none."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        return _read(text, inner[0])
    if origin in (typing.Union, types.UnionType):
        readings = [
            (_read(text, kind), kind)
            for kind in sorted(inner, key=lambda kind: kind is str)
            if not _is_several(kind) or text[:1] in ("(", "[") or "," in text
        ]
        fitting = [value for value, kind in readings if fields.fits(value, kind)]
        others = [value for value, _ in readings if value != text]
        return [*fitting, *others, text][0]
    if _is_several(hint):
        parts = [part.strip(" '\"") for part in text.strip("()[] ").split(",")]
        return tuple(_read(part, inner[0]) for part in parts if part)
    if hint is types.NoneType:
        return None if text == "None" else text
    if hint is bool:
        return _BOOLS.get(text.lower(), text)
    if hint in (int, float):
        try:
            return hint(text)
        except ValueError:
            return text
    return str(disk.expanded(text)) if text.startswith("~/") else text


def _is_several(hint: Any) -> bool:
    return typing.get_origin(hint) in (tuple, collections.abc.Sequence)


def describe(text: str) -> str:
    """Returns a config's docstring, and each option: default, meaning, allowed values.

    Raises:
        InputError: As `load`.
    """
    config = load(text)
    lines = [(_module(text).__doc__ or "").strip(), ""]
    for section in schema.sections(config):
        for option, field in section.fields.items():
            value = section.values.get(option, field.default)
            lines.append(f"{section.flag(option)}={value}")
            about = f"{field.meaning.rstrip('.')} ({allowed(field.hint)})"
            lines.append(textwrap.indent(textwrap.fill(about, 76), "    "))
    return "\n".join(lines)


_WORDS = {bool: "true or false", int: "whole number", float: "number", str: "text"}


def allowed(hint: Any) -> str:
    """Describes the allowed values of an annotation.

    Example:
        >>> allowed(fields.Rate | None)
        'number at least 0 and below 1 or None'
    """
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        for rule in inner[1:]:
            if isinstance(rule, fields.OneOf):
                return ", ".join(rule.known)
            if isinstance(rule, fields.Range):
                return f"{_WORDS[inner[0]]} {rule}"
        return allowed(inner[0])
    if origin in (typing.Union, types.UnionType):
        return " or ".join(map(allowed, inner))
    if _is_several(hint):
        return f"several, each {allowed(inner[0])}"
    return _WORDS.get(hint, "None")
