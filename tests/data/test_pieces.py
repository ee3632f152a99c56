"""Word pieces by hand and as of `tokenizers`; windows against brute force."""

import dataclasses
import functools
import json

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from jaxner.data import pieces
from jaxner.data.vocabulary import Vocabulary, build
from jaxner.errors import InputError
from tests.growth import LINEAR, growth

tokenizers = pytest.importorskip("tokenizers")

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
LETTERS = "abcdeéAB北京.,'"
VOCAB = (*SPECIAL, *LETTERS, *(f"##{c}" for c in LETTERS), "ab", "##ab", "##abc")


make = functools.partial(pieces.word_pieces, VOCAB)


def pieces_of(tokens, **options):
    return [" ".join(VOCAB[i] for i in ids) for ids in make(**options).split(tokens)]


def test_the_longest_piece_comes_first():
    tokens = ["a", "ababc", "Ab", "cx", "b.a", "北京"]
    assert pieces_of(tokens) == ["a", "ab ##abc", "A ##b", "[UNK]", "b . a", "北 京"]
    assert pieces_of(["ABÉ"], lowercase=True) == ["ab ##e"]
    assert pieces_of(["a" * 101]) == ["[UNK]"]
    holes = '{"model": {"type": "WordLevel", "unk_token": "U", "vocab": {"U": 9}}}'
    assert pieces.PieceTokenizer(holes).size == 10
    assert pieces_of(["a", "\u200b", "", "a"]) == ["a", "[UNK]", "[UNK]", "a"]
    assert pieces_of(["\ud800", "a\udfff"]) == ["[UNK]", "a"]
    assert "[SEP]" not in " ".join(pieces_of(["[SEP]", "[CLS]"]))
    vocabulary, _ = build([["ab", "-LRB-"]], ["LOC"], unescape=True)
    vocabulary = dataclasses.replace(vocabulary, pieces=make())
    assert Vocabulary.from_json(vocabulary.to_json()) == vocabulary
    row = vocabulary.encode(["ab", "/."]).pieces
    assert [VOCAB[i] for i in row.windows[0]] == ["[CLS]", "ab", ".", "[SEP]"]


TEXT = ["Rome fell", "the Romans' home", "no naïve café 北京", "10,000 foes fell home"]


def trained(space, folder):
    """Writes a tokenizer as of RoBERTa and ModernBERT, or of XLM-R and DeBERTa-v3."""
    names = {"special_tokens": ["<s>", "<pad>", "</s>", "<unk>"]}
    if space == "Ġ":
        tokenizer = tokenizers.ByteLevelBPETokenizer()
        tokenizer.train_from_iterator(TEXT, vocab_size=320, **names)
    else:
        tokenizer = tokenizers.SentencePieceUnigramTokenizer()
        tokenizer.train_from_iterator(TEXT, vocab_size=60, unk_token="<unk>", **names)
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    tokenizer.enable_truncation(8)  # never obeyed
    tokenizer.enable_padding()
    tokenizer.save(str(folder / "tokenizer.json"))
    return tokenizer


@pytest.mark.parametrize("space", ["Ġ", "▁"])
def test_tokens_have_the_pieces_of_words_in_a_text(space, tmp_path):
    reference = trained(space, tmp_path)
    content = json.loads((tmp_path / "tokenizer.json").read_text("utf-8"))
    for _ in range(2):
        parts = [content["pre_tokenizer"]]
        content["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": parts}
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    tokenizer = pieces.read(tmp_path, 512)
    vocabulary, _ = build([["Rome"]], ["LOC"])
    vocabulary = dataclasses.replace(vocabulary, pieces=tokenizer)
    tokenizer = Vocabulary.from_json(vocabulary.to_json()).pieces
    reference.no_truncation()
    words = ["the", "Romans", "home", "10,000", "fell"]
    whole = reference.encode(" " + " ".join(words), add_special_tokens=False)
    assert [i for ids in tokenizer.split(words) for i in ids] == whole.ids
    assert whole.tokens[0].startswith(space)
    odd = ["", "</s>", "naïve", "北京"]
    split = tokenizer.split(odd)
    assert split[0] == [3]
    assert 2 not in split[1]  # spelled out, no end of a sentence
    assert all(split)
    (row,) = tokenizer.encode(odd * 20).windows
    assert (row[0], row[-1], len(row)) == (0, 2, 2 + 20 * sum(map(len, split)))
    short = dataclasses.replace(tokenizer, max_length=40)
    assert short.encode(odd * 20).windows.shape[1] <= 40
    assert tokenizer.split(["a" * 9000]) == tokenizer.split(["a" * 512])


@given(st.integers(1, 9), st.lists(st.integers(1, 9), max_size=25))
@settings(max_examples=100)
def test_windows_hold_every_unit_and_no_more_than_fits(capacity, lengths):
    lengths = [min(length, capacity) for length in lengths]
    ranges = pieces.windows(lengths, capacity)
    assert {i for a, b in ranges for i in range(a, b)} == set(range(len(lengths)))
    for start, end in ranges:
        assert sum(lengths[start:end]) <= capacity
        # As full as can be, to the right; the last one to the left.
        if end < len(lengths):
            assert sum(lengths[start : end + 1]) > capacity
        elif start:
            assert sum(lengths[start - 1 :]) > capacity
    starts = [start for start, _ in ranges]
    assert starts == sorted(set(starts))
    assert (len(ranges) == 1) == (sum(lengths) <= capacity)


