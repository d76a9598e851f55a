# SPDX-License-Identifier: Apache-2.0
"""What loops over elements on Cortex-M with Thumb-2 share: a count that goes down, first by turns, then by less, and
the elements of a turn, which are all read before one is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tinyc.base.dataclass import dataclass
from tinyc.loops.expression import Element, Node, inner, result_type
from tinyc.loops.registers import Values
from tinyc.machine.thumb import Asm

CTYPES: Mapping[str, tuple[str, int]] = {"int8_t": ("sb", 1), "int16_t": ("sh", 2), "int32_t": ("", 4)}  # of loads
_STORED = {"sb": "b", "sh": "h"}


@dataclass(frozen=True, slots=True)
class ThumbLoop:
    """Where everything is that lasts, and how a node is written: (asm, node, register, registers of its operands).
    pointers: of inputs that move; pool: registers for all else."""

    root: Node
    homes: Mapping[Node, str]
    pointers: Mapping[Element, str]
    y: str
    pool: Sequence[str]
    node: Callable[[Asm, Node, str, Mapping[Node, str]], None]

    def write(self, asm: Asm, count: int, width: tuple[str, int] | None = None) -> None:
        """So many elements. width: of loads and stores, and bytes from one to the next; None: those of the types."""
        values = Values(self.root, self.homes, self.pool, count)
        for load, pointer in self.pointers.items():
            name, size = width or CTYPES[load.ctype]
            for k in range(count):
                asm.op(f"ldr{name}", values.load(load, k), f"[{pointer}]", f"#{size}")
        for node in inner(self.root):
            for k in range(count):
                self.node(asm, node, *values.define(node, k))
        name, size = width or CTYPES[result_type(self.root)]
        for k in range(count):
            asm.op(f"str{_STORED.get(name, name)}", values[self.root, k], f"[{self.y}]", f"#{size}")


@dataclass(frozen=True, slots=True)
class CountDown:
    """A loop of a count. label: of it; unit: of what it executes; size: what a turn takes off; says: its note."""

    label: str
    unit: str
    size: int
    says: str
    body: Callable[[], None]


def count_down(asm: Asm, stages: Sequence[CountDown], behind: Sequence[str], once: bool = False) -> None:
    """Stages after each other, each while r0 is at least its size; then back to the caller. behind: labels of what
    follows each. once: the last one is not repeated."""
    asm.op("subs", "r0", "r0", f"#{stages[0].size}")
    asm.branch("blt.w", behind[0])
    for number, (stage, label) in enumerate(zip(stages, behind, strict=True)):
        last = number == len(stages) - 1
        with asm.per(stage.unit) if last and once else asm.loop(stage.label, stage.unit, of_call=True):
            asm.note(stage.says)
            stage.body()
            if not (last and once):
                asm.op("subs", "r0", "r0", f"#{stage.size}")
                asm.branch("bne.w" if last else "bge.w", stage.label)
        asm.label(label)
        if not last:
            following = stages[number + 1].size if number + 2 < len(stages) else 0
            asm.op("adds", "r0", "r0", f"#{stage.size - following}")
            asm.branch("blt.w" if following else "beq.w", behind[number + 1])
    asm.note("return")
