# SPDX-License-Identifier: Apache-2.0
"""Resize and Upsample: to the nearest pixel or bilinear by their own kernels, everything else axis by axis: nearest as
picks, linear and cubic as products with a constant matrix."""

from __future__ import annotations

import math

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.base.limits import MAX_ELEMENTS, check_shape
from tinyc.ir.graph import Array, Value
from tinyc.load.onnx.importing import OnnxStep, imports
from tinyc.load.picking import picked
from tinyc.load.resizing import CROP, Resampling, bilinear_onnx, matrix_onnx, nearest_onnx, resized_onnx
from tinyc.ops.fully_connected import FullyConnected
from tinyc.ops.reshape import Reshape
from tinyc.ops.resize_bilinear import FINE, ResizeBilinear
from tinyc.ops.resize_nearest import ResizeNearest

_MODES = {"nearest": "nearest", "linear": "linear", "bilinear": "linear", "cubic": "cubic"}
_LONGEST = 32767
_MOST_WEIGHTS = 1 << 22


@dataclass(frozen=True, slots=True)
class _Resized:
    """Of each axis: the new size, its scale, the region that is resized (begin and end as parts of the axis)."""

    sizes: list[int]
    scales: list[float]
    regions: list[tuple[float, float]]


_OF_OTHER_MODES = ("cubic_coeff_a", "exclude_outside", "extrapolation_value", "nearest_mode", 1)


@imports("Resize", "Upsample", ignores=_OF_OTHER_MODES)
def resize(s: OnnxStep) -> None:
    """Nearest, linear or cubic."""
    x, how = s.value(0), _how(s)
    to = _resized(s, x, how)
    check_shape("its output", tuple(to.sizes), s.where)
    if max(to.sizes) > _LONGEST:
        raise TinycError(f"{list(x.shape)} cannot be resized to {to.sizes}", s.where)
    try:
        if tuple(to.sizes) == x.shape and how.rule != CROP:  # a copy in ONNX Runtime, whatever scales and rule
            s.emit([x], Reshape(x.shape))
        elif _has_kernel(x, to, how):
            _image(s, to, how)
        else:
            _axis_by_axis(s, x, to, how)
    except ValueError as e:
        raise TinycError(f"resizing by the rule '{e}' is not supported", s.where) from e


def _how(s: OnnxStep) -> Resampling:
    old = s.node.op == "Upsample" or s.opset < 11
    mode = s.node.text("mode", "nearest")
    if mode not in _MODES:
        raise TinycError(
            f"resizing with mode '{mode}' cannot be compiled", s.where, "there are nearest, linear and cubic"
        )
    return Resampling(
        mode=_MODES[mode],
        rule="asymmetric" if old else s.node.text("coordinate_transformation_mode", "half_pixel"),
        rounding="" if old else s.node.text("nearest_mode", "round_prefer_floor"),
        cubic=s.node.float_("cubic_coeff_a", -0.75),
        inside_only=s.node.flag("exclude_outside", False),
        antialias=s.node.flag("antialias", False),
        outside=s.node.float_("extrapolation_value", 0.0),
    )


def _resized(s: OnnxStep, x: Value, how: Resampling) -> _Resized:
    axes = _resized_axes(s, len(x.shape))
    own = [x.shape[k] for k in axes]
    recent = s.node.op == "Resize" and s.opset >= 11
    by_sizes = recent and s.has(3) and s.numbers(3) and (not s.has(2) or not s.weights(2).size)
    given = s.numbers(3) if by_sizes else _given_scales(s, recent)
    if len(given) != len(axes):
        raise TinycError(f"{len(given)} sizes or scales for {len(axes)} axes do not fit together", s.where)
    if by_sizes:
        sizes, scales = _with_aspect(s, own, [int(n) for n in given])
    else:
        scales = [float(v) for v in given]
        if not all(0 < v * size <= MAX_ELEMENTS for v, size in zip(scales, own, strict=True)):
            raise TinycError(f"{list(x.shape)} cannot be resized by {scales}", s.where)
        sizes = [resized_onnx(size, v) for size, v in zip(own, scales, strict=True)]
        _check_placed(s, how, own, sizes, scales)
    to = _Resized(list(x.shape), [1.0] * len(x.shape), [(0.0, 1.0)] * len(x.shape))
    regions = _regions(s, own, sizes) if how.rule == CROP else [(0.0, 1.0)] * len(axes)
    for k, size, scale, region in zip(axes, sizes, scales, regions, strict=True):
        to.sizes[k], to.scales[k], to.regions[k] = size, scale, region
    if min(to.sizes) < 1:
        raise TinycError(f"{list(x.shape)} cannot be resized to {to.sizes}", s.where)
    return to


def _given_scales(s: OnnxStep, recent: bool) -> list[float]:
    """One factor per axis: an attribute of Upsample before operator set 9, an input since."""
    if s.node.op == "Upsample" and s.opset < 9:
        return [float(v) for v in s.node.all_reals("scales")]
    return [float(v) for v in s.weights(2 if recent else 1).reshape(-1)]


