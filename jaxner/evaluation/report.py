"""One dictionary of JSON values for each prediction, and its tables.

The labels may come from a tagger of this library or from another program: `describe`
sees only tokens, labels and, if known, probabilities. The tables on the terminal, the
page and the JSON come from the dictionary that it returns. Figures are in percent, None
where undefined.
"""

from __future__ import annotations

import dataclasses
import functools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import chain, pairwise
from typing import Any, NamedTuple

import numpy as np
import rich.box
import rich.table
from rich.text import Text

from jaxner.data.schemes import TAGS, Span, to_spans
from jaxner.evaluation import calibration, errors, scoring, stats
from jaxner.evaluation.calibration import Calibration
from jaxner.evaluation.errors import Pair
from jaxner.evaluation.scoring import Counts, Labels, Scores, percents
from jaxner.wording import counted

Value = dict[str, Any]

NONE = "–"
COMPARED = ("precision", "recall", "f1", "macro f1", "weighted f1", "accuracy")
"""The figures in which a report compares runs."""
FREQUENCIES = (0, 1, 4, 19)
"""Maximum frequency in training of the entities in each group but the last."""
WORD_CLASSES = ("in training", "in the vectors only", "in neither")
"""What is known of a word, the best first."""
_EXAMPLES = 5  # of each kind of error
_RANKED = 10  # confident mistakes, uncertain hits and sentences
_LARGEST = 12  # most frequent errors
_WINDOW = 9  # tokens of context on each side


@dataclasses.dataclass(frozen=True)
class Training:
    """Words of the training text and of the vectors, and how often which entities."""

    words: Set[str]
    in_vectors: Set[str]
    mentions: Counter[str]


@dataclasses.dataclass(frozen=True)
class Prediction:
    """Gold and predicted labels of a text; what is unknown is None.

    Attributes:
        scheme: Scheme of the labels, or `schemes.TAGS`.
        rule: One of `scoring.RULES`.
        certainty: Probability of each predicted label, by sentence and token.
        entity_certainty: Probability by sentence, start, end and type.
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

    @property
    def _how(self) -> Value:
        known = self.training.words if self.training else None
        how: Value = {"rule": self.rule, "scheme": self.scheme}
        return how | {"tokens": self.tokens, "known_words": known}

    @functools.cached_property
    def scores(self) -> Scores:
        """The scores by the rule."""
        return scoring.score(self.gold, self.predicted, **self._how)

    @functools.cached_property
    def pairs(self) -> list[Pair]:
        """Gold and predicted spans side by side; none of tags."""
        if self.scheme == TAGS:
            return []
        return errors.pairs(self.gold, self.predicted, self.span_rule, self.scheme)

    def outcomes(self) -> tuple[list[float], list[bool]]:
        """Returns the known probabilities of entities, and whether each is gold."""
        chances = self.entity_certainty or {}
        spans = map(to_spans, self.gold)
        gold = {(i, *span) for i, row in enumerate(spans) for span in row}
        return list(chances.values()), [x in gold for x in chances]

    def tally(self, types: Sequence[str] = ()) -> stats.Tally:
        """Returns the counts of each sentence; see `stats.tally`."""
        counted: Value = {"spans": self.scores.counts, "pairs": self.pairs}
        sides = self.gold, self.predicted
        return stats.tally(*sides, **self._how, types=types, **counted)

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
    for spans `by_rule` (figures under each rule that reads the scheme).
    """
    scores, scheme = prediction.scores, prediction.scheme
    sides = prediction.gold, prediction.predicted
    run: Value = {
        "scores": scores.to_dict(),
        "figures": prediction.figures(rounds, seed),
        "intervals": {"rounds": rounds, "level": stats.LEVEL, "seed": seed},
    }
    run["types"] = types_of(run)
    if scheme != TAGS:
        rules = [rule for rule in scoring.RULES if scoring.reads(rule, scheme)]
        counts = {scores.rule: scores.counts}
        for rule in {*rules} - {*counts}:
            counts[rule] = scoring.count(*sides, rule, scheme, scores.types)
        run["by_rule"] = {x: scoring.total(counts[x]).to_dict() for x in rules}
    return run


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
        run["uncertain_text"] = _uncertain_text(prediction, prediction.certainty)
    sides = chain(*prediction.gold), chain(*prediction.predicted)
    if prediction.scheme == TAGS:
        wrong = Counter(f"{a} as {b}" for a, b in zip(*sides, strict=True) if a != b)
        return run | {"errors": _errors(wrong.most_common())}
    pairs = prediction.pairs
    types = sorted({span.type for pair in pairs for span in pair.spans})
    names = [*types, errors.OUTSIDE]
    counts = errors.confusion(pairs, types).tolist()
    rows = [dict(zip(names, row, strict=True)) for row in counts]
    run["confusion"] = dict(zip(names, rows, strict=True))
    run["errors"] = _errors(errors.largest(pairs), errors.counts(pairs))
    run["examples"] = {
        kind: _examples(prediction, [(None, x) for x in pairs if x.kind == kind])
        for kind in errors.KINDS
    }
    run["span_rule"] = prediction.span_rule
    run["groups"] = {
        name: {group: counts.to_dict() for group, counts in groups.items()}
        for name, groups in _groups(prediction)
    }
    if (chances := prediction.entity_certainty) is not None:
        keys: list[Any] = [x.predicted and (x.sentence, *x.predicted) for x in pairs]
        known = zip(keys, pairs, strict=True)
        rows = [(chances[key], pair) for key, pair in known if key in chances]
        rows.sort(key=lambda row: row[0])
        mistakes = [row for row in rows[::-1] if row[1].kind]
        hits = [row for row in rows if not row[1].kind]
        run["confident_mistakes"] = _examples(prediction, mistakes, _RANKED)
        run["uncertain_hits"] = _examples(prediction, hits, _RANKED)
    return run


