# SPDX-License-Identifier: Apache-2.0
"""Functions in assembly of a set whose instructions have one length: each is a line as it is written, in its order, and
labels are the assembler's local ones."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from tinyc.machine.assembly import Assembly, call_frame, naked_text, string
from tinyc.machine.instruction import Instruction
from tinyc.machine.lines import MNEMONIC, Label, Line, Note
from tinyc.machine.op import Decoded
from tinyc.machine.operands import Immediate
from tinyc.machine.work import CALL, Often, Work

BYTES = 4  # of an instruction
_BACKWARD = Immediate(-BYTES)


def goes_back(op: Decoded) -> bool:
    """Whether a branch of `PlainAsm` goes to a label before it."""
    return op.operands[-1:] == (_BACKWARD,)


def _never(op: Decoded) -> bool:
    return False


class PlainAsm(Assembly):
    """The instructions of one function. parse: reads one. may_save: whether one stores a register that may be the
    caller's on the stack. within: a macro that the text is an argument of."""

    def __init__(
        self,
        parse: Callable[[Instruction], Decoded],
        may_save: Callable[[Decoded], bool] = _never,
        within: str = "",
    ) -> None:
        super().__init__()
        self._parse, self._may_save, self._within = parse, may_save, within
        self._counted: tuple[int, Sequence[tuple[Often, int, int]]] = 0, ()  # of how many items; and their `_sums`

    def op(self, name: str, *operands: str) -> None:
        """One instruction: `op("lw", "t0", "4(a0)")`."""
        line = _line(self._parse, self._may_save, name, operands)
        self._add(line)
        if line.taken:
            self._flow.ends()

    def branch(self, name: str, label: str, *operands: str) -> None:
        """A branch to a label, defined before or after. Forward, one with a condition is counted as not taken."""
        distance = str(-BYTES if label in self._seen else BYTES)  # all that a core's rules ask of it
        op = self._parse(Instruction(0, bytes(BYTES), name, ", ".join((*operands, distance))))
        self._number(label)
        before = "".join(f"{operand}, " for operand in operands)
        taken = label in self._seen or not op.conditional
        self._add(Line(op, f"{name + ' ':<{MNEMONIC}}{before}", label, taken=taken, moves=True))
        self._flow.jump(label, {} if op.conditional else self._flow.now)

    def enter(self, name: str) -> None:
        """A place that code elsewhere comes back to: what follows runs as often as what is written before it."""
        self._place(name, aligned=False)

    def _cycles(self, op: Decoded, last: Decoded | None) -> int:
        """Of an instruction behind another one."""
        return 1

    def unwinding(self) -> Mapping[int, Sequence[str]]:
        """What a debugger has to know from an item on, by its number; nothing while the stack stays as it is."""
        return {}

    # ---- what it comes to ----

    def work(self, unit: str = CALL) -> Work:
        """What a call executes; with a unit, what it executes beside for each of these."""
        if self._counted[0] != len(self._items):
            self._counted = len(self._items), tuple(self._sums())
        by_label: dict[str, Often] = {}
        instructions = cycles = 0
        for often, count, cost in self._counted[1]:
            times = self._flow.of(often, by_label).get(unit, 0)
            instructions += times * count
            cycles += times * cost
        return Work(instructions, cycles)

    def _sums(self) -> Iterable[tuple[Often, int, int]]:
        """(how often, instructions, cycles) of the lines that run equally often, each run once."""
        sums: dict[int, tuple[Often, int, int]] = {}
        last: Decoded | None = None
        for item, often in zip(self._items, self._often, strict=True):
            if isinstance(item, Line):
                _, count, cycles = sums.get(id(often), (often, 0, 0))
                sums[id(often)] = often, count + 1, cycles + self._cycles(item.op, last)
                last = item.op
        return sums.values()

    @property
    def code_bytes(self) -> int:
        return BYTES * sum(isinstance(item, Line) for item in self._items)

    # ---- text ----

    def body(self) -> list[str]:
        """The lines of the function as C strings, with comments between."""
        told = self.unwinding()
        return [line for number in range(len(self._items) + 1) for line in self._printed(number, told.get(number, ()))]

    def _printed(self, number: int, told: Sequence[str]) -> Iterator[str]:
        """What a debugger is told before the item, and the item; behind the last one, what is told there."""
        yield from map(call_frame, told)
        if number == len(self._items):
            return
        item = self._items[number]
        if isinstance(item, Note):
            yield f"        /* {item.text} */"
        elif isinstance(item, Label):
            yield from (string(".p2align 2"),) if item.aligned else ()
            yield string(f"{self._number(item.name)}:")
        elif item.label:
            yield string(f"{item.text}{self._number(item.label)}{'b' if goes_back(item.op) else 'f'}")
        else:
            yield string(item.text)

    def function(self, name: str, parameters: Sequence[str]) -> str:
        body = self.body()
        return naked_text(name, parameters, [f"        {self._within}(", *body, "        )"] if self._within else body)


@functools.lru_cache(maxsize=1 << 14)
def _line(
    parse: Callable[[Instruction], Decoded],
    may_save: Callable[[Decoded], bool],
    name: str,
    operands: tuple[str, ...],
) -> Line:
    written = ", ".join(operands)
    op = parse(Instruction(0, bytes(BYTES), name, written))
    moves = op.leaves or "sp" in op.writes or may_save(op)
    return Line(op, f"{name + ' ':<{MNEMONIC}}{written}".rstrip(), taken=op.leaves, moves=moves)
