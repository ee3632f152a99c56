"""One dictionary of JSON values for each prediction, and its tables.

The labels may come from a tagger of this library or from another program: `describe`
sees only tokens, labels and, if known, probabilities. Tables on the terminal and on the
page, the JSON and the CSV file all come from the dictionary that it returns. Figures
are in percent, None where undefined.
"""

from __future__ import annotations

import collections
import csv
import dataclasses
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import rich.box
import rich.table
from rich.text import Text

from jaxner.data import schemes
from jaxner.data.schemes import TAGS, Span
from jaxner.evaluation import calibration, errors, scoring, stats
from jaxner.evaluation.errors import Pair
from jaxner.evaluation.scoring import Labels, Scores, percent
from jaxner.wording import counted

Value = dict[str, Any]

NONE = "–"
UNDEFINED = "In the means, a type's undefined figure (–) counts as 0, as in seqeval."
COMPARED = ("precision", "recall", "f1", "macro f1", "weighted f1", "accuracy")
"""The figures in which a report compares runs."""
_EXAMPLES = 5  # of each kind of error
_RANKED = 10  # confident mistakes, uncertain hits and sentences
_LARGEST = 12  # most frequent errors
_WINDOW = 9  # tokens of context on each side
_SHADES = 10  # colours for uncertainty
_CURVE = 200  # points of a threshold curve


@dataclasses.dataclass(frozen=True)
class Training:
    """Facts about the training text.

    Attributes:
        words: The distinct words of the training text.
        in_vectors: Words with a pretrained vector.
        mentions: How often each string is an entity in the training text.
    """

    words: Set[str]
    in_vectors: Set[str]
    mentions: collections.Counter[str]


@dataclasses.dataclass(frozen=True)
class Prediction:
    """Gold and predicted labels of a text.

    Attributes:
        tokens: The tokens of each sentence; None if unknown.
        gold: The gold labels of each sentence.
        predicted: The predicted labels of each sentence.
        scheme: Scheme of the labels, or `schemes.TAGS`.
        rule: Rule for reading spans, one of `scoring.RULES`.
        certainty: Probability of each predicted label, by sentence and token.
        entity_certainty: Probability of a predicted entity, by sentence, start, end and
            type.
        training: Facts about the training text, if known.

    Example:
        >>> Prediction(None, [["B-LOC", "O"]], [["O", "O"]], "BIO").words
        [['·', '·']]
    """

    tokens: Labels | None
    gold: Labels
    predicted: Labels
    scheme: str
    rule: str = "conlleval"
    certainty: Sequence[Sequence[float]] | None = None
    entity_certainty: Mapping[tuple[int, int, int, str], float] | None = None
    training: Training | None = None

    @property
    def words(self) -> Labels:
        """The tokens; dots if they are unknown."""
        return self.tokens or [["·"] * len(labels) for labels in self.gold]

    @property
    def span_rule(self) -> str:
        """The rule, if all its spans have lengths; else "conlleval"."""
        return self.rule if self.rule in scoring.WITH_LENGTHS else "conlleval"


