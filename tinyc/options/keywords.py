# SPDX-License-Identifier: Apache-2.0
"""The options of a build as the types of keywords; `python scripts/option_docs.py` writes this file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal, TypedDict

from tinyc.options.build import Precision, Prefer
from tinyc.options.recipe import (
    ActivationBits,
    Effort,
    Fit,
    Method,
    OutputScales,
    Pictures,
    Recipe,
    Rounding,
    WeightBits,
)

NumericsName = Literal["tflm", "litert", "single", "onnx"]


class RecipeOptions(TypedDict, total=False):
    """How a float model is quantized, option by option, or all of that as a `Recipe`."""

    recipe: Recipe | None
    calibration_method: Method
    weights: WeightBits
    max_loss: float | None
    activations: ActivationBits
    int16_layers: tuple[str, ...]
    min_sqnr: float | None
    metric: str | Callable[..., float] | None
    rounding: Rounding | None
    equalize: bool | None
    headroom: float | None
    output_scales: OutputScales
    augment: bool
    seed: int


class LibraryOptions(RecipeOptions, total=False):
    """Options of `tinyc build` that make the library what it is; those that are left out are as on the command line."""

    name: str | None
    outputs: tuple[str, ...]
    signature: str | None
    state: tuple[str, ...]
    numerics: NumericsName | None
    precision: Precision
    float_layers: tuple[str, ...]
    float_fallback: bool
    prefer: Prefer
    flash: int | None
    flash_reserve: int | None
    ram: int | None
    time: str | None
    ram_code: int | None
    cores: int
    stream_weights: int | None
    input_rows: bool
    incremental: int | None
    hop: int
    stream_unpadded: bool
    weights_blob: bool
    like: Path | None
    frontend: str | None
    picture: str | None
    effort: Effort
    cache: bool
    sequence: int
    pictures: Pictures | None
    picture_mean: tuple[float, ...]
    picture_std: tuple[float, ...]
    picture_fit: Fit


class ProofOptions(LibraryOptions, total=False):
    """And those of its proof. samples: how many inputs run, 0: all."""

    samples: int
    toolchain: str | None
    emulator: str | None


class LimitedOptions(ProofOptions, total=False):
    """And least figures of accuracy."""

    min_top1: float | None
    min_agreement: float | None
    baseline: Path | None
    max_drop: float
