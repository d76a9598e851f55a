# SPDX-License-Identifier: Apache-2.0
"""Small layers that together make every kernel of every operator run, and the firmware that runs all at once."""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from integer_cases import integer_cases
from machines import target_for
from picture_cases import picture_cases
from product_cases import product_cases
from signal_cases import signal_cases
from state_cases import state_cases
from symbols import check_links_alone
from tree_cases import tree_cases
from wide_cases import copied_cases, other_cases, weighted_cases

from tests.ops.float32_layers import float_cases
from tests.ops.harness import OneStepPlan
from tests.ops.one_node import one_node, tensor
from tests.ops.weighted import Layer
from tests.ops.weighted import graph_of as weighted
from tests.shared_folder import SharedFolder
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.board import Board
from tinyc.choose.select import ask, select
from tinyc.emit.library import Info, emit_library
from tinyc.emit.lower import lower
from tinyc.emit.program import Program
from tinyc.ir.graph import NUMPY_DTYPE, Array, Graph, Node, Value
from tinyc.kernel.kernel import Kernel, Offer, Once
from tinyc.kernel.site import RELU, RELU6, Act, Padding, Pair, Site
from tinyc.machine.cores import CORTEX_M4, Core
from tinyc.ops import all_ops
from tinyc.ops.add import Add
from tinyc.ops.avg_pool2d import AvgPool2D
from tinyc.ops.clip import Clip
from tinyc.ops.concat import Concat
from tinyc.ops.conv2d import Conv2D
from tinyc.ops.depthwise_conv2d import DepthwiseConv2D
from tinyc.ops.dequantize import Dequantize
from tinyc.ops.fully_connected import FullyConnected
from tinyc.ops.hard_swish import HardSwish
from tinyc.ops.leaky_relu import LeakyRelu
from tinyc.ops.lookup import Lookup
from tinyc.ops.max_pool2d import MaxPool2D
from tinyc.ops.mean import Mean
from tinyc.ops.mul import Mul
from tinyc.ops.pad import Pad
from tinyc.ops.quantize import Quantize
from tinyc.ops.requantize import Requantize
from tinyc.ops.sigmoid import Sigmoid
from tinyc.ops.softmax import Softmax
from tinyc.ops.sub import Sub
from tinyc.ops.tanh import Tanh
from tinyc.ops.transpose import Transpose
from tinyc.options.build import Optimize
from tinyc.reference.interpreter import run_int
from tinyc.run import RunResult
from tinyc.toolchain.compile import Sources, compile_firmware
from tinyc.toolchain.compilers import Toolchain

ONE = Padding(1, 1, 1, 1)
Coverage = frozenset[tuple[str, str]]  # (operator, kernel)
MIB = 1 << 20
# Bytes of flash and RAM that the machines of the emulators have, where a board's file asks for less of them.
ROOM = {
    "cortex-m0plus": (4 * MIB, 4 * MIB),
    "cortex-m3": (4 * MIB, 4 * MIB),
    "cortex-m4": (4 * MIB, 4 * MIB),
    "cortex-m7": (4 * MIB, 4 * MIB),
    "cortex-m33": (4 * MIB, 4 * MIB),
    "riscv32imc": (MIB, 4 * MIB),
    "riscv32-zve32x": (MIB, 4 * MIB),
}