def measure(
    prediction: Prediction,
    *,
    rounds: int = stats.ROUNDS,
    seed: int = 0,
    by_rule: bool = True,
) -> Value:
    """Computes all figures of a prediction, with intervals.

    Args:
        prediction: The labels; tokens and training text separate unknown words of tags.
        rounds: Rounds of the bootstrap.
        seed: Seed of the bootstrap.
        by_rule: Whether to count spans under the other rules too.

    Returns:
        `scores` (see `Scores.to_dict`), `figures` (by name: value, low and high),
        `intervals` (rounds, level and seed), `types` (a row for each type), and for
        spans `by_rule` (figures and counts under each rule that reads the scheme).

    Example:
        >>> found = measure(Prediction(None, [["B-A", "O"]], [["I-A", "O"]], "BIO"))
        >>> [found["by_rule"][rule]["f1"] for rule in ("conlleval", "strict")]
        [100.0, 0.0]
    """
    gold, predicted, scheme = prediction.gold, prediction.predicted, prediction.scheme
    training, tokens = prediction.training, prediction.tokens
    known = None if training is None or tokens is None else training.words
    new = None if known is None else [[w not in known for w in x] for x in tokens or ()]
    how: Value = {"rule": prediction.rule, "scheme": scheme}
    scores = scoring.score(gold, predicted, tokens=tokens, known_words=known, **how)
    tally = stats.tally(gold, predicted, **how, new=new)
    figures = {
        name: {key: percent(x) for key, x in interval._asdict().items()}
        for name, interval in stats.bootstrap(tally, rounds=rounds, seed=seed).items()
    }
    nothing = {"low": None, "high": None}
    types = [
        {"type": kind, **counts.to_dict(), "low": bounds["low"], "high": bounds["high"]}
        for kind, counts in scores.by_type.items()
        for bounds in [figures.get(f"f1 {kind}", nothing)]
    ]
    found: Value = {
        "scores": scores.to_dict(),
        "figures": figures,
        "intervals": {"rounds": rounds, "level": stats.LEVEL, "seed": seed},
        "types": types,
    }
    if by_rule and not scores.has_tags:
        found["by_rule"] = {
            rule: scoring.total(
                scores.counts
                if rule == scores.rule
                else scoring.count(gold, predicted, rule, scheme, scores.types)
            ).to_dict()
            for rule in scoring.RULES
            if scoring.reads(rule, scheme)
        }
    return found


def describe(
    prediction: Prediction, *, rounds: int = stats.ROUNDS, seed: int = 0
) -> Value:
    """Returns what `measure` does, and all else that a page shows of labels.

    These are groups, errors with examples, and the certainty of labels and entities.

    Example:
        >>> one = Prediction([["Rome"]], [["B-LOC"]], [["O"]], "BIO")
        >>> describe(one, rounds=5)["errors"]["counts"]["missed"]
        1
    """
    found = measure(prediction, rounds=rounds, seed=seed) | _certainty(prediction)
    if prediction.scheme == TAGS:
        return found | {"errors": _wrong_tags(prediction)} | _calibrated(prediction, [])
    gold, predicted = prediction.gold, prediction.predicted
    pairs = errors.pairs(gold, predicted, prediction.span_rule, prediction.scheme)
    spans = [span for pair in pairs for span in (pair.gold, pair.predicted) if span]
    types = sorted({span.type for span in spans})
    return {
        **found,
        "span_rule": prediction.span_rule,
        "breakdowns": _breakdowns(prediction, pairs),
        "confusion": {
            "types": [*types, errors.OUTSIDE],
            "counts": errors.confusion(pairs, types).tolist(),
        },
        "errors": _errors(prediction, pairs),
        **_ranked(prediction, pairs),
        **_calibrated(prediction, pairs),
    }


def _breakdowns(prediction: Prediction, pairs: Sequence[Pair]) -> list[Value]:
    how = prediction.span_rule, prediction.scheme
    spans = scoring.count(prediction.gold, prediction.predicted, *how)
    by_sentence = errors.by_sentence_length(spans, prediction.gold)
    groups = {
        "Entity length (tokens)": errors.by_length(pairs),
        "Mention length (tokens), finer": errors.by_length(pairs, errors.MENTIONS),
        "Sentence length (tokens)": by_sentence,
    }
    if prediction.training and prediction.tokens:
        known, tokens = prediction.training, prediction.tokens
        groups["Times the same string is an entity in training"] = errors.by_frequency(
            pairs, tokens, known.mentions
        )
        groups["Least known word of the entity"] = errors.by_known_words(
            pairs, tokens, known.words, known.in_vectors
        )
    return [
        {"name": name, "rows": [{"group": x.group, **x.counts.to_dict()} for x in rows]}
        for name, rows in groups.items()
    ]


def _errors(prediction: Prediction, pairs: Sequence[Pair]) -> Value:
    examples: dict[str, list[Value]] = {kind: [] for kind in errors.KINDS}
    for pair in pairs:
        if pair.kind and len(examples[pair.kind]) < _EXAMPLES:
            examples[pair.kind].append(_example(prediction, pair))
    listed = _largest(errors.largest(pairs))
    return {"counts": errors.counts(pairs), **listed, "examples": examples}


