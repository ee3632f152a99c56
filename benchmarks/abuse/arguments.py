"""Odd command lines: each gives an error of a few lines, or works as documented."""

from __future__ import annotations

from typing import Any

from benchmarks.abuse.victim import Victim, jaxner_command

_MOST_LINES = 12


_NEW = "--workdir={new}"
_TRAIN = ["train", "--config=grn", _NEW, "--config.data.dir={corpus}"]
_EVALUATE = ["evaluate", "--workdir={run}"]
_ODD = [
    ["train"],
    ["train", "--config="],
    ["train", "--config", "no such config", _NEW],
    ["train", "--config=grn:nothing", _NEW],
    ["train", "--config=grn:sample,crf=maybe", _NEW],
    ["train", "--config=/etc/passwd", _NEW],
    ["train", "--config=grn", _NEW, "--config.data.dir={nowhere}"],
    ["train", "--config=grn", _NEW, "--config.data.dir={a_file}"],
    [*_TRAIN, "--config.optimizer.learning_rate=-1"],
    [*_TRAIN, "--config.optimizer.learning_rate=fast"],
    [*_TRAIN, "--config.num_epochs=0"],
    [*_TRAIN, "--config.num_epochs=-3"],
    [*_TRAIN, "--config.batch_size=0"],
    [*_TRAIN, "--config.batch_size=1e3"],
    [*_TRAIN, "--config.model.head.dropout=1.5"],
    [*_TRAIN, "--config.model.head.dropout=-0.1"],
    [*_TRAIN, "--config.model.head.name=dance"],
    [*_TRAIN, "--config.model.encoder.hidden_dim=0"],
    [*_TRAIN, "--config.data.scheme=IOBES2"],
    [*_TRAIN, "--config.data.encoding=utf-7000"],
    [*_TRAIN, "--config.data.label_column=99"],
    [*_TRAIN, "--config.data.vectors={nowhere}"],
    [*_TRAIN, "--config.data.vectors={corpus}"],
    [*_TRAIN, "--config.seed=-1"],
    [*_TRAIN, "--config.x=1"],
    [*_TRAIN, "--confug.num_epochs=1"],
    [*_TRAIN, "left", "over"],
    ["train", "--config=grn", "--workdir={a_file}"],
    ["train", "--config=grn", "--workdir={run}"],
    ["evaluate"],
    ["evaluate", "--workdir={nowhere}"],
    ["evaluate", "--workdir={a_file}"],
    ["evaluate", "--workdir={corpus}"],
    [*_EVALUATE, "--data={nowhere}"],
    [*_EVALUATE, "--data={corpus}"],
    [*_EVALUATE, "--data={run}/config.json"],
    [*_EVALUATE, "--split=tset"],
    [*_EVALUATE, "--rule=loose"],
    [*_EVALUATE, "--model=encoder"],
    [*_EVALUATE, "--model=encoder.hidden_dim=64"],
    [*_EVALUATE, "--model=head.name=softmax"],
    [*_EVALUATE, "--output={nowhere}/x.conll"],
    [*_EVALUATE, "--token_column=-7"],
    ["sweep"],
    ["sweep", "--workdir={nowhere}"],
    ["sweep", "--workdir={run}", "--samples=many"],
    ["sweep", "--workdir={run}", "--plot=x.gi"],
    ["reproduce", "--cells=none"],
    ["dance"],
    [""],
]


def attack(victim: Victim) -> tuple[str, list[dict[str, Any]]]:
    """Runs every odd command line; returns a title and the rows of a table."""
    rows: dict[str, dict[str, Any]] = {}
    for command in odd(victim):
        row = rows.setdefault(
            command[0], {"command": command[0], "lines": 0, "told": 0, "wrong": 0}
        )
        done = jaxner_command(command)
        lines = done.stdout.splitlines()
        is_told = done.returncode in (1, 2) and 1 <= len(lines) <= _MOST_LINES
        is_told &= "Traceback" not in done.stdout
        row["lines"] += 1
        row["told" if is_told else "wrong"] += 1
        if not is_told:
            print(
                f"{' '.join(command)}: status {done.returncode}\n{done.stdout[-600:]}"
            )
    return "arguments: odd command lines", list(rows.values())


def odd(victim: Victim) -> list[list[str]]:
    """Lists command lines that cannot work."""
    places = {
        "run": victim.reference,
        "corpus": victim.corpus,
        "a_file": victim.corpus / "train.conll",
        "nowhere": victim.folder / "nowhere",
        "new": victim.folder / "new",
    }
    return [[argument.format(**places) for argument in line] for line in _ODD]
