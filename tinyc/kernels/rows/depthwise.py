# SPDX-License-Identifier: Apache-2.0
"""depthwise_conv2d on Cortex-M with DSP, one output row per call: how a streamed group makes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from tinyc.kernel.kernel import (
    Call,
    Const,
    Cost,
    In,
    Once,
    Out,
    RowForm,
    Scratch,
    SpecializedKernel,
    WrittenCode,
    writing,
)
from tinyc.kernel.site import Site
from tinyc.kernel.windows import ConvParams, Window, is_column, row_geometry
from tinyc.kernels.depthwise import depthwise
from tinyc.kernels.depthwise.plane_layer import row_words, tap_halves
from tinyc.kernels.depthwise.planes import planes_twin
from tinyc.kernels.finish import Finish
from tinyc.kernels.form.function import LayerFunction
from tinyc.kernels.matrix import Matrix
from tinyc.kernels.rows import columns as rows_columns
from tinyc.kernels.rows.plane_layer import RowLayer
from tinyc.kernels.rows.planes import row_function
from tinyc.kernels.stream import IN_PLANES, RAISED, WIDE, depthwise_matrix_of, in_halves
from tinyc.kernels.tile.shape import tile_text
from tinyc.machine.three_stage import ThreeStage
from tinyc.machine.thumb import Work

NAME = "tc_depthwise_conv2d_s8_row_asm"
RowForms = Callable[[Site, ConvParams], tuple[RowForm, ...]]
_CALL_COST = Work(20, 30)  # around a call: row pointers, arguments


def row_forms(site: Site, p: ConvParams) -> tuple[RowForm, ...]:
    """The functions that make one row, the fastest first, the same for all kernels of a layer. Empty where there is
    none."""
    return p.once_at(site, _row_forms)


def _row_forms(site: Site, p: ConvParams) -> tuple[RowForm, ...]:
    return _fastest_first(site, p, _row_form, *_of_columns(site), planes_form)


def int4_row_forms(site: Site, p: ConvParams) -> tuple[RowForm, ...]:
    """The same for int4 weights."""
    return _fastest_first(site, p, *_of_columns(site), planes_form)


def _of_columns(site: Site) -> tuple[RowForms, ...]:
    return (rows_columns.row_forms,) if is_column(site) else ()


def _fastest_first(site: Site, p: ConvParams, *makers: RowForms) -> tuple[RowForm, ...]:
    forms = [form for make in makers for form in make(site, p)]
    return tuple(sorted(forms, key=lambda form: form.cost.cycles))


def _in_place(site: Site, p: ConvParams) -> tuple[int, ...]:
    """The input, where its rows have as many bytes as those of the output."""
    rows = row_geometry(site, Window.of(p.attrs, *p.w.shape[:2]), p.x_zero)
    return (0,) if rows.in_row_bytes == rows.out_row_bytes else ()


def planes_form(site: Site, p: ConvParams) -> tuple[RowForm, ...]:
    """Planes of all kernel rows, for any kernel size."""
    work = depthwise.plan(site, p, depthwise.by_rows)
    if work is None:
        return ()
    cost = depthwise.cost(work, site, p)
    return (
        RowForm(
            call=depthwise.call(work, site, p),
            scratch_bytes=cost.scratch_bytes,
            cost=cost,
            special=Once(lambda: depthwise.special(work, site, p)),
            inplace=_in_place(site, p),
        ),
    )


def _row_form(site: Site, p: ConvParams) -> tuple[RowForm, ...]:
    """Kernel rows over each other, for 3x3 and less."""
    matrix = depthwise_matrix_of(p)
    proved = depthwise.proved(site, matrix)
    if proved is None or p.attrs.dilation != (1, 1) or p.w.shape[2] != site.x(0).shape[3]:
        return ()
    bits, finish = proved
    fpu = "fpu" in site.isa and isinstance(site.core, ThreeStage)
    layer = replace(depthwise.of_row(depthwise.layer_of(site, p, finish.requant, bits, RowLayer)), fpu=fpu)
    if not layer.fits:
        return ()
    function, executed = writing(row_function, "@", layer)
    rows = row_geometry(site, Window.of(p.attrs, layer.k_h, layer.k_w), p.x_zero)
    stream = _stream(p, layer, matrix, finish)
    words = Const(stream, "stream of tc_depthwise_planes.h", "stream")
    code = WrittenCode((NAME, layer), function.code_bytes)
    flash = stream.nbytes + code.size
    whole = rows.out_h * (executed + _CALL_COST)
    return (
        RowForm(
            call=Call((words, In(0), Out()) if layer.on_stack else (words, In(0), Out(), Scratch()), rows=rows),
            scratch_bytes=layer.scratch_bytes,
            cost=Cost(whole.instructions, flash, layer.scratch_bytes, whole.cycles, code=code),
            special=Once(lambda: _special(layer, function.text)),
            inplace=_in_place(site, p),
        ),
    )


def _stream(p: ConvParams, layer: RowLayer, matrix: Matrix, finish: Finish) -> npt.NDArray[np.int32]:
    """The words of the layer: the zero point, then channel by channel."""
    taps = depthwise.scaled_taps(layer, finish, matrix).reshape(layer.channels, layer.k_h, layer.k_w)
    words = [in_halves(taps[:, 0, k], taps[:, 1, k]) for k in range(layer.k_w)]
    if layer.has_single:
        single = np.concatenate([taps[:, 2], np.zeros((len(taps), 1), np.int64)], axis=1)  # tap -1
        words += [in_halves(single[:, low], single[:, high]) for low, high in row_words(layer.k_w, layer.stride_w)]
    return depthwise.words_of(layer, finish, matrix, np.stack(words, axis=1), p.x_zero)


def _special(layer: RowLayer, fast: str) -> SpecializedKernel:
    """The function and its twin."""
    halves = [2 * column + row for row in range(2) for column in range(layer.k_w)]
    if layer.has_single:
        halves += [2 * layer.k_w + at for at in tap_halves(layer.k_w, layer.stride_w)]
    scratch = "" if layer.on_stack else f" scratch: {layer.scratch_bytes} bytes, word aligned."
    contract = f"""/* depthwise_conv2d {layer.k_h}x{layer.k_w}, column stride {layer.stride_w}: a row of \
{layer.in_w}x{layer.channels} -> {layer.out_w}x{layer.channels}.
 * stream: tc_depthwise_planes.h. x: {layer.k_h} row pointers; y may be a row of x.{scratch}
 */"""
    on_stack = layer.k_h * layer.columns if layer.on_stack else 0
    portable = planes_twin(layer, layer.weight_words, halves, on_stack)
    stem = f"{NAME}_k{layer.k_h}x{layer.k_w}_{layer.in_w}x{layer.channels}"
    where = "in FPU registers" if layer.in_fpu else "on the stack" if layer.on_stack else "in scratch"
    tile = tile_text(2, 1, f"planes {where}", f"{IN_PLANES[layer.bits].weights}, in registers")
    return LayerFunction(contract, fast, portable, fpu=layer.in_fpu, tile=tile).named(stem, "tc_depthwise_planes.h")


KERNELS = tuple(kernel.with_row_forms(row_forms) for kernel in depthwise.kernels("tc_depthwise_conv2d_s8_asm", WIDE))
INT4_KERNELS = tuple(
    kernel.with_row_forms(int4_row_forms) for kernel in depthwise.kernels("tc_depthwise_conv2d_s8_w4_asm", RAISED)
)
