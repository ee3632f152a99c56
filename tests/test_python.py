"""Training and scoring from Python: the same rows in every form, and both doors."""

import dataclasses
import functools
import json
from types import SimpleNamespace

import numpy as np
import pytest

import jaxner
from jaxner import examples
from jaxner.data import formats
from jaxner.errors import InputError
from jaxner.runs import Workdir
from tests import tiny

ROWS = [(["Ann", "saw", "New York"], ["B-PER", "O", "B-LOC"]), (["No"], ["O"])]
NAMES = ["O", "B-PER", "B-LOC"]


class Classes(list):
    """Rows as of a data set whose labels are numbers of two classes."""

    @property
    def features(self):
        return {"tags": SimpleNamespace(names=NAMES[:2])}


def read(data):
    """The sentences of the JSON lines."""
    records = map(json.loads, examples.json_lines(data))
    return [(r["tokens"], r["labels"]) for r in records]


def test_all_forms_have_the_same_sentences():
    datasets, pandas = map(pytest.importorskip, ("datasets", "pandas"))
    columns = {"tokens": [r[0] for r in ROWS], "ner_tags": [r[1] for r in ROWS]}
    numbers = [[NAMES.index(x) for x in row] for row in columns["ner_tags"]]
    labels = datasets.Sequence(datasets.ClassLabel(names=NAMES))
    kinds = {"tokens": datasets.Sequence(datasets.Value("string")), "ner_tags": labels}
    flat = [(i, *x) for i, row in enumerate(ROWS) for x in zip(*row, strict=True)]
    blank = pandas.DataFrame(flat, columns=["Sentence #", "Word", "Tag"])
    blank.loc[blank.duplicated("Sentence #"), "Sentence #"] = None
    for data in (
        *(ROWS, iter(ROWS), zip(*columns.values(), strict=True), blank),
        [dict(zip(("tokens", "labels"), row, strict=True)) for row in ROWS],
        datasets.Dataset.from_dict(
            columns | {"ner_tags": numbers}, features=datasets.Features(kinds)
        ),
        datasets.Dataset.from_dict(columns),
        datasets.Dataset.from_dict(columns).data.table,  # of pyarrow
        pandas.DataFrame(columns),
        pandas.DataFrame(flat, columns=["sentence", "word", "label"]),
    ):
        assert read(data) == ROWS
    arrays = [{"tokens": np.array(["No"]), "labels": np.array([0])}]
    assert read(arrays) == [(["No"], [0])]


def test_texts_with_spans_are_as_in_a_file(file):
    pandas = pytest.importorskip("pandas")
    span = {"start": 0, "end": 3, "label": "PER"}
    words = [{"text": "Ann", "start": 0, "end": 3, "id": 0}, {"text": "ran"}]
    studio = {"value": {"start": 0, "end": 3, "labels": ["PER"]}, "type": "labels"}
    for row in (
        {"text": "Ann ran", "spans": [span]},
        {"text": "Ann ran", "label": [[0, 3, "PER"]]},  # of doccano
        {"text": "Ann ran", "tokens": words, "spans": [span], "answer": "accept"},
        {"text": "Ann ran", "tokens": ["Ann", "ran"], "spans": [span]},
        {"data": {"text": "Ann ran"}, "annotations": [{"result": [studio]}]},
        ("Ann ran", {"entities": [(0, 3, "PER")]}),
    ):
        rows = [row, {"text": "No.", "spans": []}]
        rows[1] = ("No.", {"entities": []}) if isinstance(row, tuple) else rows[1]
        first, second = examples._read(rows, {})[1].examples
        assert (first.tokens, first.labels) == (("Ann", "ran"), ("B-PER", "O"))
        assert second.labels == ("O", "O")
    rows = [{"text": "Ann ran. No.", "entities": [span], "doc_id": x} for x in "aab"]
    whole = formats.read(file("\n".join(map(json.dumps, rows)), "a.jsonl"))
    frame = pandas.DataFrame(rows).rename(columns={"text": "Text"})
    arrays = frame.assign(entities=[np.array(x) for x in frame["entities"]])
    arrays["doc_id"] = ["a", None, "b"]  # as Parquet files have them
    for data in (rows, frame.assign(date=pandas.Timestamp("2026-01-01")), arrays):
        assert [*examples._read(data, {})[1].examples] == whole.examples


