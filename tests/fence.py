"""What the fence (`test_fence.py`) asks of the library, in one place.

The golden files hold what the library did before it was rebuilt. Whoever moves an
internal changes how it is reached here, never what is compared.
"""

import importlib
import json
import shutil
from pathlib import Path

import jax
import numpy as np
import pytest

import jaxner
from jaxner.models.model import named
from tests.golden import make_encoders
from tests.marks import slow

GOLDEN = Path(__file__).with_name("golden")
RUNS = GOLDEN / "saved"
SYSTEMS, ANSWERS, DOORS = (
    json.loads((GOLDEN / f"{name}.json").read_text("utf-8"))
    for name in ("systems", "answers", "doors")
)
CORPUS = {"train": 6, "dev": 2}
NAMES = sorted(path.stem for path in RUNS.glob("*.zip"))
CASES = ["grn", *slow(*(name for name in NAMES if name != "grn"))]
BERT_LENGTH = 24  # pieces in a window, so few that some sentences need several


def sentences(split, directory=None):
    """Returns tokens and labels of a split of the embedded corpus, or of a folder."""
    from jaxner.data import corpora

    name = "sample" if directory is None else None
    examples = corpora.load(name, split, directory=directory).examples
    return [(list(e.tokens), list(e.labels)) for e in examples]


def write_corpus(folder, sizes, document=3):
    """Writes the first sentences of each split; a document has `document` of them."""
    from jaxner.data import formats

    folder.mkdir(parents=True)
    for split, size in sizes.items():
        rows = [zip(*pair, strict=True) for pair in sentences(split)[:size]]
        numbers = [1 + i // document for i in range(size)]
        formats.write_columns(folder / f"{split}.conll", rows, documents=numbers)
    return folder


def write_inputs(corpus, folder, dim):
    """Writes what configs read beside the corpus: vectors, ELMo's vectors, a BERT."""

    from jaxner.data.vectors import write_contextual

    folder.mkdir(parents=True)
    splits = [p.stem for p in sorted(corpus.glob("*.conll"))]
    text = {s: [tokens for tokens, _ in sentences(s, corpus)] for s in splits}
    rng = np.random.default_rng(0)
    words = sorted({token for s in text.values() for tokens in s for token in tokens})
    rows = rng.normal(size=(len(words), dim)).round(3)
    lines = [" ".join([w, *map(str, row)]) for w, row in zip(words, rows, strict=True)]
    part = [line for i, line in enumerate(lines) if i % 4]
    (folder / "vectors.txt").write_text("\n".join(part) + "\n", "utf-8")
    for split, tokens in text.items():
        arrays = [rng.normal(size=(3, len(t), 5)).astype(np.float32) for t in tokens]
        write_contextual(folder / f"{split}.npz", arrays, tokens)
    letters = sorted({letter for word in words for letter in word})
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *letters]
    pieces += [f"##{letter}" for letter in letters]
    sizes = {"vocab_size": len(pieces), "max_position_embeddings": BERT_LENGTH}
    sizes |= {"model_type": "bert", "type_vocab_size": 2, "num_hidden_layers": 1}
    config = make_encoders.SMALL | sizes
    weights = make_encoders.tensors(shapes_of_bert(config), scale=0.6)
    bert = make_encoders.write(folder / "bert", config, weights)
    (bert / "vocab.txt").write_text("\n".join(pieces) + "\n", "utf-8")
    return folder


def shapes_of_bert(config):
    """The name and shape of each tensor of one layer, as in a Hugging Face file."""
    size, wide = config["hidden_size"], config["intermediate_size"]
    tables = {
        "word": config["vocab_size"],
        "position": config["max_position_embeddings"],
        "token_type": config["type_vocab_size"],
    }
    names = "self.query", "self.key", "self.value", "output.dense"
    layer = {f"attention.{name}": (size, size) for name in names}
    layer |= {"attention.output.LayerNorm": (size,)}
    layer |= {"intermediate.dense": (wide, size), "output.dense": (size, wide)}
    layer |= {"output.LayerNorm": (size,)}
    parts = {"embeddings.LayerNorm": (size,)}
    parts |= {f"encoder.layer.0.{name}": shape for name, shape in layer.items()}
    shapes = {f"embeddings.{x}_embeddings.weight": (n, size) for x, n in tables.items()}
    for name, shape in parts.items():
        shapes |= {f"{name}.weight": shape, f"{name}.bias": shape[:1]}
    return shapes