def _convolutions() -> Iterator[Graph]:
    relu: dict[str, Any] = {"y_zero": -128}
    layers = [
        Layer("conv2d", Conv2D(), (1, 1, 2, 21), (13, 1, 1, 21)),
        Layer("conv2d", Conv2D(), (1, 1, 3, 21), (12, 1, 1, 21)),
        Layer("conv2d", Conv2D(act=RELU), (1, 4, 6, 8), (9, 1, 1, 8), **relu),
        Layer("conv2d", Conv2D(act=RELU), (1, 3, 5, 16), (12, 1, 1, 16), **relu),
        Layer("conv2d", Conv2D(pad=ONE, act=RELU), (1, 8, 8, 16), (16, 3, 3, 16), **relu),
        Layer("conv2d", Conv2D(pad=ONE, act=RELU), (1, 5, 9, 3), (8, 3, 3, 3), **relu),
        Layer("conv2d", Conv2D(Pair(2, 2), Padding(0, 0, 1, 1), act=RELU), (1, 8, 8, 16), (16, 3, 3, 16), **relu),
        Layer("conv2d", Conv2D(pad=ONE, act=RELU), (1, 17, 3, 4), (8, 3, 3, 4), **relu),  # five bands of tiles and more
        Layer("conv2d", Conv2D(Pair(2, 2), ONE, act=RELU), (1, 18, 3, 4), (8, 3, 3, 4), **relu),
        Layer("conv2d", Conv2D(groups=2, pad=ONE), (1, 3, 5, 4), (6, 3, 2, 2)),
        Layer("depthwise_conv2d", DepthwiseConv2D(pad=ONE, act=RELU), (1, 5, 6, 9), (3, 3, 9), **relu),
        Layer("depthwise_conv2d", DepthwiseConv2D(Pair(2, 2), ONE, act=RELU6), (1, 8, 7, 8), (3, 3, 8)),
        Layer("depthwise_conv2d", DepthwiseConv2D(pad=Padding(2, 0, 2, 0)), (1, 9, 1, 4), (5, 1, 4)),
        Layer("depthwise_conv2d", DepthwiseConv2D(), (1, 6, 1, 9), (6, 1, 9)),
        Layer("depthwise_conv2d", DepthwiseConv2D(act=RELU), (1, 12, 1, 8), (5, 1, 8), **relu),
        Layer("fully_connected", FullyConnected(act=RELU), (1, 37), (9, 37), **relu),
        Layer("fully_connected", FullyConnected(act=RELU), (1, 40), (9, 40), **relu),
        Layer("fully_connected", FullyConnected(), (3, 16), (7, 16)),
        Layer("conv2d", Conv2D(act=RELU), (1, 6, 3, 4), (5, 3, 3, 4), **relu),
    ]
    for number, layer in enumerate(layers):
        yield weighted(layer)
        yield weighted(replace(layer, bits=4))
        yield weighted(replace(layer, bits=9))
        yield weighted(replace(layer, bits=9, w_zero=(0, 113, 255)[number % 3]))


def _elementwise() -> Iterator[Graph]:
    a, b = tensor("a", (1, 3, 5, 8), 0.02, 11), tensor("b", (1, 3, 5, 8), 0.03, -90)
    same = tensor("b", (1, 3, 5, 8), 0.02, 11)
    one = tensor("b", (1, 1, 1, 8), 0.03, -90)
    for op, attrs in (("add", Add), ("sub", Sub)):
        yield one_node(op, attrs(), [a, b], 0.04, -31)
        yield one_node(op, attrs(RELU), [a, one], 0.04, -128)
        yield one_node(op, attrs(), [a, same], 0.02, 11)
        yield one_node(op, attrs(), [tensor("a", (1, 5), 0.0001, 3), tensor("b", (1, 5), 0.0001, 4)], 0.9, 5)
        yield one_node(op, attrs(), [a, tensor("b", (1,), 0.03, 5)], 0.04, -3, {"b": np.array([77], np.int8)})
    yield one_node("mul", Mul(), [a, b], 0.01, 10)
    yield one_node("mul", Mul(), [a, tensor("b", (1,), 0.03, 5)], 0.01, 10, {"b": np.array([77], np.int8)})


