# SPDX-License-Identifier: Apache-2.0
"""The arena over time: who holds which bytes in which step, as values, as text, and as JSON."""

from __future__ import annotations

import string
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import asdict
from itertools import pairwise
from typing import Any, Literal

from tinyc.base.dataclass import dataclass
from tinyc.base.shown import Shown, Summary, SummaryTable, bytes_of, nonempty
from tinyc.ir.graph import Graph
from tinyc.plan.answer import Allocation, Plan, in_line
from tinyc.plan.problem import WHOLE
from tinyc.verify.report import Holding, MemoryReport

Kind = Literal["input", "tensor", "output", "scratch", "state"]

FREE, SCRATCH = ".", "#"
LETTERS = string.ascii_uppercase
_NAMED_STEPS = 5  # of those where the arena is fullest


@dataclass(frozen=True, slots=True)
class Tenant:
    """Bytes [at, at + size) in steps [born, dies), and what they hold: a tensor, or one row of it, or the scratch of
    a node; -1: written before step 0."""

    name: str
    kind: Kind
    at: int
    size: int
    born: int
    dies: int
    row: int | None = None

    @property
    def end(self) -> int:
        return self.at + self.size


@dataclass(frozen=True, slots=True)
class Moment:
    """A step: the node that runs, its operator, the row that it makes where layers are streamed, bytes that hold
    something while it runs (a byte held twice counts once), and the highest byte in use."""

    node: str
    op: str
    live_bytes: int
    top_bytes: int
    row: int | None = None

    @property
    def title(self) -> str:
        """`conv2d`, or `conv2d row 3`."""
        return self.op if self.row is None else f"{self.op} row {self.row}"


@dataclass(frozen=True, slots=True)
class MemoryMap(Shown):
    """An arena: what it holds in each of its steps. Input and output of a step overlap where rows are used up.

    slow_bytes: of a part in slower RAM, which tenants have behind the arena; the bytes of moments are without it.
    """

    arena_bytes: int
    lower_bound_bytes: int
    moments: tuple[Moment, ...]
    tenants: tuple[Tenant, ...]
    slow_bytes: int = 0

    __repr__ = Shown.text

    def summary(self) -> Summary:
        """The arena's size, where it is fullest, and what it holds in each step."""
        facts = nonempty(
            lower_bound=bytes_of(self.lower_bound_bytes),
            fullest_in_step=", ".join(map(str, self.peak[:_NAMED_STEPS])),
            slower_RAM=bytes_of(self.slow_bytes) if self.slow_bytes else "",
        )
        rows = [(str(step), one.node, one.title, f"{one.live_bytes:,}") for step, one in enumerate(self.moments)]
        table = SummaryTable(("step", "layer", "operator", "live bytes"), rows)
        return Summary(f"arena of {self.arena_bytes:,} bytes, {len(self.moments):,} steps", facts, [table])

    @property
    def peak(self) -> tuple[int, ...]:
        """The steps in which most bytes hold something: what decides how large the arena is."""
        most = max((moment.live_bytes for moment in self.moments), default=0)
        return tuple(i for i, moment in enumerate(self.moments) if moment.live_bytes == most)

    def at(self, step: int) -> list[Tenant]:
        """What the arena holds while a step runs."""
        return [tenant for tenant in self.tenants if tenant.born <= step < tenant.dies]

    def to_json(self) -> dict[str, Any]:
        """A plain object: arena_bytes, lower_bound_bytes, slow_bytes, peak, moments, tenants."""
        return {**asdict(self), "peak": list(self.peak)}


