"""Vectors from files: every layout is read, and a file of another text is refused."""

import io
import json
import zipfile

import numpy as np
import pytest

from jaxner.data import contextual

TEXT = [["EU", "rejects", "call"], ["Old"], ["EU", "rejects", "call"]]
SUFFIXES = (".npz", ".hdf5", ".h5", ".safetensors")


def arrays(*leading, dtype=np.float32):
    rng = np.random.default_rng(0)
    return [rng.normal(size=(*leading, len(s), 4)).astype(dtype) for s in TEXT]


def library(suffix):
    names = {".hdf5": "h5py", ".h5": "h5py", ".safetensors": "safetensors"}
    if suffix in names:
        pytest.importorskip(names[suffix])


def elmo(path, vectors, text=TEXT, index=True):
    """Writes a file as AllenNLP's command did."""
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as file:
        for i, array in enumerate(vectors):
            file.create_dataset(str(i), array.shape, dtype="float32", data=array)
        if index:
            numbers = {" ".join(tokens): str(i) for i, tokens in enumerate(text)}
            kind = h5py.special_dtype(vlen=str)
            entry = file.create_dataset("sentence_to_index", (1,), dtype=kind)
            entry[0] = json.dumps(numbers)
    return path


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("leading", [(), (3,)])
def test_what_is_written_is_read(suffix, leading, tmp_path):
    library(suffix)
    path, vectors = tmp_path / f"train{suffix}", arrays(*leading)
    contextual.write(path, vectors, TEXT)
    found = contextual.read(path, TEXT)
    assert (len(found), found.num_layers, found.dim) == (3, *(leading or (1,)), 4)
    for one, array in zip(found, vectors, strict=True):
        right = array.reshape(-1, *array.shape[-2:]).transpose(1, 0, 2)
        np.testing.assert_array_equal(np.asarray(one), right)
    assert [np.asarray(one).shape[0] for one in found[1:]] == [1, 3]
    with pytest.raises(ValueError, match=r"Sentence 2 .*: expected 'New', got 'Old'"):
        contextual.read(path, [TEXT[0], ["New"], TEXT[2]])


@pytest.mark.parametrize("leading", [(), (3,)])
def test_the_layout_of_elmo(leading, tmp_path):
    vectors = arrays(*leading)
    found = contextual.read(elmo(tmp_path / "a.hdf5", vectors), TEXT)
    np.testing.assert_array_equal(
        np.asarray(found[0]), vectors[0].reshape(-1, 3, 4).transpose(1, 0, 2)
    )
    bare = elmo(tmp_path / "b.hdf5", vectors, index=False)
    with pytest.raises(
        ValueError, match=r"neither 'tokens' nor 'sentence_to_index'.*contextual\.write"
    ):
        contextual.read(bare, TEXT)


def test_a_repeated_sentence_has_its_last_number_in_the_index(tmp_path):
    one, two, three = ["a", "b"], ["c", "d"], ["e", "f"]
    for text, others in (
        # Numbers: one 2, two 1.
        ([one, two, one], ([one, one, two], [two, one, one], [three, two, one])),
        # One 1, two 3: at 2 there may be two, which comes later, but not one.
        ([one, one, two, two], ([one, one, one, two], [one, one, three, two])),
    ):
        path = elmo(tmp_path / "a.hdf5", [np.zeros((2, 4))] * len(text), text)
        assert len(contextual.read(path, text)) == len(text)
        for other in others:
            with pytest.raises(ValueError, match=r"a\.hdf5 belongs to another text"):
                contextual.read(path, other)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (TEXT[:2], "vectors of 3 sentences, but the text has 2"),
        ([*TEXT, ["x"]], "vectors of 3 sentences, but the text has 4"),
        ([TEXT[0], ["Old", "x"], TEXT[2]], r"sentence 2 \(key '1'\): expected vectors"),
        ([TEXT[1], TEXT[0], TEXT[2]], r"sentence 1 .* of 1 token, got 3"),
        (
            [["EU", "rejects", "it"], *TEXT[1:]],
            r"Sentence 1 .*expected 'EU rejects it'",
        ),
        ([*TEXT[:2], ["EU", "rejects", "it"]], r"Sentence 3 .*got 'EU rejects call'"),
        ([TEXT[0], ["New"], TEXT[2]], r"Sentence 2 .*expected 'New', got 'Old'"),
    ],
)
def test_files_of_another_text_are_refused(text, message, tmp_path):
    path = elmo(tmp_path / "a.hdf5", arrays())
    with pytest.raises(ValueError, match=message) as error:
        contextual.read(path, text)
    assert "one sentence per line" in str(error.value)


