# SPDX-License-Identifier: Apache-2.0
"""Operators over many samples at once, and their derivatives: what the quantizer runs thousands of times.

An activation of shape S is an array [samples, *S] of float32; constants have no sample axis. Convolutions become one
matrix product (im2col).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tinyc.base.dataclass import dataclass
from tinyc.base.exact import along_rows
from tinyc.ir.graph import Array
from tinyc.kernel.site import Pair
from tinyc.kernel.windows import Sliding, Window

Gradients = Sequence[Array | None]


@dataclass(frozen=True, slots=True)
class Batched:
    """forward(attrs, *inputs) -> the output; absent optional inputs are None. None: by `float_ref`.

    backward(attrs, inputs, y, dy) -> the gradient with respect to each input (None for one that has none, and for
    constants), from the gradient dy with respect to the output y. None: none goes through the operator.

    in_steps(attrs, x, w, b, steps, w_steps) -> the output of a layer whose inputs, or weights too, are integers times
    steps (`exact.weighted`): the same, in less time.
    """

    forward: Callable[..., Array] | None = None
    backward: Callable[..., Gradients] | None = None
    in_steps: Callable[..., Array] | None = None


def images(x: Array) -> Array:
    """[samples, 1, H, W, C] -> [samples, H, W, C], without a copy."""
    return x.reshape(len(x), *x.shape[2:])


def picked(view: Array, at: npt.NDArray[np.int64] | None) -> Array:
    """Windows [samples, H', W', ...] one after the other, [windows, ...]: those at the places `at`, or all."""
    return view.reshape(-1, *view.shape[3:]) if at is None else view[np.unravel_index(at, view.shape[:3])]


def finished(a: Any, y: Array, b: Array | None) -> Array:
    """Sums with bias and activation, in place."""
    if b is not None:
        y += along_rows(y, b)
    if -np.inf < a.act.lo <= a.act.hi < np.inf:
        return np.clip(y, np.float32(a.act.lo), np.float32(a.act.hi), out=y)  # both in one pass
    if a.act.lo != -np.inf:
        np.maximum(y, np.float32(a.act.lo), out=y)
    if a.act.hi != np.inf:
        np.minimum(y, np.float32(a.act.hi), out=y)
    return y


def active(a: Any, y: Array, dy: Array) -> Array:
    """dy where the fused activation let the sum through."""
    if a.act.lo != -np.inf:
        dy = np.where(y > np.float32(a.act.lo), dy, np.float32(0))
    if a.act.hi != np.inf:
        dy = np.where(y < np.float32(a.act.hi), dy, np.float32(0))
    return dy


def scattered(a: Sliding, kernel: Pair, x: Array, taps: Array) -> Array:
    """Gradients [samples, H', W', KH, KW, C] of the taps of every window, summed where they lie in x."""
    _, _, h, w, channels = x.shape
    window = Window.of(a, *kernel)
    out_h, out_w = taps.shape[1:3]
    padded = np.zeros((len(x), h + a.pad.top + a.pad.bottom, w + a.pad.left + a.pad.right, channels), np.float32)
    for i in range(kernel.h):
        for j in range(kernel.w):
            rows = slice(i * a.dilation.h, i * a.dilation.h + (out_h - 1) * window.stride.h + 1, window.stride.h)
            cols = slice(j * a.dilation.w, j * a.dilation.w + (out_w - 1) * window.stride.w + 1, window.stride.w)
            padded[:, rows, cols] += taps[:, :, :, i, j]
    return padded[:, a.pad.top : a.pad.top + h, a.pad.left : a.pad.left + w].reshape(x.shape)


def reduced(d: Array, x: Array) -> Array:
    """Summed over the axes along which x was repeated."""
    d = d.sum(axis=tuple(range(d.ndim - x.ndim)))
    axes = tuple(k for k in range(x.ndim) if x.shape[k] == 1 and d.shape[k] != 1)
    return d.sum(axis=axes, keepdims=True) if axes else d


def sum_of(sign: float) -> Batched:
    """Of inputs 0 + sign * input 1."""

    def backward(a: Any, inputs: Sequence[Array], y: Array, dy: Array) -> Gradients:
        d = active(a, y, dy)
        return (reduced(d, inputs[0]), reduced(np.float32(sign) * d, inputs[1]))

    return Batched(backward=backward)
