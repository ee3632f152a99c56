"""A trained tagger as one pytree; building, saving and loading."""

from __future__ import annotations

import copy
import dataclasses
import functools
import json
import os
import types
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from jax.core import Tracer
from jaxtyping import Array, PyTree

from jaxner import arguments, cache, devices, fields, models, runs
from jaxner.data import corpora
from jaxner.data.vocabulary import Vocabulary
from jaxner.errors import DamagedFileError, InputError
from jaxner.runs import CALIBRATION, Workdir
from jaxner.types import Options, Owner, Weights

_MANDATORY = ("representation", "encoder", "head")
_PARTS = (*_MANDATORY, "language_model", "mc_dropout", "refinement", "dtype", "remat")
OF_THE_VOCABULARY = ("scheme", "lowercase", "lowercase_fallback", "zero_digits")
OF_THE_VOCABULARY += ("unescape", "typed_unknowns")
"""Options of the section `data` that a vocabulary keeps."""


class _Method(NamedTuple):
    """A function of `jaxner` as a method, with its arguments and documentation."""

    name: str

    def __get__(self, tagger: Tagger | None, _: type | None = None) -> Callable:
        import jaxner

        function = getattr(jaxner, self.name)
        return function if tagger is None else types.MethodType(function, tagger)


_Class = TypeVar("_Class")
_LEAVES, _STATIC = ("weights", "temperature"), ("model", "vocabulary", "reading")
_TEMPERATURE = np.float32(1)  # an array: functions may be mapped over all leaves


def _pytree(kind: type[_Class]) -> type[_Class]:
    """Registers a class whose objects JAX rebuilds without checks, from any leaves."""

    def flatten(tagger):
        leaves = [(jax.tree_util.GetAttrKey(x), getattr(tagger, x)) for x in _LEAVES]
        return leaves, tuple(getattr(tagger, name) for name in _STATIC)

    def rebuild(static, leaves):
        tagger = object.__new__(kind)
        vars(tagger).update(zip(_LEAVES + _STATIC, (*leaves, *static), strict=True))
        return tagger

    jax.tree_util.register_pytree_with_keys(kind, flatten, rebuild)
    return kind


@_pytree
@dataclasses.dataclass(frozen=True, eq=False)
class Tagger:
    """A trained tagger: one pytree, whose leaves are the weights and the temperature.

    Model and vocabulary are static and hashable, so `Tagger` passes through `jax.jit`,
    `jax.device_put` and `jax.tree.map`. The methods `tag`, `entities`, `show`,
    `marginals` and `uncertainty` are the functions of these names.

    Attributes:
        weights: The weights, a tree of arrays.
        model: Computes potentials from the weights.
        vocabulary: Maps tokens to ids, and ids to labels.
        temperature: Divides scores before they become probabilities; see
            `jaxner.answers.temperature.fit`.
        reading: Options with which its run reads files and texts.

    Raises:
        ValueError: The model is of another vocabulary, or the temperature is not
            a positive number.
    """

    weights: Weights
    model: models.Model
    vocabulary: Vocabulary
    temperature: float | Array | PyTree = _TEMPERATURE
    reading: tuple[tuple[str, Any], ...] = ()

    def __post_init__(self):
        if not isinstance(self.temperature, Tracer):
            values: Any = np.asarray(self.temperature).tolist()
            is_list = isinstance(self, Ensemble) and isinstance(values, list)
            for value in values if is_list else [values]:
                fields.check("temperature", value, fields.Positive)
        # Absent parts are refused where a tagger is used.
        if isinstance(self.model, models.Model) and self.vocabulary is not None:
            _check_sizes(self.model, _sizes(self.vocabulary))

    def __repr__(self) -> str:
        count = sum(np.size(leaf) for leaf in jax.tree.leaves(self.weights))
        return f"Tagger({count:,} weights, {self.vocabulary!r})"

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels that the tagger gives; the index is the id."""
        return tuple(self.vocabulary.label_names)

    @property
    def reads_characters(self) -> bool:
        """Whether the model reads the characters of words."""
        return bool(models.character_readers(self.model))

    @property
    def tokenizer(self) -> str | None:
        """The tokenizer of raw text, by `data.tokenizer` of its run; None: words."""
        return dict(self.reading).get("tokenizer")

    @property
    def is_quadratic(self) -> bool:
        """Whether time grows with the square of a sentence's length."""
        return self.model.is_quadratic

    if TYPE_CHECKING:
        from jaxner.answers.entities import entities as entities
        from jaxner.answers.highlights import show as show
        from jaxner.answers.probabilities import marginals as marginals
        from jaxner.answers.probabilities import uncertainty as uncertainty
        from jaxner.tagging import tag as tag
    else:
        tag, entities, show = _Method("tag"), _Method("entities"), _Method("show")
        marginals, uncertainty = _Method("marginals"), _Method("uncertainty")


