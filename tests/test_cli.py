"""The command line: options from signatures, errors in a line, help at once."""

import functools
import importlib
import os
import subprocess
import sys
import typing
from importlib.metadata import distribution, version
from pathlib import Path

import jax
import pytest
from jax.experimental.compilation_cache import compilation_cache

from jaxner import cache, cli, load, tagging
from jaxner.commands import evaluate
from tests.tiny import output_of
from tests.training.runs import write_vectors

ROOT = Path(__file__).parents[1]
COMMANDS = {
    name: getattr(importlib.import_module(f"jaxner.commands.{module}"), name)
    for name, (module, _) in cli.COMMANDS.items()
}
python = functools.partial(output_of, sys.executable)


# --- From a signature to options ------------------------------------------------------


def parsed(line):
    name, *arguments = line.split()
    return cli.parser_of(COMMANDS[name]).parse(arguments)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("evaluate --workdir=a,~/b", {"workdir": (Path("a"), Path.home() / "b")}),
        ("evaluate --workdir=a --n=3", {"n": 3}),
        ("evaluate --workdir=a --constrained", {"constrained": True}),
        ("evaluate --workdir=a --no-constrained", {"constrained": False}),
        ("evaluate --workdir=a --no_constrained", {"constrained": False}),
        ("evaluate --workdir=a --model=b --model c", {"model": ["b", "c"]}),
        ("evaluate --workdir=a --format=a-b_c=d", {"format": "a-b_c=d"}),
        ("show --workdir=a --tokenizer=whitespace", {"tokenizer": "whitespace"}),
        ("train --config.a-b=c-d", {"config.a-b": "c-d"}),
        ("train --config.dtype --config=a", {"config.dtype": "true", "config": "a"}),
        ("train --config.num_epochs 3", {"config.num_epochs": "3"}),
    ],
)
def test_values_of_options(line, expected):
    _, values = parsed(line)
    assert values | expected == values


def test_positional_arguments_and_what_follows_two_hyphens():
    assert parsed("show --workdir=a")[0] == [None]
    assert parsed("show xxhtml --workdir=a")[0] == [Path("xxhtml")]
    assert parsed("show --workdir=a -- --html")[0] == [Path("--html")]
    here = Path("-").absolute()
    assert parsed("convert - ./-")[0] == [Path("-"), here]
    assert parsed("convert a b")[0] == [Path("a"), Path("b")]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_of_every_command_is_explained(name, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    parser = cli.parser_of(COMMANDS[name])
    text = parser.format_help()
    assert max(map(len, text.splitlines())) <= 80
    assert f"\n    jaxner {name} " in text or name == "show"
    for action in parser._actions:
        assert action.help, action.option_strings
        assert action.type not in (int, float), action.option_strings


# --- The whole line -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "libraries"),
    [
        (["--help", "--version"], {"jax", "numpy", "rich", "absl"}),
        ([f"{name} -h" for name in COMMANDS if name != "options"], {"jax"}),
    ],
)
def test_help_and_version_import_next_to_nothing(lines, libraries):
    code = f"import sys; from jaxner import cli; [cli.run(x.split()) for x in {lines}]"
    told = python("-c", f"{code}; print({libraries} & set(sys.modules))", cwd=ROOT)
    assert told.startswith("usage: jaxner")
    assert told.endswith("\nset()\n")


def test_the_module_is_the_command_and_needs_no_installation(monkeypatch, run):
    assert python("-m", "jaxner", "--version") == version("jaxner") + "\n"
    monkeypatch.setattr("importlib.metadata.version", lambda _: distribution("no"))
    assert run("--version") == (0, version("jaxner") + "\n")
    assert python("-m", "jaxner") == python("-m", "jaxner", "--help")


