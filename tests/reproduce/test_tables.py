"""Tables and verdicts are made from the lines, and only from them."""

import re
import shutil

import numpy as np
import pytest

from jaxner.reproduce import programs, published, record, tables, verdicts
from jaxner.reproduce.results import Results
from tests.reproduce import lines

KNOWN = published.load()
RESULTS = Results(programs.ROOT / "results")


def table_of(text, name):
    """The cells of the row of a system's config."""
    rows = [row for row in text.splitlines() if f"`{name}`" in row and "| `" in row]
    return [cell.strip() for cell in rows[0].strip("|").split("|")]


@pytest.mark.parametrize(
    ("page", "lay_out"),
    [("README.md", tables.readme), ("docs/systems.md", tables.systems)],
)
def test_pages_hold_the_tables_as_they_are_made(page, lay_out):
    text = (programs.ROOT / page).read_text("utf-8")
    table = lay_out(KNOWN, RESULTS.lines())
    assert tables.inserted(text, table) == text, f"run {tables.COMMAND}"


def test_the_report_is_as_it_is_made():
    report = (programs.ROOT / "results" / "README.md").read_text("utf-8")
    made = tables.report(KNOWN, RESULTS.lines(), RESULTS.compared())
    assert made == report, f"run {tables.COMMAND}"


def test_the_short_table_has_the_main_systems_of_each_paper():
    cells = [cell for cell in KNOWN.cells.values() if cell.main]
    assert tables.readme(KNOWN, []).count("\n") == 2 + len(cells) <= 22
    assert {cell.table for cell in cells} == set(KNOWN.papers)


def test_every_cell_has_its_row():
    text = tables.systems(KNOWN, [])
    for cell in KNOWN.cells.values():
        module, _, arg = cell.config.partition(":")
        assert text.count(f"| `{module}.py:{arg}` |") == 1


def test_a_text_without_marks_is_refused():
    with pytest.raises(ValueError, match="Expected the lines"):
        tables.inserted("no table here", "")


def test_mean_deviation_number_and_difference():
    found = [
        lines.line("grn/conll2003", seed, test={"conlleval": test})
        for seed, test in enumerate((90.0, 91.0, 90.5))
    ]
    row = table_of(tables.systems(KNOWN, found), "grn.py:conll2003")
    assert row[2:] == ["91.44 ± .16 (5), best 91.67", "90.50 ± .50 (3)", "−0.94"]
    row = table_of(tables.systems(KNOWN, found[:1]), "grn.py:conll2003")
    assert row[3:] == ["90.00 (1)", "−1.44"]


def test_the_report_tells_rules_epochs_settings_and_failures():
    found = [
        lines.line(
            "ncrfpp-crf/conll2003",
            test={"ncrfpp": 90.5, "conlleval": 90.4, "strict": 90.6},
            dev={"ncrfpp": 94.5, "conlleval": 94.4},
            overrides={"patience": 15, "data.vectors": "other.txt"},
        ),
        lines.line("lan/conll2003", status="failed", error="no memory"),
    ]
    text = tables.report(KNOWN, found, {})
    row = table_of(text, "ncrfpp.py:conll2003,crf")
    assert row[3:] == [
        *("90.50 (1)", "−0.71", "90.40 (1)", "90.60 (1)", "94.50 (1)"),
        *("7 of 22; at most 100, patience 15", "ncrfpp", "Table 3"),
    ]
    assert "- Run with `data.vectors=other.txt`: `ncrfpp-crf/conll2003`." in text
    assert "- Failed: `lan/conll2003`, seed 0: no memory" in text
    assert table_of(text, "lan.py:conll2003")[3] == ""
    assert "NCRF++ itself, beside `ncrfpp-crf/conll2003`: dev 94.60" in text
    for claim in KNOWN.claims:
        assert text.count(f"| `{claim.better}` | `{claim.worse}` |") == 1


def test_accuracy_has_no_rule_of_spans():
    found = [lines.line("ncrfpp/wsj", test={"accuracy": 97.4}, dev={"accuracy": 97.3})]
    row = table_of(tables.report(KNOWN, found, {}), "ncrfpp.py:wsj")
    assert row[3:8] == ["97.40 (1)", "−0.11", "", "", "97.30 (1)"]


