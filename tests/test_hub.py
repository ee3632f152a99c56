"""Token classifiers of transformers: in, out, their labels, and what is refused."""

import contextlib
import dataclasses
import functools
import json
import sys
import types

import jax
import numpy as np
import pytest
from safetensors.numpy import load_file
from scipy.special import erf

import jaxner
from jaxner import driver, models, outputs
from jaxner.data import pieces, schemes
from jaxner.errors import InputError
from jaxner.models import pretrained
from jaxner.models.model import named
from jaxner.types import Pieces
from tests import test_onnx
from tests.golden.make_encoders import IDS, MASK, write
from tests.golden.make_encoders import tensors as tensors_of
from tests.models.test_bert import CASE_OF

pytest.importorskip("tokenizers")
KINDS = [*pretrained.FAMILIES]
LABELS = ("B-PER", "O", "I-LOC", "I-PER", "B-LOC")  # in no order
WORDS = ["rome", "fell", "ann", "lee", "left", "##s", "##r"]
SPECIAL = ["[UNK]", "[PAD]", "[CLS]", "[SEP]", "[MASK]"]
CHAIN = ("transitions", "start", "end")
TEXT = [["rome", "fell"], ["ann", "lee", "lefts", "x"], ["romers"]]


def config_of(kind, labels=LABELS, **fields):
    architecture = pretrained.classifiers()[kind]
    named_ids = {str(i): name for i, name in enumerate(labels)}
    config = {"architectures": [architecture], "id2label": named_ids, "pad_token_id": 1}
    return {**CASE_OF[kind]["config"], **config, **fields}


def tensors_with_head(kind, labels=LABELS):
    case, size = CASE_OF[kind], 12
    count = len(labels)
    shapes = {"classifier.weight": [count, size], "classifier.bias": [count]}
    if kind == "modernbert":
        shapes |= {"head.dense.weight": [size, size], "head.norm.weight": [size]}
    prefix = pretrained.FAMILIES[kind].prefix
    encoder = tensors_of(case["shapes"])
    return {f"{prefix}.{n}": x for n, x in encoder.items()} | tensors_of(shapes)


def classifier(folder, kind="bert", labels=LABELS, **fields):
    """Writes a folder as of transformers' save_pretrained."""
    write(folder, config_of(kind, labels, **fields), tensors_with_head(kind, labels))
    tokenizer = pieces.word_pieces([*SPECIAL, *WORDS], lowercase=True)
    (folder / "tokenizer.json").write_text(tokenizer.json)
    return folder


def tensors_and_states(kind):
    """The classifier's layers, and the golden states below them."""
    tensors, states = tensors_with_head(kind), np.array(CASE_OF[kind]["states"])
    if kind == "modernbert":
        x = states @ tensors["head.dense.weight"].T
        x = x * (1 + erf(x / 2**0.5)) / 2
        x -= x.mean(axis=1, keepdims=True)
        deviation = np.sqrt((x**2).mean(axis=1, keepdims=True) + 1e-5)
        states = x / deviation * tensors["head.norm.weight"]
    return tensors, states


def same(a, b):
    """Whether two taggers are equal to the bit."""
    facts = [(x.model, x.vocabulary, x.temperature) for x in (a, b)]
    pairs = zip(*(jax.tree.leaves(x.weights) for x in (a, b)), strict=True)
    return facts[0] == facts[1] and all(np.array_equal(x, y) for x, y in pairs)


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return jaxner.from_pretrained(classifier(tmp_path_factory.mktemp("bert")))


