# SPDX-License-Identifier: Apache-2.0
"""An independent watcher of plans: every byte of the arena is dead until someone writes it, and has an owner then.

Firmware runs on unicorn with each access to the arena watched. A step may read what the model's own graph says that it
reads: bytes last written by the makers of its inputs, by the application (inputs of the model), or by itself (scratch,
sums, rows). Everything else is poison: bytes that nobody has written in this inference, and bytes that another step has
written since. Nothing of tinyc/plan or tinyc/stream is asked; who makes what follows from the graph, and who runs from
the symbols of the ELF file.
"""

from __future__ import annotations

import gc
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import unicorn
from unicorn import arm_const

from tests.fuzz import builds
from tests.fuzz.case import WrongError
from tinyc.base.errors import TinycError
from tinyc.board import load_board
from tinyc.ir.graph import Graph
from tinyc.options.build import Options
from tinyc.pipeline.compiling import Compiled, compile_model
from tinyc.pipeline.progress import Progress
from tinyc.pipeline.proving import check_ram, compile_library, input_bytes, with_window
from tinyc.run import protocol
from tinyc.run.base import INSTRUCTION_LIMIT, Conversation
from tinyc.run.trace import TracePlan, plan_trace
from tinyc.run.unicorn import EmulatedCore, Semihosting
from tinyc.toolchain.compile import Firmware
from tinyc.toolchain.compilers import find_toolchain
from tinyc.verify.compare import compare, reference_outputs

CORES = ("cortex-m4", "cortex-m0plus", "cortex-m3")
OUTSIDE, RUN, NOBODY, CALLER = -1, -2, -3, -4  # beside the numbers of steps
RUNS = 2  # inferences: the second finds what the first has left


class Watcher:
    """Who has written each byte of the arena, and whether that is who the reader means."""

    def __init__(self, core: EmulatedCore, compiled: Compiled, plan: TracePlan) -> None:
        self.core, self.compiled, self.plan = core, compiled, plan
        program = compiled.program
        # Behind the states there may be where constants apart from the code are: any step reads that.
        self.size = program.arena_bytes if program.blob is None else program.blob.slot
        self.states_from = min(program.state_offset, self.size)
        self.allowed = makers_of(compiled)
        self.owner = [NOBODY] * self.size
        self.calls: Counter[int] = Counter()  # of each step in this inference
        self.now = OUTSIDE
        self.pushed = 0  # rows, of a library to which only new rows of its window are given
        self.base = -1
        self.copied: deque[int] = deque()  # owners of bytes that the run function has read and not yet written
        self.wrong: str | None = None
        hook, engine = unicorn.UC_HOOK_CODE, core.engine
        for number, address in plan.steps:
            engine.hook_add(hook, self._enter, number, address & ~1, address & ~1)
        for start, end in ((plan.run_start & ~1, plan.run_end & ~1), plan.inner):
            if end > start:
                engine.hook_add(hook, self._in_run, None, start, end - 1)
        engine.hook_add(hook, self._leave, None, plan.run_return, plan.run_return)

    def _enter(self, engine: Any, address: int, size: int, number: int) -> None:
        self.now = number
        self.calls[number] += 1
        self.copied.clear()

    def _leave(self, engine: Any, address: int, size: int, data: Any) -> None:
        self.now = OUTSIDE

    def _in_run(self, engine: Any, address: int, size: int, data: Any) -> None:
        if self.now == OUTSIDE:
            self._begin(engine)
        self.now = RUN

    def _begin(self, engine: Any) -> None:
        """An inference: the arena is noise, but for the inputs and what lasts from run to run. Of a window that moves
        on, whatever a step has made of the rows before lasts."""
        if self.base < 0:
            self.base = engine.reg_read(arm_const.UC_ARM_REG_R0)
            end = self.base + self.size - 1
            engine.hook_add(unicorn.UC_HOOK_MEM_WRITE, self._write, None, self.base, end)
            engine.hook_add(unicorn.UC_HOOK_MEM_READ, self._read, None, self.base, end)
            self.owner[self.states_from :] = [CALLER] * (self.size - self.states_from)
        self.calls.clear()
        program = self.compiled.program
        if program.incremental is not None:
            self.pushed += program.incremental.hop
            return
        self.owner[: self.states_from] = [NOBODY] * self.states_from
        if program.row_input is None:
            for place in program.inputs:
                start = place.offset or 0
                self.owner[start : start + place.value.size_bytes] = [CALLER] * place.value.size_bytes

    def _write(self, engine: Any, access: int, address: int, size: int, value: int, data: Any) -> None:
        if self.now == OUTSIDE:
            return
        start = address - self.base
        for byte in range(max(start, 0), min(start + size, self.size)):
            if self.now == RUN:
                self.owner[byte] = self.copied.popleft() if self.copied else CALLER
            else:
                self.owner[byte] = self.now

    def _read(self, engine: Any, access: int, address: int, size: int, value: int, data: Any) -> None:
        if self.now == OUTSIDE:
            return
        start = address - self.base
        for byte in range(max(start, 0), min(start + size, self.size)):
            owner = self.owner[byte]
            if self.now == RUN:
                self.copied.append(owner)
            elif owner != self.now and owner not in self.allowed[self.now] and not self._in_vain(byte, owner):
                self.wrong = self.wrong or self._words(byte, owner)

    def _in_vain(self, byte: int, owner: int) -> bool:
        """Whether nothing comes of it: the window is not full, other rows are meant, or it counts zero times."""
        new = self.compiled.program.incremental
        filling = new is not None and self.pushed < new.window
        return (filling and owner == NOBODY) or self._makes_fewer_rows() or self._of_no_channel(byte)

    def _of_no_channel(self, byte: int) -> bool:
        """Whether a fast convolution reads its scratch: it takes channels by fours, and what it finds for those that
        are not there is multiplied by weights of zero."""
        step = self.compiled.program.steps[self.now]
        start = step.scratch_offset
        x = step.inputs[0]
        return (
            "tiles" in step.choice.kernel.name
            and x is not None
            and x.value.channels % 4 > 0
            and start <= byte < start + step.choice.cost.scratch_bytes
        )

    def _makes_fewer_rows(self) -> bool:
        """Whether the call of the step that runs makes fewer rows than its form does: what it reads for the others may
        be anything (`RowForm`), and goes to a row that is made again. The outputs are compared in any case."""
        step = self.compiled.program.steps[self.now]
        rows = step.call.rows
        if step.row_step is None or rows is None or rows.out_rows == 1:
            return False
        return len(rows.output_rows(self.calls[self.now] - 1)) < rows.out_rows

    def _words(self, byte: int, owner: int) -> str:
        step = self.compiled.program.steps[self.now]
        left = {NOBODY: "nobody has written", CALLER: "the caller has written"}.get(owner, f"step {owner} has written")
        pc = self.core.engine.reg_read(arm_const.UC_ARM_REG_PC)
        return f"step {self.now} ({step.function}) reads byte {byte} of {self.size}, which {left}; pc 0x{pc:x}"


