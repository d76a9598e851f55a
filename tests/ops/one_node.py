# SPDX-License-Identifier: Apache-2.0
"""Graphs of a single node, and their comparison with TensorFlow Lite Micro and desktop LiteRT."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tests.ops.runtimes import run_litert, run_tflm
from tests.ops.tflite_builder import Operator, Tensor, build_model
from tinyc.base.numerics import Numerics
from tinyc.ir.graph import Array, DType, Graph, Node, Quant, Shape, Value, read_only
from tinyc.ops import all_ops
from tinyc.reference.interpreter import run_int


def tensor(name: str, shape: Shape, scale: float = 0.0, zero: int = 0, dtype: DType = "s8") -> Value:
    """A value with one scale, rounded to float32 as a file holds it; scale 0: no quantization."""
    quant = Quant((float(np.float32(scale)),), (zero,)) if scale else None
    return Value(name, tuple(shape), dtype, quant)


def one_node(
    op: str,
    attrs: Any,
    inputs: Sequence[Value | None],
    scale: float = 0.0,
    zero: int = 0,
    consts: Mapping[str, Array] | None = None,
    dtype: DType | None = None,
    others: Sequence[Value] = (),
) -> Graph:
    """The graph of one node with output `y`, whose shape and (unless given) dtype `infer` says, and further outputs.

    None stands for an absent optional input."""
    fixed = {name: read_only(array) for name, array in (consts or {}).items()}
    (kind, *_) = all_ops()[op].infer(attrs, *inputs)
    y = tensor("y", kind.shape, scale, zero, dtype or kind.dtype)
    names = tuple("" if value is None else value.name for value in inputs)
    node = Node(f"the_{op}", op, names, ("y", *(value.name for value in others)), attrs)
    values = {value.name: value for value in (*inputs, y, *others) if value is not None}
    free = tuple(dict.fromkeys(name for name in names if name and name not in fixed))
    return Graph("one_node", free, node.outputs, (node,), values, fixed)


def as_tflite(graph: Graph, code: str, options: str = "", fields: Mapping[str, Any] | None = None) -> bytes:
    """The graph's node as a TFLite file; `code` and `options` as in tests.ops.tflite_builder."""
    tensors = [
        Tensor(
            value.name,
            value.shape,
            value.dtype,
            value.quant.scale if value.quant else (),
            value.quant.zero if value.quant else (),
            data=graph.consts.get(value.name),
        )
        for value in graph.values.values()
    ]
    (node,) = graph.nodes
    operator = Operator(code, node.inputs, node.outputs, options, fields or {})
    return build_model(tensors, [operator], graph.inputs, graph.outputs)


def assert_equals_tflm(graph: Graph, model: bytes, inputs: Mapping[str, Array]) -> None:
    """The integer reference under Numerics.TFLM is bit for bit what TensorFlow Lite Micro computes."""
    (theirs,) = run_tflm(model, *(inputs[name] for name in graph.inputs))
    ours = run_int(graph, inputs, Numerics.TFLM)["y"]
    np.testing.assert_array_equal(ours, theirs.reshape(ours.shape))


def assert_equals_litert(graph: Graph, model: bytes, inputs: Mapping[str, Array]) -> None:
    """The integer reference under Numerics.LITERT is bit for bit what desktop LiteRT computes."""
    (theirs,) = run_litert(model, *(inputs[name] for name in graph.inputs))
    ours = run_int(graph, inputs, Numerics.LITERT)["y"]
    np.testing.assert_array_equal(ours, theirs.reshape(ours.shape))


def random_s8(seed: int, shape: Shape) -> Array:
    """int8 over the whole range, with both ends in it."""
    data = np.random.default_rng(seed).integers(-128, 128, shape).astype(np.int8)
    if data.size > 1:
        data.flat[0], data.flat[-1] = -128, 127
    return data


def random_s16(seed: int, shape: Shape) -> Array:
    """int16 over the whole range, with both ends in it."""
    data = np.random.default_rng(seed).integers(-32768, 32768, shape).astype(np.int16)
    data.flat[0], data.flat[-1] = -32768, 32767
    return data
