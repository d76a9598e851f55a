# SPDX-License-Identifier: Apache-2.0
"""What tinyc knows of a core by its name: the `core` of a board. Only its cycles are elsewhere: machine/cores.py.

A core that is missing here works all the same: it is not looked for instructions of Armv8-M, and no emulator has it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tinyc.base.dataclass import dataclass

_V8M = frozenset({"fpv5", "v8m"})
_V81M = frozenset({"fpv5", "v8m", "v8.1m"})
# Code above this address comes over the bus of a Cortex-M3's or M4's data, a cycle later (their manuals, "Bus
# interfaces"); the tightly coupled RAM for data of a Cortex-M7 or M55, wherever it is, has no code.
_SYSTEM_BUS = 0x2000_0000
_TIGHTLY_COUPLED = 0
_NO_VECTORS = "Renode 1.16 is not known to run vectors of Zve32x"


@dataclass(frozen=True, slots=True)
class CoreFacts:
    """What does not depend on the board that the core is on."""

    extras: frozenset[str] = frozenset()  # what it has beyond Armv7-M (or Armv6-M) and the board's `isa`: fpv5, v8m
    unicorn: str = ""  # the constant of unicorn's model
    renode: str = ""  # Renode's name of it
    traced: str = ""  # the name to trace it under there, where that is another
    not_in_renode: str = ""  # why it is not there
    measured_as: str = ""  # the core that C is compiled to the same for: what was not measured on it is as there
    micropython: str = ""  # what MicroPython's py/dynruntime.mk calls it, where `isa` does not say it
    ordered: bool = False  # kernels are timed and ordered by its own rules, and not by those of the Cortex-M4
    code: str = ""  # the core that the same code is compiled for, where only the pipeline differs
    priority_mask: int = 0xF0  # the bits of an interrupt priority that count
    cached: bool = False  # it has caches that startup code has to switch on
    defines: tuple[str, ...] = ()  # of firmware for the board, what differs from other cores
    timer: str = ""  # of firmware for the board: templates/firmware/timer_<this>.c, where it is not the startup's
    data_only_from: int | None = None  # the address of the RAM that it waits for, or cannot fetch code from


CORES: Mapping[str, CoreFacts] = MappingProxyType(
    {
        "cortex-m0": CoreFacts(
            unicorn="UC_CPU_ARM_CORTEX_M0", renode="cortex-m0", priority_mask=0xC0, micropython="armv6m"
        ),
        # Renode finds the instructions of a trace by a disassembler that knows no `cortex-m0+`; its core of that name
        # is the one it has for `cortex-m3`.
        "cortex-m0plus": CoreFacts(renode="cortex-m0+", traced="cortex-m3", priority_mask=0xC0, micropython="armv6m"),
        "cortex-m1": CoreFacts(),
        "cortex-m3": CoreFacts(
            unicorn="UC_CPU_ARM_CORTEX_M3", renode="cortex-m3", data_only_from=_SYSTEM_BUS, micropython="armv7m"
        ),
        "cortex-m4": CoreFacts(
            unicorn="UC_CPU_ARM_CORTEX_M4", renode="cortex-m4", data_only_from=_SYSTEM_BUS, ordered=True
        ),
        "cortex-m7": CoreFacts(
            frozenset({"fpv5"}),
            "UC_CPU_ARM_CORTEX_M7",
            "cortex-m7",
            measured_as="cortex-m4",
            micropython="armv7emdp",
            ordered=True,
            cached=True,
            data_only_from=_TIGHTLY_COUPLED,
        ),
        "cortex-m33": CoreFacts(_V8M, "UC_CPU_ARM_CORTEX_M33", "cortex-m33", measured_as="cortex-m4", ordered=True),
        "cortex-m35p": CoreFacts(_V8M),
        "cortex-m52": CoreFacts(_V81M),
        "cortex-m55": CoreFacts(
            _V81M,
            not_in_renode="Renode 1.16 lacks instructions of Armv8.1-M: LSRL and the other shifts of 64 bits",
            data_only_from=_TIGHTLY_COUPLED,
        ),
        "cortex-m85": CoreFacts(_V81M, cached=True),
        "riscv32imc": CoreFacts(renode="rv32imc_zicsr_zifencei"),
        "riscv32imc_zve32x": CoreFacts(not_in_renode=_NO_VECTORS),
        "coral-npu": CoreFacts(frozenset({"rv32f"}), not_in_renode=_NO_VECTORS, code="riscv32imc_zve32x"),
        # As in an RP2350: the memory protection knows no ranges, and the cycle counter stands (data sheet, 3.8).
        "hazard3": CoreFacts(
            renode="rv32imac_zicsr_zifencei_zba_zbb_zbs",
            extras=frozenset({"rv32a"}),
            defines=("TC_WITHOUT_PROTECTION", "TC_COUNTER_STANDS"),
        ),
        "esp32-c3": CoreFacts(renode="rv32imc_zicsr_zifencei", code="riscv32imc", timer="esp32"),
        "esp32-c6": CoreFacts(frozenset({"rv32a"}), renode="rv32imac_zicsr_zifencei", code="riscv32imc", timer="esp32"),
    }
)
UNKNOWN = CoreFacts(_V81M)  # a core that is not in the table may have any instruction


def core_named(name: str) -> CoreFacts:
    """What is known of the core; of one that is not in the table, nothing."""
    return CORES.get(name, UNKNOWN)
