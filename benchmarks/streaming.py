r"""Tokens per second of `jaxner tag` on a file, beside `jaxner.tag` on its sentences.

    python -m benchmarks.streaming
    python -m benchmarks.streaming --workdir runs/grn --tokens 1000000 3000000 --memory

Both begin with a tagger that has compiled what it needs, and a vocabulary that has seen
no word. The file is of columns; from and to the disk, with the journal, is part of its
time. `--memory` tags files of these sizes in processes of their own, and tells the most
memory that each has held: it should not grow with the file.
"""

from __future__ import annotations

import argparse
import itertools
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import jaxner
from benchmarks import measure, ours
from jaxner import streaming
from jaxner.data import corpora, streams

_CHILD = """
import resource, sys
from jaxner import __main__ as program
program.main(["tag", *sys.argv[1:]])
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(peak * (1 if sys.platform == "darwin" else 1024))
"""


def sentences(tokens: int) -> Iterator[tuple[str, ...]]:
    """Yields sentences of the embedded corpus, over and over, each with a new word."""
    examples = corpora.load("sample", "train").examples
    count = 0
    for i in itertools.count():
        its = examples[i % len(examples)].tokens
        # So that no vocabulary keeps all the words of the text.
        its = (*its[:-1], f"w{i}", its[-1])
        yield its
        count += len(its)
        if count >= tokens:
            return


def write(path: Path, tokens: int) -> None:
    """Writes a file of columns of so many tokens."""
    with path.open("w", encoding="utf-8") as file:
        for sentence in sentences(tokens):
            file.write("".join(f"{token}\n" for token in sentence) + "\n")


def tag_file(params: jaxner.Tagger, source: Path, folder: Path) -> None:
    """Runs what `jaxner tag` runs, except for loading the tagger."""
    params.vocabulary.forget()
    with (
        streams.opened(str(source)) as file,
        streaming.Output(folder / "tagged", {}, overwrite=True) as output,
    ):
        records = streams.Source(file, "conll")
        streaming.tag_file(params, records, streams.Sink("conll", "conll"), output)


def tag(params: jaxner.Tagger, texts: Sequence[Sequence[str]]) -> None:
    """Tags all sentences in one call."""
    params.vocabulary.forget()
    jaxner.tag(params, texts)


def drawn(folder: Path, options: argparse.Namespace) -> str:
    """Stores a tagger of drawn weights; its speed is that of a trained one."""
    config = ours.config_of(options.system, options.quick)
    params = ours.tagger(config, corpora.load("sample", "train"))
    jaxner.save(folder, params)
    return str(folder)


def peak_memory(workdir: str, source: Path) -> tuple[int, str]:
    """Returns the most bytes that a process holds which tags a file, and its speed."""
    with tempfile.TemporaryDirectory() as folder:
        arguments = ["--workdir", workdir, "--input", str(source)]
        arguments += ["--output", str(Path(folder, "out")), "--from=conll"]
        command = [sys.executable, "-c", _CHILD, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(done.stdout.split()[-1]), done.stderr.strip().splitlines()[-1]


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--workdir", help="a run; default: drawn weights")
    parser.add_argument("--system", choices=ours.SYSTEMS, default="ID-CNN")
    parser.add_argument("--quick", action="store_true", help="a small model")
    parser.add_argument("--tokens", type=int, nargs="+", default=[200_000])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--json")
    options = parser.parse_args()
    report = measure.Report(options.json)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        workdir = options.workdir or drawn(folder / "run", options)
        source = folder / "text.conll"
        if options.memory:
            memory(report, workdir, source, options.tokens)
        else:
            speed(report, workdir, source, options)


def memory(
    report: measure.Report, workdir: str, source: Path, sizes: Sequence[int]
) -> None:
    """Measures the memory of processes that tag ever larger files."""
    rows = []
    for tokens in sizes:
        write(source, tokens)
        peak, said = peak_memory(workdir, source)
        row = {"tokens": tokens, "peak memory, MiB": round(peak / 2**20)}
        rows.append({**row, "said": said})
        report.table("memory of jaxner tag", rows)


def speed(
    report: measure.Report, workdir: str, source: Path, options: argparse.Namespace
) -> None:
    """Times the tagging of a file beside that of its sentences in one call."""
    params = jaxner.load(workdir)
    texts = list(sentences(options.tokens[0]))
    write(source, options.tokens[0])
    runs = {
        "jaxner.tag": lambda: tag(params, texts),
        "jaxner tag FILE": lambda: tag_file(params, source, source.parent),
    }
    found = measure.compare(runs, "jaxner.tag", options.rounds)
    count = sum(map(len, texts))
    rows = []
    for name, timing in found.items():
        rate = count / timing.seconds.median
        rows.append({"run": name, "tokens/s": rate, "times as fast": timing.ratio})
    report.table(f"tagging {count:,} tokens", rows)


if __name__ == "__main__":
    main()
