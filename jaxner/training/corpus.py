"""The corpus of a run: its files, its vocabulary, and its arrays on the devices.

The training text lies on the devices as flat arrays, its sentences end to end, and
beside it the plan of an epoch: the numbers of what is in each block of each batch. So a
step needs nothing from the host, except precomputed vectors that do not fit there.

`options` is the section `data` of a config; `log` gets lines for the user. Shape
letters: `N` tokens of the corpus, `S` sentences, `W` distinct words, `C` characters;
`K` restarts, `B` sentences of a block, `T` tokens, `U` distinct words of a block.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from jaxner import models
from jaxner.data import audit, batching, corpora, formats, schemes
from jaxner.data import vectors as files
from jaxner.data.batching import Batches, Plan, Shape
from jaxner.data.corpora import Split
from jaxner.data.vectors import Vectors
from jaxner.data.vocabulary import UNKNOWN, Vocabulary, build, length, spell
from jaxner.errors import InputError
from jaxner.models import pretrained
from jaxner.runs import Workdir
from jaxner.training import environment, schema, transfer
from jaxner.training.cluster import ONE_DEVICE, Placement
from jaxner.training.objectives import Labels
from jaxner.training.seeds import Config
from jaxner.types import LongWords, Options, Pieces, Sentence, WordVectors
from jaxner.wording import counted

if TYPE_CHECKING:
    from jaxner.types import AnyArray

Log = Callable[[str], object]

_SHARE = 0.25  # of a device's memory, which vectors may take unless they are asked for

# --- Files ----------------------------------------------------------------------------


def load_split(options: Options, name: str) -> Split:
    """Loads "train", "dev" (or `split_dev` of train) or "test", with its vectors."""
    share = options.get("split_dev")
    if share and name in ("train", "dev"):
        with contextlib.suppress(FileNotFoundError):
            path = corpora.find(options["name"], "dev", options["dir"])
            raise InputError(
                f"There is a dev file, {path}: leave --config.data.split_dev out, or "
                "remove it"
            )
        halves = corpora.divide(_load(options, "train"), share, options["split_seed"])
        split = halves[name == "dev"]
    else:
        split = _load(options, name)
    return _with_vectors(split, find_vectors(options, name))


def split_of_run(run: Workdir, name: str, **options: Any) -> Split:
    """Loads a split of a run's data, with options that differ from the training's.

    Warns if the file is not what the run has read as this split.
    """
    data = {**run.read_json("config.json")["data"], **options}
    split, home = load_split(data, name), next(map(run.seed, run.seeds()), run)
    files: dict[str, Any] = {}
    for file in ("environment.json", "result.json"):
        with contextlib.suppress(FileNotFoundError):  # the run may not be done
            content = home.read_json(file)
            files |= content.get("data", content)
    if files.get(name, {}).get("sha256", split.sha256) != split.sha256:
        message = f"{split.path.absolute()} is not the {name} file of the run: it has "
        message += "changed, or a relative path is another file here"
        if data.get("split_dev") and name == "dev":  # another draw
            message += "; it may hold sentences that the run was trained on"
        warnings.warn(message, stacklevel=3)
    return split


def load_file(options: Options, path: str | Path, vectors: str | None = None) -> Split:
    """Loads a file as the configured corpus, and a file of its tokens' vectors."""
    return _with_vectors(corpora.read(path, **corpora.reading(options)), vectors)


def training_text(options: Options) -> Split | None:
    """Returns the training text; None if a file is missing."""
    try:
        return load_split(options, "train")
    except FileNotFoundError:
        return None


def _load(options: Options, name: str) -> Split:
    folder = options["dir"]
    corpus = None if folder else options["name"]
    if corpus == "files":
        raise FileNotFoundError(
            "The run has no data of its own: give a file, as in jaxner evaluate RUN "
            "--split FILE, or jaxner import … --data FOLDER"
        )
    try:
        return corpora.load(corpus, name, directory=folder, **corpora.reading(options))
    except FileNotFoundError as error:
        if name != "dev" or (folder and not Path(folder).is_dir()):
            raise
        hint = "To take a tenth of train instead: --config.data.split_dev=0.1"
        raise FileNotFoundError(f"{error}. {hint}") from None


