# SPDX-License-Identifier: Apache-2.0
"""Where an inference spends its time: per layer, per function, per source line, and the hottest code."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tinyc.base.dataclass import dataclass
from tinyc.board.parts import Energy
from tinyc.explain.cycles.model import InstructionShare, ModelledCycles
from tinyc.explain.cycles.source import line_table
from tinyc.run import OVERHEAD, JumpCount
from tinyc.toolchain.elf import Elf

UNNAMED = "(unnamed code)"


@dataclass(frozen=True, slots=True)
class InferenceCost:
    """Of one inference (mean of those run): executed instructions; modelled cycles, None without a model."""

    instructions: int
    cycles: int | None

    @property
    def weight(self) -> int:
        """What shares are taken of: cycles where there are some, else instructions."""
        return self.instructions if self.cycles is None else self.cycles


@dataclass(frozen=True, slots=True)
class LayerCost:
    """A step, or (step OVERHEAD) the run function. functions: what it called, itself included, dearest first.
    flash_waits: cycles more of an inference on the board's slow flash, None where that is not estimated."""

    step: int
    name: str
    op: str
    kernel: str
    macs: int
    cost: InferenceCost
    functions: tuple[FunctionCost, ...]
    flash_waits: int | None = None


@dataclass(frozen=True, slots=True)
class FunctionCost:
    """A function without what it calls. callers: the functions between the step's and this one, outermost first,
    as far as they are the only callers."""

    name: str
    cost: InferenceCost
    callers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SourceCost:
    """A line of the generated library; text is empty when the file is not there."""

    file: str
    line: int
    text: str
    cost: InferenceCost


@dataclass(frozen=True, slots=True)
class HotLine:
    """An instruction of hot code; cost of one inference."""

    address: int
    text: str
    cost: InferenceCost


@dataclass(frozen=True, slots=True)
class HotBlock:
    """Straight code that is executed as a whole, `executions` times an inference."""

    function: str
    step: int
    executions: int
    cost: InferenceCost
    lines: tuple[HotLine, ...]


@dataclass(frozen=True, slots=True)
class LayerFacts:
    """What the compiler knows of a step."""

    step: int
    name: str
    op: str
    kernel: str
    macs: int


@dataclass(frozen=True, slots=True)
class Profile:
    """core: name of the cycle model, None where there is none; error: what is known of its error. clock_hz: 0 when
    unknown. sources and blocks: dearest first, empty unless asked for. wait_states: of the board's
    flash, None where it is not described. energy: of the board's cycles, where its file says it. cycles are of all
    cores together, cycles_on_cores those until they are done, None where one core runs it."""

    name: str
    model: str
    board: str
    machine: str
    toolchain: str
    core: str | None
    error: str | None
    clock_hz: int
    inferences: int
    macs: int
    cost: InferenceCost
    layers: tuple[LayerCost, ...]
    functions: tuple[FunctionCost, ...]
    sources: tuple[SourceCost, ...] = ()
    blocks: tuple[HotBlock, ...] = ()
    wait_states: int | None = None
    energy: Energy | None = None
    cores: int = 1
    cycles_on_cores: int | None = None

    @property
    def flash_waits(self) -> int | None:
        """Cycles more of an inference on flash with `wait_states`; an estimate, None where there is none."""
        waits = [layer.flash_waits for layer in self.layers if layer.flash_waits is not None]
        return sum(waits) if waits else None

    @property
    def microjoules(self) -> float | None:
        """Of an inference, waits included: an estimate; None where cycles, waits or the board's energy are unknown."""
        if self.energy is None or self.cost.cycles is None or self.flash_waits is None:
            return None
        return self.energy.microjoules(self.cost.cycles + self.flash_waits)

    def milliseconds(self, cost: InferenceCost) -> float | None:
        """At the board's clock with memory that never waits; None without clock or cycle model."""
        return None if cost.cycles is None or not self.clock_hz else 1000 * cost.cycles / self.clock_hz

    def share(self, cost: InferenceCost) -> float:
        return cost.weight / self.cost.weight if self.cost.weight else 0.0

    def to_json(self) -> dict[str, Any]:
        """Plain lists, dicts, numbers and strings; keys in a fixed order."""
        derived = {"milliseconds": self.milliseconds(self.cost), "flash_waits": self.flash_waits}
        return asdict(self) | derived | {"microjoules": self.microjoules}


def layer_costs(
    modelled: ModelledCycles, elf: Elf, jumps: Sequence[JumpCount], layers: Sequence[LayerFacts]
) -> tuple[LayerCost, ...]:
    """Every layer, then the run function, with their functions."""
    costs = _Costs(modelled)
    name_at = _names(elf)
    by_step: defaultdict[int, list[InstructionShare]] = defaultdict(list)
    for line in modelled.lines:
        by_step[line.step].append(line)
    by_layer = []
    for facts in (*layers, LayerFacts(OVERHEAD, "between layers", "", "", 0)):
        lines = by_step[facts.step]
        chains = _callers([j for j in jumps if j.step == facts.step], elf)
        grouped = _group(lines, lambda line: name_at(line.instruction.address))
        functions = [FunctionCost(name, costs.of(its), chains.get(name, ())) for name, its in grouped.items()]
        by_layer.append(
            LayerCost(facts.step, facts.name, facts.op, facts.kernel, facts.macs, costs.of(lines), _dearest(functions))
        )
    return tuple(by_layer)


def function_costs(modelled: ModelledCycles, elf: Elf) -> tuple[FunctionCost, ...]:
    """Every function over all layers, dearest first."""
    costs = _Costs(modelled)
    name_at = _names(elf)
    grouped = _group(modelled.lines, lambda line: name_at(line.instruction.address))
    return _dearest(FunctionCost(name, costs.of(lines)) for name, lines in grouped.items())


