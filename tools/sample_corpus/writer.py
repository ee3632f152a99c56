"""Writes documents: fills patterns with a cast, and tags and labels the words."""

import re
from random import Random

from tools.sample_corpus.cast import Cast, Entity, Form, name_form, pick
from tools.sample_corpus.tagging import chunks, part_of_speech

DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS = ("January", "March", "April", "May", "June", "August", "October", "December")
SETS = ("6-0", "6-1", "6-2", "6-3", "6-4", "7-5", "7-6")
# What may stand before a name at its first mention, by genre.
TITLES = {
    "politics": ("Senator", "Governor", "deputy", "Minister", "Mayor"),
    "business": ("chairman", "economist", "trader", "finance director", "Mr"),
    "football": ("captain", "striker", "coach", "midfielder", "teenager"),
    "racing": ("qualifier", "outsider", "veteran", "champion", "coach"),
    "results": ("referee",),
    "disaster": ("Captain", "fire chief", "Governor", "eyewitness", "Colonel"),
    "court": ("Inspector", "Judge", "prosecutor", "lawyer", "Justice"),
    "science": ("Professor", "Dr", "researcher", "biologist", "Dr."),
    "culture": ("actor", "director", "critic", "conductor", "publisher"),
    "diplomacy": ("President", "envoy", "General", "Secretary", "Ambassador"),
    "local": ("Councillor", "shopkeeper", "Reverend", "neighbour", "head teacher"),
}
SLOT = re.compile(r"\{(?:=([A-Z]+) ([^}]*)|([A-Z])(\*?)(?:\.(\w+))?)\}")
SLOT_OR_WORD = re.compile(r"\{[^}]*\}|\S+")
PRONOUN = re.compile(r"\{([ABC])\.(?:he|his|him|He|His)\}")
Word = tuple[str, str, str]
Sentence = list[tuple[str, str, str, str]]


def _number(rng: Random, kind: str) -> str:
    """Writes a random number, date or the like."""

    def between(low: int, high: int) -> int:
        return low + int(rng.random() * (high - low + 1))

    makers = {
        "d": lambda: str(between(0, 9) or 2),
        "n": lambda: str(between(11, 98)),
        "nth": lambda: f"{between(24, 30)}th",
        "big": lambda: f"{between(1, 90)},{between(0, 9)}00",
        "pct": lambda: f"{between(1, 48)}.{between(0, 9)}",
        "money": lambda: f"$ {between(1, 90)}.{between(1, 9)} [million|billion]",
        "fee": lambda: f"$ {between(1, 30)}.{between(1, 9)} million",
        "year": lambda: str(between(1931, 1995)),
        "day": lambda: pick(rng, DAYS),
        "month": lambda: pick(rng, MONTHS),
        "score": lambda: f"{between(0, 5)}-{between(0, 4)}",
        "win": lambda: f"{between(3, 6)}-{between(0, 2)}",
        "draw": lambda: pick(rng, ("0-0", "1-1", "2-2", "3-3")),
        "set": lambda: pick(rng, SETS),
        "time": lambda: f"{between(1, 9)}:{between(10, 59)}.{between(10, 99)}",
        "date": lambda: f"199{between(4, 7)}-{between(1, 12):02}-{between(1, 28):02}",
    }
    return makers[kind]()


