"""One dictionary of JSON values for each prediction, and its tables.

The labels may come from a tagger of this library or from another program: `describe`
sees only tokens, labels and, if known, probabilities. The tables on the terminal, the
page and the JSON come from the dictionary that it returns. Figures are in percent, None
where undefined.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Iterable, Mapping, Sequence, Set
from itertools import chain, groupby
from typing import Any, NamedTuple

import rich.box
import rich.table
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions
from rich.text import Text

from jaxner.data.formats import Example
from jaxner.data.schemes import TAGS, Span, to_spans
from jaxner.errors import InputError
from jaxner.evaluation import calibration, errors, scoring, stats
from jaxner.evaluation.calibration import Calibration
from jaxner.evaluation.errors import Pair
from jaxner.evaluation.scoring import Labels, Scores, percents
from jaxner.outputs import AnyPath
from jaxner.wording import counted, markdown, printable

Value = dict[str, Any]

NO_VALUE = "–"
COMPARISON = ("precision", "recall", "f1", "macro f1", "weighted f1", "accuracy")
"""The figures in which a report compares runs."""
_POINTS = ("first", "second", "difference", "low", "high")  # of a difference; no p
_EXAMPLES = 5  # of each kind of error
_NUM_EXAMPLES = 10  # confident mistakes and uncertain hits
_LARGEST = 12  # most frequent errors
_FREQUENT = 3  # of these, in a line
_NUM_TYPES = 6  # types in a table of confusions
_MOST_TYPES = 100  # in a table of figures by type
_WINDOW = 9  # tokens of context on each side


@dataclasses.dataclass(frozen=True)
class Prediction:
    """Gold and predicted labels of a text; what is unknown is None.

    Attributes:
        scheme: Scheme of the labels, or `schemes.TAGS`.
        rule: One of `scoring.RULES`.
        certainty: Probability of each predicted label, by sentence and token.
        entity_certainty: Probability by sentence, start, end and type.
        training: Sentences of the training text.
        file: File of the labels.
        lines: Number of the first line of each sentence in it, from 1.
    """

    tokens: Labels | None
    gold: Labels
    predicted: Labels
    scheme: str
    rule: str = "conlleval"
    certainty: Sequence[Sequence[float]] | None = None
    entity_certainty: Mapping[tuple[int, int, int, str], float] | None = None
    training: Sequence[Example] | None = None
    file: AnyPath | None = None
    lines: Sequence[int] | None = None

    @property
    def span_rule(self) -> str:
        """The rule, if all its spans have lengths; else "conlleval"."""
        return scoring.with_lengths(self.rule)

    @functools.cached_property
    def scores(self) -> Scores:
        """The scores by the rule."""
        words = None
        if self.training is not None:
            words = {word for example in self.training for word in example.tokens}
        task = scoring.Task(self.scheme, words, self.rule)
        return task.score(self.tokens, self.gold, self.predicted)

    @functools.cached_property
    def pairs(self) -> list[Pair]:
        """Gold and predicted spans (or tags) side by side."""
        return errors.pairs(self.gold, self.predicted, self.span_rule, self.scheme)

    @functools.cached_property
    def gold_entities(self) -> Set[tuple[int, int, int, str]]:
        """The gold entities, each by sentence, start, end and type."""
        rows = enumerate(map(to_spans, self.gold))
        return {(i, x.start, x.end, x.type) for i, row in rows for x in row}

    def place(self, sentence: int) -> tuple[AnyPath | None, int | None]:
        """Returns the file of the labels, and the line where a sentence begins."""
        return self.file, self.lines[sentence] if self.lines else None

    def outcomes(self) -> tuple[list[float], list[bool]]:
        """Returns the known probabilities of entities, and whether each is gold."""
        chances = self.entity_certainty or {}
        return list(chances.values()), [x in self.gold_entities for x in chances]

    def tally(self, types: Sequence[str] = ()) -> stats.Tally:
        """Returns the counts of each sentence; see `stats.tally`."""
        pairs = [] if self.scheme == TAGS else self.pairs
        return stats.of_scores(self.scores, pairs, types)

    def figures(self, rounds: int = stats.ROUNDS, seed: int = 0) -> dict[str, Value]:
        """Returns value, low and high of each figure, in percent, by the bootstrap."""
        intervals = stats.bootstrap(self.tally(), rounds=rounds, seed=seed)
        return {name: percents(x._asdict()) for name, x in intervals.items()}


def measure(
    prediction: Prediction, *, rounds: int = stats.ROUNDS, seed: int = 0
) -> Value:
    """Computes all figures of a prediction, with intervals by the bootstrap.

    Keys: `scores` (see `Scores.to_dict`), `figures` (by name: value, low and high),
    `intervals` (rounds, level and seed), `types` (a row for each, and for means), and
    for spans `by_rule` (figures under each rule that reads the labels).
    """
    run: Value = {
        "scores": prediction.scores.to_dict(),
        "figures": prediction.figures(rounds, seed),
        "intervals": {"rounds": rounds, "level": stats.LEVEL, "seed": seed},
    }
    run["types"] = types_of(run)
    if (scheme := prediction.scheme) != TAGS:
        run["by_rule"] = by_rule(prediction.gold, prediction.predicted, scheme)
    return run


def by_rule(gold: Labels, predicted: Labels, scheme: str) -> dict[str, Value]:
    """Returns the figures over all types under each rule that reads the labels."""
    figures = {}
    for rule in scoring.RULES:
        with contextlib.suppress(InputError):  # strict refuses labels of other schemes
            counts = scoring.count(gold, predicted, rule, scheme)
            figures[rule] = scoring.total(counts).to_dict()
    return figures


def describe(
    prediction: Prediction, *, rounds: int = stats.ROUNDS, seed: int = 0
) -> Value:
    """Returns what `measure` does, groups, errors with examples, and certainty.

    Example:
        >>> prediction = Prediction([["Rome"]], [["B-LOC"]], [["O"]], "BIO")
        >>> describe(prediction, rounds=5)["errors"]["counts"]["missed"]
        1
    """
    run = measure(prediction, rounds=rounds, seed=seed)
    if prediction.certainty is not None:
        run["calibration"] = {x: y.to_dict() for x, y in calibrated(prediction).items()}
    pairs = prediction.pairs
    kinds, names = errors.counts(pairs), errors.largest(pairs)[:_LARGEST]
    total = sum(kinds.values())
    largest = {x: {"count": n, "share": 100 * n / total} for x, n in names}
    run["errors"] = {"total": total, "counts": kinds, "largest": largest}
    run["confusion"] = errors.confusion(pairs)
    run["examples"] = {
        kind: _examples(prediction, [(None, x) for x in pairs if x.kind == kind])
        for kind in errors.KINDS
    }
    if prediction.scheme == TAGS:
        return run
    run["span_rule"] = prediction.span_rule
    groups = {
        "Entity length (tokens)": errors.by_length(pairs),
        "Sentence length (tokens)": errors.by_sentence_length(pairs, prediction.gold),
    }
    if prediction.training and prediction.tokens:
        name = "Times the same string is an entity in training"
        groups[name] = errors.by_frequency(
            pairs, prediction.tokens, prediction.training
        )
    run["groups"] = {
        name: {group: counts.to_dict() for group, counts in rows.items()}
        for name, rows in groups.items()
    }
    if (chances := prediction.entity_certainty) is not None:
        of_spans: Any = {(x.sentence, *x.predicted): x for x in pairs if x.predicted}
        rows = [(chances[x], pair) for x, pair in of_spans.items() if x in chances]
        rows.sort(key=lambda row: row[0])
        mistakes = [row for row in rows[::-1] if row[1].kind]
        hits = [row for row in rows if not row[1].kind]
        run["confident_mistakes"] = _examples(prediction, mistakes, _NUM_EXAMPLES)
        run["uncertain_hits"] = _examples(prediction, hits, _NUM_EXAMPLES)
    return run


def calibrated(prediction: Prediction) -> dict[str, Calibration]:
    """Returns the calibration of tokens and entities, which have probabilities."""
    assert prediction.certainty is not None
    sides = chain(*prediction.gold), chain(*prediction.predicted)
    right = [a == b for a, b in zip(*sides, strict=True)]
    rows = {"tokens": (list(chain(*prediction.certainty)), right)}
    if prediction.entity_certainty is not None:
        rows["entities"] = prediction.outcomes()
    return {unit: calibration.calibration(*x) for unit, x in rows.items()}


def _examples(
    prediction: Prediction, rows: Iterable[tuple[Any, Pair]], limit: int = _EXAMPLES
) -> list[Value]:
    """Returns pairs in their context, gold beside predicted, with probabilities."""
    read = scoring.reader(prediction.span_rule, prediction.scheme)
    examples = []
    for chance, pair in [*rows][:limit]:
        dots = ["·"] * len(prediction.gold[pair.sentence])
        words = prediction.tokens[pair.sentence] if prediction.tokens else dots
        begin = max(0, min(span.start for span in pair.spans) - _WINDOW)
        end = min(len(words), max(span.end for span in pair.spans) + _WINDOW)
        entry = {"sentence": pair.sentence, "probability": chance}
        entry["error"] = pair.name if pair.kind else None
        entry["cut"] = [begin > 0, end < len(words)]
        for side in ("gold", "predicted"):
            spans = read(getattr(prediction, side)[pair.sentence])
            entry[side] = _pieces(words, spans, getattr(pair, side), begin, end)
        examples.append(entry)
    return examples


def _pieces(
    words: Sequence[str], spans: list[Span], focus: Span | None, begin: int, end: int
) -> list[Value]:
    """Splits a part of a text into entities and the words between them."""
    holders = {i: span for span in spans for i in range(span.start, span.end)}
    pieces = []
    for span, places in groupby(range(begin, end), holders.get):
        text = " ".join(words[i] for i in places)
        is_focus = span is not None and span == focus
        pieces.append({"text": text, "type": span and span.type, "focus": is_focus})
    return pieces


def compare(
    first: Sequence[Prediction],
    second: Sequence[Prediction],
    *,
    rounds: int = stats.TEST_ROUNDS,
    seed: int = 0,
) -> Value:
    """Compares two systems, of one run or several; see `stats.compare`.

    Each run's labels are read, and its ill-formed labels counted, in its own scheme.
    Figures are in percent, their differences in percentage points.

    Raises:
        InputError: As `stats.compare`; or gold labels differ.
    """
    sides = first, second
    golds: list[Sequence[Sequence[Any]]] = [
        run.gold if run.scheme == TAGS else [*map(to_spans, run.gold)]
        for run in (*first, *second)
    ]
    for run, spans in zip((*first, *second), golds, strict=True):
        i = first_difference(golds[0], spans)
        if i is not None and len(spans) == len(golds[0]):
            message = f"Expected systems on the same sentences, but sentence {i} "
            message += "(counted from 0) has other gold labels"
            words = f": {' '.join(run.tokens[i][:10])!r}" if run.tokens else ""
            raise InputError(message + words, *run.place(i))
    types = sorted({kind for run in (*first, *second) for kind in run.scores.types})
    tallies = [[run.tally(types) for run in side] for side in sides]
    differences = stats.compare(*tallies, rounds=rounds, seed=seed)
    return {
        "figures": {
            name: x._asdict()
            | percents({point: getattr(x, point) for point in _POINTS})
            for name, x in differences.items()
        },
        "ill_formed": [sum(run.scores.ill_formed for run in side) for side in sides],
        "numbers": [len(first), len(second)],
        "rounds": rounds,
        "seed": seed,
        "unit": "percent",
    }


def first_difference(
    first: Sequence[Sequence[Any]], second: Sequence[Sequence[Any]]
) -> int | None:
    """Returns the first sentence that differs, counted from 0."""
    pairs = enumerate(zip(first, second, strict=False))
    return next((i for i, (a, b) in pairs if [*a] != [*b]), None)


def comparisons(names: Sequence[str], runs: Sequence[Prediction]) -> list[Value]:
    """Compares each run with the first one, if their labels are of one kind."""
    if len({(run.scheme == TAGS, run.rule) for run in runs}) != 1:
        return []
    rows = []
    for name, run in zip(names[1:], runs[1:], strict=True):
        figures = compare(runs[:1], [run])["figures"]
        selection = {key: figures[key] for key in COMPARISON if key in figures}
        rows.append({"first": names[0], "second": name, "figures": selection})
    return rows


# --- Tables ---------------------------------------------------------------------------

_LONG = 20  # characters of a name that may take several lines


class Table(NamedTuple):
    """A table for terminal and page, with a note below and a title above."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    note: str = ""
    title: str = ""

    def __rich_console__(self, console: Console, options: ConsoleOptions):
        # `Text`, because rich reads brackets in a string as markup.
        title, note = (Text(x) if x else None for x in (self.title, self.note))
        look: Value = {"box": rich.box.SIMPLE_HEAD, "collapse_padding": True}
        table = rich.table.Table(title=title, caption=note, pad_edge=False, **look)
        # On a narrow terminal, long names take several lines; numbers are never cut.
        least, rows = 2, [[*map(shown, row)] for row in self.rows]
        for i, name in enumerate(map(shown, self.columns)):
            width = max(map(cell_len, [name, *(row[i] for row in rows)]))
            side, is_long = "right" if i else "left", width > _LONG
            table.add_column(
                Text(name), justify=side, no_wrap=not is_long, overflow="fold"
            )
            least += 2 + (8 if is_long else width)
        for row in rows:
            table.add_row(*map(Text, row))
        whole = options.update(width=max(least, options.max_width))
        yield from console.render(table, whole)

    def markdown(self) -> str:
        """Returns the table in Markdown, without its title."""
        rows = (map(markdown, map(shown, x)) for x in (self.columns, *self.rows))
        head, *lines = (f"| {' | '.join(cells)} |\n" for cells in rows)
        text = f"{head}|{' --- |' * len(self.columns)}\n{''.join(lines)}"
        return text + "".join(f"\n{markdown(x)}\n" for x in self.note.splitlines())


