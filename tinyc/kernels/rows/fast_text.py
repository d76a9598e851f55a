# SPDX-License-Identifier: Apache-2.0
"""C text of `fast.py`: the functions of a layer, those that layers and their forms share, their plain C twins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from tinyc.base.dataclass import dataclass
from tinyc.kernel.kernel import Once, SpecializedKernel, WrittenCode, writing
from tinyc.kernels.fast.text import table_of
from tinyc.kernels.form.function import LayerFunction, described_twin
from tinyc.kernels.rows.pair_factors import PARAMETERS as PAIR_PARAMETERS
from tinyc.kernels.rows.pair_factors import pair_factors_function
from tinyc.kernels.rows.products import products_function
from tinyc.kernels.rows.tiles import (
    FACTORS_PARAMETERS,
    MOVE_TWIN,
    RowTileInputs,
    RowTiles,
    factors_function,
    move_function,
)
from tinyc.kernels.rows.walks import WalkStep
from tinyc.kernels.stream import WIDE
from tinyc.kernels.tile.shape import fast_tile_text
from tinyc.machine.thumb import Naked, Work

NAME = "tc_conv2d_3x3_s8_row_asm"
_PART = "tc_row_tiles"
_TILE = Work(22, 33)  # instructions of the loop over tiles, around its calls
_TILE_OF_PAIR = Work(32, 48)  # ... of two rows
_CALL_OF_MOVE = Work(8, 12)
_CALL = Work(40, 60)  # around a row

_Outside = tuple[bool, ...]  # which columns of a tile are outside the image


@dataclass(frozen=True)
class FastRow:
    """The geometry of a row. held: outputs of a call wait in scratch until the input of the next has been read."""

    in_w: int
    out_w: int
    pad_left: int
    x_zero: int
    held: bool


def functions(tiles: RowTiles, row: FastRow) -> tuple[Once[SpecializedKernel], tuple[WrittenCode, ...], Work]:
    """The function of a call and its parts, the code of each of these, and what a call executes."""
    calls = -(-row.out_w // tiles.outputs)
    kinds = [_outside(tiles, row, i) for i in range(calls * tiles.together)]
    variants = tuple(dict.fromkeys(kinds))
    factors, works = writing(_factors, tiles.inputs, variants, row.x_zero)
    products, work = writing(_products, tiles)
    executed = _CALL + (_TILE if tiles.rows == 1 else _TILE_OF_PAIR) * len(kinds) + calls * work
    executed += sum((works[variants.index(kind)] for kind in kinds), Work())
    parts = [*factors, products]
    if row.held:
        pairs = tiles.out_c % 8 == 0
        move, around, turn = move_function("@", tiles.core, pairs)
        parts.append(_part(f"{_PART}_move", "/* Copies words. */", move, lambda: MOVE_TWIN))
        moved = calls * (around + _CALL_OF_MOVE) + row.out_w * tiles.out_c // (8 if pairs else 4) * turn
        executed += tiles.rows * moved
    inputs = WrittenCode((tiles.inputs, variants, row.x_zero), sum(part.code.code_bytes for part in factors))
    others = WrittenCode((tiles, row.held), sum(part.code.code_bytes for part in parts[len(factors) :]))
    codes = inputs, others
    return Once(lambda: _whole(tiles, row, kinds, [part.special() for part in parts])), codes, executed


def _whole(
    tiles: RowTiles, row: FastRow, kinds: Sequence[_Outside], parts: Sequence[SpecializedKernel]
) -> SpecializedKernel:
    """The function of a call. parts: of the factors, the products, and, where outputs are held, the move."""
    *factors, products = parts[: len(parts) - row.held]
    contract = f"""/* conv2d 3x3 by {tiles.products} products for {_outputs(tiles)}, \
{tiles.in_c} -> {tiles.out_c} channels: {_extent(tiles, row)}{_together(tiles)}.
 * {_contract(tiles, row)} stream: tc_row_tiles.h. scratch: {tiles.scratch_bytes(row.held)} bytes, word aligned.
 */"""
    driver = f"""\
