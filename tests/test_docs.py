"""Every example in a docstring and every code block of the README runs."""

import doctest
import importlib
import inspect
import os
import pkgutil
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import jaxner
from jaxner.data import conll, corpora

ROOT = Path(__file__).parents[1]
MODULES = [
    "benchmarks.measure",
    *(m.name for m in pkgutil.walk_packages(jaxner.__path__, "jaxner.")),
]


SLOW = ("jaxner.analysis.sweeps", "jaxner.analysis.drafts")  # a trained UANet
RUNS = {"runs/grn": "finished", "runs/att": "attending", "runs/uanet": "refining"}


@pytest.fixture
def with_runs(request, tmp_path, monkeypatch):
    """Makes a working directory in which the runs that a text names are finished."""

    def enter(text):
        (tmp_path / "runs").mkdir()
        for place, fixture in RUNS.items():
            if place in text:
                (tmp_path / place).symlink_to(request.getfixturevalue(fixture))
        monkeypatch.chdir(tmp_path)

    return enter


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else [])
        for name in MODULES
    ],
)
def test_docstring_examples(name, with_runs):
    module = importlib.import_module(name)
    with_runs(inspect.getsource(module))
    assert not doctest.testmod(module).failed


def test_public_names_have_an_example():
    for name in vars(jaxner):
        thing = getattr(jaxner, name)
        if callable(thing) and thing.__module__.startswith("jaxner"):
            assert name == "Tagger" or ">>>" in thing.__doc__, name


def readme_blocks(language):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def test_readme_has_only_blocks_that_are_run():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    fences = re.findall(r"^```(\w*)$", text, re.MULTILINE)
    assert set(fences) <= {"", "sh", "python", "text", "bibtex"}
    assert len(readme_blocks("sh")) >= 3
    assert len(readme_blocks("python")) >= 2


def test_readme_python_blocks(with_runs):
    namespace, blocks = {}, readme_blocks("python")
    with_runs("".join(blocks))
    for block in blocks:
        exec(compile(block, "README.md", "exec"), namespace)


# Stands for the interpreter of the README's virtual environment: installs nothing, and
# makes the runs small. Everything else is what the reader would type.
_SHIM = """#!{python}
import os, sys
arguments = sys.argv[1:]
if arguments[:2] in (["-m", "pip"], ["-m", "pytest"], ["-m", "venv"]):
    print("skipped:", *arguments)
    raise SystemExit
if arguments[0] == "train.py":
    arguments += ["--config.num_epochs=1", "--config.data.num_shapes=1"]
    if "configs/grn.py" in str(arguments) or "configs/idcnn.py" in str(arguments):
        arguments += ["--config.model.encoder.hidden_dim=8"]
    if "configs/uanet.py" in str(arguments):
        arguments += ["--config.model.encoder.hidden_dim=8"]
        arguments += ["--config.model.refinement.num_layers=1"]
if arguments[:3] == ["-m", "jaxner", "sweep"]:
    arguments += ["--samples=2"]
os.execv({python!r}, [{python!r}, *arguments])
"""


def fake_data(folder):
    """Writes a corpus and vectors under the names that the README speaks of.

    Few programs are compiled for it: the lengths need one shape, no word is much longer
    than the others, and neither lower case nor a minimal count changes the vocabulary.
    """
    (folder / "conll2003").mkdir(parents=True)
    words = set()
    for split in ("train", "dev", "test"):
        examples = [
            example
            for example in corpora.load("sample", split).examples
            if 8 < len(example.tokens) <= 16 and max(map(len, example.tokens)) == 9
        ][:12]
        tokens = [[token.lower() for token in e.tokens] for e in examples]
        words.update(*tokens)
        rows = [
            list(zip(sentence, e.labels, strict=True))
            for sentence, e in zip(tokens, examples, strict=True)
        ]
        numbers = [1 + i // 4 for i in range(3 * len(rows))]
        file = folder / "conll2003" / f"{split}.conll"
        conll.write(file, rows * 3, documents=numbers)
    (folder / "vectors").mkdir()
    values = np.random.default_rng(0).normal(size=(len(words), 100)).round(3)
    (folder / "vectors" / "glove.6B.100d.txt").write_text(
        "".join(
            f"{word} {' '.join(map(str, row))}\n"
            for word, row in zip(sorted(words), values, strict=True)
        ),
        encoding="utf-8",
    )


@pytest.mark.slow
def test_readme_shell_blocks(tmp_path):
    for name in ("train.py", "evaluate.py", "configs", "jaxner", "pyproject.toml"):
        source = ROOT / name
        copy = shutil.copytree if source.is_dir() else shutil.copy
        copy(source, tmp_path / name)
    fake_data(tmp_path / "data")
    for split in ("train", "dev", "test"):  # the embedded corpus, cut short
        small = tmp_path / "data" / "conll2003" / f"{split}.conll"
        shutil.copy(small, tmp_path / "jaxner" / "data" / "sample")
    tools = tmp_path / ".venv" / "bin"
    tools.mkdir(parents=True)
    for name in ("python", "python3", "pip"):
        shim = _SHIM.format(python=sys.executable)
        if name == "pip":
            shim = f"#!{sys.executable}\nprint('skipped')\n"
        (tools / name).write_text(shim)
        (tools / name).chmod(stat.S_IRWXU)
    env = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"}
    env.pop("JAXNER_DATA", None)
    for block in readme_blocks("sh"):
        done = subprocess.run(
            ["bash", "-euc", block],
            cwd=tmp_path,
            env=env,
            check=False,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, f"{block}\n{done.stdout}\n{done.stderr}"
