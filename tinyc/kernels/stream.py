# SPDX-License-Identifier: Apache-2.0
"""A layer's constants in the order of use (tc_stream.h), and the portable twin's description of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
import numpy.typing as npt

from tinyc.base.dataclass import dataclass
from tinyc.kernel.kernel import Condition
from tinyc.kernel.types import is_s8, is_s8_or_w16, is_s8_w4
from tinyc.kernel.windows import ConvParams
from tinyc.kernels import int4_words as digits
from tinyc.kernels.finish import Finish, finish_bytes, finish_int16, finish_packed
from tinyc.kernels.form.function import described
from tinyc.kernels.matrix import GROUP, Matrix
from tinyc.kernels.requantize import Int64s


def as_words(values: Int64s) -> npt.NDArray[np.int32]:
    """The values modulo 2^32, as constants lie in flash."""
    return (values & 0xFFFFFFFF).astype(np.uint32).view(np.int32)


def in_halves(low: Int64s, high: Int64s) -> Int64s:
    """Words with an int16 in each half."""
    return np.asarray((low & 0xFFFF) | ((high & 0xFFFF) << 16))


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


def _packed(matrix: Matrix) -> Finish | None:
    if (matrix.taps[0::2].min(initial=0)) < -127:
        return None
    return finish_packed(matrix)


@dataclass(frozen=True, slots=True)
class Packing:
    """How weights lie in a stream, two taps in a word. words_per_step: of two taps by four channels."""

    weights: str  # in words
    words_per_step: int
    takes: Condition  # the types that it is for
    prove: Callable[[Matrix], Finish | None]
    asks: str  # what it takes to be proved

    def finish_of(self, matrix: Matrix) -> Finish | None:
        """How the layer is requantized with weights that lie so; None if it cannot be."""
        return matrix.once(self.prove)


_INT4 = "a requantization that is proved for int4 weights"
WIDE = Packing("int16 weights", 4, is_s8_or_w16, finish_int16, "a requantization that is proved for int16 weights")
PACKED = Packing(
    "int8 weights, two channels over each other",
    2,
    is_s8,
    _packed,
    "a requantization that is proved for packed int8 weights",
)
# int4 weights: in the upper bits of int16, times 2^12, one channel after the other; or four channels in half a word.
RAISED = Packing("int4 weights, four channels in half a word", 1, is_s8_w4, digits.finish_raised, _INT4)
DIGITS = Packing("int4 weights, four channels in half a word", 1, is_s8_w4, digits.finish_digits, _INT4)
# int8 weights in the upper bits of int16, times 2^8.
BYTES = Packing("int8 weights", 2, is_s8, finish_bytes, "a requantization that is proved for int8 weights")
IN_PLANES = {16: WIDE, 8: BYTES, 4: RAISED}  # weights of depthwise layers over planes, by their bits in flash


def in_fours(taps: int) -> tuple[int, ...]:
    """The taps in the order in which SXTB16 unpacks words: (0, 2), (1, 3) of each four."""
    return tuple(at + i for at in range(0, taps, 4) for i in (0, 2, 1, 3))


def stream(
    matrix: Matrix,
    finish: Finish,
    slots: tuple[int, ...],
    together: int = GROUP,
    nibbles: bool = False,
    before: tuple[int, ...] = (),
) -> npt.NDArray[np.int32]:
    """The words of the layer. slots: the tap of each half step, -1 for none. together: channels of a group. nibbles: of
    `raised` weights, int4. before: words before the first channel, behind those of the requantization."""
    s, places = finish.scaling, np.array(slots)
    taps = np.where(places >= 0, matrix.taps[:, places], 0) * finish.live[:, None]  # [O, half steps]
    if finish.requant.offsets:
        halves = digits.halves(taps, finish.requant.offsets)
    elif nibbles:
        halves = digits.nibbles(taps)
    else:
        halves = 256 * taps[0::2] + taps[1::2] if finish.requant.packed else taps << s.scale[:, None]
    words = (halves[:, 0::2] & 0xFFFF) | (halves[:, 1::2] << 16)  # [O, O/2 or O/4, steps]
    groups = -(-len(matrix.taps) // together)
    spare, own = groups * together - len(matrix.taps), len(matrix.taps) // len(words)
    weights = np.pad(words, ((0, spare // own), (0, 0))).reshape(groups, -1, words.shape[1]).transpose(0, 2, 1)
    start = np.pad(finish.start_values(matrix.p.bias.astype(np.int64)), (0, spare))
    constants = finish.constants_of_groups(together)
    rows = np.concatenate([part.reshape(groups, -1) for part in (start, weights, constants)], axis=1)
    return as_words(np.concatenate([finish.head, np.array(before, np.int64), rows.ravel()]))


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
    @property
    def together(self) -> int:
        """Channels of a group of the stream."""

    @property
    def ended(self) -> bool:
        """Whether the stream says where it ends."""

    def tap_place(self, tap: int) -> tuple[int, int]:
        """Kernel row and byte of a tap."""


def twin_text(finish: Finish, layer: Tapped) -> str:
    """C text of the tc_stream_t `@_layer`."""
    slots = layer.slots
    places = [layer.tap_place(tap) if tap >= 0 else (0, -1) for tap in slots]
    requant = finish.requant
    fields: dict[str, int | str] = {
        "steps": len(slots) // 2,
        "out_c": 0 if layer.ended else layer.out_c,
        "pixel_bytes": layer.pixel_bytes,
        "together": layer.together,
        "packed": int(requant.packed),
        "fours": (2 if requant.offsets[2] else 1) if requant.offsets else 0,
        **({"nibbles": 1} if layer.nibbles else {}),
        "halve": int(requant.halve),
        "twice": max(-requant.lowered[1], 0),
        **({"common": 1} if requant.common else {}),
        "finish": requant.c_text,
    }
    tables = {"row": ("uint8_t", [row for row, _ in places]), "at": ("int16_t", [at for _, at in places])}
    return "\n".join(described("tc_stream_t", fields, tables, "@_")) + "\n"
