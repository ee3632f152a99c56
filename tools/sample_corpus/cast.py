"""The people, places and organisations of one document, and the forms of their names.

All choices use ``Random.random()`` alone: Python keeps only this method's sequence for
a given seed across versions.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import TypeVar

from tools.sample_corpus import names

T = TypeVar("T")
# How often a split uses its own names rather than training's.
OWN_SHARE = {"train": 1.0, "dev": 0.5, "test": 0.65}
PARTICLES = {"of": "IN", "for": "IN", "on": "IN", "in": "IN", "under": "IN", "to": "TO"}
NAME_TAGS = PARTICLES | {"and": "CC", "&": "CC", "'s": "POS", "'": "POS", "the": "DT"}


def pick(rng: Random, items: Sequence[T]) -> T:
    """Returns one item, chosen at random.

    Args:
        rng: Random number generator.
        items: Items to choose from.

    Returns:
        One of ``items``.
    """
    return items[int(rng.random() * len(items))]


@dataclass(frozen=True)
class Form:
    """One way to write a name: words, their parts of speech, and the entity type."""

    words: tuple[str, ...]
    tags: tuple[str, ...]
    label: str | None


@dataclass(frozen=True)
class Entity:
    """A member of the cast: its forms by name, ``full`` and ``short`` among them."""

    forms: dict[str, Form]
    acronym: Form | None = None


def name_form(text: str, label: str, tag: str = "NNP") -> Form:
    """Returns the form of a name.

    Args:
        text: The words, separated by spaces.
        label: Entity type.
        tag: Part of speech of an ordinary word of the name.

    Returns:
        The form.
    """
    words = tuple(text.split())
    tags = tuple(
        "CD" if word[0].isdigit() else NAME_TAGS.get(word.lower(), tag)
        for word in words
    )
    return Form(words, tags, label)


def _named(full: str, label: str, short: str | None = None) -> Entity:
    """Returns an entity with a full and a short form."""
    short_form = name_form(short or full, label)
    return Entity({"full": name_form(full, label), "short": short_form})


def _with_acronym(full: str, short: str) -> Entity:
    """Returns an organisation, with a short acronym if it has three letters."""
    letters = "".join(word[0] for word in full.split() if word[0].isupper())
    entity = _named(full, "ORG", short)
    if len(letters) < 3:
        return entity
    return Entity(entity.forms, name_form(letters, "ORG"))


class Cast:
    """The cast of one document, filled as its patterns ask for members."""

    def __init__(self, rng: Random, split: str):
        self.rng = rng
        self.split = split
        self._members: dict[str, Entity] = {}
        # Two members never share a name, so that a document can be understood.
        self._taken: set[str] = set()

    def member(self, letter: str, *, fresh: bool = False) -> Entity:
        """Returns a member of the cast, new if necessary.

        Args:
            letter: Letter of the pattern's slot.
            fresh: Whether to return a new member without adding it to the cast.

        Returns:
            The entity.
        """
        if fresh:
            return self._new(letter)
        if letter not in self._members:
            self._members[letter] = self._new(letter)
        return self._members[letter]

    def name(self, table: names.Table) -> str:
        """Returns a name of this split, or sometimes one of training's.

        Args:
            table: Names of each split.

        Returns:
            The name, with a city in place of ``@``.
        """
        own = self.rng.random() < OWN_SHARE[self.split]
        name = pick(self.rng, table[self.split if own else "train"])
        return name.replace("@", self.name(names.CITIES)) if "@" in name else name

    def _new(self, letter: str) -> Entity:
        """Returns an entity with a name new to the document."""
        while True:
            entity = MAKERS[letter](self)
            keys = [
                " ".join(entity.forms[form].words)
                for form in ("full", "short", "given")
                if form in entity.forms
            ]
            if not any(key in self._taken for key in keys):
                self._taken.update(keys)
                return entity


def _person(cast: Cast) -> Entity:
    """Returns a person."""
    rng = cast.rng
    woman = rng.random() < 0.45
    given = cast.name(names.WOMEN if woman else names.MEN)
    last = cast.name(names.SURNAMES)
    style = rng.random()
    middle = pick(rng, "ABCDEFGHJKLMNPRSTW")
    if style < 0.76:
        full = f"{given} {last}"
    elif style < 0.88:
        full = f"{given[0]}. {last}"
    else:
        full = f"{given} {middle}. {last}"
    forms = {
        key: name_form(text, "PER")
        for key, text in {
            "full": full,
            "short": last,
            "last": last,
            "init": f"{given[0]}. {last}",
            "given": given,
        }.items()
    }
    pronouns = ("she", "her", "her") if woman else ("he", "his", "him")
    for key, word, tag in zip(
        ("he", "his", "him"), pronouns, ("PRP", "PRP$", "PRP"), strict=True
    ):
        forms[key] = Form((word,), (tag,), None)
        forms[key.capitalize()] = Form((word.capitalize(),), (tag,), None)
    forms["title"] = Form(("Ms" if woman else "Mr",), ("NNP",), None)
    return Entity(forms)


def _city(cast: Cast) -> Entity:
    """Returns a city, with its council and adjective."""
    city = cast.name(names.CITIES)
    entity = _named(city, "LOC")
    entity.forms["council"] = name_form(f"{city} City Council", "ORG")
    entity.forms["based"] = name_form(f"{city}-based", "MISC", "JJ")
    return entity


def _country(cast: Cast) -> Entity:
    """Returns a country, with its adjective and its people."""
    country, adjective, people = cast.name(names.COUNTRIES).split(":")
    entity = _named(country, "LOC")
    entity.forms["adj"] = name_form(adjective, "MISC", "JJ")
    entity.forms["pl"] = name_form(people, "MISC", "NNPS")
    return entity


def _company(cast: Cast) -> Entity:
    """Returns a company: a brand, a family firm, a country's bank or a city's works."""
    style = cast.rng.random()
    if style < 0.40:
        brand = cast.name(names.BRANDS)
        return _with_acronym(f"{brand} {cast.name(names.TRADES)}", brand)
    if style < 0.55:
        return _named(cast.name(names.BRANDS), "ORG")
    if style < 0.80:
        last = cast.name(names.SURNAMES)
        return _named(f"{last} {cast.name(names.FAMILY_FIRMS)}", "ORG", last)
    if style < 0.88:
        country = cast.name(names.COUNTRIES).split(":")[0]
        return _with_acronym(f"Bank of {country}", f"Bank of {country}")
    if style < 0.93:
        partners = f"{cast.name(names.SURNAMES)} & {cast.name(names.SURNAMES)}"
        return _named(partners, "ORG")
    works = f"{cast.name(names.CITIES)} {cast.name(names.TRADES)}"
    return _with_acronym(works, works)


def _team(cast: Cast) -> Entity:
    """Returns a club, called by its city alone about half of the time."""
    city = cast.name(names.CITIES)
    full = city
    if cast.rng.random() < 0.45:
        full = f"{city} {cast.name(names.CLUB_SUFFIXES)}"
    entity = _named(full, "ORG", city)
    entity.forms["loc"] = name_form(city, "LOC")
    return entity


def _from(
    table: names.Table, label: str, *, acronym: bool = False
) -> Callable[[Cast], Entity]:
    """Returns a function that makes entities with names from a table."""

    def make(cast: Cast) -> Entity:
        name = cast.name(table)
        return _with_acronym(name, name) if acronym else _named(name, label)

    return make


# Letters of the patterns' slots.
MAKERS: dict[str, Callable[[Cast], Entity]] = (
    dict.fromkeys("ABC", _person)
    | dict.fromkeys("XY", _city)
    | dict.fromkeys("MN", _country)
    | dict.fromkeys("OQ", _company)
    | dict.fromkeys("TV", _team)
    | dict.fromkeys("PD", _from(names.PARTIES, "ORG", acronym=True))
    | {
        "G": _from(names.AGENCIES, "ORG", acronym=True),
        "U": _from(names.INSTITUTES, "ORG", acronym=True),
        "F": _from(names.RESCUERS, "ORG"),
        "S": _from(names.PRESS, "ORG"),
        "R": _from(names.WATERS, "LOC"),
        "J": _from(names.LANDS, "LOC"),
        "H": _from(names.VENUES, "LOC"),
        "E": _from(names.SPORT_EVENTS, "MISC"),
        "W": _from(names.WORKS, "MISC"),
        "I": _from(names.CRAFT, "MISC"),
        "L": _from(names.ACCORDS, "MISC"),
        "Z": _from(names.HOLIDAYS, "MISC"),
    }
)