def fit_width(config: Config) -> None:
    """Sets the length of word vectors to that of the file, for data of one's own."""
    features, data = config.model.get("representation") or {}, config.data
    words = features.get("words")
    if data.name == "files" and data.vectors and words:
        with contextlib.suppress(OSError, ValueError):  # which reading them will name
            words.dim = files.width(corpora.find_vectors(data.vectors)) or words.dim


def find_vectors(options: Options, split: str) -> Path | None:
    """Returns the file of a split's precomputed vectors; None if the run has none.

    The file is `contextual` with the split's name for {split}; see `corpora`.
    """
    pattern = options.get("contextual")
    if not pattern:
        return None
    return corpora.find_vectors(pattern.replace("{split}", split), options.get("dir"))


def _with_vectors(split: Split, path: str | Path | None) -> Split:
    if path is None:
        return split
    sentences = [example.tokens for example in split.examples]
    return dataclasses.replace(split, vectors=files.read_contextual(path, sentences))


def splits_to_score(options: Options, log: Log) -> tuple[str, ...]:
    """Returns the splits to score at the end, without opening a file."""
    try:
        corpora.find(options["name"], "test", options["dir"])
        find_vectors(options, "test")
    except FileNotFoundError as error:
        log(f"No test split, so the run scores only dev at the end. {error}")
        return ("dev",)
    return ("dev", "test")


# --- From files to ids ----------------------------------------------------------------


class Data(NamedTuple):
    """The data of a run: sentences, label ids and words are those of train.

    `vectors` are aligned with the vocabulary; `record` is `environment.describe`'s.
    """

    vocabulary: Vocabulary
    vectors: WordVectors | None
    sentences: list[Sentence]
    labels: list[np.ndarray]
    train: Split
    dev: Split
    record: environment.Record


def load_data(
    options: Options,
    *,
    word_dim: int | None,
    log: Log,
    old: Vocabulary | None = None,
) -> Data:
    """Returns the data of a run; `word_dim` is the length of the model's word vectors.

    `old` is the vocabulary of a run that this one learns on from.

    Raises:
        FileNotFoundError: A file is missing.
        InputError: A file is malformed, or the vectors do not fit model or corpus.
    """
    train, dev = (load_split(options, name) for name in ("train", "dev"))
    log(f"{train.summary()}\n{dev.summary()}")
    if len(train.types()) < 1 + (train.scheme == schemes.TAGS):
        outside = "no entities: all its labels are O. For tags, set --config.data."
        flaw = "only one tag" if train.types() else f"{outside}scheme=tags"
        kind = formats.FORMATS[options["format"] or formats.guess(train.path)]
        hint = " Is --config.data.label_column right?"
        hint *= "label_column" in kind.options
        raise InputError(f"has {flaw}.{hint}", train.path)
    for finding in (*audit.at_start(train), *audit.at_start(dev, train)):
        warnings.warn(str(finding), stacklevel=2)

    inputs: dict[str, Path | None] = {}
    vectors = None
    if options["vectors"]:
        inputs["vectors"] = path = corpora.find_vectors(options["vectors"])
        vectors = files.read(path)
        size, dim = vectors.values.shape
        if word_dim != dim:
            raise InputError(
                f"{path} has vectors of {dim} dimensions, but the model expects "
                f"{word_dim}. Set --config.model.representation.words.dim={dim}."
            )
        line = f"{path.name}: {counted(size, 'vector')} of {counted(dim, 'dimension')}"
        if vectors.malformed or vectors.duplicates:
            line += f"; skipped {counted(vectors.malformed, 'malformed row')} and "
            line += counted(vectors.duplicates, "repeated word")
        log("\n  ".join([line, *vectors.notes]))
    vocabulary, word_vectors = build_vocabulary(options, train, vectors, log, old)
    if vectors is None and word_dim and options["name"] == "files":
        tokens = [token for example in dev.examples for token in example.tokens]
        number = sum(vocabulary.word_id(token) == UNKNOWN for token in tokens)
        if number:
            text = f"No word vectors: {number / len(tokens):.0%} of dev's tokens are "
            text += "words that train lacks, for which vectors help most. --vectors "
            log(f"{text}FILE reads GloVe's and fastText's text, gzipped, too")
    log_unknown_types(dev, vocabulary, log)
    sentences, labels = encode_split(train, vocabulary)

    inputs |= {f"contextual {s}": find_vectors(options, s) for s in ("train", "dev")}
    if folder := options.get("pretrained"):
        inputs |= pretrained.files(folder)
    record = environment.describe([train, dev], inputs)
    return Data(vocabulary, word_vectors, sentences, labels, train, dev, record)


