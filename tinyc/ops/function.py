# SPDX-License-Identifier: Apache-2.0
"""function: y = f(x) element by element, for functions that the int8 model needs only as a table of 256 bytes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.ir.graph import Array, Value
from tinyc.kernel.site import Site, Type, elementwise
from tinyc.ops.op import Observed, Op, Trait
from tinyc.ops.tables import TABLE_KERNEL, Table, float_table, look_up, need_bytes, real_table

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
        "ceil": lambda x, alpha: float(math.ceil(x)),
        "celu": lambda x, alpha: x if x >= 0 else alpha * math.expm1(min(x / alpha, _LARGEST)),
        "cos": lambda x, alpha: math.cos(x),
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
        "softplus": lambda x, alpha: _softplus(x),
        "softsign": lambda x, alpha: x / (1 + abs(x)),
        "swish": lambda x, alpha: x / (1 + _exp(-alpha * x)),
        "thresholded_relu": lambda x, alpha: x if x > alpha else 0.0,
    }
)


def infer(a: Function, x: Value) -> Sequence[Type]:
    if a.name not in FUNCTIONS or not math.isfinite(a.alpha) or (a.name == "celu" and a.alpha == 0):
        raise TinycError(f"function '{a.name}' with alpha {a.alpha}")
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


def prepare(site: Site) -> Table:
    need_bytes(site)
    attrs: Function = site.attrs
    if site.numerics is Numerics.ONNX or attrs.name == "log":  # -inf is the least integer
        return real_table(site, lambda x: float_ref(attrs, x)[0])
    return float_table(site, lambda x: FUNCTIONS[attrs.name](x, attrs.alpha))


OP = Op(
    name="function",
    attrs=Function,
    infer=infer,
    float_ref=float_ref,
    prepare=prepare,
    int_ref=look_up,
    quant_in=(Observed(),),
    quant_out=(Observed(),),
    kernels=(TABLE_KERNEL,),
    rowwise=elementwise,
    traits=frozenset({Trait.ELEMENTWISE}),
)
