# SPDX-License-Identifier: Apache-2.0
"""Registers for the values of straight-line code: the lowest that is free, and that of an operand that dies."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence


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
