"""The README's table of systems is what the configs say."""

import re

import pytest

from configs import __main__ as systems

MODULES = systems.modules()


def test_every_config_of_a_system_is_in_the_table():
    files = {p.stem for p in (systems.README.parent / "configs").glob("[!_]*.py")}
    assert {m.__name__.rpartition(".")[2] for m in MODULES} == files - {"common"}


def test_the_readme_holds_the_table_as_it_is_generated():
    text = systems.README.read_text("utf-8")
    assert systems.inserted(text) == text


def test_a_text_without_marks_is_refused():
    with pytest.raises(ValueError, match="Expected the lines"):
        systems.inserted("no table here")


@pytest.mark.parametrize("module", MODULES, ids=lambda m: m.__name__)
def test_rows_are_complete_and_their_figures_stand_in_the_docstring(module):
    assert len({row.arg for row in module.ROWS}) == len(module.ROWS)
    for row in module.ROWS:
        dataset = row.arg.partition(",")[0]
        assert dataset in ("conll2003", "ontonotes5", "wnut17", "wsj")
        module.get_config(row.arg)
        figure = re.match(r"\d\d\.\d\d?", row.published)
        if dataset == "conll2003" and row.published:
            assert figure is not None
            assert figure[0] in module.__doc__, row


def test_options_of_the_docstring_are_options():
    for module in MODULES:
        found = 0
        for line in module.__doc__.splitlines():
            option = re.match(r" {4}([a-z]+(=[a-z0-9.]+)?) {2,}\S", line)
            if option and not option[1].startswith("python"):
                module.get_config(f"sample,{option[1].replace('=N', '=2')}")
                found += 1
        assert found, f"{module.__name__} lists no option"


def test_what_is_measured_has_its_command():
    """And the other way round: no command without a figure."""
    text = systems.README.read_text("utf-8")
    block = text.partition("--config.data.vectors=$V; seed 0")[2].partition("```")[0]
    commands = set(re.findall(r"^(\S+\.py:\S+)", block, re.MULTILINE))
    measured = {
        f"{module.__name__.rpartition('.')[2]}.py:{row.arg}"
        for module in MODULES
        for row in module.ROWS
        if row.measured
    }
    assert commands == measured
