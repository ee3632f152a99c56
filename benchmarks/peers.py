"""Other taggers behind one small interface, for the benchmarks only.

PyTorch   a BiLSTM-CRF with pytorch-crf, written like a careful tutorial, with the sizes
          of `configs/cnn_bilstm_crf.py`
Flair     `SequenceTagger`: trained random word vectors of 100 dimensions, Flair's own
          character BiLSTM, BiLSTM-CRF of 200; a plain loop over `forward_loss`
spaCy     a blank English pipeline with `ner` and its default HashEmbedCNN

PyTorch and Flair train on batches of similar length, their fastest form, and have one
thread or all, whichever was faster for a few batches of that size.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import random
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

Sentences = Sequence[tuple[Sequence[str], Sequence[str]]]
"""Tokens, and labels in BIOES."""


class Threads:
    """PyTorch's number of threads for each kind of work: one or all."""

    def __init__(self) -> None:
        self._faster: dict[Any, int] = {}

    def choose(self, work: Any, run: Callable[[], Any]) -> None:
        """Tries both for a kind of work, and keeps the faster."""
        torch = importlib.import_module("torch")
        seconds = {}
        for threads in {1, len(os.sched_getaffinity(0))}:
            torch.set_num_threads(threads)
            run()
            samples = []
            for _ in range(3):
                time.sleep(0.02)  # the previous sample's threads fall asleep
                start = time.perf_counter()
                run()
                samples.append(time.perf_counter() - start)
            seconds[threads] = statistics.median(samples)
        self._faster[work] = min(seconds, key=lambda threads: seconds[threads])

    @contextlib.contextmanager
    def of(self, work: Any) -> Iterator[None]:
        """Sets the number of threads of a kind of work within a context."""
        torch = importlib.import_module("torch")
        before = torch.get_num_threads()
        torch.set_num_threads(self._faster.get(work, before))
        try:
            yield
        finally:
            torch.set_num_threads(before)


