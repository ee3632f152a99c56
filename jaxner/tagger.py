"""A trained tagger as one pytree, and how it is loaded from the folder of its run."""

from __future__ import annotations

import copy
import dataclasses
import functools
import json
import os
import warnings
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from jaxtyping import Array

from jaxner import integrity, models
from jaxner.data.vocab import Vocabulary
from jaxner.models.options import completed
from jaxner.types import Weights
from jaxner.workdir import Workdir

CALIBRATION = "calibration.json"


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["weights"],
    meta_fields=["model", "vocabulary", "temperature"],
)
@dataclasses.dataclass(frozen=True)
class Tagger:
    """A trained tagger: one pytree, whose leaves are the weights.

    Model and vocabulary are static and hashable, so `Tagger` passes through `jax.jit`,
    `jax.device_put` and `jax.tree.map`.

    Attributes:
        weights: Arrays.
        model: Computes potentials from them.
        vocabulary: Turns tokens into ids, and ids into labels.
        temperature: What scores are divided by before they become probabilities; see
            `jaxner.calibrating.fit`.
    """

    weights: Weights
    model: models.Model
    vocabulary: Vocabulary
    temperature: float | Array = 1.0

    def __repr__(self) -> str:
        count = sum(np.size(leaf) for leaf in jax.tree.leaves(self.weights))
        return f"Tagger({count:,} weights, {self.vocabulary!r})"


def build_model(vocabulary: Vocabulary, options: dict[str, Any]) -> models.Model:
    """Builds a model whose sizes are those of a vocabulary.

    Args:
        vocabulary: Gives the sizes.
        options: `representation`, `encoder` and `head`, as in `models.build`.

    Raises:
        ValueError: As `models.build`; or the head cannot label documents.
    """
    head = options["head"]
    is_seq2seq = isinstance(head, Mapping) and head.get("name") == "seq2seq"
    if vocabulary.reads_documents and is_seq2seq:
        raise ValueError(
            "A tagger of documents gives separators their label after the model has "
            "scored it, which head 'seq2seq' has no scores for; take 'softmax' or 'crf'"
        )
    return models.build(
        num_labels=len(vocabulary.label_names),
        num_trained_words=vocabulary.num_trained,
        num_frozen_words=len(vocabulary.words) - vocabulary.num_trained,
        num_chars=len(vocabulary.chars),
        char_types=vocabulary.char_types,
        vector_sizes=vocabulary.vector_sizes,
        encoder_sizes=dict(vocabulary.encoder_sizes or ()) or None,
        separators=vocabulary.reads_documents,
        singletons=vocabulary.singletons,
        **options,
    )


def build(vocabulary: Vocabulary, **parts: Any) -> models.Model:
    """Builds a model for a vocabulary from choices of its parts.

    Args:
        vocabulary: What `build_vocabulary` returned; gives the sizes.
        **parts: `representation`, `encoder` and `head`, each the name of a choice and
            its options, or a Linen module of your own; and what else `models.build`
            takes (`mc_dropout`, `refinement`).

    Returns:
        A Linen module that compares and hashes by value: a static argument of `jit`.

    Raises:
        ValueError: A name or an option is unknown; the error lists the known ones.

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
        >>> len(jaxner.tag(tagger, ["Rome", "fell"]))
        2
    """
    return build_model(vocabulary, parts)


def save(workdir: str | os.PathLike[str], tagger: Tagger) -> None:
    """Saves a tagger to a folder of its own, which `load` reads.

    A model of this library's modules is saved with its weights; of one with a module of
    your own, `load` wants the model.

    Args:
        workdir: A folder that is empty, or not there yet.
        tagger: Weights, model and vocabulary.

    Raises:
        FileExistsError: The folder holds something.

    Example:
        >>> import tempfile, jaxner
        >>> folder = tempfile.mkdtemp()
        >>> jaxner.save(folder, jaxner.load("runs/grn"))
        >>> jaxner.load(folder).vocabulary.scheme
        'BIOES'
    """
    folder = Workdir(workdir)
    if folder.path.exists() and any(folder.path.iterdir()):
        raise FileExistsError(
            f"{folder.path} holds something already: save to a folder that is empty or "
            "not there yet."
        )
    try:
        description = models.describe(tagger.model, models.MODULES)
    except TypeError:
        description = None  # has a module of the caller's
    about = belongs_to(tagger.vocabulary, description)
    folder.write_text("vocabulary.json", tagger.vocabulary.to_json())
    folder.save_frozen(tagger.weights["frozen"], about)
    with folder.best(about) as best:
        best.save(0, tagger.weights["params"], {"epoch": 0})
    if tagger.temperature != 1.0:
        calibration = {"temperature": tagger.temperature, "step": 0}
        folder.write_json(CALIBRATION, calibration)
    # Last, since a folder with it is complete.
    folder.write_json("model.json", {"model": description})


def belongs_to(vocabulary: Vocabulary, model: Any) -> dict[str, Any]:
    """Returns what is kept with weights to tell whose they are.

    Args:
        vocabulary: That they were trained with.
        model: The section `model` of the config, or the description of the model.
    """
    model = json.loads(json.dumps(model))
    return {"vocabulary": vocabulary.fingerprint, "model": model}


def whole(about: dict[str, Any] | None) -> dict[str, Any] | None:
    """Gives what an older version kept with weights the options that it did not know.

    Args:
        about: What `belongs_to` returned then; None: nothing was kept.
    """
    if about is None or "model" not in about:
        return about
    return {**about, "model": completed(about["model"])}


