"""Every example in a docstring and every code block of README and docs runs.

The site and the package name the same; `.ci/run` builds the site, without warnings.
"""

import doctest
import importlib.util
import os
import pkgutil
import pydoc
import re
import shlex
import shutil
import stat
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import jaxner
from docs import reference
from jaxner import cli, configuration, fields
from jaxner.data import corpora, formats, schemes
from jaxner.training import schema
from tests.tiny import output_of

ROOT = Path(__file__).parents[1]
DOCS = sorted(ROOT.glob("docs/*.md"))
PAGES = ["README.md", *(f"docs/{path.name}" for path in DOCS)]
MODULES = [
    *("benchmarks.measure", "reproduce.plan", "reproduce.queue", "reproduce.tables"),
    *(m.name for m in pkgutil.walk_packages(jaxner.__path__, "jaxner.")),
]
EXPERIMENTS = ("jaxner.analysis.", "jaxner.answers.temperature", "jaxner.examples")
RUNS = {"runs/grn": "tiny_run", "runs/att": "att_run", "runs/uanet": "uanet_run"}
RUNS |= {"runs/hub": "hub_run"}
CONFIGS = {"grn": "tiny_run", "cross_bilstm": "att_run", "uanet": "uanet_run"}


def examples_of(name):
    file = Path(importlib.util.find_spec(name).origin)
    lines = file.read_text(encoding="utf-8").splitlines()
    return "\n".join(x for x in lines if x.strip().startswith((">>> ", "... ")))


def is_slow(name):
    return "runs/uanet" in examples_of(name) or name.startswith(EXPERIMENTS)


@pytest.fixture
def with_runs(request, tmp_path, monkeypatch):
    """Makes a working directory in which the runs that a text names are finished."""
    # `test_exported` has programs for all.
    monkeypatch.setattr("jaxner.exporting.PLATFORMS", ("cpu",))

    def enter(text):
        (tmp_path / "runs").mkdir()
        for path, fixture in RUNS.items():
            if path in text:
                (tmp_path / path).symlink_to(request.getfixturevalue(fixture))
        monkeypatch.chdir(tmp_path)

    return enter


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] * is_slow(n)) for n in MODULES]
)
def test_docstring_examples(name, with_runs):
    with_runs(examples_of(name))
    assert not doctest.testmod(importlib.import_module(name)).failed


class Block(NamedTuple):
    """A fenced block of a page; one with a title is the content of that file."""

    language: str
    title: str
    text: str


