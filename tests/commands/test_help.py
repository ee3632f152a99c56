"""The help of every command: each option explained, with its default, in 80 columns."""

import argparse
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from absl import flags

from jaxner.commands import evaluate, line, train

ROOT = Path(__file__).parents[2]


def commands(parser, name="jaxner"):
    yield name, parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for one, inner in action.choices.items():
                if one not in ("train", "evaluate"):  # they have absl flags
                    yield from commands(inner, f"{name} {one}")


COMMANDS = dict(commands(line.parser()))
NOTHING = (None, False, [], "", argparse.SUPPRESS)


@pytest.mark.parametrize("name", COMMANDS)
def test_each_option_is_explained_with_its_default(name):
    for action in COMMANDS[name]._actions:
        if isinstance(action, argparse._SubParsersAction):
            continue
        flag = "/".join(action.option_strings) or action.dest
        assert action.help, flag
        assert len(action.help.split()) > 2 or "default" in action.help, flag
        if action.option_strings and action.default not in NOTHING:
            assert "default" in action.help or flag == "-h/--help", flag


@pytest.mark.parametrize("name", COMMANDS)
def test_help_fits_80_columns_and_has_an_example(name, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    text = COMMANDS[name].format_help()
    wide = [row for row in text.splitlines() if len(row) > 80]
    assert wide == []
    if len(name.split()) == 2:
        assert f"\n    {name} " in text or f"\n{name} " in text  # an example


@pytest.mark.parametrize("module", [train, evaluate])
def test_flags_are_explained(module):
    values = flags.FlagValues()
    more = ([],) if module is train else ()
    module.define_flags(values, *more)
    for flag in values.get_flags_for_module(
        values.find_module_defining_flag("workdir")
    ):
        assert len(flag.help.split()) > 3, flag.name
        if flag.default not in (None, False, [], "") and flag.name != "config":
            assert "default" in values.module_help(module.__name__)


@pytest.mark.parametrize("script", ["train.py", "evaluate.py"])
def test_help_of_the_scripts_fits_80_columns(script):
    command = [sys.executable, script, "--help"]
    text = subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout
    assert [row for row in text.splitlines() if len(row) > 80] == []
    assert "    jaxner " in text
    assert "Options:\n" in text
    assert "'None'" not in text
    assert "jaxner.commands" not in text
    assert "--cache: folder" in text


@pytest.mark.parametrize(
    ("arguments", "said"), [([], "usage: jaxner"), (["--version"], version("jaxner"))]
)
def test_the_bare_command_and_its_version(arguments, said, capsys):
    with pytest.raises(SystemExit) as ended:
        line.run(arguments)
    assert not ended.value.code
    assert capsys.readouterr().out.startswith(said)


def test_help_lists_the_flags_of_helper_modules():
    done = subprocess.run(
        [sys.executable, "-m", "jaxner", "evaluate", "-h"],
        capture_output=True,
        text=True,
        check=True,
    )
    for flag in ("--workdir", "--restart", "--num_processes", "--cache"):
        assert f"\n  {flag}: " in done.stdout
