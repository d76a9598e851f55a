# SPDX-License-Identifier: Apache-2.0
"""depthwise_conv2d on Cortex-M with DSP without scratch: row calls, four output channels by two pixels at a time.

Four channels of a column are one load and two SXTB16, which leave channels (0, 2) and (1, 3) in the halves of two
registers; each multiplication takes one half of a pixel and one half of a weight word. That is twice the
multiplications of the planes (`planes.py`), but nothing is arranged before: what wins for stride 2, for windows that
share few columns, for few channels, and where there is no RAM for planes.

Taps of a kernel row are taken in chains a stride apart: the column that the second pixel has just used is the next one
of the first pixel.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

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
from tinyc.kernels.finish import Finish, Requantization
from tinyc.kernels.form.function import LayerFunction, described_twin
from tinyc.kernels.form.plan import WrittenPlan
from tinyc.kernels.matrix import GROUP, Matrix
from tinyc.kernels.stream import WIDE, as_words, depthwise_matrix_of, in_halves
from tinyc.kernels.tile.shape import tile_text
from tinyc.machine.cores import Core
from tinyc.machine.frame import Frame
from tinyc.machine.thumb import Asm, Naked, Work

NAME = "tc_depthwise_conv2d_s8_direct_asm"

PARAMETERS = ("const int32_t *stream", "const int8_t *const *x", "int8_t *y")
ACC = (("r1", "r2", "r3", "r4"), ("r5", "r6", "r7", "r8"))
WEIGHTS = ("r9", "r10")
EVEN, ODD = "r11", "r12"  # channels (0, 2) and (1, 3) of a column
_REACH = 4095  # of LDR's immediate
_MOST_TAPS = 100  # code has all taps of a pair, several times
_MOST_EDGES = 6  # pairs of pixels whose windows leave the image
ROW_CALL = Work(15, 24)  # around the call of a row


@dataclass(frozen=True)
class DirectLayer:
    """What the code depends on. times: output channels per input channel."""

    k_h: int
    k_w: int
    stride: int
    dilation: int
    pad_left: int
    in_w: int
    out_w: int
    in_c: int
    times: int
    x_zero: int
    requant: Requantization
    core: Core

    @property
    def out_c(self) -> int:
        return self.in_c * self.times

    @property
    def groups(self) -> int:
        return -(-self.out_c // GROUP)

    @property
    def rest(self) -> int:
        """Channels that the last group adds, if it shares some with the one before; else 0."""
        return self.out_c % GROUP

    @property
    def group_words(self) -> int:
        return group_words(self.k_h * self.k_w, self.requant)

    @property
    def chains(self) -> tuple[tuple[int, ...], ...]:
        """The columns of a kernel row in the order of use."""
        step, uneven = divmod(self.stride, self.dilation)
        if uneven or step >= self.k_w:
            return tuple((tap,) for tap in range(self.k_w))
        return tuple(tuple(range(start, self.k_w, step)) for start in range(step))

    @property
    def taps(self) -> list[int]:
        return [tap for chain in self.chains for tap in chain]

    def outside(self, first: int, pixels: int) -> frozenset[int]:
        """Columns, counted from the first of pixel `first`, that `pixels` windows from there have outside the image."""
        start = first * self.stride - self.pad_left
        used = {p * self.stride + tap * self.dilation for p in range(pixels) for tap in range(self.k_w)}
        return frozenset(at for at in used if not 0 <= start + at < self.in_w)

    @property
    def edges(self) -> tuple[int, int]:
        """Pairs of pixels at the left, and whole pairs from which on the right, leave the image."""
        inside = [first // 2 for first in range(0, self.out_w - 1, 2) if not self.outside(first, 2)]
        return (inside[0], inside[-1] + 1) if inside else (0, 0)


class KernelRow(NamedTuple):
    """What the products of a kernel row depend on, of a DirectLayer."""

    chains: tuple[tuple[int, ...], ...]
    dilation: int
    stride: int
    in_c: int
    times: int
    x_zero: int


class _Writer:
    """Writes one function."""

    def __init__(self, layer: DirectLayer) -> None:
        self.layer = layer
        self.asm = Asm(layer.core)
        self.frame = Frame(("y", "groups", "turns", *(f"row{k}" for k in range(layer.k_h))), first="[sp, #0]")

    def write(self) -> Asm:
        layer, asm, frame = self.layer, self.asm, self.frame
        asm.note("registers and arguments to the stack")
        asm.save("{r4-r11, lr}", frame=frame.size)
        asm.op("str", "r2", frame.at("y"))
        asm.constant("r4", layer.groups)
        asm.op("str", "r4", frame.at("groups"))
        for k in range(layer.k_h):
            asm.op("ldr", "r4", f"[r1, #{4 * k}]")
            asm.add("r4", "r4", -layer.pad_left * layer.in_c, "r5")
            asm.op("str", "r4", frame.at(f"row{k}"))
        with asm.loop("group", layer.groups, aligned=False):
            self._row()
            self._next_group()
        asm.label("done")
        asm.note("return")
        asm.restore()
        return asm

    def _row(self) -> None:
        """All pixels of four channels."""
        layer, asm = self.layer, self.asm
        first, last = layer.edges
        for pair in range(first):
            self._pixels(2 * pair, 2)
        if last - first > 1:
            asm.constant("r9", last - first)
            asm.op("str", "r9", self.frame.at("turns"))
            with asm.loop("pair", last - first):
                self._pixels(2 * first, 2)
                asm.count_down("r9", self.frame.at("turns"), "pair")
        elif last > first:
            self._pixels(2 * first, 2)
        for at in range(2 * last, layer.out_w, 2):
            self._pixels(at, min(2, layer.out_w - at))

    def _next_group(self) -> None:
        layer, asm = self.layer, self.asm
        asm.note("the next four channels")
        asm.op("ldr", "r4", self.frame.at("groups"))
        asm.op("subs", "r4", "r4", "#1")
        asm.branch("beq.w", "done")
        asm.op("str", "r4", self.frame.at("groups"))
        asm.add("r0", "r0", 4 * layer.group_words, "r9")
        pairs = -(-layer.out_w // 2)
        whole = -(pairs - 1) * 2 * layer.out_c - (2 if layer.out_w % 2 == 0 else 1) * layer.out_c
        moves = [("y", GROUP + whole)]
        if layer.times <= GROUP:
            whole = -pairs * 2 * layer.stride * layer.in_c
            moves += [(f"row{k}", GROUP // layer.times + whole) for k in range(layer.k_h)]
        else:
            moves += [(f"row{k}", -pairs * 2 * layer.stride * layer.in_c) for k in range(layer.k_h)]
        if layer.rest:
            asm.op("cmp", "r4", "#1")
        for name, move in moves:
            asm.op("ldr", "r5", self.frame.at(name))
            asm.add("r5", "r5", move, "r6")
            if layer.rest:
                back = GROUP - layer.rest
                asm.op("it", "eq")
                asm.op("subeq", "r5", "r5", f"#{back if name == 'y' else back // layer.times}")
            asm.op("str", "r5", self.frame.at(name))
        asm.branch("b.w", "group")

    # ---- pixels ----

    def _pixels(self, first: int, pixels: int) -> None:
        """One or two pixels from `first` on; for a loop, any of its pairs."""
        layer, asm = self.layer, self.asm
        asm.note(f"products: {'two pixels' if pixels == 2 else 'a pixel'} by four channels")
        asm.op("ldm", "r0", "{" + ", ".join(ACC[1]) + "}")
        asm.op("ldm", "r0!", "{" + ", ".join(ACC[0]) + "}")
        outside = layer.outside(first, pixels)
        row = KernelRow(layer.chains, layer.dilation, layer.stride, layer.in_c, layer.times, layer.x_zero)
        for k in range(layer.k_h):
            asm.op("ldr", "r14", self.frame.at(f"row{k}"))
            asm.piece(_kernel_row, row, pixels, outside)
            asm.op("str", "r14", self.frame.at(f"row{k}"))
        self._finish(pixels)

    def _finish(self, pixels: int) -> None:
        layer, asm, requant = self.layer, self.asm, self.layer.requant
        asm.note("requantize and store")
        asm.op("ldr", "r14", self.frame.at("y"))
        in_turn = requant.constants_in_turn(asm, "r0", ("r9", "r10", "r11"), GROUP)
        for channel, constants in enumerate(in_turn):
            for pixel in range(pixels):
                acc = ACC[pixel][channel]
                requant.emit(asm, 0, acc, "", constants, "r12")
                at = pixel * layer.out_c + channel
                asm.op("strb", acc, f"[r14, #{at}]" if at else "[r14]")
        asm.add("r14", "r14", pixels * layer.out_c, "r9")
        asm.op("str", "r14", self.frame.at("y"))
        asm.add("r0", "r0", -4 * layer.group_words, "r9")


def _kernel_row(asm: Asm, row: KernelRow, pixels: int, outside: frozenset[int]) -> None:
    """The products of a kernel row at r14, which moves on by two pixels."""
    for chain in row.chains:
        _column(asm, row, chain[0] * row.dilation, outside)
        for tap in chain:
            asm.op("ldrd", *WEIGHTS, "[r0], #8")
            asm.piece(multiply, 0, row.times)
            if pixels == 2 or tap != chain[-1]:
                _column(asm, row, tap * row.dilation + row.stride, outside)
            if pixels == 2:
                asm.piece(multiply, 1, row.times)
    asm.add("r14", "r14", 2 * row.stride * row.in_c, "r9")


def _column(asm: Asm, row: KernelRow, at: int, outside: frozenset[int]) -> None:
    """A column's channels to two registers."""
    if at in outside:
        asm.piece(_outside, row.x_zero, row.times)
        return
    load, two = {1: ("ldr", True), 2: ("ldrh", True)}.get(row.times, ("ldrsb", False))
    asm.op(load, EVEN, f"[r14, #{at * row.in_c}]")
    if two:
        asm.piece(unpack_column)


