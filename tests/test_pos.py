"""Tagging of parts of speech, from a treebank's files to scores and predictions."""

import dataclasses
import json
import re

import numpy as np
import pytest

import jaxner
import train
from jaxner.data import corpora, formats, schemes
from jaxner.errors import InputError
from jaxner.runs import Workdir
from jaxner.training import corpus as training_corpus
from tests import tiny


@pytest.fixture(scope="module")
def treebank(tmp_path_factory):
    """A folder of sentences of the sample, with coarse tags.

    In test a tag stands that train lacks. Similar lengths compile few programs.
    """
    folder = tmp_path_factory.mktemp("treebank")
    for split in corpora.SPLITS:
        sample = corpora.load("sample", split, scheme=schemes.TAGS, label_column=1)
        similar = [e for e in sample.examples if 12 < len(e.tokens) < 17][:32]
        rows = [[tag[:1] for tag in example.labels] for example in similar]
        if split == "test":
            rows[0][0] = "RARE"
        pairs = zip(similar, rows, strict=True)
        examples = [dataclasses.replace(e, labels=tuple(row)) for e, row in pairs]
        path = folder / f"xx_tiny-ud-{split}.conllu"
        formats.write(path, examples, "conllu", tags=True)
    return folder


def config_of(folder):
    config = tiny.plain_config(folder)
    config.data.scheme = "tags"
    return config


@pytest.fixture(scope="module")
def pos_run(treebank, tmp_path_factory):
    """The folder of a finished run, which gives tags."""
    folder = tmp_path_factory.mktemp("runs") / "pos"
    train.main_run(config_of(treebank), folder)
    return folder


def gold_of(treebank, split):
    return formats.read(treebank / f"xx_tiny-ud-{split}.conllu", tags=True).examples


def test_a_run_is_scored_by_accuracy(pos_run, treebank):
    lines = Workdir(pos_run).metrics()
    names = "epoch step loss seconds dev_accuracy dev_known_accuracy dev_oov_accuracy"
    assert set(lines[0]) == {*names.split()}
    accuracies = [line["dev_accuracy"] for line in lines]
    result = Workdir(pos_run).read_json("result.json")
    assert result["best_epoch"] == 1 + int(np.argmax(accuracies))
    assert result["dev"]["accuracy"] == pytest.approx(max(accuracies))
    assert "f1" not in result["test"]
    params = jaxner.load(pos_run)
    train_words = {t for e in gold_of(treebank, "train") for t in e.tokens}
    for split in ("dev", "test"):
        examples = gold_of(treebank, split)
        labels = jaxner.tag(params, [list(e.tokens) for e in examples])
        right = [
            (token in train_words, tag == guess)
            for e, row in zip(examples, labels, strict=True)
            for token, tag, guess in zip(e.tokens, e.labels, row, strict=True)
        ]
        scores = result[split]
        assert scores["accuracy"] == pytest.approx(100 * np.mean([r for _, r in right]))
        oov = [r for is_known, r in right if not is_known]
        assert scores["oov_accuracy"] == pytest.approx(100 * np.mean(oov))
        assert (scores["tokens"], scores["oov_tokens"]) == (len(right), len(oov))
    commonest = max(s["gold"] for s in result["dev"]["by_type"].values())
    assert result["dev"]["correct_tokens"] > 1.05 * commonest  # it has learned


def test_evaluation_gives_the_scores_of_the_run(pos_run, answer, capsys):
    result = Workdir(pos_run).read_json("result.json")["test"]
    scores = json.loads(json.dumps(answer("evaluate", pos_run, "--split=test")))
    assert {name: scores[name] for name in result} == result
    assert re.search("does not know, and will miss: .*RARE", capsys.readouterr().err)
    assert scores["by_type"]["RARE"]["gold"] == 1
    assert scores["by_type"]["RARE"]["correct"] == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--split=dev --rule=strict", "--rule"),
        ("--split=dev --label_column=5", r"dev\.conllu:\d+: "),
        ("--split=dev --seqeval", "--seqeval"),
    ],
)
def test_what_tags_lack_is_refused(options, message, pos_run, treebank, answer):
    with pytest.raises((ValueError, OSError), match=message):
        answer("evaluate", pos_run, *options.format(treebank).split())


def test_tags_and_spans_have_no_report_in_common(pos_run, tiny_run, corpus, answer):
    page = pos_run / "page.html"
    for runs in ([pos_run, tiny_run], [tiny_run, pos_run]):
        with pytest.raises(ValueError, match="have tags and spans: report each"):
            answer("report", *runs, "--split", corpus / "dev.conll", "-o", page)
    assert not page.exists()


def test_a_single_tag_is_suspected_and_unknown_ones_are_told(tmp_path):
    (tmp_path / "train.txt").write_text("a X\nb X\n\n", encoding="utf-8")
    (tmp_path / "dev.txt").write_text("a W\nb Z\n\n", encoding="utf-8")
    options, lines = config_of(tmp_path).data.to_dict(), []
    with pytest.raises(InputError):
        training_corpus.load_data(options, word_dim=8, log=lines.append)
    (tmp_path / "train.txt").write_text("a X\nb Y\n\n", encoding="utf-8")
    data = training_corpus.load_data(options, word_dim=8, log=lines.append)
    assert "dev has tags that the tagger does not know, and will miss: W, Z" in lines
    assert data.train.words() == {"a", "b"}
