# SPDX-License-Identifier: Apache-2.0
"""What a model computes of the leaves of its trees is computed of the leaves when it is loaded, not of every input.

Whatever follows from one tree alone (its class, the depth of a leaf, a vote) is a number for each of its leaves; and a
sum, a mean or a product with constants of what several trees say is again a sum of leaves. So the trees of a bagging,
of a vote or of AdaBoost, exported one by one with arithmetic behind them, become one ensemble with other leaves, and
all decisions are made with its integers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from tinyc.base.dataclass import dataclass
from tinyc.ir.graph import NUMPY_DTYPE, Array, Graph, Node, Quant, Value, free_name, read_only
from tinyc.load.forests import MOST_NODES, integer_leaves
from tinyc.ops import is_a, node_of, op_of
from tinyc.ops.add import Add
from tinyc.ops.argmax import ArgMax
from tinyc.ops.concat import Concat
from tinyc.ops.dequantize import Dequantize
from tinyc.ops.div import Div
from tinyc.ops.fully_connected import FullyConnected
from tinyc.ops.mean import Mean
from tinyc.ops.mul import Mul
from tinyc.ops.pick import Pick
from tinyc.ops.reshape import Reshape
from tinyc.ops.signals import COUNT
from tinyc.ops.slice import Slice
from tinyc.ops.sub import Sub
from tinyc.ops.sum import Sum
from tinyc.ops.transpose import Transpose
from tinyc.ops.tree_ensemble import TreeEnsemble
from tinyc.passes.rewrite import without_dead

Reals = npt.NDArray[np.float64]
PLACES = (Concat, Pick, Reshape, Slice, Transpose)  # operators that say of elements alone where each one goes
_Tree = tuple[str, int]  # the output of its ensemble, and which of its trees

_MOST_ELEMENTS = 1 << 12  # of a tensor that is followed
_MOST_NUMBERS = 1 << 22  # of all that is known of the leaves of one tensor
_WIDER = 4  # leaves of an ensemble for several may take so many times the numbers that those of its parts take


@dataclass(frozen=True, slots=True)
class _Part:
    """What one tree adds: rows [leaves of the tree][len(at)] to the elements `at`."""

    at: npt.NDArray[np.intp]
    rows: Reals


@dataclass(frozen=True, slots=True)
class _Form:
    """A tensor as base [elements] and what each tree adds. computed: more than trees and moves made it."""

    base: Reals
    parts: Mapping[_Tree, _Part]
    computed: bool = False

    def moved(self, places: npt.NDArray[np.intp]) -> _Form:
        """The tensor whose element k is element places[k] of this one."""
        parts = {}
        for tree, part in self.parts.items():
            column = np.full(len(self.base), -1)
            column[part.at] = np.arange(len(part.at))
            at = np.flatnonzero(column[places] >= 0)
            if len(at):
                parts[tree] = _Part(at, part.rows[:, column[places[at]]])
        return _Form(self.base[places], parts, self.computed)

    def dense(self, tree: _Tree) -> Reals:
        """All elements for each leaf of the tree, on which alone the tensor depends."""
        part = self.parts[tree]
        rows = np.repeat(self.base[None], len(part.rows), axis=0)
        rows[:, part.at] += part.rows
        return rows

    @property
    def numbers(self) -> int:
        return sum(part.rows.size for part in self.parts.values())


def joined_trees(graph: Graph) -> Graph:
    """The graph, which has trees, with ensembles in the place of arithmetic on what these say."""
    with np.errstate(all="ignore"):  # what is infinite or NaN of some leaf is left to the operators
        followed = _Followed(graph)
    return without_dead(_Joined(graph, followed).graph())


class _Followed:
    """The tensors that are sums of what trees say."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self.forms: dict[str, _Form] = {}
        self.ensembles: dict[str, Node] = {}
        self._leaves: dict[_Tree, list[int]] = {}
        for node in graph.nodes:
            if isinstance(node.attrs, TreeEnsemble):
                self._begin(node)
                continue
            form = self._followed(node) if len(node.outputs) == 1 else None
            if form is not None and len(form.base) <= _MOST_ELEMENTS and form.numbers <= _MOST_NUMBERS:
                self.forms[node.outputs[0]] = form

    def walked(self, tree: _Tree) -> Iterator[int]:
        """Nodes of the tree, and its leaves as numbers below 0, from the root down."""
        nodes, roots = (self._graph.consts[self.ensembles[tree[0]].inputs[k]] for k in (2, 3))
        waiting = [int(roots[tree[1]])]
        while waiting:
            at = waiting.pop()
            yield at
            if at >= 0:
                waiting += [int(nodes[at, 3]), int(nodes[at, 2])]

    def leaves(self, tree: _Tree) -> list[int]:
        """The leaves of the tree, in the order of the rows of its parts."""
        if tree not in self._leaves:
            self._leaves[tree] = sorted({-1 - at for at in self.walked(tree) if at < 0})
        return self._leaves[tree]

    def _begin(self, node: Node) -> None:
        name, consts = node.outputs[0], self._graph.consts
        quant = self._graph.values[name].quant or COUNT
        if any(other not in consts for other in node.inputs[1:]):
            return
        self.ensembles[name] = node
        roots, leaves, base = (consts[other].astype(np.float64) for other in node.inputs[3:6])
        rows, first = leaves * quant.scale[0], base * quant.scale[0]
        if node.attrs.complement is not None:
            rows = np.concatenate([-rows, rows], axis=1)
            first = np.concatenate([node.attrs.complement * quant.scale[0] - first, first])
        trees = [(name, k) for k in range(len(roots))]
        at = np.arange(rows.shape[1])
        self.forms[name] = _Form(first, {tree: _Part(at, rows[self.leaves(tree)]) for tree in trees})

    def _followed(self, node: Node) -> _Form | None:
        """What the node makes, if that is a sum of what trees say."""
        names = [name for name in node.inputs if name]
        computed = [name for name in names if name not in self._graph.consts]
        if not computed or any(name not in self.forms for name in computed):
            return None
        if isinstance(node.attrs, Dequantize):
            return self.forms[computed[0]]
        if is_a(node, *PLACES) and len(computed) == len(names):
            return self._moved(node)
        integers = [] if isinstance(node.attrs, ArgMax) else names
        if any(self._graph.values[name].quant not in (None, COUNT) for name in (*integers, *node.outputs)):
            return None
        if is_a(node, Add, Sub, Mean, Sum) or (is_a(node, Div, FullyConnected, Mul) and computed == names[:1]):
            return self._linear(node)
        return self._tabulated(node)

    def _shape(self, name: str) -> tuple[int, ...]:
        return self._graph.values[name].shape

    def _moved(self, node: Node) -> _Form:
        """The operator says of numbers where each one goes."""
        whole, first = _side_by_side([self.forms[name] for name in node.inputs])
        places = [
            np.arange(at, at + len(self.forms[name].base)).reshape(self._shape(name))
            for at, name in zip(first, node.inputs, strict=True)
        ]
        (moved,) = op_of(node).float_ref(node.attrs, *places)
        return whole.moved(np.ravel(moved).astype(np.intp))

    def _linear(self, node: Node) -> _Form:
        """A sum of products with constants: what the operator makes of each unit alone, without what it adds itself."""
        names = list(dict.fromkeys(name for name in node.inputs if name in self.forms))
        whole, first = _side_by_side([self.forms[name] for name in names])
        start = dict(zip(names, first, strict=True))
        added = is_a(node, Add, Sub)

        def applied(flat: Reals, keeps: bool) -> Reals:
            arrays = []
            for index, name in enumerate(node.inputs):
                if name in start:
                    array = flat[start[name] : start[name] + len(self.forms[name].base)].reshape(self._shape(name))
                    arrays.append(array.astype(np.float32))
                elif name:
                    const = self._graph.consts[name]
                    arrays.append(const if keeps or not (added or index == 2) else np.zeros_like(const))
            return np.ravel(op_of(node).float_ref(node.attrs, *arrays)[0]).astype(np.float64)

        offset = applied(np.zeros(len(whole.base)), True)
        columns = np.stack([applied(unit, False) for unit in np.eye(len(whole.base))], axis=1)
        parts = {}
        for tree, part in whole.parts.items():
            below = columns[:, part.at]
            at = np.flatnonzero(below.any(axis=1))
            if len(at):
                parts[tree] = _Part(at, part.rows @ below[at].T)
        return _Form(offset + columns @ whole.base, parts, True)

    def _tabulated(self, node: Node) -> _Form | None:
        """Anything that one tree decides: a table over its leaves."""
        names = [name for name in node.inputs if name in self.forms]
        trees = {tree for name in names for tree in self.forms[name].parts}
        if len(trees) != 1 or self._graph.values[node.outputs[0]].dtype not in ("f32", "s32", "bool"):
            return None
        (tree,) = trees
        tables = [self._table(name, tree) for name in names]
        if sum(table.size for table in tables) > _MOST_NUMBERS:
            return None
        distinct, of = np.unique(np.concatenate(tables, axis=1), axis=0, return_inverse=True)
        ends = np.cumsum([table.shape[1] for table in tables])[:-1]
        rows = []
        for row in distinct:
            given = dict(zip(names, np.split(row, ends), strict=True))
            arrays = [self._array(name, given.get(name)) for name in node.inputs if name]
            rows.append(np.ravel(op_of(node).float_ref(node.attrs, *arrays)[0]).astype(np.float64))
        by_leaf = np.stack(rows)[np.ravel(of)]
        return _Form(np.zeros(by_leaf.shape[1]), {tree: _Part(np.arange(by_leaf.shape[1]), by_leaf)}, True)

    def _table(self, name: str, tree: _Tree) -> Reals:
        form = self.forms[name]
        return form.dense(tree) if form.parts else np.repeat(form.base[None], len(self.leaves(tree)), axis=0)

    def _array(self, name: str, flat: Reals | None) -> Array:
        if flat is None:
            return self._graph.consts[name]
        value = self._graph.values[name]
        kind = np.float32 if value.quant not in (None, COUNT) else NUMPY_DTYPE[value.dtype]
        return flat.astype(kind).reshape(value.shape)


