# SPDX-License-Identifier: Apache-2.0
"""What code executes: instructions and cycles, and how often each piece of a function runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field

from tinyc.base.dataclass import dataclass

CALL = ""  # the unit of what a call executes anyway

Often = Mapping[str, int]
"""How often code runs: a sum of counts, each times a unit. `{"": 2, "pair": 3}`: twice, and three times for each pair.
A label is a unit of its own until all jumps to it are known."""


@dataclass(frozen=True, slots=True)
class Work:
    """Executed instructions, and their cycles without wait states by the rules of the core they are written for.

    An int that is added stands for so many instructions of a cycle each.
    """

    instructions: int = 0
    cycles: int = 0

    def __add__(self, other: Work | int) -> Work:
        more = Work(other, other) if isinstance(other, int) else other
        return Work(self.instructions + more.instructions, self.cycles + more.cycles)

    __radd__ = __add__

    def __sub__(self, other: Work) -> Work:
        return Work(self.instructions - other.instructions, self.cycles - other.cycles)

    def __mul__(self, times: int) -> Work:
        return Work(self.instructions * times, self.cycles * times)

    __rmul__ = __mul__


def _plus(a: Often, b: Often, sign: int = 1) -> Often:
    sums = dict(a)
    for unit, count in b.items():
        sums[unit] = sums.get(unit, 0) + sign * count
    return {unit: count for unit, count in sums.items() if count}


def _times(often: Often, times: int | str) -> Often:
    if isinstance(times, int):
        return {unit: count * times for unit, count in often.items() if count * times}
    products: dict[str, int] = {}
    for unit, count in often.items():
        if unit != CALL and (unit[0] != "@" or "*" in unit):
            raise ValueError(f"what runs for each {unit} cannot run for each {times} of it")
        products[times if unit == CALL else f"{unit}*{times}"] = count
    return products


@dataclass(slots=True)
class _Loop:
    name: str
    entry: Often
    left: Often = field(default_factory=dict)  # how often it is left from within


class Flow:
    """Follows how often code runs while it is written: `now`, from jumps to labels and from loops that say how often
    they turn. Jumps to a label may come after it, so what labels count for is known at the end (`of`)."""

    def __init__(self) -> None:
        self.now: Often = {CALL: 1}
        self._jumps: dict[str, Often] = {}
        self._loops: list[_Loop] = []

    def label(self, name: str) -> None:
        self.now = _plus(self.now, {_unit(name): 1})

    def ends(self) -> None:
        """What follows is only reached by a label."""
        self.now = {}

    def jump(self, name: str, taken: Often) -> None:
        """`taken` of the runs so far go on at the label."""
        if all(loop.name != name for loop in self._loops):
            self._jumps[name] = _plus(self._jumps.get(name, {}), taken)
        self.now = _plus(self.now, taken, -1)

    def call(self, name: str) -> None:
        """All runs go on at the label and come back."""
        self._jumps[name] = _plus(self._jumps.get(name, {}), self.now)

    def leave(self, name: str) -> None:
        """All runs leave the innermost loop here, to go on at the label."""
        loop = self._loops[-1]
        loop.left = _plus(loop.left, loop.entry)
        self.jump(name, loop.entry)

    @contextmanager
    def loop(self, name: str, turns: int | str, of_call: bool) -> Iterator[None]:
        """What is written in the context turns so often each time, or (of_call) in all of a call."""
        loop = _Loop(name, self.now)
        self._loops.append(loop)
        self.now = _times({CALL: 1} if of_call else self.now, turns)
        yield
        self._loops.pop()
        self.now = _plus(loop.entry, loop.left, -1)

    @contextmanager
    def per(self, units: tuple[str, ...]) -> Iterator[None]:
        """What is written in the context runs for each of the units."""
        before, self.now = self.now, {}
        for unit in units:
            self.now = _plus(self.now, _times(before, unit))
        yield
        self.now = before

    def of(self, often: Often, by_label: dict[str, Often]) -> Often:
        """The same without labels. by_label: of labels, filled on the way."""
        sums: dict[str, int] = {}
        for unit, count in often.items():
            if not unit.startswith("@"):
                sums[unit] = sums.get(unit, 0) + count
                continue
            label, _, per = unit[1:].partition("*")
            if label not in by_label:
                by_label[label] = {}  # a jump back that no loop says how often it is taken counts for nothing
                by_label[label] = self.of(self._jumps.get(label, {}), by_label)
            runs = _times(by_label[label], count)
            for own, times in (_times(runs, per) if per else runs).items():
                sums[own] = sums.get(own, 0) + times
        return {unit: count for unit, count in sums.items() if count}


def _unit(label: str) -> str:
    return f"@{label}"
