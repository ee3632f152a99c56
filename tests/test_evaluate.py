"""`jaxner evaluate`."""

import jaxner
from jaxner.data import formats, schemes


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
    converted = [tuple(schemes.convert(e.labels, scheme)) for e in gold]
    assert [e.labels for e in again] == converted


def test_types_that_training_never_saw_are_missed_not_fatal(
    finished, evaluated, tmp_path, capsys
):
    (tmp_path / "new.conll").write_text("Rome B-DRAGON\nfell O\n", encoding="utf-8")
    scores = evaluated(f"--workdir={finished}", f"--data={tmp_path / 'new.conll'}")
    shown = capsys.readouterr().out
    assert "the tagger will miss: DRAGON" in shown
    assert f"{scores['f1']:.2f}" in shown
    assert "conlleval rule; " in shown
    dragons = scores["by_type"]["DRAGON"]
    assert (dragons["gold"], dragons["correct"]) == (1, 0)