def _side_by_side(forms: Sequence[_Form]) -> tuple[_Form, list[int]]:
    """The tensors as one, and where each begins in it."""
    first = np.cumsum([0, *(len(form.base) for form in forms)])
    pieces: dict[_Tree, list[_Part]] = {}
    for at, form in zip(first, forms, strict=False):
        for tree, part in form.parts.items():
            pieces.setdefault(tree, []).append(_Part(part.at + at, part.rows))
    parts = {
        tree: _Part(np.concatenate([p.at for p in own]), np.concatenate([p.rows for p in own], axis=1))
        for tree, own in pieces.items()
    }
    base = np.concatenate([form.base for form in forms])
    return _Form(base, parts, any(form.computed for form in forms)), first[:-1].tolist()


class _Joined:
    """The graph anew, from its outputs back: a tensor that is such a sum comes from an ensemble of its own."""

    def __init__(self, graph: Graph, followed: _Followed) -> None:
        self._graph, self._followed = graph, followed
        self._values, self._consts = dict(graph.values), dict(graph.consts)
        self._producer = graph.producer()
        self._ints: dict[str, str] = {}  # joined tensors, and the integers that they come from

    def graph(self) -> Graph:
        asked = {name: {"integers"} for name in self._graph.sinks}
        backwards: list[Node] = []
        for node in reversed(self._graph.nodes):
            requests = [asked.get(name, set()) for name in node.outputs]
            joined = self._joined(node, requests[0]) if len(requests) == 1 and requests[0] else None
            if joined is not None:
                backwards += reversed(joined)
                continue
            backwards.append(node)
            for name in node.inputs if any(requests) else ():
                asked.setdefault(name, set()).add("integers" if isinstance(node.attrs, ArgMax) else "reals")
        nodes = tuple(self._on_integers(node) for node in reversed(backwards))
        return replace(self._graph, nodes=nodes, values=self._values, consts=self._consts)

    def _on_integers(self, node: Node) -> Node:
        """The largest of integers, before they are rounded to float32."""
        if not isinstance(node.attrs, ArgMax):
            return node
        return replace(node, inputs=tuple(self._ints.get(name, name) for name in node.inputs))

    def _joined(self, node: Node, asked: set[str]) -> list[Node] | None:
        """Nodes that make the node's output from one ensemble; None if it is no such sum, or a wasteful one."""
        name = node.outputs[0]
        value, form = self._values[name], self._followed.forms.get(name)
        if form is None or not form.computed or value.dtype != "f32" or not self._worthwhile(form):
            return None
        ensemble = _Ensemble(self._graph, self._followed, form)
        leaves, base, scale = ensemble.integers()
        if len(ensemble.nodes) > MOST_NODES:
            return None
        quant, row = Quant((scale,), (0,)), next(iter(form.parts))[0]
        arrays = {
            "features": ensemble.features, "nodes": ensemble.nodes, "roots": ensemble.roots,
            "leaves": leaves, "base": base,
        }  # fmt: skip
        consts = [self._add(f"{name}:{what}", Value("", a.shape, "s32"), a) for what, a in arrays.items()]
        sums = self._add(f"{name}:sums", Value("", (1, len(base)), "s32", quant, value.loc))
        inputs = (self._followed.ensembles[row].inputs[0], *consts)
        nodes = [node_of(TreeEnsemble(), inputs, (sums,), node.origin)]
        self._ints[name] = sums
        if value.shape != (1, len(base)):
            self._ints[name] = self._add(f"{name}:shaped", Value("", value.shape, "s32", quant, value.loc))
            nodes.append(node_of(Reshape(value.shape), (sums,), (self._ints[name],), node.origin))
        if "reals" in asked:
            return [*nodes, node_of(Dequantize(), (self._ints[name],), (name,), node.origin)]
        self._values[name] = replace(value, dtype="s32", quant=quant)
        return [*nodes, node_of(Reshape(value.shape), (self._ints[name],), (name,), node.origin)]

    def _add(self, name: str, value: Value, array: Array | None = None) -> str:
        free = free_name(name, self._values)
        self._values[free] = replace(value, name=free)
        if array is not None:
            self._consts[free] = read_only(array)
        return free

    def _worthwhile(self, form: _Form) -> bool:
        """Whether all trees see the same features, and their leaves do not become many times as wide."""
        if not form.parts or not np.isfinite(form.base).all():
            return False
        if not all(np.isfinite(part.rows).all() for part in form.parts.values()):
            return False
        sources = {self._row(self._followed.ensembles[ensemble].inputs[0]) for ensemble, _ in form.parts}
        wide = sum(len(part.rows) for part in form.parts.values()) * len(form.base)
        return len(sources) == 1 and wide <= _WIDER * form.numbers

    def _row(self, name: str) -> str:
        """The tensor that holds the features, however it is shaped."""
        while name in self._producer and isinstance(self._producer[name].attrs, Reshape):
            name = self._producer[name].inputs[0]
        return name