def log_unknown_types(split: Split, vocabulary: Vocabulary, log: Log) -> None:
    """Logs types of entities, or tags, of a split that the tagger does not know."""
    noun = "tags" if vocabulary.scheme == schemes.TAGS else "types"
    if new_types := sorted({*split.types()} - {*vocabulary.types}):
        name, types = split.split or split.name, ", ".join(new_types)
        log(f"{name} has {noun} that the tagger does not know, and will miss: {types}")


def build_vocabulary(
    options: Options,
    train: Split,
    vectors: Vectors | None,
    log: Log,
    old: Vocabulary | None = None,
) -> tuple[Vocabulary, WordVectors | None]:
    """Returns the vocabulary of the training split, and its word vectors.

    It also has the sizes of precomputed vectors, an encoder's pieces, and what `old`
    has.

    Raises:
        FileNotFoundError, ImportError, InputError: Every word would be unknown; vectors
            match fewer words than `min_vector_match`, or have other sizes in dev or
            test; or an encoder's folder cannot be read.
    """
    if vectors is None and not options["train_words"]:
        raise InputError(
            "Without pretrained or trained word vectors, every word is unknown: set "
            "--config.data.vectors or --config.data.train_words=True."
        )
    rules = {name: options[name] for name in schema.Data.MORE}
    lone_count = options.get("min_count_without_vectors")
    if vectors is None and lone_count is not None:
        rules["min_count"] = lone_count
    types, old_types = train.types(), () if old is None else old.types
    if old_types and not {*types} & {*old_types}:
        warnings.warn(
            f"{train.path} has the types {', '.join(types)}, the run in "
            f"--config.init_from {', '.join(old_types)}: if some mean the same, rename "
            "them",
            stacklevel=2,
        )
    prefix = "" if train.scheme == schemes.TAGS else "B-"  # a type may be called B-cell
    vocabulary, word_vectors = build(
        [example.tokens for example in train.examples],
        [prefix + name for name in sorted({*types, *old_types})],
        vectors=vectors,
        documents=options["unit"] == "document",
        **rules,
    )
    if vectors is not None and word_vectors is not None:
        message = (
            f"vectors: {word_vectors.types_matched:.1%} of the distinct training words "
            f"and {word_vectors.tokens_matched:.1%} of the tokens have a vector; "
            f"{counted(len(word_vectors.frozen), 'known word')} only in the vector file"
        )
        if word_vectors.types_matched < (floor := options["min_vector_match"]):
            raise InputError(
                f"{message}; expected at least {floor:.0%} of the words. Do the "
                "vectors have the same language, and does --config.data.lowercase "
                "suit them? --config.data.min_vector_match sets this minimum."
            )
        log(message)
    words = train.words()
    count = sum(vocabulary.word_id(word) != UNKNOWN for word in words)
    if count < 0.5 * len(words):
        warnings.warn(
            f"{train.path}: only {count:,} of {len(words):,} distinct training words "
            "are known; give vectors (--config.data.vectors), or keep rarer words "
            f"(--config.data.min_count is {rules['min_count']})",
            stacklevel=2,
        )

    if train.vectors is not None:
        sizes = train.vectors[0].sizes
        vocabulary = dataclasses.replace(vocabulary, vector_sizes=sizes)
        for split in ("dev", "test"):
            with contextlib.suppress(FileNotFoundError):  # without test, dev counts
                if path := find_vectors(options, split):
                    files.check_sizes(path, files.contextual_sizes(path), sizes)
    if folder := options.get("pretrained"):
        tokenizer, sizes = pretrained.pieces_and_sizes(folder)
        log(f"{folder}: {sizes['model_type']}, {tokenizer.size:,} pieces")
        attributes = tuple(sorted(sizes.items()))
        vocabulary = dataclasses.replace(
            vocabulary, pieces=tokenizer, encoder_sizes=attributes
        )
    if old is not None:
        vocabulary, word_vectors = transfer.extend(vocabulary, word_vectors, old, log)
    return vocabulary, word_vectors


