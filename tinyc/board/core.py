# SPDX-License-Identifier: Apache-2.0
"""What tinyc knows of a core by its name: the `core` of a board. Its cycles are in machine/cores.py.

A core that is missing here works all the same: it is not looked for instructions of Armv8-M, and no emulator has it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

_V8M = frozenset({"fpv5", "v8m"})
_V81M = frozenset({"fpv5", "v8m", "v8.1m"})


@dataclass(frozen=True, slots=True)
class KnownCore:
    """extras: what it has beyond Armv7-M (or Armv6-M) and the board's `isa`: fpv5, v8m, v8.1m. unicorn: the constant
    of unicorn's model. renode: Renode's name of it; traced: the name to trace it under, where that is another;
    not_in_renode: why it is not there. code: the core that the same code is compiled for, where only the pipeline
    differs. priority_mask: the bits of an interrupt priority that count. cached: it has caches that startup code has
    to switch on."""

    extras: frozenset[str] = frozenset()
    unicorn: str = ""
    renode: str = ""
    traced: str = ""
    not_in_renode: str = ""
    code: str = ""
    priority_mask: int = 0xF0
    cached: bool = False


CORES: Mapping[str, KnownCore] = MappingProxyType(
    {
        "cortex-m0": KnownCore(unicorn="UC_CPU_ARM_CORTEX_M0", renode="cortex-m0", priority_mask=0xC0),
        # Renode finds the instructions of a trace by a disassembler that knows no `cortex-m0+`; its core of that name
        # is the one it has for `cortex-m3`.
        "cortex-m0plus": KnownCore(renode="cortex-m0+", traced="cortex-m3", priority_mask=0xC0),
        "cortex-m1": KnownCore(),
        "cortex-m3": KnownCore(unicorn="UC_CPU_ARM_CORTEX_M3", renode="cortex-m3"),
        "cortex-m4": KnownCore(unicorn="UC_CPU_ARM_CORTEX_M4", renode="cortex-m4"),
        "cortex-m7": KnownCore(frozenset({"fpv5"}), "UC_CPU_ARM_CORTEX_M7", "cortex-m7", cached=True),
        "cortex-m33": KnownCore(_V8M, "UC_CPU_ARM_CORTEX_M33", "cortex-m33"),
        "cortex-m35p": KnownCore(_V8M),
        "cortex-m52": KnownCore(_V81M),
        "cortex-m55": KnownCore(
            _V81M, not_in_renode="Renode 1.16 lacks instructions of Armv8.1-M: LSRL and the other shifts of 64 bits"
        ),
        "cortex-m85": KnownCore(_V81M),
        "riscv32imc": KnownCore(renode="rv32imc_zicsr_zifencei"),
        "riscv32imc_zve32x": KnownCore(not_in_renode="Renode 1.16 is not known to run vectors of Zve32x"),
        "hazard3": KnownCore(renode="rv32imac_zicsr_zifencei_zba_zbb_zbs", extras=frozenset({"rv32a"})),
        "esp32-c3": KnownCore(renode="rv32imc_zicsr_zifencei", code="riscv32imc"),
        "esp32-c6": KnownCore(frozenset({"rv32a"}), renode="rv32imac_zicsr_zifencei", code="riscv32imc"),
    }
)
UNKNOWN = KnownCore(_V81M)  # a core that is not in the table may have any instruction


def core_named(name: str) -> KnownCore:
    """What is known of the core; of one that is not in the table, nothing."""
    return CORES.get(name, UNKNOWN)