def _wrong_tags(prediction: Prediction) -> Value:
    sides = chain(*prediction.gold), chain(*prediction.predicted)
    pairs = zip(*sides, strict=True)
    wrong = collections.Counter(f"{a} as {b}" for a, b in pairs if a != b)
    return {"counts": {}, **_largest(wrong.most_common()), "examples": {}}


def _largest(listed: Sequence[tuple[str, int]]) -> Value:
    total = sum(n for _, n in listed)
    rows = [
        {"error": name, "count": n, "share": 100 * n / total}
        for name, n in listed[:_LARGEST]
    ]
    return {"total": total, "largest": rows}


def _known(prediction: Prediction, pairs: Sequence[Pair]) -> list[tuple[float, Pair]]:
    """Returns the predicted entities whose probability is known."""
    chances = prediction.entity_certainty or {}
    return [
        (chances[pair.sentence, *pair.predicted], pair)
        for pair in pairs
        if pair.predicted and (pair.sentence, *pair.predicted) in chances
    ]


def _ranked(prediction: Prediction, pairs: Sequence[Pair]) -> Value:
    """Returns the most confident mistakes and the least certain hits."""
    if prediction.entity_certainty is None:
        return {}
    known = _known(prediction, pairs)
    wrong = sorted((x for x in known if x[1].kind), key=lambda x: -x[0])
    right = sorted((x for x in known if not x[1].kind), key=lambda x: x[0])
    return {
        name: [_example(prediction, pair, p) for p, pair in rows[:_RANKED]]
        for name, rows in (("confident_mistakes", wrong), ("uncertain_hits", right))
    }


def calibrated(prediction: Prediction) -> Value:
    """Returns `calibration` of tokens and entities, and `thresholds` of entities.

    Thresholds have precision and recall. Without probabilities, the result is empty.
    """
    pairs: Sequence[Pair] = ()
    if prediction.entity_certainty is not None:
        sides = prediction.gold, prediction.predicted
        pairs = errors.pairs(*sides, prediction.span_rule, prediction.scheme)
    return _calibrated(prediction, pairs)


