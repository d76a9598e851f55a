# SPDX-License-Identifier: Apache-2.0
"""Where the features of a model for tables of numbers come from: through scalers, imputers and selections of columns.

A forest compares features with thresholds. What is computed of each feature alone before that need not be computed at
run time: the thresholds can be taken back through it (`load/forests.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.ir.graph import Array, Node, Quant, Value
from tinyc.load.forests import CodedForest, Feature, key_of_number
from tinyc.load.onnx.importing import OnnxBuilder, OnnxStep
from tinyc.load.tree_sums import PLACES
from tinyc.ops import is_a, op_of
from tinyc.ops.add import Add
from tinyc.ops.choose import Choose
from tinyc.ops.compare import Compare
from tinyc.ops.concat import Concat
from tinyc.ops.mul import Mul
from tinyc.ops.sub import Sub
from tinyc.ops.tree_ensemble import TreeEnsemble

_SCALES = (Add, Mul, Sub)
_MOST_STEPS = 50  # from the trees back

Map = Callable[[Array], Array]


@dataclass(frozen=True, slots=True)
class _Element:
    """Element `index` of value `source`, after the maps. fill: what an imputer puts in the place of NaN there."""

    source: str
    index: int
    maps: tuple[Map, ...] = ()
    fill: float | None = None

    def run(self, x: Array) -> Array:
        y = x.astype(np.float32)
        with np.errstate(all="ignore"):  # what is too large is infinite, in scikit-learn too
            for step in self.maps:
                y = step(y)
        return y


def features_of(s: OnnxStep, x: Value) -> tuple[Value, dict[int, Feature]]:
    """(a row of numbers, the features by their number as functions of single ones of it); where the features come from
    several inputs of the model, the row is these side by side."""
    elements = _Tracer(s.builder).elements(x.name, _MOST_STEPS)
    sources = list(dict.fromkeys(element.source for element in elements))
    values = [s.builder.values[name] for name in sources]
    first = dict(zip(sources, np.cumsum([0, *(value.elements for value in values[:-1])]), strict=True))
    rows = [s.reshape(value, (1, value.elements), f"row{k}") for k, value in enumerate(values)]
    row = rows[0] if len(rows) == 1 else s.insert(rows, Concat(1), "features")
    features = {}
    for number, element in enumerate(elements):
        key = None if element.fill is None else key_of_number(element.fill)
        features[number] = Feature(int(first[element.source]) + element.index, element.run, row.dtype == "f32", key)
    return row, features


def insert_trees(s: OnnxStep, row: Value, forest: CodedForest, suffix: str, quant: Quant | None) -> Value:
    """The sums of a forest in integers, int32 [1,C] with that scale, from its row of features."""
    names = ("features", "nodes", "roots", "leaves", "base")
    consts = [s.builder.add_const(f"{s.node.outputs[0]}:{n}", getattr(forest, n)) for n in names]
    return s.insert([row, *consts], TreeEnsemble(forest.complement), suffix, quant=quant)


class _Tracer:
    """Follows values back to where they are read or computed in another way."""

    def __init__(self, builder: OnnxBuilder) -> None:
        self._builder = builder
        self._producer: dict[str, Node] = {name: node for node in builder.nodes for name in node.outputs}

    def elements(self, name: str, steps: int) -> list[_Element]:
        """Of each element of the value, in C order, where it comes from."""
        node, value = self._producer.get(name), self._builder.values[name]
        here = [_Element(name, index) for index in range(value.elements)]
        if node is None or steps == 0 or value.dtype != "f32":
            return here
        computed = [other for other in node.inputs if other not in self._builder.consts]
        if is_a(node, *PLACES) and len(computed) == len(node.inputs):
            return self._moved(node, [self.elements(other, steps - 1) for other in computed])
        if self._fills(node):
            return self._filled(node, self.elements(node.inputs[1], steps - 1), here)
        if len(computed) != 1 or self._builder.values[computed[0]].elements != value.elements:
            return here
        return self._scaled(node, self.elements(computed[0], steps - 1), value) if is_a(node, *_SCALES) else here

    def _moved(self, node: Node, sources: Sequence[list[_Element]]) -> list[_Element]:
        """The operator says of numbers where each one goes."""
        flat = [element for elements in sources for element in elements]
        arrays, at = [], 0
        for name, elements in zip(node.inputs, sources, strict=True):
            arrays.append(np.arange(at, at + len(elements)).reshape(self._builder.values[name].shape))
            at += len(elements)
        (moved,) = op_of(node).float_ref(node.attrs, *arrays)
        return [flat[k] for k in np.ravel(moved)]

    def _scaled(self, node: Node, before: list[_Element], value: Value) -> list[_Element]:
        """A sum or product with a constant, whose elements are those of the operator's inputs at their places."""
        spread = [
            np.broadcast_to(self._builder.consts[name], value.shape).ravel() if name in self._builder.consts else None
            for name in node.inputs
        ]

        def step(index: int) -> Map:
            operands = [None if array is None else array[index] for array in spread]
            return lambda x: op_of(node).float_ref(node.attrs, *(x if o is None else o for o in operands))[0]

        return [replace(element, maps=(*element.maps, step(k))) for k, element in enumerate(before)]

    def _fills(self, node: Node) -> bool:
        """Whether it is an imputer: x where x is equal to itself, which NaN is not, else constants."""
        condition = self._producer.get(node.inputs[0]) if isinstance(node.attrs, Choose) else None
        return (
            condition is not None
            and condition.attrs == Compare("equal")
            and condition.inputs == (node.inputs[1],) * 2
            and node.inputs[2] in self._builder.consts
        )

    def _filled(self, node: Node, before: list[_Element], here: list[_Element]) -> list[_Element]:
        """An imputer that comes before everything else; any other is where a feature begins."""
        if len(before) != len(here) or any(element.maps or element.fill is not None for element in before):
            return here
        numbers = np.resize(self._builder.consts[node.inputs[2]], len(before))
        return [replace(e, fill=float(v)) for e, v in zip(before, numbers, strict=True)]