@_pytree
@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Ensemble(Tagger):
    """The taggers of several restarts as one pytree: `load(workdir, seed="all")`.

    All arrays of `weights`, and the temperature, have a leading axis of seeds. All
    probabilities are means over the members, each at its own temperature, and `tag`
    gives each token the label with the highest mean marginal.

    Example:
        >>> tagger = load("runs/grn")
        >>> pair = ensemble([tagger, tagger])
        >>> len(pair), type(pair.member(1)).__name__
        (2, 'Tagger')
    """

    def __len__(self) -> int:
        return len(jax.tree.leaves(self.weights["params"])[0])

    def member(self, number: int) -> Tagger:
        """Returns the tagger of one restart, counted from 0."""
        if number not in range(len(self)):
            last = len(self) - 1
            raise InputError(f"Expected a member from 0 to {last}, got {number!r}.")
        weights = jax.tree.map(lambda leaf: leaf[number], self.weights)
        temperatures = jnp.broadcast_to(jnp.asarray(self.temperature), (len(self),))
        temperature = temperatures[number]
        return Tagger(weights, self.model, self.vocabulary, temperature, self.reading)


def ensemble(taggers: Sequence[Tagger]) -> Ensemble:
    """Returns an ensemble of taggers, whose models and vocabularies are equal."""
    is_list = isinstance(taggers, (list, tuple)) and taggers
    arguments.expect(is_list, "a list of taggers", taggers)
    for tagger in taggers:
        arguments.check_tagger(tagger)
        for part in ("model", "vocabulary"):
            if getattr(tagger, part) != getattr(taggers[0], part):
                raise InputError(f"The taggers of an ensemble need the same {part}.")
    parts = [(tagger.weights, jnp.float32(tagger.temperature)) for tagger in taggers]
    weights, temperatures = jax.tree.map(lambda *leaves: jnp.stack(leaves), *parts)
    first = taggers[0]
    return Ensemble(weights, first.model, first.vocabulary, temperatures, first.reading)


# --- Models ---------------------------------------------------------------------------


def build(vocabulary: Vocabulary, **parts: Any) -> models.Model:
    """Builds a model for a vocabulary from choices of its parts.

    The Linen module compares and hashes by value: a static argument of `jit`.

    Args:
        vocabulary: What `build_vocabulary` returned; gives the sizes.
        **parts: `representation`, `encoder` and `head`, each the name of a choice and
            its options, or a Linen module of your own; and what else `models.build`
            takes (`mc_dropout`, `refinement`, `dtype`, …).

    Raises:
        TypeError: An argument, or what your module takes or returns, has another type.
        ValueError: A part is missing, a name or an option is unknown, or your head
            scores another number of labels.

    Example:
        >>> import jax, jaxner
        >>> vocabulary, _ = jaxner.build_vocabulary([["Rome", "fell"]], ["LOC"])
        >>> model = jaxner.build(
        ...     vocabulary,
        ...     representation={"words": {"dim": 8}, "chars": {"name": "cnn"}},
        ...     encoder={"name": "grn", "hidden_dim": 16},
        ...     head={"name": "crf"},
        ... )
        >>> weights = jaxner.init(model, jax.random.key(0))
        >>> tagger = jaxner.Tagger(weights, model, vocabulary)
        >>> len(tagger.tag(["Rome", "fell"]))
        2
    """
    arguments.check_vocabulary(vocabulary)
    if absent := [part for part in _MANDATORY if part not in parts]:
        raise InputError(f"Missing part {absent[0]!r}; needed: {', '.join(_MANDATORY)}")
    for part in parts:
        fields.check_word("part", part, _PARTS)
    model = models.build(
        types=vocabulary.char_types,
        vector_sizes=vocabulary.vector_sizes,
        encoder_sizes=dict(vocabulary.encoder_sizes or ()) or None,
        separators=vocabulary.reads_documents,
        singletons=vocabulary.singletons,
        grammar=(vocabulary.scheme, *vocabulary.span_labels),
        **_sizes(vocabulary),
        **parts,
    )
    if vocabulary.reads_documents and isinstance(model.head, models.Seq2seqHead):
        raise InputError(
            "A tagger of documents needs head 'softmax' or 'crf': 'seq2seq' has no "
            "scores for separators"
        )
    leaves = jax.tree.leaves(parts)
    if any(isinstance(x, nn.Module) or ":" in str(x) for x in leaves):
        _check_sizes(model, _sizes(vocabulary))
        _check_scores(model, vocabulary)
    return model