def test_the_strict_figure_is_not_shown_twice():
    cell = next(c.id for c in KNOWN.cells.values() if c.rule == "strict")
    found = [lines.line(cell, test={"strict": 40.0, "conlleval": 41.0})]
    config = KNOWN.cell(cell).config.replace(":", ".py:", 1)
    row = table_of(tables.report(KNOWN, found, {}), config)
    assert row[5:7] == ["41.00 (1)", ""]


# --- Verdicts ----------------------------------------------------------------------


CLAIM = next(
    claim
    for claim in KNOWN.claims
    if (claim.better, claim.worse) == ("grn/conll2003", "cnn-bilstm-crf/conll2003")
)


def judged(better, worse, compared=()):
    found = [
        lines.line(name, seed, test={"conlleval": test})
        for name, side in ((CLAIM.better, better), (CLAIM.worse, worse))
        for seed, test in enumerate(side)
    ]
    return verdicts.verdict(CLAIM, KNOWN, found, dict(compared))


def test_verdicts_by_runs():
    high, low = (91.0, 91.1, 91.2), (90.0, 90.1, 90.2)
    assert judged(high, low).word == verdicts.HOLDS
    assert judged(low, high).word == verdicts.FAILS
    assert judged(low, high).difference == pytest.approx(-1.0)
    assert judged(high, (90.0, 91.5, 92.0)).word == verdicts.OPEN
    its = judged(high, low)
    assert its.numbers == (3, 3)
    assert its.test == "Welch"
    assert its.p < 0.001


def test_without_runs_nothing_is_decided():
    for sides in (((), ()), ((90.0,), ()), ((), (90.0, 90.1))):
        its = judged(*sides)
        assert (its.word, its.p) == (verdicts.OPEN, None)


def test_single_runs_decide_nothing():
    assert judged((91.0,), (90.0,)).word == verdicts.OPEN
    name = "conlleval: grn/conll2003 0 91.0 > cnn-bilstm-crf/conll2003 0 90.0"
    its = judged((91.0,), (90.0,), {name: 0.01})
    assert (its.word, its.test) == (verdicts.OPEN, "bootstrap, one seed")


def test_two_runs_decide_nothing():
    # Nearly equal by chance: Welch's p is below 0.01, whatever the sentences say.
    high, low = (91.0, 91.01), (90.0, 90.01)
    assert verdicts.welch(high, low) < 0.01
    assert judged(high, low).word == verdicts.OPEN
    sides = "grn/conll2003 0 91.0, 1 91.01", "cnn-bilstm-crf/conll2003 0 90.0, 1 90.01"
    name = f"conlleval: {sides[0]} > {sides[1]}"
    its = judged(high, low, {name: 0.3})
    assert (its.word, its.test, its.p) == (verdicts.OPEN, "bootstrap", 0.3)
    its = judged(high, low, {name: 0.01})
    assert (its.word, its.test, its.p) == (verdicts.OPEN, "bootstrap", 0.01)


def test_equal_runs_have_a_figure():
    assert verdicts.welch([90.0, 90.0], [90.0, 90.0]) == 1.0
    assert verdicts.welch([91.0, 91.0], [90.0, 90.0]) == 0.0


def test_bootstrap_tells_apart_what_differs():
    draws = np.random.default_rng(0)
    gold = draws.integers(0, 4, 400)

    def run(share):
        correct = draws.binomial(gold, share)
        return np.stack([correct, gold, gold], axis=1)

    good, bad = run(0.95), run(0.80)
    assert verdicts.bootstrap([good], [bad], rounds=500) < 0.01
    assert verdicts.bootstrap([good], [good], rounds=500) == 1.0
    p = verdicts.bootstrap([run(0.9)], [run(0.9)], rounds=500)
    assert 0.01 < p <= 1.0
    # A run that differs much from the other one of its system weakens the evidence.
    assert verdicts.bootstrap([good, bad], [bad], rounds=500) > 0.05
    with pytest.raises(ValueError, match="same sentences"):
        verdicts.bootstrap([good], [bad[:-1]])


