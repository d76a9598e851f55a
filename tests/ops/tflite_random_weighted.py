# SPDX-License-Identifier: Apache-2.0
"""Random weighted layers and layers that remember, for `tflite_random`."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.random import Generator

from tests.ops.tflite_builder import Operator, Tensor
from tests.ops.tflite_layers import (
    CHANNELS,
    REALS,
    Layer,
    act,
    constant,
    fused,
    image,
    ints,
    kernel_of,
    numbers,
    pick,
    scale_near,
    sliding,
)
from tinyc.ir.graph import NUMPY_DTYPE, Shape


def weights(
    r: Generator, shape: Shape, axis: int, x: Tensor, taps: int, many: bool = True
) -> tuple[Tensor, Tensor, Tensor]:
    """(weights, bias, output without a shape): scales such that outputs fill their range, or overflow it."""
    if x.dtype == "f32":
        w = r.standard_normal(shape).astype(np.float32)
        b = r.standard_normal(shape[axis]).astype(np.float32)
        return Tensor("w", shape, "f32", data=w), Tensor("b", b.shape, "f32", data=b), Tensor("y", (), "f32")
    count = shape[axis] if r.random() < 0.7 else 1
    scales = tuple(scale_near(r, 0.004 * 2 ** r.uniform(-3, 3)) for _ in range(count))
    least = -128 if r.random() < 0.1 else -127
    data = np.where(r.random(shape) < 0.2, r.choice((least, 127), shape), r.integers(least, 128, shape)).astype(np.int8)
    w = Tensor("w", shape, "s8", scales, (0,) * count, axis if count > 1 else 0, data)
    gain = pick(r, 0.05, 0.5, 0.5, 1.0, 4.0, 50.0)
    spread = gain * max(scales) * x.scale[0] * 70 * math.sqrt(taps)
    y = act(r, "y", (), x.dtype, max(spread / math.sqrt(3), 1e-9))
    is_narrow = x.dtype == "s8" or r.random() < 0.3
    most = 20000 if x.dtype == "s8" else 2_000_000
    bias_numbers = r.integers(-most, most, shape[axis])
    b = Tensor(
        "b",
        (shape[axis],),
        "s32" if is_narrow else "s64",
        tuple(float(np.float32(x.scale[0] * s)) for s in scales),
        (0,) * count,
        data=bias_numbers.astype(np.int32 if is_narrow else np.int64),
    )
    return w, b, y


def conv(r: Generator) -> Layer:
    shape = image(r)
    x = act(r, "x", shape, pick(r, *REALS))
    kernel, out_c = kernel_of(r, shape), pick(r, *CHANNELS)
    options, size = sliding(r, shape, kernel, dilated=True)
    groups = 2 if x.dtype == "s8" and shape[3] % 2 == out_c % 2 == 0 and r.random() < 0.5 else 1
    each = shape[3] // groups
    w, b, y = weights(r, (out_c, *kernel, each), 0, x, each * kernel[0] * kernel[1])
    tensors = (x, w, b, replace(y, shape=(1, *size, out_c)))
    names = ("x", "w", "b") if r.random() < 0.8 else ("x", "w")
    return Layer(Operator("CONV_2D", names, ("y",), "Conv2DOptions", {**options, **fused(r)}), tensors)


def depthwise(r: Generator) -> Layer:
    shape = image(r)
    x = act(r, "x", shape, pick(r, *REALS))
    kernel, times = kernel_of(r, shape), pick(r, 1, 1, 1, 2, 3)
    options, size = sliding(r, shape, kernel, dilated=True)
    out_c = shape[3] * times
    w, b, y = weights(r, (1, *kernel, out_c), 3, x, kernel[0] * kernel[1])
    fields = {**options, **fused(r), "DepthMultiplier": times}
    tensors = (x, w, b, replace(y, shape=(1, *size, out_c)))
    names = ("x", "w", "b") if r.random() < 0.8 else ("x", "w")
    return Layer(Operator("DEPTHWISE_CONV_2D", names, ("y",), "DepthwiseConv2DOptions", fields), tensors)


def dense(r: Generator) -> Layer:
    dtype = pick(r, *REALS)
    keep = dtype != "s16" and r.random() < 0.4
    n, out_c = pick(r, 1, 3, 7, 16, 40), pick(r, *CHANNELS)
    lead = tuple(ints(r, 1, 3, pick(r, 1, 2, 3))) if keep else (pick(r, 1, 1, 3),)
    x = act(r, "x", (*lead, n), dtype)
    w, b, y = weights(r, (out_c, n), 0, x, n)
    shape = (*lead, out_c) if keep else (math.prod(lead), out_c)
    fields = {**fused(r), "KeepNumDims": keep}
    names = ("x", "w", "b") if r.random() < 0.7 else ("x", "w", "")
    return Layer(
        Operator("FULLY_CONNECTED", names, ("y",), "FullyConnectedOptions", fields), (x, w, b, replace(y, shape=shape))
    )


def transpose_conv(r: Generator) -> Layer:
    shape = image(r)
    x = act(r, "x", shape, pick(r, *REALS))
    kernel, out_c, stride = ints(r, 1, 4, 2), pick(r, *CHANNELS), ints(r, 1, 4, 2)
    is_same = r.random() < 0.5
    size = [n * s if is_same else (n - 1) * s + max(k, 1) for n, k, s in zip(shape[1:3], kernel, stride, strict=True)]
    w, b, y = weights(
        r, (out_c, *kernel, shape[3]), 0, x, shape[3] * kernel[0] * kernel[1] // (stride[0] * stride[1]) + 1
    )
    options = {"StrideH": stride[0], "StrideW": stride[1], "Padding": 0 if is_same else 1, **fused(r)}
    tensors = (numbers("shape", [1, *size, out_c]), w, x, b, replace(y, shape=(1, *size, out_c)))
    names = ("shape", "w", "x", "b") if r.random() < 0.7 else ("shape", "w", "x")
    return Layer(Operator("TRANSPOSE_CONV", names, ("y",), "TransposeConvOptions", options, version=3), tensors)


def batch_matmul(r: Generator) -> Layer:
    dtype = pick(r, *REALS)
    n, k, m = ints(r, 1, 7, 3)
    batch = tuple(ints(r, 1, 3, pick(r, 1, 2)))
    adj_x, adj_y = bool(r.integers(2)), bool(r.integers(2))
    a = act(r, "a", (*batch, k, n) if adj_x else (*batch, n, k), dtype)
    b = act(r, "b", (*batch, m, k) if adj_y else (*batch, k, m), dtype)
    if r.random() < 0.3:
        b = constant(r, b)
    about = a.scale[0] * b.scale[0] * 70 * math.sqrt(k) * pick(r, 0.2, 1, 3) if a.scale else None
    y = act(r, "y", (*batch, n, m), dtype, about)
    fields = {"AdjX": adj_x, "AdjY": adj_y}
    return Layer(Operator("BATCH_MATMUL", ("a", "b"), ("y",), "BatchMatMulOptions", fields), (a, b, y))


def svdf(r: Generator) -> Layer:
    units, rank, memory, in_c = pick(r, 1, 3, 5), pick(r, 1, 2), pick(r, 1, 3, 8), pick(r, 1, 4, 9)
    filters, state = units * rank, pick(r, "s8", "s16")
    most = 127 if state == "s8" else pick(r, 8000, 32767)
    s_scale, t_scale = (0.03, 0.01) if state == "s8" else (2.0**-12 * pick(r, 1, 0.3, 4), 2.0**-17)
    x = act(r, "x", (1, in_c), "s8")
    w = Tensor(
        "w",
        (filters, in_c),
        "s8",
        (scale_near(r, 0.01),),
        (0,),
        data=r.integers(-127, 128, (filters, in_c)).astype(np.int8),
    )
    times = r.integers(-most, most + 1, (filters, memory)).astype(NUMPY_DTYPE[state])  # type: ignore[index]
    t = Tensor("t", times.shape, state, (t_scale,), (0,), data=times)
    limit = pick(r, 2**10, 2**20)
    bias = r.integers(-limit, limit, units).astype(np.int32)
    b = Tensor("b", (units,), "s32", (s_scale * t_scale,), (0,), data=bias)
    s_zero = pick(r, 0, 50, -128, 13, 127) if state == "s8" else 0
    state_tensor = Tensor("state", (1, filters * memory), state, (s_scale,), (s_zero,), variable=True)
    y = act(r, "y", (1, units), "s8", pick(r, 0.02, 0.2, 0.002))
    names = ("x", "w", "t", "b", "state")
    fields = {"Rank": rank, "FusedActivationFunction": pick(r, 0, 1)}
    return Layer(Operator("SVDF", names, ("y",), "SVDFOptions", fields), (x, w, t, b, state_tensor, y), runs=memory + 4)


def lstm(r: Generator) -> Layer:
    units, in_c, steps = pick(r, 1, 3, 7), pick(r, 1, 4, 9), pick(r, 1, 3, 6)
    power = pick(r, -12, -12, -15, -11, -9, -14)
    h_scale, h_zero = scale_near(r, 1 / 120), pick(r, 0, 3, -128, 127)
    x = act(r, "x", (1, steps, in_c), "s8", pick(r, 0.02, 0.1))
    gain = pick(r, 0.004, 0.02, 0.1)
    tensors = [x]
    for kind, wide in (("w", in_c), ("r", units)):
        for gate in "ifgo":
            data = r.integers(-127, 128, (units, wide)).astype(np.int8)
            tensors.append(Tensor(f"{kind}{gate}", data.shape, "s8", (scale_near(r, gain),), (0,), data=data))
    limit = pick(r, 1000, 20000, 200000)
    for k, gate in enumerate("ifgo"):
        scale = float(np.float32(x.scale[0] * tensors[1 + k].scale[0]))
        bias = r.integers(-limit, limit, units).astype(np.int32)
        tensors.append(Tensor(f"b{gate}", (units,), "s32", (scale,), (0,), data=bias))
    tensors.append(Tensor("hidden", (1, units), "s8", (h_scale,), (h_zero,), variable=True))
    tensors.append(Tensor("cell", (1, units), "s16", (2.0**power,), (0,), variable=True))
    major = bool(r.random() < 0.2)
    if major:
        tensors[0] = replace(x, shape=(steps, 1, in_c))
    y = Tensor("y", (steps, 1, units) if major else (1, steps, units), "s8", (h_scale,), (h_zero,))
    whole = 32767 * 2.0**power
    clip = pick(r, 0.0, 0.0, 0.5, 8.0, 10.0, whole, 2 * whole, 32768 * 2.0**power, 2.0**power / 2)
    names = ("x", *(f"{k}{g}" for k in "wr" for g in "ifgo"), "", "", "", *(f"b{g}" for g in "ifgo"), "", "")
    fields = {"FusedActivationFunction": 4, "CellClip": float(np.float32(clip)), "ProjClip": 0.0, "TimeMajor": major}
    operator = Operator(
        "UNIDIRECTIONAL_SEQUENCE_LSTM",
        (*names, "hidden", "cell", "", "", "", ""),
        ("y",),
        "UnidirectionalSequenceLSTMOptions",
        fields,
    )
    return Layer(operator, (*tensors, y), runs=5)