def _others() -> Iterator[Graph]:
    x = tensor("x", (1, 7, 5, 9), 0.1, 7)
    wide = tensor("x", (1, 7, 5, 9), 0.1, 0, "s16")
    yield one_node("avg_pool2d", AvgPool2D(Pair(7, 5)), [x], 0.1, 7)
    yield one_node("avg_pool2d", AvgPool2D(Pair(2, 2), Pair(2, 2)), [x], 0.1, 7)
    yield one_node("avg_pool2d", AvgPool2D(Pair(2, 2), Pair(2, 2), halves_up=True), [x], 0.1, 7)
    yield one_node("max_pool2d", MaxPool2D(Pair(3, 3), pad=ONE), [x], 0.1, 7)
    yield one_node("mean", Mean((1, 2)), [x], 0.08, 3)
    yield one_node("mean", Mean((3,)), [x], 0.08, 3)
    yield one_node("clip", Clip(RELU6), [x], 0.1, -20)
    yield one_node("hard_swish", HardSwish(), [x], 0.1, -20)
    yield one_node("leaky_relu", LeakyRelu(0.1), [x], 0.1, -20)
    yield one_node("sigmoid", Sigmoid(), [x], 1 / 256, -128)
    yield one_node("tanh", Tanh(), [x], 1 / 128, 0)
    for op, attrs in (("sigmoid", Sigmoid()), ("tanh", Tanh())):
        yield one_node(op, attrs, [tensor("x", (3, 11), 0.0007, 0, "s16")], 1 / 32768, 0)
    yield one_node("hard_swish", HardSwish(), [tensor("x", (3, 11), 0.0003, 0, "s16")], 0.0003, 0)
    yield one_node("softmax", Softmax(), [tensor("x", (3, 11), 0.1, 7)], 1 / 255, -128)
    yield one_node("softmax", Softmax(), [tensor("x", (94, 11), 0.1, 7)], 1 / 255, -128)
    table = np.random.default_rng(3).integers(-128, 128, 256).astype(np.int8)
    yield one_node("lookup", Lookup(), [x, tensor("t", (256,), 0.1, 7)], 0.1, 7, {"t": table})
    yield one_node("concat", Concat(3), [tensor("a", (1, 2, 3, 4), 0.1, 7), tensor("b", (1, 2, 3, 5), 0.1, 7)], 0.1, 7)
    yield one_node("pad", Pad((0, 1, 2, 0), (0, 2, 1, 0)), [x], 0.1, 7)
    yield one_node("transpose", Transpose((0, 2, 3, 1)), [x], 0.1, 7)
    yield one_node("quantize", Quantize(), [tensor("x", (1, 37), dtype="f32")], 0.1, 7)
    yield one_node("dequantize", Dequantize(), [x])
    yield one_node("dequantize", Dequantize(), [tensor("x", (1, 37), 0.1, 0, "s32")])
    yield one_node("requantize", Requantize(), [x], 0.07, -9)
    yield one_node("requantize", Requantize("s8"), [wide], 0.3, -9)
    yield one_node("softmax", Softmax(), [tensor("x", (3, 11), 0.1, 7)], 1 / 256, -128)
    yield one_node("softmax", Softmax(), [tensor("x", (3, 11), 0.0003, 0, "s16")], 1 / 32768, 0)


def cases() -> list[Graph]:
    """One-node graphs."""
    many = (
        *(_convolutions, _elementwise, _others, weighted_cases, other_cases, product_cases, state_cases),
        signal_cases,
        picture_cases,
        copied_cases,
        float_cases,
        tree_cases,
        integer_cases,
    )
    return [case for cases_of in many for case in cases_of()]


ONE_VALUE = {"least": Act(hi=-1e9), "middle": Act(0.25, 0.25), "greatest": Act(lo=1e9)}


def clamped_to_one(which: str) -> list[Graph]:
    """Of the cases those with a fused activation, which leaves a single value: at an end of the range or within."""
    clamped_graphs = []
    for graph in cases():
        (node,) = graph.nodes
        if hasattr(node.attrs, "act"):
            clamped = replace(node, attrs=replace(node.attrs, act=ONE_VALUE[which]))
            clamped_graphs.append(replace(graph, nodes=(clamped,)))
    return clamped_graphs


def samples_of(graph: Graph) -> Mapping[str, Array]:
    """Random inputs over the whole range."""
    rng = np.random.default_rng(5)
    arrays = {}
    for name in graph.inputs:
        value = graph.values[name]
        if value.dtype == "f32":
            arrays[name] = rng.normal(0, 8, value.shape).astype(np.float32)
        elif value.dtype == "u64":
            arrays[name] = rng.integers(0, 2**64, value.shape, np.uint64)
        elif value.dtype == "bool":
            arrays[name] = rng.integers(0, 2, value.shape).astype(np.bool_)
        else:
            info = np.iinfo(NUMPY_DTYPE[value.dtype])
            arrays[name] = rng.integers(info.min, info.max + 1, value.shape).astype(NUMPY_DTYPE[value.dtype])
    return arrays