def _errors(rows: Sequence[tuple[str, int]], kinds: Any = None) -> Value:
    """Returns the total, the most frequent errors, and the numbers of the kinds."""
    total = sum(n for _, n in rows)
    largest = {x: {"count": n, "share": 100 * n / total} for x, n in rows[:_LARGEST]}
    return {"total": total, "largest": largest, "counts": kinds or {}}


def _groups(prediction: Prediction) -> Iterator[tuple[str, dict[str, Counts]]]:
    """Yields the name of each breakdown, and the counts by group."""
    pairs = prediction.pairs
    yield "Entity length (tokens)", errors.by_length(pairs)
    by_sentence = errors.by_sentence_length(pairs, prediction.gold)
    yield "Sentence length (tokens)", by_sentence
    if prediction.training and prediction.tokens:
        known, tokens = prediction.training, prediction.tokens

        def frequency(sentence: int, span: Span) -> int:
            return known.mentions[" ".join(tokens[sentence][span.start : span.end])]

        def least_known(sentence: int, span: Span) -> str:  # as Ma and Hovy (2016)
            words = set(tokens[sentence][span.start : span.end]) - known.words
            return WORD_CLASSES[bool(words) + bool(words - known.in_vectors)]

        by_frequency = errors.by_range(pairs, FREQUENCIES, frequency, least=0)
        yield "Times the same string is an entity in training", by_frequency
        by_word = errors.by_group(pairs, WORD_CLASSES, least_known)
        yield "Least known word of the entity", by_word


def calibrated(prediction: Prediction) -> dict[str, Calibration]:
    """Returns the calibration of tokens and entities; empty without probabilities."""
    if prediction.certainty is None:
        return {}
    sides = chain(*prediction.gold), chain(*prediction.predicted)
    right = [a == b for a, b in zip(*sides, strict=True)]
    rows = {"tokens": (list(chain(*prediction.certainty)), right)}
    if prediction.entity_certainty is not None:
        rows["entities"] = prediction.outcomes()
    return {unit: calibration.calibration(*x) for unit, x in rows.items()}


