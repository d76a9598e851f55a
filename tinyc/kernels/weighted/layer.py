# SPDX-License-Identifier: Apache-2.0
"""A weighted layer's function, put together: C text, constants, call and cost, from a Plan.

What conv2d and fully_connected share.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from math import gcd
from typing import Any

from tinyc.base.dataclass import dataclass
from tinyc.kernel.kernel import (
    Arg,
    Call,
    Condition,
    Const,
    Cost,
    Fetches,
    In,
    Kernel,
    Once,
    Out,
    Rows,
    Scratch,
    SpecializedKernel,
    WrittenCode,
    buffered_flow,
    planned,
)
from tinyc.kernels.finish import Finish
from tinyc.kernels.form.function import LayerFunction, apart, twin
from tinyc.kernels.form.row_walk import RowPiece, RowWalk
from tinyc.kernels.matrix import GROUP, Matrix
from tinyc.kernels.stream import Packing, stream, twin_text
from tinyc.kernels.tile.any_shape import AnyShapeWriter
from tinyc.kernels.tile.groups import PARAMETERS, GroupWriter, PixelWork
from tinyc.kernels.tile.layer import WeightedLayer
from tinyc.kernels.tile.shape import Tile
from tinyc.kernels.tile.smlad import tile_code
from tinyc.machine.thumb import Naked, Work

CHANNEL_LIMIT = 4092  # a store's immediate reaches the second pixel of a pair
TAP_LIMIT = 2**15  # bytes from a window's first tap to its last, and taps of all
_CALL = Work(15, 24)  # instructions around the call of a piece
_KERNEL_ROW = Work(10, 14)  # instructions that find one input row


@dataclass(frozen=True)
class WeightedPlan:
    """How a layer is made by its function: one call per output row, each of `pixels` pixels."""

    layer: WeightedLayer
    walk: RowWalk
    pixels: int
    rows: Rows
    finish: Finish
    matrix: Matrix

    @cached_property
    def code(self) -> tuple[GroupWriter | AnyShapeWriter, PixelWork]:
        """The function of the pixels. Only of the kernel that is chosen it is printed."""
        return tile_code(self.layer)

    @cached_property
    def code_bytes(self) -> int:
        """Of all functions in assembly."""
        return self.code[0].asm.code_bytes + sum(4 * block.function.lines for block in self.walk.blocks)

    @property
    def is_direct(self) -> bool:
        """Whether the number of pixels is an argument."""
        return self.walk.is_direct

    @property
    def is_of_any_channels(self) -> bool:
        """Whether layers with other numbers of channels have the same functions."""
        return self.is_direct and (self.layer.ended or self.layer.tile.of_any)

    @property
    def words(self) -> int:
        """Of the stream."""
        return self.layer.head_words + self.layer.group_words * self.layer.groups

    @property
    def scratch_bytes(self) -> int:
        """First the buffer of the taps if it is not on the stack, then the block."""
        return self.walk.block_bytes + (self.layer.buffer_bytes if self.layer.in_scratch else 0)


def special(work: WeightedPlan, *_: Any, family: str) -> SpecializedKernel:
    """The functions of the layer: pixels, blocks, and the row function that calls them."""
    layer = work.layer
    channels = "" if work.is_of_any_channels else f"_o{layer.out_c}"
    stem = family if layer.tile.of_any else f"{family}_k{layer.k_h}x{layer.row_taps}{channels}"
    return _function(work).named(stem, "tc_stream.h")


def _function(work: WeightedPlan) -> LayerFunction:
    """The functions of a row."""
    layer, (writer, _) = work.layer, work.code
    fast = [Naked("@_pixels", writer.parameters, writer.asm).text, *(block.function.text for block in work.walk.blocks)]
    pixels = (
        [_any_twin(layer)] if layer.tile.of_any else [twin_text(work.finish, layer), stream_twin("@_pixels", layer)]
    )
    portable = [*pixels, *(block.twin for block in work.walk.blocks)]
    driver = _row_function(work)
    fpu = layer.held_steps > 0 or layer.tile.of_any
    return LayerFunction(_contract(work), apart(fast), apart(portable), driver, fpu=fpu, tile=layer.text)


def _contract(work: WeightedPlan) -> str:
    layer = work.layer
    if layer.tile.of_any:
        return f"""/* 1x1 weights of any number of input and output channels, {layer.packing.weights}: pixels of a row.
 * x: 1 row pointer. y: [pixels][outputs]. n: pixels. stream: tc_stream.h, behind the two numbers.
 */"""
    what = "pixels of a row" if work.is_direct else "a row"
    rows = f"{layer.k_h} row pointer{'s' if layer.k_h > 1 else ''}{', at words' if layer.aligned else ''}"
    least = ", an even number" if layer.even else ", 2 or more" if layer.tile.pixels == 2 else ""
    n = "" if not work.is_direct else " n: 1." if layer.alone else f" n: pixels{least}."
    channels = f"any number of channels that is {layer.out_c % GROUP} above a multiple of {GROUP}"
    outputs = "channels"
    if not work.is_of_any_channels:
        channels, outputs = f"{layer.out_c} channels", str(layer.out_c)
    return f"""/* {layer.k_h} x {layer.row_taps} taps -> {channels}, {layer.packing.weights}: {what}.
 * x: {rows}. y: [pixels][{outputs}].{n} stream: tc_stream.h.
 */"""


def _any_twin(layer: WeightedLayer) -> str:
    """C text of the function of pixels for any number of channels."""
    requant = layer.requant
    halve, twice = int(requant.halve), max(-requant.lowered[1], 0)
    finish = f"static const tc_finish_t finish = {requant.c_text};"
    call = f"tc_stream_any(&finish, {halve}, {twice}, stream, *x + first, y, n);"
    return twin("@_pixels", PARAMETERS[:-1], finish, call)


def stream_twin(name: str, layer: WeightedLayer) -> str:
    """C text of a function of pixels whose taps are unpacked to scratch, or to the stack."""
    together, taps = layer.tile.pixels, "buffer" if layer.in_scratch else "taps"
    call = f"tc_stream_pixels(&@_layer, stream, x, first, n, y, {together}, {taps});"
    if layer.in_scratch:
        return twin(name, PARAMETERS, call)
    return twin(name, PARAMETERS[:-1], f"int32_t taps[{together * layer.steps}];", call)


def _row_function(work: WeightedPlan) -> str:
    """The function that a step calls."""
    layer = work.layer
    scratch = ", void *scratch" if work.scratch_bytes else ""
    buffer = ", (int32_t *)scratch" if layer.in_scratch else ""
    skip = f" + {layer.buffer_bytes}" if layer.in_scratch else ""
    if work.is_direct:
        parameters = f"const int32_t *stream, const int8_t *const *x, int8_t *y, int32_t n{scratch}"
        return f"""static inline void @({parameters})
{{
    @_pixels(stream, x, y, n, 0{buffer});
}}"""

    def make(piece: RowPiece, rows: str, first: int) -> list[str]:
        return [f"@_pixels(stream, {rows}, {piece.place('y', layer.out_c)}, {piece.pixels}, {first}{buffer});"]

    body = "\n".join(f"    {line}" for line in work.walk.statements(f"(int8_t *)scratch{skip}", make))
    return f"""static void @(const int32_t *stream, const int8_t *const *x, int8_t *y{scratch})
{{
    const int8_t *rows[{layer.k_h}];

{body}
}}"""


def call(work: WeightedPlan, *_: Any) -> Call:
    """A row call with the stream. A layer of single pixels has read a pair before it writes its outputs."""
    layer = work.layer
    layout = f"stream of tc_stream.h, {layer.steps} steps"
    words = Const(
        Once(
            lambda: stream(
                work.matrix,
                work.finish,
                layer.slots,
                layer.together,
                layer.nibbles,
                layer.head,
            )
        ),
        layout,
        "stream",
    )
    args: tuple[Arg, ...] = (words, In(0), Out())
    if work.is_direct:
        args = (*args, work.pixels)
    one_row = work.rows.in_h == work.rows.out_h == work.layer.k_h == 1
    flow = _flow(work) if one_row and work.is_direct else None
    return Call((*args, Scratch()) if work.scratch_bytes else args, None, work.rows, flow)


def _flow(work: WeightedPlan) -> Rows:
    """How a layer of one row goes along it: by pairs of pixels (or fours), each read before its outputs are written.
    Windows may overlap, or leave some out."""
    last, step, whole = work.layer.runs[-1], work.layer.pixel_bytes, work.rows.in_row_bytes
    window = last.offset + last.size
    if window == step == whole // work.pixels:
        return buffered_flow(work.pixels, work.layer.tile.pixels, step, work.layer.out_c)
    unit = gcd(window, step, whole)
    count, rows = work.pixels, whole // unit
    return Rows(rows, count, window // unit, step // unit, 0, 1, unit, work.layer.out_c, None, 2, buffered=True)


def cost(work: WeightedPlan, *_: Any) -> Cost:
    """Exact but for the row loop around the calls, of which at most 10 instructions a row and 8 a kernel row more are
    said than were counted on Cortex-M4 and M7 with GCC -O3."""
    count = work.code[1]
    copies = sum((block.work for block in work.walk.blocks), Work())
    pieces = sum((count.of(piece.pixels) for piece in work.walk.pieces), Work())
    per_row = pieces + copies + _CALL * len(work.walk.pieces) + _KERNEL_ROW * work.layer.k_h
    flash = 4 * work.words + work.code_bytes
    whole = work.rows.out_h * per_row
    fetches = _fetches(work, count, whole.instructions)
    layer = work.layer.of_any_channels if work.is_of_any_channels else work.layer
    cut = () if work.is_direct else work.walk.pieces
    code = WrittenCode((layer, cut), work.code_bytes)
    return Cost(whole.instructions, flash, work.scratch_bytes, whole.cycles, fetches, code)


def _fetches(work: WeightedPlan, count: PixelWork, executed: int) -> Fetches:
    """Each pair of pixels (or four) takes the whole stream, and all of the function; its loop is that over the
    channels."""
    layer = work.layer
    if layer.alone:
        return Fetches.around(4 * work.words * work.rows.out_h, count.group_bytes, executed)
    pairs = work.rows.out_h * sum(-(-piece.pixels // layer.tile.pixels) for piece in work.walk.pieces)
    stream_bytes = 4 * work.words
    loops = ((work.code_bytes, pairs), (count.group_bytes, pairs * (layer.turns - 1)))
    copied = layer.tile.pixels == 2  # fours are for where there is no room for a copy
    return Fetches(stream_bytes * pairs, loops, (stream_bytes, pairs) if copied else (0, 0))


def tile_kernel(
    name: str,
    plan: Callable[..., WeightedPlan | None],
    packing: Packing,
    tile: Tile,
    when: tuple[Condition, ...],
) -> Kernel:
    """The kernel of a tile and a packing. when: conditions beside that of the packing."""
    return Kernel(
        name,
        planned(
            partial(plan, packing=packing, tile=tile),
            packing.asks,
            call=call,
            cost=cost,
            special=partial(special, family=name),
        ),
        isa=frozenset({"dsp", "fpu"} if tile.inputs == "FPU registers" or tile.of_any else {"dsp"}),
        when=(packing.takes, *when),
        asks=packing.asks,
        slow_flash=tile.pixels == 4,
        written=True,
    )
