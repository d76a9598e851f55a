# SPDX-License-Identifier: Apache-2.0
"""Memory in which every object is by itself, for `interpret.py`."""

from __future__ import annotations

import bisect
from collections.abc import Sequence

from tinyc.base.dataclass import dataclass


class Fault(Exception):  # noqa: N818 (it is the code that failed, not we)
    """Code did what it may not. Its text says what, and where."""


@dataclass(slots=True)
class Area:
    """The bytes of an object at an address."""

    name: str
    start: int
    data: bytearray
    writable: bool = True

    @property
    def end(self) -> int:
        return self.start + len(self.data)


class Bytes:
    """Memory that consists of objects. An access lies in one of them."""

    def __init__(self, areas: Sequence[Area]) -> None:
        self._areas = sorted(areas, key=lambda area: (area.start, -area.end))
        self._starts = [area.start for area in self._areas]
        self._last = self._areas[0]

    def _area(self, address: int, size: int) -> Area:
        """The object that holds all of the bytes; of several, which lie in each other, the innermost."""
        last = self._last
        if not (last.start <= address and address + size <= last.end):
            number = bisect.bisect_right(self._starts, address) - 1
            while number >= 0 and address + size > self._areas[number].end:
                number -= 1
            if number < 0:
                raise Fault(f"{size} bytes at {address:#x} are in no object")
            last = self._last = self._areas[number]
        return last

    def load(self, address: int, size: int) -> int:
        area = self._area(address, size)
        at = address - area.start
        return int.from_bytes(area.data[at : at + size], "little")

    def store(self, address: int, size: int, value: int) -> None:
        area = self._area(address, size)
        if not area.writable:
            raise Fault(f"writes to {area.name}, which is constant")
        at = address - area.start
        area.data[at : at + size] = (value & (1 << 8 * size) - 1).to_bytes(size, "little")