@pytest.mark.parametrize("is_scalar", [True, False])
@pytest.mark.parametrize("name", ["labels", "label", "tags"])
def test_names_are_of_the_column_of_the_labels(name, is_scalar):
    """Another column before it has names, too: of whole sentences, or of tags."""
    datasets = pytest.importorskip("datasets")
    columns = {name: "X", "tokens": ["Ann", "ran"], "ner_tags": ["B-PER", "O"]}
    if not is_scalar:
        columns[name] = ["X", "X"] if name != "labels" else ["B-PER", "O"]
    kinds = {"tokens": datasets.Sequence(datasets.Value("string"))}
    for column, names in ((name, ["O", "X", "B-PER"]), ("ner_tags", NAMES)):
        kind = datasets.ClassLabel(names=names)
        is_list = isinstance(columns[column], list)
        kinds[column] = datasets.Sequence(kind) if is_list else kind
    data = datasets.Dataset.from_list([columns], datasets.Features(kinds))
    assert read(data) == [(["Ann", "ran"], ["B-PER", "O"])]


def test_documents_and_sentences_are_as_in_a_file(file):
    """Numbers of sentences restart in each document; a blank cell is as above."""
    pandas = pytest.importorskip("pandas")
    for documents, sentences in (
        ("aabbb", "00001"),
        (["a", None, "b", None, "b"], [0, None, 0, None, 1]),
        ([7.0, float("nan"), 8.0, 8.0, 8.0], ["x", "", "x", "x", "y"]),
    ):
        columns = {"doc_id": [*documents], "sentence": [*sentences]}
        columns |= {"token": [*"tuvwx"], "label": ["B-PER", "O", "O", "O", "O"]}
        frame = pandas.DataFrame(columns)
        _, split = examples._read(frame.astype({"label": "category"}), {})
        path = file(frame.to_csv(sep="\t", index=False), "a.tsv")
        for data in (split, formats.read(path)):
            words = [("".join(e.tokens), e.document) for e in data.examples]
            assert words == [("tu", 1), ("vw", 2), ("x", 2)]
    whole = [{"tokens": ["No"], "labels": ["O"], "document": x} for x in "aab"]
    _, split = examples._read(whole, {})
    assert [example.document for example in split.examples] == [1, 1, 2]


def test_two_sentences_of_two_are_not_a_pair_for_each_token():
    for row in ([["Ann", "ran"], ["PER", "O"]], (("Ann", "ran"), ("B-PER", "O"))):
        assert not examples._is_paired(row)
    assert not examples._is_paired((["Ann", "ran"], [1, 0]))


@pytest.mark.parametrize("documents", [None, "aaaa", "abab", "aabb"])
def test_a_sentence_that_comes_back_is_said(documents):
    rows = [{"sentence": f"s{i % 2}", "token": "x", "label": "O"} for i in range(4)]
    rows = [row | {"doc": d} for row, d in zip(rows, documents or "    ", strict=True)]
    if documents == "aabb":
        assert len(read(rows)) == 4
        return
    with pytest.warns(UserWarning, match="'s0' comes back in row 3"):
        assert read(rows) == [(["x"], ["O"])] * 4


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        (Classes([{"tokens": ["No"], "tags": [-100]}]), {}, "Example 1.*-100"),
        (Classes([{"tokens": ["No"], "tags": [2]}]), {}, "Example 1: .* got 2"),
        ([[("Rome", "B-LOC"), ("fell", "O")]], {}, "Example 1: expected a pair"),
        ([[["Rome", "B-LOC"], ["fell", "O"]]], {}, "Example 1: expected a pair"),
        ([(["Ann"], ["O"])], {"dev": []}, "dev: "),
        ([*ROWS, ([], [])], {}, "train:3: it has no tokens"),
        ([*ROWS, {"tokens": ["No"], "labels": ["O"]}], {}, "Example 3: expected a p"),
        ([(["\ud800"], ["O"])], {}, "train:1: .* half of a surrogate pair"),
        ([({"Ann", "ran"}, ["O", "O"])], {}, "Example 1: expected a pair"),
        ([(["Ann"] * 999, None)], {}, r"Example 1: .*'Ann', 'A\w* …$"),
        ({"tokens": [["No"]], "labels": [["O"]]}, {}, r"columns \(tokens, labels\)"),
        ({"train": ROWS, "validation": ROWS}, {"dev": ROWS}, "one dev split"),
        (
            ROWS,
            {"data.label_names": ["O", "B-x,B-y"]},
            r"without commas, got \['O', 'B-x",
        ),
        ([{"text": "Ann", "spans": []}, "Ann"], {}, "Example 2: expected a pair"),
        ([{"text": "Ann", "label": "x"}], {}, "train:1: .*one list of spans"),
        ([("Ann", {"entities": [(0, 2, "PER")]})], {}, "train:1: .*'An'"),
        ([{"tokens": ["No"], "labels": ["O"]}, {"tokens": ["No"]}], {}, "Row 2: "),
        ([{"word": None, "tag": "O", "sent": 1}], {}, "strings, not blank.*got None"),
        ([{"word": "No", "tag": float("nan"), "sent": 1}], {}, "train:1.*got nan"),
        ([{"tokens": x, "tags": x} for x in (None, ["O"])], {}, "Example 1: .*None"),
        ([{"text": x, "spans": []} for x in (None, "Ann")], {}, "train:1: .* a text"),
        ([{"tokens": ["No"], "kind": ["O"]}], {}, "got tokens, kind"),
        ([{"word": "No", "label": "O"}], {}, "Expected a column sentence"),
        ({"training": ROWS}, {}, "Unknown split 'training'"),
        ({"validation": ROWS}, {}, "Expected a split 'train', got dev"),
        (ROWS, {"data.dir": "x"}, "go with files, not with examples"),
        (ROWS, {"dev": "x"}, "Expected examples, got a str"),
        (".", {"dev": ROWS}, "put their files into the folder"),
        (__file__, {}, "is a file: expected a folder with the files train"),
        ("missing", {}, "missing: does not exist: expected a folder with the files"),
        (None, {}, r"grn is a config: .* as in jaxner\.train\('grn', FOLDER\)"),
        (ROWS, {"data.contextual": "{split}"}, "contextual needs"),
    ],
)
def test_what_cannot_be_trained_leaves_no_folder(data, options, message, tmp_path):
    with pytest.raises(InputError, match=message):
        jaxner.train("grn", data, workdir=tmp_path / "run", **options)
    assert not (tmp_path / "run").exists()


