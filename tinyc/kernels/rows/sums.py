# SPDX-License-Identifier: Apache-2.0
"""Portable row forms of layers that collapse the height of an image: one input row per call, added up in int32."""

from __future__ import annotations

import numpy as np

from tinyc.kernel.counted import CountedCost
from tinyc.kernel.kernel import Accumulator, Arg, Call, Const, Cost, In, Out, Params, RowForm, RowIndex, Rows, Struct
from tinyc.kernel.site import Site
from tinyc.kernel.windows import ConvParams, PoolParams, Window, of_windows, row_bytes, window_fields

_ARGS: tuple[Arg, ...] = (Params(), In(0), Accumulator(), RowIndex(), Out())


def avg_pool_rows(site: Site, p: PoolParams) -> tuple[RowForm, ...]:
    """tc_avg_pool2d_rows_s8, where one window covers the image."""
    x, a = site.x(), p.attrs
    if tuple(a.kernel) != x.shape[1:3] or a.dilation != (1, 1) or any(a.pad) or not _collapses_image(site):
        return ()
    fields = {**_image(site), "y_min": p.y_min, "y_max": p.y_max}
    return (_form(site, "tc_avg_pool2d_rows_s8", fields, CountedCost("tc_avg_pool2d_s8", of_windows)(site, p)),)


def mean_rows(site: Site, fields: dict[str, int | float | str | Const], cost: Cost) -> tuple[RowForm, ...]:
    """tc_mean_rows_s8, _s16 or _f32, where the mean is over all pixels. fields: those of the factor. cost: of the
    kernel that makes the mean at once."""
    if not _collapses_image(site):
        return ()
    name = f"tc_mean_rows_{site.x().dtype}"
    return (_form(site, name, {**_image(site), **fields}, cost),)


def depthwise_rows(site: Site, p: ConvParams, cost: Cost) -> tuple[RowForm, ...]:
    """tc_depthwise_conv2d_rows_s8, where the window is as high as the image. cost: of the kernel that runs the layer at
    once."""
    k_h, k_w, out_c = p.w.shape
    x = site.x(0)
    window = Window.of(p.attrs, k_h, k_w)
    if k_h != x.shape[1] or k_h < 2 or window.pad.top or window.pad.bottom or window.dilation.h != 1:
        return ()
    columns = window_fields(site, window)
    del columns["k_h"]
    fields = {
        "w": Const(p.w, "[in_h][k_w][out_c]", "w"),
        **p.struct_fields(),
        "pad": Const(np.full(x.shape[3], p.x_zero, np.int8), "[in_c] of x_zero", "pad"),
        "in_h": k_h,
        **columns,
        "out_c": out_c,
    }
    return (_form(site, "tc_depthwise_conv2d_rows_s8", fields, cost),)


def _collapses_image(site: Site) -> bool:
    """Whether an image of two rows or more becomes one pixel."""
    x = site.x()
    return len(x.shape) == 4 and x.shape[0] == 1 and x.shape[1] > 1 and site.y().elements == x.shape[3]


def _image(site: Site) -> dict[str, int | float | str | Const]:
    _, in_h, in_w, in_c = site.x().shape
    return {"in_h": in_h, "in_w": in_w, "in_c": in_c}


def _form(site: Site, name: str, fields: dict[str, int | float | str | Const], cost: Cost) -> RowForm:
    """The form of function `name`. cost: of the kernel that makes at once what it adds up row by row."""
    x, y = site.x(), site.y()
    rows = Rows(x.shape[1], x.shape[1], 1, 1, 0, 1, row_bytes(x), y.size_bytes, None)
    constants = sum(field.data.nbytes for field in fields.values() if isinstance(field, Const))
    return RowForm(
        call=Call(_ARGS, Struct(f"{name}_t", fields), rows),
        scratch_bytes=0,
        cost=Cost(cost.instructions, constants, 0),
        accumulator_bytes=4 * y.elements,
        direct=True,
        function=name,
        includes=(f"{name}.h",),
    )
