"""conv2d 3x3 on Cortex-M with DSP, one or two output rows per call, by exact fast forms (`row_tiles.py`).

Along one row: tiles of 4 outputs (half of the multiplications), of 2 (two thirds), at stride 2 of 2 (five sixths). Two
rows at a time: 2 x 4 outputs (a third), 2 x 2 (four ninths), at stride 2 (25 of 36). One tile at a time, or
two neighbours (faster, for twice the scratch). Scratch holds the factors of a call; where the output row shall lie in
place of an input row, or rows are no multiple of a call's pixels, also the outputs of one call, which are written when
the input of the next has been read.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from tinyc.codegen.bilinear import F2, F4, ROW, S2, Form
from tinyc.codegen.finish import GROUP, Finish
from tinyc.codegen.row_pair_factors import pair_factors_function
from tinyc.codegen.row_products import products_function
from tinyc.codegen.row_proof import factors_of, has_third, proof, unit_of
from tinyc.codegen.row_tiles import RowTiles, factors_function, move_function
from tinyc.codegen.row_walks import Step
from tinyc.codegen.stream import Matrix
from tinyc.codegen.thumb import Work
from tinyc.kernels import Call, Const, Cost, In, Out, RowForm, Scratch, Special
from tinyc.ops.base import Site
from tinyc.ops.windows import ConvParams, Window, row_geometry

NAME = "tc_conv2d_3x3_s8_row_asm"
_NESTED = ((ROW, F4), (ROW, F2), (F2, F4), (F2, F2))  # of rows, of columns
_NESTED_S2 = ((ROW, S2), (S2, S2))
_TILE = Work(22, 33)  # instructions of the loop over tiles, around its calls
_CALL_OF_MOVE = Work(8, 12)
_CALL = Work(40, 60)  # around a row


@dataclass(frozen=True)
class Row:
    """The geometry of a row. outside: for each tile which of its columns are outside the image."""

    in_w: int
    out_w: int
    pad_left: int
    x_zero: int
    held: bool


def row_forms(site: Site, p: ConvParams) -> tuple[RowForm, ...]:
    """Every form that is proved, with and without held outputs; empty where there is none."""
    a, (out_c, k_h, k_w, in_c) = p.attrs, p.w.shape
    square = (k_h, k_w) == (3, 3) and a.stride in ((1, 1), (2, 2)) and a.dilation == (1, 1)
    if not square or a.groups != 1 or in_c % 4 or out_c % GROUP or site.y().shape[1] == 0:
        return ()
    nested = _NESTED if a.stride == (1, 1) else _NESTED_S2
    return tuple(found for forms in nested for together in (1, 2) for found in _forms(site, p, *forms, together))


def _forms(site: Site, p: ConvParams, vertical: Form, form: Form, together: int) -> list[RowForm]:
    matrix = Matrix.of(p, p.w.reshape(p.w.shape[0], -1))
    proved = proof(matrix, vertical, form)
    if proved is None or site.y().shape[1] < vertical.m:
        return []
    finish, third = proved
    tiles = RowTiles(vertical, form, p.w.shape[3], p.w.shape[0], finish.way, third, together)
    if not tiles.fits:
        return []
    window = Window.of(p.attrs, 3, 3)
    rows = replace(row_geometry(site, window, p.x_zero), out_rows=tiles.rows)
    if tiles.rows > 1 and rows.pad is None:  # of calls that make fewer rows
        outside = np.full(rows.in_row_bytes, p.x_zero, np.int8)
        rows = replace(rows, pad=Const(outside, "[in_w][in_c] of x_zero", "pad"))
    in_w, out_w = site.x(0).shape[2], site.y().shape[2]
    same = rows.in_row_bytes == rows.out_row_bytes and window.stride.w == 1
    words = Const(_stream(matrix, tiles, finish), "stream of tc_row_tiles.h", "stream")
    found = []
    for held in (False, True):
        ragged = out_w % tiles.outputs != 0
        if (ragged and not held) or (held and not (same or ragged)):
            continue
        text, executed = _text(tiles, Row(in_w, out_w, window.pad.left, p.x_zero, held))
        digest = hashlib.sha256(text.encode()).hexdigest()[:6]
        kind = form.name if tiles.rows == 1 else f"{vertical.name}{form.name}"
        name = f"{NAME}_{kind}x{together}_i{tiles.in_c}_o{tiles.out_c}_{digest}"
        scratch = _scratch(tiles, held)
        whole = -(-rows.out_h // tiles.rows) * executed
        flash = words.data.nbytes + 4 * text.count("\\n")
        found.append(
            RowForm(
                call=Call((words, In(0), Out(), Scratch()), rows=rows),
                scratch_bytes=scratch,
                cost=Cost(whole.instructions, flash, scratch, whole.cycles),
                special=Special(name, text.replace("@", name), ("tc_row_tiles.h",)),
                inplace=(0,) if held and same else (),
            )
        )
    return found


def _scratch(tiles: RowTiles, held: bool) -> int:
    return tiles.factor_bytes + held * tiles.rows * tiles.outputs * tiles.out_c


# ---- constants ----


def _stream(matrix: Matrix, tiles: RowTiles, finish: Finish) -> npt.NDArray[np.int32]:
    """Start values, weights and constants in the order of use, group after group of output channels."""
    vertical, form, groups = tiles.vertical, tiles.form, tiles.groups
    spare = finish.weight_scale - unit_of(vertical, form)
    factors = factors_of(matrix.p.w.reshape(tiles.out_c, 3, 3, -1), vertical, form)
    factors = (factors * finish.live[:, None, None, None]) << spare[:, None, None, None]
    assert np.abs(factors).max(initial=0) < 2**15  # the proof has seen to it
    quads = factors.reshape(*factors.shape[:3], tiles.steps // 2, 2, 2)  # ... [quad][half][step]
    words = (quads[..., 0, :] & 0xFFFF) | ((quads[..., 1, :] & 0xFFFF) << 16)
    weights = words.reshape(groups, tiles.channels, *factors.shape[1:3], tiles.steps).transpose(0, 2, 3, 4, 1)
    folded = has_third(vertical, form) and not tiles.third
    start = finish.start_values(matrix.p.bias.astype(np.int64) * (3 if folded else 1)) * (3 if tiles.third else 1)
    parts = [start.reshape(groups, -1)]
    for step in tiles.walk:
        parts += [weights[:, i, step.column].reshape(groups, -1) for i in step.rows]
        if step.kind == "output":
            constants = finish.constants().copy()
            if not tiles.lowers:
                constants[:, 1 : 2 + tiles.way.drops] <<= form.raised[step.b]  # add, and drop
            parts.append(constants.reshape(groups, -1))
    return (np.concatenate(parts, axis=1).ravel() & 0xFFFFFFFF).astype(np.uint32).view(np.int32)


# ---- text ----


@lru_cache(maxsize=64)
def _text(tiles: RowTiles, row: Row) -> tuple[str, Work]:
    """C text of the functions of a layer, called `@`, and what a row executes."""
    calls = -(-row.out_w // tiles.outputs)
    count = calls * tiles.together
    kinds = [_outside(tiles, row, i) for i in range(count)]
    variants = list(dict.fromkeys(kinds))
    fast, executed = [], _CALL + _TILE * count
    write = factors_function if tiles.rows == 1 else pair_factors_function
    for number, outside in enumerate(variants):
        text, work = write(f"@_factors{number}", tiles, outside, row.x_zero)
        fast.append(text)
        executed += kinds.count(outside) * work
    text, work = products_function("@_products", tiles)
    fast.append(text)
    executed += calls * work
    if row.held:
        pairs = tiles.out_c % 8 == 0
        text, around, turn = move_function("@_move", pairs)
        fast.append(text)
        moved = calls * (around + _CALL_OF_MOVE) + row.out_w * tiles.out_c // (8 if pairs else 4) * turn
        executed += tiles.rows * moved
    twins = _twins(tiles, row, variants)
    whole = f"""/* conv2d 3x3 by {tiles.products} products for {_outputs(tiles)}, \
{tiles.in_c} -> {tiles.out_c} channels: {_made(tiles, row)}{", two tiles at a time" * (tiles.together - 1)}.
 * {_contract(tiles, row)} stream: tc_row_tiles.h. scratch: {_scratch(tiles, row.held)} bytes, word aligned.
 */