def test_values_of_options_are_those_of_a_command_line():
    for value, text in (
        (np.array([3, 5]), "3,5"),
        (("a", "b"), "a,b"),
        (np.float32(1e-3), "0.001"),
        (np.True_, "True"),
        (None, "None"),
    ):
        assert examples._as_option("x", value) == text
    columns = {"Ann": "B-PER", "ran": "O"}
    assert read([(columns.keys(), columns.values())]) == [
        (["Ann", "ran"], ["B-PER", "O"])
    ]
    row = {"text": "Ann ran", "tokens": ["Ann", "ran"], "gold": ["O", "O"]}
    row |= {"spans": [{"start": 0, "end": 3, "label": "PER"}]}
    (example,) = examples._read([row], {})[1].examples
    assert example.labels == ("B-PER", "O")


def test_a_tagger_is_trained_scored_and_resumed(tmp_path, monkeypatch):
    """The config is for one's own data; the vectors decide their width."""
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("ann 1 2 3\nsaw 1 2 3\nrome 3 2 1\nno 0 0 0\n")
    call = {"workdir": tmp_path / "run", "num_epochs": None, "vectors": vectors}
    monkeypatch.setattr("jaxner.training.train._EPOCHS", [(1, 1)] * 2)
    call |= {"optimizer.decay": 0, "optimizer.warmup": 0}  # rates know the last step
    call |= {
        "data.label_names": ["O", "B-PER"],
        "batch_size": 50,
        "data.num_shapes": 1,
        "model.encoder.hidden_dim": 4,
    }
    tagger = jaxner.train("ncrfpp:encoder=projection", ROWS * 20, **call)
    assert tagger.model.representation.words.dim == 3
    assert {*tagger.labels} == {"O", *(x + y for x in "BIES" for y in ("-PER", "-LOC"))}
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert (config["data"]["split_dev"], config["patience"]) == (0.1, 500)
    scores = jaxner.evaluate(tagger, ROWS).overall
    assert (scores.gold, scores.predicted) == (2, 1)
    (tmp_path / "run").rename(tmp_path / "moved")
    (tmp_path / "run" / "data").mkdir(parents=True)  # the place is taken again
    monkeypatch.chdir(tmp_path)
    call["workdir"] = "moved"
    moved_config = Workdir(call["workdir"]).read_json("config.json")
    assert moved_config["data"]["dir"] == str(tmp_path / "moved" / "data")
    copy = jaxner.train("ncrfpp:encoder=projection", ROWS * 20, **call)
    assert copy.tag(["Ann", "saw"]) == tagger.tag(["Ann", "saw"])
    monkeypatch.setenv("HOME", str(tmp_path))
    assert jaxner.evaluate(tagger, "~/moved/data/train.jsonl").overall.gold == 40
    # A file is read as the run reads its own.
    assert dict(tagger.reading)["encoding"] == "utf-8"
    (tmp_path / "a.conll").write_text("B-PER Ann\nO saw\n")
    columns = {"token_column": 1, "label_column": 0, "blank": "drop"}
    columns |= {"encoding": "ascii"}  # of files
    reader = dataclasses.replace(tagger, reading=tuple(columns.items()))
    assert jaxner.evaluate(reader, "~/a.conll").overall.gold == 1
    blank = [(["Änn", " "], ["B-PER", "O"])]
    assert jaxner.evaluate(reader, blank).overall.gold == 1
    # JSON lines have no columns.
    assert jaxner.evaluate(reader, "~/moved/data/train.jsonl").overall.gold == 40
    with pytest.raises(InputError, match="examples:2: expected 1 label"):
        jaxner.evaluate(tagger, [ROWS[1], (["No"], ["O", "O"])])
    with pytest.raises(InputError, match="rule"):
        jaxner.evaluate(tagger, "~/missing.conll", rule="lax")  # before the work


