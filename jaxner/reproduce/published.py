"""The papers' published figures: cells of their tables, and claimed orders."""

from __future__ import annotations

import dataclasses
import difflib
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from jaxner.evaluation import rules

FILE = Path(__file__).with_name("published.toml")
FIGURES = ("f1", "accuracy")
ACCURACY = "accuracy"
"""The rule of cells whose labels are tags."""


@dataclasses.dataclass(frozen=True)
class Cell:
    """One cell of a paper's table.

    Attributes:
        id: Short and stable, such as `grn/conll2003`.
        table: Short name of the paper's tables, such as `grn`.
        paper: Authors and year.
        system: The paper's name for the system.
        config: Config below `configs/`, such as `grn:conll2003,elmo`.
        figure: Measure on the test set: "f1" or "accuracy".
        rule: How the paper's scorer reads spans, or "accuracy".
        published: Figure in percent; None if our texts have none.
        deviation: Standard deviation over runs, in points.
        published_max: Figure of the best run, in percent.
        runs: Number of runs; None if the paper does not say.
        verified: Whether we read the figure in the paper's text.
        source: The paper's table.
        note: Further remarks.
        begins_with: Cell whose run provides the initial weights.
        main: Whether the README's short table includes the cell.
    """

    id: str
    table: str
    paper: str
    system: str
    config: str
    figure: str = "f1"
    rule: str = "conlleval"
    published: float | None = None
    deviation: float | None = None
    published_max: float | None = None
    runs: int | None = None
    verified: bool = True
    source: str = ""
    note: str = ""
    begins_with: str = ""
    main: bool = False

    @property
    def dataset(self) -> str:
        """Name of the corpus."""
        return self.config.partition(":")[2].partition(",")[0]

    @property
    def path(self) -> str:
        """The value of `--config` for `train.py`.

        Example:
            >>> Cell("a/b", "a", "A 2000", "A", "grn:sample,elmo").path
            'configs/grn.py:sample,elmo'
        """
        module, _, arg = self.config.partition(":")
        return f"configs/{module}.py:{arg}"


@dataclasses.dataclass(frozen=True)
class Claim:
    """An order of two systems that a paper claims.

    Attributes:
        better: Id of the cell with the higher figure.
        worse: Id of the other cell.
        table: As in `Cell`: table of the paper that claims it.
        where: Section or table of the paper.
    """

    better: str
    worse: str
    table: str
    where: str


@dataclasses.dataclass(frozen=True)
class Reference:
    """Figures of another program with the data and vectors of our runs.

    Attributes:
        cell: Id of the cell to compare with.
        system: Name of the program.
        dev: Figure on dev, in percent.
        test: Figure on test, in percent.
        note: How it was measured.
    """

    cell: str
    system: str
    dev: float
    test: float
    note: str


@dataclasses.dataclass(frozen=True)
class Published:
    """The content of `published.toml`.

    Attributes:
        cells: Cells by id, in the order of the file.
        papers: The paper of each table.
        notes: Remarks on whole tables.
        claims: Claimed orders of systems.
        references: Runs of other programs.
    """

    cells: Mapping[str, Cell]
    papers: Mapping[str, str]
    notes: Mapping[str, str]
    claims: tuple[Claim, ...]
    references: tuple[Reference, ...]

    def cell(self, name: str) -> Cell:
        """Returns a cell by its id; raises ValueError if the id is unknown."""
        return self.cells[known("cell", name, self.cells)]

    def of_table(self, table: str) -> list[Cell]:
        """Returns the cells of a table; raises ValueError if the table is unknown."""
        known("table", table, self.papers)
        return [cell for cell in self.cells.values() if cell.table == table]


def load(path: Path = FILE) -> Published:
    """Returns the published figures of a file.

    Raises:
        ValueError: A cell occurs twice, or has an unknown name or field.

    Example:
        >>> load().cell("grn/conll2003").published
        91.44
    """
    content = tomllib.loads(path.read_text("utf-8"))
    tables = content["tables"]
    cells: dict[str, Cell] = {}
    for entry in content["cell"]:
        common = {k: v for k, v in tables[_table(entry, tables)].items() if k != "note"}
        cell = _made(Cell, common | entry, path)
        if cell.id in cells:
            raise ValueError(f"{path}: the cell {cell.id} occurs twice")
        _check(cell, path)
        cells[cell.id] = cell
    claims = tuple(_made(Claim, entry, path) for entry in content["claim"])
    references = tuple(_made(Reference, entry, path) for entry in content["reference"])
    named = [name for claim in claims for name in (claim.better, claim.worse)]
    named += [cell.begins_with for cell in cells.values() if cell.begins_with]
    for name in (*named, *(reference.cell for reference in references)):
        known("cell", name, cells)
    return Published(
        cells=cells,
        papers={name: table["paper"] for name, table in tables.items()},
        notes={name: table.get("note", "") for name, table in tables.items()},
        claims=claims,
        references=references,
    )


def known(what: str, name: str, names: Iterable[str]) -> str:
    """Returns `name` if it is in `names`.

    Raises:
        ValueError: The name is unknown; the message lists names, similar ones first.
    """
    names = list(names)
    if name not in names:
        close = difflib.get_close_matches(name, names, 4, 0.4)
        others = [other for other in names if other not in close]
        is_short = len(names) <= 8
        shown = [*close, *others] if is_short else [*(close or others[:4]), "…"]
        raise ValueError(f"Unknown {what} {name!r}; known are {', '.join(shown)}")
    return name


def _table(entry: Mapping[str, Any], tables: Mapping[str, Any]) -> str:
    return known("table", entry["table"], tables)


def _made(kind: Any, fields: Mapping[str, Any], path: Path) -> Any:
    try:
        return kind(**fields)
    except TypeError as error:
        raise ValueError(f"{path}: {fields}: {error}") from None


def _check(cell: Cell, path: Path) -> None:
    if cell.figure not in FIGURES:
        raise ValueError(f"{path}: {cell.id}: figure must be one of {FIGURES}")
    expected = (ACCURACY,) if cell.figure == "accuracy" else rules.RULES
    if cell.rule not in expected:
        raise ValueError(
            f"{path}: {cell.id}: rule of {cell.figure} must be one of "
            f"{', '.join(expected)}, got {cell.rule!r}"
        )
