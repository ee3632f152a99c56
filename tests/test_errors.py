"""Messages name what can be installed: the project is on no registry."""

from pathlib import Path

from jaxner import errors

ROOT = Path(__file__).parents[1]


def test_no_file_tells_to_install_a_name_that_is_on_no_registry():
    for folder in ("jaxner", "docs", "examples", "configs"):
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in (".py", ".md", ".j2", ".yaml", ".sh"):
                assert "jaxner[" not in path.read_text("utf-8"), path


def test_a_missing_package_is_named_with_its_command():
    error = errors.needs("A report", "matplotlib", "jinja2")
    assert isinstance(error, ImportError)
    assert str(error).endswith("pip install matplotlib jinja2")
