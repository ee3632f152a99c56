"""A trained tagger as one pytree; saving and loading."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from jaxner import arguments, cache, calibrations, integrity, models
from jaxner.building import build as build
from jaxner.building import build_model as build_model
from jaxner.building import changed, check_sizes
from jaxner.calibrations import FILE as CALIBRATION
from jaxner.data import agreement
from jaxner.data.vocabulary import Vocabulary
from jaxner.models.options import completed
from jaxner.types import Weights
from jaxner.workdir import Workdir


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
        weights: The weights, a tree of arrays.
        model: Computes potentials from the weights.
        vocabulary: Maps tokens to ids, and ids to labels.
        temperature: Divides scores before they become probabilities; see
            `jaxner.answers.calibrating.fit`. A tuple for an ensemble whose members have
            different temperatures.

    Raises:
        ValueError: The model is of another vocabulary.

    Example:
        >>> params = load("runs/grn")
        >>> params.temperature, sorted(params.weights)
        (1.0, ['frozen', 'params'])
    """

    weights: Weights
    model: models.Model
    vocabulary: Vocabulary
    temperature: float | tuple[float, ...] | Array = 1.0

    def __post_init__(self):
        arguments.check_temperature(self.temperature)
        # Absent parts are refused where a tagger is used.
        if isinstance(self.model, models.Model) and self.vocabulary is not None:
            check_sizes(self.model, self.vocabulary)

    def __repr__(self) -> str:
        count = sum(np.size(leaf) for leaf in jax.tree.leaves(self.weights))
        return f"Tagger({count:,} weights, {self.vocabulary!r})"


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["weights"],
    meta_fields=["model", "vocabulary", "temperature"],
)
@dataclasses.dataclass(frozen=True, repr=False)
class Ensemble(Tagger):
    """The taggers of several restarts as one pytree: `load(workdir, seed="all")`.

    All arrays of `weights` have a leading axis of seeds. `tag` averages the marginals
    of the members, by `jax.vmap` over that axis, and gives each token the label with
    the highest mean. All probabilities are means over the members, each at its own
    temperature; see `tagging.predict`.

    Example:
        >>> one = load("runs/grn")
        >>> both = ensemble([one, one])
        >>> len(both), type(both.member(1)).__name__
        (2, 'Tagger')
    """

    def __len__(self) -> int:
        return len(jax.tree.leaves(self.weights["params"])[0])

    def member(self, number: int) -> Tagger:
        """Returns the tagger of one restart, counted from 0.

        Raises:
            ValueError: There is no such restart.
        """
        if number not in range(len(self)):
            last = len(self) - 1
            raise ValueError(f"Expected a member from 0 to {last}, got {number!r}.")
        weights = jax.tree.map(lambda leaf: leaf[number], self.weights)
        own: Any = self.temperature
        own = own[number] if np.ndim(own) else own
        return Tagger(weights, self.model, self.vocabulary, own)


def ensemble(taggers: Sequence[Tagger]) -> Ensemble:
    """Returns an ensemble of taggers with equal models and vocabularies.

    Raises:
        ValueError: There are no taggers, or their models or vocabularies differ.

    Example:
        >>> one = load("runs/grn")
        >>> len(ensemble([one, one, one]))
        3
    """
    if not isinstance(taggers, (list, tuple)):
        raise TypeError(f"Expected a list of taggers, got {arguments.shown(taggers)}.")
    for one in taggers:
        arguments.check_tagger(one)
    if not taggers:
        raise ValueError("Expected at least one tagger for an ensemble, got none.")
    first = taggers[0]
    for number, other in enumerate(taggers):
        for part in ("model", "vocabulary"):
            if getattr(other, part) != getattr(first, part):
                raise ValueError(
                    f"The taggers of an ensemble need the same {part}; that of tagger "
                    f"{number} differs from that of tagger 0."
                )
    weights = [tagger.weights for tagger in taggers]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *weights)
    own: Any = tuple(tagger.temperature for tagger in taggers)
    own = own[0] if len(set(own)) == 1 else own
    return Ensemble(stacked, first.model, first.vocabulary, own)


def save(workdir: str | os.PathLike[str], tagger: Tagger) -> None:
    """Saves a tagger to a new folder, for `load`.

    The folder includes the model if all modules are this library's; if a module is your
    own, pass the model to `load`.

    Args:
        workdir: A folder that is empty or does not exist.
        tagger: Weights, model and vocabulary.

    Raises:
        FileExistsError, NotADirectoryError: It is a file, or not empty.
        TypeError: An argument has another type.

    Example:
        >>> import tempfile, jaxner
        >>> folder = tempfile.mkdtemp()
        >>> jaxner.save(folder, jaxner.load("runs/grn"))
        >>> jaxner.load(folder).vocabulary.scheme
        'BIOES'
    """
    arguments.check_folder(workdir)
    arguments.check_tagger(tagger)
    if isinstance(tagger, Ensemble):
        raise TypeError("Save each member, ensemble.member(i), to its own folder.")
    folder = Workdir(workdir)
    if folder.path.exists() and any(folder.path.iterdir()):
        raise FileExistsError(
            f"{folder.path} is not empty: save to an empty or new folder"
        )
    try:
        description = models.describe(tagger.model, models.MODULES)
    except TypeError:
        description = None  # has the caller's own module
    about = belongs_to(tagger.vocabulary, description)
    folder.write_text("vocabulary.json", tagger.vocabulary.to_json())
    folder.save_frozen(tagger.weights["frozen"], about)
    with folder.best(about) as best:
        best.save(0, tagger.weights["params"], {"epoch": 0})
    if tagger.temperature != 1.0:
        temperature = float(np.asarray(tagger.temperature))
        folder.write_json(CALIBRATION, {"temperature": temperature, "step": 0})
    # Last, since this file marks a complete folder.
    folder.write_json("model.json", {"model": description})


