# SPDX-License-Identifier: Apache-2.0
"""The planning problem of layers that run whole, by kernels that are chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace

from tinyc.base.errors import TinycError
from tinyc.choose.select import Choice
from tinyc.ir.graph import Graph, Node, Shape
from tinyc.kernel.kernel import Call, In, Kernel, Rows
from tinyc.ops import all_ops
from tinyc.plan.moves import Moves, moves_of
from tinyc.plan.problem import Form, Layer, Problem, SlidingInput, TensorRows
from tinyc.plan.states import lasting, overwritten, views_of


def whole_problem(
    graph: Graph,
    choices: Mapping[str, Choice],
    *,
    slide: bool = False,
    align: int = 4,
    scratch_align: int = 16,
    fuse: bool = False,
) -> Problem:
    """The planning problem of a graph whose kernels are chosen and run whole: each layer has one form, each tensor one
    row.

    With `slide`, row kernels may overlap input and output as far as rows are used up; with `fuse`, concats and slices
    that addresses can do are not run. Raises TinycError if an output of the model is a constant or a reshape of one.
    """
    kept = lasting(graph)
    moves = moves_of(graph, align) if fuse else Moves(views_of(graph))
    views = {**moves.views, **{name: cut.of for name, cut in moves.cuts.items()}}
    run = [node for node in graph.nodes if not all_ops()[node.op].view and node.outputs[0] not in moves.cuts]
    layers = [whole_layer(graph, node, choices[node.name], moves, slide, kept) for node in run]
    tokens = _tokens(graph, views)
    layers = [_with_tokens(layer, node, views, tokens) for layer, node in zip(layers, run, strict=True)]
    wanted = [name for name in graph.sinks if views.get(name, name) not in kept]
    for name in wanted:
        if views.get(name, name) in graph.consts:
            message = f"output '{name}' of the model is a constant"
            raise TinycError(message, graph.values[name].loc, "remove it from the outputs")
    tensors = {
        name: TensorRows(name, 1, value.size_bytes)
        for name, value in graph.values.items()
        if name not in views and name not in graph.consts and name not in kept
    }
    tensors |= {name: TensorRows(name, 1, 0) for name in tokens}
    used = {name for layer in layers for name in layer.reads + layer.writes} | set(graph.inputs)
    return Problem(
        layers=tuple(layers),
        tensors={name: tensor for name, tensor in tensors.items() if name in used},
        inputs=graph.inputs,
        outputs=tuple(dict.fromkeys(views.get(name, name) for name in wanted)),
        views={name: tensor for name, tensor in moves.views.items() if tensor in used},
        unit=align,
        scratch_unit=scratch_align,
        cuts=moves.cuts,
        joins=moves.joins,
    )


def _tokens(graph: Graph, views: Mapping[str, str]) -> frozenset[str]:
    """The next values of states that are written in place and read in the same run: tensors of no bytes, which only say
    who has to run first."""
    read = {views.get(name, name) for node in graph.nodes if not all_ops()[node.op].view for name in node.inputs}
    return frozenset(overwritten(graph).keys() & read)


def _with_tokens(layer: Layer, node: Node, views: Mapping[str, str], tokens: Set[str]) -> Layer:
    reads = [name for name in dict.fromkeys(views.get(name, name) for name in node.inputs) if name in tokens]
    writes = [name for name in node.outputs if name in tokens]
    return replace(layer, reads=(*layer.reads, *reads), writes=(*layer.writes, *writes)) if reads or writes else layer


def whole_layer(graph: Graph, node: Node, choice: Choice, moves: Moves, slide: bool, kept: Set[str]) -> Layer:
    """The layer of a node with this kernel. kept: values that last from run to run, and have places of their own.

    Parts of tensors, and tensors that become part of a join, are not given up to an output.
    """
    cuts = moves.cuts
    tensors = [cuts[name].of if name in cuts else moves.views.get(name, name) for name in node.inputs]
    if node.outputs[0] in moves.joins:
        return Layer(node.name, tuple(dict.fromkeys(tensors)), node.outputs, None, (), (_whole(choice, 0),))
    parts = {part.name for parts in moves.joins.values() for part in parts}
    parts |= {cuts[name].of for name in node.inputs if name in cuts}
    arena = [name for name in tensors if name and name not in graph.consts and name not in kept]
    own = kept.isdisjoint((*tensors, *node.outputs))  # reads and writes nothing but buffers of this plan
    call = choice.offer.call() if slide and own else None
    rows = (call.flow or call.rows) if call is not None else None
    row_input = _row_input(graph, node, call, rows, moves.views)
    row_input = "" if row_input in parts or not cuts.keys().isdisjoint(node.inputs) else row_input
    inplace = _inplace(graph, node, arena, tensors, choice.kernel) if node.outputs[0] not in kept else ()
    inplace = tuple(name for name in inplace if name not in parts and not _shares(name, arena, moves))
    sliding = SlidingInput(row_input, rows, bool(call and call.flow)) if row_input and rows else None
    form = _whole(choice, choice.offer.scratch_bytes, inplace, sliding)
    writes = tuple(name for name in node.outputs if name not in kept)
    return Layer(node.name, tuple(dict.fromkeys(arena)), writes, None, (), (form,))


def _whole(choice: Choice, scratch: int, inplace: tuple[str, ...] = (), sliding: SlidingInput | None = None) -> Form:
    return Form(choice, None, replace(choice.cost, scratch_bytes=scratch), inplace, sliding=sliding)


def _shares(name: str, reads: Sequence[str], moves: Moves) -> bool:
    """Whether the tensor is a join of which one of the others read is a part."""
    parts = {part.name for part in moves.joins.get(name, ())}
    return not parts.isdisjoint(reads) or any(_shares(part, reads, moves) for part in parts)


def _inplace(graph: Graph, node: Node, arena: list[str], tensors: list[str], kernel: Kernel) -> tuple[str, ...]:
    """Tensors whose bytes the output may take: same shape (no broadcast; or more, where the kernel shrinks),
    no wider type, and no input that the kernel reads in another order is the same tensor."""
    y, allowed = graph.values[node.outputs[0]], kernel.inplace
    found = []
    for i in allowed:
        name = tensors[i] if i < len(tensors) else ""
        if name not in arena or name in found:
            continue
        x = graph.values[node.inputs[i]]
        alone = all(j in allowed for j, other in enumerate(tensors) if other == name)
        fits = kernel.shrinks or _extents(x.shape) == _extents(y.shape)
        if alone and fits and y.size_bytes <= x.size_bytes:
            found.append(name)
    return tuple(found)


def _extents(shape: Shape) -> Shape:
    """The shape without leading ones, which broadcasting ignores."""
    ones = next((i for i, n in enumerate(shape) if n != 1), len(shape))
    return shape[ones:]


def _row_input(graph: Graph, node: Node, call: Call | None, rows: Rows | None, views: Mapping[str, str]) -> str:
    """The tensor that a call walks through row by row; "" if it may not slide.

    It must be the only tensor of the arena that the node reads, once, and the rows must be all of it.
    """
    if call is None or rows is None or len(node.outputs) != 1:
        return ""
    indices = {arg.index for arg in call.args if isinstance(arg, In)}
    arena = [i for i, name in enumerate(node.inputs) if name and views.get(name, name) not in graph.consts]
    if len(indices) != 1 or arena != list(indices):
        return ""
    x, y = graph.values[node.inputs[arena[0]]], graph.values[node.outputs[0]]
    if (rows.in_h * rows.in_row_bytes, rows.out_h * rows.out_row_bytes) != (x.size_bytes, y.size_bytes):
        return ""
    return views.get(x.name, x.name)
