"""`jaxner tag`, `jaxner show` and `jaxner select`."""

from __future__ import annotations

import functools
import sys
import time
from pathlib import Path
from typing import Annotated, Any, Literal

from jaxner import fields, outputs
from jaxner.commands import Folder, Output
from jaxner.data import formats, sources, tokens
from jaxner.errors import InputError
from jaxner.wording import counted

Tokenizer = Annotated[str, fields.OneOf(tokens.TOKENIZERS)]
_COLUMNS, _TEXT = ("token_column", "comments"), ("tokenizer", "split_sentences")
Reading = Annotated[dict[str, Any], formats.Options, *_COLUMNS, "encoding", *_TEXT]


def tag(
    *,
    workdir: Folder,
    input: Path,
    output: str,
    from_: Annotated[str, fields.OneOf(formats.RAW)] | None = None,
    reading: Reading,
    to: Annotated[str, fields.OneOf(formats.OUTPUTS)] | None = None,
    constrained: bool = False,
    min_probability: str = "0",
    rejects: str | None = None,
    shard: str | None = None,
    overwrite: bool = False,
) -> None:
    r"""Tags a file of any size: raw text, columns, or JSON lines, plain or gzipped.

        jaxner tag --workdir runs/grn --input news.txt --output news.jsonl
        zcat news.gz | jaxner tag --workdir runs/grn --input - --output -
        jaxner tag --workdir runs/grn --shard 0/4 \
            --input big.jsonl.gz --output big-{shard}.jsonl.gz

    Each line of text, sentence of columns or JSON object is a record; records
    come out in the order of the input; blank lines of text have none. Columns
    are read as the run read its files, unless options differ. Texts are cut
    into sentences and tokens as by jaxner.entities; as JSON, they get their
    entities with offsets and probabilities. After a kill, the same command
    continues where it stopped. A bad record ends the run, unless --rejects
    names a file for bad records.

    Args:
        workdir: Folder of the run.
        input: File to tag, or - for standard input.
        output: File to write, or - for standard output; {shard}: the shard's number.
        from_: Format of the input; default: by its name.
        reading: How to read the input.
        to: Format of the output; default: by its name; for -, that of the input.
        constrained: Return only well-formed labels, such as no I-PER after O.
        min_probability: Leave out less probable entities: from 0 to 1, PER=0.9,LOC=0.5
            for each type, or calibrated for what jaxner calibrate --risk stored;
            default: 0.
        rejects: File for records that cannot be read; default: stop at one.
        shard: I/N: tag part I of N, counted from 0; default: all.
        overwrite: Start over, even if the output exists.
    """
    import jax

    from jaxner import stream, tagging
    from jaxner.data import schemes
    from jaxner.training import corpus

    index, count = (
        read_shard(shard) if shard else (jax.process_index(), jax.process_count())
    )
    target, bad = _of_shard(output, index), rejects and _of_shard(rejects, index)
    outputs.check(target, bad, sources=[input], sides=outputs.SIDES)
    if count > 1 and target == output and shard is None:
        raise InputError("Several processes need --output with {shard} in its name")
    source = from_ or formats.guess_raw(str(input))
    for name in _TEXT if source == "conll" else _COLUMNS:
        if name in reading:
            flag = name.removeprefix("split_").replace("_", "-")
            raise InputError(f"--{flag} has no use for an input in {source}")
    name = "-" if outputs.is_stream(target) else target
    to = to or formats.guess_output(name, source)
    least = read_least(min_probability, workdir)
    tagger = tagging.load(str(workdir))
    sink = stream.Sink(source, to, tagger.vocabulary.scheme == schemes.TAGS)
    least = stream.checked_least(tagger, sink, least)
    like_run = corpus.reading_of(str(workdir))
    like_run = {k: v for k, v in like_run.items() if k in (*_COLUMNS, "encoding")}
    options = {"split_sentences": True, **like_run, **reading}
    # What must stay the same when a run continues.
    identity = {
        "tagger": stream.identity(tagger),
        **{"workdir": str(workdir), "input": str(input), "rejects": rejects},
        **{"constrained": constrained, "min_probability": least},
        **{"formats": [source, to], "shard": [index, count], **options},
    }
    show = _Progress()
    show.line(f"Tags {input}, {source} to {to}")
    sources.check_file(input)
    text = sources.Source(input, formats.Options(**options), has_labels=False)
    with outputs.Output(target, identity, rejects=bad, overwrite=overwrite) as out:
        if out.done:
            show.line(f"Continuing after {counted(out.done['records'], 'record')}")
        done = stream.tag_file(
            tagger,
            text,
            sink,
            out,
            constrained=constrained,
            least=least,
            shard=(index, count),
            log=show,
        )
    for note in text.notes:
        show.line(note, is_last=True)
    show.line(f"Done: {done.summary()}", is_last=True)


def read_least(text: str, workdir: Path | None) -> Any:
    """Returns the minimum probability of entities, or that of each type."""
    from jaxner.answers import temperature

    if text == "calibrated":
        if workdir is None:
            raise InputError("Calibrated thresholds are those of a run: --workdir")
        options = temperature.guaranteed(workdir)
        if options["n_best"] > 1:
            raise InputError(
                "The thresholds are of entities of several labellings, which overlap: "
                "calibrate without --n-best"
            )
        return options["min_probability"]
    pairs = [pair.rpartition("=") for pair in text.split(",")]
    try:
        least = {kind: float(value) for kind, _, value in pairs}
    except ValueError:
        raise InputError(
            "--min-probability must be a number, PER=0.9,LOC=0.5 or calibrated, got "
            f"{text!r}"
        ) from None
    return least[""] if [*least] == [""] else least


