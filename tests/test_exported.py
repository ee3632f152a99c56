"""Taggers in one file: equal answers, with JAX and NumPy alone; what is refused."""

import json
import re
import struct
import sys
import zipfile

import jax
import numpy as np
import pytest

import jaxner
from jaxner import archive, cli, exported, exporting
from jaxner.archive import CALIBRATION, CARD, MANIFEST, MODEL, VOCABULARY, WEIGHTS
from jaxner.commands import export
from jaxner.errors import DamagedFileError, InputError
from jaxner.models.model import named
from tests import fence
from tests.marks import slow
from tests.test_decoding import tiny
from tests.tiny import output_of

TOKENS = ["Rome", "beat", "Milan", "in", "1996", "."]
# What no program needs; `scipy` and `ml_dtypes` come with JAX.
ABSENT = (
    "flax optax orbax ml_collections jaxtyping rich absl filelock seqeval safetensors"
)


@pytest.fixture(scope="module")
def file(params, tmp_path_factory):
    path = tmp_path_factory.mktemp("exported") / "tagger.zip"
    jaxner.export(params, path)
    return path


@pytest.fixture(autouse=True)
def _one_platform(monkeypatch):
    """For files other than `file`, which has programs for all."""
    monkeypatch.setattr(exporting, "PLATFORMS", ("cpu",))


def changed(file, target, name, change):
    """Writes a file of which one content is another, or which its manifest denies."""
    facts, files = archive.read(file)
    if name == MANIFEST:
        change(facts)
        files[name] = json.dumps(facts).encode()
        with zipfile.ZipFile(target, "w") as output:
            for entry in files.items():
                output.writestr(*entry)
    else:
        files[name] = change(files[name])
        archive.write(target, facts, {k: v for k, v in files.items() if v is not None})
    return target


def test_it_answers_as_the_tagger(file, params):
    copy = jaxner.load_exported(file)
    assert isinstance(copy, exported.Exported)
    assert copy.labels == params.labels
    sides, texts = (copy, params), [TOKENS, []]  # one shape
    assert copy.tag(texts) == params.tag(texts)
    for left, right in zip(*(x.entities(texts) for x in sides), strict=True):
        assert [entity[:6] for entity in left] == [entity[:6] for entity in right]
        chances = [[entity.probability for entity in side] for side in (left, right)]
        np.testing.assert_allclose(*chances, atol=1e-5)
    for left, right in zip(*(x.marginals(texts) for x in sides), strict=True):
        np.testing.assert_allclose(left, right, atol=1e-5)
    passes = (x.uncertainty(texts, jax.random.key(3), 3) for x in sides)
    for left, right in zip(*passes, strict=True):
        assert left.labels == right.labels
        np.testing.assert_allclose(left.entropy, right.entropy, atol=1e-4)
    copy.uncertainty(texts, jax.random.key(3, impl="rbg"), 3)  # by one made of it
    long = [["a" * 200, "b"]] * 40, [["a" * 15, "b"]] * 40
    for tokens in (TOKENS, ["Rome"] * 70, *long):
        assert copy.tag(tokens) == params.tag(tokens)
    text = "Rome beat Milan. Rain fell."
    answer = copy.entities(text, min_probability=0.1)
    expected = params.entities(text, min_probability=0.1)
    with pytest.raises(TypeError, match=r"entities\(\) got .*'n_best'"):
        copy.entities(text, n_best=3)
    assert [e[:6] for e in answer] == [e[:6] for e in expected]


def test_numbers_of_numpy_are_numbers(params, no_checks):
    (result,) = params.uncertainty([TOKENS], jax.random.key(3), np.int64(3))
    assert len(result.labels) == len(TOKENS)


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in fence.NAMES if n != "grn"])
def test_every_system_answers_as_its_run(name, tmp_path):
    tagger = jaxner.load(fence.unpack(name, tmp_path / "run"))
    texts = fence.texts()[:1]  # one shape
    jaxner.export(tagger, tmp_path / "tagger.zip")
    copy = jaxner.load_exported(tmp_path / "tagger.zip")  # or warns
    answers = fence.answers(tagger, texts, fence.vectors(tagger, texts), copy)
    fence.same(answers, {key: fence.ANSWERS[name][key][:1] for key in answers})
    if name == "seq2seq":
        with pytest.raises(InputError, match="no marginals"):
            copy.marginals(texts)


