# SPDX-License-Identifier: Apache-2.0
"""The assembly of the weights' side of exact fast convolutions (`bilinear.py`), where they stay int8 in flash: from the
words of `weight_words` to the stream of `tc_tiles.h`, each time that the layer runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from tinyc.ir.graph import Array
from tinyc.kernels.fast.tiles import Tiles
from tinyc.kernels.fast.transforms import ReachingCursor
from tinyc.kernels.form.plan import as_words
from tinyc.kernels.matrix import GROUP
from tinyc.kernels.requantize import Int64s
from tinyc.machine.thumb import Asm, Naked, Work

PARAMETERS = ("const int32_t *weights", "int32_t groups", "int32_t *stream")
TAPS = 9
_FREE = (*(f"r{i}" for i in range(2, 13)), "r14")  # r0: the weights of the quad and more, r1: stream
_WEIGHTS, _QUADS, _CHANNELS, _GROUPS = "[sp]", "[sp, #4]", "[sp, #8]", "[sp, #12]"  # r0, and turns still to do
_FRAME = 20  # with nine saved registers, a multiple of 8

Store = Callable[[int, str], None]


def weight_words(weights: Array, tiles: Tiles, start: Int64s) -> npt.NDArray[np.int32]:
    """int32[groups * words]: per four output channels their start values, then int8 [O][C / 4][3 columns][3 rows][4].

    weights: int8-valued [O, 3, 3, C], C at most four times `tiles.quads`. start: int64[groups, 4].
    """
    out_c = len(weights)
    padded = np.zeros((out_c, 3, 3, 4 * tiles.quads), np.int8)
    padded[..., : tiles.in_c] = weights
    fours = padded.reshape(out_c, 3, 3, tiles.quads, 4).transpose(0, 3, 2, 1, 4)
    words = np.ascontiguousarray(fours).view("<i4").astype(np.int64).reshape(tiles.groups, -1)
    return as_words(np.concatenate([start, words], axis=1)).ravel()


def weights_function(tiles: Tiles, order: list[tuple[int, int]]) -> tuple[Naked, tuple[Work, Work]]:
    """`@(weights, groups, stream)`: the function, instructions of a call and of each group of four output channels.

    order: (row, column) products as they lie in the stream.
    """
    asm = Asm(tiles.core)
    asm.note("registers to the stack")
    asm.save("{r4-r11, lr}", frame=_FRAME)
    asm.op("str", "r1", _GROUPS)
    asm.op("mov", "r1", "r2")
    with asm.loop("group", "group"):
        asm.note("four output channels: start values")
        asm.op("ldm", "r0!", "{r2-r5}")
        asm.op("stm", "r1!", "{r2-r5}")
        asm.op("str", "r0", _WEIGHTS)
        _turns(asm, GROUP, _CHANNELS)
        with asm.loop("channel", GROUP):
            _turns(asm, tiles.quads, _QUADS)
            with asm.loop("quad", tiles.quads):
                _quad(asm, tiles, order)
                asm.op("ldr", "r0", _WEIGHTS)
                asm.op("add", "r0", "r0", f"#{4 * TAPS}")
                asm.op("str", "r0", _WEIGHTS)
                asm.count_down("r2", _QUADS, "quad")
            asm.add("r1", "r1", 4 - 32 * tiles.quads, "r2")
            asm.count_down("r2", _CHANNELS, "channel")
        asm.add("r1", "r1", 4 * (tiles.group_words - GROUP) - 4 * GROUP, "r2")
        asm.count_down("r2", _GROUPS, "group")
    asm.restore()
    asm.reorder()
    return Naked("@", PARAMETERS, asm), (asm.work(), asm.work("group"))


def _turns(asm: Asm, count: int, place: str) -> None:
    asm.constant("r2", count)
    asm.op("str", "r2", place)


def _quad(asm: Asm, tiles: Tiles, order: list[tuple[int, int]]) -> None:
    """Four input channels of an output channel, two at a time; r1 goes on to the next four."""
    to = ReachingCursor(asm, "r1", pairs=False)
    form = tiles.form
    across = _ACROSS[form.across.name]
    for half in range(2):
        for number, down in enumerate(_DOWN[form.name]):
            asm.note("two input channels: taps of each column combined, then of each row")
            if half or number:
                asm.op("ldr", "r0", _WEIGHTS)
            free = list(_FREE)
            columns = [_column(asm, tiles, half, down, free) for _ in range(3)]
            temps = (*free, "r0")
            for row in columns[0]:
                x = [column[row] for column in columns]
                places = [
                    [16 * (order.index((i, j)) * tiles.steps + half) for i in (row, *_EQUAL.get((form.name, row), ()))]
                    for j in range(form.across.products)
                ]

                def store(product: int, register: str, places: list[list[int]] = places) -> None:
                    for place in places[product]:
                        asm.op("str", register, to.at(place))

                across(asm, x, temps, store)
    to.move(2 * 16)


Down = Callable[[Asm, "list[str]", "list[str]"], "dict[int, str]"]


def _column(asm: Asm, tiles: Tiles, half: int, down: Down, free: list[str]) -> dict[int, str]:
    """The registers of the combinations of a column's taps, by number; they are taken from `free`."""
    x = [free.pop(0) for _ in range(3)]
    asm.op("ldm", "r0!", "{" + ", ".join(x) + "}")
    for register in x:
        asm.op("sxtb16", register, register, *(("ror #8",) if half else ()))
        for _ in range(tiles.form.narrow_scale - tiles.form.scale):
            asm.op("sadd16", register, register, register)
    return down(asm, x, free)


