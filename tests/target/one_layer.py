# SPDX-License-Identifier: Apache-2.0
"""One-layer models on an emulated core, with a kernel of choice."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from machines import target_for
from symbols import check_links_alone

from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.board import load_board
from tinyc.choose.select import ask, select
from tinyc.emit.library import Info, emit_library
from tinyc.emit.lower import lower
from tinyc.ir.graph import Array, Graph
from tinyc.kernel.kernel import Kernel, Offer, Once
from tinyc.kernel.site import Site
from tinyc.ops import all_ops
from tinyc.plan.planner import plan_graph
from tinyc.reference.interpreter import run_int
from tinyc.run import RunResult
from tinyc.toolchain.compile import Sources, compile_firmware
from tinyc.toolchain.compilers import find_toolchain


class Asked:
    """A one-node graph on a core: what kernels share at the node is prepared for all of them that are asked."""

    def __init__(self, graph: Graph, numerics: Numerics, isa: frozenset[str]) -> None:
        self._isa = isa
        self._site = Site(graph, graph.nodes[0], numerics, isa=isa)
        self._params = Once(lambda: all_ops()[self._site.node.op].prepared(self._site))

    @classmethod
    def of(cls, graph: Graph, numerics: Numerics, isa: frozenset[str]) -> Asked:
        """The same one for the same graph."""
        key = (id(graph), numerics, isa)
        if key not in _ASKED:
            _ASKED[key] = (graph, cls(graph, numerics, isa))  # with the graph, whose id no other may get
        return _ASKED[key][1]

    def takes(self, kernel: Kernel) -> bool:
        return isinstance(ask(kernel, self._site, self._isa, self._params), Offer)

    def instructions(self, kernel: Kernel) -> int:
        """What a kernel that takes the node says that it costs."""
        offer = kernel.offer(self._site, self._params())
        assert isinstance(offer, Offer)
        assert offer.cost is not None
        return offer.cost.instructions


_ASKED: dict[tuple[int, Numerics, frozenset[str]], tuple[Graph, Asked]] = {}


def offer_of(kernel: Kernel, site: Site) -> Offer:
    """What the kernel offers for the node, which it takes; with a cost."""
    offer = kernel.offer(site, all_ops()[site.node.op].prepare(site))
    assert isinstance(offer, Offer)
    assert offer.cost is not None
    return offer


def check_on_core(
    graph: Graph,
    samples: Sequence[Mapping[str, Array]],
    kernel: str | Mapping[str, str],
    numerics: Numerics = Numerics.TFLM,
    toolchain: str = "gcc",
    board_name: str = "cortex-m4",
) -> RunResult:
    """Assert that the model gives the reference's bytes on the core, planned as for users but for a long search for
    offsets; the run. kernel: of all nodes, or by their names."""
    return _checked(graph, samples, kernel, numerics, toolchain, board_name)[0]


def _checked(
    graph: Graph,
    samples: Sequence[Mapping[str, Array]],
    kernel: str | Mapping[str, str],
    numerics: Numerics,
    toolchain: str,
    board_name: str,
) -> tuple[RunResult, list[str]]:
    """`check_on_core`, and the names of the nodes in the order of the steps."""
    board = load_board(board_name)
    target = target_for(board_name, None)
    try:
        compiler = find_toolchain(board, toolchain)
    except TinycError as error:
        pytest.skip(error.message)
    prefer = {node.name: kernel for node in graph.nodes} if isinstance(kernel, str) else kernel
    choices = select(graph, board.isa, numerics, prefer=prefer)
    plan = plan_graph(graph, choices, slide=True, work=0)
    program = lower(graph, plan, numerics, "one")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, text in emit_library(program, Info("one", "0" * 64, board.name)).items():
            (folder / file).write_text(text)
        firmware = compile_firmware(Sources(folder, "one"), board, compiler, "speed", folder / "firmware")
        check_links_alone(firmware)
        ran = target.run(firmware, [[sample[x].tobytes() for x in graph.inputs] for sample in samples])
    assert not ran.damaged_guards
    for sample, outputs in zip(samples, ran.outputs, strict=True):
        reference = run_int(graph, sample, numerics)
        for output, data in zip(graph.outputs, outputs, strict=True):
            np.testing.assert_array_equal(
                np.frombuffer(data, reference[output].dtype).reshape(reference[output].shape), reference[output]
            )
    return ran, [layer.node for layer in plan.layers]


Case = tuple[Graph, Sequence[Mapping[str, Array]], str]  # a layer, as many samples as the others have, a kernel


def check_together(
    cases: Sequence[Case],
    numerics: Numerics = Numerics.TFLM,
    toolchain: str = "gcc",
    board_name: str = "cortex-m4",
) -> RunResult:
    """`check_on_core` of many layers, each with its kernel, in one firmware."""
    return check_on_core(*together(cases), numerics, toolchain, board_name)


def counts_together(
    cases: Sequence[Case], numerics: Numerics = Numerics.TFLM, board_name: str = "cortex-m4"
) -> list[int]:
    """`check_together`: the instructions of each case for its first sample."""
    graph, inputs, kernels = together(cases)
    ran, order = _checked(graph, inputs, kernels, numerics, "gcc", board_name)
    return [ran.counts[0].steps[order.index(node.name)] for node in graph.nodes]


def together(cases: Sequence[Case]) -> tuple[Graph, list[dict[str, Array]], dict[str, str]]:
    """One graph of all cases, its samples, and the kernel of each node by name."""
    inputs: list[dict[str, Array]] = [{} for _ in cases[0][1]]
    for number, (_, given, _) in enumerate(cases):
        for merged, sample in zip(inputs, given, strict=True):
            merged |= {f"g{number}_{name}": array for name, array in sample.items()}
    kernels = {f"g{i}_{node.name}": kernel for i, (graph, _, kernel) in enumerate(cases) for node in graph.nodes}
    return side_by_side([graph for graph, _, _ in cases]), inputs, kernels


def side_by_side(graphs: Sequence[Graph]) -> Graph:
    """One graph of several, with nothing between them; every name gets its graph's number in front."""
    nodes, values, consts, inputs, outputs = [], {}, {}, [], []
    for number, graph in enumerate(graphs):
        new = {name: f"g{number}_{name}" for name in ("", *graph.values)} | {"": ""}
        values |= {new[name]: replace(value, name=new[name]) for name, value in graph.values.items()}
        consts |= {new[name]: array for name, array in graph.consts.items()}
        for node in graph.nodes:
            places = {side: tuple(new[name] for name in getattr(node, side)) for side in ("inputs", "outputs")}
            nodes.append(replace(node, name=f"g{number}_{node.name}", **places))
        inputs += [new[name] for name in graph.inputs]
        outputs += [new[name] for name in graph.outputs]
    return Graph("side_by_side", tuple(inputs), tuple(outputs), tuple(nodes), values, consts)
