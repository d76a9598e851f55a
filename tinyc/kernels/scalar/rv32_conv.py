# SPDX-License-Identifier: Apache-2.0
"""conv2d on RV32IM, int8 and int4 weights (tc_rv32.h)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from tinyc.base.dataclass import dataclass
from tinyc.kernel.dsp import pad_taps
from tinyc.kernel.kernel import (
    Call,
    Condition,
    Const,
    Cost,
    In,
    Kernel,
    Once,
    Out,
    Params,
    RowForm,
    Scratch,
    SpecializedKernel,
    Struct,
    WrittenCode,
    planned,
)
from tinyc.kernel.site import Site
from tinyc.kernel.types import is_s8, is_s8_w4
from tinyc.kernel.windows import ConvParams
from tinyc.kernels.scalar.conv import band_forms, geometry, groups_of
from tinyc.kernels.scalar.layer import by_lanes, nibble_words, segment_of
from tinyc.kernels.scalar.loops.costs import ARMV7M_SHARE
from tinyc.kernels.scalar.rv32_blocks import BROAD, NIBBLES, TALL, PixelTile, TileFunction, blocks, dot
from tinyc.kernels.scalar.rv32_finish import ISA, PROVED, is_plain, out_fields, scaled_finish
from tinyc.kernels.stream import matrix_of

_HEADER = "tc_conv2d_s8_rv32.h"
_LANES = 8  # channels beside each other
_SUM_LIMIT = 2**20  # a dot product stays below, so that 21 bits hold it
# Instructions of the C code around a tile, counted on the emulated core: for a tap of three pixels, for each three
# pixels, and for an output whose sum goes through memory.
_PACK, _GROUP, _STORE = 10, 70, 17


def takes(site: Site) -> bool:
    """constant weights, one group"""
    return site.is_const(1) and int(site.attrs.groups) == 1


@dataclass(frozen=True, slots=True)
class _Work:
    """How a layer runs with a tile. taps: [O, K], K a multiple of 4; segment: of tc_conv2d_s8_rv32.h."""

    tile: PixelTile
    taps: npt.NDArray[np.int8]
    segment: int
    plain: bool

    @property
    def family(self) -> str:
        """The C function that calls those of the tile."""
        return "tc_conv2d_s8_w4_rv32" if self.tile.nibbles else "tc_conv2d_s8_rv32"

    @property
    def is_one_segment(self) -> bool:
        """Whether every dot product fits."""
        return self.segment == self.taps.shape[1]

    @property
    def in_blocks(self) -> bool:
        """Whether whole blocks of channels go to bytes in registers."""
        fits = self.plain and self.is_one_segment and len(self.taps) >= self.tile.lanes
        return fits and not self.tile.nibbles

    @property
    def needs_dot(self) -> bool:
        """Whether sums go through memory, of some channels."""
        return not self.in_blocks or len(self.taps) % self.tile.lanes > 0

    @property
    def parts(self) -> tuple[TileFunction | None, TileFunction | None]:
        """The functions of whole blocks and of sums; None: it has no use for them."""
        return blocks(self.tile) if self.in_blocks else None, dot(self.tile) if self.needs_dot else None

    @property
    def scratch_bytes(self) -> int:
        """The words of the input for each tap."""
        return 4 * self.tile.words * int(self.taps.shape[1])

    @property
    def weights(self) -> Const:
        lanes = self.tile.lanes
        if self.tile.nibbles:
            layout = "[out_c / 8][k_h][k_w][in_c] of eight channels, int4"
            return Const(Once(lambda: nibble_words(self.taps)), layout, "w")
        return Const(Once(lambda: by_lanes(self.taps, lanes)), f"[out_c / {lanes}][k_h][k_w][in_c][{lanes}]", "w")

    def special(self, rows: bool = False) -> SpecializedKernel:
        """The function of the layer, and with `rows` that of a band of rows."""
        kind = "_".join(word for word, part in zip(("blocks", "dot"), self.parts, strict=True) if part)
        parts = tuple(part.kernel for part in self.parts if part)
        family = f"{self.family}{'_rows' if rows else ''}"
        name = f"{family}_{kind}_{self.tile.name}"
        members = ", ".join(part.kernel.name if part else "0" for part in self.parts)
        many, count, argument = ("*const ", ", int32_t rows", ", rows") if rows else ("", "", "")
        text = f"""/* {family} ({_HEADER}), {self.tile.pixels} pixels and {self.tile.lanes} channels
 * at a time. */
static void {name}(const {self.family}_t *p, const int8_t *const *x, int8_t *{many}y, void *scratch{count})
{{
    static const tc_rv32_tile_t tile = {{{self.tile.groups}, {self.tile.lanes}, {members}}};
    {family}(p, &tile, x, y, scratch{argument});
}}"""
        return SpecializedKernel(name, text, ("tc_rv32.h", "tc_band.h", _HEADER), parts, self.tile.text)

    def int4_special(self) -> SpecializedKernel:
        """The function of every layer with int4 weights. Compilers would have it in every step, at 1.7 KB each."""
        sums = dot(self.tile).kernel
        text = f"""/* tc_conv2d_s8_w4_rv32 ({_HEADER}). */
