# SPDX-License-Identifier: Apache-2.0
"""What the signal operators share: integers that stand for themselves, the checks of their tensors, their costs.

Those called `signal_` are the custom operators that TensorFlow Lite Micro registers under names that begin with
`Signal`, and what they compute are its integers; those called `spectrum` are our own, for features that are declared.
None of their tensors has a scale: an int16 sample is a count, and so is an energy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from tinyc.base.errors import TinycError
from tinyc.ir.graph import Array, DType, Quant, Value

COUNT = Quant((1.0,), (0,))  # of int8 and int16 tensors whose integers stand for themselves
MOST_BITS = 31  # that any of these operators shifts by
Ints = npt.NDArray[np.int64]


def no_reals(a: Any, *arrays: Array | None) -> tuple[Array, ...]:
    """`Op.float_ref` of operators that are defined in integers alone."""
    raise TinycError(
        f"{type(a).__name__} computes with integers only, not with floats",
        hint="with floats behind it the model is built with --precision float32: its integers stay integers",
    )


def need(value: Value, what: str, *dtypes: DType) -> None:
    """Raise TinycError unless the tensor has one of the dtypes; `what` it is, for the message."""
    if value.dtype not in dtypes:
        raise TinycError(f"{what} '{value.name}' is {value.dtype}; the operator takes {' or '.join(dtypes)}")


def need_length(value: Value, what: str, length: int) -> None:
    """Raise TinycError unless the tensor has so many elements."""
    if value.elements != length:
        raise TinycError(f"{what} '{value.name}' has {value.elements} elements, not {length}")


def need_between(what: str, number: int, least: int, most: int) -> None:
    """Raise TinycError unless least <= number <= most."""
    if not least <= number <= most:
        raise TinycError(f"{what} is {number}; it must lie in [{least}, {most}]")


def of_lines(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """A function of arrays [n, lines] -> [m, lines] as one of arrays [..., n] -> [..., m]: what is done to many lines
    at once is quickest where the same element of all of them lies together."""

    def along_last(x: Array) -> Array:
        lines = np.ascontiguousarray(x.reshape(-1, x.shape[-1]).T)
        return np.ascontiguousarray(function(lines).T).reshape(*x.shape[:-1], -1)

    return along_last


def bit_length(v: Array) -> Ints:
    """Position of the highest set bit counted from 1, and 0 for 0; exact below 2^53."""
    exponents: Ints = np.frexp(v.astype(np.float64))[1].astype(np.int64)
    return exponents