def _outside(asm: Asm, x_zero: int, times: int) -> None:
    """A column outside the image."""
    asm.constant(EVEN, (x_zero & 0xFFFF) * 0x10001)
    if times <= 2:
        asm.op("mov", ODD, EVEN)


def unpack_column(asm: Asm) -> None:
    """Four channels as int8 -> channels (0, 2) and (1, 3) as int16."""
    asm.op("sxtb16", ODD, EVEN, "ror #8")
    asm.op("sxtb16", EVEN, EVEN)


def multiply(asm: Asm, pixel: int, times: int) -> None:
    """The column times the weights of four channels, `times` of each input channel."""
    for channel, acc in enumerate(ACC[pixel]):
        weight, half = WEIGHTS[channel % 2], "bt"[channel // 2]
        if times == 1:
            x, side = (EVEN, ODD)[channel % 2], half
        elif times == 2:
            x, side = (EVEN, ODD)[channel // 2], "b"
        else:
            x, side = EVEN, "b"
        asm.op(f"smla{side}{half}", acc, x, weight, acc)


# ---- the kernel ----


DirectPlan = WrittenPlan[DirectLayer, Finish]


def _layer(site: Site, p: ConvParams, requant: Requantization) -> DirectLayer:
    k_h, k_w, out_c = p.w.shape
    window = Window.of(p.attrs, k_h, k_w)
    _, _, in_w, in_c = site.x(0).shape
    return DirectLayer(
        k_h=k_h,
        k_w=k_w,
        stride=window.stride.w,
        dilation=window.dilation.w,
        pad_left=window.pad.left,
        in_w=in_w,
        out_w=site.y().shape[2],
        in_c=in_c,
        times=out_c // in_c,
        x_zero=p.x_zero,
        requant=requant,
        core=site.core,
    )


def plan(site: Site, p: ConvParams) -> DirectPlan | None:
    """The function that runs the layer; None where no requantization is proved or offsets do not reach."""
    matrix = depthwise_matrix_of(p)
    finish = WIDE.finish_of(matrix)
    if finish is None:
        return None
    layer = _layer(site, p, finish.requant)
    first, last = layer.edges
    edges = -(-layer.out_w // 2) - (last - first)
    reach = ((layer.k_w - 1) * layer.dilation + layer.stride) * layer.in_c
    if edges > _MOST_EDGES or reach > _REACH or layer.out_c + 3 > _REACH:
        return None
    return DirectPlan(layer, finish, matrix, *writing(_written, layer))


def _written(layer: DirectLayer) -> tuple[Naked, Work]:
    """The function, and what a call executes."""
    asm = _Writer(layer).write()
    asm.reorder()
    return Naked("@", PARAMETERS, asm), asm.work()


def _function(layer: DirectLayer, fast: str) -> LayerFunction:
    fields: dict[str, int | str] = {
        **{name: getattr(layer, name) for name in _TWIN_FIELDS},
        "finish": layer.requant.c_text,
    }
    contract = f"""\
/* depthwise_conv2d {layer.k_h}x{layer.k_w}, column stride {layer.stride}: {layer.in_w}x{layer.in_c} -> \
{layer.out_w}x{layer.out_c}, an output row.
 * stream: tc_depthwise_direct.h. x: {layer.k_h} row pointers.
 */"""
    call = "tc_depthwise_direct(&layer, stream, x, y);"
    tables = {"taps": ("uint8_t", layer.taps)}
    return LayerFunction(
        contract,
        fast,
        described_twin("@", PARAMETERS, "tc_depthwise_direct_t", fields, call, tables=tables),
        tile=tile_text(2, GROUP, "columns from the rows", WIDE.weights),
    )


_TWIN_FIELDS = (*("in_w", "in_c", "out_w", "out_c", "times", "k_h", "k_w", "stride", "dilation", "pad_left", "x_zero"),)


def special(work: DirectPlan, site: Site, p: ConvParams) -> SpecializedKernel:
    """The function of the layer."""
    layer = work.layer
    stem = f"{NAME}_k{layer.k_h}x{layer.k_w}_{layer.in_w}x{layer.in_c}"
    return _function(layer, work.function.text).named(stem, "tc_depthwise_direct.h")


def call(work: DirectPlan, site: Site, p: ConvParams) -> Call:
    """A call for each output row."""
    layer = work.layer
    groups = stream_groups(work.matrix, work.finish, layer.out_c, layer.k_h, layer.taps)
    words = Const(groups, "stream of tc_depthwise_direct.h", "stream")
    return Call((words, In(0), Out()), rows=row_geometry(site, Window.of(p.attrs, *p.w.shape[:2]), p.x_zero))


def group_words(taps: int, requant: Requantization) -> int:
    """Of the stream for four channels."""
    return GROUP + 2 * taps + requant.words(GROUP)


def stream_groups(
    matrix: Matrix, finish: Finish, out_c: int, k_h: int, columns: Sequence[int]
) -> npt.NDArray[np.int32]:
    """The words of the layer. columns: of a kernel row, in the order of use."""
    scaled = (matrix.taps * finish.live[:, None]) << finish.weight_scale[:, None]
    firsts = [min(group, out_c - GROUP) for group in range(0, out_c, GROUP)]
    channels = np.array(firsts)[:, None] + np.arange(GROUP)  # [groups, 4]
    taps = scaled.reshape(len(scaled), k_h, -1)[:, :, list(columns)][channels]  # [groups, 4, k_h, k_w]
    words = in_halves(taps[:, :2], taps[:, 2:])
    weights = words.transpose(0, 2, 3, 1).reshape(len(firsts), -1)
    start = finish.start_values(matrix.p.bias.astype(np.int64))[channels]
    constants = finish.constants()[channels].reshape(len(firsts), -1)
    rows = np.concatenate([start, weights, constants], axis=1)
    return as_words(rows.ravel())


def cost(work: DirectPlan, site: Site, p: ConvParams) -> Cost:
    """Exact but for the row loop around the calls, and for padding instructions before aligned loops."""
    whole = site.y().shape[1] * (work.executed + ROW_CALL + 4 * work.layer.k_h)
    words = work.layer.groups * work.layer.group_words
    code = WrittenCode((NAME, work.layer), work.function.code_bytes)
    _, out_h, out_w, _ = site.y().shape
    data = 4 * words * out_h * -(-out_w // 2)
    fetches = Fetches.around(data, work.function.inner_loop_bytes, whole.instructions)
    return Cost(whole.instructions, 4 * words + code.size, 0, whole.cycles, fetches, code)


def takes(site: Site) -> bool:
    """constant weights, 4 output channels or more, as many as input channels or twice or four times as many (any
    multiple of 4 of one input channel), rows of 2 places or more, at most 100 taps"""
    if not site.is_const(1):
        return False
    k_h, k_w, out_c = site.x(1).shape
    in_c = site.x(0).shape[3]
    times = out_c // in_c
    times_fit = times in (1, 2, GROUP) or (in_c == 1 and times % GROUP == 0)
    return out_c >= GROUP and times_fit and k_h * k_w <= _MOST_TAPS and site.y().shape[2] >= 2


_ASKS = f"rows that few windows leave, and {WIDE.asks}"
KERNELS = (
    Kernel(
        NAME,
        planned(plan, _ASKS, call=call, cost=cost, special=special),
        isa=frozenset({"dsp"}),
        when=(is_s8_or_w16, takes),
        asks=_ASKS,
        written=True,
    ),
)
