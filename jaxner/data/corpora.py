"""Corpora: splits of labelled sentences, and where the files of known corpora lie.

A corpus is a folder with one file per split: train, dev and test. Files of a known
corpus are compared with its published scheme and sizes.
"""

from __future__ import annotations

import dataclasses
import os
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jaxner import fields
from jaxner.data import batching, formats, schemes
from jaxner.data.formats import Example
from jaxner.data.sources import Reading
from jaxner.errors import InputError
from jaxner.wording import counted

DATA_VARIABLE = "JAXNER_DATA"
SPLITS = ("train", "dev", "test")
Sizes = tuple[int, ...]
NOUNS = (("sentence", "sentences"), ("token", "tokens"), ("entity", "entities"))
"""What `Split.sizes` counts: singular and plural."""


@dataclasses.dataclass(frozen=True)
class Split:
    """One split of a corpus."""

    name: str  # of the corpus, or of its folder
    split: str
    path: Path
    examples: Sequence[Example]  # labels as in the file; IO labels with the prefix I
    scheme: str  # the published one if the labels fit it, else the best; or TAGS
    sha256: str  # of the decompressed file
    ill_formed: int = 0  # labels
    # Of ill-formed labels, the first if there are any; of changes by the reader; of
    # differences from the published corpus.
    notes: tuple[str, ...] = ()
    vectors: Any = None  # precomputed, of each sentence

    def to_scheme(self, scheme: str) -> tuple[Example, ...]:
        """Returns the sentences with well-formed labels in a scheme; tags stay tags."""
        if (scheme == schemes.TAGS) != (self.scheme == schemes.TAGS):
            kind = "tags" if self.scheme == schemes.TAGS else f"spans ({self.scheme})"
            message = f"the labels are {kind} and cannot be converted to {scheme}; for "
            message += "tags, train and tag with --config.data.scheme=tags"
            raise InputError(message, self.path)
        if scheme == schemes.TAGS:
            return tuple(self.examples)
        return _relabelled(self.examples, lambda x: schemes.convert(x, scheme))

    def types(self) -> tuple[str, ...]:
        """Returns the entity types or the tags, sorted."""
        names = {label for example in self.examples for label in example.labels}
        if self.scheme == schemes.TAGS:
            return tuple(sorted(names))
        return schemes.types_of(names)

    def words(self) -> frozenset[str]:
        """Returns the distinct tokens."""
        return frozenset(token for e in self.examples for token in e.tokens)

    def sizes(self) -> Sizes:
        """Returns the numbers of sentences, tokens and (without tags) entities."""
        tokens = sum(len(example.tokens) for example in self.examples)
        if self.scheme == schemes.TAGS:
            return len(self.examples), tokens
        entities = sum(len(schemes.to_spans(e.labels)) for e in self.examples)
        return len(self.examples), tokens, entities

    def summary(self) -> str:
        """Returns a line about the split's content, and a line for each note."""
        pairs = zip(self.sizes(), NOUNS, strict=False)  # tags: no entities
        sizes = ", ".join(counted(number, *nouns) for number, nouns in pairs)
        has_tags = self.scheme == schemes.TAGS
        kinds = counted(len(self.types()), "tag" if has_tags else "type")
        kinds += "" if has_tags else f", {self.scheme}"
        line = f"{f'{self.name} {self.split}'.strip()}: {sizes} of {kinds}"
        return "\n  ".join([line, *self.notes])


def _relabelled(
    examples: Iterable[Example], change: Callable[[Sequence[str]], Iterable[str]]
) -> tuple[Example, ...]:
    return tuple(
        dataclasses.replace(e, labels=tuple(change(e.labels))) for e in examples
    )


def read(
    path: str | os.PathLike[str],
    *,
    name: str | None = None,
    split: str = "",
    scheme: str | None = None,
    errors: list[InputError] | None = None,
    **options: Any,
) -> Split:
    """Returns the sentences of one file, with the labels unchanged.

    `name` is that of the corpus; `scheme` None: that of spans is detected. `errors`
    gets all errors of lines and labels; sentences with malformed labels are left out,
    all sentences if a line is malformed. None: the first error is raised. Other options
    are those of `formats.read`.
    """
    collect, tags = errors is not None, scheme == schemes.TAGS
    file = formats.read(path, tags=tags, collect=collect, **options)
    return of_file(file, name=name, split=split, scheme=scheme, errors=errors)


