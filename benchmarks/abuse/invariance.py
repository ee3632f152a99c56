"""Checks that batch mates, order and padding change no score, for every system."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np

from jaxner import batched, models, tagging
from jaxner.configuration import shipped
from jaxner.data import corpora, padding, shapes, vocab, wordpiece
from jaxner.types import batch_axes

SYSTEMS = {
    "GRN": "grn:sample",
    "ID-CNN": "idcnn:sample",
    "ID-CNN-CRF": "idcnn:sample,crf",
    "Bi-LSTM-CRF": "bilstm:sample,crf",
    "Parallel RNN": "parallel_rnn:sample",
    "CNN-BiLSTM-CRF": "cnn_bilstm_crf:sample",
    "NCRF++ softmax": "ncrfpp:sample",
    "NCRF++ CRF": "ncrfpp:sample,crf",
    "NCRF++ IntNet": "ncrfpp:sample,chars=intnet",
    "Seq2seq": "seq2seq:sample",
    "LAN": "lan:sample",
    "UANet": "uanet:sample",
    "Att-BiLSTM-CNN": "cross_bilstm:sample",
    "Cross-BiLSTM-CNN": "cross_bilstm:sample,model=cross",
    "Softmax per direction": "cross_bilstm:sample,model=direction",
    "Transformer": "uanet:sample,model=transformer",
    "BERT-CRF": "bert:sample,model=crf",
    "BERT-UANet": "bert:sample,model=uanet",
}
"""A system for each encoder, head and kind of character features."""
BERT = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "max_position_embeddings": 48,  # pieces: longer sentences need several windows
}
"""Attributes of a small BERT with drawn weights: its published ones are not needed."""
_SENTENCES = 200
_WIDER = 13  # tokens of padding behind the longest sentence


def measure(
    systems: list[str], dataset: str, seed: int
) -> tuple[str, list[dict[str, Any]]]:
    """Scores sentences in four ways; returns a title and the rows of a table."""
    split = corpora.load(dataset, "test")
    examples = [e for e in split.examples if e.tokens][:_SENTENCES]
    rows = []
    for name in systems:
        tagger = _tagger(SYSTEMS[name], examples, split.types(), seed)
        rows.append({"system": name, **differences(tagger, examples, seed)})
    title = f"invariance: {len(examples)} sentences of {split.name}, nats"
    return title, rows


def _tagger(text: str, examples: Any, types: Any, seed: int) -> tagging.Tagger:
    """Draws a tagger of a system's own size, for the words of some sentences."""
    config = shipped.load(text)
    tokens = [example.tokens for example in examples]
    options = {name: config.data[name] for name in ("lowercase", "zero_digits")}
    scheme = config.data.scheme
    vocabulary, _ = vocab.build(tokens, types, scheme=scheme, **options)
    if config.model.representation.get("bert") is not None:
        vocabulary = _with_pieces(vocabulary, tokens)
    model = tagging.build_model(vocabulary, config.model.to_dict())
    weights = models.init(model, jax.random.key(seed))
    # Wider than at first: so that scores differ from label to label.
    keys = iter(jax.random.split(jax.random.key(seed + 1), 10_000))
    wide = jax.tree.map(
        lambda leaf: leaf + 0.1 * jax.random.normal(next(keys), leaf.shape), weights
    )
    return tagging.Tagger(wide, model, vocabulary)


def _with_pieces(vocabulary: vocab.Vocabulary, tokens: Any) -> vocab.Vocabulary:
    """Adds a small BERT, whose pieces are the characters and the shorter words."""
    words = {token for sentence in tokens for token in sentence}
    chars = set("".join(words))
    made = {f"##{char}" for char in chars} | chars | {w for w in words if len(w) < 5}
    pieces = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", *sorted(made))
    cut = wordpiece.WordPiece(pieces, BERT["max_position_embeddings"])
    sizes = {**BERT, "vocab_size": len(pieces)}
    own = {"pieces": cut, "encoder_sizes": tuple(sorted(sizes.items()))}
    return dataclasses.replace(vocabulary, **own)


def differences(tagger: tagging.Tagger, examples: Any, seed: int) -> dict[str, Any]:
    """Returns the largest differences from the scores of each sentence alone."""
    sentences = [tagger.vocabulary.encode(list(e.tokens)) for e in examples]
    passes = tagger.model.mc_dropout.num_samples

    @jax.jit
    def scores(weights, batch):
        def one(sentence):
            found: Any = models.predict(tagger.model, weights, sentence)
            return found.emissions if hasattr(found, "emissions") else found.words

        return jax.vmap(one, in_axes=(batch_axes(batch),))(batch)

    def over(some):
        compute = lambda batch: scores(tagger.weights, batch)  # noqa: E731
        return batched.over_documents(tagger, compute, some, None, passes)

    alone = [over([sentence])[0] for sentence in sentences]
    order = np.random.default_rng(seed).permutation(len(sentences))
    shuffled = over([sentences[i] for i in order])
    longest = max(len(s.words) for s in sentences) + _WIDER
    widest = max(s.chars.shape[1] for s in sentences) + _WIDER
    words = 1 + sum(len(s.chars) for s in sentences)
    part = 32  # rows of a batch, so that it fits into memory
    padded = []
    for start in range(0, len(sentences), part):
        here = sentences[start : start + part]
        shape = shapes.Shape(longest, min(words, part * longest + 1), widest)
        found = np.asarray(scores(tagger.weights, padding.pad(here, shape, part)))
        padded += [row[: len(s.words)] for row, s in zip(found, here, strict=False)]
    ways = {
        "in batches": over(sentences),
        "shuffled": [shuffled[i] for i in np.argsort(order)],
        "padded": padded,
    }
    largest = {name: _largest(alone, found) for name, found in ways.items()}
    scale = max(float(np.abs(row).max()) for row in alone)
    wrong = sum(value > 1e-5 * max(scale, 1.0) for value in largest.values())
    return {**largest, "largest score": scale, "wrong": wrong}


def _largest(alone: Any, found: Any) -> float:
    pairs = zip(alone, found, strict=True)
    return max(float(np.abs(one - other).max()) for one, other in pairs)