def _calibrated(prediction: Prediction, pairs: Sequence[Pair]) -> Value:
    if prediction.certainty is None:
        return {}
    sides = chain(*prediction.gold), chain(*prediction.predicted)
    right = [a == b for a, b in zip(*sides, strict=True)]
    chances = list(chain(*prediction.certainty))
    found: Value = {"tokens": calibration.calibration(chances, right).to_dict()}
    if prediction.entity_certainty is None:
        return {"calibration": found}
    known = _known(prediction, pairs)
    chances, right = [p for p, _ in known], [pair.kind is None for _, pair in known]
    found["entities"] = calibration.calibration(chances, right).to_dict()
    gold = sum(pair.gold is not None for pair in pairs)
    curve = calibration.threshold_curve(chances, right, gold).to_dict()
    step = -(-len(chances) // _CURVE) or 1
    thinned = {name: values[::step] for name, values in curve.items()}
    return {"calibration": found, "thresholds": thinned if chances else {}}


def _example(prediction: Prediction, pair: Pair, chance: float | None = None) -> Value:
    """Returns a pair in its context, gold beside predicted."""
    words = prediction.words[pair.sentence]
    spans = [span for span in (pair.gold, pair.predicted) if span]
    begin = max(0, min(span.start for span in spans) - _WINDOW)
    end = min(len(words), max(span.end for span in spans) + _WINDOW)
    gold = schemes.to_spans(prediction.gold[pair.sentence])
    predicted = schemes.to_spans(prediction.predicted[pair.sentence])
    return {
        "sentence": pair.sentence,
        "error": pair.name if pair.kind else None,
        "probability": chance,
        "cut": [begin > 0, end < len(words)],
        "gold": _pieces(words, gold, pair.gold, begin, end),
        "predicted": _pieces(words, predicted, pair.predicted, begin, end),
    }


def _pieces(
    words: Sequence[str],
    spans: Iterable[Span],
    focus: Span | None,
    begin: int,
    end: int,
) -> list[Value]:
    """Splits a text into entities and the words between them."""
    wanted = list(spans)
    if focus is not None and focus not in wanted:  # read by a stricter rule
        apart = [s for s in wanted if s.end <= focus.start or focus.end <= s.start]
        wanted = sorted([*apart, focus])
    pieces: list[Value] = []
    at = begin
    for span in [*wanted, Span(end, end, "")]:
        first, last = (min(max(x, begin), end) for x in span[:2])
        if first > at:
            text = " ".join(words[at:first])
            pieces.append({"text": text, "type": None, "focus": False})
        if first < last:
            text = " ".join(words[first:last])
            pieces.append({"text": text, "type": span.type, "focus": span == focus})
        at = max(at, last)
    return pieces


def _certainty(prediction: Prediction) -> Value:
    """Returns the least certain sentences, with the probability of each label."""
    if prediction.certainty is None:
        return {}
    least = [min(row, default=1.0) for row in prediction.certainty]
    sentences = []
    for i in sorted(range(len(least)), key=least.__getitem__)[:_RANKED]:
        columns = {
            "text": prediction.words[i],
            "gold": prediction.gold[i],
            "predicted": prediction.predicted[i],
            "probability": list(map(float, prediction.certainty[i])),
        }
        shades = [int((1 - p) * _SHADES) for p in columns["probability"]]
        columns["shade"] = [min(shade, _SHADES - 1) for shade in shades]
        rows = zip(*columns.values(), strict=True)
        tokens = [dict(zip(columns, row, strict=True)) for row in rows]
        sentences.append({"sentence": i, "tokens": tokens})
    return {"uncertain_text": sentences}


def compare(
    first: Sequence[Prediction],
    second: Sequence[Prediction],
    *,
    rounds: int = stats.TEST_ROUNDS,
    seed: int = 0,
) -> Value:
    """Compares two systems, of one run or several, on the same sentences.

    Each run's labels are read, and its ill-formed labels counted, in its own scheme.

    Returns:
        `figures` (by name, as `stats.Difference`, fractions), `ill_formed` (of each
        system), `numbers` of runs, `rounds` and `seed`.

    Raises:
        InputError: As `stats.compare`.
    """
    runs = [*first, *second]
    types = [scoring.check_labels(x.gold, x.predicted, x.scheme) for x in runs]
    known = sorted(set(chain(*types)))
    tallies = [
        stats.tally(x.gold, x.predicted, x.rule, x.scheme, types=known) for x in runs
    ]
    broken = [
        sum(len(schemes.violations(labels, run.scheme)) for labels in run.predicted)
        for run in runs
    ]
    at = len(first)
    found = stats.compare(tallies[:at], tallies[at:], rounds=rounds, seed=seed)
    return {
        "figures": {name: x._asdict() for name, x in found.items()},
        "ill_formed": [sum(broken[:at]), sum(broken[at:])],
        "numbers": [len(first), len(second)],
        "rounds": rounds,
        "seed": seed,
        "unit": "fraction",
    }


def comparisons(names: Sequence[str], runs: Sequence[Prediction]) -> list[Value]:
    """Compares each run with the first one, if their labels are of one kind."""
    if len({(run.scheme == TAGS, run.rule) for run in runs}) != 1:
        return []
    found = []
    for name, run in zip(names[1:], runs[1:], strict=True):
        figures = compare(runs[:1], [run])["figures"]
        chosen = {key: figures[key] for key in COMPARED if key in figures}
        found.append({"first": names[0], "second": name, "figures": chosen})
    return found


def plain(value: Any) -> Any:
    """Returns arrays, numbers and named tuples as JSON values; nan becomes None."""
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, (np.ndarray, np.generic)):
        return plain(value.tolist())
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value


