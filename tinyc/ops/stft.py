# SPDX-License-Identifier: Apache-2.0
"""stft: spectra of overlapping frames, as ONNX's STFT: real samples [.., N], window [n] -> [1, frames, bins, 2].

Frame k begins at sample k * step, and is multiplied by the window. Bins 0 to n / 2, real and imaginary parts. It has no
integers of its own: `passes/spectra.py` makes one operator of it and of the logarithm that follows, or a convolution.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tinyc.base.errors import TinycError
from tinyc.ir.graph import Array, Value
from tinyc.kernel.site import Site, Type
from tinyc.ops.op import Kept, Op


@dataclass(frozen=True, slots=True)
class Stft:
    """step: samples from frame to frame."""

    step: int


def infer(a: Stft, x: Value, w: Value) -> Sequence[Type]:
    if len(w.shape) != 1 or x.elements != x.shape[1 if len(x.shape) > 1 else 0] or x.elements < w.elements:
        raise TinycError(f"an STFT of a tensor {list(x.shape)} with a window {list(w.shape)}: one line is taken")
    if a.step < 1:
        raise TinycError(f"an STFT with frames every {a.step} samples")
    return [Type((1, (x.elements - w.elements) // a.step + 1, w.elements // 2 + 1, 2), "f32")]


def spectra_of(x: Array, window: Array, step: int) -> Array:
    """[N], [n] -> complex [frames, bins]."""
    frames = np.lib.stride_tricks.sliding_window_view(x.reshape(-1).astype(np.float64), len(window))[::step]
    found: Array = np.fft.rfft(frames * window.astype(np.float64))
    return found


def spectrum_rows(window: Array, bins: int) -> Array:
    """float64 [2 * bins, n]: rows 2k and 2k + 1 times a frame of n samples are real and imaginary part of bin k."""
    n = len(window)
    turns = np.arange(bins)[:, None] * np.arange(n) % n * (2 * np.pi / n)
    both = np.stack([np.cos(turns), -np.sin(turns)], axis=1) * window.astype(np.float64)
    return np.asarray(both.reshape(2 * bins, n))


def float_ref(a: Stft, x: Array, w: Array) -> tuple[Array, ...]:
    found = spectra_of(x, w, a.step)
    return (np.stack([found.real, found.imag], axis=-1)[None].astype(np.float32),)


def prepare(site: Site) -> Any:
    """TinycError: there is nothing to compute with."""
    raise TinycError("an STFT alone has no integer form", site.node.where)


def int_ref(p: Any, x: Array, w: Array) -> tuple[Array, ...]:
    raise TinycError("an STFT alone has no integer form")


OP = Op(
    name="stft",
    attrs=Stft,
    infer=infer,
    float_ref=float_ref,
    prepare=prepare,
    int_ref=int_ref,
    quant_in=(Kept(), Kept()),
    quant_out=(Kept(),),
    kernels=(),
)
