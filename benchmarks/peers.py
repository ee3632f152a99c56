"""Other taggers behind one small interface, for the benchmarks only.

As a program, it trains spaCy's own pipeline as its users do; see `reproduce.own`.

PyTorch   a BiLSTM-CRF with pytorch-crf, written like a careful tutorial, with the sizes
          of `configs/cnn_bilstm_crf.py`
spaCy     a blank English pipeline with `ner` and its default HashEmbedCNN

PyTorch trains on batches of similar length, its fastest form, on a GPU if there is one,
else with one thread or all, whichever is faster.
"""

import functools
import importlib
import json
import os
import random
import sys
import timeit
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import worker

Sentences = Sequence[tuple[Sequence[str], Sequence[str]]]
"""Tokens, and labels in BIOES."""


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
        bilou = str.maketrans("ES", "LU")
        self.examples = []
        for tokens, labels in train:
            doc = self.tokens.Doc(self.nlp.vocab, words=list(tokens))
            entities = [label[0].translate(bilou) + label[1:] for label in labels]
            example = training.Example.from_dict(doc, {"entities": entities})
            self.examples.append(example)
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


def train_spacy(options: Mapping[str, str]) -> None:
    """Trains spaCy's default pipeline for a CPU until its own early stop.

    `options` are flags of `jaxner train`: the data are JSON lines with tokens, and tags
    or labels in BIO. Writes accuracy or F1 of dev and test, in percent, as a run does.
    """
    spacy: Any = importlib.import_module("spacy")
    tokens: Any = importlib.import_module("spacy.tokens")
    training: Any = importlib.import_module("spacy.training")
    cli: Any = importlib.import_module("spacy.cli")
    kind, labels, figure, key = "ner", "ents", "f1", "ents_f"
    if options.get("config.data.scheme") == "tags":
        kind, labels, figure, key = "tagger", "tags", "accuracy", "tag_acc"
    nlp, output = spacy.blank("en"), Path(options["output"])
    files = {x: output / f"{x}.spacy" for x in ("train", "dev", "test")}
    for split, file in files.items():
        text = Path(options["config.data.dir"], f"{split}.jsonl").read_text("utf-8")
        rows = map(json.loads, text.splitlines())
        pairs = ({"words": row["tokens"], labels: row["labels"]} for row in rows)
        docs = (tokens.Doc(nlp.vocab, **pair) for pair in pairs)
        tokens.DocBin(docs=docs).to_disk(file)
    config = cli.init_config(
        lang="en", pipeline=[kind], optimize="efficiency", silent=True
    )
    config["paths"] |= {x: str(files[x]) for x in ("train", "dev")}
    config["system"]["seed"] = int(options["config.seed"])
    if vectors := options.get("config.data.vectors"):
        training.initialize.convert_vectors(nlp, Path(vectors), truncate=0, prune=-1)
        nlp.to_disk(output / "vectors")
        config["paths"]["vectors"] = str(output / "vectors")
        embed = config["components"]["tok2vec"]["model"]["embed"]
        embed["include_static_vectors"] = True
    config.to_disk(output / "config.cfg")
    cli.train.train(output / "config.cfg", output / "pipeline")
    best, result = output / "pipeline" / "model-best", {}
    for split in ("dev", "test"):
        result[split] = {figure: 100 * cli.evaluate(best, files[split])[key]}
    (output / "result.json").write_text(json.dumps(result))


PACKAGES = {"PyTorch": "torchcrf", "spaCy": "spacy"}
"""What each peer needs."""


def rival(turn: Callable[[float], None], task: Any) -> None:
    """Trains for an epoch in each turn or, with a second text, tags that.

    The first turn builds the peer, too. Tagging in batches of 0 sentences is in those
    of the peer's own size.
    """
    (train, *texts), batch = task["texts"], task["batch"]
    peer: Any = (PyTorch if task["name"] == "PyTorch" else SpaCy)(train)
    run = functools.partial(peer.epoch, batch)
    if texts:
        peer.epoch(32)
        sentences = [tokens for tokens, _ in texts[0]]
        run = functools.partial(peer.tag, sentences, batch or peer.batch)

    def seconds(threads: int) -> float:
        peer.torch.set_num_threads(threads)
        return min(timeit.repeat(run, number=1, repeat=3))

    if isinstance(peer, PyTorch):
        best = min({1, len(os.sched_getaffinity(0))}, key=seconds)
        peer.torch.set_num_threads(best)
    while True:
        run()
        turn(0.0)


if __name__ == "__main__":
    if sys.argv[1] in ("train", "tag"):
        worker.main(train=rival, tag=rival)
    train_spacy(dict(word.lstrip("-").split("=", 1) for word in sys.argv[1:]))
