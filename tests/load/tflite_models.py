# SPDX-License-Identifier: Apache-2.0
"""Small TFLite models that the loader's tests build and damage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tests.ops.tflite_builder import Operator, Tensor, build_model
from tinyc.ir.graph import Array

RNG_SEED = 5


def act(name: str, *shape: int, scale: float = 0.05, zero: int = -3, dtype: str = "s8") -> Tensor:
    """An activation."""
    return Tensor(name, shape, dtype, () if dtype == "f32" else (scale,), () if dtype == "f32" else (zero,))


def weights(name: str, *shape: int, axis: int = 0, dtype: str = "s8") -> Tensor:
    """Symmetric int8 weights with a scale per index of `axis`, or float ones."""
    rng = np.random.default_rng([RNG_SEED, *name.encode()])
    if dtype == "f32":
        return Tensor(name, shape, dtype, data=rng.normal(0, 0.3, shape).astype(np.float32))
    count = shape[axis]
    scale = tuple(0.01 + 0.001 * i for i in range(count))
    data = rng.integers(-127, 128, shape).astype(np.int8)
    return Tensor(name, shape, dtype, scale, (0,) * count, axis, data)


def bias(name: str, count: int, dtype: str = "s32") -> Tensor:
    """A bias; its scales are arbitrary: the layer uses x.scale * w.scale."""
    rng = np.random.default_rng([RNG_SEED, *name.encode()])
    if dtype == "f32":
        return Tensor(name, (count,), dtype, data=rng.normal(0, 0.3, count).astype(np.float32))
    data = rng.integers(-900, 900, count).astype(np.int32)
    return Tensor(name, (count,), dtype, (0.5,) * count, (0,) * count, 0, data)


def numbers(name: str, values: Sequence[int] | Sequence[Sequence[int]], dtype: str = "s32") -> Tensor:
    """A constant list of integers: axes, paddings, a shape."""
    data = np.array(values, np.int32 if dtype == "s32" else np.int64)
    return Tensor(name, data.shape, dtype, data=data)


CONV = {"StrideH": 2, "StrideW": 1, "DilationHFactor": 1, "DilationWFactor": 1, "Padding": 0}


def network() -> tuple[list[Tensor], list[Operator]]:
    """conv, depthwise, pad, concat, pool, add, reshape, fully connected, softmax: x [1,7,5,3] -> y [1,4]."""
    unit = {"scale": 1 / 256, "zero": -128}
    tensors = [
        act("x", 1, 7, 5, 3),
        weights("cw", 4, 3, 3, 3),
        bias("cb", 4),
        act("c", 1, 4, 5, 4),
        weights("dw", 1, 3, 3, 8, axis=3),
        bias("db", 8),
        act("d", 1, 4, 5, 8),
        numbers("pads", [[0, 0], [1, 0], [0, 1], [0, 0]]),
        act("p", 1, 5, 6, 8),
        act("m", 1, 5, 6, 8),
        act("a", 1, 5, 6, 8, scale=0.1),
        act("v", 1, 2, 3, 8, scale=0.1),
        numbers("shape", [1, 48]),
        act("r", 1, 48, scale=0.1),
        replace(weights("fw", 4, 48), scale=(0.02,), zero=(0,)),
        replace(bias("fb", 4), scale=(0.1 * 0.02,), zero=(0,)),
        act("f", 1, 4, scale=0.2),
        act("y", 1, 4, **unit),
    ]
    pool = {"FilterHeight": 2, "FilterWidth": 2, "StrideH": 2, "StrideW": 2, "Padding": 1}
    same = {"FilterHeight": 3, "FilterWidth": 3, "StrideH": 1, "StrideW": 1, "Padding": 0}
    depthwise = {**CONV, "StrideH": 1, "DepthMultiplier": 2, "FusedActivationFunction": 1}
    operators = [
        Operator("CONV_2D", ("x", "cw", "cb"), ("c",), "Conv2DOptions", {**CONV, "FusedActivationFunction": 3}),
        Operator("DEPTHWISE_CONV_2D", ("c", "dw", "db"), ("d",), "DepthwiseConv2DOptions", depthwise),
        Operator("PAD", ("d", "pads"), ("p",), "PadOptions"),
        Operator("MAX_POOL_2D", ("p",), ("m",), "Pool2DOptions", same),
        Operator("ADD", ("p", "m"), ("a",), "AddOptions", {"FusedActivationFunction": 0}),
        Operator("AVERAGE_POOL_2D", ("a",), ("v",), "Pool2DOptions", pool),
        Operator("RESHAPE", ("v", "shape"), ("r",), "ReshapeOptions"),
        Operator("FULLY_CONNECTED", ("r", "fw", "fb"), ("f",), "FullyConnectedOptions"),
        Operator("SOFTMAX", ("f",), ("y",), "SoftmaxOptions", {"Beta": 1.0}),
    ]
    return tensors, operators


def network_bytes() -> bytes:
    """The file of `network`."""
    tensors, operators = network()
    return build_model(tensors, operators, ["x"], ["y"])


def single(operator: Operator, tensors: Sequence[Tensor]) -> bytes:
    """A file of one operator; its activations without a producer are the inputs."""
    constant = {t.name for t in tensors if t.data is not None}
    inputs = dict.fromkeys(name for name in operator.inputs if name and name not in constant)
    return build_model(tensors, [operator], list(inputs), list(operator.outputs))


def samples(count: int) -> Array:
    """Inputs of `network`, int8 over the whole range."""
    return np.random.default_rng(RNG_SEED).integers(-128, 128, (count, 1, 7, 5, 3)).astype(np.int8)
