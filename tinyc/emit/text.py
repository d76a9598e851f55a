# SPDX-License-Identifier: Apache-2.0
"""Values as C text: literals, casts, arrays, and the words of comments for shapes, places and scales."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tinyc.base.escape import C, c_comment, float_literal
from tinyc.base.numerics import Numerics
from tinyc.emit.columns import COLUMNS, prose
from tinyc.emit.program import Place, Step
from tinyc.ir.graph import Array, Value
from tinyc.plan.answer import SLOW

CTYPE = {
    "f32": "float",
    "s4": "int8_t",
    "s8": "int8_t",
    "u8": "uint8_t",
    "s16": "int16_t",
    "s32": "int32_t",
    "u16": "uint16_t",
    "u32": "uint32_t",
    "u64": "uint32_t",  # two words, the low one first: the arena aligns to 4 bytes
    "bool": "uint8_t",
}
_WORDS = {"f32": "float", "bool": "bool", **{f"s{bits}": f"int{bits}" for bits in (4, 8, 16, 32, 64)}}
_WORDS |= {f"u{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)}
_NUMPY_CTYPE = {
    "int8": "int8_t",
    "uint8": "uint8_t",
    "int16": "int16_t",
    "uint16": "uint16_t",
    "int32": "int32_t",
    "uint32": "uint32_t",
    "int64": "int64_t",
    "float32": "float",
}
_BYTES = {number: f" {number}," for number in range(-128, 256)}
_BYTE_LENGTHS = np.array([len(_BYTES[number]) for number in range(-128, 256)])
_PER_LINE = 5  # floats, of up to 16 characters
_SHORT = 34  # letters of a name in a table, so that a step takes two lines


def c_int(value: int) -> str:
    """A C literal of type int: the least int32 has no literal of its own."""
    return "(-2147483647 - 1)" if value == -(2**31) else str(value)


def c_float(value: float) -> str:
    """A C literal of the nearest float."""
    if np.isinf(np.float32(value)):
        raise ValueError("infinity has no C literal")
    return f"{float_literal(value)}f"


def c_array(data: Array) -> str:
    """The elements in C order, wrapped to lines."""
    flat = data.ravel().tolist()
    if data.dtype.itemsize == 1:  # millions of weights, of few numbers
        lengths = _BYTE_LENGTHS[data.ravel().astype(np.int16) + 128]
        return _wrapped("".join(map(_BYTES.__getitem__, flat)), np.cumsum(lengths).tolist(), "   ")
    return filled(map(c_float, flat) if data.dtype.kind == "f" else map(c_int, flat))


def filled(texts: Iterable[str], begin: str = "   ") -> str:
    """Elements of an initializer, as many in a line as there is room for. begin: of the first line; the others
    begin with as many spaces."""
    items = [f" {text}," for text in texts]
    return _wrapped("".join(items), list(itertools.accumulate(map(len, items))), begin)


def _wrapped(text: str, ends: Sequence[int], begin: str) -> str:
    """The text in lines that break where an element ends."""
    lines, first, at = [], 0, 0
    while first < len(ends):
        first = max(bisect.bisect_right(ends, at + COLUMNS - len(begin), first), first + 1)
        lines.append(text[at : ends[first - 1]])
        at = ends[first - 1]
    return begin + f"\n{' ' * len(begin)}".join(lines)


def ctype(dtype: str) -> str:
    """Of an element of a tensor."""
    return CTYPE[dtype]


def element_ctype(data: Array) -> str:
    """Of an element of a constant array."""
    return _NUMPY_CTYPE[data.dtype.name]


def cast(ctype: str) -> str:
    """Cast of a byte pointer; through `void *` where the alignment grows, which the plan guarantees."""
    return f"({ctype} *)" if ctype in ("int8_t", "uint8_t") else f"({ctype} *)(void *)"


def const_cast(ctype: str) -> str:
    """`cast` for a pointer to const."""
    return f"(const {ctype} *)" if ctype in ("int8_t", "uint8_t") else f"(const {ctype} *)(const void *)"


def dims(shape: tuple[int, ...]) -> str:
    """`[1,49,10,64]`."""
    return f"[{','.join(map(str, shape))}]"


def span(place: Place) -> str:
    """`[31360, 39360)`; in the slow part `slow [0, 8000)`."""
    if place.is_slow:
        return f"slow [{place.first}, {place.end - SLOW})"
    return f"[{place.offset}, {place.end})"


def meaning(value: Value) -> str:
    """`0.0235 * (q + 128)`; `scale * (q + 128)` of outputs with several scales; nothing for values without any."""
    if value.quant is None:
        return ""
    zero = value.quant.zero[0]
    scale = f"{value.quant.scale[0]:.6g}" if len(value.quant.scale) == 1 else "scale"
    return f"{scale} * (q {'-' if zero > 0 else '+'} {abs(zero)})" if zero else f"{scale} * q"


def float_list(numbers: Sequence[float]) -> str:
    """Floats of a macro, in lines that end in a backslash."""
    rows = [", ".join(map(c_float, numbers[first : first + _PER_LINE])) for first in range(0, len(numbers), _PER_LINE)]
    return f"{{ {rows[0]} }}" if len(rows) == 1 else "{ \\\n    " + ", \\\n    ".join(rows) + " }"


def tensor(value: Value) -> str:
    """`int8 [1,49,10,64]`."""
    return f"{_WORDS[value.dtype]} {dims(value.shape)}"


def layer(step: Step) -> C:
    """The user's own layers behind a step, each once: `'conv1' node 3 (CONV_2D), 'relu1' node 4 (RELU)`."""
    names = dict.fromkeys(f"'{at.name}' node {at.node} ({at.op})" for at in step.node.origin)
    return c_comment(", ".join(names) or f"'{step.node.name}'")


