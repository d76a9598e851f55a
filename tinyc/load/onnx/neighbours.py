# SPDX-License-Identifier: Apache-2.0
"""What nearest neighbours are made of: distances from every row of a table, the best k, elements at computed places."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import onnx

from tinyc.base.errors import TinycError
from tinyc.ir.graph import Value
from tinyc.load.onnx.file import MICROSOFT, OnnxNode, as_inner_node, decode
from tinyc.load.onnx.importing import OnnxStep, imports, on_integers
from tinyc.load.onnx.integers import number
from tinyc.load.onnx.loops import unrolled_scan
from tinyc.ops.distance import Distance
from tinyc.ops.gather import Gather
from tinyc.ops.integer_binary import IntegerBinary
from tinyc.ops.power import Power
from tinyc.ops.reshape import Reshape
from tinyc.ops.top_k import TopK

_ROOT = "sqrt"
_METRICS = {"sqeuclidean": (True, ""), "euclidean": (True, _ROOT), "cityblock": (False, ""), "manhattan": (False, "")}


@imports("CDist", domain=MICROSOFT)
def distances(s: OnnxStep) -> None:
    """Of the rows of a tensor from those of a constant one."""
    metric = s.node.text("metric", "sqeuclidean")
    if metric not in _METRICS:
        raise TinycError(
            f"CDist with metric '{metric}' cannot be compiled", s.where, f"known are {', '.join(sorted(_METRICS))}"
        )
    squared, root = _METRICS[metric]
    inputs = [s.value(0), s.const(s.weights(1), 1)]
    if not root:
        s.emit(inputs, Distance(squared))
    else:
        s.emit([s.insert(inputs, Distance(squared), "squares")], Power(0.5))


@imports("Scan")
def scan(s: OnnxStep) -> None:
    """As skl2onnx writes distances, from a state that never changes, the features, to each row of a constant table: one
    operator. Others are unrolled."""
    body = s.node.graph("body")
    squared = _distance_of(body, s)
    if squared is None or s.node.int_("num_scan_inputs", 0) != 1:
        unrolled_scan(s, body)
        return
    x, table = s.value(0), s.weights(1)
    if s.node.outputs[0] in s.builder.read:
        s.emit([x], Reshape(x.shape))
    squares = s.insert([x, s.const(table, 1)], Distance(squared), "distances")  # [B,N]
    if x.shape[0] != 1:
        raise TinycError(
            f"distances of {x.shape[0]} rows at once cannot be compiled", s.where, "export the model with batch size 1"
        )
    s.emit([squares], Reshape((len(table), 1)), output=1)


def _distance_of(body: onnx.GraphProto, s: OnnxStep) -> bool | None:
    """Whether the body sums squares, else sizes, of the differences between its two inputs; None if it does something
    else. Its first output is its first input."""
    if (len(body.input), len(body.output)) != (2, 2):
        return None
    producers = {node.output[0]: as_inner_node(node, s.node) for node in body.node if len(node.output) == 1}
    state, row = (port.name for port in body.input)
    state_out, total = (_source(producers, port.name) for port in body.output)
    if state_out != state or total not in producers or not _sums_rows(producers[total], body, s):
        return None
    squared = producers[total].op == "ReduceSumSquare"
    terms = producers.get(_source(producers, producers[total].inputs[0]))
    if terms is not None and not squared:
        terms = producers.get(_source(producers, terms.inputs[0])) if terms.op == "Abs" else None
    if terms is None or terms.op != "Sub" or {_source(producers, name) for name in terms.inputs} != {state, row}:
        return None
    return squared


def _source(producers: Mapping[str, OnnxNode], name: str) -> str:
    """The tensor that has another name after Identity."""
    while name in producers and producers[name].op == "Identity":
        name = producers[name].inputs[0]
    return name


def _sums_rows(node: OnnxNode, body: onnx.GraphProto, s: OnnxStep) -> bool:
    """Whether a node sums along the last of two axes, which it drops."""
    if node.op not in ("ReduceSumSquare", "ReduceSum") or node.flag("keepdims", True):
        return False
    axes = node.ints("axes")
    if len(node.inputs) > 1:
        constants = [tensor for tensor in body.initializer if tensor.name == node.inputs[1]]
        axes = tuple(decode(constants[0], s.builder.file.folder, s.where).ravel().tolist()) if constants else None
    return axes in ((1,), (-1,))


def _best(s: OnnxStep) -> None:
    """Indices of the best k along an axis, and what stands there."""
    x = s.value(0)
    k = s.number(1) if s.opset >= 10 else s.node.int_("k", 0)
    s.node.flag("sorted", True)  # sorted is as good as not
    axis = s.axis(s.node.int_("axis", -1), len(x.shape))
    attrs = TopK(axis, k, s.node.flag("largest", True))
    values, indices = s.node.outputs[0], s.node.outputs[1] if len(s.node.outputs) > 1 else ""
    if indices and indices in s.builder.read:
        s.emit([x], attrs, output=1)
        places = s.builder.values[indices]
    else:
        places = s.insert([x], attrs, "indices")
    if values and values in s.builder.read:
        _emit_elements(s, x, places, axis)


@imports("TopK")
def best(s: OnnxStep) -> None:
    _best(s)


@on_integers("TopK")
def best_integers(s: OnnxStep) -> None:
    _best(s)


def _emit_elements(s: OnnxStep, x: Value, places: Value, axis: int) -> None:
    """y[.., k, ..] = x[.., places[.., k, ..], ..] along the axis: places in x as one row of numbers."""
    step = math.prod(x.shape[axis + 1 :])
    at = np.indices(places.shape)
    at[axis] = 0
    starts = sum(at[k] * math.prod(x.shape[k + 1 :]) for k in range(len(x.shape)))
    if step != 1:
        places = s.insert([places, number(s, "step", places, step)], IntegerBinary("mul", "s32"), "stepped")
    if np.any(starts):
        table = s.builder.add_integers(f"{s.node.outputs[0]}:starts", np.asarray(starts, np.int32), "s32")
        places = s.insert([places, table], IntegerBinary("add", "s32"), "places")
    s.emit([s.reshape(x, (x.elements,), "flat"), places], Gather(0), x.quant)
