# SPDX-License-Identifier: Apache-2.0
"""conv2d 3x3, stride 1, of at most four input channels on Cortex-M with DSP: an exact fast form along the rows only.

With few channels, what comes after the products costs more than these. So the tiles are one row high: six products for
four outputs, whose sums take all three rows of the kernel (`one_row_code.py` says in which words; tc_one_row.h goes
from tile to tile). A product of three channels is five words, where tiles of 4x4 outputs have two for each of 36.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from tinyc.base.dataclass import dataclass
from tinyc.kernel.kernel import Call, Const, Cost, Fetches, In, Kernel, Out, Scratch, SpecializedKernel, planned
from tinyc.kernel.site import Site
from tinyc.kernel.types import is_s8_or_w4
from tinyc.kernel.windows import ConvParams, is_3x3
from tinyc.kernels.fast.bilinear import ALONG_ROWS, F4, ROW, nested_factors
from tinyc.kernels.fast.one_row_code import (
    COLUMNS,
    FACTORS,
    MOST_CHANNELS,
    TWOS,
    OneRowTiles,
    columns_function,
    factors_function,
)
from tinyc.kernels.fast.products import products_function
from tinyc.kernels.fast.text import products_twin, table_of
from tinyc.kernels.fast.winograd import ASKS, constants_of, proved_finish, start_values
from tinyc.kernels.finish import Finish
from tinyc.kernels.form.function import LayerFunction, described, described_twin, twin
from tinyc.kernels.matrix import GROUP, Matrix
from tinyc.kernels.requantize import Int64s
from tinyc.kernels.stream import as_words, in_halves, matrix_of
from tinyc.machine.thumb import Work

_NESTED = replace(ROW, name="rows of f4", columns=F4)  # the factors of each row of the kernel
_WIDE = 2 * F4.m  # output columns of two tiles
_STORE_REACH = 4095  # of STRB
_PAIR_COST = Work(75, 115)  # instructions of the loop over pairs of rows, around its calls
_EDGE_COST = Work(35, 60)  # of columns outside the image, of those of one side


@dataclass(frozen=True, slots=True)
class OneRowPlan:
    """How a conv2d is made: its tiles, the proof, the functions' text and that of their twins, what calls execute."""

    tiles: OneRowTiles
    finish: Finish
    matrix: Matrix
    order: list[tuple[int, int]]
    fast: str
    twin: str
    columns: tuple[Work, Work]  # of a call, and of each column
    factors: Work
    products: Work


def plan(site: Site, p: ConvParams) -> OneRowPlan | None:
    """The functions that run the layer; None where no requantization is proved."""
    matrix = matrix_of(p)
    proved = matrix.once(proved_finish, _NESTED)
    if proved is None:
        return None
    finish, divided = proved
    tiles = OneRowTiles(site.core, ALONG_ROWS, p.w.shape[3], p.w.shape[0], finish.requant, divided, inline=True)
    return OneRowPlan(tiles, finish, matrix, *_functions(tiles))


def _functions(tiles: OneRowTiles) -> tuple[list[tuple[int, int]], str, str, tuple[Work, Work], Work, Work]:
    products, (around, group), order = products_function("@_products", tiles)
    columns, before, column = columns_function("@_columns", tiles)
    factors, factors_count = factors_function("@_factors", tiles, order)
    fast = f"{columns}\n{factors}\n{products.text}\n"
    return (
        order,
        fast,
        _twins(tiles, order) + products_twin(tiles, order),
        (before, column),
        factors_count,
        around + tiles.groups * group,
    )


def _twins(tiles: OneRowTiles, order: list[tuple[int, int]]) -> str:
    """C text of the functions of the inputs."""
    columns = f"tc_one_row_columns({tiles.in_c}, upper, lower, count, strip);"
    fields = {"in_c": tiles.in_c, "factor_words": tiles.factor_words, "steps": tiles.steps}
    tables = {
        "twos": table_of([(*both, -1)[:2] for both in TWOS[tiles.in_c]]),
        "inputs": table_of(F4.inputs),
        "place": ("uint8_t", [order.index((0, j)) for j in range(F4.products)]),
    }
    factors = "tc_one_row_factors(&layer, strip, factors);"
    return twin("@_columns", COLUMNS, columns) + described_twin(
        "@_factors", FACTORS, "tc_one_row_form_t", fields, factors, tables=tables
    )


def _function(site: Site, p: ConvParams, work: OneRowPlan) -> LayerFunction:
    tiles = work.tiles
    _, in_h, in_w, _ = site.x(0).shape
    _, out_h, out_w, _ = site.y().shape
    fields: dict[str, int | str] = {
        **{"in_h": in_h, "in_w": in_w, "in_c": tiles.in_c, "out_h": out_h, "out_w": out_w, "out_c": tiles.out_c},
        **{"pad_top": p.attrs.pad.top, "pad_left": p.attrs.pad.left},
        "pair_words": tiles.strip_words + tiles.fresh_words,
        "factor_words": tiles.factor_words,
    }
    contract = f"""\
/* conv2d 3x3 by {F4.products} products for 1x{F4.m} outputs, {tiles.in_c} -> {tiles.out_c} channels: \
tc_one_row.h. scratch: word aligned. */"""
    struct = "\n".join(f"    {line}" for line in described("tc_one_row_t", fields))
    driver = f"""\
static void @(const int32_t *first, const int32_t *second, const int32_t *constants, const int8_t *pad, const int8_t *x,
              int8_t *y, void *scratch)
{{
{struct}
    tc_one_row_run(&layer, @_columns, @_factors, @_products, first, second, constants, pad, x, y, scratch);
}}"""
    return LayerFunction(contract, work.fast, work.twin, driver, tile=tiles.text)


