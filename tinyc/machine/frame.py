# SPDX-License-Identifier: Apache-2.0
"""The stack of a function: words by name, beside what the function saved."""

from __future__ import annotations

from collections.abc import Iterable

SAVED = 9  # registers of `push {r4-r11, lr}`


class Frame:
    """Words at fixed places from the stack pointer, the first at the bottom, or above `below` bytes; `above` bytes
    follow. The stack pointer stays a multiple of 8 with `saved` registers pushed before."""

    def __init__(
        self, names: Iterable[str], below: int = 0, above: int = 0, saved: int = SAVED, first: str = "[sp]"
    ) -> None:
        names = tuple(names)
        self._first = first
        self._places = {name: below + 4 * number for number, name in enumerate(names)}
        self.top = below + 4 * len(names)  # where what is above begins
        size = self.top + above
        self.size = size + -(size + 4 * saved) % 8

    def place(self, name: str) -> int:
        """Bytes from the stack pointer."""
        return self._places[name]

    def at(self, name: str) -> str:
        """The operand of a load or store."""
        return f"[sp, #{self._places[name]}]" if self._places[name] else self._first

    @property
    def words(self) -> tuple[tuple[str, str], ...]:
        """Every word's name and operand."""
        return tuple((name, self.at(name)) for name in self._places)