static void @(const int32_t *stream, const int8_t *const *x, int8_t *{"const *" * (tiles.rows - 1)}y, void *scratch)
{{
    int32_t *factors = (int32_t *)scratch;
{_loop(tiles, row, kinds, [part.name for part in factors], products.name, parts[-1].name)}}}"""
    stem = f"{NAME}_{tiles.name}_i{tiles.in_c}_o{tiles.out_c}"
    tile = fast_tile_text(tiles.together, (tiles.rows, tiles.form.across.m), tiles.channels, WIDE.weights)
    return LayerFunction(contract, driver=driver, tile=tile).named(stem, "tc_row_tiles.h", parts=parts)


@dataclass(frozen=True, slots=True)
class _Part:
    """A function that others call, and its text."""

    code: Naked
    special: Once[SpecializedKernel]


def _part(stem: str, comment: str, code: Naked, twin: Callable[[], str]) -> _Part:
    return _Part(code, Once(lambda: LayerFunction(comment, code.text, twin()).named(stem, "tc_row_tiles.h")))


# ---- parts ----


def _factors(tiles: RowTileInputs, variants: tuple[_Outside, ...], x_zero: int) -> tuple[list[_Part], list[Work]]:
    """A function of one row for each variant, or one of two rows; what a call of each variant executes."""
    stem = f"{_PART}_{tiles.name}_factors_i{tiles.in_c}"
    comment = (
        f"/* Factors of {tiles.products} products for {_outputs(tiles)}, {tiles.in_c} channels: tc_row_tiles.h. */"
    )
    if tiles.rows > 1:
        code, works = pair_factors_function("@", tiles, variants, x_zero)
        return [_part(stem, comment, code, lambda: _factors_twin(tiles, None, x_zero))], works
    functions = [(outside, *factors_function("@", tiles, outside, x_zero)) for outside in variants]
    parts = [
        _part(stem, comment, code, partial(_factors_twin, tiles, outside, x_zero)) for outside, code, _ in functions
    ]
    return parts, [work for _, _, work in functions]


def _products(tiles: RowTiles) -> tuple[_Part, Work]:
    code, work = products_function("@", tiles)
    stem = f"{_PART}_{tiles.name}_products_i{tiles.in_c}_o{tiles.out_c}"
    comment = f"/* {tiles.products} products for {_outputs(tiles)}, {tiles.in_c} -> {tiles.out_c} channels\
{_together(tiles)}: tc_row_tiles.h. */"
    return _part(stem, comment, code, lambda: _products_twin(tiles)), work


def _bits(outside: _Outside) -> int:
    return sum(1 << i for i, is_out in enumerate(outside) if is_out)


def _factors_twin(tiles: RowTileInputs, outside: _Outside | None, x_zero: int) -> str:
    """In plain C. outside: None for a parameter."""
    vertical, form = tiles.form, tiles.form.across
    tables = {
        "row_inputs": table_of(vertical.inputs),
        "inputs": table_of(form.inputs),
        "order": ("uint8_t", [i * form.products + j for i, j in tiles.order]),
    }
    fields = {
        "in_c": tiles.in_c,
        "row_n": vertical.n,
        "row_products": vertical.products,
        "n": form.n,
        "products": form.products,
        "x_zero": x_zero,
        "together": tiles.together,
    }
    parameters, bits = (PAIR_PARAMETERS, "outside") if outside is None else (FACTORS_PARAMETERS, f"{_bits(outside)}u")
    call = f"tc_row_tiles_factors(&layer, {bits}, x, offset, factors);"
    return described_twin("@", parameters, "tc_row_tiles_t", fields, call, tables=tables)


def _products_twin(tiles: RowTiles) -> str:
    vertical, form, requant = tiles.form, tiles.form.across, tiles.requant
    tables = {
        "row_sums": table_of(vertical.sums),
        "sums": table_of(form.sums),
        "order": ("uint8_t", [i * form.products + j for i, j in tiles.order]),
        "raised": ("uint8_t", form.raised),
        "walk": ("uint8_t", [code for step in tiles.walk for code in _codes(tiles, step)]),
    }
    fields: dict[str, int | str] = {
        "in_c": tiles.in_c,
        "out_c": tiles.out_c,
        "rows": vertical.m,
        "row_products": vertical.products,
        "m": form.m,
        "products": form.products,
        "together": tiles.together,
        "third": int(tiles.third),
        "lowers": int(tiles.lowers),
        "finish": requant.c_text,
    }
    parameters = ("const int32_t *stream", "const int32_t *factors", "int8_t *y", "int8_t *y1")[: 2 + tiles.rows]
    call = f"tc_row_tiles_products(&layer, stream, factors, y, {'y1' if tiles.rows > 1 else 'y'});"
    return described_twin("@", parameters, "tc_row_tiles_t", fields, call, tables=tables)


def _codes(tiles: RowTiles, step: WalkStep) -> list[int]:
    """What the twin reads of the stream after the start values."""
    if step.kind == "output":
        return [128 + step.a * tiles.form.across.m + step.b]
    return [i * tiles.form.across.products + step.column for i in step.rows]


# ---- the function of a layer ----


def _outputs(tiles: RowTileInputs) -> str:
    return (
        f"{tiles.form.across.m} outputs of a row"
        if tiles.rows == 1
        else f"{tiles.rows} x {tiles.form.across.m} outputs"
    )


def _extent(tiles: RowTiles, row: FastRow) -> str:
    return f"{'a row' if tiles.rows == 1 else f'{tiles.rows} rows'} of {row.out_w} pixels"


def _contract(tiles: RowTiles, row: FastRow) -> str:
    """What pointers must be."""
    rows = f"x: {tiles.form.n} row pointers, at words."
    if tiles.rows == 1:
        return rows + (" y may be the first of them." if row.held else "")
    held = " They may be any of x." if row.held else ""
    return f"{rows} y: {tiles.rows} row pointers; where they are the same, the last row stays.{held}"


def _outside(tiles: RowTiles, row: FastRow, tile: int) -> tuple[bool, ...]:
    first = tile * tiles.form.across.m * tiles.form.across.stride - row.pad_left
    return tuple(not 0 <= first + i < row.in_w for i in range(tiles.form.across.n))


def _together(tiles: RowTiles) -> str:
    return ", two tiles at a time" * (tiles.together - 1)


def _loop(
    tiles: RowTiles, row: FastRow, kinds: Sequence[_Outside], factors: Sequence[str], products: str, move: str
) -> str:
    """The calls, one after the other. factors, products, move: the functions."""
    count = len(kinds) // tiles.together
    call_bytes = tiles.outputs * tiles.out_c
    chosen = _choice(tiles, row, kinds, factors)
    outputs = ["y"] if tiles.rows == 1 else [f"y[{i}]" for i in range(tiles.rows)]
    held = [f"held + {i * call_bytes}" if i else "held" for i in range(tiles.rows)]
    if not row.held:
        return f"""
    for (int32_t i = 0; i < {count}; i++) {{
        {chosen}
        {products}(stream, factors, {", ".join(f"{y} + i * {call_bytes}" for y in outputs)});
    }}
