"""The messages that users meet most, word for word; no other test asserts a sentence.

After a change on purpose: `JAXNER_UPDATE=1 pytest tests/test_messages.py`.
"""

import json
import os
import shutil
import sys
from pathlib import Path

import pytest

import jaxner
from jaxner import errors
from tests import tiny

GOLDEN = Path(__file__).parent / "golden" / "messages.json"


def test_messages(tiny_run, params, corpus, tmp_path, monkeypatch, run):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(corpus, "corpus")
    Path("good.conll").write_text("Rome B-LOC B-LOC\n")
    Path("bad.jsonl").write_text('{"tokens": ["Rome"], "labels": ["B-LOC"]}\n{"tok\n')
    Path("bad.conll").write_text("Rome B-LOC\nfell\n")
    Path("three.txt").write_text("the 1 2 3\nof 1 2 3\n")
    shutil.copytree(tiny_run, "damaged")
    file = Path("damaged/vocabulary.json")
    file.write_bytes(file.read_bytes().replace(b"B", b"b", 1))
    monkeypatch.setitem(sys.modules, "jinja2", None)

    def shown(*arguments):
        return run(*arguments)[1].splitlines()[-1]

    small = [f"--config.{name}={value}" for name, value in tiny.SMALL.items()]
    files = [*small, "--config.data.dir=corpus", "--config.data.vectors=three.txt"]
    messages = {
        "wrong option": shown("score", "good.conll", "--rulle=strict"),
        "unknown config": shown("train", "gnr"),
        "missing file": shown("score", "god.conll"),
        "malformed line": shown("convert", "bad.jsonl", "-oa.conll"),
        "missing label": shown("convert", "bad.conll", "-oa.jsonl"),
        "damaged run": shown("tag", "damaged", "-", "-oa.txt"),
        "missing extra": shown("score", "good.conll", "-oa.html"),
        "unknown encoder": shown("train", "grn:sample,encoder=bilstmm"),
        "wrong dimension": shown("train", "grn", *files, "-orun"),
    }
    with pytest.raises(TypeError) as error:
        jaxner.tag(params, "Rome fell")
    messages["raw text as tokens"] = str(error.value)
    messages = {k: text.replace(f"{tmp_path}/", "") for k, text in messages.items()}
    if "JAXNER_UPDATE" in os.environ:
        GOLDEN.write_text(json.dumps(messages, indent=1, ensure_ascii=False) + "\n")
    assert messages == json.loads(GOLDEN.read_text("utf-8"))


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("import other_half", "No module named 'other_half'"),
        ("from half import part", "cannot import name 'part' from "),
    ],
)
def test_a_package_that_lacks_another(line, reason, tmp_path, monkeypatch):
    """It is not missing, and the file that needs it not damaged."""
    (tmp_path / "half.py").write_text(line)
    monkeypatch.syspath_prepend(tmp_path)
    text = f"A run needs half, whose import fails: {reason}"
    with pytest.raises(ImportError, match=text), errors.using(tmp_path):
        errors.optional("half", "A run")
