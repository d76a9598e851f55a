# SPDX-License-Identifier: Apache-2.0
"""Time as rows: what works on series, [1,1,T,C] or [1,T,C], as one-dimensional convolutions do, works on [1,T,1,C].

The bytes are the same, so that nothing is computed otherwise, and what has no other form keeps its shape behind a
reshape, which is no step. Rows are what a library can take one after the other, and what plans keep a few of.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np

from tinyc.base.errors import TinycError
from tinyc.ir.graph import Array, Graph, Node, Shape, Value
from tinyc.kernel.site import Padding, Pair
from tinyc.ops import node_of, op_of
from tinyc.ops.concat import Concat
from tinyc.ops.conv2d import Conv2D
from tinyc.ops.depthwise_conv2d import DepthwiseConv2D
from tinyc.ops.op import Trait
from tinyc.ops.pad import Pad
from tinyc.ops.reshape import Reshape
from tinyc.ops.resize_bilinear import ResizeBilinear
from tinyc.ops.resize_nearest import ResizeNearest
from tinyc.ops.slice import Slice
from tinyc.ops.transpose_conv2d import TransposeConv2D
from tinyc.passes.cleanup import cleanup

# Of operators with weights, the axis of the window's rows in them, which that of the columns follows.
_WINDOW_AXIS: Mapping[type, int] = {Conv2D: 1, TransposeConv2D: 1, DepthwiseConv2D: 0}
_BY_AXES = (Concat, Pad, ResizeBilinear, ResizeNearest, Slice)
_PLACES: Mapping[int, Sequence[int]] = {3: (0, 1, 3), 4: (0, 2, 1, 3)}  # by rank, where each axis is in [1,T,1,C]
_PER_AXIS = {"begin": 0, "size": 1, "step": 1, "before": 0, "after": 0}  # attributes, and what an axis of one has


def in_rows(shape: Shape) -> Shape | None:
    """[1,T,1,C] of a series of several moments; None of anything else."""
    full = (1, *shape) if len(shape) == 3 else shape
    return _turned_shape(full) if len(full) == 4 and full[:2] == (1, 1) and full[2] > 1 else None


def time_as_rows(graph: Graph) -> Graph:
    """The graph with series as images of one column, where those who make or read them allow that; itself where no
    window goes over a series."""
    windows = [node for node in graph.nodes if _has_window(node.attrs)]
    if not any(in_rows(graph.values[node.inputs[0]].shape) for node in windows):
        return graph
    turning = _Turned(graph)
    for node in graph.nodes:
        turning.take(node)
    return cleanup(turning.graph())


def turned(attrs: Any, rank: int = 4) -> Any:
    """The attributes with rows for columns, of an operator on series of so many axes."""
    changed: dict[str, Any] = {}
    places = _PLACES[rank]
    for field in fields(attrs) if is_dataclass(attrs) else ():
        value = getattr(attrs, field.name)
        if isinstance(value, Pair):
            changed[field.name] = Pair(value.w, value.h)
        elif isinstance(value, Padding):
            changed[field.name] = Padding(value.left, value.top, value.right, value.bottom)
        elif field.name == "axes":
            changed[field.name] = tuple(sorted(places[axis % rank] for axis in value))
        elif field.name == "axis":
            changed[field.name] = places[value % rank]
        elif field.name in _PER_AXIS:
            by_place = dict(zip(places, value, strict=True))
            changed[field.name] = tuple(by_place.get(axis, _PER_AXIS[field.name]) for axis in range(4))
    if isinstance(attrs, (ResizeBilinear, ResizeNearest)):
        changed = {"rows": attrs.columns, "columns": attrs.rows}
    return replace(attrs, **changed)


def _turned_shape(shape: Shape) -> Shape:
    return (shape[0], shape[2], shape[1], shape[3])


def _has_window(attrs: Any) -> bool:
    return type(attrs) in _WINDOW_AXIS or hasattr(attrs, "kernel")


def _can_turn(node: Node) -> bool:
    """Whether what it does along rows it can do along columns."""
    if _has_window(node.attrs) or isinstance(node.attrs, _BY_AXES):
        return True
    traits = op_of(node).traits
    if Trait.REDUCES in traits:
        return bool(node.attrs.keep_dims)
    return bool(traits & {Trait.ELEMENTWISE, Trait.BROADCASTS, Trait.LAST_AXIS})


class _Turned:
    """The graph as far as it is made. A value that is turned has its old name, but where its shape is known outside."""

    def __init__(self, graph: Graph) -> None:
        self._old = graph
        self._nodes: list[Node] = []
        self._values = dict(graph.values)
        self._consts = dict(graph.consts)
        self._turned: dict[str, str] = {}  # by the old name, the value that is turned
        self._straight: dict[str, str] = {}  # by the old name of a turned value, the value as it was
        self._taken = {*graph.values, *(node.name for node in graph.nodes)}
        self._visible = {*graph.inputs, *graph.outputs}
        self._visible |= {name for state in graph.states for name in (state.name, state.after)}

    def graph(self) -> Graph:
        used = self._visible | {name for node in self._nodes for name in (*node.inputs, *node.outputs)}
        return replace(
            self._old,
            nodes=tuple(self._nodes),
            values={name: value for name, value in self._values.items() if name in used},
            consts={name: array for name, array in self._consts.items() if name in used},
        )

    def take(self, node: Node) -> None:
        """The node, turned where it can be."""
        if self._is_of_the_same_series(node):
            (x,), (y,) = node.inputs, node.outputs
            self._turned[y] = self._as_rows(x)
            if y in self._visible:
                self._nodes.append(replace(node, inputs=(self._turned[y],)))
                self._straight[y] = y
        elif not self._turn(node):
            self._nodes.append(replace(node, inputs=tuple(self._as_it_was(name) for name in node.inputs)))

    def _is_of_the_same_series(self, node: Node) -> bool:
        """Whether it is a reshape between the two shapes that a series has."""
        if not isinstance(node.attrs, Reshape) or not self._is_series(node.inputs[0]):
            return False
        x, y = (in_rows(self._old.values[name].shape) for name in (node.inputs[0], node.outputs[0]))
        return x == y

    def _turn(self, node: Node) -> bool:
        """Whether the node works on turned series; then it is there."""
        rank = len(self._old.values[node.inputs[0]].shape) if node.inputs[0] else 0
        if rank not in _PLACES or not _can_turn(node) or not any(map(self._is_series, (*node.inputs, *node.outputs))):
            return False
        inputs = [self._input(node, index, name) for index, name in enumerate(node.inputs)]
        taken = [name for name in inputs if name is not None]
        if len(taken) < len(inputs):
            return False
        attrs = turned(node.attrs, rank)
        try:
            types = op_of(node).infer(attrs, *(self._values[name] if name else None for name in taken))
        except TinycError:
            return False
        olds = [self._old.values[name] for name in node.outputs]
        if any(
            _without_ones(inferred.shape) != _without_ones(old.shape) for inferred, old in zip(types, olds, strict=True)
        ):
            return False  # images of several rows: with columns for rows their bytes have another order
        outputs = [self._output(old, inferred.shape) for inferred, old in zip(types, olds, strict=True)]
        self._nodes.append(replace(node, inputs=tuple(taken), outputs=tuple(outputs), attrs=attrs))
        for old, new in zip(olds, outputs, strict=True):
            if new != old.name:
                self._reshape(new, old.name, node)
        return True

    def _output(self, old: Value, shape: Shape) -> str:
        """The name of what the turned node makes."""
        name = old.name
        if shape == old.shape:
            return name
        turns = in_rows(old.shape) == shape
        if not turns or name in self._visible:  # then there is a reshape behind it
            name = self._free(f"{name}:rows")
            self._straight[old.name] = old.name
        if turns:
            self._turned[old.name] = name
        self._values[name] = replace(old, name=name, shape=shape)
        return name

    def _is_series(self, name: str) -> bool:
        return bool(name) and name not in self._old.consts and in_rows(self._old.values[name].shape) is not None

    def _input(self, node: Node, index: int, name: str) -> str | None:
        """The name of what the turned node takes in the place of an input; None if there is no such thing."""
        if not name:
            return name
        if self._is_series(name):
            return self._as_rows(name)
        axis = _WINDOW_AXIS.get(type(node.attrs))
        if axis is not None and index > 0:  # weights, a bias
            return self._const(name, lambda w: np.swapaxes(w, axis, axis + 1)) if index == 1 else name
        shape = self._old.values[name].shape
        if max(shape[:-1], default=1) == 1:  # of channels, or of one number
            return name
        if name in self._old.consts:
            return self._const(name, lambda w: np.swapaxes(w.reshape((1,) * (4 - w.ndim) + w.shape), 1, 2))
        return None

    def _as_rows(self, name: str) -> str:
        if name not in self._turned:
            old = self._old.values[name]
            rows_name = self._free(f"{name}:rows")
            self._values[rows_name] = replace(old, name=rows_name, shape=in_rows(old.shape) or old.shape)
            self._reshape(name, rows_name)
            self._turned[name] = rows_name
            self._straight[name] = name
        return self._turned[name]

    def _as_it_was(self, name: str) -> str:
        if name in self._turned and name not in self._straight:
            row_name = self._free(f"{name}:row")
            self._values[row_name] = replace(self._old.values[name], name=row_name)
            self._reshape(self._turned[name], row_name)
            self._straight[name] = row_name
        return self._straight.get(name, name)

    def _reshape(self, x: str, y: str, node: Node | None = None) -> None:
        origin = node.origin if node else ()
        self._nodes.append(node_of(Reshape(self._values[y].shape), (x,), (y,), origin, self._free(f"{y}:shape")))

    def _const(self, name: str, change: Callable[[Array], Array]) -> str | None:
        """A constant of its own, since others may read the old one; None of what is computed."""
        if name not in self._old.consts:
            return None
        array = np.array(change(self._old.consts[name]), order="C")
        array.flags.writeable = False
        turned_name = self._free(f"{name}:turned")
        self._values[turned_name] = replace(self._old.values[name], name=turned_name, shape=array.shape)
        self._consts[turned_name] = array
        return turned_name

    def _free(self, preferred: str) -> str:
        while preferred in self._taken:
            preferred += "'"
        self._taken.add(preferred)
        return preferred


def _without_ones(shape: Shape) -> list[int]:
    return [size for size in shape if size != 1]