PRF, NUMBERS = "precision recall f1", "gold predicted correct"
FIGURES = f"{PRF} {NUMBERS}"
_HEADS = {
    **{"f1": "F1", "value": "%", "low": "95 % interval", "ill_formed": "ill-formed"},
    **{"bootstrap": "p boot", "permutation": "p perm", "welch": "p Welch"},
    **{"expected_calibration_error": "ECE", "brier": "Brier", "share": "share, %"},
    **{"mean_probability": "mean p", "share_right": "right", "group": "", "of": ""},
}
_DIGITS = {"share": 1, "expected_calibration_error": 4, "brier": 4, "T": 4}
_DIGITS |= {"bootstrap": 4, "permutation": 4, "welch": 4, "threshold": 4}


def table(
    rows: Iterable[Value],
    columns: str,
    note: str = "",
    title: str = "",
    heads: Mapping[str, str] | None = None,
) -> Table:
    """Returns a table of rows by column; a cell that a row lacks stays empty.

    Columns are keys that the first row has, between spaces; "low" stands for both
    bounds. `heads` are names of columns that differ from their keys.
    """
    records = list(rows)
    keys = [key for key in columns.split() if not records or key in records[0]]

    def cell(row: Value, key: str) -> str:
        value = row.get(key, "")
        if key == "low" and value != "":
            return interval(value, row["high"])
        if key == "figure":
            return value.replace("f1", "F1")
        return shown(value, _DIGITS.get(key, 2))

    heads = _HEADS | dict(heads or {})
    names = [heads.get(key, key) for key in keys]
    return Table(names, [[cell(x, key) for key in keys] for x in records], note, title)


