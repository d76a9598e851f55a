# SPDX-License-Identifier: Apache-2.0
"""Graph + plan -> Program: a function per layer, the order of their calls, and constants named once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from tinyc.base.names import identifier
from tinyc.base.numerics import Numerics
from tinyc.emit.constants import ConstPool
from tinyc.emit.order import given_by_rows, incremental_of, moves_between_turns, streams_of, window_rows
from tinyc.emit.program import Place, Program, ProgramState, Step
from tinyc.emit.row_tables import row_step, shared_out
from tinyc.ir.graph import Graph, Node, State
from tinyc.kernel.kernel import Arg, Call, Const, In, call_consts
from tinyc.ops import op_of
from tinyc.plan.answer import Plan


def lower(
    graph: Graph,
    plan: Plan,
    numerics: Numerics,
    name: str,
    input_perms: Mapping[str, tuple[int, ...]] | None = None,
) -> Program:
    """The Program of an integer graph whose layers have kernels and whose rows have addresses.

    `name` becomes the prefix of every C identifier. `input_perms`: inputs whose axes differ from the
    model's own, see passes/inputs.py; the header says so.
    """
    nodes = {node.name: node for node in graph.nodes}
    indices = [index for index in plan.order if plan.runs(index)]
    run = [nodes[plan.problem.layers[index].node] for index in indices]
    pool = ConstPool(identifier(name), {node.name: node for node in run})
    steps = [
        _step(graph, plan, pool, number, index, node)
        for number, (index, node) in enumerate(zip(indices, run, strict=True))
    ]
    streams = streams_of(plan, {index: number for number, index in enumerate(indices)})
    row_input = given_by_rows(plan, pool) if plan.problem.by_rows else None
    incremental = incremental_of(graph, plan, pool) if plan.problem.hop else None
    if row_input is None and incremental is None:
        for stream in streams:
            pool.add(stream.order, f"steps_{stream.steps[0]}_to_{stream.steps[-1]}")
    moves = moves_between_turns(plan, pool) if plan.moves else None
    states = tuple(_program_state(number, graph, state, plan, pool) for number, state in enumerate(graph.states))
    return Program(
        name=pool.prefix,
        numerics=numerics,
        steps=tuple(steps),
        symbols=pool.symbols(),
        inputs=tuple(_place(graph, value, plan) for value in graph.inputs),
        outputs=tuple(_place(graph, value, plan) for value in graph.outputs),
        arena_bytes=plan.arena_bytes + (incremental.extra_bytes if incremental else 0),
        arena_lower_bound_bytes=plan.lower_bound_bytes,
        arena_align=plan.arena_align,
        input_perms=dict(input_perms or {}),
        streams=streams,
        row_input=row_input,
        incremental=incremental,
        states=states,
        moves=moves,
        slow_bytes=plan.slow_bytes,
        labels=graph.labels,
    )


def _step(graph: Graph, plan: Plan, pool: ConstPool, number: int, index: int, node: Node) -> Step:
    """The step that runs a layer in its form."""
    form = plan.forms[index]
    choice, before = form.choice, pool.total_bytes
    split = choice.offer.split
    row = split.form if split else form.row
    call = row.call if row else _with_constants(graph, node, choice.offer.call())
    for const in (*call_consts(call), *(call_consts(form.spare.call) if form.spare else ())):
        pool.add(const, node.name)
    by_rows = None
    if row is not None:
        by_rows = shared_out(split, choice.site, plan) if split else row_step(form, row, index, node.inputs, plan, pool)
    written = row.special if row else choice.offer.special
    return Step(
        index=number,
        node=node,
        choice=choice,
        call=call,
        inputs=tuple(_input(graph, name, plan) for name in node.inputs),
        outputs=tuple(_place(graph, name, plan) for name in node.outputs),
        scratch_offset=plan.scratch_offsets[node.name][0] if form.scratch_bytes else 0,
        macs=_macs(node, plan, index),
        const_bytes=pool.total_bytes - before,
        special=written() if written else None,
        bottom_up=index in plan.bottom_up,
        row_step=by_rows,
    )


def _with_constants(graph: Graph, node: Node, call: Call) -> Call:
    """The call of a kernel that takes a tensor, where that is a constant: of an output that no input reaches."""

    def held(arg: Arg) -> Arg:
        array = graph.consts.get(node.inputs[arg.index]) if isinstance(arg, In) else None
        return arg if array is None else Const(array, f"[{','.join(map(str, array.shape))}]", "x")

    return replace(call, args=tuple(map(held, call.args)))


def _input(graph: Graph, name: str, plan: Plan) -> Place | None:
    """Where an input of a node is: absent, in flash, in the arena."""
    if not name:
        return None
    return Place(graph.values[name], None) if name in graph.consts else _place(graph, name, plan)


def _place(graph: Graph, value: str, plan: Plan) -> Place:
    tensor = graph.values[value]
    if plan.is_contiguous(value):
        return Place(tensor, plan.offset(value))
    rows = plan.row_offsets[plan.problem.tensor_of(value)]
    return Place(tensor, min(rows), rows)


def _macs(node: Node, plan: Plan, index: int) -> int:
    """Of a window; incremental: of as many calls as give a window."""
    site = plan.forms[index].choice.site
    macs = op_of(node).macs(site)
    if not plan.problem.hop:
        return macs
    calls = -(-window_rows(site.graph, plan.problem) // plan.problem.hop)
    walk = plan.problem.layers[index].walk
    turns, rows = (walk.turns, site.y().shape[1]) if walk and len(site.y().shape) == 4 else (1, 1)
    return macs * turns * calls // max(rows, 1)


def _program_state(number: int, graph: Graph, state: State, plan: Plan, pool: ConstPool) -> ProgramState:
    place, after = (Place(graph.values[name], plan.offset(name)) for name in (state.name, state.after))
    data = None
    if len(set(state.initial)) > 1:
        data = Const(np.frombuffer(state.initial, np.uint8), "bytes after a reset", "initial")
        pool.add(data, f"state_{number}")
    return ProgramState(place, state.initial, data, None if after.offset == place.offset else after)
