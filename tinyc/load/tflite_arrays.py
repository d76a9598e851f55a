# SPDX-License-Identifier: Apache-2.0
"""A tensor's dtype, quantization and elements as the graph has them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tinyc.base.errors import Loc, TinycError
from tinyc.base.limits import MAX_ELEMENTS, MAX_STORED, check_shape
from tinyc.ir.graph import INT_RANGE, NUMPY_DTYPE, Array, DType, Quant, read_only
from tinyc.load.tflite_file import StoredTensor
from tinyc.load.tflite_sparse import Sparsity
from tinyc.ops.signals import COUNT

UNSIGNED_SHIFT = 128  # what is taken from the integers and zero points of uint8 tensors, which are held as int8
PIXELS = Quant((1.0,), (-UNSIGNED_SHIFT,))  # of uint8 that stands for itself
_SMALLEST = float(np.finfo(np.float32).smallest_subnormal)

DTYPES: dict[str, DType] = {
    "FLOAT32": "f32",
    "INT4": "s4",
    "INT8": "s8",
    "UINT8": "s8",
    "INT16": "s16",
    "INT32": "s32",
    "INT64": "s64",
    "UINT32": "u32",
    "UINT64": "u64",
    "BOOL": "bool",
}


def dtype_of(tensor: StoredTensor, where: Loc | None) -> DType:
    """The tensor's dtype; float16 constants are widened to f32. TinycError for one that tinyc lacks."""
    if tensor.type == "FLOAT16" and tensor.data is not None:
        return "f32"
    if tensor.type not in DTYPES:
        hint = (
            "supported are float32, int4, int8, uint8, int16, int32, int64, bool, and uint32 between signal operators"
        )
        raise TinycError(f"tensor '{tensor.name}' has type {tensor.type}", where, hint)
    return DTYPES[tensor.type]


def is_unsigned(tensor: StoredTensor) -> bool:
    """Whether the file has uint8 where the graph has int8."""
    return tensor.type == "UINT8"


def is_unscaled(tensor: StoredTensor, dtype: DType) -> bool:
    """Whether the tensor holds samples or tables of a signal: int16 that stand for themselves."""
    return dtype == "s16" and len(tensor.scale) == 0


def quant_of(tensor: StoredTensor, dtype: DType, axis: int | None = None) -> Quant | None:
    """The tensor's quantization, None if it has none. `axis`: where it is known better than in the file.

    Not yet checked against shape and range: `check_value` does that.
    """
    scale, zero = tensor.scale, tensor.zero
    if is_unscaled(tensor, dtype):
        return COUNT
    if is_unsigned(tensor) and len(scale) == 0 and tensor.data is None:  # pixels that stand for themselves
        return PIXELS
    if len(scale) == 0 or dtype in ("f32", "bool", "s64", "u32", "u64"):
        return None
    if len(scale) > max((1, *tensor.shape)) or len(zero) not in (0, len(scale)):
        raise TinycError(f"tensor '{tensor.name}' has {len(scale)} scales and {len(zero)} zero points")
    scales = _positive(tensor, dtype)
    moved = UNSIGNED_SHIFT if is_unsigned(tensor) else 0
    zeros = tuple(int(z) - moved for z in (zero if len(zero) else [0] * len(scales)))
    if len(scales) == 1:
        return Quant(scales, zeros)
    return Quant(scales, zeros, tensor.axis if axis is None else axis)


def _positive(tensor: StoredTensor, dtype: DType) -> tuple[float, ...]:
    """The tensor's scales. A scale of 0, as converters give to a constant that is all zero (or to such a channel of
    weights), becomes the smallest one that there is: zero is zero on any scale, and factors stay small."""
    scales, zero = tensor.scale, tensor.zero
    if tensor.data is None or dtype not in INT_RANGE or scales.all():
        return tuple(float(s) for s in scales)
    integers, axis = array_of(tensor, dtype, None).astype(np.int64), tensor.axis
    if len(scales) == 1:
        axis, integers = 0, integers.reshape(1, -1)
    if not 0 <= axis < integers.ndim or integers.shape[axis] != len(scales):
        return tuple(float(s) for s in scales)  # nonsense: `check_value` says of what kind
    own = zero if len(zero) else np.zeros(len(scales), np.int64)
    moved = UNSIGNED_SHIFT if is_unsigned(tensor) else 0
    channels = np.moveaxis(integers, axis, 0).reshape(len(scales), -1)
    is_zero = (channels == own.reshape(-1, 1) - moved).all(axis=1)
    return tuple(_SMALLEST if s == 0 and z else float(s) for s, z in zip(scales, is_zero, strict=True))


def array_of(tensor: StoredTensor, dtype: DType, where: Loc | None) -> Array:
    """The constant's elements in its shape, int4 unpacked; a view of the file where possible."""
    if tensor.data is None:
        raise TinycError(f"tensor '{tensor.name}' must be a constant, but has no data", where)
    count = elements(tensor, where)
    if tensor.sparsity is not None:
        return _dense(tensor, tensor.sparsity, dtype, where)
    item = np.dtype(np.float16 if tensor.type == "FLOAT16" else NUMPY_DTYPE[dtype])
    expected = (count + 1) // 2 if dtype == "s4" else count * item.itemsize
    if len(tensor.data) != expected:
        raise TinycError(
            f"tensor '{tensor.name}' {list(tensor.shape)} has {len(tensor.data)} bytes, not {expected}",
            where,
            "the file is damaged; export it again",
        )
    if is_unsigned(tensor):
        signed = (tensor.data ^ UNSIGNED_SHIFT).view(np.int8)  # the same as to take 128
        return read_only(signed.reshape(tensor.shape))
    flat = _int4(tensor.data, count) if dtype == "s4" else tensor.data.view(item.newbyteorder("<"))
    return read_only(flat.astype(NUMPY_DTYPE[dtype], copy=False).reshape(tensor.shape))


def _dense(tensor: StoredTensor, sparsity: Sparsity, dtype: DType, where: Loc | None) -> Array:
    """A sparse constant's elements, 0 where none is stored."""
    places = sparsity.places(tensor.shape, tensor.name, where)
    if dtype == "s4" or is_unsigned(tensor):
        raise TinycError(f"sparse tensor '{tensor.name}' of type {tensor.type} is not supported", where)
    dense: Array = np.zeros(tensor.shape, NUMPY_DTYPE[dtype])
    stored = array_of(replace(tensor, shape=(len(places),), sparsity=None), dtype, where) if len(places) else 0
    dense.reshape(-1)[places] = stored
    return read_only(dense)


def _int4(packed: Array, count: int) -> Array:
    """Two signed elements per byte, the first in the low nibble."""
    nibbles = np.stack([packed & 15, packed >> 4], axis=-1).reshape(-1)[:count].astype(np.int8)
    return np.where(nibbles > 7, nibbles - 16, nibbles).astype(np.int8)


def elements(tensor: StoredTensor, where: Loc | None) -> int:
    """Number of elements; TinycError for sizes below 1, or more of them than a file may hold."""
    if any(size < 1 for size in tensor.shape):
        raise TinycError(
            f"tensor '{tensor.name}' has shape {list(tensor.shape)}; every size must be 1 or more",
            where,
            "export the model with fixed input shapes, batch 1",
        )
    most = MAX_ELEMENTS if tensor.data is None else MAX_STORED
    return check_shape(f"tensor '{tensor.name}'", tensor.shape, where, most)
