# SPDX-License-Identifier: Apache-2.0
"""Operators without weights as QDQ ONNX writes them: one float operator each, or a chain that one table holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from tinyc.base.errors import TinycError
from tinyc.export.qdq_writer import QdqWriter
from tinyc.ir.graph import Array, Node
from tinyc.kernel.site import Act
from tinyc.load.resizing import bilinear_onnx, nearest_onnx
from tinyc.ops.absolute import Absolute
from tinyc.ops.argmax import ArgMax
from tinyc.ops.batch_matmul import BatchMatmul
from tinyc.ops.choose import Choose
from tinyc.ops.compare import Compare
from tinyc.ops.div import Div
from tinyc.ops.extremum import Extremum
from tinyc.ops.function import Function
from tinyc.ops.l2_normalize import L2Normalize
from tinyc.ops.log_softmax import LogSoftmax
from tinyc.ops.pick import Pick
from tinyc.ops.power import Power
from tinyc.ops.recurrent import Recurrent
from tinyc.ops.reduce_extremum import ReduceExtremum
from tinyc.ops.resize_bilinear import FINE, ResizeBilinear
from tinyc.ops.resize_nearest import ResizeNearest
from tinyc.ops.sum import Sum

Rule = Callable[[QdqWriter, Node], None]

_PLACES = ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")
_ROUNDINGS = ("floor", "round_prefer_floor", "round_prefer_ceil", "ceil")
_COMPARISONS = {
    "equal": "Equal",
    "less": "Less",
    "less_equal": "LessOrEqual",
    "greater": "Greater",
    "greater_equal": "GreaterOrEqual",
}
_WITH_ALPHA = {"celu": "Celu", "elu": "Elu", "thresholded_relu": "ThresholdedRelu"}


def elementwise(op: str, **fixed: float) -> Rule:
    """One operator of one or two tensors, and an activation behind it."""

    def write(to: QdqWriter, node: Node) -> None:
        constant = any(name in to.graph.consts for name in node.inputs)
        ranks = {len(to.graph.values[name].shape) for name in node.inputs}
        first = not constant and ranks == {4} and to.first[node.inputs[0]]
        inputs = [to.real(name, channels_first=first) for name in node.inputs]
        y = to.emit(op, inputs, **fixed)
        act = getattr(node.attrs, "act", Act())
        to.store(node.outputs[0], to.activated(y, act), channels_first=first)

    return write


def _function(to: QdqWriter, node: Node) -> None:
    a = node.attrs
    if a.name in _WITH_ALPHA:
        elementwise(_WITH_ALPHA[a.name], alpha=a.alpha)(to, node)
    elif a.name in ("gelu", "gelu_tanh"):
        _by(to, node, lambda x: to.emit("Gelu", [x], approximate="tanh" if a.name == "gelu_tanh" else "none"))
    elif a.name == "swish":
        _by(to, node, lambda x: to.emit("Mul", [x, to.emit("Sigmoid", [_times(to, x, a.alpha)])]))
    else:
        elementwise(a.name.capitalize())(to, node)


def _times(to: QdqWriter, x: str, factor: float) -> str:
    return x if factor == 1 else to.emit("Mul", [x, to.constant(np.array(factor, np.float32))])


def _by(to: QdqWriter, node: Node, written: Callable[[str], str]) -> None:
    """`written` of the node's only input, element by element."""
    first = to.first[node.inputs[0]]
    to.store(node.outputs[0], written(to.real(node.inputs[0], channels_first=first)), channels_first=first)


def _power(to: QdqWriter, node: Node) -> None:
    exponent = to.constant(np.array(node.attrs.exponent, np.float32))
    _by(to, node, lambda x: to.emit("Pow", [x, exponent]))


def _extremum(to: QdqWriter, node: Node) -> None:
    elementwise("Max" if node.attrs.largest else "Min")(to, node)


def _reduction(to: QdqWriter, node: Node) -> None:
    op = "ReduceSum" if isinstance(node.attrs, Sum) else "ReduceMax" if node.attrs.largest else "ReduceMin"
    axes = to.constant(np.array(node.attrs.axes, np.int64))
    x = to.real(node.inputs[0], channels_first=False)
    y = to.emit(op, [x, axes], keepdims=int(node.attrs.keep_dims))
    to.store(node.outputs[0], y, channels_first=False)


def _argmax(to: QdqWriter, node: Node) -> None:
    x = to.real(node.inputs[0], channels_first=False)
    op = "ArgMax" if node.attrs.largest else "ArgMin"
    y = to.emit(op, [x], axis=node.attrs.axis, keepdims=int(node.attrs.keep_dims))
    to.store(node.outputs[0], y, channels_first=False)


def _over_last_axis(op: str, **fixed: int) -> Rule:
    def write(to: QdqWriter, node: Node) -> None:
        y = to.emit(op, [to.real(node.inputs[0], channels_first=False)], axis=-1, **fixed)
        to.store(node.outputs[0], y, channels_first=False)

    return write


def _compare(to: QdqWriter, node: Node) -> None:
    inputs = [to.real(name, channels_first=False) for name in node.inputs]
    y = to.emit(_COMPARISONS.get(node.attrs.kind, "Equal"), inputs)
    y = to.emit("Not", [y]) if node.attrs.kind == "not_equal" else y
    to.store(node.outputs[0], y, channels_first=False)


