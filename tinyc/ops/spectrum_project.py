# SPDX-License-Identifier: Apache-2.0
"""spectrum_project: logarithms times constants, element by element or as a matrix (a cosine transform), to int8.

x int32 [C], factor int32 [J, C] or [C], offset int32 [J] -> int8 [J].

    q = sum(factor * x) + offset * 2^(bits - 16),  y = clamp(q / 2^bits, least, most)

rounded to nearest, halves up, or with `cuts` towards zero as a cast in C does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.ir.graph import Array, Value
from tinyc.kernel.counted import CountedCost, Units
from tinyc.kernel.kernel import Call, Const, In, Kernel, Out, Params, Struct, offered
from tinyc.kernel.site import Site, Type
from tinyc.ops.op import Op, Trait, Unquantized
from tinyc.ops.signals import need, need_between, need_length, no_reals
from tinyc.ops.spectrum_log import FRACTION

OFFSET_BITS = 16  # of an offset behind the point
MOST_SHIFT = 46
SUM_BITS = 31  # of all factors of a result together, without sign: the sum stays within 62 bits

Reals = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class SpectrumProject:
    bits: int
    least: int = -128
    most: int = 127
    cuts: bool = False


def infer(a: SpectrumProject, x: Value, factor: Value, offset: Value) -> Sequence[Type]:
    need(x, "the input", "s32")
    need(factor, "the factors", "s32")
    need(offset, "the offsets", "s32")
    need_between("the number of bits", a.bits, OFFSET_BITS, MOST_SHIFT)
    need_between("the least result", a.least, -128, a.most)
    need_between("the largest result", a.most, a.least, 127)
    if len(x.shape) != 1 or len(factor.shape) not in (1, 2) or factor.shape[-1] != x.elements:
        raise TinycError(f"factors {list(factor.shape)} of a tensor {list(x.shape)}: [results, C], or [C]")
    need_length(offset, "the offsets", factor.shape[0])
    return [Type((factor.shape[0],), "s8")]


@dataclass(frozen=True, slots=True)
class ProjectParams:
    bits: int
    least: int
    most: int
    cuts: bool


def prepare(site: Site) -> ProjectParams:
    """TinycError for factors that are computed, or whose sums could leave int64."""
    a = site.attrs
    if not site.is_const(1) or not site.is_const(2):
        raise TinycError("factors and offsets have to be constants", site.node.where)
    factor = np.abs(site.const(1).astype(np.int64))
    largest = int((factor.sum(axis=-1) if factor.ndim == 2 else factor).max())
    if largest >= 1 << SUM_BITS:
        raise TinycError(f"factors of a result add up to {largest}: below 2^{SUM_BITS}", site.node.where)
    return ProjectParams(a.bits, a.least, a.most, a.cuts)


def projected(p: ProjectParams, x: Array, factor: Array, offset: Array) -> Array:
    """int32 [lines, C] -> int8 [lines, J]."""
    wide, f = x.astype(np.int64), factor.astype(np.int64)
    sums = wide * f if f.ndim == 1 else wide @ f.T
    sums += offset.astype(np.int64) << (p.bits - OFFSET_BITS)
    half = 1 << (p.bits - 1)
    q = np.sign(sums) * (np.abs(sums) >> p.bits) if p.cuts else (sums + half) >> p.bits
    return np.clip(q, p.least, p.most).astype(np.int8)


def int_ref(p: ProjectParams, x: Array, factor: Array, offset: Array) -> tuple[Array, ...]:
    return (projected(p, x.reshape(1, -1), factor, offset)[0],)


def fixed_point(factor: Reals, offset: Reals) -> tuple[int, Array, Array]:
    """(bits, factors int32, offsets int32) of y = sum(factor * x / 2^20) + offset, as the operator has them; factor
    [J, C] or [C]. TinycError where the numbers leave their bits."""
    sums = np.abs(factor).sum(axis=-1) if factor.ndim == 2 else np.abs(factor)
    bits = min(SUM_BITS - 1 - math.ceil(math.log2(sums.max())), MOST_SHIFT - FRACTION)
    if bits < 0 or np.abs(offset).max() >= 1 << (31 - OFFSET_BITS):
        raise TinycError("logarithms times these factors leave the integers that they are computed in")
    factors = np.round(factor * 2.0**bits).astype(np.int32)
    return bits + FRACTION, factors, np.round(offset * (1 << OFFSET_BITS)).astype(np.int32)


def lower(site: Site, p: ProjectParams) -> Call:
    factor = site.const(1)
    fields: dict[str, int | float | str | Const] = {
        "factor": Const(factor, "[results][n]" if factor.ndim == 2 else "[results]", "factor"),
        "offset": Const(site.const(2), "[results]", "offset"),
        "results": site.y().elements,
        "n": factor.shape[1] if factor.ndim == 2 else 1,
        "step": int(factor.ndim == 1),
        "bits": p.bits,
        "least": p.least,
        "most": p.most,
        "cuts": int(p.cuts),
    }
    return Call((Params(), In(0), Out()), Struct("tc_spectrum_project_t", fields))


def macs(site: Site) -> int:
    return site.x(1).elements


def of_results(site: Site, p: ProjectParams) -> Units:
    """Products, and results."""
    return {"product": site.x(1).elements, "result": site.y().elements}


def table_bytes(site: Site, p: ProjectParams) -> int:
    return 4 * (site.x(1).elements + site.x(2).elements)


OP = Op(
    name="spectrum_project",
    attrs=SpectrumProject,
    infer=infer,
    float_ref=no_reals,
    prepare=prepare,
    int_ref=int_ref,
    quant_in=(Unquantized(),),
    quant_out=(Unquantized(own=True),),
    kernels=(
        Kernel(
            "tc_spectrum_project",
            offered(lower, cost=CountedCost("tc_spectrum_project", of_results, flash=table_bytes)),
        ),
    ),
    macs=macs,
    traits=frozenset({Trait.ANY_TYPE}),
)
