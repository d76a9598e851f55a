# SPDX-License-Identifier: Apache-2.0
"""The planner's problem of a graph: its tensors, and every layer with the forms in which it may run.

There is one problem, whatever may become of it. Where kernels are chosen and all layers run whole, each layer has one
form and each tensor one row; where layers may run by rows, they have the forms of every kernel that could be chosen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.choose.select import Choice, layers_of
from tinyc.ir.graph import Graph, Node, Shape
from tinyc.kernel.kernel import SCRATCH_ALIGN, In, Rows
from tinyc.ops import op_of
from tinyc.plan.moves import Moves, moves_of
from tinyc.plan.problem import Form, Layer, Problem, SlidingInput, TensorRows
from tinyc.plan.row_forms import Candidates, height_of, useful, walks_of
from tinyc.plan.states import lasting, overwritten, views_of


@dataclass(frozen=True, slots=True)
class Freedom:
    """What layers may do beside running whole, one after the other. rows: run by rows. slide: a whole call's output may
    take the place of what it has used up of its input. fuse: concats and slices that addresses can do are not run.
    by_rows: the model's inputs arrive row by row. unit, scratch_unit: of all places, bytes."""

    rows: bool = False
    slide: bool = False
    fuse: bool = False
    by_rows: bool = False
    unit: int = 4
    scratch_unit: int = SCRATCH_ALIGN


def whole_problem(graph: Graph, choices: Mapping[str, Choice], freedom: Freedom | None = None) -> Problem:
    """The problem of layers that run whole, by these kernels; by name of the node. Raises as `Builder.problem`."""
    return Builder(graph, freedom or Freedom()).problem({node: (choice,) for node, choice in choices.items()})


def problem_of(graph: Graph, choices: Candidates, *, by_rows: bool = False, unit: int = 4) -> Problem:
    """The problem of layers that run whole or by rows, with every kernel that may run the nodes of an integer graph.

    by_rows: the model's inputs arrive row by row. Raises as `Builder.problem`.
    """
    return Builder(graph, Freedom(rows=True, by_rows=by_rows, unit=unit, scratch_unit=max(8, unit))).problem(choices)