def map_of(graph: Graph, plan: Plan) -> MemoryMap:
    """The map of a graph's plan; a tensor and what is made in its place are two tenants, and so are two rows that come
    and go one by one."""
    ends = [{plan.problem.tensor_of(name) for name in names} for names in (graph.inputs, graph.outputs)]
    tenants = [_tenant(plan, one, *ends) for one in plan.allocations]
    ops = {node.name: node.op for node in graph.nodes}
    nodes = [plan.problem.layers[layer].node for layer, _ in plan.turns]
    steps = [(node, ops[node], None if row == WHOLE else row) for node, (_, row) in zip(nodes, plan.turns, strict=True)]
    return make_map(plan.arena_bytes, plan.lower_bound_bytes, steps, tenants, plan.slow_bytes)


def _tenant(plan: Plan, one: Allocation, inputs: Set[str], outputs: Set[str]) -> Tenant:
    kind: Kind = "scratch" if one.kind == "accumulator" else one.kind
    if one.kind == "tensor":
        kind = "input" if one.what in inputs else "output" if one.what in outputs else "tensor"
    given = kind == "state" or (kind == "input" and not plan.problem.by_rows)
    is_row = one.kind == "tensor" and plan.problem.tensors[one.what].rows > 1
    name = f"sums of {one.what}" if one.kind == "accumulator" else one.what
    at, row = in_line(one.offset, plan.arena_bytes), one.row if is_row else None
    return Tenant(name, kind, at, one.size, -1 if given else one.born, one.dies, row)


def make_map(
    arena_bytes: int,
    lower_bound_bytes: int,
    steps: Sequence[tuple[str, str, int | None]],
    tenants: Sequence[Tenant],
    slow_bytes: int = 0,
) -> MemoryMap:
    """A map from (node, operator, row) of each step and the tenants; those of the slow part begin behind the arena."""
    moments = []
    for (node, op, row), alive in zip(steps, _alive(len(steps), tenants), strict=True):
        held = [(t.at, t.end) for t in alive if t.at < arena_bytes or not slow_bytes]
        moments.append(Moment(node, op, _covered(held), max((end for _, end in held), default=0), row))
    return MemoryMap(arena_bytes, lower_bound_bytes, tuple(moments), tuple(tenants), slow_bytes)


def _alive(steps: int, tenants: Sequence[Tenant]) -> Iterator[list[Tenant]]:
    """What the arena holds in each step, in effort that grows with what it holds and not with all that it ever held."""
    waiting = sorted(tenants, key=lambda t: t.born, reverse=True)
    alive: list[Tenant] = []
    for step in range(steps):
        while waiting and waiting[-1].born <= step:
            alive.append(waiting.pop())
        alive = [t for t in alive if step < t.dies]
        yield alive


def _covered(spans: Sequence[tuple[int, int]]) -> int:
    """Bytes in any of the spans."""
    total = reached = 0
    for start, end in sorted(spans):
        total += max(0, end - max(start, reached))
        reached = max(reached, end)
    return total