#if TC_DSP_ASM
{"".join(fast)}#else
{twins}#endif

static void @(const int32_t *stream, const int8_t *const *x, int8_t *{"const *" * (tiles.rows - 1)}y, void *scratch)
{{
    int32_t *factors = (int32_t *)scratch;
{_loop(tiles, row, kinds, variants)}}}"""
    return whole, executed


def _outputs(tiles: RowTiles) -> str:
    return f"{tiles.form.m} outputs of a row" if tiles.rows == 1 else f"{tiles.rows} x {tiles.form.m} outputs"


def _made(tiles: RowTiles, row: Row) -> str:
    return f"{'a row' if tiles.rows == 1 else f'{tiles.rows} rows'} of {row.out_w} pixels"


def _contract(tiles: RowTiles, row: Row) -> str:
    """What pointers must be."""
    rows = f"x: {tiles.vertical.n} row pointers, at words."
    if tiles.rows == 1:
        return rows + (" y may be the first of them." if row.held else "")
    held = " They may be any of x." if row.held else ""
    return f"{rows} y: {tiles.rows} row pointers; where they are the same, the last row stays.{held}"


def _outside(tiles: RowTiles, row: Row, tile: int) -> tuple[bool, ...]:
    first = tile * tiles.form.m * tiles.form.stride - row.pad_left
    return tuple(not 0 <= first + i < row.in_w for i in range(tiles.form.n))


def _loop(tiles: RowTiles, row: Row, kinds: list[tuple[bool, ...]], variants: list[tuple[bool, ...]]) -> str:
    """The calls, one after the other."""
    count = len(kinds) // tiles.together
    call_bytes = tiles.outputs * tiles.out_c
    chosen = _choice(tiles, row, kinds, variants)
    outputs = ["y"] if tiles.rows == 1 else [f"y[{i}]" for i in range(tiles.rows)]
    held = [f"held + {i * call_bytes}" if i else "held" for i in range(tiles.rows)]
    if not row.held:
        return f"""
    for (int32_t i = 0; i < {count}; i++) {{
        {chosen}
        @_products(stream, factors, {", ".join(f"{y} + i * {call_bytes}" for y in outputs)});
    }}
