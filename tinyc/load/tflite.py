# SPDX-License-Identifier: Apache-2.0
"""An int8 (or float) TensorFlow Lite file -> Graph. The importers of operators are in tflite_*.py, where they
register themselves: every such file is imported for that."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tinyc.base.errors import Loc, TinycError
from tinyc.ir.check import check
from tinyc.ir.graph import Graph
from tinyc.load.problems import FollowUpError, check_outputs, combined, explained, read_bytes
from tinyc.load.states import Asked, StatePort, pairs_of, with_states
from tinyc.load.tflite_file import StoredOperator, StoredTensor, TFLiteFile, read_tflite
from tinyc.load.tflite_graph import TfliteBuilder, poison
from tinyc.load.tflite_ops import IMPORTERS
from tinyc.load.tflite_running import import_operator
from tinyc.load.tflite_variables import close_variables, variables_of
from tinyc.ops import all_ops

_EXPORT_AGAIN = "export the model again: TFLiteConverter, full integer int8, fixed shapes, batch 1"

__all__ = ["IMPORTERS", "load_tflite", "unsupported_tflite"]

for _file in sorted(Path(__file__).parent.glob("tflite_*.py")):
    importlib.import_module(f"tinyc.load.{_file.stem}")


def load_tflite(
    path: Path, outputs: Sequence[str] = (), states: Asked | None = None, signature: str | None = None
) -> Graph:
    """The main subgraph of a .tflite file, checked. Its name is the file's stem. outputs, states, signature: as
    `load_model` has them.

    TinycError if the file cannot be read or is no intact model, or listing every operator that
    tinyc cannot import, with the reason.
    """
    try:
        builder, problems = _import(path, outputs, signature)
        if problems:
            raise combined([explained(problem, path.name, _EXPORT_AGAIN) for problem in problems], path.name)
        graph = builder.graph(path.stem)
        check(graph, "load", all_ops())
        if states is not None:
            before, after = (
                [StatePort(name, graph.values[name].shape) for name in names] for names in (graph.inputs, graph.outputs)
            )
            # Names alone make no states: a file has variables for them.
            pairs = pairs_of(states, before, after, Loc(path.name)) if states.words else ()
            graph = with_states(graph, pairs, states.initial)
            check(graph, "states", all_ops())
    except TinycError as e:
        raise explained(e, path.name, _EXPORT_AGAIN) from e
    return graph


def unsupported_tflite(path: Path, outputs: Sequence[str] = (), signature: str | None = None) -> list[TinycError]:
    """What `load_tflite` would complain about, one entry per operator; [] if the model can be imported.

    Raises TinycError if the file cannot be read at all.
    """
    try:
        _, problems = _import(path, outputs, signature)
    except TinycError as e:
        raise explained(e, path.name, _EXPORT_AGAIN) from e
    return [explained(problem, path.name, _EXPORT_AGAIN) for problem in problems]


def _import(path: Path, outputs: Sequence[str], signature: str | None) -> tuple[TfliteBuilder, list[TinycError]]:
    file = _cut(read_tflite(path, read_bytes(path), signature), outputs)
    builder = TfliteBuilder(file)
    for index in file.inputs:
        _declare_input(builder, file.tensors[index], Loc(file.file, None, file.tensors[index].name))
    problems = []
    for operator in file.operators:
        try:
            import_operator(builder, operator)
        except FollowUpError:
            poison(builder, operator)
        except TinycError as e:
            problems.append(e.located(operator.where))
            poison(builder, operator)
    if not problems:
        if not file.inputs or not file.outputs:
            raise TinycError("the model has no inputs or no outputs", Loc(file.file))
        for index in file.outputs:
            builder.settle_output(index)
        close_variables(builder)
    return builder, problems


def _cut(file: TFLiteFile, outputs: Sequence[str]) -> TFLiteFile:
    """The file with these outputs in the place of its own, and the operators that they need."""
    if not outputs:
        return file
    tensors = [file.tensors[index] for operator in file.operators for index in operator.outputs]
    index_of = {tensor.whole_name: tensor.index for tensor in tensors} | {
        tensor.name: tensor.index for tensor in tensors
    }
    check_outputs(outputs, index_of, Loc(file.file))
    ends = tuple(index_of[name] for name in outputs)
    return replace(file, outputs=ends, operators=tuple(_needed(file.operators, set(ends))))


def _needed(operators: Sequence[StoredOperator], needed: set[int]) -> list[StoredOperator]:
    """The operators that make the tensors; what assigns to variables that they read, too, and what begins them."""
    needed_operators: list[StoredOperator] = []
    while True:
        read = variables_of("READ_VARIABLE", needed_operators, operators)
        for operator in reversed(operators):
            assigns = (
                operator.code == "ASSIGN_VARIABLE" and variables_of("ASSIGN_VARIABLE", [operator], operators) & read
            )
            begins = operator.code == "CALL_ONCE" and bool(read)
            if assigns or begins or needed.intersection(operator.outputs):
                needed.update(operator.inputs)
                needed_operators.append(operator)
        indices = {operator.index for operator in needed_operators}
        if variables_of("READ_VARIABLE", needed_operators, operators) == read:
            return [operator for operator in operators if operator.index in indices]


def _declare_input(builder: TfliteBuilder, tensor: StoredTensor, where: Loc) -> None:
    if tensor.index in builder.activations:
        raise TinycError(f"tensor '{tensor.name}' is listed twice as an input", where)
    open_axes = [axis for axis, size in enumerate(tensor.signature) if size == -1 and axis > 0]
    if open_axes:
        raise TinycError(
            f"input '{tensor.name}' has a variable size in axis {open_axes[0]}: {list(tensor.signature)}",
            where,
            "export the model with a fixed input shape; only the batch may be left open (it becomes 1)",
        )
    builder.define(tensor.index, builder.declare(tensor, where))
