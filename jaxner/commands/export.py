"""`jaxner export`."""

from __future__ import annotations

from jaxner.commands import Folder, Output


def export(*, workdir: Folder, onnx: Output) -> None:
    """Writes a run's tagger for a host without this package.

        jaxner export --workdir runs/grn --onnx grn.onnx

    The model has a JSON file with its vocabulary beside it, grn.json.

    Args:
        workdir: Folder of the run.
        onnx: File to write the tagger to, as an ONNX model.
    """
    from jaxner import tagger
    from jaxner.onnx import export_onnx

    export_onnx(tagger.load(workdir), onnx)
    print(f"Written: {onnx} and {onnx.with_suffix('.json')}")
