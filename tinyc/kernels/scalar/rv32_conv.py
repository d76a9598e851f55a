# SPDX-License-Identifier: Apache-2.0
"""conv2d on RV32IM, int8 and int4 weights (tc_rv32.h)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from tinyc.base.dataclass import dataclass
from tinyc.kernel.dsp import Fields, pad_taps
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
from tinyc.kernels.finish import Finish, finish_wide
from tinyc.kernels.matrix import Matrix
from tinyc.kernels.requantize import without_add
from tinyc.kernels.scalar.conv import band_forms, geometry, groups_of
from tinyc.kernels.scalar.layer import by_lanes, segment_of
from tinyc.kernels.scalar.loops.costs import ARMV7M_SHARE
from tinyc.kernels.scalar.rv32_blocks import BROAD, NIBBLES, TALL, PixelTile, TileFunction, blocks, dot
from tinyc.kernels.stream import matrix_of

ISA = frozenset({"rv32m"})
_LANES = 8  # channels beside each other
_SUM_LIMIT = 2**20  # a dot product stays below, so that 21 bits hold it
# log2 of the factor on sums before they are scaled; a larger one is more exact. The first is that of rv32_blocks.py.
_SCALES = (11, 10, 6, 3)
# Instructions of the C code around a tile, counted on the emulated core: for a tap of three pixels, for each three
# pixels, and for an output whose sum goes through memory.
_PACK, _GROUP, _STORE = 10, 70, 17


def scaled_finish(matrix: Matrix) -> tuple[Finish, int] | None:
    """(how sums times 2^scale are requantized, scale), with one scale for all channels; None if none is proved."""
    best: tuple[Finish, int] | None = None
    for scale in _SCALES:
        every = np.full(len(matrix.taps), scale)
        finish = finish_wide(matrix, scale, lambda steps, every=every: every)  # type: ignore[misc]
        if finish is not None and (best is None or not finish.requant.sign):
            best = finish, scale
        if best is not None and not best[0].requant.sign:
            break
    return None if best is None else (_without_add(matrix, best[0]), best[1])


def _without_add(matrix: Matrix, finish: Finish) -> Finish:
    """The same with an instruction less, where that is proved."""
    if finish.requant.sign:
        return finish
    scaling = without_add(finish.scaling, matrix.live_steps, len(matrix.p.w))
    if scaling is None:
        return finish
    return replace(finish, scaling=replace(scaling, add=scaling.add * 0))  # nobody has the channels that were added


def is_plain(finish: Finish, scale: int) -> bool:
    """Whether a block of rv32_blocks.py takes the way to int8: the first scale, neither sign nor add."""
    return scale == _SCALES[0] and not finish.requant.sign and not finish.scaling.add.any()


def channel_constants(finish: Finish, bias: npt.NDArray[np.int32]) -> Const:
    """The tc_rv32_channel_t of every output channel, whose biases these are."""
    # The multiplier of a channel whose output is always the same is 0, so its weights may stay.
    padded = np.pad(bias.astype(np.int64), (0, len(finish.live) - len(bias)))
    start = finish.start_values(padded)
    columns = (start, finish.scaling.mult, finish.scaling.add, finish.scaling.shift)
    channels = np.stack([column[: len(bias)] for column in columns], axis=1).astype(np.int32)
    return Const(channels, "[out_c][start, mult, add, shift]", "channels")


def out_fields(matrix: Matrix, bias: npt.NDArray[np.int32]) -> Fields:
    """Fields of the tc_rv32_out_t called `out`. ValueError where `scaled_finish` finds none."""
    scaled = matrix.once(scaled_finish)
    if scaled is None:
        raise ValueError("no requantization is proved")
    finish, scale = scaled
    low, high = finish.requant.clamp or (-128, 127)
    fields = {"out_c": len(bias), "scale": scale, "sign": int(finish.requant.sign), "y_min": low, "y_max": high}
    fields["plain"] = int(is_plain(finish, scale))
    channels = channel_constants(finish, bias)
    return {"out.channels": channels, **{f"out.{name}": value for name, value in fields.items()}}


def nibble_words(taps: npt.NDArray[np.int8]) -> npt.NDArray[np.int32]:
    """[O, K] of -8 .. 7 -> [ceil(O / 8)][K]: a word for a tap of eight channels, the last one's weight on top, the
    others plus 8 below."""
    lanes = by_lanes(taps, _LANES).astype(np.int64) + 8
    lanes[..., -1] -= 8
    words = (lanes << 4 * np.arange(_LANES)).sum(axis=2)
    return np.asarray(words, np.int32)


def takes(site: Site) -> bool:
    """constant weights, one group"""
    return site.is_const(1) and int(site.attrs.groups) == 1


def is_proved(site: Site, p: ConvParams) -> bool:
    """Whether there is a requantization."""
    return matrix_of(p).once(scaled_finish) is not None


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
        text = f"""/* {family} ({self.family}.h), {self.tile.pixels} pixels and {self.tile.lanes} channels
 * at a time. */
static void {name}(const {self.family}_t *p, const int8_t *const *x, int8_t *{many}y, void *scratch{count})
{{
    static const tc_rv32_tile_t tile = {{{self.tile.groups}, {self.tile.lanes}, {members}}};
    {family}(p, &tile, x, y, scratch{argument});
}}"""
        return SpecializedKernel(name, text, ("tc_rv32.h", "tc_band.h", f"{self.family}.h"), parts, self.tile.text)

    def int4_special(self) -> SpecializedKernel:
        """The function of every layer with int4 weights. Compilers would have it in every step, at 1.7 KB each."""
        sums = dot(self.tile).kernel
        text = f"""/* tc_conv2d_s8_w4_rv32 (tc_conv2d_s8_w4_rv32.h). */
static TC_ALONE void tc_conv2d_s8_w4_rv32_nibbles(const tc_conv2d_s8_w4_rv32_t *p, const int8_t *const *x,
                                                  int8_t *y, void *scratch)
{{
    tc_conv2d_s8_w4_rv32(p, {sums.name}, x, y, scratch);
}}"""
        headers = ("tc_rv32.h", "tc_conv2d_s8_w4_rv32.h")
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


PROVED = "a requantization that is proved"
CONV2D = (
    _kernel("tc_conv2d_s8_rv32", BROAD, is_s8, PROVED),
    _kernel("tc_conv2d_s8_rv32_six", TALL, is_s8, PROVED),
)
INT4_CONV2D = (_kernel("tc_conv2d_s8_w4_rv32", NIBBLES, is_s8_w4, f"{PROVED}, and sums of int4 weights within 2^20"),)
