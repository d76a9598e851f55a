# SPDX-License-Identifier: Apache-2.0
"""`tinyc inspect` names files and lines of tinyc: there stands what it says. Those of a library: tests/package."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.ops.weighted import Layer, graph_of
from tinyc.base.numerics import Numerics
from tinyc.base.paths import runtime_dir
from tinyc.board import load_board
from tinyc.choose.select import candidates
from tinyc.explain.places import places_of
from tinyc.ir.graph import Graph
from tinyc.kernel.site import Padding, Pair
from tinyc.ops import all_ops
from tinyc.ops.conv2d import Conv2D
from tinyc.ops.depthwise_conv2d import DepthwiseConv2D
from tinyc.ops.fully_connected import FullyConnected

ROOT = Path(__file__).resolve().parents[2]
UNNAMED = {"tc_pool2d_s16"}  # its offer is one expression beside the kernel's name


@pytest.mark.parametrize("name", sorted(all_ops()))
def test_every_kernel_names_its_functions(name: str) -> None:
    op = all_ops()[name]
    for kernel in op.every_kernel:
        places = places_of(op, kernel)
        assert {"meaning", "integers", "parameters"} & {place.part for place in places}
        own = [place for place in places if place.part not in ("meaning", "integers", "parameters")]
        assert own or kernel.name in UNNAMED, kernel.name
        for place in places:
            file = ROOT / place.file if place.line else runtime_dir() / place.file.removeprefix("runtime_c/")
            assert file.is_file()
            if place.line:
                assert file.read_text().splitlines()[place.line - 1].lstrip().startswith(("def ", "@"))


def _weighted() -> list[Graph]:
    """Layers that together every tile takes one of, on one core or another."""
    pad, two = Padding(1, 1, 1, 1), Pair(2, 2)
    conv, depthwise = "conv2d", "depthwise_conv2d"
    layers = [
        Layer(conv, Conv2D(), (1, 6, 8, 16), (16, 1, 1, 16)),
        Layer(conv, Conv2D(), (1, 1, 1, 16), (12, 1, 1, 16)),
        Layer(conv, Conv2D(pad=pad), (1, 8, 8, 16), (16, 3, 3, 16)),
        Layer(conv, Conv2D(two, pad), (1, 8, 8, 16), (16, 3, 3, 16)),
        Layer(depthwise, DepthwiseConv2D(pad=pad), (1, 8, 8, 16), (3, 3, 16)),
        Layer(depthwise, DepthwiseConv2D(two, pad), (1, 8, 8, 16), (3, 3, 16)),
        Layer(depthwise, DepthwiseConv2D(), (1, 8, 8, 16), (5, 5, 16)),
        Layer(depthwise, DepthwiseConv2D(), (1, 12, 1, 16), (4, 1, 16)),
        Layer(depthwise, DepthwiseConv2D(), (1, 4, 4, 16), (4, 4, 16)),
        Layer("fully_connected", FullyConnected(), (1, 64), (24, 64)),
        Layer("fully_connected", FullyConnected(), (4, 64), (24, 64)),
    ]
    return [graph_of(replace(layer, bits=bits)) for layer in layers for bits in (8, 4)]


@pytest.mark.parametrize("board_name", ["cortex-m0plus", "cortex-m3", "cortex-m4", "cortex-m55", "riscv32imc"])
def test_functions_written_for_weighted_layers_say_their_tile(board_name: str) -> None:
    """How many outputs are made together, where inputs wait, how weights lie; on cores without DSP row by row, too."""
    board = load_board(board_name)
    tiles = set()
    for graph in _weighted():
        for choice in candidates(graph, board.isa, Numerics.TFLM)[graph.nodes[0].name]:
            if not choice.kernel.written:
                continue
            forms = () if "dsp" in board.isa else choice.offer.row_forms()
            functions = [choice.offer.special, *(form.special for form in forms)]
            for function in (special() for special in functions if special is not None):
                assert function.tile.count(";") >= 2, (choice.kernel.name, function.name)
                tiles.add(function.tile)
    assert len(tiles) > 3
