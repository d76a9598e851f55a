# SPDX-License-Identifier: Apache-2.0
"""Which input rows (or columns) a resized image is made from: the rules of TFLite and ONNX, as plain numbers."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.ir.graph import Array
from tinyc.ops.resize_bilinear import FINE, Tap

CROP = "tf_crop_and_resize"  # the one rule that resizes a region


def nearest_tflite(count: int, size: int, *, align_corners: bool, half_pixel: bool) -> tuple[int, ...]:
    """For each of `size` outputs the nearest of `count` inputs, as TensorFlow Lite's kernel finds it in float32."""
    aligned = align_corners and size > 1
    scale = np.float32(count - 1) / np.float32(size - 1) if aligned else np.float32(count) / np.float32(size)
    offset = np.float32(0.5 if half_pixel else 0)
    places = [(np.float32(k) + offset) * scale for k in range(size)]
    picked = [math.floor(float(p) + 0.5) if align_corners else math.floor(p) for p in places]
    return tuple(max(min(k, count - 1), 0) for k in picked)


def resized_onnx(count: int, scale: float) -> int:
    """How many outputs ONNX Runtime makes of `count` inputs: the product in float32, cut off. (10 by 0.7 are 7.)"""
    return int(np.float32(scale) * np.float32(count))


def onnx_place(k: int, count: int, size: int, scale: float, rule: str) -> float:
    """Where output k lies among the inputs, in float32 as ONNX Runtime computes it. `rule`: ONNX's
    coordinate_transformation_mode. ValueError if unknown."""
    f = np.float32
    if f(scale) == 1:
        return float(k)
    half_pixel = (f(k) + f(0.5)) / f(scale) - f(0.5)
    match rule:
        case "asymmetric":
            return float(f(k) / f(scale))
        case "half_pixel":
            return float(half_pixel)
        case "pytorch_half_pixel":
            return float(half_pixel) if size > 1 else 0.0
        case "half_pixel_symmetric":
            offset = f(count) / f(2) * (f(1) - f(size) / (f(scale) * f(count)))
            return float(offset + half_pixel)
        case "align_corners":
            return float(f(k) * f(count - 1) / f(size - 1)) if size > 1 else 0.0
    raise ValueError(rule)


def nearest_onnx(count: int, size: int, scale: float, rule: str, rounding: str) -> tuple[int, ...]:
    """For each of `size` outputs the nearest of `count` inputs. ValueError for a rule or rounding that is unknown.

    rounding: ONNX's nearest_mode; "": what ONNX Runtime does before opset 11, where there is none.
    """
    nearest = _rounded(rounding, scale)
    places = [onnx_place(k, count, size, scale, rule) for k in range(size)]
    return tuple(max(min(nearest(p), count - 1), 0) for p in places)


def _rounded(rounding: str, scale: float) -> Callable[[float], int]:
    rounds: dict[str, Callable[[float], int]] = {
        "round_prefer_floor": lambda p: math.ceil(p - 0.5),
        "round_prefer_ceil": lambda p: math.floor(p + 0.5),
        "floor": math.floor,
        "ceil": math.ceil,
        "": math.ceil if np.float32(scale) < 1 else math.floor,
    }
    if rounding not in rounds:
        raise ValueError(rounding)
    return rounds[rounding]


def bilinear_onnx(count: int, size: int, scale: float, rule: str) -> tuple[Tap, ...]:
    """For each of `size` outputs the two inputs and the weight of the second in 1 / FINE."""
    return tuple(_between(onnx_place(k, count, size, scale, rule), count) for k in range(size))


def bilinear_float_tflite(count: int, size: int, *, align_corners: bool, half_pixel: bool) -> tuple[Tap, ...]:
    """The same as TensorFlow Lite's kernel of float32 places them; that of integers is `bilinear_tflite`."""
    f, offset = np.float32, np.float32(0.5 if half_pixel else 0)
    step = f(count - 1) / f(size - 1) if align_corners and size > 1 else f(count) / f(size)
    return tuple(_between(float((f(k) + offset) * step - offset), count) for k in range(size))


def _between(place: float, count: int) -> Tap:
    """The inputs around a place, and the weight of the second in 1 / FINE. Outside the image its edge counts."""
    inside = min(max(place, 0.0), count - 1.0)
    first = math.floor(inside)
    return first, min(first + 1, count - 1), round((inside - first) * FINE)


@dataclass(frozen=True, slots=True)
class Resampling:
    """Attributes of ONNX's Resize: mode nearest, linear or cubic; `rule`: coordinate_transformation_mode; `rounding`:
    nearest_mode; `cubic`: cubic_coeff_a; `inside_only`: exclude_outside; `outside`: extrapolation_value."""

    mode: str
    rule: str
    rounding: str
    cubic: float
    inside_only: bool
    antialias: bool
    outside: float


def matrix_onnx(
    how: Resampling, count: int, size: int, scale: float, region: tuple[float, float]
) -> tuple[Array, Array]:
    """(weights [size, count], constants [size]), float64: what each output of an axis is made of, by ONNX's definition.

    region: of rule CROP. ValueError for a rule or rounding that is unknown.
    """
    weights, constants = np.zeros((size, count)), np.zeros(size)
    nearest = _rounded(how.rounding, scale)
    for k in range(size):
        place = (
            _region_place(k, count, size, region) if how.rule == CROP else onnx_place(k, count, size, scale, how.rule)
        )
        if how.rule == CROP and not 0 <= place <= count - 1:
            constants[k] = how.outside
        elif how.mode == "nearest":
            weights[k, max(min(nearest(place), count - 1), 0)] = 1
        else:
            weights[k] = _weights(how, place, count, scale)
    return weights, constants


def _region_place(k: int, count: int, size: int, region: tuple[float, float]) -> float:
    begin, end = (np.float32(v) for v in region)
    last = np.float32(count - 1)
    if size == 1:
        return float(np.float32(0.5) * (begin + end) * last)
    return float(begin * last + np.float32(k) * (end - begin) * last / np.float32(size - 1))


def _weights(how: Resampling, place: float, count: int, scale: float) -> Array:
    """[count] of the inputs around a place. Outside the image its edge counts, or nothing."""
    shape, reach = (_cubic(how.cubic), 2.0) if how.mode == "cubic" else (_triangle, 1.0)
    wide = min(scale, 1.0) if how.antialias else 1.0
    at = np.arange(math.floor(place - reach / wide), math.ceil(place + reach / wide) + 1)
    by = shape(np.abs(at - place) * wide)
    if how.inside_only:
        by = np.where((at >= 0) & (at < count), by, 0.0)
    if how.inside_only or how.antialias:
        by = by / by.sum()
    row = np.zeros(count)
    np.add.at(row, np.clip(at, 0, count - 1), by)
    return row


def _triangle(far: Array) -> Array:
    return np.asarray(np.clip(1 - far, 0, None))


def _cubic(a: float) -> Callable[[Array], Array]:
    """Keys' kernel (Cubic convolution interpolation for digital image processing, 1981), by distance."""

    def weight(far: Array) -> Array:
        near = ((a + 2) * far - (a + 3)) * far**2 + 1
        outer = ((far - 5) * far + 8) * far * a - 4 * a
        return np.asarray(np.select([far <= 1, far < 2], [near, outer], 0.0))

    return weight
