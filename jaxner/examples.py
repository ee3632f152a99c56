"""Training and scoring from Python: a folder of files, or examples in memory.

Examples are pairs of tokens and labels, mappings with the columns `tokens` and `labels`
(or `ner_tags`), a data set of Hugging Face's `datasets`, or a data frame, or a table of
Arrow, with a row for each sentence, or for each token and a column `sentence`. A column
`document` (`doc_id`) says where documents begin. In a table, a blank sentence or
document is that of the row above, and names of columns may have any case.

Texts with spans are examples, too: `{"text": "Ann ran", "spans": [{"start": 0, "end":
3, "label": "PER"}]}` and what else a file of JSON lines may hold, or spaCy's pairs,
`("Ann ran", {"entities": [(0, 3, "PER")]})`.

All are written into the folder of the run, as JSON lines, and so the command can resume
it.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import tempfile
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from jaxner import cache, configuration, devices, fields, outputs, tagging
from jaxner.arguments import check_folder, check_tagger, expect
from jaxner.data import corpora, formats, schemes, spans
from jaxner.errors import InputError
from jaxner.evaluation.scoring import Scores, Task
from jaxner.tagger import Tagger
from jaxner.training import corpus, schema
from jaxner.wording import counted, start

OWN = "own"  # the config for data of one's own
_SHARE = 0.1  # of train, which is dev if there is none
_TEXT = {"text", "data", "tokens", "annotation_id"}  # columns of texts
_TEXT |= {*spans.ANNOTATION, *formats.LABEL, *formats.DOCUMENT}
_BLANK = ("", "None", "nan", "NaT", "<NA>")  # cells of a table, as text
_CONTENT = {"text", "data", *formats.TOKEN}  # columns that say what an example is


def train(
    config: Any,
    data: Any = None,
    *,
    workdir: str | os.PathLike[str] = "runs/own",
    dev: Any = None,
    test: Any = None,
    vectors: str | os.PathLike[str] | None = None,
    **options: Any,
) -> Tagger:
    """Trains a tagger on your data; the same call resumes a stopped run.

    Args:
        config: Name of a config, such as "grn" or "grn:files,head=softmax", or a file
            of your own; left out, "own", for a few hundred or thousand sentences.
            Without a data set after the colon, it is `files`: no word vectors, and
            training stops when dev no longer improves.
        data: A folder with the files `train`, `dev` and `test`; or examples of the
            training split; or a mapping of splits to examples. Without dev, a tenth of
            train is dev.
        workdir: Folder of the run; "~" is your home, as in `data`.
        dev: Examples of the dev split, beside those of train.
        test: Examples of the test split.
        vectors: File of word vectors: the text format of GloVe or fastText, perhaps
            gzipped.
        **options: Options of the config, such as `num_epochs=20`, `minutes=10` or
            `**{"data.scheme": "tags"}`.

    Raises:
        InputError: Data or an option cannot be used.
        OSError: The vectors are missing, or `workdir` is a file.
        KeyboardInterrupt: Ctrl-C stopped the run.

    Example:
        >>> import jaxner
        >>> examples = [(["Ann", "saw", "Rome"], ["B-PER", "O", "B-LOC"])] * 20
        >>> tagger = jaxner.train(examples, workdir="runs/mine", num_epochs=9)
        ... # doctest: +ELLIPSIS
        Reading the data …
        ...
        >>> tagger.tag(["Ann", "saw", "Rome"])
        ['S-PER', 'O', 'S-LOC']
    """
    from jaxner.training.train import main_run

    cache.use()
    devices.check_fork()
    check_folder(workdir)
    if data is None:
        is_name = isinstance(config, str) and not os.path.isdir(config)
        if is_name and configuration.split(config)[0] in configuration.names():
            message = f"{config} is a config: give data, too, as in jaxner.train"
            raise InputError(f"{message}({config!r}, FOLDER)")
        config, data = OWN, config
    expect(isinstance(config, str), "the name of a config (dev examples: dev=)", config)
    folder, splits = outputs.expanded(workdir), {}
    extras = {k: v for k, v in {"dev": dev, "test": test}.items() if v is not None}
    if isinstance(data, str | os.PathLike):
        if extras:
            message = "dev and test go with examples: put their files into the folder"
            raise InputError(message, data)
        values = config_of(config, data)
    else:
        values = config_of(config, ".")  # until the examples are written
        splits = dict(data) if isinstance(data, Mapping) else {"train": data}
        if not splits.keys().isdisjoint(formats.TOKEN):
            message = f"Expected examples, got columns ({', '.join(splits)}): give rows"
            raise InputError(message)
        splits = {k: v for k, v in (splits | extras).items() if v is not None}
        if "validation" in splits:
            if "dev" in splits:
                raise InputError("Expected one dev split, got dev and validation")
            splits["dev"] = splits.pop("validation")
        values.data.split_dev = None if "dev" in splits else _SHARE
    if vectors is not None:
        values.data.vectors = os.fspath(vectors)
    texts = {name: _as_option(name, value) for name, value in options.items()}
    configuration.override_all(values, texts)
    plain = ".", None, "utf-8"
    if splits and (values.data.dir, values.data.format, values.data.encoding) != plain:
        message = "data.dir, format and encoding go with files, not with examples"
        raise InputError(message)
    corpus.fit_width(values)
    schema.check(values.to_dict())
    texts = {}
    for split, rows in splits.items():
        fields.check_word("split", split, corpora.SPLITS)
        texts[f"{split}.jsonl"], _ = _read(rows, values.data, split)
    if splits and "train" not in splits:
        raise InputError(f"Expected a split 'train', got {', '.join(splits)}")
    try:
        main_run(values, folder, config, texts=texts)
    except SystemExit:
        raise KeyboardInterrupt("Stopped; the same call resumes from here") from None
    return tagging.load(folder, seed="all" if values.num_seeds > 1 else None)


def _as_option(name: str, value: Any) -> str:
    """Returns a value as a command line has it."""
    value = value.tolist() if getattr(value, "ndim", 0) else value  # of NumPy
    if not isinstance(value, list | tuple):
        return str(value)
    texts = [*map(str, value)]
    if any("," in text for text in texts):
        raise InputError(f"{name}: expected items without commas, got {value!r}")
    return ",".join(texts)


def config_of(config: str, folder: str | os.PathLike[str]) -> Any:
    """Returns a config for the files of a folder; without dev, a tenth of train is dev.

    A data set after the colon of the config's name stays.
    """
    name, variant = configuration.split(config)
    first, *parts = variant.split(",")
    if not first or "=" in first:
        variant = ",".join(["files", *filter(None, [first]), *parts])
    values = configuration.load(f"{name}:{variant}")
    path = outputs.expanded(folder)
    if not path.is_dir():
        fault = "is a file" if path.exists() else "does not exist"
        message = f"{fault}: expected a folder with the files train and, perhaps, dev"
        raise InputError(message, folder)
    values.data.update(dir=str(path), split_dev=_SHARE)
    with contextlib.suppress(FileNotFoundError):
        corpora.find(values.data.name, "dev", values.data.dir)
        values.data.split_dev = None
    return values


def evaluate(
    tagger: Tagger, data: Any, *, rule: str = "conlleval", constrained: bool = False
) -> Scores:
    """Returns the scores of a tagger on examples or on a file; see `train`.

    They are read as the run reads its own, but for the format of a file, and for its
    encoding, which is UTF-8 but for columns.

    Example:
        >>> import jaxner
        >>> tagger = jaxner.load("runs/grn")
        >>> scores = jaxner.evaluate(tagger, [(["Rome", "fell"], ["B-LOC", "O"])])
        >>> scores.overall.gold
        1
    """
    check_tagger(tagger)
    scheme, is_file = tagger.vocabulary.scheme, isinstance(data, str | os.PathLike)
    place = (data,) if is_file else ("", "jsonl")
    task = Task(scheme, rule=rule)
    reading = {"scheme": scheme, **formats.of_run(dict(tagger.reading), *place)}
    if is_file:
        split = corpus.load_file(reading, outputs.expanded(data))
    else:
        _, split = _read(data, reading)
    gold, predicted = tagging.label_split(tagger, split, constrained=constrained)
    tokens = [example.tokens for example in split.examples]
    return task.score(tokens, gold, predicted)


def _read(rows: Any, options: Any, name: str = "examples") -> tuple[str, corpora.Split]:
    """Returns examples as a text of JSON lines, and as a split; errors give a name."""
    text = "\n".join(json_lines(rows)) + "\n"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, name)
        outputs.write_text(path, text)
        try:
            return text, corpus.load_file({**options, "format": "jsonl"}, path)
        except InputError as error:
            raise InputError(error.message, path.name, error.line) from None


def json_lines(data: object) -> Iterator[str]:
    """Yields examples as JSON lines; see `formats.json_lines`."""
    names, rows = _rows(data)
    for number, (document, row) in enumerate(rows, 1):
        try:
            record = _record(row, names)
            record |= {"document": document} if document else {}
            # Numbers and arrays of NumPy become Python's.
            line = json.dumps(record, ensure_ascii=False, default=lambda x: x.tolist())
        except InputError as error:
            raise InputError(f"Example {number}: {error.message}") from None
        except (AttributeError, TypeError, ValueError):
            message = "expected a pair of tokens and labels, or of a text and "
            message += f"its entities, got {start(repr(row))}"
            raise InputError(f"Example {number}: {message}") from None
        yield line


def _record(row: Any, names: Sequence[str]) -> dict[str, Any]:
    """Returns a pair of tokens and labels, or of text and spans, as JSON has it."""
    tokens, labels = row
    if isinstance(labels, Mapping):
        return {"text": tokens, **labels}
    if _is_paired(row) or not (_is_list(tokens) and _is_list(labels)):
        raise TypeError  # letters are no tokens
    return {"tokens": [*tokens], "labels": [_named(x, names) for x in labels]}


def _is_paired(row: Any) -> bool:
    """Returns whether a row has a pair for each token; two may look like one pair."""
    if not all(isinstance(x, list | tuple) and len(x) == 2 for x in row):
        return False
    if not all(isinstance(x, str) for pair in row for x in pair):
        return False  # numbers of classes
    return not schemes.flaws(pair[1] for pair in row) and bool(schemes.flaws(row[-1]))


def _rows(data: Any) -> tuple[Sequence[str], Iterable[tuple[str, Any]]]:
    """Returns names of classes; and the document of each sentence, and its pair."""
    features = getattr(data, "features", None) or {}
    if hasattr(data, "to_dicts"):  # a data frame of Polars
        data = data.to_dicts()
    elif hasattr(data, "to_dict") and hasattr(data, "columns"):  # of pandas
        data = data.to_dict("records")
    elif hasattr(data, "to_pylist"):  # a table of Arrow
        data = data.to_pylist()
    if not _is_list(data):
        raise InputError(f"Expected examples, got a {type(data).__name__}")
    rows = [*data]
    first = next(filter(_has_content, rows), rows[0] if rows else None)
    if not isinstance(first, Mapping):
        return (), (("", row) for row in rows)
    if _is_text(first):
        pairs = (_text(row) if isinstance(row, Mapping) else row for row in rows)
        return (), (("", pair) for pair in pairs)
    token = _column(first, formats.TOKEN)
    # The class of a sentence is no column of labels.
    has_lists = _is_list(first[token])
    label = _column(first, formats.LABEL, has_lists)
    sentence = None if has_lists else _column(first, formats.SENTENCE)
    document = None
    with contextlib.suppress(InputError):
        document = _column(first, formats.DOCUMENT, False)
    columns = [x for x in (token, label, sentence, document) if x is not None]
    for number, row in enumerate(rows, 1):
        if not (isinstance(row, Mapping) and row.keys() >= {*columns}):
            listing = ", ".join(map(str, columns))
            message = f"expected the columns {listing}, got {start(repr(row))}"
            raise InputError(f"Row {number}: {message}")
    pairs = [(row[token], row[label]) for row in rows]
    documents = _filled(rows, document)
    feature: Any = features.get(label)
    while isinstance(feature, list) or hasattr(feature, "feature"):
        feature = feature[0] if isinstance(feature, list) else feature.feature
    names = getattr(feature, "names", None) or ()
    if has_lists:
        return names, zip(documents, pairs, strict=True)
    keys = [*zip(documents, _filled(rows, sentence), strict=True)]
    return names, _by_sentence(keys, pairs)


def _has_content(row: object) -> bool:
    """Returns whether a row is no mapping, or one with tokens or a text."""
    return not isinstance(row, Mapping) or any(
        str(name).strip().lower() in _CONTENT and str(cell) not in _BLANK
        for name, cell in row.items()
    )


def _is_text(row: Mapping[str, Any]) -> bool:
    """Returns whether a row is a text with spans; it may list its tokens."""
    text, cells = _text(row)
    is_apart = {str(x).strip().lower() for x in row}.isdisjoint(formats.TOKEN)
    if _is_list(tokens := cells.get("tokens", "")):
        is_apart = any(isinstance(x, Mapping) for x in tokens)  # of Prodigy
        is_apart |= not any(_is_list(cells.get(x)) for x in formats.LABEL)
    return is_apart and isinstance(text, str)


def _text(row: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Returns the text of a row, and what is read of it; see `spans.json_lines`."""
    cells = {str(name).strip().lower(): x for name, x in row.items()}
    cells = {
        name: x
        for name, x in cells.items()
        if name in _TEXT and (name == "text" or str(x) not in _BLANK)
    }
    return spans.text_of(cells), cells


