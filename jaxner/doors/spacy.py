"""A tagger as a component of a spaCy pipeline: `nlp.add_pipe("jaxner", …)`.

spaCy finds this module by the entry point of the package.
"""

from __future__ import annotations

import itertools
import os
import typing
from collections.abc import Iterable, Iterator
from typing import Any

import jax
import numpy as np
from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.util import minibatch

import jaxner
from jaxner.answers.mentions import least_certain
from jaxner.data import tokens

for name in ("probability", "uncertainty"):
    Span.set_extension(name, default=None, force=True)


class Component:
    """Sets the entities of documents.

    Sentences are those of the document if it has any, else as in `jaxner.entities`; the
    tokens are spaCy's, without those of white space. Entities that a document has
    already stay. `span._.probability` is exact; `span._.uncertainty`, for `num_samples`
    passes with dropout, holds the entropy and the mutual information (nats) and the
    share of votes of the span's least certain token.

    Example:
        >>> import spacy
        >>> nlp = spacy.blank("en")
        >>> pipe = nlp.add_pipe("jaxner", config={"workdir": "runs/grn"})
        >>> doc = nlp("Ms Preston left Lakeside.")
        >>> all(0 <= span._.probability <= 1 for span in doc.ents)
        True
    """

    def __init__(self, workdir: str, min_probability: Any, num_samples: int):
        self._workdir, self._tagger = workdir, None
        self._options = {"min_probability": min_probability}
        self._num_samples = num_samples

    @property
    def tagger(self) -> jaxner.Tagger:
        """The tagger, which is loaded when it is first needed."""
        if self._tagger is None:
            self._tagger = jaxner.load(self._workdir)
        return self._tagger

    def __call__(self, doc: Doc) -> Doc:
        """Sets the entities of a document."""
        return next(self.pipe([doc]))

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 128) -> Iterator[Doc]:
        """Sets the entities of many documents, in batches."""
        for docs in minibatch(stream, batch_size):
            self._annotate(docs)
            yield from docs

    def _annotate(self, docs: list[Doc]) -> None:
        parts = [(doc, part) for doc in docs for part in _sentences(doc)]
        texts = [[doc[i].text for i in part] for doc, part in parts]
        # Documents count from 0, and those without sentences have none.
        groups = itertools.groupby(doc for doc, _ in parts)
        numbers = [i for i, (_, group) in enumerate(groups) for _ in group]
        mentions = jaxner.entities(
            self.tagger, texts, documents=numbers or None, **self._options
        )
        sure = itertools.repeat(None)
        if self._num_samples and texts:
            key, count = jax.random.key(0), self._num_samples
            sure = jaxner.uncertainty(self.tagger, texts, key, count, documents=numbers)
        for (doc, part), entities, passes in zip(parts, mentions, sure, strict=False):
            taken = {token.i for span in doc.ents for token in span}
            spans = list(doc.ents)
            for entity in entities:
                first, last = part[entity.start], part[entity.end - 1]
                span = Span(doc, first, last + 1, label=entity.type)
                if taken.isdisjoint(range(first, last + 1)):
                    span._.probability = entity.probability
                    if passes is not None:
                        place = entity.start, entity.end
                        span._.uncertainty = least_certain(passes._asdict(), *place)
                    spans.append(span)
            doc.set_ents(spans, default="unmodified")

    def to_disk(self, path: str | os.PathLike[str], **_: Any) -> None:
        """Saves the tagger, for `spacy.load`."""
        jaxner.save(path, self.tagger)

    def from_disk(self, path: str | os.PathLike[str], **_: Any) -> Component:
        """Takes the tagger that `to_disk` saved."""
        self._workdir, self._tagger = str(path), jaxner.load(path)
        return self


def _sentences(doc: Doc) -> Iterator[list[int]]:
    """Yields the tokens of each sentence by index."""
    if doc.has_annotation("SENT_START"):
        parts = [[token.i for token in sentence] for sentence in doc.sents]
    else:
        starts = [part[0].start for part in tokens.read(doc.text) if part]
        numbers = np.searchsorted(starts, [token.idx for token in doc], side="right")
        groups = itertools.groupby(range(len(doc)), key=numbers.__getitem__)
        parts = [list(group) for _, group in groups]
    for part in parts:
        if words := [i for i in part if not doc[i].is_space]:
            yield words


_ASSIGNS = ["doc.ents", "token.ent_iob", "token.ent_type"]
_DEFAULTS = {"workdir": "", "min_probability": 0.0, "num_samples": 0}


# spaCy looks at the names of the arguments, which no decorator may hide.
@Language.factory("jaxner", assigns=_ASSIGNS, default_config=_DEFAULTS)
@typing.no_type_check
def create(nlp, name, workdir, min_probability, num_samples) -> Component:
    """Returns the component: of a run's folder, or of what `to_disk` saved."""
    return Component(workdir, min_probability, num_samples)
