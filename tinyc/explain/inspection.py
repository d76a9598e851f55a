# SPDX-License-Identifier: Apache-2.0
"""What a model file holds, without compiling it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.base.shown import Shown, Summary, SummaryTable, bytes_of, nonempty, number
from tinyc.ir.graph import Graph, Node, Value
from tinyc.kernel.site import Site
from tinyc.load import load_model, unsupported
from tinyc.load.states import Asked
from tinyc.ops import op_of
from tinyc.passes import normalize
from tinyc.passes.inputs import take_inputs_as_computed


@dataclass(frozen=True, slots=True)
class TensorFacts:
    """A value: shape, dtype, and scale and zero point of the whole tensor, or the number of scales."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    scale: float | None
    zero_point: int | None
    scales: int


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """A node after normalization, and the user's layers that it came from."""

    index: int
    name: str
    op: str
    origin: tuple[str, ...]
    inputs: tuple[TensorFacts, ...]
    outputs: tuple[TensorFacts, ...]
    macs: int
    const_bytes: int


@dataclass(frozen=True, slots=True)
class ImportProblem:
    """Why the model cannot be compiled."""

    message: str
    where: str | None
    hint: str


@dataclass(frozen=True, slots=True)
class Inspection(Shown):
    """`nodes` is empty when there are problems. const_bytes: as stored in the model, after folding. states: what lasts
    from run to run."""

    model: str
    model_sha256: str
    inputs: tuple[TensorFacts, ...]
    outputs: tuple[TensorFacts, ...]
    nodes: tuple[NodeFacts, ...]
    macs: int
    const_bytes: int
    problems: tuple[ImportProblem, ...]
    states: tuple[TensorFacts, ...] = ()

    __repr__ = Shown.text

    def summary(self) -> Summary:
        """Inputs, outputs and costs of a model, or why it cannot be compiled; its operators."""
        facts = nonempty(
            problems="; ".join(problem.message for problem in self.problems),
            inputs=", ".join(map(_in_words, self.inputs)),
            outputs=", ".join(map(_in_words, self.outputs)),
            states=", ".join(map(_in_words, self.states)),
            operators=f"{len(self.nodes):,}",
            MACs=f"{self.macs:,}",
            constants=bytes_of(self.const_bytes),
        )
        rows = [
            (str(one.index), one.op, _in_words(one.outputs[0]), number(one.macs), number(one.const_bytes), one.name)
            for one in self.nodes
        ]
        return Summary(
            self.model, facts, [SummaryTable(("#", "operator", "output", "MACs", "constants", "layer"), rows)]
        )

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def inspect_model(path: Path, outputs: Sequence[str] = (), signature: str | None = None) -> Inspection:
    """Facts of an .onnx or .tflite file, normalized. TinycError if it cannot be read at all. outputs, signature: as
    `load_model` has them."""
    problems = tuple(_problem(error) for error in unsupported(path, outputs, signature))
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    if problems:
        return Inspection(path.name, sha256, (), (), (), 0, 0, problems)
    graph = take_inputs_as_computed(normalize(load_model(path, outputs, Asked(), None, signature))).graph
    nodes = tuple(_node(graph, index, node) for index, node in enumerate(graph.nodes))
    return Inspection(
        model=path.name,
        model_sha256=sha256,
        inputs=tuple(_tensor(graph.values[name]) for name in graph.inputs),
        outputs=tuple(_tensor(graph.values[name]) for name in graph.outputs),
        nodes=nodes,
        macs=sum(node.macs for node in nodes),
        const_bytes=sum(array.nbytes for array in graph.consts.values()),
        problems=(),
        states=tuple(_tensor(graph.values[state.name]) for state in graph.states),
    )


def _node(graph: Graph, index: int, node: Node) -> NodeFacts:
    names = [name for name in node.inputs if name]
    act = str(getattr(node.attrs, "act", ""))
    return NodeFacts(
        index=index,
        name=node.name,
        op=f"{node.op} + {act}" if act else node.op,
        origin=tuple(str(loc) for loc in node.origin),
        inputs=tuple(_tensor(graph.values[name]) for name in names),
        outputs=tuple(_tensor(graph.values[name]) for name in node.outputs),
        macs=op_of(node).macs(Site(graph, node, Numerics.OURS)),
        const_bytes=sum(graph.consts[name].nbytes for name in names if name in graph.consts),
    )


def _tensor(value: Value) -> TensorFacts:
    quant = value.quant
    single = quant is not None and quant.axis is None and len(quant.scale) == 1
    return TensorFacts(
        name=value.name,
        shape=value.shape,
        dtype=value.dtype,
        scale=quant.scale[0] if quant and single else None,
        zero_point=quant.zero[0] if quant and single else None,
        scales=len(quant.scale) if quant else 0,
    )


def _problem(error: TinycError) -> ImportProblem:
    return ImportProblem(error.message, str(error.where) if error.where else None, error.hint)


def _in_words(tensor: TensorFacts) -> str:
    return f"{tensor.name} {'x'.join(map(str, tensor.shape)) or 'scalar'} {tensor.dtype}"
