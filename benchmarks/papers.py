r"""The papers' tables of speed, with the published ratio in each row.

    python -m benchmarks.papers
    python -m benchmarks.papers --dataset conll2003 --tables idcnn-2 idcnn-6 grn-6

`reproduce/figures.toml` holds the tables, with their sources. Strubell et al. label the
dev split, each model in its fastest batch size from 1 to 2,048 on a GPU; here, one call
gets all sentences, encoded before, and jaxner batches them by length. The text comes
from the data set, the number of labels from the paper's corpus. Weights are random.
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks import measure, worker
from jaxner import tagging
from jaxner.data import corpora
from reproduce.plan import HERE

_FIGURES = tomllib.loads((HERE / "figures.toml").read_text("utf-8"))
TABLES = {name: table for name, table in _FIGURES.items() if "num_types" in table}
"""The tables of speed: each system's config and speed, the first one's for a ratio."""


def systems_of(table: Mapping[str, Any]) -> dict[str, tuple[Any, float]]:
    """Returns (config, types, changed options) and published ratio of each system."""
    rows = {name: x for name, x in table["values"].items() if "config" in x}
    first = next(iter(rows.values()))["speed"]
    types = [f"T{i}" for i in range(table["num_types"])]
    return {
        name: ((x["config"], types, x.get("options", {})), x["speed"] / first)
        for name, x in rows.items()
    }


def labelling(
    table: Mapping[str, Any], names: Sequence[str], train: Any, dev: Any
) -> dict[str, Callable[[], Any]]:
    """Returns runs that label a text: encoded sentences, and documents."""
    sentences, documents = dev
    runs = {}
    for name in names:
        (text, types, changes), _ = systems_of(table)[name]
        config = worker.config_of(text, changes)
        tagger = worker.build(config, [tokens for tokens, _ in train], types)
        encoded = [tagger.vocabulary.encode(tokens) for tokens in sentences]
        joined = documents if tagger.vocabulary.reads_documents else None
        runs[name] = functools.partial(tagging.tag, tagger, encoded, documents=joined)
    return runs


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the benchmark."""
    made = measure.parser(__doc__)
    made.add_argument("--tables", nargs="+", default=[*TABLES], choices=TABLES)
    options = measure.parse(made, argv)
    report = measure.Report(options.json)
    train = measure.load(options.dataset, "train", options.limit)
    examples = corpora.load(options.dataset, "dev").examples[: options.limit or None]
    sentences = [example.tokens for example in examples]
    documents = [example.document for example in examples]
    text = sentences, documents if any(documents) else None
    for table in map(TABLES.__getitem__, options.tables):
        ratios = {name: ratio for name, (_, ratio) in systems_of(table).items()}
        names = [*ratios][: 2 if options.quick else None]
        if table["mode"] == "tag":
            runs = labelling(table, names, train, text)
            timings, count = measure.compare(runs, options.rounds), len(sentences)
        else:
            timings, _ = measure.race("train", names, options, [train], batch=10)
            count = len(train)
        rows = measure.rows(timings, count, "sentences", names[:1])
        rows = [{**row, "published": ratios[row["system"]]} for row in rows]
        report.table(f"{table['paper']}, {table['source']}", rows)


if __name__ == "__main__":
    main()