def main_layer(step: Step) -> C:
    """The first of them: `'conv1' node 3 and 1 more`."""
    origin = tuple(dict.fromkeys(step.node.origin))
    if not origin:
        return C(f"'{short(step.node.name)}'")
    others = f" and {len(origin) - 1} more" if len(origin) > 1 else ""
    return C(f"'{short(origin[0].name)}' node {origin[0].node}{others}")


def short(name: object) -> C:
    """A name in a comment, its beginning left out where it is long: the end tells layers apart."""
    text = c_comment(name)
    return text if len(text) <= _SHORT else C(f"...{text[3 - _SHORT :]}")


def _c(text_of: Callable[..., str]) -> Callable[..., C]:
    """A filter of what is made of numbers and of tinyc's own words alone."""
    return lambda *values: C(text_of(*values))


def _column(text: C | int, width: int) -> C:
    """In a column of a table."""
    if not isinstance(text, C | int):
        raise ValueError(f"{text!r} is not C: give it a filter first")
    return C(f"{text:<{width}}" if isinstance(text, C) else f"{text:>{width}}")


def whose(arithmetic: str) -> str:
    """Whose integers a library computes, by the word of `Program.arithmetic`."""
    return {
        "float32": "IEEE 754, every product of a sum a fused multiply-add",
        Numerics.TFLM.value: "the integers of TensorFlow Lite Micro",
        Numerics.LITERT.value: "the integers of desktop LiteRT",
        Numerics.ONNX.value: "the integers of ONNX Runtime",
        Numerics.OURS.value: "one rounding for each result, as tinyc quantized the model",
    }[arithmetic]


def ranges(numbers: Sequence[int]) -> str:
    """Ascending numbers in words: 0, 2 to 5, 9."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    words = (f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs)
    return ", ".join(words)


FILTERS: Mapping[str, Callable[..., Any]] = {
    "array": _c(c_array),
    "bytes": _c(lambda data: filled(f"0x{byte:02x}" for byte in data)),
    "cast": _c(cast),
    "column": _column,
    "const_cast": _c(const_cast),
    "ctype": _c(lambda dtype: _NUMPY_CTYPE[dtype.name]),
    "define_int": _c(lambda v: f"({v})" if v < 0 else str(v)),
    "dims": _c(dims),
    "element": _c(lambda value: CTYPE[value.dtype]),
    "float": _c(c_float),
    "float_list": _c(float_list),
    "layer": layer,
    "main_layer": main_layer,
    "meaning": _c(meaning),
    "options": lambda words: c_comment(" ".join(words)),
    "number": _c(lambda n, width=0: f"{n:>{width},}"),
    "plus": _c(lambda v: f" {'-' if v < 0 else '+'} {abs(v)}" if v else ""),
    "prose": prose,
    "ranges": _c(ranges),
    "short": short,
    "span": _c(span),
    "tensor": _c(tensor),
    "whose": _c(whose),
    "words_in_hex": _c(lambda data: filled(f"0x{word:08x}u" for word in np.frombuffer(data, "<u4").tolist())),
}
