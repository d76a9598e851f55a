# SPDX-License-Identifier: Apache-2.0
"""function: y = f(x) element by element, for functions that the int8 model needs only as a table of 256 bytes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from tinyc.base import float32
from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.base.float32 import Floats
from tinyc.base.numerics import Numerics
from tinyc.ir.graph import Array, Value
from tinyc.kernel.float32 import Float32
from tinyc.kernel.kernel import Condition
from tinyc.kernel.site import Site, Type, elementwise
from tinyc.kernels.float32 import elementwise as elementwise_f32
from tinyc.ops.op import Observed, Op, Trait
from tinyc.ops.tables import TABLE_KERNELS, Table, float_table, need_bytes, real_table
from tinyc.ops.tables16 import TABLE16_KERNEL, Interpolated, interpolated, is_s16, look_up_wide

SELU_ALPHA, SELU_SCALE = 1.67326319217681884765625, 1.05070102214813232421875  # as ONNX defines them
_LARGEST = 700.0  # exp of more is no double


@dataclass(frozen=True, slots=True)
class Function:
    """name: a key of FUNCTIONS. alpha: of celu, elu, swish and thresholded_relu."""

    name: str
    alpha: float = 1.0


def _exp(x: float) -> float:
    return math.exp(min(x, _LARGEST))


def _log(x: float) -> float:
    return math.log(x) if x > 0 else -math.inf


def _gelu_tanh(x: float) -> float:
    return 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def _softplus(x: float) -> float:
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


FUNCTIONS: Mapping[str, Callable[[float, float], float]] = MappingProxyType(
    {
        "acos": lambda x, alpha: math.acos(x),
        "acosh": lambda x, alpha: math.acosh(x),
        "asin": lambda x, alpha: math.asin(x),
        "asinh": lambda x, alpha: math.asinh(x),
        "atan": lambda x, alpha: math.atan(x),
        "atanh": lambda x, alpha: math.atanh(x) if abs(x) != 1 else math.copysign(math.inf, x),
        "ceil": lambda x, alpha: float(math.ceil(x)),
        "celu": lambda x, alpha: x if x >= 0 else alpha * math.expm1(min(x / alpha, _LARGEST)),
        "cos": lambda x, alpha: math.cos(x),
        "cosh": lambda x, alpha: math.cosh(min(abs(x), _LARGEST)),
        "elu": lambda x, alpha: x if x >= 0 else alpha * math.expm1(x),
        "erf": lambda x, alpha: math.erf(x),
        "exp": lambda x, alpha: _exp(x),
        "floor": lambda x, alpha: float(math.floor(x)),
        "gelu": lambda x, alpha: 0.5 * x * (1 + math.erf(x / math.sqrt(2))),
        "gelu_tanh": lambda x, alpha: _gelu_tanh(x),
        "log": lambda x, alpha: _log(x),
        "mish": lambda x, alpha: x * math.tanh(_softplus(x)),
        "round": lambda x, alpha: float(round(x)),
        "selu": lambda x, alpha: SELU_SCALE * (x if x >= 0 else SELU_ALPHA * math.expm1(x)),
        "sign": lambda x, alpha: math.copysign(1.0, x) if x else 0.0,
        "sin": lambda x, alpha: math.sin(x),
        "sinh": lambda x, alpha: math.copysign(math.sinh(min(abs(x), _LARGEST)), x),
        "softplus": lambda x, alpha: _softplus(x),
        "softsign": lambda x, alpha: x / (1 + abs(x)),
        "swish": lambda x, alpha: x / (1 + _exp(-alpha * x)),
        "tan": lambda x, alpha: math.tan(x),
        "thresholded_relu": lambda x, alpha: x if x > alpha else 0.0,
    }
)
# Where a function is defined. An integer just beyond stands for the end: a range is rounded up to whole steps.
DOMAINS: Mapping[str, tuple[float, float]] = MappingProxyType(
    {
        **dict.fromkeys(("acos", "asin"), (-1.0, 1.0)),
        **{"acosh": (1.0, math.inf), "atanh": (2.0**-24 - 1, 1 - 2.0**-24)},
    }
)


def infer(a: Function, x: Value) -> Sequence[Type]:
    if a.name not in FUNCTIONS or not math.isfinite(a.alpha) or (a.name == "celu" and a.alpha == 0):
        raise TinycError(f"function '{a.name}' with alpha {a.alpha} cannot be compiled")
    return [Type(x.shape, x.dtype)]


def float_ref(a: Function, x: Array) -> tuple[Array, ...]:
    f = FUNCTIONS[a.name]
    with np.errstate(over="ignore"):
        reals = [_value(f, float(v), a.alpha) for v in x.ravel()]
        return (np.array(reals, np.float64).astype(np.float32).reshape(x.shape),)


def _value(f: Callable[[float, float], float], x: float, alpha: float) -> float:
    """f(x), also of what is not finite: infinity is rounded to itself, and its sine is not a number."""
    if math.isnan(x):
        return x
    try:
        return f(x, alpha)
    except OverflowError:
        return x
    except ValueError:
        return math.nan


def _gelu_tanh_f32(x: Floats, alpha: np.float32) -> Array:
    inner = np.float32(0.7978845608028654) * float32.fma(np.float32(0.044715) * x, x * x, x)
    return (np.float32(0.5) * x) * (np.float32(1) + float32.tanh(inner))


def _selu_f32(x: Floats, alpha: np.float32) -> Array:
    below = np.float32(SELU_ALPHA) * float32.expm1(x)
    return np.float32(SELU_SCALE) * np.where(x >= 0, x, below)


def _gelu_f32(x: Floats, alpha: np.float32) -> Array:
    return (np.float32(0.5) * x) * (np.float32(1) + float32.erf(x * np.float32(math.sqrt(0.5))))


# As the kernels tc_<name>_f32 compute them.
EXACT: Mapping[str, Callable[[Floats, np.float32], Array]] = MappingProxyType(
    {
        "acos": lambda x, alpha: float32.acos(x),
        "acosh": lambda x, alpha: float32.acosh(x),
        "asin": lambda x, alpha: float32.asin(x),
        "asinh": lambda x, alpha: float32.asinh(x),
        "atan": lambda x, alpha: float32.atan(x),
        "atanh": lambda x, alpha: float32.atanh(x),
        "ceil": lambda x, alpha: -float32.floor(-x),
        "celu": lambda x, alpha: np.where(x >= 0, x, alpha * float32.expm1(np.asarray(x / alpha))),
        "cos": lambda x, alpha: float32.sin_or_cos(x, 1),
        "cosh": lambda x, alpha: float32.cosh(x),
        "elu": lambda x, alpha: np.where(x >= 0, x, alpha * float32.expm1(x)),
        "erf": lambda x, alpha: float32.erf(x),
        "exp": lambda x, alpha: float32.exp(x),
        "floor": lambda x, alpha: float32.floor(x),
        "gelu": _gelu_f32,
        "gelu_tanh": _gelu_tanh_f32,
        "log": lambda x, alpha: float32.log(x),
        "mish": lambda x, alpha: x * float32.tanh(float32.softplus(x)),
        "round": lambda x, alpha: float32.round_half_even(x),
        "selu": _selu_f32,
        "sign": lambda x, alpha: np.where(x > 0, np.float32(1), np.where(x < 0, np.float32(-1), x)),
        "sin": lambda x, alpha: float32.sin_or_cos(x, 0),
        "sinh": lambda x, alpha: float32.sinh(x),
        "softplus": lambda x, alpha: float32.softplus(x),
        "softsign": lambda x, alpha: x / (np.float32(1) + np.abs(x)),
        "swish": lambda x, alpha: x * float32.sigmoid(alpha * x),
        "tan": lambda x, alpha: float32.tan(x),
        "thresholded_relu": lambda x, alpha: np.where(x > alpha, x, np.float32(0)),
    }
)


def exact_float(a: Function, x: Array) -> tuple[Array, ...]:
    """As the kernels compute it."""
    with np.errstate(all="ignore"):
        return (np.asarray(EXACT[a.name](x, np.float32(a.alpha)), np.float32),)


def _is(name: str) -> Condition:
    def condition(site: Site) -> bool:
        return bool(site.attrs.name == name)

    condition.__doc__ = f"the function {name}"
    return condition


FLOAT_KERNELS = tuple(elementwise_f32.unary(name, _is(name)) for name in EXACT)


def prepare(site: Site) -> Table | Interpolated:
    attrs: Function = site.attrs
    lo, hi = DOMAINS.get(attrs.name, (-math.inf, math.inf))
    if is_s16(site):
        f = FUNCTIONS[attrs.name]
        return interpolated(site, lambda x: np.array([_value(f, float(v), attrs.alpha) for v in np.clip(x, lo, hi)]))
    need_bytes(site)
    if site.numerics is Numerics.ONNX or attrs.name == "log":  # -inf is the least integer
        return real_table(site, lambda x: float_ref(attrs, np.clip(x, lo, hi))[0])
    return float_table(site, lambda x: FUNCTIONS[attrs.name](min(max(x, lo), hi), attrs.alpha))


OP = Op(
    name="function",
    attrs=Function,
    infer=infer,
    float_ref=float_ref,
    prepare=prepare,
    int_ref=look_up_wide,
    quant_in=(Observed(),),
    quant_out=(Observed(),),
    kernels=(*TABLE_KERNELS, TABLE16_KERNEL, *FLOAT_KERNELS),
    rowwise=elementwise,
    traits=frozenset({Trait.ELEMENTWISE, Trait.INT16}),
    float32=Float32(exact_float),
)