# --- Weights --------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_in_out_and_in_again(kind, tmp_path):
    rate = pretrained.FAMILIES[kind].spellings.get("hidden_dropout_prob")
    rates = {rate or "hidden_dropout_prob": 0.3, "classifier_dropout": None}
    tagger = jaxner.from_pretrained(classifier(tmp_path / "in", kind, **rates))
    assert tagger.model.head.dropout == 0.3
    tensors, states = tensors_and_states(kind)
    expected = states @ tensors["classifier.weight"].T + tensors["classifier.bias"]
    sentence = tagger.vocabulary.encode(["rome"] * MASK[0].sum())
    positions = np.arange(len(sentence.words), dtype=np.int32)[:, None]
    ids = Pieces(IDS[:1].astype(np.int32), MASK[:1], positions)
    run = jax.jit(functools.partial(models.apply, tagger.model))
    scores = run(tagger.weights, sentence._replace(pieces=ids)).emissions
    np.testing.assert_allclose(scores, expected[: len(scores)], rtol=0, atol=2e-5)
    assert tagger.labels == LABELS
    jaxner.export_transformers(tagger, tmp_path / "out")
    (tmp_path / "usual").touch()
    files = tmp_path / "usual", *(tmp_path / "out").iterdir()
    assert len({path.stat().st_mode for path in files}) == 1
    copy = load_file(tmp_path / "out/model.safetensors")
    assert copy.keys() == tensors.keys()
    for name, tensor in tensors.items():
        np.testing.assert_array_equal(copy[name], tensor)
    assert same(jaxner.from_pretrained(tmp_path / "out"), tagger)


@pytest.mark.parametrize("kind", KINDS)
def test_transformers_gives_the_same_labels_and_scores(kind, tmp_path):
    torch, transformers = map(pytest.importorskip, ("torch", "transformers"))
    tagger = jaxner.from_pretrained(classifier(tmp_path / "in", kind))
    jaxner.export_transformers(tagger, tmp_path / "out")
    auto = transformers.AutoModelForTokenClassification
    for folder in ("in", "out"):
        model = auto.from_pretrained(tmp_path / folder).eval()
        tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
        for words in TEXT:
            batch = tokenizer(words, is_split_into_words=True, return_tensors="pt")
            with torch.no_grad():
                scores = model(**batch).logits[0].numpy()
            firsts = [batch.word_ids().index(i) for i in range(len(words))]
            sentence = jaxner.encode(tagger, words)
            emissions = jaxner.apply(tagger.model, tagger.weights, sentence).emissions
            np.testing.assert_allclose(emissions, scores[firsts], rtol=0, atol=5e-6)
            best = [model.config.id2label[i] for i in scores[firsts].argmax(axis=1)]
            assert tagger.tag(words) == best


def test_sentences_of_a_batch_have_as_many_pieces(bert):
    texts = [["rome"] * 9, ["ann"], ["rome" + "s" * 9], *[["rome"] * 9] * 2]
    batches = driver._batches([*map(bert.vocabulary.encode, texts)], bert, 1)
    shapes = {(*sorted(x),): batch.pieces.windows.shape for x, batch in batches}
    assert shapes == {(0, 2, 3, 4): (4, 1, 16), (1,): (1, 1, 8)}
    service, shapes = pytest.importorskip("jaxner.serving.programs"), []

    def program(batch, is_deep):
        return lambda *_: shapes.append(batch.pieces.windows.shape)

    programs = service.Programs(bert, 9, 64)
    programs._program = program
    programs([programs.job([text]) for text in (["a"], ["-" * 60], ["a"])])
    assert shapes == [(4, 1, 16), (1, 8, 16)]


@pytest.mark.parametrize("constrained", [False, True])
@pytest.mark.parametrize("chain", [CHAIN, CHAIN[:1], ()])
def test_heads_and_temperatures_go_out_and_in(bert, tmp_path, chain, constrained):
    head = models.Head(len(LABELS), bool(chain), dropout=0.1, initializer="torch")
    head = head.clone(boundaries=chain != CHAIN[:1])
    if constrained:
        names = bert.vocabulary.label_names
        head = head.clone(constrained=True, grammar=(bert.vocabulary.scheme, *names))
    model = bert.model.clone(head=head)
    rng = np.random.default_rng(0)
    leaves = models.shapes(model)["params"]["head"]
    scores = {name: rng.normal(size=leaves[name].shape) for name in chain}
    scores = {name: jax.numpy.asarray(x, "float32") for name, x in scores.items()}
    params = bert.weights["params"]
    params = {**params, "head": {**params["head"], **scores}}
    tagger = jaxner.Tagger({**bert.weights, "params": params}, model, bert.vocabulary)
    tagger = dataclasses.replace(tagger, temperature=np.float32(1.7))
    is_less = chain or constrained
    warns = pytest.warns(UserWarning, match="ignores scores")
    with warns if is_less else contextlib.nullcontext():
        jaxner.export_transformers(tagger, tmp_path / "out")
    copy = jaxner.from_pretrained(tmp_path / "out")
    assert same(copy, tagger)
    assert copy.tag(TEXT, constrained=True) == tagger.tag(TEXT, constrained=True)


