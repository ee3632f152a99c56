"""Imports between packages point down only, and host code imports no JAX."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MODULES = sorted((ROOT / "jaxner").rglob("*.py"))
BENCHMARKS = sorted((ROOT / "benchmarks").rglob("*.py"))

# What each room may import from the package, besides itself.
ALLOWED = {
    "types": set(),
    "ranges": set(),
    "fields": {"ranges"},
    "arguments": {"fields", "wording"},
    "checked": {"fields"},
    "calibrations": {"integrity", "workdir"},
    "data": {"types", "integrity", "writing", "wording", "fields", "checked"}
    | {"arguments"},
    "inference": {"types"},
    "models": {"types", "fields", "inference", "wording"},
    "writing": set(),
    "terminal": set(),
    "wording": set(),
    "integrity": {"writing"},
    "saving": set(),
    "checkpoints": {"integrity", "saving"},
    "workdir": {"checkpoints", "data", "integrity", "writing"},
    "configuration": {"fields", "models", "training"},
    "evaluation": {"data", "wording", "writing"},
    "building": {"arguments", "data", "models"},
    "tagger": {"types", "building", "data", "models", "workdir", "integrity"}
    | {"arguments", "calibrations"},
    "devices": set(),
    "batched": {"types", "arguments", "data", "devices", "models", "tagger"},
    "decoding": {"types", "fields", "data", "models", "inference", "tagger"},
    "tagging": {"types", "data", "models", "inference", "tagger", "batched"}
    | {"decoding", "arguments", "checked"},
    "answers": {"types", "data", "models", "inference", "tagger", "batched"}
    | {"tagging", "decoding", "evaluation", "arguments", "checked", "fields"},
    "streaming": {"types", "data", "tagger", "tagging"},
    "pretrained": {"types", "data", "models"},
    "training": {"types", "data", "models", "inference", "workdir", "pretrained"}
    | {"fields", "devices", "evaluation", "tagging", "integrity", "tagger"}
    | {"terminal", "wording", "arguments"},
    "analysis": {"types", "data", "models", "inference", "tagger", "tagging"}
    | {"evaluation", "answers", "decoding"},
    "reproduce": {"fields", "data", "evaluation", "training", "workdir", "tagging"}
    | {"analysis", "tagger", "configuration", "terminal", "writing"},
    "commands": {"fields", "analysis", "configuration", "data", "evaluation"}
    | {"reproduce", "streaming", "tagging", "training", "workdir"}
    | {"answers", "decoding", "tagger", "terminal", "writing", "wording"},
    "__main__": {"commands", "training"},
    "__init__": {"tagging", "tagger", "analysis", "answers", "data", "models"}
    | {"training"},
}
HOST = {"types", "fields", "data", "evaluation", "integrity", "writing", "wording"}
HOST |= {"terminal", "arguments", "checked", "ranges"}
DEVICE_LIBRARIES = {"jax", "flax", "optax", "orbax"}


def room_of(path):
    first = path.relative_to(ROOT / "jaxner").parts[0]
    return first.removesuffix(".py")


def imports(path):
    """Names of the modules that a file imports when it is loaded."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    lazy = {
        node
        for outer in ast.walk(tree)
        if isinstance(outer, ast.If) and "TYPE_CHECKING" in ast.dump(outer.test)
        for node in ast.walk(outer)
    }
    for node in ast.walk(tree):
        if node in lazy:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_point_down(path):
    room = room_of(path)
    for name in imports(path):
        parts = name.split(".")
        if parts[0] == "jaxner":
            assert parts[1] in ALLOWED[room] | {room}, f"{room} imports {name}"
        assert parts[0] not in ("train", "evaluate", "configs", "tests")
        if room in HOST:
            assert parts[0] not in DEVICE_LIBRARIES, f"{room} imports {name}"


@pytest.mark.parametrize(
    "path", MODULES + BENCHMARKS, ids=lambda p: str(p.relative_to(ROOT))
)
def test_modules_can_be_held_in_the_head(path):
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 350
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            body = node.body[1:] if ast.get_docstring(node) else node.body
            lines = body[-1].end_lineno - body[0].lineno + 1 if body else 0
            assert lines <= 40, f"{node.name} has {lines} lines"


def test_one_module_knows_where_configs_lie():
    """So that they can move."""
    for path in (ROOT / "jaxner").rglob("*.py"):
        code = ast.unparse(without_docstrings(ast.parse(path.read_text("utf-8"))))
        if path.name not in ("shipped.py", "commits.py"):
            assert "'configs'" not in code, path
        if path.name != "shipped.py":
            assert "spec_from_file" not in code, path
        if path.name not in ("programs.py", "__init__.py"):  # a lazy name's home
            assert "import_module" not in code, path
        assert "'train.py'" not in code, path


def without_docstrings(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            node.body = [
                x
                for x in node.body
                if not (isinstance(x, ast.Expr) and isinstance(x.value, ast.Constant))
            ] or [ast.Pass()]
    return tree


def test_configs_import_only_what_they_are_made_of():
    for path in (ROOT / "configs").glob("[!_]*.py"):
        for name in imports(path):
            if name.split(".")[0] in ("configs", "jaxner"):
                assert name.startswith("jaxner.configuration.")
