"""Formats of texts with spans of characters: JSON lines, brat, spaCy's DocBin."""

from __future__ import annotations

import bisect
import dataclasses
import functools
import itertools
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from jaxner import outputs, wording
from jaxner.data import schemes, tokens
from jaxner.data.sources import (
    BLANK_HINT,
    DOCUMENT,
    Example,
    Items,
    Note,
    Options,
    Record,
    Source,
    cell,
    shown,
    write_text,
)
from jaxner.data.tokens import Token
from jaxner.errors import InputError, optional
from jaxner.wording import counted

_WIDE = re.compile("[\U00010000-\U0010ffff]")  # two units in UTF-16
# Thai, Lao, Tibetan, Burmese, Khmer, kana and Han: no spaces between words.
_UNSPACED = re.compile("[\u0e00-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")
_WIDEN = "; unfit=widen extends it to whole tokens"
_SPLIT = "; for words without spaces, tokenizer=characters splits into characters"
# brat: semicolons part fragments, as in T1, a type, 0 5;16 23, their text.
_PLACE = r"\d{1,18} \d{1,18}"  # Python reads no whole number of thousands of digits
_ANNOTATION = re.compile(rf"T\S+\t([^ \t]+) ({_PLACE}(?:;{_PLACE})*)\t(.*)")

_BLANK = " \t\r\n"


class CharSpan(NamedTuple):
    """An entity in a text."""

    start: int  # its first character
    end: int  # its last character plus one
    type: str
    text: str | None = None  # if the file repeats it
    line: int = 0  # 0: that of the text

    def fits(self, text: str) -> bool:
        """Returns whether the text that the file repeats is that of the place."""
        if not self.text or self.end - self.start > 2 * len(self.text) + 99:
            return not self.text  # long spans would cost time
        # White space may differ; Label Studio writes a line end as a backslash and n.
        parts = self.text, text[self.start : self.end]
        words, others = (part.replace("\\n", " ").split() for part in parts)
        return words == others


def pieces(text: str, options: Options) -> list[Example]:
    """Returns the sentences of a raw text; without splitting, the text is one."""
    split = options.split_sentences
    sentences = tokens.read(text, options.tokenizer, split_sentences=split)
    if not split and len(sentences) == 1:
        return [_sentence(text, sentences[0], 0, len(text))]
    return [_sentence(text, x, x[0].start, x[-1].end) for x in sentences]


def _sentence(text: str, words: Sequence[Token], start: int, end: int) -> Example:
    """Returns the tokens of a text between two characters as its sentence."""
    offsets = tuple((word.start - start, word.end - start) for word in words)
    texts = tuple(word.text for word in words)
    return Example(texts, text=text[start:end], offsets=offsets, start=start)


def texts(source: Source) -> Iterator[Record]:
    """Reads raw text: each line that is not blank is a record."""

    def parse(line: str) -> Items:
        if flaw := source.flaw(line):
            raise InputError(flaw)
        return [*pieces(line, source.options)]

    for number, line in enumerate(source.lines(), 1):
        if line.strip():
            read = functools.partial(parse, line)
            yield Record(number, [line], read, content={"text": line})