def makers_of(compiled: Compiled) -> Mapping[int, frozenset[int]]:
    """Of each step: whose bytes it may read."""
    graph = compiled.graph
    steps = {step.node.name: step.index for step in compiled.program.steps}
    return {
        step.index: frozenset(maker for name in step.node.inputs if name for maker in _makers(graph, name, steps))
        for step in compiled.program.steps
    }


def _makers(graph: Graph, value: str, steps: Mapping[str, int]) -> frozenset[int]:
    """The steps that make a value; of a node that does not run (a view, a concat by addresses) those of its inputs."""
    before = {state.name: state.after for state in graph.states}
    if value in before:
        return frozenset({CALLER}) | _steps_behind(graph, before[value], steps, frozenset(before))
    return _steps_behind(graph, value, steps, frozenset(before))


def _steps_behind(graph: Graph, value: str, steps: Mapping[str, int], states: frozenset[str]) -> frozenset[int]:
    if value in graph.consts:
        return frozenset()
    node = next((node for node in graph.nodes if value in node.outputs), None)
    if node is None:
        return frozenset({CALLER})
    if node.name in steps:
        return frozenset({steps[node.name]})
    behind = [_steps_behind(graph, name, steps, states) for name in node.inputs if name]
    return frozenset().union(*behind)


def check(seed: int, subset: frozenset[int], folder: Path) -> str:
    """`clean`: equal bytes, and no read of poison."""
    path, options = builds.prepare(seed, subset, folder)
    gc.collect()  # of the case before: an engine reserves a gigabyte, and its hooks refer to it
    return watch(path, replace(options, board=CORES[seed % len(CORES)]), seed, folder / "library")


def watch(path: Path, options: Options, seed: int, folder: Path) -> str:
    board = load_board(options.board)
    try:
        compiled = compile_model(path, board, options, Progress())
        check_ram(compiled, options)
    except TinycError as error:
        return "too large" if error.exit_code == 1 else "refused"
    folder.mkdir()
    wide = with_window(board, compiled, options)
    firmware = compile_library(folder, compiled, wide, options, find_toolchain(wide))
    run_watched(firmware, compiled, seed)
    return "clean"


def run_watched(firmware: Firmware, compiled: Compiled, seed: int) -> None:
    board = firmware.board
    assert board.unicorn is not None
    assert board.memory is not None
    given = builds.inputs_of(compiled, seed).slice(0, RUNS)
    elf = firmware.read_elf()
    core = EmulatedCore(board.unicorn.cpu, board.memory, elf)
    watcher = Watcher(core, compiled, plan_trace(firmware, elf, INSTRUCTION_LIMIT))
    talk = Conversation(firmware, len(given))
    requests = protocol.requests(input_bytes(compiled.graph, given), firmware.resets)
    core.run(Semihosting(core, requests, talk).call)
    if core.failure is not None:
        raise core.failure
    if core.fault is not None:
        raise WrongError("fault", f"{core.fault.reason} at 0x{core.fault.address:x}")
    if watcher.wrong is not None:
        raise WrongError("read of poison", watcher.wrong)
    outputs = talk.finish("unicorn, watched").outputs
    comparison = compare(compiled.graph, outputs, reference_outputs(compiled.graph, compiled.program, given))
    if comparison.mismatches:
        raise WrongError(f"bytes on {board.name}", f"{comparison.mismatches} of {comparison.output_bytes} bytes")
