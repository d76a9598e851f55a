# SPDX-License-Identifier: Apache-2.0
"""Functions of one byte that become one table: no byte changes, and TensorFlow Lite Micro computes the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.ops.harness import check_kernels
from tests.ops.one_node import tensor
from tests.ops.runtimes import every_byte, run_tflm
from tinyc.base.numerics import Numerics
from tinyc.export import to_tflite
from tinyc.ir.check import check
from tinyc.ir.graph import Array, Graph, Node, Value, read_only
from tinyc.kernel.site import Act
from tinyc.load import load_model
from tinyc.ops import all_ops
from tinyc.ops.add import Add
from tinyc.ops.hard_swish import HardSwish
from tinyc.ops.leaky_relu import LeakyRelu
from tinyc.ops.mul import Mul
from tinyc.ops.sigmoid import Sigmoid
from tinyc.ops.sub import Sub
from tinyc.passes import normalize
from tinyc.passes.tables import join_tables
from tinyc.reference.interpreter import run_int

SHAPE = (1, 16, 16, 1)
_RELU6 = Act(0.0, 6.0)


class Chain:
    """Functions of bytes, one after the other; x is the input."""

    def __init__(self) -> None:
        self.values: dict[str, Value] = {"x": tensor("x", SHAPE, 0.05, -20)}
        self.nodes: list[Node] = []
        self.consts: dict[str, Array] = {}

    def number(self, q: int, scale: float = 0.03) -> str:
        name = f"c{len(self.consts)}"
        self.values[name] = tensor(name, (1,), scale)
        self.consts[name] = read_only(np.array([q], np.int8))
        return name

    def add(self, attrs: object, inputs: tuple[str, ...], scale: float, zero: int) -> str:
        name = f"v{len(self.nodes)}"
        (op,) = (op for op in all_ops().values() if op.attrs is type(attrs))
        self.values[name] = tensor(name, SHAPE, scale, zero)
        self.nodes.append(Node(name, op.name, inputs, (name,), attrs))
        return name

    def graph(self, *outputs: str) -> Graph:
        return Graph("chain", ("x",), outputs, tuple(self.nodes), self.values, self.consts)


def hard_swish_of_exporters() -> Graph:
    """x * relu6(x + 3) / 6, as MobileNetV3 is exported."""
    chain = Chain()
    shifted = chain.add(Add(_RELU6), ("x", chain.number(100)), 6 / 255, -128)
    share = chain.add(Mul(), (shifted, chain.number(127, 1 / 6 / 127)), 1 / 255, -128)
    return chain.graph(chain.add(Mul(), ("x", share), 0.025, -100))


def drawn(rng: np.random.Generator) -> Graph:
    """A chain of two to six functions; some read the input, or a value before the last, once more."""
    chain, names = Chain(), ["x"]
    for _ in range(rng.integers(2, 7)):
        scale, zero = float(rng.uniform(0.005, 0.1)), int(rng.integers(-128, 128))
        last, other = names[-1], names[rng.integers(len(names))]
        number = chain.number(int(rng.integers(-128, 128)))
        inputs = [(last, number), (last, other), (last,)][rng.integers(3)]
        if len(inputs) == 2:
            attrs = [Add(), Mul(), Sub(), Add(_RELU6), Mul(_RELU6)][rng.integers(5)]
        else:
            attrs = [Sigmoid(), HardSwish(), LeakyRelu(0.2)][rng.integers(3)]
        if isinstance(attrs, Sigmoid):
            scale, zero = 1 / 256, -128
        names.append(chain.add(attrs, inputs, max(scale, 0.02) if isinstance(attrs, HardSwish) else scale, zero))
    return chain.graph(names[-1])


@pytest.mark.parametrize("numerics", Numerics)
def test_a_chain_is_one_table_and_no_byte_changes(numerics: Numerics) -> None:
    rng = np.random.default_rng(7)
    x = {"x": every_byte().reshape(SHAPE)}
    lengths = []
    for _ in range(25):
        graph = drawn(rng)
        joined = join_tables(graph, numerics)
        check(joined, "join", all_ops())
        lengths.append(len(joined.nodes))
        (y,) = graph.outputs
        np.testing.assert_array_equal(run_int(joined, x, numerics)[y], run_int(graph, x, numerics)[y])
    assert lengths.count(1) > len(lengths) / 2  # in the others a value is read more than once


def test_a_hard_swish_in_parts_is_one_table() -> None:
    graph = hard_swish_of_exporters()
    (node,) = join_tables(graph, Numerics.TFLM).nodes
    assert (node.op, node.inputs[0], node.outputs) == ("lookup", "x", graph.outputs)
    assert check_kernels(join_tables(graph, Numerics.TFLM), [{"x": every_byte().reshape(SHAPE)}], Numerics.TFLM) == [
        "tc_lut_s8_mve",
        "tc_lut_s8",
    ]


def test_tflite_micro_computes_the_table(tmp_path: Path) -> None:
    file = tmp_path / "hard_swish.tflite"
    file.write_bytes(to_tflite(hard_swish_of_exporters()))
    joined = join_tables(normalize(load_model(file)), Numerics.TFLM)
    assert [node.op for node in joined.nodes] == ["lookup"]
    x = every_byte().reshape(SHAPE)
    (theirs,) = run_tflm(file.read_bytes(), x)
    np.testing.assert_array_equal(run_int(joined, {joined.inputs[0]: x}, Numerics.TFLM)[joined.outputs[0]], theirs)


def test_what_must_stay() -> None:
    """Values that are outputs, or read again, and numbers that differ from place to place."""
    chain = Chain()
    inner = chain.add(Mul(), ("x", chain.number(50)), 0.04, 3)
    outer = chain.add(Sigmoid(), (inner,), 1 / 256, -128)
    graph = chain.graph(inner, outer)
    assert join_tables(graph, Numerics.TFLM) == graph
    row = Chain()
    row.values["row"], row.consts["row"] = (
        tensor("row", (1, 1, 16, 1), 0.03),
        np.arange(16, dtype=np.int8).reshape(1, 1, 16, 1),
    )
    inner = row.add(Mul(), ("x", "row"), 0.04, 3)
    graph = row.graph(row.add(Sigmoid(), (inner,), 1 / 256, -128))
    assert join_tables(graph, Numerics.TFLM) == graph
