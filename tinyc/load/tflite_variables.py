# SPDX-License-Identifier: Apache-2.0
"""Resource variables of TFLite files -> states of the graph: VAR_HANDLE, READ_VARIABLE, ASSIGN_VARIABLE, CALL_ONCE.

Every variable is named. A read gives what the last assignment of the same run made, or else what the last run left. The
subgraph of CALL_ONCE assigns constants: what the variables hold after a reset.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tinyc.base.errors import TinycError
from tinyc.ir.check import check_types
from tinyc.ir.graph import NUMPY_DTYPE, State, Value
from tinyc.load.problems import FollowUpError
from tinyc.load.tflite_arrays import array_of, dtype_of
from tinyc.load.tflite_file import StoredOperator, StoredTensor, TFLiteFile
from tinyc.load.tflite_graph import TfliteBuilder, TfliteStep, Variable
from tinyc.load.tflite_ops import imports
from tinyc.ops import all_ops, node_of
from tinyc.ops.slice import Slice


@imports("CALL_ONCE")
def call_once(s: TfliteStep) -> None:
    """The subgraph may only assign constants to variables."""
    index = int(s.options("CallOnceOptions")["InitSubgraphIndex"])
    others = s.builder.file.others
    if not 1 <= index <= len(others):
        raise TinycError(f"CALL_ONCE of subgraph {index}, which the file does not have", s.where)
    _initialise(s, others[index - 1])


def _initialise(s: TfliteStep, init: TFLiteFile) -> None:
    handles: dict[int, str] = {}
    for operator in init.operators:
        if operator.code == "VAR_HANDLE" and len(operator.outputs) == 1:
            handles[operator.outputs[0]] = _key(operator)
        elif operator.code == "ASSIGN_VARIABLE" and len(operator.inputs) == 2 and operator.inputs[0] in handles:
            tensor = init.tensors[operator.inputs[1]]
            if tensor.data is None or tensor.refused:
                raise TinycError(f"variables begin with constants; '{tensor.name}' is computed", operator.where)
            _variable(s, handles[operator.inputs[0]]).initial = _bytes(tensor, operator)
        else:
            raise TinycError(f"CALL_ONCE runs {operator.code}; only assignments of constants are supported", s.where)


def _bytes(tensor: StoredTensor, operator: StoredOperator) -> bytes:
    dtype = dtype_of(tensor, operator.where)
    array = array_of(tensor, dtype, operator.where)
    return array.astype(np.dtype(NUMPY_DTYPE[dtype]).newbyteorder("<")).tobytes()


def variables_of(code: str, among: Sequence[StoredOperator], operators: Sequence[StoredOperator]) -> set[str]:
    """Names of the variables that operators of this kind, `among` some of the file's, read or assign."""
    handles = {op.outputs[0]: _key(op) for op in operators if op.code == "VAR_HANDLE" and len(op.outputs) == 1}
    return {handles[op.inputs[0]] for op in among if op.code == code and op.inputs and op.inputs[0] in handles}


def _key(operator: StoredOperator) -> str:
    if operator.options_type != "VarHandleOptions" or operator.options.table is None:
        raise TinycError("VAR_HANDLE without a name", operator.where)
    names = (operator.options[name] or b"" for name in ("Container", "SharedName"))
    return "/".join(name.decode("utf-8", "replace") for name in names)


def _variable(s: TfliteStep, key: str) -> Variable:
    return s.builder.variables.setdefault(key, Variable())


@imports("VAR_HANDLE")
def var_handle(s: TfliteStep) -> None:
    """The name of a variable, which becomes a state of the library: docs/state.md."""
    s.builder.handles[s.out_tensor().index] = _key(s.operator)


def _held(s: TfliteStep) -> Variable:
    tensor = s.tensor(0)
    if tensor.index not in s.builder.handles:
        if tensor.index in s.builder.broken:
            raise FollowUpError
        raise TinycError(f"'{tensor.name}' is no handle of a variable", s.where)
    return _variable(s, s.builder.handles[tensor.index])


@imports("READ_VARIABLE")
def read_variable(s: TfliteStep) -> None:
    """What the last assignment of the same run made, else what the last run left."""
    held = _held(s)
    if held.now is None:
        held.now = held.before = s.declared()
        held.where = s.where
    elif held.now.shape != s.out_tensor().shape:
        raise TinycError(f"the variable holds {list(held.now.shape)}, not {list(s.out_tensor().shape)}", s.where)
    s.define(0, held.now)


@imports("ASSIGN_VARIABLE")
def assign_variable(s: TfliteStep) -> None:
    """Read by what comes after it in the run, and by the next run."""
    held = _held(s)
    held.now = s.value(1)
    held.where = s.where


def close_variables(builder: TfliteBuilder) -> None:
    """Make states of the variables that are read before they are assigned. TinycError for one without a beginning,
    or whose value changes its shape or quantization."""
    for held in builder.variables.values():
        if held.before is None or held.now is None:
            continue
        before, now = held.before, held.now
        if held.initial is None:
            raise TinycError(f"variable '{before.name}' is read, but nothing says what it begins with", held.where)
        if (before.shape, before.dtype, before.quant) != (now.shape, now.dtype, now.quant):
            raise TinycError(f"'{now.name}' is assigned to a variable of another shape or scale", held.where)
        builder.values[before.name] = before
        if not any(now.name in node.outputs for node in builder.nodes):
            now = _copied(builder, held, now)
        builder.states.append(State(before.name, now.name, held.initial))


def _copied(builder: TfliteBuilder, held: Variable, now: Value) -> Value:
    """What an input, a constant or another variable holds, as a value that a node computes."""
    size = now.shape
    copy = Value(builder.unique(f"{now.name}:kept"), size, now.dtype, now.quant, held.where)
    origin = (held.where,) if held.where else ()
    attrs = Slice((0,) * len(size), size, (1,) * len(size))
    node = node_of(attrs, (now.name,), (copy.name,), origin)
    check_types(node, {now.name: now, copy.name: copy}, all_ops())
    builder.nodes.append(node)
    builder.values[copy.name] = copy
    return copy
