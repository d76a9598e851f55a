# SPDX-License-Identifier: Apache-2.0
"""Comparisons, and Where."""

from __future__ import annotations

import numpy as np

from tinyc.ir.graph import Array, Value
from tinyc.load.onnx.importing import OnnxStep, imports
from tinyc.ops.binary import broadcast_shape
from tinyc.ops.choose import Choose
from tinyc.ops.compare import Compare
from tinyc.ops.integer_binary import IntegerBinary
from tinyc.ops.reshape import Reshape

_KINDS = {
    "Equal": "equal",
    "Greater": "greater",
    "GreaterOrEqual": "greater_equal",
    "Less": "less",
    "LessOrEqual": "less_equal",
}
FAR = 1e9  # as a constant, for minus infinity
_OPPOSITE = {
    "equal": "not_equal",
    "not_equal": "equal",
    "greater": "less_equal",
    "less_equal": "greater",
    "less": "greater_equal",
    "greater_equal": "less",
}


@imports(*_KINDS)
def compare(s: OnnxStep) -> None:
    """Of two tensors of reals, or of one and a constant."""
    s.emit([s.value(0), s.value(1)], Compare(_KINDS[s.node.op]))


@imports("Where")
def where(s: OnnxStep) -> None:
    """Both tensors get one scale, that of the computed one; a constant beyond its range becomes the range's end."""
    condition = s.constant(0)
    if condition is not None and condition.size and (condition == condition.flat[0]).all():
        x = s.value(1 if condition.flat[0] else 2)
        other = _shape(s, 2 if condition.flat[0] else 1)
        shape = broadcast_shape(condition.shape, broadcast_shape(x.shape, other))
        if shape == x.shape:
            s.emit([x], Reshape(x.shape))
            return
    turned = s.constant(1) is not None and s.constant(2) is None  # the first gives the scale: it should be computed
    mask = _mask(s, turned)
    first, second = (2, 1) if turned else (1, 2)
    s.emit([mask, s.value(first), _filled(s, second)], Choose())


@imports("IsNaN")
def is_nan(s: OnnxStep) -> None:
    """What is not a number differs from itself."""
    x = s.value(0)
    s.emit([x, x], Compare("not_equal"))


@imports("IsInf")
def is_infinite(s: OnnxStep) -> None:
    """Beyond the largest number, above it, below it, or either."""
    x, most = s.value(0), float(np.finfo(np.float32).max)
    ways = [
        (kind, bound)
        for kind, bound, name in (("greater", most, "detect_positive"), ("less", -most, "detect_negative"))
        if s.node.flag(name, True)
    ]
    ends = [s.builder.add_const(f"{s.node.outputs[0]}:{kind}", np.array(bound, np.float32)) for kind, bound in ways]
    if not ways:
        s.emit([x, x], Compare("less"))  # nothing is
    elif len(ways) == 1:
        s.emit([x, ends[0]], Compare(ways[0][0]))
    else:
        compared = [s.insert([x, end], Compare(kind), f"is_{kind}") for (kind, _), end in zip(ways, ends, strict=True)]
        s.emit(compared, IntegerBinary("or", "bool"))


def _filled(s: OnnxStep, index: int) -> Value:
    """A tensor to choose from; a constant of no lower bound is one far below all scores."""
    array = s.constant(index)
    return s.value(index) if array is None else s.const(np.maximum(array, np.float32(-FAR)), index)


def hide(s: OnnxStep, x: Value, shown: Array) -> None:
    """x where it is shown, far below all scores elsewhere."""
    mask = s.builder.add_const(f"{s.node.outputs[0]}:shown", shown)
    fill = s.builder.add_const(f"{s.node.outputs[0]}:hidden", np.array(-FAR, np.float32))
    s.emit([mask, x, fill], Choose())


def before_softmax(s: OnnxStep) -> bool:
    """Whether nothing but a softmax reads the node's output."""
    name, file = s.node.outputs[0], s.builder.file
    readers = [node.op for node in file.nodes if name in node.inputs]
    return bool(readers) and set(readers) == {"Softmax"} and name not in file.outputs


def _shape(s: OnnxStep, index: int) -> tuple[int, ...]:
    array = s.constant(index)
    return s.value(index).shape if array is None else array.shape


def _mask(s: OnnxStep, turned: bool) -> Value:
    """The condition, or what is true where it is not."""
    array = s.constant(0)
    if array is not None:
        return s.builder.add_const(s.node.inputs[0], np.logical_not(array) if turned else array.astype(np.bool_))
    return _opposite(s) if turned else s.value(0)


def _opposite(s: OnnxStep) -> Value:
    """The opposite of a computed condition; of a comparison the opposite comparison."""
    condition = s.value(0)
    for node in reversed(s.builder.nodes):
        if condition.name in node.outputs and isinstance(node.attrs, Compare):
            inputs = [s.builder.values[name] for name in node.inputs]
            return s.insert(inputs, Compare(_OPPOSITE[node.attrs.kind]), "not")
    true = s.builder.add_integers(f"{s.node.outputs[0]}:true", np.array(True), "bool")
    return s.insert([condition, true], IntegerBinary("xor", "bool"), "not")