def _streams(p: ConvParams, work: OneRowPlan) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Start values and weights for the first and the second of two output rows."""
    tiles, finish = work.tiles, work.finish
    spare = finish.weight_scale[: tiles.out_c] - _NESTED.scale
    live = nested_factors(p.w, _NESTED, F4) * finish.live[: tiles.out_c, None, None, None]
    factors = live << spare[:, None, None, None]
    assert np.abs(factors).max(initial=0) < 2**15  # the proof has seen to it
    return _stream(work, factors, (0, 1), 2), _stream(work, factors, (1, 2), 0)


def _stream(work: OneRowPlan, factors: Int64s, pair: tuple[int, int], alone: int) -> npt.NDArray[np.int32]:
    """factors: int64[O, kernel rows, P, C]. pair: the kernel rows that meet a pair of rows, alone: the other one."""
    tiles = work.tiles
    words = []  # [O, products] of each step
    for low, high in zip(*(np.moveaxis(factors[:, row], 2, 0) for row in pair), strict=True):
        words.append((low, high))
    for channels in TWOS[tiles.in_c]:
        one = factors[:, alone, :, channels[0]]
        if len(channels) == 2:
            words.append((one, factors[:, alone, :, channels[1]]))
        else:  # its row is the upper one of the lower pair, or the lower one of the upper pair
            words.append((one, 0 * one) if alone == 2 else (0 * one, one))
    used = np.stack([in_halves(low, high) for low, high in words], axis=2)  # [O, products, step]
    used = np.stack([used[:, j] for _, j in work.order], axis=1)
    weights = used.reshape(tiles.groups, GROUP, -1).transpose(0, 2, 1).reshape(tiles.groups, -1)
    return as_words(np.concatenate([start_values(tiles, work.finish, work.matrix), weights], axis=1)).ravel()


# ---- the kernel ----


def special(work: OneRowPlan, site: Site, p: ConvParams) -> SpecializedKernel:
    """The functions of the layer."""
    return _function(site, p, work).named(f"{_NAME}_i{work.tiles.in_c}_o{work.tiles.out_c}", "tc_one_row.h")


def call(work: OneRowPlan, site: Site, p: ConvParams) -> Call:
    """One call for the whole image, which goes through it from left to right in strips of full height."""
    first, second = _streams(p, work)
    row = np.full(site.x(0).shape[2] * site.x(0).shape[3], p.x_zero, np.int8)
    args = (
        Const(first, "stream of tc_one_row.h, first of two rows", "stream"),
        Const(second, "stream of tc_one_row.h, second of two rows", "stream2"),
        Const(constants_of(work.tiles, work.finish), "constants of tc_tiles.h", "constants"),
        Const(row, "[in_w][in_c] of x_zero", "pad"),
        *(In(0), Out(), Scratch()),
    )
    return Call(args)


def scratch(tiles: OneRowTiles, site: Site) -> int:
    """Bytes of strip and words of a pair of rows, factors of two output rows, outputs where tiles leave the image."""
    words = tiles.strip_words + tiles.fresh_words + 2 * tiles.factor_words
    return 4 * words + (_WIDE * tiles.out_c if site.y().shape[2] % _WIDE else 0)


def cost(work: OneRowPlan, site: Site, p: ConvParams) -> Cost:
    """Instructions exact but for the loop over the tiles, estimated."""
    _, out_h, out_w, _ = site.y().shape
    across, pairs = -(-out_w // _WIDE), 1 - (-out_h // 2)
    around, column = work.columns
    pair = around + work.tiles.columns * column + work.factors + _PAIR_COST
    whole = across * (pairs * pair + out_h * work.products) + 2 * pairs * (around + _EDGE_COST)
    data = sum(stream.nbytes for stream in _streams(p, work)) // 2 + constants_of(work.tiles, work.finish).nbytes
    code = 4 * work.fast.count("\\n")
    flash = 2 * data + code
    fetches = Fetches.around(across * out_h * data, code, whole.instructions)
    return Cost(whole.instructions, flash, scratch(work.tiles, site), whole.cycles, fetches)


def takes(site: Site) -> bool:
    """up to 4 input channels, output channels in fours up to 584"""
    out_c, _, _, in_c = site.x(1).shape
    return in_c <= MOST_CHANNELS and out_c % GROUP == 0 and (_WIDE - 1) * out_c + 3 <= _STORE_REACH


_NAME = "tc_conv2d_3x3_s8_one_row_asm"
KERNELS = (
    Kernel(
        _NAME,
        planned(plan, ASKS[False], call=call, cost=cost, special=special),
        isa=frozenset({"dsp"}),
        when=(is_s8_or_w4, is_3x3, takes),
        asks=ASKS[False],
        written=True,
    ),
)