def lines(report: Value) -> str:
    """Returns all figures of a report as CSV: run, table, row, column, value."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(("run", "table", "row", "column", "value"))
    for run in report["runs"]:
        for name, row, values in _cells(run):
            for column, value in values.items():
                if not isinstance(value, (dict, list)):
                    writer.writerow((run["name"], name, row, column, value))
    for one in report.get("comparisons", ()):
        name = f"{one['first']} against {one['second']}"
        for figure, values in one["figures"].items():
            for column, value in values.items():
                writer.writerow((name, "comparison", figure, column, value))
    return file.getvalue()


def _cells(run: Value) -> Iterator[tuple[str, str, Value]]:
    """Yields table, row, and the row's values by column."""
    for name in ("figures", "by_rule", "calibration_before", "calibration"):
        for row, values in run.get(name, {}).items():
            yield name.replace("_before", " before"), row, values
    groups = {"types": run.get("types", ())}
    groups |= {part["name"]: part["rows"] for part in run.get("breakdowns", ())}
    groups["errors"] = run["errors"]["largest"]
    for name, rows in groups.items():
        for row in rows:
            (_, head), *values = row.items()
            yield name, head, dict(values)
    confusion = run.get("confusion", {"types": [], "counts": []})
    for row, counts in zip(confusion["types"], confusion["counts"], strict=True):
        yield "confusion", row, dict(zip(confusion["types"], counts, strict=True))
    for values in run.get("learning", ()):
        yield "learning", f"epoch {values['epoch']}", values
    for row, value in run.get("speed", ()):
        yield "speed", row, {"": value}


# --- Tables ---------------------------------------------------------------------------


class Table(NamedTuple):
    """A table of text, for the terminal and for the page.

    Attributes:
        columns: Names of the columns; the first is to the left, others to the right.
        rows: The cells.
        note: Text below the table.
        title: Text above the table.
    """

    columns: list[str]
    rows: list[list[str]]
    note: str = ""
    title: str = ""

    def __rich__(self) -> rich.table.Table:
        # `Text`, because rich reads brackets in a string as markup.
        title, note = (Text(x) if x else None for x in (self.title, self.note))
        look: Value = {"box": rich.box.SIMPLE_HEAD, "collapse_padding": True}
        table = rich.table.Table(title=title, caption=note, pad_edge=False, **look)
        for i, name in enumerate(self.columns):
            justify = "right" if i else "left"
            table.add_column(Text(name), justify=justify, no_wrap=True)
        for row in self.rows:
            table.add_row(*map(Text, row))
        return table


_PRF = ("precision", "recall", "f1")
_NUMBERS = ("gold", "predicted", "correct")


def number(value: int | None) -> str:
    """Formats an integer; a dash for None."""
    return NONE if value is None else f"{value:,}"


def fixed(value: int | float | None, digits: int = 2) -> str:
    """Formats a number with fixed decimals; a dash for None."""
    return NONE if value is None else f"{value:.{digits}f}"


def interval(low: int | float | None, high: int | float | None) -> str:
    """Formats the bounds of an interval; a dash for None."""
    return NONE if low is None else f"{fixed(low)} to {fixed(high)}"


def _bounds(figure: Value) -> str:
    return interval(figure["low"], figure["high"])


def _figures(values: Value) -> list[str]:
    return [fixed(values[key]) for key in _PRF]


def has_tags(run: Value) -> bool:
    """Returns whether the labels of a run are tags."""
    return run["scores"]["scheme"] == TAGS


def main_figure(run: Value) -> str:
    """Returns the name of the main figure, for people."""
    return "accuracy" if has_tags(run) else "F1"


def caption(scores: Value) -> str:
    """Returns the rule and the number of ill-formed predictions; nothing for tags."""
    if scores["scheme"] == TAGS:
        return ""
    sentences = counted(scores["sentences"], "sentence")
    number, where = scores["ill_formed"], scores["ill_formed_sentences"]
    about = f"no ill-formed label in {sentences}"
    if number:
        about = f"{counted(number, 'ill-formed label')} in {where:,} of {sentences}"
    return f"{scores['rule']} rule; {about}"


def short_line(scores: Scores) -> str:
    """Returns the overall figures in half a line, in percent, without the rule.

    Example:
        >>> short_line(scoring.score([["B-PER"], ["O"]], [["I-PER"], ["O"]]))
        'P 100.00 R 100.00 F1 100.00  1 ill-formed'
    """
    if scores.has_tags:
        names = {"accuracy": scores.accuracy, "known": scores.known_accuracy}
        names |= {"new": scores.oov_accuracy}
        parts = [
            f"{name} {fixed(percent(x))}"
            for name, x in names.items()
            if name == "accuracy" or x is not None
        ]
        return "  ".join(parts)
    values = scores.overall.to_dict()
    odd = f"  {scores.ill_formed:,} ill-formed" if scores.ill_formed else ""
    return "P {} R {} F1 {}".format(*_figures(values)) + odd