def test_malformed_files(tmp_path):
    path = tmp_path / "a.npz"

    def refused(message, error=ValueError):
        return pytest.raises(error, match=message)

    with refused("unknown ending '.txt'; known: .hdf5, .h5, .npz, .safetensors"):
        contextual.read(tmp_path / "a.txt", TEXT)
    with refused("No file of vectors", FileNotFoundError):
        contextual.read(path, TEXT)
    path.write_bytes(b"PK")
    with refused(r"a\.npz cannot be read"):
        contextual.read(path, TEXT)
    vectors = arrays()
    np.savez(path, **{str(i + 1): array for i, array in enumerate(vectors)})
    with refused("expected only the keys '0' to '2', got also 3"):
        contextual.read(path, TEXT)
    np.savez(path, **{"0": vectors[0], "1": vectors[1][:, :2], "2": vectors[2]})
    with refused(r"equal layers .* got \(1, 2\) and \(1, 4\)"):
        contextual.read(path, TEXT)
    np.savez(path, **{str(i): array[None, None] for i, array in enumerate(vectors)})
    with refused(r"expected the shape \(tokens, dim.*got \(1, 1, 3, 4\)"):
        contextual.read(path, TEXT)
    tokens = {"tokens": [" ".join(sentence) for sentence in TEXT]}
    entries = {str(i): array.astype(int) for i, array in enumerate(vectors)}
    np.savez(path, **entries, **tokens)
    with refused("sentence 1: expected floats"):
        np.asarray(contextual.read(path, TEXT)[0])
    vectors[1][0, 0] = np.nan
    np.savez(path, **{str(i): array for i, array in enumerate(vectors)}, **tokens)
    found = contextual.read(path, TEXT)
    np.asarray(found[0])  # others can be read
    with refused("sentence 2: a vector is not finite"):
        np.asarray(found[1])


def test_vectors_of_a_sentence_are_checked():
    tokens = ["a", "b"]
    wanted = contextual.wanted(np.zeros((3, 2, 5)), tokens, (3, 5))
    assert wanted.shape == (2, 3, 5)
    assert contextual.wanted(None, tokens, None) is None
    for vectors, sizes, message in (
        (
            None,
            (3, 5),
            "needs vectors of 3 layers and 5 dim.* got none. Pass `vectors`",
        ),
        (np.zeros((2, 5)), None, "takes no vectors"),
        (np.zeros((2, 5)), (3, 5), "expected 3 layers of 5 dimensions, got 1 of 5"),
        (np.zeros((3, 5)), (1, 5), "expected vectors of 2 tokens, got 3"),
    ):
        with pytest.raises(ValueError, match=message):
            contextual.wanted(vectors, tokens, sizes)


def test_vectors_of_a_file_must_have_the_sizes_that_the_tagger_takes(tmp_path):
    path = tmp_path / "dev.npz"
    contextual.write(path, arrays(3), TEXT)
    assert contextual.sizes_of(path) == (3, 4)
    one = contextual.read(path, TEXT)[0]
    assert contextual.wanted(one, TEXT[0], (3, 4)) is one
    for sizes, message in (
        ((2, 4), r"dev\.npz: expected 2 layers of 4 dimensions, got 3 of 4"),
        ((3, 5), r"dev\.npz: expected 3 layers of 5 dimensions, got 3 of 4"),
    ):
        with pytest.raises(ValueError, match=message):
            contextual.wanted(one, TEXT[0], sizes)


def test_what_single_precision_cannot_hold_is_not_finite(tmp_path):
    vectors = [np.full((len(s), 4), 1e39) for s in TEXT]
    np.savez(
        tmp_path / "a.npz",
        tokens=[" ".join(s) for s in TEXT],
        **{str(i): array for i, array in enumerate(vectors)},
    )
    found = contextual.read(tmp_path / "a.npz", TEXT)
    with pytest.raises(ValueError, match="sentence 1: a vector is not finite in sing"):
        np.asarray(found[0])
    with pytest.raises(ValueError, match="here: a vector is not finite"):
        contextual.prepare(vectors[1], TEXT[1], "here")
    assert contextual.prepare(vectors[1] / 10, TEXT[1], "here").dtype == np.float32


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        ([["EU"], ["rejects"], ["call"]], "'tokens' cannot be read: expected a list w"),
        (np.array([["EU"], None], object), "'tokens' cannot be read: Object arrays"),
        ([1, 2, 3], "'tokens' cannot be read: expected a list w"),
        (
            ["EU rejects call"],
            "'tokens' lists 1 sentence, but the file has vectors of 3",
        ),
    ],
)
def test_malformed_tokens(tokens, message, tmp_path):
    entries = {str(i): array for i, array in enumerate(arrays())}
    np.savez(tmp_path / "a.npz", tokens=tokens, **entries)
    with pytest.raises(ValueError, match=rf"a\.npz: {message}"):
        contextual.read(tmp_path / "a.npz", TEXT)


