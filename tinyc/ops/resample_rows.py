# SPDX-License-Identifier: Apache-2.0
"""resample_rows: the rows of an int8 image become others, as resample_columns makes columns.

x int8 [1,H,W,C] -> y int8 [1,H',W,C]: y[r] = (sum_k w[r][k] x[first[r] + k] + bias[r]) / 2^22, the weights in 1 / 2^22.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.ir.graph import Array, Value
from tinyc.kernel.counted import CountedCost, Units
from tinyc.kernel.kernel import (
    Arg,
    Call,
    Const,
    Cost,
    In,
    Kernel,
    Once,
    Out,
    Params,
    RowForm,
    RowIndex,
    Rows,
    SpecializedKernel,
    Struct,
    WrittenCode,
    offered,
)
from tinyc.kernel.site import Site, Type
from tinyc.kernel.windows import check_image, row_bytes
from tinyc.loops.expression import AddProduct, Element, Param, Saturate
from tinyc.loops.lines import AROUND, CODE_BYTES, LINE, LoopLines
from tinyc.loops.written import LOOP_CORES, LoopCore, LoopFunction
from tinyc.ops.movement import need_one_quant
from tinyc.ops.op import Op, SameAs, Unquantized
from tinyc.ops.resample_columns import BITS, Taps, check_taps, resampled
from tinyc.ops.signals import need, no_reals


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


def of_taps(site: Site, p: ResampleRows) -> Units:
    """Taps of all elements, elements, and rows."""
    rows, n = len(p.taps.firsts), row_bytes(site.x())
    return {"tap": rows * n * p.taps.most, "element": rows * n, "line": rows}


def table_bytes(site: Site, p: ResampleRows) -> int:
    """Of weights, biases, and where each window begins."""
    return len(p.taps.firsts) * (4 * p.taps.most + 6)


cost = CountedCost("tc_resample_rows_s8", of_taps, flash=table_bytes)


def row_forms(site: Site, p: ResampleRows) -> tuple[RowForm, ...]:
    """Each row is made of those of its window."""
    name = "tc_resample_rows_row_s8"
    args = (Params(), In(0), RowIndex(), Out())
    return tuple(
        RowForm(_call(site, p, args, rows), 0, cost(site, p), function=name, includes=(f"{name}.h",))
        for rows in _geometry(site, p)
    )


def _geometry(site: Site, p: ResampleRows) -> tuple[Rows, ...]:
    """The windows of rows; none where they do not go down."""
    height, n = site.x().shape[1], row_bytes(site.x())
    firsts, _ = _windows(p, height)
    if (np.diff(firsts) < 0).any():
        return ()
    starts = Const(firsts.astype(np.int16), "[out_h] the first row of its window", "firsts")
    return (Rows(height, len(firsts), p.taps.most, 1, 0, 1, n, n, None, starts=starts),)


# ---- means of two rows, by a loop over their elements ----

_STRUCT = SpecializedKernel(
    "tc_resample_means_t",
    """typedef struct {
    const int16_t *firsts; /* [out_h] */
    const int32_t *sums; /* [out_h], each a tc_sum_s8_t */
    int32_t out_h, n;
} tc_resample_means_t;""",
)


def of_two(site: Site) -> bool:
    """windows of two rows"""
    return bool(prepare(site).taps.most == 2)


def _mean(ending: str, n: int) -> LoopFunction:
    """The loop of a row of n elements."""
    root = Saturate(AddProduct(AddProduct(Param("c"), Element(0), Param("a")), Element(1), Param("b")), BITS)
    says = f"y[i] = (a * x0[i] + b * x1[i] + c) >> {BITS}; y may be x0 or x1."
    return LoopFunction(f"tc_mean_s8_{ending}", says, root, "tc_sum_s8_t", ("a", "b", "c"), LoopLines((), n))


def lower_means(site: Site, p: ResampleRows, args: tuple[Arg, ...] = (), geometry: Rows | None = None) -> Call:
    """The call of all rows, or of one."""
    n = row_bytes(site.x())
    firsts, weights = _windows(p, site.x().shape[1])
    sums = np.column_stack([np.full(len(firsts), n), weights, p.taps.biases()]).astype(np.int32)
    fields: dict[str, int | float | str | Const] = {
        "firsts": Const(firsts.astype(np.int16), "[out_h] the first row of its window", "firsts"),
        "sums": Const(sums, "[out_h] n, two weights, bias", "sums"),
        "out_h": len(firsts),
        "n": n,
    }
    return Call(args or (Params(), In(0), Out()), Struct(_STRUCT.name, fields), geometry)


def _with_loop(ending: str, on: LoopCore) -> Kernel:
    def function(site: Site, name: str, parameters: str, body: str) -> SpecializedKernel:
        line = _mean(ending, 1).line(on, site.core)
        row = f"{line.name}((const tc_sum_s8_t *)(const void *)(p->sums + 4 * r), "
        head = f"static void {name}(\n    const {_STRUCT.name} *p, {parameters}, int8_t *y)"
        parts = (_STRUCT, *line.parts, line)
        return SpecializedKernel(name, f"{head}\n{{\n{body.replace('mean(', row)}\n}}", line.includes, parts)

    def whole(site: Site, p: ResampleRows) -> SpecializedKernel:
        body = """    for (int32_t r = 0; r < p->out_h; r++, y += p->n) {
        const int8_t *row = x + p->firsts[r] * p->n;
        mean(row, row + p->n, y);
    }"""
        return function(site, f"tc_resample_rows_s8_{ending}", "const int8_t *x", body)

    def row(site: Site) -> SpecializedKernel:
        parameters = "const int8_t *const *x, int32_t r"
        return function(site, f"tc_resample_rows_row_s8_{ending}", parameters, "    mean(x[0], x[1], y);")

    def cost(site: Site, p: ResampleRows) -> Cost:
        loop, outputs = _mean(ending, row_bytes(site.x())), len(p.taps.firsts)
        asm = on.code(loop, site.core)
        work = outputs * (on.work(loop, asm) + LINE) + AROUND
        flash = outputs * 18 + asm.code_bytes + CODE_BYTES
        code = WrittenCode(("tc_mean_s8", ending), asm.code_bytes)
        return Cost(int(work.instructions * on.share), flash, 0, int(work.cycles * on.share), code=code)

    def forms(site: Site, p: ResampleRows) -> tuple[RowForm, ...]:
        args = (Params(), In(0), RowIndex(), Out())
        return tuple(
            RowForm(lower_means(site, p, args, rows), 0, cost(site, p), special=Once(lambda: row(site)))
            for rows in _geometry(site, p)
        )

    offering = offered(lower_means, cost=cost, specialize=whole, row_forms=forms)
    return Kernel(f"tc_resample_rows_s8_{ending}", offering, isa=on.isa, when=(of_two,), written=True, anywhere=True)


OP = Op(
    name="resample_rows",
    attrs=ResampleRows,
    infer=infer,
    float_ref=no_reals,
    prepare=prepare,
    int_ref=int_ref,
    quant_in=(Unquantized(),),
    quant_out=(SameAs(0),),
    kernels=(
        *(_with_loop(ending, LOOP_CORES[ending]) for ending in ("mve", "dsp", "rvv")),
        Kernel("tc_resample_rows_s8", offered(lower, cost=cost, row_forms=row_forms), anywhere=True),
    ),
)
