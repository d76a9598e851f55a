# SPDX-License-Identifier: Apache-2.0
"""Means of powers: of the windows of an image, and of the channels around each."""

from __future__ import annotations

import numpy as np

from tinyc.base.errors import TinycError
from tinyc.kernel.site import Padding, Pair
from tinyc.load.onnx.importing import OnnxStep, imports
from tinyc.load.onnx.pooling import windows_along
from tinyc.load.onnx.windows import ONE, window
from tinyc.ops.absolute import Absolute
from tinyc.ops.add import Add
from tinyc.ops.avg_pool2d import AvgPool2D
from tinyc.ops.mul import Mul
from tinyc.ops.power import Power


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
