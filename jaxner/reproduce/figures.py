"""Published values of the papers' other tables and figures, from `figures.toml`."""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jaxner.reproduce.published import known

FILE = Path(__file__).with_name("figures.toml")


@dataclasses.dataclass(frozen=True)
class Figure:
    """One table or figure of a paper.

    Attributes:
        paper: Authors and year.
        source: The table or figure, and its data.
        absent: Values missing from the text that we have.
        says: Statements of the text beyond the values of cells.
        values: Published values, by row and column.
    """

    paper: str
    source: str
    absent: str = ""
    says: tuple[str, ...] = ()
    values: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)

    def value(self, row: str, column: str) -> Any:
        """Returns a published value; None if the text lacks it.

        Example:
            >>> load("changes").value("✓ → ✗", "tokens")
            39
            >>> load("changes").value("✓ → ✗", "seconds") is None
            True
        """
        return self.values.get(row, {}).get(column)

    def notes(self) -> list[str]:
        """Returns the source of the values, and which are missing.

        Example:
            >>> load("grn-6").notes()[1]
            'Not in the text: Times.'
        """
        lines = [f"Published: {self.paper}, {self.source}"]
        lines += [f"Not in the text: {self.absent}"] if self.absent else []
        return [*lines, *(f"The text says: {text}" for text in self.says)]

    def to_dict(self) -> dict[str, Any]:
        """Returns all fields as JSON values."""
        return dataclasses.asdict(self)


def load(name: str, path: Path = FILE) -> Figure:
    """Returns the published values of one table or figure.

    Args:
        name: Key of the table or figure in the file.
        path: Path of the file.

    Raises:
        ValueError: The name or one of its fields is unknown.

    Example:
        >>> load("idcnn-2").value("ID-CNN", "ratio")
        14.1
    """
    content = tomllib.loads(path.read_text("utf-8"))
    fields = content[known("figure", name, content)]
    try:
        return Figure(**fields | {"says": tuple(fields.get("says", ()))})
    except TypeError as error:
        raise ValueError(f"{path}: {name}: {error}") from None