def of_file(
    file: formats.File,
    *,
    name: str | None = None,
    split: str = "",
    scheme: str | None = None,
    errors: list[InputError] | None = None,
) -> Split:
    """Returns what was read from a file as a split; see `read`."""
    path, examples, notes = file.path, tuple(file.examples), [*file.notes]
    has_tags = scheme == schemes.TAGS
    names = {label for example in examples for label in example.labels}
    wrong, is_io, doubt = {}, False, _suspect_header(path, examples)
    if not has_tags:
        notes += schemes.choices(names)
        if is_io := schemes.is_io(names):
            examples = _relabelled(examples, schemes.from_io)
            names = set(schemes.from_io(names))
        wrong = schemes.flaws(names)
    wrong |= {n: problem for n in names if (problem := hidden(n))}
    if doubt and (label := file.examples[0].labels[0]) in wrong:
        wrong[label] += f"; {doubt}"
    elif doubt and (has_tags or is_io):
        notes.append(doubt)
    if wrong:
        problems = _label_errors(path, examples, wrong)
        if not has_tags and (problem := _exchanged(path, examples)):
            problems, wrong = [problem], dict.fromkeys(names, "")
        if errors is None:
            raise problems[0]
        errors += problems
        examples = tuple(e for e in examples if wrong.keys().isdisjoint(e.labels))
    if errors is not None and file.errors:
        errors += file.errors
        examples = ()
    lines = []
    if not has_tags:
        best, *rest = schemes.fitting(example.labels for example in examples)
        if rest and not (scheme or is_io):
            alternatives = ", ".join(rest)
            notes.append(f"labels fit {best} and {alternatives} alike; {best} is taken")
        if scheme and names - {"O"} and scheme not in (best, *rest):
            notes.append(f"labels are {best}, not {scheme} as published")
            scheme = best
        scheme = scheme or best
        lines = [
            example.place(position)
            for example in examples
            for position in schemes.violations(example.labels, scheme)
        ]
    if lines:
        count, places = counted(len(lines), "label"), ", ".join(lines[:5])
        notes.insert(0, f"{count} against {scheme}, first in {places}")
    name = path.name if name is None else name
    facts = scheme or "", file.sha256, len(lines), tuple(notes)
    return Split(name, split, path, examples, *facts)


def hidden(label: str) -> str:
    """Returns what nobody sees in a label; empty if there is nothing."""
    invisible_chars = [char for char in label if is_invisible(char)]
    kind = label[2:] if label[1:2] == "-" else label
    if invisible_chars or kind != kind.strip(" "):
        code = f"U+{ord((invisible_chars or ' ')[0]):04X}"
        return f"Label {label!r} contains an invisible character ({code}); remove it"
    return ""


def _exchanged(path: Path, examples: Sequence[Example]) -> InputError | None:
    """Returns the error of a file whose tokens are labels; None if they are none."""
    tokens = Counter(token for example in examples for token in example.tokens)
    if schemes.flaws(tokens) or len(tokens) < 2:
        return None
    listing = ", ".join(token for token, _ in tokens.most_common(3))
    message = f"the tokens look like labels ({listing}): set label_column to their "
    message += "column, the first is 0, and token_column to that of the tokens"
    return InputError(message, examples[0].path or path, examples[0].lines[0])


def _suspect_header(path: Path, examples: Sequence[Example]) -> str:
    """Returns what to do if the first line of a table may be a header; else nothing."""
    is_table = path.name.lower().removesuffix(".gz").endswith((".tsv", ".csv"))
    if not (is_table and examples and examples[0].lines[0] == 1):
        return ""
    token, label = examples[0].tokens[0], examples[0].labels[0]
    tokens = [x for example in examples for x in example.tokens]
    labels = [x for example in examples for x in example.labels]
    # By chance, both are seldom alone in a file with ten tokens a label.
    are_alone = tokens.count(token) == labels.count(label) == 1
    if not are_alone or len(tokens) < 10 * len({*labels}):
        return ""
    return (
        f"the first line, {token!r} and {label!r}, may be a header; jaxner knows the "
        f"names {formats.TOKEN[0]} (or {formats.TOKEN[2]}) and {formats.LABEL[2]} (or "
        f"{formats.LABEL[6]})"
    )


def _label_errors(
    path: Path, examples: Sequence[Example], wrong: Mapping[str, str]
) -> list[InputError]:
    hint = "are these tags, without spans (--tags; in training, scheme=tags)?"
    if any(len({*example.lines}) > 1 for example in examples):  # lines of columns
        hint = f"are token_column and label_column right? {hint.capitalize()}"
    hint = f"; {hint}"
    if all(label in wrong for example in examples for label in example.labels):
        hint += " Labels without prefixes are types only if there is an O, too."
    return [
        InputError(wrong[label] + tip, example.path or path, line, example.unit)
        for example in examples
        for tip in ["" if example.offsets else hint]  # types of spans have no column
        for label, line in zip(example.labels, example.lines, strict=True)
        if label in wrong
    ]


