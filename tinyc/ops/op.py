# SPDX-License-Identifier: Apache-2.0
"""What an operator is: one file of this folder defines one `OP` (see conv2d.py for the pattern)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tinyc.ir.graph import Array
from tinyc.kernel.kernel import Kernel
from tinyc.kernel.site import Site, Type


@dataclass(frozen=True, slots=True)
class Observed:
    """Quantized by the range that calibration saw; per index of `axis` and symmetric for weights."""

    axis: int | None = None
    symmetric: bool = False


@dataclass(frozen=True, slots=True)
class SameAs:
    """Shares scale and zero point with input `index`: the operator moves values, it computes none."""

    index: int = 0


@dataclass(frozen=True, slots=True)
class Fixed:
    """Always these: softmax and sigmoid use 1/256 and -128."""

    scale: float
    zero: int


@dataclass(frozen=True, slots=True)
class Bias:
    """int32 at scale x * w, zero point 0, per channel of the weights (inputs 0 and 1)."""


@dataclass(frozen=True, slots=True)
class Kept:
    """Not quantized: shapes, axes, float operators at the edge of the integer graph."""


QuantRule = Observed | SameAs | Fixed | Bias | Kept


@dataclass(frozen=True, slots=True)
class Op:
    """An operator. Functions, not methods, so that a file of ops/ reads top to bottom.

    infer(attrs, *values) -> Types of the outputs; TinycError when they do not fit together.
    float_ref(attrs, *arrays) -> outputs in float32: slow, obvious, the meaning of the operator.
    prepare(site) -> the integers that reference and kernels share (multipliers, tables, clamps).
    int_ref(params, *arrays) -> output arrays, the same integers as every C kernel, bit for bit.
    macs(site) -> multiply-accumulates of one inference. quant: rules for the inputs, then outputs;
    the last rule holds for all further inputs.
    view: the output is the input's bytes (reshape): no kernel runs. rowwise(site): row r of the output
    [1,H,W,C] depends on row r of the inputs alone, so that a kernel may be called for an image of one row.
    updates: pairs (output, input) of a state: every kernel of the operator may write the output over the input.
    Absent optional inputs are passed as None.
    """

    name: str
    attrs: type
    infer: Callable[..., Sequence[Type]]
    float_ref: Callable[..., tuple[Array, ...]]
    prepare: Callable[[Site], Any]
    int_ref: Callable[..., tuple[Array, ...]]
    quant_in: tuple[QuantRule, ...]
    quant_out: tuple[QuantRule, ...]
    kernels: tuple[Kernel, ...]
    macs: Callable[[Site], int] = lambda site: 0
    view: bool = False
    rowwise: Callable[[Site], bool] = lambda site: False
    updates: tuple[tuple[int, int], ...] = ()
