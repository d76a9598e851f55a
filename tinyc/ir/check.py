# SPDX-License-Identifier: Apache-2.0
"""What must hold of a graph after every stage, so that a bad pass fails at the pass."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from tinyc.base.errors import Loc, TinycError
from tinyc.ir.graph import INT_RANGE, NUMPY_DTYPE, Array, Graph, Node, Quant, State, Value

QUANTIZED = frozenset({"s4", "s8", "u8", "s16"})  # s32 and s64 also hold biases, shapes and axes


class Rules(Protocol):
    """The part of `ops.base.Op` that is looked at here (ir/ may not import ops/)."""

    @property
    def attrs(self) -> type: ...

    @property
    def infer(self) -> Callable[..., Sequence[Any]]: ...


def check(graph: Graph, stage: str, ops: Mapping[str, Rules]) -> None:
    """Raise TinycError, naming node or value, unless the graph is well-formed. `ops`: `all_ops()`.

    Every input of a node is defined before it, every value has one producer and the shape and dtype
    that the operator infers; constants match their values and are finite; s4, s8, u8 and s16 values
    have a quantization; scales are finite and positive, zero points lie in the range of the dtype.
    `stage` names the stage that has just run, for the message.
    """
    try:
        _check_names(graph)
        for value in graph.values.values():
            check_value(value)
        for name, array in graph.consts.items():
            check_const(graph.values[name], array)
        for node in graph.nodes:
            check_types(node, graph.values, ops)
    except TinycError as e:
        raise e.but(f"{e.message} (found after stage '{stage}')") from e


def _check_names(graph: Graph) -> None:
    """Inputs before use, one producer each, all values known."""
    producers: dict[str, str] = {}
    for name in (*graph.sources, *graph.consts):
        _define(graph, producers, name, "an input, state or constant", None)
    for node in graph.nodes:
        for name in filter(None, node.inputs):
            if name not in producers:
                raise TinycError(f"'{name}' is read before anything computes it", node.where)
        for name in node.outputs:
            _define(graph, producers, name, f"node '{node.name}'", node.where)
    for name in graph.outputs:
        if name not in producers or name in graph.consts:
            raise TinycError(f"output '{name}' is not computed by any node")
    for state in graph.states:
        _check_state(graph, state, producers)
    unmade = [name for name in graph.values if name not in producers]
    if unmade:
        raise TinycError(f"value '{unmade[0]}' is neither an input, a constant nor computed")
    _check_unique("input", graph.inputs)
    _check_unique("output", graph.outputs)
    _check_unique("node", [node.name for node in graph.nodes])


def _check_state(graph: Graph, state: State, producers: Mapping[str, str]) -> None:
    """What the next run begins with is computed, and looks like what this one began with."""
    if state.after not in producers or state.after in graph.consts:
        raise TinycError(f"state '{state.name}': '{state.after}' is not computed by any node")
    before, after = graph.values[state.name], graph.values[state.after]
    if (before.shape, before.dtype, before.quant) != (after.shape, after.dtype, after.quant):
        raise TinycError(f"state '{state.name}' and '{state.after}', which replaces it, differ", after.loc)
    if len(state.initial) != before.size_bytes:
        raise TinycError(f"state '{state.name}' begins with {len(state.initial)} bytes, not {before.size_bytes}")


def _define(graph: Graph, producers: dict[str, str], name: str, by: str, where: Loc | None) -> None:
    if name in producers:
        raise TinycError(f"'{name}' is made twice: by {producers[name]} and by {by}", where)
    if name not in graph.values:
        raise TinycError(f"'{name}' has no shape and type", where)
    if graph.values[name].name != name:
        raise TinycError(f"'{name}' is recorded under the name '{graph.values[name].name}'", where)
    producers[name] = by


def _check_unique(what: str, names: Sequence[str]) -> None:
    twice = [name for i, name in enumerate(names) if name in names[:i]] if len(set(names)) < len(names) else []
    if twice:
        raise TinycError(f"two {what}s are called '{twice[0]}'")


def check_value(value: Value) -> None:
    """Raise TinycError unless shape and quantization of the value make sense by themselves."""
    if any(size < 1 for size in value.shape):
        raise TinycError(f"'{value.name}' has shape {list(value.shape)}; every size must be 1 or more", value.loc)
    if value.quant is not None:
        _check_quant(value, value.quant)
    elif value.dtype in QUANTIZED:
        raise TinycError(f"'{value.name}' is {value.dtype} but has no scale and zero point", value.loc)


def _check_quant(value: Value, quant: Quant) -> None:
    where = value.loc
    if value.dtype not in INT_RANGE:
        raise TinycError(f"'{value.name}' is {value.dtype} and cannot have a scale", where)
    lo, hi = INT_RANGE[value.dtype]
    if len(quant.scale) != len(quant.zero) or not quant.scale:
        raise TinycError(f"'{value.name}' has {len(quant.scale)} scales, {len(quant.zero)} zero points", where)
    if not all(map(math.isfinite, quant.scale)) or min(quant.scale) <= 0:
        scale = next(scale for scale in quant.scale if not (math.isfinite(scale) and scale > 0))
        raise TinycError(f"'{value.name}' has scale {scale}; scales are finite and positive", where)
    if min(quant.zero) < lo or max(quant.zero) > hi:
        zero = next(zero for zero in quant.zero if not lo <= zero <= hi)
        raise TinycError(f"'{value.name}' has zero point {zero}, outside [{lo}, {hi}]", where)
    if quant.axis is None:
        expected = 1
    elif -len(value.shape) <= quant.axis < len(value.shape):
        expected = value.shape[quant.axis]
    else:
        raise TinycError(f"'{value.name}' has scales per index of axis {quant.axis}, beyond its rank", where)
    if len(quant.scale) != expected:
        raise TinycError(f"'{value.name}' has {len(quant.scale)} scales where {expected} belong", where)


def check_const(value: Value, array: Array) -> None:
    """Raise TinycError unless the array is what the value says: shape, dtype, range, finite, read-only."""
    where = value.loc
    if array.shape != value.shape or array.dtype != NUMPY_DTYPE[value.dtype]:
        stored = f"{array.dtype} {list(array.shape)}"
        raise TinycError(f"constant '{value.name}' is {stored}, not {value.dtype} {list(value.shape)}", where)
    if value.dtype == "f32" and not np.isfinite(array).all():
        raise TinycError(f"constant '{value.name}' contains NaN or infinity", where)
    if value.dtype == "s4" and (array.min() < -8 or array.max() > 7):
        raise TinycError(f"constant '{value.name}' is s4 but leaves [-8, 7]", where)
    if array.flags.writeable:
        raise TinycError(f"constant '{value.name}' is not read-only", where)


def check_types(node: Node, values: Mapping[str, Value], ops: Mapping[str, Rules]) -> None:
    """Raise TinycError unless operator and attributes belong together and infer gives the outputs' types."""
    if node.op not in ops:
        raise TinycError(f"there is no operator '{node.op}'", node.where)
    rules = ops[node.op]
    if not isinstance(node.attrs, rules.attrs):
        raise TinycError(f"{node.op} has attributes {node.attrs!r}, not {rules.attrs.__name__}", node.where)
    try:
        types = rules.infer(node.attrs, *(values[name] if name else None for name in node.inputs))
    except TinycError as e:
        raise e.located(node.where) from e
    if len(types) != len(node.outputs):
        raise TinycError(f"{node.op} has {len(node.outputs)} outputs, expected {len(types)}", node.where)
    for name, type_ in zip(node.outputs, types, strict=True):
        value = values[name]
        if (value.shape, value.dtype) != (type_.shape, type_.dtype):
            stored, expected = f"{value.dtype} {list(value.shape)}", f"{type_.dtype} {list(type_.shape)}"
            raise TinycError(f"'{name}' is declared {stored}, but {node.op} gives {expected}", node.where)
