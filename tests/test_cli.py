"""The command line: options from signatures, errors in a line, help at once."""

import functools
import os
import re
import shlex
import subprocess
import sys
import typing
from importlib.metadata import distribution, version
from pathlib import Path

import jax
import pytest
from jax.experimental.compilation_cache import compilation_cache

from jaxner import cache, cli, load, tagging
from jaxner.commands import SPLITS, evaluate
from jaxner.data import corpora
from tests.marks import slow
from tests.tiny import output_of
from tests.training.runs import write_vectors

ROOT = Path(__file__).parents[1]
COMMANDS = {name: cli.function_of(name) for name in cli.COMMANDS}
python = functools.partial(output_of, sys.executable)


def parsed(line):
    name, *arguments = line.split()
    parser = cli.parser_of(COMMANDS[name])
    values = parser.parse(arguments)
    return [*parser.bind(values).args], {**values, **values["overrides"]}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("evaluate a --n=3", {"n": 3}),
        ("evaluate a --seqeval", {"seqeval": True}),
        ("evaluate a --output=b=c", {"output": Path("b=c")}),
        ("evaluate a -o b", {"output": Path("b")}),
        ("evaluate -ob a", {"output": Path("b")}),
        ("evaluate -o=b a", {"output": Path("b")}),
        ("evaluate a -q --json", {"quiet": True, "json": True}),
        ("convert a --token-column -1 -o -", {"output": Path("-")}),
        ("convert -- a", {"output": Path("-")}),
        ("tag a --no_sentences", {"sentences": False}),
        ("tag a --sentences", {"sentences": True}),
        ("evaluate a --constrained", {"constrained": True}),
        ("show a --tokenizer=whitespace", {"tokenizer": "whitespace"}),
        ("compare a --against b c --all", {"against": (Path("b"), Path("c"))}),
        ("calibrate --risk=.1 --type X --type Y a", {"type_": ["X", "Y"]}),
        ("train a --config.a-b=c-d", {"config.a-b": "c-d"}),
        ("train a --config.dtype --config.b=c", {"config.dtype": "true"}),
        ("train a --config.num_epochs 3", {"config.num_epochs": "3"}),
    ],
)
def test_values_of_options(line, expected):
    _, values = parsed(line)
    assert values | expected == values


