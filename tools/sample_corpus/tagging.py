"""Plausible parts of speech and chunks for the words of the patterns.

A small lexicon and a few suffix rules: sensible tags, never missing, not gold ones.
"""

import re

LEXICON_TEXT = """
NN: bed comment draw drop hand head list mark meeting need painting parking plan
    play print race return seed spring start store support test visit warning
DT: a an another any both each every half neither no some the these this
IN: aboard about above across after against along amid among around as at because
    before behind beside between by despite down during for from if in inside into
    like near of off on outside over since so than that through toward under until
    up upon when whether while with within without
CC: and but nor or
MD: can could may might must should will would
PRP: everyone everything he him i it itself me nobody she them they us we you
PRP$: her his its my our their
WP: what who
WDT: which
WP$: whose
WRB: how where
EX: there
RB: again ago ahead almost alone already also always apart aside away back early
    else even far farther formerly home just late later least little longer more
    most much never no north not now once only out soon still then together too
    twice usually yet
JJ: aged all best big bitter careful cheap chief clear close closed common dark dead
    different dry dull earlier east easy exciting fair false famous female few fifth
    final fine first fishing fit former free front full general good harder hasty
    heavy high higher hurt injured international kind known largest last late less
    level little lively local long loud lower main male many missing more most
    national net new next northern old one open other own poor popular possible
    qualifying rare ready rival saddest safe same second serious several short
    similar single small strange strong such sworn third three-year top true twin
    two weak weaker west winter worst wrong yellow young
VBD: battled beat became began borrowed bought broke brought came chose cut did drew
    drove fell felt flew found gave got grew had heard hid hit kept knew led left
    lent limped lost made met put quit ran rose said sang sank sat saw sent shook
    shut sold sought soured spent spoke stole struck taught threw told took tore was
    went wept were withdrew won wrote
VBN: been begun born done drawn felt flown found given gone held known made paid
    risen sacked seen shown split spoken swollen taken taught worn
VBZ: accuses admits agrees bans beats blames blasts borrows commands compares
    confirms costs creates cuts denies dies does drops employs ends expects faces
    falls fills finds fines forces frees gets gives goes grows has hits holds hopes
    includes is jails joins keeps kills leads leaves links maps misses mourns names
    opens outlasts owns pips plans plays quits reaches resigns rips rises runs saves
    says sees serves signs sinks snubs spoils takes trails trains turns upsets walks
    wants warns wins
VBP: agree are believe blame do eat expect face have hold host join lag leave live
    meet oppose say see sell soar start stun travel trust vote want
VB: accept add approve ask be become build buy choose clean close comment cut defend
    demand die draw drop face fly gain get give go govern hand happen head help hire
    include join laugh launch lie list lose lower mark merge miss move name open pay
    plan play print publish race raise reach rebuild recall reject resign restore
    resume retire return rise run save scrap seek sell serve sign skip slip spend
    spoil stand step store support tabulate test turn visit wait watch win
VBG: according asking beating carrying demanding ending handing including taking
CD: four one three two
TO: to
NNS: children men mice people police women
JJR: better
"""
PUNCTUATION = {
    **dict.fromkeys(".!?", "."),
    **dict.fromkeys(":;-", ":"),
    **{mark: mark for mark in ',()"$'},
    "'s": "POS",
}
SUFFIXES = (
    ("ing", "VBG"),
    ("ed", "VBD"),
    ("ly", "RB"),
    ("ous", "JJ"),
    ("ful", "JJ"),
    ("less", "JJ"),
    ("ss", "NN"),
    ("s", "NNS"),
)
# Words after which a verb is bare, or a past tense is a participle.
BARE_AFTER = ("TO", "MD")
HAVE_OR_BE = ("have", "has", "had", "was", "were", "is", "are", "be", "been", "by")
NOUN_AFTER = ("DT", "JJ", "PRP$", "POS", "IN", "CD")
PHRASES = {
    **dict.fromkeys(
        ("DT", "JJ", "JJR", "NN", "NNS", "NNP", "NNPS", "CD", "PRP", "PRP$", "$"), "NP"
    ),
    **dict.fromkeys(("WP", "WDT", "WP$", "EX", "POS"), "NP"),
    **dict.fromkeys(("MD", "VB", "VBD", "VBG", "VBN", "VBP", "VBZ"), "VP"),
    **dict.fromkeys(("IN",), "PP"),
    **dict.fromkeys(("RB", "WRB"), "ADVP"),
}
# These begin a phrase of their own even when the word before is of the same kind.
STARTERS = ("DT", "PRP", "PRP$", "WP", "WDT", "WP$", "EX", "POS", "IN", "WRB")


def _read_lexicon(text: str) -> dict[str, tuple[str, ...]]:
    """Reads the tags of each word, in the order of the sections."""
    lexicon: dict[str, list[str]] = {}
    tag = ""
    for line in text.strip().splitlines():
        words = line.split()
        if not line.startswith(" "):
            tag = words.pop(0).rstrip(":")
        for word in words:
            lexicon.setdefault(word, []).append(tag)
    return {word: tuple(tags) for word, tags in lexicon.items()}


LEXICON = _read_lexicon(LEXICON_TEXT)


def _by_shape(word: str) -> str:
    """Tags a word that the lexicon lacks."""
    if word in PUNCTUATION:
        return PUNCTUATION[word]
    if re.match(r"[+-]?\d", word):
        return "JJ" if word.endswith("-old") else "CD"
    if word[0].isupper():
        return "NNP"
    return next((tag for end, tag in SUFFIXES if word.endswith(end)), "NN")


def part_of_speech(word: str, previous: str, previous_tag: str, *, first: bool) -> str:
    """Tags a word of a pattern.

    Args:
        word: The word.
        previous: The word before it, or nothing.
        previous_tag: The tag of the word before it, or nothing.
        first: Whether the word begins its sentence, where a capital says little.

    Returns:
        A tag of the Penn Treebank.
    """
    known = LEXICON.get(word) or (LEXICON.get(word.lower()) if first else None)
    if known is None:
        tag = _by_shape(word.lower() if first else word)
        if tag == "VBD" and previous.lower() in HAVE_OR_BE:
            return "VBN"
        return "NN" if tag == "VBG" and previous_tag in ("DT", "JJ") else tag
    if "VB" in known and previous_tag in BARE_AFTER:
        return "VB"
    if previous.lower() in HAVE_OR_BE and ("VBN" in known or known[0] == "VBD"):
        return "VBN"
    if (
        previous_tag in NOUN_AFTER
        and known[0] in ("VB", "VBP", "VBZ")
        and (word.lower() not in HAVE_OR_BE)
    ):
        return "NNS" if word.endswith("s") else "NN"
    return known[0]


def chunks(tags: list[str]) -> list[str]:
    """Groups parts of speech into phrases.

    Args:
        tags: Tags of one sentence.

    Returns:
        A BIO chunk label for each tag.
    """
    labels: list[str] = []
    before = ""
    for i, tag in enumerate(tags):
        phrase = PHRASES.get(tag, "O")
        following = tags[i + 1] if i + 1 < len(tags) else ""
        # "to" belongs with a verb that follows it, and is a preposition otherwise;
        # an adverb beside a verb is inside its phrase.
        if tag == "TO":
            phrase = "VP" if following == "VB" else "PP"
        elif tag == "RB" and before == "VP" and following.startswith("VB"):
            phrase = "VP"
        if phrase == "O":
            labels.append("O")
        else:
            inside = phrase == before and tag not in STARTERS
            labels.append(f"{'I' if inside else 'B'}-{phrase}")
        before = phrase
    return labels
