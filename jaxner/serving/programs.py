"""The programs of a service, all compiled before the first request.

Shape letters: `B` jobs, `T` tokens, `N` labellings, `M` heads.
"""

from __future__ import annotations

import concurrent.futures
import functools
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxner import devices, driver, models, tagging
from jaxner.analysis import inside
from jaxner.answers import entities, probabilities
from jaxner.answers.mentions import EntityArrays, types_of
from jaxner.arguments import check_reads_text
from jaxner.data import batching
from jaxner.data.vocabulary import MAX_CHARACTERS
from jaxner.tagger import Ensemble, Tagger
from jaxner.types import Sentence

LABELLINGS = 10
"""Labellings that a deep program finds: the maximum of `n_best`."""
PASSES = 8
"""Passes with dropout, for uncertainty: a deep job costs about as many plain ones."""
# Padded tokens of a batch. On a CPU, larger batches are no faster, and need programs.
_TOKENS = {"cpu": 1 << 8, "gpu": 1 << 14, "tpu": 1 << 14}


class Job(NamedTuple):
    """An encoded sentence or document, and its tokens with padding.

    A deep job asks for more than entities; its tokens count as `PASSES`.
    """

    sentence: Any
    cost: int
    is_deep: bool = False


class Programs:
    """A tagger that answers jobs in batches of few shapes.

    `InputError`: it reads precomputed vectors. `batch_tokens` are padded ones; 0 for as
    many as suit the device. `tokenizer` splits texts; None: that of the tagger.
    """

    def __init__(
        self,
        tagger: Tagger,
        max_tokens: int = 256,
        batch_tokens: int = 0,
        tokenizer: str | None = None,
    ):
        check_reads_text(tagger)
        self.tokenizer = tokenizer or tagger.tokenizer
        self.labels, self.types = tagger.labels, types_of(tagger)
        self.has_chances = not isinstance(tagger.model.head, models.Seq2seqHead)
        self.reads_documents = tagger.vocabulary.reads_documents  # each is a job
        # Late programs compile for a request: those of taggers of word pieces alone.
        self.counts = {"batches": 0, "tokens": 0, "padded": 0, "late": 0}
        platform = devices.platform_of(tagger.weights)
        self.budget = batch_tokens or _TOKENS.get(platform, 1 << 10)
        self._tagger, self._most, self._fills = tagger, max_tokens, platform != "cpu"
        self._programs: dict[Any, Any] = {}

    def job(self, sentences: Sequence[Sequence[str]], is_deep: bool = False) -> Job:
        """Returns a job of one sentence, or of the sentences of one document."""
        text = driver.text_of(self._tagger, sentences, [0] * len(sentences))
        cost = self._size(text.rows[0], is_deep)[0] * (PASSES if is_deep else 1)
        return Job(text.rows[0], cost, is_deep)

    def _size(self, sentence: Sentence, is_deep: bool) -> tuple[int, int]:
        """Returns padded tokens, and characters of a word; deep jobs have one width."""
        # Words of one character would share no program with those of several.
        chars = max(1 + self._tagger.reads_characters, sentence.chars.shape[1])
        return _rounded(len(sentence.words), MAX_CHARACTERS if is_deep else chars)

    def _plan(self, sizes: Sequence[tuple[int, int]], is_deep: bool) -> Iterator[Any]:
        limit = self.budget // (PASSES if is_deep else 1)  # padded tokens
        return driver.plan(sizes, limit, fills=self._fills, doublings=2)

    def compile(self, log: Callable[[int, int], object] = lambda *_: None) -> None:
        """Compiles the programs of all shapes; `log` gets how many of how many."""
        kinds = [(False, 24 if self._tagger.reads_characters else 1)]
        kinds += [(False, MAX_CHARACTERS)] * self._tagger.reads_characters
        kinds += [(True, MAX_CHARACTERS)] * self.has_chances
        copies = [1 << i for i in range(self.budget.bit_length())]
        shapes = set()
        for is_deep, chars in kinds:
            lengths = range(1, self._most + 1)
            for size in {_rounded(length, chars) for length in lengths}:
                for number in copies:
                    batches = self._plan([size] * number, is_deep)
                    shapes |= {(is_deep, tokens, rows) for tokens, rows, _ in batches}

        def compile_one(shape: tuple[bool, tuple[int, int], int]) -> None:
            is_deep, size, count = shape
            job = self.job([["a"] * (size[0] - 2)])
            self._program(_padded([job.sentence], size, count), is_deep)

        log(0, len(shapes))
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            tasks = [pool.submit(compile_one, shape) for shape in sorted(shapes)]
            for num_done, task in enumerate(concurrent.futures.as_completed(tasks), 1):
                task.result()
                log(num_done, len(shapes))
        self.counts["late"] = 0

    def _program(self, batch: Sentence, is_deep: bool) -> Any:
        key = (is_deep, *(leaf.shape for leaf in jax.tree.leaves(batch)))
        if key not in self._programs:
            lowered_program = _answer.lower(self._tagger, batch, is_deep)
            self._programs[key] = lowered_program.compile()
            self.counts["late"] += 1
        return self._programs[key]

    def __call__(self, jobs: Sequence[Job]) -> list[tuple[Any, int]]:
        """Returns the arrays of each job's batch, see `_answer`, and the job's row."""
        answers: list[Any] = [None] * len(jobs)
        kinds = [(job.is_deep, _windows(job.sentence)) for job in jobs]
        for is_deep, windows in sorted({*kinds}):
            indices = [i for i, kind in enumerate(kinds) if kind == (is_deep, windows)]
            sizes = [self._size(jobs[i].sentence, is_deep) for i in indices]
            for size, count, rows in self._plan(sizes, is_deep):
                sentences = [jobs[indices[row]].sentence for row in rows]
                batch = _padded(sentences, size, count)
                arrays = self._program(batch, is_deep)(self._tagger, batch)
                arrays = devices.fetch(arrays)
                for number, row in enumerate(rows):
                    answers[indices[row]] = arrays, number
                self.counts["batches"] += 1
                self.counts["tokens"] += sum(len(s.words) for s in sentences)
                self.counts["padded"] += size[0] * count
        return answers

    def cut(self, answer: Any, sentences: Sequence[Any]) -> Iterator[Any]:
        """Yields the arrays of each sentence of a job by name, without padding."""
        first = int(self.reads_documents)  # after a separator
        arrays, row = answer
        for sentence in sentences:
            span = slice(first, first + len(sentence))
            part = jax.tree.map(lambda array, span=span: array[row, span], arrays)
            for name in part.keys() & {"relations", "attention"}:
                part[name] = part[name][:, span]
            for name in part.keys() & {"best", "n_best"} if self.has_chances else ():
                part[name] = part[name]._replace(end=part[name].end - first)
            yield part
            first += len(sentence) + 1