def encode_split(
    split: Split, vocabulary: Vocabulary
) -> tuple[list[Sentence], list[np.ndarray]]:
    """Returns encoded sentences and labels, or documents if the vocabulary needs them.

    Raises:
        InputError: The vocabulary needs documents, but the file does not mark them.
    """
    examples = split.to_scheme(vocabulary.scheme)
    vectors = split.vectors or [None] * len(examples)
    sentences = [
        vocabulary.encode(example.tokens, rows)
        for example, rows in zip(examples, vectors, strict=True)
    ]
    labels = [vocabulary.label_ids(example.labels) for example in examples]
    if not vocabulary.reads_documents:
        return sentences, labels
    numbers = [example.document for example in examples]
    if not any(numbers):
        raise InputError(
            "does not mark where documents begin: no line -DOCSTART-. Put one before "
            "each document, or set --config.data.unit=sentence.",
            split.path,
        )
    separator = len(vocabulary.label_names) - 1
    return batching.joined(numbers, sentences, labels, separator)


# --- On the devices -------------------------------------------------------------------


class Arrays(NamedTuple):
    """The training text, its sentences end to end.

    Attributes:
        text: Words, capitalisation, perhaps vectors and word pieces of all sentences;
            `chars` are those of the distinct words, row 0 has none.
        tokens: First token of each sentence, and their number. The last sentence, which
            pads blocks, has none.
        windows: The same of windows of word pieces.
        old_probabilities: Those of the function in `transfer`, for a run that learns
            on.
    """

    text: Sentence
    labels: Int[AnyArray, " N"]
    tokens: Int[AnyArray, "2 S"]
    windows: Int[AnyArray, "2 S"] | None = None
    old_probabilities: Float[AnyArray, "N L"] | None = None


