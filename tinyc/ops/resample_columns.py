# SPDX-License-Identifier: Apache-2.0
"""resample_columns: the columns of an int8 image become others, each a weighted mean of some that follow each other.

x int8 [1,H,W,C] -> y int8 [1,H,W',C]: y[c] = (sum_k w[c][k] x[first[c] + k] + bias[c]) / 2^22, the weights in 1 / 2^22.
With pixels p = x + 128 that is (sum of weighted p + 2^21) / 2^22: the rounding of Pillow, which also goes along columns
first, and rounds between them and the rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.ir.graph import Array, Value
from tinyc.kernel.counted import CountedCost, Units
from tinyc.kernel.kernel import Call, Const, In, Kernel, Out, Params, RowForm, Rows, Struct, offered
from tinyc.kernel.site import Site, Type
from tinyc.kernel.windows import check_image, row_bytes
from tinyc.ops.movement import need_one_quant
from tinyc.ops.op import Op, SameAs, Unquantized
from tinyc.ops.signals import need, no_reals

BITS = 22
_SLACK = 1 << 13  # what weights may sum up to beyond 1: no sum leaves [-128, 127] then


@dataclass(frozen=True, slots=True)
class Taps:
    """weights[c]: of inputs firsts[c], firsts[c] + 1 ..., in 1 / 2^22; none is negative, and they sum up to about 1."""

    firsts: tuple[int, ...]
    weights: tuple[tuple[int, ...], ...]

    @property
    def most(self) -> int:
        return max(map(len, self.weights))

    def biases(self) -> Array:
        """int32 [outputs]: what makes a sum of int8 that of pixels 0..255, rounded, less 128."""
        sums = np.array([sum(own) for own in self.weights], np.int64)
        return np.asarray(128 * sums + (1 << (BITS - 1)) - (128 << BITS), np.int32)


def check_taps(taps: Taps, count: int, what: str) -> None:
    """TinycError unless they lie among `count` inputs and are means."""
    for first, weights in zip(taps.firsts, taps.weights, strict=True):
        if first < 0 or not weights or first + len(weights) > count or count > 32767:
            raise TinycError(f"{what} reads outside {count} of them")
        if min(weights) < 0 or abs(sum(weights) - (1 << BITS)) > _SLACK:
            raise TinycError(f"{what}: the weights are no means")


def resampled(taps: Taps, x: Array, axis: int) -> Array:
    """int8, along one axis."""
    bias = taps.biases().astype(np.int64)
    shape = [1] * x.ndim
    shape[axis] = -1
    total = np.zeros([len(bias) if k == axis else n for k, n in enumerate(x.shape)], np.int32)
    total += bias.astype(np.int32).reshape(shape)
    firsts = np.array(taps.firsts)
    for k in range(taps.most):
        weights = np.array([own[k] if k < len(own) else 0 for own in taps.weights], np.int32)
        places = np.minimum(firsts + k, x.shape[axis] - 1)
        total += np.take(x, places, axis).astype(np.int32) * weights.reshape(shape)
    return np.asarray(total >> BITS).astype(np.int8)


@dataclass(frozen=True, slots=True)
class ResampleColumns:
    taps: Taps


def infer(a: ResampleColumns, x: Value) -> Sequence[Type]:
    check_image(x, "resample_columns")
    need(x, "the image", "s8")
    check_taps(a.taps, x.shape[2], "resample_columns")
    return [Type((1, x.shape[1], len(a.taps.firsts), x.shape[3]), "s8")]


def prepare(site: Site) -> ResampleColumns:
    need_one_quant(site)
    return ResampleColumns(site.attrs.taps)


def int_ref(p: ResampleColumns, x: Array) -> tuple[Array, ...]:
    return (resampled(p.taps, x, 2),)


def lower(site: Site, p: ResampleColumns) -> Call:
    return _call(site, p, site.x().shape[1])


def _call(site: Site, p: ResampleColumns, height: int, geometry: Rows | None = None) -> Call:
    taps = p.taps
    layout = "[out_w][first, taps, bias]"
    columns = np.stack([np.array(taps.firsts), [len(own) for own in taps.weights], taps.biases()], axis=1)
    fields: dict[str, int | float | str | Const] = {
        "columns": Const(columns.astype(np.int32), layout, "columns"),
        "weights": Const(np.array([w for own in taps.weights for w in own], np.int32), "one by one", "weights"),
        "height": height,
        "in_w": site.x().shape[2],
        "out_w": len(taps.firsts),
        "channels": site.x().shape[3],
    }
    return Call((Params(), In(0), Out()), Struct("tc_resample_columns_s8_t", fields), geometry)


def of_taps(site: Site, p: ResampleColumns) -> Units:
    """Taps of all elements, elements, pixels and rows."""
    _, height, _, channels = site.x().shape
    taps, pixels = height * sum(map(len, p.taps.weights)), height * len(p.taps.firsts)
    return {"tap": taps * channels, "element": pixels * channels, "pixel": pixels, "line": height}


def table_bytes(site: Site, p: ResampleColumns) -> int:
    """Of the weights, and of what says where each pixel begins."""
    return 4 * sum(map(len, p.taps.weights)) + 12 * len(p.taps.firsts)


cost = CountedCost("tc_resample_columns_s8", of_taps, flash=table_bytes)


def row_forms(site: Site, p: ResampleColumns) -> tuple[RowForm, ...]:
    """Row by row."""
    height = site.x().shape[1]
    rows = Rows(height, height, 1, 1, 0, 1, row_bytes(site.x()), row_bytes(site.y()), None)
    return (RowForm(_call(site, p, 1, rows), 0, cost(site, p), direct=True),)


OP = Op(
    name="resample_columns",
    attrs=ResampleColumns,
    infer=infer,
    float_ref=no_reals,
    prepare=prepare,
    int_ref=int_ref,
    quant_in=(Unquantized(),),
    quant_out=(SameAs(0),),
    kernels=(Kernel("tc_resample_columns_s8", offered(lower, cost=cost, row_forms=row_forms), anywhere=True),),
)