def shown(value: object, digits: int = 2) -> str:
    """Formats a value: a float with fixed decimals, a dash for None, printable text."""
    if isinstance(value, list):
        return ", ".join(shown(item, digits) for item in value)
    if isinstance(value, float):
        return f"{value:.{digits}f}"
    if isinstance(value, int):
        return f"{value:,}"
    return NO_VALUE if value is None else printable(str(value))


def interval(low: float | None, high: float | None) -> str:
    """Formats the bounds of an interval; a dash for None."""
    return NO_VALUE if low is None else f"{shown(low)} to {shown(high)}"


def main_figure(run: Value) -> str:
    """Returns the name of the main figure, for people."""
    return "accuracy" if run["scores"]["scheme"] == TAGS else "F1"


def short_line(scores: Scores) -> str:
    """Returns the overall figures in half a line, in percent, without the rule."""
    values = scores.figures()
    if scores.has_tags:
        names = {"known_accuracy": "known", "oov_accuracy": "new"}
        values = {"accuracy": None} | values
        return "  ".join(f"{names.get(x, x)} {shown(y)}" for x, y in values.items())
    odd = f"  {scores.ill_formed:,} ill-formed" if scores.ill_formed else ""
    return "P {} R {} F1 {}".format(*(shown(values[x]) for x in PRF.split())) + odd


