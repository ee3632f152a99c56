"""Writes taggers to one file that needs none of their code; see `archive`."""

from __future__ import annotations

import datetime
import functools
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import export as programs

from jaxner import __version__, archive, models, outputs, tagging
from jaxner.answers import entities, probabilities
from jaxner.data.vocabulary import Vocabulary
from jaxner.errors import DamagedFileError, InputError, optional, using
from jaxner.fields import OneOf, checked
from jaxner.models.model import map_named, named
from jaxner.tagger import Tagger, check_sound
from jaxner.types import Pieces, Sentence, batch_axes
from jaxner.wording import markdown

PLATFORMS = ("cpu", "cuda", "tpu")
PROMISE = datetime.timedelta(days=180)
"""How long JAX promises that later versions run a program."""


@checked
def export(
    tagger: Tagger,
    path: str | os.PathLike[str],
    *,
    weights: Annotated[str, OneOf(archive.KINDS)] = "float32",
    card: str | None = None,
) -> None:
    """Writes a tagger to one file, for `jaxner.load_exported`.

    The weights (as safetensors), the config and the vocabulary (as JSON) last; the
    programs, for CPUs, CUDA and TPUs, run with other versions of JAX for six months.
    Taggers of documents or with precomputed vectors export like others.

    Args:
        tagger: What `load` returned.
        path: File to write; "~" is your home.
        weights: How to store the weights: "float32"; "bfloat16", half as large; or
            "int8", a quarter, with a scale for each row.
        card: What its README.md says; None: the facts of the manifest.

    Raises:
        InputError: The tagger is an ensemble, has infinite or NaN weights, or a model
            with modules of your own.
        OSError: The file cannot be written.
        ImportError: `flatbuffers`, by which JAX writes programs, is missing.

    Example:
        >>> import tempfile, jaxner
        >>> file = tempfile.mkdtemp() + "/grn.zip"
        >>> tagger = jaxner.load("runs/grn")
        >>> jaxner.export(tagger, file)
        >>> tokens = ["Rome", "fell"]
        >>> jaxner.load_exported(file).tag(tokens) == tagger.tag(tokens)
        True
    """
    check_sound(tagger)
    target = outputs.expanded(path)
    outputs.check(target)
    try:
        description = models.describe(tagger.model)
    except TypeError as error:
        raise InputError(str(error)) from None
    arrays = {name: np.asarray(leaf) for name, leaf in named(tagger.weights).items()}
    temperature = float(str(np.float32(tagger.temperature)))
    vocabulary = tagger.vocabulary.to_json()
    files = {
        archive.WEIGHTS: archive.pack(arrays, weights),
        archive.MODEL: json.dumps(description, indent=2).encode(),
        archive.VOCABULARY: vocabulary.encode("utf-8", "backslashreplace"),
        archive.CALIBRATION: json.dumps({"temperature": temperature}).encode(),
    }
    files |= {} if card is None else {archive.CARD: card.encode()}
    _write(target, tagger, files, weights)


def refresh(path: str | os.PathLike[str], output: str | os.PathLike[str]) -> None:
    """Writes a file anew, with programs by this JAX and the same weights."""
    manifest, files = archive.read(path)
    tagger = rebuild(outputs.expanded(path), manifest, files)
    kept_files = {n: data for n, data in files.items() if not n.startswith("programs/")}
    facts = {k: v for k, v in manifest.items() if k not in ("format", "files")}
    if files.get(archive.CARD) == _card(tagger, facts).encode():  # not the run's own
        del kept_files[archive.CARD]
    _write(outputs.expanded(output), tagger, kept_files, manifest["weights"])


def rebuild(
    path: Path, manifest: Mapping[str, Any], files: Mapping[str, bytes]
) -> Tagger:
    """Returns the tagger of the weights, the config and the vocabulary of a file."""
    with using(path):
        stored_arrays = archive.unpack(files[archive.WEIGHTS], path)
        vocabulary = Vocabulary.from_json(files[archive.VOCABULARY].decode())
        model = models.restore(json.loads(files[archive.MODEL]))
        temperature = archive.temperature(files)

        def take(name: str, leaf: Any) -> Any:
            if stored_arrays[name].shape != leaf.shape:
                raise DamagedFileError(path, f"has another size of {name}")
            return jnp.asarray(stored_arrays[name], leaf.dtype)

        weights = map_named(take, models.shapes(model))
        reading = (("tokenizer", manifest.get("tokenizer")),)
        return Tagger(weights, model, vocabulary, jnp.float32(temperature), reading)


