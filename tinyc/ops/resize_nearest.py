# SPDX-License-Identifier: Apache-2.0
"""resize_nearest: x[N,H,W,C] -> y[N,H',W',C], each output pixel a copy of the input pixel that lies nearest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.ir.graph import Array, Value
from tinyc.kernel.counted import counted
from tinyc.kernel.kernel import Call, Const, Cost, In, Kernel, Out, Params, RowForm, Rows, Struct, offered
from tinyc.kernel.site import Site, Type
from tinyc.kernel.windows import check_image, row_bytes
from tinyc.ops.copies import with_loops
from tinyc.ops.movement import element_bytes, need_one_quant
from tinyc.ops.op import Observed, Op, SameAs, Trait


@dataclass(frozen=True, slots=True)
class ResizeNearest:
    """rows[r]: the input row that output row r copies; columns alike. The loaders resolve the formats' rules."""

    rows: tuple[int, ...]
    columns: tuple[int, ...]


def infer(a: ResizeNearest, x: Value) -> Sequence[Type]:
    check_image(x, "resize_nearest")
    _, in_h, in_w, in_c = x.shape
    for picked, n in ((a.rows, in_h), (a.columns, in_w)):
        if not picked or min(picked) < 0 or max(picked) >= n or n > 32767:
            raise TinycError(f"resize_nearest picks rows or columns outside an image of {in_h}x{in_w}")
    return [Type((1, len(a.rows), len(a.columns), in_c), x.dtype)]


def float_ref(a: ResizeNearest, x: Array) -> tuple[Array, ...]:
    return (np.ascontiguousarray(x[:, a.rows][:, :, a.columns]),)


def prepare(site: Site) -> ResizeNearest:
    need_one_quant(site)
    return ResizeNearest(site.attrs.rows, site.attrs.columns)


def lower_resize(site: Site, p: ResizeNearest) -> Call:
    """tc_resize_nearest: the whole tensor."""
    return _call(site, p)


def _call(site: Site, p: ResizeNearest, geometry: Rows | None = None) -> Call:
    fields: dict[str, int | float | str | Const] = {
        "rows": Const(np.array(p.rows, np.int16), "[out_h]", "rows"),
        "columns": Const(np.array(p.columns, np.int16), "[out_w]", "columns"),
        "in_w": site.x(0).shape[2],
        "out_h": len(p.rows),
        "out_w": len(p.columns),
        "unit": site.x(0).shape[3] * element_bytes(site.x(0)),
    }
    return Call((Params(), In(0), Out()), Struct("tc_resize_nearest_t", fields), geometry)


def runs(site: Site, p: ResizeNearest) -> Mapping[int, int]:
    """One for each pixel."""
    _, out_h, out_w, _ = site.y().shape
    return {site.y().size_bytes // (out_h * out_w): out_h * out_w}


def cost(site: Site, p: ResizeNearest) -> Cost:
    """A run for each pixel."""
    _, out_h, out_w, _ = site.y().shape
    return counted("tc_resize_nearest", site, {"line": out_h, "run": out_h * out_w, "byte": site.y().size_bytes})


def row_forms(site: Site, p: ResizeNearest) -> tuple[RowForm, ...]:
    """Each row is made of one row of the input."""
    (_, in_h, _, _), (_, out_h, out_w, _) = site.x(0).shape, site.y().shape
    in_row, out_row = row_bytes(site.x(0)), row_bytes(site.y())
    starts = Const(np.array(p.rows, np.int16), "[out_h] the row that is copied", "rows")
    rows = Rows(in_h, out_h, 1, 1, 0, 1, in_row, out_row, None, starts=starts)
    one = counted("tc_resize_nearest", site, {"line": 1, "run": out_w, "byte": out_row})
    form_cost = Cost(one.instructions * out_h, one.flash_bytes + starts.data.nbytes, 0)
    return (RowForm(_call(site, ResizeNearest((0,), p.columns), rows), 0, form_cost, direct=True),)


OP = Op(
    name="resize_nearest",
    attrs=ResizeNearest,
    infer=infer,
    float_ref=float_ref,
    prepare=prepare,
    int_ref=float_ref,
    quant_in=(Observed(),),
    quant_out=(SameAs(0),),
    kernels=with_loops(Kernel("tc_resize_nearest", offered(lower_resize, cost=cost, row_forms=row_forms)), runs),
    traits=frozenset({Trait.MOVES, Trait.INT16, Trait.ANY_TYPE}),
)
