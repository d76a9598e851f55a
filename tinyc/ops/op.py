# SPDX-License-Identifier: Apache-2.0
"""What an operator is: one file of this folder defines one `OP` (see conv2d.py for the pattern)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt

from tinyc.base.dataclass import dataclass
from tinyc.ir.graph import Array, Node, Value
from tinyc.kernel.float32 import Float32
from tinyc.kernel.kernel import Kernel, Tiled
from tinyc.kernel.site import Site, Type
from tinyc.kernel.types import in_float32
from tinyc.ops.batched import Batched


@dataclass(frozen=True, slots=True)
class Observed:
    """Quantized by the range that calibration saw; per index of `axis` and symmetric for weights.

    beside: the input with other weights of the same accumulators: the scales of both have one ratio at every index.
    """

    axis: int | None = None
    symmetric: bool = False
    beside: int | None = None


@dataclass(frozen=True, slots=True)
class SameAs:
    """Shares scale and zero point with input `index`: the operator moves values, it computes none."""

    index: int = 0


@dataclass(frozen=True, slots=True)
class Fixed:
    """Always these: softmax and sigmoid use 1/256 and -128.

    at_output: scale and zero point of a value that is an output of the model, if no other format has to hold it. With
    1/255 a softmax reaches 1; with TensorFlow Lite's 1/256 an output that is certain errs by a step.
    """

    scale: float
    zero: int
    at_output: tuple[float, int] | None = None


@dataclass(frozen=True, slots=True)
class Bias:
    """int32 at scale x * w, zero point 0, per channel of the weights (inputs 0 and 1)."""


@dataclass(frozen=True, slots=True)
class Unquantized:
    """Not quantized: shapes, axes, float operators at the edge of the integer graph.

    own: the integer operator says itself what the integers of its output mean: indices, truth values, another scale.
    """

    own: bool = False


@dataclass(frozen=True, slots=True)
class InUnits:
    """The integers of input 0 in other units: `attrs.quant_of(its quantization)`."""


QuantRule = Observed | SameAs | Fixed | Bias | Unquantized | InUnits


class Trait(Enum):
    """What passes, quantizer, planner and exporters ask of an operator, never its name."""

    MOVES = "every element of the output is one of the inputs' (or a constant): nothing is computed"
    SELECTS = "every element of the output is one of the input's, chosen by their order"
    ELEMENTWISE = "every element is computed from the one at its place alone; further inputs only say how"
    BROADCASTS = "every element is computed from those at its place; the smaller tensors are repeated as numpy does"
    REDUCES = "makes one element of all along the axes attrs.axes, which stay with size 1 if attrs.keep_dims"
    LAST_AXIS = "works along the last axis alone"
    MONOTONE = "no element of the output falls when one of an input rises"
    FUSES_CLIP = "attrs.act is an activation that its kernels apply to what they compute"
    ANY_SCALES = "its integer form takes inputs and output of any scales"
    ONE_SCALE = "its integer form computes, and keeps its input's scale and zero point"
    INT16 = "has kernels for int16 activations"
    ANY_TYPE = "takes whatever element type its inputs have, or says itself what it takes"
    SAMPLES = "its first input is a signal in [-1, 1), which is int16 whatever the width of its output is"
    ALL_AT_ONCE = "reads all of its input for every element of the output"
    RESCALES = "gives the reals of its input in integers of another scale or width, and is no layer of its own"
    SHARES = "makes shares that add up to 1 of scores, which tell an error better than the shares do"
    SAYS_WIDTH = "attrs.dtype is the width of its output, whatever integers its inputs have"


@dataclass(frozen=True, slots=True)
class SomeNodes:
    """The nodes with attributes of a class of which something is true."""

    attrs: type
    test: Callable[[Node], bool]


@dataclass(frozen=True, slots=True)
class WeightRules:
    """Input 1 holds the weights of sums of products, input 2 (optional) a bias per output channel.

    per_input(w, channels): one number per input channel, as it broadcasts against the weights.
    groups(attrs, in_c): how many groups of input channels there are, each read by output channels of its own.
    as_rows(w, groups) -> [G, O/G, K], a row of taps for every output channel; from_rows(rows, shape): the way back.
    windows(attrs, w, x, at) -> [G, windows, K] of samples (`batched.py`), taps as in the rows; at: which of all
    samples' windows, None for every one.
    """

    per_input: Callable[[Array, Array], npt.NDArray[np.float64]]
    groups: Callable[[Any, int], int]
    windows: Callable[[Any, Array, Array, npt.NDArray[np.int64] | None], Array]
    as_rows: Callable[[Array, int], Array]
    from_rows: Callable[[Array, tuple[int, ...]], Array]


Channels = npt.NDArray[np.int64]


def same_channels(attrs: Any, x: Value, y: Value) -> Channels | None:
    """`Op.channels` of operators whose output channel c is made from channel c of the input."""
    return np.arange(y.channels) if x.channels == y.channels else None


@dataclass(frozen=True, slots=True)
class Op:
    """An operator. Functions, not methods, so that a file of ops/ reads top to bottom. Absent optional inputs are
    passed as None."""

    name: str
    attrs: type
    infer: Callable[..., Sequence[Type]]  # (attrs, *values): of the outputs; TinycError where they do not fit together
    float_ref: Callable[..., tuple[Array, ...]]  # (attrs, *arrays): in float32, slow, obvious: what the operator means
    prepare: Callable[[Site], Any]  # the integers that reference and kernels share: multipliers, tables, clamps
    int_ref: Callable[..., tuple[Array, ...]]  # (params, *arrays): the same integers as every C kernel, bit for bit
    quant_in: tuple[QuantRule, ...]  # of the inputs; the last rule holds for all further ones
    quant_out: tuple[QuantRule, ...]
    kernels: tuple[Kernel | Tiled, ...]  # best first where costs are equal
    macs: Callable[[Site], int] = lambda site: 0  # multiply-accumulates of one inference
    view: bool = False  # the output is the input's bytes (reshape): no kernel runs
    part: Callable[[Site], int | None] | None = None  # the output is a run of the input's bytes, from this one on
    stacks: Callable[[Site], bool] | None = None  # the output is the inputs, one after the other
    # Row r of the output [1,H,W,C] depends on row r of the inputs alone: a kernel may be called for one row.
    rowwise: Callable[[Site], bool] = lambda site: False
    updates: tuple[tuple[int, int], ...] = ()  # of a state, (output, input): the first may be written over the second
    traits: frozenset[Trait] = frozenset()  # what other stages may rely on
    weights: WeightRules | None = None  # of layers whose constants may be changed before they are compiled
    # (attrs, x, y) -> [C of y]: which channel (last axis) of input x each channel of y is made from; None where it is
    # made from others too. Without the function each is.
    channels: Callable[[Any, Value, Value], Channels | None] | None = None
    scales: Callable[[Any], bool] = lambda attrs: (
        False
    )  # f(s*x) = s*f(x) for every s > 0: channels may be scaled before
    # What its kernels compute between float32 tensors, to the bit; None: the operator moves values, for which float_ref
    # says it, or has no such kernels.
    float32: Float32 | None = None
    batched: Batched = Batched()  # the same over many samples at once, and its derivative: for the quantizer

    @property
    def every_kernel(self) -> tuple[Kernel, ...]:
        """One after the other, those of tiles too."""
        tiles = (kernel.tiles if isinstance(kernel, Tiled) else (kernel,) for kernel in self.kernels)
        return tuple(itertools.chain.from_iterable(tiles))

    def prepared(self, site: Site) -> Any:
        """What reference and kernels share at this node: of integers, or between float32 tensors."""
        if self.float32 is not None and in_float32(site):
            return self.float32.prepare(site)
        return self.prepare(site)

    def exact_ref(self, site: Site) -> Callable[..., tuple[Array, ...]]:
        """The function of `prepared(site)` and the inputs that every kernel at this node equals bit for bit."""
        return self.float32.ref if self.float32 is not None and in_float32(site) else self.int_ref

    @property
    def sums_products(self) -> bool:
        """Whether the inputs are activations, weights and bias, and the output is their sums of products."""
        return isinstance(self.quant_in[-1], Bias) and len(self.quant_in) == 3

    @property
    def out_axis(self) -> int:
        """The axis of the weights (input 1) that is the output channel, for operators that `sums_products`."""
        rule = self.quant_in[1]
        assert isinstance(rule, Observed)
        assert rule.axis is not None
        return rule.axis
