# SPDX-License-Identifier: Apache-2.0
"""How a float model is to be quantized, as the user asks for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, replace
from typing import Literal

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.options.option import Heading, check_values, option

AUTO = "auto"

Method = Literal["auto", "minmax", "percentile", "mse", "entropy"]
WeightBits = Literal["int8", "int4", "auto"]
ActivationBits = Literal["int8", "int16", "auto"]
Rounding = Literal["nearest", "learned"]
Effort = Literal["full", "fast"]
OutputScales = Literal["auto", "one"]
Fit = Literal["crop", "stretch"]

_QUANTIZING: Heading = "Quantizing a float model"
_UNMEASURED = "1, without a budget or --min-sqnr"


OutputUnits = tuple[str, tuple[float, ...], int]  # (output, factors, axis counted from the last one as -1)


@dataclass(frozen=True, slots=True)
class ActivationScales:
    """The activations of a model that was quantized before, for one that differs in its weights alone."""

    equalized: bool  # as of SettledRecipe
    scales: tuple[tuple[str, float, int], ...]  # (value, scale, zero point) of each that has one scale
    units: tuple[OutputUnits, ...] = ()  # of outputs with a scale for each quantity


@dataclass(frozen=True, slots=True)
class Recipe:
    """How to quantize. Everything is deterministic. Raises TinycError for a value that an option cannot have."""

    method: Method = option(  # how ranges follow from what was observed; auto: measured, tensor by tensor
        AUTO,
        "How to find activation ranges; auto measures output error.",
        flag="calibration_method",
        heading=_QUANTIZING,
    )
    _: KW_ONLY
    weights: WeightBits = option(  # auto: per layer, for weight_bytes or max_loss (quantize/mixed.py)
        "int8",
        "auto: per layer, for --flash or --max-loss.",
        heading=_QUANTIZING,
        question="How exact",
        shapes=True,
    )
    max_loss: float | None = option(  # percent
        None,
        "With --weights auto: most decisions that may change against int8, in percent; with --activations auto: "
        "against int16.",
        shown_default=_UNMEASURED,
        least=0,
        most=100,
        heading=_QUANTIZING,
    )
    activations: ActivationBits = option(  # auto: for max_loss or min_sqnr, within ram_bytes (quantize/activations.py)
        "int8",
        "auto: where --max-loss or --min-sqnr needs it.",
        question="How exact",
        heading=_QUANTIZING,
        shapes=True,
    )
    int16_layers: tuple[str, ...] = option(  # whatever is measured
        (), "Layers with int16 outputs; * and ? as in file names.", metavar="NAME,...", heading=_QUANTIZING
    )
    min_sqnr: float | None = option(  # dB
        None,
        "Least SQNR of the output, in dB: less is an error. With --activations auto bits are chosen for it.",
        metavar="DB",
        least=0,
        heading=_QUANTIZING,
    )
    metric: str | Callable[..., float] | None = option(  # quantize/judge.py; a function: of Python alone
        None,
        "What settings, --max-loss and mixed widths are judged by: top-1, AUC, mAP, IoU, RMSE, F1, or a function of "
        "yours.",
        metavar="NAME|FILE.py:FUNCTION",
        shown_default="the error at the outputs",
        heading=_QUANTIZING,
    )
    rounding: Rounding | None = option(  # of weights; None: what measures better, and learned for less than 8 bits
        None,
        "Round weights to the nearest step, as learned, or (auto) whichever measures better.",
        heading=_QUANTIZING,
    )
    equalize: bool | None = option(  # None: what measures better
        None, "Give a tensor's channels similar ranges.", heading=_QUANTIZING
    )
    headroom: float | None = option(  # None: of a reconstruction what costs little, of others 1 (quantize/headroom.py)
        None,
        "Inputs may vary so many times as widely as the calibration inputs.",
        metavar="FACTOR",
        shown_default="up to 1.4 for models that give their input back, 1 for others",
        least=1,
        most=10,
        heading=_QUANTIZING,
    )
    output_scales: OutputScales = option(  # quantize/output_units.py
        AUTO,
        "One scale for an output, or (auto) one for each of its quantities, where these differ in size.",
        heading=_QUANTIZING,
    )
    augment: bool = option(True, "Learn from varied calibration pictures too.", heading=_QUANTIZING)
    seed: int = option(0, "Seed of the variants; nothing else is random.", least=0, heading=_QUANTIZING)
    correct_biases: bool = True  # with weights rounded to nearest their mean error goes into the bias
    weight_bytes: int | None = None  # that weights may take, where their bits are chosen
    ram_bytes: int | None = None  # of values that live at once, where the bits of activations are chosen
    like: ActivationScales | None = None  # activations get these integers; method and equalize are those of before

    def __post_init__(self) -> None:
        check_values(self)
        if self.rounding == "nearest" and self.weights != "int8":
            raise TinycError(
                f"--rounding nearest with --weights {self.weights}: weights of 4 bits are always learned",
                hint="leave --rounding out, or take --weights int8",
            )
        if self.activations == "int16" and self.method not in (AUTO, "minmax"):
            raise TinycError(
                f"--calibration-method {self.method} with --activations int16: ranges of 16 bits are all that was seen",
                hint="leave --calibration-method out, or take --activations int8",
            )


def hurried(recipe: Recipe) -> Recipe:
    """The recipe in which nothing that it leaves open is searched for or learned: min-max ranges, weights rounded to
    nearest (those of 4 bits are learned even so) with corrected biases."""
    return replace(
        recipe,
        method="minmax" if recipe.method == AUTO else recipe.method,
        equalize=bool(recipe.equalize),
        rounding=recipe.rounding or ("nearest" if recipe.weights == "int8" else None),
        augment=recipe.augment and recipe.rounding == "learned",
    )


@dataclass(frozen=True, slots=True)
class Pictures:
    """How pictures become inputs: x = (pixel - mean) / std, with pixels from 0 to 255. Raises TinycError as Recipe."""

    mean: tuple[float, ...] = option(  # one number, or one per color
        (0.0,),
        "Of pictures: x = (pixel - mean) / std; one number or one per color.",
        flag="picture_mean",
        heading=_QUANTIZING,
    )
    std: tuple[float, ...] = option((1.0,), "See --picture-mean.", flag="picture_std", heading=_QUANTIZING)
    fit: Fit = option(  # crop: the largest middle part with the input's proportions; either is then resized (bilinear)
        "crop", "Cut or stretch pictures to size.", flag="picture_fit", heading=_QUANTIZING
    )

    def __post_init__(self) -> None:
        check_values(self)