"""
    last = (row.out_w - (count - 1) * tiles.outputs) * tiles.out_c

    def moves(at: str, size: int, indent: int) -> str:
        lines = [f"@_move({of}, {y} + {at}, {size // 4});" for of, y in zip(held, outputs, strict=True)]
        return ("\n" + " " * indent).join(lines)

    return f"""    int8_t *held = (int8_t *)scratch + {tiles.factor_bytes};

    for (int32_t i = 0; i < {count}; i++) {{
        {chosen}
        if (i > 0) {{
            {moves(f"(i - 1) * {call_bytes}", call_bytes, 12)}
        }}
        @_products(stream, factors, {", ".join(held)});
    }}
    {moves(str((count - 1) * call_bytes), last, 4)}
"""


def _choice(tiles: RowTiles, row: Row, kinds: list[tuple[bool, ...]], variants: list[tuple[bool, ...]]) -> str:
    """The factors of the tiles of call i, each by the function for its columns outside the image."""
    form, two = tiles.form, tiles.together == 2
    tile, indent = ("tile", " " * 12) if two else ("i", " " * 8)
    offset = f"{tile} * {form.m * form.stride * tiles.in_c} - {row.pad_left * tiles.in_c}"
    to = "factors + tile % 2" if two else "factors"
    lines = []
    for number, outside in enumerate(variants):
        of = [i for i, kind in enumerate(kinds) if kind == outside]
        test = f"{tile} == {of[0]}" if len(of) == 1 else f"{tile} >= {of[0]} && {tile} <= {of[-1]}"
        only = f"if ({test}) " if number < len(variants) - 1 else ""
        lines.append(f"{only}{{\n{indent}    @_factors{number}(x, {offset}, {to});\n{indent}}}")
    chosen = " else ".join(lines) if len(variants) > 1 else f"@_factors0(x, {offset}, {to});"
    if not two:
        return chosen
    return f"""for (int32_t tile = 2 * i; tile < 2 * i + 2; tile++) {{
            {chosen}
        }}"""


def _twins(tiles: RowTiles, row: Row, variants: list[tuple[bool, ...]]) -> str:
    """The functions in plain C."""
    vertical, form, way = tiles.vertical, tiles.form, tiles.way
    low, high = way.clamp or (-128, 127)
    tables = {
        "row_inputs": ("int8_t", [v for line in vertical.inputs for v in line]),
        "row_sums": ("int8_t", [v for line in vertical.sums for v in line]),
        "inputs": ("int8_t", [v for line in form.inputs for v in line]),
        "sums": ("int8_t", [v for line in form.sums for v in line]),
        "order": ("uint8_t", [i * form.products + j for i, j in tiles.order]),
        "raised": ("uint8_t", list(form.raised)),
        "walk": ("uint8_t", [code for step in tiles.walk for code in _codes(tiles, step)]),
    }
    fields: dict[str, int | str] = {
        "in_c": tiles.in_c,
        "out_c": tiles.out_c,
        "rows": vertical.m,
        "row_n": vertical.n,
        "row_products": vertical.products,
        "m": form.m,
        "n": form.n,
        "products": form.products,
        "x_zero": row.x_zero,
        "together": tiles.together,
        "third": int(tiles.third),
        "lowers": int(tiles.lowers),
        "sign": int(way.sign),
        "drops": int(way.drops),
        "varies": int(way.shifts is None),
        "shift": way.shifts[0] if way.shifts else 0,
        "y_min": low,
        "y_max": high,
        **{table: f"@_{table}" for table in tables},
    }
    arrays = [f"static const {c} @_{name}[] = {{{', '.join(map(str, v))}}};\n" for name, (c, v) in tables.items()]
    body = "".join(f"    .{field} = {value},\n" for field, value in fields.items())
    functions = [
        f"""static void @_factors{number}(const int8_t *const *x, int32_t offset, int32_t *factors)
{{
    tc_row_tiles_factors(&@_form, {sum(1 << i for i, out in enumerate(outside) if out)}u, x, offset, factors);
}}
"""
        for number, outside in enumerate(variants)
    ]
    second = ", int8_t *y1" * (tiles.rows - 1)
    move = """static void @_move(const int8_t *from, int8_t *to, int32_t words)
{
    for (int32_t i = 0; i < 4 * words; i++) {
        to[i] = from[i];
    }
}
"""
    return f"""{"".join(arrays)}static const tc_row_tiles_t @_form = {{
{body}}};
{"".join(functions)}static void @_products(const int32_t *stream, const int32_t *factors, int8_t *y{second})
{{
    tc_row_tiles_products(&@_form, stream, factors, y, {"y1" if second else "y"});
}}
{move if row.held else ""}"""


def _codes(tiles: RowTiles, step: Step) -> list[int]:
    """What the twin reads of the stream after the start values."""
    if step.kind == "output":
        return [128 + step.a * tiles.form.m + step.b]
    return [i * tiles.form.products + step.column for i in step.rows]
