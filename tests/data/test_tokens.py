"""Tokens and sentences of raw text: offsets are exact, and all rules hold."""

import functools
import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from jaxner.data.tokens import located, read, resolve, tokenise
from jaxner.errors import InputError
from tests.growth import LINEAR, growth

# Any Unicode there is, and what the rules speak of, often.
TEXTS = st.text(st.characters(), max_size=60)
SIGNS = [
    *"aB09 \n.,:'’-/&@#+!?\")_é\u0301\u200b\u200d\u200f\u2069\0。語👍",
    "http://",
    "s",
]
SIGN_TEXTS = st.lists(st.sampled_from(SIGNS), max_size=40).map("".join)

FAMILY = "\U0001f469\u200d\U0001f469\u200d\U0001f467"
PERSIAN = "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645"
GERMANY, FRANCE = "\U0001f1e9\U0001f1ea", "\U0001f1eb\U0001f1f7"
ENGLAND = "\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f"
# Controls, and formats that are neither seen nor part of a character.
CONTROLS = {chr(code) for code in (*range(0x20), *range(0x7F, 0xA0), 0x061C, 0xFEFF)}
CONTROLS |= {*map(chr, (0x200B, 0x200E, 0x200F, *range(0x202A, 0x202F)))}
CONTROLS |= {*map(chr, range(0x2060, 0x2070))}
MARK_TEXTS = st.text(
    st.sampled_from(
        "a1.-,'! \u0301\u093e\ufe0f\u20e3\u200c\u200d\U0001f469\u2764\u2642\U0001f3fd"
        "\U0001f1e9\U0001f1ea\U000e0067\U000e007f"
    ),
    max_size=30,
)


def words(text):
    return [token.text for token in tokenise(text)]


@settings(max_examples=400)
@given(TEXTS | SIGN_TEXTS | MARK_TEXTS)
@example("\ud800 x")  # half of a character, as it may come from broken input
@example("\U0001f1e9\U0001f1ea\U0001f1e9")
@example("U.\u0301 ..\u0301")
@example("U.N...")
@example("@a'S'0 it's I'm")
@example("www.a(b\u200bc)")
def test_offsets_hold_and_no_character_is_lost(text):
    tokens = tokenise(text)
    end = 0
    for token in tokens:
        assert end <= token.start < token.end <= len(text)
        assert text[token.start : token.end] == token.text
        end = token.end
    rest = "".join(c for c in text if not c.isspace() and c not in CONTROLS)
    assert "".join(t.text for t in tokens) == rest
    assert not any(c.isspace() for token in tokens for c in token.text)
    for start in (t.start for t in tokens if unicodedata.category(t.text[0])[0] == "M"):
        neighbour = text[start - 1 : start]  # a mark belongs to the character before it
        assert not neighbour.strip() or neighbour in CONTROLS
    assert located(text, [t[1:] for t in tokens]) == located(text, tokens) == tokens
    assert "".join(t.text for t in located(text, [t.text for t in tokens])) == rest


@pytest.mark.parametrize(
    "text",  # `|` parts tokens without white space between
    [
        "Milan beat Ajax 2-1|.",
        "Mr. J. Smith (|U.N.|) left|.",
        "did|n't we|'ve O'Neill|'s did|n’t it|’s",
        "$|1,000.5|, 10:30|: 5|%",
        # Names, tags, addresses and links of tweets are whole.
        "@Hollie_Bxo RT (|@bob|'s|)|:",
        "#covid_19 #हिन्दी #|#|x #|1",
        "a.b+c@d.org|. http://t.co/B?x=1|,",
        "(|https://x.org/A_(b)|)",
        "WWW.bbc.uk/?b=1|!",
        "AT&T and/or a@b.org C|++",
        "wait|... -- what|?! ***|<<",
        "so :-) :(( ;P|. x|:|) :|a",
        # Periods of initials, abbreviations and numbers.
        "J.K. Rau (|U.S.-led|) Ph.D. Iraq-U.N. TH.CO.",
        "b.org|. a1.b|. end|. A@B|. Z. z|. Mt|... Co|..",
        "I. M. Pei|, J. I. Case|; I. Fox and I. M. Poe|, as I|. And I|. Roe\n\nI. A",
        "no. 5|, No.\n7|; pp|. x no.5",
        "1. A 2|. B\n3|. C\n\n140. D\n \n1990|. E",
        ".5 +44-20 $|.50 US$|5 a|+|.5 HK$ 5|$ ABCD|$|1 C|$|x .5|'s",
        # `'s` after anything.
        "Inc.|'s U.S.|'S Jr.|’s Yahoo|!|'s x|)|’ll it 's",
        "'|s|' '|s-Hage '|s.b !|'|s\u0301 '|sx n't",
        '"|Yes|,|" she said',
        "cafe\u0301 हिन्दी co\u00adop",
        "❤\ufe0f|!",
        f"hi|{FAMILY}|{FAMILY}|!",
        "\U0001f44d\U0001f3fd|\U0001f44d",
        "\u2764\ufe0f\u200d\U0001f525",
        f"{GERMANY}|{FRANCE}|.",
        "\U0001f1ff\U0001f1e6|\U0001f1e6\U0001f1ff",
        f"{ENGLAND}|1-0",
        "1\ufe0f\u20e3 go",
        "x\u0301y Mr|.\u0301 ...\u0301",
        f"{PERSIAN}|!",
        "",
    ],
)
def test_rules(text):
    assert words(text.replace("|", "")) == text.replace("|", " ").split()


