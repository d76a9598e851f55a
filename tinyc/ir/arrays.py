# SPDX-License-Identifier: Apache-2.0
"""Arrays of .npy and .npz files, which come from anywhere: no pickle, nothing larger than it says, no surprise.

Format: numpy.lib.format. A header is Python text that NumPy evaluates as a literal; it is read before any memory is
taken for the array.
"""

from __future__ import annotations

import io
import lzma
import math
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from tinyc.base.errors import Loc, TinycError
from tinyc.base.escape import visible
from tinyc.ir.graph import Array

MAX_BYTES = 1 << 31  # of all arrays in a file: 3,500 pictures of 224 x 224 in floats
MAX_ARRAYS = 4096  # in a file
MAX_RANK = 16
ONLY = "arr_0"  # what the array of an .npy file is called
_MOST_HEADER = 1 << 14  # NumPy itself takes 10,000 bytes
_MAGIC = b"\x93NUMPY"
_HINT = "write it with numpy.savez"


def load_npz(path: Path) -> dict[str, Array]:
    """Every array of an .npz (or the one of an .npy) file.

    TinycError, with the array's name, if the file is missing or none of these, or an array is damaged, pickled, or
    together with the others larger than MAX_BYTES.
    """
    where = Loc(str(path))
    try:
        if not path.is_file():
            what = "this is no file" if path.exists() else "there is no such file"
            raise TinycError(what, where, "give an .npz or .npy file")
        with path.open("rb") as file:
            if file.read(len(_MAGIC)) == _MAGIC:
                file.seek(0)
                return {ONLY: _array(file, path.stat().st_size, ONLY, where)}
            return _archive(file, where)
    except OSError as error:
        raise TinycError(f"the file cannot be read: {error.strerror or error}", where, _HINT) from error


def named(held: Mapping[str, Array], name: str) -> Array | None:
    """The array of a tensor; None: there is none, or more than one may be it.

    A TFLite file may say many names of a tensor, parted by `;`. Its first is the tensor's; LiteRT tells all of them.
    """
    arrays = [held[name]] if name in held else [array for key, array in held.items() if key.partition(";")[0] == name]
    return arrays[0] if len(arrays) == 1 else None


def _archive(file: IO[bytes], where: Loc) -> dict[str, Array]:
    try:
        with zipfile.ZipFile(file) as archive:
            return _members(archive, where)
    except (zipfile.BadZipFile, ValueError, NotImplementedError, EOFError) as error:  # of its table of contents
        raise TinycError("this is not a readable .npz file of numbers", where, _HINT) from error


def _members(archive: zipfile.ZipFile, where: Loc) -> dict[str, Array]:
    members = [member for member in archive.infolist() if member.filename.endswith(".npy")]
    total = sum(member.file_size for member in members)
    if total > MAX_BYTES or len(members) > MAX_ARRAYS:
        message = f"the file holds {len(members):,} arrays of {total:,} bytes; at most {MAX_ARRAYS:,} of {MAX_BYTES:,}"
        raise TinycError(message, where, "give fewer samples")
    by_name: dict[str, Array] = {}
    for member in members:
        name = member.filename.removesuffix(".npy")
        if name in by_name:
            raise TinycError(f"the file holds two arrays '{visible(name)}'", where, _HINT)
        try:
            with archive.open(member) as stream:
                by_name[name] = _array(stream, member.file_size, name, where)
        except (
            *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, OSError, EOFError, ValueError),
            *(NotImplementedError, RuntimeError),  # a method that this Python lacks; a password
        ) as error:
            raise TinycError(f"array '{visible(name)}' cannot be read: {visible(error)}", where, _HINT) from error
    return by_name


def _array(stream: IO[bytes], size: int, name: str, where: Loc) -> Array:
    """The array at the stream's start, which fills its `size` bytes."""
    said = f"array '{visible(name)}'"
    start = io.BytesIO(stream.read(_MOST_HEADER))
    shape, fortran_order, dtype = _header(start, said, where)
    if dtype.hasobject:
        message = f"{said} holds Python objects, which are never loaded: they may run programs"
        raise TinycError(message, where, "save arrays of numbers")
    needed, there = math.prod(shape) * dtype.itemsize, size - start.tell()
    if needed != there or needed > MAX_BYTES:
        message = f"{said} {list(shape)} needs {needed:,} bytes, the file has {there:,} for it; at most {MAX_BYTES:,}"
        raise TinycError(message, where, _HINT)
    data = start.read(needed)
    data += stream.read(needed - len(data))
    if len(data) != needed or start.read(1) or stream.read(1):  # at the end the archive compares the checksum
        raise TinycError(f"{said} has another size than the file says", where, _HINT)
    return np.frombuffer(bytearray(data), dtype).reshape(shape, order="F" if fortran_order else "C")


def _header(start: io.BytesIO, said: str, where: Loc) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, whether the last axis is the slowest, and dtype; `start` stands at the elements then."""
    try:
        version = np.lib.format.read_magic(start)
        read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}[version]
        shape, fortran_order, dtype = read(start)
    except Exception as error:  # whatever Python's parser raises for a literal
        raise TinycError(f"{said} is damaged: its header cannot be read", where, _HINT) from error
    if dtype.itemsize == 0 or len(shape) > MAX_RANK or not all(0 <= size < MAX_BYTES for size in shape):
        raise TinycError(f"{said} has an impossible shape or type", where, _HINT)
    return shape, fortran_order, dtype