# Lines of `jaxner`, what the error names, and the status.
SMALL = "train --config=grn --config.data.dir=CORPUS"
ODD = "train --config=grn:sample,encoder=identity,head=direction,chars=none"
REFUSED = [
    ("tagg", "tag?", 2),
    ("tag --workdir x", "required: --input, --output", 2),
    ("train --config=grn more", "more", 2),
    ("train", "known: bert, bilstm", 1),
    ("train --num-epochs=3", "--num-epochs", 1),
    ("train --config=my/grn.py", "my/grn.py; jaxner's own: bert", 1),
    ("options", "known: bert", 1),
    ("check", "FOLDER to check", 1),
    ("show --workdir RUN nofile.txt", "show: nofile.txt: No such", 1),
    ("train --config=grn:conll", "conll2003", 1),
    ("train --config=grn:sample,sead=3", "sead", 1),
    ("train --config=parallel_rnn:sample,size=7", "even", 1),
    ("train --config=uanet:sample,model=transformer,encoder=grn", "draft=", 1),
    ("train --config=grn:sample,encoder=bilstm+x", "'x'", 1),
    ("train --config=grn:sample,encoder=json:Mine", "cannot be imported", 1),
    ("train --config=uanet:sample,head=seq2seq", "model.refinement", 1),
    ("train --config=idcnn:sample,head=seq2seq,document,dr=false", "data.unit", 1),
    ("train --config=parallel_rnn:sample,encoder=grn", "objective.orthogonality", 1),
    ("train --config=grn:sample,head=scores", "model.head.name", 1),
    ("train --config=idcnn:files", "data.dir", 1),
    (f"{SMALL} --config.num_epochs=0", "at least 1", 1),
    (f"{SMALL} --config.optimizer.name=adam", "optimizer.momentum of adam", 1),
    (f"{SMALL} --config.data.lowercase=maybe", "true or false", 1),
    (f"{SMALL} --config.data.contextual={{split}}.npz", "data.contextual", 1),
    (f"{SMALL} --config.model.encoder.name=bilstm", "FILE:encoder=bilstm", 1),
    (f"{SMALL} --config.optimizer=adam", "section", 1),
    (f"{SMALL} --config.lr=0.1", "--config.optimizer.learning_rate=0.1", 1),
    (f"{SMALL} --config.qqq=1", "--config.qqq", 1),
    (f"{SMALL} --config.data.train_words=false", "every word is unknown", 1),
    (f"{SMALL} --config.data.vectors=HERE/vectors.txt", "50%", 1),
    (f"{SMALL} --config.data.unit=document", "train.conll: does not mark", 1),
    (f"{SMALL} --config.optimizer.parts.hed.decay=1", "'hed'", 1),
    (f"{ODD} --config.model.representation.words.dim=7", "features of two", 1),
    (f"{SMALL} --config.objective.retain=1", "objective.retain needs init_from", 1),
    ("evaluate", "--workdir", 2),
    ("evaluate --workdir HERE/vectors.txt", "vectors.txt", 2),
    ("evaluate --workdir RUN --constrained=maybe", "--constrained", 2),
    ("evaluate --workdir nowhere", "nowhere", 1),
    ("evaluate --workdir RUN --split tset", "tset", 2),
    ("evaluate --workdir RUN --data x --split dev", "--split", 1),
    ("evaluate --workdir RUN --report r.html --decoding n_best", "n_best", 1),
    ("evaluate --workdir RUN,RUN --report r.html --json r.json", "--json", 1),
    ("evaluate --workdir RUN --n 5", "--n", 1),
    ("evaluate --workdir RUN --restart 0", "restarts", 1),
    ("evaluate --workdir RUN --output /no/where", "/no/where", 1),
]


@pytest.mark.parametrize(("line", "message", "status"), REFUSED)
def test_what_cannot_be_is_a_line_and_leaves_no_run(
    line, message, status, corpus, finished, tmp_path, capsys
):
    write_vectors(tmp_path, dim=100)
    for name, path in (("CORPUS", corpus), ("HERE", tmp_path), ("RUN", finished)):
        line = line.replace(name, str(path))
    place = f" --workdir={tmp_path / 'run'}"
    with pytest.raises(SystemExit) as ended:
        cli.run((line + place * line.startswith("train")).split())
    told = capsys.readouterr().err
    assert (ended.value.code, told.count("\n")) == (status, 1)
    assert message in told
    assert not (tmp_path / "run").exists()


