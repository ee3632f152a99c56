"""Word pieces: against another tokenizer, and windows against brute force."""

import json
import warnings

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from jaxner.data import wordpiece
from jaxner.data.wordpiece import WordPiece

pytest.importorskip("tokenizers")

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
LETTERS = "abcdeéAB北京.,'"
VOCAB = (*SPECIAL, *LETTERS, *(f"##{c}" for c in LETTERS), "ab", "##ab", "##abc")


def make(max_length=512, **options):
    return WordPiece(VOCAB, max_length, **options)


def pieces_of(tokens, **options):
    split = make(**options).split(tokens)
    return [" ".join(VOCAB[i] for i in ids) for ids in split]


def test_the_longest_piece_comes_first():
    tokens = ["a", "ababc", "Ab", "cx", "b.a", "北京"]
    assert pieces_of(tokens) == ["a", "ab ##abc", "A ##b", "[UNK]", "b . a", "北 京"]
    assert pieces_of(["ABé"], lowercase=True) == ["ab ##é"]
    assert pieces_of(["ABÉ"], lowercase=True, strip_accents=True) == ["ab ##e"]
    assert pieces_of(["北京"], chinese_chars=False) == ["北 ##京"]
    assert pieces_of(["aaa", "aaaa"], max_chars=3) == ["a ##a ##a", "[UNK]"]


def test_a_token_of_nothing_is_unknown_and_special_pieces_are_no_text():
    assert pieces_of(["a", "\u200b", "", "a"]) == ["a", "[UNK]", "[UNK]", "a"]
    assert "[SEP]" not in " ".join(pieces_of(["[SEP]", "[CLS]"]))
    assert make().split([]) == []


