# SPDX-License-Identifier: Apache-2.0
"""Which values have to be int16: measured one by one, chosen together, exactly.

The noise that a value's rounding to int8 adds at the output is measured with everything else in float. Noises add up,
to a good approximation. A layer runs on int16 as soon as one of its values is, which takes more time; so the choice is
a knapsack whose items share their weight. It is solved exactly in run order: what was chosen before matters only
through the values that later layers still read, so that for each choice of those the undominated sums are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import Missed, TinycError
from tinyc.base.numerics import Numerics
from tinyc.ir.graph import Array, Graph, Node
from tinyc.kernel.site import Site
from tinyc.ops import is_a, op_of
from tinyc.ops.op import Trait
from tinyc.quantize.groups import Groups, is_activation
from tinyc.quantize.score import Teacher
from tinyc.quantize.search import with_float_weights
from tinyc.quantize.simulate import Batch
from tinyc.quantize.widths import activations_of

_GRAINS = 512  # steps of cost that are told apart
_PER_MAC, _PER_ELEMENT = 0.5, 2.0  # what int16 adds in instructions, about, on a Cortex-M4


@dataclass(frozen=True, slots=True)
class Set:
    """Values of one quantization. noise: what int8 adds at the output (a power beside the signal's, which is 1). first,
    last: nodes between which they matter. choices: whether they may be int8 (False), int16 (True)."""

    names: tuple[str, ...]
    noise: float
    first: int
    last: int
    choices: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class WidthChoice:
    """An undominated choice: values that are int16, what that costs, and the noise of the others."""

    wide: frozenset[str]
    cost: int
    noise: float


def value_sets(
    graph: Graph,
    integer: Graph,
    teacher: Teacher,
    forced: Collection[str],
    report: Callable[[int, int], None],
) -> list[Set]:
    """The activations of the float graph by quantization, each with the noise that int8 adds. `integer`: the same in
    int8; nodes correspond by name. forced: values that have to be int16."""
    groups = Groups(graph)
    members: dict[str, list[str]] = {}
    for name in graph.values:
        if is_activation(graph, name):
            members.setdefault(groups.of(name), []).append(name)
    plain = Batch(graph)
    floats = plain.resume(plain.start(teacher.inputs), 0)
    sets = []
    for done, names in enumerate(members.values()):
        touching = [i for i, node in enumerate(graph.nodes) if set(names) & set(activations_of(graph, node))]
        first = 0 if set(names) & set(graph.sources) else touching[0]
        last = len(graph.nodes) - 1 if set(names) & set(graph.sinks) else touching[-1]
        makers = [graph.nodes[i] for i in touching if set(names) & set(graph.nodes[i].outputs)]
        narrow = not all(is_a(node, Trait.INT16) for node in makers)
        noise = _noise_of(graph, integer, names, teacher, floats)
        choices = (True,) if set(names) & set(forced) else (False,) if narrow else (False, True)
        sets.append(Set(tuple(names), noise, first, last, choices))
        report(done + 1, len(members))
    return sorted(sets, key=lambda entry: entry.first)


def _noise_of(
    graph: Graph, integer: Graph, names: Sequence[str], teacher: Teacher, floats: Mapping[str, Array]
) -> float:
    """Noise at the output when these values alone are int8."""
    batch = with_float_weights(graph, integer)
    batch.quants = {name: batch.quants[name] for name in names if name in batch.quants}
    values = dict(floats) | {name: batch.rounded(name, teacher.inputs[name]) for name in graph.sources if name in names}
    indices = [i for i, node in enumerate(integer.nodes) if set(node.outputs) & set(names)]
    first = 0 if set(names) & set(graph.sources) else min(indices, default=len(integer.nodes))
    return float(10 ** (-teacher.score_of(batch.resume(values, first)) / 10))


def extra_cost(graph: Graph, node: Node) -> int:
    """Instructions that the node takes more on int16, about."""
    elements = sum(graph.values[name].elements for name in activations_of(graph, node))
    if op_of(node).view or is_a(node, Trait.RESCALES):
        return 0
    return int(_PER_MAC * op_of(node).macs(Site(graph, node, Numerics.OURS)) + _PER_ELEMENT * elements)


def options(graph: Graph, sets: Sequence[Set], ram_bytes: int | None = None) -> list[WidthChoice]:
    """All undominated choices, cheapest (int8 everywhere) first. ram_bytes: what the values that live at once may take,
    at least what `need_ram` asks for."""
    costs = [extra_cost(graph, node) for node in graph.nodes]
    grain = max(sum(costs) // _GRAINS, 1)
    of = {name: index for index, entry in enumerate(sets) for name in entry.names}
    states: dict[int, list[_Sum]] = {0: [_Sum(0, 0.0, 0)]}
    for at, node in enumerate(graph.nodes):
        opened = [i for i, entry in enumerate(sets) if entry.first == at]
        for i in opened:
            states = _opened(states, i, sets[i].choices)
        touched = sum({1 << of[name] for name in activations_of(graph, node)}) if is_a(node, Trait.INT16) else 0
        live = _live(graph, at, of)
        more = -(-costs[at] // grain)
        states = {
            key: [entry.plus(more) for entry in entries] if key & touched else entries
            for key, entries in states.items()
            if ram_bytes is None or sum(b * (2 if key >> i & 1 else 1) for i, b in live) <= ram_bytes
        }
        closed = [i for i, entry in enumerate(sets) if entry.last == at]
        for i in closed:
            states = _closed(states, i, sets[i].noise)
    assert states  # `need_ram`: the least of all widths fits
    return [
        WidthChoice(
            frozenset(name for i, one in enumerate(sets) if entry.taken >> i & 1 for name in one.names),
            entry.cost * grain,
            entry.noise,
        )
        for entry in states[0]
    ]


def need_ram(graph: Graph, ram_bytes: int, forced: Collection[str]) -> None:
    """TinycError if the values of the float graph that live at once take more, all int8 but those `forced` to int16."""
    groups = Groups(graph)
    wide = {groups.of(name) for name in forced}
    of = {name: int(groups.of(name) in wide) for name in graph.values if is_activation(graph, name)}
    least = max(sum(size << doubled for doubled, size in _live(graph, at, of)) for at in range(len(graph.nodes)))
    if least > ram_bytes:
        raise TinycError(
            f"values that are needed at once take {least:,} bytes even in int8, the budget for them is {ram_bytes:,}",
            hint="give a larger budget, or leave out --activations auto: layers that run row by row need less",
            exit_code=1,
            missed=[Missed("activations", "bytes", ram_bytes, least)],
        )


@dataclass(frozen=True, slots=True)
class _Sum:
    """A choice so far: its cost, the noise of sets that are done with, and a bit for each set that is int16."""

    cost: int
    noise: float
    taken: int

    def plus(self, cost: int) -> _Sum:
        return _Sum(self.cost + cost, self.noise, self.taken)


def _opened(states: dict[int, list[_Sum]], index: int, choices: tuple[bool, ...]) -> dict[int, list[_Sum]]:
    """With set `index` in each way; keys have a bit for each open set that is int16."""
    sums = dict(states) if False in choices else {}
    if True in choices:
        bit = 1 << index
        for key, entries in states.items():
            sums[key | bit] = [_Sum(e.cost, e.noise, e.taken | bit) for e in entries]
    return sums


def _closed(states: dict[int, list[_Sum]], index: int, noise: float) -> dict[int, list[_Sum]]:
    """With set `index` done with: its noise counted, its bit gone."""
    bit = 1 << index
    sums: dict[int, list[_Sum]] = {}
    for key, entries in states.items():
        counted = entries if key & bit else [_Sum(e.cost, e.noise + noise, e.taken) for e in entries]
        sums.setdefault(key & ~bit, []).extend(counted)
    return {key: _undominated(entries) for key, entries in sums.items()}


def _undominated(entries: list[_Sum]) -> list[_Sum]:
    undominated: list[_Sum] = []
    for entry in sorted(entries, key=lambda e: (e.cost, e.noise, e.taken)):
        if not undominated or entry.noise < undominated[-1].noise:
            undominated.append(entry)
    return undominated


def _live(graph: Graph, at: int, of: Mapping[str, int]) -> list[tuple[int, int]]:
    """(set, bytes in int8) of the values that are there while node `at` runs; a view is its input's bytes."""
    producers = {name: i for i, node in enumerate(graph.nodes) for name in node.outputs}
    needed = {name: i for i, node in enumerate(graph.nodes) for name in node.inputs}
    needed |= dict.fromkeys(graph.sinks, len(graph.nodes))
    for node in reversed(graph.nodes):
        if op_of(node).view:
            needed[node.inputs[0]] = max(needed[node.inputs[0]], needed.get(node.outputs[0], -1))
    views = {node.outputs[0] for node in graph.nodes if op_of(node).view}
    return [
        (index, graph.values[name].elements)
        for name, index in of.items()
        if name not in views and producers.get(name, -1) <= at <= needed.get(name, -1)
    ]


def first_good(choices: Sequence[WidthChoice], is_good: Callable[[WidthChoice], bool]) -> WidthChoice | None:
    """The cheapest option that is good, found by halving: more int16 hardly ever makes it worse. None if none is."""
    if not is_good(choices[-1]):
        return None
    low, high = -1, len(choices) - 1
    while high - low > 1:
        middle = (low + high) // 2
        if is_good(choices[middle]):
            high = middle
        else:
            low = middle
    return choices[high]
