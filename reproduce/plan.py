"""The cells of the papers' tables, and the plan of the runs that reproduce them.

The two TOML files describe their fields.
"""

import tomllib
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple, Self

from jaxner import fields

FOLDER = Path(__file__).parent


class Cell(NamedTuple):
    """One cell of a paper's table."""

    id: str
    table: str
    paper: str
    system: str
    config: str
    rule: str = "conlleval"
    published: float | None = None
    deviation: float | None = None
    published_max: float | None = None
    runs: int | None = None
    verified: bool = True
    source: str = ""
    note: str = ""
    departures: str = ""
    begins_with: str = ""
    main: bool = False

    @property
    def figure(self) -> str:
        """What is measured: "accuracy" or "f1"."""
        return "accuracy" if self.rule == "accuracy" else "f1"


class Published(NamedTuple):
    """The content of `published.toml`: cells by id, tables, and the claims of each.

    A claim is an order of two cells, such as "a > b", and its place in the paper.
    """

    cells: dict[str, Cell]
    tables: dict[str, Any]
    claims: dict[str, dict[str, str]]

    @classmethod
    def load(cls) -> Self:
        """Returns the published figures.

        Example:
            >>> Published.load().cell("grn/conll2003").published
            91.44
        """
        content = tomllib.loads((FOLDER / "published.toml").read_text("utf-8"))
        tables, cells = content["tables"], {}
        for table, entries in content["cells"].items():
            common = {k: v for k, v in tables[table].items() if k != "note"}
            for name, entry in entries.items():
                cells[name] = Cell(name, table, **common | entry)
        return cls(cells, tables, content["claims"])

    def cell(self, name: str) -> Cell:
        """Returns a cell by its id; raises InputError if the id is unknown."""
        fields.check_word("cell", name, self.cells)
        return self.cells[name]

    def of_table(self, table: str) -> list[Cell]:
        """Returns the cells of a table; raises InputError if the table is unknown."""
        fields.check_word("table", table, self.tables)
        return [cell for cell in self.cells.values() if cell.table == table]


class Job(NamedTuple):
    """One run of a cell."""

    cell: Cell
    seed: int

    def __str__(self) -> str:
        return f"{self.cell.id} seed {self.seed}"


class Plan(NamedTuple):
    """The content of `plan.toml`: how cells are run here, and in which order."""

    stand_ins: Sequence[Mapping[str, Any]]
    settings: Sequence[Mapping[str, Any]]
    groups: Sequence[Mapping[str, Any]]

    @classmethod
    def load(cls) -> Self:
        """Returns the plan."""
        content = tomllib.loads((FOLDER / "plan.toml").read_text("utf-8"))
        return cls(content["stand_in"], content["setting"], content["group"])

    def jobs(self, cells: Mapping[str, Cell], seeds: int | None = None) -> list[Job]:
        """Returns all runs by priority; `seeds` of each cell, by default as planned."""
        names = {name for group in self.groups for name in group["cells"]}
        rest = {"cells": [name for name in cells if name not in names], "seeds": 1}
        return [
            Job(cells[name], seed)
            for group in (*self.groups, rest)
            for seed in range(seeds or group["seeds"])
            for name in group["cells"]
        ]

    def overrides(
        self, cell: Cell, vectors: str | None, is_there: Callable[[str], bool]
    ) -> dict[str, Any]:
        """Returns the overrides of a cell's config, which names a file of vectors."""
        changes: dict[str, Any] = {}
        for setting in self.settings:
            if any(fnmatchcase(cell.id, pattern) for pattern in setting["cells"]):
                changes |= setting["overrides"]  # later ones win
        if vectors and not is_there(vectors):
            for stand_in in self.stand_ins:
                if vectors in stand_in["for"] and is_there(stand_in["use"]):
                    changes["data.vectors"] = stand_in["use"]
                    return changes | stand_in.get("overrides", {})
        return changes
