"""spaCy's NER: a blank English pipeline with `ner` and its default HashEmbedCNN.

It reads the given tokens, without its tokeniser. `nlp.update` gets batches of any
lengths, as in spaCy's own loop, which does no padding.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from benchmarks.peers import Labelled, need

spacy: Any = need("spacy")
_tokens: Any = need("spacy.tokens")
_training: Any = need("spacy.training")


class Tagger:
    """See `benchmarks.peers.Peer`."""

    def __init__(self, train: Sequence[Labelled]):
        spacy.util.fix_random_seed(0)
        self.nlp = spacy.blank("en")
        recogniser = self.nlp.add_pipe("ner")
        labels = {label for s in train for label in s.labels} - {"O"}
        for name in sorted({label[2:] for label in labels}):
            recogniser.add_label(name)
        self.examples = [self._example(s) for s in train]
        self.optimizer = self.nlp.initialize(lambda: self.examples)
        self.rng = random.Random(0)

    def _example(self, given: Labelled) -> Any:
        words = list(given.tokens)
        reference = _tokens.Doc(
            self.nlp.vocab, words=words, ents=[_bio(label) for label in given.labels]
        )
        predicted = _tokens.Doc(self.nlp.vocab, words=words)
        return _training.Example(predicted, reference)

    def tune(
        self, batch: int | None, sentences: Sequence[Sequence[str]] | None = None
    ) -> None:
        """Does nothing: spaCy has no such settings."""

    def first_step(self, batch: int) -> None:
        """Takes one training step on the first sentences."""
        self.nlp.update(self.examples[:batch], sgd=self.optimizer, drop=0.5)

    def epoch(self, batch: int) -> int:
        """Trains on each sentence once, in random order."""
        self.rng.shuffle(self.examples)
        for start in range(0, len(self.examples), batch):
            chosen = self.examples[start : start + batch]
            self.nlp.update(chosen, sgd=self.optimizer, drop=0.5)
        return sum(len(example.reference) for example in self.examples)

    def tag(
        self, sentences: Sequence[Sequence[str]], batch: int | None = None
    ) -> list[list[str]]:
        """Labels sentences; None for spaCy's own batch size."""
        docs = (_tokens.Doc(self.nlp.vocab, words=list(s)) for s in sentences)
        return [
            [f"{t.ent_iob_}-{t.ent_type_}" if t.ent_type_ else "O" for t in doc]
            for doc in self.nlp.pipe(docs, batch_size=batch)
        ]

    def save(self, folder: Path) -> None:
        """Writes spaCy's folder."""
        self.nlp.to_disk(folder)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Returns the tagger in a folder."""
        self = cls.__new__(cls)
        self.nlp = spacy.load(folder)
        return self


def _bio(label: str) -> str:
    return {"E": "I", "S": "B"}.get(label[0], label[0]) + label[1:]
