"""Other taggers behind one small interface, for the benchmarks only.

As a program, it trains spaCy's own pipeline as its users do; see `reproduce.own`.

PyTorch   a BiLSTM-CRF with pytorch-crf, written like a careful tutorial, with the sizes
          of `configs/cnn_bilstm_crf.py`
spaCy     a blank English pipeline with `ner` and its default HashEmbedCNN

PyTorch trains on batches of similar length, its fastest form, on a GPU if there is one,
else with one thread or all, whichever is faster.
"""

import argparse
import functools
import importlib
import json
import os
import random
import timeit
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

Sentences = Sequence[tuple[Sequence[str], Sequence[str]]]
"""Tokens, and labels in BIOES."""


def with_best_threads(run: Callable[[], Any]) -> Callable[[], Any]:
    """Returns a run that has, without a GPU, the faster of one thread and all."""
    torch: Any = importlib.import_module("torch")
    if torch.cuda.is_available():
        return run

    def seconds(threads: int) -> float:
        torch.set_num_threads(threads)
        return min(timeit.repeat(run, number=1, repeat=3))

    best = min({1, len(os.sched_getaffinity(0))}, key=seconds)
    return lambda: torch.set_num_threads(best) or run()


class PyTorch:
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
        parts = {
            "words": nn.Embedding(len(words) + 2, 100, padding_idx=0),
            "chars": nn.Embedding(len(chars) + 2, 30, padding_idx=0),
            "filters": nn.Conv1d(30, 30, kernel_size=3, padding=1),
            "dropout": nn.Dropout(0.5),
            "lstm": nn.LSTM(130, 200, bidirectional=True, batch_first=True),
            "emissions": nn.Linear(400, len(self.labels)),
            "crf": crf.CRF(len(self.labels), batch_first=True),
        }
        self.device = "cuda" if self.torch.cuda.is_available() else "cpu"
        self.net = nn.ModuleDict(parts).to(self.device)
        rates = {"lr": 0.02, "momentum": 0.9}
        self.optimizer = self.torch.optim.SGD(self.net.parameters(), **rates)
        self.examples = sorted(map(self._encode, train), key=lambda s: len(s[0]))

    def _encode(self, sentence: tuple[Sequence[str], Sequence[str]]) -> Any:
        tokens, labels = sentence
        return (
            [self.word_ids.get(token.lower(), 1) for token in tokens],
            [[self.char_ids.get(char, 1) for char in token] for token in tokens],
            [self.labels.index(label) for label in labels],
        )

    def _emissions(self, items: Sequence[Any]) -> tuple[Any, Any, Any]:
        """Returns emissions [B, T, L], labels and mask [B, T] of a padded batch."""
        torch, net = self.torch, self.net
        lengths = torch.tensor([len(words) for words, _, _ in items])
        count, length = len(items), int(lengths.max())
        width = max(len(word) for _, chars, _ in items for word in chars)
        words, labels = (
            self.rnn.pad_sequence([torch.tensor(s[i]) for s in items], True)
            for i in (0, 2)
        )
        rows = [
            word + [0] * (width - len(word))
            for _, chars, _ in items
            for word in chars + [[]] * (length - len(chars))
        ]
        mask = torch.arange(length)[None] < lengths[:, None]
        tensors = words, torch.tensor(rows), labels, mask  # rows: [B · T, C]
        words, chars, labels, mask = (x.to(self.device) for x in tensors)
        maxima = net["filters"](net["chars"](chars).transpose(1, 2))
        maxima = maxima.masked_fill((chars == 0)[:, None], -1e4).amax(dim=2)
        features = [net["words"](words), maxima.reshape(count, length, 30)]
        x = net["dropout"](torch.cat(features, dim=2))
        if int(lengths.min()) < length:
            pack, unpack = self.rnn.pack_padded_sequence, self.rnn.pad_packed_sequence
            sequence = pack(x, lengths, batch_first=True, enforce_sorted=False)
            outputs, _ = net["lstm"](sequence)
            hidden, _ = unpack(outputs, batch_first=True, total_length=length)
        else:
            hidden, _ = net["lstm"](x)
        return net["emissions"](net["dropout"](hidden)), labels, mask

    def epoch(self, batch: int) -> None:
        """Trains on each sentence once."""
        clip = importlib.import_module("torch.nn.utils").clip_grad_norm_
        self.net.train()
        starts = list(range(0, len(self.examples), batch))
        random.shuffle(starts)
        for start in starts:
            self.optimizer.zero_grad()
            members = self.examples[start : start + batch]
            emissions, labels, mask = self._emissions(members)
            loss = -self.net["crf"](emissions, labels, mask, reduction="mean")
            loss.backward()
            clip(self.net.parameters(), 5.0)
            self.optimizer.step()
        next(self.net.parameters()).sum().item()  # waits for a GPU

    def tag(self, sentences: Sequence[Any], batch: int) -> list[Any]:
        """Labels sentences, sorted by length."""
        self.net.eval()
        order = sorted(range(len(sentences)), key=lambda i: len(sentences[i]))
        labels: list[list[str]] = [[] for _ in sentences]
        with self.torch.inference_mode():
            for start in range(0, len(order), batch):
                members = order[start : start + batch]
                rows = [self._encode((sentences[i], ())) for i in members]
                emissions, _, mask = self._emissions(rows)
                paths = self.net["crf"].decode(emissions, mask)
                for i, path in zip(members, paths, strict=True):
                    labels[i] = [self.labels[label] for label in path]
        return labels


