# SPDX-License-Identifier: Apache-2.0
"""The constants of a library as one relocatable file, which a device may take anew without new code.

Little-endian, addresses relative to its first byte, which lies on a multiple of ALIGN:

    0   magic        "TCWB"
    4   format       uint16, FORMAT
    6   header       uint16, bytes of the header: HEADER
    8   bytes        uint32, of the whole file
    12  version      uint32, the user's own
    16  code         16 bytes: which code the constants are for, see `code_of`
    32  model        16 bytes, the first of the model file's SHA-256
    48  crc          uint32, CRC-32 (IEEE 802.3, as zlib's) of bytes [0, 48) and [64, bytes - 64)
    52  nothing      12 bytes
    64  constants    each on a multiple of 8
    -64 signature    Ed25519 (RFC 8032) of all bytes before it, or zeros

`tc_blob.h` reads it.
"""

from __future__ import annotations

import hashlib
import re
import struct
import zlib
from collections.abc import Mapping
from dataclasses import replace

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import Loc, TinycError
from tinyc.emit.constants import ConstantArray
from tinyc.emit.program import Blob, Program
from tinyc.emit.schedule import ROLES

MAGIC = b"TCWB"
FORMAT = 1
HEADER = 64
SIGNATURE = 64
ALIGN = 8
_SLOT = 16  # bytes of the arena: where the constants are, and the same address inverted
_HEAD = struct.Struct("<4sHHII16s16sI12x")
_CRC_AT = 48
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)


@dataclass(frozen=True, slots=True)
class BlobFile:
    """What a blob says of itself. signed: whether there is a signature, not whose."""

    version: int
    code: bytes
    model: bytes
    data: bytes

    @property
    def signed(self) -> bool:
        return any(self.data[-SIGNATURE:])

    @property
    def message(self) -> bytes:
        """What a signature is of."""
        return self.data[:-SIGNATURE]


def with_blob(program: Program) -> Program:
    """The program whose constants are apart from its code. Their address lies behind the arena."""
    slot = -(-program.arena_bytes // ALIGN) * ALIGN
    offsets, end = {}, HEADER
    for symbol in program.symbols:
        if _is_apart(symbol):
            offsets[symbol.name] = end
            end += -(-symbol.const.data.nbytes // ALIGN) * ALIGN
    return replace(program, arena_bytes=slot + _SLOT, blob=Blob(slot, offsets, end + SIGNATURE))


def code_of(files: Mapping[str, str], program: Program) -> bytes:
    """16 bytes that tell which constants a library's code can work with: the code without comments, and names, types
    and places of the constants.

    files: the library's text for an unnamed model, without the header of constants.
    """
    whole = hashlib.sha256()
    for name, text in sorted(files.items()):
        whole.update(f"{name}\n{_COMMENT.sub('', text)}\n".encode())
    assert program.blob is not None
    for symbol in program.symbols:
        if symbol.name in program.blob.offsets:
            data, at = symbol.const.data, program.blob.offsets[symbol.name]
            whole.update(f"{symbol.name} {data.dtype.str} {data.size} {at}\n".encode())
    return whole.digest()[:16]


def blob_bytes(program: Program, code: bytes, sha256: str) -> bytes:
    """The constants of the program as a file, version 0, without a signature."""
    assert program.blob is not None
    data = bytearray(program.blob.size_bytes)
    for symbol in program.symbols:
        if (at := program.blob.offsets.get(symbol.name)) is not None:
            held = symbol.const.data
            data[at : at + held.nbytes] = held.astype(held.dtype.newbyteorder("<")).tobytes()
    _HEAD.pack_into(data, 0, MAGIC, FORMAT, HEADER, len(data), 0, code, bytes.fromhex(sha256)[:16], 0)
    return _checked(data)


def read_blob(data: bytes, where: str) -> BlobFile:
    """What the file's header says. Raises TinycError where it is no blob, or damaged; where: its name."""
    hint = "give a file that `tinyc build --weights-blob` or `tinyc package` wrote"
    if len(data) < HEADER + SIGNATURE or data[:4] != MAGIC:
        raise TinycError("this is no file of weights", Loc(where), hint)
    _, form, header, size, version, code, model, crc = _HEAD.unpack_from(data)
    if (form, header) != (FORMAT, HEADER):
        raise TinycError(
            f"weights in format {form}, this tinyc knows {FORMAT}", Loc(where), "use the tinyc that wrote it"
        )
    if size != len(data) or crc != _crc(data):
        raise TinycError(f"damaged: the header tells {size:,} bytes and CRC {crc:08x}", Loc(where), hint)
    return BlobFile(version, code, model, data)


def numbered(blob: BlobFile, version: int) -> BlobFile:
    """The same constants with another version, unsigned. version: 0 to 2^32 - 1."""
    data = bytearray(blob.data)
    struct.pack_into("<I", data, 12, version)
    data[-SIGNATURE:] = bytes(SIGNATURE)
    return replace(blob, version=version, data=_checked(data))


def with_signature(blob: BlobFile, signature: bytes) -> BlobFile:
    """signature: Ed25519 of `message`."""
    if len(signature) != SIGNATURE:
        raise ValueError(f"a signature of {len(signature)} bytes")
    return replace(blob, data=blob.message + signature)


def _is_apart(symbol: ConstantArray) -> bool:
    """Whether a constant belongs to the model. What places rows, and rows of zero points, belong to the code."""
    return symbol.const.role not in ROLES and symbol.const.role != "pad"


def _checked(data: bytearray) -> bytes:
    struct.pack_into("<I", data, _CRC_AT, _crc(data))
    return bytes(data)


def _crc(data: bytes | bytearray) -> int:
    return zlib.crc32(data[HEADER:-SIGNATURE], zlib.crc32(data[:_CRC_AT]))
