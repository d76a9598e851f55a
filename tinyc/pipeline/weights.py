# SPDX-License-Identifier: Apache-2.0
"""New weights for code that is in the field: what of a library is kept, and whether new constants fit its code."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tinyc.base.errors import Loc, TinycError
from tinyc.base.files import read_file, read_text
from tinyc.emit.blob import BlobFile, read_blob
from tinyc.options.recipe import ActivationScales

ACTIVATIONS = "activations.json"
_SCHEMA = "tinyc.activations/1"
_REBUILD = "give a folder that `tinyc build --weights-blob` wrote"
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_OWN = re.compile(r"0x[0-9a-f]{2}, .*|.*_tinyc_digest, 0x.*| *return \"[^\"]* tinyc [^\"]*\";")  # of every build anew


def activations_text(activations: ActivationScales) -> str:
    """The file ACTIVATIONS of a library."""
    scales = {name: [scale, zero] for name, scale, zero in activations.scales}
    units = {name: {"factors": factors, "axis": axis} for name, factors, axis in activations.units}
    said = {"schema": _SCHEMA, "equalized": activations.equalized, "activations": scales}
    return json.dumps({**said, "units": units} if units else said, indent=1) + "\n"


def read_activations(folder: Path) -> ActivationScales:
    """Of the library in the folder. Raises TinycError where they are not there."""
    file = folder / ACTIVATIONS
    try:
        said = json.loads(read_text(file))
        return _activations(said)
    except OSError as error:
        message = f"no integers of activations: {error.strerror}"
        raise TinycError(message, Loc(str(file)), f"{_REBUILD} from a float model") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise TinycError("not what tinyc wrote there", Loc(str(file)), _REBUILD) from error


def _activations(said: Mapping[str, Any]) -> ActivationScales:
    if said["schema"] != _SCHEMA:
        raise ValueError(said["schema"])
    scales = tuple((str(name), float(scale), int(zero)) for name, (scale, zero) in said["activations"].items())
    if not all(0 < scale < float("inf") and -32768 <= zero <= 32767 for _, scale, zero in scales):
        raise ValueError("scales")
    units = tuple(
        (str(name), tuple(float(factor) for factor in of["factors"]), int(of["axis"]))
        for name, of in said.get("units", {}).items()
    )
    if not all(0 < factor < float("inf") for _, factors, _ in units for factor in factors):
        raise ValueError("units")
    return ActivationScales(bool(said["equalized"]), scales, units)


def find_blob(folder: Path) -> tuple[str, BlobFile]:
    """The constants in a library's folder, and the library's name."""
    blobs = sorted(folder.glob("*.blob"))
    if len(blobs) != 1:
        what = "no constants of their own" if not blobs else "constants of several libraries"
        raise TinycError(f"there are {what} in this folder", Loc(str(folder)), _REBUILD)
    return blobs[0].stem, read_blob(read_file(blobs[0]), str(blobs[0]))


def check_same_code(folder: Path, name: str, files: Mapping[str, str], blob: bytes) -> None:
    """Raises TinycError (exit code 1) where the constants are not for the code in the folder, with the first line that
    differs."""
    _, before = find_blob(folder)
    if read_blob(blob, name).code == before.code:
        return
    message = f"the code of {folder} cannot run these weights: {_difference(folder, name, files)}"
    hint = "build it without --like as new firmware, or keep what the code depends on: layers, shapes, options"
    raise TinycError(message, hint=hint, exit_code=1)


def _difference(folder: Path, name: str, files: Mapping[str, str]) -> str:
    for file, text in sorted(files.items()):
        if file == f"{name}_weights.h":
            continue
        old = folder / file
        if not old.is_file():
            return f"{file} is new"
        theirs, ours = (_lines(one) for one in (read_text(old), text))
        for line in (b for a, b in zip(theirs, ours, strict=False) if a != b):
            return f"{file} would say `{line}`"
        if len(theirs) != len(ours):
            return f"{file} has {len(ours):,} lines in the place of {len(theirs):,}"
    return "constants have other sizes or places"


def _lines(text: str) -> list[str]:
    lines = (line.strip() for line in _COMMENT.sub("", text).splitlines())
    return [line for line in lines if line and not _OWN.fullmatch(line)]
