"""ONNX models answer as their taggers do, in onnxruntime and in a browser."""

import dataclasses
import functools
import json
import re
import resource
import shutil
import subprocess
import threading
import urllib.parse
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import jax
import numpy as np
import pytest
from flax import linen as nn

import jaxner
from jaxner import cli, inference, models
from jaxner import onnx as writer
from jaxner.errors import InputError
from jaxner.tagger import ensemble
from jaxner.types import Potentials
from tests import fence
from tests.golden import make_encoders
from tests.marks import CHROMIUM
from tests.models.test_bert import CASE_OF, opened
from tests.test_decoding import tiny

EXAMPLE = Path(__file__).parents[1] / "examples" / "browser"


def run(model, feed):
    session = pytest.importorskip("onnxruntime").InferenceSession(model)
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, feed), strict=True))


def feed_of(sentence):
    feed = {"words": sentence.words, "caps": sentence.caps, "vectors": sentence.vectors}
    feed["chars"] = sentence.chars[sentence.char_index]
    if sentence.pieces is not None:
        names = ("windows", "window_mask", "positions")
        feed |= dict(zip(names, sentence.pieces, strict=True))
    kinds = {"vectors": np.float32, "window_mask": bool}
    arrays = {name: array for name, array in feed.items() if array is not None}
    return {n: np.asarray(a, kinds.get(n, np.int64)) for n, a in arrays.items()}


