# SPDX-License-Identifier: Apache-2.0
"""Loop and Scan whose steps are counted when the model is loaded: the body once for each; and If on computed data."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx

from tinyc.base.errors import TinycError
from tinyc.ir.graph import Array, Value
from tinyc.load.onnx.importing import OnnxStep, imports
from tinyc.load.onnx.inlining import hand_out, inlined
from tinyc.load.onnx.integers import PLAIN_TYPES
from tinyc.ops.choose import Choose
from tinyc.ops.concat import Concat
from tinyc.ops.reshape import Reshape
from tinyc.ops.slice import whole

MOST_STEPS = 256
_AT_RUN_TIME = "control flow is decided at run time; export the model without it (fixed shapes, no branches)"


@imports("Loop")
def loop(s: OnnxStep) -> None:
    """A number of steps that is known, or a condition that is known in every step."""
    body = s.node.graph("body")
    count, go_on = (s.constant(k) if s.has(k) else None for k in (0, 1))
    for index in range(2):
        if s.has(index) and s.constant(index) is None:
            raise _unknown(s)
    carried = [s.node.inputs[k] for k in range(2, s.input_count) if s.has(k)]
    most = MOST_STEPS + 1 if count is None else max(int(count.reshape(())), 0)
    goes = go_on is None or bool(go_on.reshape(()))
    rows: list[list[str]] = [[] for _ in body.output[1 + len(carried) :]]
    step = 0
    while goes and step < most:
        _check_steps(s, step)
        given = [_named_constant(s, f"step{step}", np.array(step)), _named_constant(s, f"goes{step}", np.array(True))]
        condition, *results = inlined(s, body, str(step), [*given, *carried])
        goes, carried = _decided(s, condition), results[: len(carried)]
        for row, name in zip(rows, results[len(carried) :], strict=True):
            row.append(name)
        step += 1
    _finish(s, carried, rows, [0] * len(rows))


def _unknown(s: OnnxStep) -> TinycError:
    return TinycError(f"{s.node.op}: how often it runs is computed from the data", s.where, _AT_RUN_TIME)


def _named_constant(s: OnnxStep, what: str, array: Array) -> str:
    """The name of a new constant."""
    name = s.builder.unique(f"{s.node.outputs[0]}:{what}")
    s.builder.fold(name, array)
    return name


def _decided(s: OnnxStep, condition: str) -> bool:
    constant = s.builder.constant(condition)
    if constant is None or constant.size != 1:
        raise _unknown(s)
    return bool(constant.reshape(()))


def _check_steps(s: OnnxStep, step: int) -> None:
    if step == MOST_STEPS:
        raise TinycError(f"{s.node.op} of more than {MOST_STEPS} steps cannot be compiled", s.where, _AT_RUN_TIME)


def unrolled_scan(s: OnnxStep, body: onnx.GraphProto) -> None:
    """Scan over the slices of its inputs along their axes, forwards or backwards."""
    if s.opset < 9:
        raise TinycError(
            "Scan of opset 8, which runs over batches, cannot be compiled",
            s.where,
            "export the model with a later opset",
        )
    scanned = s.node.int_("num_scan_inputs", 0)
    states = s.input_count - scanned
    outs = len(body.output) - states
    if not 1 <= scanned <= s.input_count or outs < 0 or len(s.node.outputs) != len(body.output):
        raise TinycError(f"Scan with {scanned} scanned of {s.input_count} inputs is not possible", s.where)
    axes = _for_each(s, "scan_input_axes", scanned)
    back, back_out = _for_each(s, "scan_input_directions", scanned), _for_each(s, "scan_output_directions", outs)
    out_axes = _for_each(s, "scan_output_axes", outs)
    shapes = [_shape(s, states + k) for k in range(scanned)]
    counts = {shape[s.axis(axis, len(shape))] for shape, axis in zip(shapes, axes, strict=True)}
    if len(counts) != 1:
        raise TinycError(f"Scan over axes of different sizes {sorted(counts)} is not possible", s.where)
    (steps,) = counts
    carried = [s.node.inputs[k] for k in range(states) if s.has(k)]
    rows: list[list[str]] = [[] for _ in range(outs)]
    for step in range(steps):
        _check_steps(s, step)
        at = [steps - 1 - step if turned else step for turned in back]
        given = [_slice(s, states + k, axes[k], at[k], f"{k}at{step}") for k in range(scanned)]
        results = inlined(s, body, str(step), [*carried, *given])
        carried = results[:states]
        for row, name, turned in zip(rows, results[states:], back_out, strict=True):
            row.insert(0 if turned else len(row), name)
    _finish(s, carried, rows, out_axes)


def _for_each(s: OnnxStep, name: str, count: int) -> tuple[int, ...]:
    numbers = s.node.ints(name) or (0,) * count
    if len(numbers) != count:
        raise TinycError(f"attribute {name} lists {len(numbers)} numbers for {count}", s.where)
    return numbers


def _shape(s: OnnxStep, index: int) -> tuple[int, ...]:
    array = s.constant(index)
    return s.value(index).shape if array is None else array.shape


def _slice(s: OnnxStep, index: int, axis: int, place: int, what: str) -> str:
    """The name of one slice of an input along an axis that it then lacks."""
    array = s.constant(index)
    if array is not None:
        return _named_constant(s, what, np.take(array, place, s.axis(axis, array.ndim)))
    x = s.value(index)
    axis = s.axis(axis, len(x.shape))
    cut = s.insert([x], whole(x.shape, axis, place, 1), what)
    return s.insert([cut], Reshape((*x.shape[:axis], *x.shape[axis + 1 :])), f"{what}:slice").name


def _finish(s: OnnxStep, carried: Sequence[str], rows: Sequence[Sequence[str]], axes: Sequence[int]) -> None:
    """The last states and, side by side, what each step made."""
    if len(s.node.outputs) > len(carried) + len(rows):
        raise TinycError(f"{len(s.node.outputs)} outputs, but the body makes {len(carried) + len(rows)}", s.where)
    for output, name in enumerate(s.node.outputs):
        if not name or name not in s.builder.read:
            continue
        if output < len(carried):
            hand_out(s, carried[output], output)
        else:
            _stacked(s, rows[output - len(carried)], axes[output - len(carried)], output)


def _stacked(s: OnnxStep, names: Sequence[str], axis: int, output: int) -> None:
    constants = [s.builder.constant(name) for name in names]
    if not names:
        raise TinycError(f"{s.node.op} runs no step, so that '{s.node.outputs[output]}' is empty", s.where)
    arrays = [array for array in constants if array is not None]
    if len(arrays) == len(names):
        s.builder.fold(s.node.outputs[output], np.stack(arrays, axis))
        return
    parts = [as_value(s, name) for name in names]
    rank = len(parts[0].shape) + 1
    axis = s.axis(axis, rank)
    wide = [s.reshape(x, (*x.shape[:axis], 1, *x.shape[axis:]), f"row{k}") for k, x in enumerate(parts)]
    if len(wide) == 1:
        s.emit(wide, Reshape(wide[0].shape), output=output)
    else:
        s.emit(wide, Concat(axis), output=output)


def as_value(s: OnnxStep, name: str) -> Value:
    """A tensor of a body, computed or constant."""
    array = s.builder.constant(name)
    if array is None:
        return s.builder.values[name]
    if array.dtype.kind == "f":
        return s.builder.add_const(name, array)
    kind = PLAIN_TYPES.get(array.dtype.type)
    if kind is None:
        raise TinycError(f"'{name}' has element type {array.dtype}", s.where)
    return s.builder.add_integers(name, array.astype(np.int32) if kind == "s32" else array, kind)


@imports("If")
def if_(s: OnnxStep) -> None:
    """With a condition that is known when the model is loaded (often computed from shapes): the branch it takes. Else
    both are computed, and each output is one or the other's."""
    condition, bodies = s.constant(0), [s.node.graph(name) for name in ("then_branch", "else_branch")]
    for branch in bodies:
        if len(branch.output) != len(s.node.outputs):
            raise TinycError(
                f"a branch with {len(branch.output)} outputs for {len(s.node.outputs)} does not fit", s.where
            )
    if condition is not None and condition.size == 1:
        for output, tensor in enumerate(inlined(s, bodies[0 if condition.reshape(()) else 1], "branch", [])):
            hand_out(s, tensor, output)
        return
    chosen = s.value(0)
    if chosen.dtype != "bool" or chosen.elements != 1:
        raise TinycError(
            f"If: a condition of {chosen.elements} elements of {chosen.dtype} cannot be compiled", s.where, _AT_RUN_TIME
        )
    both = [inlined(s, branch, tag, []) for branch, tag in zip(bodies, ("then", "else"), strict=True)]
    for output, names in enumerate(zip(*both, strict=True)):
        a, b = (as_value(s, name) for name in names)
        if a.shape != b.shape or (a.dtype, a.quant) != (b.dtype, b.quant):
            words = f"{a.dtype} {list(a.shape)} and {b.dtype} {list(b.shape)}"
            raise TinycError(f"If: an output of branches that make {words}", s.where, _AT_RUN_TIME)
        single = s.reshape(chosen, (1,) * len(a.shape), f"condition{output}")
        s.emit([single, a, b], Choose(), a.quant, output)