def _with_aspect(s: OnnxStep, own: list[int], sizes: list[int]) -> tuple[list[int], list[float]]:
    """(sizes, scales): all axes by one scale where the policy asks for that."""
    scales = [n / size for n, size in zip(sizes, own, strict=True)]
    policy = s.node.text("keep_aspect_ratio_policy", "stretch")
    if policy == "stretch":
        return sizes, scales
    if policy not in ("not_larger", "not_smaller"):
        raise TinycError(f"keep_aspect_ratio_policy '{policy}' cannot be compiled", s.where)
    scale = min(scales) if policy == "not_larger" else max(scales)
    return [math.floor(scale * size + 0.5) for size in own], [scale] * len(own)


def _check_placed(s: OnnxStep, how: Resampling, own: list[int], sizes: list[int], scales: list[float]) -> None:
    """Refuse what ONNX and ONNX Runtime place differently: corners aligned to, or a region by, no whole size, and
    filters of an axis that keeps its size at another scale."""
    axes = list(zip(own, sizes, scales, strict=True))
    exact = all(abs(n * by - size) < 1e-3 for n, size, by in axes)
    still = any(n == size and by != 1 for n, size, by in axes)
    if how.rule == CROP or (how.rule == "align_corners" and not exact) or (how.antialias and still):
        raise TinycError(
            f"{how.rule} of {own} by scales {scales} cannot be compiled", s.where, "give sizes, not scales"
        )


def _regions(s: OnnxStep, own: list[int], sizes: list[int]) -> list[tuple[float, float]]:
    """(begin, end) of each axis as parts of it. ONNX Runtime takes the whole axis where the size stays: refused."""
    ends = [float(v) for v in s.weights(1).reshape(-1)] if s.has(1) else []
    if len(ends) != 2 * len(own) or not all(math.isfinite(v) for v in ends):
        raise TinycError(f"a region of {len(ends)} numbers for {len(own)} axes does not fit", s.where)
    regions = list(zip(ends[: len(own)], ends[len(own) :], strict=True))
    for region, before, after in zip(regions, own, sizes, strict=True):
        if before == after and region != (0, 1):
            raise TinycError(f"the region {region} of an axis that keeps its {before} elements", s.where)
    return regions


def _resized_axes(s: OnnxStep, rank: int) -> list[int]:
    """The axes that sizes or scales are for."""
    given = s.node.ints("axes")
    axes = list(range(rank)) if given is None else [s.axis(axis, rank) for axis in given]
    if len(set(axes)) < len(axes):
        raise TinycError(f"axes {axes} name one twice", s.where)
    return axes


def _has_kernel(x: Value, to: _Resized, how: Resampling) -> bool:
    """Whether only rows and columns of one image change, or moments, to the nearest pixel or bilinear."""
    if how.rule == CROP or how.mode == "cubic" or (how.antialias and how.mode == "linear"):
        return False
    return len(x.shape) in (3, 4) and x.shape[0] == 1 and tuple(to.sizes[:2]) == x.shape[:2]


def _image(s: OnnxStep, to: _Resized, how: Resampling) -> None:
    rank = len(to.sizes)
    x = s.image(0)
    axes = [(n, to.sizes[k], to.scales[k]) for k, n in zip((-2, -1), x.shape[1:3], strict=True)]
    if rank == 3:
        axes[0] = (1, 1, 1.0)
    if how.mode == "nearest":
        rows, columns = (nearest_onnx(*axis, how.rule, how.rounding) for axis in axes)
        s.emit_image([x], ResizeNearest(rows, columns), rank=rank)
    else:
        upper, left = (bilinear_onnx(*axis, how.rule) for axis in axes)
        s.emit_image([x], ResizeBilinear(upper, left, FINE), rank=rank)


def _axis_by_axis(s: OnnxStep, x: Value, to: _Resized, how: Resampling) -> None:
    """Those that shrink most come first: less is left to do for the others."""
    rank = len(x.shape)
    for axis in sorted(range(rank), key=lambda k: to.sizes[k] / x.shape[k]):
        count, size, scale, region = x.shape[axis], to.sizes[axis], to.scales[axis], to.regions[axis]
        if size == count and scale == 1 and region == (0.0, 1.0):
            continue
        check_shape(f"its weights along axis {axis}", (size, count), s.where, _MOST_WEIGHTS)
        weights, constants = matrix_onnx(how, count, size, scale, region)
        if how.mode == "nearest" and not constants.any() and weights.any(axis=1).all():
            x = s.insert([x], picked(x.shape, axis, [int(k) for k in weights.argmax(axis=1)]), f"resized{axis}")
        else:
            x = _product(s, x, axis, weights, constants)
    s.emit([x], Reshape(x.shape))


def _product(s: OnnxStep, x: Value, axis: int, weights: Array, constants: Array) -> Value:
    """x with one axis times weights [new, old], plus constants [new]."""
    rank, name = len(x.shape), s.node.outputs[0]
    last = (*(k for k in range(rank) if k != axis), axis)
    turned = s.transpose(x, last, f"last{axis}")
    inputs = [s.reshape(turned, (x.elements // x.shape[axis], x.shape[axis]), f"rows{axis}")]
    inputs.append(s.builder.add_const(f"{name}:weights{axis}", weights.astype(np.float32)))
    if constants.any():
        inputs.append(s.builder.add_const(f"{name}:outside{axis}", constants.astype(np.float32)))
    product = s.insert(inputs, FullyConnected(), f"resized{axis}")
    whole = s.reshape(product, (*turned.shape[:-1], weights.shape[0]), f"whole{axis}")
    return s.transpose(whole, tuple(int(k) for k in np.argsort(last)), f"back{axis}")
