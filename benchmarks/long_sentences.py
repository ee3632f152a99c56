r"""Time and peak memory of tagging one very long sentence.

    python -m benchmarks.long_sentences
    python -m benchmarks.long_sentences --systems GRN --tokens 2500 5000

The words are those of the embedded corpus, the weights drawn, the sizes the published
ones. Each length runs in a process of its own. `seconds`: one pass of the compiled
program. `peak`: host memory of the process, with libraries and compiler. `scratch`:
XLA's temporary memory, the part that grows. A figure with exponent e grows as the
number of tokens to the power e, by least squares of the logarithms.
"""

from __future__ import annotations

import time
from typing import Any

import jax

from benchmarks import alone, corpus, growth, ours
from benchmarks.measure import Report

LENGTHS = {
    "GRN": (2_500, 5_000, 10_000, 20_000),
    "ID-CNN": (12_500, 25_000, 50_000, 100_000),
    "BiLSTM-CRF": (12_500, 25_000, 50_000, 100_000),
}
_FIGURES = ("seconds", "peak, MiB", "scratch, MiB")


def tagged(system: str, length: int, quick: bool) -> dict[str, Any]:
    """Tags one sentence; returns the seconds and the temporary memory."""
    train = corpus.load("sample", "train", 0)
    params = ours.tagger(ours.config_of(system, quick), train)
    batch = ours.batch_of(params, train, length, 1)
    compiled, run = ours.tag_of(params, batch)
    start = time.perf_counter()
    jax.block_until_ready(run())
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "scratch, MiB": growth.scratch_mb(compiled)}


def main(argv: list[str] | None = None) -> None:
    """Runs the benchmark."""
    made = corpus.parser(__doc__)
    made.add_argument("--systems", nargs="+", default=[*LENGTHS], choices=LENGTHS)
    made.add_argument("--tokens", type=int, nargs="+", help="lengths of the sentence")
    options = corpus.parse(made, argv)
    report = Report(options.json)
    for system in options.systems:
        lengths = options.tokens or ((64, 128) if options.quick else LENGTHS[system])
        rows = []
        for length in lengths:
            given = {"system": system, "length": length, "quick": options.quick}
            found = alone.call("benchmarks.long_sentences:tagged", given)
            found["peak, MiB"] = found["peak_mb"]
            figures = {name: found[name] for name in _FIGURES}
            rows.append({"system": system, "tokens": length, **figures})
            report.row(f"{system}, one sentence", rows[-1])
        exponents = {
            name: growth.exponent(lengths, [row[name] for row in rows])
            for name in _FIGURES
        }
        report.row("exponents", {"system": system, **exponents})


if __name__ == "__main__":
    main()
