"""Training and scoring from Python: the same rows in every form, and both doors."""

import json

import numpy as np
import pytest

import jaxner
from jaxner import examples
from jaxner.errors import InputError
from tests import tiny

ROWS = [(["Ann", "saw", "New York"], ["B-PER", "O", "B-LOC"]), (["No"], ["O"])]
NAMES = ["O", "B-PER", "B-LOC"]


def read(data):
    """The sentences of the JSON lines, with names for numbers."""
    records = list(map(json.loads, examples.json_lines(data)))
    names = records.pop(0)["label_names"] if "label_names" in records[0] else NAMES
    named = {**dict(enumerate(names)), **{name: name for name in NAMES}}
    return [(r["tokens"], [named[x] for x in r["labels"]]) for r in records]


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
        *(ROWS, blank),
        [dict(zip(("tokens", "labels"), row, strict=True)) for row in ROWS],
        datasets.Dataset.from_dict(
            columns | {"ner_tags": numbers}, features=datasets.Features(kinds)
        ),
        datasets.Dataset.from_dict(columns),
        pandas.DataFrame(columns),
        pandas.DataFrame(flat, columns=["sentence", "word", "label"]),
    ):
        assert read(data) == ROWS
    assert read([{"tokens": ["No"], "labels": np.array([0])}]) == [(["No"], ["O"])]


@pytest.mark.parametrize(
    ("data", "more", "message"),
    [
        (3, {}, "Expected examples, got a int"),
        (["Rome"], {}, "Example 1: expected a pair"),
        ([*ROWS, ([], [])], {}, "Example 3 has no tokens"),
        ([*ROWS, (["No"], 3)], {}, "Example 3: expected a pair"),
        ([(["No"], ["O", "O"])], {}, "examples:1: expected 1 label"),
        ([{"tokens": ["No"], "kind": ["O"]}], {}, "got tokens, kind"),
        ([{"word": "No", "label": "O"}], {}, "Expected a column sentence"),
        ({"training": ROWS}, {}, "Unknown split 'training'"),
        ({"validation": ROWS}, {}, "Expected a split 'train', got dev"),
        (ROWS, {"data.dir": "x"}, "go with files, not with examples"),
        (ROWS, {"dev": "x"}, "Expected examples, got a str"),
        (".", {"dev": ROWS}, "put their files into the folder"),
        (ROWS, {"epochs": 3}, "Unknown option"),
        (ROWS, {"data.contextual": "x"}, "contextual needs"),
    ],
)
def test_what_cannot_be_trained_leaves_no_folder(data, more, message, tmp_path):
    with pytest.raises(InputError, match=message):
        jaxner.train("grn", data, workdir=tmp_path / "run", **more)
    assert not (tmp_path / "run").exists()


def test_a_tagger_is_trained_scored_and_resumed(tmp_path, monkeypatch):
    """The config is for one's own data; the vectors decide their width."""
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("ann 1 2 3\nsaw 1 2 3\nrome 3 2 1\nno 0 0 0\n")
    call = {"workdir": tmp_path / "run", "num_epochs": 1, "data.vectors": vectors}
    call |= {"batch_size": 50, "data.num_shapes": 1, "model.encoder.hidden_dim": 4}
    tagger = jaxner.train("ncrfpp:encoder=projection", ROWS * 20, **call)
    assert tagger.model.representation.words.dim == 3
    assert {*tagger.labels} == {"O", *(x + y for x in "BIES" for y in ("-PER", "-LOC"))}
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert (config["data"]["split_dev"], config["patience"]) == (0.1, 10)
    scores = jaxner.evaluate(tagger, ROWS).overall
    assert (scores.gold, scores.predicted) == (2, 1)
    again = jaxner.train("ncrfpp:encoder=projection", ROWS * 20, **call)
    assert again.tag(["Ann", "saw"]) == tagger.tag(["Ann", "saw"])
    monkeypatch.setenv("HOME", str(tmp_path))
    assert jaxner.evaluate(tagger, "~/run/data/train.jsonl").overall.gold == 40
    with pytest.raises(InputError, match="examples:2: expected 1 label"):
        jaxner.evaluate(tagger, [ROWS[1], (["No"], ["O", "O"])])
    with pytest.raises(InputError, match=r"train\.jsonl"):
        jaxner.train("grn", ROWS * 19, **call)


def test_files_and_splits_of_ones_own(tmp_path, monkeypatch):
    """What reaches the run, without training it."""
    seen = {}

    def run(config, workdir, name):
        seen.update(config=config, workdir=workdir, name=name)
        raise SystemExit(130)  # as Ctrl-C does

    monkeypatch.setattr("jaxner.training.train.main_run", run)
    monkeypatch.setattr(examples.cache, "use", lambda: seen.update(is_cached=True))
    monkeypatch.setenv("HOME", str(tmp_path))
    corpus = tiny.write_corpus(tmp_path / "corpus", sentences=3)
    for share in (None, 0.1):
        with pytest.raises(KeyboardInterrupt):
            jaxner.train("grn", "~/corpus", workdir="~/a", seed=3)
        data = seen["config"].data
        assert (data.dir, data.split_dev, data.vectors) == (str(corpus), share, None)
        (corpus / "dev.conll").unlink(missing_ok=True)
    assert (seen["config"].seed, seen["name"]) == (3, "grn")
    assert (seen["workdir"], seen["is_cached"]) == (tmp_path / "a", True)
    splits = {"train": ROWS, "validation": ROWS[:1]}
    with pytest.raises(KeyboardInterrupt):
        jaxner.train("grn:head=softmax", splits, workdir=tmp_path / "b", test=ROWS)
    files = {"train.jsonl", "dev.jsonl", "test.jsonl"}
    assert {path.name for path in (tmp_path / "b" / "data").iterdir()} == files
    config = seen["config"]
    assert (config.model.head.name, config.data.split_dev) == ("softmax", None)
