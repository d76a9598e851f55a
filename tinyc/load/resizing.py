"""Which input rows (or columns) a resized image is made from: the rules of TFLite and ONNX, as plain numbers."""

from __future__ import annotations

import math

import numpy as np

from tinyc.ops.resize_bilinear import ONE, Tap


def nearest_tflite(count: int, size: int, *, align_corners: bool, half_pixel: bool) -> tuple[int, ...]:
    """For each of `size` outputs the nearest of `count` inputs, as TensorFlow Lite's kernel finds it in float32."""
    aligned = align_corners and size > 1
    scale = np.float32(count - 1) / np.float32(size - 1) if aligned else np.float32(count) / np.float32(size)
    offset = np.float32(0.5 if half_pixel else 0)
    places = [(np.float32(k) + offset) * scale for k in range(size)]
    picked = [math.floor(float(p) + 0.5) if align_corners else math.floor(p) for p in places]
    return tuple(max(min(k, count - 1), 0) for k in picked)


def bilinear_tflite(count: int, size: int, *, align_corners: bool, half_pixel: bool) -> tuple[Tap, ...]:
    """For each of `size` outputs the two inputs and the weight of the second, as TensorFlow Lite's integer kernel."""
    aligned = align_corners and size > 1
    step = (ONE * (count - 1) + (size - 1) // 2) // (size - 1) if aligned else (ONE * count + size // 2) // size
    taps = []
    for k in range(size):
        place = k * step + step // 2 - ONE // 2 if half_pixel else k * step
        first = max(int(place / ONE), 0)
        second = min(max(int((place + ONE - 1) / ONE), 0), count - 1)
        taps.append((min(first, count - 1), second, place - ONE * first))
    return tuple((first, second, weight) if weight >= 0 else (first, second, 0) for first, second, weight in taps)


def onnx_place(k: int, count: int, size: int, scale: float, rule: str) -> float:
    """Where output k lies among the inputs. `rule`: ONNX's coordinate_transformation_mode. ValueError if unknown."""
    match rule:
        case "asymmetric":
            return k / scale
        case "half_pixel":
            return (k + 0.5) / scale - 0.5
        case "pytorch_half_pixel":
            return (k + 0.5) / scale - 0.5 if size > 1 else 0.0
        case "half_pixel_symmetric":
            return (count / 2) * (1 - size / (count * scale)) + (k + 0.5) / scale - 0.5
        case "align_corners":
            return k * (count - 1) / (size - 1) if size > 1 else 0.0
    raise ValueError(rule)


def nearest_onnx(count: int, size: int, scale: float, rule: str, rounding: str) -> tuple[int, ...]:
    """For each of `size` outputs the nearest of `count` inputs. ValueError for a rule or rounding that is unknown."""
    rounds = {
        "round_prefer_floor": lambda p: math.ceil(p - 0.5),
        "round_prefer_ceil": lambda p: math.floor(p + 0.5),
        "floor": math.floor,
        "ceil": math.ceil,
    }
    if rounding not in rounds:
        raise ValueError(rounding)
    places = [onnx_place(k, count, size, scale, rule) for k in range(size)]
    return tuple(max(min(rounds[rounding](p), count - 1), 0) for p in places)


def bilinear_onnx(count: int, size: int, scale: float, rule: str) -> tuple[Tap, ...]:
    """For each of `size` outputs the two inputs and the weight of the second, rounded to 1/1024."""
    taps = []
    for k in range(size):
        place = min(max(onnx_place(k, count, size, scale, rule), 0.0), count - 1.0)
        first = math.floor(place)
        taps.append((first, min(first + 1, count - 1), round((place - first) * ONE)))
    return tuple(taps)
