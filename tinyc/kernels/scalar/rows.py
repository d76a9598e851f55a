# SPDX-License-Identifier: Apache-2.0
"""conv2d 3x3 on cores without DSP instructions, a few output rows per call, by exact fast forms: how a streamed group
makes it (tc_scalar_tile_rows.h, tc_scalar_strided.h).

Stride 1: tiles of one, two or four rows and of two or four columns, two of them at a time. Scratch holds their
factors, as words or, for a few percent of the products' instructions, as int16. Stride 2: tiles of 2x2 outputs, three
in two words.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.kernel.dsp import Fields
from tinyc.kernel.kernel import Call, Const, Cost, In, Once, Out, RowForm, Rows, Scratch, SpecializedKernel
from tinyc.kernel.site import Site
from tinyc.kernel.windows import ConvParams, Window, is_3x3, row_geometry
from tinyc.kernels.fast.bilinear import F2, F4, ROW, BilinearForm
from tinyc.kernels.form.function import LayerFunction
from tinyc.kernels.scalar import rv32_conv, strided, tiles
from tinyc.kernels.scalar.layer import greatest_sum, scale_fields

_TILES = 3  # of stride 2, in two words
# Of rows and, where that is another one, of columns.
_NESTED = (replace(ROW, columns=F4), replace(ROW, columns=F2), replace(F2, columns=F4), F2, F4)
_RAISED = 2  # log2 of the least multiple of an accumulator that comes out, once thirds are divided out
_SUM_LIMIT = 2**31
# Instructions on ARMv7-M by the size of a tile: for an input channel of two tiles, for an output channel of one.
_INPUT = {(1, 4): 330, (1, 2): 165, (2, 4): 425, (2, 2): 215, (4, 4): 700}
_OUTPUT = {(1, 4): 105, (1, 2): 52, (2, 4): 215, (2, 2): 105, (4, 4): 410}


@dataclass(frozen=True)
class ScalarTiles:
    """What the function of a layer depends on, beside its sizes.

    form: of rows, and in it of columns. narrow: factors are int16. lanes: output channels that a call of the products
    makes at most, 8 on RV32IM only. rv32: of RV32IM. in_place: output rows may be input rows.
    """

    form: BilinearForm
    narrow: bool
    lanes: int
    rv32: bool
    in_place: bool = False

    @property
    def size(self) -> tuple[int, int]:
        """Rows and columns of a tile."""
        return self.form.m, self.form.across.m

    @property
    def products(self) -> int:
        return self.form.products * self.form.across.products

    @property
    def store(self) -> str:
        """The functions that make bytes of sums."""
        rows, columns = self.size
        return f"tc_scalar_tile_rows{rows}x{columns}x{self.lanes}"

    @property
    def channel(self) -> int:
        """Instructions, on ARMv7-M's scale, of an input channel for four products of two tiles."""
        if self.rv32:
            return 14 if self.lanes == 8 else 15
        return 15 if self.narrow else 13  # 14 on ARMv7-M; but ARMv6-M, for which the same figures stand, loses more

    @property
    def sides(self) -> float:
        """Instructions of the input's and the output's side, where ARMv7-M has 1: RISC-V has the registers for them."""
        return 0.72 if self.rv32 else 1.0

    @property
    def times(self) -> int:
        """What the weights of one row are multiplied by, so that sums are raised as those of other tiles."""
        return 1 << _RAISED - self.form.scale

    @property
    def raised(self) -> int:
        """log2 of the greatest multiple of an accumulator that comes out, once thirds are divided out."""
        return _RAISED + self.form.most_raised


def row_forms(site: Site, p: ConvParams) -> tuple[RowForm, ...]:
    """The forms of a layer of stride 1: factors as words, and as int16."""
    return tuple(form for narrow in (False, True) for form in _forms(site, p, narrow, 4, False))


def rv32_forms(site: Site, p: ConvParams) -> tuple[RowForm, ...]:
    """The forms of a layer on RV32IM: of 3x3 ones of stride 1, where int16 costs nothing, or of 1x1 ones."""
    if not (is_3x3(site) and tiles.fits_f2(site)):
        return rv32_conv.row_forms(site, p)
    return tuple(form for lanes in (8, 4) for form in _forms(site, p, True, lanes, True))