def _sizes(vocabulary: Vocabulary) -> dict[str, int]:
    """Returns the sizes that a vocabulary gives the fields of modules, by field."""
    return {
        "num_labels": len(vocabulary.label_names),
        "num_trained": vocabulary.num_trained,
        "num_frozen": len(vocabulary.words) - vocabulary.num_trained,
        "num_chars": len(vocabulary.chars),
    }


def _check_sizes(module: nn.Module, sizes: Mapping[str, int]) -> None:
    """Raises an error where a module or a part of it has another size."""
    for field in dataclasses.fields(module):
        value = getattr(module, field.name, None)
        # A field of one's own that has a default is an option, whatever its name.
        is_known = type(module) in models.MODULES.values()
        is_derived = is_known or field.default is dataclasses.MISSING
        is_size = is_derived and isinstance(value, int)
        if is_size and value != sizes.get(field.name, value):
            raise InputError(
                f"The model is of another vocabulary: {type(module).__name__} has "
                f"{field.name}={value}, the vocabulary has {sizes[field.name]}."
            )
        for part in value if isinstance(value, tuple) else (value,):
            if isinstance(part, nn.Module) and field.name != "parent":
                _check_sizes(part, sizes)


def _check_scores(model: models.Model, vocabulary: Vocabulary) -> None:
    """Raises an error unless modules of one's own score the vocabulary's labels."""
    if vocabulary.vector_sizes is not None:
        return  # a sentence needs vectors
    sentence, weights = vocabulary.encode(["a", "b"]), models.shapes(model)
    scores = jax.eval_shape(functools.partial(models.apply, model), weights, sentence)
    shape = 2, len(vocabulary.label_names)
    emissions = getattr(scores, "emissions", None)  # a seq2seq head has none
    if emissions is not None and emissions.shape != shape:
        raise InputError(
            f"Expected emissions {list(shape)} of two tokens and the vocabulary's "
            f"labels, {type(model.head).__name__} returned {list(emissions.shape)}."
        )


# --- Folders --------------------------------------------------------------------------


def save(workdir: str | os.PathLike[str], tagger: Tagger) -> None:
    """Saves a tagger to a new folder, for `load`.

    The folder includes the model if all modules are this library's; if a module is your
    own, pass the model to `load`. The folder is empty or does not exist; "~" is your
    home.

    Raises:
        FileExistsError, NotADirectoryError: It is a file, or not empty.
        TypeError: An argument has another type.
        ValueError: Weights do not fit the model, or are infinite or NaN.

    Example:
        >>> import tempfile, jaxner
        >>> folder = tempfile.mkdtemp()
        >>> jaxner.save(folder, jaxner.load("runs/grn"))
        >>> jaxner.load(folder).vocabulary.scheme
        'BIOES'
    """
    from jaxner import checkpoints  # which takes long

    folder = new_folder(workdir)
    check_sound(tagger)
    arrays = jax.tree.map(
        lambda x: x if hasattr(x, "shape") else np.asarray(x), tagger.weights
    )
    if reason := checkpoints.find_misfit(arrays, models.shapes(tagger.model)):
        raise InputError(f"The weights do not fit the model: {reason}.")
    try:
        description = models.describe(tagger.model)
    except TypeError:
        description = None  # has the caller's own module
    content = {"model": description, "data": dict(tagger.reading)}
    write(folder, tagger, "model.json", content)


