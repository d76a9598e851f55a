# SPDX-License-Identifier: Apache-2.0
"""depthwise_conv2d of three columns on Cortex-M with DSP and an FPU, for any number of channels and pixels: one
function for many layers.

As `direct.py` does it, four output channels by two pixels from the rows themselves, but what that has as immediates
comes from the stream and waits in registers of the FPU: `_Kept`. Of a pair's columns only the first and the last may
lie outside the image: flags, which nothing within the rows changes, say whether zero points stand for them. A last odd
pixel is the second of a pair that begins one earlier.

r0 stream, r1-r4 and r5-r8 accumulators, r9 r10 weights, r11 r12 channels of a column, r14 row, then outputs.
"""

from __future__ import annotations

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.kernel.kernel import (
    Call,
    Const,
    Cost,
    Fetches,
    In,
    Kernel,
    Out,
    SpecializedKernel,
    WrittenCode,
    planned,
    writing,
)
from tinyc.kernel.site import Site
from tinyc.kernel.types import is_s8_or_w16
from tinyc.kernel.windows import ConvParams, Window, row_geometry
from tinyc.kernels.depthwise.direct import (
    ACC,
    EVEN,
    ODD,
    PARAMETERS,
    ROW_CALL,
    WEIGHTS,
    group_words,
    multiply,
    stream_groups,
    unpack_column,
)
from tinyc.kernels.finish import Finish, Requantization
from tinyc.kernels.form.function import LayerFunction, twin
from tinyc.kernels.form.plan import LayerPlan
from tinyc.kernels.matrix import GROUP
from tinyc.kernels.stream import WIDE, depthwise_matrix_of
from tinyc.kernels.tile.shape import tile_text
from tinyc.machine.cores import Core
from tinyc.machine.frame import Frame
from tinyc.machine.thumb import Asm, Naked, Work

NAME = "tc_depthwise_conv2d_s8_shared_fpu_asm"

_COLUMNS = 3  # of a window
_LEFT, _RIGHT = 30, 31  # bits of the word that says which columns are outside; doubled they are N and C
_LAST_PAIR = Work(15, 20)  # before the last one of four channels


@dataclass(frozen=True)
class AnyDepthwise:
    """What the code depends on."""

    k_h: int
    stride: int
    requant: Requantization
    core: Core

    @property
    def taps(self) -> tuple[int, ...]:
        """The columns of a kernel row in the order of use: a stride apart, so that the second pixel's is the first
        pixel's next one."""
        return (0, 1, 2) if self.stride == 1 else (0, 2, 1)

    @property
    def last(self) -> int:
        """The last column of a pair of pixels."""
        return self.stride + _COLUMNS - 1

    @property
    def group_words(self) -> int:
        return group_words(self.k_h * _COLUMNS, self.requant)


@dataclass(frozen=True, slots=True)
class AnyWork:
    """What is executed: per call, per four channels, per pair of pixels of these."""

    call: Work
    group: Work
    pair: Work

    def of(self, groups: int, pairs: int) -> Work:
        return self.call + groups * (self.group + _LAST_PAIR * (pairs > 1) + pairs * self.pair)


class _Spills:
    """Registers of the FPU, none of which a function need save. `columns(n)`: bytes of n columns. last: the same of
    those before a pair's last column, or the zero points that stand for it."""

    at, pixels, y, to_next, last = "s0", "s5", "s6", "s7", "s8"

    @staticmethod
    def columns(count: int) -> str:
        return f"s{count}"


