# SPDX-License-Identifier: Apache-2.0
"""depthwise_conv2d with windows of one column on Cortex-M with DSP: a row per call, or sums by rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tinyc.base.dataclass import dataclass
from tinyc.kernel.kernel import (
    Accumulator,
    Call,
    Const,
    Cost,
    In,
    Kernel,
    Once,
    Out,
    RowForm,
    RowIndex,
    Rows,
    SpecializedKernel,
    WrittenCode,
    planned,
    writing,
)
from tinyc.kernel.site import Site
from tinyc.kernel.windows import ConvParams, Window, is_column, row_bytes, row_geometry
from tinyc.kernels.depthwise.columns import (
    ADD,
    END,
    PIXEL,
    Column,
    add_function,
    finish_function,
    order,
    pixel_function,
)
from tinyc.kernels.depthwise.depthwise import packing_of
from tinyc.kernels.finish import RAISED_DOWN, Finish
from tinyc.kernels.form.function import LayerFunction, described_twin
from tinyc.kernels.int4_words import nibbles
from tinyc.kernels.matrix import GROUP, Matrix
from tinyc.kernels.stream import RAISED, WIDE, Packing, as_words, depthwise_matrix_of, in_halves
from tinyc.kernels.tile.shape import tile_text
from tinyc.machine.thumb import Work

NAME = "tc_depthwise_conv2d_s8_column_asm"
_CALL = Work(20, 30)  # around a call
_PIXEL = Work(8, 12)  # of the loop over pixels
_INCLUDES = ("tc_depthwise_columns.h",)


def takes(site: Site) -> bool:
    """constant weights, one output per input channel, no dilation, no padding of columns"""
    a, one_each = site.attrs, site.x(1).shape[2] == site.x(0).shape[3]
    return bool(site.is_const(1) and one_each and a.dilation.h == 1 and not (a.pad.left or a.pad.right))


def row_forms(site: Site, p: ConvParams) -> tuple[RowForm, ...]:
    """Both forms where they can be (of int4 weights the first alone); empty where neither can."""
    k_h, k_w, channels = p.w.shape
    window = Window.of(p.attrs, k_h, k_w)
    one_each = channels == site.x(0).shape[3] and k_w == 1
    if not one_each or window.dilation.h != 1 or window.pad.left or window.pad.right:
        return ()
    matrix, int4 = depthwise_matrix_of(p), site.x(1).dtype == "s4"
    finish = packing_of(site).finish_of(matrix)
    column = None if finish is None else Column(k_h, channels, finish.requant, site.core, int4)
    if finish is None or column is None or not column.fits:
        return ()
    layer = _Layer(column, finish, matrix)
    rows = row_geometry(site, window, p.x_zero)
    in_w = site.x(0).shape[2]
    whole = k_h == rows.in_h > 1 and not (window.pad.top or window.pad.bottom) and in_w == 1
    forms = (_pixels(layer, site, window, rows),)
    return (*forms, _sums(layer, site)) if whole and not int4 else forms


@dataclass(frozen=True)
class _Layer:
    """A layer with its proof and weights [C, rows]."""

    column: Column
    finish: Finish
    matrix: Matrix

    @property
    def taps(self) -> npt.NDArray[np.int64]:
        """Weights [groups, 4, rows], by groups of `order`; scaled, but for those of int4."""
        live = self.matrix.taps * self.finish.live[:, None]
        return self._grouped(live if self.column.int4 else live << self.finish.weight_scale[:, None])

    @property
    def starts(self) -> npt.NDArray[np.int64]:
        """Start values [groups, 4]."""
        return self._grouped(self.finish.start_values(self.matrix.p.bias.astype(np.int64)))

    @property
    def constants(self) -> list[npt.NDArray[np.int64]]:
        """Constants of each group's channels that count."""
        channels, constants = np.array(order(self.column)).reshape(-1, 4), self.finish.constants()
        return [constants[group[group >= 0]].ravel() for group in channels]

    def _grouped(self, values: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        channels = np.array(order(self.column))
        shape = (-1,) + (1,) * (values.ndim - 1)
        chosen = np.where((channels >= 0).reshape(shape), values[channels], 0)
        return chosen.reshape(-1, 4, *values.shape[1:])


def _single(taps: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """[groups, 4] weights of one row -> [groups, 2] words."""
    return in_halves(taps[:, :2], taps[:, 2:])


def _words(parts: list[npt.NDArray[np.int64]]) -> npt.NDArray[np.int32]:
    joined = np.concatenate([part.ravel() for part in parts])
    return as_words(joined)


def _weight_words(taps: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """[groups, 4, rows] -> the words of each group."""
    count = taps.shape[2]
    words = [in_halves(taps[:, :, row], taps[:, :, row + 1]) for row in range(0, count - 1, 2)]
    words += [_single(taps[:, :, -1])] if count % 2 else []
    return np.concatenate(words, axis=1)


def _nibble_words(taps: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The same of int4 weights: a word for two rows."""
    groups, _, count = taps.shape
    halves = nibbles(np.pad(taps, ((0, 0), (0, 0), (0, count % 2))).reshape(4 * groups, -1))
    return np.asarray(halves[:, 0::2] | (halves[:, 1::2] << 16))


def _pixel_stream(layer: _Layer) -> npt.NDArray[np.int32]:
    weights = _nibble_words(layer.taps) if layer.column.int4 else _weight_words(layer.taps)
    parts: list[npt.NDArray[np.int64]] = []
    for group in zip(layer.starts, weights, layer.constants, strict=True):
        parts += group
    return _words(parts)


def _pixels(layer: _Layer, site: Site, window: Window, rows: Rows) -> RowForm:
    """A row of pixels. A row of as many bytes may be made in place of the topmost of its window."""
    out_w, channels = site.y().shape[2:]
    function, executed = writing(_pixels_function, layer.column, out_w, window.stride.w)
    stream = _pixel_stream(layer)
    whole = rows.out_h * (out_w * (executed + _PIXEL) + _CALL)
    same = rows.in_row_bytes == rows.out_row_bytes and window.stride.w == 1
    code = WrittenCode(function, 4 * function.text.count("\\n"))
    stem = f"{NAME}_{'w4_' * layer.column.int4}k{layer.column.rows}_{out_w}x{channels}"
    return RowForm(
        call=Call((Const(stream, "stream of tc_depthwise_columns.h", "stream"), In(0), Out()), rows=rows),
        scratch_bytes=0,
        cost=Cost(whole.instructions, stream.nbytes + code.size, 0, whole.cycles, code=code),
        special=Once(lambda: function.named(stem, *_INCLUDES)),
        inplace=(0,) if same else (),
    )


def _sums(layer: _Layer, site: Site) -> RowForm:
    """The only output row as sums: a call per input row."""
    column, x = layer.column, site.x(0)
    function, adding, ending = _sums_function(column)
    taps = layer.taps
    words = [_single(taps[:, :, row]) for row in range(column.rows)]
    stream = _words([*words, *layer.constants])
    starts = layer.finish.start_values(layer.matrix.p.bias.astype(np.int64))[: column.channels]
    start = Const(_words([starts]), "start values [channels]", "start")
    args = (Const(stream, "stream of tc_depthwise_columns.h", "stream"), start, In(0), Accumulator(), RowIndex(), Out())
    whole = column.rows * (adding + _CALL) + ending + Work(4, 7) * column.channels
    return RowForm(
        call=Call(args, rows=Rows(column.rows, column.rows, 1, 1, 0, 1, row_bytes(x), site.y().size_bytes, None)),
        scratch_bytes=0,
        cost=Cost(
            whole.instructions, stream.nbytes + starts.size * 4 + 4 * function.text.count("\\n"), 0, whole.cycles
        ),
        special=Once(lambda: function.named(f"{NAME}_sums{column.rows}_{column.channels}", *_INCLUDES)),
        accumulator_bytes=4 * column.channels,
        direct=True,
    )


def _twin(name: str, parameters: Sequence[str], column: Column, call: str) -> str:
    """A function in C that calls another one with the `layer`."""
    down = RAISED_DOWN * column.requant.halve
    fields: dict[str, int | str] = {
        **{"rows": column.rows, "channels": column.channels, "int4": int(column.int4), "down": down},
        "finish": column.requant.c_text,
    }
    return described_twin(name, parameters, "tc_depthwise_columns_t", fields, call)


def _pixels_function(column: Column, out_w: int, stride: int) -> tuple[LayerFunction, Work]:
    """A row of pixels, `@(stream, x, y)`, and what each pixel executes."""
    fast, executed = pixel_function("@_pixel", column)
    count = column.channels
    call = "@_pixel(stream, x, y, 0);"
    if out_w > 1:
        call = f"""for (int32_t i = 0; i < {out_w}; i++) {{
        @_pixel(stream, x, y + i * {count}, i * {stride * count});
    }}"""
    contract = f"""/* depthwise_conv2d {column.rows}x1, column stride {stride}: a row of {out_w}x{count} outputs.
 * x: {column.rows} row pointers; y may be a row of x where the stride is 1. stream: tc_depthwise_columns.h.
 */"""
    pixel = _twin("@_pixel", PIXEL, column, "tc_depthwise_columns(&layer, stream, x, y, offset);")
    driver = f"""static void @(const int32_t *stream, const int8_t *const *x, int8_t *y)
{{
    {call}
}}"""
    weights = (RAISED if column.int4 else WIDE).weights
    tile = tile_text(1, GROUP, "columns from the rows", weights)
    return LayerFunction(contract, fast, pixel, driver, tile=tile), executed


def _sums_function(column: Column) -> tuple[LayerFunction, Work, Work]:
    """`@(stream, start, x, sums, row, y)`; what adding a row and what the end executes."""
    add, adding = add_function("@_add", column)
    end, ending = finish_function("@_end", column)
    per_row = 2 * column.groups
    contract = f"""/* depthwise_conv2d {column.rows}x1 over an image of {column.rows}x1x{column.channels}, row by \
row: call for row 0, 1 ... {column.rows - 1}.
 * x: the row. sums: int32 [{column.channels}], kept between the calls. y: written at the last. stream: \
tc_depthwise_columns.h.
 */"""
    portable = (
        _twin("@_add", ADD, column, "tc_depthwise_columns_add(&layer, stream, x, sums);"),
        _twin("@_end", END, column, "tc_depthwise_columns_end(&layer, constants, sums, y);"),
    )
    driver = f"""\
static void @(const int32_t *stream, const int32_t *start, const int8_t *x, void *sums, int32_t row, int8_t *y)
{{
    int32_t *sum = (int32_t *)sums;

    if (row == 0) {{
        for (int32_t c = 0; c < {column.channels}; c++) {{
            sum[c] = start[c];
        }}
    }}
    @_add(stream + {per_row} * row, x, sum);
    if (row == {column.rows - 1}) {{
        @_end(stream + {per_row * column.rows}, sum, y);
    }}
}}"""
    return LayerFunction(contract, f"{add}\n{end}", "\n".join(portable), driver), adding, ending


def _special_of(form: RowForm) -> SpecializedKernel:
    assert form.special is not None
    return form.special()


def _pixels_form(site: Site, p: ConvParams) -> RowForm | None:
    return next(iter(row_forms(site, p)), None)


def _kernel(name: str, packing: Packing) -> Kernel:
    """A whole layer, a row per call."""
    return Kernel(
        name,
        planned(
            _pixels_form,
            packing.asks,
            call=lambda form, site, p: form.call,
            cost=lambda form, site, p: form.cost,
            special=lambda form, site, p: _special_of(form),
        ),
        isa=frozenset({"dsp"}),
        when=(packing.takes, is_column, takes),
        asks=packing.asks,
        written=True,
    )


KERNEL = _kernel(NAME, WIDE)
INT4_KERNEL = _kernel("tc_depthwise_conv2d_s8_w4_column_asm", RAISED)