class SpaCy:
    """spaCy's NER, with the given tokens; batches need no padding."""

    batch = 1000  # spaCy's own

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

    def epoch(self, batch: int) -> None:
        """Trains on each sentence once."""
        random.shuffle(self.examples)
        for start in range(0, len(self.examples), batch):
            members = self.examples[start : start + batch]
            self.nlp.update(members, sgd=self.optimizer, drop=0.5)

    def tag(self, sentences: Sequence[Any], batch: int) -> list[Any]:
        """Labels sentences."""
        docs = (self.tokens.Doc(self.nlp.vocab, words=list(s)) for s in sentences)
        return [
            [f"{t.ent_iob_}-{t.ent_type_}" if t.ent_type_ else "O" for t in doc]
            for doc in self.nlp.pipe(docs, batch_size=batch)
        ]


def train_spacy(
    data: Path, output: Path, seed: int, kind: str, vectors: str | None
) -> dict[str, dict[str, float]]:
    """Trains spaCy's default pipeline for a CPU until its own early stop.

    `data` has JSON lines with tokens and labels. `kind` is "tagger", or "ner" for
    labels in BIO. Returns accuracy or F1 of dev and test, in percent.
    """
    spacy: Any = importlib.import_module("spacy")
    tokens: Any = importlib.import_module("spacy.tokens")
    training: Any = importlib.import_module("spacy.training")
    commands: Any = importlib.import_module("spacy.cli")
    nlp, examples = spacy.blank("en"), {}
    labels = "tags" if kind == "tagger" else "ents"
    for split in ("train", "dev", "test"):
        lines = (data / f"{split}.jsonl").read_text("utf-8").splitlines()
        docs = [
            tokens.Doc(nlp.vocab, words=row["tokens"], **{labels: row["labels"]})
            for row in map(json.loads, lines)
        ]
        examples[split] = [
            training.Example(tokens.Doc(nlp.vocab, words=[t.text for t in doc]), doc)
            for doc in docs
        ]
        tokens.DocBin(docs=docs).to_disk(output / f"{split}.spacy")
    start: Any = importlib.import_module("spacy.cli.init_config").init_config
    config = start(lang="en", pipeline=[kind], optimize="efficiency", silent=True)
    config["paths"] |= {x: str(output / f"{x}.spacy") for x in ("train", "dev")}
    config["system"]["seed"] = seed
    if vectors:
        training.initialize.convert_vectors(nlp, Path(vectors), truncate=0, prune=-1)
        nlp.to_disk(output / "vectors")
        config["paths"]["vectors"] = str(output / "vectors")
        embed = config["components"]["tok2vec"]["model"]["embed"]
        embed["include_static_vectors"] = True
    config.to_disk(output / "config.cfg")
    commands.train.train(output / "config.cfg", output / "pipeline")
    best = spacy.load(output / "pipeline" / "model-best")
    name, key = ("accuracy", "tag_acc") if kind == "tagger" else ("f1", "ents_f")
    splits = ("dev", "test")
    return {x: {name: 100 * best.evaluate(examples[x])[key]} for x in splits}


KINDS: dict[str, Any] = {"PyTorch": PyTorch, "spaCy": SpaCy}


def build(names: Iterable[str], train: Sentences) -> dict[str, Any]:
    """Returns the installed peers for a training corpus; prints the others."""
    peers = {}
    for name in names:
        try:
            peers[name] = KINDS[name](train)
        except ImportError as error:
            print(f"Skipped {name}: {error}. pip install -e '.[benchmarks]'")
    return peers


def runs(peers: dict[str, Any], batch: int, text: Any = None) -> dict[str, Any]:
    """Returns a run of each peer: of an epoch, or of tagging the sentences of a text.

    Tagging in batches of 0 sentences is in those of the peer's own size.
    """
    tasks: dict[str, Any] = {}
    for name, peer in peers.items():
        tasks[name] = functools.partial(peer.epoch, batch)
        if text is not None:
            tasks[name] = functools.partial(peer.tag, text, batch or peer.batch)
        if isinstance(peer, PyTorch):
            tasks[name] = with_best_threads(tasks[name])
    return tasks


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--config.seed", dest="seed", type=int)
    parser.add_argument("--config.data.dir", dest="data", type=Path)
    parser.add_argument("--config.data.scheme", dest="scheme", default="")
    parser.add_argument("--config.data.vectors", dest="vectors")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    kind = "tagger" if options.scheme == "tags" else "ner"
    of_run = options.data, options.output, options.seed, kind, options.vectors
    (options.output / "result.json").write_text(json.dumps(train_spacy(*of_run)))