def _examples(
    prediction: Prediction, rows: Iterable[tuple[Any, Pair]], most: int = _EXAMPLES
) -> list[Value]:
    """Returns pairs in their context, gold beside predicted, with probabilities."""
    read = scoring.reader(prediction.span_rule, prediction.scheme)
    examples = []
    for chance, pair in [*rows][:most]:
        words = prediction.words[pair.sentence]
        begin = max(0, min(span.start for span in pair.spans) - _WINDOW)
        end = min(len(words), max(span.end for span in pair.spans) + _WINDOW)
        about = {"sentence": pair.sentence, "probability": chance}
        about["error"] = pair.name if pair.kind else None
        about["cut"] = [begin > 0, end < len(words)]
        for side in ("gold", "predicted"):
            spans = read(getattr(prediction, side)[pair.sentence])
            about[side] = _pieces(words, spans, getattr(pair, side), begin, end)
        examples.append(about)
    return examples


def _pieces(
    words: Sequence[str], spans: list[Span], focus: Span | None, begin: int, end: int
) -> list[Value]:
    """Splits a part of a text into entities and the words between them."""
    bounds = {min(max(x, begin), end) for span in spans for x in span[:2]}
    pieces = []
    for start, stop in pairwise(sorted({begin, end} | bounds)):
        span = next((x for x in spans if x.start <= start < x.end), None)
        piece = {"text": " ".join(words[start:stop]), "type": span and span.type}
        pieces.append(piece | {"focus": span is not None and span == focus})
    return pieces


def _uncertain_text(
    prediction: Prediction, certainty: Sequence[Sequence[float]]
) -> list[Value]:
    """Returns the least certain sentences, with the probability of each label."""
    least = [min(row, default=1.0) for row in certainty]
    sentences = []
    for i in sorted(range(len(least)), key=least.__getitem__)[:_RANKED]:
        columns = {
            "text": prediction.words[i],
            "gold": prediction.gold[i],
            "predicted": prediction.predicted[i],
            "probability": list(map(float, certainty[i])),
        }
        rows = zip(*columns.values(), strict=True)
        tokens = [dict(zip(columns, row, strict=True)) for row in rows]
        sentences.append({"sentence": i, "tokens": tokens})
    return sentences


def compare(
    first: Sequence[Prediction],
    second: Sequence[Prediction],
    *,
    rounds: int = stats.TEST_ROUNDS,
    seed: int = 0,
) -> Value:
    """Compares two systems, of one run or several; see `stats.compare`.

    Each run's labels are read, and its ill-formed labels counted, in its own scheme.
    Figures by name are fractions.
    """
    sides = first, second
    types = sorted({kind for run in (*first, *second) for kind in run.scores.types})
    tallies = [[run.tally(types) for run in side] for side in sides]
    differences = stats.compare(*tallies, rounds=rounds, seed=seed)
    return {
        "figures": {name: x._asdict() for name, x in differences.items()},
        "ill_formed": [sum(run.scores.ill_formed for run in side) for side in sides],
        "numbers": [len(first), len(second)],
        "rounds": rounds,
        "seed": seed,
        "unit": "fraction",
    }


def comparisons(names: Sequence[str], runs: Sequence[Prediction]) -> list[Value]:
    """Compares each run with the first one, if their labels are of one kind."""
    if len({(run.scheme == TAGS, run.rule) for run in runs}) != 1:
        return []
    rows = []
    for name, run in zip(names[1:], runs[1:], strict=True):
        figures = compare(runs[:1], [run])["figures"]
        chosen = {key: figures[key] for key in COMPARED if key in figures}
        rows.append({"first": names[0], "second": name, "figures": chosen})
    return rows


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


# --- Tables ---------------------------------------------------------------------------


class Table(NamedTuple):
    """A table of text for terminal and page, with a note below and a title above."""

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


