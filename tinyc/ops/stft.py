# SPDX-License-Identifier: Apache-2.0
"""stft: spectra of overlapping frames, as ONNX's STFT: real samples [lines, N], window [n] -> [lines, frames, bins, 2].

Frame k begins at sample k * step, and is multiplied by the window. Bins 0 to n / 2, real and imaginary parts. It has no
integers of its own: `passes/spectra.py` and `passes/sizes.py` make one operator of it and of the logarithm or
the sizes of bins that follow, or a convolution.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
    lines, each = lines_of(x)
    if len(w.shape) != 1 or lines * each != x.elements or each < w.elements:
        raise TinycError(f"an STFT of a tensor {list(x.shape)} with a window {list(w.shape)}")
    if a.step < 1:
        raise TinycError(f"an STFT with frames every {a.step} samples")
    return [Type((lines, (each - w.elements) // a.step + 1, w.elements // 2 + 1, 2), "f32")]


def lines_of(x: Value) -> tuple[int, int]:
    """(lines, samples of each) of [samples], [lines, samples] or [lines, samples, 1]."""
    return (1, x.elements) if len(x.shape) < 2 else (x.shape[0], x.shape[1])


def spectra_of(x: Array, window: Array, step: int) -> Array:
    """[.., N], [n] -> complex [.., frames, bins]."""
    frames = np.lib.stride_tricks.sliding_window_view(x.astype(np.float64), len(window), axis=-1)[..., ::step, :]
    found: Array = np.fft.rfft(frames * window.astype(np.float64))
    return found


def spectrum_rows(window: Array, bins: int) -> Array:
    """float64 [2 * bins, n]: rows 2k and 2k + 1 times a frame of n samples are real and imaginary part of bin k."""
    n = len(window)
    turns = np.arange(bins)[:, None] * np.arange(n) % n * (2 * np.pi / n)
    both = np.stack([np.cos(turns), -np.sin(turns)], axis=1) * window.astype(np.float64)
    return np.asarray(both.reshape(2 * bins, n))


def float_ref(a: Stft, x: Array, w: Array) -> tuple[Array, ...]:
    lines = x.shape[0] if x.ndim > 1 else 1
    found = spectra_of(x.reshape(lines, -1), w, a.step)
    return (np.stack([found.real, found.imag], axis=-1).astype(np.float32),)


def without_integers(what: str) -> tuple[Callable[[Site], Any], Callable[..., tuple[Array, ...]]]:
    """(prepare, int_ref) of an operator that passes replace: TinycError, as there is nothing to compute with."""

    def prepare(site: Site) -> Any:
        raise TinycError(f"{what} alone has no integer form", site.node.where)

    def int_ref(p: Any, *inputs: Array) -> tuple[Array, ...]:
        raise TinycError(f"{what} alone has no integer form")

    return prepare, int_ref


prepare, int_ref = without_integers("an STFT")

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
