"""Tags a file of any size: raw text, columns, or JSON lines, plain or gzipped.

    jaxner tag --workdir runs/grn --input news.txt --output news.jsonl
    zcat news.gz | jaxner tag --workdir runs/grn --input - --output -
    jaxner tag --workdir runs/grn --shard 0/4 \\
        --input big.jsonl.gz --output big-{shard}.jsonl.gz

Each line of text, sentence of columns or JSON object is a record; records
come out in the order of the input; blank lines of text have none. Columns are
read as the run read its files, unless options differ. After a kill, the same
command continues where it stopped. A bad record ends the run, unless
--rejects names a file for bad records.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

from jaxner import fields, streaming, tagging, writing
from jaxner.data import schemes, streams
from jaxner.data.readers import spans
from jaxner.streaming import Progress
from jaxner.terminal import LineConsole
from jaxner.training import prepare
from jaxner.wording import counted

console = LineConsole(stderr=True)
# Options that must stay the same when a run continues.
_SAME = ("workdir", "input", "tokeniser", "sentences", "constrained", "rejects")
_SECONDS = {True: 1.0, False: 30.0}  # between two lines on a terminal, and elsewhere


def declare(commands: Any) -> None:
    """Adds the command to the subparsers of `jaxner`."""
    one = commands.add_parser(
        "tag",
        help="tags a file of any size",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    one.add_argument("--workdir", required=True, help="folder of the run")
    one.add_argument(
        "--input", required=True, help="file to tag, or - for standard input"
    )
    about = (
        "file to write, or - for standard output; {shard} stands for the shard's number"
    )
    one.add_argument("--output", required=True, help=about)
    about = "format of the input; default: by its name"
    one.add_argument("--from", dest="source", choices=streams.FORMATS, help=about)
    about = "format of the output; default: by its name; for -, that of the input"
    one.add_argument("--to", choices=streams.OUTPUTS, help=about)
    column, encoding = map(fields.argument, (fields.Column, fields.Encoding))
    one.add_argument(
        "--token-column",
        type=column,
        help="column of tokens, from 0; default: the run's",
    )
    about = "how comment lines of columns begin; default: the run's"
    one.add_argument("--comments", help=about)
    one.add_argument(
        "--encoding", type=encoding, help="text encoding; default: the run's"
    )
    about = "how to split raw text into tokens; default: words"
    one.add_argument("--tokeniser", choices=spans.TOKENISERS, help=about)
    about = "split each text into sentences"
    one.add_argument("--sentences", action="store_true", help=about)
    _declare_run(one)
    one.set_defaults(run=tag)


def _declare_run(one: argparse.ArgumentParser) -> None:
    about = "return only well-formed labels, such as no I-PER after O"
    one.add_argument("--constrained", action="store_true", help=about)
    one.add_argument(
        "--rejects", help="file for records that cannot be read; default: stop at one"
    )
    about = "I/N: tag part I of N, counted from 0; default: all"
    one.add_argument("--shard", type=read_shard, help=about)
    about = "start over, even if the output exists"
    one.add_argument("--overwrite", action="store_true", help=about)


def read_shard(text: str) -> tuple[int, int]:
    """Parses `I/N`: index and number of shards.

    Raises:
        argparse.ArgumentTypeError: The text is malformed, or the index is too large.

    Example:
        >>> read_shard("0/4")
        (0, 4)
    """
    index, slash, count = text.partition("/")
    if not (slash and index.isdecimal() and count.isdecimal()):
        raise argparse.ArgumentTypeError(f"expected I/N, such as 0/4, got {text!r}")
    if int(count) == 0:
        raise argparse.ArgumentTypeError(f"expected 1 shard at least, got {text!r}")
    if int(index) >= int(count):
        raise argparse.ArgumentTypeError(f"shards of {count} are 0 to {int(count) - 1}")
    return int(index), int(count)


def tag(options: argparse.Namespace) -> None:
    """Runs `jaxner tag`."""
    shard = options.shard or streaming.process()
    output, rejects = outputs(options, shard)
    source = options.source or streams.guess(options.input)
    check_used(options, source)
    to = options.to or streams.guess_output(output, source)
    params = tagging.load(options.workdir)
    has_tags = params.vocabulary.scheme == schemes.TAGS
    reading = reading_of(options)
    identity = {
        "tagger": streaming.identity(params),
        **{name: getattr(options, name) for name in _SAME},
        **reading,
        "formats": [source, to],
        "shard": list(shard),
    }
    show = Shown()
    show.line(f"Tags {options.input}, {source} to {to}")
    with streams.opened(options.input) as file:
        records = streams.Source(
            file,
            source,
            spans.TOKENISERS[options.tokeniser or "words"],
            spans.sentences if options.sentences else None,
            **reading,
        )
        sink = streams.Sink(source, to, has_tags)
        choices = {"constrained": options.constrained, "shard": shard}
        choices |= {"stops": rejects is None, "log": show}
        place = {"rejects": rejects, "overwrite": options.overwrite}
        if output == "-":
            with streaming.Standard(sys.stdout, **place) as out:
                done = run(options, params, records, sink, out, choices)
        else:
            with streaming.Output(output, identity, **place) as out:
                if out.records:
                    show.line(f"Continuing after {counted(out.records, 'record')}")
                done = run(options, params, records, sink, out, choices)
    show.line(f"Done: {done.summary()}", is_last=True)


def reading_of(options: argparse.Namespace) -> dict[str, Any]:
    """Returns how to read the input: as the run does, unless options differ."""
    found: dict[str, Any] = {"token_column": 0, "comments": None, "encoding": "utf-8"}
    given = {k: v for k in found if (v := getattr(options, k)) is not None}
    run = prepare.reading_of(options.workdir)
    return found | {k: v for k, v in run.items() if k in found} | given


def check_used(options: argparse.Namespace, source: str) -> None:
    """Raises ValueError if an option has no use for the format of the input."""
    for name in ("token_column", "comments"):
        if source != "conll" and getattr(options, name) is not None:
            flag = name.replace("_", "-")
            raise ValueError(f"--{flag} is for columns, and the input is {source}")
    if source == "conll" and (options.sentences or options.tokeniser):
        raise ValueError(
            "--sentences and --tokeniser are for raw text, and columns have tokens"
        )


def outputs(
    options: argparse.Namespace, shard: tuple[int, int]
) -> tuple[str, str | None]:
    """Returns the files of a shard: for its output, and for its bad records.

    Raises:
        OSError, ValueError: One of them cannot be written; see `jaxner.writing.check`.
        ValueError: Several processes would write the same file.
    """
    output = options.output.replace("{shard}", str(shard[0]))
    if shard[1] > 1 and output == options.output and options.shard is None:
        raise ValueError("Several processes need --output with {shard} in its name")
    rejects = options.rejects and options.rejects.replace("{shard}", str(shard[0]))
    if output != "-":
        writing.check(output, options.input)
    writing.check(rejects, options.input)
    return output, rejects


def run(
    options: argparse.Namespace, params: Any, records: Any, sink: Any, out: Any, choices
) -> Progress:
    """Tags the input; the error of a bad record names the file."""
    try:
        return streaming.tag_file(params, records, sink, out, **choices)
    except streaming.BadRecordError as error:
        kept = "" if options.output == "-" else " The output before it is kept."
        other = ", or give the file's --encoding" * error.is_of_encoding
        other += ", or give the file's --token-column" * error.is_of_column
        raise ValueError(
            f"{options.input}, {error}\nFix it and run the same command, or name a "
            f"file for bad records with --rejects{other}.{kept}"
        ) from None


class Shown:
    """Prints progress to standard error from time to time."""

    def __init__(self) -> None:
        self._last = time.perf_counter()

    def __call__(self, done: Progress) -> None:
        """Prints progress if it is time."""
        if time.perf_counter() - self._last >= _SECONDS[console.is_terminal]:
            self.line(done.summary())

    def line(self, text: str, is_last: bool = False) -> None:
        """Prints a line; on a terminal, the next line replaces it."""
        self._last = time.perf_counter()
        stays = is_last or not console.is_terminal
        start = "\r\x1b[2K" if console.is_terminal else ""
        console.file.write(f"{start}{text}" + "\n" * stays)
        console.file.flush()
