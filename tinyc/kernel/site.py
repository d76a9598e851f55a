# SPDX-License-Identifier: Apache-2.0
"""A node with its values at hand, and the words that attributes and kernels share: pairs, padding, activations."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics, Rounding
from tinyc.base.requantize import quantize_array
from tinyc.ir.graph import INT_RANGE, Array, DType, Graph, Node, Shape, Value
from tinyc.machine.cores import CORTEX_M4, Core


class Pair(NamedTuple):
    """(height, width)."""

    h: int
    w: int


class Padding(NamedTuple):
    """Rows and columns added around an image, explicit: `auto_pad` and SAME end in the loaders."""

    top: int
    left: int
    bottom: int
    right: int


class Act(NamedTuple):
    """A fused activation: y = min(max(y, lo), hi), in real values. RELU is (0, inf), RELU6 (0, 6)."""

    lo: float = -np.inf
    hi: float = np.inf

    def range_of(self, y: Value) -> tuple[int, int]:
        """The integer clamp in y's quantization; [-128, 127] for s8 and no activation."""
        if y.quant is None:
            raise TinycError(f"'{y.name}' has no quantization")
        scale, zero = y.quant.per_tensor
        qmin, qmax = INT_RANGE[y.dtype]
        lo = qmin if self.lo == -np.inf else int(quantize_array(self.lo, scale, zero, qmin, qmax))
        hi = qmax if self.hi == np.inf else int(quantize_array(self.hi, scale, zero, qmin, qmax))
        return lo, hi

    @property
    def scales(self) -> bool:
        """Whether act(s*y) = s*act(y) for every s > 0: relu, or none."""
        return self.lo in (0.0, -np.inf) and self.hi == np.inf

    def clip(self, y: Array) -> Array:
        """The activation of real values, as float32."""
        return np.clip(y, np.float32(self.lo), np.float32(self.hi)).astype(np.float32)

    def __str__(self) -> str:
        names = {
            (-np.inf, np.inf): "",
            (0.0, np.inf): "relu",
            (0.0, 6.0): "relu6",
            (-1.0, 1.0): "relu_n1_to_1",
        }
        return names.get((self.lo, self.hi), f"clip[{self.lo:g}, {self.hi:g}]")


RELU = Act(0.0)

RELU6 = Act(0.0, 6.0)


@dataclass(frozen=True, slots=True)
class Type:
    """What `infer` says of an output."""

    shape: Shape
    dtype: DType


@dataclass(frozen=True, slots=True)
class Site:
    """A node with its values at hand: what `prepare`, kernel conditions and `lower` look at. core: by whose rules
    functions in assembly are written and timed. isa: its features, which say what loops that all cores have come to."""

    graph: Graph
    node: Node
    numerics: Numerics
    core: Core = CORTEX_M4
    isa: frozenset[str] = frozenset({"thumb2"})

    @property
    def attrs(self) -> Any:
        return self.node.attrs

    @property
    def has_window(self) -> bool:
        """Whether the operator goes over an image, from window to window."""
        return hasattr(self.attrs, "stride")

    @property
    def rounding(self) -> Rounding:
        return self.numerics.rounding

    @property
    def builtin_rounding(self) -> Rounding:
        """The rule of operators that desktop LiteRT does not hand to XNNPACK: its own kernels round twice."""
        return Rounding.DOUBLE if self.numerics in (Numerics.TFLM, Numerics.LITERT) else Rounding.SINGLE

    def has(self, index: int) -> bool:
        """Whether optional input `index` is there."""
        return index < len(self.node.inputs) and self.node.inputs[index] != ""

    def x(self, index: int = 0) -> Value:
        return self.graph.values[self.node.inputs[index]]

    def y(self, index: int = 0) -> Value:
        return self.graph.values[self.node.outputs[index]]

    def is_const(self, index: int) -> bool:
        return self.has(index) and self.node.inputs[index] in self.graph.consts

    def const(self, index: int) -> Array:
        return self.graph.consts[self.node.inputs[index]]

    def scale_zero(self, value: Value) -> tuple[float, int]:
        """Scale and zero point of a per-tensor quantized value; TinycError if it has none."""
        if value.quant is None or value.quant.axis is not None or len(value.quant.scale) != 1:
            raise TinycError(f"'{value.name}' ({value.dtype}) needs one scale and one zero point", self.node.where)
        return value.quant.per_tensor


def elementwise(site: Site) -> bool:
    """`Op.rowwise` of elementwise operators: no constant differs from row to row."""
    consts = [site.x(i).shape for i in range(len(site.node.inputs)) if site.is_const(i)]
    return all(len(shape) < 3 or shape[-3] == 1 for shape in consts)


def along_channels(site: Site) -> bool:
    """`Op.rowwise` of operators along the last axis: the channels of each pixel."""
    return len(site.x().shape) == 4


# ---- conditions of kernels, which say what the user reads ----


def s8_to_s8(site: Site) -> bool:
    """int8 input and output"""
    return (site.x().dtype, site.y().dtype) == ("s8", "s8")


def s16_to_s16(site: Site) -> bool:
    """int16 input and output"""
    return (site.x().dtype, site.y().dtype) == ("s16", "s16")
