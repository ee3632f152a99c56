"""Reads the temperature that `jaxner calibrate` found for a run."""

from __future__ import annotations

import warnings

from jaxner import integrity
from jaxner.workdir import Workdir

FILE = "calibration.json"


def read(folder: Workdir, step: int | None) -> float:
    """Returns the temperature of the best checkpoint; 1 without a calibration.

    Args:
        folder: The run.
        step: Step of the best checkpoint.

    Raises:
        DamagedFileError: The file is damaged.

    Warns:
        UserWarning: It is of another checkpoint.
    """
    file = folder.path / FILE
    if not file.is_file():
        return 1.0
    remedy = f"Remove it and run `jaxner calibrate --workdir={folder.path}`."
    calibration = integrity.read_json(file, remedy)
    temperature = calibration.get("temperature")
    if not isinstance(temperature, float) or not 0 < temperature < float("inf"):
        raise integrity.DamagedFileError(
            file,
            f"has the temperature {temperature!r}, not a positive number",
            remedy,
        )
    if calibration.get("step") == step:
        return temperature
    warnings.warn(
        f"{file} is of step {calibration.get('step')}, and the "
        f"best checkpoint of step {step}: probabilities are not calibrated. Run jaxner "
        "calibrate again.",
        stacklevel=3,
    )
    return 1.0
