# SPDX-License-Identifier: Apache-2.0
"""TFLite operators that compare and choose; imported like those of tflite_ops.py."""

from __future__ import annotations

from dataclasses import replace

from tinyc.base.errors import TinycError
from tinyc.load.tflite_graph import TfliteStep
from tinyc.load.tflite_ops import imports
from tinyc.ops.choose import Choose
from tinyc.ops.compare import Compare
from tinyc.ops.reshape import Reshape


@imports("EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL", "NOT_EQUAL")
def compare(s: TfliteStep) -> None:
    """Of two int8 tensors, or of one and a constant."""
    y = replace(s.declared(), dtype="bool", quant=None)
    s.emit((s.value(0), s.value(1)), Compare(s.operator.code.lower()), y)


@imports("SELECT", "SELECT_V2")
def choose(s: TfliteStep) -> None:
    """Of two tensors of one scale and zero point. A condition of SELECT may have the first axis only."""
    condition, a, b = (s.value(k) for k in range(3))
    y = s.declared()
    if (a.dtype, a.quant) != (y.dtype, y.quant) or (b.dtype, b.quant) != (y.dtype, y.quant):
        raise TinycError(
            f"{s.operator.code}: '{a.name}' and '{b.name}' must have the output's scale and zero point",
            s.where,
            "convert the model again: the converter gives the three one scale",
        )
    rank = len(a.shape)
    if s.operator.code == "SELECT" and len(condition.shape) == 1 < rank and condition.shape[0] == a.shape[0]:
        wide = s.between("rows", (*condition.shape, *(1,) * (rank - 1)), condition)
        s.insert((condition,), Reshape(wide.shape), wide)
        condition = wide
    s.emit((condition, a, b), Choose(), y)


@imports("LOGICAL_AND", "LOGICAL_OR")
def join(s: TfliteStep) -> None:
    """One of the two, as the first says."""
    a, b = s.value(0), s.value(1)
    if s.operator.code == "LOGICAL_AND":
        s.emit((a, b, a), Choose())
    else:
        s.emit((a, a, b), Choose())