static TC_ALONE void tc_conv2d_s8_w4_rv32_nibbles(const tc_conv2d_s8_w4_rv32_t *p, const int8_t *const *x,
                                                  int8_t *y, void *scratch)
{{
    tc_conv2d_s8_w4_rv32(p, {sums.name}, x, y, scratch);
}}"""
        headers = ("tc_rv32.h", "tc_band.h", _HEADER)
        return SpecializedKernel("tc_conv2d_s8_w4_rv32_nibbles", text, headers, (sums,), self.tile.text)

    def executed(self, groups: int) -> float:
        """Instructions, all in all, of so many groups of pixels: by the functions' tables, and by counts of what is
        around them in C."""
        tile, (out_c, taps) = self.tile, self.taps.shape
        block_count = out_c // tile.lanes if self.in_blocks else 0
        rest = out_c - block_count * tile.lanes
        in_blocks = blocks(tile).work(taps // 4, block_count).instructions if block_count else 0
        left = -(-rest // tile.lanes) * (dot(tile).work(taps // 4, 1).instructions + 40) + _STORE * tile.pixels * rest
        return groups * (in_blocks + left + tile.groups * (_PACK * taps + _GROUP))


def _work(p: ConvParams, tile: PixelTile) -> _Work | None:
    """None where no requantization is proved, or the sums of int4 weights have no room."""
    scaled = matrix_of(p).once(scaled_finish)
    if scaled is None:
        return None
    taps = pad_taps(p.w.reshape(len(p.w), -1))
    work = _Work(tile, taps, _segment(taps), is_plain(*scaled))
    return None if tile.nibbles and _greatest(taps) >= _SUM_LIMIT else work


def _greatest(taps: npt.NDArray[np.int8]) -> int:
    """A bound of the sums of products."""
    return 128 * int(np.abs(taps.astype(np.int64)).sum(axis=1).max(initial=0))


def _segment(taps: npt.NDArray[np.int8]) -> int:
    """Taps of a segment, a multiple of 4 (or all)."""
    segment = segment_of(taps)
    return segment if segment == taps.shape[1] else segment // 4 * 4


def lower(work: _Work, site: Site, p: ConvParams) -> Call:
    """One output row from k_h input rows, or all pixels at once."""
    sizes, rows, flow = geometry(site, p, work.tile.pixels, "window.")
    fields = {"w": work.weights, **out_fields(matrix_of(p), p.bias), **sizes, "taps": work.taps.shape[1]}
    if not work.tile.nibbles:
        fields["segment"] = work.segment
    return Call((Params(), In(0), Out(), Scratch()), Struct(f"{work.family}_t", fields), rows, flow)


def cost(work: _Work, site: Site, p: ConvParams) -> Cost:
    """Estimate, on the scale of scalar/conv.py, ARMv7-M's. Of code it has the assembly; what a compiler makes around it
    is counted in `choose/compiled_code.py`."""
    tile, (out_c, taps) = work.tile, work.taps.shape
    size = sum(part.code_bytes for part in work.parts if part)
    executed = work.executed(groups_of(site, tile.pixels)) * ARMV7M_SHARE
    flash = -(-out_c // tile.lanes) * tile.weight_bytes * taps + 16 * out_c + size
    code = WrittenCode(("tc_conv2d_rv32", tile, work.in_blocks, work.needs_dot), size)
    return Cost(int(executed), flash, work.scratch_bytes, code=code)


def row_forms(site: Site, p: ConvParams) -> tuple[RowForm, ...]:
    """Of 1x1 layers of int8 weights, beside single rows."""
    work = _work(p, BROAD)
    if work is None:
        return ()
    forms = band_forms(site, lower(work, site, p), cost(work, site, p), work.scratch_bytes, work.family)
    return tuple(replace(form, special=Once(lambda: work.special(rows=True)), function="") for form in forms)


def special(work: _Work, site: Site, p: ConvParams) -> SpecializedKernel:
    """The function of the layer."""
    return work.int4_special() if work.tile.nibbles else work.special()


def _kernel(name: str, tile: PixelTile, is_kind: Condition, asks: str) -> Kernel:
    offer = planned(lambda site, p: _work(p, tile), asks, call=lower, cost=cost, special=special)
    return Kernel(name, offer, isa=ISA, when=(is_kind, takes), asks=asks, written=True)


CONV2D = (
    _kernel("tc_conv2d_s8_rv32", BROAD, is_s8, PROVED),
    _kernel("tc_conv2d_s8_rv32_six", TALL, is_s8, PROVED),
)
INT4_CONV2D = (_kernel("tc_conv2d_s8_w4_rv32", NIBBLES, is_s8_w4, f"{PROVED}, and sums of int4 weights within 2^20"),)
