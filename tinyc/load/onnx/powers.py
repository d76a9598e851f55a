# SPDX-License-Identifier: Apache-2.0
"""Pow with constant exponents: one, a few different ones, or one for each element."""

from __future__ import annotations

import numpy as np

from tinyc.base.errors import TinycError
from tinyc.ir.graph import NUMPY_DTYPE, Array, Value
from tinyc.load.onnx.importing import OnnxStep, imports, on_integers
from tinyc.ops.absolute import Absolute
from tinyc.ops.binary import broadcast_shape
from tinyc.ops.choose import Choose
from tinyc.ops.compare import Compare
from tinyc.ops.function import Function
from tinyc.ops.integer_binary import IntegerBinary
from tinyc.ops.mul import Mul
from tinyc.ops.power import Power
from tinyc.ops.reshape import Reshape

_FEW = 6  # different exponents, each of which is computed of all elements
_MOST_FACTORS = 31


def _exponents(s: OnnxStep) -> Array:
    """Finite, and no more than x has elements where they are all the same."""
    numbers, shape = s.constant(1), s.value(0).shape
    if numbers is None:
        raise TinycError("Pow with a computed exponent is not supported; only constants", s.where)
    exponents = numbers.astype(np.float32)
    if not np.isfinite(exponents).all():
        raise TinycError("Pow with exponents that are not finite", s.where)
    larger = exponents.size > 1 and broadcast_shape(shape, exponents.shape) != shape
    if larger and len(np.unique(exponents)) == 1:
        raise TinycError(
            f"Pow of {list(shape)} with equal exponents {list(exponents.shape)} cannot be compiled", s.where
        )
    return exponents


@imports("Pow")
def power(s: OnnxStep) -> None:
    """2 is a product, which rounds once for all magnitudes. Of many exponents, or a constant x, it is exp(e log x)."""
    bases = s.constant(0)
    if bases is not None and s.constant(1) is None:
        if not (bases > 0).all() or not np.isfinite(bases).all():
            raise TinycError(
                "Pow of constants that are not above 0 with a computed exponent cannot be compiled", s.where
            )
        logarithms = s.const(np.log(bases.astype(np.float64)), 0)
        s.emit([s.insert([s.value(1), logarithms], Mul(), "scaled")], Function("exp"))
        return
    exponents, x = _exponents(s), s.value(0)
    numbers = np.unique(exponents)
    if len(numbers) == 1:
        _emit_one(s, x, float(numbers[0]))
    elif len(numbers) <= _FEW:
        y = _one(s, x, float(numbers[0]), "of0")
        for k, number in enumerate(numbers[1:], 1):
            y = s.insert([_mask(s, exponents == number, f"is{k}"), _one(s, x, float(number), f"of{k}"), y],
                            Choose(), f"upto{k}")  # fmt: skip
        s.emit([y], Reshape(y.shape))
    else:
        _by_logarithms(s, x, exponents)


def _emit_one(s: OnnxStep, x: Value, number: float) -> None:
    if number == 1:
        s.emit([x], Reshape(x.shape))
    else:
        s.emit(*_raised(x, number))


def _one(s: OnnxStep, x: Value, number: float, what: str) -> Value:
    return x if number == 1 else s.insert(*_raised(x, number), what)


def _raised(x: Value, number: float) -> tuple[list[Value], Mul | Power]:
    """What is given to which operator."""
    return ([x, x], Mul()) if number == 2 else ([x], Power(number))


def _mask(s: OnnxStep, where: Array, what: str) -> Value:
    return s.builder.add_integers(f"{s.node.outputs[0]}:{what}", np.asarray(where, np.bool_), "bool")


def _by_logarithms(s: OnnxStep, x: Value, e: Array) -> None:
    """A negative number has a power where the exponent is whole, and a negative one where that is odd."""
    whole, odd, name = e == np.floor(e), np.abs(e) % 2 == 1, s.node.outputs[0]
    base = s.insert([_mask(s, whole, "whole"), s.insert([x], Absolute(), "size"), x], Choose(), "base")
    scaled = s.insert([s.insert([base], Function("log"), "log"), s.const(e, 1)], Mul(), "scaled")
    y = s.insert([scaled], Function("exp"), "exp")
    if odd.any():
        below = s.insert([x, s.builder.add_const(f"{name}:zero", np.zeros((), np.float32))], Compare("less"), "below")
        minus = s.insert([y, s.builder.add_const(f"{name}:minus", np.array(-1, np.float32))], Mul(), "minus")
        turned = s.insert([below, minus, y], Choose(), "turned")
        y = s.insert([_mask(s, odd, "odd"), turned, y], Choose(), "signed")
    one = s.builder.add_const(f"{name}:one", np.ones((), np.float32))
    s.emit([_mask(s, e == 0, "none"), one, y], Choose())


@on_integers("Pow")
def power_of_integers(s: OnnxStep) -> None:
    """As products, of a few whole exponents from 0 on."""
    exponents, x = _exponents(s), s.value(0)
    numbers = np.unique(exponents)
    if (numbers != np.floor(numbers)).any() or numbers[0] < 0 or numbers[-1] > _MOST_FACTORS or len(numbers) > _FEW:
        raise TinycError(f"Pow of {x.dtype} with exponents {numbers[:8].tolist()} cannot be compiled", s.where)
    one = s.builder.add_integers(f"{s.node.outputs[0]}:one", np.ones((), NUMPY_DTYPE[x.dtype]), x.dtype)
    y, powers, last = None, one, 0
    for k, number in enumerate(numbers):
        for factor in range(last, int(number)):
            powers = s.insert([x, powers], IntegerBinary("mul", x.dtype), f"power{factor + 1}")
        last = int(number)
        y = powers if y is None else s.insert([_mask(s, exponents == number, f"is{k}"), powers, y], Choose(),
                                                    f"upto{k}", quant=x.quant)  # fmt: skip
    assert y is not None
    s.emit([y], Reshape(y.shape))