def check(tagger, path):
    """Compares scores and labels of an ONNX model with its tagger's."""
    words = [word for tokens, _ in fence.sentences("test") for word in tokens]
    bounds = ((0, 1), (40, 42), (5, 12), (99, 159))
    sentences = [words[start:end] for start, end in bounds]
    vectors = fence.vectors(tagger, sentences)
    options = {} if vectors is None else {"vectors": vectors}
    batch = jaxner.encode(tagger, sentences, **options)
    predict = functools.partial(models.predict, tagger.model, tagger.weights)
    potentials, labels = jax.jit(
        lambda batch: (jax.vmap(predict)(batch), jaxner.tag(tagger, batch))
    )(batch)
    for i, tokens in enumerate(sentences):
        options = {} if vectors is None else {"vectors": vectors[i]}
        scores = run(path, feed_of(jaxner.encode(tagger, tokens, **options)))
        best = scores.get("labels")
        if best is None:  # the browser's page finds it by its own function
            arrays = Potentials(**jax.tree.map(jax.numpy.asarray, scores))
            mask = jax.numpy.ones(len(arrays.emissions), bool)
            best = np.asarray(jax.jit(inference.viterbi)(arrays, mask))
        assert best.tolist() == labels[i][: len(best)].tolist()
        for name in {*scores} - {"labels"}:
            expected = np.asarray(getattr(potentials, name))[i]
            expected = expected[: len(best)] if name == "emissions" else expected
            np.testing.assert_allclose(scores[name], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", fence.CASES)
def test_an_onnx_model_answers_as_the_stored_run(name, tmp_path):
    tagger = jaxner.load(fence.unpack(name, tmp_path / name))
    path = tmp_path / "tagger.onnx"
    cli.run(["export-onnx", str(tmp_path / name), f"--output={path}"])
    check(tagger, path)
    content = json.loads(path.with_suffix(".json").read_text("utf-8"))
    assert content["label_names"] == list(tagger.labels)
    assert content["max_characters"] == 128


def test_a_language_model_is_left_out(tmp_path):
    encoder = {"name": "bilstm", "hidden_dim": 4}
    tagger = tiny("crf", encoder=encoder, language_model={})
    model = tagger.model.clone(language_model=None)
    paths = [tmp_path / f"{name}.onnx" for name in ("with", "without")]
    jaxner.export_onnx(tagger, paths[0])
    jaxner.export_onnx(dataclasses.replace(tagger, model=model), paths[1])
    assert paths[0].read_bytes() == paths[1].read_bytes()


def spec(shape, dtype):
    return jax.ShapeDtypeStruct(jax.export.symbolic_shape(shape), dtype)


@pytest.mark.parametrize("kind", CASE_OF)
def test_pretrained_encoders_have_their_golden_states(kind, tmp_path):
    _, _, encode = opened(kind, tmp_path)

    def states(inputs):
        return {"states": encode(inputs["ids"], inputs["mask"])}

    (length,) = jax.export.symbolic_shape("S")
    kinds = {"ids": np.int32, "mask": bool}
    specs = {n: jax.ShapeDtypeStruct((length,), kind) for n, kind in kinds.items()}
    model = writer.model_of(states, specs).SerializeToString()
    ids, mask = make_encoders.IDS, make_encoders.MASK
    rows = zip(ids.astype(np.int64), mask, strict=True)
    results = [run(model, {"ids": i, "mask": m})["states"][m] for i, m in rows]
    golden = CASE_OF[kind]["states"]
    np.testing.assert_allclose(np.concatenate(results), golden, rtol=0, atol=1e-5)


def agree(compute, lengths, width):
    """Compares an ONNX model with the function of an array that it was written of."""
    model = writer.model_of(compute, {"x": spec(f"T, {width}", np.float32)})
    for length in lengths:
        x = np.random.default_rng(0).normal(size=(length, width)).astype(np.float32)
        results = run(model.SerializeToString(), {"x": x})
        for name, value in jax.jit(compute)({"x": x}).items():
            np.testing.assert_allclose(results[name], value, rtol=1e-5, atol=1e-6)


def test_a_loop_without_steps():
    """A sentence of one token has no transition."""

    def chances(inputs):
        table = jax.numpy.arange(9.0).reshape(3, 3)
        potentials = Potentials(inputs["x"], table, table[0], table[1])
        mask = jax.numpy.ones(inputs["x"].shape[0], bool)
        return {"chances": inference.marginals(potentials, mask)}

    agree(chances, (1, 2, 5), 3)


def test_primitives_that_no_stored_run_has():
    def compute(inputs):
        x, integers = inputs["x"], jax.numpy.arange(inputs["x"].shape[0])
        steps = jax.numpy.floor(x) + jax.numpy.ceil(x) + jax.lax.rem(x, 0.7)
        results = {"smooth": jax.lax.erf(x) + jax.numpy.sqrt(abs(x)) - x**3 + steps}
        results |= {"first": jax.numpy.argmax(x, axis=1), "least": jax.numpy.min(x, 0)}
        return results | {"all": jax.numpy.all(x > -3, axis=1), "odd": integers % 2}

    agree(compute, (5,), 4)


def test_what_nothing_reads_is_left_out():
    """A cell of Flax splits a key for its first state, which is zeros."""

    layer = nn.RNN(nn.LSTMCell(3))
    weights = layer.init(jax.random.key(0), np.ones((1, 2)))
    agree(lambda inputs: {"states": layer.apply(weights, inputs["x"])}, (2, 5), 2)


def test_what_cannot_be_written_is_refused(tmp_path, monkeypatch):
    inputs = {"x": spec("T", np.float32)}
    with pytest.raises(InputError, match="no form for 'sort'"):
        writer.model_of(lambda inputs: {"y": jax.numpy.sort(inputs["x"])}, inputs)
    tagger = jaxner.load(fence.unpack("grn", tmp_path / "grn"))
    with pytest.raises(InputError, match=r"ends in \.onnx, got -"):
        jaxner.export_onnx(tagger, "-")
    (tmp_path / "notes.json").write_text("{}")
    with pytest.raises(InputError, match=r"notes\.json: would be replaced"):
        jaxner.export_onnx(tagger, tmp_path / "notes.onnx")
    monkeypatch.setattr(writer, "MOST_BYTES", 1000)
    with pytest.raises(InputError, match="less than 2 GB"):
        jaxner.export_onnx(tagger, tmp_path / "tagger.onnx")
    with pytest.raises(InputError, match="is several taggers"):
        jaxner.export_onnx(ensemble([tagger, tagger]), tmp_path / "tagger.onnx")


def test_a_full_disk_leaves_no_file(tmp_path):
    tagger = jaxner.load(fence.unpack("grn", tmp_path / "grn"))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 14, limits[1]))
    try:
        with pytest.raises(OSError, match=r"tagger\.onnx"):
            jaxner.export_onnx(tagger, tmp_path / "tagger.onnx")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not [*tmp_path.glob("tagger*")]