def weakness_line(scores: Scores, gold: Labels, predicted: Labels) -> str:
    """Returns the type with the lowest F1, and the most frequent errors; perhaps ""."""
    rule = scoring.with_lengths(scores.rule)
    names = errors.largest(errors.pairs(gold, predicted, rule, scores.scheme))
    figures = {kind: x.f1 or 0.0 for kind, x in scores.by_type.items() if x.gold}
    if not (names and figures):
        return ""
    # Each error of a tag is one of its type.
    noun, prefix = ("tag", "type: ") if scores.has_tags else ("type", "")
    weakest = min(figures, key=lambda kind: figures[kind])
    pairs = [(x.removeprefix(prefix), count) for x, count in names[:_FREQUENT]]
    listing = ", ".join(f"{name} ({count:,})" for name, count in pairs)
    return (
        f"Weakest {noun}: {weakest}, F1 {shown(100 * figures[weakest])}. Most frequent "
        f"errors: {listing}"
    )


def interval_line(run: Value) -> str:
    """Returns the main figure and its interval as a line."""
    figure = run["figures"][main_figure(run).lower()]
    method = f"{100 * stats.LEVEL:g} % interval by the bootstrap over sentences"
    bounds = interval(figure["low"], figure["high"])
    return f"{main_figure(run)} {shown(figure['value'])}, {method}: {bounds}"


