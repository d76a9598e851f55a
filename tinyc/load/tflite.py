"""An int8 (or float) TensorFlow Lite file -> Graph. The operators are in tflite_ops.py."""

from __future__ import annotations

from pathlib import Path

from tinyc.errors import Loc, TinycError
from tinyc.ir.check import check
from tinyc.ir.graph import Graph
from tinyc.load import tflite_moves, tflite_products, tflite_recurrent
from tinyc.load.problems import combined, read_bytes
from tinyc.load.tflite_file import Operator, Tensor, read_tflite
from tinyc.load.tflite_graph import Builder, FollowUpError, Step, poison
from tinyc.load.tflite_ops import IMPORTERS, Importer
from tinyc.load.tflite_variables import close_variables
from tinyc.ops import all_ops

__all__ = ["IMPORTERS", "load_tflite", "tflite_moves", "tflite_products", "tflite_recurrent", "unsupported_tflite"]


def load_tflite(path: Path) -> Graph:
    """The main subgraph of a .tflite file, checked. Its name is the file's stem.

    TinycError if the file cannot be read or is no intact model, or listing every operator that
    tinyc cannot import, with the reason.
    """
    try:
        builder, problems = _import(path)
        if problems:
            raise combined(problems, path.name)
        graph = builder.graph(path.stem)
        check(graph, "load", all_ops())
    except TinycError as e:
        raise _explained(e, path) from e
    return graph


def unsupported_tflite(path: Path) -> list[TinycError]:
    """What `load_tflite` would complain about, one entry per operator; [] if the model can be imported.

    Raises TinycError if the file cannot be read at all.
    """
    try:
        _, problems = _import(path)
    except TinycError as e:
        raise _explained(e, path) from e
    return [_explained(problem, path) for problem in problems]


def _explained(error: TinycError, path: Path) -> TinycError:
    """The error with a place and a hint, where it has none of its own."""
    hint = error.hint or "export the model again: TFLiteConverter, full integer int8, fixed shapes, batch 1"
    return TinycError(error.message, error.where or Loc(path.name), hint, error.exit_code)


def _import(path: Path) -> tuple[Builder, list[TinycError]]:
    file = read_tflite(path, read_bytes(path))
    builder = Builder(file)
    for index in file.inputs:
        _declare_input(builder, file.tensors[index], Loc(file.file, None, file.tensors[index].name))
    problems = []
    for operator in file.operators:
        try:
            _importer(operator)(Step(builder, operator))
        except FollowUpError:
            poison(builder, operator)
        except TinycError as e:
            problems.append(e.located(operator.where))
            poison(builder, operator)
    if not problems:
        close_variables(builder)
        _check_outputs(builder)
    return builder, problems


def _importer(operator: Operator) -> Importer:
    if operator.code not in IMPORTERS:
        raise TinycError(
            f"operator {operator.code} is not supported",
            operator.where,
            "docs/operators.md lists the operators that tinyc imports",
        )
    return IMPORTERS[operator.code]


def _declare_input(builder: Builder, tensor: Tensor, where: Loc) -> None:
    if tensor.index in builder.made:
        raise TinycError(f"tensor '{tensor.name}' is listed twice as an input", where)
    open_axes = [axis for axis, size in enumerate(tensor.signature) if size == -1 and axis > 0]
    if open_axes:
        raise TinycError(
            f"input '{tensor.name}' has a variable size in axis {open_axes[0]}: {list(tensor.signature)}",
            where,
            "export the model with a fixed input shape; only the batch may be left open (it becomes 1)",
        )
    builder.define(tensor.index, builder.declare(tensor, where))


def _check_outputs(builder: Builder) -> None:
    """Every output must be computed by a node, once; the rest is `check`'s."""
    file = builder.file
    where = Loc(file.file)
    if not file.inputs or not file.outputs:
        raise TinycError("the model has no inputs or no outputs", where)
    for index in file.outputs:
        name = file.tensors[index].name
        if index not in builder.made or index in file.inputs:
            raise TinycError(f"output '{name}' is not computed by any operator", where)
    if len(set(file.outputs)) < len(file.outputs):
        raise TinycError("a tensor is listed twice as an output", where)
