"""`jaxner evaluate`."""

import json

import pytest

import jaxner
from jaxner import cli
from jaxner.data import formats, schemes
from jaxner.runs import Workdir


def test_scores_are_those_of_the_run(finished, evaluated, capsys):
    scores = json.loads(json.dumps(evaluated("--workdir", finished)))
    result = Workdir(finished).read_json("result.json")["test"]
    assert {k: scores[k] for k in result} == result
    shown = capsys.readouterr().out
    assert f"{scores['f1']:.2f}" in shown
    assert "conlleval rule; " in shown


def test_predictions_of_a_file(finished, params, corpus, evaluated, tmp_path):
    data = corpus / "dev.conll"
    evaluated("--workdir", finished, "--data", data, "--output", tmp_path / "p.conll")
    gold = formats.read(data).examples
    predicted = formats.read(tmp_path / "p.conll").examples
    assert [e.tokens for e in predicted] == [e.tokens for e in gold]
    expected = jaxner.tag(params, [list(e.tokens) for e in gold])
    assert [list(e.labels) for e in predicted] == expected
    again = formats.read(tmp_path / "p.conll", label_column=1).examples
    scheme = params.vocabulary.scheme
    assert [e.labels for e in again] == [
        tuple(schemes.convert(e.labels, scheme)) for e in gold
    ]


def test_types_that_training_never_saw_are_missed_not_fatal(
    finished, evaluated, tmp_path, capsys
):
    (tmp_path / "new.conll").write_text("Rome B-DRAGON\nfell O\n", encoding="utf-8")
    scores = evaluated(f"--workdir={finished}", f"--data={tmp_path / 'new.conll'}")
    assert "the tagger will miss: DRAGON" in capsys.readouterr().out
    dragons = scores["by_type"]["DRAGON"]
    assert (dragons["gold"], dragons["correct"]) == (1, 0)


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ("", "--workdir"),
        ("--workdir nowhere", "nowhere"),
        ("--workdir {run} --split tset", "tset"),
        ("--workdir {run} --data x --split dev", "--split"),
        ("--workdir {run} --report r.html --decoding n_best", "n_best"),
        ("--workdir {run},{run} --report r.html --json r.json", "--json"),
        ("--workdir {run} --n 5", "--n"),
        ("--workdir {run} --seed 5", "--seed"),
        ("--workdir {run} --restart 0", "restarts"),
        ("--workdir {run} --output /no/where", "/no/where"),
    ],
)
def test_wrong_input_says_what_is_wrong(arguments, word, finished, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.run(["evaluate", *arguments.format(run=finished).split()])
    assert ended.value.code in (1, 2)
    assert word in capsys.readouterr().err
