"""Runs a graph in numpy: in float, or in integers exactly as the C kernels compute them.

`prepare_int` and `prepare_float` do the work that is the same for every sample once; the program they
return is then called per sample. `run_int` and `run_float` do both for a single use.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tinyc.errors import TinycError
from tinyc.ir.graph import NUMPY_DTYPE, Array, Graph, Node, Quant, Value
from tinyc.numerics import Numerics
from tinyc.ops import all_ops
from tinyc.ops.base import Op, Site

Keep = Collection[str] | Literal["all"]


@dataclass(frozen=True, slots=True)
class Step:
    """A node bound to what computes it: `compute(head, *inputs)`, head being attrs or prepared integers."""

    node: Node
    compute: Callable[..., tuple[Array, ...]]
    head: Any
    constants: Mapping[str, Array]

    def __call__(self, known: Mapping[str, Array]) -> dict[str, Array]:
        def array(name: str) -> Array | None:
            if not name:
                return None
            return self.constants[name] if name in self.constants else known[name]

        try:
            results = self.compute(self.head, *(array(name) for name in self.node.inputs))
        except TinycError as e:
            raise e.located(self.node.where) from e
        return dict(zip(self.node.outputs, results, strict=True))


@dataclass(frozen=True, slots=True)
class Program:
    """A graph that is ready to run, sample after sample. Made by `prepare_int` or `prepare_float`."""

    graph: Graph
    steps: tuple[Step, ...]
    dtypes: Mapping[str, type]  # of the inputs

    def __call__(self, inputs: Mapping[str, Array], keep: Keep = ()) -> dict[str, Array]:
        """Outputs by name, and of the other values those named in `keep` ("all": every activation).

        Every input has its value's shape, or one axis 0 of n samples in place of a leading 1; then the
        results are stacked along axis 0 as well. TinycError for a missing, surplus or misshapen input,
        or one of another kind of number (an integer graph takes its own integers, not reals).
        """
        arrays, samples = self._checked(inputs)
        if samples is None:
            return self._one(arrays, keep)
        runs = [self._one({name: a[i : i + 1] for name, a in arrays.items()}, keep) for i in range(samples)]
        return {name: np.concatenate([run[name] for run in runs]) for name in runs[0]}

    def _one(self, inputs: Mapping[str, Array], keep: Keep) -> dict[str, Array]:
        known = dict(inputs)
        for step in self.steps:
            known.update(step(known))
        if keep == "all":
            return known
        wanted = dict.fromkeys((*self.graph.outputs, *keep))
        return {name: known[name] for name in wanted}

    def _checked(self, inputs: Mapping[str, Array]) -> tuple[dict[str, Array], int | None]:
        expected = self.graph.inputs
        if set(inputs) != set(expected):
            raise TinycError(f"the model takes inputs {list(expected)}, got {list(inputs)}")
        arrays = {name: self._typed(name, np.asarray(inputs[name])) for name in expected}
        wrong = [name for name, a in arrays.items() if a.shape != self.graph.values[name].shape]
        if not wrong:
            return arrays, None
        counts = {a.shape[0] if a.ndim else 0 for a in arrays.values()}
        stacked = all(_is_stack(a.shape, self.graph.values[name]) for name, a in arrays.items())
        if not stacked or len(counts) != 1:
            value, shape = self.graph.values[wrong[0]], list(arrays[wrong[0]].shape)
            raise TinycError(f"input '{value.name}' has shape {shape}, expected {list(value.shape)}", value.loc)
        return arrays, counts.pop()

    def _typed(self, name: str, array: Array) -> Array:
        dtype = self.dtypes[name]
        if not np.can_cast(array.dtype, dtype, "same_kind"):
            raise TinycError(
                f"input '{name}' is {array.dtype}, expected {np.dtype(dtype)}",
                self.graph.values[name].loc,
                "an integer model takes quantized inputs: round(x / scale) + zero point",
            )
        typed: Array = array.astype(dtype)
        if array.dtype.kind in "iu" and not np.array_equal(typed, array):
            raise TinycError(f"input '{name}' has values outside {np.dtype(dtype)}", self.graph.values[name].loc)
        return typed


def _is_stack(shape: tuple[int, ...], value: Value) -> bool:
    return len(shape) > 0 and shape[0] > 0 and value.shape[:1] == (1,) and shape[1:] == value.shape[1:]


def prepare_int(graph: Graph, numerics: Numerics) -> Program:
    """The graph in integers, as `numerics` defines them; nodes between float values run in float.

    TinycError where an operator cannot be computed in integers, with the node's place.
    """
    steps = tuple(_int_step(graph, node, numerics) for node in graph.nodes)
    return Program(graph, steps, {name: NUMPY_DTYPE[graph.values[name].dtype] for name in graph.inputs})


def _int_step(graph: Graph, node: Node, numerics: Numerics) -> Step:
    op = operator(node)
    touched = [graph.values[name] for name in (*node.inputs, *node.outputs) if name]
    if all(value.dtype == "f32" for value in touched):
        return Step(node, op.float_ref, node.attrs, graph.consts)
    try:
        return Step(node, op.int_ref, op.prepare(Site(graph, node, numerics)), graph.consts)
    except TinycError as e:
        raise e.located(node.where) from e


def prepare_float(graph: Graph) -> Program:
    """The graph in float32; constants of an integer graph become the reals they stand for."""
    consts = {name: dequantized(array, graph.values[name].quant) for name, array in graph.consts.items()}
    steps = tuple(Step(node, operator(node).float_ref, node.attrs, consts) for node in graph.nodes)
    return Program(graph, steps, dict.fromkeys(graph.inputs, np.float32))


def dequantized(array: Array, quant: Quant | None) -> Array:
    """scale * (q - zero) in float32; floats, and integers without quantization (shapes, axes), as they are."""
    if quant is None or array.dtype.kind == "f":
        return array
    shape = [1] * array.ndim
    if quant.axis is not None:
        shape[quant.axis] = -1
    scale = np.reshape(quant.scale, shape if quant.axis is not None else ())
    zero = np.reshape(quant.zero, shape if quant.axis is not None else ())
    return np.asarray(scale * (array.astype(np.float64) - zero), np.float32)


def operator(node: Node) -> Op:
    """The definition of the node's operator; TinycError if there is none of that name."""
    found = all_ops().get(node.op)
    if found is None:
        raise TinycError(f"there is no operator '{node.op}'", node.where)
    return found


def run_int(
    graph: Graph, inputs: Mapping[str, Array], numerics: Numerics, *, keep: Keep = ()
) -> dict[str, Array]:
    """Outputs (and kept values) of the integer graph; see `Program.__call__`. For many samples: `prepare_int`."""
    return prepare_int(graph, numerics)(inputs, keep)


def run_float(graph: Graph, inputs: Mapping[str, Array], *, keep: Keep = ()) -> dict[str, Array]:
    """Outputs (and kept values) in float32; see `Program.__call__`. For many samples: `prepare_float`."""
    return prepare_float(graph)(inputs, keep)
