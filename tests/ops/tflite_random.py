# SPDX-License-Identifier: Apache-2.0
"""Layers of every TFLite operator that tinyc imports, at random: scales, zero points, sizes, options and their edges.

A generator is a function of a random number generator; `GENERATORS` has one per operator. What it makes is a legal file
in most draws; where TensorFlow Lite Micro itself refuses one there is nothing to compare.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.random import Generator

from tests.ops import tflite_random_moves as moves
from tests.ops import tflite_random_weighted as weighted
from tests.ops.tflite_builder import Operator, Tensor
from tests.ops.tflite_layers import (
    REALS,
    S8_F32,
    Layer,
    act,
    constant,
    fused,
    image,
    kernel_of,
    numbers,
    output,
    pair,
    pick,
    same,
    shape_of,
    sliding,
)


def arithmetic(code: str, options: str, dtypes: Sequence[str] = REALS) -> Callable[[Generator], Layer]:
    def draw(r: Generator) -> Layer:
        a, b, shape = pair(r, pick(r, *dtypes))
        about = None
        if a.scale:
            product = a.scale[0] * b.scale[0] * (100 if a.dtype == "s8" else 25000)
            about = {"MUL": product, "SQUARED_DIFFERENCE": 200 * max(a.scale[0], b.scale[0]) ** 2}.get(code, a.scale[0])
            about = min(
                about * 2 ** r.uniform(-2, 2) * pick(r, 1, 1, 30, 1 / 30), 0.6
            )  # from 2 on XNNPACK rounds 1 to 0
        y = act(r, "y", shape, a.dtype, about)
        fields = fused(r) if options not in ("", "SquaredDifferenceOptions") else {}
        if code in ("ADD", "SUB") and a.dtype == "s16":
            fields["PotScaleInt16"] = False
        return Layer(Operator(code, (a.name, b.name), ("y",), options, fields, version=2), (a, b, y))

    return draw


def divide(r: Generator) -> Layer:
    a, b, shape = pair(r, pick(r, "s8", "f32"))
    if a.scale:
        # Beyond these TensorFlow Lite Micro divides by 0, or shifts an int32 by 32 and more: undefined.
        b = constant(r, replace(b, zero=(pick(r, -128, 127),)))
        b = replace(b, data=np.where(b.data == b.zero[0], np.int8(3), b.data))
        y = act(r, "y", shape, "s8", a.scale[0] / b.scale[0] * 2.0 ** -int(r.integers(10, 14)))
        return Layer(Operator("DIV", (a.name, b.name), ("y",), "DivOptions", fused(r)), (a, b, y))
    y = Tensor("y", shape, "f32")
    return Layer(Operator("DIV", (a.name, b.name), ("y",), "DivOptions", fused(r)), (a, b, y), low=0.5)


def extremum(code: str) -> Callable[[Generator], Layer]:
    def draw(r: Generator) -> Layer:
        a, b, shape = pair(r, pick(r, *REALS))
        b = replace(b, scale=a.scale, zero=a.zero)
        return Layer(Operator(code, (a.name, b.name), ("y",), "MaximumMinimumOptions"), (a, b, same(a, shape)))

    return draw


def unary(
    code: str,
    dtypes: Sequence[str] = S8_F32,
    options: str = "",
    low: float = -3.0,
    fixed: dict[str, tuple[float, int]] | None = None,
    **fields: Sequence[Any],
) -> Callable[[Generator], Layer]:
    """fixed: the output's scale and zero point by dtype, where the operator asks for one. fields: what they may be."""

    def draw(r: Generator) -> Layer:
        x = act(r, "x", shape_of(r), pick(r, *dtypes))
        y = output(r, x, x.shape)
        if fixed and x.dtype in fixed:
            scale, zero = fixed[x.dtype]
            y = Tensor("y", x.shape, x.dtype, (scale,), (zero,))
        given = {name: pick(r, *values) for name, values in fields.items()}
        return Layer(Operator(code, ("x",), ("y",), options, given), (x, y), low=low)

    return draw


def positive(code: str) -> Callable[[Generator], Layer]:
    """Of integers that stand for no negative number."""

    def draw(r: Generator) -> Layer:
        layer = unary(code, ("s8", "f32"), low=0.1)(r)
        x, y = layer.tensors
        return replace(layer, tensors=(replace(x, zero=(-128,)), y) if x.scale else (x, y))

    return draw