class _Writer:
    """Writes one function."""

    def __init__(self, layer: AnyDepthwise) -> None:
        self.layer = layer
        self.asm = Asm(layer.core)
        self.asm.reads_constants("r0")
        rows = tuple(f"row{k}" for k in range(layer.k_h))
        self.frame = Frame(("y", "first", "channels", "pixels", "zero", "right", "left", *rows), first="[sp, #0]")

    def write(self) -> Asm:
        asm = self.asm
        self._enter()
        with asm.loop("group", "group", aligned=False):
            self._begin_group()
            with asm.loop("pair", "pair", of_call=True):
                self._pair()
                self._next_pair()
            asm.label("last")
            self._next_group()
        asm.label("done")
        asm.note("return")
        asm.restore()
        asm.label("again")
        self._last_pair()
        return asm

    def _enter(self) -> None:
        layer, asm, frame = self.layer, self.asm, self.frame
        asm.note("registers and arguments to the stack, and to registers of the FPU")
        asm.save("{r4-r11, lr}", frame=frame.size)
        asm.op("ldm", "r0!", "{r4, r5, r6, r7}")
        asm.op("and", "r8", "r7", f"#{1 << _RIGHT:#x}")
        asm.op("and", "r7", "r7", f"#{1 << _LEFT:#x}")
        asm.op("mov", "r3", "#0")
        for register, name in (
            ("r2", "y"),
            ("r3", "first"),
            ("r4", "channels"),
            ("r5", "pixels"),
            ("r6", "zero"),
            ("r8", "right"),
            ("r7", "left"),
        ):
            asm.op("str", register, frame.at(name))
        for k in range(layer.k_h):
            asm.op("ldr", "r6", f"[r1, #{4 * k}]")
            asm.op("str", "r6", frame.at(f"row{k}"))
        asm.op("mov", "r6", "r4")
        for count in range(1, layer.last + 1):
            asm.op("vmov", _Spills.columns(count), "r6")
            if count == 2:
                asm.op("sub", "r7", "r6", f"#{GROUP}")
                asm.op("vmov", _Spills.to_next, "r7")
            if count < layer.last:
                asm.op("add", "r6", "r6", "r4")

    def _begin_group(self) -> None:
        """The first pair of pixels of four channels, and in flags which columns of it are outside."""
        asm, frame = self.asm, self.frame
        asm.note("four channels")
        for register, name in (("r8", "first"), ("r9", "y"), ("r10", "left"), ("r11", "pixels"), ("r12", "right")):
            asm.op("ldr", register, frame.at(name))
        asm.op("add", "r9", "r9", "r8")
        asm.op("vmov", _Spills.y, "r9")
        asm.op("vmov", _Spills.pixels, "r11")
        asm.op("vmov", "r9", _Spills.columns(1))
        asm.op("ubfx", "r14", "r10", f"#{_LEFT}", "#1")
        asm.op("mls", "r8", "r14", "r9", "r8")
        asm.op("vmov", _Spills.at, "r8")
        asm.op("orr", "r12", "r12", "r10")
        asm.op("cmp", "r11", "#2")
        asm.op("it", "le")
        asm.op("movle", "r10", "r12")
        asm.op("adds", "r10", "r10", "r10")
        self._keep_last()

    def _next_pair(self) -> None:
        """Between the first pair and the last one no column is outside. r14: outputs of these channels, four on."""
        layer, asm = self.layer, self.asm
        asm.note("the next pair of pixels")
        asm.op("vmov", "r9", _Spills.pixels)
        asm.op("vmov", "r10", _Spills.at)
        asm.op("vmov", "r11", _Spills.columns(2 * layer.stride))
        asm.op("vmov", "r12", _Spills.to_next)
        asm.op("sub", "r9", "r9", "#2")
        asm.op("add", "r10", "r10", "r11")
        asm.op("add", "r14", "r14", "r12")
        asm.op("vmov", _Spills.pixels, "r9")
        asm.op("vmov", _Spills.at, "r10")
        asm.op("vmov", _Spills.y, "r14")
        asm.op("cmp", "r9", "#2")
        asm.leave("ble.w", "last")
        asm.op("sub", "r0", "r0", f"#{4 * layer.group_words}")
        asm.op("cmn", "r9", "#0")  # N and C are 0
        asm.branch("b.w", "pair")

    def _next_group(self) -> None:
        """The last four channels may have some of those before them. r9: pixels that are left."""
        asm, frame = self.asm, self.frame
        asm.op("cmp", "r9", "#0")
        asm.branch("bgt.w", "again")
        asm.op("ldr", "r8", frame.at("first"))
        asm.op("ldr", "r9", frame.at("channels"))
        asm.op("add", "r8", "r8", f"#{GROUP}")
        asm.op("cmp", "r8", "r9")
        asm.leave("bhs.w", "done")
        asm.op("sub", "r9", "r9", f"#{GROUP}")
        asm.op("cmp", "r9", "r8")
        asm.op("it", "lo")
        asm.op("movlo", "r8", "r9")
        asm.op("str", "r8", frame.at("first"))
        asm.branch("b.w", "group")

    def _last_pair(self) -> None:
        """The last one or two pixels as a pair. r9 pixels, r10 where they are, r14 outputs."""
        layer, asm = self.layer, self.asm
        asm.note("the last pair of pixels")
        asm.op("cmp", "r9", "#1")
        asm.op("vmov", "r11", _Spills.columns(layer.stride))
        asm.op("vmov", "r12", _Spills.columns(1))
        asm.op("itt", "eq")
        asm.op("subeq", "r10", "r10", "r11")
        asm.op("subeq", "r14", "r14", "r12")
        asm.op("vmov", _Spills.at, "r10")
        asm.op("vmov", _Spills.y, "r14")
        asm.op("ldr", "r9", self.frame.at("right"))
        asm.op("sub", "r0", "r0", f"#{4 * layer.group_words}")
        asm.op("adds", "r9", "r9", "r9")
        self._keep_last()
        asm.branch("b.w", "pair")

    def _keep_last(self) -> None:
        asm = self.asm
        asm.op("vmov", "r11", _Spills.columns(self.layer.last))
        asm.op("it", "hs")
        asm.op("ldrhs", "r11", self.frame.at("zero"))
        asm.op("vmov", _Spills.last, "r11")

    # ---- pixels ----

    def _pair(self) -> None:
        layer, asm = self.layer, self.asm
        asm.note("products: two pixels by four channels")
        asm.op("ldm", "r0", "{" + ", ".join(ACC[1]) + "}")
        asm.op("ldm", "r0!", "{" + ", ".join(ACC[0]) + "}")
        for k in range(layer.k_h):
            asm.op("ldr", "r14", self.frame.at(f"row{k}"))
            asm.piece(_kernel_row, layer.taps, layer.stride, self.frame.at("zero"))
        self._finish()

    def _finish(self) -> None:
        """Leaves the outputs of the channel behind these in r14."""
        asm, requant = self.asm, self.layer.requant
        asm.note("requantize and store")
        in_turn = requant.constants_in_turn(asm, "r0", ("r9", "r10", "r11"), GROUP)
        for channel, constants in enumerate(in_turn):
            first, second = ACC[0][channel], ACC[1][channel]
            temp = ACC[1][0] if channel else "r12"
            for acc in (first, second):
                requant.emit(asm, 0, acc, "", constants, temp)
            if channel == 0:
                asm.op("vmov", "r14", _Spills.y)
                asm.op("vmov", "r12", _Spills.columns(1))
            asm.op("strb", second, "[r14, r12]")
            asm.op("strb", first, "[r14], #1")