PRF, NUMBERS = "precision recall f1", "gold predicted correct"
_HEADS = {
    **{"f1": "F1", "value": "%", "low": "95 % interval", "ill_formed": "ill-formed"},
    **{"bootstrap": "p boot", "permutation": "p perm", "welch": "p Welch"},
    **{"expected_calibration_error": "ECE", "brier": "Brier", "share": "share, %"},
    **{"mean_probability": "mean p", "share_right": "right", "group": "", "of": ""},
}
_DIGITS = {"share": 1, "expected_calibration_error": 4, "brier": 4}
_DIGITS |= {"bootstrap": 4, "permutation": 4, "welch": 4}


def table(
    rows: Iterable[Value],
    columns: str | Sequence[str],
    note: str = "",
    title: str = "",
    heads: Mapping[str, str] | None = None,
) -> Table:
    """Returns a table of rows by column; a cell that a row lacks stays empty.

    `columns` are keys of the rows, in a list or between spaces; those that the first
    row lacks are left out. "low" stands for the bounds "low" and "high". `heads` are
    names of columns that differ from their keys.
    """
    listed = list(rows)
    keys = columns.split() if isinstance(columns, str) else columns
    keys = [key for key in keys if not listed or key in listed[0]]

    def cell(row: Value, key: str) -> str:
        value = row.get(key, "")
        if key == "low" and value != "":
            return interval(value, row["high"])
        if isinstance(value, float):
            return fixed(value, _DIGITS.get(key, 2))
        if key == "figure":
            return value.replace("f1", "F1")
        return number(value) if value is None or isinstance(value, int) else str(value)

    heads = _HEADS | dict(heads or {})
    names = [heads.get(key, key) for key in keys]
    return Table(names, [[cell(x, key) for key in keys] for x in listed], note, title)


def number(value: int | None) -> str:
    """Formats an integer; a dash for None."""
    return NONE if value is None else f"{value:,}"


def fixed(value: int | float | None, digits: int = 2) -> str:
    """Formats a number with fixed decimals; a dash for None."""
    return NONE if value is None else f"{value:.{digits}f}"


def interval(low: int | float | None, high: int | float | None) -> str:
    """Formats the bounds of an interval; a dash for None."""
    return NONE if low is None else f"{fixed(low)} to {fixed(high)}"


def main_figure(run: Value) -> str:
    """Returns the name of the main figure, for people."""
    return "accuracy" if run["scores"]["scheme"] == TAGS else "F1"


def short_line(scores: Scores) -> str:
    """Returns the overall figures in half a line, in percent, without the rule."""
    values = scores.figures()
    if scores.has_tags:
        names = {"known_accuracy": "known", "oov_accuracy": "new"}
        values = {"accuracy": None} | values
        return "  ".join(f"{names.get(x, x)} {fixed(y)}" for x, y in values.items())
    odd = f"  {scores.ill_formed:,} ill-formed" if scores.ill_formed else ""
    return "P {} R {} F1 {}".format(*(fixed(values[x]) for x in PRF.split())) + odd


def interval_line(run: Value) -> str:
    """Returns the main figure and its interval as a line."""
    figure = run["figures"][main_figure(run).lower()]
    about = f"{100 * stats.LEVEL:g} % interval by the bootstrap over sentences"
    bounds = interval(figure["low"], figure["high"])
    return f"{main_figure(run)} {fixed(figure['value'])}, {about}: {bounds}"


def types_of(run: Value) -> list[Value]:
    """Returns a row for each type, all types and the means; with intervals if known."""
    scores = run["scores"]
    rows = [
        {"type": kind, "figure": f"f1 {kind}", **values}
        for kind, values in scores["by_type"].items()
    ]
    if run["scores"]["scheme"] != TAGS:
        keys = [*PRF.split(), *NUMBERS.split()]
        overall = {"type": "all types (micro)", "figure": "f1"}
        rows.append(overall | {key: scores[key] for key in keys})
        for mean in ("macro", "weighted"):
            values = {key: scores[f"{mean}_{key}"] for key in keys[:3]}
            rows.append({"type": f"{mean} mean", "figure": f"{mean} f1", **values})
    bounds = run.get("figures", {})
    return [row | bounds.get(row.pop("figure"), {}) for row in rows]