def blocks_of(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    fence = r'^```(\w*)(?: title="([^"]+)")?\n(.*?)^```$'
    return [Block(*x) for x in re.findall(fence, text, re.DOTALL | re.MULTILINE)]


def pages_with(language, *slow):
    """The pages that have blocks to run, marked as slow if one has one of the words."""
    for page in PAGES:
        text = "".join(b.text for b in blocks_of(page) if b.language == language)
        marks = [pytest.mark.slow] * any(word in text for word in slow)
        if text:
            yield pytest.param(page, marks=marks)


@pytest.mark.parametrize("page", PAGES)
def test_pages_have_only_blocks_that_are_run(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    languages = {"sh", "python", "diff", "text", "bibtex", "js"}  # js: see test_onnx
    blocks = blocks_of(page)
    assert {block.language for block in blocks} <= languages
    assert len(re.findall(r"^\s*```", text, re.MULTILINE)) == 2 * len(blocks)
    assert all(block.title for block in blocks if block.language == "diff")


def test_the_readme_begins_with_training_and_has_the_command_of_the_tests():
    """`.ci/run` looks for it."""
    _, first, *rest = (b.text for b in blocks_of("README.md") if b.language == "sh")
    assert "jaxner train grn\n" in first
    assert ["-m pytest" in text for text in rest].count(True) == 1


@pytest.mark.parametrize("page", [*pages_with("python", "probes", "n_best", "train(")])
def test_python_blocks(page, with_runs):
    namespace = {}
    blocks = [b.text for b in blocks_of(page) if b.language == "python" and not b.title]
    with_runs("".join(blocks))
    for block in blocks:
        exec(compile(block, page, "exec"), namespace)


def write_titled(folder, block):
    """Makes the file that a block is the content of, or changes it by a diff."""
    file = folder / block.title
    if block.language != "diff":
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(block.text, "utf-8")
        return
    lines = [line or " " for line in block.text.splitlines()]
    old = "".join(f"{line[1:]}\n" for line in lines if line[0] != "+")
    new = "".join(f"{line[1:]}\n" for line in lines if line[0] != "-")
    text = file.read_text("utf-8")
    assert text.count(old) == 1, old
    file.write_text(text.replace(old, new), "utf-8")


# Stands for the interpreter of the reader's virtual environment: installs nothing, runs
# a test only by its file, takes runs that the tests have trained already, and makes
# other runs small. Everything else is as one types it.
SHIM = """#!{python}
import json, os, sys
from pathlib import Path
arguments = sys.argv[1:]
is_suite = arguments[:2] == ["-m", "pytest"] and ".py" not in str(arguments)
installs = arguments[:3] == ["-m", "pip", "install"] or arguments[:2] == ["-m", "venv"]
if is_suite or installs:
    print("skipped:", *arguments)
    raise SystemExit
if arguments[:3] == ["-m", "jaxner", "train"]:
    name = arguments[3]
    trained = {runs!r}.get(name)
    if trained and not any("--config." in argument for argument in arguments):
        place = Path("runs", name)
        if "-o" in arguments:
            place = Path(arguments[arguments.index("-o") + 1])
        place.parent.mkdir(exist_ok=True)
        if not place.exists():
            place.symlink_to(trained)
        raise SystemExit
    arguments += ["--config.num_epochs=1", "--config.data.num_shapes=1"]
    if name.startswith(("grn", "idcnn")):
        arguments += ["--config.model.encoder.hidden_dim=8"]
os.execv({python!r}, [{python!r}, *arguments])
"""


def fake_data(folder):
    """Writes a corpus and vectors under the names that the pages speak of.

    Few programs are compiled for it: the lengths need one shape, no word is much longer
    than the others, and neither lower case nor a minimal count changes the vocabulary.
    """
    for name in ("conll2003", "vectors"):
        (folder / name).mkdir(parents=True)
    words = set()
    for split in corpora.SPLITS:
        similar = [
            example
            for example in corpora.load("sample", split).examples
            if 8 < len(example.tokens) <= 16 and max(map(len, example.tokens)) == 9
        ]
        text = [
            [(t.lower(), label) for t, label in zip(e.tokens, e.labels, strict=True)]
            for e in similar[:12] * 3
        ]
        words.update(token for rows in text for token, _ in rows)
        documents = [1 + number // 4 for number in range(len(text))]
        formats.write_columns(folder / "conll2003" / f"{split}.conll", text, documents)
    values = np.random.default_rng(0).normal(size=(len(words), 100)).round(3)
    rows = zip(sorted(words), values, strict=True)
    lines = [" ".join([word, *map(str, row)]) + "\n" for word, row in rows]
    (folder / "vectors" / "glove.6B.100d.txt").write_text("".join(lines), "utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("page", [*pages_with("sh")])
def test_shell_blocks(page, tmp_path, request):
    for name in ("train.py", "evaluate.py", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path / name)
    for name in ("configs", "jaxner", "reproduce", "results"):
        shutil.copytree(ROOT / name, tmp_path / name)
    fake_data(tmp_path / "data")
    for split in corpora.SPLITS:  # the embedded corpus, cut short
        small = tmp_path / "data" / "conll2003" / f"{split}.conll"
        shutil.copy(small, tmp_path / "jaxner" / "data" / "sample")
    text = (ROOT / page).read_text("utf-8")
    runs = {
        name: str(request.getfixturevalue(fixture))
        for name, fixture in CONFIGS.items()
        if f"jaxner train {name}" in text
    }
    tools = tmp_path / ".venv" / "bin"
    tools.mkdir(parents=True)
    for name in ("python", "python3"):
        (tools / name).write_text(SHIM.format(python=sys.executable, runs=runs))
    (tools / "jaxner").write_text(f'#!/bin/sh\nexec {tools}/python -m jaxner "$@"\n')
    (tools / "activate").touch()
    for tool in tools.iterdir():
        tool.chmod(stat.S_IRWXU)
    env = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"}
    env.pop("JAXNER_DATA", None)
    for block in blocks_of(page):
        if block.title:
            write_titled(tmp_path, block)
        if block.language == "sh":
            output_of("bash", "-euc", block.text, cwd=tmp_path, env=env)


# --- The site -------------------------------------------------------------------------


def test_every_page_is_in_the_navigation():
    config = (ROOT / "mkdocs.yml").read_text("utf-8")
    pages = re.findall(r"(\w+)\.md$", config, re.MULTILINE)
    assert sorted(pages) == sorted([*(page.stem for page in DOCS), *reference.PAGES])


def test_the_page_of_commands_has_all_options_and_examples_parse(tmp_path, monkeypatch):
    (tmp_path / "my").mkdir()
    (tmp_path / "my" / "test.conll").touch()  # an example has this file
    monkeypatch.chdir(tmp_path)
    text = reference.PAGES["commands"]()
    for name in cli.COMMANDS:
        part = text.partition(f"### jaxner {name}\n")[2].partition("\n### ")[0]
        for action in cli.parser_of(cli.function_of(name))._actions:
            assert action.help.partition(" ")[0] in part
            assert f"`{', '.join(action.option_strings) or action.metavar}" in part
        lines = re.findall(r"^    jaxner (\S.*?)(?:  | [>|] |$)", part, re.MULTILINE)
        for line in lines:  # without remarks
            command, *words = shlex.split(line)
            if "--help" not in words:
                cli.parser_of(cli.function_of(command)).parse(words)


def test_the_page_of_options_has_all_options_of_every_config():
    text = reference.PAGES["options"]()
    sections = re.findall(r"^## (.+)\n\n((?:\|.*\n)*)", text, re.MULTILINE)
    options = {
        f"--config.{path.partition(',')[0]}.{option}".replace("A run.", "")
        for path, table in sections
        for option in re.findall(r"^\| `(\w+)`", table, re.MULTILINE)
    }
    for name in configuration.names():
        config = configuration.load(name)
        assert f"\n## Config {name}\n" in text
        for section in schema.sections(config):
            for field in section.fields.values():  # which needs no source
                assert not re.search("`[A-Z_]+`|[Ss]ee `|Which of", field.meaning)
            parts = re.sub("encoder.(first|then)|refinement.head", "", section.path)
            if parts == section.path and ".parts." not in parts:
                flags = {section.flag(x) for x in section.fields if x != "name"}
                assert flags <= options


@pytest.mark.parametrize("name", PAGES)
def test_values_of_options_of_data_in_the_pages_are_allowed(name):
    text = (ROOT / name).read_text("utf-8")
    all_fields = {**fields.of(schema.Data), **schema.Data.MORE}
    for option, value in re.findall(r"--config\.data\.(\w+)=([^\s`]*)", text):
        hint = all_fields[option].hint
        message = fields.problem(fields.parse(value, hint), hint, option)
        assert message is None or value.isupper(), message  # a placeholder


def test_the_page_of_formats_has_what_each_writer_writes(tmp_path):
    text = reference.PAGES["formats"]()
    for name, format in formats.FORMATS.items():
        part = text.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
        assert all(ending in part for ending in format.endings)
        assert part.startswith(("\nReads ", "\njaxner reads it as "))
        if format.write:
            content = part.partition("```text\n")[2].partition("```")[0]
            (tmp_path / name).write_text(content)
            (example,) = formats.read(tmp_path / name, name).examples
            assert example.tokens == ("Ms", "Ann", "won")
    assert all(f"\n| {scheme} |" in text for scheme in schemes.SCHEMES)


def test_the_page_of_the_environment_has_every_variable_that_the_code_reads():
    code = "".join(path.read_text("utf-8") for path in ROOT.glob("jaxner/**/*.py"))
    lines = "".join(x for x in code.splitlines(True) if "environ" in x or "_DIR" in x)
    names = set(re.findall(r'"([A-Z][A-Z_]+)"', lines)) | {corpora.DATA_VARIABLE}
    assert names <= set(reference.VARIABLES)
    page = reference.PAGES["environment"]()
    assert all(f"| `{name}` |" in page for name in reference.VARIABLES)
    assert all(f"| {status} |" in page for status in cli.STATUSES)


def test_the_page_of_the_api_has_every_public_name_and_no_other():
    text = (ROOT / "docs" / "api.md").read_text("utf-8")
    for name in jaxner._HOMES:
        pattern = rf"::: jaxner\.{name}\n|members: \[[^\]]*\b{name}\b"
        assert re.search(pattern, text), f"add {name} to docs/api.md"
    for name in re.findall(r"^::: (\S+)", text, re.MULTILINE):
        assert pydoc.locate(name) is not None, name


def test_every_public_name_has_its_home_and_every_function_an_example():
    """Type checkers and imports see the same names."""
    code = Path(jaxner.__file__).read_text("utf-8")
    lines = re.findall(r"    from jaxner\.(\S+) import (.+)", code)
    pairs = [(home, x.split()) for home, names in lines for x in names.split(", ")]
    assert {names[-1]: home for home, names in pairs} == jaxner._HOMES
    for _, names in pairs:
        value = getattr(jaxner, names[-1])
        assert value.__name__ == names[0]
        assert isinstance(value, type) or ">>>" in value.__doc__, names
    assert {*jaxner.__all__} == {*jaxner._HOMES}
    assert {*jaxner.__all__, "inference", "data", "__version__"} <= set(dir(jaxner))
    assert all(getattr(jaxner, name) is not None for name in dir(jaxner))
    with pytest.raises(AttributeError, match="has no attribute 'tagg'"):
        jaxner.tagg  # noqa: B018


def test_every_name_of_the_pages_is_there_after_one_import():
    text = " ".join((ROOT / page).read_text("utf-8") for page in PAGES)
    names = {*re.findall(r"\bjaxner(?:\.[A-Za-z_]\w*)+", text)}
    # A module that the reader writes, and an option of spaCy's.
    names -= {"jaxner.models.window", "jaxner.workdir"}
    code = f"import jaxner; print(len([{', '.join(names)}]))"
    assert output_of(sys.executable, "-c", code) == f"{len(names)}\n"
    with pytest.raises(AttributeError, match=r"'jaxner\.data' has no attribute 'x'"):
        jaxner.data.x  # noqa: B018


def test_the_citation_has_the_version_of_the_package():
    assert f"\nversion: {jaxner.__version__}\n" in (ROOT / "CITATION.cff").read_text()


@pytest.mark.parametrize("name", [*PAGES, "CONTRIBUTING.md"])
def test_links_to_files_lead_somewhere(name):
    """On a code host, too, where the site's own pages do not exist."""
    page = ROOT / name
    for link in re.findall(r"\]\((?!http)([^)#]+)", page.read_text("utf-8")):
        assert (page.parent / link).is_file(), link


def test_titles_of_generated_pages_are_links_on_the_site():
    text = reference.on_page_markdown("*Commands*, *File formats*, *else*")
    assert text == "[Commands](commands.md), [File formats](formats.md), *else*"


def test_long_code_breaks_after_punctuation_and_short_code_stays_whole():
    codes = "<code>--config.data.format=</code> <code>n_best</code>"
    html = reference.on_post_page(codes)
    flag = '<span class="flag">--config</span>.<wbr>data.<wbr>format='
    assert html == f"<code>{flag}</code> <code>n_best</code>"
    block = "<pre><code>--config.data.format=conll\n</code></pre>"
    assert reference.on_post_page(block) == block
