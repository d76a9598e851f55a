# SPDX-License-Identifier: Apache-2.0
"""An instruction as text."""

from __future__ import annotations

from tinyc.base.dataclass import dataclass

UNKNOWN = ""  # the mnemonic of what the disassembler does not know: MVE, and loops of Armv8.1-M


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction. mnemonic: without width (`.w`) and condition; UNKNOWN for one that is not decoded.
    condition: `ne`, of a branch or from an IT block; empty when it always executes. code: its bytes."""

    address: int
    code: bytes
    mnemonic: str
    operands: str
    condition: str = ""

    @property
    def size(self) -> int:
        """Bytes: 2 or 4."""
        return len(self.code)

    @property
    def end(self) -> int:
        return self.address + len(self.code)

    def __str__(self) -> str:
        if self.mnemonic == UNKNOWN:
            return f".inst 0x{self.code[1::-1].hex()}{self.code[:1:-1].hex()}"
        name, dot, types = self.mnemonic.partition(".")
        return f"{name}{self.condition}{dot}{types} {self.operands}".rstrip()