def fitted(
    options: Options, text: str, spans: Iterable[CharSpan], sentences: Iterable[Example]
) -> Items:
    """Returns a text's sentences with BIO labels of its spans; errors, and notes."""
    sentences = [*sentences]
    begins, ends, owners = [], [], []  # of each token: characters, sentence
    for owner, piece in enumerate(sentences):
        for start, end in piece.offsets or ():
            begins.append(piece.start + start)
            ends.append(piece.start + end)
            owners.append(owner)
    labels: list[str] = ["O"] * len(owners)
    holders: list[CharSpan | None] = [None] * len(owners)
    items: list[Example | InputError | Note] = []

    def flaw(span: CharSpan) -> tuple[str, int, int]:
        """Returns what is wrong with a span, and its first and last token."""
        first = bisect.bisect_right(ends, span.start)
        last = bisect.bisect_left(begins, span.end) - 1
        if not 0 <= span.start < span.end <= len(text):
            size = counted(len(text), "character")
            return f"is empty or exceeds its text of {size}", 1, 0
        if not span.fits(text):
            return f"should be {shown(span.text or '')}", 1, 0
        if first > last or not (splits or owners[first] == owners[last]):
            return "has no tokens in one sentence", 1, 0
        # No span is longer than one before it, so that it cannot lie around that.
        if holder := holders[first] or holders[last]:
            return f"overlaps the {holder.type} {holder.start}:{holder.end}", 1, 0
        if (begins[first], ends[last]) != (span.start, span.end):
            whole = _cut(text, begins[first], ends[last])
            return f"does not match the tokens of {whole}", first, last
        return "", first, last

    units, counts, splits = _units(text), options.offsets, options.split_sentences
    for narrow in sorted(spans, key=lambda span: (span.start - span.end, span[:3])):
        span = _moved(narrow, units) if units and counts == "utf-16" else narrow
        problem, first, last = flaw(span)
        if problem:
            place = f"the {span.type} {narrow.start}:{narrow.end}"
            problem = f"{place} {problem}: {_cut(text, span.start, span.end)}"
            if span is narrow and units and not flaw(_moved(span, units))[0]:
                problem += "; it fits if offsets=utf-16, as in JavaScript"
            is_word = options.tokenizer == "characters"
            cuts = text[max(span.start - 1, 0) : span.start + 1]
            cuts += text[span.end - 1 : span.end + 1]
            is_word |= not _UNSPACED.search(cuts)
            remedy = (_WIDEN if is_word else _SPLIT) * (first <= last)
            items.append(_unfit(options, problem, span.line, remedy))
            if options.unfit != "widen" or first > last:
                continue
        labels[first] = f"B-{span.type}"
        labels[first + 1 : last + 1] = [f"I-{span.type}"] * (last - first)
        holders[first : last + 1] = [narrow] * (last - first + 1)
    rest, groups = iter(labels), list[list[Example]]()
    for piece in sentences:
        names = tuple(itertools.islice(rest, len(piece.tokens)))
        part = dataclasses.replace(piece, labels=names)
        if names[0].startswith("I-"):  # it begins within a span
            groups[-1].append(part)
        else:
            groups.append([part])
    return [*items, *(_joined(text, parts) for parts in groups)]


def _joined(text: str, parts: Sequence[Example]) -> Example:
    """Returns neighbouring sentences of a text as one."""
    first = parts[0]
    if len(parts) == 1:
        return first
    offsets = [
        (start + part.start - first.start, end + part.start - first.start)
        for part in parts
        for start, end in part.offsets or ()
    ]
    return dataclasses.replace(
        first,
        tokens=tuple(itertools.chain(*(part.tokens for part in parts))),
        labels=tuple(itertools.chain(*(part.labels for part in parts))),
        lines=tuple(itertools.chain(*(part.lines for part in parts))),
        text=text[first.start : first.start + offsets[-1][1]],
        offsets=tuple(offsets),
    )


def _unfit(options: Options, problem: str, line: int, remedy: str) -> InputError | Note:
    """Returns the error about a span that fits no tokens, or what is done instead."""
    if options.unfit == "drop":
        return Note(f"{problem}: left out", line)
    if options.unfit == "widen" and remedy:
        return Note(f"{problem}: widened", line)
    return InputError(problem + remedy, None, line)


def _cut(text: str, start: int, end: int) -> str:
    start, end = max(start, 0), max(end, 0)
    return shown(text[start : min(end, start + 99)])


def _units(text: str) -> dict[int, int]:
    """Returns the character at each offset in UTF-16; none if each has one unit."""
    if not _WIDE.search(text):
        return {}
    sizes = (2 if c > "\uffff" else 1 for c in text)
    return {x: i for i, x in enumerate(itertools.accumulate(sizes, initial=0))}


