"""Numbers with their nouns, for lines that people read."""


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Returns a number with its noun, in the singular or plural.

    Args:
        number: The number.
        noun: The noun in the singular.
        plural: The noun in the plural; by default with an added s.

    Example:
        >>> counted(1, "shape"), counted(2000, "batch", "batches")
        ('1 shape', '2,000 batches')
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
