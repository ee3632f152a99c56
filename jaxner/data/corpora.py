"""Known corpora: their files, columns, schemes, sizes and sources.

A corpus is a folder with one file per split. This module lists columns, scheme and
published sizes of known corpora, and compares loaded files with them. Any other folder
with train, dev and test files works too.
"""

import difflib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from jaxner.data import readers, schemes, splits
from jaxner.data.splits import Sizes, Split
from jaxner.wording import counted

DATA_VARIABLE = "JAXNER_DATA"
SPLITS = ("train", "dev", "test")

_ENDINGS = ("conll", "txt", "tsv", "bio", "iob", "conllu", "jsonl")
_STEMS = {"train": ("train",), "dev": ("dev", "valid"), "test": ("test",)}
# The last names are for CoNLL-2012, for Universal Dependencies, and for a folder of
# brat or CoNLL-2012 files.
_FILES = {
    split: (
        *(f"{s}.{e}" for s in stems for e in _ENDINGS),
        *(f"{s}.*_conll" for s in stems),
        f"*-ud-{split}.conllu",
        *(f"{s}/" for s in stems),
    )
    for split, stems in _STEMS.items()
}


@dataclass(frozen=True)
class Corpus:
    """The facts of a known corpus."""

    name: str  # also of its folder
    source: str  # where to get it
    scheme: str | None = None  # as published
    # File names of each split, with or without .gz.
    files: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: _FILES)
    sizes: Mapping[str, Sizes] = field(default_factory=dict)  # as published


def _per_split(*values: Any) -> dict[str, Any]:
    return dict(zip(SPLITS, values, strict=True))


CORPORA: dict[str, Corpus] = {
    "sample": Corpus(
        "sample",
        "It is part of jaxner; reinstall jaxner.",
        scheme="BIO",
        sizes=_per_split(
            (1_500, 20_454, 3_383), (352, 4_659, 869), (401, 5_525, 1_063)
        ),
    ),
    "conll2003": Corpus(
        "conll2003",
        "Request the Reuters corpus RCV1 from NIST (https://trec.nist.gov/data/reuters)"
        " and add the annotations of https://www.clips.uantwerpen.be/conll2003/ner.",
        scheme="IOB1",
        files=_per_split(
            ("train.conll", "eng.train", "train.txt"),
            ("dev.conll", "eng.testa", "valid.txt"),
            ("test.conll", "eng.testb", "test.txt"),
        ),
        sizes=_per_split(
            (14_041, 203_621, 23_499), (3_250, 51_362, 5_942), (3_453, 46_435, 5_648)
        ),
    ),
    "wnut17": Corpus(
        "wnut17",
        "Download it from https://github.com/leondz/emerging_entities_17.",
        scheme="BIO",
        files=_per_split(
            ("train.conll", "wnut17train.conll"),
            ("dev.conll", "emerging.dev.conll"),
            ("test.conll", "emerging.test.annotated"),
        ),
        sizes=_per_split(
            (3_394, 62_730, 1_975), (1_009, 15_733, 836), (1_287, 23_394, 1_079)
        ),
    ),
    "ontonotes5": Corpus(
        "ontonotes5",
        "Get LDC2013T19 from https://catalog.ldc.upenn.edu/LDC2013T19 and make the "
        "CoNLL-2012 splits, without the New Testament, in columns with BIO labels.",
        scheme="BIO",
        sizes=_per_split(
            (59_924, 1_088_503, 81_828),
            (8_528, 147_724, 11_066),
            (8_262, 152_728, 11_257),
        ),
    ),
    # No sizes: they change with each release of Universal Dependencies.
    "ud_ewt": Corpus(
        "ud_ewt",
        "Download it from https://github.com/UniversalDependencies/UD_English-EWT.",
        scheme=schemes.TAGS,
    ),
    "wsj": Corpus(
        "wsj",
        "Get LDC99T42 (Penn Treebank 3) from https://catalog.ldc.upenn.edu/LDC99T42 "
        "and write sections 0-18 of its Wall Street Journal as train, 19-21 as dev "
        "and 22-24 as test: one word and tag per line, a blank line after each "
        "sentence.",
        scheme=schemes.TAGS,
        sizes=_per_split((38_219, 912_344), (5_527, 131_768), (5_462, 129_654)),
    ),
}


def data_folder() -> Path:
    """Returns the folder of the corpora: JAXNER_DATA if set, else `data`."""
    return Path(os.environ.get(DATA_VARIABLE) or "data")


def find(name_or_dir: str | os.PathLike[str], split: str) -> Path:
    """Returns the file of one split.

    `name_or_dir` is a key of `CORPORA` or a folder. In a folder, splits are `train`,
    `dev` or `valid`, and `test`: files ending in `.conll`, `.txt`, `.tsv`, `.bio`,
    `.iob`, `.conllu`, `.jsonl` or `_conll`, optionally with `.gz`; files named as in
    Universal Dependencies, such as `de_gsd-ud-train.conllu`; or folders of brat or
    CoNLL-2012 files.

    Raises:
        FileNotFoundError: The file is missing; the message says where to get it.
        ValueError: The name or the split is unknown, or several files match.
    """
    is_folder = str(name_or_dir) not in CORPORA and Path(name_or_dir).is_dir()
    name, folder = (None, name_or_dir) if is_folder else (str(name_or_dir), None)
    return _find(*_place(name, folder), split)


