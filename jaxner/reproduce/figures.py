"""What the papers published in their other tables and figures: `figures.toml`."""

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
        source: Which table or figure it is, and of what.
        absent: What the text at hand does not give.
        says: What it says that is no value of a cell.
        values: Published values, by row and column.
    """

    paper: str
    source: str
    absent: str = ""
    says: tuple[str, ...] = ()
    values: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)

    def value(self, row: str, column: str) -> Any:
        """Returns a published value; None if the text does not give it.

        Example:
            >>> load("changes").value("✓ → ✗", "tokens")
            39
            >>> load("changes").value("✓ → ✗", "seconds") is None
            True
        """
        return self.values.get(row, {}).get(column)

    def notes(self) -> list[str]:
        """Says where the values are from, and what there is not.

        Example:
            >>> load("grn-6").notes()[1]
            'Not in the text: Times.'
        """
        lines = [f"Published: {self.paper}, {self.source}"]
        lines += [f"Not in the text: {self.absent}"] if self.absent else []
        return [*lines, *(f"The text says: {text}" for text in self.says)]

    def to_dict(self) -> dict[str, Any]:
        """Gives everything as JSON values."""
        return dataclasses.asdict(self)


def load(name: str, path: Path = FILE) -> Figure:
    """Reads what is published of one table or figure.

    Args:
        name: Its key in the file.
        path: The file.

    Raises:
        ValueError: There is none of this name, or it has a field that there is not.

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
