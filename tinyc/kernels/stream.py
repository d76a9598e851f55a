# SPDX-License-Identifier: Apache-2.0
"""A layer's constants in the order of use (tc_stream.h), and the portable twin's description of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from tinyc.kernel.windows import ConvParams
from tinyc.kernels import int4_words as digits
from tinyc.kernels.finish import Finish, finish_packed, finish_wide
from tinyc.kernels.matrix import GROUP, Matrix
from tinyc.kernels.requantize import Int64s

T = TypeVar("T")


def matrix_of(p: ConvParams) -> Matrix:
    """The weights of conv2d and fully_connected, [O, ...]."""
    return p.once(_by_output)


def depthwise_matrix_of(p: ConvParams) -> Matrix:
    """The weights of depthwise_conv2d, [..., O]."""
    return p.once(_by_last)


def _by_output(p: ConvParams) -> Matrix:
    return Matrix.of(p, p.w.reshape(p.w.shape[0], -1))


def _by_last(p: ConvParams) -> Matrix:
    return Matrix.of(p, p.w.reshape(-1, p.w.shape[-1]).T)


def wide(matrix: Matrix) -> Finish | None:
    """How the layer is requantized with int16 weights; None if it cannot be."""
    return finish_wide(matrix)


def packed(matrix: Matrix) -> Finish | None:
    """How the layer is requantized with int8 weights, two channels over each other; None if it cannot be."""
    if (matrix.taps[0::2].min(initial=0)) < -127:
        return None
    return finish_packed(matrix)


def raised(matrix: Matrix) -> Finish | None:
    """How the layer is requantized with int4 weights in the upper bits of int16: times 2^12; None if it cannot be."""
    return digits.finish_raised(matrix)


def fours(matrix: Matrix) -> Finish | None:
    """How the layer is requantized with int4 weights, four channels in half a word; None if it cannot be."""
    return digits.finish_fours(matrix)


Fit = Callable[[Matrix], Finish | None]
PROVED: Mapping[Fit, str] = {  # what kernels ask for
    wide: "a requantization that is proved for int16 weights",
    packed: "a requantization that is proved for packed int8 weights",
    raised: "a requantization that is proved for int4 weights",
    fours: "a requantization that is proved for int4 weights",
}


def stream(matrix: Matrix, finish: Finish, slots: tuple[int, ...], nibbles: bool = False) -> npt.NDArray[np.int32]:
    """The words of the layer. slots: the tap of each half step, -1 for none. nibbles: of `raised` weights, int4."""
    s, taps = finish.scaling, _live_taps(matrix, finish, slots)
    if finish.requant.offsets:
        halves = digits.halves(taps, finish.requant.offsets)
    elif nibbles:
        halves = digits.nibbles(taps)
    else:
        halves = 256 * taps[0::2] + taps[1::2] if finish.requant.packed else taps << s.scale[:, None]
    return _in_order(matrix, finish, halves, GROUP)


def stream_by_twos(matrix: Matrix, finish: Finish, slots: tuple[int, ...]) -> npt.NDArray[np.int32]:
    """The words of a layer of `packed` weights by two channels (tc_stream_by_twos.h)."""
    taps = _live_taps(matrix, finish, slots)
    return _in_order(matrix, finish, 256 * taps[0::2] + taps[1::2], 2)


def _live_taps(matrix: Matrix, finish: Finish, slots: tuple[int, ...]) -> Int64s:
    """int64[O, half steps]: the weights in the order of use, 0 for channels whose output is always the same."""
    places = np.array(slots)
    return np.where(places >= 0, matrix.taps[:, places], 0) * finish.live[:, None]


def _in_order(matrix: Matrix, finish: Finish, halves: Int64s, together: int) -> npt.NDArray[np.int32]:
    """For each `together` channels their start values, the weights of each step, their constants. halves: int64[O or
    less, half steps], what lies in a half word."""
    groups = len(matrix.taps) // together
    words = (halves[:, 0::2] & 0xFFFF) | (halves[:, 1::2] << 16)  # [O, O/2 or O/4, steps]
    weights = words.reshape(groups, -1, words.shape[1]).transpose(0, 2, 1).reshape(groups, -1)
    start = finish.start_values(matrix.p.bias.astype(np.int64)).reshape(groups, together)
    constants = finish.constants().reshape(groups, -1)
    rows = np.concatenate([start, weights, constants], axis=1)
    return (rows.ravel() & 0xFFFFFFFF).astype(np.uint32).view(np.int32)


class Tapped(Protocol):
    """What the twin reads of a layer."""

    @property
    def slots(self) -> tuple[int, ...]: ...
    @property
    def out_c(self) -> int: ...
    @property
    def pixel_bytes(self) -> int: ...
    @property
    def nibbles(self) -> bool: ...

    def tap_place(self, tap: int) -> tuple[int, int]:
        """Kernel row and byte of a tap."""


def twin_text(name: str, finish: Finish, layer: Tapped) -> str:
    """C text of the tc_stream_t `<name>_layer`."""
    slots = layer.slots
    places = [layer.tap_place(tap) if tap >= 0 else (0, -1) for tap in slots]
    requant = finish.requant
    fields = {
        "steps": len(slots) // 2,
        "out_c": layer.out_c,
        "pixel_bytes": layer.pixel_bytes,
        "packed": int(requant.packed),
        "fours": (2 if requant.offsets[2] else 1) if requant.offsets else 0,
        **({"nibbles": 1} if layer.nibbles else {}),
        "halve": int(requant.halve),
        "twice": int(requant.double),
        **requant.described(GROUP),
        "row": f"{name}_row",
        "at": f"{name}_at",
    }
    lines = [
        _array("uint8_t", f"{name}_row", [row for row, _ in places]),
        _array("int16_t", f"{name}_at", [at for _, at in places]),
        f"static const tc_stream_t {name}_layer = {{",
        *(f"    .{field} = {value}," for field, value in fields.items()),
        "};",
    ]
    return "\n".join(lines) + "\n"


def _array(ctype: str, name: str, values: list[int]) -> str:
    lines = [", ".join(map(str, values[i : i + 24])) for i in range(0, len(values), 24)]
    body = ",\n    ".join(lines)
    return f"static const {ctype} {name}[{len(values)}] = {{\n    {body},\n}};"