"""
    last = (row.out_w - (count - 1) * tiles.outputs) * tiles.out_c

    def moves(at: str, size: int, indent: int) -> str:
        lines = [f"{move}({of}, {y} + {at}, {size // 4});" for of, y in zip(held, outputs, strict=True)]
        return ("\n" + " " * indent).join(lines)

    return f"""    int8_t *held = (int8_t *)scratch + {tiles.factor_bytes};

    for (int32_t i = 0; i < {count}; i++) {{
        {chosen}
        if (i > 0) {{
            {moves(f"(i - 1) * {call_bytes}", call_bytes, 12)}
        }}
        {products}(stream, factors, {", ".join(held)});
    }}
    {moves(str((count - 1) * call_bytes), last, 4)}
"""


def _choice(tiles: RowTiles, row: FastRow, kinds: Sequence[_Outside], factors: Sequence[str]) -> str:
    """The factors of the tiles of call i, of one row each by the function for its columns outside the image."""
    form, two = tiles.form.across, tiles.together == 2
    tile, indent = ("tile", " " * 12) if two else ("i", " " * 8)
    offset = f"{tile} * {form.m * form.stride * tiles.in_c} - {row.pad_left * tiles.in_c}"
    to = "factors + tile % 2" if two else "factors"
    tests = _tests(tile, kinds)
    if tiles.rows > 1:
        masks = [f"{_bits(outside)}u" for outside in tests]
        mask = (
            "".join(f"{test} ? {bits} : " for test, bits in zip(tests.values(), masks[:-1], strict=False)) + masks[-1]
        )
        chosen = f"const uint32_t outside = {mask};\n\n{indent}{factors[0]}(x, {offset}, {to}, outside);"
    elif len(tests) == 1:
        chosen = f"{factors[0]}(x, {offset}, {to});"
    else:
        ifs = [*(f"if ({test}) " for test in list(tests.values())[:-1]), ""]
        calls = [f"{{\n{indent}    {name}(x, {offset}, {to});\n{indent}}}" for name in factors]
        chosen = " else ".join(test + call for test, call in zip(ifs, calls, strict=True))
    if not two:
        return chosen
    return f"""for (int32_t tile = 2 * i; tile < 2 * i + 2; tile++) {{
            {chosen}
        }}"""


def _tests(tile: str, kinds: Sequence[_Outside]) -> dict[_Outside, str]:
    """A C condition for each variant, on the number of the tile."""
    tests = {}
    for outside in dict.fromkeys(kinds):
        of = [i for i, kind in enumerate(kinds) if kind == outside]
        tests[outside] = f"{tile} == {of[0]}" if len(of) == 1 else f"{tile} >= {of[0]} && {tile} <= {of[-1]}"
    return tests
