"""Tokens and sentences of raw text: offsets are exact, and all rules hold."""

import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from jaxner.data.tokens import located, read, resolve, tokenise
from jaxner.errors import InputError

# Any Unicode there is, and what the rules speak of, often.
ANY = st.text(st.characters(), max_size=60)
SIGNS = [*"aB09 \n.,:'’-/&@#+!?\")_é\u0301\u200b\u200d。語👍", "http://", "s"]
RULED = st.lists(st.sampled_from(SIGNS), max_size=40).map("".join)

FAMILY = "\U0001f469\u200d\U0001f469\u200d\U0001f467"
PERSIAN = "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645"
GERMANY, FRANCE = "\U0001f1e9\U0001f1ea", "\U0001f1eb\U0001f1f7"
ENGLAND = "\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f"
JOINED = st.text(
    st.sampled_from(
        "a1.-,'! \u0301\u093e\ufe0f\u20e3\u200c\u200d\U0001f469\u2764\u2642\U0001f3fd"
        "\U0001f1e9\U0001f1ea\U000e0067\U000e007f"
    ),
    max_size=30,
)


def words(text):
    return [token.text for token in tokenise(text)]


@settings(max_examples=400)
@given(ANY | RULED | JOINED)
@example("\ud800 x")  # half of a character, as it may come from broken input
@example("\U0001f1e9\U0001f1ea\U0001f1e9")
@example("U.\u0301 ..\u0301")
@example("U.N...")
@example("@a'S'0")
def test_offsets_hold_and_no_character_is_lost(text):
    tokens = tokenise(text)
    end = 0
    for token in tokens:
        assert end <= token.start < token.end <= len(text)
        assert text[token.start : token.end] == token.text
        end = token.end
    left = "".join(c for c in text if not c.isspace() and c not in "\u200b\u2060\ufeff")
    assert "".join(t.text for t in tokens) == left
    assert not any(c.isspace() for token in tokens for c in token.text)
    for at in (t.start for t in tokens if unicodedata.category(t.text[0])[0] == "M"):
        before = text[at - 1 : at]  # a mark belongs to the character before it
        assert not before.strip() or before in "\u200b\u2060\ufeff"
    assert located(text, [(t.start, t.end) for t in tokens]) == tokens
    assert "".join(t.text for t in located(text, [t.text for t in tokens])) == left


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Milan beat Ajax 2-1.", "Milan beat Ajax 2-1 ."),
        ("Mr. J. Smith (U.N.) left.", "Mr. J. Smith ( U.N. ) left ."),
        ("didn't we've O'Neill's", "did n't we 've O'Neill 's"),
        ("didn’t it’s", "did n’t it ’s"),
        ("$1,000.5, 10:30: 5%", "$ 1,000.5 , 10:30 : 5 %"),
        # Names, tags, addresses and links of tweets are whole.
        ("@Hollie_Bxo RT (@bob's):", "@Hollie_Bxo RT ( @bob 's ) :"),
        ("#covid_19 #हिन्दी ##x #1", "#covid_19 #हिन्दी # # x # 1"),
        ("a.b+c@d.org. http://t.co/B?x=1,", "a.b+c@d.org . http://t.co/B?x=1 ,"),
        (
            "(https://x.org/A_(b)) WWW.bbc.uk/a!",
            "( https://x.org/A_(b) ) WWW.bbc.uk/a !",
        ),
        ("AT&T and/or a@b.org C++", "AT&T and/or a@b.org C + +"),
        ("wait... -- what?!", "wait ... -- what ? !"),
        ('"Yes," she said', '" Yes , " she said'),
        ("cafe\u0301 हिन्दी co\u00adop", "cafe\u0301 हिन्दी co\u00adop"),
        ("❤\ufe0f!", "❤\ufe0f !"),
        (f"hi{FAMILY}{FAMILY}!", f"hi {FAMILY} {FAMILY} !"),
        ("\U0001f44d\U0001f3fd\U0001f44d", "\U0001f44d\U0001f3fd \U0001f44d"),
        ("\u2764\ufe0f\u200d\U0001f525", "\u2764\ufe0f\u200d\U0001f525"),
        (f"{GERMANY}{FRANCE}.", f"{GERMANY} {FRANCE} ."),
        (f"{ENGLAND}1-0", f"{ENGLAND} 1-0"),
        ("1\ufe0f\u20e3 go", "1\ufe0f\u20e3 go"),
        ("x\u0301y Mr.\u0301 ...\u0301", "x\u0301y Mr .\u0301 ...\u0301"),
        (f"{PERSIAN}!", f"{PERSIAN} !"),
        ("'s", "' s"),
        ("", ""),
    ],
)
def test_rules(text, expected):
    assert words(text) == expected.split()


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("Rome fell. It rose.", 2),
        ("Mr. Smith went to the U.S. He came back.", 2),
        ('He said: "Go!" Nobody went.', 2),
        ('"Go!" he said.', 1),
        ("A HEADLINE\n\nThe text", 2),
        ("one\r\n\r\ntwo", 2),
        ("東京。大阪。", 2),
        ("", 0),
        (" \n ", 0),
    ],
)
def test_sentences_of_known_cases(text, count):
    assert len(read(text)) == count
    assert len(read(text, split_sentences=False)) == min(count, 1)


def texts(tokens):
    return [[token.text for token in sentence] for sentence in tokens]


def test_own_tokenizers():
    text = "Rome fell. It rose."
    whole = [["Rome", "fell.", "It", "rose."]]
    assert texts(read(text, str.split, split_sentences=False)) == whole
    # Sentences are those of the text, whatever the tokenizer.
    assert texts(read(text, str.split)) == [["Rome", "fell."], ["It", "rose."]]
    nested = read(text, tokenizer=lambda text: [["Rome", "fell"], [], [(11, 13)]])
    assert texts(nested) == [["Rome", "fell"], ["It"]]


@given(ANY | RULED)
def test_sentences_are_the_tokens_whatever_the_tokenizer(text):
    parts = read(text)
    assert all(parts)
    assert [token for part in parts for token in part] == tokenise(text)
    words = [t for part in read(text, tokenizer="whitespace") for t in part]
    assert words == located(text, resolve("whitespace")(text))


def test_wrong_tokens_are_refused():
    wrong = (["Rome", "fall"], ["Rome", ""], [(0, 4), (3, 5)], [(0, 40)], [(2, 2)])
    for made in (*wrong, [3], [(1,)]):
        with pytest.raises(InputError, match="The token"):
            read("Rome fell", lambda text, made=made: made)


def test_wrong_tokenizers_are_refused():
    with pytest.raises(InputError, match="known: words"):
        resolve("spacy")
    for wrong in ({"tokenizer": 3}, {"tokenizer": str.split, "tokeniser": str.split}):
        with pytest.raises(TypeError):
            resolve(**wrong)
    with pytest.raises(TypeError):
        read("Rome", len)