def _moved(span: CharSpan, units: Mapping[int, int]) -> CharSpan:
    """Returns a span in characters for one in units of UTF-16; -1: within one."""
    return span._replace(start=units.get(span.start, -1), end=units.get(span.end, -1))


# JSON

# Keys of spans, by the tools that write them: jaxner and Prodigy; doccano with
# relations, and without; others.
_SPANS = ("spans", "entities", "label", "labels", "annotations", "completions")
ANNOTATION = (*_SPANS, "ner_tags", "relations", "predictions", "answer")
"""Keys of a JSON object that hold its annotation."""


def json_lines(source: Source) -> Iterator[Record]:
    """Reads JSON objects, one per line or all in an array: sentences, or texts.

    - `{"tokens": ["Rome", "wins"], "labels": ["B-LOC", "O"]}`;
    - `{"text": "Rome wins", "spans": [{"start": 0, "end": 4, "label": "LOC"}]}`, where
      a span may also be `[0, 4, "LOC"]`; offsets count characters, ends are exclusive;
      `tokens` may say what the tokens of the text are;
    - what doccano, Prodigy and Label Studio export. Records that were rejected,
      ignored, cancelled or never annotated are left out and counted.

    A new value of `document` (`doc_id`) starts a document. Labels (or `ner_tags`) may
    be numbers, as in exports of Hugging Face's data sets, if `label_names` says what
    they stand for, or a record before them: `{"label_names": ["O", "B-PER", …]}`.
    """
    options, document, last = source.options, 0, []
    names = options.label_names or ()
    if isinstance(names, str):
        names = [*map(str.strip, names.split(","))]
    refused_lines, foreign_lines, wide_lines, blank_lines = [], [], [], []  # lines
    empty_lines, double_lines = [], []

    def parse(content: dict[str, Any], names: Sequence[str], line: int) -> Items:
        words, kinds = content.get("tokens"), content.get("labels")
        kinds = content.get("ner_tags") if kinds is None else kinds
        if source.has_labels and isinstance(words, list):
            full = [not isinstance(x, str) or bool(x.strip(_BLANK)) for x in words]
            if options.blank == "error" and not all(full):
                raise InputError(f"a token is blank{BLANK_HINT}")
            blank_lines.extend([line] * full.count(False))
            words = [*itertools.compress(words, full)]
            if isinstance(kinds, list) and len(kinds) == len(full):
                kinds = [*itertools.compress(kinds, full)]
            content = content | {"tokens": words}
            if full and not words:
                return []
        text, sentences = text_of(content), _pieces_of(content, options)
        if not source.has_labels:
            return [*sentences]
        if content.get("tokens") and isinstance(kinds, list):
            labels = _decoded(kinds, len(sentences[0].tokens), names)
            values = (x for x in map(content.get, _SPANS) if isinstance(x, list))
            spans = [x for x in itertools.chain(*values) if isinstance(x, dict | list)]
            double_lines.extend([line] * any(_results(spans)))
            return [dataclasses.replace(sentences[0], labels=labels)]
        lists = [x for x in map(content.get, _SPANS) if isinstance(x, list)]
        items = next(filter(None, lists), [])
        # Prodigy and JSON-MIN of Label Studio have no list if there are no entities.
        types = {type(content[key]) for key in content.keys() - {"tokens"}}
        is_accepted = content.get("answer") == "accept" or "annotation_id" in content
        if is_accepted and list not in types and not any(map(content.get, _SPANS)):
            lists = [[]]
        if text is None or not lists or sum(map(bool, lists)) > 1:
            reason = "expected tokens and labels, or text and one list of spans"
            raise InputError(reason)
        results, links = [*map(_span, _results(items))], content.get("relations")
        results += [None] * len(links if isinstance(links, list) else ())
        spans = [span for span in results if span]
        foreign_lines.extend([line] * (len(results) - len(spans)))
        match = _WIDE.search(text) if options.offsets == "characters" else None
        if match and any(not s.text and s.end > match.start() for s in spans):
            wide_lines.append(line)
        if not sentences and not spans:
            empty_lines.append(line)
        return fitted(options, text, spans, sentences)

    unit = "line"
    for line, unit, raw, content in _objects(source):
        if isinstance(content, dict) and list(content) == ["label_names"]:
            try:
                names = _strings(content["label_names"])
                continue
            except InputError as error:
                content = error
        if isinstance(content, InputError):
            yield Record(line, [raw], [content].copy, document, unit=unit)
        elif source.has_labels and not _is_annotated(content):
            refused_lines.append(line)
        else:
            name = [x for x in map(content.get, DOCUMENT) if x not in (None, "")][:1]
            is_first = name not in ([], last)
            document, last = document + is_first, name or last
            read = functools.partial(parse, content, names, line)
            yield Record(line, [raw], read, document, is_first, content, unit)
    form = "{} with characters of two units in UTF-16, such as emoji: offsets count "
    for case in (
        (blank_lines, "blank token", "left out {}"),
        (empty_lines, "text", "left out {} without tokens"),
        (double_lines, "record", "{} with labels and spans: the labels are read"),
        (refused_lines, "record", "left out, since no annotator accepted them: {}"),
        (foreign_lines, "annotation", "left out, since they are no entities: {}"),
        (wide_lines, "text", f"{form}characters; offsets=utf-16 counts units"),
    ):
        source.note_cases(*case, unit)