def memory_report(memory_map: MemoryMap, most: int = 120) -> MemoryReport:
    """The map for a report; live bytes in at most `most` shares of the time."""
    by_rows = any(moment.row is not None for moment in memory_map.moments)
    holds = (
        Holding(tenant.name, tenant.kind, tenant.at, tenant.end, max(tenant.born, 0), tenant.dies)
        for tenant in sorted(() if by_rows else memory_map.tenants, key=_age)
    )
    count = len(memory_map.moments)
    shares = max(min(count, most), 1)
    bounds = [count * share // shares for share in range(shares + 1)]
    live = (max((m.live_bytes for m in memory_map.moments[first:end]), default=0) for first, end in pairwise(bounds))
    return MemoryReport(count, tuple(live), tuple(holds))


def map_text(memory_map: MemoryMap, width: int = 64, most: int = 48) -> list[str]:
    """Lines: a bar of `width` cells per step, a letter for who holds most of a cell (`letters_held`).

    Of more than `most` steps, those at the peak and others at equal distances.
    """
    letters = _letters(memory_map)
    total = memory_map.arena_bytes + memory_map.slow_bytes
    cell = _cell_bytes(memory_map, width)
    cells = -(-total // cell)
    wide = max([len(moment.title) for moment in memory_map.moments] + [8])
    lines = [f"step  {'operator':<{wide}}  0{total:>{max(1, cells - 1)},}     live"]
    shown = _shown(memory_map, most)
    for before, step in zip([-1, *shown], shown, strict=False):
        moment = memory_map.moments[step]
        bar = "".join(_cell(memory_map.at(step), start, cell, letters) for start in range(0, cells * cell, cell))
        mark = "  <- peak" if step in memory_map.peak else ""
        lines += [" ..."] if step > before + 1 else []
        lines.append(f"{step:>4}  {moment.title:<{wide}}  {bar}  {moment.live_bytes:>7,}{mark}")
    return lines


def map_legend(memory_map: MemoryMap, width: int) -> str:
    """What the cells of `map_text` are."""
    cell = _cell_bytes(memory_map, width)
    marks = f"'{FREE}' free, '{SCRATCH}' scratch, small letter: the output over used-up input"
    legend = f"A cell is {cell:,} bytes: {marks}."
    if memory_map.slow_bytes:
        legend += f" From {memory_map.arena_bytes:,} on: the part in slower RAM."
    return legend


def _cell_bytes(memory_map: MemoryMap, width: int) -> int:
    return max(1, -(-(memory_map.arena_bytes + memory_map.slow_bytes) // width))


def _shown(memory_map: MemoryMap, most: int) -> list[int]:
    """The steps of the map's text, ascending."""
    count = len(memory_map.moments)
    if count <= most:
        return list(range(count))
    peak = memory_map.peak[:: -(-len(memory_map.peak) // max(1, most // 3))]
    rest = max(2, most - len(peak))
    return sorted({*peak, *(round(i * (count - 1) / (rest - 1)) for i in range(rest))})


def _cell(held: Sequence[Tenant], start: int, size: int, letters: Mapping[str, str]) -> str:
    inside = [(max(t.at, start), min(t.end, start + size), t) for t in held if t.at < start + size and t.end > start]
    if not inside:
        return FREE
    if sum(end - begin for begin, end, _ in inside) > _covered([(begin, end) for begin, end, _ in inside]):
        newest = max((t for _, _, t in inside if t.kind != "scratch"), key=lambda t: t.born)
        return letters[newest.name].lower()
    most = max(inside, key=lambda part: part[1] - part[0])[2]
    return SCRATCH if most.kind == "scratch" else letters[most.name]


def letters_held(memory_map: MemoryMap) -> Iterator[tuple[str, Kind, str, str, str, str]]:
    """Who the letters of the map are, in order of birth: letter, kind, bytes, place in the arena, steps, name."""
    letters = _letters(memory_map)
    grouped: dict[tuple[str, Kind], list[Tenant]] = {}
    for t in sorted(memory_map.tenants, key=_age):
        grouped.setdefault((t.name, t.kind), []).append(t)
    for (name, kind), parts in grouped.items():
        size = max(t.size for t in parts)
        bytes_text = f"{size:,}" if len(parts) == 1 else f"{len(parts)} x {size:,}"
        place = f"[{min(t.at for t in parts)}, {max(t.end for t in parts)})"
        life = f"[{max(min(t.born for t in parts), 0)}, {max(t.dies for t in parts)})"
        letter = SCRATCH if kind == "scratch" else letters[name]
        yield letter, kind, bytes_text, place, life, name


def _letters(memory_map: MemoryMap) -> dict[str, str]:
    """Letters of the tensors in order of birth, used again after all have been."""
    names = dict.fromkeys(t.name for t in sorted(memory_map.tenants, key=_age) if t.kind != "scratch")
    return {name: LETTERS[i % len(LETTERS)] for i, name in enumerate(names)}


def _age(tenant: Tenant) -> tuple[int, bool, int]:
    return tenant.born, tenant.kind == "scratch", tenant.at
