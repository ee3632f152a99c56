"""The evaluation script."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import jaxner
from jaxner.analysis import describe
from jaxner.data import corpora, formats, schemes
from jaxner.evaluation import predictions, scoring
from jaxner.runs import Workdir
from tests.marks import slow

ROOT = Path(__file__).parents[1]


def run(*arguments):
    return subprocess.run(
        [sys.executable, "evaluate.py", *map(str, arguments)],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
    )


def test_scores_are_those_of_the_run(finished, params, corpus, tmp_path):
    done = run("--workdir", finished, "--json", tmp_path / "scores.json")
    assert done.returncode == 0, done.stderr
    scores = json.loads((tmp_path / "scores.json").read_text())
    result = Workdir(finished).read_json("result.json")["test"]
    assert {k: scores[k] for k in result} == result
    assert f"{scores['f1']:.2f}" in done.stdout
    assert "conlleval" in done.stdout
    assert "ill-formed" in done.stdout


def test_predictions_of_a_file(finished, params, corpus, tmp_path):
    data = corpus / "dev.conll"
    done = run("--workdir", finished, "--data", data, "--output", tmp_path / "p.conll")
    assert done.returncode == 0, done.stderr
    gold = formats.read(data).examples
    predicted = formats.read(tmp_path / "p.conll").examples
    assert [e.tokens for e in predicted] == [e.tokens for e in gold]
    expected = jaxner.tag(params, [list(e.tokens) for e in gold])
    for example, labels in zip(predicted, expected, strict=True):
        assert list(example.labels) == labels
    again = formats.read(tmp_path / "p.conll", label_column=1).examples
    scheme = params.vocabulary.scheme
    assert [e.labels for e in again] == [
        tuple(schemes.convert(e.labels, scheme)) for e in gold
    ]


def test_ill_formed_predictions_stay_as_they_are(corpus, tmp_path):
    split = corpora.read(corpus / "dev.conll")
    predicted = [["E-LOC", "I-PER", "O"] * 40 for _ in split.examples]
    predicted = [
        labels[: len(example.tokens)]
        for labels, example in zip(predicted, split.examples, strict=True)
    ]
    gold = [example.labels for example in split.to_scheme("BIOES")]
    predictions.write(str(tmp_path / "p"), split, gold, predicted)
    found = [list(example.labels) for example in formats.read(tmp_path / "p").examples]
    assert found == predicted


def test_scheme_of_the_file_does_not_matter(params, corpus, tmp_path):
    examples = corpora.load(None, "dev", directory=corpus).to_scheme("IOB1")
    rows = [zip(e.tokens, e.labels, strict=True) for e in examples]
    formats.write_columns(tmp_path / "iob1.conll", rows)
    found = [
        describe.score(params, corpora.read(path), rule="seqeval", constrained=False)
        for path in (tmp_path / "iob1.conll", corpus / "dev.conll")
    ]
    assert found[0][0].to_dict() == found[1][0].to_dict()
    assert found[0][1] == found[1][1]
    assert found[0][0].overall.gold > 0


def test_strict_counts_no_more_than_seqeval(params, corpus):
    split = corpora.load(None, "dev", directory=corpus)
    loose, labels = describe.score(params, split, rule="seqeval", constrained=False)
    strict, _ = describe.score(params, split, rule="strict", constrained=False)
    assert strict.rule == "strict"
    assert strict.overall.predicted <= loose.overall.predicted
    gold = [e.labels for e in split.to_scheme("BIOES")]
    expected = scoring.score(gold, labels, rule="strict", scheme="BIOES")
    assert strict.to_dict() == expected.to_dict()


def test_types_that_training_never_saw_are_missed_not_fatal(
    params, finished, evaluated, tmp_path, capsys
):
    (tmp_path / "new.conll").write_text("Rome B-DRAGON\nfell O\n", encoding="utf-8")
    evaluated(f"--workdir={finished}", f"--data={tmp_path / 'new.conll'}")
    assert "the tagger will miss: DRAGON" in capsys.readouterr().out
    scores, _ = describe.score(
        params,
        corpora.read(tmp_path / "new.conll"),
        rule="seqeval",
        constrained=False,
    )
    assert scores.by_type["DRAGON"].gold == 1
    assert scores.by_type["DRAGON"].correct == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "--workdir"),
        (["--workdir", "nowhere"], "There is no folder"),
        (["--workdir", "{run}", "--data", "nowhere.conll"], "No file nowhere.conll"),
        *slow(  # as the readers' own tests
            (["--workdir", "{run}", "--data", "{bad}"], "expected 2 columns"),
            (["--workdir", "{run}", "--data", "{empty}"], "expected lines of tokens"),
        ),
        (["--workdir", "{run}", "--split", "tset"], "tset"),
        (["--workdir", "{run}", "--data", "tests"], "tests is a folder"),
        (["--workdir", "{run}", "--data", "x", "--split", "dev"], "got both"),
        (
            ["--workdir", "{run}", "--report", "r.html", "--decoding", "n_best"],
            "--decoding=n_best chooses by the gold labels",
        ),
        (
            ["--workdir", "{run},{run}", "--report", "r.html", "--json", "r.json"],
            "--output, --json and --chunks are for one run",
        ),
        (["--workdir", "{run}", "--n", "5"], "--n is for --decoding=n_best"),
        (["--workdir", "{run}", "--seed", "5"], "--seed is for --decoding=sampled"),
        (["--workdir", "{run}", "--restart", "0"], "holds no restarts"),
        (["--workdir", "{run}", "--output", "/no/where"], "no folder to write /no/w"),
    ],
)
def test_wrong_input_says_what_is_wrong(arguments, message, finished, tmp_path):
    (tmp_path / "bad.conll").write_text("Rome B-LOC\nfell\n", encoding="utf-8")
    (tmp_path / "empty.conll").touch()
    names = {
        "run": finished,
        "bad": tmp_path / "bad.conll",
        "empty": tmp_path / "empty.conll",
    }
    done = run(*(a.format(**names) for a in arguments))
    assert done.returncode
    assert message in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
