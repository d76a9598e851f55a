# SPDX-License-Identifier: Apache-2.0
"""GridSample at constant places, as a fixed warp of a lens or a change of coordinates is: sums of elements."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tinyc.base.errors import TinycError
from tinyc.ir.graph import Array, Value
from tinyc.load.onnx.importing import OnnxStep, imports
from tinyc.load.picking import picked
from tinyc.ops.add import Add
from tinyc.ops.concat import Concat
from tinyc.ops.mul import Mul
from tinyc.ops.reshape import Reshape
from tinyc.ops.slice import whole

_CUBIC = -0.75  # of the convolution kernel
Taps = list[tuple[Array, Array]]  # (integer places, weights) of each tap of one axis


@imports("GridSample")
def grid_sample(s: OnnxStep) -> None:
    """Nearest, linear and cubic; zeros, the border or a reflection beyond it. The grid is a constant."""
    x, grid = s.value(0), s.constant(1)
    if grid is None:
        raise TinycError("GridSample at computed places is not supported; its grid must be a constant", s.where)
    axes = len(x.shape) - 2
    if axes < 1 or grid.ndim != axes + 2 or grid.shape[-1] != axes or grid.shape[0] != x.shape[0]:
        raise TinycError(f"GridSample of {list(x.shape)} at {list(grid.shape)} cannot be compiled", s.where)
    kind, beyond = s.node.text("mode", "linear"), s.node.text("padding_mode", "zeros")
    how = _KINDS.get(kind)
    if how is None or beyond not in ("zeros", "border", "reflection"):
        raise TinycError(f"GridSample with mode '{kind}' and padding '{beyond}' cannot be compiled", s.where)
    aligned, images = s.node.flag("align_corners", False), []
    for image in range(x.shape[0]):
        places = grid[image].reshape(-1, axes).astype(np.float64)
        taps = [_taps(places[:, axes - 1 - axis], size, aligned, beyond, how) for axis, size in enumerate(x.shape[2:])]
        part = s.insert([x], whole(x.shape, 0, image, 1), f"image{image}") if x.shape[0] > 1 else x
        flat = s.reshape(part, (x.shape[1], math.prod(x.shape[2:])), f"flat{image}")
        images.append(
            s.reshape(_summed(s, flat, taps, x.shape[2:], image), (1, x.shape[1], *grid.shape[1:-1]), "apart")
        )
    s.emit(images, Concat(0) if len(images) > 1 else Reshape(images[0].shape))


def _taps(at: Array, size: int, aligned: bool, beyond: str, how: Callable[[Array], Taps]) -> Taps:
    """Of places from -1 to 1 along an axis; a tap beyond it is elsewhere, or weighs nothing."""
    low, high = (0.0, size - 1.0) if aligned else (-0.5, size - 0.5)
    real = (at + 1) / 2 * (size - 1) if aligned else ((at + 1) * size - 1) / 2
    taps = []
    for place, weight in how(real):
        if beyond == "zeros":
            inside = (place >= 0) & (place < size)
            taps.append((np.where(inside, place, 0), np.where(inside, weight, 0.0)))
        else:
            moved = np.clip(place, 0, size - 1) if beyond == "border" else _reflected(place, low, high)
            taps.append((np.clip(np.rint(moved), 0, size - 1), weight))
    return taps


def _reflected(x: Array, low: float, high: float) -> Array:
    """Places beyond either end, back and forth between the two."""
    span = high - low
    if span <= 0:
        return np.zeros_like(x)
    turned = np.abs(x - low) % (2 * span)
    return np.asarray(low + np.where(turned > span, 2 * span - turned, turned))


def _nearest(real: Array) -> Taps:
    return [(np.rint(real), np.ones_like(real))]


def _linear(real: Array) -> Taps:
    first = np.floor(real)
    return [(first, 1 - (real - first)), (first + 1, real - first)]


def _cubic(real: Array) -> Taps:
    first = np.floor(real)
    taps = []
    for step in range(-1, 3):
        d = np.abs(real - first - step)
        near = ((_CUBIC + 2) * d - (_CUBIC + 3)) * d * d + 1
        far = ((_CUBIC * d - 5 * _CUBIC) * d + 8 * _CUBIC) * d - 4 * _CUBIC
        taps.append((first + step, np.where(d <= 1, near, far)))
    return taps


_KINDS: Mapping[str, Callable[[Array], Taps]] = {
    **dict.fromkeys(("linear", "bilinear"), _linear),
    **dict.fromkeys(("cubic", "bicubic"), _cubic),
    "nearest": _nearest,
}


def _summed(s: OnnxStep, x: Value, taps: Sequence[Taps], sizes: Sequence[int], image: int) -> Value:
    """x [C, elements] -> [C, places]: elements times products of the weights along the axes."""
    total: Value | None = None
    for number, corner in enumerate(itertools.product(*taps)):
        weight = np.prod([w for _, w in corner], axis=0).astype(np.float32)
        if not weight.any():
            continue
        places = np.ravel_multi_index([at.astype(np.int64) for at, _ in corner], tuple(sizes))
        name = f"{image}:{number}"
        term = s.insert([x], picked(x.shape, 1, [int(k) for k in places]), f"taken{name}")
        if (weight != 1).any():
            held = s.builder.add_const(f"{s.node.outputs[0]}:weights{name}", weight[None])
            term = s.insert([term, held], Mul(), f"weighed{name}")
        total = term if total is None else s.insert([total, term], Add(), f"sum{name}")
    if total is None:
        raise TinycError(
            "GridSample at places that all lie outside cannot be compiled", s.where, "nothing of the input is left"
        )
    return total
