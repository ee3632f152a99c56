"""`jaxner tag`, `jaxner show` and `jaxner select`."""

from __future__ import annotations

import dataclasses
import functools
import io
from pathlib import Path
from typing import Annotated, Any, Literal

from jaxner import fields, outputs
from jaxner.arguments import check_reads_text
from jaxner.commands import STDIN, load, note
from jaxner.data import formats, sources, spans, tokens
from jaxner.errors import InputError, UsageError, name_of
from jaxner.types import Minima
from jaxner.wording import counted

Tokenizer = Annotated[str, fields.OneOf(tokens.TOKENIZERS)]
_COLUMNS = ("token_column", "comments")
_OF_GOLD = ("label_column", "label_names", "unfit", "offsets")
_NAMES = (*_COLUMNS, "encoding", "tokenizer")
Reading = Annotated[dict[str, Any], formats.Options, *_NAMES]
GoldReading = Annotated[dict[str, Any], formats.Options, *_NAMES, "label_column"]


def tag(
    run: fields.Folder,
    file: Path = STDIN,
    /,
    *,
    output: Annotated[str, fields.OUTPUT] = "-",
    format: Annotated[str, fields.OneOf(formats.RAW)] | None = None,
    sentences: bool = True,
    reading: GoldReading,
    to: Annotated[str, fields.OneOf(formats.OUTPUTS)] | None = None,
    constrained: bool = False,
    min_probability: str = "0",
    rejects: Annotated[str, fields.OUTPUT] | None = None,
    shard: str | None = None,
    overwrite: bool = False,
    gold: bool = False,
) -> dict[str, Any]:
    r"""Tags a file of any size: raw text, columns, or JSON lines, plain or gzipped.

        jaxner tag runs/grn news.txt -o news.jsonl
        zcat news.gz | jaxner tag runs/grn > news.jsonl
        jaxner tag runs/grn test.conll --gold -o predicted.conll
        jaxner tag runs/grn big.jsonl.gz --shard 0/4 -o 'big-{shard}.jsonl.gz'

    A record is a line of text that is not blank, a sentence of columns or a
    JSON object. Records keep their order. The command reads columns as the run
    did, unless options differ, and splits texts into sentences and tokens as
    jaxner.entities does. In JSON, entities have offsets and probabilities;
    columns get one more, for labels. After a kill, the same command continues
    where it stopped. A bad record ends the command, unless --rejects names a
    file for bad records.

    Args:
        run: Folder of the run.
        file: File to tag; default: standard input.
        output: File to write; {shard} in its name becomes the shard's number; default:
            standard output.
        format: Format of the input; default: by its name.
        sentences: Split texts into sentences.
        to: Format of the output; default: by its name, else as the input.
        constrained: Write only well-formed labels, such as no I-PER after O.
        min_probability: Leave out less probable entities: 0.9, or PER=0.9,LOC=0.5 by
            type, or calibrated, the thresholds that jaxner calibrate --risk stored.
        rejects: File for records that cannot be read; default: stop at one.
        shard: Tag part I of N, counted from 0; default: all.
        overwrite: Start over, even if the output exists.
        gold: Read the labels of the input, and score against them.

    Returns:
        The numbers of `records`, `sentences`, `tokens` and `bad` records; `notes` on
        the input and the `checksum` of its records; with --gold also `scores`, the
        `figures` with intervals, how these `intervals` were drawn, the rows of `types`
        in the table, and figures `by_rule`.
    """
    import jax

    from jaxner import stream
    from jaxner.data import schemes
    from jaxner.terminal import ProgressLine
    from jaxner.training import signals

    index, count = (
        read_shard(shard) if shard else (jax.process_index(), jax.process_count())
    )
    target, side = _of_shard(output, index), rejects and _of_shard(rejects, index)
    outputs.check(target, side, sources=[file], sides=outputs.SIDES)
    if count > 1 and target == output and shard is None:
        raise UsageError("Several processes need --output with {shard} in its name")
    source = format or formats.guess_raw(str(file))
    _check_use(reading, source)
    if gold and source == "text":
        raise UsageError("--gold needs labels, and raw text has none")
    name = "-" if outputs.is_stream(target) else target
    to = to or formats.guess_output(name, source)
    least = read_least(min_probability, run)
    sources.check_file(file)
    tagger = load(run)
    check_reads_text(tagger)
    has_tags = tagger.vocabulary.scheme == schemes.TAGS
    sink = stream.Sink(source, to, has_tags, tagger.labels)
    least = stream.checked_least(tagger, sink, least)
    names = _OF_GOLD if gold else ()
    defaults = _defaults(tagger, source, *names)
    options = {"split_sentences": sentences, **defaults, **reading}
    # What must stay the same when a run continues.
    identity = {
        "tagger": stream.identity(tagger),
        **{"workdir": str(run), "input": str(file), "rejects": rejects},
        **{"constrained": constrained, "min_probability": least},
        **{"formats": [source, to], "shard": [index, count], **options},
    }
    show = ProgressLine()
    show.line(f"Tagging {name_of(file)}, {source} to {to}")
    rules = formats.Options(**options, tags=gold and has_tags)
    text = sources.Source(file, rules, has_labels=gold)
    pairs: list[Any] | None = [] if gold else None
    # A stream has no journal, and --gold needs all labels at once.
    continues = not (gold or outputs.is_stream(target))
    farewell = "Stopped" + "; the same command continues from here" * continues
    with (
        signals.ending(farewell),
        outputs.Output(target, identity, rejects=side, overwrite=overwrite) as writer,
    ):
        if writer.state:
            if gold:
                raise InputError("--gold needs all labels at once: use --overwrite")
            show.line(f"Continuing after {counted(writer.state['records'], 'record')}")
        progress = stream.tag_file(
            tagger,
            text,
            sink,
            writer,
            constrained=constrained,
            least=least,
            shard=(index, count),
            log=show,
            pairs=pairs,
        )
    for line in text.notes:
        show.line(line, is_last=True)
    show.line(f"Done: {progress.summary()}", is_last=True)
    facts = {**dataclasses.asdict(progress), "notes": text.notes}
    return facts if pairs is None else {**facts, **_scores(tagger, pairs, file)}