def check_sound(tagger: Tagger) -> None:
    """Raises an error if a tagger is an ensemble, or has infinite or NaN numbers."""
    from jaxner import checkpoints  # which takes long

    arguments.check_single(tagger)
    temperature = np.asarray(tagger.temperature).tolist()
    fields.check("temperature", temperature, fields.Positive)
    if name := checkpoints.find_infinite(tagger.weights):
        raise InputError(f"The tagger has infinite or NaN weights in {name}.")


def new_folder(workdir: str | os.PathLike[str]) -> Workdir:
    """Returns a folder to save to; FileExistsError: it is not empty."""
    arguments.check_folder(workdir)
    folder = Workdir(workdir)
    if folder.path.exists() and any(folder.path.iterdir()):
        raise FileExistsError(
            f"{folder.path} is not empty: save to an empty or new folder"
        )
    return folder


def write(folder: Workdir, tagger: Tagger, name: str, content: Options) -> None:
    """Writes a tagger for `load`; the file `name` has the model, in `content`."""
    from jaxner import checkpoints  # which takes long

    owner = belongs_to(tagger.vocabulary, content["model"])
    folder.write_text("vocabulary.json", tagger.vocabulary.to_json())
    frozen = tagger.weights.get("frozen", {})
    checkpoints.save_frozen(folder.part("frozen"), frozen, owner)
    best = checkpoints.Checkpoints(folder.part("best"), owner=owner)
    best.save(0, tagger.weights["params"], {"epoch": 0})
    temperature = float(str(np.float32(tagger.temperature)))  # 1.3, not 1.2999999523
    if temperature != 1.0:
        folder.write_json(CALIBRATION, {"temperature": temperature, "step": 0})
    # Last, since this file marks a complete folder.
    folder.write_json(name, content)


def belongs_to(vocabulary: Vocabulary, model: object) -> Owner:
    """Returns what weights belong to: a vocabulary, and the description of a model."""
    description = json.loads(json.dumps(model))
    return {"vocabulary": vocabulary.fingerprint, "model": description}


def load(
    workdir: str | os.PathLike[str],
    changes: Mapping[str, object] | None = None,
    *,
    model: models.Model | None = None,
    seed: int | str | None = None,
) -> Tagger:
    """Returns the tagger in a folder: a run's best checkpoint, or what `save` saved.

    It lies on the default device.

    Args:
        workdir: Folder written by `jaxner train` or `save`; "~" is your home.
        changes: Model options to change from the run's config, such as
            `{"encoder.then.keep": "hidden"}`; they must not change the weights. The
            temperature is 1 then: it was fitted to the model without them.
        model: The model, if it has your own modules.
        seed: For a folder of restarts (`--config.num_seeds`): the seed of one of them,
            or "all" for an `Ensemble`.

    Raises:
        DamagedFileError: A file is damaged, the folder has no checkpoint (yet), or
            weights, vocabulary and model do not belong together.
        FileNotFoundError, NotADirectoryError: The folder has no tagger, or is a file.
        InputError, TypeError: Another argument is wrong, or missing.

    Warns:
        UserWarning: The weights have no checksums, so damage cannot be detected; or
            restarts are missing from all.

    Example:
        >>> load("runs/grn").vocabulary.scheme
        'BIOES'
    """
    from jaxner import checkpoints  # which takes long

    cache.use()
    devices.check_fork()
    arguments.check_folder(workdir)
    if isinstance(changes, models.Model):
        raise TypeError("Pass a model by name: jaxner.load(folder, model=model).")
    if changes and model is not None:
        raise TypeError("Expected changes or a model, which has its options, not both")
    if model is not None:
        models.check_model(model)
    folder = Workdir(workdir)
    if seed is not None or folder.seeds():
        paths = _restarts(folder, seed)
        taggers = [load(path, changes, model=model) for path in paths]
        return ensemble(taggers) if seed == "all" else taggers[0]
    is_saved = (folder.path / "model.json").is_file()
    file = folder.path / ("model.json" if is_saved else "config.json")
    content = folder.read_json(file.name)
    vocabulary = folder.vocabulary()
    description: Any = content.get("model")
    if not is_saved:
        _check_data(file, content, vocabulary)
    elif model is None and description is None:
        raise InputError(
            f"The model in {folder.path} has a module of your own: build the model as "
            "before, and call load(folder, model=model)."
        )
    if model is None:
        with runs.using(file):
            if is_saved:
                model = models.restore(description)
            else:
                model = build(vocabulary, **description)
    assert model is not None
    shapes = models.shapes(model)
    if changes:
        if is_saved:
            raise InputError(
                f"{folder.path} was saved without a config, so options cannot be "
                "changed by name: build the model you want, and pass it as `model`."
            )
        model = build(vocabulary, **_changed(description, changes))
        if models.shapes(model) != shapes:
            raise InputError(f"{dict(changes)} needs other weights than the run has.")
    owner = belongs_to(vocabulary, description)
    best = folder.part("best")
    params, is_sealed, step = checkpoints.load_newest(best, shapes["params"], owner)
    frozen, is_also_sealed = checkpoints.load_frozen(
        folder.part("frozen"), shapes["frozen"], owner
    )
    if not (is_sealed and is_also_sealed):
        warnings.warn(
            f"{folder.path}: its weights have no checksums, so damage cannot be "
            "detected. A run writes them with its next checkpoint, and a killed one "
            "once the same command resumes it.",
            stacklevel=2,
        )
    temperature = 1.0 if changes else folder.temperature(step)
    weights = {"params": params, "frozen": frozen}
    # JAX hashes it. The format is that of the run's own files.
    files = (content.get("data") or {}) | {"format": None}
    reading = tuple(
        (name, tuple(value) if isinstance(value, list) else value)
        for name, value in corpora.reading(files).items()
    )
    return Tagger(weights, model, vocabulary, jnp.float32(temperature), reading)