def test_entities_that_the_pipeline_would_cut_are_said(tmp_path):
    labels = ["O", "B-PER", "I-PER", "E-PER", "S-PER"]
    tagger = jaxner.from_pretrained(classifier(tmp_path / "in", labels=labels))
    with pytest.warns(UserWarning, match="cuts entities of BIOES"):
        jaxner.export_transformers(tagger, tmp_path / "out")
    assert same(jaxner.from_pretrained(tmp_path / "out"), tagger)


# --- Doors ----------------------------------------------------------------------------


def test_a_run_like_any_other(bert, tmp_path, answer, run):
    for split in ("train", "dev"):
        (tmp_path / f"{split}.conll").write_text("rome B-LOC\nfell O\n\nann B-PER\n")
    folder = tmp_path / "run"
    source = classifier(tmp_path / "in")
    names = "--label-names=" + ", ".join(LABELS)
    status, output = run("import", source, names, "--data", tmp_path, "-o", folder)
    assert (status, output.partition("\n")[0]) == (0, f"{folder}: 5 labels, BIO")
    tagger = jaxner.load(folder)
    assert same(tagger, bert)
    record = json.loads((folder / "environment.json").read_text())
    assert record["source"] == {"name": str(source), "revision": None}
    assert "pretrained model.safetensors" in record["data"]
    labels = [*tagger.tag(["rome", "fell"]), *tagger.tag(["ann"])]
    correct = sum(a == b for a, b in zip(labels, ("B-LOC", "O", "B-PER"), strict=True))
    counts = answer("evaluate", folder, "--split", "dev")
    assert (counts["tokens"], counts["correct_tokens"]) == (3, correct)
    answer("calibrate", folder)
    copy = jaxner.load(folder)
    assert copy.temperature != 1
    answer("export", folder, "--to", "transformers", "-o", tmp_path / "out")
    assert same(jaxner.from_pretrained(tmp_path / "out"), copy)
    for status, words in (
        (1, ("import", source, "-o", folder)),
        (1, ("import", source, "--data", tmp_path / "no", "-o", tmp_path / "b")),
        (2, ("export", folder, "--to=transformers", "--weights=int8", "-o", "c")),
    ):
        assert run(*words)[0] == status
    assert not (tmp_path / "b").exists()
    status, output = run("export", folder, "--to=transformers", "-o", tmp_path / "out")
    assert (status, "out is not empty: save to an empty or" in output) == (1, True)


@pytest.mark.slow
def test_exported_programs_label_alike(bert, tmp_path):
    jaxner.export(bert, tmp_path / "bert.zip")
    assert jaxner.load_exported(tmp_path / "bert.zip").tag(TEXT) == bert.tag(TEXT)
    jaxner.export_onnx(bert, tmp_path / "bert.onnx")
    test_onnx.check(bert, tmp_path / "bert.onnx")
    service = pytest.importorskip("jaxner.serving.programs")
    assert service.Programs(bert, 16, 32)


@pytest.mark.slow
@pytest.mark.parametrize("model", ["crf", "uanet"])
def test_learning_on_with_another_model_and_a_new_type(model, bert, tmp_path):
    jaxner.from_pretrained(classifier(tmp_path / "in"), workdir=tmp_path / "run")
    data = [(["rome", "fell"], ["B-LOC", "O"]), (["ann"], ["B-ORG"])] * 10
    options = {"init_from": tmp_path / "run", "num_epochs": 1, "data.scheme": "BIO"}
    options |= {"optimizer.parts.bert.learning_rate": 0.0}
    name, folder = f"encoder:model={model}", tmp_path / model
    tagger = jaxner.train(name, data, workdir=folder, **options)
    assert tagger.vocabulary.types == ("LOC", "ORG", "PER")
    encoder, start = (
        {n: x for n, x in named(t.weights["params"]).items() if pretrained.PREFIX in n}
        for t in (bert, tagger)
    )
    assert encoder.keys() == start.keys()
    assert all(np.array_equal(x, start[n]) for n, x in encoder.items())


# --- Labels ---------------------------------------------------------------------------


