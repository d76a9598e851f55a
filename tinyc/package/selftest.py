# SPDX-License-Identifier: Apache-2.0
"""A made-up input and the digest of the outputs for it: a package carries both, to be checked where it was put.

Twin of templates/package/common/NAME_selftest.h.j2 and of the crate's tests/selftest.rs: byte i of input p is
37 i + 101 p + 11 modulo 256, made a number of the input's type; the digest is FNV-1a of 32 bits (Fowler, Noll, Vo).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tinyc.ir.graph import Array
from tinyc.run.native import Library, Port

_OFFSET, _PRIME = 2166136261, 16777619


def digest_of_run(library: Library) -> int:
    """Of all outputs, in order, of one run (the first after a reset) on the made-up input; of an incremental library
    after the first whole window."""
    digest = _OFFSET
    for output in library.run(*(_taken(library, index) for index in range(len(library.inputs))), real=False):
        for byte in np.ascontiguousarray(output).tobytes():
            digest = (digest ^ byte) * _PRIME % 2**32
    return digest


def _taken(library: Library, index: int) -> Array:
    """The made-up input of a port; of an incremental library the window that ends as many hops as fill it do."""
    port, hop = library.inputs[index], library.hop_rows
    if not hop:
        return synthetic(port, index)
    rows, size = library.rows, int(np.prod(port.sample_shape, dtype=np.int64))
    stream = synthetic_elements(port.dtype, index, -(-rows // hop) * hop * (size // rows))
    return stream[-size:].reshape(port.sample_shape)


def synthetic(port: Port, index: int) -> Array:
    """The input of a port."""
    count = int(np.prod(port.sample_shape, dtype=np.int64))
    return synthetic_elements(port.dtype, index, count).reshape(port.sample_shape)


def synthetic_elements(dtype: np.dtype[Any], index: int, count: int) -> Array:
    """[count] in the input's type: bytes, words with the byte twice, sixty-fourths for floats, bits, zeros."""
    byte = (37 * np.arange(count, dtype=np.int64) + 101 * index + 11) % 256
    numbers = {
        "int8": byte - 128,
        "uint8": byte & 1,  # a condition, perhaps
        "int16": byte * 257 - 32768,
        "uint16": byte * 257,
        "int32": byte * 0,  # an index, perhaps
        "uint32": byte * 0,
        "float32": (byte - 128) / 64,
    }[dtype.name]
    elements: Array = numbers.astype(dtype)
    return elements