def test_the_bootstrap_needs_no_run_folder(tmp_path):
    def pair(seed):
        return [
            lines.counted(name, seed, tmp_path / f"{name}-{seed}", missed)
            for name, missed in ((CLAIM.better, 1), (CLAIM.worse, 60))
        ]

    found = pair(0)
    folder = tmp_path / f"{CLAIM.worse}-0"
    expected = record.sentence_counts(
        KNOWN.cell(CLAIM.worse), "conlleval", folder, "test"
    )
    np.testing.assert_array_equal(record.counts(found[1], "conlleval"), expected)
    shutil.rmtree(folder)
    compared = verdicts.compare(KNOWN, found, {})
    assert len(compared) == 1
    its = verdicts.verdict(CLAIM, KNOWN, found, compared)
    assert (its.word, its.test) == (verdicts.OPEN, "bootstrap, one seed")
    # What is known is not computed again.
    known = dict.fromkeys(compared, 0.5)
    assert verdicts.compare(KNOWN, found, known) == known
    # Two runs of each are compared together.
    found += pair(1)
    compared = verdicts.compare(KNOWN, found, compared)
    assert len(compared) == 1
    its = verdicts.verdict(CLAIM, KNOWN, found, compared)
    assert (its.word, its.test) == (verdicts.OPEN, "bootstrap")
    assert its.numbers == (2, 2)
    # Three runs of each are compared by their figures.
    found += pair(2)
    assert verdicts.compare(KNOWN, found, compared) == {}


def test_runs_without_counts_keep_their_comparison(tmp_path):
    sides = CLAIM.better, CLAIM.worse
    bare = [lines.line(name, test={"conlleval": 90.0}) for name in sides]
    assert verdicts.compare(KNOWN, bare, {}) == {}
    known = {verdicts.pair_name(bare[:1], bare[1:], "conlleval"): 0.04}
    assert verdicts.compare(KNOWN, bare, known) == known
    # A second run of one side: the comparison of the first ones stands, and says so.
    more = lines.counted(CLAIM.better, 1, tmp_path / "1", 1)
    compared = verdicts.compare(KNOWN, [*bare, more], known)
    assert compared == known
    its = verdicts.verdict(CLAIM, KNOWN, [*bare, more], compared)
    assert (its.p, its.numbers, its.difference) == (0.04, (1, 1), 0.0)
    # It never stands for other figures.
    other = [{**bare[0], "test": {"conlleval": 91.0}}, bare[1]]
    assert verdicts.compare(KNOWN, other, known) == {}
    # More runs that have counts replace it, fewer or as many do not.
    worse = lines.counted(CLAIM.worse, 1, tmp_path / "worse", 60)
    found = [*bare, more, worse]
    assert verdicts.compare(KNOWN, found, known) == known
    found.append(lines.counted(CLAIM.better, 2, tmp_path / "2", 1))
    compared = verdicts.compare(KNOWN, found, known)
    assert len(compared) == 1
    its = verdicts.verdict(CLAIM, KNOWN, found, {**known, **compared})
    assert (its.numbers, its.word) == ((2, 1), verdicts.OPEN)
    # Two runs of both say more than three of one.
    sizes = [(len(x), len(y)) for x, y in verdicts._pairs([more] * 3, [worse] * 2)]
    assert sizes[:3] == [(3, 2), (3, 2), (2, 2)]  # by seed, and those with counts


@pytest.mark.parametrize(
    ("cell", "rules"),
    [
        ("grn/conll2003", ["conlleval"]),
        ("cross-bilstm/wnut17", ["strict", "conlleval"]),
        ("lan/wsj", ["accuracy"]),
    ],
)
def test_lines_hold_the_counts_of_each_sentence(cell, rules, tmp_path, monkeypatch):
    its, counted = KNOWN.cell(cell), iter(([[2, 3, 9]], [[1, 3, 9]]))
    given = {}

    def counts(cell, rule, folder, split):
        assert (cell, folder, split) == (its, tmp_path, "test")
        given[rule] = next(counted)
        return given[rule]

    monkeypatch.setattr(record, "sentence_counts", counts)
    line = {record.COUNTS: record._counts_by_rule(its, tmp_path)}
    assert list(given) == rules
    for rule in rules:
        assert record.counts(line, rule).tolist() == given[rule]


def test_other_tables_are_compared_by_conlleval():
    grn, idcnn = KNOWN.cell("grn/conll2003"), KNOWN.cell("idcnn-crf/conll2003")
    assert verdicts.common_rule(grn, idcnn) == "conlleval"
    assert verdicts.common_rule(idcnn, idcnn) == "idcnn"


PAGES = [programs.ROOT / "README.md", *sorted((programs.ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_figures_of_pages_stand_between_the_marks(page):
    """What is measured is written by the command, and nowhere else."""
    text = page.read_text("utf-8")
    before, _, rest = text.partition(tables.BEGIN)
    outside = before + rest.partition(tables.END)[2]
    assert not re.findall(r"\b(?:8[5-9]|9[0-9])\.\d\d\b", outside)
