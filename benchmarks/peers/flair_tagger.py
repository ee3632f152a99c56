"""Flair's SequenceTagger: trained word vectors, characters, BiLSTM-CRF of 200.

Words have random vectors of 100 dimensions, which `WordEmbeddings` trains; Flair's own
character BiLSTM has 25 per direction. Neither needs a download. Training is a plain
loop over `forward_loss`, like `ModelTrainer` between evaluations and log files, but
with sentences of similar length in each batch instead of random ones. This is Flair's
fastest form without changes to Flair. PyTorch has one thread or all, whichever was
faster for a few batches of that size.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Sequence
from typing import Any

from benchmarks.peers import Labelled, need, threads

torch: Any = need("torch")
flair: Any = need("flair")
_data: Any = need("flair.data")
_embeddings: Any = need("flair.embeddings")
_models: Any = need("flair.models")
_training: Any = need("flair.training_utils")
logging.getLogger("flair").setLevel(logging.ERROR)
_TYPE = "ner"
_BATCH = 32  # sentences per batch if the caller gives no number


class Tagger:
    """See `benchmarks.peers.Peer`; not stored, since Flair's files are pickles."""

    def __init__(self, train: Sequence[Labelled], *, characters: bool = True):
        torch.manual_seed(0)
        parts = [_words(train), *([_characters(train)] if characters else [])]
        types = {label[2:] for s in train for label in s.labels if label != "O"}
        dictionary = _data.Dictionary(add_unk=False)
        for name in sorted(types):
            dictionary.add_item(name)
        dictionary.span_labels = True
        self.model = _models.SequenceTagger(
            embeddings=_embeddings.StackedEmbeddings(parts),
            tag_dictionary=dictionary,
            tag_type=_TYPE,
            hidden_size=200,
            use_crf=True,
        )
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.rng = random.Random(0)
        sentences = [_sentence(s) for s in train]
        self.sentences = sorted(sentences, key=len)
        self.threads = threads.Choices()

    def tune(
        self, batch: int | None, sentences: Sequence[Sequence[str]] | None = None
    ) -> None:
        """Chooses the number of threads."""
        size = batch or _BATCH
        if sentences is None:
            self.model.train()
            some = threads.some_batches(self.sentences, size)
            self.threads.choose(("epoch", size), lambda: [*map(self._step, some)])
            return
        texts = threads.some_batches(sorted(sentences, key=len), size)
        run = lambda: [self.tag(text, size) for text in texts]  # noqa: E731
        self.threads.choose(("tag", size), run)

    def first_step(self, batch: int) -> None:
        """Takes one training step on the first sentences."""
        self.model.train()
        self._step(self.sentences[:batch])

    def epoch(self, batch: int) -> int:
        """Trains on each sentence once, in batches of similar length."""
        self.model.train()
        starts = list(range(0, len(self.sentences), batch))
        self.rng.shuffle(starts)
        with self.threads.of(("epoch", batch)):
            for start in starts:
                self._step(self.sentences[start : start + batch])
        return sum(map(len, self.sentences))

    def _step(self, chosen: Sequence[Any]) -> None:
        self.optimizer.zero_grad()
        loss, count = self.model.forward_loss(chosen)
        (loss / count).backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 5.0)
        self.optimizer.step()
        _training.store_embeddings(chosen, "none")

    def tag(
        self, sentences: Sequence[Sequence[str]], batch: int | None = None
    ) -> list[list[str]]:
        """Labels sentences; `predict` sorts them by length; 32 per batch by default."""
        self.model.eval()
        size = batch or _BATCH
        tagged = [_data.Sentence(list(tokens)) for tokens in sentences]
        with self.threads.of(("tag", size)):
            self.model.predict(
                tagged, mini_batch_size=size, force_token_predictions=True
            )
        return [[t.get_label(_TYPE, "O").value for t in s] for s in tagged]


def _words(train: Sequence[Labelled]) -> Any:
    words = sorted({token for s in train for token in s.tokens})
    found = _embeddings.WordEmbeddings(
        None,
        vocab={word: i for i, word in enumerate(words)},
        embedding_length=100,
        fine_tune=True,
        name="words",
    )
    torch.nn.init.xavier_uniform_(found.embedding.weight)  # otherwise all zero
    return found


def _characters(train: Sequence[Labelled]) -> Any:
    dictionary = _data.Dictionary(add_unk=True)
    for char in sorted({char for s in train for t in s.tokens for char in t}):
        dictionary.add_item(char)
    return _embeddings.CharacterEmbeddings(dictionary)


def _sentence(given: Labelled) -> Any:
    """Returns Flair's sentence with spans; the given labels are in BIOES."""
    sentence, start = _data.Sentence(list(given.tokens)), 0
    for i, label in enumerate(given.labels):
        if label[0] in "BS":
            start = i
        if label[0] in "ES":
            sentence[start : i + 1].add_label(_TYPE, label[2:])
    return sentence
