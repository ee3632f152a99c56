"""The one file of a tagger: a zip that is checked before anything in it is used.

manifest.json        versions, dates, and size and SHA-256 of each other file
weights.safetensors  the arrays of the weights by their names
config/model.json    the description of the model
vocabulary.json      words, characters and labels
calibration.json     the temperature of its probabilities
README.md            what it is, for people
programs/NAME.bin    what computes NAME of a batch, by `jax.export`

Only the programs age. Nothing is unpacked to the disk, and no file is a pickle.
"""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from jaxner import fields, outputs
from jaxner.errors import DamagedFileError, using

FORMAT = 1
"""The version of the format; a reader refuses later ones."""
MANIFEST, WEIGHTS, MODEL = "manifest.json", "weights.safetensors", "config/model.json"
VOCABULARY, CALIBRATION, CARD = "vocabulary.json", "calibration.json", "README.md"
KINDS = ("float32", "bfloat16", "int8")
"""How weights can be stored."""

_RATIO = 64  # of what a file unpacks to; programs reach 4
_TYPES = {"F32": "<f4", "BF16": ml_dtypes.bfloat16, "I8": "i1"}
_SCALE = ":scale"  # after the name of an array in int8


def write(path: Path, facts: Mapping[str, Any], files: Mapping[str, bytes]) -> None:
    """Writes the file atomically; `facts` are what the manifest says besides."""
    entries = {name: _facts(content) for name, content in files.items()}
    text = json.dumps({"format": FORMAT, **facts, "files": entries}, indent=2)
    with outputs.writing(path) as file, zipfile.ZipFile(file, "w") as archive:
        for name, content in {MANIFEST: text.encode(), **files}.items():
            # Its date is of 1980, so that equal taggers give equal files.
            entry = zipfile.ZipInfo(name)
            way = zipfile.ZIP_STORED if name == WEIGHTS else zipfile.ZIP_DEFLATED
            archive.writestr(entry, content, way)


def read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Returns the manifest and the other files, after all checks.

    `FileNotFoundError`: there is none. `DamagedFileError`: its files differ from the
    manifest, or are none of such a file, or a later jaxner wrote it.
    """
    path, files = outputs.expanded(path), {}
    with path.open("rb") as file, using(path), zipfile.ZipFile(file) as archive:
        total = sum(entry.file_size for entry in archive.infolist())
        if total > _RATIO * path.stat().st_size:
            raise DamagedFileError(path, f"would unpack to {total:,} bytes")
        manifest = json.loads(archive.read(MANIFEST))
        if manifest["format"] > FORMAT:
            text = f"has the format {manifest['format']}, and this jaxner reads up to "
            raise DamagedFileError(path, f"{text}{FORMAT}: update jaxner")
        if sorted(archive.namelist()) != sorted([MANIFEST, *manifest["files"]]):
            raise DamagedFileError(path, "has other files than its manifest lists")
        for name, facts in manifest["files"].items():
            files[name] = archive.read(name)
            if _facts(files[name]) != facts:
                raise DamagedFileError(path, f"is damaged: the checksum of {name}")
        return manifest, files


def temperature(files: Mapping[str, bytes]) -> float:
    """Returns the temperature among the files of `read`."""
    value = json.loads(files[CALIBRATION])["temperature"]
    fields.check("temperature", value, fields.Positive)
    return value


def _facts(content: bytes) -> dict[str, Any]:
    return {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


# --- Weights --------------------------------------------------------------------------


def pack(arrays: Mapping[str, np.ndarray], kind: str = "float32") -> bytes:
    """Returns arrays in the format of safetensors, in one of `KINDS`.

    Arrays of one axis (biases, norms) stay in float32. In int8, each row of the last
    axis has a scale: its largest absolute value is 127.
    """
    stored_arrays: dict[str, np.ndarray] = {}
    for name, array in arrays.items():
        array = np.asarray(array, np.float32)
        if array.ndim < 2 or kind == "float32":
            stored_arrays[name] = array
        elif kind == "bfloat16":
            stored_arrays[name] = array.astype(ml_dtypes.bfloat16)
        else:
            scale = np.max(np.abs(array), axis=-1, keepdims=True, initial=0) / 127
            stored_arrays[name + _SCALE] = scale
            levels = np.rint(array / np.where(scale > 0, scale, 1))
            stored_arrays[name] = levels.astype(np.int8)
    names = {np.dtype(kind): name for name, kind in _TYPES.items()}
    header, end = {}, 0
    for name, array in stored_arrays.items():
        start, end = end, end + array.nbytes
        header[name] = {
            "dtype": names[array.dtype],
            "shape": array.shape,
            "data_offsets": (start, end),
        }
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    parts = (array.tobytes() for array in stored_arrays.values())
    return b"".join([len(text).to_bytes(8, "little"), text, *parts])


def unpack(data: bytes, path: Path) -> dict[str, np.ndarray]:
    """Returns the float32 arrays of `pack`; `DamagedFileError`: sizes do not fit."""
    arrays: dict[str, np.ndarray] = {}
    with using(path):
        start = 8 + int.from_bytes(data[:8], "little")
        header = json.loads(data[8:start])
        for name, entry in header.items():
            first, last = (start + offset for offset in entry["data_offsets"])
            flat = np.frombuffer(data[first:last], _TYPES[entry["dtype"]])
            arrays[name] = flat.reshape(entry["shape"])
        scales = {n: arrays.pop(n) for n in [*arrays] if n.endswith(_SCALE)}
        for name, array in arrays.items():
            arrays[name] = array.astype(np.float32)
            if name + _SCALE in scales:
                arrays[name] *= scales[name + _SCALE]
    return arrays
