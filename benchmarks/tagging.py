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
have one thread or all, whichever was faster for a few batches; XLA has all. The peers
train for an epoch first, since spaCy's time depends on its predictions; our weights are
random. Install the peers with `pip install -e '.[benchmarks]'`.
"""

from __future__ import annotations

import functools
import json
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks import measure, peers
from benchmarks.measure import SAME_SIZE, SYSTEMS, Worker

CONLL_TYPES = ["LOC", "MISC", "ORG", "PER"]


def workers(
    configs: dict[str, str],
    trees: dict[str, Path],
    file: Path,
    texts: tuple[Sequence[Any], Sequence[Any]],
    batch: int,
    quick: bool,
    **options: Any,
) -> dict[str, Worker]:
    """Returns a worker for each system and checkout.

    `texts` has the sentences of the vocabulary and those to tag; `file` gets both.
    """
    train, sentences = ([tokens for tokens, _ in text] for text in texts)
    file.write_text(json.dumps({"train": train, "sentences": sentences}), "utf-8")
    common = {"types": CONLL_TYPES, "file": str(file), "batch": batch, "quick": quick}
    return {
        f"{name}{suffix}": Worker(tree, "tag", config=config, options=options, **common)
        for name, config in configs.items()
        for suffix, tree in trees.items()
    }


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the benchmark."""
    made = measure.systems_parser(__doc__)
    made.add_argument("--batch", type=int, nargs="+", default=[1, 32, 128, 0])
    options = measure.parse(made, argv)
    report = measure.Report(options.json)
    train = measure.load(options.dataset, "train", options.limit)
    dev = measure.load(options.dataset, "dev", options.limit)
    sentences, tokens = [tokens for tokens, _ in dev], measure.count_tokens(dev)
    rivals = peers.build(options.peers, train, report.say)
    for peer in rivals.values():
        peer.epoch(32)
    trees = measure.trees(options)
    for batch in options.batch:
        with tempfile.TemporaryDirectory() as folder:
            ours = workers(
                {name: SYSTEMS[name] for name in options.systems},
                trees, Path(folder, "text.json"), (train, dev), batch, options.quick,
            )  # fmt: skip
            try:
                runs: dict[str, Callable[[], Any]] = {**ours}
                for name, peer in rivals.items():
                    peer.tune(batch or None, sentences)
                    runs[name] = functools.partial(peer.tag, sentences, batch or None)
                timings = measure.compare(runs, options.rounds)
            finally:
                for worker in ours.values():
                    worker.close()
        rows = measure.rows(timings, tokens, "tokens", [*rivals, SAME_SIZE])
        size = f"batch {batch}" if batch else "the whole corpus"
        about = f"{options.dataset} dev, {len(dev):,} sentences, {tokens:,} tokens"
        report.table(f"tagging, {size}: {about}", rows)


if __name__ == "__main__":
    main()