def _restarts(folder: Workdir, seed: int | str | None) -> list[Path]:
    """Returns the folders of one restart, or of all."""
    seeds = folder.seeds()
    if not seeds:
        raise InputError(f"is one run, without restarts, got {seed!r}", folder.path)
    if seed != "all" and (isinstance(seed, bool) or seed not in seeds):
        names, path = ", ".join(map(str, seeds)), folder.seed(seeds[0]).path
        got = "" if seed is None else f", got {seed!r}"
        raise InputError(
            f"holds the restarts of seeds {names}{got}: give a seed's folder, such as "
            f"{path}, or name a seed, or 'all' (in jaxner evaluate, by --restart)",
            folder.path,
        )
    if seed == "all" and (folder.path / "config.json").is_file():
        count = folder.read_json("config.json").get("num_seeds", len(seeds))
        num_done = sum((folder.seed(n).path / "result.json").exists() for n in seeds)
        if count > num_done:
            message = f"{folder.path}: {num_done} of {count} restarts are done"
            warnings.warn(f"{message}, {len(seeds)} can be loaded", stacklevel=3)
    return [folder.seed(n).path for n in seeds if seed in ("all", n)]


def _check_data(file: Path, config: Options, vocabulary: Vocabulary) -> None:
    """Checks that a config is of the data whose vocabulary lies beside it."""
    data = config.get("data")
    if not isinstance(data, dict):
        raise DamagedFileError(file, "has no section data")
    facts = {name: getattr(vocabulary, name) for name in OF_THE_VOCABULARY}
    facts["unit"] = "document" if vocabulary.reads_documents else "sentence"
    for name, fact in facts.items():
        if data.get(name, fact) != fact:
            reason = f"data.{name} is {data[name]!r}, but the vocabulary has {fact!r}"
            raise DamagedFileError(file, reason)


def _changed(options: Options, changes: Mapping[str, object]) -> dict[str, object]:
    """Returns options with changes, named by path as on the command line."""
    is_right = isinstance(changes, Mapping) and all(isinstance(x, str) for x in changes)
    demand = "changes as a dictionary, such as {'head.name': 'softmax'}"
    arguments.expect(is_right, demand, changes)
    result = copy.deepcopy(dict(options))
    for path, value in changes.items():
        *parents, name = path.split(".")
        section: object = result
        for parent in parents:
            section = section.get(parent) if isinstance(section, dict) else None
        if not isinstance(section, dict) or not (parents or name in section):
            raise InputError(f"The model has no section for the option {path!r}.")
        if isinstance(section.get(name), dict) and not isinstance(value, Mapping):
            raise InputError(f"{path!r} is a section: set one of its options.")
        section[name] = value
    return result