class Writer:
    """Writes one document: fills patterns with the cast and counts ranks."""

    def __init__(self, rng: Random, split: str, genre: str):
        self.rng = rng
        self.cast = Cast(rng, split)
        self.titles = TITLES[genre]
        self.known: set[str] = set()
        self.rank = 0

    def fits(self, pattern: str) -> bool:
        """Returns whether every pronoun of a pattern has an antecedent."""
        for match in PRONOUN.finditer(pattern):
            letter = match.group(1)
            earlier = pattern[: match.start()]
            if letter not in self.known and f"{{{letter}" not in earlier:
                return False
        return True

    def write(self, pattern: str, kind: str) -> Sentence:
        """Fills a pattern.

        Args:
            pattern: The pattern.
            kind: ``head``, ``open`` or ``body``.

        Returns:
            The sentence, one row of four columns for each word.
        """
        words: list[Word] = []
        for item in SLOT_OR_WORD.findall(self._expand(pattern)):
            match = SLOT.fullmatch(item)
            if match:
                words += self._fill(match, kind)
            else:
                words.append(self._tag(item, words))
        if kind == "head":
            words = self._as_headline(words)
        elif words[0][0][0].islower():
            words[0] = (words[0][0][0].upper() + words[0][0][1:], *words[0][1:])
        return _rows(words)

    def _expand(self, pattern: str) -> str:
        """Chooses wordings and numbers."""

        def number(match: re.Match[str]) -> str:
            if match.group(1) == "rank":
                self.rank += 1
                return str(self.rank)
            return _number(self.rng, match.group(1))

        text = re.sub(r"<(\w+)>", number, pattern)
        return re.sub(
            r"\[([^]]*)\]",
            lambda match: pick(self.rng, match.group(1).split("|")),
            text,
        )

    def _tag(self, item: str, words: list[Word]) -> Word:
        """Tags one word of a pattern."""
        word, _, tag = item.partition("/")
        last, last_tag, _ = words[-1] if words else ("", "", "")
        first = all(not earlier[0].isalnum() for earlier in words)
        tag = tag or part_of_speech(word, last, last_tag, first=first)
        return word, tag, "O"

    def _fill(self, match: re.Match[str], kind: str) -> list[Word]:
        """Writes a slot: an entity in the form that its place asks for."""
        label, text, letter, fresh, asked = match.groups()
        if label:
            return _labelled(name_form(text, label))
        entity = self.cast.member(letter, fresh=bool(fresh))
        if kind == "head":
            return _labelled(entity.forms[asked or "short"])
        if asked and asked != "full":
            return _labelled(entity.forms[asked])
        if fresh:
            return _labelled(entity.forms["full"])
        known = letter in self.known
        self.known.add(letter)
        if asked:
            return _labelled(entity.forms["full"])
        return self._again(entity) if known else self._introduce(entity, kind)

    def _introduce(self, entity: Entity, kind: str) -> list[Word]:
        """Writes an entity in full, with a title before it or an acronym after it."""
        words = _labelled(entity.forms["full"])
        # An opening pattern says itself who somebody is.
        if "title" in entity.forms and kind == "body" and self.rng.random() < 0.6:
            title = pick(self.rng, self.titles).split()
            tagged = [
                (word, "NNP" if word[0].isupper() else "NN", "O") for word in title
            ]
            return tagged + words
        if entity.acronym and self.rng.random() < 0.5:
            # From here on the document uses the acronym.
            entity.forms["short"] = entity.acronym
            return [
                *words,
                ("(", "(", "O"),
                *_labelled(entity.acronym),
                (")", ")", "O"),
            ]
        return words

    def _again(self, entity: Entity) -> list[Word]:
        """Writes an entity that the document has already introduced."""
        words = _labelled(entity.forms["short"])
        if "title" in entity.forms and self.rng.random() < 0.12:
            return _labelled(entity.forms["title"]) + words
        return words

    def _as_headline(self, words: list[Word]) -> list[Word]:
        """Writes a headline in capitals, in lower case, or unchanged."""
        style = self.rng.random()
        if style < 0.45:
            return [(word.upper(), tag, label) for word, tag, label in words]
        if style < 0.85:
            return [(word.lower(), tag, label) for word, tag, label in words]
        first, *rest = words
        return [(first[0][0].upper() + first[0][1:], *first[1:]), *rest]

    def dateline(self) -> Sentence:
        """Writes the place, sometimes the country, and the date of the report."""
        city = self.cast.member("X").forms["full"]
        words = [(word.upper(), tag, label) for word, tag, label in _labelled(city)]
        if self.rng.random() < 0.3:
            country = self.cast.member("N").forms["full"]
            words += [(",", ",", "O"), *_labelled(country)]
        words.append((_number(self.rng, "date"), "CD", "O"))
        return _rows(words)


def _labelled(form: Form) -> list[Word]:
    """Labels the words of a form with BIO."""
    words = zip(form.words, form.tags, strict=True)
    if form.label is None:
        return [(word, tag, "O") for word, tag in words]
    return [
        (word, tag, f"{'I' if i else 'B'}-{form.label}")
        for i, (word, tag) in enumerate(words)
    ]


def _rows(words: list[Word]) -> Sentence:
    """Adds the chunk column."""
    phrases = chunks([tag for _, tag, _ in words])
    return [
        (word, tag, phrase, label)
        for (word, tag, label), phrase in zip(words, phrases, strict=True)
    ]
