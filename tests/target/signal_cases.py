# SPDX-License-Identifier: Apache-2.0
"""Signal operators as one-node graphs, for kernel_cases.py: states are inputs and outputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from tests.ops.one_node import one_node
from tinyc.ir.graph import Array, DType, Graph, Shape, Value
from tinyc.ops import all_ops
from tinyc.ops.axes_scale import AxesScale
from tinyc.ops.integer_map import IntegerMap
from tinyc.ops.log_mel import LogMel
from tinyc.ops.motion import FEATURES, Motion
from tinyc.ops.signal_energy import SignalEnergy
from tinyc.ops.signal_fft_auto_scale import SignalFftAutoScale
from tinyc.ops.signal_filter_bank import SignalFilterBank
from tinyc.ops.signal_framer import SignalFramer
from tinyc.ops.signal_history import SignalHistory
from tinyc.ops.signal_irfft import SignalIrfft
from tinyc.ops.signal_log import SignalLog
from tinyc.ops.signal_overlap_add import SignalOverlapAdd
from tinyc.ops.signal_pcan import SignalPcan
from tinyc.ops.signal_rfft import SignalRfft
from tinyc.ops.signal_spectral_subtraction import SignalSpectralSubtraction
from tinyc.ops.signal_square_root import SignalSquareRoot
from tinyc.ops.signal_stacker import SignalStacker
from tinyc.ops.signal_window import SignalWindow
from tinyc.ops.signals import COUNT
from tinyc.ops.spectrum import Spectrum, window_unit
from tinyc.ops.spectrum_bands import SpectrumBands
from tinyc.ops.spectrum_log import SpectrumLog
from tinyc.ops.spectrum_power import SpectrumPower
from tinyc.ops.spectrum_project import SpectrumProject
from tinyc.ops.spectrum_sizes import SpectrumSizes

TO_INT8 = (("mul", 256), ("add", 333), ("div", 666), ("add", -128), ("min", 127), ("max", -128))


def count(name: str, shape: Shape, dtype: DType = "s16") -> Value:
    """A tensor whose integers stand for themselves."""
    return Value(name, shape, dtype, COUNT if dtype in ("s8", "s16") else None)


def node_of(op: str, attrs: Any, inputs: list[Value], consts: Mapping[str, Array] | None = None) -> Graph:
    """The graph of one signal operator; its outputs are called y, y1, y2 ..."""
    first, *others = all_ops()[op].infer(attrs, *inputs)
    further = [count(f"y{k + 1}", kind.shape, kind.dtype) for k, kind in enumerate(others)]
    return one_node(op, attrs, inputs, float(first.dtype in ("s8", "s16")), 0, consts, others=further)


def bank(channels: int, bins: int, padding: int = 0, seed: int = 2) -> tuple[list[Value], dict[str, Array]]:
    """Tables of a filter bank of random intervals, weights and zeros beside them."""
    rng = np.random.default_rng(seed)
    edges = np.sort(rng.choice(np.arange(2 + padding, bins - padding), channels + 2, replace=False))
    firsts, starts, widths = [], [], []
    w: list[int] = []
    u: list[int] = []
    for a, b in pairwise(edges.tolist()):
        inner = rng.integers(0, 4097, b - a)
        firsts.append(a - padding)
        starts.append(len(w))
        widths.append(b - a + 2 * padding)
        w += [0] * padding + inner.tolist() + [0] * padding
        u += [0] * padding + (4096 - inner).tolist() + [0] * padding
    tables = {"w": w, "u": u, "firsts": firsts, "starts": starts, "widths": widths}
    arrays = {name: np.array(table, np.int16) for name, table in tables.items()}
    return [count(name, array.shape) for name, array in arrays.items()], arrays


def gains() -> Array:
    """A table for signal_pcan that falls from octave to octave."""
    rng = np.random.default_rng(4)
    table = np.zeros(125, np.int16)
    table[:2] = 32767, 32000
    for octave in range(2, 33):
        top = 32000 >> (octave // 2)
        table[4 * octave - 6 : 4 * octave - 3] = top, -top // 3, rng.integers(0, top // 8 + 1)
    return table


def subtraction(channels: int = 7, clamps: bool = False) -> Graph:
    attrs = SignalSpectralSubtraction((409, 983), (15975, 15401), 819, 10, 14, clamps)
    return node_of(
        "signal_spectral_subtraction", attrs, [count("x", (channels,), "u32"), count("s", (channels,), "u32")]
    )


def filter_bank(channels: int, bins: int, padding: int, negative: bool = False) -> Graph:
    tables, arrays = bank(channels, bins, padding)
    arrays["w"] = -arrays["w"] if negative else arrays["w"]
    return node_of("signal_filter_bank", SignalFilterBank(channels), [count("e", (bins,), "u32"), *tables], arrays)


def window(
    shape: Shape, shift: int = 12, held: int = 0, begin: int = 0, wraps: bool = False, positive: bool = False
) -> Graph:
    rng = np.random.default_rng(shape[-1])
    n = shape[-1] if not held else 48
    table = rng.integers(-8192, 8193, n).astype(np.int16)
    table = np.abs(table) // 2 if positive else table
    inputs = [count("x", shape), count("w", (n,)), *([count("held", (held,))] if held else [])]
    return node_of("signal_window", SignalWindow(shift, begin, wraps), inputs, {"w": table})


def framer(lines: int, steps: int, size: int, step: int, prefill: bool = False) -> Graph:
    attrs = SignalFramer(size, step, prefill)
    inputs = [count("x", (lines, steps * step)), count("held", (lines, attrs.held)), count("missing", (), "s32")]
    return node_of("signal_framer", attrs, inputs)


def stacker(channels: int, left: int, right: int, step: int) -> Graph:
    inputs = [count("x", (channels,)), count("held", ((left + right) * channels,)), count("due", (), "s32")]
    return node_of("signal_stacker", SignalStacker(left, right, step), inputs)


def _of_lines() -> Iterator[Graph]:
    yield window((2, 24))
    yield window((1, 15))
    yield window((32,), held=64, begin=32)
    yield window((96,), held=32, begin=16, wraps=True)
    yield window((96,), held=32, begin=40)
    yield window((1, 46), positive=True)
    for n in (1, 16, 31):
        yield node_of("signal_fft_auto_scale", SignalFftAutoScale(n == 31), [count("x", (n,))])
    for dtype in ("s16", "s32"):
        for length, n in ((4, 4), (8, 6), (16, 16), (32, 21), (32, 20), (64, 50), (128, 128)):
            yield node_of("signal_rfft", SignalRfft(length), [count("x", (2, n), dtype)])
            yield node_of("signal_irfft", SignalIrfft(length), [count("x", (length + 2,), dtype)])


def spectrum(length: int, n: int, x: int, held: int = 0, begin: int = 0, emphasis: int = 0) -> Graph:
    """A transform of n samples; the window is as large as it may be, and random."""
    rng, unit = np.random.default_rng(length), window_unit(length)
    table = np.minimum(rng.integers(-unit, unit + 1, n), 2**31 - 1).astype(np.int32)
    table[: n // 2] = min(unit, 2**31 - 1)
    inputs = [count("x", (x,)), count("w", (n,), "s32"), *([count("held", (held,))] if held else [])]
    return node_of("spectrum", Spectrum(length, begin, emphasis), inputs, {"w": table})


def spectrum_bands(dtype: DType, bins: int) -> Graph:
    """Bands of 0 to all bins."""
    rng = np.random.default_rng(bins)
    weights = rng.integers(0, 1 << 16, (5, bins), np.int32)
    for band, (first, end) in enumerate([(0, bins), (3, 4), (5, 5), (2, 9), (bins - 8, bins)]):
        weights[band, :first] = weights[band, end:] = 0
    return node_of(
        "spectrum_bands", SpectrumBands(), [count("x", (bins,), dtype), count("w", (5, bins), "s32")], {"w": weights}
    )


def spectrum_log(power: int, n: int, adds: bool) -> Graph:
    rng = np.random.default_rng(n)
    tables: dict[str, Array] = {"least": rng.integers(-(1 << 25), 1 << 24, n, np.int32)}
    if adds:
        tables["add"] = rng.integers(0, 1 << 33, n, np.uint64)
    inputs = [count("x", (n,), "u64"), count("s", (), "s32"), count("least", (n,), "s32")]
    return node_of(
        "spectrum_log", SpectrumLog(power), [*inputs, *([count("add", (n,), "u64")] if adds else [])], tables
    )


def spectrum_project(attrs: SpectrumProject, n: int, results: int = 0) -> Graph:
    """results: 0: element by element."""
    rng = np.random.default_rng(n)
    most = (1 << 31) // n if results else 1 << 31
    shape = (results, n) if results else (n,)
    tables = {
        "f": rng.integers(-most + 1, most, shape, np.int64).astype(np.int32),
        "o": rng.integers(-(1 << 22), 1 << 22, shape[0], np.int32),
    }
    inputs = [count("x", (n,), "s32"), count("f", shape, "s32"), count("o", (shape[0],), "s32")]
    return node_of("spectrum_project", attrs, inputs, tables)


def axes_scale(attrs: AxesScale) -> Graph:
    """Of three axes, one of them turned round; with offsets."""
    tables = {
        "f": np.array([1 << 29, -(1 << 30) + 7, 12345], np.int32),
        "o": np.array([-300 << 12, 77, 40 << 12], np.int32),
    }
    inputs = [count("x", (21,)), count("f", (3,), "s32"), count("o", (3,), "s32")]
    return node_of("axes_scale", attrs, inputs, tables)


def log_mel(attrs: LogMel, samples: int, length: int, bands: int, width: int = 5) -> Graph:
    """Samples in counts; bands of so many random bins."""
    rng, bins = np.random.default_rng(bands), length // 2 + 1
    tables = {"w": rng.uniform(-0.2, 1, length).astype(np.float32), "b": np.zeros((bands, bins), np.float32)}
    for band in range(bands):
        tables["b"][band, band : band + width] = rng.uniform(0.1, 1, width)
    inputs = [count("x", (1, samples)), count("w", (length,), "f32"), count("b", (bands, bins), "f32")]
    return node_of("log_mel", attrs, inputs, tables)


def spectrum_sizes(attrs: SpectrumSizes, samples: int, n: int, scale: float, zero: int = 0) -> Graph:
    """Samples in counts, a random window; magnitudes of a scale at which some saturate."""
    table = np.random.default_rng(n).uniform(-0.2, 1, n).astype(np.float32)
    inputs = [count("x", (attrs.lines, samples)), count("w", (n,), "f32")]
    return one_node("spectrum_sizes", attrs, inputs, scale, zero, {"w": table})


def _sizes() -> Iterator[Graph]:
    yield spectrum_sizes(SpectrumSizes(3, 1, 64, 33), 64, 64, 3e3, -128)
    yield spectrum_sizes(SpectrumSizes(1, 10, 32, 32, dtype="s16"), 61, 32, 6.5)
    yield spectrum_sizes(SpectrumSizes(2, 7, 128, 20, 2, 0.25), 110, 100, 5e6, -100)
    yield spectrum_sizes(SpectrumSizes(2, 20, 64, 33, 2, dtype="s16"), 84, 64, 2e8)
    yield spectrum_sizes(SpectrumSizes(1, 33, 50, 26), 90, 50, 2e3, -128)
    yield spectrum_sizes(SpectrumSizes(2, 5, 100, 99, 2), 60, 48, 1e8, -128)


def _spectra() -> Iterator[Graph]:
    yield log_mel(LogMel(10, 2, add=1e3), 61, 32, 7)
    yield log_mel(LogMel(33, 1, floor=10.0, factor=2.5), 170, 64, 5)
    yield log_mel(LogMel(21, 2, floor=10.0), 122, 40, 6)
    yield log_mel(LogMel(50, 1, add=10.0), 150, 100, 6)
    yield spectrum(32, 32, 32)
    yield spectrum(64, 50, 54, begin=2, emphasis=15892)
    yield spectrum(128, 100, 60, held=62, begin=2, emphasis=1 << 14)
    yield spectrum(128, 96, 40, held=96, begin=0)
    yield spectrum(256, 160, 200, held=20, begin=30, emphasis=3)
    yield spectrum(512, 480, 320, held=160)
    yield spectrum(36, 36, 20, held=16)
    yield spectrum(42, 30, 34, begin=2, emphasis=15892)
    yield spectrum(90, 80, 60, held=42, begin=14)
    yield spectrum(220, 220, 220)
    yield spectrum(260, 200, 200)
    yield spectrum(400, 400, 160, held=240)
    yield spectrum(480, 480, 320, held=162, begin=2, emphasis=3)
    yield node_of("spectrum_power", SpectrumPower(0, 9), [count("x", (18,), "s32")])
    yield node_of("spectrum_power", SpectrumPower(3, 8), [count("x", (18,), "s32")])
    yield spectrum_bands("u64", 23)
    yield spectrum_bands("u32", 23)
    yield spectrum_log(1, 11, adds=False)
    yield spectrum_log(2, 9, adds=True)
    yield spectrum_project(SpectrumProject(46), 7)
    yield spectrum_project(SpectrumProject(40, -100, 90, cuts=True), 6)
    yield spectrum_project(SpectrumProject(44, cuts=True), 20, results=3)
    yield spectrum_project(SpectrumProject(17), 5, results=4)


def signal_cases() -> Iterator[Graph]:
    """Every signal operator."""
    yield node_of("motion", Motion(2, 9, FEATURES, 2, 1), [count("x", (6,)), count("held", (14,))])
    yield node_of("motion", Motion(2, 64, FEATURES, 2, 1), [count("x", (40,)), count("held", (90,))])
    yield node_of("motion", Motion(1, 50, ("mean",), 3), [count("x", (50,))])
    yield node_of("motion", Motion(1, 12, ("std",)), [count("x", (12,))])
    yield from _spectra()
    yield from _sizes()
    yield from _of_lines()
    yield node_of("signal_rfft", SignalRfft(512), [count("x", (480,))])
    yield node_of("signal_energy", SignalEnergy(2, 7), [count("x", (18,))])
    yield filter_bank(3, 20, 0)
    yield filter_bank(4, 30, 0, negative=True)
    yield filter_bank(5, 40, 2)
    yield node_of("signal_square_root", SignalSquareRoot(), [count("x", (9,), "u64"), count("s", (), "s32")])
    yield subtraction()
    yield subtraction(4, clamps=True)
    noisy = [count("x", (11,), "u32"), count("noise", (11,), "u32"), count("t", (125,))]
    yield node_of("signal_pcan", SignalPcan(6), noisy, {"t": gains()})
    yield node_of("signal_log", SignalLog(64, 3), [count("x", (13,), "u32")])
    yield node_of("signal_log", SignalLog(1600, -4), [count("x", (13,), "u32")])
    yield node_of("signal_log", SignalLog(1600, 3), [count("x", (13,), "u32")])  # saturates
    yield framer(2, 2, 12, 4, prefill=True)
    yield framer(1, 3, 10, 4)
    yield stacker(4, 3, 1, 2)
    yield stacker(3, 0, 1, 1)
    yield node_of("signal_overlap_add", SignalOverlapAdd(5), [count("x", (2, 3, 12)), count("held", (2, 12))])
    yield node_of("signal_history", SignalHistory(), [count("x", (2, 6)), count("held", (2, 10))])
    yield node_of("signal_history", SignalHistory(), [count("x", (1, 9)), count("held", (1, 4))])
    for like in (
        AxesScale(38, -100, 120),
        AxesScale(30, cuts=True),
        AxesScale(29, -32768, 32767, False, "s16"),
    ):
        yield axes_scale(like)
    yield node_of("integer_map", IntegerMap(TO_INT8, "s8"), [count("x", (21,))])
    yield node_of("integer_map", IntegerMap((("shr", 3), ("mul", -77)), "s32"), [count("x", (21,), "u32")])