@pytest.mark.parametrize("lower", [True, False])
def test_pieces_are_those_of_transformers(lower, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # theirs
        transformers = pytest.importorskip("transformers")
        (tmp_path / "vocab.txt").write_text("\n".join(VOCAB) + "\n", "utf-8")
        settings = json.dumps({"do_lower_case": lower})
        (tmp_path / "tokenizer_config.json").write_text(settings)
        theirs = transformers.BertTokenizer.from_pretrained(tmp_path)
        theirs.save_pretrained(tmp_path / "again")  # has tokenizer.json
    rng = np.random.default_rng(0)
    letters = np.array([*LETTERS, "É", "x", "—", "\t", "Á", "\u0301"])
    for folder in (tmp_path, tmp_path / "again"):
        ours = wordpiece.read(folder)
        assert (ours.vocab, ours.lowercase) == (VOCAB, lower)
        for _ in range(100):
            sizes = rng.integers(1, 7, rng.integers(1, 9))
            # A letter first: a token of marks alone has no piece, there.
            words = ["a" + "".join(rng.choice(letters, n)) for n in sizes]
            found = ours.encode(words)
            right = theirs(words, is_split_into_words=True)
            assert found.windows.tolist() == [right["input_ids"]]
            assert found.mask.all()
            firsts = [right.word_ids().index(i) for i in range(len(words))]
            assert found.positions[:, 0].tolist() == firsts


# --- Windows -------------------------------------------------------------------------


@st.composite
def sequences(draw):
    capacity = draw(st.integers(1, 9))
    lengths = draw(st.lists(st.integers(1, capacity), max_size=25))
    return lengths, capacity


@given(sequences())
@settings(max_examples=200, deadline=None)
def test_windows_hold_every_unit_and_no_more_than_fits(case):
    lengths, capacity = case
    chosen = wordpiece.windows(lengths, capacity)
    assert {i for a, b in chosen for i in range(a, b)} == set(range(len(lengths)))
    for start, end in chosen:
        assert sum(lengths[start:end]) <= capacity
        # As full as can be, to the right; the last one to the left.
        if end < len(lengths):
            assert sum(lengths[start : end + 1]) > capacity
        elif start:
            assert sum(lengths[start - 1 :]) > capacity
    starts = [start for start, _ in chosen]
    assert starts == sorted(set(starts))
    assert (len(chosen) == 1) == (sum(lengths) <= capacity)


def test_windows_overlap_by_half():
    chosen = wordpiece.windows([1] * 1000, 100)
    assert chosen[:3] == [(0, 100), (50, 150), (100, 200)]
    assert chosen[-1] == (900, 1000)
    assert len(chosen) == 19


@given(st.lists(st.integers(0, 12), max_size=14), st.integers(3, 14))
@example([14], 3)
@settings(max_examples=200, deadline=None)
def test_each_piece_is_read_once_where_it_sees_most(sizes, max_length):
    ours = make(max_length)
    # A token of n pieces, each another; one of none is unknown.
    letters = [LETTERS[i % 9] for i in range(12)]
    tokens = [".".join(letters[: (n + 1) // 2]) + "." * (n % 2 == 0) for n in sizes]
    tokens = [token if n else "\u200b" for token, n in zip(tokens, sizes, strict=True)]
    split = ours.split(tokens)
    assert [len(ids) for ids in split] == [max(n, 1) for n in sizes]
    windows, mask, positions = ours.encode(tokens)
    assert mask.sum(axis=1).max() == mask.shape[1] <= max_length
    flat = windows.ravel()
    for ids, row in zip(split, positions, strict=True):
        assert flat[row[row >= 0]].tolist() == ids  # all of them, in order
    for ids, present in zip(windows, mask, strict=True):
        size = present.sum()
        assert present[:size].all()
        assert not ids[size:].any()
        assert (VOCAB[ids[0]], VOCAB[ids[size - 1]]) == ("[CLS]", "[SEP]")
    check_capacity(split, max_length - 2, positions, mask.shape[1])


def check_capacity(split, capacity, positions, width):
    """Compares what each token sees with the best that any window would show."""
    if any(len(ids) > capacity for ids in split):
        return  # its pieces are read one by one
    lengths = [len(ids) for ids in split]
    chosen = wordpiece.windows(lengths, capacity)

    def room(token, start, end):
        left = sum(lengths[start:token]) if start else np.inf
        right = sum(lengths[token + 1 : end]) if end < len(lengths) else np.inf
        return min(left, right)

    for token, row in enumerate(positions):
        rooms = [
            room(token, start, end) if start <= token < end else -1
            for start, end in chosen
        ]
        assert rooms[row[0] // width] == max(rooms)
        own = row[row >= 0]
        assert set(own // width) == {own[0] // width}


def test_a_token_longer_than_a_window_is_read_piece_by_piece():
    found = make(max_length=6).encode(["a", "b.b.b.b", "c"])
    flat = [VOCAB[i] for i in found.windows.ravel()]
    rows = [[flat[i] for i in row if i >= 0] for row in found.positions]
    assert rows == [["a"], [*"b.b.b.b"], ["c"]]
    assert len(found.windows) > 1


def test_no_token_is_an_empty_window():
    found = make().encode([])
    assert [VOCAB[i] for i in found.windows[0]] == ["[CLS]", "[SEP]"]
    assert found.positions.shape == (0, 1)


# --- Folders -------------------------------------------------------------------------


def test_case_is_that_of_the_vocabulary_where_nothing_else_tells(tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join(VOCAB) + "\n", "utf-8")
    assert not wordpiece.read(tmp_path).lowercase
    lower = [piece for piece in VOCAB if piece in SPECIAL or piece == piece.lower()]
    (tmp_path / "vocab.txt").write_text("\n".join(lower), "utf-8")
    found = wordpiece.read(tmp_path, 64)
    assert (found.lowercase, found.strip_accents, found.max_length) == (True, True, 64)
    assert WordPiece.of(json.loads(json.dumps(found.to_dict()))) == found


def test_folders_that_cannot_be_read(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"expected tokenizer\.json or vocab"):
        wordpiece.read(tmp_path)
    (tmp_path / "vocab.txt").write_text("[UNK]\na\n")
    with pytest.raises(ValueError, match=r"missing: \[CLS\], \[SEP\]"):
        wordpiece.read(tmp_path)
    model = {"type": "BPE", "vocab": {}}
    (tmp_path / "tokenizer.json").write_text(json.dumps({"model": model}))
    with pytest.raises(ValueError, match="unknown type 'BPE' of model; known: WordP"):
        wordpiece.read(tmp_path)
    model = {"type": "WordPiece", "vocab": {"[UNK]": 0, "a": 2}}
    (tmp_path / "tokenizer.json").write_text(json.dumps({"model": model}))
    with pytest.raises(ValueError, match="ids of pieces must be 0, 1, 2"):
        wordpiece.read(tmp_path)
    with pytest.raises(ValueError, match="windows of at least 3 pieces, got 2"):
        make(max_length=2)


def test_malformed_files_are_named(tmp_path):
    def refused(name, content, message):
        (tmp_path / name).write_bytes(content.encode("latin-1"))
        with pytest.raises(ValueError, match=message) as error:
            wordpiece.read(tmp_path)
        assert str(tmp_path) in str(error.value)

    refused("vocab.txt", "[UNK]\n\xe9\n", r"vocab\.txt is not UTF-8")
    refused("vocab.txt", "[UNK]\n", "missing: ")
    (tmp_path / "vocab.txt").write_text("\n".join(VOCAB), "utf-8")
    name = "tokenizer_config.json"
    refused(name, "{", r"tokenizer_config\.json is not JSON")
    refused(name, '{"do_lower_case": "no"}', "expected true, false or null as do_lower")
    name = "tokenizer.json"
    refused(name, "", r"tokenizer\.json is not JSON")
    refused(name, "[]", r"tokenizer\.json: expected a JSON object, got '\[\]'")
    refused(name, "{}", r"tokenizer\.json, model: expected a JSON object, got 'None'")
    refused(name, '{"model": {}}', "json, model, vocab: expected a JSON object")
    refused(name, '{"model": {"vocab": {"a": "0"}}}', "ids of pieces must be 0, 1")
    model = '{"model": {"vocab": {"a": 0}, "max_input_chars_per_word": "9"}'
    refused(name, f"{model}}}", "whole number above 0 as max_input_chars_per_word")
    model = '{"model": {"vocab": {"a": 0}}, "normalizer": '
    refused(name, f"{model}[1]}}", "json, normalizer: expected a JSON object")
    refused(name, f'{model}{{"lowercase": 1}}}}', "true, false or null as lowercase")
