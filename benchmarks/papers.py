r"""The papers' tables of speed, with the published ratio in each row.

    python -m benchmarks.papers
    python -m benchmarks.papers --dataset conll2003 --tables idcnn-2 idcnn-6 grn-6

idcnn-2, idcnn-6, idcnn-7: Strubell et al. (2017), Tables 2, 6 and 7: labelling the dev
split with the models of sentences and of documents, relative to the Bi-LSTM-CRF. There,
each model has its fastest batch size from 1 to 2,048 on a GPU; here, one call gets all
sentences, and jaxner batches them by length. grn-6: Chen et al. (2019), Table 6: time
of an epoch and of tagging encoded sentences, in batches of 10, for CNN-BiLSTM-CRF over
that for GRN. uanet-6, uanet-3: see `benchmarks.decoding`.

The text comes from the data set, the number of labels from the paper's corpus.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks import corpus, decoding, ours
from benchmarks.measure import Report, Timing, compare
from configs import bilstm, cnn_bilstm_crf, grn, idcnn
from jaxner import tagging
from jaxner.data.splits import Split

BASE = "Bi-LSTM-CRF"
GRN_RIVAL = "CNN-BiLSTM-CRF"
# System, config module, argument, and published speedup over the first system.
_Row = tuple[str, Any, str, float]
TABLE_2: Sequence[_Row] = (
    (BASE, bilstm, "conll2003,crf", 1.0),
    ("Bi-LSTM", bilstm, "conll2003", 9.92),
    ("ID-CNN-CRF", idcnn, "conll2003,crf", 1.28),
    ("5-layer CNN", idcnn, "conll2003,block=cnn5", 12.38),
    ("ID-CNN", idcnn, "conll2003", 14.10),
)
TABLE_6: Sequence[_Row] = (
    (BASE, bilstm, "conll2003,document,crf", 1.0),
    ("Bi-LSTM", bilstm, "conll2003,document", 4.60),
    ("ID-CNN", idcnn, "conll2003,document", 7.96),
)
TABLE_7: Sequence[_Row] = (
    (BASE, bilstm, "ontonotes5,crf", 1.0),
    ("Bi-LSTM-CRF-Doc", bilstm, "ontonotes5,document,crf", 1.32),
    ("Bi-LSTM", bilstm, "ontonotes5", 24.44),
    ("ID-CNN-CRF (1 block)", idcnn, "ontonotes5,crf", 1.83),
    ("ID-CNN-Doc (3 blocks)", idcnn, "ontonotes5,document,blocks=3", 21.19),
    ("ID-CNN (3 blocks)", idcnn, "ontonotes5", 13.21),
    ("ID-CNN (1 block)", idcnn, "ontonotes5,blocks=1", 26.01),
)
STRUBELL = {
    "idcnn-2": ("ID-CNN, Table 2: sentences", TABLE_2, ours.CONLL_TYPES),
    "idcnn-6": ("ID-CNN, Table 6: documents", TABLE_6, ours.CONLL_TYPES),
    "idcnn-7": ("ID-CNN, Table 7: OntoNotes", TABLE_7, ours.ONTONOTES_TYPES),
}
# Ratios of training and test, by the corpus of the labels.
GRN_6 = {
    "CoNLL-2003": (ours.CONLL_TYPES, 1.16, 1.19),
    "OntoNotes 5": (ours.ONTONOTES_TYPES, 1.15, 1.08),
}
GRN_BATCH = 10
TABLES = (*STRUBELL, "grn-6", "uanet-6", "uanet-3")


def strubell(
    table: Sequence[_Row], types: Sequence[str], train: Split, dev: Split, options: Any
) -> list[dict[str, Any]]:
    """Returns the speeds of one table's models."""
    runs: dict[str, Callable[[], Any]] = {}
    numbers = [example.document for example in dev.examples]
    for name, module, arg, _ in table[:2] if options.quick else table:
        config = module.get_config(arg)
        if options.quick:
            config = ours.shrunk(config)
        params = ours.tagger(config, train, types)
        encoded = [params.vocabulary.encode(e.tokens) for e in dev.examples]
        documents = (
            numbers if params.vocabulary.reads_documents and any(numbers) else None
        )
        runs[name] = functools.partial(
            tagging.label_ids, params, encoded, documents=documents
        )
    timings = compare(runs, BASE, options.rounds)
    tokens = corpus.count_tokens(dev)
    return [
        {
            "system": name,
            "tokens / s": corpus.throughput(tokens, timings[name]),
            f"× {BASE}": timings[name].ratio,
            "published": published,
        }
        for name, _, _, published in table
        if name in timings
    ]


def grn_table(train: Split, dev: Split, options: Any) -> list[dict[str, Any]]:
    """Returns the times of training and tagging with GRN and its baseline."""
    rows = []
    for name, (types, training, test) in GRN_6.items():
        epochs, tags = {}, {}
        for system, module in (("GRN", grn), (GRN_RIVAL, cnn_bilstm_crf)):
            config = module.get_config("conll2003")
            if options.quick:
                config = ours.shrunk(config)
            epochs[system] = ours.epoch_of(config, train, GRN_BATCH, types)
            params = ours.tagger(config, train, types)
            encoded = [params.vocabulary.encode(e.tokens) for e in dev.examples]
            tags[system] = functools.partial(_in_tens, params, encoded)
        for what, runs, published, text in (
            ("training", epochs, training, train),
            ("test", tags, test, dev),
        ):
            timings = compare(runs, GRN_RIVAL, options.rounds)
            rows.append(_grn_row(name, what, timings, published, text))
        if options.quick:
            break
    return rows


def _in_tens(params: tagging.Tagger, encoded: Sequence[Any]) -> None:
    for start in range(0, len(encoded), GRN_BATCH):
        tagging.label_ids(params, encoded[start : start + GRN_BATCH])


def _grn_row(
    name: str, what: str, timings: dict[str, Timing], published: float, text: Split
) -> dict[str, Any]:
    tokens, found = corpus.count_tokens(text), timings["GRN"].ratio
    return {
        "labels of": name,
        "": what,
        **{f"{s}, tokens / s": tokens / t.seconds.median for s, t in timings.items()},
        f"GRN × {GRN_RIVAL}": found,
        "published": published,
        "more than published": "met" if found.median > published else "not met",
    }


def main(argv: list[str] | None = None) -> None:
    """Runs the benchmark."""
    made = corpus.parser(__doc__)
    made.add_argument("--tables", nargs="+", default=TABLES, choices=TABLES)
    options = corpus.parse(made, argv)
    report = Report(options.json)
    # The limit also applies to training, for the epochs of GRN's table.
    train = corpus.load(options.dataset, "train", options.limit)
    dev = corpus.load(options.dataset, "dev", options.limit)
    report.say(
        f"{options.dataset}: {len(train.examples):,} sentences of train, "
        f"{len(dev.examples):,} of dev with {corpus.count_tokens(dev):,} tokens"
    )
    for key in options.tables:
        if key in STRUBELL:
            title, table, types = STRUBELL[key]
            report.table(title, strubell(table, types, train, dev, options))
        elif key == "grn-6":
            title = f"GRN, Table 6: batches of {GRN_BATCH}"
            report.table(title, grn_table(train, dev, options))
        elif key == "uanet-6":
            rows = decoding.whole(train, dev, options.rounds, options.quick)
            report.table("UANet, Table 6", rows)
        else:
            batch = 2 if options.quick else 32
            rows = decoding.by_length(train, batch, options.rounds, options.quick)
            report.table(f"UANet, Figure 3: decoding alone, batches of {batch}", rows)


if __name__ == "__main__":
    main()