def types_of(run: Value) -> list[Value]:
    """Returns a row for each type, all types and the means; with intervals if known."""
    scores, bounds = run["scores"], run.get("figures", {})
    rows = {f"f1 {x}": {"type": x, **y} for x, y in scores["by_type"].items()}
    if scores["scheme"] != TAGS:
        figures = {key: scores[key] for key in FIGURES.split()}
        rows["f1"] = {"type": "all types (micro)", **figures}
        for mean in ("macro", "weighted"):
            values = {key: scores[f"{mean}_{key}"] for key in PRF.split()}
            rows[f"{mean} f1"] = {"type": f"{mean} mean", **values}
    return [row | bounds.get(figure, {}) for figure, row in rows.items()]


def types_table(run: Value, title: str = "") -> Table:
    """Returns the table of `types_of`, with the rule or, above it, tags' accuracies.

    It leaves out the rarest of very many types.
    """
    scores = run["scores"]
    names = sorted(scores["by_type"], key=lambda x: -scores["by_type"][x]["gold"])
    rare = {*names[_MOST_TYPES:]}
    rows = [row for row in types_of(run) if row["type"] not in rare]
    rest = (
        f"{len(rare):,} rarer ones are not shown; evaluate --json has all"
        if rare
        else ""
    )
    columns = f"type {PRF} low {NUMBERS}"
    if scores["scheme"] == TAGS:
        new = scores["oov_tokens"] or 0
        parts = {"accuracy": ("all tokens", scores["tokens"])}
        if scores["oov_tokens"] is not None:
            parts["known_accuracy"] = ("known words", scores["tokens"] - new)
            parts["oov_accuracy"] = ("out of vocabulary", new)
        lines = [
            f"accuracy, {name}: {shown(scores.get(key))} of {tokens:,}"
            for key, (name, tokens) in parts.items()
        ]
        title = "\n".join([title, *lines] if title else lines)
        return table(rows, columns, rest, title, heads={"type": "tag"})
    sentences = counted(scores["sentences"], "sentence")
    summary = f"no ill-formed label in {sentences}"
    if scores["ill_formed"]:
        labels = counted(scores["ill_formed"], "ill-formed label")
        summary = f"{labels} in {scores['ill_formed_sentences']:,} of {sentences}"
    note = f"{scores['rule']} rule; {summary}"
    if any(None in (x["precision"], x["recall"]) for x in scores["by_type"].values()):
        note += "\nIn the means, an undefined figure (–) counts as 0, as in seqeval."
    return table(rows, columns, "\n".join(filter(None, (note, rest))), title)


def figures_table(run: Value) -> Table:
    """Returns the figures over all types, such as partial matches, with intervals."""
    details = {f"{x} {kind}" for kind in run["scores"]["by_type"] for x in PRF.split()}
    rows = [
        {"figure": name, **values}
        for name, values in run["figures"].items()
        if name not in details
        and not name.endswith(("match precision", "match recall"))
    ]
    rule = run["scores"].get("rule", "conlleval")
    note = "" if rule in scoring.WITH_LENGTHS else "Matches are by the rule conlleval."
    return table(rows, "figure value low", note)


