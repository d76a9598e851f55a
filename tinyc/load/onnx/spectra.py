# SPDX-License-Identifier: Apache-2.0
"""ONNX STFT and DFT, of constant lengths."""

from __future__ import annotations

import numpy as np

from tinyc.base.errors import TinycError
from tinyc.base.limits import check_shape
from tinyc.ir.graph import Array, Value
from tinyc.kernel.site import Pair
from tinyc.load.onnx.importing import OnnxStep, imports
from tinyc.ops.conv2d import Conv2D
from tinyc.ops.dft import Dft, matrix
from tinyc.ops.fully_connected import FullyConnected
from tinyc.ops.reshape import Reshape
from tinyc.ops.stft import Stft, spectrum_rows
from tinyc.ops.transpose import Transpose

_MOST_WEIGHTS = 1 << 22


@imports("STFT")
def stft(s: OnnxStep) -> None:
    """Of lines of samples with a constant window and half of the bins; else of one line, as a convolution."""
    x = s.value(0)
    step = s.number(1)
    window = s.weights(2) if s.has(2) else None
    length = s.number(3) if s.has(3) else 0 if window is None else window.size
    if length < 1 or step < 1 or (window is not None and window.shape != (length,)):
        raise TinycError(
            f"an STFT of frames of {length} samples every {step} cannot be compiled",
            s.where,
            "the window has that length",
        )
    if window is not None and s.node.flag("onesided", True):
        s.emit([x, s.const(window, 2)], Stft(step))
        return
    if not x.shape or x.elements != x.shape[1 if len(x.shape) > 1 else 0] or x.elements < length:
        raise TinycError(f"an STFT of {list(x.shape)} with frames of {length} samples: one line is taken", s.where)
    bins = length // 2 + 1 if s.node.flag("onesided", True) else length
    check_shape("its transform", (2 * bins, length), s.where, _MOST_WEIGHTS)
    rows = spectrum_rows(np.ones(length) if window is None else window, bins)[:, None, :, None]
    weights = s.builder.add_const(f"{s.node.outputs[0]}:rows", rows.astype(np.float32))
    line = s.reshape(x, (1, 1, x.elements, 1), "line")
    spectrum = s.insert([line, weights], Conv2D(Pair(1, step)), "bins")
    s.emit([spectrum], Reshape((1, spectrum.shape[2], bins, 2)))


@imports("DFT")
def dft(s: OnnxStep) -> None:
    """x [.., n, .., 1 or 2], real and imaginary parts last. Of complex numbers and back a product with a matrix."""
    x = s.value(0)
    rank, parts = len(x.shape), x.shape[-1] if x.shape else 0
    axis = s.axis(s.number(2) if s.has(2) else s.node.int_("axis", 1 if s.opset < 20 else -2), rank)
    length = s.number(1) if s.has(1) else x.shape[axis]
    if parts not in (1, 2) or axis == rank - 1 or length < 1:
        raise TinycError(f"a DFT of {list(x.shape)} along axis {axis}, of {length} numbers cannot be compiled", s.where)
    back, half = s.node.flag("inverse", False), s.node.flag("onesided", False)
    if half and (back or parts == 2):
        raise TinycError("a DFT of half of the bins takes real numbers, and is no inverse", s.where)
    bins = length // 2 + 1 if half else length
    if parts == 1 and not back:
        s.emit([x], Dft(axis, length, bins))
        return
    check_shape("its transform", (2 * bins, length * parts), s.where, _MOST_WEIGHTS)
    weights = matrix(x.shape[axis], length, parts, bins, back)
    s.emit(*_product(s, x, axis, weights))


def _product(s: OnnxStep, x: Value, axis: int, weights: Array) -> tuple[list[Value], Transpose]:
    """(the transform with its axis and parts last, what puts them back)."""
    rank = len(x.shape)
    order = (*(k for k in range(rank - 1) if k != axis), axis, rank - 1)
    turned = s.transpose(x, order, "last")
    rows = s.reshape(turned, (x.elements // weights.shape[1], weights.shape[1]), "rows")
    transform = s.builder.add_const(f"{s.node.outputs[0]}:transform", weights)
    product = s.insert([rows, transform], FullyConnected(), "bins")
    whole = s.reshape(product, (*turned.shape[:-2], weights.shape[0] // 2, 2), "whole")
    return [whole], Transpose(tuple(int(k) for k in np.argsort(order)))
