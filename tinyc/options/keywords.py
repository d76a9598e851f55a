# SPDX-License-Identifier: Apache-2.0
"""The options of a build as the types of keywords; `python scripts/option_docs.py` writes this file."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, TypedDict

from tinyc.options.build import Precision, Prefer
from tinyc.options.recipe import Effort, Pictures, Recipe

NumericsName = Literal["tflm", "litert", "single", "onnx"]


class LibraryOptions(TypedDict, total=False):
    """Options of `tinyc build` that make the library what it is; those that are left out are as on the command line."""

    name: str | None
    outputs: tuple[str, ...]
    signature: str | None
    states: tuple[str, ...]
    numerics: NumericsName | None
    precision: Precision
    float_layers: tuple[str, ...]
    float_fallback: bool
    prefer: Prefer
    flash: int | None
    ram: int | None
    time: str | None
    ram_code: int | None
    stream_weights: int | None
    input_rows: bool
    incremental: int | None
    hop: int
    stream_unpadded: bool
    weights_blob: bool
    like: Path | None
    frontend: str | None
    picture: str | None
    recipe: Recipe | None
    effort: Effort
    cache: bool
    pictures: Pictures | None
    sequence: int


class ProofOptions(LibraryOptions, total=False):
    """And those of its proof. samples: how many inputs run, 0: all."""

    samples: int
    toolchain: str | None
    emulator: str | None
