# SPDX-License-Identifier: Apache-2.0
"""Counts what kernels in C execute on each kind of core: `python bench/counted.py [KERNEL ...]`.

Every kernel whose cost is counted runs small layers (`counted_layers.py`) on an emulated core of each kind, compiled
for speed; of the instructions of their steps comes by least squares what each unit takes, in shares of what was
counted. Some layers run in a library of their own, too, of which comes what units take there, and compiled for size:
what that takes is a share. Written are tinyc/kernel/counted.json, where kernels that were not asked for stay, and in
tinyc/explain/measured_costs.json what estimates make of these costs: nothing, they are counts.
"""

from __future__ import annotations

import argparse
import inspect
import json
import re
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import numpy.typing as npt

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "target")]

from counted_float_layers import float_layers  # noqa: E402
from counted_layers import layers  # noqa: E402
from counted_other_layers import other_layers  # noqa: E402
from counted_signal_layers import signal_layers  # noqa: E402
from counted_weighted_layers import weighted_layers  # noqa: E402
from kernel_cases import Together, roomy, together, write_library  # noqa: E402  as tests run all kernels

from tinyc.base.errors import TinycError  # noqa: E402
from tinyc.base.numerics import Numerics  # noqa: E402
from tinyc.board import Board, load_board  # noqa: E402
from tinyc.board.core import core_named  # noqa: E402
from tinyc.choose.select import select  # noqa: E402
from tinyc.explain.cycles import core_of, model_cycles  # noqa: E402
from tinyc.ir.graph import Graph, Node  # noqa: E402
from tinyc.kernel import counted  # noqa: E402
from tinyc.kernel.kernel import Cost  # noqa: E402
from tinyc.kernel.site import Site  # noqa: E402
from tinyc.ops import all_ops  # noqa: E402
from tinyc.options.build import Optimize  # noqa: E402
from tinyc.run import RunResult, find_target  # noqa: E402
from tinyc.toolchain.compile import Sources, compile_firmware  # noqa: E402
from tinyc.toolchain.compilers import find_toolchain  # noqa: E402
from tinyc.toolchain.elf import Elf  # noqa: E402

BOARDS = {
    "mve": "cortex-m55",
    "dsp": "cortex-m4",
    "thumb2": "cortex-m3",
    "thumb1": "cortex-m0plus",
    "rv32": "riscv32imc",
    "rv32v": "riscv32-zve32x",
}
ESTIMATES = ROOT / "tinyc" / "explain" / "measured_costs.json"
ESTIMATED = ("cortex-m7", "cortex-m33")  # beside those of BOARDS; they run the Cortex-M4's code
_VECTORS = "rv32v"
_PRECISE = 4  # digits of instructions
_SMALL = 8  # layers of a kernel, about, that are counted compiled for size
# The same in libraries of their own: for each unit, and of further numerics; of these, also compiled for size.
_EACH, _FURTHER, _SMALL_ALONE = 2, 3, 2
_USUAL = 0.1  # what a unit's usual share weighs there, of a layer: it decides where layers do not tell units apart
ALONE, SIZE_ALONE = "alone", "size alone"
WAYS = (ALONE, counted.SIZE, SIZE_ALONE)
_SAME = 0.05  # share of instructions that these may take more or less without a word
_NO_GAIN, _TURNS = 1e-9, 9

Floats = npt.NDArray[np.float64]


class Layer(NamedTuple):
    """What a kernel repeats in a layer, and what was counted: instructions, modelled cycles by core, bytes of its
    code. others: instructions where it is compiled otherwise, by `WAYS`, as far as these were counted."""

    units: Mapping[str, int]
    instructions: int
    cycles: Mapping[str, int]
    code: int
    others: Mapping[str, int] = MappingProxyType({})