def _objects(source: Source) -> Iterator[tuple[int, str, str, Any]]:
    """Yields number and unit, text, and object or error of each JSON object.

    If the first line begins an array, or an object that it does not end, the file is
    one value.
    """
    lines, is_first = enumerate(source.lines(), 1), True
    for number, line in lines:
        if not (start := line.strip(" \t\r")):
            continue
        is_array = is_first and start[0] == "["
        is_whole, is_first = is_array or (is_first and start == "{"), False
        try:
            rest = [line for _, line in lines] if is_whole else []
            text = "\n".join([line, *rest])
            if flaw := source.flaw(text):
                raise InputError(flaw.replace("a line", "a value") if rest else flaw)
            value = _loaded(text, list if is_array else dict)
            if not is_array:
                yield number, "line", text, value
            for index, content in enumerate(value if is_array else [], 1):
                yield index, "record", json.dumps(content, ensure_ascii=False), content
        except InputError as error:
            yield number, "line", line, source.error(number, error.message, line)


def read_json(path: Path) -> dict[str, Any]:
    """Returns the JSON object in a file."""
    try:
        return _loaded(outputs.read_text(path), dict)
    except InputError as error:
        raise InputError(error.message, path) from None


def _loaded(text: str, kind: type) -> Any:
    """Returns a JSON object, or an array of objects."""
    try:
        value = json.loads(text, object_pairs_hook=unique)
        if "\\ud" in text.lower():
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise InputError("expected characters, got half of a surrogate pair") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"this is not JSON ({error})") from None
    if not isinstance(value, kind):
        raise InputError(f"expected a JSON object, got a {type(value).__name__}")
    for item in value if kind is list else ():
        if not isinstance(item, dict):
            message = "expected a JSON array of objects, in which there is a "
            raise InputError(f"{message}{type(item).__name__}")
    return value


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Returns the object of a JSON decoder's pairs, in which no key occurs twice."""
    content = dict(pairs)
    if len(content) < len(pairs):
        counts = Counter(key for key, _ in pairs)
        key = next(key for key, count in counts.items() if count > 1)
        raise InputError(f"the key {key!r} occurs twice")
    return content


