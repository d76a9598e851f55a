"""conv2d 3x3 on Cortex-M with DSP, one output row per call, by exact fast forms along the row (`row_tiles.py`).

Tiles of 4 outputs (half of the multiplications), of 2 (two thirds), at stride 2 of 2 (five sixths); one at a time, or
two neighbours (faster, for twice the scratch). Scratch holds the factors of a call; where the output row shall lie in
place of an input row, or rows are no multiple of a call's pixels, also the outputs of one call, which are written when
the input of the next has been read.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from tinyc.codegen.bilinear import F2, F4, S2, Form
from tinyc.codegen.finish import GROUP, Finish, Way, finish_drops, finish_wide
from tinyc.codegen.requantize import Int64s, Steps
from tinyc.codegen.row_products import products_function
from tinyc.codegen.row_tiles import RowTiles, factors_function, move_function
from tinyc.codegen.stream import Matrix
from tinyc.codegen.thumb import Work
from tinyc.ir.graph import Array
from tinyc.kernels import Call, Const, Cost, In, Out, RowForm, Scratch, Special
from tinyc.ops.base import Site
from tinyc.ops.windows import ConvParams, Window, row_geometry

NAME = "tc_conv2d_3x3_s8_row_asm"
_LARGEST_SCALE = 10
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
    forms = (F4, F2) if a.stride == (1, 1) else (S2,)
    return tuple(found for form in forms for together in (1, 2) for found in _forms(site, p, form, together))


def _forms(site: Site, p: ConvParams, form: Form, together: int) -> list[RowForm]:
    matrix = Matrix.of(p, p.w.reshape(p.w.shape[0], -1))
    proved = proof(matrix, form)
    if proved is None:
        return []
    finish, third = proved
    tiles = RowTiles(form, p.w.shape[3], p.w.shape[0], finish.way, third, together)
    if not tiles.fits:
        return []
    window = Window.of(p.attrs, 3, 3)
    rows = row_geometry(site, window, p.x_zero)
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
        name = f"{NAME}_{form.name}x{together}_i{tiles.in_c}_o{tiles.out_c}_{digest}"
        scratch = tiles.factor_bytes + held * tiles.outputs * tiles.out_c
        whole = rows.out_h * executed
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


# ---- proof and constants ----


def _unit(form: Form) -> int:
    """log2 of the multiple of the least raised output, once a factor of 3 is divided out."""
    return (form.unit // 3 if form.unit % 3 == 0 else form.unit).bit_length() - 1


def _factors(w: Array, form: Form) -> Int64s:
    """The weights' side of every product, int64[O, P, 3, C]; w [O, 3, 3, C]."""
    found: Int64s = np.einsum("pk,oykc->opyc", np.array(form.weights, np.int64), w.astype(np.int64))
    return found


@lru_cache(maxsize=512)
def proof(matrix: Matrix, form: Form) -> tuple[Finish, bool] | None:
    """The proved way from sums to int8, for sums raised least; and whether sums must be divided by 3 before. The
    multiplier divides them where three times the accumulators fit. None if there is no way."""
    has_third = form.unit % 3 == 0
    found = _proved(matrix, form, 3 if has_third else 1)
    if not has_third or (found and _cost(found.way) == 0):
        return (found, False) if found else None
    plain = _proved(matrix, form, 1)
    if plain is None or (found and _cost(found.way) <= _cost(plain.way) + 1):
        return (found, False) if found else None
    return plain, True


def _cost(way: Way) -> int:
    """Instructions of an output, beyond the least."""
    return 2 * way.sign + (way.shifts is None) + (way.sign and not way.drops)


def _proved(matrix: Matrix, form: Form, multiple: int) -> Finish | None:
    out_c = len(matrix.taps)
    factors = _factors(matrix.taps.reshape(out_c, 3, 3, -1), form)
    largest = np.maximum(np.abs(factors).reshape(out_c, -1).max(axis=1, initial=0), 1)
    top, unit = max(form.raised), _unit(form)

    def most(steps: Steps) -> Int64s:
        worst = np.maximum(np.maximum(np.abs(steps.low), np.abs(steps.high)), 1)
        bits = np.floor(np.log2((2**15 - 1) / largest)) + unit
        room = np.minimum(bits, 30 - top - np.ceil(np.log2(worst + 1)))
        scale: Int64s = np.minimum(room, _LARGEST_SCALE).astype(np.int64)
        return scale

    found = finish_wide(matrix.p, matrix.taps, unit, most, multiple)
    if found is None or found.way.sign or found.way.shifts is None:
        dropping = finish_drops(matrix.p, matrix.taps, unit, most, multiple)
        if dropping is not None and _fits_raised(dropping, top):
            return dropping
    return found if found is not None and _fits_raised(found, top) else None


def _fits_raised(finish: Finish, top: int) -> bool:
    """Whether sums times 2^top still pass: constants in int32, shifts up to 31."""
    way, scaling = finish.way, finish.scaling
    if way.shifts is None or (way.sign and not way.drops):
        return True
    add = (np.abs(scaling.add) + scaling.fall) << top
    return bool((add < 2**30).all()) and way.shifts[0] + top <= 31


