"""`jaxner completion` makes scripts of the table of commands; bash runs one here."""

import shutil
import subprocess

import pytest

from jaxner import cli

COMPLETE = """
{}
complete -p jaxner
COMP_WORDS=({}) COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_jaxner
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


def script(shell, run):
    status, text = run("completion", shell)
    assert status == 0
    return text


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("jaxner ''", {*cli.COMMANDS}),
        ("jaxner ex", {"export", "export-onnx"}),
        ("jaxner tag runs/grn --to ''", {"conll", "jsonl"}),
        ("jaxner evaluate runs/grn --rule str", {"strict"}),
        ("jaxner evaluate runs/grn --rule = str", {"strict"}),
        ("jaxner tag runs/grn --to =", {"conll", "jsonl"}),
        ("jaxner tag --form", {"--format"}),
        ("jaxner check -", {*cli.parser_of(cli.function_of("check")).actions}),
        ("jaxner completion ''", {"bash", "zsh", "fish"}),
        ("jaxner train gr", {"grn"}),
        ("jaxner tag runs/g", {""}),  # left to the names of files
        ("jaxner tag --output conl", {""}),
    ],
)
def test_bash_completes(words, expected, run):
    code = COMPLETE.format(script("bash", run), words)
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("needs bash")
    process = subprocess.run([bash, "-uc", code], capture_output=True, text=True)
    assert (process.returncode, process.stderr) == (0, "")
    line, *replies = process.stdout.split("\n")[:-1]
    assert line == "complete -o bashdefault -o default -F _jaxner jaxner"
    assert {*replies} == {x for x in expected if x[:2] == "--" or x[:1] != "-"}


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_take_their_script(shell, run):
    """Runs where the shell is installed; everywhere, all commands are there."""
    text = script(shell, run)
    for name in cli.COMMANDS:
        assert name in text
    assert "export-onnx" in text
    for flag in cli.parser_of(cli.function_of("tag")).actions:
        assert flag.lstrip("-") in text
    if path := shutil.which(shell):
        subprocess.run([path, "-n", "-c", text], check=True)
    if shell == "zsh":
        assert script("bash", run) in text  # which bashcompinit runs
    else:
        assert all(line.startswith("complete -c jaxner ") for line in text.splitlines())
        assert text.count("'") % 2 == text.count("\\'") % 2
