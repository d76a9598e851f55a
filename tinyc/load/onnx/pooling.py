# SPDX-License-Identifier: Apache-2.0
"""Pooling; that of the largest with their places is in `max_pooling.py`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tinyc.base.errors import TinycError
from tinyc.ir.graph import Value
from tinyc.kernel.site import Padding, Pair
from tinyc.kernel.windows import Window
from tinyc.load.onnx import volumes
from tinyc.load.onnx.importing import OnnxStep, imports
from tinyc.load.onnx.windows import ONE, AxisWindow, lines, window
from tinyc.ops.absolute import Absolute
from tinyc.ops.add import Add
from tinyc.ops.avg_pool2d import AvgPool2D
from tinyc.ops.max_pool2d import MaxPool2D
from tinyc.ops.mean import Mean
from tinyc.ops.mul import Mul
from tinyc.ops.power import Power


def windows_along(s: OnnxStep) -> tuple[list[AxisWindow], list[AxisWindow]]:
    """How the node's window slides along each axis behind the channels as its attributes say, and with the padding that
    ceil_mode implies."""
    sizes, kernel = s.value(0).shape[2:], s.node.ints("kernel_shape")
    if kernel is None or len(kernel) != len(sizes) or not kernel:
        raise TinycError(f"kernel_shape {list(kernel or ())} does not fit the input", s.where)
    given = lines(s, sizes, kernel)
    if not s.node.flag("ceil_mode", False):
        return given, given
    return given, [line.rounded_up(size) for line, size in zip(given, sizes, strict=True)]


def pooled(s: OnnxStep, sliding: Sequence[AxisWindow], attrs: Callable[[Window], Any]) -> None:
    """The pool of these attributes over signals, images or volumes."""
    rank = len(s.value(0).shape)
    if rank == volumes.RANK:
        volumes.pool(s, sliding, attrs)
    else:
        s.emit_image([s.image(0)], attrs(window(*(ONE, *sliding)[-2:])), rank=rank)


@imports("AveragePool")
def average_pool(s: OnnxStep) -> None:
    given, sliding = windows_along(s)
    count_pad = s.node.flag("count_include_pad", False) and any(line.before or line.after for line in sliding)
    if count_pad and given != sliding:
        raise TinycError("ceil_mode together with count_include_pad is not supported", s.where)
    pooled(s, sliding, lambda at: AvgPool2D(*at, count_pad=count_pad))


@imports("LpPool")
def lp_pool(s: OnnxStep) -> None:
    """The root of the sum of powers of a window: of their mean, times the size of the window."""
    x, p = s.image(0), s.node.int_("p", 2)
    at = window(*(ONE, *windows_along(s)[1])[-2:])
    if p < 1:
        raise TinycError(f"LpPool with p = {p} cannot be compiled", s.where, "p must be 1 or more")
    size = s.insert([x], Absolute(), "sizes")
    powers = size if p == 1 else s.insert([size], Power(float(p)), "powers")
    means = s.insert([powers], AvgPool2D(*at, count_pad=True), "means")
    area = s.builder.add_const(f"{s.node.outputs[0]}:area", np.array(at.kernel.h * at.kernel.w, np.float32))
    sums = s.insert([means, area], Mul(), "sums")
    s.emit_image([sums], Power(1 / p), rank=len(s.value(0).shape))


@imports("LRN")
def local_response_normalization(s: OnnxStep) -> None:
    """x over a power of the mean square of the channels around it."""
    x, size = s.value(0), s.node.int_("size", 0)
    if len(x.shape) < 2 or size < 1:
        raise TinycError(f"LRN of {list(x.shape)} over {size} channels cannot be compiled", s.where)
    swap = (1, 0, *range(2, len(x.shape)))
    squares = s.transpose(s.insert([x, x], Mul(), "squares"), swap, "by_channel")
    rows = s.reshape(squares, (1, x.shape[1], 1, x.elements // x.shape[1]), "rows")
    before, after = (min(n, x.shape[1] - 1) for n in ((size - 1) // 2, size // 2))
    around = AvgPool2D(Pair(before + after + 1, 1), pad=Padding(before, 0, after, 0), count_pad=True)
    means = s.transpose(s.reshape(s.insert([rows], around, "means"), squares.shape, "apart"), swap, "by_image")
    name = s.node.outputs[0]
    alpha = np.array(s.node.float_("alpha", 1e-4) * (before + after + 1) / size, np.float32)
    bias = np.array(s.node.float_("bias", 1.0), np.float32)
    scaled = s.insert([means, s.builder.add_const(f"{name}:alpha", alpha)], Mul(), "scaled")
    total = s.insert([scaled, s.builder.add_const(f"{name}:bias", bias)], Add(), "total")
    s.emit([x, s.insert([total], Power(-s.node.float_("beta", 0.75)), "factor")], Mul())


@imports("GlobalMaxPool")
def global_max_pool(s: OnnxStep) -> None:
    _whole(s, lambda x: MaxPool2D(Pair(x.shape[1], x.shape[2])))


@imports("GlobalAveragePool")
def global_average_pool(s: OnnxStep) -> None:
    _whole(s, lambda x: Mean((1, 2), keep_dims=True))


def _whole(s: OnnxStep, attrs: Callable[[Value], Any]) -> None:
    """One element of each channel, by an operator over all of the image [1,H,W,C]."""
    rank = len(s.value(0).shape)
    if rank == volumes.RANK:
        volumes.whole_volume(s, attrs)
    else:
        x = s.image(0)
        s.emit_image([x], attrs(x), rank=rank)
