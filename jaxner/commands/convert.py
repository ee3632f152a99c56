"""Rewrites labelled text in another format or label scheme.

    jaxner convert train.jsonl train.conll
    jaxner convert eng.train bioes.conll --scheme BIOES
    jaxner convert annotated/ train.jsonl --from brat --unfit widen

The file name determines the format: `.conll`, `.txt`, `.bio` and `.iob` are
columns, `_conll` is CoNLL-2012, `.conllu` CoNLL-U, `.jsonl` JSON lines,
`.tsv` a table (with a header, if its first line is one), a folder brat's.
Files of other names are read as columns; to write one, give --to, as for the
standard output, which is `-`.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from jaxner import fields, writing
from jaxner.data import readers, schemes, splits
from jaxner.data.readers import spans
from jaxner.terminal import LineConsole
from jaxner.wording import counted

_FORMATS = f"{', '.join(readers.FORMATS)}; default: by the name"


def declare(commands: Any) -> None:
    """Adds the command to the subparsers of `jaxner`."""
    about = "rewrites labelled text in another format or label scheme"
    one = commands.add_parser(
        "convert",
        help=about,
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    one.add_argument(
        "source", metavar="IN", help="file to read, or a folder of brat's files"
    )
    one.add_argument(
        "target",
        metavar="OUT",
        help="file to write (.gz: compressed), a folder, or - for standard output",
    )
    one.add_argument(
        "--to",
        choices=readers.FORMATS,
        metavar="FORMAT",
        help=f"format to write: {_FORMATS}",
    )
    one.add_argument(
        "--scheme",
        choices=schemes.SCHEMES,
        help="label scheme to write; default: that of IN",
    )
    add_reading(one)
    one.set_defaults(run=convert)


def add_reading(one: argparse.ArgumentParser) -> None:
    """Adds the options for reading labelled text."""
    one.add_argument(
        "--from",
        dest="format",
        choices=readers.FORMATS,
        metavar="FORMAT",
        help=f"format to read: {_FORMATS}",
    )
    one.add_argument("--tags", action="store_true", help="labels are tags, not spans")
    column = fields.argument(fields.Column)
    one.add_argument(
        "--token-column", type=column, help="column of tokens, from 0; default: first"
    )
    one.add_argument(
        "--label-column", type=column, help="column of labels, from 0; default: last"
    )
    one.add_argument("--comments", help="how comment lines begin; default: none")
    encoding = fields.argument(fields.Encoding)
    one.add_argument(
        "--encoding",
        type=encoding,
        help="text encoding; default: utf-8",
    )
    about = "spans within a token: error, drop, or widen to the token; default: error"
    one.add_argument("--unfit", choices=spans.UNFIT, help=about)
    about = "how to split raw text into tokens; default: words"
    one.add_argument("--tokeniser", choices=spans.TOKENISERS, help=about)
    about = "split each text, or each line of brat's, into sentences"
    one.add_argument("--sentences", action="store_true", help=about)


def reading(options: argparse.Namespace) -> dict[str, Any]:
    """Returns the given options of `add_reading`, as keywords of `splits.read`."""
    names = ("format", "token_column", "label_column", "comments", "encoding", "unfit")
    given = {name: getattr(options, name) for name in names}
    given["tokenise"] = options.tokeniser and spans.TOKENISERS[options.tokeniser]
    given["sentences"] = spans.sentences if options.sentences else None
    given["scheme"] = schemes.TAGS if options.tags else None
    return {name: value for name, value in given.items() if value is not None}


def convert(options: argparse.Namespace) -> None:
    """Runs `jaxner convert`."""
    source, target = Path(options.source), Path(options.target)
    is_piped = options.target == "-"
    console = LineConsole(stderr=is_piped)
    if is_piped and options.to == "brat":
        raise ValueError("brat's format is a folder: expected its name, got -")
    if not (target.is_dir() or is_piped):
        writing.check(target, source)
    if not (options.to or target.is_dir() or readers.is_known(target)):
        raise ValueError(
            f"The name {target.name!r} does not show a format to write: give --to, one "
            f"of {', '.join(readers.FORMATS)}; or end the name with "
            f"{', '.join(readers.ENDINGS)}"
        )
    if options.format is None and not source.is_dir() and not readers.is_known(source):
        console.print(f"Reading {source} as columns (--from conll)", markup=False)
    split = splits.read(source, **reading(options))
    console.print(split.summary(), markup=False)
    examples = split.examples
    if options.scheme and split.scheme == schemes.TAGS:
        raise ValueError("Tags have no scheme to convert: remove --scheme")
    if options.scheme:
        examples = split.to_scheme(options.scheme)
        if split.ill_formed:
            count = counted(split.ill_formed, "ill-formed label")
            console.print(f"Made {count} well-formed")
    has_tags = split.scheme == schemes.TAGS
    file = sys.stdout if is_piped else target
    readers.write(file, examples, format=options.to, tags=has_tags)
    if not is_piped:
        console.print(f"Written: {target}", markup=False)
    if options.to in readers.SPANS_ONLY:
        console.print("To read it back with the same tokens: --tokeniser blanks")
