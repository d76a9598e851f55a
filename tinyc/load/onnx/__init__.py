# SPDX-License-Identifier: Apache-2.0
"""A float ONNX file -> Graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from tinyc.base.errors import Loc, TinycError
from tinyc.ir.check import check
from tinyc.ir.graph import Graph
from tinyc.load.onnx.file import OnnxFile, read_onnx
from tinyc.load.onnx.homes import SPELLED_OUT
from tinyc.load.onnx.importing import OnnxBuilder
from tinyc.load.onnx.running import import_node
from tinyc.load.problems import FollowUpError, combined, explained, read_bytes
from tinyc.load.states import Asked, StatePair, StatePort, pairs_of, with_states
from tinyc.ops import all_ops, has
from tinyc.ops.tree_ensemble import TreeEnsemble
from tinyc.passes.integer_ports import has_scales, integers_only, trees_among_floats

_CHECK = "onnx.checker.check_model(FILE, full_check=True) finds what is wrong with a file; export the model again"

__all__ = ["load_onnx", "unsupported_onnx"]


def load_onnx(
    path: Path,
    outputs: Sequence[str] = (),
    states: Asked | None = None,
    scaled: Callable[[Graph], Graph] | None = None,
) -> Graph:
    """The main graph of an .onnx file (any opset), checked. Its name is the file's stem. outputs, states, scaled: as
    `load_model` has them.

    Float models are float32 graphs, quantized ones (QDQ or QOperator) integer graphs; see docs/import.md.
    An open first dimension of an input, the batch, becomes 1. Values keep the tensor names and the axis
    order of the file; see `importing`. TinycError if the file cannot be read or is no intact model, or
    listing every node that tinyc cannot import, with the reason.
    """
    try:
        return _load(path, outputs, states, scaled)
    except TinycError as e:
        raise explained(e, path.name, _CHECK) from e


def _load(path: Path, outputs: Sequence[str], states: Asked | None, scaled: Callable[[Graph], Graph] | None) -> Graph:
    builder, pairs, problems = _import(path, outputs, states)
    if problems:
        raise combined([explained(problem, path.name, _CHECK) for problem in problems], path.name)
    graph = builder.graph(path.stem)
    if has(graph, TreeEnsemble):
        from tinyc.load.tree_sums import joined_trees  # noqa: PLC0415  for models of trees alone

        graph = joined_trees(graph)
    check(graph, "load", all_ops())
    if has_scales(graph) and not trees_among_floats(graph):
        graph = integers_only(graph, scaled)
        check(graph, "load", all_ops())
    if states is not None:
        graph = with_states(graph, pairs, states.initial)
        check(graph, "states", all_ops())
    return graph


def unsupported_onnx(path: Path, outputs: Sequence[str] = ()) -> list[TinycError]:
    """What `load_onnx` would complain about, one entry per node; [] if the model can be imported.

    Raises TinycError if the file cannot be read at all.
    """
    try:
        problems = _import(path, outputs)[2]
    except TinycError as e:
        raise explained(e, path.name, _CHECK) from e
    return [explained(problem, path.name, _CHECK) for problem in problems]


def _import(
    path: Path, outputs: Sequence[str] = (), states: Asked | None = None
) -> tuple[OnnxBuilder, tuple[StatePair, ...], list[TinycError]]:
    content = read_bytes(path)
    pairs = () if states is None else _pairs(read_onnx(path, content), states)
    file = read_onnx(path, content, outputs, [pair.after for pair in pairs])
    if any(node.full_name in SPELLED_OUT for node in file.nodes):
        from tinyc.load.onnx.qoperator import spelled_out  # noqa: PLC0415  for operators on integers alone

        file = replace(file, nodes=spelled_out(file.nodes, file.opset))
    builder = OnnxBuilder(file, [pair.name for pair in pairs])
    for info in builder.file.inputs:
        builder.add_input(info)
    problems = []
    for node in builder.file.nodes:
        try:
            import_node(builder, node)
        except FollowUpError:
            builder.broken.update(node.outputs)
        except TinycError as e:
            problems.append(e.located(node.where))
            builder.broken.update(node.outputs)
    return builder, pairs, problems


def _pairs(file: OnnxFile, states: Asked) -> tuple[StatePair, ...]:
    """Inputs and outputs of the file that are state."""
    inputs = [StatePort(info.name, info.dims, info.elem_type) for info in file.inputs]
    outputs = [StatePort(name, file.declared.get(name)) for name in file.outputs]
    return pairs_of(states, inputs, outputs, Loc(file.file))
