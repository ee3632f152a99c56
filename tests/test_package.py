"""What `jaxner` shows: names, version, help."""

import inspect
import pydoc
import tomllib
from pathlib import Path

import jaxner

ROOT = Path(__file__).parents[1]


def test_the_package_shows_its_names_modules_and_version():
    shown = dir(jaxner)
    assert {*jaxner.__all__, "inference", "data", "__version__"} <= set(shown)
    assert "TYPE_CHECKING" not in shown
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert jaxner.__version__ == project["version"]
    for name in shown:
        assert getattr(jaxner, name) is not None


def test_help_begins_with_what_a_user_needs():
    page = pydoc.plain(pydoc.render_doc(jaxner))
    assert page.index("jaxner.load(") < page.index("PACKAGE CONTENTS")
    for name in ("tag", "entities", "marginals", "n_best", "uncertainty"):
        parameters = list(inspect.signature(getattr(jaxner, name)).parameters.values())
        assert not {"Any", inspect.Parameter.empty} & {
            parameter.annotation for parameter in parameters[:2]
        }
