# SPDX-License-Identifier: Apache-2.0
"""Cycles that a core waits for a board's second RAM: every access of an inference, counted as it happens."""

from __future__ import annotations

from typing import Any

from tinyc.board import SlowRam
from tinyc.run import protocol
from tinyc.run.base import INSTRUCTION_LIMIT, Conversation, Inputs
from tinyc.run.trace import plan_trace
from tinyc.run.unicorn import EmulatedCore, Semihosting, UnicornTarget, forget_it_block, load_unicorn
from tinyc.toolchain.compile import Firmware


def slow_waits(target: UnicornTarget, ram: SlowRam, firmware: Firmware, inputs: Inputs) -> int:
    """Of one inference, the mean of all. Accesses of more bytes than the RAM is wide wait several times."""
    elf = firmware.read_elf()
    plan = plan_trace(firmware, elf, INSTRUCTION_LIMIT)
    core = EmulatedCore(target.cpu, target.memory, elf)
    files = Semihosting(core, protocol.requests(inputs, firmware.resets), Conversation(firmware, len(inputs)))
    unicorn = load_unicorn()
    running, waits = False, 0

    def on_block(engine: Any, address: int, size: int, data: Any) -> None:
        nonlocal running
        if address in (plan.run_start, plan.run_return):
            running = address == plan.run_start

    def on_access(engine: Any, access: int, address: int, size: int, value: int, data: Any) -> None:
        nonlocal waits
        forget_it_block(engine)
        if running:
            each = ram.read_waits if access == unicorn.UC_MEM_READ else ram.write_waits
            waits += each * ram.accesses(size)

    core.engine.hook_add(unicorn.UC_HOOK_BLOCK, on_block)
    both = unicorn.UC_HOOK_MEM_READ | unicorn.UC_HOOK_MEM_WRITE
    core.engine.hook_add(both, on_access, begin=ram.origin, end=ram.origin + ram.bytes - 1)
    core.run(files.call)
    if core.failure is not None:
        raise core.failure
    return waits // max(len(inputs), 1)