@pytest.mark.parametrize("unescape", [False, True])
def test_the_example_reads_tokens_as_a_vocabulary_does(unescape):
    """Also those that name what every object of JavaScript has."""
    if not (node := shutil.which("node")):
        pytest.skip("needs node")
    tokens = ["constructor", "toString", "__proto__", "-LRB-", "/.", "E\u0301t\u0669"]
    lines = (EXAMPLE / "tagger.js").read_text("utf-8")
    script = lines[lines.index("const ESCAPES") : lines.index("function wordId")]
    about = {"unescape": unescape, "zero_digits": True}
    script += f"const read = (token) => normalise({json.dumps(about)}, token);"
    script += f"console.log(JSON.stringify({json.dumps(tokens)}.map(read)));"
    process = subprocess.run([node, "-e", script], capture_output=True, check=True)
    vocabulary, _ = jaxner.build_vocabulary([tokens], ["LOC"], **about)
    assert json.loads(process.stdout) == [vocabulary.normalise(t) for t in tokens]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["grn", "uanet", "seq2seq"])
def test_the_page_of_the_example_tags(name, tmp_path_factory, site):
    """Text in, labels out, without a network but this machine's own."""
    tagger = jaxner.load(fence.unpack(name, tmp_path_factory.mktemp("run") / name))
    folder, url = site
    jaxner.export_onnx(tagger, folder / f"{name}.onnx")
    text = "Ms. Preston left E\u0301TAT-2 for eBay, 3M of Milan and U.N.-Habitat."
    query = urllib.parse.urlencode({"model": f"{name}.onnx", "text": text})
    flags = [*CHROMIUM, "--dump-dom", "--virtual-time-budget=30000"]
    flags += ["--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"]
    flags += [f"--user-data-dir={tmp_path_factory.mktemp('chromium')}"]
    command = ["chromium", *flags, f"{url}/?{query}"]
    page = subprocess.run(command, capture_output=True, text=True, timeout=120).stdout
    parts = re.findall(r'<(?:mark|span) title="([^"]+)"[^>]*>([^<]+)<', page)
    labels = [label for labels, _ in parts for label in labels.split()]
    tokens = [token for _, tokens in parts for token in tokens.split()]
    assert "".join(tokens) == text.replace(" ", "")
    assert labels == jaxner.tag(tagger, tokens)


@pytest.mark.slow
def test_the_page_of_the_example_names_the_file_that_is_missing(site, tmp_path):
    flags = [*CHROMIUM, "--dump-dom", "--virtual-time-budget=30000"]
    command = ["chromium", *flags, f"--user-data-dir={tmp_path}", site[1]]
    page = subprocess.run(command, capture_output=True, text=True, timeout=120).stdout
    assert "There is no tagger.json, which jaxner export-onnx writes" in page


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The example's folder with onnxruntime-web in it, and where it is served."""
    if not (shutil.which("npm") and shutil.which("chromium")):
        pytest.skip("needs npm and chromium")
    folder = tmp_path_factory.mktemp("browser") / "site"
    shutil.copytree(EXAMPLE, folder)
    install = ["npm", "install", "--no-audit", "--no-fund", "onnxruntime-web@1.30.0"]
    process = subprocess.run(install, cwd=folder, capture_output=True, text=True)
    if process.returncode:
        pytest.skip(f"npm reaches no registry: {process.stderr[-200:]}")
    quiet = type("Quiet", (SimpleHTTPRequestHandler,), {"log_message": lambda *_: None})
    handler = functools.partial(quiet, directory=folder)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield folder, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_the_page_of_the_docs_shows_the_function_of_the_example():
    page = (EXAMPLE.parents[1] / "docs" / "deploy.md").read_text("utf-8")
    _, text = (EXAMPLE / "tagger.js").read_text("utf-8").split("const argmax")
    assert f"```js\nconst argmax{text}```\n" in page