def some_batches(ordered: Sequence[Any], size: int) -> list[Sequence[Any]]:
    """Returns three evenly spread batches of items sorted by length."""
    starts = range(0, len(ordered), size)
    chosen = starts[len(starts) // 6 :: max(1, len(starts) // 3)][:3]
    return [ordered[start : start + size] for start in chosen]


class TorchPeer:
    """What both PyTorch rivals do; a subclass takes steps and tags."""

    batch: int  # sentences, if the caller gives no number
    net: Any
    ordered: Sequence[Any]  # the training sentences by length

    def __init__(self, net: Any, ordered: Sequence[Any]):
        self.net, self.ordered = net, ordered
        self.random, self.threads = random.Random(0), Threads()

    def step(self, chosen: Sequence[Any]) -> None:
        """Takes a training step."""
        raise NotImplementedError

    def tag(self, sentences: Sequence[Any], batch: int | None = None) -> list[Any]:
        """Labels sentences."""
        raise NotImplementedError

    def tune(self, batch: int | None, sentences: Sequence[Any] | None = None) -> None:
        """Chooses the number of threads; for training without `sentences`."""
        size = batch or self.batch
        if sentences is None:
            self.net.train()
            some = some_batches(self.ordered, size)
            self.threads.choose(("epoch", size), lambda: [*map(self.step, some)])
        else:
            some = some_batches(sorted(sentences, key=len), size)
            run = lambda: [self.tag(text, size) for text in some]  # noqa: E731
            self.threads.choose(("tag", size), run)

    def epoch(self, batch: int) -> None:
        """Trains on each sentence once."""
        self.net.train()
        starts = list(range(0, len(self.ordered), batch))
        self.random.shuffle(starts)
        with self.threads.of(("epoch", batch)):
            for start in starts:
                self.step(self.ordered[start : start + batch])


class PyTorch(TorchPeer):
    """A BiLSTM-CRF: words of 100, 30 filters over characters, LSTM of 200 a direction.

    Packing about doubles the LSTM's time on a CPU, so only batches of different lengths
    are packed.
    """

    batch = 128

    def __init__(self, train: Sentences):
        self.torch: Any = importlib.import_module("torch")
        self.rnn: Any = importlib.import_module("torch.nn.utils.rnn")
        crf: Any = importlib.import_module("torchcrf")
        nn = self.torch.nn
        words = sorted({token.lower() for tokens, _ in train for token in tokens})
        chars = sorted({c for tokens, _ in train for token in tokens for c in token})
        self.labels = sorted({label for _, labels in train for label in labels})
        # 0 is padding, 1 unknown.
        self.word_ids = {word: i for i, word in enumerate(words, 2)}
        self.char_ids = {char: i for i, char in enumerate(chars, 2)}
        self.torch.manual_seed(0)
        self.net = nn.ModuleDict(
            {
                "words": nn.Embedding(len(words) + 2, 100, padding_idx=0),
                "chars": nn.Embedding(len(chars) + 2, 30, padding_idx=0),
                "filters": nn.Conv1d(30, 30, kernel_size=3, padding=1),
                "dropout": nn.Dropout(0.5),
                "lstm": nn.LSTM(130, 200, bidirectional=True, batch_first=True),
                "emissions": nn.Linear(400, len(self.labels)),
                "crf": crf.CRF(len(self.labels), batch_first=True),
            }
        )
        self.optimizer = self.torch.optim.SGD(
            self.net.parameters(), lr=0.02, momentum=0.9
        )
        encoded = sorted(map(self._encode, train), key=lambda s: len(s[0]))
        super().__init__(self.net, encoded)

    def _encode(self, sentence: tuple[Sequence[str], Sequence[str]]) -> Any:
        tokens, labels = sentence
        return (
            [self.word_ids.get(token.lower(), 1) for token in tokens],
            [[self.char_ids.get(char, 1) for char in token] for token in tokens],
            [self.labels.index(label) for label in labels],
        )

    def _emissions(self, encoded: Sequence[Any]) -> tuple[Any, Any, Any]:
        """Returns emissions [B, T, L], labels and mask [B, T] of a padded batch."""
        torch, net = self.torch, self.net
        lengths = torch.tensor([len(words) for words, _, _ in encoded])
        count, length = len(encoded), int(lengths.max())
        width = max(len(word) for _, chars, _ in encoded for word in chars)
        words = torch.zeros((count, length), dtype=torch.long)
        labels = torch.zeros((count, length), dtype=torch.long)
        rows = [
            word + [0] * (width - len(word))
            for _, chars, _ in encoded
            for word in chars + [[]] * (length - len(chars))
        ]
        for i, (word_ids, _, label_ids) in enumerate(encoded):
            words[i, : len(word_ids)] = torch.tensor(word_ids)
            labels[i, : len(label_ids)] = torch.tensor(label_ids, dtype=torch.long)
        chars = torch.tensor(rows)  # [B · T, C]
        filtered = net["filters"](net["chars"](chars).transpose(1, 2))
        filtered = filtered.masked_fill((chars == 0)[:, None], -1e4).amax(dim=2)
        features = [net["words"](words), filtered.reshape(count, length, 30)]
        x = net["dropout"](torch.cat(features, dim=2))
        if int(lengths.min()) < length:
            packed = self.rnn.pack_padded_sequence(
                x, lengths, batch_first=True, enforce_sorted=False
            )
            hidden, _ = self.rnn.pad_packed_sequence(
                net["lstm"](packed)[0], batch_first=True, total_length=length
            )
        else:
            hidden, _ = net["lstm"](x)
        mask = torch.arange(length)[None] < lengths[:, None]
        return net["emissions"](net["dropout"](hidden)), labels, mask

    def step(self, chosen: Sequence[Any]) -> None:
        """Takes a training step."""
        self.optimizer.zero_grad()
        emissions, labels, mask = self._emissions(chosen)
        loss = -self.net["crf"](emissions, labels, mask, reduction="mean")
        loss.backward()
        self.torch.nn.utils.clip_grad_norm_(self.net.parameters(), 5.0)
        self.optimizer.step()

    def tag(self, sentences: Sequence[Any], batch: int | None = None) -> list[Any]:
        """Labels sentences, sorted by length; 128 a batch by default."""
        self.net.eval()
        size = batch or self.batch
        order = sorted(range(len(sentences)), key=lambda i: len(sentences[i]))
        labels: list[list[str]] = [[] for _ in sentences]
        with self.torch.inference_mode(), self.threads.of(("tag", size)):
            for start in range(0, len(order), size):
                chosen = order[start : start + size]
                encoded = [self._encode((sentences[i], ())) for i in chosen]
                emissions, _, mask = self._emissions(encoded)
                paths = self.net["crf"].decode(emissions, mask)
                for i, path in zip(chosen, paths, strict=True):
                    labels[i] = [self.labels[label] for label in path]
        return labels


class Flair(TorchPeer):
    """Flair's SequenceTagger."""

    batch = 32

    def __init__(self, train: Sentences):
        self.torch: Any = importlib.import_module("torch")
        self.data: Any = importlib.import_module("flair.data")
        self.utils: Any = importlib.import_module("flair.training_utils")
        embeddings: Any = importlib.import_module("flair.embeddings")
        models: Any = importlib.import_module("flair.models")
        self.torch.manual_seed(0)
        words = sorted({token for tokens, _ in train for token in tokens})
        by_word = embeddings.WordEmbeddings(
            None,
            vocab={word: i for i, word in enumerate(words)},
            embedding_length=100,
            fine_tune=True,
            name="words",
        )
        self.torch.nn.init.xavier_uniform_(by_word.embedding.weight)  # all zero before
        chars = self.data.Dictionary(add_unk=True)
        for char in sorted({c for word in words for c in word}):
            chars.add_item(char)
        types = self.data.Dictionary(add_unk=False)
        for name in sorted({x[2:] for _, labels in train for x in labels} - {""}):
            types.add_item(name)
        types.span_labels = True
        self.net = models.SequenceTagger(
            embeddings=embeddings.StackedEmbeddings(
                [by_word, embeddings.CharacterEmbeddings(chars)]
            ),
            tag_dictionary=types,
            tag_type="ner",
            hidden_size=200,
            use_crf=True,
        )
        self.optimizer = self.torch.optim.SGD(self.net.parameters(), lr=0.1)
        super().__init__(self.net, sorted(map(self._sentence, train), key=len))

    def _sentence(self, example: tuple[Sequence[str], Sequence[str]]) -> Any:
        sentence, start = self.data.Sentence(list(example[0])), 0
        for i, label in enumerate(example[1]):
            if label[0] in "BS":
                start = i
            if label[0] in "ES":
                sentence[start : i + 1].add_label("ner", label[2:])
        return sentence

    def step(self, chosen: Sequence[Any]) -> None:
        """Takes a training step."""
        self.optimizer.zero_grad()
        loss, count = self.net.forward_loss(chosen)
        (loss / count).backward()
        self.torch.nn.utils.clip_grad_norm_(self.net.parameters(), 5.0)
        self.optimizer.step()
        self.utils.store_embeddings(chosen, "none")

    def tag(self, sentences: Sequence[Any], batch: int | None = None) -> list[Any]:
        """Labels sentences; 32 a batch by default."""
        self.net.eval()
        size = batch or self.batch
        tagged = [self.data.Sentence(list(tokens)) for tokens in sentences]
        with self.threads.of(("tag", size)):
            self.net.predict(tagged, mini_batch_size=size, force_token_predictions=True)
        return [[t.get_label("ner", "O").value for t in s] for s in tagged]


class SpaCy:
    """spaCy's NER, with the given tokens; batches need no padding."""

    def __init__(self, train: Sentences):
        spacy: Any = importlib.import_module("spacy")
        self.tokens: Any = importlib.import_module("spacy.tokens")
        training: Any = importlib.import_module("spacy.training")
        spacy.util.fix_random_seed(0)
        self.nlp = spacy.blank("en")
        recogniser = self.nlp.add_pipe("ner")
        for name in sorted({x[2:] for _, labels in train for x in labels} - {""}):
            recogniser.add_label(name)
        bio = str.maketrans("ES", "IB")
        self.examples = []
        for tokens, labels in train:
            words = list(tokens)
            entities = [label[0].translate(bio) + label[1:] for label in labels]
            reference = self.tokens.Doc(self.nlp.vocab, words=words, ents=entities)
            predicted = self.tokens.Doc(self.nlp.vocab, words=words)
            self.examples.append(training.Example(predicted, reference))
        self.optimizer = self.nlp.initialize(lambda: self.examples)
        self.random = random.Random(0)

    def tune(self, batch: int | None, sentences: Sequence[Any] | None = None) -> None:
        """Does nothing: spaCy has no such settings."""

    def epoch(self, batch: int) -> None:
        """Trains on each sentence once."""
        self.random.shuffle(self.examples)
        for start in range(0, len(self.examples), batch):
            chosen = self.examples[start : start + batch]
            self.nlp.update(chosen, sgd=self.optimizer, drop=0.5)

    def tag(self, sentences: Sequence[Any], batch: int | None = None) -> list[Any]:
        """Labels sentences; None for spaCy's own batch size."""
        docs = (self.tokens.Doc(self.nlp.vocab, words=list(s)) for s in sentences)
        return [
            [f"{t.ent_iob_}-{t.ent_type_}" if t.ent_type_ else "O" for t in doc]
            for doc in self.nlp.pipe(docs, batch_size=batch)
        ]


KINDS: dict[str, Any] = {"PyTorch": PyTorch, "Flair": Flair, "spaCy": SpaCy}
NAMES = tuple(KINDS)


def build(
    names: Iterable[str], train: Sentences, log: Callable[[str], object]
) -> dict[str, Any]:
    """Returns the installed peers for a training corpus; reports the others."""
    built = {}
    for name in names:
        try:
            built[name] = KINDS[name](train)
        except ImportError as error:
            log(f"Skipped {name}: {error}. pip install -e '.[benchmarks]'")
    return built