def declaring(shape, content=b"", dtype="<f8"):
    """The bytes of an `.npy` file whose header declares a shape."""
    file = io.BytesIO()
    header = {"descr": dtype, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)
    return file.getvalue() + content


def zipped(path, entries, compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in entries.items():
            archive.writestr(f"{name}.npy", content)
    return path


@pytest.mark.parametrize(
    ("shape", "dtype", "message"),
    [
        ((1, 10**13), "<f8", "declares 80,000,000,000,000 bytes of float64"),
        ((1, 2), "<f8", "declares 16 bytes of float64 .* but 0 follow"),
        ((-1, 2), "<f8", "declares -16 bytes"),
    ],
)
def test_an_npz_whose_header_lies_is_refused_before_memory_is_taken(
    shape, dtype, message, tmp_path
):
    path = zipped(tmp_path / "a.npz", {"0": declaring(shape, dtype=dtype)})
    with pytest.raises(ValueError, match=rf"a\.npz: '0' cannot be read: .*{message}"):
        contextual.read(path, [["EU"]])
    tokens = declaring((10**13,), dtype="<U9")
    entries = {"0": declaring((1, 2), bytes(16)), "tokens": tokens}
    with pytest.raises(ValueError, match="'tokens' cannot be read: its header decl"):
        contextual.read(zipped(path, entries), [["EU"]])


def test_an_npz_that_unpacks_to_too_much_is_refused(tmp_path, monkeypatch):
    bomb = {"0": declaring((1, 1 << 17), bytes(1 << 20))}
    packed = zipped(tmp_path / "a.npz", bomb, zipfile.ZIP_DEFLATED)
    monkeypatch.setenv("JAXNER_MAX_UNPACKED", "100000")
    with pytest.raises(ValueError, match=r"unpack to 1,048,704.* JAXNER_MAX_UNPACKED"):
        contextual.sizes_of(packed)
    stored = zipped(tmp_path / "b.npz", bomb)  # as large as it says
    assert contextual.sizes_of(stored) == (1, 1 << 17)
    monkeypatch.setenv("JAXNER_MAX_UNPACKED", "2000000")
    assert contextual.sizes_of(packed) == (1, 1 << 17)


def test_an_hdf5_that_unpacks_to_too_much_is_refused(tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.hdf5", "w") as file:
        file.create_dataset("0", (1, 1 << 40), dtype="f8", chunks=(1, 1024))
        file.create_dataset("tokens", data=["EU"], dtype=h5py.string_dtype())
    found = contextual.read(tmp_path / "a.hdf5", [["EU"]])
    with pytest.raises(ValueError, match="0 bytes would unpack to 8,796,093,022,208"):
        np.asarray(found[0])


def test_a_single_array_is_no_archive(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((2, 2)))
    (tmp_path / "a.npy").rename(tmp_path / "a.npz")
    with pytest.raises(ValueError, match=r"a\.npz cannot be read: .*not a zip file"):
        contextual.read(tmp_path / "a.npz", TEXT)


@pytest.mark.parametrize(
    ("index", "message"),
    [
        ([1, 2, 3], "'sentence_to_index' cannot be read"),
        ("{", "'sentence_to_index' cannot be read"),
        ("[]", "'sentence_to_index' cannot be read: expected a JSON object"),
        ('{"a": "b"}', "'sentence_to_index' cannot be read: invalid literal"),
        (None, "'0' cannot be read: .*shape"),  # a group
    ],
)
def test_malformed_hdf5(index, message, tmp_path):
    h5py = pytest.importorskip("h5py")
    path = elmo(tmp_path / "a.hdf5", arrays(), index=False)
    with h5py.File(path, "a") as file:
        if index is None:
            del file["0"]
            file.create_group("0")
        else:
            file["sentence_to_index"] = index
    with pytest.raises(ValueError, match=rf"a\.hdf5: {message}"):
        contextual.read(path, TEXT)


def test_write_refuses_what_read_would(tmp_path):
    with pytest.raises(ValueError, match="sentence 2: expected vectors of 1 token, g"):
        contextual.write(tmp_path / "a.npz", [arrays()[0]] * 3, TEXT)