def load(
    workdir: str | os.PathLike[str],
    changes: Mapping[str, Any] | None = None,
    *,
    model: models.Model | None = None,
) -> Tagger:
    """Loads a tagger: the best checkpoint of a run, or what `save` saved.

    Args:
        workdir: The folder that `train.py` or `save` wrote.
        changes: Options of the model that are to differ from the run's config, such as
            `{"encoder.then.keep": "hidden"}`; the weights must stay as they are.
        model: That of the weights, where it has modules of your own.

    Returns:
        The tagger, on the default device.

    Raises:
        DamagedFileError: A file is damaged, or there is no checkpoint (yet); or
            weights, vocabulary and model do not belong together.
        FileNotFoundError: The folder holds no tagger.
        ValueError: A change is not one of an option, or needs other weights; or the
            model has modules of your own, and is not given.

    Warns:
        UserWarning: The weights have no checksums, so that damage cannot be seen.

    Example:
        >>> load("runs/grn").vocabulary.scheme
        'BIOES'
    """
    folder = Workdir(workdir)
    vocabulary = folder.vocabulary()
    described = _described(folder)
    if model is None:
        model = _model_of(folder, described, vocabulary)
    like = _like(model)
    if changes:
        model = _changed_model(folder, described, vocabulary, changes)
        if _like(model) != like:
            raise ValueError(f"{dict(changes)} needs other weights than the run has.")
    described = completed(described)
    with folder.best(read_only=True) as best:
        about = whole(best.check())
        is_sealed = folder.check_about("best", about, described, vocabulary)
        params, _ = best.restore(like["params"])
        best.check_finite(params)
        step = best.step
    frozen, about = folder.load_frozen(like["frozen"])
    about = whole(about)
    if not (folder.check_about("frozen", about, described, vocabulary) and is_sealed):
        warnings.warn(f"{folder.path}: {NO_CHECKSUMS}", stacklevel=2)
    temperature = 1.0 if changes else _temperature(folder, step)
    return Tagger({"params": params, "frozen": frozen}, model, vocabulary, temperature)


def _temperature(folder: Workdir, step: int | None) -> float:
    """Reads the temperature that `jaxner calibrate` found for the best checkpoint."""
    if not (folder.path / CALIBRATION).is_file():
        return 1.0
    calibration = folder.read_json(CALIBRATION)
    temperature = calibration.get("temperature")
    if not isinstance(temperature, float) or not 0 < temperature < float("inf"):
        raise integrity.DamagedFileError(
            folder.path / CALIBRATION,
            f"has the temperature {temperature!r}, not a positive number",
            "Run jaxner calibrate again.",
        )
    if calibration.get("step") == step:
        return temperature
    warnings.warn(
        f"{folder.path / CALIBRATION} is of step {calibration.get('step')}, and the "
        f"best checkpoint of step {step}: probabilities are not calibrated. Run jaxner "
        "calibrate again.",
        stacklevel=3,
    )
    return 1.0


NO_CHECKSUMS = (
    "its weights have no checksums, so that damage to them cannot be seen (an earlier "
    "version wrote them, or the process was killed in that moment)"
)


def _described(folder: Workdir) -> Any:
    """Returns what a folder says of its model: options of a config, or modules."""
    if (folder.path / "model.json").is_file():
        return folder.read_json("model.json").get("model")
    config = folder.read_json("config.json")
    if not isinstance(config.get("model"), dict):
        raise integrity.DamagedFileError(
            folder.path / "config.json", "has no section model", folder.remedy()
        )
    return config["model"]


def _model_of(folder: Workdir, described: Any, vocabulary: Vocabulary) -> models.Model:
    """Builds the model that a folder describes."""
    if not (folder.path / "model.json").is_file():
        file = folder.path / "config.json"
        build = functools.partial(build_model, vocabulary, described)
    elif described is None:
        raise ValueError(
            f"The model in {folder.path} has a module of your own: build it as before, "
            "and call load(folder, model=model)."
        )
    else:
        file = folder.path / "model.json"
        build = functools.partial(models.restore, described, models.MODULES)
    return integrity.reading(file, folder.remedy(), build)


def _changed_model(
    folder: Workdir,
    described: Any,
    vocabulary: Vocabulary,
    changes: Mapping[str, Any],
) -> models.Model:
    """Builds the model of a run's config with other options."""
    if (folder.path / "model.json").is_file():
        raise ValueError(
            f"{folder.path} was saved without a config, so that nothing can be changed "
            "by name: build the model that you want, and give it as `model`."
        )
    return build_model(vocabulary, _changed(described, changes))


def _like(model: models.Model) -> Any:
    return jax.eval_shape(functools.partial(models.init, model, jax.random.key(0)))


def _changed(options: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Sets options that are named by their path, as on the command line."""
    changed = copy.deepcopy(dict(options))
    for path, value in changes.items():
        *parents, name = path.split(".")
        section: Any = changed
        for parent in parents:
            section = section.get(parent) if isinstance(section, dict) else None
        if not isinstance(section, dict) or not (parents or name in section):
            raise ValueError(f"The model has no section for the option {path!r}.")
        if isinstance(section.get(name), dict) and not isinstance(value, Mapping):
            raise ValueError(f"{path!r} is a section: set one of its options.")
        section[name] = value
    return changed
