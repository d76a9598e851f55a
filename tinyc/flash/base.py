# SPDX-License-Identifier: Apache-2.0
"""What every way of flashing shares: the layout of a flash in sectors, progress, refusals before anything is erased."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import Loc, TinycError
from tinyc.toolchain.image import Image

Report = Callable[[str, int, int], None]  # what is done ("erase", "write", "verify"), bytes or sectors done, in all


def silent(what: str, done: int, total: int) -> None:
    """A Report that says nothing."""


@dataclass(frozen=True, slots=True)
class Manner:
    """How a chip is flashed. resume: sectors that hold their part of the image already are left alone. start: the
    firmware is started."""

    resume: bool = False
    start: bool = True
    report: Report = silent


PLAINLY = Manner()


class FlashError(TinycError):
    """A board that cannot be flashed as it is; exit code 1: the board answered, and the answer is no."""

    def __init__(self, message: str, where: Loc | None = None, hint: str = "", exit_code: int = 1) -> None:
        super().__init__(message, where, hint, exit_code)


@dataclass(frozen=True, slots=True)
class Sector:
    """What is erased at once. index: its number in the chip's own order."""

    index: int
    address: int
    size: int

    @property
    def end(self) -> int:
        return self.address + self.size


def sectors_of(origin: int, layout: Sequence[tuple[int, int]]) -> tuple[Sector, ...]:
    """The sectors of a flash from (count, bytes) pairs, in order of addresses."""
    sectors: list[Sector] = []
    address = origin
    for count, size in layout:
        for _ in range(count):
            sectors.append(Sector(len(sectors), address, size))
            address += size
    return tuple(sectors)


def sectors_under(image: Image, sectors: Iterable[Sector]) -> tuple[Sector, ...]:
    """The sectors that an image touches."""
    return tuple(s for s in sectors if s.address < image.end and image.origin < s.end)


def check_image(image: Image, origin: int, size: int, where: Loc) -> None:
    """Raises FlashError when an image is empty or does not lie in the flash of `size` bytes from `origin`."""
    if not image.data:
        raise FlashError("the image is empty", where)
    if image.origin < origin or image.end > origin + size:
        raise FlashError(
            f"the image takes 0x{image.origin:08x} to 0x{image.end - 1:08x}; "
            f"the board's flash is 0x{origin:08x} to 0x{origin + size - 1:08x}",
            where,
            "is it for another board? Nothing was erased",
        )
