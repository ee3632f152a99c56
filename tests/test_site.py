"""What is beside the code: the site, the package, and that both name the same.

`.ci/run` builds the site, without warnings.
"""

import pydoc
import re
from pathlib import Path

import pytest

import jaxner

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs").glob("*.md"))


def test_every_page_is_in_the_navigation():
    config = (ROOT / "mkdocs.yml").read_text("utf-8")
    pages = re.findall(r"(\w+\.md)$", config, re.MULTILINE)
    assert sorted(pages) == [page.name for page in PAGES]


def test_every_public_name_is_in_the_api():
    text = (ROOT / "docs" / "api.md").read_text("utf-8")
    for name in jaxner._HOMES:
        listed = rf"::: jaxner\.{name}\n|members: \[[^\]]*\b{name}\b"
        assert re.search(listed, text), f"add {name} to docs/api.md"


def test_every_name_in_the_api_is_there():
    text = (ROOT / "docs" / "api.md").read_text("utf-8")
    for name in re.findall(r"^::: (\S+)", text, re.MULTILINE):
        assert pydoc.locate(name) is not None, name


def test_every_public_name_has_its_home():
    """Type checkers and imports see the same names."""
    code = Path(jaxner.__file__).read_text("utf-8")
    lines = re.findall(r"    from jaxner\.(\S+) import (\w+) as (\w+)", code)
    assert {name: module for module, _, name in lines} == jaxner._HOMES
    for _, there, name in lines:
        assert getattr(jaxner, name).__name__ == there
    shown = dir(jaxner)
    assert {*jaxner.__all__, "inference", "data", "__version__"} <= set(shown)
    assert all(getattr(jaxner, name) is not None for name in shown)
    with pytest.raises(AttributeError, match="has no attribute 'tagg'"):
        jaxner.tagg  # noqa: B018


def test_the_citation_has_the_version_of_the_package():
    version = re.compile(r'^version\W+([0-9.]+)"?$', re.MULTILINE)
    texts = [(ROOT / x).read_text("utf-8") for x in ("CITATION.cff", "pyproject.toml")]
    assert version.findall(texts[0]) == version.findall(texts[1])
    assert version.findall(texts[1]) == [jaxner.__version__]


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md"])
def test_links_to_files_lead_somewhere(name):
    text = (ROOT / name).read_text("utf-8")
    for link in re.findall(r"\]\((?!http)([^)#]+)", text):
        assert (ROOT / link).is_file(), link