def source_costs(modelled: ModelledCycles, firmware: Path, sources: Path, most: int) -> tuple[SourceCost, ...]:
    """The dearest source lines, by the firmware's debug information; texts from the folder `sources`."""
    costs = _Costs(modelled)
    place_at = line_table(firmware, {line.instruction.address for line in modelled.lines})
    grouped = _group(
        (line for line in modelled.lines if line.instruction.address in place_at),
        lambda line: place_at[line.instruction.address],
    )
    by_place = [(place, costs.of(lines)) for place, lines in grouped.items()]
    by_place.sort(key=lambda item: (-item[1].weight, item[0]))
    texts: dict[str, list[str]] = {}
    layers = []
    for (file, number), cost in by_place[:most]:
        if file not in texts:
            path = sources / file
            texts[file] = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
        text = texts[file][number - 1].strip() if 0 < number <= len(texts[file]) else ""
        layers.append(SourceCost(file, number, text, cost))
    return tuple(layers)


def hot_blocks(modelled: ModelledCycles, elf: Elf, most: int) -> tuple[HotBlock, ...]:
    """The dearest straight pieces of code."""
    costs = _Costs(modelled)
    name_at = _names(elf)
    pieces = sorted(_straight(modelled.lines), key=lambda piece: -costs.of(piece).weight)
    return tuple(
        HotBlock(
            name_at(piece[0].instruction.address),
            piece[0].step,
            costs.mean(piece[0].executions),
            costs.of(piece),
            tuple(HotLine(i.address, str(i), costs.of([line])) for line in piece for i in (line.instruction,)),
        )
        for piece in pieces[:most]
    )


def _straight(lines: Iterable[InstructionShare]) -> list[list[InstructionShare]]:
    """Neighbours that are executed equally often, by step."""
    pieces: list[list[InstructionShare]] = []
    for line in lines:
        last = pieces[-1][-1] if pieces else None
        joined = last is not None and (last.step, last.executions) == (line.step, line.executions)
        if last is not None and joined and last.instruction.end == line.instruction.address:
            pieces[-1].append(line)
        else:
            pieces.append([line])
    return pieces


class _Costs:
    """Sums over lines as means of one inference."""

    def __init__(self, modelled: ModelledCycles) -> None:
        self._inferences = max(modelled.inferences, 1)
        self._has_cycles = modelled.core is not None

    def mean(self, count: int) -> int:
        return (count + self._inferences // 2) // self._inferences

    def of(self, lines: Iterable[InstructionShare]) -> InferenceCost:
        instructions = cycles = 0
        for line in lines:
            instructions += line.executions
            cycles += line.cycles
        return InferenceCost(self.mean(instructions), self.mean(cycles) if self._has_cycles else None)


def _group(
    lines: Iterable[InstructionShare], key: Callable[[InstructionShare], Any]
) -> dict[Any, list[InstructionShare]]:
    grouped: dict[Any, list[InstructionShare]] = {}
    for line in lines:
        grouped.setdefault(key(line), []).append(line)
    return grouped


def _dearest(functions: Iterable[FunctionCost]) -> tuple[FunctionCost, ...]:
    return tuple(sorted(functions, key=lambda f: (-f.cost.weight, f.name)))


def _names(elf: Elf) -> Callable[[int], str]:
    def name_at(address: int) -> str:
        function = elf.function_at(address)
        return function.name if function is not None else UNNAMED

    return name_at


def _callers(jumps: Sequence[JumpCount], elf: Elf) -> Mapping[str, tuple[str, ...]]:
    """Function -> the functions that it was called through, within one step."""
    callers: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for jump in jumps:
        callee = elf.function_at(jump.target)
        caller = elf.function_at(jump.source)
        if callee is not None and caller is not None and callee.address == jump.target and callee != caller:
            callers[callee.name][caller.name] += jump.executions
    return {name: _chain(name, callers) for name in callers}


def _chain(name: str, callers: Mapping[str, Counter[str]]) -> tuple[str, ...]:
    chain: list[str] = []
    while len(callers.get(name, ())) == 1:
        (name,) = callers[name]
        if name in chain:  # recursion
            return ()
        chain.append(name)
    return tuple(reversed(chain))


def stacks(profile: Profile) -> list[tuple[tuple[str, ...], int]]:
    """The names from the run function through a layer to each of its functions, with what that costs without what it
    calls: modelled cycles, or instructions where the core has no model. Layers in order."""
    weighted = []
    for layer in profile.layers:
        title = f"{layer.step} {layer.op} {layer.name}" if layer.step != OVERHEAD else layer.name
        for function in layer.functions:
            names = (f"{profile.name}_run", title, *function.callers, function.name)
            weighted.append((names, function.cost.weight))
    return weighted


def speedscope(profile: Profile) -> dict[str, Any]:
    """The profile in speedscope's file format (speedscope.app): a stack for every function of every layer, weighed
    in modelled cycles, or in instructions where the core has no model."""
    frames: dict[str, int] = {}

    def frame(name: str) -> int:
        return frames.setdefault(name, len(frames))

    weighted = stacks(profile)
    samples = [[frame(name) for name in names] for names, _ in weighted]
    weights = [weight for _, weight in weighted]
    unit = "modelled cycles" if profile.cost.cycles is not None else "instructions"
    return {
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "name": f"{profile.model} on {profile.board}: {unit}",
        "exporter": "tinyc",
        "shared": {"frames": [{"name": name} for name in frames]},
        "profiles": [
            {
                "type": "sampled",
                "name": f"one inference, {unit}",
                "unit": "none",
                "startValue": 0,
                "endValue": sum(weights),
                "samples": samples,
                "weights": weights,
            }
        ],
    }