class Builder:
    """What all layers of a graph have in common: which values are which tensors, and what lasts from run to run."""

    def __init__(self, graph: Graph, freedom: Freedom) -> None:
        self.graph, self.freedom = graph, freedom
        self.lasting = lasting(graph)
        moves = moves_of(graph, freedom.unit) if freedom.fuse else Moves(views_of(graph))
        self.moves = moves
        self.views = {**moves.views, **{name: cut.of for name, cut in moves.cuts.items()}}
        self.nodes = {
            node.name: node for node in graph.nodes if not op_of(node).view and node.outputs[0] not in moves.cuts
        }
        self.tokens = self._tokens()
        self.tensors = self._tensors()
        self._parts = {part.name for parts in moves.joins.values() for part in parts}

    def problem(self, choices: Candidates) -> Problem:
        """The problem, its layers in the order of the graph. choices: the kernels that may run each node.

        Raises TinycError if an output of the model is a constant or a reshape of one.
        """
        graph, freedom = self.graph, self.freedom
        layers = tuple(self.layer(node, choices[node.name]) for node in self.nodes.values())
        layers = _sharing_code(layers) if freedom.rows else layers
        used = {name for layer in layers for name in layer.reads + layer.writes} | set(graph.inputs)
        return Problem(
            layers=layers,
            tensors={name: tensor for name, tensor in self.tensors.items() if name in used},
            inputs=graph.inputs,
            outputs=self._outputs(),
            views={name: tensor for name, tensor in self.moves.views.items() if tensor in used},
            by_rows=freedom.by_rows,
            unit=freedom.unit,
            scratch_unit=freedom.scratch_unit,
            cuts=self.moves.cuts,
            joins=self.moves.joins,
        )

    def layer(self, node: Node, choices: Sequence[Choice]) -> Layer:
        """The layer of a node with the forms of these kernels."""
        names = [self.views.get(name, name) for name in node.inputs]
        if node.outputs[0] in self.moves.joins:
            free = tuple(Form(choice, None, replace(choice.cost, scratch_bytes=0)) for choice in choices)
            return Layer(node.name, tuple(dict.fromkeys(names)), node.outputs, None, (), free)
        reads = tuple(dict.fromkeys(name for name in names if name in self.tensors and name not in self.tokens))
        outputs = tuple(name for name in node.outputs if name in self.tensors and name not in self.tokens)
        walks = walks_of(node, choices, names, reads, self.tensors) if self.freedom.rows else ()
        awaited = [name for name in dict.fromkeys(names) if name in self.tokens]
        return Layer(
            node.name,
            reads=(*reads, *awaited),
            writes=(*outputs, *(name for name in node.outputs if name in self.tokens)),
            walk=walks[0][0] if walks else None,
            row_forms=walks[0][1] if walks else (),
            whole_forms=useful([self.whole_form(node, choice) for choice in choices]),
            wider=walks[1:],
        )

    def whole_form(self, node: Node, choice: Choice) -> Form:
        """How a kernel runs the node whole. Parts of tensors, and of joins, are not given up to an output."""
        inplace = () if node.outputs[0] in self.lasting else self._inplace(node, choice)
        cost = choice.cost.in_scratch(choice.scratch_bytes)
        return Form(choice, None, cost, inplace, sliding=self._sliding(node, choice) if self.freedom.slide else None)

    def _tokens(self) -> frozenset[str]:
        """The next values of states that are written in place and read in the same run: tensors of no bytes, which only
        say who has to run first."""
        read = {self.views.get(name, name) for node in self.nodes.values() for name in node.inputs}
        return frozenset(overwritten(self.graph).keys() & read)

    def _tensors(self) -> dict[str, TensorRows]:
        """Every tensor of the arena; by rows, with those of the image that it is under one of the names that layers
        know."""
        values, heights = self.graph.values, dict[str, set[int]]()
        names = {name for node in self.nodes.values() for name in (*node.inputs, *node.outputs)}
        for name in names if self.freedom.rows else ():
            if name in values:
                heights.setdefault(self.views.get(name, name), set()).add(height_of(values[name].shape))
        tensors = {}
        for name, value in values.items():
            if name not in self.views and name not in self.graph.consts and name not in self.lasting:
                tall = heights.get(name, set()) - {1}
                rows = tall.pop() if len(tall) == 1 else 1
                tensors[name] = TensorRows(name, rows, value.size_bytes // rows)
        return tensors | {name: TensorRows(name, 1, 0) for name in self.tokens}

    def _outputs(self) -> tuple[str, ...]:
        graph, views = self.graph, self.views
        names = [name for name in graph.sinks if views.get(name, name) not in self.lasting]
        for name in names:
            if views.get(name, name) in graph.consts:
                message = f"output '{name}' of the model is a constant"
                raise TinycError(message, graph.values[name].loc, "remove it from the outputs")
        return tuple(dict.fromkeys(views.get(name, name) for name in names))

    def _inplace(self, node: Node, choice: Choice) -> tuple[str, ...]:
        """Tensors whose bytes the output may take: same shape (no broadcast; or more, where the kernel shrinks), no
        wider type, and no input that the kernel reads in another order is the same tensor."""
        y, kernel = self.graph.values[node.outputs[0]], choice.kernel
        allowed = kernel.inplace if choice.offer.split is None else choice.offer.split.inplace
        names = [self.views.get(name, name) for name in node.inputs]
        overlaid = []
        for i in allowed:
            name = names[i] if i < len(names) else ""
            if name in overlaid or not self._may_end(node, name, names):
                continue
            x = self.graph.values[node.inputs[i]]
            alone = all(j in allowed for j, other in enumerate(names) if other == name)
            fits = kernel.shrinks or _extents(x.shape) == _extents(y.shape)
            if alone and fits and y.size_bytes <= x.size_bytes:
                overlaid.append(name)
        return tuple(overlaid)

    def _may_end(self, node: Node, name: str, names: Sequence[str]) -> bool:
        """Whether the output of the node may take the bytes of a tensor: not of a part of another one, of one that has
        parts, or that is a join of what the node reads too."""
        cut = {self.moves.cuts[x].of for x in node.inputs if x in self.moves.cuts}
        return (
            name in self.tensors
            and name not in self.tokens
            and name not in self._parts
            and name not in cut
            and not _shares(name, names, self.moves)
        )

    def _sliding(self, node: Node, choice: Choice) -> SlidingInput | None:
        """How a call walks through its input row by row; None if it may not slide.

        The input must be the only tensor of the arena that the node reads, once, and the rows must be all of it.
        Cores that share a layer may write where another one still reads.
        """
        graph, views = self.graph, self.moves.views
        names = [views.get(name, name) for name in node.inputs]
        if len(node.outputs) != 1 or not self.moves.cuts.keys().isdisjoint(node.inputs) or choice.offer.split:
            return None
        if not self.lasting.isdisjoint((*names, *node.outputs)):  # it reads and writes more than buffers of the plan
            return None
        call = choice.offer.call()
        rows: Rows | None = call.flow or call.rows
        if rows is None:
            return None
        used = {arg.index for arg in call.args if isinstance(arg, In)}
        moving = [i for i, name in enumerate(names) if name and name not in graph.consts]
        if len(used) != 1 or moving != list(used) or names[moving[0]] in self._parts:
            return None
        x, y = graph.values[node.inputs[moving[0]]], graph.values[node.outputs[0]]
        if (rows.in_h * rows.in_row_bytes, rows.out_h * rows.out_row_bytes) != (x.size_bytes, y.size_bytes):
            return None
        return SlidingInput(names[moving[0]], rows, bool(call.flow))


def _sharing_code(layers: Sequence[Layer]) -> tuple[Layer, ...]:
    """The layers with a function's bytes in parts for all whose rows it may make: which of them will, is not known."""
    counts = layers_of(
        tuple(form.cost for forms in (layer.row_forms, *(own for _, own in layer.wider)) for form in forms)
        for layer in layers
    )

    def shared(forms: tuple[Form, ...]) -> tuple[Form, ...]:
        return tuple(replace(form, cost=form.cost.shared(counts)) for form in forms)

    return tuple(
        replace(
            layer,
            row_forms=shared(layer.row_forms),
            wider=tuple((walk, shared(forms)) for walk, forms in layer.wider),
        )
        for layer in layers
    )


def _shares(name: str, reads: Sequence[str], moves: Moves) -> bool:
    """Whether the tensor is a join of which one of the others read is a part."""
    parts = {part.name for part in moves.joins.get(name, ())}
    return not parts.isdisjoint(reads) or any(_shares(part, reads, moves) for part in parts)


def _extents(shape: Shape) -> Shape:
    """The shape without leading ones, which broadcasting ignores."""
    ones = next((i for i, n in enumerate(shape) if n != 1), len(shape))
    return shape[ones:]
