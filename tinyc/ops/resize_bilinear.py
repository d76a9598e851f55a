# SPDX-License-Identifier: Apache-2.0
"""resize_bilinear: x[N,H,W,C] -> y[N,H',W',C], interpolated between the four nearest pixels. Integers take weights in
1/1024, as TensorFlow Lite's kernel does, float32 those of the file."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tinyc.base import float32
from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.ir.graph import Array, Value
from tinyc.kernel.counted import CountedCost, Units
from tinyc.kernel.float32 import Float32
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
from tinyc.kernel.site import Site, Type, s8_to_s8, s16_to_s16
from tinyc.kernel.types import in_float32
from tinyc.kernel.windows import check_image, row_bytes
from tinyc.ops.movement import need_one_quant
from tinyc.ops.op import Observed, Op, SameAs, Trait

ONE = 1024  # of integers weights are in 1 / ONE
FINE = 1 << 24  # and of models in float32 in 1 / FINE
Tap = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class ResizeBilinear:
    """rows[r]: (first row, second row, weight of the second in 1/parts) of output row r; columns alike.

    The loaders resolve the formats' rules.
    """

    rows: tuple[Tap, ...]
    columns: tuple[Tap, ...]
    parts: int = ONE

    def coarse(self) -> ResizeBilinear:
        """With weights in 1 / ONE."""
        by = self.parts // ONE
        rows, columns = (tuple((k, m, round(w / by)) for k, m, w in taps) for taps in (self.rows, self.columns))
        return ResizeBilinear(rows, columns)


def bilinear_tflite(count: int, size: int, *, align_corners: bool, half_pixel: bool) -> tuple[Tap, ...]:
    """For each of `size` outputs the two inputs and the weight of the second, as TensorFlow Lite's integer kernel."""
    aligned = align_corners and size > 1
    step = (ONE * (count - 1) + (size - 1) // 2) // (size - 1) if aligned else (ONE * count + size // 2) // size
    taps = []
    for k in range(size):
        place = k * step + step // 2 - ONE // 2 if half_pixel else k * step
        first = max(int(place / ONE), 0)
        second = min(max(int((place + ONE - 1) / ONE), 0), count - 1)
        taps.append((min(first, count - 1), second, place - ONE * first))
    return tuple((first, second, weight) if weight >= 0 else (first, second, 0) for first, second, weight in taps)


def infer(a: ResizeBilinear, x: Value) -> Sequence[Type]:
    check_image(x, "resize_bilinear")
    _, in_h, in_w, in_c = x.shape
    for taps, n in ((a.rows, in_h), (a.columns, in_w)):
        inside = all(0 <= k < n and 0 <= m < n and 0 <= weight <= a.parts for k, m, weight in taps)
        if not taps or not inside or n > 32767:
            raise TinycError(f"resize_bilinear reads outside an image of {in_h}x{in_w}")
    return [Type((1, len(a.rows), len(a.columns), in_c), x.dtype)]


def _interpolate(a: ResizeBilinear, x: Array) -> Array:
    """parts * parts times the interpolated pixels, in x's dtype."""
    (k, m, f), (left, right, g) = (np.array(taps, np.int64).T for taps in (a.rows, a.columns))
    f, g = f[:, None, None].astype(x.dtype), g[:, None].astype(x.dtype)
    across = x[:, :, left] * (a.parts - g) + x[:, :, right] * g
    return np.asarray(across[:, k] * (a.parts - f) + across[:, m] * f)


def float_ref(a: ResizeBilinear, x: Array) -> tuple[Array, ...]:
    return ((_interpolate(a, x.astype(np.float64)) / a.parts**2).astype(np.float32),)


def exact_float(a: ResizeBilinear, x: Array) -> tuple[Array, ...]:
    """As tc_resize_bilinear_f32 computes it: between columns, then between rows."""
    (k, m, f), (left, right, g) = (np.array(taps, np.int64).T for taps in (a.rows, a.columns))
    one = np.float32(a.parts)
    down, along = (f.astype(np.float32) / one)[:, None, None], (g.astype(np.float32) / one)[:, None]
    across = float32.fma(x[:, :, right] - x[:, :, left], along, x[:, :, left])
    return (float32.fma(across[:, m] - across[:, k], down, across[:, k]),)


def lower_float(site: Site, p: ResizeBilinear) -> Call:
    """tc_resize_bilinear_f32: the whole tensor."""
    fields: dict[str, int | float | str | Const] = {}
    for name, taps, size in (("rows", p.rows, "out_h"), ("columns", p.columns, "out_w")):
        table = np.array(taps, np.int64)
        weights = (table[:, 2] / p.parts).astype(np.float32)
        fields[name] = Const(table[:, :2].astype(np.int16), f"[{size}][first, second]", name)
        fields[f"{name[:-1]}_weights"] = Const(weights, f"[{size}] of the second", f"{name[:-1]}_weights")
    fields |= {"in_w": site.x(0).shape[2], "channels": site.x(0).shape[3]}
    fields |= {"out_h": len(p.rows), "out_w": len(p.columns)}
    return Call((Params(), In(0), Out()), Struct("tc_resize_bilinear_f32_t", fields))


def prepare(site: Site) -> ResizeBilinear:
    need_one_quant(site)
    if site.numerics is Numerics.LITERT and site.y().dtype == "s8":  # XNNPACK: weights of 11 bits, rounded once
        raise TinycError(
            "resize_bilinear of int8 is known for numerics tflm, single and onnx only",
            site.node.where,
            "use --numerics tflm",
        )
    attrs: ResizeBilinear = site.attrs
    return attrs.coarse()


def int_ref(p: ResizeBilinear, x: Array) -> tuple[Array, ...]:
    total = _interpolate(p, x.astype(np.int64))
    half = np.where(total > 0, ONE**2 // 2, -(ONE**2) // 2)
    return ((np.sign(total) * (np.abs(total + half) // ONE**2)).astype(x.dtype),)


def lower_resize(site: Site, p: ResizeBilinear) -> Call:
    """tc_resize_bilinear_s8, tc_resize_bilinear_s16: the whole tensor."""
    return _call(site, p, (Params(), In(0), Out()))


def _call(site: Site, p: ResizeBilinear, args: tuple[Arg, ...], geometry: Rows | None = None) -> Call:
    layout = "[first, second, weight of the second in 1/1024]"
    fields: dict[str, int | float | str | Const] = {
        "rows": Const(np.array(p.rows, np.int16), f"[out_h]{layout}", "rows"),
        "columns": Const(np.array(p.columns, np.int16), f"[out_w]{layout}", "columns"),
        "in_w": site.x(0).shape[2],
        "channels": site.x(0).shape[3],
        "out_h": len(p.rows),
        "out_w": len(p.columns),
    }
    return Call(args, Struct(f"tc_resize_bilinear_{site.x(0).dtype}_t", fields), geometry)


def of_pixels(site: Site, p: ResizeBilinear) -> Units:
    """Elements, and pixels."""
    return {"element": site.y().elements, "pixel": len(p.rows) * len(p.columns)}


def table_bytes(site: Site, p: ResizeBilinear) -> int:
    """Of what says which rows and columns each one lies between."""
    return (8 if site.x(0).dtype == "f32" else 6) * (len(p.rows) + len(p.columns))


COSTS = {kind: CountedCost(f"tc_resize_bilinear_{kind}", of_pixels, flash=table_bytes) for kind in ("s8", "s16", "f32")}


def row_forms(site: Site, p: ResizeBilinear) -> tuple[RowForm, ...]:
    """tc_resize_bilinear_row_s8: each row is made of two rows of the input that follow each other."""
    plain = tuple((first, second, weight if second != first else 0) for first, second, weight in p.rows)
    if any(weight and second != first + 1 for first, second, weight in plain):
        return ()
    (_, in_h, _, _), out_h = site.x(0).shape, len(p.rows)
    starts = Const(np.array([first for first, _, _ in plain], np.int16), "[out_h] the upper row", "starts")
    rows = Rows(in_h, out_h, 2, 1, 0, 1, row_bytes(site.x(0)), row_bytes(site.y()), None, starts=starts)
    name = "tc_resize_bilinear_row_s8"
    whole = COSTS["s8"](site, p)
    return (
        RowForm(
            _call(site, ResizeBilinear(plain, p.columns), (Params(), In(0), RowIndex(), Out()), rows),
            scratch_bytes=0,
            cost=Cost(whole.instructions, whole.flash_bytes + starts.data.nbytes, 0),
            function=name,
            includes=(f"{name}.h",),
        ),
    )


OP = Op(
    name="resize_bilinear",
    attrs=ResizeBilinear,
    infer=infer,
    float_ref=float_ref,
    prepare=prepare,
    int_ref=int_ref,
    quant_in=(Observed(),),
    quant_out=(SameAs(0),),
    kernels=(
        Kernel("tc_resize_bilinear_s8", offered(lower_resize, cost=COSTS["s8"], row_forms=row_forms), when=(s8_to_s8,)),
        Kernel("tc_resize_bilinear_s16", offered(lower_resize, cost=COSTS["s16"]), when=(s16_to_s16,)),
        Kernel("tc_resize_bilinear_f32", offered(lower_float, cost=COSTS["f32"]), when=(in_float32,)),
    ),
    traits=frozenset({Trait.ONE_SCALE, Trait.INT16}),
    float32=Float32(exact_float),
)