def _check_use(reading: dict[str, Any], source: str) -> None:
    for name in ("tokenizer",) if source == "conll" else (*_COLUMNS, "label_column"):
        if name in reading:
            flag = name.replace("_", "-")
            raise UsageError(f"--{flag} has no use for an input in {source}")


def _defaults(tagger: Any, source: str, *names: str) -> dict[str, Any]:
    """Returns how the tagger's run read its files, as options of an input."""
    names += (*_COLUMNS, "encoding") if source == "conll" else ("tokenizer",)
    return {name: value for name, value in tagger.reading if name in names}


def _scores(tagger: Any, pairs: list[Any], file: Path) -> dict[str, Any]:
    """Prints and returns the scores of pairs of sentences and predicted labels."""
    from jaxner.commands.scores import show_scores
    from jaxner.data import corpora, schemes
    from jaxner.evaluation import report

    if not pairs:
        raise InputError("has no sentence to score", file)
    scheme = tagger.vocabulary.scheme
    sentences, predicted = zip(*pairs, strict=True)
    content = formats.File(file, list(sentences), [], [], "")
    tags = schemes.TAGS if scheme == schemes.TAGS else None
    split = corpora.of_file(content, scheme=tags)
    gold = [example.labels for example in split.to_scheme(scheme)]
    tokens = [example.tokens for example in sentences]
    run = report.measure(report.Prediction(tokens, gold, predicted, scheme))
    show_scores(run, name_of(file).name)
    return run


def read_least(text: str, workdir: Path | None) -> Minima:
    """Returns the minimum probability of entities, or that of each type."""
    from jaxner.answers import temperature

    if text == "calibrated":
        if workdir is None:
            raise InputError("Only runs have calibrated thresholds; this is a file")
        options = temperature.guaranteed(workdir)
        if options["n_best"] > 1:
            raise InputError(
                "The thresholds are of entities of several labellings, which overlap: "
                "calibrate without --n-best"
            )
        return options["min_probability"]
    pairs = [pair.rpartition("=") for pair in text.split(",")]
    least = {kind: fields.parse(value, fields.Share) for kind, _, value in pairs}
    if any(fields.problem(value, fields.Share) for value in least.values()):
        message = "--min-probability must be from 0 to 1, as in 0.9 or "
        message += f"PER=0.9,LOC=0.5, or calibrated, got {text!r}"
        raise UsageError(message)
    return least[""] if [*least] == [""] else least


def _of_shard(path: str, shard: int) -> str:
    return str(outputs.expanded(path.replace("{shard}", str(shard))))


def read_shard(text: str) -> tuple[int, int]:
    """Returns index and number of shards from `I/N`."""
    index, _, count = text.partition("/")
    if index.isdecimal() and count.isdecimal() and int(index) < int(count):
        return int(index), int(count)
    raise UsageError(f"Expected --shard I/N with I below N, such as 0/4, got {text!r}")


