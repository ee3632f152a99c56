r"""The papers' tables of speed, with the published ratio in each row.

    python -m benchmarks.papers
    python -m benchmarks.papers --dataset conll2003 --tables idcnn-2 idcnn-6 grn-6
    python -m benchmarks.papers --tables uanet-6 --tokens 64

idcnn-2, idcnn-6, idcnn-7: Strubell et al. (2017), Tables 2, 6 and 7: labelling the dev
split with the models of sentences and of documents, relative to the Bi-LSTM-CRF. There,
each model has its fastest batch size from 1 to 2,048 on a GPU; here, one call gets all
sentences, and jaxner batches them by length. grn-6, grn-6-training: Chen et al. (2019),
Table 6: tagging, and an epoch of training, GRN relative to CNN-BiLSTM-CRF. uanet-6:
Gui et al. (2020), Table 6: labelling the dev split relative to the BiLSTM-CRF. Tagging
begins with encoded sentences.

The text comes from the data set, the number of labels from the paper's corpus. Weights
are random. `--tokens` tags 32 random sentences of one length, as in Gui et al.'s Figure
3, where UANet has nearly 3 times the CRF's speed from 30 tokens.
"""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks import measure, worker
from benchmarks.measure import CONLL_TYPES, SYSTEMS
from jaxner import tagging
from jaxner.data import corpora

ONTONOTES_TYPES = [
    *("CARDINAL", "DATE", "EVENT", "FAC", "GPE", "LANGUAGE", "LAW", "LOC", "MONEY"),
    *("NORP", "ORDINAL", "ORG", "PERCENT", "PERSON", "PRODUCT", "QUANTITY", "TIME"),
    "WORK_OF_ART",
]


class Table(NamedTuple):
    """A paper's table: config and published speedup over the first, by system."""

    title: str
    systems: dict[str, tuple[str, float | None]]
    types: list[str] = CONLL_TYPES
    mode: str = "tag"


def grn_6(published: float) -> dict[str, tuple[str, float | None]]:
    """Returns the systems of GRN's Table 6."""
    ratios = {measure.SAME_SIZE: 1.0, "GRN": published}
    return {name: (SYSTEMS[name], ratio) for name, ratio in ratios.items()}


TABLES = {
    "idcnn-2": Table(
        "ID-CNN, Table 2: sentences",
        {
            "Bi-LSTM-CRF": ("bilstm:conll2003,crf", 1.0),
            "Bi-LSTM": ("bilstm:conll2003", 9.92),
            "ID-CNN-CRF": ("idcnn:conll2003,crf", 1.28),
            "5-layer CNN": ("idcnn:conll2003,block=cnn5", 12.38),
            "ID-CNN": ("idcnn:conll2003", 14.10),
        },
    ),
    "idcnn-6": Table(
        "ID-CNN, Table 6: documents",
        {
            "Bi-LSTM-CRF": ("bilstm:conll2003,document,crf", 1.0),
            "Bi-LSTM": ("bilstm:conll2003,document", 4.60),
            "ID-CNN": ("idcnn:conll2003,document", 7.96),
        },
    ),
    "idcnn-7": Table(
        "ID-CNN, Table 7: OntoNotes",
        {
            "Bi-LSTM-CRF": ("bilstm:ontonotes5,crf", 1.0),
            "Bi-LSTM-CRF-Doc": ("bilstm:ontonotes5,document,crf", 1.32),
            "Bi-LSTM": ("bilstm:ontonotes5", 24.44),
            "ID-CNN-CRF (1 block)": ("idcnn:ontonotes5,crf", 1.83),
            "ID-CNN-Doc (3 blocks)": ("idcnn:ontonotes5,document,blocks=3", 21.19),
            "ID-CNN (3 blocks)": ("idcnn:ontonotes5", 13.21),
            "ID-CNN (1 block)": ("idcnn:ontonotes5,blocks=1", 26.01),
        },
        ONTONOTES_TYPES,
    ),
    "grn-6": Table("GRN, Table 6: tagging", grn_6(1.19)),
    "grn-6-training": Table(
        "GRN, Table 6: training in batches of 10", grn_6(1.16), mode="train"
    ),
    # Sentences per second of CoNLL-2003: 1,433 of the CRF.
    "uanet-6": Table(
        "UANet, Table 6",
        {
            "CRF": ("ncrfpp:conll2003,crf", 1.0),
            "Softmax": ("ncrfpp:conll2003", 3443 / 1433),
            "LAN": ("lan:conll2003", 949 / 1433),
            "Seq2seq": ("seq2seq:conll2003", 1084 / 1433),
            "Seq2seq, beam 4": ("seq2seq:conll2003,beam=4", None),
            "UANet, M = 1": ("uanet:conll2003", 1630 / 1433),
            "UANet, M = 8": ("uanet:conll2003", 1474 / 1433),
        },
    ),
}


def changes_of(name: str) -> dict[str, int]:
    """Returns the options in which a system differs from its config."""
    return {"model.mc_dropout.num_samples": 1} if name.endswith("M = 1") else {}


def labelling(
    systems: dict[str, str], types: list[str], train: Any, text: Any, is_quick: bool
) -> dict[str, Callable[[], Any]]:
    """Returns runs that label a text: encoded sentences, and documents."""
    sentences, documents = text
    runs = {}
    for name, config in systems.items():
        changes = worker.quick_options(config) if is_quick else {}
        config = worker.config_of(config, changes | changes_of(name))
        tagger = worker.build(config, [tokens for tokens, _ in train], types)
        encoded = [tagger.vocabulary.encode(tokens) for tokens in sentences]
        joined = documents if tagger.vocabulary.reads_documents else None
        runs[name] = functools.partial(tagging.tag, tagger, encoded, documents=joined)
    return runs


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the benchmark."""
    made = measure.parser(__doc__)
    made.add_argument("--tables", nargs="+", default=[*TABLES], choices=TABLES)
    made.add_argument("--tokens", type=int, help="tag sentences of that length")
    options = measure.parse(made, argv)
    report = measure.Report(options.json)
    train = measure.load(options.dataset, "train", options.limit)
    examples = corpora.load(options.dataset, "dev").examples[: options.limit or None]
    sentences: Any = [example.tokens for example in examples]
    documents: Any = [example.document for example in examples]
    if options.tokens:
        words = sorted({token for tokens, _ in train for token in tokens})
        drawn = np.random.default_rng(0).choice(words, (32, options.tokens))
        sentences, documents = drawn.tolist(), []
    text = sentences, documents if any(documents) else None
    for title, ratios, types, mode in (TABLES[key] for key in options.tables):
        systems = [*ratios][: 2 if options.quick else None]
        if mode == "tag":
            configs = {name: ratios[name][0] for name in systems}
            runs = labelling(configs, types, train, text, options.quick)
            timings, count = measure.compare(runs, options.rounds), len(sentences)
        else:
            task = {"quick": options.quick, "options": {"batch_size": 10}}
            with tempfile.TemporaryDirectory() as folder:
                measure.write_corpus(Path(folder), train)
                task["corpus"] = folder
                epochs = measure.workers("train", systems, options.trees, **task)
                timings, _ = measure.race(epochs, {}, options.rounds)
            count = len(train)
        rows = measure.rows(timings, count, "sentences", systems[:1])
        rows = [{**row, "published": ratios[row["system"]][1]} for row in rows]
        report.table(title, rows)


if __name__ == "__main__":
    main()
