# SPDX-License-Identifier: Apache-2.0
"""Layers of signal operators, of attention and in int16 in several sizes: graphs of one node."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from counted_other_layers import WEIGHTED
from signal_cases import count, filter_bank, gains, log_mel, node_of, spectrum, spectrum_sizes, subtraction

from tests.ops.attention_graphs import Heads, attention_graph, masked
from tests.ops.one_node import one_node, tensor
from tests.ops.weighted import Layer, graph_of, in_int16, with_int16_weights
from tinyc.base.numerics import Numerics
from tinyc.ir.graph import Array, Graph
from tinyc.kernel.site import Padding, Pair
from tinyc.ops.axes_scale import AxesScale
from tinyc.ops.conv2d import Conv2D
from tinyc.ops.depthwise_conv2d import DepthwiseConv2D
from tinyc.ops.fully_connected import FullyConnected
from tinyc.ops.integer_map import IntegerMap
from tinyc.ops.log_mel import LogMel
from tinyc.ops.motion import FEATURES, Motion
from tinyc.ops.signal_energy import SignalEnergy
from tinyc.ops.signal_fft_auto_scale import SignalFftAutoScale
from tinyc.ops.signal_irfft import SignalIrfft
from tinyc.ops.signal_log import SignalLog
from tinyc.ops.signal_pcan import SignalPcan
from tinyc.ops.signal_rfft import SignalRfft
from tinyc.ops.signal_square_root import SignalSquareRoot
from tinyc.ops.signal_window import SignalWindow
from tinyc.ops.softmax import Softmax
from tinyc.ops.spectrum_bands import SpectrumBands
from tinyc.ops.spectrum_log import SpectrumLog
from tinyc.ops.spectrum_power import SpectrumPower
from tinyc.ops.spectrum_project import SpectrumProject
from tinyc.ops.spectrum_sizes import SpectrumSizes
from tinyc.passes.attention import join_attention

_LENGTHS = (24, 48, 120, 240)


def signal_layers() -> Iterator[Graph]:
    """All of them."""
    for part in (_lines, _of_bins, _bands, _transforms, _frames, _motions, _shares, _wide, _maps):
        yield from part()


def _lines() -> Iterator[Graph]:
    for n in _LENGTHS:
        for lines in (1, 3):
            window: Array = np.random.default_rng(n).integers(0, 4096, n).astype(np.int16)
            x = [count("x", (lines, n)), count("w", (n,))]
            yield node_of("signal_window", SignalWindow(12), x, {"w": window})
            yield node_of("signal_window", SignalWindow(9), x, {"w": window})
        yield node_of("signal_fft_auto_scale", SignalFftAutoScale(), [count("x", (n,))])
        for dtype in ("s8", "s16"):
            of_axes = {"f": np.full(2, 1 << 20, np.int32), "o": np.full(2, 77, np.int32)}
            x = [count("x", (n,)), count("f", (2,), "s32"), count("o", (2,), "s32")]
            yield node_of("axes_scale", AxesScale(22, -100, 100, dtype=dtype), x, of_axes)


def _of_bins() -> Iterator[Graph]:
    """What takes channels, or bins one by one."""
    for n in _LENGTHS:
        for start, end in ((0, n), (n // 4, n // 2)):
            yield node_of("signal_energy", SignalEnergy(start, end), [count("x", (2 * n,))])
            yield node_of("spectrum_power", SpectrumPower(start, end), [count("x", (2 * n,), "s32")])
        yield subtraction(n)
        yield subtraction(n, clamps=True)
        noisy = [count("x", (n,), "u32"), count("noise", (n,), "u32"), count("t", (125,))]
        yield node_of("signal_pcan", SignalPcan(6), noisy, {"t": gains()})
        yield node_of("signal_log", SignalLog(1600, 3), [count("x", (n,), "u32")])
        yield node_of("signal_square_root", SignalSquareRoot(), [count("x", (n,), "u64"), count("s", (), "s32")])
        least = {"least": np.full(n, -(1 << 25), np.int32)}
        sums = [count("x", (n,), "u64"), count("s", (), "s32"), count("least", (n,), "s32")]
        yield node_of("spectrum_log", SpectrumLog(1), sums, least)
        for results in (1, n // 8, n):
            shape = (n,) if results == n else (results, n)
            tables = {"f": np.full(shape, 1 << 20, np.int32), "o": np.full(results, 77, np.int32)}
            x = [count("x", (n,), "s32"), count("f", shape, "s32"), count("o", (results,), "s32")]
            yield node_of("spectrum_project", SpectrumProject(40), x, tables)


def _bands() -> Iterator[Graph]:
    for channels, bins in ((3, 30), (10, 60), (40, 128), (5, 200), (20, 257)):
        yield filter_bank(channels, bins, 0)
        yield filter_bank(channels, bins, 0, negative=True)
        weights = np.zeros((channels, bins), np.int32)
        for band in range(channels):
            weights[band, band : band + 1 + (7 * band) % (bins // 3)] = 3000
        for dtype in ("u32", "u64"):
            x = [count("x", (bins,), dtype), count("w", weights.shape, "s32")]
            yield node_of("spectrum_bands", SpectrumBands(), x, {"w": weights})


def _transforms() -> Iterator[Graph]:
    for length in (32, 64, 128, 256, 512):
        for lines in (1, 3):
            for dtype in ("s16", "s32"):
                yield node_of("signal_rfft", SignalRfft(length), [count("x", (lines, length), dtype)])
                yield node_of("signal_irfft", SignalIrfft(length), [count("x", (lines, length + 2), dtype)])
    for length in (32, 64, 128, 256, 512, 60, 100, 200, 250, 400, 480, 500):
        for emphasis in (0, 15892):
            yield spectrum(length, length, length + 2, begin=2, emphasis=emphasis)
            yield spectrum(length, length // 2 + length // 2 % 2 + 4, length, begin=2, emphasis=emphasis)


def _frames() -> Iterator[Graph]:
    for length in (32, 64, 128, 256, 512, 40, 60, 100, 200, 250, 400, 480):
        for power, frames, bands in ((1, 1, 5), (2, 1, 12), (1, 3, 10), (2, 4, 4), (1, 2, 8)):
            samples = length + (frames - 1) * 20
            yield log_mel(LogMel(20, power, add=1e3), samples, length, bands, 1 + length // 8 // frames)
            sizes = SpectrumSizes(1, 20, length, (10, length // 2 + 1, length)[bands % 3], power)
            yield spectrum_sizes(
                sizes, samples, length - (length // 8 * 2 if frames == 1 else 0), 3e3 if power == 1 else 2e8
            )


def _motions() -> Iterator[Graph]:
    for window in (12, 19, 31, 32, 50, 60, 64, 72, 90, 100, 110, 120, 125, 128, 150, 200, 256):
        for axes, features, peaks in (
            (1, FEATURES, 2),
            (3, ("mean", "max"), 1),
            (2, ("rms",), 3),
            (1, ("std", "rms"), 0),
        ):
            yield node_of("motion", Motion(axes, window, features, peaks), [count("x", (axes * window,))])


def _shares() -> Iterator[Graph]:
    for shape in ((1, 10), (1, 60), (8, 12), (40, 9), (100, 11), (2, 600), (40, 64), (12, 100)):
        for scale in (1 / 256, 1 / 255):
            yield one_node("softmax", Softmax(), [tensor("x", shape, 0.1, 7)], scale, -128)
    for heads in (Heads(9, 2, 8), Heads(20, 1, 16, factor=False), Heads(5, 3, 40), Heads(32, 2, 24), Heads(12, 4, 4)):
        graph = attention_graph(heads)
        yield join_attention(graph, Numerics.TFLM)
        yield join_attention(masked(graph, np.tril(np.ones((heads.tokens, heads.tokens), bool)), -128), Numerics.TFLM)


def _wide() -> Iterator[Graph]:
    """What has no kernel of int8 times int8."""
    for layer in (
        Layer("conv2d", Conv2D(), (1, 6, 6, 8), (12, 1, 1, 8)),
        Layer("conv2d", Conv2D(pad=Padding(1, 1, 1, 1)), (1, 6, 6, 16), (8, 3, 3, 16)),
        Layer("conv2d", Conv2D(Pair(2, 2)), (1, 9, 9, 5), (7, 3, 3, 5)),
        Layer("conv2d", Conv2D(), (1, 7, 2, 30), (4, 5, 1, 30)),
        Layer("depthwise_conv2d", DepthwiseConv2D(), (1, 6, 7, 16), (3, 3, 16)),
        Layer("depthwise_conv2d", DepthwiseConv2D(Pair(2, 2)), (1, 12, 4, 5), (5, 2, 5)),
        Layer("fully_connected", FullyConnected(), (1, 200), (30, 200)),
        Layer("fully_connected", FullyConnected(), (6, 24), (10, 24)),
    ):
        yield with_int16_weights(graph_of(layer))
        yield in_int16(graph_of(layer))
    for layer in WEIGHTED:
        yield in_int16(graph_of(layer))


def _maps() -> Iterator[Graph]:
    steps = (("add", 333), ("mul", 77), ("div", 666), ("shr", 3), ("min", 127), ("max", -128))
    for n in _LENGTHS[1:]:
        for some in ((), *((one,) for one in steps), steps[4:], steps, steps[:2] * 2):
            yield node_of("integer_map", IntegerMap(some, "s32"), [count("x", (n,), "s32")])
