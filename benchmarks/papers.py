r"""The papers' tables of speed, with the published ratio in each row.

    python -m benchmarks.papers
    python -m benchmarks.papers --dataset conll2003 --tables idcnn-2 idcnn-6 grn-6

idcnn-2, idcnn-6, idcnn-7: Strubell et al. (2017), Tables 2, 6 and 7: labelling the dev
split with the models of sentences and of documents, relative to the Bi-LSTM-CRF. There,
each model has its fastest batch size from 1 to 2,048 on a GPU; here, one call gets all
sentences, and jaxner batches them by length. grn-6: Chen et al. (2019), Table 6: an
epoch of training, and tagging, GRN relative to CNN-BiLSTM-CRF. uanet-6, uanet-3: Gui et
al. (2020), Table 6: labelling the dev split relative to the BiLSTM-CRF; Figure 3: the
same for sentences of one length. Tagging begins with encoded sentences.

The text comes from the data set, the number of labels from the paper's corpus. Weights
are random.
"""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import measure, training, worker
from benchmarks.measure import ROOT, SYSTEMS
from benchmarks.tagging import CONLL_TYPES
from jaxner import tagging
from jaxner.data import corpora

ONTONOTES_TYPES = [
    *("CARDINAL", "DATE", "EVENT", "FAC", "GPE", "LANGUAGE", "LAW", "LOC", "MONEY"),
    *("NORP", "ORDINAL", "ORG", "PERCENT", "PERSON", "PRODUCT", "QUANTITY", "TIME"),
    "WORK_OF_ART",
]
# Config and published speedup over the first system, by system.
TABLES: dict[str, tuple[str, list[str], dict[str, tuple[str, float | None]]]] = {
    "idcnn-2": (
        "ID-CNN, Table 2: sentences",
        CONLL_TYPES,
        {
            "Bi-LSTM-CRF": ("bilstm:conll2003,crf", 1.0),
            "Bi-LSTM": ("bilstm:conll2003", 9.92),
            "ID-CNN-CRF": ("idcnn:conll2003,crf", 1.28),
            "5-layer CNN": ("idcnn:conll2003,block=cnn5", 12.38),
            "ID-CNN": ("idcnn:conll2003", 14.10),
        },
    ),
    "idcnn-6": (
        "ID-CNN, Table 6: documents",
        CONLL_TYPES,
        {
            "Bi-LSTM-CRF": ("bilstm:conll2003,document,crf", 1.0),
            "Bi-LSTM": ("bilstm:conll2003,document", 4.60),
            "ID-CNN": ("idcnn:conll2003,document", 7.96),
        },
    ),
    "idcnn-7": (
        "ID-CNN, Table 7: OntoNotes",
        ONTONOTES_TYPES,
        {
            "Bi-LSTM-CRF": ("bilstm:ontonotes5,crf", 1.0),
            "Bi-LSTM-CRF-Doc": ("bilstm:ontonotes5,document,crf", 1.32),
            "Bi-LSTM": ("bilstm:ontonotes5", 24.44),
            "ID-CNN-CRF (1 block)": ("idcnn:ontonotes5,crf", 1.83),
            "ID-CNN-Doc (3 blocks)": ("idcnn:ontonotes5,document,blocks=3", 21.19),
            "ID-CNN (3 blocks)": ("idcnn:ontonotes5", 13.21),
            "ID-CNN (1 block)": ("idcnn:ontonotes5,blocks=1", 26.01),
        },
    ),
    # Sentences per second of CoNLL-2003: 1,433 of the CRF.
    "uanet-6": (
        "UANet, Table 6",
        CONLL_TYPES,
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
GRN_RIVAL = "CNN-BiLSTM-CRF"
GRN_6 = {"training": 1.16, "tagging": 1.19}  # CoNLL-2003
LENGTHS = (8, 16, 32, 64, 128)
Sentences = Sequence[tuple[list[str], list[str]]]


def labelling(
    name: str, text: str, types: list[str], train: Sentences, quick: bool
) -> Callable[[Sequence[list[str]], Any], Callable[[], Any]]:
    """Returns a function that returns the labelling of some sentences."""
    changes = worker.quick_options(text) if quick else {}
    if name == "UANet, M = 1":
        changes["model.mc_dropout.num_samples"] = 1
    config = worker.config_of(text, changes)
    tagger = worker.build(config, [tokens for tokens, _ in train], types)

    def run_of(sentences: Sequence[list[str]], documents: Any) -> Callable[[], Any]:
        encoded = [tagger.vocabulary.encode(tokens) for tokens in sentences]
        if config.data.unit != "document" or not any(documents):
            documents = None
        return functools.partial(tagging.tag, tagger, encoded, documents=documents)

    return run_of


def compared(
    key: str, train: Sentences, sentences: Any, documents: Any, options: Any
) -> list[dict[str, Any]]:
    """Returns the rows of one table."""
    _, types, systems = TABLES[key]
    runs = {
        name: labelling(name, text, types, train, options.quick)(sentences, documents)
        for name, (text, _) in [*systems.items()][: 2 if options.quick else None]
    }
    base = next(iter(runs))
    timings = measure.compare(runs, options.rounds)
    rows = measure.rows(timings, len(sentences), "sentences", [base])
    return [{**row, "published": systems[row["system"]][1]} for row in rows]


def by_length(train: Sentences, options: Any) -> list[dict[str, Any]]:
    """Returns the rows of UANet's Figure 3, of which the text gives one figure."""
    names = ("CRF", "Softmax", "Seq2seq", "UANet, M = 8")
    _, types, systems = TABLES["uanet-6"]
    makers = {
        name: labelling(name, systems[name][0], types, train, options.quick)
        for name in (names[:2] if options.quick else names)
    }
    words = sorted({token for tokens, _ in train for token in tokens})
    rng, rows = np.random.default_rng(0), []
    for length in LENGTHS[: 1 if options.quick else None]:
        drawn = rng.integers(0, len(words), (32, length))
        sentences = [[words[i] for i in row] for row in drawn]
        runs = {name: make(sentences, []) for name, make in makers.items()}
        timings = measure.compare(runs, options.rounds)
        row: dict[str, Any] = {"tokens": length}
        for name, timing in timings.items():
            if name != "CRF":
                row[f"{name} × CRF"] = timing.speedup(timings["CRF"])
        row["published, UANet"] = "nearly 3" if length > 30 else None
        rows.append(row)
    return rows


def grn_table(train: Sentences, sentences: Any, options: Any) -> list[dict[str, Any]]:
    """Returns the rows of GRN's Table 6."""
    configs = {name: SYSTEMS[name] for name in ("GRN", GRN_RIVAL)}
    with tempfile.TemporaryDirectory() as folder:
        measure.write_corpus(Path(folder), train)
        epochs = training.workers(
            configs, {"": ROOT}, Path(folder), options.quick, batch_size=10
        )
        try:
            trained = measure.compare(epochs, options.rounds)
        finally:
            for process in epochs.values():
                process.close()
    tags = {
        name: labelling(name, text, CONLL_TYPES, train, options.quick)(sentences, [])
        for name, text in configs.items()
    }
    tagged = measure.compare(tags, options.rounds)
    return [
        {
            "GRN": task,
            f"× {GRN_RIVAL}": timings["GRN"].speedup(timings[GRN_RIVAL]),
            "published": GRN_6[task],
        }
        for task, timings in (("training", trained), ("tagging", tagged))
    ]


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the benchmark."""
    names = (*TABLES, "grn-6", "uanet-3")
    made = measure.parser(__doc__)
    made.add_argument("--tables", nargs="+", default=names, choices=names)
    options = measure.parse(made, argv)
    report = measure.Report(options.json)
    train = measure.load(options.dataset, "train", options.limit)
    sentences = [x for x, _ in measure.load(options.dataset, "dev", options.limit)]
    examples = corpora.load(options.dataset, "dev").examples[: options.limit or None]
    documents = [example.document for example in examples]
    for key in options.tables:
        if key == "grn-6":
            title = "GRN, Table 6: batches of 10 in training"
            report.table(title, grn_table(train, sentences, options))
        elif key == "uanet-3":
            title = "UANet, Figure 3: 32 sentences of one length"
            report.table(title, by_length(train, options))
        else:
            rows = compared(key, train, sentences, documents, options)
            report.table(TABLES[key][0], rows)


if __name__ == "__main__":
    main()
