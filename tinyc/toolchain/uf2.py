# SPDX-License-Identifier: Apache-2.0
"""UF2, the file format of boot loaders that appear as a drive (github.com/microsoft/uf2): blocks of 512 bytes that say
themselves where they belong."""

from __future__ import annotations

import hashlib
import struct

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import Loc, TinycError
from tinyc.toolchain.image import ERASED, Image

BLOCK = 512
_BEGIN = struct.pack("<2I", 0x0A324655, 0x9E5D5157)
_END = struct.pack("<I", 0x0AB16F30)
_HEAD = struct.Struct("<8I")
_DATA = BLOCK - _HEAD.size - len(_END)
_PAYLOAD = 256
_NOT_FLASH, _CONTAINER, _FAMILY, _MD5 = 0x1, 0x1000, 0x2000, 0x4000
_MOST_BYTES = 1 << 26  # of an image: more than any board's flash
_AGAIN = "make the file again"


def uf2(image: Image, family: int) -> bytes:
    """The image as a UF2 file: 256 bytes of payload in each block, with a family id."""
    padded = image.data + bytes(-len(image.data) % _PAYLOAD)
    count = len(padded) // _PAYLOAD
    blocks = []
    for number in range(count):
        payload = padded[number * _PAYLOAD :][:_PAYLOAD]
        address = image.origin + number * _PAYLOAD
        head = _BEGIN + struct.pack("<6I", _FAMILY, address, _PAYLOAD, number, count, family)
        blocks.append(head + payload.ljust(_DATA, b"\0") + _END)
    return b"".join(blocks)


@dataclass(frozen=True, slots=True)
class _Block:
    """A block that belongs to the board: its place among the blocks, and what it brings where."""

    number: int
    count: int
    address: int
    payload: bytes
    digest: tuple[int, int, bytes] | None  # of a region: address, bytes, MD5


def read_uf2(data: bytes, family: int, where: Loc) -> Image:
    """What a UF2 file brings to a board of that family, as one piece; gaps are as erased flash.

    Blocks of other families, and those that are not for the flash, are left out, as boot loaders do. Raises TinycError
    for a file that is damaged: bytes that are no block, a block that is missing or there twice, two for one address, a
    region that does not have its checksum; and where nothing is for the board.
    """
    if not data or len(data) % BLOCK:
        raise TinycError(f"this is no UF2 file: {len(data)} bytes are no blocks of {BLOCK}", where, _AGAIN)
    blocks: dict[int, _Block] = {}
    for at in range(0, len(data), BLOCK):
        block = _read_block(data[at : at + BLOCK], at // BLOCK, family, where)
        if block is None:
            continue
        if block.number in blocks:
            raise TinycError(f"the UF2 file has block {block.number} twice", where, _AGAIN)
        blocks[block.number] = block
    if not blocks:
        hint = f"the board's family is 0x{family:08x}; is the file for another board?"
        raise TinycError("the UF2 file has nothing for this board", where, hint)
    counts = {block.count for block in blocks.values()}
    if len(counts) > 1 or len(blocks) != counts.pop():
        raise TinycError("the UF2 file does not have all of its blocks", where, _AGAIN)
    return _joined(list(blocks.values()), where)


def _read_block(block: bytes, index: int, family: int, where: Loc) -> _Block | None:
    """None for one that is not for the flash of such a board."""
    if not block.startswith(_BEGIN) or not block.endswith(_END):
        raise TinycError(f"block {index} of the UF2 file is damaged", where, _AGAIN)
    _, _, flags, address, size, number, count, its_family = _HEAD.unpack_from(block)
    if flags & (_NOT_FLASH | _CONTAINER) or not flags & _FAMILY or its_family != family:
        return None
    room = _DATA - (24 if flags & _MD5 else 0)
    if not 0 < size <= room or size % 4 or address % 4 or address + size > 1 << 32 or number >= count:
        raise TinycError(f"block {index} of the UF2 file is damaged", where, _AGAIN)
    begin = _HEAD.size
    digest = struct.unpack_from("<2I16s", block, begin + room) if flags & _MD5 else None
    return _Block(number, count, address, block[begin : begin + size], digest)


def _joined(blocks: list[_Block], where: Loc) -> Image:
    blocks.sort(key=lambda block: block.address)
    origin, end = blocks[0].address, blocks[-1].address + len(blocks[-1].payload)
    if end - origin > _MOST_BYTES:
        raise TinycError(f"the UF2 file is spread over {end - origin:,} bytes", where, _AGAIN)
    whole = bytearray([ERASED]) * (end - origin)
    taken = origin
    for block in blocks:
        if block.address < taken:
            raise TinycError(f"the UF2 file has two blocks for 0x{block.address:08x}", where, _AGAIN)
        taken = block.address + len(block.payload)
        whole[block.address - origin : taken - origin] = block.payload
    for address, size, digest in {block.digest for block in blocks if block.digest is not None}:
        region = bytes(whole[max(0, address - origin) :][:size])
        inside = origin <= address and address + size <= end
        if inside and hashlib.md5(region, usedforsecurity=False).digest() != digest:
            raise TinycError(f"the checksum of 0x{address:08x} in the UF2 file is not that of its bytes", where, _AGAIN)
    return Image(origin, bytes(whole))