def show(
    run: fields.Folder,
    file: Path = STDIN,
    /,
    *,
    output: fields.Output | None = None,
    min_probability: str = "0",
    one_sentence_a_line: bool = False,
    tokenizer: Tokenizer | None = None,
) -> list[dict[str, Any]]:
    """Shows text with coloured entities and their probabilities.

        jaxner show runs/grn article.txt
        echo "Ms Preston left Lakeside." | jaxner show runs/grn
        jaxner show runs/grn article.txt -o article.html

    Args:
        run: Folder of the run.
        file: Raw text in UTF-8; default: standard input.
        output: Write an HTML page to this file instead.
        min_probability: Leave out less probable entities; as for jaxner tag.
        one_sentence_a_line: Read each line of the text as one sentence.
        tokenizer: Tokenizer for the text, or for each line; default: the run's, or
            words.

    Returns:
        A list of entities: `text`, `type`, `probability`, tokens from `start` to `end`,
        characters from `start_char` to `end_char` (Unicode code points, a line end is
        one; ends are not included).
    """
    from jaxner.answers import highlights
    from jaxner.answers.entities import entities, entity_types
    from jaxner.terminal import LineConsole

    format = formats.of_name(file)
    if format and ".txt" not in map(str.lower, file.suffixes):
        message = f"{file} looks like {format}, and jaxner show reads raw text"
        raise UsageError(f"{message}: jaxner tag reads columns and JSON lines")
    least = read_least(min_probability, run)
    text = outputs.read_text(file).removeprefix("\ufeff")
    tagger = load(run)
    check_reads_text(tagger)
    split = tokenizer or tagger.tokenizer
    split = functools.partial(_by_line, split) if one_sentence_a_line else split
    answer = entities(tagger, text, min_probability=least, tokenizer=split)
    content = highlights.highlighted(text, answer, entity_types(tagger))
    if output:
        outputs.write_text(output, highlights.page(content))
        note(f"Wrote {output}")
    else:
        LineConsole().print(content, soft_wrap=True)
    return [entity._asdict() for entity in answer]


def _by_line(tokenizer: str | None, text: str) -> list[list[tuple[int, int]]]:
    """Returns the tokens of each line, as one sentence."""
    sentences, start = [], 0
    for line in io.StringIO(text):
        for sentence in tokens.read(line, tokenizer, split_sentences=False):
            sentences.append([(t.start + start, t.end + start) for t in sentence])
        start += len(line)
    return sentences


def select(
    run: fields.Folder,
    file: Path = STDIN,
    /,
    *,
    output: Path,
    budget: fields.Size = 200,
    format: Annotated[str, fields.OneOf(formats.RAW)] | None = None,
    sentences: bool = True,
    reading: Reading,
    to: Literal["label-studio", "doccano", "brat"] | None = None,
) -> None:
    """Chooses the sentences worth annotating, for Label Studio, doccano or brat.

        jaxner select runs/grn news.txt -o tasks.json
        jaxner select runs/grn news.txt -o tasks.jsonl --budget 50

    The command chooses sentences that the tagger is unsure about and that differ
    from each other, the most useful first. They come with the entities that the
    tagger predicts, for you to correct. `jaxner train` reads what doccano and
    brat export.

    Args:
        run: Folder of the run.
        file: File to choose from, read as by jaxner tag; default: standard input.
        output: File to write; for brat, a new folder.
        budget: Number of sentences.
        format: Format of the input; default: by its name.
        sentences: Split texts into sentences.
        to: Tool; default: by the name: label-studio for .json, doccano for .jsonl, else
            brat.
    """
    from jaxner.analysis import selection

    tools = {".json": "label-studio", ".jsonl": "doccano"}
    tool = to or tools.get(output.suffix, "brat")
    if tool == "brat":
        spans.check_brat(output)
    else:
        outputs.check(output, sources=[file])
    source = format or formats.guess_raw(str(file))
    _check_use(reading, source)
    sources.check_file(file)
    tagger = load(run)
    check_reads_text(tagger)
    options = {"split_sentences": sentences, **_defaults(tagger, source), **reading}
    examples: list[formats.Example] = []
    text = sources.Source(file, formats.Options(**options), has_labels=False)
    for record in formats.RAW[source](text):
        part, errors = text.parse(record)
        if errors:
            raise errors[0]
        examples += part
    choices = selection.select(tagger, examples, budget)
    selection.write(output, choices, tool)
    count = counted(len(choices), "sentence")
    note(f"Wrote {count} of {len(examples):,}, for {tool}, to {output}")
