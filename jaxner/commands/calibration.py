"""`jaxner calibrate`."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Literal

from jaxner import fields, outputs
from jaxner.commands import load, note
from jaxner.errors import InputError, UsageError
from jaxner.wording import counted, start


def calibrate(
    run: fields.Folder,
    /,
    *,
    test: bool = False,
    precision: fields.Share | None = None,
    recall: fields.Share | None = None,
    keep_temperature: bool = False,
    risk: fields.Chance | None = None,
    of: Literal["misses", "errors"] = "misses",
    type_: list[str] | None = None,
    confidence: fields.Chance | None = None,
    n_best: fields.Size = 1,
) -> dict[str, Any]:
    """Calibrates a run's probabilities by a temperature fitted on its dev split.

        jaxner calibrate runs/grn
        jaxner calibrate runs/grn --test --precision 0.98
        jaxner calibrate runs/grn --risk 0.1 --of errors --type PER

    The command stores the temperature in the run's folder (calibration.json);
    from then on, `jaxner.load` uses it for probabilities. Labels by Viterbi do
    not change. The temperature stays 1 if any other makes entities worse
    calibrated, or if dev has no errors from which to fit one.
    The table shows the expected calibration error and the Brier score before and
    after, for predicted labels and predicted entities. `--precision` and
    `--recall` print the threshold that reaches them on dev, for
    `jaxner.entities(…, min_probability=…)`. `--risk` stores a threshold for each
    type that bounds the share of missed or of wrong entities on new text; each
    call replaces what earlier ones stored.

    Args:
        run: Folder of the run.
        test: Measure on the test split, too.
        precision: Print the threshold that reaches this precision on dev, from 0 to 1.
        recall: Print the threshold that reaches this recall on dev, from 0 to 1.
        keep_temperature: Keep the fitted temperature even if entities are worse
            calibrated, or dev has no errors.
        risk: Store thresholds that bound this risk, between 0 and 1.
        of: Risk to bound: the share of gold entities that are missed, or of kept
            entities that are wrong.
        type_: Store a threshold for this type; may repeat; default: each that can
            have one.
        confidence: Probability with which the bound on errors holds; default: 0.9.
        n_best: Take the entities for thresholds from the N best labellings.

    Returns:
        The `temperature`, the one `fitted`, and the negative log-likelihood `before`
        and `after`, in nats per token; the number of `sentences` and of those
        `left_out`; the `step` of the weights; calibration on `dev` (with --test also on
        `test`); with --risk the `guarantees`, a threshold for each type; the
        `thresholds` that reach --precision and --recall, and the `curve` of both by
        threshold.
    """
    from jaxner.answers import temperature
    from jaxner.answers.entities import predict
    from jaxner.checkpoints import Checkpoints
    from jaxner.data import schemes
    from jaxner.evaluation import card, guarantees, report
    from jaxner.runs import CALIBRATION, Workdir
    from jaxner.terminal import LineConsole
    from jaxner.training import corpus

    if (type_ or of == "errors" or confidence) and not risk:
        raise UsageError("--type, --of and --confidence are for thresholds of --risk")
    if confidence and of != "errors":
        raise UsageError("--confidence is for --of errors")
    log = LineConsole().print
    folder = Workdir(run)
    original = dataclasses.replace(load(run), temperature=1.0)
    outputs.check_permission(folder.path / CALIBRATION)
    # Now, since the run may train on meanwhile.
    step = Checkpoints(folder.part("best"), read_only=True).step
    names = ["dev", "test"] if test else ["dev"]
    splits = {name: corpus.split_of_run(folder, name) for name in names}
    dev = splits["dev"]
    if dev.scheme == schemes.TAGS and (precision or recall or risk):
        message = "--precision, --recall and --risk need entities; this run has tags"
        raise InputError(message)
    if risk and not dev.types():
        raise InputError("--risk needs entities, and dev has none")
    for kind in type_ or ():
        fields.check_word("--type", kind, dev.types())
    fit = temperature.fit(original, dev)
    log(
        f"Temperature {fit.temperature:.4f}, fitted on "
        f"{counted(fit.sentences, 'sentence')} of {dev.name} dev: negative log-"
        f"likelihood {fit.before:.4f} nats a token before, {fit.after:.4f} after"
    )
    if fit.left_out:
        count = counted(fit.left_out, "sentence")
        note(f"Left out {count} with labels that the tagger does not know")
    tagger = dataclasses.replace(original, temperature=fit.temperature)
    result: dict[str, Any] = {**fit._asdict(), "fitted": fit.temperature, "step": step}
    sides = {}
    for name, split in splits.items():
        sides[name] = [temperature.measure(x, split) for x in (original, tagger)]
        before, after = (side.to_dict() for side in sides[name])
        result[name] = {"before": before, "after": after, "sha256": split.sha256}
    log(report.fitted_table(result))
    before, after = (x.entities.error if x.entities else 0 for x in sides["dev"])
    reason = ""
    if fit.temperature == temperature.LOWEST:  # as without a single error on dev
        reason = f"Dev is most probable at the lowest temperature, {temperature.LOWEST}"
    elif after > before:
        reason = "The calibration error of entities on dev rises from "
        reason += f"{before:.4f} to {after:.4f}"
    if reason and not keep_temperature:
        log(f"{reason}: the temperature stays 1 (--keep-temperature keeps it)")
        tagger, result["temperature"] = original, 1.0
    curve = sides["dev"][tagger is not original].curve
    if risk:
        answers = {x: predict(tagger, y, n_best=n_best) for x, y in splits.items()}
        options: dict[str, Any] = {"of": of}
        options |= {"confidence": confidence} if confidence else {}
        types = [*dict.fromkeys(type_ or ())]
        promises = temperature.guarantees(answers["dev"], types, risk, **options)
        rows = [promise._asdict() for promise in promises]
        for row in rows:
            row |= {x: guarantees.risk_on(y, row)[0] for x, y in answers.items()}
        log(report.guarantees_table(rows))
        type_names = {*schemes.types_of(tagger.labels)}
        if absent_types := sorted(type_names - {row["type"] for row in rows}):
            reason = "" if types else " (--type says why)"
            note(start(f"Without a threshold{reason}: {', '.join(absent_types)}"))
        result["guarantees"] = {"n_best": n_best, "types": rows}
    folder.write_json(CALIBRATION, result)
    if (folder.path / "README.md").exists():
        folder.write_text("README.md", card.card(folder))
    note(f"Wrote {folder.path / CALIBRATION}")
    if n_best > 1:
        curve = temperature.measure(tagger, dev, n_best=n_best).curve
    targets = {"precision": precision, "recall": recall}
    result["thresholds"] = {
        name: _threshold(curve, name, value, log)
        for name, value in targets.items()
        if value is not None
    }
    return {**result, "curve": curve.to_dict() if curve else None}


def _threshold(curve: Any, name: str, target: float, log) -> float | None:
    """Returns the threshold that reaches a precision or recall, and logs it."""
    threshold = getattr(curve, f"for_{name}")(target)
    if threshold is None:
        highest = max(getattr(curve, name), default=0.0)  # of no entity
        hint = "; --n-best 10 finds more entities" if name == "recall" else ""
        log(
            f"No threshold reaches {name} {100 * target:.2f} on dev; the highest is "
            f"{100 * highest:.2f}{hint}"
        )
        return None
    i = list(curve.thresholds).index(threshold)
    log(
        # Rounded down, since above the threshold its own entity would be left out.
        f"min_probability={math.floor(threshold * 1e6) / 1e6:.6f} keeps "
        f"{counted(int(curve.kept[i]), 'entity', 'entities')} of dev: precision "
        f"{100 * curve.precision[i]:.2f}, recall {100 * curve.recall[i]:.2f}"
    )
    return threshold