def config_of(system):
    """Returns the config of, say, `grn.py:conll2003,context=none`."""
    name, _, arg = system.partition(":")
    module = importlib.import_module(f"configs.{name.removesuffix('.py')}")
    return module.get_config(arg)


def small(system, corpus, inputs):
    """Returns a config that trains three epochs on a small corpus."""
    config = config_of(system)
    config.num_epochs = 3
    config.data.dir = str(corpus)
    config.data.num_shapes = 1
    config.data.min_count = 1
    # Each block draws masks of characters of its own: these had the stored losses.
    config.batch_size, config.num_blocks = 8, config.num_blocks or 2
    if config.data.vectors:
        config.data.vectors = str(inputs / "vectors.txt")
    if config.model.representation.get("bert") is not None:
        config.data.pretrained = str(inputs / "bert")
    if config.data.contextual:
        config.data.contextual = str(inputs / "{split}.npz")
    return config


def untrained(config):
    """Returns the shapes that a run's weights begin with; nothing is compiled."""
    from jaxner.training import corpus

    corpus.fit_width(config)
    words = config.model.representation.words
    options, dim = config.data.to_dict(), words and words.dim
    vocabulary = corpus.load_data(options, word_dim=dim, log=print).vocabulary
    model = jaxner.build(vocabulary, **config.model.to_dict())
    return jax.eval_shape(lambda key: jaxner.init(model, key), jax.random.key(0))


def shapes(weights):
    """Returns the shape of each array of weights, by name."""
    return {name: list(leaf.shape) for name, leaf in named(weights).items()}


def texts():
    """Returns the sentences that stored runs are asked about: short, of few shapes."""
    return [tokens for tokens, _ in sentences("test")[:8]]


def unpack(name, folder):
    """Unpacks a stored run."""
    shutil.unpack_archive(RUNS / f"{name}.zip", folder)
    return folder


def answers(tagger, texts, vectors=None, archive=None):
    """Returns what a tagger says about sentences, as JSON values.

    The tagger of an `archive` decodes in one way only.
    """
    options = {} if vectors is None else {"vectors": vectors}
    says = archive or tagger
    record = {"labels": [" ".join(s) for s in says.tag(texts, **options)]}
    if not archive:
        strict = tagger.tag(texts, constrained=True, **options)
        record["strict"] = [" ".join(s) for s in strict]
    if type(tagger.model.head).__name__ == "Seq2seqHead":
        return record
    record["entities"] = [
        [[e.start, e.end, e.type, _rounded(e.probability)] for e in entities]
        for entities in says.entities(texts, **options)
    ]
    marginals = map(np.asarray, says.marginals(texts, **options))
    record["marginals"] = [[*map(_rounded, rows.max(axis=1))] for rows in marginals]
    if tagger.model.mc_dropout.num_samples:
        passes = says.uncertainty(texts, jax.random.key(1), 4, **options)
        entropies = (np.asarray(summary.entropy) for summary in passes)
        record["uncertainty"] = [[*map(_rounded, row)] for row in entropies]
    elif getattr(tagger.model.head, "transitions", False) and not archive:
        record["n_best"] = [
            [[" ".join(answer.labels), _rounded(answer.probability)] for answer in best]
            for best in jaxner.n_best(tagger, texts, 3, **options)
        ]
    return record


def vectors(tagger, texts):
    """Returns vectors of tokens for a tagger that reads them, else None."""
    sizes = tagger.vocabulary.vector_sizes
    if sizes is None:
        return None
    rng = np.random.default_rng(1)
    layers, dim = sizes
    return [rng.normal(size=(layers, len(t), dim)).astype(np.float32) for t in texts]


def _rounded(value):
    return float(f"{float(value):.7g}")


def check(name, folder):
    """Asserts that a stored run answers as on the day it was saved."""
    tagger, tokens = jaxner.load(unpack(name, folder / name)), texts()
    same(answers(tagger, tokens, vectors(tagger, tokens)), ANSWERS[name])


def same(value, golden):
    """Asserts that JSON values are equal, and numbers nearly."""
    (leaves, tree), (right, golden_tree) = map(jax.tree.flatten, (value, golden))
    assert tree == golden_tree
    for leaf, expected in zip(leaves, right, strict=True):
        if isinstance(expected, float):
            expected = pytest.approx(expected, rel=1e-4, abs=1e-5)
        assert leaf == expected