class _Ensemble:
    """The trees of a form one after the other, with leaves of their own: constants of tree_ensemble."""

    def __init__(self, graph: Graph, followed: _Followed, form: _Form) -> None:
        self._graph, self._followed, self._form = graph, followed, form
        self._codes: dict[tuple[int, int], int] = {}
        table = np.concatenate([self._rows(part) for part in form.parts.values()])
        self._leaves, of = np.unique(table, axis=0, return_inverse=True)
        nodes: list[tuple[int, int, int, int]] = []
        roots, first = [], 0
        for tree, part in form.parts.items():
            leaf_of = dict(
                zip(followed.leaves(tree), np.ravel(of)[first : first + len(part.rows)].tolist(), strict=True)
            )
            roots.append(len(nodes))
            nodes += self._nodes(tree, leaf_of, len(nodes))
            first += len(part.rows)
        self.nodes, self.roots = np.array(nodes, np.int32), np.array(roots, np.int32)
        self.features = np.array(list(self._codes), np.int32)

    def integers(self) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], float]:
        """(leaves, base, the real that 1 stands for)."""
        leaves, scale = integer_leaves(self._leaves, self._form.base, len(self.roots))
        return leaves, np.rint(self._form.base / scale).astype(np.int32), scale

    def _rows(self, part: _Part) -> Reals:
        rows = np.zeros((len(part.rows), len(self._form.base)))
        rows[:, part.at] = part.rows
        return rows

    def _nodes(self, tree: _Tree, leaf_of: Mapping[int, int], start: int) -> list[tuple[int, int, int, int]]:
        node = self._followed.ensembles[tree[0]]
        features, nodes = (self._graph.consts[node.inputs[k]] for k in (1, 2))
        order = [at for at in self._followed.walked(tree) if at >= 0]
        place = {at: start + k for k, at in enumerate(order)}
        quads = []
        for code, cut, *children in nodes[order].tolist():
            held = self._codes.setdefault((int(features[code, 0]), int(features[code, 1])), len(self._codes))
            below, above = (-1 - leaf_of[-1 - at] if at < 0 else place[at] for at in children)
            quads.append((held, cut, below, above))
        return quads
