"""Wrong options of the commands: a line that names the option, and no traceback."""

import argparse
import subprocess
import sys

import pytest
from absl import flags

from jaxner import __main__
from jaxner.commands import evaluate, flagged, line, train


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("sweep --workdir x --samples 0,1", "--samples: must be at least 1, got 0"),
        (
            "sweep --workdir x --samples 2.5",
            "must be numbers and commas, such as 1,2",
        ),
        ("sweep --workdir x --thresholds nan", "--thresholds: must be a finite number"),
        ("sweep --workdir README.md", "--workdir must be a folder, got a file: README"),
        ("sweep --workdir x --plot docs", "must be a file, got the folder docs"),
        ("convert a b --encoding utf9", "--encoding: is unknown: 'utf9'; known: utf-8"),
        ("convert a b --token-column x", "--token-column: must be a whole number, got"),
        ("convert a b --token-column 9999", "--token-column: must be in [-1000, 1000]"),
        ("score a --rounds 0", "--rounds: must be at least 1, got 0"),
        ("score a --seed -1", "--seed: must be in [0, 4294967295], got -1"),
        ("check a --limit -1", "--limit: must be at least 0, got -1"),
        ("calibrate --workdir a --n-best 0", "--n-best: must be at least 1, got 0"),
        ("calibrate --workdir a --precision 2", "--precision: must be in [0, 1], got"),
        ("show --workdir a --min-probability nan", "must be finite and in [0, 1], got"),
        ("nothing", "COMMAND: invalid choice: 'nothing'"),
    ],
)
def test_wrong_options_are_told_in_a_line(arguments, message, capsys):
    with pytest.raises(SystemExit) as error:
        __main__.main(arguments.split())
    assert error.value.code in (1, 2)
    out = capsys.readouterr()
    assert message in out.out + out.err
    assert len((out.out + out.err).splitlines()) == 1


def options_of(parser):
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, one in action.choices.items():
                yield from ((f"{name} {flag}", kind) for flag, kind in options_of(one))
        else:
            yield "/".join(action.option_strings), action.type


def test_no_option_of_a_command_is_a_number_without_a_range():
    found = dict(options_of(line.parser()))
    assert len(found) > 50
    assert [name for name, kind in found.items() if kind in (int, float)] == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--workdir=README.md"], "--workdir must be a folder, got a file"),
        (["--encoding=utf9"], "Unknown --encoding 'utf9'; known: utf-8"),
        (["--token_column=-5000"], r"--token_column must be in \[-1000, 1000\], got"),
        (["--n=0"], "--n must be at least 1, got 0"),
        (["--seed=-1"], r"--seed must be in \[0, 4294967295\], got -1"),
        (["--output=docs"], "--output must be a file, got the folder docs"),
        (["--json=docs"], "--json must be a file, got the folder docs"),
    ],
)
def test_evaluate_checks_its_options_before_it_loads(arguments, message, evaluated):
    with pytest.raises((ValueError, OSError), match=message):
        evaluated("--workdir=nowhere", *arguments)


def test_a_choice_is_checked_without_a_file_to_read(capsys):
    with pytest.raises(SystemExit):
        __main__.main(["evaluate", "--workdir=nowhere", "--unfit=no", "--cache=off"])
    assert "Unknown --unfit 'no'; known: error, drop, widen" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("root:x:0:0\n", "its file cannot be run: SyntaxError: invalid syntax (no"),
        ("1 / 0\n", "its file cannot be run: ZeroDivisionError: division by zero"),
    ],
)
def test_a_config_that_is_no_config_is_told_in_a_line(text, message, tmp_path):
    (tmp_path / "nothing.py").write_text(text)
    command = [sys.executable, "-m", "jaxner", "train"]
    done = subprocess.run(
        [*command, f"--config={tmp_path / 'nothing.py'}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 1
    assert message in done.stdout
    assert len(done.stdout.splitlines()) == 1


def test_names_of_options_have_two_spellings(tmp_path, capsys):
    path = tmp_path / "a-b_c.conll"
    path.write_text("Rome X B-LOC\nwins Y O\n")
    for option in ("--label_column=-1", "--label-column=-1"):
        __main__.main(["check", str(path), option, "--cache=off"])
        assert "a-b_c.conll" in capsys.readouterr().out
    given = ["--label-column", "--a-b", "--token_column=a-b", "--", "--label-column"]
    assert flagged.spelled(given, "_", {"label_column", "token_column"}) == [
        *("--label_column", "--a-b", "--token_column=a-b", "--", "--label-column")
    ]


@pytest.mark.parametrize("option", ["--label-column=x", "--label_column=x"])
def test_flags_have_two_spellings(option, capsys, monkeypatch):
    monkeypatch.setattr(flagged.flags, "FLAGS", flags.FlagValues())
    with pytest.raises(SystemExit):
        evaluate.main(["--workdir=a", option])
    told = capsys.readouterr().out
    assert "--label_column must be a whole number, got 'x'" in told


def test_options_of_a_config_have_two_spellings(monkeypatch):
    begun = []
    monkeypatch.setattr(flagged, "start", lambda *given: begun.append(given[-1]))
    train.main(["--config=grn:sample", "--config.num-epochs=2", "--workdir=a-b"])
    assert begun[0][1:] == ["--config.num_epochs=2", "--workdir=a-b"]
