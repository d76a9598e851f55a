# SPDX-License-Identifier: Apache-2.0
"""conv2d on RV32IM, int8 and int4 weights (tc_rv32.h)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from tinyc.base.dataclass import dataclass
from tinyc.kernel.dsp import Fields
from tinyc.kernel.kernel import (
    Call,
    Const,
    Cost,
    In,
    Kernel,
    Offer,
    Offering,
    Once,
    Out,
    Params,
    Refused,
    RowForm,
    Rows,
    Scratch,
    SpecializedKernel,
    Struct,
    buffered_flow,
    offered,
    only_if,
)
from tinyc.kernel.site import Site
from tinyc.kernel.windows import ConvParams, Window, is_s8, row_geometry, window_fields
from tinyc.kernels.finish import Finish, finish_wide
from tinyc.kernels.matrix import Matrix
from tinyc.kernels.nibbles import is_s8_w4
from tinyc.kernels.requantize import steps_of, without_add
from tinyc.kernels.scalar.conv import band_forms, by_lanes, groups_of, segment_of, shared_code
from tinyc.kernels.scalar.loops.costs import ARMV7M_SHARE
from tinyc.kernels.scalar.rv32_blocks import (
    BROAD,
    NIBBLES,
    TALL,
    PixelTile,
    blocks,
    dot,
)
from tinyc.kernels.stream import matrix_of

ISA = frozenset({"rv32m"})
_LANES = 8  # channels beside each other
_PIXELS = 3
_SUM_LIMIT = 2**20  # a dot product stays below, so that 21 bits hold it
# log2 of the factor on sums before they are scaled; a larger one is more exact. The first is that of rv32_blocks.py.
_SCALES = (11, 10, 6, 3)
_DRIVER_BYTES = 900  # of C code, shared by the layers
# Instructions of that code, counted on the emulated core: for a tap of three pixels, for each three pixels, and for an
# output whose sum goes through memory.
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
    steps = steps_of(matrix.p, matrix.taps).without_dead()
    scaling = without_add(finish.scaling, steps, len(matrix.p.w))
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


def _taps(p: ConvParams) -> npt.NDArray[np.int8]:
    """Weights as [O, K], K rounded up to a multiple of 4."""
    taps = p.w.reshape(p.w.shape[0], -1).astype(np.int8)
    return np.pad(taps, ((0, 0), (0, -taps.shape[1] % 4)))


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


def _fits_int4(site: Site, p: ConvParams) -> bool:
    sums = np.abs(_taps(p).astype(np.int64)).sum(axis=1)
    return 128 * int(sums.max(initial=0)) < _SUM_LIMIT and is_proved(site, p)


def geometry(site: Site, p: ConvParams, at_a_time: int = _PIXELS) -> tuple[Fields, Rows, Rows | None]:
    """Fields of the tc_rv32_window_t or tc_rvv_window_t called `window`, and how the call walks: all pixels as one row
    if it can. at_a_time: pixels that are read before they are written."""
    x, y = site.x(0), site.y()
    window = Window.of(p.attrs, *p.w.shape[1:3])
    sizes = window_fields(site, window)
    rows, flow = row_geometry(site, window, p.x_zero), None
    if p.w.shape[1:3] == (1, 1) and p.attrs.stride == (1, 1) and not any(p.attrs.pad):
        pixels = x.shape[1] * x.shape[2]
        sizes |= {"in_w": pixels, "out_w": pixels}
        rows = Rows(1, 1, 1, 1, 0, 1, x.size_bytes, y.size_bytes, None)
        flow = buffered_flow(pixels, at_a_time, x.shape[3], y.shape[3])
    pad = Const(np.full(x.shape[3], p.x_zero, np.int8), "[in_c] of x_zero", "pad")
    return {"window.pad": pad, **{f"window.{name}": value for name, value in sizes.items()}}, rows, flow


@dataclass(frozen=True, slots=True)
class _Work:
    """How a layer runs with a tile. taps: [O, K]; segment: of tc_conv2d_s8_rv32.h."""

    tile: PixelTile
    taps: npt.NDArray[np.int8]
    segment: int
    plain: bool

    @property
    def in_blocks(self) -> bool:
        """Whether whole blocks of channels go to bytes in registers."""
        return self.plain and self.segment == self.taps.shape[1] and len(self.taps) >= self.tile.lanes

    @property
    def needs_dot(self) -> bool:
        """Whether sums go through memory, of some channels."""
        return not self.in_blocks or len(self.taps) % self.tile.lanes > 0

    @property
    def scratch_bytes(self) -> int:
        """The words of the input for each tap."""
        return 4 * self.tile.words * int(self.taps.shape[1])

    def special(self, rows: bool = False) -> SpecializedKernel:
        """The function of the layer, and with `rows` that of a band of rows."""
        used = (blocks(self.tile).kernel if self.in_blocks else None, dot(self.tile).kernel if self.needs_dot else None)
        parts = tuple(part for part in used if part is not None)
        kind = "_".join(word for word, part in zip(("blocks", "dot"), used, strict=True) if part is not None)
        family = f"tc_conv2d_s8_rv32{'_rows' if rows else ''}"
        name = f"{family}_{kind}_{self.tile.name}"
        members = ", ".join("0" if part is None else part.name for part in used)
        many, count, argument = ("*const ", ", int32_t rows", ", rows") if rows else ("", "", "")
        text = f"""/* {family} (tc_conv2d_s8_rv32.h), {self.tile.pixels} pixels and {self.tile.lanes} channels
 * at a time. */
