# SPDX-License-Identifier: Apache-2.0
"""Flashing an STM32 by the bootloader in its ROM.

Nothing is erased before the chip is known to be the board's, and the image to fit. What was written is read back, and a
sector that does not hold its part of the image is erased and written once more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import Loc
from tinyc.board.parts import Flashing
from tinyc.flash.base import PLAINLY, FlashError, Manner, Report, Sector, check_image, sectors_of, sectors_under
from tinyc.flash.stm32_commands import COMMAND, Bootloader, Chip, Command, CommandRefused, SerialLine
from tinyc.toolchain.image import ERASED, Image

BLOCK = 256  # bytes of one read or write
ROUNDS = 3  # of erasing and writing a sector
READS = 3  # of what seems to be wrong: the line may have damaged it


@dataclass(frozen=True, slots=True)
class FlashedSectors:
    """Sectors that were erased and written, and those that held the image already. started: the chip said that it
    starts the firmware."""

    chip_id: int
    erased: int
    unchanged: int
    started: bool


def flash_stm32(
    line: SerialLine, flashing: Flashing, flash_origin: int, image: Image, manner: Manner = PLAINLY
) -> FlashedSectors:
    """Erases the sectors under the image, writes it, reads it back, and starts it.

    Raises FlashError before anything is
    erased when the chip is another one or protected, or the image does not fit it; and after, unless every byte of the
    image was read back from the chip.
    """
    bootloader, report = Bootloader(line), manner.report
    where = Loc(line.port)
    chip = bootloader.connect()
    for _ in range(READS):
        if not _suits(chip, flashing):
            chip = bootloader.identify()
    sectors = _check(bootloader, chip, flashing, flash_origin, image, where)
    under_image = sectors_under(image, sectors)
    stale = tuple(_differences(bootloader, image, under_image, "compare", report)) if manner.resume else under_image
    wrong = {sector: sector.address for sector in stale}
    for _ in range(ROUNDS if wrong else 0):
        _write_sectors(bootloader, image, tuple(wrong), Command.EXTENDED_ERASE in chip.commands, report)
        wrong = _differences(bootloader, image, under_image, "verify", report)
        if not wrong:
            break
    if wrong:
        raise _not_there(bootloader, image, min(wrong.values()), where)
    started = manner.start and bootloader.go(image.origin)
    return FlashedSectors(chip.chip_id, len(stale), len(under_image) - len(stale), started)


def _suits(chip: Chip, flashing: Flashing) -> bool:
    return chip.chip_id in flashing.chip_ids and bool({Command.EXTENDED_ERASE, Command.ERASE} & chip.commands)


def _write_sectors(
    bootloader: Bootloader, image: Image, sectors: Sequence[Sector], extended: bool, report: Report
) -> None:
    for number, sector in enumerate(sectors):
        report("erase", number, len(sectors))
        bootloader.erase(sector.index, extended)
    report("erase", len(sectors), len(sectors))
    _write_blocks(bootloader, [block for sector in sectors for block in _blocks(image, sector)], report)


def _check(
    bootloader: Bootloader, chip: Chip, flashing: Flashing, origin: int, image: Image, where: Loc
) -> tuple[Sector, ...]:
    """The chip's sectors; raises FlashError when it is not the board's, is protected, or the image does not fit."""
    if chip.chip_id not in flashing.chip_ids:
        ids = ", ".join(f"0x{one:03x}" for one in flashing.chip_ids)
        raise FlashError(
            f"the chip says that it is 0x{chip.chip_id:03x}; the board has {ids}",
            where,
            "is it another board? Nothing was erased",
        )
    sectors = sectors_of(origin, flashing.sectors)
    size = sectors[-1].end - origin
    check_image(image, origin, size, where)
    if Command.EXTENDED_ERASE not in chip.commands and Command.ERASE not in chip.commands:
        raise FlashError("its bootloader cannot erase", where)
    try:
        bootloader.read(origin, 4)
    except CommandRefused as error:
        if error.step != COMMAND:
            raise
        raise FlashError(
            "the chip's flash is protected against reading",
            where,
            "ST's STM32CubeProgrammer removes the protection, which erases the chip. Nothing was erased",
        ) from error
    there = [
        kilobytes for _ in range(READS) if (kilobytes := _flash_size(bootloader, flashing.size_register)) is not None
    ]
    if there:
        check_image(image, origin, min(size, max(there)), where)
    return sectors


def _flash_size(bootloader: Bootloader, register: int) -> int | None:
    """Bytes, from the chip's own register; None where it cannot be read: some bootloaders refuse it."""
    if register == 0:
        return None
    try:
        kib = int.from_bytes(bootloader.read(register, 2), "little")
    except FlashError:
        return None
    return kib * 1024 if kib not in (0, 0xFFFF) else None


def _blocks(image: Image, sector: Sector) -> list[tuple[int, bytes]]:
    """Address and bytes of the writes in a sector; what is all 0xFF is as erased."""
    return [(at, data) for _, at, data in _pieces(image, sector) if data.strip(bytes([ERASED]))]


def _differences(
    bootloader: Bootloader, image: Image, sectors: Iterable[Sector], what: str, report: Report
) -> dict[Sector, int]:
    """The sectors that do not hold their part of the image, each with the address of the block that differs first."""
    differences: dict[Sector, int] = {}
    pieces = [piece for sector in sectors for piece in _pieces(image, sector)]
    for number, (sector, at, data) in enumerate(pieces):
        report(what, number, len(pieces))
        if sector not in differences and not bootloader.holds(at, data):
            differences[sector] = at
    report(what, len(pieces), len(pieces))
    return differences


def _pieces(image: Image, sector: Sector) -> list[tuple[Sector, int, bytes]]:
    """The image's bytes in a sector, as blocks with their address."""
    first, last = max(image.origin, sector.address), min(image.end, sector.end)
    return [(sector, at, _part(image, at, min(at + BLOCK, last))) for at in range(first, last, BLOCK)]


def _part(image: Image, first: int, last: int) -> bytes:
    return image.data[first - image.origin : last - image.origin]


def _write_blocks(bootloader: Bootloader, blocks: Sequence[tuple[int, bytes]], report: Report) -> None:
    total = sum(len(data) for _, data in blocks)
    done = 0
    for address, data in blocks:
        report("write", done, total)
        bootloader.write(address, data)
        done += len(data)
    report("write", total, total)


def _not_there(bootloader: Bootloader, image: Image, at: int, where: Loc) -> FlashError:
    expected = _part(image, at, min(at + BLOCK, image.end))
    reads = [bootloader.read(at, len(expected)) for _ in range(READS)]
    wrong = [i for i, byte in enumerate(expected) if all(read[i] != byte for read in reads)]
    if not wrong:
        return FlashError(
            f"what was written cannot be read back: at 0x{at:08x} each read gives other bytes",
            where,
            "the line damages bytes: try a lower --baud, a shorter cable",
        )
    first = wrong[0]
    byte = f"0x{reads[0][first]:02x}, not 0x{expected[first]:02x}"
    return FlashError(
        f"what was written is not there: at 0x{at + first:08x} is {byte}",
        where,
        "flash it again; if the address stays the same, that part of the flash is worn, or protected against writing "
        "(STM32CubeProgrammer shows and removes that)",
    )


__all__ = ("FlashedSectors", "flash_stm32")
