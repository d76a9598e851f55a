# SPDX-License-Identifier: Apache-2.0
"""TFLite files that are intact as files, and say what makes no sense: another type, shape, scale, option, or order."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tests.fuzz.damage import EXTREMES, WORDS
from tests.fuzz.tflite_networks import TfliteNetwork
from tests.ops.tflite_builder import TYPES, Operator, Tensor, build_model
from tinyc.load.tflite import IMPORTERS

SCALES = (0.0, -0.1, 1e-30, 1e30, float("nan"), float("inf"), 1.0)
# What the writer raises for what the format has no place for.
_NO_PLACE = (ValueError, TypeError, KeyError, AttributeError, OverflowError, struct.error)
NUMBERS = (0, 1, -1, 2, 3, 7, 1 << 15, (1 << 31) - 1, -(1 << 31))


def changed(network: TfliteNetwork, rng: np.random.Generator) -> TfliteNetwork:
    """One tensor or operator is another."""
    tensors, operators = list(network.tensors), list(network.operators)
    if rng.random() < 0.5:
        at = int(rng.integers(len(tensors)))
        tensors[at] = _tensor(tensors[at], rng)
    else:
        at = int(rng.integers(len(operators)))
        operators[at] = _operator(operators[at], [t.name for t in tensors], rng)
    try:
        content = build_model(tensors, operators, [tensors[0].name], network.outputs)
    except (
        ValueError,
        TypeError,
        KeyError,
        AttributeError,
        OverflowError,
        struct.error,
    ):  # the format has no place for it
        return network
    return replace(network, content=content, tensors=tuple(tensors), operators=tuple(operators))


def _tensor(tensor: Tensor, rng: np.random.Generator) -> Tensor:
    shape = list(tensor.shape) or [1]
    shape[rng.integers(len(shape))] = NUMBERS[rng.integers(len(NUMBERS))]
    scales = list(tensor.scale) or [1.0]
    scales[rng.integers(len(scales))] = SCALES[rng.integers(len(SCALES))]
    ways: Sequence[Callable[[], Tensor]] = (
        lambda: replace(tensor, dtype=list(TYPES)[rng.integers(len(TYPES))], data=None),
        lambda: replace(tensor, shape=tuple(shape)),
        lambda: replace(tensor, shape=tuple(rng.permutation(tensor.shape).tolist())),
        lambda: replace(tensor, shape=(*tensor.shape, 1)),
        lambda: replace(tensor, scale=tuple(scales), zero=tensor.zero or (0,)),
        lambda: replace(tensor, scale=(), zero=()),
        lambda: replace(tensor, zero=tuple(int(rng.integers(-300, 300)) for _ in tensor.zero)),
        lambda: replace(tensor, axis=int(rng.integers(0, 5))),
        lambda: replace(tensor, data=None),
        lambda: replace(tensor, data=None if tensor.data is None else tensor.data.ravel()[:-1]),
        lambda: replace(tensor, data=rng.integers(-128, 128, tensor.shape).astype(np.int8)),
        lambda: replace(tensor, variable=not tensor.variable),
        lambda: replace(tensor, signature=tuple(-1 for _ in tensor.shape)),
    )
    return ways[rng.integers(len(ways))]()


def _operator(operator: Operator, names: Sequence[str], rng: np.random.Generator) -> Operator:
    inputs, codes = list(operator.inputs), list(IMPORTERS)
    inputs[rng.integers(len(inputs))] = (*names, "")[rng.integers(len(names) + 1)]
    fields: dict[str, Any] = dict(operator.fields)
    if fields:
        key = list(fields)[rng.integers(len(fields))]
        fields[key] = [*NUMBERS, *EXTREMES[:4], 0.5, True][rng.integers(len(NUMBERS) + 6)]
    ways: Sequence[Callable[[], Operator]] = (
        lambda: replace(operator, inputs=tuple(inputs)),
        lambda: replace(operator, inputs=operator.inputs[:-1] or operator.inputs),
        lambda: replace(operator, inputs=(*operator.inputs, operator.inputs[-1])),
        lambda: replace(operator, outputs=(names[rng.integers(len(names))],)),
        lambda: replace(operator, outputs=operator.outputs * 2),
        lambda: replace(operator, code=codes[rng.integers(len(codes))]),
        lambda: replace(operator, code=codes[rng.integers(len(codes))], options="", fields={}),
        lambda: replace(operator, options="", fields={}),
        lambda: replace(operator, fields=fields),
        lambda: replace(operator, fields=fields),
        lambda: replace(operator, version=int(rng.integers(0, 9))),
        lambda: replace(operator, fields={**operator.fields, WORDS[rng.integers(1, 4)]: 1}),
    )
    return ways[rng.integers(len(ways))]()
