# SPDX-License-Identifier: Apache-2.0
"""The assembly of the weights' side of exact fast convolutions (`bilinear.py`), where they stay int8 in flash: from the
words of `weight_words` to the stream of `tc_tiles.h`, each time that the layer runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from tinyc.ir.graph import Array
from tinyc.kernels.fast.bilinear import BilinearForm, nested_factors
from tinyc.kernels.fast.tiles import TileInputs, Tiles
from tinyc.kernels.fast.transforms import ReachingCursor
from tinyc.kernels.matrix import GROUP, Matrix
from tinyc.kernels.requantize import Int64s
from tinyc.kernels.stream import as_words
from tinyc.machine.thumb import Asm, Naked, Work

PARAMETERS = ("const int32_t *weights", "int32_t groups", "int32_t *stream")
TAPS = 9
_FREE = (*(f"r{i}" for i in range(2, 13)), "r14")  # r0: the weights of the quad and more, r1: stream
_WEIGHTS, _QUADS, _CHANNELS, _GROUPS = "[sp]", "[sp, #4]", "[sp, #8]", "[sp, #12]"  # r0, and turns still to do
_FRAME = 20  # with nine saved registers, a multiple of 8

Store = Callable[[int, str], None]


def largest_factors(matrix: Matrix, down: BilinearForm, across: BilinearForm) -> Int64s:
    """int64[O]: the largest of each output channel's factors, at least 1. down, across: forms of rows, of columns."""
    out_c = len(matrix.taps)
    factors = nested_factors(matrix.taps.reshape(out_c, 3, 3, -1), down, across)
    return np.maximum(np.abs(factors).reshape(out_c, -1).max(axis=1, initial=0), 1)


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


def weights_function(tiles: TileInputs, order: Sequence[tuple[int, int]]) -> tuple[Naked, tuple[Work, Work]]:
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
        asm.add("r1", "r1", 4 * GROUP * (tiles.products * tiles.steps - 1), "r2")
        asm.count_down("r2", _GROUPS, "group")
    asm.restore()
    asm.reorder()
    return Naked("@", PARAMETERS, asm), (asm.work(), asm.work("group"))


def _turns(asm: Asm, count: int, place: str) -> None:
    asm.constant("r2", count)
    asm.op("str", "r2", place)


def _quad(asm: Asm, tiles: TileInputs, order: Sequence[tuple[int, int]]) -> None:
    """Four input channels of an output channel, two at a time; r1 goes on to the next four."""
    to = ReachingCursor(asm, "r1", pairs=False)
    form = tiles.form
    across = dict.fromkeys(step for part in _SUMS[form.across.name] for step in part)
    for half in range(2):
        for number, down in enumerate(_SUMS[form.name]):
            asm.note("two input channels: taps of each column combined, then of each row")
            if half or number:
                asm.op("ldr", "r0", _WEIGHTS)
            free = list(_FREE)
            columns = [_column(asm, tiles, half, down, free, last=column == 2) for column in range(3)]
            for row, register in columns[0].items():
                equal = [i for i, other in columns[0].items() if other == register]
                if equal[0] != row:
                    continue

                def store(product: int, register: str, equal: list[int] = equal, half: int = half) -> None:
                    for i in equal:
                        place = 16 * (order.index((i, product)) * tiles.steps + half)
                        asm.op("str", register, to.at(place))

                _combine(asm, tuple(across), [column[row] for column in columns], list(free), store)
    to.move(2 * 16)


def _column(
    asm: Asm, tiles: TileInputs, half: int, down: tuple[str, ...], free: list[str], last: bool
) -> dict[int, str]:
    """The registers of the combinations of a column's taps, by number; they are taken from `free`, with the last column
    from r0 too, which has served."""
    x = [free.pop(0) for _ in range(3)]
    asm.op("ldm", "r0!", "{" + ", ".join(x) + "}")
    for register in x:
        asm.op("sxtb16", register, register, *(("ror #8",) if half else ()))
        for _ in range(tiles.form.narrow_scale - tiles.form.scale):
            asm.op("sadd16", register, register, register)
    if last:
        free.insert(0, "r0")
    return _combine(asm, down, x, free)


# Combinations of three values a, b, c: of a column's taps in parts that registers hold together, of a row's in all
# parts at once. Numbers are results, other letters what they are made of.
_SUMS = {
    "f2": (("o=a+c", "d=a-c", "0=a+a", "3=d-o", "1=o+b", "2=o-b"),),
    "f4": (
        ("s=a+c", "2=b-s", "e=b+b", "1=2-e", "u=a+a", "v=u+a", "0=v+v"),
        ("f=c+c", "g=f+f", "5=f+g", "t=a+g", "e=b+b", "3=t+e", "4=t-e"),
    ),
    "s2": (("0=a", "1=b", "2=a+c", "3=b", "4=c"),),
}


def _combine(
    asm: Asm, steps: tuple[str, ...], x: list[str], free: list[str], store: Store | None = None
) -> dict[int, str]:
    """Writes steps of `_SUMS`; the registers of the results by number, which stay unless each goes to `store` at once.

    x: of a, b, c, which are used up; others come from `free`, which has those that are left in the end.
    """
    register = dict(zip("abc", x, strict=True))
    results: dict[int, str] = {}
    for at, step in enumerate(steps):
        name, operands = step[0], [letter for letter in step[2:] if letter.isalnum()]
        later = {letter for other in steps[at + 1 :] for letter in other[2:]}
        done = [
            own for own in dict.fromkeys(register[o] for o in operands if o not in later) if own not in results.values()
        ]
        if len(operands) == 1:
            register[name] = register[operands[0]]
        else:
            target = done.pop(0) if done else free.pop()
            left, right = (register[operand] for operand in operands)
            asm.op("sadd16" if "+" in step else "ssub16", target, left, right)
            register[name] = target
            free += done
        if not name.isdigit():
            continue
        if store is None:
            results[int(name)] = register[name]
            continue
        store(int(name), register[name])
        if name not in later and len(operands) > 1:
            free.append(register[name])
    return results
