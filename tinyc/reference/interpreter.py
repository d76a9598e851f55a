# SPDX-License-Identifier: Apache-2.0
"""Runs a graph in numpy: in float, or exactly as the C kernels compute it, in integers and between float32 tensors.

`prepare_int` and `prepare_float` do the work that is the same for every sample once; the program they
return is then called per sample. `run_int` and `run_float` do both for a single use.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import field
from typing import Any, Literal

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.ir.graph import NUMPY_DTYPE, Array, Graph, Node, Quant, Value
from tinyc.kernel.site import Site
from tinyc.ops import all_ops
from tinyc.ops.op import Op

Keep = Collection[str] | Literal["all"]


@dataclass(frozen=True, slots=True)
class BoundNode:
    """A node bound to what computes it: `compute(head, *inputs)`, head being attrs or prepared integers."""

    node: Node
    compute: Callable[..., tuple[Array, ...]]
    head: Any
    constants: Mapping[str, Array]

    def __call__(self, values: Mapping[str, Array]) -> dict[str, Array]:
        def array(name: str) -> Array | None:
            if not name:
                return None
            return self.constants[name] if name in self.constants else values[name]

        try:
            results = self.compute(self.head, *(array(name) for name in self.node.inputs))
        except TinycError as e:
            raise e.located(self.node.where) from e
        return dict(zip(self.node.outputs, results, strict=True))


@dataclass(frozen=True, slots=True)
class BoundGraph:
    """A graph that is ready to run, sample after sample. Made by `prepare_int` or `prepare_float`."""

    graph: Graph
    steps: tuple[BoundNode, ...]
    dtypes: Mapping[str, type]  # of the inputs
    initial: Mapping[str, Array] = field(default_factory=dict)  # states after a reset

    def __call__(self, inputs: Mapping[str, Array], keep: Keep = ()) -> dict[str, Array]:
        """Outputs by name, and of the other values those named in `keep` ("all": every activation).

        An input has its value's shape, or holds n samples: on an axis more in front, or in place of a
        leading 1. Then the results are stacked the same way; of a model with state they are one sequence
        that begins with a reset. States may be given too, in the place of those of before. TinycError for a
        missing, surplus or misshapen input, or one of another kind of number (an integer graph takes integers, not
        reals).
        """
        arrays = self._typed(inputs)
        if all(a.shape == self.graph.values[name].shape for name, a in arrays.items()):
            return next(self._run([arrays], keep))
        samples, join = self._split(arrays)
        runs = list(self._run(samples, keep))
        return {name: join([run[name] for run in runs]) for name in runs[0]}

    def sequence(
        self, samples: Iterable[Mapping[str, Array]], keep: Keep = (), every: int = 0
    ) -> Iterator[dict[str, Array]]:
        """The same for one sample after the other, from a reset on, each with the state that the last one left; every:
        there is a reset after so many, too."""
        return self._run(map(self._typed, samples), keep, every)

    def _run(self, samples: Iterable[Mapping[str, Array]], keep: Keep, every: int = 0) -> Iterator[dict[str, Array]]:
        states: dict[str, Array] = {}
        for index, sample in enumerate(samples):
            if index == 0 or (every and index % every == 0):
                states = {state.name: self.initial[state.name] for state in self.graph.states}
            values = {**states, **sample}
            for step in self.steps:
                values.update(step(values))
            states = {state.name: values[state.after] for state in self.graph.states}
            yield self._selected(values, keep)

    def _selected(self, values: dict[str, Array], keep: Keep) -> dict[str, Array]:
        if keep == "all":
            return values
        names = dict.fromkeys((*self.graph.outputs, *keep))
        return {name: values[name] for name in names}

    def _typed(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        expected = self.graph.inputs
        states = {name: array.dtype.type for name, array in self.initial.items() if name in inputs}
        if set(inputs) - set(states) != set(expected):
            raise TinycError(f"the model takes inputs {list(expected)}, got {list(inputs)}")
        return {n: _typed(np.asarray(inputs[n]), kind, n) for n, kind in {**self.dtypes, **states}.items()}

    def _split(self, arrays: Mapping[str, Array]) -> tuple[list[dict[str, Array]], Callable[..., Array]]:
        """The samples, and what puts their results together again."""
        shapes = {name: self.graph.values[name].shape for name in arrays}
        for name, a in arrays.items():
            if a.ndim == 0 or len(a) == 0 or shapes[name] not in (a.shape[1:], (1, *a.shape[1:])):
                message = f"input '{name}' has shape {list(a.shape)}, expected {list(shapes[name])}"
                raise TinycError(message, self.graph.values[name].loc)
        counts = {len(a) for a in arrays.values()}
        if len(counts) > 1:
            raise TinycError(f"the inputs hold different numbers of samples: {sorted(counts)}")
        count = counts.pop()
        samples = [{name: a[i].reshape(shapes[name]) for name, a in arrays.items()} for i in range(count)]
        replaced = all(a.ndim == len(shapes[name]) for name, a in arrays.items())
        return samples, np.concatenate if replaced else np.stack


def _typed(array: Array, dtype: type, name: str) -> Array:
    if not np.can_cast(array.dtype, dtype, "same_kind"):
        message = f"input '{name}' is {array.dtype}, expected {np.dtype(dtype)}"
        hint = "an integer model takes quantized inputs: round(x / scale) + zero point"
        raise TinycError(message, hint=hint)
    typed: Array = array.astype(dtype)
    if array.dtype.kind in "iu" and not np.array_equal(typed, array):
        raise TinycError(f"input '{name}' has values outside {np.dtype(dtype)}")
    return typed


def prepare_int(graph: Graph, numerics: Numerics, by_meaning: bool = False) -> BoundGraph:
    """The graph in integers, as `numerics` defines them; nodes between float32 values as their kernels compute them.
    by_meaning: those between computed float32 values as `float_ref` says, on the reals that integer constants stand
    for: of graphs that no kernel runs yet.

    TinycError where an operator cannot be computed in integers, with the node's place.
    """
    steps = tuple(_int_step(graph, node, numerics, by_meaning) for node in graph.nodes)
    initial = {state.name: graph.initial(state) for state in graph.states}
    return BoundGraph(graph, steps, {name: NUMPY_DTYPE[graph.values[name].dtype] for name in graph.inputs}, initial)


def _int_step(graph: Graph, node: Node, numerics: Numerics, by_meaning: bool) -> BoundNode:
    op = operator(node)
    touched = [name for name in (*node.inputs, *node.outputs) if name and not (by_meaning and name in graph.consts)]
    if (by_meaning or op.float32 is None) and all(graph.values[name].dtype == "f32" for name in touched):
        consts = {
            name: _reals(graph.consts[name], graph.values[name].quant) for name in node.inputs if name in graph.consts
        }
        return BoundNode(node, op.float_ref, node.attrs, consts)
    site = Site(graph, node, numerics)
    try:
        return BoundNode(node, op.exact_ref(site), op.prepared(site), graph.consts)
    except TinycError as e:
        raise e.located(node.where) from e


def prepare_float(graph: Graph) -> BoundGraph:
    """The graph in float32; constants of an integer graph become the reals they stand for."""
    consts = {name: _reals(array, graph.values[name].quant) for name, array in graph.consts.items()}
    steps = tuple(BoundNode(node, operator(node).float_ref, node.attrs, consts) for node in graph.nodes)
    initial = {state.name: _reals(graph.initial(state), graph.values[state.name].quant) for state in graph.states}
    dtypes = {name: _real_dtype(graph.values[name]) for name in graph.inputs}
    return BoundGraph(graph, steps, dtypes, initial)


def _real_dtype(value: Value) -> type:
    """float32, but for indices and conditions, which stand for no reals."""
    return np.float32 if value.quant is not None else NUMPY_DTYPE[value.dtype]


def _reals(array: Array, quant: Quant | None) -> Array:
    return array if quant is None else quant.dequantize(array)


def operator(node: Node) -> Op:
    """The definition of the node's operator; TinycError if there is none of that name."""
    op = all_ops().get(node.op)
    if op is None:
        raise TinycError(f"there is no operator '{node.op}'", node.where)
    return op


def run_int(graph: Graph, inputs: Mapping[str, Array], numerics: Numerics, *, keep: Keep = ()) -> dict[str, Array]:
    """Outputs (and kept values) of the integer graph: `prepare_int` and `Program.__call__` at once."""
    return prepare_int(graph, numerics)(inputs, keep)


def run_float(graph: Graph, inputs: Mapping[str, Array], *, keep: Keep = ()) -> dict[str, Array]:
    """Outputs (and kept values) in float32: `prepare_float` and `Program.__call__` at once."""
    return prepare_float(graph)(inputs, keep)