@pytest.mark.slow
def test_a_tagger_of_documents_reads_them_whole(tmp_path):
    # A language model must do with a length that is no number.
    parts = {"encoder": {"name": "bilstm", "hidden_dim": 8}, "language_model": {}}
    tagger = tiny("crf", documents=True, **parts)
    text = [["Rome", "beat", "Milan"], ["x", "y"]]
    jaxner.export(tagger, tmp_path / "tagger.zip")
    copy = jaxner.load_exported(tmp_path / "tagger.zip")
    for documents in ([0, 0], [0, 1]):
        options = {"documents": documents}
        sides = [x.marginals(text, **options) for x in (copy, tagger)]
        for left, right in zip(*sides, strict=True):
            np.testing.assert_allclose(left, right, atol=1e-6)
        assert copy.tag(text, **options) == tagger.tag(text, **options)


def test_it_needs_jax_and_numpy_alone(file, params):
    program = f"""
import sys
class Absent:
    def find_spec(self, name, *_):
        if name.partition(".")[0] in {ABSENT.split()!r}:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Absent())
import jax, jaxner
tagger = jaxner.load_exported({str(file)!r})
print(tagger.tag({TOKENS}))
print(len(tagger.entities("Rome beat Milan.")))
tagger.uncertainty({TOKENS}, jax.random.key(0), 2)
"""
    output = output_of(sys.executable, "-W", "error", "-c", program)
    count = len(params.entities("Rome beat Milan."))
    assert output.splitlines() == [str(params.tag(TOKENS)), str(count)]


def test_old_programs_give_way_until_they_are_refreshed(file, params, tmp_path):
    facts, part, old = {"expires": "2020-01-31"}, MANIFEST, tmp_path / "old.zip"
    changed(file, old, part, lambda manifest: manifest.update(facts))
    assert isinstance(jaxner.load_exported(old), exported.Exported)  # of this JAX
    facts["jax"] = "0.1"
    changed(file, old, part, lambda manifest: manifest.update(facts))

    def outdated(card):
        for name, value in facts.items():
            new = f"{name}: {archive.read(file)[0][name]}".encode()
            assert new in card
            card = card.replace(new, f"{name}: {value}".encode())
        return card

    changed(old, old, CARD, outdated)
    with pytest.warns(UserWarning, match="expired on 2020-01-31 for JAX"):
        tagger = jaxner.load_exported(old)
    assert isinstance(tagger, jaxner.Tagger)
    assert tagger.tag(TOKENS) == params.tag(TOKENS)
    cli.call(export.refresh, [str(old)])
    assert isinstance(jaxner.load_exported(old), exported.Exported)
    for name in (WEIGHTS, VOCABULARY, MODEL):
        assert archive.read(old)[1][name] == archive.read(file)[1][name]
    assert archive.read(old)[1][CARD] == archive.read(file)[1][CARD]


@pytest.mark.filterwarnings("ignore")  # the checks that an export disables
@pytest.mark.parametrize(
    ("program", "reason"),
    [
        (b"no program" * 9, "cannot use"),
        ("call", "code outside"),
        ("sizes", "other weights"),
    ],
)
def test_programs_that_cannot_be_used_give_way(file, tmp_path, program, reason):
    def compute(arrays, temperature, fields):
        if program == "call":
            shape = jax.ShapeDtypeStruct((), np.float32)
            return jax.ffi.ffi_call("x", shape)(temperature)
        return temperature

    if isinstance(program, str):
        options = {"disabled_checks": [jax.export.DisabledSafetyCheck.custom_call("x")]}
        inputs = {"a": np.zeros(1, np.float32)}, np.float32(1), [np.zeros(1, np.int32)]
        program = jax.export.export(jax.jit(compute), **options)(*inputs).serialize()
    name, target = "programs/labels.bin", tmp_path / "x.zip"
    changed(file, target, name, lambda _: bytes(program))
    with pytest.warns(UserWarning, match=reason):
        assert isinstance(jaxner.load_exported(target), jaxner.Tagger)


@pytest.mark.parametrize(("kind", "share"), [("int8", 0.35), *slow(("bfloat16", 0.55))])
def test_weights_are_stored_in_less(kind, share, tiny_run, params, tmp_path, capsys):
    load = pytest.importorskip("safetensors.numpy").load
    path = tmp_path / "small.zip"
    cli.call(export.export, [str(tiny_run), "--output", str(path), "--weights", kind])
    assert re.search(r"f1 on dev .*\(conlleval rule\)", capsys.readouterr().err)
    content = archive.read(path)[1][WEIGHTS]
    whole = {k: np.asarray(v) for k, v in named(params.weights).items()}
    full = archive.pack(whole)
    assert len(content) < share * len(full)
    weights = load(full)
    for name, array in archive.unpack(content, path).items():
        np.testing.assert_array_equal(weights[name], whole[name])
        step = np.abs(whole[name]).max(initial=0) / (250 if kind == "int8" else 256)
        np.testing.assert_allclose(array, whole[name], atol=step + 1e-30)
    assert len(jaxner.load_exported(path).tag(TOKENS)) == len(TOKENS)  # or warns