def text_of(content: Mapping[str, Any]) -> Any:
    """Returns the text of an object; doccano and Label Studio may call it `data`."""
    data = content.get("data")
    data = data.get("text") if isinstance(data, Mapping) else data
    return content.get("text", data)


def _pieces_of(content: Mapping[str, Any], options: Options) -> list[Example]:
    """Returns the sentences of an object: one if it has tokens with labels."""
    text, words = text_of(content), content.get("tokens")
    has_labels = any(isinstance(content.get(x), list) for x in ("labels", "ner_tags"))
    if isinstance(text, str) and words is None:
        return pieces(text, options)
    if words is None or not isinstance(text, str | None):
        raise InputError("expected tokens or a text")
    if isinstance(words, list) and all(isinstance(word, Mapping) for word in words):
        words = [word.get("text") for word in words]  # of Prodigy
        words = [x for x in words if not isinstance(x, str) or x.strip(_BLANK)]
    words = _strings(words)
    if not words:
        raise InputError("it has no tokens: leave it out")
    if text is None:
        return [Example(words)]
    whole = tokens.located(text, words)
    left, right = (tokens.SEPARATOR.sub("", x) for x in (text, "".join(words)))
    if left != right:
        raise InputError("the text holds characters that are in no token")
    if has_labels or not options.split_sentences:
        return [_sentence(text, whole, 0, len(text))]
    parts = tokens.grouped(text, whole)
    return [_sentence(text, x, x[0].start, x[-1].end) for x in parts]


def _strings(values: Any) -> tuple[str, ...]:
    are_listed = isinstance(values, list)
    for value in values if are_listed else [values]:
        is_text = are_listed and isinstance(value, str) and value.strip(" ")
        if not is_text or {*value} & {*"\t\r\n"}:
            message = "expected a list of strings, not blank, without tabs and line "
            message += "ends, got "
            raise InputError(f"{message}{value!r}")
    return tuple(values)


def _decoded(values: Any, count: int, names: Sequence[str]) -> tuple[str, ...]:
    """Returns the labels of tokens; numbers are places in `names`."""
    if all(type(value) is int for value in values):
        if not all(0 <= value < len(names) for value in values):
            if names:
                raise InputError(f"expected labels from 0 to {len(names) - 1}")
            message = "expected names for the numbers that are labels: --label-names "
            message += "(jaxner train: --config.data.label_names), or a first line "
            raise InputError(message + '{"label_names": ["O", "B-PER", …]}')
        values = [names[value] for value in values]
    if len(labels := _strings(values)) != count:
        raise InputError(f"expected {counted(count, 'label')}, one per token")
    return labels


def _is_annotated(content: Mapping[str, Any]) -> bool:
    """Returns whether an annotator accepted what an object says."""
    if _is_rejected(content):
        return False
    if not isinstance(content.get("data"), Mapping) or "spans" in content:
        return True
    tasks = content.get("annotations", content.get("completions", []))  # Label Studio
    return not isinstance(tasks, list) or not all(map(_is_cancelled, tasks))


def _is_rejected(item: Mapping[str, Any]) -> bool:
    """Returns whether an annotator rejected an object of Prodigy's, or a span of it."""
    return str(item.get("answer")).lower() in ("reject", "ignore", "skip")


def _is_cancelled(task: object) -> bool:
    return isinstance(task, Mapping) and bool(task.get("was_cancelled"))


def _results(items: list[Any]) -> list[Any]:
    """Returns spans; those of the one annotation of a task of Label Studio."""
    maps = (item for item in items if isinstance(item, Mapping))
    tasks = [task for task in maps if isinstance(task.get("result"), list)]
    if not tasks:
        return items
    tasks = [task for task in tasks if not _is_cancelled(task)]
    if len(tasks) != 1:
        raise InputError(f"expected one annotation of a text, got {len(tasks)}")
    return tasks[0]["result"]


