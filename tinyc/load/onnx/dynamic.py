# SPDX-License-Identifier: Apache-2.0
"""DynamicQuantizeLinear: integers of 8 bits in a scale that is computed from the numbers themselves, in float32."""

from __future__ import annotations

import numpy as np

from tinyc.ir.graph import Value
from tinyc.kernel.site import Act
from tinyc.load.onnx.importing import OnnxStep, imports
from tinyc.ops.add import Add
from tinyc.ops.choose import Choose
from tinyc.ops.clip import Clip
from tinyc.ops.compare import Compare
from tinyc.ops.convert import Convert
from tinyc.ops.div import Div
from tinyc.ops.function import Function
from tinyc.ops.mul import Mul
from tinyc.ops.reduce_extremum import ReduceExtremum
from tinyc.ops.reshape import Reshape
from tinyc.ops.sub import Sub

_STEPS = Act(0.0, 255.0)


@imports("DynamicQuantizeLinear")
def dynamic_quantize(s: OnnxStep) -> None:
    """Each operation rounded as ONNX Runtime rounds it, divisions included: the same integers, which are int32 here."""
    x = s.value(0)
    flat = s.reshape(x, (x.elements,), "flat")

    def const(number: float, what: str) -> Value:
        return s.builder.add_const(f"{s.node.outputs[0]}:{what}", np.array([number], np.float32))

    ends = [s.insert([flat], ReduceExtremum((0,), True, largest), f"end{int(largest)}") for largest in (False, True)]
    low = s.insert([ends[0]], Clip(Act(hi=0.0)), "low")
    high = s.insert([ends[1]], Clip(Act(lo=0.0)), "high")
    step = s.insert([s.insert([high, low], Sub(), "range"), const(255.0, "steps")], Div(), "step")
    wide = s.insert([step, const(0.0, "zero")], Compare("greater"), "wide")
    scale = s.insert([wide, step, const(1.0, "one")], Choose(), "scale")
    below = s.insert([s.insert([low, scale], Div(), "below"), const(-1.0, "minus")], Mul(), "above")
    origin = s.insert([s.insert([below], Clip(_STEPS), "inside")], Function("round"), "origin")
    rounded = s.insert([s.insert([flat, scale], Div(), "places")], Function("round"), "rounded")
    held = s.insert([s.insert([rounded, origin], Add(), "moved")], Clip(_STEPS), "held")
    s.emit([s.reshape(held, x.shape, "shaped")], Convert("s32"))
    for output, value, attrs in ((1, scale, Reshape(())), (2, s.reshape(origin, (), "zero_point"), Convert("s32"))):
        if len(s.node.outputs) > output and s.node.outputs[output] in s.builder.read:
            s.emit([value], attrs, output=output)
