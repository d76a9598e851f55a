# SPDX-License-Identifier: Apache-2.0
"""Registers for the values of straight-line code: the lowest that is free, and that of an operand that dies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence

from tinyc.loops.expression import Node, inner, operands


class NoRegisterError(Exception):
    """All registers hold values that are read later."""


class Registers:
    """Where values are, as instructions are written one after the other."""

    def __init__(self, pool: Sequence[str], reads: Mapping[Hashable, int]) -> None:
        """pool: free registers, those that are taken first in front. reads: how often each value is read."""
        self._pool, self._free = list(pool), list(pool)
        self._left = dict(reads)
        self._places: dict[Hashable, str] = {}

    def __getitem__(self, value: Hashable) -> str:
        """The register of a value."""
        return self._places[value]

    def define(self, value: Hashable, operands: Sequence[Hashable] = ()) -> str:
        """The register of a new value, which an instruction makes of these: that of the first that is not read again,
        if there is one. Raises NoRegisterError."""
        dead = []
        for operand in operands:
            self._left[operand] -= 1
            if not self._left[operand]:
                dead.append(self._places[operand])
        self._free = sorted([*self._free, *dead[1:]], key=self._pool.index)
        if not dead and not self._free:
            raise NoRegisterError
        self._places[value] = dead[0] if dead else self._free.pop(0)
        return self._places[value]


class Values:
    """Where the values of an expression are, for so many elements together, while its instructions are written.

    homes: where values are that last. pool: registers for all others.
    """

    def __init__(self, root: Node, homes: Mapping[Node, str], pool: Sequence[str], count: int = 1) -> None:
        self._homes = homes
        read = [each for node in inner(root) for each in self._inner(node)]
        self._registers = Registers(pool, Counter((each, k) for each in (*read, root) for k in range(count)))

    def __getitem__(self, value: tuple[Node, int]) -> str:
        """The register of a node's value, of an element."""
        return self._registers[value]

    def load(self, node: Node, element: int = 0) -> str:
        """The register for a value that is loaded."""
        return self._registers.define((node, element))

    def define(
        self, node: Node, element: int = 0, last: Callable[[Node], bool] = lambda _: False
    ) -> tuple[str, Mapping[Node, str]]:
        """The register for the value of a node, and where its operands are. last: whether the value takes the place of
        another operand before that of this one. Raises NoRegisterError."""
        read = self._inner(node)
        places = {**self._homes, **{each: self._registers[each, element] for each in read}}
        return self._registers.define((node, element), [(each, element) for each in sorted(read, key=last)]), places

    def _inner(self, node: Node) -> Sequence[Node]:
        """Operands that do not last."""
        return [each for each in operands(node) if each not in self._homes]