def _of_shard(path: str, shard: int) -> str:
    return str(outputs.expanded(path.replace("{shard}", str(shard))))


def read_shard(text: str) -> tuple[int, int]:
    """Returns index and number of shards from `I/N`."""
    index, _, count = text.partition("/")
    if index.isdecimal() and count.isdecimal() and int(index) < int(count):
        return int(index), int(count)
    raise InputError(f"Expected --shard I/N with I below N, such as 0/4, got {text!r}")


class _Progress:
    """Prints progress to standard error; on a terminal, each line replaces the last."""

    def __init__(self) -> None:
        self._last = time.perf_counter()
        self._is_terminal = sys.stderr.isatty()

    def __call__(self, done: Any) -> None:
        """Prints progress if it is time: each second on a terminal, else each 30."""
        if time.perf_counter() - self._last >= (1 if self._is_terminal else 30):
            self.line(done.summary())

    def line(self, text: str, is_last: bool = False) -> None:
        self._last = time.perf_counter()
        start = "\r\x1b[2K" if self._is_terminal else ""
        end = "" if self._is_terminal and not is_last else "\n"
        print(f"{start}{text}", end=end, file=sys.stderr, flush=True)


def show(
    file: Path | None = None,
    /,
    *,
    workdir: Folder,
    html: Output | None = None,
    min_probability: fields.Share = 0.0,
    one_sentence_a_line: bool = False,
    tokenizer: Tokenizer | None = None,
) -> None:
    """Shows text with coloured entities and their probabilities.

        jaxner show --workdir runs/grn article.txt
        echo "Ms Preston left Lakeside." | jaxner show --workdir runs/grn
        jaxner show --workdir runs/grn article.txt --html article.html

    jaxner splits the raw text into sentences and tokens.

    Args:
        file: Raw text in UTF-8; default: standard input.
        workdir: Folder of the run.
        html: File to write a page to, instead of the terminal.
        min_probability: Leave out less probable entities; from 0 to 1, default: 0.
        one_sentence_a_line: Read each line of the text as one sentence.
        tokenizer: How to split each line, or the text, into tokens; default: words.
    """
    from jaxner.answers import highlights
    from jaxner.answers.entities import entities, entity_types
    from jaxner.tagger import load
    from jaxner.terminal import LineConsole

    tagger = load(str(workdir))
    text = outputs.read_text(Path("-") if file is None else file)
    cut: Any = functools.partial(_by_line, tokenizer)
    answer = entities(
        tagger,
        text,
        min_probability=min_probability,
        tokenizer=cut if one_sentence_a_line else tokenizer,
    )
    shown = highlights.highlighted(text, answer, entity_types(tagger))
    if html:
        outputs.write_text(html, highlights.page(shown))
        print(f"The page is in {html}")
    else:
        LineConsole().print(shown, soft_wrap=True)


def _by_line(tokenizer: str | None, text: str) -> list[list[tuple[int, int]]]:
    """Returns the tokens of each line, as one sentence."""
    sentences, start = [], 0
    for line in text.splitlines(keepends=True):
        for sentence in tokens.read(line, tokenizer, split_sentences=False):
            sentences.append([(t.start + start, t.end + start) for t in sentence])
        start += len(line)
    return sentences


def select(
    *,
    workdir: Folder,
    input: Path,
    output: Path,
    budget: fields.Size = 200,
    from_: Annotated[str, fields.OneOf(formats.RAW)] | None = None,
    reading: Reading,
    to: Literal["label-studio", "doccano", "brat"] | None = None,
) -> None:
    r"""Chooses the sentences worth annotating, for Label Studio, doccano or brat.

        jaxner select --workdir runs/grn --input news.txt --output tasks.json
        jaxner select --workdir runs/grn --input news.txt --output tasks.jsonl \
            --budget 50

    The sentences are those of which the tagger is unsure, and unlike each other;
    the most useful come first. They have the entities that the tagger predicts,
    to be corrected. What is annotated in doccano or brat trains taggers as it is.

    Args:
        workdir: Folder of the run.
        input: File to choose from, as for jaxner tag.
        output: File to write; for brat, a new folder.
        budget: Number of sentences.
        from_: Format of the input; default: by its name.
        reading: How to read the input.
        to: Tool; default: .json for label-studio, .jsonl for doccano, else brat.
    """
    from jaxner.analysis import selection
    from jaxner.tagger import load

    tool = to or selection.tool_of(output)
    if tool != "brat":
        outputs.check(output, sources=[input])
    source = from_ or formats.guess_raw(str(input))
    options = formats.Options(**{"split_sentences": True, **reading})
    sentences: list[formats.Example] = []
    text = sources.Source(input, options, has_labels=False)
    for record in formats.RAW[source](text):
        examples, errors = text.parse(record)
        if errors:
            raise errors[0]
        sentences += examples
    choices = selection.select(load(str(workdir)), sentences, budget)
    selection.write(output, choices, tool)
    count = counted(len(choices), "sentence")
    file = sys.stderr if outputs.descriptor(output) == 1 else sys.stdout
    print(f"{count} of {len(sentences):,}, for {tool}: {output}", file=file)
