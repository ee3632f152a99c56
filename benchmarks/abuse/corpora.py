"""Files of a corpus with random damage, through the commands that read them."""

from __future__ import annotations

import gzip
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from absl import flags

from benchmarks.abuse.flips import outcome
from benchmarks.abuse.victim import Victim
from jaxner.commands import evaluate
from jaxner.training import run as training


def attack(victim: Victim, seed: int, count: int) -> tuple[str, list[dict[str, Any]]]:
    """Damages files at random; returns a title and the rows of a table."""
    rng, rows = random.Random(seed), {}
    original = (victim.corpus / "test.conll").read_bytes()
    for number in range(count):
        kind = list(MUTATIONS)[number % len(MUTATIONS)]
        path = victim.folder / "mutated.conll"
        path.write_bytes(MUTATIONS[kind](original, rng))
        row = rows.setdefault(kind, _row(kind))
        _count(row, "evaluate", outcome(lambda p=path: _evaluated(victim, p)))
        if number < len(MUTATIONS):  # a run is trained on one of each kind
            corpus = _corpus_with(victim, kind, rng)
            _count(row, "train", outcome(lambda c=corpus: _trained(victim, c)))
    title = "corpora: damaged files through jaxner evaluate and jaxner train"
    return title, list(rows.values())


def _count(row: dict[str, Any], command: str, found: str) -> None:
    name = {"harmless": "taken", "found": "told"}.get(found, "wrong")
    if name == "wrong":
        row["wrong"] += 1
        print(f"{command} of {row['damage']}: {found}")
    else:
        row[f"{command}: {name}"] += 1


def _row(kind: str) -> dict[str, Any]:
    names = [f"{c}: {n}" for c in ("evaluate", "train") for n in ("taken", "told")]
    return {"damage": kind, **dict.fromkeys(names, 0), "wrong": 0}


def _evaluated(victim: Victim, data: Path) -> bool:
    values = flags.FlagValues()
    evaluate.define_flags(values)
    values(["jaxner", f"--workdir={victim.reference}", f"--data={data}"])
    evaluate.run(values)
    return True


def _corpus_with(victim: Victim, kind: str, rng: random.Random) -> Path:
    folder = victim.folder / "mutated"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(victim.corpus, folder)
    path = folder / "train.conll"
    path.write_bytes(MUTATIONS[kind](path.read_bytes(), rng))
    return folder


def _trained(victim: Victim, corpus: Path) -> bool:
    config = victim.config(corpus)
    config.num_epochs = 1
    shutil.rmtree(victim.folder / "trained", ignore_errors=True)
    training.main_run(config, victim.folder / "trained")
    return True


def _flip(content: bytes, rng: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(rng.randrange(1, 20)):
        changed[rng.randrange(len(changed))] = rng.randrange(256)
    return bytes(changed)


def _cut(content: bytes, rng: random.Random) -> bytes:
    return content[: rng.randrange(len(content))]


def _lines(content: bytes, rng: random.Random, change: Callable[[bytes], bytes]):
    lines = content.split(b"\n")
    tokens = [place for place, line in enumerate(lines) if line]
    for _ in range(rng.randrange(1, 6)):
        place = rng.choice(tokens)
        lines[place] = change(lines[place])
    return b"\n".join(lines)


def _odd_label(line: bytes) -> bytes:
    return line.rpartition(b" ")[0] + b" I-\xc2\xa0PER"


MUTATIONS: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "bytes changed": _flip,
    "cut": _cut,
    "lines without a label": lambda c, r: _lines(c, r, lambda x: x.split(b" ")[0]),
    "lines with more columns": lambda c, r: _lines(c, r, lambda x: x + b" x y"),
    "odd labels": lambda c, r: _lines(c, r, _odd_label),
    "NUL and controls": lambda c, r: _lines(c, r, lambda x: b"\0\x1b\x07" + x),
    "long lines": lambda c, r: _lines(c, r, lambda x: b"y" * 200_000 + x),
    "no blank lines": lambda c, r: c.replace(b"\n\n", b"\n"),
    "CRLF and BOM": lambda c, r: b"\xef\xbb\xbf" + c.replace(b"\n", b"\r\n"),
    "UTF-16": lambda c, r: c.decode().encode("utf-16"),
    "gzip, cut": lambda c, r: gzip.compress(c)[: -r.randrange(1, 200)],
    "random bytes": lambda c, r: r.randbytes(r.randrange(4000)),
    "empty": lambda c, r: b"",
}