def _span(item: Any) -> CharSpan | None:
    """Returns a span; None for a rejected one, and other parts of annotations."""
    span, text = item, None
    if isinstance(item, Mapping):
        kind, value = str(item.get("type", "labels")), item.get("value")
        is_labelled = kind.endswith("labels")
        has_place = type(item.get("start", item.get("start_offset"))) is int
        # Label Studio has regions of many types, and relations between them.
        if _is_rejected(item) or not (is_labelled or has_place):
            return None
        item = value if isinstance(value, Mapping) else item
        labels, text = item.get("labels"), item.get("text")
        label = labels[0] if isinstance(labels, list) and len(labels) == 1 else None
        names = item.get("label"), label, None if is_labelled else kind
        start, end = (item.get(x, item.get(f"{x}_offset")) for x in ("start", "end"))
        span = [start, end, next((x for x in names if x is not None), None)]
    match span:
        case [start, end, str(kind)] if type(start) is type(end) is int:
            if isinstance(text, str | None):
                return CharSpan(start, end, kind, text)
    got = wording.start(repr(item))
    raise InputError(f"expected a span with start, end and one label, got {got}")


# brat and spaCy


def brat(source: Source) -> Iterator[Record]:
    """Reads brat's standoff format: the text of `NAME.txt`, the spans of `NAME.ann`.

    Only text-bound annotations (`T`) are entities; others are left out and counted.
    Each line of the text is a sentence, or several if `split_sentences` is set, when an
    entity of several lines joins them. If only then the annotations fit the text,
    offsets count CRLF as one character, or units of UTF-16; a note says so.

    Source: https://brat.nlplab.org/standoff.html
    """
    for path in (source.path, source.path.with_suffix(".txt")):
        if not path.is_file():
            raise InputError("expected this file beside its pair", path)
    yield Record(1, (), functools.partial(_brat, source), 1)


def _brat(source: Source) -> Items:
    path = source.path.with_suffix(".txt")
    text, options = source.text(path), source.options
    items: list[InputError | Note] = []
    annotations = []  # line, type, fragments, text
    rest = 0
    for number, line in enumerate(source.lines(), 1):
        match, flaw = _ANNOTATION.fullmatch(line), source.flaw(line)
        if flaw or (line.startswith("T") and not match):
            message = flaw or "expected ID, tab, type, offsets, tab, text"
            items.append(source.error(number, message, line))
        elif match:
            parts = [part.split(" ") for part in match[2].split(";")]
            fragments = [(int(start), int(end)) for start, end in parts]
            phrase = match[3].replace("\r", " ")  # of texts with CRLF
            annotations.append((number, match[1], fragments, phrase))
        else:
            rest += bool(line.strip())

    def misfits(text: str, offsets: str) -> Iterator[InputError]:
        units = _units(text) if offsets == "utf-16" else {}
        for number, _, fragments, phrase in annotations:
            # No more is looked at than an annotation may have.
            limit = 2 * len(phrase) + 99
            parts = [CharSpan(a, min(b, a + limit), "") for a, b in fragments]
            parts = [_moved(part, units) for part in parts] if units else parts
            quote = " ".join(text[max(a, 0) : max(b, 0)] for a, b, *_ in parts)
            quote = re.sub(r"[\r\n]", " ", quote).strip()
            if quote != phrase.strip():
                message = f"expected {shown(phrase)} at characters {fragments} of the "
                yield InputError(f"{message}text, got {shown(quote)}", None, number)

    flat = text.replace("\r\n", "\n")
    ways = [(text, options.offsets), (flat, options.offsets)]
    ways += [(text, "utf-16"), (flat, "utf-16")] if _WIDE.search(text) else []
    fits = (way for way in ways if next(misfits(*way), None) is None)
    if (way := next(fits, None)) is None:
        return [*items, *misfits(*ways[0])]
    if way != ways[0]:
        counts = ["CRLF as one character"] * (way[0] != text)
        counts += ["units of UTF-16"] * (way[1] != options.offsets)
        items.append(Note(f"the offsets count {' and '.join(counts)}"))
    if rest:
        count = counted(rest, "annotation")
        items.append(Note(f"left out {count} that are no entities"))
    spans, units = [], _units(way[0]) if way[1] == "utf-16" else {}
    for number, kind, fragments, _ in annotations:
        start, end = min(fragments)[0], max(end for _, end in fragments)
        if len(fragments) > 1:
            problem = f"the {kind} {start}:{end} has {len(fragments)} fragments"
            whole = CharSpan(start, end, kind)
            first, last, *_ = _moved(whole, units) if units else whole
            is_whole = options.split_sentences or "\n" not in way[0][first:last]
            items.append(_unfit(options, problem, number, _WIDEN * is_whole))
        if len(fragments) == 1 or (options.unfit == "widen" and is_whole):
            spans.append(CharSpan(start, end, kind, None, number))
    sentences, start, options = [], 0, dataclasses.replace(options, offsets=way[1])
    for number, line in enumerate(way[0].split("\n"), 1):
        for piece in pieces(line, options):
            origin = {"start": start + piece.start, "path": str(path)}
            lines = (number,) * len(piece.tokens)
            sentences.append(dataclasses.replace(piece, lines=lines, **origin))
        start += len(line) + 1
    return [*items, *fitted(options, way[0], spans, sentences)]


