"""A BiLSTM-CRF in PyTorch with pytorch-crf, written like a careful tutorial.

The sizes are those of `configs/cnn_bilstm_crf.py`: words of 100 dimensions, 30 filters
of width 3 over characters of 30, a BiLSTM of 200 per direction, dropout of .5 before
and after it, SGD with momentum. The corpus is encoded once. Batches hold sentences of
similar length; the LSTM gets a packed sequence only if the lengths differ, since
packing about doubles its time on a CPU. PyTorch has one thread or all, whichever was
faster for a few batches of that size; without such a pilot, PyTorch chooses.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

from benchmarks.peers import Labelled, need, threads

torch: Any = need("torch")
torchcrf: Any = need("torchcrf")
_rnn: Any = need("torch.nn.utils.rnn")
_files: Any = need("safetensors.torch")
_PAD, _UNKNOWN = 0, 1
_LOW = -1e4
_BATCH = 128  # sentences per batch if the caller gives no number


class _Batch(NamedTuple):
    words: Any  # [B, T]
    chars: Any  # [B, T, C]
    lengths: Any  # [B]
    mask: Any  # [B, T]
    labels: Any  # [B, T]


class Network(torch.nn.Module):
    """A network from words and characters to emissions, and a CRF."""

    def __init__(self, num_words: int, num_chars: int, num_labels: int):
        super().__init__()
        self.words = torch.nn.Embedding(num_words, 100, padding_idx=_PAD)
        self.chars = torch.nn.Embedding(num_chars, 30, padding_idx=_PAD)
        self.filters = torch.nn.Conv1d(30, 30, kernel_size=3, padding=1)
        self.dropout = torch.nn.Dropout(0.5)
        self.lstm = torch.nn.LSTM(130, 200, bidirectional=True, batch_first=True)
        self.emissions = torch.nn.Linear(400, num_labels)
        self.crf = torchcrf.CRF(num_labels, batch_first=True)

    def forward(self, batch: _Batch) -> Any:
        """Returns the emissions, [B, T, L]."""
        count, length, width = batch.chars.shape
        flat = self.chars(batch.chars.reshape(count * length, width))
        found = self.filters(flat.transpose(1, 2)).reshape(count, length, 30, width)
        padding = (batch.chars == _PAD).unsqueeze(2)
        found = found.masked_fill(padding, _LOW).amax(dim=3)
        features = self.dropout(torch.cat([self.words(batch.words), found], dim=2))
        if int(batch.lengths.min()) == length:
            hidden, _ = self.lstm(features)
        else:
            packed = _rnn.pack_padded_sequence(
                features, batch.lengths, batch_first=True, enforce_sorted=False
            )
            hidden, _ = _rnn.pad_packed_sequence(
                self.lstm(packed)[0], batch_first=True, total_length=length
            )
        return self.emissions(self.dropout(hidden))


class Tagger:
    """See `benchmarks.peers.Peer`."""

    def __init__(self, train: Sequence[Labelled]):
        words = sorted({token.lower() for s in train for token in s.tokens})
        chars = sorted({char for s in train for token in s.tokens for char in token})
        labels = sorted({label for s in train for label in s.labels})
        self._start(words, chars, labels)
        self.encoded = sorted(map(self._encode, train), key=lambda s: len(s[0]))

    def _start(self, words: list[str], chars: list[str], labels: list[str]) -> None:
        self.names = words, chars, labels
        self.word_ids = {word: i for i, word in enumerate(words, 2)}
        self.char_ids = {char: i for i, char in enumerate(chars, 2)}
        self.label_ids = {label: i for i, label in enumerate(labels)}
        torch.manual_seed(0)
        self.network = Network(len(words) + 2, len(chars) + 2, len(labels))
        self.optimizer = torch.optim.SGD(
            self.network.parameters(), lr=0.02, momentum=0.9
        )
        self.rng = random.Random(0)
        self.threads = threads.Choices()

    def _encode(self, sentence: Labelled) -> tuple[list[int], list[list[int]], Any]:
        return (
            [self.word_ids.get(t.lower(), _UNKNOWN) for t in sentence.tokens],
            [[self.char_ids.get(c, _UNKNOWN) for c in t] for t in sentence.tokens],
            [self.label_ids[label] for label in sentence.labels],
        )

    def _pad(self, encoded: Sequence[tuple[Any, Any, Any]]) -> _Batch:
        lengths = [len(words) for words, _, _ in encoded]
        length = max(lengths)
        width = max(len(word) for _, chars, _ in encoded for word in chars)
        rows, letters, labels = [], [], []
        for words, chars, ids in encoded:
            missing = length - len(words)
            rows.append(words + [_PAD] * missing)
            letters.append(
                [word + [_PAD] * (width - len(word)) for word in chars]
                + [[_PAD] * width] * missing
            )
            labels.append(ids + [0] * (length - len(ids)))
        counts = torch.tensor(lengths)
        mask = torch.arange(length)[None, :] < counts[:, None]
        words, chars, given = map(torch.tensor, (rows, letters, labels))
        return _Batch(words, chars, counts, mask, given)

    def tune(
        self, batch: int | None, sentences: Sequence[Sequence[str]] | None = None
    ) -> None:
        """Chooses the number of threads."""
        size = batch or _BATCH
        if sentences is None:
            self.network.train()
            some = threads.some_batches(self.encoded, size)
            self.threads.choose(("epoch", size), lambda: [*map(self._step, some)])
            return
        ordered = sorted((s for s in sentences if len(s)), key=len)
        texts = threads.some_batches(ordered, size)
        run = lambda: [self.tag(text, size) for text in texts]  # noqa: E731
        self.threads.choose(("tag", size), run)

    def first_step(self, batch: int) -> None:
        """Takes one training step on the first sentences."""
        self.network.train()
        self._step(self.encoded[:batch])

    def epoch(self, batch: int) -> int:
        """Trains on each sentence once, in batches of similar length."""
        self.network.train()
        starts = list(range(0, len(self.encoded), batch))
        self.rng.shuffle(starts)
        with self.threads.of(("epoch", batch)):
            for start in starts:
                self._step(self.encoded[start : start + batch])
        return sum(len(words) for words, _, _ in self.encoded)

    def _step(self, encoded: Sequence[tuple[Any, Any, Any]]) -> None:
        padded = self._pad(encoded)
        self.optimizer.zero_grad()
        loss = -self.network.crf(
            self.network(padded), padded.labels, padded.mask, reduction="mean"
        )
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), 5.0)
        self.optimizer.step()

    def tag(
        self, sentences: Sequence[Sequence[str]], batch: int | None = None
    ) -> list[list[str]]:
        """Labels sentences, sorted by length; 128 per batch by default."""
        self.network.eval()
        size, names = batch or _BATCH, self.names[2]
        order = sorted(range(len(sentences)), key=lambda i: len(sentences[i]))
        order = [i for i in order if len(sentences[i])]
        labels: list[list[str]] = [[] for _ in sentences]
        with torch.inference_mode(), self.threads.of(("tag", size)):
            for start in range(0, len(order), size):
                chosen = order[start : start + size]
                encoded = [self._encode(Labelled(sentences[i], ())) for i in chosen]
                padded = self._pad(encoded)
                paths = self.network.crf.decode(self.network(padded), padded.mask)
                for i, path in zip(chosen, paths, strict=True):
                    labels[i] = [names[label] for label in path]
        return labels

    def save(self, folder: Path) -> None:
        """Writes names and weights."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "names.json").write_text(json.dumps(self.names), encoding="utf-8")
        _files.save_file(self.network.state_dict(), folder / "weights.safetensors")

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Returns the tagger in a folder."""
        self = cls.__new__(cls)
        self._start(*json.loads((folder / "names.json").read_text(encoding="utf-8")))
        state = _files.load_file(folder / "weights.safetensors")
        self.network.load_state_dict(state)
        return self
