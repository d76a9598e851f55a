# SPDX-License-Identifier: Apache-2.0
"""The conv2d and fully_connected functions in assembly on emulated cores: the reference's bytes, counts as promised.

Many layers go into one firmware, side by side: one build and one run for each kernel and rounding.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from one_layer import Asked, check_together

from tests.ops.weighted import Layer, graph_of, samples
from tinyc.base.numerics import Numerics
from tinyc.board import load_board
from tinyc.ir.graph import Graph, Quant, read_only
from tinyc.kernel.kernel import Kernel
from tinyc.kernel.site import RELU, RELU6, Act, Padding, Pair
from tinyc.kernels.rows import conv
from tinyc.kernels.weighted import fully_connected, input_stationary
from tinyc.ops.conv2d import Conv2D
from tinyc.ops.fully_connected import FullyConnected
from tinyc.run import RunResult

ONE = Padding(1, 1, 1, 1)
CONV = {kernel.name: kernel for kernel in conv.KERNELS}
FC = {kernel.name: kernel for kernel in (*fully_connected.KERNELS, *input_stationary.KERNELS)}
KERNELS = {**CONV, **FC}
FOUR_PIXELS = "tc_conv2d_s8_4x2_asm"
ISA = load_board("cortex-m4").isa
ROUNDINGS = [Numerics.TFLM, Numerics.OURS]


def layer(x, w, attrs=None, **more) -> Layer:
    return Layer("conv2d", attrs or Conv2D(), (1, *x), w, **more)


def dense(x, out_c, act=RELU, **more) -> Layer:
    more = {"y_zero": -128 if act == RELU else -5, "per_channel": False, **more}
    return Layer("fully_connected", FullyConnected(act=act), x, (out_c, x[-1]), **more)


def relu(*geometry, **more) -> Layer:
    return layer(
        *geometry[:2],
        replace(geometry[2], act=RELU) if geometry[2:] else Conv2D(act=RELU),
        y_zero=-128,
        **more,
    )


CONVS = {
    "1x1": relu((5, 5, 64), (64, 1, 1, 64)),
    "1x1, odd": layer((7, 3, 9), (7, 1, 1, 9)),
    "1x1, one of each": layer((1, 1, 1), (1, 1, 1, 1)),
    "1x1, one pixel": layer((1, 1, 17), (5, 1, 1, 17)),
    "1x1, two pixels": relu((1, 2, 3), (3, 1, 1, 3)),
    "1x1, three pixels": layer((3, 1, 5), (9, 1, 1, 5)),
    "1x1, most taps on the stack": layer((2, 2, 256), (4, 1, 1, 256)),
    "1x1, taps in scratch": relu((1, 3, 257), (6, 1, 1, 257)),
    "1x1, stride 2": layer((9, 9, 16), (8, 1, 1, 16), Conv2D(Pair(2, 2))),
    "1x1, stride 2, clamp": layer((8, 7, 5), (7, 1, 1, 5), Conv2D(Pair(2, 2), act=Act(-0.5, 0.5))),
    "1x1, four pixels": layer((1, 4, 8), (4, 1, 1, 8)),
    "1x1, five pixels": relu((5, 1, 12), (12, 1, 1, 12)),
    "1x1, six pixels, most taps for fours": relu((2, 3, 128), (36, 1, 1, 128)),
    "1x1, seven pixels, clamp": layer((1, 7, 52), (8, 1, 1, 52), Conv2D(act=Act(-0.5, 0.5))),
    "1x1, fours of steps": layer((3, 4, 84), (16, 1, 1, 84), x_zero=-128, per_channel=False),
    "1x1, ten taps": relu((3, 5, 10), (6, 1, 1, 10)),
    "1x1, fifteen taps, a channel more": layer((2, 4, 15), (5, 1, 1, 15)),
    "1x1, sixteen taps": relu((1, 3, 16), (11, 1, 1, 16)),
    "1x1, many taps and one more": relu((2, 2, 125), (4, 1, 1, 125)),
    "1x1, three pixels, turns of sixteen steps": layer((1, 3, 21), (12, 1, 1, 21)),
    "1x1, one pixel, turns of sixteen steps": relu((1, 1, 128), (8, 1, 1, 128)),
    "1x1, most taps and one less": relu((3, 1, 255), (9, 1, 1, 255)),
    "first layer, 10x4": relu((13, 10, 1), (17, 10, 4, 1), Conv2D(Pair(2, 2), Padding(4, 1, 5, 1))),
    "first layer, RGB": relu((9, 33, 3), (8, 3, 3, 3), Conv2D(Pair(2, 2), Padding(0, 0, 1, 1))),
    "3x3": relu((5, 9, 16), (16, 3, 3, 16), Conv2D(pad=ONE)),
    "3x3, general": layer((7, 8, 3), (9, 3, 3, 3), Conv2D(pad=ONE), x_zero=-128, y_zero=127),
    "3x3, stride 2, relu6": layer((8, 7, 5), (5, 3, 3, 5), Conv2D(Pair(2, 2), Padding(0, 0, 1, 1), act=RELU6)),
    "3x3, unpadded": layer((5, 6, 6), (3, 3, 3, 6)),
    "3x3, loops": relu((4, 5, 64), (6, 3, 3, 64), Conv2D(pad=ONE)),
    "3x3, odd loops": layer((3, 4, 29), (5, 3, 3, 29), Conv2D(pad=ONE)),
    "3x3, one column": layer((5, 3, 7), (4, 3, 3, 7)),
    "3x1 of a column": relu((20, 1, 12), (10, 5, 1, 12), Conv2D(pad=Padding(2, 0, 2, 0))),
    "1x5": layer((4, 30, 9), (5, 1, 5, 9), Conv2D(pad=Padding(0, 2, 0, 2))),
    "5x5, long rows": layer((6, 17, 33), (6, 5, 5, 33), Conv2D(pad=Padding(2, 2, 2, 2))),
    "7x7, stride 2": layer((9, 9, 3), (3, 7, 7, 3), Conv2D(Pair(2, 2), Padding(3, 3, 3, 3))),
    "wide pads": layer((3, 1, 7), (4, 3, 3, 7), Conv2D(Pair(1, 2), Padding(2, 3, 1, 2)), x_zero=-128),
    "dilated": layer((9, 20, 24), (6, 3, 3, 24), Conv2D(Pair(1, 1), Padding(2, 3, 2, 3), Pair(2, 3))),
    "dilated, odd": layer((9, 8, 3), (8, 3, 2, 3), Conv2D(Pair(2, 1), Padding(1, 2, 0, 1), Pair(2, 3)), x_zero=127),
    "nothing saturates": layer((5, 3, 5), (5, 3, 3, 5), gain=0.2),
    "everything saturates": layer((5, 4, 5), (5, 1, 1, 5), gain=20.0),
}
DENSES = {
    "640 -> 128": dense((1, 640), 128),
    "128 -> 9": dense((1, 128), 9),
    "8 -> 33, general": dense((1, 8), 33, Act()),
    "140 -> 11, general": dense((1, 140), 11, Act()),
    "260 -> 8": dense((1, 260), 8),
    "256 -> 9": dense((1, 256), 9),
    "68 -> 17, general": dense((1, 68), 17, Act()),
    "64 -> 8": dense((1, 64), 8),
    "4 -> 1": dense((1, 4), 1),
    "130 -> 10, scale per output": dense((1, 130), 10, Act(), per_channel=True),
    "1 -> 1": dense((1, 1), 1),
    "3 -> 2": dense((1, 3), 2, Act()),
    "17 -> 5, relu6": dense((1, 17), 5, RELU6),
    "255 -> 6": dense((1, 255), 6),
    "two rows": dense((2, 64), 7),
    "three odd rows": dense((3, 17), 5, Act()),
    "five long rows": dense((5, 260), 8),
}
EXTREMES = {
    "ones": layer((4, 3, 64), (5, 1, 1, 64), weights="largest"),
    "signs": relu((4, 3, 64), (5, 1, 1, 64), weights="signs"),
    "fours of ones": layer((4, 3, 64), (8, 1, 1, 64), weights="largest"),
    "fours of signs": layer((3, 3, 128), (4, 1, 1, 128), weights="signs"),
    "3x3 signs": layer((4, 5, 16), (5, 3, 3, 16), Conv2D(pad=ONE), weights="signs"),
    "dense signs": dense((1, 100), 8, Act(), weights="signs"),
    "dense ones": dense((1, 100), 9, weights="largest"),
}


def check(layers: Mapping[str, Layer], graphs: Mapping[str, Graph], kernel: str, *args, **more) -> RunResult:
    """All layers with the kernel in one firmware."""
    return check_together([(graphs[name], samples(one), kernel) for name, one in layers.items()], *args, **more)


def check_all(layers: Mapping[str, Layer], kernel: str, *args, **more) -> RunResult:
    return check(layers, {name: graph_of(one) for name, one in layers.items()}, kernel, *args, **more)


def takes(kernel: Kernel, graph: Graph, numerics: Numerics) -> bool:
    return Asked.of(graph, numerics, ISA).takes(kernel)


def taken(layers: Mapping[str, Layer], kernel: Kernel, numerics: Numerics) -> dict[str, Layer]:
    """The layers that the kernel takes: all, (in FPU registers) most, (in a short loop) those with enough taps, (of any
    shape) those of 1x1 weights, (four pixels together) those by fours."""
    taken_layers = {name: one for name, one in layers.items() if takes(kernel, graph_of(one), numerics)}
    choosy = kernel.name == FOUR_PIXELS or "rolled" in kernel.name or "shared" in kernel.name
    if choosy and not taken_layers:
        pytest.skip("none of these layers is of the kernel's kind")
    fewer = "fpu" in kernel.name or kernel in input_stationary.KERNELS
    some = choosy or (fewer and len(taken_layers) > len(layers) // 4)
    assert len(taken_layers) == len(layers) or some
    return taken_layers


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize("numerics", ROUNDINGS)
@pytest.mark.parametrize("kernel", CONV)
def test_conv2d(kernel: str, numerics: Numerics) -> None:
    layers = taken(CONVS, CONV[kernel], numerics)
    ran = check_all(layers, kernel, numerics)
    _assert_counts(layers, CONV[kernel], numerics, ran)


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize("numerics", ROUNDINGS)
@pytest.mark.parametrize("kernel", FC)
def test_fully_connected(kernel: str, numerics: Numerics) -> None:
    layers = taken(DENSES, FC[kernel], numerics)
    ran = check_all(layers, kernel, numerics)
    _assert_counts(layers, FC[kernel], numerics, ran)


def _assert_counts(layers: Mapping[str, Layer], kernel: Kernel, numerics: Numerics, ran: RunResult) -> None:
    """Executed instructions are what `cost` says, but for the loop over rows, which the compiler writes."""
    total = 0
    for one in layers.values():
        total += Asked.of(graph_of(one), numerics, ISA).instructions(kernel)
    assert ran.instructions[0] == pytest.approx(total, rel=0.02)


@pytest.mark.parametrize(("name", "per_mac"), [("1x1", 0.75), ("3x3", 0.80), ("first layer, RGB", 1.1)])
def test_instructions_per_mac(name: str, per_mac: float) -> None:
    ran = check_all({name: CONVS[name]}, "tc_conv2d_s8_w16_asm")
    one = CONVS[name]
    stride = one.attrs.stride
    pixels = -(-one.x_shape[1] // stride.h) * -(-one.x_shape[2] // stride.w)
    assert ran.instructions[0] < per_mac * pixels * np.prod(one.w_shape)


@pytest.mark.parametrize("numerics", ROUNDINGS)
def test_extremes(numerics: Numerics) -> None:
    """By every kernel, side by side in one firmware."""
    cases = []
    for name, kernel in KERNELS.items():
        op = "conv2d" if name in CONV else "fully_connected"
        layers = {what: (one, graph_of(one)) for what, one in EXTREMES.items() if one.op == op}
        layers_taken = {
            what: layer_and_graph
            for what, layer_and_graph in layers.items()
            if takes(kernel, layer_and_graph[1], numerics)
        }
        assert {"signs", "dense signs", "fours of signs"} & set(layers_taken)
        cases += [(graph, samples(one), name) for one, graph in layers_taken.values()]
    check_together(cases, numerics)


def near_dead(one: Layer) -> Graph:
    """The layer with scales that fall by 2 from channel to channel, to 2^-22, and biases that keep outputs apart."""
    graph = graph_of(one)
    w = graph.values["w"]
    assert w.quant is not None
    scales = tuple(float(np.float32(0.01 * 2.0 ** -min(i, 22))) for i in range(one.out_c))
    rng = np.random.default_rng(one.seed)
    span = np.minimum(4000 * 2.0 ** np.arange(one.out_c), 2.0**28)
    bias = np.rint(rng.uniform(-1, 1, one.out_c) * span).astype(np.int32)
    values = {**graph.values, "w": replace(w, quant=Quant(scales, (0,) * one.out_c, 0))}
    return replace(graph, values=values, consts={**graph.consts, "b": read_only(bias)})


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("numerics", ROUNDINGS)
@pytest.mark.parametrize("act", [RELU, Act()])
def test_near_dead_channels(act: Act, numerics: Numerics) -> None:
    y_zero = -128 if act == RELU else 3
    layers = {"1x1": layer((3, 5, 32), (27, 1, 1, 32), Conv2D(act=act), y_zero=y_zero)}
    check(layers, {name: near_dead(one) for name, one in layers.items()}, "tc_conv2d_s8_w16_asm", numerics)


@pytest.mark.parametrize("kernel", CONV)
def test_least_weights_go_to_int16(kernel: str) -> None:
    one = layer((4, 3, 6), (5, 3, 3, 6), weights="least")
    graph = graph_of(replace(one, weights="random"))
    w = graph.consts["w"].copy()
    w[0, 0, 0, 0] = -128  # of a channel that lies over another
    graph = replace(graph, consts={**graph.consts, "w": read_only(w)})
    assert takes(CONV[kernel], graph, Numerics.TFLM) == ("w16" in kernel)


OTHERS = [("cortex-m4", "zig"), ("cortex-m7", "gcc"), ("cortex-m33", "gcc"), ("cortex-m55", "gcc")]


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize(("board", "toolchain"), OTHERS)
def test_other_cores_and_compilers(board: str, toolchain: str) -> None:
    """Every layer with one of the kernels that take it, every kernel with some layers, in one firmware."""
    cases = []
    layers_of: Counter[str] = Counter()
    for one in (*CONVS.values(), *DENSES.values()):
        graph = graph_of(one)
        takers = [
            kernel
            for kernel in KERNELS.values()
            if (kernel.name in CONV) == (one.op == "conv2d") and takes(kernel, graph, Numerics.TFLM)
        ]
        taker = min(takers, key=lambda kernel: layers_of[kernel.name]).name
        layers_of[taker] += 1
        cases.append((graph, samples(one), taker))
    fours = CONVS["1x1, six pixels, most taps for fours"]
    cases.append((graph_of(fours), samples(fours), FOUR_PIXELS))  # which takes few of them
    assert {kernel for *_, kernel in cases} == set(KERNELS)
    check_together(cases, toolchain=toolchain, board_name=board)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kernel", "board", "toolchain"),
    [(kernel, *other) for kernel in KERNELS for other in (OTHERS[:1] if "rolled" in kernel else OTHERS)],
)
def test_all_layers_on_other_cores(kernel: str, board: str, toolchain: str) -> None:
    layers = taken(CONVS if kernel in CONV else DENSES, KERNELS[kernel], Numerics.TFLM)
    check_all(layers, kernel, toolchain=toolchain, board_name=board)


@pytest.mark.slow
@pytest.mark.parametrize("kernel", CONV)
@pytest.mark.parametrize("in_c", [*range(1, 21), 31, 33, 63, 65, 127, 130])
def test_every_small_1x1(kernel: str, in_c: int) -> None:
    counts = itertools.product((1, 2, 3, 4, 5), (1, 2, 3, 4, 5, 7, 8, 9))
    layers = {f"{w} pixels, {o}": layer((1, w, in_c), (o, 1, 1, in_c), seed=o) for w, o in counts}
    layers = taken(layers, CONV[kernel], ROUNDINGS[in_c % 2])
    check_all(layers, kernel, ROUNDINGS[in_c % 2])


@pytest.mark.slow
@pytest.mark.parametrize("kernel", CONV)
@pytest.mark.parametrize("in_c", [1, 3, 4, 7, 16, 33])
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_every_small_window(kernel: str, in_c: int, stride: int) -> None:
    layers = {}
    for k_h, k_w, width, pad in itertools.product((1, 2, 3), (1, 2, 3, 4), (4, 5, 6, 9), (0, 1)):
        attrs = Conv2D(Pair(stride, stride), Padding(pad, pad, pad, pad), act=RELU if width % 2 else Act())
        one = layer((4, width, in_c), (3, k_h, k_w, in_c), attrs, y_zero=-128 if width % 2 else 0, seed=k_h)
        layers[f"{k_h}x{k_w} {width} {pad}"] = one
    check_all(taken(layers, CONV[kernel], Numerics.TFLM), kernel)


@pytest.mark.slow
@pytest.mark.parametrize("numerics", ROUNDINGS)
@pytest.mark.parametrize("kernel", FC)
def test_every_small_dense(kernel: str, numerics: Numerics) -> None:
    counts = itertools.product((1, 2, 3), (*range(1, 40), 127, 128, 129, 130), (1, 4, 7))
    layers = {f"{b}x{i} -> {o}": dense((b, i), o, Act(), seed=i) for b, i, o in counts}
    layers = {name: one for name, one in layers.items() if takes(FC[kernel], graph_of(one), numerics)}
    check_all(layers, kernel, numerics)