def interval_line(run: Value) -> str:
    """Returns the main figure and its interval as a line."""
    figure = run["figures"]["accuracy" if has_tags(run) else "f1"]
    about = f"{100 * stats.LEVEL:g} % interval by the bootstrap over sentences"
    return f"{main_figure(run)} {fixed(figure['value'])}, {about}: {_bounds(figure)}"


def types_table(run: Value, title: str = "", *, captioned: bool = True) -> Table:
    """Returns figures per type, over all types and as means; with intervals if known.

    `run` is what `measure` returned, or `{"scores": scores.to_dict()}`; the title says
    what was scored. For tags, accuracies follow the title. If captioned, the note names
    the rule and the number of ill-formed labels.
    """
    scores, figures = run["scores"], run.get("figures", {})

    def cells(values: Value, name: str) -> list[str]:
        bounds = figures.get(name, {"low": None, "high": None})
        return [*_figures(values), *([_bounds(bounds)] if figures else [])]

    rows = [
        [kind, *cells(values, f"f1 {kind}"), *(number(values[x]) for x in _NUMBERS)]
        for kind, values in scores["by_type"].items()
    ]
    columns = ["precision", "recall", "F1", *(["95 % interval"] if figures else [])]
    if has_tags(run):
        title = "\n".join(filter(None, [title, *_accuracies(scores)]))
        return Table(["tag", *columns, *_NUMBERS], rows, "", title)
    numbers = [number(scores[x]) for x in _NUMBERS]
    rows.append(["all types (micro)", *cells(scores, "f1"), *numbers])
    for mean in ("macro", "weighted"):
        values = {x: scores[f"{mean}_{x}"] for x in _PRF}
        rows.append([f"{mean} mean", *cells(values, f"{mean} f1"), "", "", ""])
    notes = [caption(scores)] if captioned else []
    if any(
        x["precision"] is None or x["recall"] is None
        for x in scores["by_type"].values()
    ):
        notes.append(UNDEFINED)
    return Table(["type", *columns, *_NUMBERS], rows, "\n".join(notes), title)


def _accuracies(scores: Value) -> list[str]:
    new = scores["oov_tokens"]
    parts = [("all tokens", "accuracy", scores["tokens"])]
    if new is not None:
        parts.append(("known words", "known_accuracy", scores["tokens"] - new))
        parts.append(("out of vocabulary", "oov_accuracy", new))
    return [
        f"accuracy, {name}: {fixed(scores.get(key))} of {tokens:,}"
        for name, key, tokens in parts
    ]


def per_type_table(scores: Scores, title: str = "") -> Table:
    """Returns the figures of scores per type; see `types_table`."""
    return types_table({"scores": scores.to_dict()}, title)


def figures_table(run: Value, *, headline: bool = False) -> Table:
    """Returns figures with intervals, such as partial matches and means.

    As a headline, the table begins with precision, recall and F1.
    """
    types = set(run["scores"]["by_type"])
    rows = []
    for name, figure in run["figures"].items():
        head, _, kind = name.partition(" ")
        of_type = head in _PRF and kind in types
        partial = "match precision" in name or "match recall" in name
        if not of_type and not partial and (headline or name not in _PRF):
            row = [name.replace("f1", "F1"), fixed(figure["value"]), _bounds(figure)]
            rows.append(row)
    note, rule = "", run["scores"].get("rule")
    if rule not in (None, *scoring.WITH_LENGTHS):
        note = "Matches are those of the rule conlleval."
    return Table(["figure", "%", "95 % interval"], rows, note)


