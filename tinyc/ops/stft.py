# SPDX-License-Identifier: Apache-2.0
"""stft: spectra of overlapping frames, as ONNX's STFT: real samples [lines, N], window [n] -> [lines, frames, bins, 2].

Frame k begins at sample k * step, and is multiplied by the window. Bins 0 to n / 2, real and imaginary parts. It has no
quantized form: `passes/spectra.py` and `passes/sizes.py` make one operator of it and of the logarithm or the sizes of
bins that follow, or a convolution. Between float32 tensors it is the transform of int32 (`transform.py`): u = w * x,
rounded; with the largest |u| of a frame below 2^e, k = bits - e, at most 126; points are u * 2^k, halves away from
zero, and bins times 2^-k * n / radix. Where a u is no number, no bin of its frame is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.ir.graph import Array, Value
from tinyc.kernel.counted import CountedCost, Units
from tinyc.kernel.float32 import Float32
from tinyc.kernel.kernel import Call, Const, In, Kernel, Out, Params, Scratch, Struct, offered
from tinyc.kernel.site import Site, Type
from tinyc.ops.op import Op, Unquantized
from tinyc.ops.transform import Fields, Transform, check_transform, mixed_fields, spectrum_of


@dataclass(frozen=True, slots=True)
class Stft:
    """step: samples from frame to frame."""

    step: int


def infer(a: Stft, x: Value, w: Value) -> Sequence[Type]:
    lines, each = lines_of(x)
    if len(w.shape) != 1 or lines * each != x.elements or each < w.elements:
        raise TinycError(f"an STFT of a tensor {list(x.shape)} with a window {list(w.shape)} cannot be compiled")
    if a.step < 1:
        raise TinycError(f"an STFT with frames every {a.step} samples cannot be compiled")
    return [Type((lines, (each - w.elements) // a.step + 1, w.elements // 2 + 1, 2), "f32")]


def lines_of(x: Value) -> tuple[int, int]:
    """(lines, samples of each) of [samples], [lines, samples] or [lines, samples, 1]."""
    return (1, x.elements) if len(x.shape) < 2 else (x.shape[0], x.shape[1])


def spectra_of(x: Array, window: Array, step: int) -> Array:
    """[.., N], [n] -> complex [.., frames, bins]."""
    frames = np.lib.stride_tricks.sliding_window_view(x.astype(np.float64), len(window), axis=-1)[..., ::step, :]
    spectra: Array = np.fft.rfft(frames * window.astype(np.float64))
    return spectra


def spectrum_rows(window: Array, bins: int) -> Array:
    """float64 [2 * bins, n]: rows 2k and 2k + 1 times a frame of n samples are real and imaginary part of bin k."""
    n = len(window)
    turns = np.arange(bins)[:, None] * np.arange(n) % n * (2 * np.pi / n)
    both = np.stack([np.cos(turns), -np.sin(turns)], axis=1) * window.astype(np.float64)
    return np.asarray(both.reshape(2 * bins, n))


def float_ref(a: Stft, x: Array, w: Array) -> tuple[Array, ...]:
    lines = x.shape[0] if x.ndim > 1 else 1
    spectra = spectra_of(x.reshape(lines, -1), w, a.step)
    return (np.stack([spectra.real, spectra.imag], axis=-1).astype(np.float32),)


def without_integers(what: str) -> tuple[Callable[[Site], Any], Callable[..., tuple[Array, ...]]]:
    """(prepare, int_ref) of an operator that passes replace: TinycError, as there is nothing to compute with."""

    def prepare(site: Site) -> Any:
        raise TinycError(f"{what} alone has no integer form", site.node.where)

    def int_ref(p: Any, *inputs: Array) -> tuple[Array, ...]:
        raise TinycError(f"{what} alone has no integer form")

    return prepare, int_ref


prepare, int_ref = without_integers("an STFT")


@dataclass(frozen=True, slots=True)
class StftParams:
    """bits: 2^bits is what the transform takes at most."""

    step: int
    window: Array
    bits: int


def prepare_float(site: Site) -> StftParams:
    """TinycError for a window that is computed, or of a length that has no transform."""
    if not site.is_const(1):
        raise TinycError("the window of an STFT has to be a constant", site.node.where)
    window = site.const(1).reshape(-1).astype(np.float32)
    check_transform(window.size)
    return StftParams(site.attrs.step, window, Transform(window.size).most.bit_length() - 1)


def exact_float(p: StftParams, x: Array, window: Array) -> tuple[Array, ...]:
    """As tc_stft_f32 computes it."""
    t, lines = Transform(p.window.size), x.shape[0] if x.ndim > 1 else 1
    frames = np.lib.stride_tricks.sliding_window_view(x.reshape(lines, -1), t.length, axis=-1)[:, :: p.step]
    with np.errstate(all="ignore"):
        u = frames.reshape(-1, t.length) * p.window
        top = np.abs(u).view(np.int32).max(axis=1)
        k = np.minimum(p.bits - ((top >> 23) - 126), 126)[:, None]
        up, down = (np.ldexp(np.float32(1), way).astype(np.float32) for way in (k, -k))
        v = np.where(top[:, None] < 0x7F800000, u * up, np.float32(0))
        whole = np.trunc(v + np.copysign(np.float32(0.5), v)).astype(np.int64)
        points = np.ascontiguousarray(whole.reshape(-1, t.half, 2).transpose(2, 1, 0))
        bins = spectrum_of(t, points).transpose(2, 1, 0).astype(np.float32)
        y = bins * (down * np.float32(t.length // t.radix))[..., None]
    y[top >= 0x7F800000] = np.nan
    return (y.reshape(lines, -1, t.half + 1, 2),)


def _fields(site: Site, p: StftParams) -> Fields:
    t = Transform(p.window.size)
    lines, each = lines_of(site.x(0))
    return {
        "window": Const(p.window, "[2 half]", "window"),
        "twiddles": Const(t.twiddles(), "[turns][2]", "twiddles"),
        "split": Const(t.split(), "[half / 2][2]", "split"),
        "half": t.half,
        "radix": t.radix,
        "bits": p.bits,
        "step": p.step,
        "frames": (each - t.length) // p.step + 1,
        "lines": lines,
        "line": each,
    }


def lower(site: Site, p: StftParams) -> Call:
    """tc_stft_f32: all frames of all lines."""
    return Call((Params(), In(0), Scratch(), Out()), Struct("tc_stft_t", _fields(site, p)))


def lower_mixed(site: Site, p: StftParams) -> Call:
    """tc_stft_mixed_f32: the same, with what transforms of other lengths need."""
    fields = {f"of.{name}": value for name, value in _fields(site, p).items()}
    fields |= mixed_fields(Transform(p.window.size))
    return Call((Params(), In(0), Scratch(), Out()), Struct("tc_stft_mixed_t", fields))


def scratch(site: Site, p: StftParams) -> int:
    """A spectrum."""
    return 4 * (p.window.size + 2)


def of_frames(site: Site, p: StftParams) -> Units:
    """Products of all transforms, samples of all frames, and frames."""
    t, frames = Transform(p.window.size), site.y().elements // (p.window.size + 2)
    return {"product": frames * t.macs(), "sample": frames * t.length, "frame": frames}


def table_bytes(site: Site, p: StftParams) -> int:
    """Of the window, and of the turns."""
    return 16 * p.window.size


def is_power_of_two(site: Site) -> bool:
    """float32, frames whose length is a power of two"""
    return site.x(0).dtype == "f32" and Transform(site.x(1).elements).is_power_of_two


def is_mixed(site: Site) -> bool:
    """float32, frames of any other length"""
    return site.x(0).dtype == "f32" and not is_power_of_two(site)


OP = Op(
    name="stft",
    attrs=Stft,
    infer=infer,
    float_ref=float_ref,
    prepare=prepare,
    int_ref=int_ref,
    quant_in=(Unquantized(), Unquantized()),
    quant_out=(Unquantized(),),
    kernels=(
        *(
            Kernel(
                name,
                offered(lowered, scratch=scratch, cost=CountedCost(name, of_frames, flash=table_bytes)),
                when=(has_length,),
            )
            for name, lowered, has_length in (
                ("tc_stft_f32", lower, is_power_of_two),
                ("tc_stft_mixed_f32", lower_mixed, is_mixed),
            )
        ),
    ),
    float32=Float32(exact_float, prepare_float),
)