def test_a_bug_keeps_its_traceback_and_the_users_error_can_have_one(monkeypatch):
    with pytest.raises(ZeroDivisionError), cli._errors("train"):
        raise ZeroDivisionError
    with pytest.raises(ValueError, match="int"), cli._errors("train"):
        int("x")  # not raised by us
    with pytest.raises(SystemExit), cli._errors("train"):
        raise FileNotFoundError
    for option in (["--verbosity=1"], ["--verbosity", "1"]):
        with pytest.raises(FileNotFoundError):
            cli.run(["score", "nowhere", *option])


@pytest.mark.skipif(sys.platform == "win32", reason="needs a shell")
@pytest.mark.parametrize(
    ("redirection", "status", "told"),
    [
        ("| :", 141, ""),
        (">&-", 141, ""),
        (">/dev/full", 1, "jaxner --help: [Errno 28] No space left on device\n"),
        (">/dev/null 2>&-", 0, ""),
        ("<&- >/dev/null", 0, ""),
    ],
)
def test_an_output_that_takes_nothing(redirection, status, told):
    """The tests of each command have others; here, nothing comes after its end."""
    command = (
        f"{sys.executable} -m jaxner --help {redirection}; exit ${{PIPESTATUS[0]}}"
    )
    command = f"trap '' PIPE; {command}" if redirection == "| :" else command
    done = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True)
    assert (done.returncode, done.stdout, done.stderr.decode()) == (status, b"", told)


@pytest.mark.parametrize("start", ["-m jaxner", "-P script.py"])
@pytest.mark.parametrize("line", ["score a.conll --report=x.html", "options grn"])
def test_code_beside_the_data_does_not_run(tmp_path, start, line):
    """Neither in the place of a package, nor in that of one that is missing."""
    (tmp_path / "a.conll").write_text("Rome B-LOC B-LOC\n")
    for name in ("jinja2", "matplotlib", "numpy", "rich", "absl", "jax", "missing"):
        (tmp_path / f"{name}.py").write_text("1 / 0")
    code = "from jaxner.__main__ import main\nmain()\nimport missing"
    (tmp_path / "script.py").write_text(code)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    options = {"cwd": tmp_path, "env": environment, "capture_output": True}
    command = [sys.executable, *start.split(), *line.split()]
    done = subprocess.run(command, text=True, **options)
    last = done.stderr.splitlines()[-1:]
    is_script = "script" in start
    assert last == ["ModuleNotFoundError: No module named 'missing'"] * is_script


def test_choices_that_commands_repeat_are_those_of_the_library():
    hint = typing.get_type_hints(evaluate.evaluate)["decoding"]
    assert set(typing.get_args(hint)) == {*tagging.DECODINGS, "n_best"}


# --- Compiled programs ----------------------------------------------------------------


@pytest.fixture
def as_before(monkeypatch):
    before = {k: v for k, v in jax.config.values.items() if "compilation_cache" in k}
    yield monkeypatch
    for name, value in before.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()


def test_a_choice_goes_before_the_variable_of_jax(as_before, finished, tmp_path):
    as_before.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache.folder() == tmp_path / "jaxner"
    as_before.setenv("JAX_COMPILATION_CACHE_DIR", "given")
    before = jax.config.jax_compilation_cache_dir
    cache.use(None)
    assert jax.config.jax_compilation_cache_dir == before
    as_before.delenv("JAX_COMPILATION_CACHE_DIR")
    jax.config.update("jax_compilation_cache_dir", None)
    load(finished)  # as a command does
    assert jax.config.jax_compilation_cache_dir == str(tmp_path / "jaxner")
    cache.use(str(tmp_path / "mine"))
    assert jax.config.jax_compilation_cache_dir == str(tmp_path / "mine")
    jax.jit(lambda x: 3 * x - 1)(1.0)  # after programs that went to another folder
    assert any((tmp_path / "mine").iterdir())
    cache.use("off")
    assert not jax.config.jax_enable_compilation_cache
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        cache.use(str(tmp_path / "file" / "x"))
    as_before.delenv("XDG_CACHE_HOME")
    as_before.setattr(sys, "platform", "win32")
    as_before.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    assert cache.folder() == tmp_path / "local" / "jaxner"