def _kernel_row(asm: Asm, taps: tuple[int, ...], stride: int, zero: str) -> None:
    """The products of a kernel row at r14. taps: its columns in the order of use. zero: where zero points are."""
    asm.op("vmov", "r12", _Spills.at)
    asm.op("add", "r14", "r14", "r12")
    held, last = -1, stride + _COLUMNS - 1
    for tap in taps:
        if tap != held:
            _column(asm, tap, last, zero)
        asm.op("ldrd", *WEIGHTS, "[r0], #8")
        asm.piece(multiply, 0, 1)
        held = tap + stride
        _column(asm, held, last, zero)
        asm.piece(multiply, 1, 1)


def _column(asm: Asm, at: int, last: int, zero: str) -> None:
    """A column's channels to two registers. last: the last one of a pair of pixels."""
    if at == 0:
        asm.op("ite", "pl")
        asm.op("ldrpl", EVEN, "[r14]")
        asm.op("ldrmi", EVEN, zero)
    elif at < last:
        asm.op("vmov", ODD, _Spills.columns(at))
        asm.op("ldr", EVEN, f"[r14, {ODD}]")
    else:
        asm.op("vmov", ODD, _Spills.last)
        asm.op("ite", "lo")
        asm.op("ldrlo", EVEN, f"[r14, {ODD}]")
        asm.op("movhs", EVEN, ODD)  # of 16 bits, so that what follows is aligned again
    asm.piece(unpack_column)


def _written(layer: AnyDepthwise) -> tuple[Naked, AnyWork]:
    """The function, and what it executes."""
    asm = _Writer(layer).write()
    asm.reorder()
    return Naked("@", PARAMETERS, asm), AnyWork(asm.work(), asm.work("group"), asm.work("pair"))


# ---- the kernel ----


AnyPlan = LayerPlan[AnyDepthwise, Finish]