def test_positional_arguments_and_what_follows_two_hyphens():
    run = Path("a")
    assert parsed("show a")[0] == [run, Path("-")]
    assert parsed("show a xxhtml")[0] == [run, Path("xxhtml")]
    assert parsed("show a -- --output")[0] == [run, Path("--output")]
    assert parsed("tag a -o c b")[0] == [run, Path("b")]
    assert parsed("check -")[0] == [Path("-")]
    assert parsed("check ./-")[0] == [Path("-").absolute()]
    assert parsed("check a,b --strict c")[0] == [Path("a,b"), Path("c")]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_of_every_command_is_explained_with_its_form(name, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    parser = cli.parser_of(COMMANDS[name])
    text = parser.format_help()
    assert max(map(len, text.splitlines())) <= 80
    assert re.search(f"\n    .*jaxner {name} ", text)
    assert "| --no-" not in text
    for action in parser._actions:
        assert action.help, action.option_strings
        assert action.type not in (int, float), action.option_strings
        assert action.metavar != "TEXT", action.option_strings  # but a form
        is_off = action.default in (False, None) and action.nargs == 0
        is_negated = any(x.startswith("--no-") for x in action.option_strings)
        assert not (is_off and is_negated) or action.dest == "constrained"


@pytest.mark.parametrize("usage", ["train [CONFIG]", "options CONFIG"])
def test_usage_has_no_brackets_around_what_a_command_needs(usage):
    """A config is needed to train without --data, which brings its own."""
    parser = cli.parser_of(COMMANDS[usage.partition(" ")[0]])
    assert parser.usage.startswith(f"jaxner {usage}")


@pytest.mark.parametrize(
    ("lines", "libraries"),
    [
        (["--help", "--version"], {"jax", "numpy", "rich", "absl"}),
        ([f"{name} -h" for name in COMMANDS if name != "options"], {"jax"}),
        (["help tag"], {"jax"}),
    ],
)
def test_help_and_version_import_next_to_nothing(lines, libraries):
    code = f"import sys; from jaxner import cli; [cli.run(x.split()) for x in {lines}]"
    output = python("-c", f"{code}; print({libraries} & set(sys.modules))", cwd=ROOT)
    assert output.startswith("usage: jaxner " + lines[0].partition("help ")[2])
    assert output.endswith("\nset()\n")


def test_the_module_is_the_command_and_needs_no_installation(monkeypatch, run):
    assert python("-m", "jaxner", "--version") == version("jaxner") + "\n"
    monkeypatch.setattr("importlib.metadata.version", lambda _: distribution("no"))
    assert run("--version") == (0, version("jaxner") + "\n")
    assert python("-m", "jaxner") == python("-m", "jaxner", "--help")


# Lines of `jaxner`, what the error names, and the status.
SMALL = "train grn --config.data.dir=CORPUS"
ODD = "train grn:sample,encoder=identity,head=direction,chars=none"
CASES = [
    ("tagg", "'tag'?", 2),
    ("tag", "required: RUN", 2),
    ("train grn more", "more", 2),
    ("train", "known: bert, bilstm", 2),
    ("train grn --num-epochs=3", "--config.num_epochs=3?", 2),
    ("train grn --processes=3", "unknown option --processes", 2),
    ("train my/grn.py", "my/grn.py; jaxner's own: bert", 1),
    ("check", "folder to check", 2),
    ("check a.conll --split dev", "folder of a run", 2),
    ("show RUN nofile.txt", "show: nofile.txt: No such", 1),
    ("train grn:conll", "conll2003", 1),
    ("train grn:sample,sead=3", "sead", 1),
    ("train parallel_rnn:sample,size=7", "even", 1),
    ("train uanet:sample,model=transformer,encoder=grn", "draft=", 1),
    ("train grn:sample,encoder=bilstm+x", "'x'", 1),
    ("train grn:sample,encoder=json:Mine", "cannot be imported", 1),
    ("train uanet:sample,head=seq2seq", "model.refinement", 1),
    ("train idcnn:sample,head=seq2seq,document,dr=false", "data.unit", 1),
    ("train parallel_rnn:sample,encoder=grn", "objective.orthogonality", 1),
    ("train grn:sample,head=scores", "model.head.name", 1),
    ("train idcnn:files", "data.dir", 1),
    (
        f"{SMALL} --config.optimizer.learning_rate=0.1 "
        "--config.optimizer.momentum=0.5 --config.optimizer.name=adam",
        *("optimizer.momentum of adam", 1),
    ),
    # What a shell makes of a variable that is not set.
    ("tag RUN -o '' a.conll --overwrite", "--output: expected a value", 2),
    ("tag RUN a.conll --shard=", "--shard: expected a value", 2),
    ("tag '' a.conll", "RUN: must be a path, got ''", 2),
    ("''", "Unknown command ''", 2),
    (f"{SMALL} --config.data.vectors=", "must be text that is not empty, got ''", 1),
    (f"{SMALL} --config.data.contextual={{split}}.npz", "data.contextual", 1),
    (f"{SMALL} --config.model.encoder.name=bilstm", "grn:encoder=bilstm", 1),
    (f"{SMALL} --config.model.head.name=seq2seq", "grn:head=seq2seq", 1),
    (f"{SMALL} --config.optimizer=adam", "section", 1),
    (f"{SMALL} --config.lr=0.1", "--config.optimizer.learning_rate=0.1", 2),
    (f"{SMALL} --config.qqq=1", "--config.qqq", 2),
    (f"{SMALL} --config.data.train_words=false", "every word is unknown", 1),
    (f"{SMALL} --config.data.vectors=vectors.txt", "50%", 1),
    (f"{SMALL} --config.data.unit=document", "train.conll: does not mark", 1),
    (f"{SMALL} --config.optimizer.parts.hed.decay=1", "'hed'", 1),
    (f"{ODD} --config.model.representation.words.dim=7", "features of two", 1),
    (f"{SMALL} --config.objective.retain=1", "objective.retain needs init_from", 1),
    ("serve RUN --host 256.0.0.1", "Cannot listen at 256.0.0.1:", 1),
    ("export RUN -o a.onnx", "jaxner export-onnx", 2),
    ("evaluate vectors.txt", "vectors.txt", 2),
    ("evaluate RUN --seqeval=maybe", "--seqeval", 2),
    ("evaluate RUN RUN", "; a file to score goes to --split", 2),
    ("train grn RUN", "; a folder of data goes to --data", 2),
    ("train RUN/config.json", "is no config; for data, give --data FOLDER", 1),
    ("evaluate RUN --n 5", "--decoding n_best", 2),
    ("evaluate RUN --seed 5", "--decoding sampled", 2),
    ("calibrate RUN --risk 0.3 --type X", "Unknown --type 'X'; known: LOC", 1),
    ("calibrate RUN --confidence 0.95", "for thresholds of --risk", 2),
    ("calibrate RUN --risk 0.3 --confidence 0.95", "is for --of errors", 2),
    ("select RUN vectors.txt -o no/where --to brat", "no folder to write no/where", 1),
    ("evaluate nowhere", "nowhere", 1),
    ("train --data CORPUS --tags", "Did you mean --config.data.scheme=tags?", 2),
    ("evaluate RUN --split tset", "or a file. Did you mean 'test'?", 2),
    ("evaluate RUN --decoding n_bst", "n_best", 2),
    ("evaluate RUN --restart first", "known: all; or a seed", 2),
    ("evaluate RUN --restart 0", "restarts", 1),
    ("evaluate RUN -o a.jsonl.gz", "a.jsonl.gz would have columns", 2),
    ("report -o r.html", "folder of a run", 2),
    ("compare RUN RUN RUN", "got 3", 2),
    ("tag RUN vectors.txt --gold", "raw text has none", 2),
    ("check CORPUS --json -o /dev/stdout", "name a file by --output", 2),
    ("tag RUN vectors.txt --shard 2/2", "--shard", 2),
    ("show RUN vectors.txt --min-probability=x", "or calibrated, got 'x'", 2),
    ("select RUN vectors.txt -o a.json --comments=#", "has no use", 2),
    ("evaluate RUN --model=x", "OPTION=VALUE", 2),
    ("tag RUN vectors.txt --jsno", "Did you mean --json?", 2),
    ("convert -q a.conll -o a.xml", "--to", 2),
    ("convert -q a.conll --to=brat", "folder for brat, got -", 1),
    ("convert -q a.conll -o b.conll --tags --scheme=BIO", "scheme", 1),
    ("convert -q a.conll -o b.conll --format=jsonl", "a.conll:1", 1),
    ("convert -q a.conll -o b.conll --label-column=0", "columns", 1),
    ("compare a.conll a.conll --against vectors.txt", "repeats", 1),
    ("compare a.conll vectors.txt --tags --rule=strict", "are for spans", 2),
    ("compare CORPUS CORPUS", "jaxner evaluate ", 1),
    # The page's JSON once replaced that of --json.
    ("score a.conll --json=x.json -ox.html", "share x.json", 1),
    ("score a.conll -ox.pdf", ".html", 1),
]


@pytest.mark.parametrize(("line", "message", "status"), CASES)
def test_what_cannot_be_is_a_line_and_leaves_no_file(
    line, message, status, corpus, tiny_run, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    write_vectors(tmp_path, dim=100)
    Path("a.conll").write_text("Rome B-LOC B-LOC\n")
    for name, path in (("CORPUS", corpus), ("RUN", tiny_run)):
        line = line.replace(name, str(path))
    with pytest.raises(SystemExit) as end:
        cli.run(shlex.split(line + " --output=run" * line.startswith("train")))
    (text,) = [x for x in capsys.readouterr().err.splitlines() if x[-1] != "…"]
    assert end.value.code == status
    assert message in text
    assert {*os.listdir()} == {"vectors.txt", "a.conll"}


def test_a_run_is_writable_before_it_is_calibrated(tiny_run, capsys, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, _: Path(path) != tiny_run)
    with pytest.raises(SystemExit):
        cli.run(["calibrate", str(tiny_run)])
    output, errors = capsys.readouterr()
    assert (output, "no permission to write" in errors) == ("", True)


def test_a_bug_keeps_its_traceback_and_the_users_error_can_have_one():
    with pytest.raises(ZeroDivisionError), cli._errors("train"):
        raise ZeroDivisionError
    with pytest.raises(ValueError, match="int"), cli._errors("train"):
        int("x")  # not raised by us
    with pytest.raises(SystemExit), cli._errors("train"):
        raise FileNotFoundError
    for option in (["--verbosity=1"], ["--verbosity", "1"]):
        with pytest.raises(FileNotFoundError):
            cli.run(["score", "nowhere", *option])


@pytest.mark.parametrize("name", ["toaster", *slow("cuda")])
def test_a_platform_that_is_missing_is_a_line(name, tiny_run, tmp_path):
    (path := tmp_path / "a.txt").write_text("Rome")
    command = [sys.executable, "-m", "jaxner", "tag", "-q", tiny_run, path]
    variables = {**os.environ, "JAX_PLATFORMS": name}
    result = subprocess.run(command, env=variables, capture_output=True, text=True)
    if name == "toaster" or result.returncode:  # there may be a GPU
        assert result.returncode == 1
        (line,) = result.stderr.splitlines()
        assert re.match(f"jaxner tag: .*{name}", line)


@pytest.mark.skipif(sys.platform == "win32", reason="needs a shell")
@pytest.mark.parametrize(
    ("redirection", "status", "text"),
    [
        ("| :", 141, ""),
        (">&-", 141, ""),
        (">/dev/full", 1, "jaxner --help: [Errno 28] No space left on device\n"),
        (">/dev/null 2>&-", 0, ""),
        ("<&- >/dev/null", 0, ""),
    ],
)
def test_an_output_that_takes_nothing(redirection, status, text):
    """The tests of each command have others; here, nothing comes after its end."""
    line = f"{sys.executable} -m jaxner --help {redirection}; exit ${{PIPESTATUS[0]}}"
    line = f"trap '' PIPE; {line}" if redirection == "| :" else line
    bash = subprocess.run(["bash", "-c", line], cwd=ROOT, capture_output=True)
    assert (bash.returncode, bash.stdout, bash.stderr.decode()) == (status, b"", text)


@pytest.mark.parametrize("start", ["-m jaxner", "-P script.py"])
@pytest.mark.parametrize("line", ["score a.conll -q -o x.html", "options grn"])
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
    process = subprocess.run(command, text=True, **options)
    last = process.stderr.splitlines()[-1:]
    is_script = "script" in start
    assert last == ["ModuleNotFoundError: No module named 'missing'"] * is_script


def test_choices_that_commands_repeat_are_those_of_the_library():
    hint = typing.get_type_hints(evaluate.evaluate)["decoding"]
    assert set(typing.get_args(hint)) == {*tagging.DECODINGS, "n_best"}
    assert SPLITS == corpora.SPLITS


@pytest.fixture
def patch(monkeypatch):
    values = {k: v for k, v in jax.config.values.items() if "compilation_cache" in k}
    yield monkeypatch
    for name, value in values.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()


def test_a_choice_goes_before_the_variable_of_jax(patch, tiny_run, tmp_path):
    patch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache.folder() == tmp_path / "jaxner"
    patch.setenv("JAX_COMPILATION_CACHE_DIR", "given")
    folder = jax.config.jax_compilation_cache_dir
    cache.use(None)
    assert jax.config.jax_compilation_cache_dir == folder
    patch.delenv("JAX_COMPILATION_CACHE_DIR")
    jax.config.update("jax_compilation_cache_dir", None)
    load(tiny_run)  # as a command does
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
    patch.delenv("XDG_CACHE_HOME")
    patch.setattr(sys, "platform", "win32")
    patch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    assert cache.folder() == tmp_path / "local" / "jaxner"