def _forms(site: Site, p: ConvParams, narrow: bool, lanes: int, rv32: bool) -> Iterator[RowForm]:
    for form in _NESTED:
        tile = ScalarTiles(form, narrow, lanes, rv32)
        fits = greatest_sum(p.w.reshape(len(p.bias), -1), p.bias) << tile.raised < _SUM_LIMIT
        if fits and site.y().shape[1] >= form.m:
            yield _form(site, p, tile)


def _form(site: Site, p: ConvParams, tile: ScalarTiles) -> RowForm:
    rows = _geometry(site, p, tile.form.m)
    same = rows.in_row_bytes == rows.out_row_bytes and site.x(0).shape[3] == len(p.bias) and p.attrs.pad.left == 1
    tile = replace(tile, in_place=same)
    fields = scale_fields(p, p.w.reshape(len(p.bias), -1), tile.store)
    form = _row_form(rows, p, tiles.weights(p, tile.form, tile.times), fields, _cost(site, p, tile))
    special = Once(lambda: _special(site, p, tile, fields))
    return replace(form, special=special, inplace=(0,) if same else (), in_c="tiles")


def _row_form(rows: Rows, p: ConvParams, weights: Const, fields: Fields, cost: Cost) -> RowForm:
    """Without the function. Biases and scales are arguments of calls, so that a step may have two functions."""
    constants = [weights, *(value for value in fields.values() if isinstance(value, Const))]
    call = Call((*constants, rows.pad or _outside(rows, p), In(0), Out(), Scratch()), rows=rows)
    return RowForm(call, cost.scratch_bytes, cost)


def _initializer(fields: Fields) -> str:
    """C text of the tc_scalar_out_t of a function that has `bias`, `mult` and `shift`."""
    rest = [value for name, value in fields.items() if name.startswith("out.") and not isinstance(value, Const)]
    return f"{{bias, mult, shift, {', '.join(map(str, rest))}}}"


def _geometry(site: Site, p: ConvParams, out_rows: int) -> Rows:
    """With a row of zero points, which calls that make fewer rows read where none is needed else."""
    rows = replace(row_geometry(site, Window.of(p.attrs, 3, 3), p.x_zero), out_rows=out_rows)
    return rows if rows.pad is not None or out_rows == 1 else replace(rows, pad=_outside(rows, p))


def _outside(rows: Rows, p: ConvParams) -> Const:
    return Const(np.full(rows.in_row_bytes, p.x_zero, np.int8), "[in_w][in_c] of x_zero", "pad")


