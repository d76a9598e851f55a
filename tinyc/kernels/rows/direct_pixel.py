# SPDX-License-Identifier: Apache-2.0
"""The assembly of one pixel of a convolution straight from int8 rows, four output channels at a time, without scratch.

Every group of output channels unpacks the pixel's taps again, in registers. Windows that leave the image at the side
read only the columns inside, pass over the weights of the others, and start from values that contain them.

r0 stream, r1 ... r4 accumulators, r5 r6 taps, r7 input, r8 ... r12 and r14 weights.
"""

from __future__ import annotations

from tinyc.base.dataclass import dataclass
from tinyc.kernels.finish import Requantization
from tinyc.kernels.matrix import GROUP
from tinyc.kernels.tile.groups import Weights
from tinyc.machine.cores import Core
from tinyc.machine.frame import Frame
from tinyc.machine.thumb import Asm, Work, naked_function

_ACC = ("r1", "r2", "r3", "r4")
_WEIGHTS = ("r8", "r9", "r10", "r11", "r12", "r14")
_TURN = 32  # taps of a kernel row without a loop
_WORDS = ("x", "row", "row_end", "tap_end", "y", "y_end", "start", "first", "count", "before", "after")
_FRAME = Frame(_WORDS, first="[sp, #0]")
_SAVED = 36  # bytes: r4-r11, lr
PARAMETERS = (
    "const int32_t *stream",
    "const int8_t *const *x",
    "int8_t *y",
    "const int32_t *start",
    "int32_t first",
    "int32_t count",
    "int32_t before",
    "int32_t after",
)


@dataclass(frozen=True)
class Direct:
    """What the code depends on: windows of k_h x k_w taps of in_c channels."""

    k_h: int
    k_w: int
    in_c: int
    out_c: int
    requant: Requantization
    core: Core

    @property
    def groups(self) -> int:
        return self.out_c // GROUP

    @property
    def column_bytes(self) -> int:
        """Weights of a column of a kernel row, for four output channels."""
        return 2 * GROUP * self.in_c

    @property
    def fits(self) -> bool:
        """Whether this module can write the function."""
        return self.in_c % 4 == 0 and self.out_c % GROUP == 0 and self.k_h <= 255

    @property
    def turn(self) -> int:
        """Taps of a turn: they divide those of a column."""
        return max(n for n in range(4, _TURN + 1, 4) if self.in_c % n == 0)


def pixel_function(name: str, direct: Direct) -> tuple[str, Work, Work, Work]:
    """`name(stream, x, y, start, first, count, before, after)`: the outputs y [out_c] of one pixel. Its text; what a
    call executes, and beside that each kernel row of a group, and each turn.

    In each row, `count` bytes from `first` on are read; `before` and `after` them, bytes of weights are passed over.
    start: start values of all output channels.
    """
    asm = Asm(direct.core)
    _enter(asm, direct)
    with asm.loop("group", direct.groups):
        asm.note("start values of four channels")
        asm.op("ldr", "r5", _FRAME.at("start"))
        asm.load_multiple("r5", _ACC)
        asm.op("str", "r5", _FRAME.at("start"))
        asm.op("add", "r0", "r0", f"#{4 * GROUP}")
        asm.op("ldr", "r5", _FRAME.at("x"))
        _rows(asm, direct)
        _finish(asm, direct.requant)
        asm.op("ldr", "r5", _FRAME.at("y_end"))
        asm.op("str", "r14", _FRAME.at("y"))
        asm.until_equal("r14", "r5", "group")
    asm.restore()
    return naked_function(name, PARAMETERS, asm), asm.work(), asm.work("row"), asm.work("turn")


def _enter(asm: Asm, direct: Direct) -> None:
    """Saves registers and arguments."""
    asm.note("registers and arguments to the stack")
    asm.save("{r4-r11, lr}", frame=_FRAME.size)
    asm.add("r4", "r1", 4 * direct.k_h)
    asm.op("str", "r1", _FRAME.at("x"))
    asm.op("str", "r4", _FRAME.at("row_end"))
    asm.add("r4", "r2", direct.out_c)
    asm.op("strd", "r2", "r4", _FRAME.at("y"))
    asm.op("str", "r3", _FRAME.at("start"))
    asm.add("r4", "sp", _FRAME.size + _SAVED)
    asm.op("ldm", "r4", "{r5, r6, r7, r8}")
    asm.add("r4", "sp", _FRAME.place("first"))
    asm.op("stm", "r4", "{r5, r6, r7, r8}")


def _rows(asm: Asm, direct: Direct) -> None:
    """The sums of four output channels over all kernel rows; r5: the first row's pointer."""
    with asm.loop("row", "row", of_call=True):
        asm.note("a kernel row: its taps, and weights that they pass over")
        asm.op("ldr", "r7", "[r5], #4")
        asm.op("str", "r5", _FRAME.at("row"))
        asm.op("ldrd", "r5", "r6", _FRAME.at("first"))
        asm.op("add", "r7", "r7", "r5")
        asm.op("add", "r6", "r6", "r7")
        asm.op("str", "r6", _FRAME.at("tap_end"))
        asm.op("ldr", "r5", _FRAME.at("before"))
        asm.op("add", "r0", "r0", "r5")
        with asm.loop("taps", "turn", of_call=True):
            asm.note("products")
            _taps(asm, direct.turn)
        asm.op("ldr", "r5", _FRAME.at("after"))
        asm.op("add", "r0", "r0", "r5")
        asm.op("ldrd", "r5", "r6", _FRAME.at("row"))
        asm.until_equal("r5", "r6", "row")


def _taps(asm: Asm, count: int) -> None:
    """A turn of the innermost loop."""
    weights = Weights(asm, _WEIGHTS, count * 2)
    for _ in range(count // 4):
        asm.op("ldr", "r5", "[r7], #4")
        asm.op("sxtb16", "r6", "r5")
        asm.op("sxtb16", "r5", "r5", "ror #8")
        for x in ("r6", "r5"):
            for acc in _ACC:
                asm.op("smlad", acc, x, weights.next(), acc)
    asm.op("ldr", "r5", _FRAME.at("tap_end"))
    asm.until_equal("r7", "r5", "taps")


def _finish(asm: Asm, requant: Requantization) -> None:
    """Scales and stores four outputs; r14: the next."""
    asm.note("requantize and store")
    asm.op("ldr", "r14", _FRAME.at("y"))
    in_turn = requant.constants_in_turn(asm, "r0", ("r9", "r10", "r11", "r12"), GROUP)
    for position, (acc, constants) in enumerate(zip(_ACC, in_turn, strict=True)):
        requant.emit(asm, position, acc, "", constants, "r5")
        asm.op("strb", acc, "[r14], #1")
