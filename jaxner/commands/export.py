"""`jaxner export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from jaxner import archive, fields, outputs
from jaxner.commands import Folder, Output
from jaxner.errors import InputError


def export(
    *,
    workdir: Folder | None = None,
    output: Output | None = None,
    weights: Annotated[str, fields.OneOf(archive.KINDS)] = "float32",
    refresh: Path | None = None,
    onnx: Output | None = None,
) -> None:
    """Writes a run's tagger to a file for another machine.

        jaxner export --workdir runs/grn --output grn.zip
        jaxner export --refresh grn.zip
        jaxner export --workdir runs/grn --onnx grn.onnx

    The first file is for jaxner.load_exported. JAX promises for six months
    that newer versions run its programs: --refresh writes new ones, with the
    same weights. An ONNX model is for hosts without this package, with a JSON
    file with its vocabulary beside it, grn.json.

    Args:
        workdir: Folder of the run.
        output: File to write; with --refresh, default: the same file.
        weights: How to store weights; but for float32, F1 on dev before and after.
        refresh: File whose programs to renew, instead of --workdir.
        onnx: File to write the tagger to, as an ONNX model.
    """
    from jaxner import exporting
    from jaxner.exported import load_exported
    from jaxner.tagger import load

    target = output or refresh
    if (workdir is None) == (refresh is None) or not (target or onnx):
        raise InputError("Expected --workdir and --output or --onnx, or --refresh")
    if refresh and (onnx or weights != "float32"):
        raise InputError("--refresh keeps the weights and the kind of the file")
    outputs.check(output, onnx, onnx and onnx.with_suffix(".json"))
    if refresh and target:
        exporting.refresh(refresh, target)
    elif workdir:
        tagger, card = load(str(workdir)), workdir / "README.md"
        if onnx:
            from jaxner.onnx import export_onnx

            export_onnx(tagger, onnx)
            print(f"Written: {onnx} and {onnx.with_suffix('.json')}")
        if target:
            text = outputs.read_text(card) if card.is_file() else None
            exporting.export(tagger, target, weights=weights, card=text)
        if target and weights != "float32":
            after = load_exported(target, program=False)
            print(f"Weights in {weights}: {_loss(str(workdir), tagger, after)}")
    if target:
        print(f"Written: {target}")


def _loss(workdir: str, before: Any, after: Any) -> str:
    """Returns what the figure on dev is with both taggers, or why it is not known."""
    from jaxner import tagging
    from jaxner.evaluation.scoring import Task
    from jaxner.runs import Workdir
    from jaxner.training import corpus

    task = Task(before.vocabulary.scheme)
    try:
        data = Workdir(workdir).read_json("config.json")["data"]
        dev = corpus.load_split(data, "dev")
    except (OSError, InputError) as error:
        return f"the loss is unknown without the run's data ({error})"
    tokens = [example.tokens for example in dev.examples]
    figures = []
    for tagger in (before, after):
        gold, predicted = tagging.label_split(tagger, dev)
        scores = task.score(tokens, gold, predicted)
        figures.append(100 * getattr(scores, task.main_figure))
    return f"{task.main_figure} on dev {figures[0]:.2f} before, {figures[1]:.2f} after"
