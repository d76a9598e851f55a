# SPDX-License-Identifier: Apache-2.0
"""Functions of the elements of one or two tensors as they lie there, without scales: written in C for their layer."""

from __future__ import annotations

from collections.abc import Sequence

from tinyc.ir.graph import DType
from tinyc.kernel.kernel import SpecializedKernel
from tinyc.kernels.form.function import LayerFunction

CTYPES: dict[DType, str] = {
    "f32": "float",
    "s8": "int8_t",
    "u8": "uint8_t",
    "s16": "int16_t",
    "s32": "int32_t",
    "u16": "uint16_t",
    "u32": "uint32_t",
    "bool": "uint8_t",
}
LOOPS = 6  # one within the other


def pairwise(
    family: str, says: str, types: Sequence[DType], loops: Sequence[tuple[int, int, int]], expression: str
) -> SpecializedKernel:
    """The function `family_<digest>(a, b, y)`. types: of a, b and y. loops: over y, outermost first, with the steps in
    a and b. expression: of the elements p and q in C."""
    first, second, result = (CTYPES[kind] for kind in types)
    lines = [f"for (int32_t i{k} = 0; i{k} < {size}; i{k}++) {{" for k, (size, _, _) in enumerate(loops)]
    at = [" + ".join(f"{loop[side]} * i{k}" for k, loop in enumerate(loops) if loop[side]) for side in (1, 2)]
    inner = "    " * (len(loops) + 1)
    body = [f"{'    ' * (k + 1)}{line}" for k, line in enumerate(lines)]
    body += [f"{inner}const {first} p = a[{at[0] or 0}];", f"{inner}const {second} q = b[{at[1] or 0}];"]
    body += [f"{inner}*y++ = ({result})({expression});"]
    body += [f"{'    ' * (k + 1)}}}" for k in reversed(range(len(loops)))]
    text = "\n".join([f"static void @(const {first} *a, const {second} *b, {result} *y)", "{", *body, "}"])
    return LayerFunction(f"/* {says} */", driver=text).named(family, "tc_math.h")


def each(says: str, types: Sequence[DType], count: int, expression: str) -> SpecializedKernel:
    """The function `tc_convert_<digest>(x, y)` of `count` elements. types: of x and y. expression: of the element p."""
    given, result = (CTYPES[kind] for kind in types)
    text = f"""static void @(const {given} *x, {result} *y)
{{
    for (int32_t i = 0; i < {count}; i++) {{
        const {given} p = x[i];
        y[i] = ({result})({expression});
    }}
}}"""
    return LayerFunction(f"/* {says} */", driver=text).named("tc_convert", "tc_math.h")