def _choose(to: QdqWriter, node: Node) -> None:
    inputs = [_truths(to, node.inputs[0]), *(to.real(name, channels_first=False) for name in node.inputs[1:])]
    to.store(node.outputs[0], to.emit("Where", inputs), channels_first=False)


def _truths(to: QdqWriter, name: str) -> str:
    held = to.graph.consts.get(name)
    return to.real(name, channels_first=False) if held is None else to.constant(held.astype(np.bool_))


def _pick(to: QdqWriter, node: Node) -> None:
    indices = to.constant(np.array(node.attrs.indices, np.int64))
    y = to.emit("Gather", [to.real(node.inputs[0], channels_first=False), indices], axis=node.attrs.axis)
    to.store(node.outputs[0], y, channels_first=False)


def _batch_matmul(to: QdqWriter, node: Node) -> None:
    factors = []
    for name, turned in zip(node.inputs, (node.attrs.adj_x, node.attrs.adj_y), strict=True):
        factor, rank = to.real(name, channels_first=False), len(to.graph.values[name].shape)
        if turned:
            factor = to.emit("Transpose", [factor], perm=[*range(rank - 2), rank - 1, rank - 2])
        factors.append(factor)
    to.store(node.outputs[0], to.emit("MatMul", factors), channels_first=False)


def _recurrent(to: QdqWriter, node: Node) -> None:
    """LSTM or GRU over a sequence of one sample. ONNX has the rows of each gate together, tinyc those of each unit."""
    a, graph = node.attrs, to.graph
    x, w, bias, r, late, hidden, cell = [*node.inputs, *[""] * (7 - len(node.inputs))]
    order = [0, 3, 1, 2] if a.cell == "lstm" else [0, 1, 2]
    units = graph.values[r].shape[1]
    rows = np.arange(len(order) * units).reshape(units, -1)[:, order].T.reshape(-1)
    weights = [to.rows(name, rows) for name in (w, r)]
    real = np.zeros((2, len(rows)), np.float32)
    if bias:
        real[0] = to.quant_of(bias).dequantize(graph.consts[bias])[rows]
    if late:
        real[1, 2 * units :] = _real(to, late)
    biases = to.constant(real.reshape(1, -1))
    steps = graph.values[x].shape[0]
    given = to.real(x, channels_first=False, shape=(steps, 1, graph.values[x].shape[1]))
    states = [to.real(name, channels_first=False, shape=(1, 1, units)) if name else "" for name in (hidden, cell)]
    more = {} if a.cell == "lstm" else {"linear_before_reset": 1}
    direction = "reverse" if a.reverse else "forward"
    inputs = [given, *weights, biases, "", *states[: 2 if a.cell == "lstm" else 1]]
    every, last = to.emit_all(a.cell.upper(), inputs, 2, hidden_size=units, direction=direction, **more)
    shape = to.constant(np.array(graph.values[node.outputs[0]].shape, np.int64))
    y = to.emit("Reshape", [every if a.sequence else last, shape])
    to.store(node.outputs[0], y, channels_first=False)


def _real(to: QdqWriter, name: str) -> Array:
    value = to.graph.values[name]
    return to.graph.consts[name] if value.quant is None else value.quant.dequantize(to.graph.consts[name])


def _resize_nearest(to: QdqWriter, node: Node) -> None:
    for place in _PLACES:
        for rounding in _ROUNDINGS:
            sides = zip((node.attrs.rows, node.attrs.columns), to.graph.values[node.inputs[0]].shape[1:3], strict=True)
            if all(tuple(side) == nearest_onnx(n, len(side), len(side) / n, place, rounding) for side, n in sides):
                _resize(to, node, mode="nearest", coordinate_transformation_mode=place, nearest_mode=rounding)
                return
    raise TinycError("resize_nearest by a rule that ONNX has not cannot be saved as QDQ ONNX", node.where)


def _resize_bilinear(to: QdqWriter, node: Node) -> None:
    own = node.attrs.coarse()
    sizes = to.graph.values[node.inputs[0]].shape[1:3]
    for place in _PLACES:
        rows, columns = (
            bilinear_onnx(n, len(side), len(side) / n, place)
            for side, n in zip((own.rows, own.columns), sizes, strict=True)
        )
        if ResizeBilinear(rows, columns, FINE).coarse() == own:
            _resize(to, node, mode="linear", coordinate_transformation_mode=place)
            return
    raise TinycError("resize_bilinear by a rule that ONNX has not cannot be saved as QDQ ONNX", node.where)


def _resize(to: QdqWriter, node: Node, **how: str) -> None:
    _, height, width, channels = to.graph.values[node.outputs[0]].shape
    sizes = to.constant(np.array((1, channels, height, width), np.int64))
    x = to.real(node.inputs[0], channels_first=True)
    to.store(node.outputs[0], to.emit("Resize", [x, "", "", sizes], **how), channels_first=True)


OPERATORS: Mapping[type, Rule] = MappingProxyType(
    {
        Absolute: elementwise("Abs"),
        ArgMax: _argmax,
        BatchMatmul: _batch_matmul,
        Choose: _choose,
        Compare: _compare,
        Div: elementwise("Div"),
        Extremum: _extremum,
        Function: _function,
        L2Normalize: _over_last_axis("LpNormalization", p=2),
        LogSoftmax: _over_last_axis("LogSoftmax"),
        Pick: _pick,
        Power: _power,
        Recurrent: _recurrent,
        ReduceExtremum: _reduction,
        ResizeBilinear: _resize_bilinear,
        ResizeNearest: _resize_nearest,
        Sum: _reduction,
    }
)
