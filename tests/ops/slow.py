# SPDX-License-Identifier: Apache-2.0
"""The meaning of weighted and pooling layers once more, written with Python integers and loops.

Nothing here comes from tinyc.numerics or tinyc.ops: zero points are subtracted where they stand, taps outside
the image are skipped, and scaling is done on exact fractions.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from tinyc.base.numerics import Numerics
from tinyc.ir.graph import Array, Graph


def half_up(value: Fraction) -> int:
    """The nearest integer, halves upwards."""
    return math.floor(value + Fraction(1, 2))


def half_away(value: Fraction) -> int:
    """The nearest integer, halves away from zero."""
    return half_up(value) if value >= 0 else -half_up(-value)


def scaled(acc: int, scales: tuple[float, float, float], numerics: Numerics) -> int:
    """acc * x_scale * w_scale / y_scale with the rounding of the runtime."""
    x, w, y = scales
    if numerics.scales_in_float:
        factor32 = np.float32(x) * np.float32(w) / np.float32(y)
        return round(Fraction(float(np.float32(acc) * factor32)))
    mantissa, exponent = math.frexp(x * w / y)
    factor = Fraction(half_up(Fraction(mantissa) * 2**31), 2**31)
    if numerics is Numerics.OURS:
        return half_up(acc * factor * Fraction(2) ** exponent)
    product = half_up(acc * factor * 2 ** max(exponent, 0))
    return half_away(Fraction(product, 2 ** max(-exponent, 0)))


def output(graph: Graph, o: int, acc: int, numerics: Numerics) -> int:
    """The int8 output of channel o for an accumulator without zero points."""
    node = graph.nodes[0]
    x, w, y = (graph.values[name].quant for name in (node.inputs[0], node.inputs[1], "y"))
    w_scale = w.scale[o if len(w.scale) > 1 else 0]
    real = scaled(acc, (x.scale[0], w_scale, y.scale[0]), numerics) + y.zero[0]
    low, high = node.attrs.act.range_of(graph.values["y"])
    return max(low, min(high, real))


def taps(attrs, kernel: tuple[int, int], shape: tuple[int, ...], r: int, c: int) -> Iterator[tuple[int, int, int, int]]:
    """(ky, kx, row, column) of the taps of window (r, c) that lie inside an image of `shape`."""
    for ky in range(kernel[0]):
        for kx in range(kernel[1]):
            row = r * attrs.stride.h - attrs.pad.top + ky * attrs.dilation.h
            column = c * attrs.stride.w - attrs.pad.left + kx * attrs.dilation.w
            if 0 <= row < shape[1] and 0 <= column < shape[2]:
                yield ky, kx, row, column


def conv2d(graph: Graph, x: Array, numerics: Numerics) -> Array:
    """conv2d and depthwise_conv2d of a one-node graph with inputs x, w and maybe b."""
    node = graph.nodes[0]
    depthwise = node.op == "depthwise_conv2d"
    w = graph.consts["w"].transpose(2, 0, 1)[..., None] if depthwise else graph.consts["w"]
    bias = graph.consts["b"] if "b" in graph.consts else np.zeros(len(w), np.int32)
    groups = x.shape[3] if depthwise else node.attrs.groups
    zero = graph.values["x"].quant.zero[0]
    y = np.zeros(graph.values["y"].shape, np.int8)
    for _, r, c, o in np.ndindex(*y.shape):
        first = o // (len(w) // groups) * w.shape[3]
        acc = int(bias[o])
        for ky, kx, row, column in taps(node.attrs, w.shape[1:3], x.shape, r, c):
            for i in range(w.shape[3]):
                acc += (int(x[0, row, column, first + i]) - zero) * int(w[o, ky, kx, i])
        y[0, r, c, o] = output(graph, o, acc, numerics)
    return y


def fully_connected(graph: Graph, x: Array, numerics: Numerics) -> Array:
    """fully_connected of a one-node graph with inputs x, w and maybe b."""
    w = graph.consts["w"]
    bias = graph.consts["b"] if "b" in graph.consts else np.zeros(len(w), np.int32)
    zero = graph.values["x"].quant.zero[0]
    rows = []
    for sample in x.reshape(-1, w.shape[1]).tolist():
        sums = [sum((q - zero) * t for q, t in zip(sample, line, strict=True)) for line in w.tolist()]
        rows.append([output(graph, o, total + int(bias[o]), numerics) for o, total in enumerate(sums)])
    return np.array(rows, np.int8).reshape(graph.values["y"].shape)


def pool(graph: Graph, x: Array) -> Array:
    """avg_pool2d and max_pool2d of a one-node graph."""
    node = graph.nodes[0]
    low, high = node.attrs.act.range_of(graph.values["y"])
    zero = graph.values["x"].quant.zero[0]
    y = np.zeros(graph.values["y"].shape, np.int8)
    for _, r, c, o in np.ndindex(*y.shape):
        inside = [int(x[0, row, col, o]) for _, _, row, col in taps(node.attrs, node.attrs.kernel, x.shape, r, c)]
        if node.op == "max_pool2d":
            value = max(inside)
        else:
            if node.attrs.count_pad:
                inside += [zero] * (node.attrs.kernel.h * node.attrs.kernel.w - len(inside))
            mean = Fraction(sum(inside), len(inside))
            value = half_away(mean + 128) - 128 if node.attrs.halves_up else half_away(mean)
        y[0, r, c, o] = max(low, min(high, value))
    return y
