# SPDX-License-Identifier: Apache-2.0
"""Scales for what a quantized file leaves in float: its last layer, or its first, as PyTorch's quantizers for x86 do.

The file's own integers stay as they are. Only a value that would be computed in float gets a quantization, of the range
that it has on the calibration inputs, while all before it runs in the integers of the file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from pathlib import Path

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.ir.graph import DType, Graph, Node, Quant, free_name
from tinyc.ops import is_a, node_of, op_of
from tinyc.ops.dequantize import Dequantize
from tinyc.ops.op import Fixed, Trait
from tinyc.ops.quantize import Quantize
from tinyc.ops.tree_ensemble import TreeEnsemble
from tinyc.options.recipe import Pictures
from tinyc.passes.qdq import join_quantization
from tinyc.quantize.calibration import OVERFLOWS, Calibration, calibrate
from tinyc.quantize.ranges import affine
from tinyc.reference.interpreter import prepare_int

_INTEGER = (Quantize, Dequantize, TreeEnsemble)  # floats beside these are as they should be
_IN_CHAINS = (Trait.ELEMENTWISE, Trait.BROADCASTS)  # several of them may become one table


@dataclass
class MissingScales:
    """Called with a graph whose quantization is joined, before its ports are integers; gives the same with a scale for
    every value that a node makes in float, from the calibration data of the model at `path`. scaled: their names."""

    path: Path
    file: Path | None
    pictures: Pictures | None = None
    sequence: int = 0
    scaled: list[str] = field(default_factory=list)

    def __call__(self, graph: Graph) -> Graph:
        """TinycError where the data do not fit the inputs; the graph as it is without calibration data."""
        if not _in_float(graph):
            return graph
        data = calibrate(self.path, graph, self.file, self.pictures, self.sequence)
        if not data.proven:
            return graph
        for within_chains in (False, True):
            names = _without_scale(graph, within_chains)
            if names:
                self.scaled += names
                graph = join_quantization(_with_scales(graph, names, data))
        return graph


def _in_float(graph: Graph) -> list[Node]:
    """Nodes that compute in float, and not by moving elements."""
    computing = (node for node in graph.nodes if not isinstance(node.attrs, _INTEGER) and not is_a(node, Trait.MOVES))
    return [node for node in computing if any(graph.values[name].dtype == "f32" for name in node.outputs)]


def _without_scale(graph: Graph, within_chains: bool) -> list[str]:
    """Inputs of the model that such nodes read and values that they make; those between two elementwise operators only
    `within_chains`, since a table may hold both."""
    nodes, readers = _in_float(graph), graph.consumers()
    read = _moved_from(graph, {name for node in nodes for name in node.inputs})
    names = [name for name in graph.inputs if name in read and graph.values[name].dtype == "f32"]
    for node in nodes:
        for name in node.outputs:
            read_by = readers.get(name, ())
            ready = bool(read_by) and all(isinstance(reader.attrs, Quantize) for reader in read_by)
            chained = is_a(node, *_IN_CHAINS) and name not in graph.outputs
            chained = chained and all(is_a(reader, *_IN_CHAINS) for reader in read_by)
            if graph.values[name].dtype == "f32" and not ready and (within_chains or not chained):
                names.append(name)
    return names


def _moved_from(graph: Graph, names: set[str]) -> set[str]:
    """The values, and those whose elements they are in another order."""
    moved = set(names)
    for node in reversed(graph.nodes):
        if is_a(node, Trait.MOVES) and moved.intersection(node.outputs):
            moved.update(node.inputs)
    return moved


def _with_scales(graph: Graph, names: Sequence[str], data: Calibration) -> Graph:
    """The graph with a quantize and a dequantize behind each of the values."""
    ranges, producer = _ranges(graph, names, data), graph.producer()
    dtype = _activation_dtype(graph)
    for name in names:
        node = producer.get(name)
        fixed = None if node is None else op_of(node).quant_out[node.outputs.index(name)]
        own = Quant((fixed.scale,), (fixed.zero,)) if isinstance(fixed, Fixed) and dtype == "s8" else None
        graph = _behind(graph, name, dtype, own or affine(*ranges[name], dtype))
    return graph


def _activation_dtype(graph: Graph) -> DType:
    """Of the integers that the file has for what is computed."""
    dtypes = (graph.values[node.outputs[0]].dtype for node in graph.nodes if isinstance(node.attrs, Quantize))
    return next(dtypes, "s8")


def _ranges(graph: Graph, names: Sequence[str], data: Calibration) -> dict[str, tuple[float, float]]:
    """(least, largest) of each value on the calibration inputs."""
    program, ranges = prepare_int(graph, Numerics.ONNX, by_meaning=True), dict.fromkeys(names, (0.0, 0.0))
    computed = [name for name in names if name not in graph.inputs]
    for index in range(data.samples):
        sample = data.sample(index)
        values = {**sample, **program(sample, keep=computed)}
        for name in names:
            lo, hi = float(values[name].min()), float(values[name].max())
            if not np.isfinite([lo, hi]).all():
                raise TinycError(f"'{name}' overflows on the calibration inputs", graph.values[name].loc, OVERFLOWS)
            ranges[name] = min(ranges[name][0], lo), max(ranges[name][1], hi)
    return ranges


def _behind(graph: Graph, name: str, dtype: DType, quant: Quant) -> Graph:
    """Readers of the value, and the output of the model that it may be, take what a dequantize makes of its integers.
    An output keeps its name."""
    value, taken = graph.values[name], set(graph.values)
    integers = free_name(f"{name}:integers", taken)
    other = free_name(f"{name}:real", taken | {integers})
    is_output = name in graph.outputs
    real, again = (other, name) if is_output else (name, other)
    nodes: list[Node] = []
    pair = (
        node_of(Quantize(dtype, half_even=True), (real,), (integers,)),
        node_of(Dequantize(), (integers,), (again,)),
    )
    if name in graph.inputs:
        nodes += pair
    for node in graph.nodes:
        inputs = tuple(again if n == name else n for n in node.inputs)
        outputs = tuple(real if n == name else n for n in node.outputs)
        nodes.append(replace(node, inputs=inputs, outputs=outputs))
        if name in node.outputs:
            nodes += pair
    values = {
        **graph.values,
        other: replace(value, name=other),
        integers: replace(value, name=integers, dtype=dtype, quant=quant),
    }
    return replace(graph, nodes=tuple(nodes), values=values)
