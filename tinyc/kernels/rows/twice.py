# SPDX-License-Identifier: Apache-2.0
"""Two output rows per call by a form that makes one: with its scratch, where two rows at a time leave little.

A layer whose calls make two rows may then run in the fullest turns with as few bytes as one row needs.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tinyc.kernel.kernel import Call, Const, In, Once, Out, RowForm, Scratch, SpecializedKernel
from tinyc.kernels.form.function import LayerFunction
from tinyc.machine.thumb import Work

_CALL = Work(12, 20)  # beside the calls of the form; as counted, less the step's own calls that are saved: -3 to 19
_LEAST_ROWS = 3  # of an image, for rows in place: else one call may make both rows over what the other one reads


def twice(form: RowForm, x_zero: int) -> RowForm | None:
    """The form that calls another one, of one row, for each of two rows; None where it cannot.

    In place: only with windows of three rows that begin at most one row above the image, and stride 1.
    """
    rows, one = form.call.rows, form.special
    if rows is None or one is None or rows.out_rows > 1 or rows.dilation != 1 or rows.starts is not None:
        return None
    if rows.out_h < 2 or form.call.params or form.direct or form.accumulator_bytes:
        return None
    if form.inplace and (rows.k_h != 3 or rows.stride != 1 or rows.pad_top > 1 or rows.out_h < _LEAST_ROWS):
        return None
    pad = rows.pad or Const(np.full(rows.in_row_bytes, x_zero, np.int8), "[in_w][in_c] of x_zero", "pad")
    moved = replace(rows, out_rows=2, pad=pad)
    cost = replace(
        form.cost,
        instructions=form.cost.instructions + moved.calls * _CALL.instructions,
        cycles=form.cost.cycles + moved.calls * _CALL.cycles,
    )
    special = Once(lambda: _special(form.call, one(), moved.stride))
    return replace(form, call=Call(form.call.args, rows=moved), cost=cost, special=special, only_own_rows=True)


def _special(call: Call, one: SpecializedKernel, stride: int) -> SpecializedKernel:
    """y[0] may be a row of the second window only where the first begins above the image: then it is made last."""
    assert call.rows is not None
    types = {Const: "const int32_t *", In: "const int8_t *const *", Out: "int8_t *const *", Scratch: "void *"}
    names = [
        f"c{i}" if isinstance(arg, Const) else {In: "x", Out: "y", Scratch: "scratch"}[type(arg)]
        for i, arg in enumerate(call.args)
    ]
    parameters = ", ".join(types[type(arg)] + name for arg, name in zip(call.args, names, strict=True))

    def call_of(row: int) -> str:
        own = {"x": f"x + {stride}" if row else "x", "y": f"y[{row}]"}
        return f"{one.name}({', '.join(own.get(name, name) for name in names)});"

    second = " || ".join(f"y[0] == x[{stride + k}]" for k in range(call.rows.k_h))
    contract = f"""/* Two rows, one after the other. x: {call.rows.k_h + stride} row pointers. y: 2; where they are
 * the same, the last row stays. */"""
    driver = f"""static void @({parameters})
{{
    if (y[0] != y[1] && ({second})) {{
        {call_of(1)}
        {call_of(0)}
        return;
    }}
    if (y[0] != y[1]) {{
        {call_of(0)}
    }}
    {call_of(1)}
}}"""
    function = LayerFunction(contract, driver=driver)
    return function.named(f"{one.name}_twice", *one.includes, parts=(*one.parts, one))