def belongs_to(vocabulary: Vocabulary, model: Any) -> dict[str, Any]:
    """Returns the identity stored with weights.

    Args:
        vocabulary: Vocabulary of the weights.
        model: The section `model` of the config, or the description of the model.
    """
    model = json.loads(json.dumps(model))
    return {"vocabulary": vocabulary.fingerprint, "model": model}


def whole(about: dict[str, Any] | None) -> dict[str, Any] | None:
    """Returns an identity from an earlier version, with the options added since.

    Args:
        about: What `belongs_to` returned at that time; None if there is none.
    """
    if about is None or "model" not in about:
        return about
    return {**about, "model": completed(about["model"])}


def load(
    workdir: str | os.PathLike[str],
    changes: Mapping[str, Any] | None = None,
    *,
    model: models.Model | None = None,
    seed: int | str | None = None,
) -> Tagger:
    """Returns the tagger in a folder: a run's best checkpoint, or what `save` saved.

    Args:
        workdir: Folder written by `jaxner train` or `save`.
        changes: Model options to change from the run's config, such as
            `{"encoder.then.keep": "hidden"}`; they must not change the weights. The
            temperature is 1 then: it was fitted to the model without them.
        model: The model, if it has your own modules.
        seed: For a folder of restarts (`--config.num_seeds`): the seed of one of them,
            or "all" for an `Ensemble`.

    Returns:
        The tagger, on the default device.

    Raises:
        DamagedFileError: A file is damaged, the folder has no checkpoint (yet), or
            weights, vocabulary and model do not belong together.
        FileNotFoundError, NotADirectoryError: The folder has no tagger, or is a file.
        TypeError: An argument has another type.
        ValueError: A change names no option or needs other weights; or the model has
            your own modules but `model` is missing; or the folder has
            restarts, and the seed is missing or not among them.

    Warns:
        UserWarning: The weights have no checksums, so damage cannot be detected.

    Example:
        >>> load("runs/grn").vocabulary.scheme
        'BIOES'
    """
    cache.use()
    arguments.check_folder(workdir)
    if isinstance(changes, models.Model):
        raise TypeError("Pass a model by name: jaxner.load(folder, model=model).")
    if model is not None:
        models.check_model(model)
    folder = Workdir(workdir)
    if seed is not None or (folder.seeds() and not folder.has_best()):
        chosen = _chosen(folder, seed)
        if seed == "all":
            return ensemble([load(f.path, changes, model=model) for f in chosen])
        return load(chosen[0].path, changes, model=model)
    vocabulary = folder.vocabulary()
    described = _described(folder, vocabulary)
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
    temperature = 1.0 if changes else calibrations.read(folder, step)
    return Tagger({"params": params, "frozen": frozen}, model, vocabulary, temperature)


def _chosen(folder: Workdir, seed: int | str | None) -> list[Workdir]:
    """Returns the folders of one restart, or of all."""
    seeds = folder.seeds()
    if seed == "all" and seeds:
        return [folder.seed(number) for number in seeds]
    if seed in seeds and seed is not None:
        return [folder.seed(int(seed))]
    names = ", ".join(map(str, seeds))
    what = f"the restarts of seeds {names}" if seeds else "no restarts"
    hint = "call load(folder), or leave out --restart"
    if seeds:
        own = folder.seed(seeds[0]).path
        hint = f"call load(folder, seed={seeds[0]}) or seed='all' (as a command: "
        hint += f"--restart={seeds[0]} or all), or load {own}"
    raise ValueError(f"{folder.path} holds {what}; got seed={seed!r}: {hint}.")


NO_CHECKSUMS = (
    "its weights have no checksums, so damage cannot be detected (an earlier version "
    "wrote them, or the process was killed before it wrote the checksums)"
)


def _described(folder: Workdir, vocabulary: Vocabulary) -> Any:
    """Returns a folder's description of its model: config options or modules."""
    if (folder.path / "model.json").is_file():
        return folder.read_json("model.json").get("model")
    file, remedy = folder.path / "config.json", folder.remedy()
    config = folder.read_json(file.name)
    if not isinstance(config.get("model"), dict):
        raise integrity.DamagedFileError(file, "has no section model", remedy)
    agreement.check(file, config.get("data"), vocabulary, remedy)
    return config["model"]


def _model_of(folder: Workdir, described: Any, vocabulary: Vocabulary) -> models.Model:
    """Returns the model that a folder describes."""
    if not (folder.path / "model.json").is_file():
        file = folder.path / "config.json"
        build = functools.partial(build_model, vocabulary, described)
    elif described is None:
        raise ValueError(
            f"The model in {folder.path} has a module of your own: build the model as "
            "before, and call load(folder, model=model)."
        )
    else:
        file = folder.path / "model.json"
        build = functools.partial(models.restore, described, models.MODULES)
    return integrity.reading(file, folder.remedy(), build)


def _changed_model(
    folder: Workdir, described: Any, vocabulary: Vocabulary, changes: Mapping[str, Any]
) -> models.Model:
    """Returns the model of a run's config with changed options."""
    if (folder.path / "model.json").is_file():
        raise ValueError(
            f"{folder.path} was saved without a config, so options cannot be changed "
            "by name: build the model that you want, and pass it as `model`."
        )
    return build_model(vocabulary, changed(described, changes))


def _like(model: models.Model) -> Any:
    return jax.eval_shape(functools.partial(models.init, model, jax.random.key(0)))
