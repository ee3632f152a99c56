"""`jaxner export`, `jaxner refresh` and `jaxner export-onnx`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from jaxner import archive, fields, outputs
from jaxner.commands import load, note
from jaxner.errors import InputError, UsageError


def export(
    run: fields.Folder,
    /,
    *,
    output: Path,
    weights: Annotated[str, fields.OneOf(archive.KINDS)] = "float32",
    to: Literal["jaxner", "transformers"] = "jaxner",
) -> None:
    """Writes a run's tagger to one file, or for transformers.

        jaxner export runs/grn -o grn.zip
        jaxner export runs/minilm --to transformers -o minilm

    The file, for jaxner.load_exported, needs only JAX and NumPy. JAX promises for
    six months that newer versions run its programs; `jaxner refresh` renews them.
    transformers reads taggers of a pretrained encoder; it ignores the
    scores of label pairs of a CRF.

    Args:
        run: Folder of the run.
        output: File to write; for transformers, a new folder.
        weights: Precision of the stored weights; for bfloat16 and int8 the command
            prints dev F1 before and after.
        to: Library that reads the result.
    """
    if output.suffix == ".onnx":
        raise UsageError(f"jaxner export-onnx writes ONNX models, got {output}")
    if to == "transformers":
        from jaxner import hub

        if weights != "float32":
            raise UsageError("--weights is for jaxner's own files")
        hub.export_transformers(load(run), output)
        note(f"Wrote {output}")
        return
    outputs.check(output)
    from jaxner import exporting
    from jaxner.exported import load_exported

    tagger, card = load(run), run / "README.md"
    text = outputs.read_text(card) if card.is_file() else None
    exporting.export(tagger, output, weights=weights, card=text)
    if weights != "float32":
        copy = load_exported(output, program=False)
        note(f"Weights in {weights}: {_loss(run, tagger, copy)}")
    note(f"Wrote {output}")


def refresh(file: Path, /, *, output: fields.Output | None = None) -> None:
    """Renews the programs in a file of `jaxner export`, and keeps its weights.

        jaxner refresh grn.zip

    Args:
        file: File of `jaxner export`.
        output: File to write; default: the same.
    """
    from jaxner import exporting

    exporting.refresh(file, output or file)
    note(f"Wrote {output or file}")


def export_onnx(run: fields.Folder, /, *, output: fields.Output) -> None:
    """Writes a run's tagger as an ONNX model, for hosts without Python or JAX.

        jaxner export-onnx runs/grn -o grn.onnx

    A JSON file beside the model, grn.json, has its vocabulary.

    Args:
        run: Folder of the run.
        output: File to write.
    """
    from jaxner import onnx

    vocabulary = output.with_suffix(".json")
    outputs.check(output, vocabulary)
    onnx.export_onnx(load(run), output)
    note(f"Wrote {output} and {vocabulary}")


def _loss(run: Path, old: Any, new: Any) -> str:
    """Returns what the figure on dev is with both taggers, or why it is not known."""
    from jaxner.analysis import describe
    from jaxner.evaluation.scoring import Task
    from jaxner.runs import Workdir
    from jaxner.training import corpus

    try:
        config = Workdir(run).read_json("config.json")
        dev = corpus.split_of_run(Workdir(run), "dev")
    except (OSError, InputError) as error:
        return f"the loss is unknown without the run's data ({error})"
    figure = Task(old.vocabulary.scheme).main_figure
    options = {"rule": "conlleval", **config["evaluation"]}  # as the run was scored
    scores = [describe.label(tagger, dev, **options).scores for tagger in (old, new)]
    first, second = (100 * getattr(x, figure) for x in scores)
    rule = f" ({options['rule']} rule)" if figure == "f1" else ""
    return f"{figure} on dev {first:.2f} before, {second:.2f} after{rule}"