UNLABELLED = [(["a"], ["O"])] * 3


def test_a_refused_call_changes_no_file(tmp_path):
    """Neither those of others, nor those of a run; the next call begins anew."""
    run = tmp_path / "run"

    def files():
        paths = (p for p in run.rglob("*") if p.is_file() and p.name != ".lock")
        return {p: p.read_bytes() for p in paths}

    def refuse(rows, error, message, **options):
        old = files()
        with pytest.raises(error, match=message):
            jaxner.train("ncrfpp", rows, workdir=run, **options)
        assert files() == old

    message = r"all its labels are O\. For tags, set \S+$"  # and nothing of columns
    refuse(UNLABELLED, InputError, message, test=ROWS)
    options = {"num_seeds": 2, "restarts": "in_turn"}
    refuse(UNLABELLED, InputError, "all its labels are O", **options)
    assert not [*run.glob("*")]
    with Workdir(run).locked():
        refuse(ROWS, BlockingIOError, "Another process is training")
    for name in ("data/train.jsonl", "data/test.conll", "vocabulary.json", "README.md"):
        file = run / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("of the user")
        refuse(ROWS, InputError, f"{file.name}: belongs to no run")
        refuse(UNLABELLED, InputError, f"{file.name}: belongs to no run")
        file.unlink()
    (run / "data" / "notes.txt").write_text("")
    refuse(UNLABELLED, InputError, "all its labels are O")


def test_a_run_goes_on_after_a_refused_call(tmp_path, monkeypatch):
    call = {"workdir": tmp_path / "run", "num_epochs": 1, "data.num_shapes": 1}
    call |= {"batch_size": 50, "model.encoder.hidden_dim": 4}
    train = functools.partial(jaxner.train, "ncrfpp:encoder=projection")
    train(ROWS * 20, **call)
    (tmp_path / "run" / "data" / "notes.txt").write_text("")
    for rows, options, message in (
        (ROWS * 20, {"dev": ROWS}, "another config"),
        (ROWS * 20, {"test": ROWS, "data.lowercase": True}, "another config"),
        (ROWS * 19, {}, r"train\.jsonl: belongs to a run with other examples"),
    ):
        with pytest.raises(ValueError, match=message):
            train(rows, **call, **options)
    with monkeypatch.context() as patch:
        patch.setattr("jaxner.training.train.train", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            train(ROWS * 20, test=ROWS, **call)
    names = {path.name for path in (tmp_path / "run" / "data").iterdir()}
    assert names == {"train.jsonl", "notes.txt"}  # no test split for the next call
    train(ROWS * 20, **call)


def test_files_and_splits_of_ones_own(tmp_path, monkeypatch):
    """What reaches the run, without training it."""
    with pytest.raises(TypeError, match="dev="):
        jaxner.train(ROWS, ROWS, workdir=tmp_path / "a")
    calls = {}

    def run(config, workdir, name, texts):
        calls.update(config=config, workdir=workdir, name=name, texts=texts)
        raise SystemExit(130)  # as Ctrl-C does

    monkeypatch.setattr("jaxner.training.train.main_run", run)
    monkeypatch.setattr(examples.cache, "use", lambda: calls.update(is_cached=True))
    monkeypatch.setenv("HOME", str(tmp_path))
    corpus = tiny.write_corpus(tmp_path / "corpus", sentences=3)
    for share in (None, 0.1):
        with pytest.raises(KeyboardInterrupt):
            jaxner.train("grn", "~/corpus", workdir="~/a", seed=3)
        data = calls["config"].data
        assert (data.dir, data.split_dev, data.vectors) == (str(corpus), share, None)
        (corpus / "dev.conll").unlink(missing_ok=True)
    assert (calls["config"].seed, calls["name"]) == (3, "grn")
    assert (calls["workdir"], calls["is_cached"]) == (tmp_path / "a", True)
    splits = {"train": ROWS, "validation": ROWS[:1]}
    with pytest.raises(KeyboardInterrupt):
        jaxner.train("grn:head=softmax", splits, workdir=tmp_path / "b", test=ROWS)
    assert {*calls["texts"]} == {"train.jsonl", "dev.jsonl", "test.jsonl"}
    config = calls["config"]
    assert (config.model.head.name, config.data.split_dev) == ("softmax", None)
