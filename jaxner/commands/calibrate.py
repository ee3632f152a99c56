"""Calibrates a run's probabilities by a temperature fitted on its dev split.

    jaxner calibrate --workdir runs/grn
    jaxner calibrate --workdir runs/grn --test --precision 0.98

The command stores the temperature in the run's folder (calibration.json);
from then on, `jaxner.load` uses it for probabilities. Labels by Viterbi do
not change. The table shows the expected calibration error and the Brier score
before and after, for predicted labels and predicted entities. `--precision`
and `--recall` print the threshold for `jaxner.entities(…, min_probability=…)`
that reaches this precision or recall on dev.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from pathlib import Path
from typing import Any

from rich.table import Table

from jaxner import fields, tagger, writing
from jaxner.answers import calibrating
from jaxner.answers.calibrating import Measured
from jaxner.evaluation.calibration import Calibration
from jaxner.terminal import LineConsole
from jaxner.training import prepare
from jaxner.wording import counted
from jaxner.workdir import Workdir

console = LineConsole()


def declare(commands: Any) -> None:
    """Adds the command to the subparsers of `jaxner`."""
    one = commands.add_parser(
        "calibrate",
        help="calibrates a run's probabilities",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    one.add_argument("--workdir", required=True, help="folder of the run")
    one.add_argument(
        "--test", action="store_true", help="measure on the test split, too"
    )
    share, size = fields.argument(fields.Share), fields.argument(fields.Size)
    wanted = "print the threshold that reaches this %s on dev, from 0 to 1"
    one.add_argument("--precision", type=share, help=wanted % "precision")
    one.add_argument("--recall", type=share, help=wanted % "recall")
    about = "for the thresholds, take entities from N labellings; default: 1"
    one.add_argument("--n-best", type=size, default=1, metavar="N", help=about)
    one.add_argument("--json", help="file to write all figures to, as JSON")
    one.set_defaults(run=calibrate)


def calibrate(options: argparse.Namespace) -> dict[str, Any]:
    """Runs `jaxner calibrate`; returns the figures."""
    writing.check(options.json)
    folder = Workdir(options.workdir)
    raw = dataclasses.replace(tagger.load(options.workdir), temperature=1.0)
    data = folder.read_json("config.json")["data"]
    dev = prepare.load_split(data, "dev")
    fitted = calibrating.fit(raw, dev)
    _print_fit(fitted, dev.name)
    new = dataclasses.replace(raw, temperature=fitted.temperature)
    splits = {"dev": dev}
    if options.test:
        splits["test"] = prepare.load_split(data, "test")
    measured = {
        name: (calibrating.measure(raw, split), calibrating.measure(new, split))
        for name, split in splits.items()
    }
    table = _table()
    for name, (before, after) in measured.items():
        _add(table, name, fitted.temperature, before, after)
    console.print(table)
    _warn_if_worse(*measured["dev"])
    kept = {**fitted._asdict(), "step": _best_step(folder)}
    for name, (before, after) in measured.items():
        sides = {"before": _figures(before), "after": _figures(after)}
        kept[name] = {**sides, "sha256": splits[name].sha256}
    curve = measured["dev"][1].curve
    if curve is None and (options.precision or options.recall):
        raise ValueError("--precision and --recall are of entities; this run has tags")
    folder.write_json(tagger.CALIBRATION, kept)
    console.print(f"Kept in {folder.path / tagger.CALIBRATION}", markup=False)
    if options.n_best > 1:
        curve = calibrating.measure(new, dev, n_best=options.n_best).curve
    result = {**kept, "thresholds": _thresholds(options, curve)}
    _write(options.json, result, curve)
    return result


def _print_fit(fitted: calibrating.Fit, name: str) -> None:
    console.print(
        f"Temperature {fitted.temperature:.4f}, fitted on "
        f"{counted(fitted.sentences, 'sentence')} of {name} dev: negative log-"
        f"likelihood {fitted.before:.4f} nats a token before, {fitted.after:.4f} after"
    )
    if fitted.temperature == 1.0:
        console.print("No other temperature makes the labels of dev more probable")
    if fitted.left_out:
        console.print(
            f"{counted(fitted.left_out, 'sentence')} with labels unseen in training "
            "left out"
        )


def _write(path: str | None, result: dict[str, Any], curve: Any) -> None:
    if path:
        whole = {**result, "curve": curve.to_dict() if curve else None}
        Path(path).write_text(json.dumps(whole, indent=2) + "\n", "utf-8")


def _warn_if_worse(before: Measured, after: Measured) -> None:
    if worse := _worse(before, after):
        console.print(
            f"Warning: on dev the temperature raises the calibration error of {worse}, "
            "though it makes the gold labels more probable. To undo it, delete the "
            "file named below."
        )


def _worse(before: Measured, after: Measured) -> str:
    """Returns what has a larger calibration error after: "tokens and entities"."""
    names = []
    for name in ("tokens", "entities"):
        old, new = getattr(before, name), getattr(after, name)
        if old is not None and new is not None and new.error > old.error:
            names.append(name)
    return " and ".join(names)


def _best_step(folder: Workdir) -> int | None:
    with folder.best(read_only=True) as best:
        return best.step


def _figures(one: Measured) -> dict[str, Any]:
    return {
        "tokens": one.tokens.to_dict(),
        "entities": one.entities.to_dict() if one.entities else None,
    }


def _table() -> Table:
    table = Table(title="Calibration")
    table.add_column("split")
    table.add_column("of")
    for name in ("number", "right", "T", "probability", "ECE", "Brier"):
        table.add_column(name, justify="right")
    table.caption = (
        "right: percent; T: temperature; probability: mean, in percent; ECE: expected "
        "calibration error of 15 bins, in percent (best: 0); Brier (best: 0)"
    )
    return table


def _add(table: Table, split: str, temperature: float, before, after) -> None:
    for what in ("tokens", "entities"):
        for degrees, side in ((1.0, before), (temperature, after)):
            one: Calibration | None = getattr(side, what)
            if one is not None:
                table.add_row(
                    split,
                    what,
                    f"{one.reliability.counts.sum():,}",
                    f"{100 * one.share:.2f}",
                    f"{degrees:.3f}",
                    f"{100 * one.mean:.2f}",
                    f"{100 * one.error:.2f}",
                    f"{one.brier:.4f}",
                )
    table.add_section()


def _thresholds(options: argparse.Namespace, curve) -> dict[str, float | None]:
    found: dict[str, float | None] = {}
    for name in ("precision", "recall"):
        wanted = getattr(options, name)
        if wanted is None:
            continue
        threshold = getattr(curve, f"for_{name}")(wanted)
        found[name] = threshold
        if threshold is None:
            highest = max(getattr(curve, name), default=float("nan"))
            hint = "; --n-best 10 finds more entities" if name == "recall" else ""
            console.print(
                f"No threshold reaches {name} {100 * wanted:.2f} on dev; the highest "
                f"is {100 * highest:.2f}{hint}"
            )
            continue
        i = list(curve.thresholds).index(threshold)
        kept = counted(int(curve.kept[i]), "entity", "entities")
        console.print(
            f"min_probability={threshold:.4f} keeps {kept} of dev: "
            f"precision {100 * curve.precision[i]:.2f}, recall "
            f"{100 * curve.recall[i]:.2f}"
        )
    return found
