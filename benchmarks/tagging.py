r"""Tokens per second of tagging, beside PyTorch, Flair and spaCy.

    python -m benchmarks.tagging
    python -m benchmarks.tagging --dataset conll2003 --limit 1000 --batch 1 32 128
    python -m benchmarks.tagging --against ../before --peers

Runs go from strings to strings and include encoding tokens and decoding labels; our
vocabulary's cache of looked-up tokens is emptied before each run. Batch b means calls
of b sentences for our systems, in the order of the corpus, and for the peers one call
for the whole corpus with batch size b, which Flair and PyTorch cut after sorting by
length; in batch 0, each system gets the corpus in one call and chooses its batches.
`--against` tags with another checkout, in turn. For each batch size, PyTorch and Flair
have one thread or all, whichever is faster; XLA has all. The peers train for an epoch
first, since spaCy's time depends on its predictions; our weights are random.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import measure, peers
from benchmarks.measure import CONLL_TYPES, SAME_SIZE


def write_texts(file: Path, train: Sequence[Any], text: Sequence[Any]) -> None:
    """Writes the sentences of the vocabulary and those to tag, for `worker.tag`."""
    texts = {"train": [x for x, _ in train], "sentences": [x for x, _ in text]}
    file.write_text(json.dumps({**texts, "types": CONLL_TYPES}), "utf-8")


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the benchmark."""
    options = measure.parse(measure.systems_parser(__doc__, [1, 32, 128, 0]), argv)
    report = measure.Report(options.json)
    train = measure.load(options.dataset, "train", options.limit)
    dev = measure.load(options.dataset, "dev", options.limit)
    sentences = [tokens for tokens, _ in dev]
    tokens = sum(map(len, sentences))
    rivals = peers.build(options.peers, train, report.say)
    for peer in rivals.values():
        peer.epoch(32)
    about = f"{options.dataset} dev, {len(dev):,} sentences, {tokens:,} tokens"
    for batch in options.batch:
        theirs = peers.runs(rivals, batch, sentences)
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "text.json")
            write_texts(file, train, dev)
            task = {"file": str(file), "batch": batch, "quick": options.quick}
            ours = measure.workers("tag", options.systems, options.trees, **task)
            timings, _ = measure.race(ours, theirs, options.rounds)
        rows = measure.rows(timings, tokens, "tokens", [*rivals, SAME_SIZE])
        size = f"batch {batch}" if batch else "the whole corpus"
        report.table(f"tagging, {size}: {about}", rows)


if __name__ == "__main__":
    main()
