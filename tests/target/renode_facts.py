# SPDX-License-Identifier: Apache-2.0
"""What Renode 1.16.1 has of what tinyc uses: peripherals with their parameters, commands with their arguments. From its
documentation and its sources; the stand-in refuses all else."""

from __future__ import annotations

import re
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Peripheral:
    """parameters: name -> kind (`number`, `flag`, `text`, or the type that the named entry must have). size: bytes on
    the bus, None when a parameter says it, 0 when it is not on the bus. outputs: its interrupts, by name or number."""

    parameters: dict[str, str]
    required: tuple[str, ...] = ()
    size: int | None = 0
    outputs: tuple[str, ...] = ()
    inputs: tuple[int, ...] = ()


NVIC, CLINT = "IRQControllers.NVIC", "IRQControllers.CoreLevelInterruptor"
CORTEX_M, RISCV = "CPU.CortexM", "CPU.RiscV32"
PERIPHERALS = {
    "Memory.MappedMemory": Peripheral({"size": "number"}, ("size",), None),
    NVIC: Peripheral(
        {"systickFrequency": "number", "priorityMask": "number", "haltSystickOnDeepSleep": "flag"},
        size=0x1000,
        outputs=("IRQ",),
    ),
    CORTEX_M: Peripheral({"cpuType": "text", "nvic": NVIC}, ("cpuType", "nvic"), inputs=(0,)),
    "Miscellaneous.DWT": Peripheral({"frequency": "number"}, ("frequency",), 0x1000),
    "UART.TrivialUart": Peripheral({}, size=4),
    CLINT: Peripheral({"frequency": "number"}, ("frequency",), 0x10000, ("0", "1")),
    RISCV: Peripheral({"cpuType": "text", "timeProvider": CLINT}, ("cpuType", "timeProvider"), inputs=(3, 7, 11)),
}

_ARM_CORES = ("m0", "m0+", "m1", "m23", "m3", "m33", "m4", "m4f", "m55", "m7", "m85")
_RISCV_CORE = re.compile(r"rv32[ieg][macfdbvsu]*((_z|_x)[a-z0-9]+)*")
# Those whose instructions its disassembler finds: the library has other names, or none.
_TRACED = {f"cortex-{name}" for name in _ARM_CORES} - {"cortex-m0+"}


def knows_core(kind: str, name: str) -> bool:
    """Whether the name may be a `cpuType` of that type of CPU."""
    return name in {f"cortex-{n}" for n in _ARM_CORES} if kind == CORTEX_M else bool(_RISCV_CORE.fullmatch(name))


def has_control_registers(name: str) -> bool:
    """RISC-V: instructions that reach them are an extension, which the name must have."""
    return "_zicsr" in name


def disassembles(name: str) -> bool:
    return name in _TRACED or name.startswith("rv32")


@dataclass(frozen=True)
class Members:
    """Of an object of the monitor: properties with their kind, and commands with the kinds of their arguments, those
    after `optional` in a list of their own. Kinds: `number`, `flag`, `text`, `seconds`, `file` (it is there), `new`
    (a file that Renode makes), `format`."""

    properties: dict[str, str] = field(default_factory=dict)
    commands: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = field(default_factory=dict)


_CPU = Members(
    {"PC": "number", "PerformanceInMips": "number", "ExecutedInstructions": "number"},
    {
        "CreateExecutionTracing": (("text", "new", "format"), ("flag", "flag", "flag")),
        "DisableExecutionTracing": ((), ()),
    },
)
READ_ONLY = ("ExecutedInstructions",)
FORMATS = ("PC", "Opcode", "PCAndOpcode", "Disassembly")
MEMBERS = {
    "mach": Members(commands={"create": (("text",), ())}),
    "machine": Members(commands={"LoadPlatformDescription": (("file",), ())}),
    "emulation": Members(
        commands={"SetGlobalQuantum": (("seconds",), ()), "SetGlobalAdvanceImmediately": (("flag",), ())}
    ),
    "sysbus": Members(
        commands={
            "LoadELF": (("file",), ()),
            "LoadBinary": (("file", "number"), ()),
            "GetSymbolAddress": (("text",), ()),
        }
    ),
    CORTEX_M: Members(_CPU.properties | {"VectorTableOffset": "number"}, _CPU.commands),
    RISCV: _CPU,
    "UART.TrivialUart": Members(commands={"CreateFileBackend": (("new",), ("flag",))}),
}