def _cost(site: Site, p: ConvParams, tile: ScalarTiles) -> Cost:
    """Estimate for ARMv7-M, on the scale of conv.py and rv32_conv.py. Scratch: factors of two tiles, sums of their
    products, and in place the columns that are kept."""
    out_c, in_c = len(p.bias), p.w.shape[3]
    channels = -(-in_c // 4) * 4
    _, out_h, out_w, _ = site.y().shape
    rows, columns = tile.size
    pairs = -(-out_w // (2 * columns)) * -(-out_h // rows)
    products = tiles.products_executed(p, tile.products * channels, tile.products, tile.channel)
    sides = tile.sides * (channels * _INPUT[tile.size] + out_c * 2 * _OUTPUT[tile.size])
    flash = tiles.constant_bytes(p, tile.products * channels)
    copied = -(-rows * in_c // 4) * 4 if tile.in_place else 0
    scratch = tile.products * ((4 if tile.narrow else 8) * channels + 8 * tile.lanes) + copied
    return Cost(int(pairs * (products + sides)), flash, scratch)


def _special(site: Site, p: ConvParams, tile: ScalarTiles, fields: Fields) -> SpecializedKernel:
    """The function of the layer: its sizes, and its requantization."""
    in_w, in_c = site.x(0).shape[2:]
    out_w, out_c = site.y().shape[2:]
    rows, columns = tile.size
    ways = (rows, columns, tile.lanes, int(tile.narrow), int(tile.in_place))
    sizes = (*ways, in_w, in_c, out_w, out_c, p.attrs.pad.left)
    kind = f"{rows}x{columns}{'n' if tile.narrow else ''}_{f'rv32x{tile.lanes}' if tile.rv32 else 'scalar'}"
    call = f"tc_scalar_tile_rows_run(&p, x, y, scratch, {_listed(sizes)})"
    struct = f"tc_scalar_tile_rows_t p = {{w, pad, {_initializer(fields)}, {fields['store']}}}"
    head = f"by tiles of {rows}x{columns} outputs, {in_w}x{in_c} -> {out_w}x{out_c}: tc_scalar_tile_rows.h"
    words = tiles.text(site, 2, tile.size, tile.lanes)
    return _function(f"tc_conv2d_3x3_s8_rows{kind}_i{in_c}_o{out_c}", head, rows, words, struct, call)


def _listed(literals: tuple[int, ...]) -> str:
    return ", ".join(map(str, literals))


def _function(name: str, head: str, rows: int, tile: str, struct: str, call: str) -> SpecializedKernel:
    """C text that makes `rows` rows by the call with the struct p; the name ends with a digest of it.

    tile: in words.
    """
    header = head.rsplit(" ", 1)[1]
    first = "" if rows > 1 else "    int8_t *const y[1] = {row};\n"
    contract = f"/* conv2d 3x3 {head}. scratch: word aligned. */"
    driver = f"""\
static void @(const int16_t *w, const int32_t *bias, const int32_t *mult, const int8_t *shift, const int8_t *pad,
              const int8_t *const *x, {"int8_t *const *y" if rows > 1 else "int8_t *row"}, void *scratch)
{{
    const {struct};
{first}
    {call};
}}"""
    return LayerFunction(contract, driver=driver, tile=tile).named(name, header)


# ---- stride 2 ----


def strided_forms(site: Site, p: ConvParams) -> tuple[RowForm, ...]:
    """The forms of a layer of stride 2: two rows, and four where these take fewer triples of tiles."""
    _, out_h, out_w, _ = site.y().shape
    across = -(-out_w // 2)
    fewer = across > _TILES - 1 and -(-2 * across // _TILES) < 2 * -(-across // _TILES)
    return tuple(_strided_form(site, p, rows) for rows in ((2, 4) if fewer else (2,)) if out_h >= rows)


def _strided_form(site: Site, p: ConvParams, out_rows: int) -> RowForm:
    rows = _geometry(site, p, out_rows)
    in_w, in_c = site.x(0).shape[2:]
    out_w, out_c = site.y().shape[2:]
    fields = scale_fields(p, p.w.reshape(out_c, -1), "tc_scalar_strided")
    sizes = (0, in_w, in_c, out_rows, out_w, 0, p.attrs.pad.left, *strided.segments_of(p))
    head = f"of stride 2, {out_rows} rows, {in_w}x{in_c} -> {out_w}x{out_c}: tc_scalar_strided.h"
    struct = f"tc_scalar_strided_t p = {{w, pad, {_initializer(fields)}, {_listed(sizes)}, {fields['store']}}}"
    name = f"tc_conv2d_3x3s2_s8_rows{out_rows}_scalar_i{in_c}_o{out_c}"
    whole = strided.COST(site, p)
    triples = rows.calls * -(-(out_rows // 2 * -(-out_w // 2)) // _TILES)
    own_scratch = strided.scratch(site, p)
    cost = Cost(whole.instructions * triples // strided.triples(site), whole.flash_bytes, own_scratch)
    run = "tc_scalar_strided_rows(&p, x, y, scratch)"
    form, tile = _row_form(rows, p, strided.weights(p), fields, cost), tiles.text(site, _TILES, (2, 2))
    return replace(form, special=Once(lambda: _function(name, head, out_rows, tile, struct, run)))


_F4, _F2 = tiles.KERNELS
(_S2,) = strided.KERNELS
_BROAD, _TALL = rv32_conv.CONV2D
RV32 = (_BROAD.with_row_forms(rv32_forms), _TALL)
FAST = (_F4, _F2.with_row_forms(row_forms), _S2.with_row_forms(strided_forms))
