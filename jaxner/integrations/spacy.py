"""A tagger as a component of a spaCy pipeline: `nlp.add_pipe("jaxner", …)`.

spaCy finds this module by the entry point of the package.
"""

from __future__ import annotations

import io
import itertools
import os
import shutil
import tempfile
import typing
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
from spacy.language import Language
from spacy.pipeline import Pipe
from spacy.scorer import get_ner_prf
from spacy.tokens import Doc, Span
from spacy.util import minibatch

import jaxner
from jaxner import outputs
from jaxner.answers.mentions import least_certain
from jaxner.data import corpora, formats, tokens
from jaxner.errors import InputError

for name in ("probability", "uncertainty"):
    Span.set_extension(name, default=None, force=True)


class Component(Pipe):
    """Sets the entities of documents, as spaCy's own `ner` does.

    Sentences are those of the document if it has any, else as in `jaxner.entities`; the
    tokens are spaCy's, without those of white space. Entities that a document has
    already stay, and no other overlaps with them or with blocked tokens; tokens without
    an entity are outside. `span._.probability` is exact; `span._.uncertainty`, for
    `num_samples` passes with dropout, holds the entropy and the mutual information
    (nats) and the share of votes of the span's least certain token.

    Example:
        >>> import spacy
        >>> nlp = spacy.blank("en")
        >>> pipe = nlp.add_pipe("jaxner", config={"workdir": "runs/grn"})
        >>> doc = nlp("Ms Preston left Lakeside.")
        >>> all(0 <= span._.probability <= 1 for span in doc.ents)
        True
    """

    def __init__(
        self, workdir: str, min_probability: Any, num_samples: int, name: str = "jaxner"
    ):
        self.name, self._workdir, self._tagger = name, workdir, None
        self._options = {"min_probability": min_probability}
        self._num_samples = num_samples
        self.scorer = get_ner_prf  # for `nlp.evaluate`

    @property
    def tagger(self) -> jaxner.Tagger:
        """The tagger, which is loaded when it is first needed."""
        if self._tagger is None:
            self._tagger = jaxner.load(self._workdir)
        return self._tagger

    @property
    def labels(self) -> tuple[str, ...]:
        """The entity types; none if there is no tagger yet, as within `spacy.load`."""
        try:
            return jaxner.entity_types(self.tagger)
        except (InputError, OSError):
            return ()

    def __call__(self, doc: Doc) -> Doc:
        """Sets the entities of a document."""
        self._annotate([doc])
        return doc

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 128) -> Iterator[Doc]:
        """Sets the entities of many documents, in batches.

        A batch that fails goes to the error handler, whose default raises the error.
        """
        for docs in minibatch(stream, batch_size):
            try:
                self._annotate(docs)
            except Exception as error:
                self.get_error_handler()(self.name, self, docs, error)
            else:
                yield from docs

    def _annotate(self, docs: list[Doc]) -> None:
        parts = [(i, part) for i, doc in enumerate(docs) for part in _sentences(doc)]
        # A split, since tokens that another component merged have blanks inside.
        examples = [
            formats.Example(tuple(docs[i][j].text for j in part)) for i, part in parts
        ]
        split = corpora.Split("", "", Path(), examples, "", "")
        numbers = [i for i, _ in parts]
        mentions = jaxner.entities(
            self.tagger, split, documents=numbers, **self._options
        )
        samples = itertools.repeat(None)
        if self._num_samples and parts:
            key, count = jax.random.key(0), self._num_samples
            samples = jaxner.uncertainty(
                self.tagger, split, key, count, documents=numbers
            )
        # Neither in an entity nor blocked.
        free = [np.isin(doc.to_array("ENT_IOB"), (0, 2)) for doc in docs]
        spans: list[list[Span]] = [[] for _ in docs]
        for (i, part), entities, passes in zip(parts, mentions, samples, strict=False):
            for entity in entities:
                first, end = part[entity.start], part[entity.end - 1] + 1
                if not free[i][first:end].all():
                    continue
                span = Span(docs[i], first, end, label=entity.type)
                span._.probability = entity.probability
                if passes is not None:
                    offsets = entity.start, entity.end
                    span._.uncertainty = least_certain(passes._asdict(), *offsets)
                spans[i].append(span)
                free[i][first:end] = False
        for doc, entities, is_outside in zip(docs, spans, free, strict=True):
            gaps = [doc[i : i + 1] for i in np.flatnonzero(is_outside).tolist()]
            doc.set_ents(entities, outside=gaps, default="unmodified")

    def to_disk(self, path: str | os.PathLike[str], **_: Any) -> None:
        """Saves the tagger, for `spacy.load`, in place of one saved before."""
        tagger, folder = self.tagger, Path(path)
        # Other programs call files so, too.
        if (folder / "model.json").exists() and outputs.is_run(folder):
            shutil.rmtree(folder)
        jaxner.save(path, tagger)

    def from_disk(self, path: str | os.PathLike[str], **_: Any) -> Component:
        """Takes the tagger that `to_disk` saved."""
        self._tagger = jaxner.load(path)
        return self

    def to_bytes(self, **_: Any) -> bytes:
        """Returns what `to_disk` saves, as an archive."""
        with tempfile.TemporaryDirectory() as folder:
            self.to_disk(f"{folder}/tagger")
            archive = shutil.make_archive(f"{folder}/tagger", "zip", f"{folder}/tagger")
            return Path(archive).read_bytes()

    def from_bytes(self, data: bytes, **_: Any) -> Component:
        """Takes the tagger that `to_bytes` returned."""
        with tempfile.TemporaryDirectory() as folder:
            zipfile.ZipFile(io.BytesIO(data)).extractall(folder)
            return self.from_disk(folder)


def _sentences(doc: Doc) -> Iterator[list[int]]:
    """Yields the tokens of each sentence by index."""
    if doc.has_annotation("SENT_START"):
        parts = [[token.i for token in sentence] for sentence in doc.sents]
    else:
        starts = [part[0].start for part in tokens.read(doc.text) if part]
        numbers = np.searchsorted(starts, doc.to_array("IDX"), side="right")
        groups = itertools.groupby(range(len(doc)), key=numbers.__getitem__)
        parts = [list(group) for _, group in groups]
    for part in parts:
        # By the text: a vocabulary of another's making knows no `is_space`.
        if words := [i for i in part if doc[i].text.strip()]:
            yield words


_SCORES = {"ents_f": 1.0, "ents_p": 0.0, "ents_r": 0.0, "ents_per_type": None}


# spaCy looks at the names of the arguments, which no decorator may hide.
@Language.factory(
    "jaxner",
    assigns=["doc.ents", "token.ent_iob", "token.ent_type"],
    default_config={"workdir": "", "min_probability": 0.0, "num_samples": 0},
    default_score_weights=_SCORES,
)
@typing.no_type_check
def create(nlp, name, workdir, min_probability, num_samples) -> Component:
    """Returns the component: of a run's folder, or of what `to_disk` saved."""
    return Component(workdir, min_probability, num_samples, name)