def _f2_down(asm: Asm, x: list[str], free: list[str]) -> dict[int, str]:
    """2 x0; x0 + x1 + x2; x0 - x1 + x2; -2 x2."""
    x0, x1, x2 = x
    inner = free.pop(0) if len(free) > 1 else "r0"  # of the last column, for which r0 has served
    outer = free[-1]
    asm.op("sadd16", outer, x0, x2)
    asm.op("sadd16", inner, outer, x1)
    asm.op("ssub16", x1, outer, x1)
    asm.op("ssub16", x2, x0, x2)
    asm.op("sadd16", x0, x0, x0)
    asm.op("ssub16", x2, x2, outer)
    return {0: x0, 1: inner, 2: x1, 3: x2}


def _f2_across(asm: Asm, x: list[str], temps: Sequence[str], store: Store) -> None:
    """The same of a row."""
    (a, b, c), outer = x, temps[0]
    asm.op("sadd16", outer, a, c)
    asm.op("ssub16", c, a, c)
    asm.op("sadd16", a, a, a)
    store(0, a)
    asm.op("ssub16", c, c, outer)
    store(3, c)  # it lies near that of 0
    asm.op("sadd16", a, outer, b)
    store(1, a)
    asm.op("ssub16", b, outer, b)
    store(2, b)


def _f4_outer_down(asm: Asm, x: list[str], free: list[str]) -> dict[int, str]:
    """6 x0; -x0 - x1 - x2; -x0 + x1 - x2."""
    (x0, x1, x2), temp = x, free[-1]
    asm.op("sadd16", temp, x0, x2)
    asm.op("ssub16", x2, x1, temp)
    asm.op("sadd16", x1, x1, x1)
    asm.op("ssub16", x1, x2, x1)
    asm.op("sadd16", temp, x0, x0)
    asm.op("sadd16", x0, temp, x0)
    asm.op("sadd16", x0, x0, x0)
    return {0: x0, 1: x1, 2: x2}


def _f4_inner_down(asm: Asm, x: list[str], free: list[str]) -> dict[int, str]:
    """x0 + 2 x1 + 4 x2; x0 - 2 x1 + 4 x2; 6 x2."""
    (x0, x1, x2), temp = x, free[-1]
    asm.op("sadd16", x2, x2, x2)
    asm.op("sadd16", temp, x2, x2)
    asm.op("sadd16", x2, x2, temp)
    asm.op("sadd16", temp, x0, temp)
    asm.op("sadd16", x1, x1, x1)
    asm.op("sadd16", x0, temp, x1)
    asm.op("ssub16", x1, temp, x1)
    return {3: x0, 4: x1, 5: x2}


def _f4_across(asm: Asm, x: list[str], temps: Sequence[str], store: Store) -> None:
    """All six of a row."""
    (a, b, c), (t, u, *_) = x, temps
    asm.op("sadd16", t, a, c)
    asm.op("ssub16", t, b, t)
    store(2, t)
    asm.op("sadd16", b, b, b)
    asm.op("ssub16", t, t, b)
    store(1, t)
    asm.op("sadd16", u, a, a)
    asm.op("sadd16", u, u, a)
    asm.op("sadd16", u, u, u)
    store(0, u)
    asm.op("sadd16", c, c, c)
    asm.op("sadd16", t, c, c)
    asm.op("sadd16", c, c, t)
    store(5, c)
    asm.op("sadd16", t, a, t)
    asm.op("sadd16", a, t, b)
    store(3, a)
    asm.op("ssub16", b, t, b)
    store(4, b)


def _s2_down(asm: Asm, x: list[str], free: list[str]) -> dict[int, str]:
    """x0; x1; x0 + x2; (x1;) x2."""
    (x0, x1, x2), both = x, free.pop(0)
    asm.op("sadd16", both, x0, x2)
    return {0: x0, 1: x1, 2: both, 4: x2}


def _s2_across(asm: Asm, x: list[str], temps: Sequence[str], store: Store) -> None:
    """x0; x1; x0 + x2; x1; x2."""
    a, b, c = x
    store(0, a)
    asm.op("sadd16", a, a, c)
    for product, register in ((1, b), (2, a), (3, b), (4, c)):
        store(product, register)


# Combinations of a column that registers hold together; those of a row; rows that are equal to one before.
_DOWN: dict[str, tuple[Down, ...]] = {
    "f2": (_f2_down,),
    "f4": (_f4_outer_down, _f4_inner_down),
    "s2": (_s2_down,),
}
_ACROSS = {"f2": _f2_across, "f4": _f4_across, "s2": _s2_across}
_EQUAL = {("s2", 1): (3,)}
