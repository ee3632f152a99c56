"""Imports between packages point down only, and host code imports no JAX."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MODULES = sorted((ROOT / "jaxner").rglob("*.py"))

# Bottom first: a room may import itself and the rooms before it.
ORDER = (
    *(
        "__version__",
        "submodule",
        "types",
        "errors",
        "fields",
        "wording",
        "outputs",
        "cache",
    ),
    *("terminal", "devices", "arguments", "archive", "data", "driver", "inference"),
    *("models", "runs", "checkpoints", "evaluation", "tagger", "tagging"),
    *("answers", "exporting", "exported", "stream", "training"),
    *("configuration", "families", "examples", "hub", "onnx", "analysis", "serving"),
    *("integrations", "spellings", "cli", "commands", "__main__", "__init__"),
)
HOST = {"types", "errors", "fields", "data", "evaluation", "runs", "outputs"}
HOST |= {"terminal", "arguments", "wording", "archive"}
DEVICE_LIBRARIES = {"jax", "flax", "optax", "orbax"}


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
    room = path.relative_to(ROOT / "jaxner").parts[0].removesuffix(".py")
    for name in imports(path):
        parts = name.split(".")
        if name == "jaxner":  # methods that call functions above them
            assert room in ("tagger", "integrations")
        elif parts[0] == "jaxner":
            rooms = ORDER[: ORDER.index(room) + 1]
            assert parts[1] in rooms, f"{room} imports {name}"
        assert parts[0] not in ("train", "evaluate", "configs", "tests")
        if room in HOST:
            assert parts[0] not in DEVICE_LIBRARIES, f"{room} imports {name}"


def test_slow_libraries_are_imported_by_the_one_command_that_needs_them():
    pairs = {(x.split(".")[0], path.stem) for path in MODULES for x in imports(path)}
    slow = {pair for pair in pairs if pair[0] in ("seqeval", "sklearn")}
    assert slow == {("seqeval", "evaluate"), ("sklearn", "selection")}


def test_configs_import_only_what_they_are_made_of():
    for path in (ROOT / "configs").glob("[!_]*.py"):
        for name in imports(path):
            if name.split(".")[0] in ("configs", "jaxner"):
                assert name.split(".")[1] in ("configuration", "errors", "families")