def grouped(
    groups: Mapping[str, Value], head: str, columns: str = FIGURES, note: str = ""
) -> Table:
    """Returns a row for each group, under a head."""
    rows = [{head: group, **values} for group, values in groups.items()]
    return table(rows, f"{head} {columns}", note)


def confusion_table(run: Value) -> Table:
    """Returns the numbers of gold spans (row) predicted as each of the worst types."""
    cells = run["confusion"]
    note = "Rows: gold; columns: predicted."
    note += " Boundaries may differ." * (run["scores"]["scheme"] != TAGS)
    types = [kind for kind in cells if kind != errors.OUTSIDE]
    wrong = {x: sum(cells[x].values()) - cells[x][x] for x in types}
    worst = sorted(types, key=lambda x: -wrong[x])[:_NUM_TYPES]
    if len(worst) < len(types):
        note += f" Of {len(types):,} types, those most often missed or confused."
    kinds = [kind for kind in cells if kind in (*worst, errors.OUTSIDE)]
    rows = [[kind, *(cells[kind][x] for x in kinds)] for kind in kinds]
    return Table(["", *kinds], rows, note)


def errors_table(run: Value) -> Table:
    """Returns the most frequent errors, and below them the number of each kind."""
    record, kinds = run["errors"], run["errors"]["counts"].items()
    note = ", ".join(f"{kind}: {shown(number)}" for kind, number in kinds)
    note = f"{counted(record['total'], 'error')} in all. {note}"
    return grouped(record["largest"], "error", "count share", note)


def rules_table(run: Value) -> Table:
    """Returns the figures under each rule."""
    scheme = run["scores"]["scheme"]
    note = f"Labels in {scheme}. The rules differ only on ill-formed labels."
    return grouped(run["by_rule"], "rule", note=note)


def calibration_table(
    sides: Iterable[tuple[Value, Mapping[str, Any]]], title: str = ""
) -> Table:
    """Returns calibrations by unit, each after cells such as "split" and "T"."""
    rows = [
        {**cells, "of": unit, **values}
        for cells, units in sides
        for unit, values in units.items()
        if values
    ]
    note = "ECE: expected calibration error. The best error and Brier score are 0. "
    note += "T: the temperature, which jaxner calibrate finds on dev."
    figures = "expected_calibration_error brier mean_probability share_right"
    return table(rows, f"split of T count {figures}", note, title)


def fitted_table(record: Value) -> Table:
    """Returns the calibration of each split before and after a temperature's fit."""
    best = record["fitted"]
    sides = [
        ({"split": split, "T": degrees}, record[split][side])
        for split in ("dev", "test")
        if split in record
        for side, degrees in (("before", 1.0), ("after", best))
    ]
    return calibration_table(sides, "Calibration")


def guarantees_table(rows: Iterable[Value]) -> Table:
    """Returns guarantees that `jaxner calibrate` stores, with the risk on splits."""
    note = "Entities at least as probable as the threshold keep the risk on text like "
    columns = "type of risk threshold dev test sentences"
    return table(rows, columns, f"{note}dev.", "Guarantees")


def runs_table(runs: Sequence[Value]) -> Table:
    """Returns the main figures of several runs."""
    main = main_figure(runs[0])
    keys = ("precision", "recall", "ill_formed")
    rows = [
        {"run": run["name"], **run["figures"][main_figure(run).lower()]}
        | {key: run["scores"].get(key) for key in keys}
        for run in runs
    ]
    rules = sorted({run["scores"].get("rule", "tags") for run in runs})
    note = f"Figures in percent; rule: {', '.join(rules)}"
    columns = "run value low precision recall ill_formed"
    return table(rows, columns, note, heads={"value": main})


def differences_table(
    figures: Value, note: str = "", heads: Mapping[str, str] | None = None
) -> Table:
    """Returns figures that `compare` returned, in percentage points."""
    rows = [{"figure": name, **values} for name, values in figures.items()]
    columns = "figure first second difference low bootstrap permutation"
    if any(row["welch"] is not None for row in rows):
        columns += " welch"
    return table(rows, columns, note, heads=heads)