def load(
    name: str | None,
    split: str,
    *,
    directory: str | os.PathLike[str] | None = None,
    scheme: str | None = None,
    **reading: Any,
) -> Split:
    """Returns one split of a corpus, with the labels unchanged.

    Differences from the published corpus are not errors; the notes list them.

    Args:
        name: A key of `CORPORA`; None for a corpus of your own.
        split: `train`, `dev` or `test`.
        directory: Folder of the files; None for `data_folder()` / name.
        scheme: Declared scheme of the labels, such as `schemes.TAGS` if `label_column`
            holds parts of speech; None for the corpus's.
        **reading: Options for reading the file; see `readers.read`.

    Raises:
        ConllError: The reader cannot parse the file, or labels are malformed.
        FileNotFoundError: The file is missing.
        ValueError: The corpus or the split is unknown, or several files match.

    Example:
        >>> load("sample", "dev").scheme
        'BIO'
    """
    corpus, folder = _place(name, directory)
    found = splits.read(
        _find(corpus, folder, split),
        name=corpus.name,
        split=split,
        scheme=scheme or corpus.scheme,
        **reading,
    )
    notes, sizes = list(found.notes), found.sizes()
    known = corpus.sizes.get(split, sizes)
    # Not strict: tags have no count of entities.
    for nouns, expected, got in zip(splits.COUNTED, known, sizes, strict=False):
        if expected != got:
            what = counted(expected, *nouns)
            notes.append(f"expected {what} as published, got {got:,}")
    return replace(found, notes=tuple(notes))


def find_vectors(name: str | os.PathLike[str]) -> Path:
    """Returns the path of a vector file; raises FileNotFoundError if missing.

    `name` is a path, or the name of a file in `data_folder()` or in its folder
    `vectors`; `.gz` is optional.
    """
    places = (Path(), data_folder() / "vectors", data_folder())
    tried = [place / f"{name}{ending}" for place in places for ending in ("", ".gz")]
    if there := [path for path in tried if path.is_file()]:
        return there[0]
    sought = ", ".join(dict.fromkeys(map(str, tried)))  # list an absolute path once
    raise FileNotFoundError(
        f"No word vectors {str(name)!r}; tried {sought}. Set {DATA_VARIABLE} to the "
        "folder that holds vectors/, give a path, or train without them "
        "(--config.data.vectors=). GloVe vectors are at "
        "https://nlp.stanford.edu/projects/glove; for the vectors of Lample et al. "
        "(2016) and Godin's Twitter vectors, see their authors' pages"
    )


def _place(
    name: str | None, directory: str | os.PathLike[str] | None
) -> tuple[Corpus, Path]:
    if name is None and directory is not None:
        folder = Path(directory)
        return Corpus(folder.resolve().name, "This is a corpus of your own."), folder
    if name is None or name not in CORPORA:
        raise ValueError(_unknown("corpus", name, CORPORA) + "; or a directory")
    inside = Path(__file__).parent if name == "sample" else data_folder()
    return CORPORA[name], Path(directory or inside / name)


def _find(corpus: Corpus, folder: Path, split: str) -> Path:
    if split not in SPLITS:
        raise ValueError(_unknown("split", split, SPLITS))
    wanted = corpus.files[split]
    names = [f"{n}{end}" for n in wanted if n[-1] != "/" for end in ("", ".gz")]
    tried = [folder / name for name in names]
    found = (path for pattern in tried for path in sorted(folder.glob(pattern.name)))
    there = [path for path in found if path.is_file()]
    folders = (folder / name[:-1] for name in wanted if name[-1] == "/")
    there += [path for path in folders if path.is_dir() and readers.holds_any(path)]
    if len(there) > 1:
        files = ", ".join(path.name for path in there)
        raise ValueError(f"Several {split} files in {folder}: {files}; keep only one")
    if not folder.is_dir() and folder.exists():
        raise NotADirectoryError(
            f"{folder} is a file; expected the folder that contains it"
        )
    if not there and corpus.name not in CORPORA:
        names = ", ".join(corpus.files[split])
        held = ", ".join(sorted(entry.name for entry in folder.glob("*"))[:20])
        what = (
            f"it holds {held or 'nothing'}" if folder.is_dir() else "it does not exist"
        )
        raise FileNotFoundError(
            f"No {split} file in the folder {folder}: {what}. Possible names: {names}, "
            "each also with .gz"
        )
    if not there:
        raise FileNotFoundError(
            f"No {split} file of {corpus.name}; tried {', '.join(map(str, tried))}. Set"
            f" {DATA_VARIABLE} to the folder that holds the folder {corpus.name}, or "
            f"name a directory. {corpus.source}"
        )
    return there[0]


def _unknown(what: str, name: str | None, known: Iterable[str]) -> str:
    known = list(known)
    close = difflib.get_close_matches(str(name).lower(), known, 1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    return f"Unknown {what} {name!r}; {hint}known: {', '.join(known)}"