def is_invisible(char: str) -> bool:
    """Returns whether a character is invisible and not a plain space."""
    # Control characters, formats such as U+200B, all spaces and line ends.
    kind = unicodedata.category(char)
    return char != " " and kind in ("Cc", "Cf", "Zs", "Zl", "Zp")


def reading(options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns how a run with such options reads files, as keywords of `read`."""
    names = ("format", *fields.of(Reading))
    keywords = {k: options[k] for k in names if options.get(k) is not None}
    keywords.setdefault("split_sentences", False)  # as runs from before it
    # A span scheme is that of the model; the scheme of the file is detected.
    if options.get("scheme") == schemes.TAGS:
        keywords["scheme"] = schemes.TAGS
    return keywords


@fields.checked
def divide(train: Split, share: fields.Chance, seed: int) -> tuple[Split, Split]:
    """Takes a random dev split out of train: documents, else texts, else sentences."""
    documents = [example.document for example in train.examples]
    # The sentences of a text share its line.
    places = [(example.path, example.lines[0]) for example in train.examples]
    groups, unit = batching.groups(documents), "documents"
    if len(groups) < 2:
        groups, unit = batching.groups(places), "texts"
        if len(groups) in (1, len(places)):
            groups, unit = [[i] for i in range(len(places))], "sentences"
    if len(groups) < 2:
        raise InputError("expected several sentences, to take dev from", train.path)
    count = min(max(1, round(share * len(groups))), len(groups) - 1)
    draw = np.random.default_rng(seed).permutation(len(groups))[:count]
    members = {i for group in draw for i in groups[group]}
    dev = tuple(e for i, e in enumerate(train.examples) if i in members)
    rest = tuple(e for i, e in enumerate(train.examples) if i not in members)
    note = f"{count:,} of {len(groups):,} {unit} of {train.path.name}, seed {seed}"
    notes = (*train.notes, f"without {note}")
    train = dataclasses.replace(train, examples=rest, notes=notes)
    return train, dataclasses.replace(train, split="dev", examples=dev, notes=(note,))


# Known corpora


@dataclasses.dataclass(frozen=True)
class Corpus:
    """The facts of a known corpus."""

    name: str  # also of its folder
    source: str  # where to get it
    scheme: str | None = None  # as published
    files: Sequence[str] = ()  # of its splits, if not train.conll and the like
    sizes: Sequence[Sizes] = ()  # as published


_CORPORA = (
    Corpus(
        "sample",
        "It is part of jaxner; reinstall jaxner.",
        "BIO",
        sizes=((1_500, 20_454, 3_383), (352, 4_659, 869), (401, 5_525, 1_063)),
    ),
    Corpus(
        "conll2003",
        "Request the Reuters corpus RCV1 from NIST (https://trec.nist.gov/data/reuters)"
        " and add the annotations of https://www.clips.uantwerpen.be/conll2003/ner.",
        "IOB1",
        ("eng.train", "eng.testa", "eng.testb"),
        ((14_041, 203_621, 23_499), (3_250, 51_362, 5_942), (3_453, 46_435, 5_648)),
    ),
    Corpus(
        "wnut17",
        "Download it from https://github.com/leondz/emerging_entities_17.",
        "BIO",
        ("wnut17train.conll", "emerging.dev.conll", "emerging.test.annotated"),
        ((3_394, 62_730, 1_975), (1_009, 15_733, 836), (1_287, 23_394, 1_079)),
    ),
    Corpus(
        "ontonotes5",
        "Get LDC2013T19 from https://catalog.ldc.upenn.edu/LDC2013T19 and make the "
        "CoNLL-2012 splits, without the New Testament, in columns with BIO labels.",
        "BIO",
        sizes=(
            (59_924, 1_088_503, 81_828),
            (8_528, 147_724, 11_066),
            (8_262, 152_728, 11_257),
        ),
    ),
    Corpus(  # its sizes change with each release of Universal Dependencies
        "ud_ewt",
        "Download it from https://github.com/UniversalDependencies/UD_English-EWT.",
        schemes.TAGS,
    ),
    Corpus(
        "wsj",
        "Get LDC99T42 (Penn Treebank 3) from https://catalog.ldc.upenn.edu/LDC99T42 "
        "and write sections 0-18 of its Wall Street Journal as train, 19-21 as dev "
        "and 22-24 as test, a word and tag per line, a blank line after each sentence.",
        schemes.TAGS,
        sizes=((38_219, 912_344), (5_527, 131_768), (5_462, 129_654)),
    ),
)
CORPORA = {corpus.name: corpus for corpus in _CORPORA}


def data_folder() -> Path:
    """Returns the folder of the corpora: JAXNER_DATA if set, else `data`."""
    return Path(os.environ.get(DATA_VARIABLE) or "data")


def find(name: str | os.PathLike[str], split: str, directory: Any = None) -> Path:
    """Returns the file of one split of a corpus in `CORPORA`, or of a folder."""
    fields.check_word("split", split, SPLITS)
    corpus = None if directory else CORPORA.get(str(name))
    folder = Path(directory or name)
    if corpus:
        parent = Path(__file__).parent if corpus.name == "sample" else data_folder()
        folder = parent / corpus.name
    names = ("dev", "devel", "development", "val", "valid", "validation")
    stems = names if split == "dev" else (split,)
    usual = {c.files[SPLITS.index(split)] for c in _CORPORA if c.files}

    def fits(path: Path) -> bool:
        name = path.name.removesuffix(".gz")
        stem, _, ending = name.partition(".")
        if path.is_dir():
            return name in stems and bool(formats.members(path, formats.guess(path)))
        is_usual = stem in stems and "." not in ending
        is_known = is_usual and formats.of_name(path) not in (None, "brat")
        return is_known or name in usual or name.endswith(f"-ud-{split}.conllu")

    # `Path.glob` takes a folder that may not be read for an empty one.
    paths = sorted(folder.iterdir()) if folder.is_dir() else []
    files = [path for path in paths if fits(path)]
    if len(files) > 1:
        listing = ", ".join(path.name for path in files)
        raise InputError(f"Several {split} files in {folder}: {listing}; keep only one")
    if files:
        return files[0]
    entries = ", ".join(path.name for path in paths[:20])
    message = f"No {split} file: there is no folder {folder.absolute()}"
    if folder.is_dir():
        message = f"No {split} file in the folder {folder.absolute()}: it holds "
        message += f"{entries or 'nothing'}. Expected one with a name such as {split}."
        message += "conll, and the ending of a format"
    if corpus:
        message += f". Set {DATA_VARIABLE} to the folder that holds the folder "
        message += f"{corpus.name}, or name a directory. {corpus.source}"
    raise FileNotFoundError(message)


def load(
    name: str | None,
    split: str,
    *,
    directory: str | os.PathLike[str] | None = None,
    scheme: str | None = None,
    **options: Any,
) -> Split:
    """Returns one split of a corpus in `CORPORA`; name None: of your own in a folder.

    `scheme` is the published one by default; other options are as in `read`, but texts
    are split into sentences, as training splits them, unless an option says otherwise.
    Differences from the published corpus are not errors; the notes list them.

    Example:
        >>> load("sample", "dev").scheme
        'BIO'
    """
    if name is not None or directory is None:
        fields.check_word("corpus", name, CORPORA, "or a directory")
    corpus = CORPORA[name] if name else Corpus(Path(directory or "").resolve().name, "")
    path, scheme = find(corpus.name, split, directory), scheme or corpus.scheme
    options = {"split_sentences": True} | options
    loaded_split = read(path, name=corpus.name, split=split, scheme=scheme, **options)
    notes, sizes = list(loaded_split.notes), loaded_split.sizes()
    published_sizes = corpus.sizes[SPLITS.index(split)] if corpus.sizes else sizes
    # Not strict: tags have no count of entities.
    for nouns, published_size, size in zip(NOUNS, published_sizes, sizes, strict=False):
        if published_size != size:
            amount = counted(published_size, *nouns)
            notes.append(f"expected {amount} as published, got {size:,}")
    if corpus.name == "sample" and split == "test" and directory is None:
        notes.append("other genres than train and dev, so scores are lower")
    return dataclasses.replace(loaded_split, notes=tuple(notes))


def find_vectors(name: str | os.PathLike[str], folder: str | None = None) -> Path:
    """Returns the path of a vector file, `.gz` or not; FileNotFoundError if missing.

    `name` is a path, or below the folder, `data_folder()` or its folder `vectors`.
    """
    data = data_folder()
    places = (Path(), Path(folder or ""), data / "vectors", data)
    paths = [parent / f"{name}{ending}" for parent in places for ending in ("", ".gz")]
    for path in paths:
        if path.is_file():
            return path
    listing = ", ".join(dict.fromkeys(map(str, paths)))  # each path once
    raise FileNotFoundError(
        f"No vectors {str(name)!r}; tried {listing}. Set {DATA_VARIABLE} to the folder "
        "that holds vectors/, or give a path. https://nlp.stanford.edu/projects/glove "
        "has GloVe's"
    )