def _by_sentence(
    keys: Sequence[tuple[str, str]], pairs: Sequence[tuple[Any, Any]]
) -> Iterator[tuple[str, Any]]:
    """Yields the document, and the tokens and labels, of neighbours with one key."""
    old_keys, returns = set(), []
    for key, places in itertools.groupby(range(len(keys)), key=keys.__getitem__):
        places = [*places]
        if key in old_keys:
            returns.append(f"{key[1]!r} comes back in row {places[0] + 1}")
        old_keys.add(key)
        yield key[0], tuple(zip(*(pairs[i] for i in places), strict=True))
    if returns:
        warnings.warn(
            f"Sentence {returns[0]} after others (such cases: {len(returns):,}), "
            "and is read as a new one. If rows of one sentence are apart, sort them by "
            "sentence, without changing their order; if numbers restart, add a column "
            "document.",
            stacklevel=2,
        )


def _filled(rows: Sequence[Any], column: str | None) -> list[str]:
    """Returns the cells of a column as text, a blank one as that above."""
    cells, last_text = [], ""
    for row in rows:
        text = "" if column is None else str(row[column]).strip()
        last_text = last_text if text in _BLANK else text
        cells.append(last_text)
    return cells


def _column(row: Mapping[str, Any], names: Iterable[str], has_lists: Any = None) -> str:
    """Returns the first of some columns, perhaps of those with lists or without."""
    columns = {str(column).strip().lower(): column for column in row}
    for name in filter(columns.__contains__, names):
        if has_lists is None or _is_list(row[columns[name]]) == has_lists:
            return columns[name]
    kind = {True: " of lists", False: " without lists"}.get(has_lists, "")
    raise InputError(
        f"Expected a column{kind} {', '.join(names)}; got {', '.join(map(str, row))}"
    )


def _is_list(value: object) -> bool:
    """Returns whether a value has items in an order."""
    others = str | bytes | Mapping | set | frozenset
    return isinstance(value, Iterable) and not isinstance(value, others)


def _named(label: Any, names: Sequence[str]) -> Any:
    """Returns the name of a label; one that is no number of a class as it is."""
    label = label.item() if hasattr(label, "item") else label
    if type(label) is not int or not names:
        return label
    if not 0 <= label < len(names):
        message = f"expected numbers of {counted(len(names), 'label')}, from 0"
        raise InputError(f"{message}, got {label}")
    return names[label]