def docbin(source: Source) -> Iterator[Record]:
    """Reads the documents of spaCy's `DocBin`: sentences and entities.

    A document without marked sentences is a sentence, unless `split_sentences` is set.
    Tokens of spaces, tabs and line ends alone are left out. Tokens without annotation,
    which spaCy calls missing, are outside of entities; a note counts them.
    """
    spacy = optional("spacy", "A .spacy file")
    data = source.bytes(source.path)
    try:
        docs = [*spacy.tokens.DocBin().from_bytes(data).get_docs(spacy.Vocab())]
    except Exception as error:  # of zlib, of msgpack, a missing key
        message = f"expected a DocBin of spaCy, got {type(error).__name__}: {error}"
        raise InputError(message, source.path) from None
    gaps: list[int] = []  # the document of each token without annotation
    rest: list[int] = []  # and of each span that is no entity

    def words_of(part: Any) -> list[Token]:
        words = (Token(word.text, word.idx, word.idx + len(word)) for word in part)
        return [word for word in words if word.text.strip(_BLANK)]

    def parse(number: int, doc: Any) -> Items:
        spans, whole = [], doc.text
        is_split = doc.has_annotation("SENT_START")
        rows = [*filter(None, map(words_of, doc.sents if is_split else [doc]))]
        if source.options.split_sentences and rows and not is_split:
            rows = tokens.grouped(whole, rows[0])
        sentences = [_sentence(whole, x, x[0].start, x[-1].end) for x in rows]
        for entity in doc.ents:
            # One of white space alone stays, and is reported as unfit.
            words = words_of(entity) or [Token("", entity.start_char, entity.end_char)]
            spans.append(CharSpan(words[0].start, words[-1].end, entity.label_))
        gaps.extend(number for x in doc if x.text.strip(_BLANK) and not x.ent_iob)
        rest.extend([number] * sum(map(len, doc.spans.values())))
        return fitted(source.options, whole, spans, sentences)

    for number, doc in enumerate(docs, 1):
        read = functools.partial(parse, number, doc)
        yield Record(number, (), read, number, unit="document")
    text = "outside of entities for lack of annotation: {}"
    source.note_cases(gaps, "token", text, "document")
    text = "left out, since they are in doc.spans, not in doc.ents: {}"
    source.note_cases(rest, "span", text, "document")


# Writers


