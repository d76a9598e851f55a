"""The arena over time: who holds which bytes in which step, as values, as text, and as JSON."""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from tinyc.ir.graph import Graph
from tinyc.ops import all_ops
from tinyc.plan import Plan

Kind = Literal["input", "tensor", "output", "scratch"]

FREE, SCRATCH = ".", "#"
LETTERS = string.ascii_uppercase


@dataclass(frozen=True, slots=True)
class Tenant:
    """Bytes [at, at + size) in steps [born, dies), and what they hold; -1: written before step 0."""

    name: str
    kind: Kind
    at: int
    size: int
    born: int
    dies: int

    @property
    def end(self) -> int:
        return self.at + self.size


@dataclass(frozen=True, slots=True)
class Moment:
    """A step: the node that runs, its operator, bytes that hold something while it runs (a byte held twice counts
    once), and the highest byte in use."""

    node: str
    op: str
    live_bytes: int
    top_bytes: int


@dataclass(frozen=True, slots=True)
class MemoryMap:
    """An arena: what it holds in each of its steps. Input and output of a step overlap where rows are used up."""

    arena_bytes: int
    lower_bound_bytes: int
    moments: tuple[Moment, ...]
    tenants: tuple[Tenant, ...]

    @property
    def peak(self) -> tuple[int, ...]:
        """The steps that need the whole arena."""
        return tuple(i for i, moment in enumerate(self.moments) if moment.top_bytes == self.arena_bytes)

    def at(self, step: int) -> list[Tenant]:
        """What the arena holds while a step runs."""
        return [tenant for tenant in self.tenants if tenant.born <= step < tenant.dies]

    def to_json(self) -> dict[str, Any]:
        """A plain object: arena_bytes, lower_bound_bytes, peak, moments, tenants."""
        return {**asdict(self), "peak": list(self.peak)}


def map_of(graph: Graph, plan: Plan) -> MemoryMap:
    """The map of a graph's plan; a tensor and what is made in its place are two tenants."""
    views = {node.outputs[0]: node.inputs[0] for node in graph.nodes if all_ops()[node.op].view}
    outputs = {_root(name, views) for name in graph.outputs}
    tenants = []
    for buffer in plan.buffers:
        if buffer.name in views and not buffer.scratch:
            continue
        at = plan.scratch_offsets[buffer.name] if buffer.scratch else plan.offsets[buffer.name]
        kind: Kind = "scratch" if buffer.scratch else "input" if buffer.born < 0 else "tensor"
        if kind == "tensor" and buffer.name in outputs:
            kind = "output"
        tenants.append(Tenant(buffer.name, kind, at, buffer.size, buffer.born, buffer.dies))
    ops = {node.name: node.op for node in graph.nodes}
    return make_map(plan.arena_bytes, plan.lower_bound_bytes, [(s.node, ops[s.node]) for s in plan.steps], tenants)


def make_map(
    arena_bytes: int, lower_bound_bytes: int, steps: Sequence[tuple[str, str]], tenants: Sequence[Tenant]
) -> MemoryMap:
    """A map from (node, operator) of each step and the tenants."""
    moments = []
    for step, (node, op) in enumerate(steps):
        held = [(t.at, t.end) for t in tenants if t.born <= step < t.dies]
        moments.append(Moment(node, op, _covered(held), max((end for _, end in held), default=0)))
    return MemoryMap(arena_bytes, lower_bound_bytes, tuple(moments), tuple(tenants))


def _covered(spans: Sequence[tuple[int, int]]) -> int:
    """Bytes in any of the spans."""
    total = reached = 0
    for start, end in sorted(spans):
        total += max(0, end - max(start, reached))
        reached = max(reached, end)
    return total


def map_text(found: MemoryMap, width: int = 64) -> list[str]:
    """Lines: a bar of `width` cells per step, a letter for who holds most of a cell; then who the letters are."""
    letters = _letters(found)
    cell = max(1, -(-found.arena_bytes // width))
    cells = -(-found.arena_bytes // cell)
    wide = max([len(moment.op) for moment in found.moments] + [8])
    lines = [f"step  {'operator':<{wide}}  0{found.arena_bytes:>{max(1, cells - 1)},}     live"]
    for step, moment in enumerate(found.moments):
        bar = "".join(_cell(found.at(step), start, cell, letters) for start in range(0, cells * cell, cell))
        mark = "  <- peak" if step in found.peak else ""
        lines.append(f"{step:>4}  {moment.op:<{wide}}  {bar}  {moment.live_bytes:>7,}{mark}")
    lines += [
        "",
        f"A cell is {cell:,} bytes: '{FREE}' free, '{SCRATCH}' scratch, small letter: the output over used-up input.",
        "",
    ]
    return [*lines, *_legend(found, letters)]


def _cell(held: Sequence[Tenant], start: int, size: int, letters: Mapping[Tenant, str]) -> str:
    inside = [(max(t.at, start), min(t.end, start + size), t) for t in held if t.at < start + size and t.end > start]
    if not inside:
        return FREE
    if sum(end - begin for begin, end, _ in inside) > _covered([(begin, end) for begin, end, _ in inside]):
        return letters[max((t for _, _, t in inside), key=lambda t: t.born)].lower()
    return letters[max(inside, key=lambda part: part[1] - part[0])[2]]


def _legend(found: MemoryMap, letters: Mapping[Tenant, str]) -> list[str]:
    lines = ["   holds      bytes  at                steps      name"]
    for t in sorted(found.tenants, key=_age):
        place, life = f"[{t.at}, {t.end})", f"[{max(t.born, 0)}, {t.dies})"
        lines.append(f"{letters[t]}  {t.kind:<8}{t.size:>8,}  {place:<16}  {life:<9}  {t.name}")
    return lines


def _letters(found: MemoryMap) -> dict[Tenant, str]:
    """Letters in order of birth, used again after all have been."""
    tensors = [t for t in sorted(found.tenants, key=_age) if t.kind != "scratch"]
    named = {tenant: LETTERS[i % len(LETTERS)] for i, tenant in enumerate(tensors)}
    return {tenant: named.get(tenant, SCRATCH) for tenant in found.tenants}


def _age(tenant: Tenant) -> tuple[int, bool, int]:
    return tenant.born, tenant.kind == "scratch", tenant.at


def _root(name: str, views: Mapping[str, str]) -> str:
    """The tensor of which a value is a view."""
    while name in views:
        name = views[name]
    return name
