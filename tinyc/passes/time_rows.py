# SPDX-License-Identifier: Apache-2.0
"""Time as rows: layers on [1,1,T,C], as one-dimensional convolutions come, work on [1,T,1,C] instead.

The bytes are the same, so that nothing is computed otherwise, and what has no other form keeps its shape behind a
reshape, which is no step. Rows are what a library can take one after the other, and what plans keep a few of.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np

from tinyc.ir.graph import Array, Graph, Node, Shape
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

_ROWS, _COLUMNS = 1, 2  # axes
_OTHER = {_ROWS: _COLUMNS, _COLUMNS: _ROWS}
# Operators whose attributes say what they do along rows and along columns; of those with weights, the axis of the
# window's rows in them, which that of the columns follows.
_WINDOW_AXIS: Mapping[type, int] = {Conv2D: 1, TransposeConv2D: 1, DepthwiseConv2D: 0}
_BY_AXES = (Concat, Pad, ResizeBilinear, ResizeNearest, Slice)


def is_one_row(shape: Shape) -> bool:
    """Whether it is an image of one row and several columns."""
    return len(shape) == 4 and shape[:2] == (1, 1) and shape[_COLUMNS] > 1


def time_as_rows(graph: Graph) -> Graph:
    """The graph with every image of one row as an image of one column, where all who make or read it allow that."""
    if not any(is_one_row(value.shape) for value in graph.values.values()):
        return graph
    turned = _Turned(graph)
    for node in graph.nodes:
        turned.take(node)
    return cleanup(turned.graph())


def turned(attrs: Any) -> Any:
    """The attributes with rows for columns."""
    changed: dict[str, Any] = {}
    for field in fields(attrs) if is_dataclass(attrs) else ():
        value = getattr(attrs, field.name)
        if isinstance(value, Pair):
            changed[field.name] = Pair(value.w, value.h)
        elif isinstance(value, Padding):
            changed[field.name] = Padding(value.left, value.top, value.right, value.bottom)
        elif field.name == "axes":
            changed[field.name] = tuple(sorted(_OTHER.get(axis % 4, axis % 4) for axis in value))
        elif field.name == "axis":
            changed[field.name] = _OTHER.get(value % 4, value % 4)
        elif field.name in ("begin", "size", "step", "before", "after"):
            changed[field.name] = (value[0], value[2], value[1], value[3])
    if isinstance(attrs, (ResizeBilinear, ResizeNearest)):
        changed = {"rows": attrs.columns, "columns": attrs.rows}
    return replace(attrs, **changed)


def _turned_shape(shape: Shape) -> Shape:
    return (shape[0], shape[2], shape[1], shape[3])


class _Turned:
    """The graph as far as it is made. A value that is turned has its old name, outputs of the graph apart."""

    def __init__(self, graph: Graph) -> None:
        self._old = graph
        self._nodes: list[Node] = []
        self._values = dict(graph.values)
        self._consts = dict(graph.consts)
        self._turned: dict[str, str] = {}  # by the old name, the value that is turned
        self._straight: dict[str, str] = {}  # by the old name of a turned value, the value as it was
        self._taken = {*graph.values, *(node.name for node in graph.nodes)}

    def graph(self) -> Graph:
        used = {*self._old.inputs, *self._old.outputs}
        used |= {name for state in self._old.states for name in (state.name, state.after)}
        used |= {name for node in self._nodes for name in (*node.inputs, *node.outputs)}
        return replace(
            self._old,
            nodes=tuple(self._nodes),
            values={name: value for name, value in self._values.items() if name in used},
            consts={name: array for name, array in self._consts.items() if name in used},
        )

    def take(self, node: Node) -> None:
        """The node, turned where it can be."""
        made = self._attempt(node)
        if made is None:
            self._nodes.append(replace(node, inputs=tuple(self._as_it_was(name) for name in node.inputs)))
            return
        self._nodes.append(made)
        for old, new in zip(node.outputs, made.outputs, strict=True):
            if old != new:  # an output of the graph
                back = Reshape(self._old.values[old].shape)
                self._nodes.append(node_of(back, (new,), (old,), node.origin, self._free(f"{old}:row")))

    def _attempt(self, node: Node) -> Node | None:
        """The node for turned images; None if it cannot be."""
        images = [name for name in (*node.inputs, *node.outputs) if self._is_image(name)]
        if not images or not _can_turn(node) or any(self._is_tall(name) for name in node.outputs):
            return None
        inputs = []
        for index, name in enumerate(node.inputs):
            found = self._input(node, index, name)
            if found is None:
                return None
            inputs.append(found)
        outputs = []
        for name in node.outputs:
            value = self._old.values[name]
            if len(value.shape) != 4:
                outputs.append(name)
                continue
            new = name
            if name in self._kept_names() and is_one_row(value.shape):
                new = self._free(f"{name}:rows")
            self._values[new] = replace(value, name=new, shape=_turned_shape(value.shape))
            if is_one_row(value.shape):
                self._turned[name] = new
                if new != name:
                    self._straight[name] = name
            outputs.append(new)
        return replace(node, inputs=tuple(inputs), outputs=tuple(outputs), attrs=turned(node.attrs))

    def _kept_names(self) -> set[str]:
        """Values whose shape is known outside."""
        return {*self._old.outputs, *(name for state in self._old.states for name in (state.name, state.after))}

    def _is_image(self, name: str) -> bool:
        return bool(name) and name not in self._old.consts and is_one_row(self._old.values[name].shape)

    def _is_tall(self, name: str) -> bool:
        """Whether it is an image of several rows: with columns for rows its bytes have another order."""
        shape = self._old.values[name].shape
        return len(shape) == 4 and not is_one_row(shape) and _turned_shape(shape) != shape

    def _input(self, node: Node, index: int, name: str) -> str | None:
        """The name of what the turned node takes in the place of an input; None if there is no such thing."""
        if not name or self._old.values[name].shape in ((), (1,)):
            return name
        if self._is_image(name):
            return self._as_rows(name)
        shape = self._old.values[name].shape
        axis = _WINDOW_AXIS.get(type(node.attrs))
        if axis is not None and index > 0:
            return self._const(name, lambda w: np.swapaxes(w, axis, axis + 1)) if index == 1 else name
        if len(shape) < 3 and (len(shape) < 2 or shape[0] == 1):
            return name
        if name in self._old.consts:
            return self._const(name, lambda w: np.swapaxes(w.reshape((1,) * (4 - w.ndim) + w.shape), 1, 2))
        return name if len(shape) == 4 and shape[1:3] == (1, 1) else None

    def _as_rows(self, name: str) -> str:
        if name not in self._turned:
            value = self._old.values[name]
            made = self._free(f"{name}:rows")
            self._values[made] = replace(value, name=made, shape=_turned_shape(value.shape))
            self._nodes.append(node_of(Reshape(self._values[made].shape), (name,), (made,)))
            self._turned[name] = made
            self._straight[name] = name
        return self._turned[name]

    def _as_it_was(self, name: str) -> str:
        if name not in self._turned:
            return name
        if name not in self._straight:
            value = self._old.values[name]
            made = self._free(f"{name}:row")
            self._values[made] = replace(value, name=made)
            self._nodes.append(node_of(Reshape(value.shape), (self._turned[name],), (made,)))
            self._straight[name] = made
        return self._straight[name]

    def _const(self, name: str, change: Callable[[Array], Array]) -> str | None:
        """A constant of its own, since others may read the old one; None of what is computed."""
        if name not in self._old.consts:
            return None
        array = np.array(change(self._old.consts[name]), order="C")
        array.flags.writeable = False
        made = self._free(f"{name}:turned")
        self._values[made] = replace(self._old.values[name], name=made, shape=array.shape)
        self._consts[made] = array
        return made

    def _free(self, wanted: str) -> str:
        while wanted in self._taken:
            wanted += "'"
        self._taken.add(wanted)
        return wanted


def _can_turn(node: Node) -> bool:
    """Whether what it does along rows it can do along columns."""
    op = op_of(node)
    if isinstance(node.attrs, (*_WINDOW_AXIS, *_BY_AXES)) or hasattr(node.attrs, "kernel"):
        return True
    if Trait.REDUCES in op.traits:
        return bool(node.attrs.keep_dims)
    return bool(op.traits & {Trait.ELEMENTWISE, Trait.BROADCASTS, Trait.LAST_AXIS})