def _write(path: Path, tagger: Tagger, files: Mapping[str, bytes], kind: str) -> None:
    """Writes what lasts, the programs, and the manifest."""
    optional("flatbuffers", "jaxner.export")
    date = datetime.date.today()
    facts = {
        "jaxner": __version__,
        "jax": jax.__version__,
        "exported": str(date),
        "expires": str(date + PROMISE),
        "encoder": type(tagger.model.encoder).__name__,
        "head": type(tagger.model.head).__name__,
        "weights": kind,
        "reads_characters": tagger.reads_characters,
        "is_quadratic": tagger.is_quadratic,
        "tokenizer": tagger.tokenizer or "words",
        "passes": tagger.model.mc_dropout.num_samples,
    }
    card = {archive.CARD: _card(tagger, facts).encode()}
    archive.write(path, facts, {**card, **files, **_programs(tagger)})


def _card(tagger: Tagger, facts: Mapping[str, Any]) -> str:
    """Returns a card of what a tagger knows of itself, in the form of the hubs."""
    head = "---\nlibrary_name: jaxner\npipeline_tag: token-classification\n---\n"
    use = "Use: `jaxner.load_exported(FILE).entities(TEXT)`, in Python."
    facts = {"labels": ", ".join(tagger.vocabulary.types), **facts}
    lines = [f"- {name}: {markdown(str(value))}" for name, value in facts.items()]
    return "\n".join([head, "# Tagger\n", use, "", *lines, ""])


# --- Programs -------------------------------------------------------------------------


def _programs(tagger: Tagger) -> dict[str, bytes]:
    """Returns the files of all programs.

    Arguments: the arrays by name, the temperature, more of the function, and the fields
    of a batch, of any size; results: arrays `[B, T, …]`.
    """
    batch = _any_batch(tagger.vocabulary)
    fields, structure = jax.tree.flatten(batch)
    weights = jax.eval_shape(lambda: tagger.weights)
    passes = programs.symbolic_shape("m", scope=batch.words.shape[0].scope)
    key = jax.ShapeDtypeStruct((2,), jnp.uint32), jax.ShapeDtypeStruct(passes, "int32")

    def write(function: Callable[..., Any], *arguments: Any) -> bytes:
        def compute(arrays, temperature, fields, *arguments):
            tree = map_named(lambda name, _: arrays[name], weights)
            copy = Tagger(tree, tagger.model, tagger.vocabulary, temperature)
            batch = jax.tree.unflatten(structure, fields)
            run = jax.vmap(
                lambda s: function(copy, s, *arguments), (batch_axes(batch),)
            )
            answer = run(batch)
            return tuple(answer) if isinstance(answer, tuple) else answer

        inputs = named(weights), jax.ShapeDtypeStruct((), jnp.float32), fields
        exporter = programs.export(jax.jit(compute), platforms=PLATFORMS)
        return bytes(exporter(*inputs, *arguments).serialize())

    parts = {"labels": write(tagging.choose)}
    if not isinstance(tagger.model.head, models.Seq2seqHead):
        parts["marginals"] = write(_marginals)
        parts["entities"] = write(_entities)
        parts["uncertainty"] = write(_uncertainty, *key)
    return {f"programs/{name}.bin": program for name, program in parts.items()}


_PLAIN: Any = {"key": None, "num_samples": None, "constrained": False}
_marginals = functools.partial(probabilities.compute_marginals, **_PLAIN)
_entities = functools.partial(entities.compute, decoding="viterbi", n_best=1, **_PLAIN)


def _uncertainty(tagger: Tagger, sentence: Sentence, key: Any, passes: Any) -> Any:
    key = jax.random.wrap_key_data(key, impl="threefry2x32")
    return probabilities.compute_summary(tagger, sentence, key, passes.shape[0])


def _any_batch(vocabulary: Vocabulary) -> Any:
    """Returns a batch of symbolic sizes; it shares its distinct words, all of them."""
    scope = programs.SymbolicScope(("t >= 8",))  # as `driver.round_up`

    def of(sizes: str, kind: object = jnp.int32) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(programs.symbolic_shape(sizes, scope=scope), kind)

    vectors = pieces = None
    if sizes := vocabulary.vector_sizes:
        vectors = of(f"b, t, {sizes[0]}, {sizes[1]}", jnp.float32)
    if vocabulary.pieces is not None:
        pieces = Pieces(of("b, w, s"), of("b, w, s", bool), of("b, t, q"))
    words, flags = of("b, t"), of("b, t", bool)
    return Sentence(words, of("u, c"), words, flags, words, vectors, pieces)