def rules_table(run: Value) -> Table:
    """Returns the figures under each rule."""
    rows = [
        [rule, *_figures(values), *(number(values[x]) for x in _NUMBERS)]
        for rule, values in run["by_rule"].items()
    ]
    scheme = run["scores"]["scheme"]
    note = f"Labels in {scheme}. The rules differ only on ill-formed labels."
    return Table(["rule", "precision", "recall", "F1", *_NUMBERS], rows, note)


def group_table(part: Value) -> Table:
    """Returns the figures of each group of a breakdown."""
    rows = [
        [x["group"], *_figures(x), number(x["gold"]), number(x["predicted"])]
        for x in part["rows"]
    ]
    return Table(["", "precision", "recall", "F1", "gold", "predicted"], rows)


def errors_table(run: Value) -> Table:
    """Returns the most frequent errors."""
    found = run["errors"]
    rows = [
        [x["error"], number(x["count"]), fixed(x["share"], 1)] for x in found["largest"]
    ]
    note = f"{counted(found['total'], 'error')} in all."
    return Table(["error", "count", "share, %"], rows, note)


def chunks_table(found: Mapping[str, errors.Recall], title: str = "") -> Table:
    """Returns what `errors.chunk_recall` returned, in percent."""
    rows = [
        [prefix, fixed(percent(x.share)), number(x.gold), number(x.found)]
        for prefix, x in found.items()
    ]
    return Table(["chunk label", "recall", "gold", "found"], rows, "", title)


def sides_of(run: Value) -> list[str]:
    """Returns which calibrations a run has: before and after, or one without a name."""
    if not run.get("calibration_before"):
        return [""]
    degrees = ", ".join(f"{x:.4g}" for x in run["temperature"])
    return ["before (T = 1)", f"after (T = {degrees})"]


def calibration_table(run: Value) -> Table:
    """Returns the calibration of tokens and of entities, a column for each side."""
    names = {
        "expected_calibration_error": "ECE",
        "brier": "Brier score",
        "mean_probability": "mean p",
        "share_right": "share right",
    }
    sides = [x for x in (run.get("calibration_before"), run["calibration"]) if x]
    rows = []
    for of in run["calibration"]:
        rows.append([of, *(number(side[of]["count"]) for side in sides)])
        for key, name in names.items():
            rows.append([f"{of}: {name}", *(fixed(side[of][key], 4) for side in sides)])
    note = "ECE: expected calibration error. The best error and Brier score are 0. "
    if len(sides) > 1:
        note += "T: the temperature that jaxner calibrate found on dev."
    else:
        note += "jaxner calibrate improves probabilities."
    return Table(["", *sides_of(run)], rows, note)


def runs_table(runs: Sequence[Value]) -> Table:
    """Returns the main figures of several runs."""
    rows = []
    for run in runs:
        scores = run["scores"]
        figure = run["figures"]["accuracy" if has_tags(run) else "f1"]
        cells = [fixed(scores.get("precision")), fixed(scores.get("recall"))]
        cells.append(number(scores.get("ill_formed")))
        rows.append([run["name"], fixed(figure["value"]), _bounds(figure), *cells])
    rules = sorted({run["scores"].get("rule", "tags") for run in runs})
    columns = ["run", main_figure(runs[0]), "95 % interval", "precision", "recall"]
    note = f"Figures in percent; rule: {', '.join(rules)}"
    return Table([*columns, "ill-formed"], rows, note)


def differences_table(
    found: Value, names: tuple[str, str] = ("a", "b"), note: str = ""
) -> Table:
    """Returns what `compare` returned, or some of its figures, in percentage points."""
    tests = {"bootstrap": "p boot", "permutation": "p perm"}
    if any(x["welch"] is not None for x in found["figures"].values()):
        tests["welch"] = "p Welch"
    rows = []
    for name, difference in found["figures"].items():
        keys = ("first", "second", "difference", "low", "high")
        *values, low, high = (percent(difference[key]) for key in keys)
        cells = [*map(fixed, values), interval(low, high)]
        cells += [fixed(difference[test], 4) for test in tests]
        rows.append([name.replace("f1", "F1"), *cells])
    columns = ["figure", *names, "a - b" if names == ("a", "b") else "difference"]
    return Table([*columns, "95 % interval", *tests.values()], rows, note)