def take(
    arrays: Arrays,
    plan: Plan,
    block: Int[AnyArray, ""],
    shape: Shape,
    vectors: Float[AnyArray, "B T L D"] | None = None,
    place: Placement = ONE_DEVICE,
) -> tuple[Sentence, Labels, Int[Array, " B"]]:
    """Returns the padded sentences of a block; works under `jit`.

    Also returns their labels, perhaps with old probabilities, and the places of the
    sentences in their batch. `vectors` are those that do not lie on the device.
    """
    text = arrays.text

    def members(ranges, width):
        index, is_real = _spread(ranges, block, width)
        return place.split(index), place.split(is_real)

    index, is_real = members(plan.blocks, shape.rows)
    rows = jnp.where(is_real, plan.rows[index], arrays.tokens.shape[1] - 1)
    numbers = jnp.where(is_real, plan.places[index], 0)
    index, is_real = members(plan.word_ranges, shape.words)
    words = jnp.where(is_real, plan.words[index], 0)
    places, mask = _spread(arrays.tokens, rows, shape.tokens)
    batch = Sentence(
        _at(text.words, places, mask),
        text.chars[words, : shape.chars],
        _at(plan.index, places, mask),
        mask,
        _at(text.caps, places, mask),
        vectors if text.vectors is None else _at(text.vectors, places, mask),
    )
    if shape.long:
        index, is_real = members(plan.long_ranges, shape.long)
        long = jnp.where(is_real, plan.long[index], shape.words)
        # Past the end, the last word is read, and dropped.
        batch = batch._replace(long=LongWords(long, text.chars[words[long]]))
    if text.pieces and arrays.windows is not None and shape.pieces:
        windows, window_mask = _spread(arrays.windows, rows, shape.pieces.windows)
        old, new = text.pieces.windows.shape[1], shape.pieces.pieces
        positions = _at(text.pieces.positions, places, mask, -1)
        positions = positions[..., : shape.pieces.longest]
        indices = (positions // old - windows[:, :1, None]) * new + positions % old
        pieces = Pieces(
            _at(text.pieces.windows[:, :new], windows, window_mask),
            _at(text.pieces.mask[:, :new], windows, window_mask, False),
            jnp.where(positions < 0, -1, indices),
        )
        batch = batch._replace(pieces=pieces)
    labels: Labels = _at(arrays.labels, places, mask)
    if arrays.old_probabilities is not None:
        labels = labels, _at(arrays.old_probabilities, places, mask)
    return batch, labels, numbers


def _spread(
    ranges: Int[AnyArray, "2 N"], rows: Int[AnyArray, "*R"], width: int
) -> tuple[Int[Array, "*R W"], Bool[Array, "*R W"]]:
    """Returns the places in ranges, padded with 0, and which are real, [..., width]."""
    starts, sizes = ranges[:, rows, None]
    steps = jnp.arange(width).reshape((1,) * jnp.ndim(rows) + (-1,))
    mask = steps < sizes
    return jnp.where(mask, starts + steps, 0), mask


def _at(
    array: AnyArray, index: Array, mask: Bool[Array, "B T"], empty: int | bool = 0
) -> Array:
    """Returns rows of an array, and `empty` where the mask is False."""
    mask = mask.reshape(mask.shape + (1,) * (array.ndim - 1))
    return jnp.where(mask, array[index], empty)


class Corpus:
    """The training text on the devices, and its batches; its sentences are not padded.

    `vectors_on_device` None puts precomputed vectors there if they need at most a
    quarter of an accelerator's memory. `old_probabilities` are those of `Arrays`, by
    sentence. `options` are those of `Batches`.
    """

    def __init__(
        self,
        sentences: Sequence[Sentence],
        labels: Sequence[np.ndarray],
        model: models.Model,
        *,
        vectors_on_device: bool | None = None,
        old_probabilities: Sequence[np.ndarray] | None = None,
        place: Placement = ONE_DEVICE,
        **options: Any,
    ):
        options = {"chars": character_rows(model), "parts": place.num_parts} | options
        if jax.default_backend() != "cpu":
            options["multiple"] = 8  # a scan is unrolled by a divisor of its length
        self.batches = Batches(sentences, labels, **options)
        self._place = place
        whole = self.batches.sentences
        vectors: Any = whole[0].vectors
        if vectors_on_device is None:
            size = 4 * self.batches.num_tokens * math.prod(np.shape(vectors)[1:])
            device = jax.local_devices()[0]
            facts = None if device.platform == "cpu" else device.memory_stats()
            vectors_on_device = size <= _SHARE * (facts or {}).get("bytes_limit", 0)
        self._streams = vectors is not None and not vectors_on_device
        if self._streams:
            whole = [s._replace(vectors=None) for s in whole]
        text, words = batching.end_to_end(whole), self.batches.words
        pieces = [s.pieces for s in whole if s.pieces is not None]
        arrays = Arrays(
            text._replace(chars=spell(words, max(1, *map(length, words)))),
            np.concatenate(labels).astype(np.int32),
            batching.ranges([*map(len, labels), 0]),
            batching.ranges([*(len(p.windows) for p in pieces), 0]) if pieces else None,
            None if old_probabilities is None else np.concatenate(old_probabilities),
        )
        self.arrays = place.everywhere(jax.tree.map(jnp.asarray, arrays))

    def epoch(
        self, seeds: Sequence[int], number: int, skip: int = 0
    ) -> Iterator[tuple[Plan, list[tuple[Shape, Array | None]], int]]:
        """Yields the plan of an epoch at each step, the step's blocks, and its tokens.

        The plan lies on the devices, with an axis of restarts. A block is its shape,
        and the vectors of its tokens that do not lie there, `[K, …]`, or None.
        """
        batches = self.batches
        plan, numbers = batches.plan(seeds, number)
        placed_plan = self._place.weights(plan)
        tokens = batches.tokens_of(plan).tolist()
        bounds = [*plan.steps[0].tolist(), len(numbers)]
        for step in range(skip, len(tokens)):
            blocks = range(bounds[step], bounds[step + 1])
            shapes = [(batches.shapes[numbers[i]], i) for i in blocks]
            yield (
                placed_plan,
                [(x, self._vectors(plan, i, x)) for x, i in shapes],
                tokens[step],
            )

    def _vectors(self, plan: Plan, block: int, shape: Shape) -> Array | None:
        """Returns the placed vectors of a block, [K, B, T, L, D], if they stream."""
        if not self._streams:
            return None
        restarts = []
        for rows, (start, count) in zip(
            plan.rows, plan.blocks[..., block], strict=True
        ):
            members = [self.batches.sentences[i] for i in rows[start : start + count]]
            restarts.append(batching.pad(members, shape.tokens, shape.rows).vectors)
        return self._place.batches(np.stack(restarts))


def character_rows(model: models.Model) -> str:
    """Returns the rows of characters that a model needs; see `Batches`."""
    readers = models.character_readers(model)
    if not readers:
        return "none"
    return "token" if any(getattr(r, "dropout", 0) for r in readers) else "distinct"
