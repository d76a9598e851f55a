# SPDX-License-Identifier: Apache-2.0
"""resample_rows: the rows of an int8 image become others, as resample_columns makes columns.

x int8 [1,H,W,C] -> y int8 [1,H',W,C]: y[r] = (sum_k w[r][k] x[first[r] + k] + bias[r]) / 2^22, the weights in 1 / 2^22.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tinyc.ir.graph import Array, Value
from tinyc.kernel.kernel import (
    Arg,
    Call,
    Const,
    Cost,
    In,
    Kernel,
    Out,
    Params,
    RowForm,
    RowIndex,
    Rows,
    Struct,
    offered,
)
from tinyc.kernel.site import Site, Type
from tinyc.kernel.windows import check_image, row_bytes
from tinyc.ops.movement import need_one_quant
from tinyc.ops.op import Kept, Op, SameAs
from tinyc.ops.resample_columns import Taps, check_taps, resampled
from tinyc.ops.signals import need, no_reals

_PER_TAP, _PER_ELEMENT, _PER_ROW = 13, 5, 60  # instructions of four elements, of one, of a row: estimates


@dataclass(frozen=True, slots=True)
class ResampleRows:
    taps: Taps


def infer(a: ResampleRows, x: Value) -> Sequence[Type]:
    check_image(x, "resample_rows")
    need(x, "the image", "s8")
    check_taps(a.taps, x.shape[1], "resample_rows")
    return [Type((1, len(a.taps.firsts), *x.shape[2:]), "s8")]


def prepare(site: Site) -> ResampleRows:
    need_one_quant(site)
    return ResampleRows(site.attrs.taps)


def int_ref(p: ResampleRows, x: Array) -> tuple[Array, ...]:
    return (resampled(p.taps, x, 1),)


def _windows(p: ResampleRows, height: int) -> tuple[Array, Array]:
    """(first row of each window [out_h], weights [out_h, most]): windows of one height that stay inside."""
    most = p.taps.most
    firsts = np.minimum(np.array(p.taps.firsts), height - most)
    weights = np.zeros((len(firsts), most), np.int32)
    for row, (first, own) in enumerate(zip(p.taps.firsts, p.taps.weights, strict=True)):
        begin = first - int(firsts[row])
        weights[row, begin : begin + len(own)] = own
    return firsts, weights


def lower(site: Site, p: ResampleRows) -> Call:
    return _call(site, p, (Params(), In(0), Out()))


def _call(site: Site, p: ResampleRows, args: tuple[Arg, ...], geometry: Rows | None = None) -> Call:
    firsts, weights = _windows(p, site.x().shape[1])
    fields: dict[str, int | float | str | Const] = {
        "firsts": Const(firsts.astype(np.int16), "[out_h] the first row of its window", "firsts"),
        "weights": Const(weights, "[out_h][taps]", "weights"),
        "biases": Const(p.taps.biases(), "[out_h]", "biases"),
        "taps": p.taps.most,
        "out_h": len(firsts),
        "n": row_bytes(site.x()),
    }
    return Call(args, Struct("tc_resample_rows_s8_t", fields), geometry)


def cost(site: Site, p: ResampleRows) -> Cost:
    """An estimate: by taps and elements."""
    outputs, most, n = len(p.taps.firsts), p.taps.most, row_bytes(site.x())
    work = _PER_TAP * most * n // 4 + _PER_ELEMENT * n + _PER_ROW
    return Cost(outputs * work, outputs * (4 * most + 6) + 300, 0)


def row_forms(site: Site, p: ResampleRows) -> tuple[RowForm, ...]:
    """Each row is made of those of its window."""
    height, n = site.x().shape[1], row_bytes(site.x())
    firsts, _ = _windows(p, height)
    if (np.diff(firsts) < 0).any():
        return ()
    starts = Const(firsts.astype(np.int16), "[out_h] the first row of its window", "firsts")
    rows = Rows(height, len(firsts), p.taps.most, 1, 0, 1, n, n, None, starts=starts)
    name = "tc_resample_rows_row_s8"
    call = _call(site, p, (Params(), In(0), RowIndex(), Out()), rows)
    return (RowForm(call, 0, cost(site, p), function=name, includes=(f"{name}.h",)),)


OP = Op(
    name="resample_rows",
    attrs=ResampleRows,
    infer=infer,
    float_ref=no_reals,
    prepare=prepare,
    int_ref=int_ref,
    quant_in=(Kept(),),
    quant_out=(SameAs(0),),
    kernels=(Kernel("tc_resample_rows_s8", offered(lower, cost=cost, row_forms=row_forms), anywhere=True),),
)
