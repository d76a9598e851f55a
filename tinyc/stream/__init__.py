"""Layers run row by row, in few bytes: `plan_streamed`. Terms: `problem.py`."""

from __future__ import annotations

from tinyc.stream.choose import Limits, plan_incremental, plan_streamed
from tinyc.stream.problem import Form, Group, Layer, Piece, Problem, StreamPlan, Tensor, Turn, Walk
from tinyc.stream.unpadded import without_time_padding
from tinyc.stream.validate import validate

__all__ = [
    "Form",
    "Group",
    "Layer",
    "Limits",
    "Piece",
    "Problem",
    "StreamPlan",
    "Tensor",
    "Turn",
    "Walk",
    "plan_incremental",
    "plan_streamed",
    "validate",
    "without_time_padding",
]
