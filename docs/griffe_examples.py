"""Makes the site show "Example:" sections like griffe's "Examples:"."""

from typing import Any

import griffe  # pyright: ignore[reportMissingImports]  # comes with the extra docs


class Examples(griffe.Extension):
    """Renames the sections before griffe parses them."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Handles one object of the package."""
        if obj.docstring:
            obj.docstring.value = obj.docstring.value.replace(
                "\nExample:\n", "\nExamples:\n"
            )
