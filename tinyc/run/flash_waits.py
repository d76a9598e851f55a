# SPDX-License-Identifier: Apache-2.0
"""Cycles that a core waits for slow flash: what an inference fetches and reads there, through the board's small caches.

An estimate beside the cycle model, which knows no wait states. docs/cycles.md says what it leaves out.
"""

from __future__ import annotations

import tempfile
from collections import Counter, OrderedDict
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tinyc.base.dataclass import dataclass
from tinyc.board.parts import FlashTiming
from tinyc.run import protocol
from tinyc.run.base import INSTRUCTION_LIMIT, OVERHEAD, Conversation, Inputs
from tinyc.run.trace import TracePlan, plan_trace
from tinyc.run.unicorn import EmulatedCore, Semihosting, UnicornTarget, find_unicorn, load_unicorn
from tinyc.toolchain.compile import Firmware, firmware_around


@dataclass(slots=True)
class LineCache:
    """A fully associative cache of `lines` lines, the least recently used goes; each word of a line comes on its own,
    when it is first needed. lines 0: every word is a miss."""

    lines: int
    words_in_line: int
    _held: OrderedDict[int, int]

    @classmethod
    def of(cls, lines: int, timing: FlashTiming) -> LineCache:
        return cls(lines, timing.line_bytes // timing.word_bytes, OrderedDict())

    def miss(self, word: int) -> bool:
        """Whether flash word number `word` has to come from the flash; it is held afterwards."""
        line, bit = word // self.words_in_line, 1 << word % self.words_in_line
        have = self._held.get(line)
        if have is None:
            if self.lines == 0:
                return True
            if len(self._held) == self.lines:
                self._held.popitem(last=False)
            self._held[line] = bit
            return True
        self._held.move_to_end(line)
        if have & bit:
            return False
        self._held[line] = have | bit
        return True


class FlashWatch:
    """Adds up waits from the pieces of code that run and the flash that is read, step by step."""

    def __init__(self, timing: FlashTiming, plan: TracePlan, flash: range | None = None) -> None:
        """flash: its addresses; code elsewhere does not wait. None: all is there."""
        self._timing = timing
        self._flash = flash
        self._plan = plan
        self._steps = {start: number for number, start in plan.steps}
        self._code = LineCache.of(timing.instruction_lines, timing)
        self._data = LineCache.of(timing.data_lines, timing)
        self._step: int | None = None
        # A word fetched ahead comes while the core runs the one before: about a cycle for every 3 bytes of code.
        self._next_wait = max(0, timing.wait_states - (timing.word_bytes // 3 if timing.prefetch else 0))
        self.waits: Counter[int] = Counter()

    def block(self, address: int, size: int) -> None:
        """A straight piece of code begins to run."""
        self._enter(address)
        if self._step is None or (self._flash is not None and address not in self._flash):
            return
        word_bytes = self._timing.word_bytes
        first = address // word_bytes
        for word in range(first, (address + size - 1) // word_bytes + 1):
            if self._code.miss(word):
                self.waits[self._step] += self._timing.wait_states if word == first else self._next_wait

    def read(self, address: int, size: int) -> None:
        """An instruction reads flash."""
        if self._step is None:
            return
        for word in range(address // self._timing.word_bytes, (address + size - 1) // self._timing.word_bytes + 1):
            if self._data.miss(word):
                self.waits[self._step] += self._timing.data_waits

    def _enter(self, address: int) -> None:
        plan = self._plan
        if address == plan.run_start:
            self._step = OVERHEAD
        elif address == plan.run_return:
            self._step = None
        elif self._step is not None:
            between = plan.run_start <= address < plan.run_end or plan.inner[0] <= address < plan.inner[1]
            self._step = OVERHEAD if between else self._steps.get(address, self._step)


def counted_waits(firmware: Firmware, inputs: Inputs) -> Mapping[int, int] | None:
    """As `flash_waits`; None where the board's flash is not described, or unicorn is not there to watch its reads.
    Firmware of another emulator is linked anew for unicorn, around the same library."""
    timing, target = firmware.board.flash_timing, find_unicorn(firmware.board)
    if timing is None or target is None:
        return None
    if firmware.board.io == "semihosting":
        return flash_waits(target, timing, firmware, inputs)
    assert firmware.sources is not None
    board = replace(firmware.board, io="semihosting")
    with tempfile.TemporaryDirectory(prefix="tinyc-") as name:
        parts = firmware.library_object, firmware.sources, board, firmware.toolchain, Path(name)
        return flash_waits(target, timing, replace(firmware_around(*parts), sequence=firmware.sequence), inputs)


def flash_waits(target: UnicornTarget, timing: FlashTiming, firmware: Firmware, inputs: Inputs) -> Mapping[int, int]:
    """Cycles of waiting by step (OVERHEAD: the run function), the sum of all inferences."""
    elf = firmware.read_elf()
    memory = target.memory
    flash = range(memory.flash_origin, memory.flash_origin + memory.flash_bytes)
    watch = FlashWatch(timing, plan_trace(firmware, elf, INSTRUCTION_LIMIT), flash)
    core = EmulatedCore(target.cpu, target.memory, elf)
    files = Semihosting(core, protocol.requests(inputs, firmware.resets), Conversation(firmware, len(inputs)))
    unicorn = load_unicorn()

    def on_block(engine: Any, address: int, size: int, data: Any) -> None:
        watch.block(address, size)

    def on_read(engine: Any, access: int, address: int, size: int, value: int, data: Any) -> None:
        watch.read(address, size)

    core.engine.hook_add(unicorn.UC_HOOK_BLOCK, on_block)
    core.engine.hook_add(unicorn.UC_HOOK_MEM_READ, on_read, begin=flash.start, end=flash.stop - 1)
    core.run(files.call)
    if core.failure is not None:
        raise core.failure
    return watch.waits