static void {name}(const tc_conv2d_s8_rv32_t *p, const int8_t *const *x, int8_t *{many}y, void *scratch{count})
{{
    static const tc_rv32_tile_t tile = {{{self.tile.groups}, {self.tile.lanes}, {members}}};
    {family}(p, &tile, x, y, scratch{argument});
}}"""
        return SpecializedKernel(name, text, ("tc_rv32.h", "tc_band.h", "tc_conv2d_s8_rv32.h"), parts)

    def executed(self, groups: int) -> float:
        """Instructions, all in all, of so many groups of pixels: by the functions' tables, and by counts of what is
        around them in C."""
        tile, (out_c, taps) = self.tile, self.taps.shape
        block_count = out_c // tile.lanes if self.in_blocks else 0
        rest = out_c - block_count * tile.lanes
        in_blocks = blocks(tile).work(taps // 4, block_count).instructions if block_count else 0
        left = -(-rest // tile.lanes) * (dot(tile).work(taps // 4, 1).instructions + 40) + _STORE * tile.pixels * rest
        return groups * (in_blocks + left + tile.groups * (_PACK * taps + _GROUP))


def _work(site: Site, p: ConvParams, tile: PixelTile) -> _Work:
    scaled = matrix_of(p).once(scaled_finish)
    if scaled is None:
        raise ValueError(f"{site.node.name}: no requantization is proved")
    taps = _taps(p)
    return _Work(tile, taps, _segment(taps), is_plain(*scaled))


def _offer(tile: PixelTile) -> Offering:
    """Of tc_conv2d_s8_rv32 with a tile."""

    def offer(site: Site, p: ConvParams) -> Offer | Refused:
        if not is_proved(site, p):
            return Refused(PROVED)
        work = _work(site, p, tile)
        whole = cost(site, work)
        forms = Once(lambda: row_forms(site, p) if tile == BROAD else ())
        return Offer(work.scratch_bytes, whole, Once(lambda: lower(site, p, work)), Once(work.special), forms)

    return offer


def lower(site: Site, p: ConvParams, work: _Work) -> Call:
    """tc_conv2d_s8_rv32: one output row from k_h input rows, or all pixels at once."""
    sizes, rows, flow = geometry(site, p, work.tile.pixels)
    lanes = work.tile.lanes
    fields = {
        "w": Const(by_lanes(work.taps, lanes), f"[out_c / {lanes}][k_h][k_w][in_c][{lanes}]", "w"),
        **out_fields(matrix_of(p), p.bias),
        **sizes,
        "taps": work.taps.shape[1],
        "segment": work.segment,
    }
    return Call((Params(), In(0), Out(), Scratch()), Struct("tc_conv2d_s8_rv32_t", fields), rows, flow)


def _segment(taps: npt.NDArray[np.int8]) -> int:
    """Taps of a segment, a multiple of 4 (or all)."""
    segment = segment_of(taps)
    return segment if segment == taps.shape[1] else segment // 4 * 4


def lower_int4(site: Site, p: ConvParams) -> Call:
    """tc_conv2d_s8_w4_rv32: one output row from k_h input rows, or all pixels at once."""
    taps = _taps(p)
    sizes, rows, flow = geometry(site, p)
    fields = {
        "w": Const(nibble_words(taps), "[out_c / 8][k_h][k_w][in_c] of eight channels, int4", "w"),
        **out_fields(matrix_of(p), p.bias),
        **sizes,
        "taps": taps.shape[1],
    }
    return Call((Params(), In(0), Out(), Scratch()), Struct("tc_conv2d_s8_w4_rv32_t", fields), rows, flow)


def cost(site: Site, work: _Work) -> Cost:
    """Estimate, on the scale of scalar/conv.py, ARMv7-M's."""
    tile, (out_c, taps) = work.tile, work.taps.shape
    size = _DRIVER_BYTES + work.in_blocks * blocks(tile).code_bytes + work.needs_dot * dot(tile).code_bytes
    executed = work.executed(groups_of(site, tile.pixels)) * ARMV7M_SHARE
    flash = -(-out_c // tile.lanes) * tile.lanes * taps + 16 * out_c + size
    code = shared_code(("tc_conv2d_rv32", tile, work.in_blocks, work.needs_dot), size)
    return Cost(int(executed), flash, work.scratch_bytes, code=code)


def row_forms(site: Site, p: ConvParams) -> tuple[RowForm, ...]:
    """Of 1x1 layers, beside single rows."""
    work = _work(site, p, BROAD)
    forms = band_forms(site, p, lower(site, p, work), cost(site, work), "tc_conv2d_s8_rv32")
    return tuple(replace(form, special=Once(lambda: work.special(rows=True)), function="") for form in forms)


def int4_special(site: Site, p: ConvParams) -> SpecializedKernel:
    """The function of every layer with int4 weights."""
    part = dot(NIBBLES).kernel
    text = f"""/* tc_conv2d_s8_w4_rv32 (tc_conv2d_s8_w4_rv32.h). */
static void tc_conv2d_s8_w4_rv32_nibbles(const tc_conv2d_s8_w4_rv32_t *p, const int8_t *const *x, int8_t *y,
                                         void *scratch)
{{
    tc_conv2d_s8_w4_rv32(p, {part.name}, x, y, scratch);
}}"""
    headers = ("tc_rv32.h", "tc_conv2d_s8_w4_rv32.h")
    return SpecializedKernel("tc_conv2d_s8_w4_rv32_nibbles", text, headers, (part,))


def int4_scratch(site: Site, p: ConvParams) -> int:
    """Two words for each tap."""
    return 8 * int(_taps(p).shape[1])


def int4_cost(site: Site, p: ConvParams) -> Cost:
    """Estimate, on the scale of `cost`."""
    out_c, taps = len(p.bias), _taps(p).shape[1]
    lanes = -(-out_c // _LANES) * _LANES
    sums = lanes // _LANES * (dot(NIBBLES).work(taps // 4, 1).instructions + 40)
    executed = groups_of(site) * (sums + _STORE * _PIXELS * out_c + _PACK * taps + _GROUP) * ARMV7M_SHARE
    code = _DRIVER_BYTES + dot(NIBBLES).code_bytes
    flash = lanes * taps // 2 + 16 * out_c + code
    return Cost(int(executed), flash, int4_scratch(site, p), code=shared_code("tc_conv2d_rv32_w4", code))


PROVED = "a requantization that is proved"
_INT4 = f"{PROVED}, and sums of int4 weights within 2^20"
CONV2D = (
    Kernel("tc_conv2d_s8_rv32", _offer(BROAD), isa=ISA, when=(is_s8, takes), asks=PROVED, written=True),
    Kernel("tc_conv2d_s8_rv32_six", _offer(TALL), isa=ISA, when=(is_s8, takes), asks=PROVED, written=True),
)
INT4_CONV2D = (
    Kernel(
        "tc_conv2d_s8_w4_rv32",
        only_if(
            _fits_int4,
            _INT4,
            offered(lower_int4, scratch=int4_scratch, cost=int4_cost, specialize=int4_special),
        ),
        isa=ISA,
        when=(is_s8_w4, takes),
        asks=_INT4,
        written=True,
    ),
)


def takes_dense(site: Site) -> bool:
    """constant weights"""
    return site.is_const(1)
