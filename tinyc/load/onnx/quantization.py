# SPDX-License-Identifier: Apache-2.0
"""QuantizeLinear and DequantizeLinear. uint8 is held as int8, integers and zero points less by 128; uint16 alike."""

from __future__ import annotations

import numpy as np

from tinyc.base.errors import TinycError
from tinyc.ir.graph import Array, Quant, Value
from tinyc.kernel.site import Act
from tinyc.load.onnx.grids import HELD, SHIFT, Grid
from tinyc.load.onnx.importing import OnnxStep, imports
from tinyc.load.onnx.narrow import NARROW, narrow_type
from tinyc.ops.clip import Clip
from tinyc.ops.dequantize import Dequantize
from tinyc.ops.quantize import Quantize
from tinyc.ops.units import ChannelUnits

_TYPES = {2: np.uint8, 3: np.int8, 4: np.uint16, 5: np.int16}  # by TensorProto's number

_FOUR_BITS = {21: 8, 22: 0}  # UINT4, INT4


def _parameters(s: OnnxStep) -> tuple[Array, Array | None]:
    """(scale, zero point or None): constants, finite and of one shape."""
    scale = s.weights(1)
    zero = s.constant(2) if s.has(2) else None
    if s.has(2) and zero is None:
        raise TinycError("its zero point is computed", s.where, "only static quantization is supported")
    if scale.size == 0 or not (scale > 0).all():
        raise TinycError("its scale is not positive", s.where, "the model is damaged")
    if zero is not None and (zero.dtype.kind not in "iu" or zero.size != scale.size):
        raise TinycError(f"zero point {zero.dtype}{list(zero.shape)} does not fit scale {list(scale.shape)}", s.where)
    return scale, zero


def _per_tensor(s: OnnxStep, scale: Array, zero: Array | None) -> tuple[float, int]:
    if scale.size != 1:
        raise TinycError(f"{scale.size} scales of computed values; only constants have more than one", s.where)
    return float(scale.reshape(())), 0 if zero is None else int(zero.reshape(()))


# One scale for all has no axis and no blocks, whatever the attributes say; `saturate` is of float8.
@imports("QuantizeLinear", ignores=("axis", "block_size", "output_dtype", "saturate"))
def quantize_linear(s: OnnxStep) -> None:
    """To 2, 4, 8 or 16 bits, signed or not, with one scale. Constants may have one scale per index of an axis, and are
    quantized when the model is loaded."""
    scale, zero = _parameters(s)
    asked = s.node.int_("output_dtype", 0) or 2
    narrow = NARROW.get(narrow_type(s.builder, s.node.inputs[2]) if zero is not None else asked)
    kind = zero.dtype.type if zero is not None else _TYPES.get(asked)
    if narrow is not None:
        kind = np.int8 if narrow.signed else np.uint8
    if kind not in _TYPES.values() or kind is None:
        what = zero.dtype if zero is not None else "an unknown type"
        raise TinycError(f"quantization to {what} is not supported, only to 2, 4, 8 and 16 bits", s.where)
    array = s.constant(0)
    if array is not None:
        real = s.weights(0)
        along = [_along(s, a, real) for a in (scale, np.zeros_like(scale) if zero is None else zero)]
        steps = np.rint(real / along[0]).astype(np.float64) + along[1]
        least, most = narrow.limits if narrow is not None else (np.iinfo(kind).min, np.iinfo(kind).max)
        s.builder.fold(s.node.outputs[0], np.clip(steps, least, most).astype(kind))
        return
    held, moved = HELD[kind]
    one, at = _per_tensor(s, scale, zero)
    if moved:
        s.builder.unsigned.add(s.node.outputs[0])
    x, quant = s.value(0), Quant((one,), (at - moved,))
    if narrow is not None:  # in 8 bits first, which a model's input may be
        bounds = Act(*(one * (limit - at) for limit in narrow.limits))
        wide = s.insert([x], Quantize(held, half_even=True), "wide", quant=quant)
        x = s.insert([s.insert([wide], Dequantize(), "reals")], Clip(bounds), "narrow")
    s.emit([x], Quantize(held, half_even=True), quant)


