# SPDX-License-Identifier: Apache-2.0
"""Graph + kernel choices + plan -> Program: kernel calls on arena addresses, constants named once.

`Lowering` is what layers that run whole and layers that run by rows (`lower_rows.py`) share.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from tinyc.base.names import identifier
from tinyc.base.numerics import Numerics
from tinyc.choose.select import Choice
from tinyc.emit.constants import ConstPool
from tinyc.emit.program import KeptState, Place, Program, Step
from tinyc.ir.graph import Graph, Node, State
from tinyc.kernel.kernel import Call, Const, Copied
from tinyc.ops import all_ops
from tinyc.plan.answer import Plan
from tinyc.plan.problem import Form


class Arena(Protocol):
    """What a program says of its plan."""

    @property
    def arena_bytes(self) -> int: ...
    @property
    def lower_bound_bytes(self) -> int: ...
    @property
    def arena_align(self) -> int: ...
    @property
    def slow_bytes(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Lowering:
    """A program in the making. place: where a value is that lies in the arena."""

    graph: Graph
    pool: ConstPool
    place: Callable[[str], Place]

    def step(self, index: int, node: Node, form: Form, scratch_offset: int) -> Step:
        """The step that runs a node in this form."""
        choice, row = form.choice, form.row
        call, before = row.call if row else choice.offer.call(), self.pool.total_bytes
        for const in (*call_consts(call), *(call_consts(form.spare.call) if form.spare else ())):
            self.pool.add(const, node.name)
        written = row.special if row else choice.offer.special
        values, consts = self.graph.values, self.graph.consts
        return Step(
            index=index,
            node=node,
            choice=choice,
            call=call,
            inputs=tuple(
                (Place(values[name], None) if name in consts else self.place(name)) if name else None
                for name in node.inputs
            ),
            outputs=tuple(map(self.place, node.outputs)),
            scratch_offset=scratch_offset,
            macs=all_ops()[node.op].macs(choice.site),
            const_bytes=self.pool.total_bytes - before,
            special=written() if written else None,
        )

    def program(
        self, steps: Sequence[Step], plan: Arena, numerics: Numerics, input_perms: Mapping[str, tuple[int, ...]] | None
    ) -> Program:
        """All steps, as far as no rows are concerned."""
        return Program(
            name=self.pool.prefix,
            numerics=numerics,
            steps=tuple(steps),
            symbols=self.pool.symbols(),
            inputs=tuple(map(self.place, self.graph.inputs)),
            outputs=tuple(map(self.place, self.graph.outputs)),
            arena_bytes=plan.arena_bytes,
            arena_lower_bound_bytes=plan.lower_bound_bytes,
            arena_align=plan.arena_align,
            slow_bytes=plan.slow_bytes,
            input_perms=dict(input_perms or {}),
        )


def lower(
    graph: Graph,
    choices: Mapping[str, Choice],
    plan: Plan,
    numerics: Numerics,
    name: str,
    input_perms: Mapping[str, tuple[int, ...]] | None = None,
) -> Program:
    """The Program of an integer graph whose nodes have kernels and whose tensors have addresses.

    `name` becomes the prefix of every C identifier. `input_perms`: inputs whose axes differ from the
    model's own, see passes/inputs.py; the header says so.
    """
    nodes = {node.name: node for node in graph.nodes}
    made = [step for step in plan.steps if not step.joins]
    pool = ConstPool(identifier(name), {step.node: nodes[step.node] for step in made})
    lowering = Lowering(graph, pool, lambda value: Place(graph.values[value], plan.offset(value)))
    steps = []
    for index, step in enumerate(made):
        choice = choices[step.node]
        scratch = plan.scratch_offset(step.node) if choice.scratch_bytes else 0
        lowered = lowering.step(index, nodes[step.node], Form(choice, None, choice.cost), scratch)
        steps.append(replace(lowered, bottom_up=step.bottom_up))
    kept = tuple(_kept(number, graph, state, plan, pool) for number, state in enumerate(graph.states))
    return replace(lowering.program(steps, plan, numerics, input_perms), kept=kept)


def _kept(number: int, graph: Graph, state: State, plan: Plan, pool: ConstPool) -> KeptState:
    place, made = (Place(graph.values[name], plan.offset(name)) for name in (state.name, state.after))
    data = None
    if len(set(state.initial)) > 1:
        data = Const(np.frombuffer(state.initial, np.uint8), "bytes after a reset", "initial")
        pool.add(data, f"state_{number}")
    return KeptState(place, state.initial, data, None if made.offset == place.offset else made)


def call_consts(call: Call) -> tuple[Const, ...]:
    """Every constant array that a call refers to, in a stable order."""
    found = [arg.const if isinstance(arg, Copied) else arg for arg in call.args if isinstance(arg, Const | Copied)]
    if call.params is not None:
        found += [field for field in call.params.fields.values() if isinstance(field, Const)]
    if call.rows is not None:
        found += [const for const in (call.rows.pad, call.rows.starts) if const is not None]
    return tuple(found)
