"""Configs: how a file builds one, where files lie, how the command line changes one.

A config is a nested `ml_collections.ConfigDict` with the sections `data`, `model`,
`objective`, `optimizer` and `evaluation`. `jaxner.training.schema` declares the options
of each. A config file says what differs from the defaults.
"""

from __future__ import annotations

import difflib
import functools
import importlib.util
import sys
import textwrap
import traceback
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import numpy as np
from ml_collections import ConfigDict

from jaxner import fields, outputs
from jaxner.data.corpora import CORPORA
from jaxner.data.schemes import TAGS
from jaxner.errors import InputError, UsageError
from jaxner.fields import Part
from jaxner.models import TABLES
from jaxner.models.options import gives_scores, section_of
from jaxner.runs import Workdir
from jaxner.tagger import OF_THE_VOCABULARY
from jaxner.training import optimizers, schema
from jaxner.training.schema import DATASETS
from jaxner.wording import shown

# --- A config file --------------------------------------------------------------------

# What a part hands on to another one in its place. Sizes are the new one's own.
_KEPT_OPTIONS = ("dropout", "initializer", "table_initializer", "forget_bias")
_SWITCHES = ("crf", "softmax")  # of configs, which mean `head=crf` and `head=softmax`


def options(**arguments: object) -> Callable[[Callable], Callable]:
    """Makes a `get_config` from what sets the options of a system.

    The result decorates a function of the sections of a run and the arguments after the
    colon. Each argument here is its default, or the words it may be, the default first.
    Every system has three more: `encoder`, `head` and `chars` name a part in the place
    of the system's own. It has its own defaults, but keeps dropout and the way weights
    are drawn where it can.

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
    arguments = {"dataset": DATASETS, **dict.fromkeys(TABLES, ""), **arguments}

    def decorate(set_up: Callable[[Any, Any], None]) -> Callable:
        @functools.wraps(set_up)
        def get_config(text: str | None = "") -> Any:
            arg = _parsed(text or "", arguments)
            for switch in set(_SWITCHES) & set(arg):
                arg[switch] |= arg.head == switch
            config = _base(arg.dataset)
            set_up(config, arg)
            if arg.dataset == "files":  # what papers decide by their corpora
                config.data.vectors = None
                config.num_epochs = config.num_epochs and min(config.num_epochs, 100)
                config.patience = config.patience or None
            _replace_parts(config.model, arg)
            return _complete(config)

        return get_config

    return decorate


def _parsed(text: str, arguments: dict[str, Any]) -> Any:
    """Returns the values after a colon, of which the first may be only the data set."""
    values = {n: x[0] if isinstance(x, tuple) else x for n, x in arguments.items()}
    for i, part in enumerate(filter(None, text.split(","))):
        name, equals, value = part.partition("=")
        if not equals and i == 0 and not isinstance(values.get(name), bool):
            name, equals, value = "dataset", "=", part
        fields.check_word("config option", name, arguments)
        words: Any = arguments[name]
        is_choice = isinstance(words, tuple)
        hint = Annotated[str, fields.OneOf(words)] if is_choice else type(words)
        values[name] = fields.parse(value if equals else "true", hint)
        fields.check(f"{name} after the colon", values[name], hint)
    return ConfigDict(values)


def _base(dataset: str) -> Any:
    """Returns the sections of a run that do not depend on the system."""
    data: dict[str, Any] = {"name": dataset}
    if dataset == "files":  # without vectors, rare words are known, too
        data["min_count_without_vectors"] = 1
    elif CORPORA[dataset].scheme == TAGS:
        data["scheme"] = TAGS
    sections = {"data": data, "model": {"mc_dropout": {}}}
    sections |= {"objective": {}, "optimizer": {}, "evaluation": {}}
    # Values of several types may follow: a run checks them all before it begins.
    return _complete(ConfigDict(sections, type_safe=False))


def _complete(config: Any) -> Any:
    """Adds to each section of a config the options that it does not say, in place.

    Numbers of NumPy become Python's, which JSON has.
    """
    for section in list(schema.sections(config)):
        for name, value in section.values.items():
            if isinstance(value, np.generic):
                with config.ignore_type():
                    section.values[name] = value.item()
        for name, field in section.fields.items():
            if name not in section.values and field.default is not fields.REQUIRED:
                section.values[name] = field.default
    return config


def _replace_parts(model: Any, arg: Any) -> None:
    if arg.encoder and arg.encoder != model.encoder.name:
        names = arg.encoder.split("+")
        encoder, *others = [_in_place_of(model.encoder, "encoder", x) for x in names]
        for other in others:
            encoder = {"name": "chain", "first": encoder, "then": other}
        model.encoder = encoder
        if "language_model" in model:  # it reads the directions of the old encoder
            model.language_model = None
    if arg.encoder or arg.head:
        _replace_head(model, arg.head)
    if arg.chars in ("none", "false"):
        model.representation.chars = None
    elif arg.chars not in ("", "true"):
        old = model.representation.get("chars") or {"name": ""}
        if old.get("name", "cnn") != arg.chars:
            model.representation.chars = _in_place_of(old, "chars", arg.chars)


def _in_place_of(old: Any, part: str, name: str) -> Any:
    """Returns the section of a part that stands in the place of another one."""
    new = {"name": name}
    new_fields = section_of(part, new, Part(part)).fields
    for option in _KEPT_OPTIONS:
        field, value = new_fields.get(option), old.get(option)
        if field and not fields.problem(value, field.hint):
            new[option] = value
    return new


def _replace_head(model: Any, name: str) -> None:
    """Gives the model the chosen head, and scores of labels to one that takes them."""
    has_scores = gives_scores(model.encoder)
    kind = model.head.name
    if kind == "scores":  # it is a CRF, or independent labels, too
        kind = "crf" if model.head.get("transitions") else "softmax"
    if has_scores and not name and kind in _SWITCHES:
        model.head = {"name": "scores", "transitions": kind == "crf"}
    elif (name or kind) != kind or (model.head.name == "scores" and not has_scores):
        model.head = _in_place_of(model.head, "head", name or kind)


# --- The files ------------------------------------------------------------------------


def folder() -> Path:
    """Returns the folder of the configs: in the package, or next to it in a clone."""
    package = Path(__file__).parent
    configs = package / "configs"
    return configs if configs.is_dir() else package.parent / "configs"


def names() -> list[str]:
    """Returns the names of all configs that come with jaxner, sorted."""
    return sorted(path.stem for path in folder().glob("[!_]*.py"))


def split(text: str) -> tuple[str, str]:
    r"""Returns file or name, and the argument after it, from a value of `--config`."""
    file, suffix, arg = text.partition(".py:")
    if suffix or text.endswith(".py"):
        return file + suffix.rstrip(":"), arg
    name, _, arg = text.partition(":")
    return name, arg


def load(text: str) -> Any:
    """Returns the config of a path or name, with an argument after a colon.

    A file of your own may import modules that lie beside it. `InputError`: it is
    unknown, cannot be run, or does not accept the argument.
    """
    return _loaded(text)[1]


def _loaded(text: str) -> tuple[ModuleType, Any]:
    """Returns the module and the config."""
    name, arg = split(text)
    stem, file = name.removesuffix(".py"), outputs.expanded(name)
    if stem in names() and not file.is_file():
        name = stem  # as tables of systems call jaxner's own
    elif file.exists() and file.suffix != ".py":
        raise InputError("is no config; for data, give --data FOLDER", name)
    if name.endswith(".py") or "/" in name or "\\" in name:
        if not file.is_file():
            listing = ", ".join(names())
            raise InputError(f"There is no config file {name}; jaxner's own: {listing}")
        sys.path.append(str(file.parent.resolve()))
    else:
        fields.check_word("config", name, names())
        file = folder() / f"{name}.py"
    spec: Any = importlib.util.spec_from_file_location(f"{file.stem}_config", file)
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        config = module.get_config(arg)
        if not isinstance(config, ConfigDict):
            message = "expected get_config to return a ConfigDict, got "
            raise InputError(message + shown(config), file)
        return module, _complete(config)
    except InputError:
        raise
    except (Exception, SystemExit) as error:  # a config is Python: it may do anything
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename == spec.origin]
        line = lines[-1] if lines else getattr(error, "lineno", None)
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise InputError(f"cannot be run: {reason}", file, line) from error


# --- The command line -----------------------------------------------------------------


def override_all(config: Any, options: Mapping[str, str]) -> None:
    """Sets options of a config, in place, from texts; see `override`.

    With `init_from`, words are looked up, and labels named, as by the run there, whose
    vectors and tokenizer are taken if the config has none, unless another option says
    otherwise; and another optimizer's name drops what only the former one knows. A
    warning says that a learning rate was chosen for SGD alone, or for all but SGD.
    """
    options = {name.replace("-", "_"): text for name, text in options.items()}
    old = config.optimizer.to_dict()
    order = sorted(options, key=lambda name: not name.endswith(".name"))
    for name in sorted(order, key=lambda name: name != "init_from"):
        override(config, name, options[name])
        if name == "init_from" and config.init_from:
            run = Workdir(config.init_from)
            if (run.path / "vocabulary.json").exists():
                vocabulary = run.vocabulary()
                for option in OF_THE_VOCABULARY:
                    config.data[option] = getattr(vocabulary, option)
            files = map(run.path.joinpath, ("config.json", "model.json"))
            for file in filter(Path.exists, files):
                data = run.read_json(file.name).get("data") or {}
                has_words = config.model.representation.get("words")
                for option in ("vectors",) * bool(has_words) + ("tokenizer",):
                    config.data[option] = config.data[option] or data.get(option)
    for name in options:
        path, _, option = name.rpartition(".")
        if option == "name" and path.startswith("optimizer"):
            part, flag = path.removeprefix("optimizer.parts."), f"{path}.learning_rate"
            former = (old.get("parts") or {}).get(part, old).get("name")
            section = (config.optimizer.get("parts") or {}).get(part, config.optimizer)
            is_other = former != section.name and "sgd" in (former, section.name)
            if is_other and flag not in options:
                rate = f"--config.{flag}={section.learning_rate:g} was chosen for"
                warnings.warn(f"{rate} {former}: set it, too", stacklevel=2)


def override(config: Any, name: str, text: str) -> None:
    """Sets one option of a config, in place, from the text that a user typed.

    The name is a path, such as `optimizer.learning_rate`; hyphens are underscores. A
    new part of the model starts from its defaults; a new part of the optimizer, as in
    `optimizer.parts.head.learning_rate`, from the optimizer's own options.
    `schema.check` refuses values that are not allowed.
    """
    flag = f"--config.{name.replace('-', '_')}"
    path, _, option = flag.rpartition(".")
    parent, _, part = path.rpartition(".")
    root, parts = "--config.optimizer.parts", config.optimizer.get("parts") or {}
    if path == root and option in parts and text == "None":
        del parts[option]
        return
    if parent == root and part not in parts:
        rest = config.optimizer.items()
        new = {name: x for name, x in rest if name not in optimizers.SHARED}
        config.optimizer.parts = {**parts, part: new}
    sections = {section.path: section for section in schema.sections(config)}
    section, above = sections.get(path), sections.get(parent)
    if section is None and above and part in above.inner:  # so far without it
        values = ConfigDict(type_safe=False)
        section = section_of(path, values, above.inner[part])
        if option in section.fields:
            above.values[part] = values
    if section and option in section.fields:
        old_value = section.values.get(option)
        is_other = option == "name" and text != old_value
        # Not its optimizer; and CRF and softmax have the same options.
        has_others = part in ("encoder", "head", "chars") and parent != root
        if is_other and has_others and {text, old_value} != {"crf", "softmax"}:
            choice = f"choose it after the colon, as in grn:{part}={text}"
            raise InputError(f"{flag}: {choice}")
        section.values[option] = fields.parse(text, section.fields[option].hint)
        if is_other and text in optimizers.OPTIMIZERS:
            old, new = map(optimizers.own_options, (old_value, text))
            section.values.update(dict.fromkeys(old - new))
        _complete(config)
    elif section and option in section.inner:
        is_needed = option in ("representation", "encoder", "head")
        if text != "None" or is_needed or path == "--config":
            message = f"{flag} is a section of options: set one of them"
            if option in TABLES:
                message += f"; for another part, grn:{option}={text}"
            raise InputError(message)
        section.values[option] = None
    else:
        raise UsageError(f"Unknown option {flag}{meant(config, name, text)}")


def meant(config: Any, name: str, text: str = "") -> str:
    """Returns a question with the options that an unknown name may mean, or ""."""
    if name == "tags":  # as other commands have it
        return ". Did you mean --config.data.scheme=tags?"
    flag, ends = f"--config.{name.replace('-', '_')}", {}
    for section in schema.sections(config):
        for option in (*section.fields, *section.inner):
            ends.setdefault(option, []).append(section.flag(option))
    initials = {"".join(word[:1] for word in end.split("_")): end for end in ends}
    end = flag.rpartition(".")[2]
    close = difflib.get_close_matches(initials.get(end, end), ends, 1, 0.7)
    similar = difflib.get_close_matches(flag, ends[close[0]], 3, 0) if close else []
    value = f"={text}" if text else ""
    options = " or ".join(flag + value for flag in similar)
    return f". Did you mean {options}?" if options else ""


def describe(text: str) -> str:
    """Returns a config's docstring, and of each option default, meaning and values."""
    module, config = _loaded(text)
    lines = [(module.__doc__ or "").strip(), ""]
    for section in schema.sections(config):
        for option, field in section.fields.items():
            value = section.values.get(option, "")  # what the data give has none
            lines.append(f"{section.flag(option)}={value}")
            kinds = " or ".join(map(str, fields.kinds(field.hint)))
            meaning = f"{field.meaning.rstrip('.')} ({kinds})"
            lines.append(textwrap.indent(textwrap.fill(meaning, 76), "    "))
    return "\n".join(lines)