@pytest.mark.parametrize(
    "passage",  # `|` stands where a sentence begins
    [
        "Rome fell. |It rose.",
        "J.K. Marlow joined the U.S. Army. |He left the U.S. |He came back.",
        "J.P. Rau in Washington D.C. Mayor Lee called, e.g. Ann, i.e. The boss.",
        "Mr. and Mrs. Roe vs. J. K. Poe, Ph.D. of St. Louis. |No. |No. 5. |Dr. No!",
        "At 5 p.m. Monday. |At 5 p.m. |She (a Ph.D.) left Inc. A. of Inc. |A man.",
        "5.5 to 5. |5 men. |1.5 of 9. |Etc. |“He did.” |Plan B. |“A car.” |P.S. I go",
        "1. Open. |2. Shut it: 3. Go on 5 6. Eat. |1990. |100. Then 1000. |Now.",
        "who? |me! |nobody knew. |twice. |the Univ. of, bzw. z. B. the 3. man",
        "He said: \"Go!\" |No. |'Go!' he said. |(No.) |[No?] and (no.) or 'no.' so",
        "He said... so… he ..? |is, no.. |But... |And… |And he.",
        "Nice :) |It is. :) :-( |No. |Why?! :) so :) =( x == Xa No . . . |This.",
        "I saw b.org. |See http://b.org/a. |Yes . , x ! ; x ? : x . ) . ] !! ? } . % x",
        "Yahoo ! 's . 'll . |'t! |(a) no. |-- Yes. |هل؟ |نعم. |وہ۔ |गया। |Wow‼ |👍.x",
        "! ) |He left . : It fell ! ; So did he. ) |' Yes. ) |- No . , It",
        "A HEAD\n\n|text\n \t\n|one\r\n\r\n|two\u2029|three\nlines\f|U.S.\n\n|it",
        "東京。|大阪！|「行け。」|「京都？！」|は。 |）",
        "",
    ],
)
def test_sentences_begin(passage):
    parts = passage.split("|")
    text = "".join(parts)
    starts = [sum(map(len, parts[:end])) for end in range(len(parts))]
    assert [part[0].start for part in read(text)] == starts[: len(text)]
    assert len(read(text, split_sentences=False)) == bool(text)


def texts(tokens):
    return [[token.text for token in sentence] for sentence in tokens]


def test_own_tokenizers():
    text = "Rome fell. Bo rose."
    whole = [["Rome", "fell.", "Bo", "rose."]]
    assert texts(read(text, str.split, split_sentences=False)) == whole
    # Sentences are those of the text, whatever the tokenizer.
    assert texts(read(text, str.split)) == [["Rome", "fell."], ["Bo", "rose."]]
    sentences = read(text, tokenizer=lambda text: [["Rome", "fell"], [], [(11, 13)]])
    assert texts(sentences) == [["Rome", "fell"], ["Bo"]]


@given(TEXTS | SIGN_TEXTS)
def test_sentences_are_the_tokens_whatever_the_tokenizer(text):
    parts = read(text)
    assert all(parts)
    assert [token for part in parts for token in part] == tokenise(text)
    words = [t for part in read(text, tokenizer="whitespace") for t in part]
    assert words == located(text, resolve("whitespace")(text))


@given(TEXTS | SIGN_TEXTS)
def test_characters_make_up_all_tokens(text):
    pieces = [t for part in read(text, "characters") for t in part]
    starts, ends = {t.start for t in pieces}, {t.end for t in pieces}
    words = tokenise(text)
    assert starts >= {t.start for t in words}
    assert ends >= {t.end for t in words}
    assert "".join(t.text for t in pieces) == "".join(t.text for t in words)


def test_characters_keep_their_marks():
    text = f"罗马 e\u0301{FAMILY}{GERMANY}{FRANCE}。ฉั"
    pieces = [t.text for part in read(text, "characters") for t in part]
    expected = ["罗", "马", "e\u0301", FAMILY, GERMANY, FRANCE, "。", "ฉั"]
    assert pieces == expected


def test_wrong_tokens_and_tokenizers_are_refused():
    wrong = (["Rome", "fall"], ["Rome", ""], [(0, 4), (3, 5)], [(0, 40)], [(2, 2)])
    for tokens in (*wrong, [3], [(1,)]):
        with pytest.raises(InputError, match="The token"):
            read("Rome fell", lambda text, tokens=tokens: tokens)
    with pytest.raises(InputError, match="known: words"):
        resolve("spacy")
    for wrong in (3, len):
        with pytest.raises(TypeError):
            read("Rome", wrong)


LINKS = "www.a", "http://b(c)", "(ftp://d/e),", "«www.f»", ":)", "#g's"


@given(st.lists(st.sampled_from(LINKS), min_size=1))
def test_tokens_of_words_apart_are_those_of_each(pieces):
    text = " ".join(pieces)
    assert words(text) == [word for piece in pieces for word in words(piece)]


UNITS = (
    "\"|)|'s|' |'s' |. \" |U.S. \" |a\" |。」|.|!? |([|-|\n|\n \n|\r| |\u0301|\u200d|"
    "www.|www.a |www.a(|(|http://(a)|http://x.|@|#1|@a's |:)| :((|a|a-|U.|I. |1 1. "
)


@pytest.mark.parametrize("unit", UNITS.split("|"))
def test_time_is_linear(unit):
    start = "http://" if unit == "(" else ""
    split = functools.partial(read, tokenizer=str.split)
    assert growth(split, lambda n: start + unit * n, 2_000) < LINEAR
