"""The sentence patterns, by genre and by place in a document.

A pattern is words split by single blanks, with

* ``{A}``: a member of the document's cast, in full at first mention and short
  afterwards. The letter says what it is (see :mod:`tools.sample_corpus.cast`);
  ``{A*}`` is a new one each time, and ``{A.last}`` names one of its forms.
* ``{=ORG United Nations}``: an entity written out.
* ``<day>``: a number, date or the like.
* ``[cut|raise]``: one of several wordings.
* ``left/VBD``: a word with its part of speech, where the lexicon would be wrong.
"""

from tools.sample_corpus import patterns_dev, patterns_test, patterns_train

KINDS = ("head", "open", "body")
# The section of endings that any body sentence may take.
TAIL = ("any", "tail")
Patterns = dict[str, dict[str, tuple[str, ...]]]


def parse(text: str) -> Patterns:
    """Reads a table of patterns.

    Args:
        text: Sections headed ``# genre kind``; a pattern begins with ``- `` and may
            go on over indented lines.

    Returns:
        The patterns of each genre and kind, in the order written.
    """
    table: dict[str, dict[str, list[str]]] = {}
    section: list[str] = []
    for line in text.strip().splitlines():
        if line.startswith("# "):
            genre, kind = line[2:].split()
            section = table.setdefault(genre, {}).setdefault(kind, [])
        elif line.startswith("- "):
            section.append(line[2:].strip())
        else:
            section[-1] += " " + line.strip()
    return {
        genre: {kind: tuple(lines) for kind, lines in kinds.items()}
        for genre, kinds in table.items()
    }


TRAIN = parse(patterns_train.TEXT)
DEV = parse(patterns_dev.TEXT)
TEST = parse(patterns_test.TEXT)