def kernels_for(isa: frozenset[str]) -> Coverage:
    """Every kernel that a core with these features has the instructions for."""
    return frozenset(
        (op.name, kernel.name) for op in all_ops().values() for kernel in op.every_kernel if kernel.isa <= isa
    )


@dataclass(frozen=True)
class Together:
    """Many nodes side by side: each case once for every kernel that takes it, on inputs of its own."""

    graph: Graph
    prefer: Mapping[str, str]
    inputs: Mapping[str, Array]

    @property
    def covered(self) -> Coverage:
        return frozenset((node.op, self.prefer[node.name]) for node in self.graph.nodes)

    @property
    def requests(self) -> list[list[bytes]]:
        """The inputs as a Target takes them."""
        return [[self.inputs[name].tobytes() for name in self.graph.inputs]]

    def halves(self) -> tuple[Together, Together]:
        """The first nodes, and the others."""
        nodes = self.graph.nodes
        return self.of(nodes[: len(nodes) // 2]), self.of(nodes[len(nodes) // 2 :])

    def of(self, nodes: tuple[Node, ...]) -> Together:
        """These nodes alone."""
        whole = self.graph
        used = {name for node in nodes for name in (*node.inputs, *node.outputs) if name}
        graph = Graph(
            "all",
            tuple(name for name in whole.inputs if name in used),
            tuple(y for node in nodes for y in node.outputs),
            nodes,
            {name: value for name, value in whole.values.items() if name in used},
            {name: array for name, array in whole.consts.items() if name in used},
        )
        prefer = {node.name: self.prefer[node.name] for node in nodes}
        return Together(graph, prefer, {name: self.inputs[name] for name in graph.inputs})


def needing(feature: str) -> Callable[[Kernel], bool]:
    """Kernels that need this feature of a core."""
    return lambda kernel: feature in kernel.isa


def _takes(kernel: Kernel, site: Site, isa: frozenset[str], params: Once[Any]) -> bool:
    """Whether the kernel runs the node; none runs one whose operator is not known for the numerics. params: `_params`
    of the site."""
    try:
        return isinstance(ask(kernel, site, isa, params), Offer)
    except TinycError:
        return False


def _params(site: Site) -> Once[Any]:
    """What kernels share at the node, prepared when the first one asks."""
    return Once(lambda: all_ops()[site.node.op].prepared(site))


@cache
def with_cases() -> Coverage:
    """Kernels that take some case with some numerics, on a core that has what they need: `together` runs them there."""
    sites: dict[str, list[tuple[Site, Once[Any]]]] = {}
    for case in cases():
        for numerics in Numerics:
            site = Site(case, case.nodes[0], numerics)
            sites.setdefault(case.nodes[0].op, []).append((site, _params(site)))
    return frozenset(
        (op.name, kernel.name)
        for op in all_ops().values()
        for kernel in op.every_kernel
        if any(_takes(kernel, site, kernel.isa, params) for site, params in sites.get(op.name, ()))
    )


def together(
    isa: frozenset[str],
    numerics: Numerics,
    takes: Callable[[Kernel], bool] = lambda _: True,
    graphs: Sequence[Graph] | None = None,
) -> Together:
    """All cases with all their kernels, or those that are wanted, in one graph; or other graphs of one node. Those of a
    whole core, which many tests need, are made once by the fixture `kernel_library`."""
    nodes: list[Node] = []
    values: dict[str, Value] = {}
    consts: dict[str, Array] = {}
    prefer: dict[str, str] = {}
    inputs: dict[str, Array] = {}
    for number, case in enumerate(cases() if graphs is None else graphs):
        (node,) = case.nodes
        site = Site(case, node, numerics)
        kernels = [kernel for kernel in all_ops()[node.op].every_kernel if takes(kernel)]
        params = _params(site)
        takers = [kernel.name for kernel in kernels if _takes(kernel, site, isa, params)]
        if not takers:
            continue
        renamed = {name: f"c{number}_{name}" for name in case.values}
        for name in (*case.inputs, *case.consts):
            values[renamed[name]] = replace(case.values[name], name=renamed[name])
        consts |= {renamed[name]: array for name, array in case.consts.items()}
        inputs |= {renamed[name]: array for name, array in samples_of(case).items()}
        for taker in takers:
            name = f"c{number}_{taker}"
            new_outputs = tuple(f"{name}_{y}" for y in node.outputs)
            values |= {new: replace(case.values[y], name=new) for new, y in zip(new_outputs, node.outputs, strict=True)}
            taken = tuple(renamed[x] if x else "" for x in node.inputs)
            nodes.append(Node(name, node.op, taken, new_outputs, node.attrs))
            prefer[name] = taker
    outputs = tuple(y for node in nodes for y in node.outputs)
    return Together(Graph("all", tuple(inputs), outputs, tuple(nodes), values, consts), prefer, inputs)


def roomy(board: Board) -> Board:
    """The board as its emulator could be too, with room for all cases at once; this computer has it."""
    if board.memory is None:
        return board
    flash, ram = ROOM.get(board.name, (board.memory.flash_bytes, board.memory.ram_bytes))
    return replace(board, memory=replace(board.memory, flash_bytes=flash, ram_bytes=ram))


def run_together(
    network: Together,
    board: Board,
    compiler: Toolchain,
    numerics: Numerics,
    library: Path | None = None,
    optimize: Optimize = "balanced",
) -> None:
    """Assert that every node gives the reference's bytes on the board's machine, and damages nothing, and that nothing
    is called that another library would have to bring. What does not fit the machine's flash runs in halves. library:
    the folder of `write_library`, where there is one."""
    board = roomy(board)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if library is None:
            library = folder
            write_library(network, folder, board.isa, numerics)
        try:
            firmware = compile_firmware(Sources(library, "all"), board, compiler, optimize, folder / "firmware")
        except TinycError as error:
            if "does not fit the board" not in error.message or len(network.graph.nodes) == 1:
                raise
            for half in network.halves():
                run_together(half, board, compiler, numerics, optimize=optimize)
            return
        check_links_alone(firmware)
        ran = target_for(board.name, None).run(firmware, network.requests)
    check(network, ran, numerics, f"{board.name}, {compiler}")


def write_library(
    network: Together, folder: Path, isa: frozenset[str], numerics: Numerics, core: Core = CORTEX_M4
) -> Program:
    """The library, called `all`, for a core with these features; its program. core: whose order instructions have."""
    program = lowered(network, isa, numerics, core)
    for file, text in emit_library(program, Info("all", "0" * 64, "test")).items():
        (folder / file).write_text(text)
    return program


@dataclass(frozen=True)
class KernelLibrary:
    """The library of all kernels of a core, and what was put into it. Nobody changes the folder."""

    network: Together
    folder: Path

    @classmethod
    def shared(cls, shared: SharedFolder, isa: frozenset[str], numerics: Numerics) -> KernelLibrary:
        def make(folder: Path) -> None:
            folder.mkdir()
            network = together(isa, numerics)
            write_library(network, folder, isa, numerics)
            (folder / "made.pickle").write_bytes(pickle.dumps(network))

        folder = shared.folder_of(("all kernels", sorted(isa), numerics.value), make)
        return cls(pickle.loads((folder / "made.pickle").read_bytes()), folder)


def lowered(network: Together, isa: frozenset[str], numerics: Numerics, core: Core) -> Program:
    """The program, called `all`, for a core with these features. core: whose order instructions have."""
    choices = select(network.graph, isa, numerics, prefer=network.prefer, core=core)
    plan = OneStepPlan(network.graph, max(choice.scratch_bytes for choice in choices.values()))
    return lower(network.graph, plan.plan(choices), numerics, "all")


def check(network: Together, ran: RunResult, numerics: Numerics, where: str) -> None:
    """Assert that every node gave the reference's bytes, and that nothing around the arena was damaged."""
    graph = network.graph
    reference = run_int(graph, network.inputs, numerics)
    given = dict(zip(graph.outputs, ran.outputs[0], strict=True))
    differ = [
        f"{node.op}: {network.prefer[node.name]} (case {node.name.split('_')[0]})"
        for node in graph.nodes
        for y in node.outputs
        if given[y] != np.ascontiguousarray(reference[y]).tobytes()
    ]
    assert not differ, f"{where}: other bytes than the reference from {differ}"
    assert not ran.damaged_guards