def test_bare_types_are_io_labels(tmp_path):
    """Each token has the classifier's best label; or all labels fit the scheme."""
    source = classifier(tmp_path / "in", labels=("PER", "O", "LOC"))
    tagger = jaxner.from_pretrained(source)
    assert tagger.vocabulary.scheme == "IOB1"
    assert tagger.labels == ("I-PER", "O", "I-LOC")
    marginals = tagger.marginals(TEXT)
    best = [[tagger.labels[i] for i in row.argmax(axis=1)] for row in marginals]
    assert tagger.tag(TEXT) == best
    for row in tagger.tag(TEXT, constrained=True):
        assert not schemes.violations(row, "IOB1")
    jaxner.export_transformers(tagger, tmp_path / "out")
    assert same(jaxner.from_pretrained(tmp_path / "out"), tagger)


def test_labels_without_names_need_names(tmp_path):
    folder = classifier(tmp_path, labels=[f"LABEL_{i}" for i in range(5)])
    with pytest.raises(InputError, match=r"config\.json: has no names .*--label-names"):
        jaxner.from_pretrained(folder)
    tagger = jaxner.from_pretrained(folder, label_names=LABELS)
    assert tagger.labels == LABELS
    assert jaxner.from_pretrained(folder, label_names=[*"abcde"], scheme="tags")
    with pytest.raises(InputError, match="expected 5 label_names, got 2"):
        jaxner.from_pretrained(folder, label_names=["O", "B-A"])
    with pytest.raises(InputError, match=r"^Label 'O' occurs twice"):
        jaxner.from_pretrained(folder, label_names=[*LABELS[:4], "O"])
    bare = config_of("bert")
    del bare["id2label"]
    (folder / "config.json").write_text(json.dumps(bare))
    assert same(jaxner.from_pretrained(folder, label_names=LABELS), tagger)


# --- Refusals -------------------------------------------------------------------------

NAMES = {str(i): name for i, name in enumerate(LABELS)}
ODD = [
    ({"auto_map": {"AutoModel": "theirs.Model"}}, "auto_map"),
    ({"architectures": ["BertForMaskedLM"]}, "with X one of Bert, Electra, Roberta"),
    ({"architectures": ["RobertaForTokenClassification"]}, "and 'bert'"),
    ({"architectures": None}, "got None and"),
    ({"model_type": "gpt2"}, "and 'gpt2'"),
    ({"id2label": {"1": "O"}}, "id2label from 0"),
    ({"id2label": ["O"]}, "id2label from 0"),
    ({"id2label": 5}, "id2label from 0"),
    ({"id2label": {"0": "O", "1": 5}}, "id2label from 0, .* no name for 1"),
    ({"id2label": {**NAMES, "9": "B-X"}}, "no name for 5"),
    ({"id2label": {"0": "O", "1": "B-A"}}, r"classifier\.weight of shape \(2, 12\)"),
    ({"id2label": {**NAMES, "4": "B_LOC"}}, "write B-LOC; or the scheme is tags"),
    ({"id2label": {**NAMES, "4": "O"}}, "'O' occurs twice"),
    ({"id2label": {**NAMES, "4": "B-A\nO"}}, r"invisible character \(U\+000A\)"),
    ({"model_type": ["bert"]}, "model_type as a string"),
    ({"hidden_size": 24}, r"of shape \(24,\) by config.json, got \(12,\)"),
    ({"vocab_size": 3}, r"config\.json: .*vocab_size of at least 12, .*, got 3"),
    ({"num_hidden_layers": 90}, r"layer\.3\."),
    ({"type_vocab_size": 10**12}, r"config\.json: cannot be used"),
    ({"classifier_dropout": 2}, r"config\.json: .*classifier_dropout must be"),
    ({"id2label": {**{x: f"E-{x}" for x in NAMES}, "4": "O"}}, "No entity of these"),
    ({"jaxner": {"temperature": -1.0}}, "temperature must be above 0"),
    ({"jaxner": {"temperature": 1e-300}}, "temperature must be above 0"),
    ({"jaxner": dict.fromkeys(CHAIN, np.nan)}, r"config\.json: .*NaN or infinity in"),
    ({"jaxner": {"scheme": "BIOS"}}, "jaxner.scheme"),
    ({"jaxner": {"transitions": [[0.0]]}}, r"transitions of shape \(5, 5\)"),
    ({"jaxner": {"transitions": [[0.0] * 5] * 5, "end": [0.0] * 5}}, r"jaxner\.start"),
    ({"jaxner": 5}, "cannot be used"),
]