@given(st.lists(st.integers(0, 12), max_size=14), st.integers(3, 14))
@example([14], 3)
@settings(max_examples=100)
def test_each_piece_is_read_once_where_it_sees_most(sizes, max_length):
    tokenizer = dataclasses.replace(make(), max_length=max_length)
    # A token of n pieces, each another; one of none is unknown.
    letters = [LETTERS[i % 9] for i in range(12)]
    tokens = [".".join(letters[: (n + 1) // 2]) + "." * (n % 2 == 0) for n in sizes]
    tokens = [token if n else "\u200b" for token, n in zip(tokens, sizes, strict=True)]
    split = tokenizer.split(tokens)
    assert [len(ids) for ids in split] == [max(n, 1) for n in sizes]
    windows, mask, positions = tokenizer.encode(tokens)
    assert mask.sum(axis=1).max() == mask.shape[1] <= max_length
    flat = windows.ravel()
    for ids, row in zip(split, positions, strict=True):
        assert flat[row[row >= 0]].tolist() == ids  # all of them, in order
    for ids, present in zip(windows, mask, strict=True):
        size = present.sum()
        assert present[:size].all()
        assert not ids[size:].any()
        assert (VOCAB[ids[0]], VOCAB[ids[size - 1]]) == ("[CLS]", "[SEP]")
    lengths, capacity = [len(ids) for ids in split], max_length - 2
    if max(lengths, default=0) > capacity:
        return  # that token's pieces are read one by one
    ranges = pieces.windows(lengths, capacity)

    def room(token, start, end):
        left = sum(lengths[start:token]) if start else np.inf
        right = sum(lengths[token + 1 : end]) if end < len(lengths) else np.inf
        return min(left, right) if start <= token < end else -1

    for token, row in enumerate(positions):
        rooms = [room(token, start, end) for start, end in ranges]
        homes = set(row[row >= 0] // mask.shape[1])
        assert [rooms[home] for home in homes] == [max(rooms)]


def test_time_grows_with_the_number_of_windows():
    tokenizer = dataclasses.replace(make(), max_length=16)
    assert growth(tokenizer.encode, lambda n: ["a"] * n, 800) < LINEAR


def test_case_is_that_of_the_vocabulary_where_nothing_else_tells(tmp_path):
    for vocab, count in ((VOCAB, 1), ([p for p in VOCAB if p == p.lower()], 0)):
        lines = [*SPECIAL, *(piece for piece in vocab if piece not in SPECIAL)]
        (tmp_path / "vocab.txt").write_text("\n".join(lines) + "\n", "utf-8")
        (ids,) = pieces.read(tmp_path).split(["A"])
        assert [lines[i] for i in ids] == ["A" if count else "a"]
    tokenizer = pieces.read(tmp_path)
    (tmp_path / "tokenizer.json").write_text(tokenizer.json, "utf-8")
    assert pieces.read(tmp_path) == tokenizer


@pytest.mark.parametrize("is_obeyed", [True, False])
def test_the_config_has_the_last_word_on_case_as_in_transformers(is_obeyed, tmp_path):
    (tmp_path / "tokenizer.json").write_text(make().json, "utf-8")
    options = {"do_lower_case": True, "strip_accents": None}
    options |= {"tokenize_chinese_chars": False}
    options |= {} if is_obeyed else {"tokenizer_class": "PreTrainedTokenizerFast"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(options))
    split = pieces.read(tmp_path).split(["A", "é", "北京"])
    tokens = " ".join(VOCAB[i] for ids in split for i in ids)
    assert tokens == ("a e 北 ##京" if is_obeyed else "A é 北 京")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("vocab.txt", b"[UNK]\n\xe9\n"),
        ("vocab.txt", b"[UNK]\na\n"),
        ("tokenizer_config.json", b'{"do_lower_case": "no"}'),
        ("tokenizer.json", b"{}"),
        ("tokenizer.json", b'{"pre_tokenizer": {"pretokenizers": 5}}'),
        ("tokenizer.json", b'{"model": {"type": "BPE", "vocab": {}}}'),
        ("tokenizer.json", b'{"model": {"type": "BPE", "vocab": {}, "merges": []}}'),
        ("tokenizer.json", b'{"model": {"type": "Unigram", "vocab": [["<unk>", 0]]}}'),
    ],
)
def test_malformed_files_are_named(name, content, tmp_path):
    (tmp_path / "spm.model").write_bytes(b"")  # of a slow tokenizer
    with pytest.raises(FileNotFoundError, match=r"save_pretrained\("):
        pieces.read(tmp_path)
    (tmp_path / "vocab.txt").write_text("\n".join(VOCAB), "utf-8")
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=f"^{tmp_path}"):
        pieces.read(tmp_path)