def prelu(r: Generator) -> Layer:
    x = act(r, "x", image(r), pick(r, "s8", "f32"))
    a = act(r, "a", pick(r, (1, 1, x.shape[3]), x.shape[1:], (1, 1, 1)), x.dtype, 0.01)
    return Layer(Operator("PRELU", ("x", "a"), ("y",)), (x, constant(r, a), output(r, x, x.shape)))


def softmax(r: Generator) -> Layer:
    x = act(
        r,
        "x",
        shape_of(r),
        pick(r, "s8", "s8", "s16", "wide", "f32").replace("wide", "s8"),
        pick(r, 1e-3, 0.05, 0.5, 3.0),
    )
    fields = {"Beta": pick(r, 1.0, 1.0, 0.5, 2.0, 10.0)}
    y = Tensor("y", x.shape, "f32")
    if x.dtype == "s8":
        y = pick(
            r, Tensor("y", x.shape, "s8", (1 / 256,), (-128,)), Tensor("y", x.shape, "s16", (1 / 65536,), (-32768,))
        )
    elif x.dtype == "s16":
        x = replace(x, scale=(pick(r, 2.0**-12, 1e-4, 10 / 65535),))
        y = Tensor("y", x.shape, "s16", (1 / 32768,), (0,))
    return Layer(Operator("SOFTMAX", ("x",), ("y",), "SoftmaxOptions", fields), (x, y))


def reduction(code: str, dtypes: Sequence[str] = REALS) -> Callable[[Generator], Layer]:
    def draw(r: Generator) -> Layer:
        x = act(r, "x", shape_of(r, 1, 4), pick(r, *dtypes))
        rank = len(x.shape)
        axes = [int(k) for k in r.permutation(rank)[: int(r.integers(1, rank + 1))]]
        keep = bool(r.integers(2))
        shape = [1 if k in axes else n for k, n in enumerate(x.shape) if keep or k not in axes]
        named = [k - rank if r.random() < 0.2 else k for k in axes]
        is_moving = code in ("REDUCE_MAX", "REDUCE_MIN")
        y = same(x, shape) if is_moving and r.random() < 0.7 else output(r, x, shape)
        fields = {"KeepDims": keep}
        axes_tensor = numbers("axes", named if len(named) > 1 or r.random() < 0.8 else named[0])
        return Layer(Operator(code, ("x", "axes"), ("y",), "ReducerOptions", fields), (x, axes_tensor, y))

    return draw


def arg_extremum(code: str) -> Callable[[Generator], Layer]:
    def draw(r: Generator) -> Layer:
        x = act(r, "x", shape_of(r, 2, 4), pick(r, *S8_F32))
        axis = int(r.integers(0, len(x.shape)))
        shape = tuple(n for k, n in enumerate(x.shape) if k != axis)
        named = axis - len(x.shape) if r.random() < 0.3 else axis
        fields = {"OutputType": 2}
        options = {"ARG_MAX": "ArgMaxOptions", "ARG_MIN": "ArgMinOptions"}[code]
        return Layer(
            Operator(code, ("x", "axis"), ("y",), options, fields),
            (x, numbers("axis", named), Tensor("y", shape, "s32")),
        )

    return draw


def pool(code: str) -> Callable[[Generator], Layer]:
    def draw(r: Generator) -> Layer:
        x = act(r, "x", image(r), pick(r, *REALS))
        kernel = kernel_of(r, x.shape)
        options, size = sliding(r, x.shape, kernel, dilated=False)
        fields = {**options, **fused(r), "FilterHeight": kernel[0], "FilterWidth": kernel[1]}
        return Layer(Operator(code, ("x",), ("y",), "Pool2DOptions", fields), (x, same(x, (1, *size, x.shape[3]))))

    return draw


_LOGISTIC = {"s8": (1 / 256, -128), "s16": (1 / 32768, 0)}
_TANH = {"s8": (1 / 128, 0), "s16": (1 / 32768, 0)}