def text_and_spans(example: Example) -> tuple[str, list[tuple[int, int, str]]]:
    """Returns a sentence's text, or its joined tokens, and its entities in it."""
    text, offsets = example.text, example.offsets
    if text is None or offsets is None:
        text = " ".join(example.tokens)
        offsets = [token[1:] for token in tokens.located(text, example.tokens)]
    spans = schemes.to_spans(example.labels)
    return text, [(offsets[a][0], offsets[b - 1][1], kind) for a, b, kind in spans]


def to_json(
    examples: Iterable[Example], tags: bool = False, has_spans: bool = False
) -> Iterator[str]:
    """Yields JSON lines: tokens and labels, or the text, its tokens and spans."""
    for example in examples:
        with example.naming():
            words = [cell(token, "\t\r\n") for token in example.tokens]
            record: dict[str, Any] = {"tokens": words, "labels": example.labels}
            if has_spans:
                text, spans = text_and_spans(example)
                items = [
                    {"start": a, "end": b, "label": kind, "text": text[a:b]}
                    for a, b, kind in spans
                ]
                record = {"text": text, "tokens": words, "spans": items}
            record |= {"document": example.document} if example.document else {}
            yield json.dumps(record, ensure_ascii=False) + "\n"


to_json_spans = functools.partial(to_json, has_spans=True)


def check_brat(folder: Path) -> None:
    """Checks that brat's files can be written into a folder."""
    is_old = folder.exists() and (not folder.is_dir() or any(folder.iterdir()))
    if is_old or outputs.is_stream(folder):
        raise FileExistsError(f"Expected a new or empty folder for brat, got {folder}")
    if not folder.absolute().parent.is_dir():
        raise FileNotFoundError(f"There is no folder to write {folder} into")


def write_brat(folder: Path, examples: Sequence[Example]) -> None:
    """Writes a pair of files per document, with one sentence per line."""
    check_brat(folder)
    # Documents without sentences are pairs of empty files.
    numbers = [example.document for example in examples] or [0]
    pairs: dict[int, tuple[str, str]] = {}
    pairs |= dict.fromkeys(range(min(numbers), max(numbers) + 1), ("", ""))
    for number, members in itertools.groupby(examples, lambda e: e.document):
        lines, spans, size = [], [], 0
        for example in members:
            with example.naming():
                text, places = text_and_spans(example)
                line = re.sub(r"[\r\n]", " ", text) + "\n"
                for start, end, kind in places:
                    words = line[start:end].strip(_BLANK)  # a token may end with one
                    start = size + line.index(words, start)
                    position = f"{start} {start + len(words)}\t{words}"
                    spans.append(f"T{len(spans) + 1}\t{cell(kind, '; ')} {position}\n")
                lines.append(line)
                size += len(line)
        pairs[number] = "".join(lines), "".join(spans)
    folder.mkdir(exist_ok=True)
    for number, contents in enumerate(pairs.values(), 1):
        for ending, content in zip(("txt", "ann"), contents, strict=True):
            write_text(folder / f"{number:05}.{ending}", content)


def write_docbin(path: Path, examples: Sequence[Example]) -> None:
    """Writes a document of spaCy for each document, or else for each sentence."""
    spacy = optional("spacy", "A .spacy file")
    store, vocab, numbers = spacy.tokens.DocBin(), spacy.Vocab(), itertools.count()
    key = lambda example: example.document or -next(numbers)  # noqa: E731
    for _, group in itertools.groupby(examples, key):
        words, starts, labels, spaces = [], [], [], []
        for example in group:
            with example.naming():
                words += [cell(token, "") for token in example.tokens]
            starts += [True, *[False] * (len(example.tokens) - 1)]
            labels += schemes.convert(example.labels, "BIO")
            places = itertools.pairwise(example.offsets or ())
            spaces += [right[0] > left[1] for left, right in places]
            spaces += [True] * (len(words) - len(spaces))
        options = {"spaces": spaces, "sent_starts": starts, "ents": labels}
        store.add(spacy.tokens.Doc(vocab, words, **options))
    with outputs.writing(path) as file:
        file.write(store.to_bytes())