def types_table(run: Value, title: str = "") -> Table:
    """Returns the table of `types_of`, with the rule or, above it, tags' accuracies."""
    scores = run["scores"]
    columns = f"type {PRF} low {NUMBERS}"
    if scores["scheme"] == TAGS:
        new = scores["oov_tokens"]
        parts = [("all tokens", "accuracy", scores["tokens"])]
        if new is not None:
            parts.append(("known words", "known_accuracy", scores["tokens"] - new))
            parts.append(("out of vocabulary", "oov_accuracy", new))
        for name, key, tokens in parts:
            line = f"accuracy, {name}: {fixed(scores.get(key))} of {tokens:,}"
            title = f"{title}\n{line}" if title else line
        return table(types_of(run), columns, title=title, heads={"type": "tag"})
    sentences = counted(scores["sentences"], "sentence")
    about = f"no ill-formed label in {sentences}"
    if scores["ill_formed"]:
        labels = counted(scores["ill_formed"], "ill-formed label")
        about = f"{labels} in {scores['ill_formed_sentences']:,} of {sentences}"
    note = f"{scores['rule']} rule; {about}"
    if any(None in (x["precision"], x["recall"]) for x in scores["by_type"].values()):
        note += "\nIn the means, an undefined figure (–) counts as 0, as in seqeval."
    return table(types_of(run), columns, note, title)


def per_type_table(scores: Scores, title: str = "") -> Table:
    """Returns the figures of scores per type; see `types_table`."""
    return types_table({"scores": scores.to_dict()}, title)


def figures_table(run: Value) -> Table:
    """Returns the figures over all types, such as partial matches, with intervals."""
    hidden = {f"{x} {kind}" for kind in run["scores"]["by_type"] for x in PRF.split()}
    rows = [
        {"figure": name, **values}
        for name, values in run["figures"].items()
        if name not in hidden and not name.endswith(("match precision", "match recall"))
    ]
    is_other = run["scores"].get("rule") not in (None, *scoring.WITH_LENGTHS)
    note = "Matches are those of the rule conlleval." if is_other else ""
    return table(rows, "figure value low", note)


def grouped(
    groups: Mapping[str, Value],
    head: str,
    columns: str = f"{PRF} gold predicted correct",
    note: str = "",
) -> Table:
    """Returns a row for each group, under a head."""
    rows = [{head: group, **values} for group, values in groups.items()]
    return table(rows, f"{head} {columns}", note)


def rules_table(run: Value) -> Table:
    """Returns the figures under each rule."""
    scheme = run["scores"]["scheme"]
    note = f"Labels in {scheme}. The rules differ only on ill-formed labels."
    return grouped(run["by_rule"], "rule", note=note)


def calibration_table(run: Value) -> Table:
    """Returns the calibration of tokens and of entities, before and after if known."""
    sides = {"1": run.get("calibration_before"), "": run["calibration"]}
    if degrees := run.get("temperature"):
        sides[", ".join(f"{x:.4g}" for x in degrees)] = sides.pop("")
    rows = [
        {"of": of, "T": temperature, **values}
        for temperature, side in sides.items()
        for of, values in (side or {}).items()
    ]
    return calibrations(rows)


def calibrations(rows: Iterable[Value], title: str = "") -> Table:
    """Returns rows of `Calibration.to_dict`, with what they are of and the T."""
    note = "ECE: expected calibration error. The best error and Brier score are 0. "
    note += "T: the temperature, which jaxner calibrate finds on dev."
    figures = "expected_calibration_error brier mean_probability share_right"
    return table(rows, f"split of T count {figures}", note, title)


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
    points = ("first", "second", "difference", "low", "high")
    rows = [
        {"figure": name, **values, **percents({x: values[x] for x in points})}
        for name, values in figures.items()
    ]
    columns = "figure first second difference low bootstrap permutation"
    if any(row["welch"] is not None for row in rows):
        columns += " welch"
    return table(rows, columns, note, heads=heads)
