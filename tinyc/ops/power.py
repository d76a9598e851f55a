# SPDX-License-Identifier: Apache-2.0
"""power: y = x^exponent for a constant exponent: square roots, their inverses, squares. A table of 256 bytes.

Where x^exponent is not a finite real (a root of a negative number, the inverse of 0), the float operator gives what
numpy does, and the integers the output's largest.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from tinyc.base import float32
from tinyc.base.dataclass import dataclass
from tinyc.base.fixedpoint import inverse_root
from tinyc.base.numerics import Numerics, Rounding
from tinyc.base.requantize import quantize_multiplier, requantize
from tinyc.ir.graph import INT_RANGE, Array
from tinyc.kernel.counted import Units, counted_kernel, of_elements
from tinyc.kernel.float32 import Float32
from tinyc.kernel.kernel import Call, Const, In, Out, Params, Struct
from tinyc.kernel.site import Site, elementwise
from tinyc.kernel.types import in_float32
from tinyc.ops.op import Observed, Op, Trait
from tinyc.ops.tables import (
    TABLE_KERNELS,
    Table,
    dequantize_linear,
    make_table,
    need_bytes,
    quantize_linear,
    same_type,
)
from tinyc.ops.tables16 import TABLE16_KERNEL, Interpolated, interpolated, is_s16, look_up_wide

_Ints = npt.NDArray[np.int64]
_ROOT_BITS = 20  # of the fraction of an inverse root before it is scaled


@dataclass(frozen=True, slots=True)
class Power:
    exponent: float


def float_ref(a: Power, x: Array) -> tuple[Array, ...]:
    with np.errstate(all="ignore"):
        return (np.power(x.astype(np.float64), a.exponent).astype(np.float32),)


def lower_float(site: Site, p: Power) -> Call:
    """tc_power_f32: element by element."""
    e = p.exponent
    whole = float(e).is_integer() and abs(e) <= float32.MOST_FACTORS
    fields: dict[str, int | float | str] = {
        "n": site.y().elements,
        "kind": 1 if abs(e) == 0.5 else 0 if whole else 2,
        "times": abs(int(e)) if whole else 0,
        "inverted": int(e < 0 and (whole or e == -0.5)),
        "exponent": e,
    }
    return Call((Params(), In(0), Out()), Struct("tc_power_f32_t", fields))


def of_powers(site: Site, p: Power) -> Units:
    """Elements, by how they are computed: factors of all of them, square roots, or by logarithm and exponential."""
    n, e = site.y().elements, p.exponent
    if abs(e) == 0.5:
        return {"root": n}
    whole = float(e).is_integer() and abs(e) <= float32.MOST_FACTORS
    return {"element": n, "factor": n * abs(int(e))} if whole else {"any": n}


@dataclass(frozen=True, slots=True)
class WideRoot:
    """Square root of int16, a table of which would be coarse where x is small: n = 4 * x * x_scale / y_scale^2 by mult
    and shift, at most 2^32 - 1; y = floor(sqrt(n)) + 1 >> 1, of negative x the largest."""

    mult: int
    shift: int

    def run(self, x: Array) -> Array:
        n = (x.astype(np.int64) * self.mult) >> self.shift
        root = np.floor(np.sqrt(np.clip(n, 0, 2**32 - 1).astype(np.float64))).astype(np.int64)
        return np.where(x < 0, 32767, np.minimum((root + 1) >> 1, 32767)).astype(np.int16)


def _root(site: Site) -> WideRoot | None:
    """None where the scales leave no multiplier."""
    (x_scale, _), (y_scale, _) = site.scale_zero(site.x(0)), site.scale_zero(site.y())
    mult, shift = quantize_multiplier(4 * x_scale / y_scale**2)
    return WideRoot(mult, 31 - shift) if 1 <= 31 - shift <= 62 else None


def is_root_s16(site: Site) -> bool:
    """int16 input and output, zero points 0, exponent 0.5"""
    return is_s16(site) and site.attrs.exponent == 0.5 and _root(site) is not None


def is_other_s16(site: Site) -> bool:
    """int16 input and output, zero points 0, another exponent"""
    return is_s16(site) and not is_root_s16(site)


def lower_root(site: Site, p: WideRoot) -> Call:
    """tc_root_s16: element by element."""
    fields: dict[str, int | float | str | Const] = {"mult": p.mult, "shift": p.shift, "n": site.x(0).elements}
    return Call((Params(), In(0), Out()), Struct("tc_root_s16_t", fields))


def prepare(site: Site) -> Table | Interpolated | WideRoot:
    if is_s16(site):
        root = _root(site) if site.attrs.exponent == 0.5 else None
        return root or interpolated(site, lambda x: np.power(x, site.attrs.exponent))
    need_bytes(site)
    if site.attrs.exponent == -0.5 and site.numerics in (Numerics.TFLM, Numerics.LITERT):
        return _inverse_root(site)
    _, largest = INT_RANGE[site.y().dtype]

    def function(q: _Ints) -> _Ints:
        (real,) = float_ref(site.attrs, dequantize_linear(q, site.x(0)))
        return np.where(np.isfinite(real), quantize_linear(real, site.y()), largest)

    return make_table(site.x(0), site.y(), function)


def _inverse_root(site: Site) -> Table:
    """1 / sqrt(x) in the fixed point of TensorFlow Lite's int8 operator; negative inputs count as 0."""
    (x_scale, x_zero), (y_scale, y_zero) = site.scale_zero(site.x(0)), site.scale_zero(site.y())
    mult, shift = quantize_multiplier(float(np.float32(1) / (np.sqrt(np.float32(x_scale)) * np.float32(y_scale))))
    _, largest = INT_RANGE[site.y().dtype]

    def function(q: _Ints) -> _Ints:
        roots = [_inverse_root_of(int(v), mult, shift) + y_zero if v > 0 else largest for v in q - x_zero]
        return np.array(roots, np.int64)

    return make_table(site.x(0), site.y(), function)


def _inverse_root_of(v: int, mult: int, shift: int) -> int:
    root, down = inverse_root(v)
    fixed = int(requantize(1, root, _ROOT_BITS - down, Rounding.DOUBLE))
    return int(requantize(fixed, mult, shift - _ROOT_BITS, Rounding.DOUBLE))


def int_ref(p: Table | Interpolated | WideRoot, x: Array) -> tuple[Array, ...]:
    return (p.run(x),) if isinstance(p, WideRoot) else look_up_wide(p, x)


OP = Op(
    name="power",
    attrs=Power,
    infer=same_type,
    float_ref=float_ref,
    prepare=prepare,
    int_ref=int_ref,
    quant_in=(Observed(),),
    quant_out=(Observed(),),
    kernels=(
        *TABLE_KERNELS,
        replace(TABLE16_KERNEL, when=(is_other_s16,)),
        counted_kernel("tc_root_s16", lower_root, of_elements, when=(is_root_s16,), inplace=(0,)),
        counted_kernel("tc_power_f32", lower_float, of_powers, when=(in_float32,), inplace=(0,)),
    ),
    rowwise=elementwise,
    traits=frozenset({Trait.ELEMENTWISE, Trait.INT16}),
    float32=Float32(lambda a, x: (float32.power(x, a.exponent),)),
)
