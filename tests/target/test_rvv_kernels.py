# SPDX-License-Identifier: Apache-2.0
"""The kernels with RISC-V's vectors on emulated cores with registers of 64, 128 and 256 bits: the reference's bytes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from one_layer import check_on_core, check_together

from tests.ops.weighted import Layer, graph_of, samples
from tinyc.base import paths
from tinyc.base.numerics import Numerics
from tinyc.kernel.site import RELU, RELU6, Padding, Pair, Site
from tinyc.kernels.rvv.finish import ADDED, DEFINED, PLAIN, vector_finish
from tinyc.kernels.stream import matrix_of
from tinyc.ops import all_ops
from tinyc.ops.conv2d import Conv2D
from tinyc.ops.fully_connected import FullyConnected

BOARD = "riscv32-zve32x"
# QEMU 7.2 has 64 bits only by the name of another extension, of which the firmware has no instruction.
CPUS = {64: "rv32,Zve32f=true,vlen=64", 128: "rv32,v=true,vlen=128", 256: "rv32,v=true,vlen=256"}
ONE = Padding(1, 1, 1, 1)
KERNELS = {"conv2d": "tc_conv2d_s8_rvv", "fully_connected": "tc_fully_connected_s8_rvv"}


def conv(x, w, attrs=None, **more) -> Layer:
    return Layer("conv2d", attrs or Conv2D(), (1, *x), (w[0], w[1], w[2], x[2]), **more)


def dense(x, w, attrs=None, **more) -> Layer:
    return Layer("fully_connected", attrs or FullyConnected(), x, w, **more)


LAYERS = {
    "1x1": conv((5, 7, 9), (9, 1, 1), y_zero=-128),
    "1x1, one pixel": conv((1, 1, 5), (3, 1, 1)),
    "1x1, two pixels, relu, many channels": conv((1, 2, 8), (67, 1, 1), Conv2D(act=RELU), y_zero=-128),
    "1x1, one tap, 33 channels": conv((16, 16, 1), (33, 1, 1), gain=0.3),
    "3x3 same": conv((4, 5, 3), (8, 3, 3), Conv2D(pad=ONE, act=RELU6), x_zero=-128),
    "3x3, stride 2, long": conv((5, 7, 70), (5, 3, 3), Conv2D(Pair(2, 2), Padding(0, 1, 0, 1)), x_zero=127),
    "2x4, dilated": conv((6, 9, 3), (7, 2, 4), Conv2D(dilation=Pair(2, 2)), bias=False),
    "10x4 of one channel": conv(
        (13, 10, 1), (40, 10, 4), Conv2D(Pair(2, 2), Padding(4, 1, 5, 1), act=RELU), y_zero=-128
    ),
    "rows longer than vectors": conv((3, 2, 150), (20, 2, 2), Conv2D(act=RELU6), y_zero=-100),
    "least": conv((2, 3, 20), (18, 1, 1), weights="all least"),
    "dense": dense((1, 37), (9, 37)),
    "one": dense((1, 1), (1, 1)),
    "rows, relu": dense((3, 16), (70, 16), FullyConnected(act=RELU), y_zero=-128),
    "largest": dense((1, 702), (130, 702), weights="largest"),
}


@pytest.fixture(scope="module")
def board_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], str]:
    """board_of(bits of a register) -> the board's file."""

    def file(bits: int) -> str:
        text = (paths.boards_dir() / f"{BOARD}.toml").read_text(encoding="utf-8")
        assert CPUS[128] in text
        path: Path = tmp_path_factory.mktemp("boards") / f"vlen{bits}.toml"
        path.write_text(text.replace(CPUS[128], CPUS[bits]), encoding="utf-8")
        return str(path)

    return file


def check(layers: dict[str, Layer], numerics: Numerics, board: str, toolchain: str = "gcc") -> None:
    cases = [(graph_of(layer), samples(layer), KERNELS[layer.op]) for layer in layers.values()]
    check_together(cases, numerics, toolchain, board)


def way_of(layer: Layer, numerics: Numerics) -> str:
    graph = graph_of(layer)
    finish = vector_finish(matrix_of(all_ops()[layer.op].prepare(Site(graph, graph.nodes[0], numerics))))
    return finish.way if finish else ""


@pytest.mark.parametrize("bits", CPUS)
def test_equals_the_reference(board_of: Callable[[int], str], bits: int) -> None:
    """The bytes depend neither on how many channels fit a vector nor on whether the last ones fill it."""
    check(LAYERS, Numerics.TFLM, board_of(bits))


@pytest.mark.parametrize("numerics", [Numerics.OURS, Numerics.LITERT, Numerics.ONNX])
def test_other_numerics(numerics: Numerics) -> None:
    check({name: layer for name, layer in LAYERS.items() if way_of(layer, numerics)}, numerics, BOARD)


def test_every_way_to_int8_runs() -> None:
    """Samples at the ends of the range: sums as large as the weights allow, of both signs."""
    layers = {
        PLAIN: conv((3, 5, 6), (35, 1, 1), gain=0.05, y_zero=-128),
        DEFINED: conv((4, 3, 64), (35, 3, 3), weights="signs", gain=1.0),
        ADDED: conv((4, 3, 64), (35, 3, 3), weights="signs", y_zero=-5),
    }
    numerics = {PLAIN: Numerics.TFLM, DEFINED: Numerics.TFLM, ADDED: Numerics.OURS}
    for way, layer in layers.items():
        assert way_of(layer, numerics[way]) == way
        check_on_core(graph_of(layer), samples(layer), KERNELS["conv2d"], numerics[way], board_name=BOARD)


def test_other_compiler() -> None:
    """Which does not know the extension: the functions in assembly name it themselves."""
    check({name: LAYERS[name] for name in ("3x3 same", "rows, relu")}, Numerics.TFLM, BOARD, "zig")


def test_a_core_without_vectors_takes_another_kernel() -> None:
    layer = replace(LAYERS["1x1"], seed=3)
    check_on_core(graph_of(layer), samples(layer), "tc_conv2d_s8_rv32", board_name=BOARD)