@imports("DequantizeLinear", ignores=("axis", "block_size", "output_dtype"))  # floats of any width are float32
def dequantize_linear(s: OnnxStep) -> None:
    """Of computed int8, uint8 and int16, with one scale, or at an output one per index of an axis; of constant integers
    of 4 to 32 bits, with one scale, one per index of an axis, or one per block."""
    scale, zero = _parameters(s)
    array = s.constant(0)
    if array is not None:
        grid = _grid(s, array, scale, zero)
        s.builder.grids[s.node.outputs[0]] = grid
        s.builder.fold(s.node.outputs[0], grid.reals())
        return
    x = s.value(0)
    if scale.size > 1 and x.quant is not None and _is_last(s):
        x = _in_units(s, x, x.quant, scale, zero)
        s.emit([x], Dequantize())
        return
    one, at = _per_tensor(s, scale, zero)
    moved = SHIFT.get(x.dtype, 0) if x.name in s.builder.unsigned else 0
    if x.quant is None or not _same(x.quant.per_tensor, (one, at - moved)):
        raise TinycError(
            f"'{x.name}' was quantized with another scale or zero point than it is read with",
            s.where,
            "the model is damaged, or was put together by hand",
        )
    s.emit([x], Dequantize())


def _is_last(s: OnnxStep) -> bool:
    """Whether what it makes is an output of the model, and nothing but that."""
    file, names = s.builder.file, [s.node.outputs[0]]
    for name in names:
        readers = [node for node in file.nodes if name in node.inputs]
        if any(node.op != "Identity" for node in readers) or not (readers or name in file.outputs):
            return False
        names += [node.outputs[0] for node in readers]
    return True


def _in_units(s: OnnxStep, x: Value, quant: Quant, scale: Array, zero: Array | None) -> Value:
    """Computed integers with one scale, `quant`, which are read with another for each index of an axis. TinycError
    unless the zero point is theirs, and `axis` fits."""
    (one, at), axis = quant.per_tensor, s.axis(s.node.int_("axis", 1), len(x.shape))
    moved = SHIFT.get(x.dtype, 0) if x.name in s.builder.unsigned else 0
    zeros = np.zeros(scale.shape, np.int64) if zero is None else zero.astype(np.int64)
    if scale.shape != (x.shape[axis],) or (zeros - moved != at).any():
        message = f"{scale.size} scales and zero points do not fit '{x.name}' {list(x.shape)} along axis {axis}"
        raise TinycError(message, s.where, "one scale for each index, and the zero point that it was quantized with")
    units = ChannelUnits(tuple(float(each) / one for each in scale), axis - len(x.shape))
    return s.insert([x], units, "units", quant=units.quant_of(quant))


def _same(a: tuple[float, int], b: tuple[float, int]) -> bool:
    return a[1] == b[1] and abs(a[0] - b[0]) <= 1e-6 * abs(a[0])


def _grid(s: OnnxStep, array: Array, scale: Array, zero: Array | None) -> Grid:
    if array.dtype.kind not in "iu":
        raise TinycError(f"its input is {array.dtype}, not an integer", s.where)
    if array.dtype.type not in HELD:
        raise TinycError(f"constants of {array.dtype} are not supported", s.where)
    held, moved = HELD[array.dtype.type]
    nibbles = _nibbles(s)
    if nibbles is not None:
        held, moved = "s4", nibbles
    zeros = (np.zeros(scale.shape, np.int64) if zero is None else zero.astype(np.int64)) - moved
    full = [_along(s, a, array) for a in (scale, zeros)]
    computed = held in ("s4", "s8") and s.node.inputs[0] not in s.builder.file.initializers
    return Grid(array.astype(np.int64) - moved, full[0], full[1], held, computed)


def _nibbles(s: OnnxStep) -> int | None:
    """What is taken from the numbers of a constant that the file holds in 4 bits; None if it does not."""
    held = s.builder.file.initializers.get(s.node.inputs[0])
    return None if held is None else _FOUR_BITS.get(int(held.data_type))


def _along(s: OnnxStep, numbers: Array, x: Array) -> Array:
    """One number per element of x: the only one, one per index of `axis`, or one per block along it."""
    if numbers.size == 1:
        return np.broadcast_to(numbers.reshape(()), x.shape)
    axis = s.axis(s.node.int_("axis", 1), max(x.ndim, 1))
    block = s.node.int_("block_size", 0)
    if block > 0 and numbers.ndim == x.ndim and numbers.shape[axis] == -(-x.shape[axis] // block):
        wide = np.repeat(numbers, min(block, x.shape[axis]), axis=axis)
        wide = wide[tuple(slice(0, size) for size in x.shape)]
        if wide.shape == x.shape:
            return wide
    elif x.ndim and numbers.shape == (x.shape[axis],):
        return np.broadcast_to(numbers.reshape([-1 if k == axis else 1 for k in range(x.ndim)]), x.shape)
    raise TinycError(
        f"scale or zero point {list(numbers.shape)} does not fit {list(x.shape)} along axis {axis}", s.where
    )
