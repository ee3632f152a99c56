"""A tagger as a recogniser of Presidio, which finds and hides personal data."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from presidio_analyzer import AnalysisExplanation, EntityRecognizer, RecognizerResult

import jaxner
from jaxner import fields

TYPES = {"PER": "PERSON", "LOC": "LOCATION", "GPE": "LOCATION", "ORG": "ORGANIZATION"}
"""Presidio's names of entity types; others keep their own."""


class Recognizer(EntityRecognizer):
    """Finds a tagger's entities; a score is the exact probability of the entity.

    Args:
        tagger: A tagger, or the folder of a run.
        types: Presidio's name of each entity type, beside those of `TYPES`.
        language: Language of the texts.
        options: What `jaxner.entities` takes, such as `min_probability`; n_best=10
            finds more entities, at lower scores.

    Example:
        >>> recognizer = Recognizer("runs/grn")
        >>> "PERSON" in recognizer.supported_entities
        True
    """

    def __init__(
        self,
        tagger: jaxner.Tagger | str | os.PathLike[str],
        types: Mapping[str, str] | None = None,
        language: str = "en",
        **options: Any,
    ):
        is_tagger = isinstance(tagger, jaxner.Tagger)
        self._tagger = tagger if is_tagger else jaxner.load(tagger)
        self._options = options
        entity_types = jaxner.entity_types(self._tagger)
        for name in types or ():
            fields.check_word("type", name, entity_types)
        jaxner.entities(self._tagger, "", **options)  # which checks the options
        spellings = {**TYPES, **(types or {})}
        self._names = {t: spellings.get(t, t) for t in entity_types}
        names = sorted({*self._names.values()})
        super().__init__(names, name="jaxner", supported_language=language)

    def load(self) -> None:
        """Does nothing: the tagger is loaded already."""

    def analyze(
        self, text: str, entities: Sequence[str], nlp_artifacts: object = None
    ) -> list[RecognizerResult]:
        """Returns the entities of a text whose types are asked for (none: all)."""
        return [
            RecognizerResult(
                name,
                entity.start_char,
                entity.end_char,
                entity.probability,
                # Presidio writes into it where a word of the context raises the score.
                AnalysisExplanation(self.name, entity.probability),
            )
            for entity in jaxner.entities(self._tagger, text, **self._options)
            if (name := self._names[entity.type])
            in (entities or self.supported_entities)
        ]
