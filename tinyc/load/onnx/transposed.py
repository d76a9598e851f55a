# SPDX-License-Identifier: Apache-2.0
"""ConvTranspose: one- and two-dimensional, in groups or not."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tinyc.base.errors import TinycError
from tinyc.base.limits import MAX_ELEMENTS
from tinyc.ir.graph import Array, Value
from tinyc.kernel.site import Pair
from tinyc.load.onnx.importing import OnnxStep, imports
from tinyc.ops.transpose_conv2d import TransposeConv2D


@imports("ConvTranspose")
def conv_transpose(s: OnnxStep) -> None:
    """w [I,O,KH,KW] (or [I,O,K]). Groups become one, with weights of 0 between them, and so do taps of a dilation."""
    weights, x, rank = s.weights(1), s.image(0), len(s.value(0).shape)
    groups = s.node.int_("group", 1)
    if weights.ndim != rank or weights.shape[0] != x.shape[3] or groups < 1 or x.shape[3] % groups:
        raise TinycError(f"weights {list(weights.shape)} in {groups} groups do not fit {x.shape[3]} channels", s.where)
    taps, given = weights.shape[2:], s.node.ints("kernel_shape")
    if given is not None and given != taps:
        raise TinycError(f"kernel_shape {list(given)} does not fit weights {list(weights.shape)}", s.where)
    dilation = s.node.ints("dilations") or (1,) * len(taps)
    if len(dilation) != len(taps) or min(dilation) < 1:
        raise TinycError(f"dilations {list(dilation)} do not fit weights {list(weights.shape)}", s.where)
    kernel = tuple((n - 1) * d + 1 for n, d in zip(taps, dilation, strict=True))
    if kernel != taps:
        s.builder.folded.take(s.node.inputs[1], (*weights.shape[:2], *kernel), s.where)
    is_grid = s.node.inputs[1] in s.builder.grids  # then the scales are moved as well, which are never 0
    stride, pads, size = _geometry(s, kernel, x.shape[3 - len(kernel) : 3])
    if min(size) < 1 or math.prod(size) * weights.shape[1] * groups > MAX_ELEMENTS:
        raise TinycError(f"its output would have {'x'.join(map(str, size))} pixels", s.where)
    if groups == 1:
        w = s.weight(1, lambda a: _rows(_spread(a, dilation, is_grid)).transpose(1, 2, 3, 0), 0)
    else:
        s.builder.folded.take(s.node.inputs[1], (groups, *weights.shape), s.where)

        def whole(a: Array) -> Array:
            rows = _rows(_spread(a, dilation, is_grid))
            return _dense(rows, groups, filled=is_grid and a.dtype.kind == "f").transpose(1, 2, 3, 0)

        w = s.weight(1, whole, 0)
    b = _bias(s, w.shape[0]) if s.has(2) else None
    attrs = TransposeConv2D(_pair(stride, 1), _pair(pads, 0), _pair(size, 1))
    s.emit_image([x, w, b], attrs, rank=rank)


def _geometry(
    s: OnnxStep, kernel: Sequence[int], sizes: Sequence[int]
) -> tuple[Sequence[int], Sequence[int], Sequence[int]]:
    """(strides, padding before, size of the output) of each axis. Source: ONNX operator reference, ConvTranspose."""
    count = len(kernel)
    stride = s.node.ints("strides") or (1,) * count
    extra = s.node.ints("output_padding") or (0,) * count
    pads = s.node.ints("pads") or (0,) * (2 * count)
    auto, out_sizes = s.node.text("auto_pad", "NOTSET"), s.node.ints("output_shape")
    if (len(stride), len(extra), len(pads)) != (count, count, 2 * count) or min(stride) < 1 or min((*pads, *extra)) < 0:
        raise TinycError(
            f"strides {list(stride)}, pads {list(pads)}, output_padding {list(extra)} do not fit together", s.where
        )
    full = [stride[k] * (sizes[k] - 1) + kernel[k] + extra[k] for k in range(count)]
    if out_sizes is None and auto in ("SAME_UPPER", "SAME_LOWER"):
        # A kernel smaller than the stride reaches less far than `sizes * stride`: ONNX Runtime adds nothing there.
        out_sizes = tuple(min(stride[k] * sizes[k], full[k]) for k in range(count))
    if out_sizes is None:
        if auto == "VALID":
            return stride, (0,) * count, full
        return stride, pads[:count], [full[k] - pads[k] - pads[count + k] for k in range(count)]
    size = out_sizes[-count:]
    cut = [max(full[k] - size[k], 0) for k in range(count)]
    before = [n // 2 if auto == "SAME_UPPER" else n - n // 2 for n in cut]
    return stride, before, size


def _pair(numbers: Sequence[int], missing: int) -> Pair:
    return Pair(missing, numbers[0]) if len(numbers) == 1 else Pair(numbers[0], numbers[1])


def _rows(w: Array) -> Array:
    """Weights [I,O,K] as [I,O,1,K]."""
    return w[:, :, None, :] if w.ndim == 3 else w


def _spread(w: Array, dilation: Sequence[int], is_grid: bool) -> Array:
    """Weights [I,O,K...] with d - 1 zeros between the taps of each axis; scales of a grid with their neighbours."""
    for axis, d in enumerate(dilation, 2):
        repeated = np.repeat(w, d, axis=axis)
        w = np.take(repeated, range(repeated.shape[axis] - d + 1), axis=axis)
        if d > 1 and not (is_grid and w.dtype.kind == "f"):
            between = [k for k in range(w.shape[axis]) if k % d]
            w[(slice(None),) * axis + (between,)] = 0
    return w


def _dense(w: Array, groups: int, *, filled: bool) -> Array:
    """Weights [I,O/groups,KH,KW] of groups as [I,O,KH,KW] of one, 0 between a group and another's channels.

    filled: there the numbers of the group's own channels instead.
    """
    each_in, each_out = w.shape[0] // groups, w.shape[1]
    full = np.tile(w, (1, groups, 1, 1))
    for g in range(0 if filled else groups):
        others = np.delete(np.arange(w.shape[0]), np.s_[g * each_in : (g + 1) * each_in])
        full[others, g * each_out : (g + 1) * each_out] = 0
    return full


def _bias(s: OnnxStep, out_c: int) -> Value:
    bias: Array = s.weights(2)
    if bias.shape != (out_c,):
        raise TinycError(f"bias {list(bias.shape)} does not fit {out_c} output channels", s.where)
    return s.weight(2, np.asarray, 0)
