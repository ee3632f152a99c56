"""The plan of runs: stand-in vectors, epochs, patience, seeds and order."""

from __future__ import annotations

import dataclasses
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from jaxner.reproduce.published import Cell, known

FILE = Path(__file__).with_name("plan.toml")


@dataclasses.dataclass(frozen=True)
class Job:
    """One run of a cell, or several that train together in one program.

    Attributes:
        cell: The cell to reproduce.
        seed: Seed of the run, or of the first one.
        num_seeds: Number of runs, with consecutive seeds.
    """

    cell: Cell
    seed: int
    num_seeds: int = 1

    def __str__(self) -> str:
        if self.num_seeds == 1:
            return f"{self.cell.id} seed {self.seed}"
        return f"{self.cell.id} seeds {self.seed} to {self.last_seed}"

    @property
    def last_seed(self) -> int:
        """Seed of the last run."""
        return self.seed + self.num_seeds - 1

    def each(self) -> list[Job]:
        """Returns a job for each run.

        Example:
            >>> from jaxner.reproduce import published
            >>> cell = published.load().cell("grn/conll2003")
            >>> [str(job) for job in Job(cell, 1, num_seeds=2).each()]
            ['grn/conll2003 seed 1', 'grn/conll2003 seed 2']
        """
        return [Job(self.cell, s) for s in range(self.seed, self.last_seed + 1)]

    @property
    def key(self) -> tuple[str, int]:
        """Cell and seed, which identify a job."""
        return self.cell.id, self.seed

    def folder(self, runs: Path) -> Path:
        """Returns the run folder, given the folder of all runs."""
        name = f"seed-{self.seed}"
        if self.num_seeds > 1:
            name = f"seeds-{self.seed}-{self.last_seed}"
        return runs / self.cell.id / name

    def first_weights(self, runs: Path) -> Path | None:
        """Returns the run folder with the initial weights, or None."""
        source = self.cell.begins_with
        return runs / source / f"seed-{self.seed}" if source else None


@dataclasses.dataclass(frozen=True)
class StandIn:
    """Vectors that replace missing ones.

    Attributes:
        names: Files to replace.
        use: File to use instead.
        overrides: Further changes to a config.
    """

    names: tuple[str, ...]
    use: str
    overrides: Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Setting:
    """Overrides for some cells.

    Attributes:
        cells: Patterns of ids, such as `grn*`.
        overrides: Config options and values.
    """

    cells: tuple[str, ...]
    overrides: Mapping[str, Any]

    def fits(self, cell: Cell) -> bool:
        """Returns whether a pattern matches a cell."""
        return any(fnmatchcase(cell.id, pattern) for pattern in self.cells)


@dataclasses.dataclass(frozen=True)
class Group:
    """Cells of equal priority: all get their first seed before any gets its second.

    Attributes:
        name: What the cells show.
        cells: Ids of the cells.
        seeds: Number of runs of each cell.
    """

    name: str
    cells: tuple[str, ...]
    seeds: int


@dataclasses.dataclass(frozen=True)
class Plan:
    """The content of `plan.toml`.

    Attributes:
        stand_ins: Vectors that replace missing ones.
        settings: Overrides; if several match a cell, later ones win.
        groups: Groups by descending priority.
        devices: Overrides for all cells on a kind of device.
    """

    stand_ins: tuple[StandIn, ...]
    settings: tuple[Setting, ...]
    groups: tuple[Group, ...]
    devices: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)

    def jobs(self, cells: Mapping[str, Cell], seeds: int | None = None) -> list[Job]:
        """Returns all runs by descending priority.

        Args:
            cells: All cells by id; cells without a group come last, with one seed.
            seeds: Number of runs of each cell; None for the numbers of the groups.

        Returns:
            The runs, each once.
        """
        named = {name for group in self.groups for name in group.cells}
        rest = Group("the rest", tuple(n for n in cells if n not in named), 1)
        return [
            Job(cells[name], seed)
            for group in (*self.groups, rest)
            for seed in range(seeds or group.seeds)
            for name in group.cells
        ]

    def overrides(
        self, cell: Cell, vectors: str | None, is_there: Callable[[str], bool]
    ) -> dict[str, Any]:
        """Returns the overrides of a cell's config.

        Args:
            cell: The cell.
            vectors: The file that its config names.
            is_there: Returns whether a vector file exists.
        """
        changed: dict[str, Any] = {}
        for setting in self.settings:
            if setting.fits(cell):
                changed |= setting.overrides
        if vectors and not is_there(vectors):
            for stand_in in self.stand_ins:
                if vectors in stand_in.names and is_there(stand_in.use):
                    changed["data.vectors"] = stand_in.use
                    changed |= stand_in.overrides
                    break
        return changed


def load(cells: Iterable[str], path: Path = FILE) -> Plan:
    """Returns the plan of a file.

    Args:
        cells: Ids of all cells.
        path: The file.

    Raises:
        ValueError: The file names a cell twice or an unknown cell, or a setting matches
            no cell.
    """
    content = tomllib.loads(path.read_text("utf-8"))
    plan = Plan(
        tuple(
            StandIn(tuple(entry["for"]), entry["use"], entry.get("overrides", {}))
            for entry in content["stand_in"]
        ),
        tuple(Setting(tuple(e["cells"]), e["overrides"]) for e in content["setting"]),
        tuple(
            Group(entry["name"], tuple(entry["cells"]), entry["seeds"])
            for entry in content["group"]
        ),
        {name: entry["overrides"] for name, entry in content["device"].items()},
    )
    cells = list(cells)
    named = [name for group in plan.groups for name in group.cells]
    for name in named:
        known("cell", name, cells)
        if named.count(name) > 1:
            raise ValueError(f"{path}: the groups name the cell {name} twice")
    for pattern in (x for setting in plan.settings for x in setting.cells):
        if not any(fnmatchcase(name, pattern) for name in cells):
            raise ValueError(f"{path}: the setting {pattern!r} matches no cell")
    return plan


def together(job: Job, others: Iterable[Job]) -> Job:
    """Returns a job joined with those of the seeds that follow, to train together.

    Args:
        job: A run.
        others: Runs that may join it. A cell that begins with the weights of other
            runs, one for each seed, is joined with none.
    """
    if job.cell.begins_with:
        return job
    seeds = {other.seed for other in others if other.cell.id == job.cell.id}
    count = 1
    while job.seed + count in seeds:
        count += 1
    return dataclasses.replace(job, num_seeds=count)


def joined_before(cell: Cell, runs: Path) -> list[Job]:
    """Returns the joined jobs of a cell that have a folder.

    Args:
        cell: The cell.
        runs: The folder of all runs.
    """
    names = (path.name for path in sorted((runs / cell.id).glob("seeds-*")))
    found = (re.fullmatch(r"seeds-(\d+)-(\d+)", name) for name in names)
    ends = [(int(match[1]), int(match[2])) for match in found if match]
    return [Job(cell, first, last - first + 1) for first, last in ends]


def chosen(
    jobs: Sequence[Job], tables: Sequence[str] = (), cells: Sequence[str] = ()
) -> list[Job]:
    """Returns the jobs of the named tables and cells; all jobs if both are empty."""
    if not (tables or cells):
        return list(jobs)
    return [job for job in jobs if job.cell.table in tables or job.cell.id in cells]
