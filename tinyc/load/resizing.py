# SPDX-License-Identifier: Apache-2.0
"""Which input rows (or columns) a resized image is made from: the rules of TFLite and ONNX, as plain numbers."""

from __future__ import annotations

import math

import numpy as np

from tinyc.ops.resize_bilinear import FINE, Tap


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
    rounds = {
        "round_prefer_floor": lambda p: math.ceil(p - 0.5),
        "round_prefer_ceil": lambda p: math.floor(p + 0.5),
        "floor": math.floor,
        "ceil": math.ceil,
        "": math.ceil if np.float32(scale) < 1 else math.floor,
    }
    if rounding not in rounds:
        raise ValueError(rounding)
    places = [onnx_place(k, count, size, scale, rule) for k in range(size)]
    return tuple(max(min(rounds[rounding](p), count - 1), 0) for p in places)


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