GENERATORS: dict[str, Callable[[Generator], Layer]] = {
    "CONV_2D": weighted.conv,
    "DEPTHWISE_CONV_2D": weighted.depthwise,
    "FULLY_CONNECTED": weighted.dense,
    "TRANSPOSE_CONV": weighted.transpose_conv,
    "BATCH_MATMUL": weighted.batch_matmul,
    "ADD": arithmetic("ADD", "AddOptions"),
    "SUB": arithmetic("SUB", "SubOptions"),
    "MUL": arithmetic("MUL", "MulOptions"),
    "SQUARED_DIFFERENCE": arithmetic("SQUARED_DIFFERENCE", "SquaredDifferenceOptions", S8_F32),
    "DIV": divide,
    **{code: extremum(code) for code in ("MAXIMUM", "MINIMUM")},
    "ABS": unary("ABS", S8_F32),
    **{code: unary(code, ("f32",)) for code in ("CEIL", "COS", "FLOOR", "NEG", "ROUND", "SIGN", "SIN", "SQUARE")},
    "ELU": unary("ELU", S8_F32),
    "EXP": unary("EXP", S8_F32),
    "LOG": positive("LOG"),
    "SQRT": unary("SQRT", ("f32",), low=0.0),
    "RSQRT": positive("RSQRT"),
    "HARD_SWISH": unary("HARD_SWISH", S8_F32, "HardSwishOptions"),
    "GELU": unary("GELU", S8_F32, "GeluOptions", Approximate=(False, True)),
    "LEAKY_RELU": unary("LEAKY_RELU", REALS, "LeakyReluOptions", Alpha=(0.1, 0.0, 1.0, 1.5, 2.0**-20, 0.25)),
    **{code: unary(code, REALS) for code in ("RELU", "RELU6", "RELU_N1_TO_1")},
    "LOGISTIC": unary("LOGISTIC", REALS, fixed=_LOGISTIC),
    "TANH": unary("TANH", REALS, fixed=_TANH),
    "LOG_SOFTMAX": unary("LOG_SOFTMAX", S8_F32, "LogSoftmaxOptions", fixed={"s8": (16 / 256, 127)}),
    "L2_NORMALIZATION": unary("L2_NORMALIZATION", S8_F32, "L2NormOptions", fixed={"s8": (1 / 128, 0)}),
    "PRELU": prelu,
    "SOFTMAX": softmax,
    **{code: reduction(code) for code in ("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN")},
    **{code: arg_extremum(code) for code in ("ARG_MAX", "ARG_MIN")},
    **{code: pool(code) for code in ("AVERAGE_POOL_2D", "MAX_POOL_2D")},
    **{code: moves.pad(code) for code in ("PAD", "PADV2", "MIRROR_PAD")},
    "CONCATENATION": moves.concat,
    **{code: moves.reshape(code) for code in ("RESHAPE", "SQUEEZE", "EXPAND_DIMS")},
    "TRANSPOSE": moves.transpose,
    "SLICE": moves.slice_,
    "STRIDED_SLICE": moves.strided_slice,
    **{code: moves.split(code) for code in ("SPLIT", "SPLIT_V", "UNPACK")},
    "PACK": moves.pack,
    "GATHER": moves.gather,
    "TILE": moves.tile,
    "BROADCAST_TO": moves.broadcast_to,
    "REVERSE_V2": moves.reverse,
    **{code: moves.resize(code) for code in ("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR")},
    **{code: moves.blocks(code) for code in ("DEPTH_TO_SPACE", "SPACE_TO_DEPTH")},
    **{code: moves.batches(code) for code in ("SPACE_TO_BATCH_ND", "BATCH_TO_SPACE_ND")},
    "QUANTIZE": moves.quantize,
    "DEQUANTIZE": moves.dequantize,
    **{
        code: moves.comparison(code)
        for code in ("EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL", "NOT_EQUAL")
    },
    **{code: moves.choice(code) for code in ("SELECT", "SELECT_V2", "LOGICAL_AND", "LOGICAL_OR")},
    "ADD_N": moves.add_n,
    "CAST": moves.cast,
    "SHAPE": moves.shape_as_reshape,
    "POW": moves.power,
    "EMBEDDING_LOOKUP": moves.embedding,
    "SVDF": weighted.svdf,
    "UNIDIRECTIONAL_SEQUENCE_LSTM": weighted.lstm,
}
