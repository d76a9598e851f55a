# SPDX-License-Identifier: Apache-2.0
"""conv2d 3x3 on Cortex-M with DSP, one or two output rows per call, by exact fast forms (`tiles.py`).

Along one row: tiles of 4 outputs (half of the multiplications), of 2 (two thirds), at stride 2 of 2 (five sixths). Two
rows at a time: 2 x 4 outputs (a third), 2 x 2 (four ninths), at stride 2 (25 of 36). One tile at a time, or
two neighbours (faster, for twice the scratch). Scratch holds the factors of a call; where the output row shall lie in
place of an input row, or rows are no multiple of a call's pixels, also the outputs of one call, which are written when
the input of the next has been read.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from tinyc.kernel.kernel import Call, Const, Cost, In, Out, RowForm, Scratch
from tinyc.kernel.site import Site
from tinyc.kernel.windows import ConvParams, Window, row_geometry
from tinyc.kernels.fast.bilinear import F2, F4, ROW, S2, BilinearForm, nested_factors
from tinyc.kernels.fast.winograd import proved_finish
from tinyc.kernels.finish import Finish
from tinyc.kernels.matrix import GROUP, Matrix
from tinyc.kernels.rows.fast_text import FastRow, functions
from tinyc.kernels.rows.tiles import INLINE_CHANNELS, RowTiles
from tinyc.kernels.stream import as_words, in_halves, matrix_of

_OF_ROW = [replace(ROW, name=columns.name, columns=columns) for columns in (F4, F2, S2)]
_OF_TWO = [
    replace(rows, name=rows.name + columns.name, columns=columns) for rows, columns in ((F2, F4), (F2, F2), (S2, S2))
]


def row_forms(site: Site, p: ConvParams) -> tuple[RowForm, ...]:
    """Every form that is proved, with and without held outputs; empty where there is none. The layer `is_3x3`, or
    `is_3x3_by_two`."""
    (out_c, _, _, in_c), stride = p.w.shape, p.attrs.stride
    if in_c % 4 or out_c % GROUP or site.y().shape[1] == 0:
        return ()
    return tuple(
        row_form
        for form in (*_OF_ROW, *_OF_TWO)
        if (form.across.stride, form.across.stride) == stride
        for together in (1, 2)
        for inline in ((True, False) if in_c <= INLINE_CHANNELS[form.across.name] else (False,))
        for row_form in _forms(site, p, form, together, inline)
    )


def _forms(site: Site, p: ConvParams, form: BilinearForm, together: int, inline: bool) -> list[RowForm]:
    """As in `RowTiles`."""
    matrix = matrix_of(p)
    proved = matrix.once(proved_finish, form)
    if proved is None or site.y().shape[1] < form.m:
        return []
    finish, third = proved
    out_c, _, _, in_c = p.w.shape
    tiles = RowTiles(site.core, form, in_c, together, out_c, finish.requant, third, inline)
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
    forms = []
    for held in (False, True):
        ragged = out_w % tiles.outputs != 0
        if (ragged and not held) or (held and not (same or ragged)):
            continue
        special, codes, executed = functions(tiles, FastRow(in_w, out_w, window.pad.left, p.x_zero, held))
        scratch = tiles.scratch_bytes(held)
        whole = -(-rows.out_h // tiles.rows) * executed
        forms.append(
            RowForm(
                call=Call((words, In(0), Out(), Scratch()), rows=rows),
                scratch_bytes=scratch,
                cost=Cost(whole.instructions, words.data.nbytes, scratch, whole.cycles).beside(codes),
                special=special,
                inplace=(0,) if held and same else (),
            )
        )
    return forms


# ---- constants ----


def _stream(matrix: Matrix, tiles: RowTiles, finish: Finish) -> npt.NDArray[np.int32]:
    """Start values, weights and constants in the order of use, group after group of output channels."""
    form, groups = tiles.form, tiles.groups
    spare = finish.weight_scale - form.scale
    factors = nested_factors(matrix.p.w.reshape(tiles.out_c, 3, 3, -1), form, form.across)
    factors = (factors * finish.live[:, None, None, None]) << spare[:, None, None, None]
    assert np.abs(factors).max(initial=0) < 2**15  # the proof has seen to it
    quads = factors.reshape(*factors.shape[:3], tiles.steps // 2, 2, 2)  # ... [quad][half][step]
    words = in_halves(quads[..., 0, :], quads[..., 1, :])
    weights = words.reshape(groups, tiles.channels, *factors.shape[1:3], tiles.steps).transpose(0, 2, 3, 4, 1)
    folded, divided = (1, form.odd) if tiles.third else (form.odd, 1)
    start = finish.start_values(matrix.p.bias.astype(np.int64) * folded) * divided
    parts = [start.reshape(groups, -1)]
    for step in tiles.walk:
        parts += [weights[:, i, step.column].reshape(groups, -1) for i in step.rows]
        if step.kind == "output":
            constants = finish.constants().copy()
            if not tiles.lowers:
                constants[:, 1 : 2 + tiles.requant.drops] <<= form.across.raised[step.b]  # add, and drop
            parts.append(constants.reshape(groups, -1))
    return as_words(np.concatenate(parts, axis=1).ravel())
