"""Wrong options of the commands: a line that names the option, and no traceback."""

import pytest

from jaxner import __main__


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
        ("reproduce --all --seeds 0", "--seeds: must be at least 1, got 0"),
        ("reproduce --all --hours nan", "--hours: must be finite and above 0, got nan"),
        ("reproduce --all --hours 0", "--hours: must be above 0, got 0.0"),
        ("reproduce --list --results README.md", "--results must be a folder, got a f"),
        ("reproduce tokens --workdir x --samples 0", "--samples: must be at least 1"),
        (
            "reproduce mention-length --workdir x --bounds 0",
            "--bounds: must be at le",
        ),
        ("convert a b --encoding utf9", "--encoding: is unknown: 'utf9'; known: utf-8"),
        ("convert a b --token-column x", "--token-column: must be a whole number, got"),
        ("convert a b --token-column 9999", "--token-column: must be in [-1000, 1000]"),
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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--workdir=README.md"], "--workdir must be a folder, got a file"),
        (["--encoding=utf9"], "Unknown --encoding 'utf9'; known: utf-8"),
        (["--token_column=-5000"], r"--token_column must be in \[-1000, 1000\], got"),
        (["--output=docs"], "--output must be a file, got the folder docs"),
        (["--json=docs"], "--json must be a file, got the folder docs"),
    ],
)
def test_evaluate_checks_its_options_before_it_loads(arguments, message, evaluated):
    with pytest.raises((ValueError, OSError), match=message):
        evaluated("--workdir=nowhere", *arguments)
