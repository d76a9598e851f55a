# SPDX-License-Identifier: Apache-2.0
"""An integer graph run in float32, many samples at once: every value rounded as its quantization says.

Values are reals, scale * (q - zero). The results are those of the integer reference but for a step here and there where
a float32 sum lies on the border between two integers; what is learned and chosen with it is measured
with the integer reference in the end.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import field

import numpy as np
import numpy.typing as npt

from tinyc.base.dataclass import dataclass
from tinyc.ir.graph import INT_RANGE, Array, Graph, Node, Quant, Value
from tinyc.ops import is_a
from tinyc.ops.units import ChannelUnits
from tinyc.passes.weights import has_weights, out_axis
from tinyc.quantize.batched import Steps, compute

_CHUNK = 2**16  # elements that are rounded at once: they stay in the cache
_DECIMALS = 9  # of decibels


def rounded(x: Array, quant: Quant, dtype: str, out: Array | None = None) -> Array:
    """Reals as the nearest ones that a per-tensor quantization can express; float32, in `out` if that is given."""
    scale, zero = quant.per_tensor
    lo, hi = INT_RANGE[dtype]
    reals, flat = np.empty(x.shape, np.float32) if out is None else out, x.reshape(-1)
    for first in range(0, len(flat), _CHUNK):
        chunk = slice(first, first + _CHUNK)
        q = np.multiply(flat[chunk], np.float32(1 / scale), out=reals.reshape(-1)[chunk])
        np.rint(q, out=q)
        np.clip(q, np.float32(lo - zero), np.float32(hi - zero), out=q)
        q *= np.float32(scale)
    return reals


@dataclass
class Batch:
    """A graph and its constants as reals, ready to run on [samples, *shape] arrays.

    A float graph runs as it is. Of an integer graph every computed value is rounded.
    `consts` and `quants` may be replaced between runs: that is how candidates are tried. w_steps: scales [O] of the
    weights that are integers times them; whoever replaces those takes them away.
    """

    graph: Graph
    consts: dict[str, Array] = field(init=False)
    quants: dict[str, Quant] = field(init=False)
    w_steps: dict[str, npt.NDArray[np.float64]] = field(init=False)

    def __post_init__(self) -> None:
        values = self.graph.values
        self.consts = {name: _reals(values[name], array) for name, array in self.graph.consts.items()}
        self.w_steps = {
            node.inputs[1]: np.asarray(quant.scale)
            for node in self.graph.nodes
            if has_weights(node) and (quant := values[node.inputs[1]].quant) is not None
            if node.inputs[1] in self.consts and quant.axis == out_axis(node) and not any(quant.zero)
        }
        # In other units the same integers are rounded already, and follow their source as candidates are tried.
        scaled = {n for node in self.graph.nodes for n in node.outputs if is_a(node, ChannelUnits)}
        plain = {name: value for name, value in values.items() if name not in scaled and name not in self.graph.consts}
        self.quants = {name: value.quant for name, value in plain.items() if value.quant is not None}

    def adopt(self, graph: Graph, node: Node) -> None:
        """Go on with a graph that differs in one layer's constants."""
        self.graph = graph
        for name in node.inputs:
            if name in graph.consts:
                self.consts[name] = _reals(graph.values[name], graph.consts[name])
        quant = graph.values[node.inputs[1]].quant
        if quant is not None:
            self.w_steps[node.inputs[1]] = np.asarray(quant.scale)

    def start(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """The graph's inputs, and the states that a run begins with, rounded."""
        return {name: self.rounded(name, inputs[name]) for name in self.graph.sources}

    def rounded(self, name: str, x: Array, own: bool = False) -> Array:
        """A value's reals as its integers can express them. own: nobody else reads the array, which may be changed."""
        quant = self.quants.get(name)
        out = x if own and x.flags.writeable and x.flags.c_contiguous and x.dtype == np.float32 else None
        return x if quant is None else rounded(x, quant, self.graph.values[name].dtype, out)

    def step(self, node: Node, values: Mapping[str, Array]) -> dict[str, Array]:
        """The node's outputs, rounded."""
        inputs = [(self.consts[n] if n in self.consts else values[n]) if n else None for n in node.inputs]
        results = compute(self.graph, node, inputs, len(next(iter(values.values()))), self._steps(node))
        own = has_weights(node)  # no view of an input: rounded in place
        return {name: self.rounded(name, y, own) for name, y in zip(node.outputs, results, strict=True)}

    def step_of(self, name: str) -> tuple[float, float]:
        """What a rounded value is integers of, and how large those can be."""
        scale, zero = self.quants[name].per_tensor
        limits = INT_RANGE[self.graph.values[name].dtype]
        return scale, float(max(abs(limit - zero) for limit in limits))

    def _steps(self, node: Node) -> Steps | None:
        """What a layer's input is integers of, and its weights."""
        if not has_weights(node) or node.inputs[0] not in self.quants:
            return None
        return self.step_of(node.inputs[0]), self.w_steps.get(node.inputs[1])

    def run(self, inputs: Mapping[str, Array], keep: Collection[str] = ()) -> dict[str, Array]:
        """Outputs and the values named in `keep`. Others are dropped as soon as nobody reads them."""
        return self.run_from(self.start(inputs), 0, {*self.graph.outputs, *keep})

    def run_from(self, values: dict[str, Array], first: int, keep: Collection[str]) -> dict[str, Array]:
        """The values named in `keep`, with the nodes from index `first` on computed of `values`, which is emptied."""
        last = {name: index for index, node in enumerate(self.graph.nodes) for name in node.inputs}
        for index, node in enumerate(self.graph.nodes[first:], first):
            values |= self.step(node, values)
            for name in node.inputs:
                if last[name] == index and name not in keep:
                    values.pop(name, None)
        return {name: values[name] for name in keep}

    def resume(self, values: dict[str, Array], first: int) -> dict[str, Array]:
        """Every value, with the nodes from index `first` on computed anew."""
        values = dict(values)
        for node in self.graph.nodes[first:]:
            values |= self.step(node, values)
        return values


def _reals(value: Value, array: Array) -> Array:
    return np.asarray(array if value.quant is None else value.quant.dequantize(array), np.float32)


def sqnr_db(signal: Array, noisy: Array) -> float:
    """10 log10 of the power of `signal` over that of the difference; 200 where there is none, -200 where nothing is
    left of the signal, as of what is infinite. Rounded far below what makes a difference, so that the logarithm's last
    bits decide nothing."""
    with np.errstate(over="ignore", invalid="ignore"):
        power = float(np.square(signal, dtype=np.float64).sum())
        noise = float(np.square(signal.astype(np.float64) - noisy).sum())
    if noise <= power * 1e-20:
        return 200.0
    return round(10 * math.log10(max(power, 1e-300) / noise), _DECIMALS) if noise < power * 1e20 else -200.0
