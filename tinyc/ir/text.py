# SPDX-License-Identifier: Apache-2.0
"""A graph as stable text: for golden tests, diffs and `tinyc inspect -v`. Equal graphs, equal text."""

from __future__ import annotations

import dataclasses
import hashlib
from typing import Any

from tinyc.ir.graph import Array, Graph, Node, Quant, Value


def text(graph: Graph) -> str:
    """Inputs, constants (with a digest instead of elements), steps in run order, outputs; one line each.

    graph 'kws'
    input 'x': s8 [1,49,10,1] 0.5847 * (q - 83)
    const 'w': s8 [64,10,4,1] axis 0, 64 scales 0.0012 to 0.031; sha256 0123456789ab
    step 0: conv2d('x', 'w', 'b') stride=(2, 2) act=relu -> 'y': s8 [1,25,5,64] 0.0235 * (q + 128)
        from kws.tflite: node 0 'y' (CONV_2D)
    output 'y'
    """
    lines = [f"graph {graph.name!r}"]
    lines += [f"input {_value(graph.values[name])}" for name in graph.inputs]
    lines += [f"const {_value(graph.values[name])}; {_digest(array)}" for name, array in graph.consts.items()]
    for number, node in enumerate(graph.nodes):
        lines.append(f"step {number}: {_node(graph, node)}")
        lines += [f"    from {loc}" for loc in node.origin]
    lines += [f"output {name!r}" for name in graph.outputs]
    lines += [f"state {_value(graph.values[state.name])} becomes {state.after!r}" for state in graph.states]
    return "\n".join(lines) + "\n"


def _node(graph: Graph, node: Node) -> str:
    inputs = ", ".join(repr(name) if name else "-" for name in node.inputs)
    outputs = ", ".join(_value(graph.values[name]) for name in node.outputs)
    named = "" if node.outputs and node.name == node.outputs[0] else f"{node.name!r} = "
    return " ".join([f"{named}{node.op}({inputs})", *_attrs(node.attrs), "->", outputs])


def _attrs(attrs: Any) -> list[str]:
    """The fields that differ from their defaults, as `name=value`."""
    if not dataclasses.is_dataclass(attrs):
        return [repr(attrs)]
    values = ((f, getattr(attrs, f.name)) for f in dataclasses.fields(attrs))
    return [f"{f.name}={_plain(value)}" for f, value in values if f.default != value]


def _plain(value: Any) -> str:
    """Named tuples without their field names, activations by name."""
    if isinstance(value, tuple) and type(value).__str__ is object.__str__:
        return str(tuple(value))
    return str(value)


def _value(value: Value) -> str:
    shape = ",".join(map(str, value.shape))
    quant = "" if value.quant is None else f" {_quant(value.quant)}"
    return f"{value.name!r}: {value.dtype} [{shape}]{quant}"


def _quant(quant: Quant) -> str:
    if quant.axis is None:
        scale, zero = quant.per_tensor
        return f"{scale:.9g} * (q {'-' if zero >= 0 else '+'} {abs(zero)})"
    zeros = "" if not any(quant.zero) else f", zero points {min(quant.zero)} to {max(quant.zero)}"
    scales = f"{len(quant.scale)} scales {min(quant.scale):.9g} to {max(quant.scale):.9g}"
    digest = hashlib.sha256(repr((quant.scale, quant.zero)).encode()).hexdigest()[:12]
    return f"axis {quant.axis}, {scales}{zeros} ({digest})"


def _digest(array: Array) -> str:
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    return f"sha256 {hashlib.sha256(little.tobytes()).hexdigest()[:12]}"
