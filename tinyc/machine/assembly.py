# SPDX-License-Identifier: Apache-2.0
"""A function in assembly of any core, while it is written: instructions, labels, comments, and how often each runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tinyc.machine.lines import Label, Line, Note
from tinyc.machine.unwind import Mark
from tinyc.machine.work import CALL, Flow, Often, Work

_LONG_STRING = """#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Woverlength-strings"
"""  # C99 asks compilers for 4095 characters; clang warns beyond, with -Wpedantic


class Assembly:
    """The instructions of one function.

    Loops are written within `loop`, which says how often they turn; a branch forward with a condition says how often
    it is taken, if that is worth counting.
    """

    def __init__(self) -> None:
        self._items: list[Line | Label | Note] = []
        self._flow = Flow()
        self._often: list[Often] = []  # of each item
        self._labels: dict[str, int] = {}
        self._seen: set[str] = set()

    @property
    def items(self) -> Sequence[Line | Label | Note]:
        """All of the function, in order."""
        return self._items

    def _add(self, item: Line | Label | Note) -> None:
        self._items.append(item)
        self._often.append(self._flow.now)

    def note(self, text: str) -> None:
        """A comment on a line of its own: what comes now."""
        self._add(Note(text))

    def label(self, name: str, aligned: bool = False) -> None:
        """A branch target. aligned: on a word, for loops (unaligned 32-bit instructions fetch slower)."""
        self._place(name, aligned)
        self._flow.label(name)

    def _place(self, name: str, aligned: bool) -> None:
        self._add(Label(name, aligned))
        self._number(name)
        self._seen.add(name)

    @contextmanager
    def loop(self, name: str, turns: int | str, aligned: bool = True, of_call: bool = False) -> Iterator[None]:
        """A loop that begins here; the branch back to `name` is written within the context.

        turns: each time that it is entered, or with of_call in all of a call; a unit (`pair`) where the caller says
        how often that is: it turns once for each.
        """
        self._place(name, aligned)
        with self._flow.loop(name, turns, of_call):
            yield

    @contextmanager
    def per(self, *units: str) -> Iterator[None]:
        """What is written in the context is run once for each of the units where what is around it is run once."""
        with self._flow.per(units):
            yield

    def executions(self, unit: str = CALL) -> list[int]:
        """How often each item runs in a call."""
        by_label: dict[str, Often] = {}
        return [self._flow.of(often, by_label).get(unit, 0) for often in self._often]

    def units(self) -> frozenset[str]:
        """For each of what something in it runs, the call among them."""
        by_label: dict[str, Often] = {}
        return frozenset(unit for often in self._often for unit in self._flow.of(often, by_label))

    def work(self, unit: str = CALL) -> Work:
        """What a call executes; with a unit, what it executes beside for each of these."""
        raise NotImplementedError

    @property
    def code_bytes(self) -> int:
        """Bytes of the function."""
        raise NotImplementedError

    def function(self, name: str, parameters: Sequence[str]) -> str:
        """The C text of the naked function."""
        raise NotImplementedError

    def marks(self) -> Sequence[Mark]:
        """What matters for finding the caller."""
        return [
            Mark(number, item.name) if isinstance(item, Label) else Mark(number, item.label, item.op)
            for number, item in enumerate(self._items)
            if isinstance(item, Label) or (isinstance(item, Line) and (item.moves or item.label))
        ]

    def _number(self, name: str) -> int:
        return self._labels.setdefault(name, len(self._labels) + 1)


def naked_text(name: str, parameters: Sequence[str], body: Sequence[str]) -> str:
    """The C text of a function whose body is these lines of assembly, C strings already."""
    declared = ",\n    ".join(f"{parameter} TC_UNUSED" for parameter in parameters)
    lines = "\n".join(body)
    function = f"static TC_NAKED void {name}(\n    {declared})\n{{\n    __asm__ volatile(\n{lines});\n}}\n"
    return _LONG_STRING + function + "#pragma GCC diagnostic pop\n"


def string(line: str) -> str:
    """A line of assembly as a C string."""
    return f'        "{line:<34}\\n"'


def call_frame(line: str) -> str:
    """What the assembler is told of a function's caller, where it takes that."""
    return f'        TC_CFI("{line}")'