def _stream(matrix: Matrix, tiles: RowTiles, finish: Finish) -> npt.NDArray[np.int32]:
    """Start values, weights and constants in the order of use, group after group of output channels."""
    form, groups = tiles.form, tiles.groups
    spare = finish.weight_scale - _unit(form)
    factors = _factors(matrix.p.w.reshape(tiles.out_c, 3, 3, -1), form)
    factors = (factors * finish.live[:, None, None, None]) << spare[:, None, None, None]
    assert np.abs(factors).max(initial=0) < 2**15  # the proof has seen to it
    quads = factors.reshape(tiles.out_c, form.products, tiles.steps // 2, 2, 2)  # ... [quad][half][step]
    words = (quads[..., 0, :] & 0xFFFF) | ((quads[..., 1, :] & 0xFFFF) << 16)
    weights = words.reshape(groups, tiles.channels, form.products, tiles.steps).transpose(0, 2, 3, 1)
    folded = form.unit % 3 == 0 and not tiles.third
    start = finish.start_values(matrix.p.bias.astype(np.int64) * (3 if folded else 1)) * (3 if tiles.third else 1)
    parts = [start.reshape(groups, -1)]
    for kind, number in tiles.walk:
        if kind == "product":
            parts.append(weights[:, number].reshape(groups, -1))
            continue
        constants = finish.constants().copy()
        if not tiles.lowers:
            constants[:, 1 : 2 + tiles.way.drops] <<= form.raised[number]  # add, and drop
        parts.append(constants.reshape(groups, -1))
    return (np.concatenate(parts, axis=1).ravel() & 0xFFFFFFFF).astype(np.uint32).view(np.int32)


# ---- text ----


@lru_cache(maxsize=64)
def _text(tiles: RowTiles, row: Row) -> tuple[str, Work]:
    """C text of the functions of a layer, called `@`, and what a row executes."""
    form = tiles.form
    calls = -(-row.out_w // tiles.outputs)
    count = calls * tiles.together
    kinds = [_outside(tiles, row, i) for i in range(count)]
    variants = list(dict.fromkeys(kinds))
    fast, executed = [], _CALL + _TILE * count
    for number, outside in enumerate(variants):
        text, work = factors_function(f"@_factors{number}", tiles, outside, row.x_zero)
        fast.append(text)
        executed += kinds.count(outside) * work
    text, work = products_function("@_products", tiles)
    fast.append(text)
    executed += calls * work
    if row.held:
        pairs = tiles.out_c % 8 == 0
        text, around, turn = move_function("@_move", pairs)
        fast.append(text)
        executed += calls * (around + _CALL_OF_MOVE) + row.out_w * tiles.out_c // (8 if pairs else 4) * turn
    twins = _twins(tiles, row, variants)
    scratch = tiles.factor_bytes + row.held * tiles.outputs * tiles.out_c
    whole = f"""/* conv2d 3x3 by {form.products} products for {form.m} outputs of a row, \
{tiles.in_c} -> {tiles.out_c} channels: a row of {row.out_w} pixels{", two tiles at a time" * (tiles.together - 1)}.
 * x: 3 row pointers, at words.{" y may be the first of them." if row.held else ""} stream: tc_row_tiles.h. scratch: \
{scratch} bytes, word aligned.
 */
#if TC_DSP_ASM
{"".join(fast)}#else
{twins}#endif

static void @(const int32_t *stream, const int8_t *const *x, int8_t *y, void *scratch)
{{
    int32_t *factors = (int32_t *)scratch;
{_loop(tiles, row, kinds, variants)}}}"""
    return whole, executed


def _outside(tiles: RowTiles, row: Row, tile: int) -> tuple[bool, ...]:
    first = tile * tiles.form.m * tiles.form.stride - row.pad_left
    return tuple(not 0 <= first + i < row.in_w for i in range(tiles.form.n))


def _loop(tiles: RowTiles, row: Row, kinds: list[tuple[bool, ...]], variants: list[tuple[bool, ...]]) -> str:
    """The calls, one after the other."""
    count = len(kinds) // tiles.together
    call_bytes = tiles.outputs * tiles.out_c
    chosen = _choice(tiles, row, kinds, variants)
    if not row.held:
        return f"""
    for (int32_t i = 0; i < {count}; i++) {{
        {chosen}
        @_products(stream, factors, y + i * {call_bytes});
    }}
"""
    last = (row.out_w - (count - 1) * tiles.outputs) * tiles.out_c
    return f"""    int8_t *held = (int8_t *)scratch + {tiles.factor_bytes};

    for (int32_t i = 0; i < {count}; i++) {{
        {chosen}
        if (i > 0) {{
            @_move(held, y + (i - 1) * {call_bytes}, {call_bytes // 4});
        }}
        @_products(stream, factors, held);
    }}
    @_move(held, y + {(count - 1) * call_bytes}, {last // 4});
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
    form, way = tiles.form, tiles.way
    low, high = way.clamp or (-128, 127)
    tables = {
        "inputs": ("int8_t", [v for line in form.inputs for v in line]),
        "sums": ("int8_t", [v for line in form.sums for v in line]),
        "place": ("uint8_t", [tiles.order.index(product) for product in range(form.products)]),
        "raised": ("uint8_t", list(form.raised)),
        "walk": ("uint8_t", [number + 16 * (kind == "output") for kind, number in tiles.walk]),
    }
    fields: dict[str, int | str] = {
        "in_c": tiles.in_c,
        "out_c": tiles.out_c,
        "m": form.m,
        "n": form.n,
        "products": form.products,
        "x_zero": row.x_zero,
        "shared": form.shared,
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
    move = """static void @_move(const int8_t *from, int8_t *to, int32_t words)
{
    for (int32_t i = 0; i < 4 * words; i++) {
        to[i] = from[i];
    }
}
"""
    return f"""{"".join(arrays)}static const tc_row_tiles_t @_form = {{
{body}}};
{"".join(functions)}static void @_products(const int32_t *stream, const int32_t *factors, int8_t *y)
{{
    tc_row_tiles_products(&@_form, stream, factors, y);
}}
{move if row.held else ""}"""
