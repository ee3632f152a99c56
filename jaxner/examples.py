"""Training and scoring from Python: a folder of files, or examples in memory.

Examples are pairs of tokens and labels, mappings with the columns `tokens` and `labels`
(or `ner_tags`), a data set of Hugging Face's `datasets`, or a data frame with a row for
each sentence, or for each token and a column `sentence`. They are written into the
folder of the run, as JSON lines, and so the command can resume it.
"""

from __future__ import annotations

import itertools
import json
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from jaxner import configuration, disk, tagging
from jaxner.arguments import check_tagger
from jaxner.data import corpora, formats, schemes
from jaxner.errors import InputError
from jaxner.evaluation.scoring import Scores, Task
from jaxner.tagger import Tagger

_SHARE = 0.1  # of train, which is dev if there is none


def train(
    config: str,
    data: Any,
    *,
    workdir: str | Path,
    dev: Any = None,
    test: Any = None,
    **options: Any,
) -> Tagger:
    """Trains a tagger on your data; the same call resumes a stopped run.

    Args:
        config: Name of a config, such as "grn" or "grn:files,head=softmax", or a file
            of your own. Without a data set after the colon, it is `files`: no word
            vectors, and training stops when dev no longer improves.
        data: A folder with the files `train`, `dev` and `test`; or examples of the
            training split; or a mapping of splits to examples.
        workdir: Folder of the run.
        dev: Examples of the dev split; without any, a tenth of train.
        test: Examples of the test split.
        **options: Options of the config, such as `num_epochs=20` or
            `**{"data.vectors": "glove.txt"}`.

    Raises:
        InputError: Data or an option cannot be used.
        KeyboardInterrupt: Ctrl-C stopped the run.

    Example:
        >>> import jaxner
        >>> examples = [(["Ann", "saw", "Rome"], ["B-PER", "O", "B-LOC"])] * 20
        >>> tagger = jaxner.train("grn", examples, workdir="runs/mine", num_epochs=9)
        ... # doctest: +ELLIPSIS
        Reading the data …
        ...
        >>> tagger.tag(["Ann", "saw", "Rome"])
        ['S-PER', 'O', 'S-LOC']
    """
    from jaxner.training.train import main_run

    name, variant = configuration.split(config)
    first, *others = variant.split(",")
    if not first or "=" in first:
        variant = ",".join(["files", *filter(None, [first]), *others])
    values = configuration.load(f"{name}:{variant}")
    folder = Path(workdir)
    if isinstance(data, str | Path):
        values.data.dir = str(data)
    else:
        splits = dict(data) if isinstance(data, Mapping) else {"train": data}
        splits |= {"dev": splits.pop("validation", None) or splits.get("dev")}
        more = {"dev": dev, "test": test}
        splits |= {split: rows for split, rows in more.items() if rows is not None}
        values.data.dir = str(folder / "data")
        for split, rows in splits.items():
            if rows is not None:
                _write(folder / "data" / f"{split}.jsonl", rows)
        if splits.get("dev") is None:
            values.data.split_dev = _SHARE
    for option, value in options.items():
        configuration.override(values, option, str(value))
    try:
        main_run(values, folder, config)
    except SystemExit:
        raise KeyboardInterrupt("Stopped; the same call resumes from here") from None
    return tagging.load(folder)


def evaluate(
    params: Tagger, data: Any, *, rule: str = "conlleval", constrained: bool = False
) -> Scores:
    """Returns the scores of a tagger on a file or on examples; see `train`.

    Example:
        >>> import jaxner
        >>> tagger = jaxner.load("runs/grn")
        >>> scores = jaxner.evaluate(tagger, [(["Rome", "fell"], ["B-LOC", "O"])])
        >>> scores.overall.gold
        1
    """
    check_tagger(params)
    scheme = params.vocabulary.scheme
    declared = schemes.TAGS if scheme == schemes.TAGS else None
    if isinstance(data, str | Path):
        split = corpora.read(data, scheme=declared)
    else:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "examples")
            _write(path, data)
            try:
                split = corpora.read(path, format="jsonl", scheme=declared)
            except InputError as error:
                raise InputError(error.message, path.name, error.line) from None
    gold, predicted = tagging.label_split(params, split, constrained=constrained)
    tokens = [example.tokens for example in split.examples]
    return Task(scheme, rule=rule).score(tokens, gold, predicted)


def _write(path: Path, rows: Any) -> None:
    text = "\n".join(json_lines(rows)) + "\n"
    if path.exists() and disk.read_text(path) != text:
        raise InputError(
            "belongs to a run with other examples: take another workdir", path
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    disk.write_text(path, text)


def json_lines(data: Any) -> Iterator[str]:
    """Yields examples as JSON lines; see `formats.json_lines`."""
    names = _class_names(data)
    if names:
        yield json.dumps({"label_names": names}, ensure_ascii=False)
    for number, row in enumerate(_rows(data), 1):
        try:
            tokens, labels = row
            record = {"tokens": list(tokens), "labels": list(labels)}
            # Numbers of NumPy become Python's.
            yield json.dumps(record, ensure_ascii=False, default=lambda x: x.item())
        except (AttributeError, TypeError, ValueError):
            message = f"expected a pair of tokens and labels, got {row!r}"
            raise InputError(f"Example {number}: {message}") from None


def _rows(data: Any) -> Iterator[tuple[Any, Any]]:
    """Yields tokens and labels of each sentence."""
    if hasattr(data, "to_dict") and hasattr(data, "columns"):  # a data frame
        data = data.to_dict("records")
    if not isinstance(data, Iterable):
        raise InputError(f"Expected examples, got a {type(data).__name__}")
    rows = [*data]
    first = rows[0] if rows else None
    if not isinstance(first, Mapping):
        yield from rows
        return
    token, label = _column(first, formats.TOKEN), _column(first, formats.LABEL)
    if not isinstance(first[token], str):
        yield from ((row[token], row[label]) for row in rows)
        return
    sentence = _column(first, formats.SENTENCE)
    for _, members in itertools.groupby(rows, key=lambda row: row[sentence]):
        pairs = [(row[token], row[label]) for row in members]
        yield [pair[0] for pair in pairs], [pair[1] for pair in pairs]


def _class_names(data: Any) -> list[str] | None:
    """Returns the names of labels in a data set of Hugging Face's library."""
    for name, feature in (getattr(data, "features", None) or {}).items():
        names = getattr(getattr(feature, "feature", feature), "names", None)
        if name in formats.LABEL and names:
            return list(names)
    return None


def _column(row: Mapping[str, Any], names: Iterable[str]) -> str:
    for name in names:
        if name in row:
            return name
    raise InputError(
        f"Expected a column {', '.join(names)}; got {', '.join(map(str, row))}"
    )
