# SPDX-License-Identifier: Apache-2.0
"""The constant arrays of a library as its headers show them: whose they are, what is in them, in which order."""

from __future__ import annotations

from collections.abc import Mapping

from tinyc.base.dataclass import dataclass
from tinyc.base.escape import C
from tinyc.emit.constants import ConstantArray
from tinyc.emit.program import Program, Step
from tinyc.emit.schedule import ROLES
from tinyc.emit.text import c_int, main_layer, tensor
from tinyc.ir.graph import Value

# What is in an array, by its role; the word in its name where that says it.
_WHAT: Mapping[str, str] = {
    "w": "weights{}",
    "r": "recurrent weights{}",
    "times": "weights in time",
    "stream": "weights{}, biases and factors, one after the other as the kernel reads them",
    "stream2": "weights{}, biases and factors of the second row, one after the other as the kernel reads them",
    "constants": "biases and factors",
    "bias": "biases, in which the zero points are",
    "in_bias": "biases of the inputs",
    "state_bias": "biases of the state",
    "feature_bias": "biases of the features",
    "mult": "multipliers of the requantization",
    "shift": "shifts of the requantization",
    "scale": "factors of the requantization",
    "scaling": "factors of the requantization",
    "channels": "start values and factors of the requantization",
    "start": "values that sums start with",
    "lut": "table of all results",
    "exp": "table of exponentials",
    "logistic": "table of the logistic function",
    "reciprocal": "table of reciprocals",
    "x": "constant operand",
    "c": "offset",
    "fill": "padding element",
    "row": "row of padding",
    "runs": "bytes that are copied at a time",
    "indices": "indices",
    "rows": "input rows of each output row",
    "columns": "input columns of each output column",
    "starts": "first input row of each output row",
    "fixes": "corrections of single weights",
    "initial": "state after a reset",
}


@dataclass(frozen=True, slots=True)
class ArrayView:
    """An array. about: whose it is and what is in it."""

    symbol: ConstantArray
    about: C


def weights(program: Program) -> tuple[ArrayView, ...]:
    """Arrays of the layers."""
    return tuple(_view(program, symbol) for symbol in program.symbols if symbol.const.role not in ROLES)


def tables(program: Program) -> tuple[ArrayView, ...]:
    """Arrays of numbers that belong to the schedule of rows."""
    roles = [role for role in ROLES if role not in ("row_order", "row_moves")]
    return tuple(_view(program, symbol) for symbol in program.symbols if symbol.const.role in roles)


def _view(program: Program, symbol: ConstantArray) -> ArrayView:
    steps = [program.steps[index] for index in symbol.steps]
    const = symbol.const
    if const.role == "pad":
        value = c_int(int(const.data.flat[0]))
        return ArrayView(symbol, C(f"Zero points ({value}) in place of what lies outside an image."))
    what = const.layout if const.role in ROLES else _what(steps, const.role)
    return ArrayView(symbol, C(f"{_owner(steps)}: {what}." if steps else f"{what[0].upper()}{what[1:]}."))


def _what(steps: list[Step], role: str) -> str:
    weights = _weights_of(steps[0]) if steps else None
    return _WHAT.get(role, role).format(f" {tensor(weights)}" if weights else "")


def _owner(steps: list[Step]) -> C:
    """`Step 2, conv2d 'conv1' node 0`, `Steps 2, 5 and 7`."""
    if len(steps) == 1:
        return C(f"Step {steps[0].index}, {steps[0].node.op} {main_layer(steps[0])}")
    numbers = [str(step.index) for step in steps]
    return C(f"Steps {', '.join(numbers[:-1])} and {numbers[-1]}")


def _weights_of(step: Step) -> Value | None:
    """The largest constant that the node reads."""
    values = [place.value for place in step.inputs if place is not None and place.offset is None]
    return max(values, key=lambda value: value.elements, default=None)