def plan(site: Site, p: ConvParams) -> AnyPlan | None:
    """The function that runs the layer; None where no requantization is proved."""
    matrix = depthwise_matrix_of(p)
    finish = WIDE.finish_of(matrix)
    if finish is None or finish.requant.common:
        return None
    k_h, k_w, _ = p.w.shape
    return AnyPlan(
        AnyDepthwise(k_h, Window.of(p.attrs, k_h, k_w).stride.w, finish.requant, site.core),
        finish,
        matrix,
    )


def special(work: AnyPlan, *_: object) -> SpecializedKernel:
    """The function of the layer, and of others."""
    layer = work.layer
    contract = f"""\
/* depthwise_conv2d {layer.k_h}x{_COLUMNS}, column stride {layer.stride}, of any number of channels and pixels: an \
output row.
 * stream: tc_depthwise_direct.h, behind four words. x: {layer.k_h} row pointers.
 */"""
    finish = f"static const tc_finish_t finish = {layer.requant.c_text};"
    call = f"tc_depthwise_direct_any(&finish, {layer.k_h}, {layer.stride}, stream, x, y);"
    function = LayerFunction(
        contract,
        writing(_written, layer)[0].text,
        twin("@", PARAMETERS, finish, call),
        fpu=True,
        tile=tile_text(2, GROUP, "columns from the rows", WIDE.weights),
    )
    return function.named(f"{NAME}_k{layer.k_h}x{_COLUMNS}s{layer.stride}", "tc_depthwise_direct.h")


def call(work: AnyPlan, site: Site, p: ConvParams) -> Call:
    """A call for each output row."""
    layer = work.layer
    _, _, out_w, out_c = site.y().shape
    window = Window.of(p.attrs, *p.w.shape[:2])
    outside = (window.pad.left << _LEFT) | (_beyond(site, window) << _RIGHT)
    head = np.array([out_c, out_w, (p.x_zero & 0xFF) * 0x01010101, outside], np.uint32).view(np.int32)
    groups = stream_groups(work.matrix, work.finish, out_c, layer.k_h, layer.taps)
    words = Const(np.concatenate([head, groups]), "stream of tc_depthwise_direct.h, behind four words", "stream")
    return Call((words, In(0), Out()), rows=row_geometry(site, window, p.x_zero))


def cost(work: AnyPlan, site: Site, p: ConvParams) -> Cost:
    """Exact but for the row loop around the calls."""
    layer, (function, executed) = work.layer, writing(_written, work.layer)
    _, out_h, out_w, out_c = site.y().shape
    groups, pairs = -(-out_c // GROUP), -(-out_w // 2)
    whole = out_h * (executed.of(groups, pairs) + ROW_CALL + 4 * layer.k_h)
    words = 4 + groups * layer.group_words
    code = WrittenCode((NAME, layer), function.code_bytes)
    data = 4 * words * out_h * pairs
    fetches = Fetches.around(data, function.inner_loop_bytes, whole.instructions)
    return Cost(whole.instructions, 4 * words + code.size, 0, whole.cycles, fetches, code)


def _beyond(site: Site, window: Window) -> int:
    """Columns right of the image that the last pixel's window has."""
    in_w, out_w = site.x(0).shape[2], site.y().shape[2]
    return max((out_w - 1) * window.stride.w - window.pad.left + _COLUMNS - in_w, 0)


def takes(site: Site) -> bool:
    """constant weights of three columns, as many output channels as input channels, 4 or more, stride 1 or 2 and no
    dilation along rows, at most one column of padding at each side, rows of 2 places or more"""
    if not site.is_const(1):
        return False
    k_h, k_w, out_c = site.x(1).shape
    window = Window.of(site.attrs, k_h, k_w)
    plain = window.stride.w in (1, 2) and window.dilation.w == 1 and site.x(0).shape[3] == out_c >= GROUP
    few = window.pad.left <= 1 and _beyond(site, window) <= 1
    return k_w == _COLUMNS and k_h <= _COLUMNS and plain and few and site.y().shape[2] >= 2


_ASKS = f"rows that few windows leave, and {WIDE.asks}"
KERNELS = (
    Kernel(
        NAME,
        planned(plan, _ASKS, call=call, cost=cost, special=special),
        isa=frozenset({"dsp", "fpu"}),
        when=(is_s8_or_w16, takes),
        asks=_ASKS,
        written=True,
    ),
)