def _rounded(tokens: int, chars: int) -> tuple[int, int]:
    """Returns sizes rounded up; those of rare jobs further, for fewer programs."""
    tokens, width = driver.round_up(tokens, chars)
    return 1 << (tokens - 1).bit_length() if width > 24 else tokens, width


def _windows(sentence: Sentence) -> int:
    """Returns the padded number of windows of word pieces.

    Others in a batch are padded to as many, so few tokens of many pieces would take all
    memory.
    """
    pieces = sentence.pieces
    return batching.piece_shape([pieces], is_small=True).windows if pieces else 1


def _padded(sentences: Sequence[Sentence], size: tuple[int, int], count: int) -> Any:
    shape = batching.Shape(size[0], count * size[0] + 1, size[1])
    return batching.pad(sentences, shape, count)


@functools.partial(jax.jit, static_argnames="is_deep")
def _answer(tagger: Tagger, batch: Sentence, is_deep: bool) -> dict[str, Any]:
    """Computes the answer about a batch, by name; all arrays are `[B, T, …]`.

    `best`, an `EntityArrays`, has labels alone for an autoregressive head. Deep: also
    `n_best` `[B, T, N]`, `chances` of these labellings, the same at each token,
    `uncertainty`, `relations` `[B, T, T]`, `attention` `[B, T, T, M]`, where a tagger
    has them.
    """
    if isinstance(tagger.model.head, models.Seq2seqHead):
        blanks: Any = [None] * (len(EntityArrays._fields) - 1)
        return {"best": EntityArrays(tagging.tag(tagger, batch), *blanks)}
    answer: dict[str, Any] = {"best": entities.arrays(tagger, batch)}
    if not is_deep:
        return answer
    answer["n_best"] = entities.arrays(tagger, batch, n_best=LABELLINGS)
    if not tagger.vocabulary.reads_documents:
        chances = probabilities.n_best(tagger, batch, LABELLINGS).probability[:, None]
        shape = answer["n_best"].labels.shape
        answer["chances"] = jnp.broadcast_to(chances, shape)
    if not isinstance(tagger, Ensemble):
        key = jax.random.key(0)
        passes = probabilities.uncertainty(tagger, batch, key, PASSES)._asdict()
        names = ("entropy", "mutual_information", "vote_share")
        answer["uncertainty"] = {name: passes[name] for name in names}
        answer |= inside.compute_maps(tagger, batch)
        if "attention" in answer:
            answer["attention"] = jnp.moveaxis(answer["attention"], 1, -1)
    return answer
