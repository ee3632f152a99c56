"""Numbers with their nouns, for lines that people read."""


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Writes a number with its noun, in the plural where it is due.

    Args:
        number: How many.
        noun: Of one.
        plural: Of several; by default the noun with an s.

    Example:
        >>> counted(1, "shape"), counted(2000, "batch", "batches")
        ('1 shape', '2,000 batches')
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