@pytest.mark.parametrize(("change", "message"), ODD)
def test_odd_configs_are_refused_before_anything_is_written(change, message, tmp_path):
    folder = classifier(tmp_path / "in", **change)
    with pytest.raises(InputError, match=message) as error:
        jaxner.from_pretrained(folder, workdir=tmp_path / "run")
    assert "\n" not in str(error.value)
    assert not (tmp_path / "run").exists()


def test_missing_files_are_named_with_what_makes_them(tmp_path):
    head = "AutoModelForTokenClassification"  # AutoModel would drop the classifier
    for name, file, message in (
        ("tokenizer.json", "spiece.model", f"AutoTokenizer, t.{head},"),
        ("model.safetensors", "pytorch_model.bin", f"a pickle, .*t.{head},"),
        ("config.json", "more.txt", "config.json is missing"),
    ):
        folder = classifier(tmp_path / name)
        (folder / name).unlink()
        (folder / file).write_text("")
        with pytest.raises(FileNotFoundError, match=message):
            jaxner.from_pretrained(folder)


def test_models_that_transformers_lacks_are_refused(bert, tmp_path, monkeypatch):
    reader = bert.model.representation
    parts = {
        "has no encoder": {"representation": reader.clone(bert=None)},
        "pool='mean'": {
            "representation": reader.clone(bert=reader.bert.clone(pool="mean"))
        },
        "another head": {"head": models.DirectionHead(len(LABELS))},
        "more layers above": {"encoder": models.Projection(12, "tanh")},
    }
    taggers = {
        name: dataclasses.replace(bert, model=bert.model.clone(**part))
        for name, part in parts.items()
    }
    vocabulary = dataclasses.replace(bert.vocabulary, unescape=True)
    taggers["undoes escapes"] = dataclasses.replace(bert, vocabulary=vocabulary)
    taggers["is several"] = jaxner.tagger.ensemble([bert, bert])
    for message, tagger in taggers.items():
        with pytest.raises(InputError, match=message):
            jaxner.export_transformers(tagger, tmp_path / "out")
    monkeypatch.setattr(outputs, "write_text", lambda *_: 1 / 0)  # as a full disk
    with pytest.raises(ZeroDivisionError):
        jaxner.export_transformers(bert, tmp_path / "out")
    assert not [*tmp_path.iterdir()]


# --- The Hub --------------------------------------------------------------------------


def test_a_name_is_fetched_without_code_and_its_commit_recorded(tmp_path, monkeypatch):
    calls, commit = [], "0" * 40

    def download(name, **options):
        calls.append((name, options))
        if name == "gated/model":
            raise OSError("401 Client Error.\n\nAccess to gated/model is restricted.")
        return str(tmp_path / commit)

    classifier(tmp_path / commit)
    fake = types.SimpleNamespace(snapshot_download=download)
    monkeypatch.setitem(sys.modules, "huggingface_hub", fake)
    run = tmp_path / "run"
    jaxner.from_pretrained("org/model", workdir=run, revision="v1")
    record = json.loads((run / "environment.json").read_text())
    assert record["source"] == {"name": "org/model", "revision": commit}
    ((name, options),) = calls
    assert (name, options["revision"]) == ("org/model", "v1")
    assert {*options["allow_patterns"]} == {"*.json", "*.safetensors", "vocab.txt"}
    for name, error, message in (
        ("gated/model", InputError, "the Hub says: 401 Client Error. Access"),
        ("./no/such", NotADirectoryError, "no folder ./no/such"),
    ):
        with pytest.raises(error, match=message) as end:
            jaxner.from_pretrained(name)
        assert "\n" not in str(end.value)
    (tmp_path / commit / "tokenizer.json").rename(tmp_path / "elsewhere")
    with pytest.raises(InputError, match=r"lacks .*f = 'org/model'; .*Classification"):
        jaxner.from_pretrained("org/model")
    with pytest.raises(InputError, match="revision is for names"):
        jaxner.from_pretrained(tmp_path / commit, revision="v1")
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ImportError, match=r"bring config\.json, tokenizer\.json and"):
        jaxner.from_pretrained("org/model")
