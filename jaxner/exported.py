"""Taggers from one file, by its programs: with JAX and NumPy, without models."""

from __future__ import annotations

import datetime
import os
import re
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import export as programs

from jaxner import archive, cache, devices, driver, fields, outputs
from jaxner.answers import mentions
from jaxner.data.vocabulary import Vocabulary
from jaxner.errors import InputError, optional, using
from jaxner.types import Sentence, Uncertainty

_HARMLESS = re.compile(r"custom_call @(shape_assertion|stablehlo\.dynamic_\w+)\(")


class Exported:
    """A tagger that computes by the programs of a file; see `load_exported`.

    Its methods are those of a `Tagger` and return the same; tokens are strings.

    Attributes:
        manifest: Versions, dates, encoder and head, by name.
        vocabulary: Maps tokens to ids, and ids to labels.
        weights: The arrays, by name.
        temperature: Divides scores before they become probabilities.
        tokenizer: The tokenizer of raw text; None: words.
    """

    reads_long_words = False  # apart from the others, of a batch

    def __init__(
        self, path: Path, manifest: Mapping[str, Any], files: Mapping[str, bytes]
    ):
        with using(path):
            self.vocabulary = Vocabulary.from_json(files[archive.VOCABULARY].decode())
            self.temperature = np.float32(archive.temperature(files))
            self.reads_characters = bool(manifest["reads_characters"])
            self.is_quadratic = bool(manifest.get("is_quadratic"))
            self.tokenizer = manifest.get("tokenizer")
            self._passes = int(manifest["passes"])
            arrays = archive.unpack(files[archive.WEIGHTS], path)
        self.manifest, self.weights = dict(manifest), devices.put(arrays, None)
        self._programs = {
            Path(name).stem: self._read(program)
            for name, program in files.items()
            if name.startswith("programs/")
        }

    def _read(self, program: bytes) -> Callable[..., Any]:
        """Returns a program that fits the weights; an error if JAX refuses it."""
        module = programs.deserialize(bytearray(program))
        # A custom call could be anything that JAX has registered.
        text = module.mlir_module()
        if len(_HARMLESS.findall(text)) != text.count("custom_call"):
            raise ValueError("it calls code outside of itself")
        (arrays, *_), _ = jax.tree.unflatten(module.in_tree, module.in_avals)
        shapes = {name: (a.shape, a.dtype) for name, a in arrays.items()}
        if shapes != {name: (a.shape, a.dtype) for name, a in self.weights.items()}:
            raise ValueError("it is of other weights")
        return jax.jit(module.call)

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels that the tagger gives; the index is the id."""
        return tuple(self.vocabulary.label_names)

    def tag(self, tokens: object, **context: Any) -> Any:
        """Returns the labels of tokens; `context`: `documents`, `vectors`."""
        ids = self._over("labels", tokens, **context)
        return driver.of_every(self.vocabulary.decode, ids)

    def marginals(self, tokens: object, **context: Any) -> Any:
        """Returns the probability of each label at each token; see `tag`."""
        return self._over("marginals", tokens, passes=self._passes, **context)

    def entities(
        self, text_or_tokens: Any, *, min_probability: Any = 0.0, **options: Any
    ) -> Any:
        """Returns the entities in tokens or texts, as `jaxner.entities`.

        The other `options` are raw, tokenizer, split_sentences, documents and vectors.
        """
        mentions.check_spans(self.vocabulary)
        mentions.check_least(mentions.types_of(self).names, min_probability)

        def find(tokens: object, **context: Any) -> Any:
            answer = self._over("entities", tokens, passes=self._passes, **context)
            return driver.of_every(
                lambda x: mentions.with_ends(mentions.EntityArrays(*x), -1), answer
            )

        return mentions.entities(
            find, self, text_or_tokens, min_probability=min_probability, **options
        )

    def uncertainty(
        self, tokens: Any, key: Any, num_samples: int = 8, **context: Any
    ) -> Any:
        """Returns the uncertainty over passes with dropout, as `jaxner.uncertainty`."""
        driver.check_key(key)
        fields.check("num_samples", num_samples, fields.Samples)
        is_typed = jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
        words = jax.random.key_data(key) if is_typed else key
        if words.shape != (2,):  # of another generator than the program's
            words = jax.random.bits(key, (2,), jnp.uint32)
        inputs, options = (words, jnp.arange(num_samples)), {"passes": num_samples}
        answer = self._over("uncertainty", tokens, *inputs, **options, **context)

        def named(arrays: Any) -> Uncertainty:
            summary = Uncertainty(*arrays)
            labels = self.vocabulary.decode(summary.labels.tolist())
            return summary._replace(labels=labels)

        return driver.of_every(named, answer)

    def _over(self, name: str, tokens: object, *arguments: Any, **context: Any) -> Any:
        """Returns the results of a program for one sentence, or a list of them.

        `context` is as of `driver.over_batches`.
        """
        if name not in self._programs:
            raise InputError(
                f"This tagger has no {name}: probabilities of an autoregressive head "
                "(head 'seq2seq') have no closed form."
            )
        program = self._programs[name]

        def compute(batch: Sentence) -> Any:
            leaves = jax.tree.leaves(batch)
            return program(self.weights, self.temperature, leaves, *arguments)

        return driver.over_batches(compute, self, tokens, **context)


def load_exported(path: str | os.PathLike[str], *, program: bool = True) -> Any:
    """Returns the tagger in a file of `jaxner.export`: an `Exported`.

    It needs JAX, NumPy and `flatbuffers`, by which JAX reads programs. Labels are those
    of the tagger that was exported. A program is code: load files that you trust.

    Args:
        path: The file; "~" is your home.
        program: False for a `Tagger` with the weights, built from the config; this
            needs an installed jaxner with all that it depends on.

    Raises:
        FileNotFoundError: There is no such file.
        DamagedFileError: It is damaged, of a later format, or no such file.
        ImportError: A package is missing.

    Warns:
        UserWarning: The programs expired (with another JAX than they were written by),
            or this JAX refuses them: the result is a `Tagger`.

    Example:
        >>> import tempfile, jaxner
        >>> file = tempfile.mkdtemp() + "/grn.zip"
        >>> jaxner.export(jaxner.load("runs/grn"), file)
        >>> "B-PER" in load_exported(file, program=False).labels
        True
    """
    cache.use()
    devices.check_fork()
    path = outputs.expanded(path)
    manifest, files = archive.read(path)
    if program:
        optional("flatbuffers", "jaxner.load_exported")
        with using(path):
            expires, version = manifest["expires"], manifest["jax"]
        try:
            if version != jax.__version__ and str(datetime.date.today()) > expires:
                raise ValueError(
                    f"they expired on {expires} for JAX {jax.__version__}, written by "
                    f"{version}"
                )
            return Exported(path, manifest, files)
        except InputError:
            raise
        except Exception as error:  # JAX has errors of several kinds
            reason = " ".join(str(error).split())[:300]
        warnings.warn(
            f"{path}: cannot use the programs: {reason}. Building the model from "
            f"weights and config; `jaxner refresh {path}` renews them.",
            stacklevel=2,
        )
    from jaxner import exporting  # which needs the models' libraries

    return exporting.rebuild(path, manifest, files)
