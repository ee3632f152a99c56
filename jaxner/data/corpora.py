"""The corpora by name: where their files are, what is in them, and where to get them.

A corpus is a folder with one file per split. Known corpora have their columns, scheme
and published sizes here, and what is loaded is held against them; any other folder with
train, dev and test files will do too.
"""

import difflib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from jaxner.data import readers, schemes, splits
from jaxner.data.splits import Sizes, Split

DATA_VARIABLE = "JAXNER_DATA"
SPLITS = ("train", "dev", "test")

_ENDINGS = ("conll", "txt", "tsv", "bio", "iob", "conllu", "jsonl")
_STEMS = {"train": ("train",), "dev": ("dev", "valid"), "test": ("test",)}
# The last names are those of CoNLL-2012, of Universal Dependencies, and of a folder of
# brat's or CoNLL-2012 files.
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
    """What is known of a corpus."""

    name: str  # and that of its folder
    source: str  # where one gets it
    scheme: str | None = None  # as published
    # For each split the names that its file may have, with or without .gz.
    files: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: _FILES)
    sizes: Mapping[str, Sizes] = field(default_factory=dict)  # as published


def _per_split(*values: Any) -> dict[str, Any]:
    return dict(zip(SPLITS, values, strict=True))


CORPORA: dict[str, Corpus] = {
    "sample": Corpus(
        "sample",
        "It is part of jaxner: reinstall.",
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
    # Without sizes: they change with each release of Universal Dependencies.
    "ud_ewt": Corpus(
        "ud_ewt",
        "Download it from https://github.com/UniversalDependencies/UD_English-EWT.",
        scheme=schemes.TAGS,
    ),
    "wsj": Corpus(
        "wsj",
        "Get LDC99T42 (Penn Treebank 3) from https://catalog.ldc.upenn.edu/LDC99T42 and"
        " write sections 0-18 of its Wall Street Journal as train, 19-21 as dev and "
        "22-24 as test: a word and its tag in each line, a blank line after each "
        "sentence.",
        scheme=schemes.TAGS,
        sizes=_per_split((38_219, 912_344), (5_527, 131_768), (5_462, 129_654)),
    ),
}


def data_folder() -> Path:
    """Gives the folder of the corpora: the variable JAXNER_DATA, else `data`."""
    return Path(os.environ.get(DATA_VARIABLE) or "data")


def find(name_or_dir: str | os.PathLike[str], split: str) -> Path:
    """Finds the file of one split.

    `name_or_dir` is a key of `CORPORA`, or a folder with one file per split, named
    `train`, `dev` or `valid`, and `test`, with the ending `.conll`, `.txt`, `.tsv`,
    `.bio`, `.iob`, `.conllu`, `.jsonl` or `_conll`, and perhaps `.gz`; or as treebanks
    of Universal Dependencies are, such as `de_gsd-ud-train.conllu`; or with a folder of
    that name, of brat's or CoNLL-2012 files.

    Raises:
        FileNotFoundError: There is no such file; the message says where one gets it.
        ValueError: The name or the split is unknown, or several files would do.
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
    """Reads one split of a corpus, with the labels as they stand in the file.

    Differences from the published corpus are no errors, but stand in the notes.

    Args:
        name: A key of `CORPORA`; None for a corpus of your own.
        split: `train`, `dev` or `test`.
        directory: The folder with its files; None: `data_folder()` and the name.
        scheme: The scheme that the labels are said to be in, such as `schemes.TAGS` of
            a corpus whose `label_column` has parts of speech; None: the corpus's.
        **reading: How the file is read; see `readers.read`.

    Raises:
        ConllError: The file is not as its reader expects, or labels are malformed.
        FileNotFoundError: There is no such file.
        ValueError: The corpus or the split is unknown, or several files would do.

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
    # Not strict: of tags, no entities are counted.
    for what, expected, got in zip(splits.COUNTED, known, sizes, strict=False):
        if expected != got:
            notes.append(f"expected {expected:,} {what} as published, got {got:,}")
    return replace(found, notes=tuple(notes))


def find_vectors(name: str | os.PathLike[str]) -> Path:
    """Finds a file of word vectors; raises FileNotFoundError if there is none.

    `name` is a path, or the name of a file in `data_folder()` or in its folder
    `vectors`; `.gz` may be left out.
    """
    places = (Path(), data_folder() / "vectors", data_folder())
    tried = [place / f"{name}{ending}" for place in places for ending in ("", ".gz")]
    if there := [path for path in tried if path.is_file()]:
        return there[0]
    sought = ", ".join(dict.fromkeys(map(str, tried)))  # an absolute path only once
    raise FileNotFoundError(
        f"No word vectors {str(name)!r}; tried {sought}. Set {DATA_VARIABLE} to the "
        "folder that holds vectors/, give a path, or train without them "
        "(--config.data.vectors=). GloVe vectors are at "
        "https://nlp.stanford.edu/projects/glove; those of Lample et al. (2016) and "
        "Godin's of Twitter are where their authors' pages say"
    )


def _place(
    name: str | None, directory: str | os.PathLike[str] | None
) -> tuple[Corpus, Path]:
    if name is None and directory is not None:
        folder = Path(directory)
        return Corpus(folder.resolve().name, "It is a corpus of your own."), folder
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
        raise ValueError(f"Several {split} files in {folder}: {files}; leave only one")
    if not folder.is_dir() and folder.exists():
        raise NotADirectoryError(f"{folder} is a file; give the folder that it is in")
    if not there and corpus.name not in CORPORA:
        names = ", ".join(corpus.files[split])
        held = ", ".join(sorted(entry.name for entry in folder.glob("*"))[:20])
        what = f"it holds {held or 'nothing'}" if folder.is_dir() else "there is none"
        raise FileNotFoundError(
            f"Expected a {split} file in the folder {folder}, but {what}. It may be "
            f"named {names}, each also with .gz"
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