def test_what_cannot_be_exported_is_refused(params, tmp_path):
    pair = jaxner.tagger.ensemble([params, params])
    with pytest.raises(InputError, match="is several taggers"):
        jaxner.export(pair, tmp_path / "x.zip")
    with pytest.raises(InputError, match="weights"):
        jaxner.export(params, tmp_path / "x.zip", weights="int4")
    with pytest.raises(FileNotFoundError, match="There is no folder to write"):
        jaxner.export(params, tmp_path / "no" / "x.zip")
    assert not [*tmp_path.iterdir()]


def lying(**facts):
    """Returns what changes the header of weights."""

    def change(data):
        (size,) = struct.unpack("<Q", data[:8])
        header = json.loads(data[8 : 8 + size])
        next(iter(header.values())).update(facts)
        text = json.dumps(header).encode()
        return struct.pack("<Q", len(text)) + text + data[8 + size :]

    return change


BAD = [
    ("would unpack to", CARD, lambda _: bytes(1 << 26)),
    ("has no .vocabulary.json", VOCABULARY, lambda _: None),
    ("cannot be used", VOCABULARY, lambda _: b"{}"),
    ("temperature must be above 0", CALIBRATION, lambda _: b'{"temperature": 0.0}'),
    (r"x\.zip", WEIGHTS, lambda _: b""),
    (r"x\.zip", WEIGHTS, lambda _: struct.pack("<Q", 1 << 62)),
    (r"x\.zip", WEIGHTS, lying(shape=[10**12, 10**6])),
    (r"x\.zip", WEIGHTS, lying(data_offsets=[0, 1 << 60])),
    (r"x\.zip", WEIGHTS, lying(dtype="U8")),
    (r"^\S*: has the format 2", MANIFEST, lambda x: x.update(format=2)),
    ("has no .format", MANIFEST, lambda x: x.pop("format")),
    ("has no .expires", MANIFEST, lambda x: x.pop("expires")),
    ("the checksum of README.md", MANIFEST, lambda x: x["files"][CARD].update(bytes=9)),
    ("other files than its manifest lists", MANIFEST, lambda x: x["files"].pop(CARD)),
]


@pytest.mark.parametrize(("message", "name", "change"), BAD)
def test_bad_files_are_refused(file, tmp_path, message, name, change):
    target = changed(file, tmp_path / "x.zip", name, change)
    for program in {True, name == MANIFEST}:  # without programs, nothing expires
        with pytest.raises(DamagedFileError, match=message):
            jaxner.load_exported(target, program=program)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_damage_is_found(file, tmp_path):
    whole, target = file.read_bytes(), tmp_path / "x.zip"
    for offset in range(0, len(whole), len(whole) // 60):
        content = bytearray(whole)
        content[offset] ^= 0x40
        target.write_bytes(content)
        try:
            _, files = archive.read(target)
        except DamagedFileError:
            continue
        assert files == archive.read(file)[1]  # dates of the zip, which nobody reads
    weights = archive.unpack(archive.read(file)[1][WEIGHTS], file)
    parts = archive.pack({name: array.ravel()[:1] for name, array in weights.items()})
    changed(file, target, WEIGHTS, lambda _: parts)
    with pytest.raises(DamagedFileError, match="has another size of"):
        jaxner.load_exported(target, program=False)
    with zipfile.ZipFile(target, "w") as output:
        output.writestr("README.md", b"")
        output.writestr("README.md", b"")
    with pytest.raises(DamagedFileError, match="cannot be used"):
        archive.read(target)
    with pytest.raises(FileNotFoundError):
        jaxner.load_exported(tmp_path / "absent.zip")


def test_a_file_is_served_as_its_tagger(file, params, monkeypatch):
    pytest.importorskip("starlette")
    from jaxner.serving import server

    calls = []
    monkeypatch.setattr(server, "run", lambda *args, **_: calls.append(args))
    model = [str(file)]
    least = [[*model, f"--min-probability={x}"] for x in ("calibrated", "DRAGON=0.5")]
    for wrong in ([], [*model, "runs/grn"], *least):
        with pytest.raises(SystemExit):
            cli.run(["serve", *wrong])
    cli.run(["serve", *model])
    ((model, limits, *_),) = calls
    assert limits.batch_tokens == model.budget > 0  # /ready says what is in use
    (arrays,) = model.cut(model([model.job([TOKENS])])[0], [TOKENS])
    labels = [model.labels[i] for i in arrays["best"].labels]
    assert labels == jaxner.tag(params, TOKENS)
