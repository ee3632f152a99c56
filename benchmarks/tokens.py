"""F1 of sentence ends and tokens of raw text, beside spaCy's rules and a short regex.

    JAXNER_DATA=data python -m benchmarks.tokens

UD EWT: the text is the sentences joined by blanks. The gold tokens are words; where
those of a multiword token do not concatenate to it, it is one. CoNLL-2003: the text is
the tokens joined by blanks, a sentence or document at a time; *cut* counts the gold
entities with the end of a sentence inside.
"""

import gzip
import re
from bisect import bisect_right
from itertools import chain, groupby, islice

import spacy

from jaxner.data import corpora, schemes, tokens

NLP = spacy.blank("en")
NLP.add_pipe("sentencizer")


def spacys(text):
    sentences = ([x for x in part if not x.is_space] for part in NLP(text).sents)
    return [[(x.idx, x.idx + len(x)) for x in part] for part in sentences if part]


def ours(text):
    return [[token[1:] for token in part] for part in tokens.read(text)]


def regex(text):
    title = r"(?<!\b[A-Z]\.)(?<!\b(?:Mr|Ms|Dr|St)\.)(?<!\bMrs\.)"
    end = rf"[.!?]{title}[\"')\]]*\s+(?=[\"'(\[]?[A-Z])"
    ends = [match.end() for match in re.finditer(end, text)]
    spans = (match.span() for match in re.finditer(r"\w+(?:[-.,]\w+)*|\.+|\S", text))
    return [list(x) for _, x in groupby(spans, lambda s: bisect_right(ends, s[0]))]


def treebank(split):
    """Returns the raw text, with the offsets of each sentence's tokens."""
    with gzip.open(corpora.find("ud_ewt", split), "rt", encoding="utf-8") as file:
        content = file.read()
    sentences = []
    for block in content.strip().split("\n\n"):
        rows = re.findall(r"^(\d+)(?:-(\d+))?\t([^\t]+)", block, re.MULTILINE)
        words = [word for _, last, word in rows if not last]
        for first, last, word in reversed([row for row in rows if row[1]]):
            inside = slice(int(first) - 1, int(last))
            if "".join(words[inside]) != word:
                words[inside] = [word]
        sentences.append(words)
    text = " ".join(re.findall("^# text = (.*)", content, re.MULTILINE))
    spans = (token[1:] for token in tokens.located(text, chain(*sentences)))
    return text, [list(islice(spans, len(words))) for words in sentences], []


def newswire(split, by_document):
    """Yields texts, with the offsets of each sentence's tokens and of entities."""
    examples = enumerate(corpora.load("conll2003", split).to_scheme("BIO"))
    key = (lambda x: x[1].document) if by_document else (lambda x: x[0])
    for _, group in groupby(examples, key):
        text, gold, entities = "", [], []
        for _, example in group:
            start = len(text)
            text += " ".join(example.tokens) + " "
            spans = [(x, y) for _, x, y in tokens.located(text[start:], example.tokens)]
            gold.append([(start + x, start + y) for x, y in spans])
            for first, last, _ in schemes.to_spans(example.labels):
                entities.append((gold[-1][first][0], gold[-1][last - 1][1]))
        yield text, gold, entities


def figures(texts, split):
    """Returns F1 of sentence ends and of tokens in %, and the cut entities."""
    right, total, cut = [0, 0], [0, 0], 0
    for text, gold, entities in texts:
        made = split(text)
        for at, unit in enumerate((lambda part: [part[-1][1]], list)):
            sets = [set(chain(*map(unit, spans))) for spans in (gold, made)]
            right[at] += len(sets[0] & sets[1])
            total[at] += len(sets[0]) + len(sets[1])
        ends = [part[-1][1] for part in made]
        cut += sum(
            bisect_right(ends, a) < bisect_right(ends, b - 1) for a, b in entities
        )
    return *(f"{200 * a / b:.2f}" for a, b in zip(right, total, strict=True)), cut


if __name__ == "__main__":
    row = "{:23} {:7} {:>10} {:>7} {:>5}"
    print(row.format("", "", "sentences", "tokens", "cut"))
    texts: dict[str, list] = {f"UD EWT {x}": [treebank(x)] for x in ("dev", "test")}
    for name in corpora.SPLITS:
        for kind in ("sentences", "documents"):
            texts[f"CoNLL {name}, {kind}"] = list(newswire(name, kind == "documents"))
    for name, pieces in texts.items():
        for split in (ours, spacys, regex):
            print(row.format(name, split.__name__, *figures(pieces, split)))