def main() -> int:
    parser = argparse.ArgumentParser(description="Count what kernels in C execute")
    parser.add_argument("kernels", nargs="*", help="names; all by default")
    parser.add_argument("--kinds", nargs="+", choices=BOARDS, default=list(BOARDS))
    parser.add_argument("--shares", action="store_true", help="only what they take alone and compiled for size")
    args = parser.parse_args()
    for kind in args.kinds:
        by_kernel = measured(load_board(BOARDS[kind]), set(args.kernels), args.shares)
        table: dict[str, dict[str, Any]] = json.loads(counted.TABLE.read_text(encoding="utf-8"))
        estimates = json.loads(ESTIMATES.read_text(encoding="utf-8"))
        for kernel, own in by_kernel.items():
            each, missed = (table[kernel][kind], 0.0) if args.shares else fitted(own)
            print(f"{kind:8} {kernel:30} {missed:6.1%} of {len(own)}", each)
            of_kernel = table.setdefault(kernel, {})
            of_kernel.pop(counted.alone_on(kind), None)
            of_kernel |= in_all_ways(kind, own, each)
            if not args.shares:
                take_as_counted(estimates, BOARDS[kind], kernel, own, counted.SCALE[kind])
        counted.TABLE.write_text(as_json(table), encoding="utf-8")
        ESTIMATES.write_text(json.dumps(estimates, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return 0


def measured(board: Board, names: set[str], shares: bool = False) -> Mapping[str, Sequence[Layer]]:
    """By kernel, each layer that it takes with some numerics, once of those that are said alike. A library has the
    layers of one kernel, as a model may have: of more, compilers inline less. shares: only those that run otherwise."""
    by_kernel: dict[str, dict[tuple[str, frozenset[tuple[str, int]]], Layer]] = defaultdict(dict)
    asked = names or counted_names()
    if _VECTORS in board.isa:  # of all others a compiler makes what it does without
        asked = {
            kernel.name for op in all_ops().values() for kernel in op.every_kernel if _VECTORS in kernel.isa
        } & asked
    every = every_layer()
    for numerics in Numerics:
        with recorded() as units:
            all_kernels = together(board.isa, numerics, lambda kernel: kernel.name in asked, every)
            for kernel in sorted(set(all_kernels.prefer.values())):
                network = of_kernel(all_kernels, kernel)
                select(network.graph, board.isa, numerics, prefer=network.prefer)  # which asks for units
                nodes = [node.name for node in network.graph.nodes]
                keys = {name: (name, frozenset(units[kernel, name].items())) for name in nodes}
                if more := keys.values() - by_kernel[kernel].keys():
                    further = bool(by_kernel[kernel])
                    others = otherwise(_with(network, keys, more), board, numerics, units, further)
                    if shares:
                        for name, own in others.items():
                            by_kernel[kernel].setdefault(keys[name], Layer(units[kernel, name], 0, {}, 0, own))
                        continue
                    for node, layer in run(network, board, numerics, units):
                        by_kernel[kernel].setdefault(keys[node], layer._replace(others=others.get(node, {})))
    return {kernel: list(own.values()) for kernel, own in sorted(by_kernel.items()) if own}


def every_layer() -> list[Graph]:
    """Small layers that kernels are counted on, each a graph."""
    return [*layers(), *float_layers(), *other_layers(), *signal_layers(), *weighted_layers()]


def _with(network: Together, keys: Mapping[str, object], some: Collection[object]) -> Together:
    """The layers whose keys are among these."""
    return network.of(tuple(node for node in network.graph.nodes if keys[node.name] in some))


def otherwise(
    network: Together,
    board: Board,
    numerics: Numerics,
    units: Mapping[tuple[str, str], Mapping[str, int]],
    further: bool,
) -> Mapping[str, Mapping[str, int]]:
    """Instructions of some nodes as compiled in another way, by node: in a library of each alone, and for size.
    further: other numerics were counted before, of which there is more."""
    counts: dict[str, dict[str, int]] = defaultdict(dict)
    nodes = network.graph.nodes
    of_nodes = [own for (_, name), own in units.items() if name in {node.name for node in nodes}]
    some = spread(nodes, _FURTHER if further else _EACH * len({unit for own in of_nodes for unit in own if own[unit]}))
    ways: list[tuple[str, Sequence[Node], Optimize]] = [(ALONE, [node], "speed") for node in some]
    if not further:
        ways.append((counted.SIZE, spread(nodes, _SMALL), "size"))
        ways += [(SIZE_ALONE, [node], "size") for node in spread(some, _SMALL_ALONE)]
    for way, own, optimize in ways:
        for name, layer in run(network.of(tuple(own)), board, numerics, units, optimize):
            counts[name][way] = layer.instructions
    return counts


def spread(nodes: Sequence[Node], most: int) -> Sequence[Node]:
    """So many of them, as far from each other as they can be."""
    count = min(most, len(nodes))
    return [nodes[(2 * place + 1) * len(nodes) // (2 * count)] for place in range(count)]


def of_kernel(network: Together, kernel: str) -> Together:
    """The layers that it runs."""
    return network.of(tuple(node for node in network.graph.nodes if network.prefer[node.name] == kernel))


class recorded:  # noqa: N801  a context
    """Costs ask for no table, and are remembered."""

    def __enter__(self) -> dict[tuple[str, str], Mapping[str, int]]:
        units: dict[tuple[str, str], Mapping[str, int]] = {}

        def cost(kernel: str, site: Site, own: Mapping[str, int], data_bytes: int = 0) -> Cost:
            units.setdefault((kernel, site.node.name), own)
            return Cost(1, 0, 0)

        self._patches = [mock.patch.object(counted, "counted", cost)]
        self._patches += [
            mock.patch.object(module, "counted", cost)
            for name, module in list(sys.modules.items())
            if name.startswith(("tinyc.ops.", "tinyc.kernels.")) and hasattr(module, "counted")
        ]
        for patch in self._patches:
            patch.start()
        return units

    def __exit__(self, *_: object) -> None:
        for patch in self._patches:
            patch.stop()


def counted_names() -> set[str]:
    """Kernels whose cost is counted: by a `CountedCost`, however the offer is wrapped, or by a call with the name."""
    named = {name for file in (ROOT / "tinyc").rglob("*.py") for name in _COUNTS.findall(file.read_text("utf-8"))}
    return named | {cost.kernel for cost in counted_costs()}


def counted_costs() -> Iterator[counted.CountedCost]:
    """Of all kernels that have one."""
    offers = (kernel.offer for op in all_ops().values() for kernel in op.every_kernel)
    return (cost for cost in map(_cost_in, offers) if isinstance(cost, counted.CountedCost))


_COUNTS = re.compile(r'\bcounted\(\s*"(tc_\w+)"')


def _cost_in(offer: Callable[..., Any]) -> object:
    """The cost that `offered` was given."""
    inside = inspect.getclosurevars(offer).nonlocals
    if "cost" in inside:
        return inside["cost"]
    inner = inside.get("offering") or getattr(inside.get("self"), "offer", None)
    return None if inner is None else _cost_in(inner)


def run(
    network: Together,
    board: Board,
    numerics: Numerics,
    units: Mapping[tuple[str, str], Mapping[str, int]],
    optimize: Optimize = "speed",
) -> Iterator[tuple[str, Layer]]:
    """Each node with what was counted; what does not fit the machine runs in halves."""
    board = roomy(board)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program = write_library(network, folder, board.isa, numerics)
        try:
            firmware = compile_firmware(
                Sources(folder, "all"), board, find_toolchain(board, "gcc"), optimize, folder / "firmware"
            )
        except TinycError as error:
            if "does not fit the board" not in error.message or len(network.graph.nodes) == 1:
                raise
            for half in network.halves():
                yield from run(half, board, numerics, units, optimize)
            return
        ran = find_target(board, None).run(firmware, network.requests)
        elf = firmware.read_elf()
        cycles = {core: _cycles_of(ran, elf, core) for core in estimated_by(board.core)}
        functions, sizes = elf.step_functions("all"), {one.name: one.size for one in elf.symbols}
        for step in program.steps:
            kernel, node = step.choice.kernel.name, step.node.name
            code = functions[step.index].size + sizes.get(kernel, 0)
            yield (
                node,
                Layer(
                    units[kernel, node],
                    ran.counts[0].steps[step.index],
                    {core: of_step[step.index] for core, of_step in cycles.items()},
                    code,
                ),
            )


def estimated_by(core: str) -> tuple[str, ...]:
    """Cores whose estimates are made by what is counted on this one."""
    return (core, *ESTIMATED) if core == "cortex-m4" else (core,)


def _cycles_of(ran: RunResult, elf: Elf, core: str) -> Mapping[int, int]:
    """By step, as the rules of a core have them."""
    modelled = model_cycles(ran, elf, core_of(core))
    cycles: dict[int, int] = defaultdict(int)
    for line in modelled.lines if modelled else ():
        cycles[line.step] += line.cycles
    return cycles


def fitted(own: Sequence[Layer]) -> tuple[Mapping[str, float], float]:
    """Instructions of each unit, none below 0, and the largest share of a layer that they miss."""
    names = [*dict.fromkeys(unit for layer in own for unit in layer.units), counted.CALL]
    assert not {counted.CODE, counted.SIZE} & set(names), "the table has these words for something else"
    counts = np.array([layer.instructions for layer in own], np.float64)
    terms = np.array([[{**layer.units, counted.CALL: 1}.get(unit, 0) for unit in names] for layer in own], np.float64)
    factors = not_negative(terms / counts[:, None], np.ones(len(own)))
    each = {name: float(f"{factor:.{_PRECISE}g}") for name, factor in zip(names, factors, strict=True)}
    said = terms @ [each[name] for name in names]
    return each | {counted.CODE: min(layer.code for layer in own)}, float(np.abs(said / counts - 1).max())


def in_all_ways(kind: str, own: Sequence[Layer], each: Mapping[str, float]) -> Mapping[str, Mapping[str, float]]:
    """What the table has of a kernel on a kind of core: each, instructions of units, with what code takes that is
    compiled for size; and the same of a layer alone, where it differs."""
    units = {unit: value for unit, value in each.items() if unit != counted.SIZE}
    alone = fitted_alone([layer for layer in own if ALONE in layer.others], units)
    shares = (_share(own, units, counted.SIZE), _share(own, alone, SIZE_ALONE))
    ways = {kind: units, counted.alone_on(kind): alone}
    if abs(_share(own, units, ALONE) - 1) <= _SAME and abs(shares[0] - shares[1]) <= _SAME and _alike(own, units):
        del ways[counted.alone_on(kind)]
    return {
        key: {**units, **({} if abs(share - 1) <= _SAME else {counted.SIZE: share})}
        for (key, units), share in zip(ways.items(), shares, strict=False)
    }


def _share(own: Sequence[Layer], each: Mapping[str, float], way: str) -> float:
    """What layers take that are compiled in a way, of what each unit says of them; 1 where none was."""
    compiled = [layer for layer in own if way in layer.others]
    said = sum(said_of(layer, each) for layer in compiled)
    return float(f"{sum(layer.others[way] for layer in compiled) / said:.{_PRECISE}g}") if compiled else 1.0


def said_of(layer: Layer, each: Mapping[str, float]) -> float:
    """Instructions of a layer where units take these."""
    return each[counted.CALL] + sum(each[unit] * count for unit, count in layer.units.items())


def _alike(own: Sequence[Layer], each: Mapping[str, float]) -> bool:
    """Whether layers take alone what is said of them."""
    missed = [abs(layer.others[ALONE] / said_of(layer, each) - 1) for layer in own if ALONE in layer.others]
    return max(missed, default=0) <= _SAME


def fitted_alone(own: Sequence[Layer], each: Mapping[str, float]) -> Mapping[str, float]:
    """Instructions of each unit in layers alone in their libraries, near a share of what it takes usually: that decides
    where these layers, which are few, do not tell units apart."""
    share = _share(own, each, ALONE)
    names = [unit for unit, value in each.items() if unit != counted.CODE and value > 0]
    counts = np.array([layer.others[ALONE] for layer in own], np.float64)
    terms = np.array([[{**layer.units, counted.CALL: 1}.get(unit, 0) for unit in names] for layer in own], np.float64)
    usual = np.diag([_USUAL / (share * each[unit]) for unit in names])
    rows = np.concatenate([terms.reshape(-1, len(names)) / counts[:, None], usual])
    factors = not_negative(rows, np.concatenate([np.ones(len(own)), np.full(len(names), _USUAL)]))
    alone = {unit: float(f"{factor:.{_PRECISE}g}") for unit, factor in zip(names, factors, strict=True)}
    missed = max((abs(said_of(layer, {**each, **alone}) / layer.others[ALONE] - 1) for layer in own), default=0)
    print(f"         {share:6.2f} of that alone, {missed:6.1%} of {len(own)}", alone)
    return {**each, **alone}


def not_negative(terms: Floats, targets: Floats) -> Floats:
    """The factors, none below 0, that miss least: Lawson's and Hanson's way to them."""
    scale = np.abs(terms).max(axis=0)
    terms = terms / np.where(scale > 0, scale, 1)
    factors, active = np.zeros(terms.shape[1]), np.zeros(terms.shape[1], bool)
    for _ in range(_TURNS * len(factors)):
        gain = np.where(active, 0, terms.T @ (targets - terms @ factors))
        if gain.max() <= _NO_GAIN:
            break
        active[int(gain.argmax())] = True
        while (best := _solved(terms, targets, active))[active].min() <= 0:
            below = active & (best <= 0)
            step = (factors[below] / (factors[below] - best[below])).min()
            factors = factors + step * (best - factors)
            active &= factors > _NO_GAIN
            factors[~active] = 0
        factors = best
    return factors / np.where(scale > 0, scale, 1)


def _solved(terms: Floats, targets: Floats, active: npt.NDArray[np.bool_]) -> Floats:
    """The best factors of the active terms; 0 of all others."""
    factors = np.zeros(terms.shape[1])
    factors[active] = np.linalg.lstsq(terms[:, active], targets, rcond=None)[0]
    return factors


def take_as_counted(estimates: Any, core: str, kernel: str, own: Sequence[Layer], scale: float) -> None:
    """Lines of estimates take the kernel's cost as it is: they were fitted to the few layers of some models."""
    pace = next((cost.pace for cost in counted_costs() if cost.kernel == kernel), counted.PACE)
    for name in estimated_by(core):
        per_instruction = float(np.median([layer.cycles[name] / layer.instructions for layer in own]))
        said = pace if core_named(name).ordered else 1.0  # cycles that a Cost of C says for an instruction
        for part, factor in (("kernels", 1.0), ("cycles", per_instruction / said)):
            lines = estimates[part].get(name, {})
            for key in [key for key in lines if key.partition(" ")[0] == kernel]:
                lines[key] = [round(factor / scale, 5)]


def as_json(table: Mapping[str, Mapping[str, Mapping[str, float]]]) -> str:
    """A line for each kernel and kind, and for layers alone there."""
    keys = [key for kind in BOARDS for key in (kind, counted.alone_on(kind))]
    kernels = (
        f' "{kernel}": {{\n'
        + ",\n".join(f'  "{key}": {json.dumps(table[kernel][key])}' for key in keys if key in table[kernel])
        + "\n }"
        for kernel in sorted(table)
    )
    return "{\n" + ",\n".join(kernels) + "\n}\n"


if __name__ == "__main__":
    sys.exit(main())
