# SPDX-License-Identifier: Apache-2.0
"""float32 layers in assembly: run by the meanings of their instructions, and what they cost."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from interpreted import in_assembly, outputs_of
from kernel_cases import Together, together
from one_layer import check_together

from tests.ops.float32_layers import float_cases
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.board import load_board
from tinyc.choose.select import ask
from tinyc.ir.graph import Graph
from tinyc.kernel.kernel import Offer
from tinyc.kernel.site import Site
from tinyc.kernels.float32.blocks import Channels, FloatBlock
from tinyc.kernels.float32.vectors import VectorBlock
from tinyc.machine.cores import CORTEX_M4
from tinyc.ops import all_ops
from tinyc.reference.interpreter import run_int
from tinyc.toolchain.compilers import Toolchain, find_toolchain

BOARD = load_board("cortex-m4")
VECTORS = ("conv2d", "depthwise_conv2d", "fully_connected")  # operators with kernels that use Helium


def layers() -> Together:
    """Those of kernel_cases.py that have float32 kernels in assembly."""
    return together(BOARD.isa, Numerics.OURS, lambda kernel: "fpu" in kernel.isa and kernel.name.endswith("_f32_asm"))


def _takes_vectors(graph: Graph) -> bool:
    site = Site(graph, graph.nodes[0], Numerics.OURS)
    (kernel,) = (one for one in all_ops()[site.node.op].every_kernel if one.name.endswith("_f32_mve"))
    return isinstance(ask(kernel, site, kernel.isa), Offer)


def compiler() -> Toolchain:
    try:
        return find_toolchain(BOARD, "gcc")
    except TinycError as error:
        pytest.skip(error.message)


def test_gives_the_reference_and_touches_nothing_else(tmp_path: Path) -> None:
    network = in_assembly(layers(), "fpu")
    assert {node.op for node in network.graph.nodes} == {"conv2d", "depthwise_conv2d", "fully_connected"}
    outputs = outputs_of(network, BOARD, compiler(), Numerics.OURS, tmp_path)
    reference = run_int(network.graph, network.inputs, Numerics.OURS)
    for name, data in zip(network.graph.outputs, outputs, strict=True):
        assert data == np.ascontiguousarray(reference[name]).tobytes(), name


def test_subnormal_numbers_are_kept_with_helium() -> None:
    """Helium's products take them for zero: inputs and results, here of inputs that are subnormal or so small that
    products are, and where numbers are infinite. Instructions show that only these samples were computed twice."""
    graphs = [graph for graph in float_cases() if graph.nodes[0].op in VECTORS and _takes_vectors(graph)]
    (x,) = {graph.inputs for graph in graphs}
    rng, samples = np.random.default_rng(9), []
    for scale in (1.0, 1e-40, 3e-38, np.inf):
        given = [rng.standard_normal(graph.values[x[0]].shape).astype(np.float32) for graph in graphs]
        for array in given if scale != 1.0 else ():
            array.flat[::5] *= np.float32(scale)
        samples.append(given)
    cases = [
        (graph, [{x[0]: sample[number]} for sample in samples], f"tc_{graph.nodes[0].op}_f32_mve")
        for number, graph in enumerate(graphs)
    ]
    normal, tiny, small, infinite = check_together(cases, Numerics.OURS, board_name="cortex-m55").instructions
    assert infinite == normal
    assert min(tiny, small) > 2 * normal


def test_products_take_little_more_than_an_instruction() -> None:
    """Of the inner loops: docs/float32.md says how many."""
    for outputs, pixels, most in ((8, 2, 1.11), (8, 1, 1.11), (4, 2, 1.13), (4, 1, 1.20)):
        block = FloatBlock(outputs, pixels, 8, "relu", CORTEX_M4)
        assert block.work("turn").instructions <= most * 8 * outputs * pixels
    assert Channels(8, 2, 3, "relu", CORTEX_M4).work("turn").instructions <= 1.36 * 3 * 16
    for outputs, pixels, most in ((8, 3, 0.41), (8, 2, 0.46), (8, 1, 0.57), (24, 1, 0.53)):
        assert VectorBlock(outputs, pixels, "relu").work("turn").instructions <= most * 4 * outputs * pixels
