"""Composes the embedded corpus: ``python -m tools.sample_corpus.compose [--out DIR]``.

A document has a genre. Its first pattern introduces people, places and organisations;
later patterns use their short forms. The three files depend only on the tables in this
folder and the seeds below.
"""

import argparse
import re
from collections.abc import Sequence
from pathlib import Path
from random import Random

from jaxner.data.sample import SPLITS, path
from tools.sample_corpus import patterns
from tools.sample_corpus.cast import pick
from tools.sample_corpus.writer import TITLES, Sentence, Writer

SEEDS = {"train": 1301, "dev": 1302, "test": 1303}
# Share of body sentences with one of the general endings.
TAIL_SHARE = 0.5
# Minimum number of sentences, including headlines and datelines.
SIZES = {"train": 1500, "dev": 350, "test": 400}


class Deck:
    """Items in random order; each comes once before any comes again."""

    def __init__(self, rng: Random, items: Sequence[str]):
        self.rng = rng
        self.items = tuple(items)
        self.left: list[str] = []

    def draw(self) -> str:
        """Returns the next item."""
        if not self.left:
            self.left = list(self.items)
        return self.left.pop(int(self.rng.random() * len(self.left)))


class Newsroom:
    """Writes the documents of one split, with all patterns about equally often."""

    def __init__(self, split: str):
        self.rng = Random(SEEDS[split])
        self.split = split
        own = {"train": patterns.TRAIN, "dev": patterns.DEV, "test": patterns.TEST}
        tables = [own[split]] + ([patterns.TRAIN] if split == "dev" else [])
        sections = [(genre, kind) for genre in TITLES for kind in patterns.KINDS]
        self.decks = {
            section: [Deck(self.rng, table[section[0]][section[1]]) for table in tables]
            for section in [*sections, patterns.TAIL]
        }
        self.genres = Deck(self.rng, tuple(TITLES))

    def document(self) -> list[Sentence]:
        """Returns one document.

        Returns:
            Its sentences, three to ten.
        """
        genre = self.genres.draw()
        writer = Writer(self.rng, self.split, genre)
        sentences: list[Sentence] = []
        if self.rng.random() < 0.5:
            sentences.append(writer.write(self._draw(genre, "head"), "head"))
        if genre != "results" and self.rng.random() < 0.4:
            sentences.append(writer.dateline())
        sentences.append(writer.write(self._draw(genre, "open"), "open"))
        length = len(sentences) + 2 + int(self.rng.random() * 6)
        used: set[str] = set()
        # A deck may return a pattern that does not fit; development's table is short,
        # so tries are bounded.
        for _ in range(40):
            if len(sentences) >= min(length, 10):
                break
            pattern = self._draw(genre, "body")
            if pattern not in used and writer.fits(pattern):
                used.add(pattern)
                sentences += self._body(writer, pattern, genre)
        return sentences[:10]

    def _body(self, writer: Writer, pattern: str, genre: str) -> list[Sentence]:
        """Returns a pattern's sentences: one, or a few lines for a table of results."""
        if genre == "results":
            lines = 1 + int(self.rng.random() * 3)
            return [writer.write(pattern, "body") for _ in range(lines)]
        # A sentence that names its source gets no ending that names one.
        plain = pattern.endswith(" .") and not re.search(
            r'[":]| (said|told|say|to {A} ,) ', pattern
        )
        if plain and self.rng.random() < TAIL_SHARE:
            tail = self._draw(*patterns.TAIL)
            if writer.fits(f"{pattern} {tail}"):
                pattern = f"{pattern[:-2]} {tail} ."
        return [writer.write(pattern, "body")]

    def _draw(self, genre: str, kind: str) -> str:
        """Returns a pattern from one of the split's tables."""
        return pick(self.rng, self.decks[genre, kind]).draw()


def compose(split: str) -> str:
    """Returns the text of one split.

    Args:
        split: ``"train"``, ``"dev"`` or ``"test"``.

    Returns:
        The text of its file.
    """
    newsroom = Newsroom(split)
    blocks: list[str] = []
    sentences = 0
    while sentences < SIZES[split]:
        document = newsroom.document()
        sentences += len(document)
        blocks.append("-DOCSTART- -X- O O\n")
        blocks += ["".join(" ".join(row) + "\n" for row in rows) for rows in document]
    return "\n".join(blocks) + "\n"


def write_files(folder: Path) -> None:
    """Writes the three files.

    Args:
        folder: Target folder; created if missing.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for split in SPLITS:
        file = folder / f"{split}.conll"
        file.write_text(compose(split), encoding="utf-8", newline="\n")


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description="Write the embedded corpus.")
    default = path("train").parent
    parser.add_argument("--out", type=Path, default=default, help="folder to write to")
    write_files(parser.parse_args(arguments).out)


if __name__ == "__main__":
    main()
