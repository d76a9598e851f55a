# SPDX-License-Identifier: Apache-2.0
"""recurrent: an LSTM or GRU over all steps of a sequence, in one loop with one copy of the weights.

x [T,I]; rows of weights w [U*G,I], bias [U*G] and recurrent weights r [U*G,U], the G gates of a unit side by side: i,
f, g, o of an LSTM, z, r, n of a GRU; the late bias [U] of a GRU; hidden [1,U]; cell [1,U] of an LSTM. The biases and
the states may be absent, which is zero. y [T,U], or the last step's [1,U].

    LSTM: i, f, o = logistic(w x + b + r hidden), g = tanh(w x + b + r hidden)
          cell = f * cell + i * g, hidden = o * tanh(cell)
    GRU:  z, r = logistic(w x + b + r hidden), n = tanh(w x + b + r * (r hidden + late))
          hidden = n + z * (hidden - n)

Hochreiter and Schmidhuber, "Long short-term memory" (1997), with forget gates; Cho et al., "Learning phrase
representations using RNN encoder-decoder" (2014), with the reset gate behind the product, as cuDNN and PyTorch have it.
`lstm` is TensorFlow Lite's layer, whose hidden state has 8 bits. Here only x, y and the weights do; see `Sums` and the
cells for what is inside.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tinyc.base import exact
from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Rounding
from tinyc.base.requantize import quantize_multiplier, requantize
from tinyc.ir.graph import INT_RANGE, Array, DType, Quant, Value
from tinyc.kernel.counted import CountedCost, Units
from tinyc.kernel.float32 import Float32
from tinyc.kernel.kernel import (
    Arg,
    Call,
    Condition,
    Const,
    Cost,
    In,
    Kernel,
    Offering,
    Out,
    Params,
    Scratch,
    SpecializedKernel,
    Struct,
    offered,
)
from tinyc.kernel.site import Site, Type
from tinyc.kernel.types import in_float32
from tinyc.kernel.windows import check_bias
from tinyc.kernels import recurrent as packed
from tinyc.kernels.float32 import recurrent_loop as loop_f32
from tinyc.kernels.mve import recurrent as vectors
from tinyc.kernels.nibbles import pack_nibbles
from tinyc.ops import gates
from tinyc.ops.batched import Batched
from tinyc.ops.op import Bias, Observed, Op, Trait, Unquantized

GATES = {"lstm": 4, "gru": 3}
_X, _W, _B, _R, _LATE, _HIDDEN, _CELL = range(7)  # inputs of the node
MEMORY = 20  # bits behind the point of the cell of an LSTM and of the hidden state that a GRU mixes
MOST_MEMORY = 2**30
ROWS_OF_W, ROWS_OF_R = (Observed(axis=0, symmetric=True, beside=index) for index in (3, 1))
_HIDDEN_BITS = 29  # bits behind the point of the hidden state that an LSTM makes
_MIDDLE = 1 << 14  # of tanh, in the table of logistic
_CANDIDATE = 2  # the row of a unit that goes through tanh
_OVER = 8  # lift of the rows that packed words have over others
_LIFTED = (0, 2)  # those of an LSTM; of a GRU the first
_PACKED: Mapping[DType, int] = {"s8": 2**23, "s4": 2**19}  # sums of products that packed words can take
_LEVELS: Mapping[DType, tuple[int, int]] = {"s8": (-127, 127), "s4": (-8, 7)}
_LEAST_POWER, _MOST_POWER = 24, 42  # what leaves 13 bits between places, and shifts below 32
_STRUCT = 184  # bytes of the parameters
_INT32 = 2**31
_SAME_STEP = 1 / 256  # by which steps may differ: half a step of 127 and less
_Ints = npt.NDArray[np.int64]
Fields = dict[str, int | float | str | Const]


@dataclass(frozen=True, slots=True)
class Recurrent:
    """reverse: steps run from the last row of x to the first. sequence: y has the hidden state of every step, row t
    that of row t of x; else that of the step that is last in time."""

    cell: Literal["lstm", "gru"]
    reverse: bool = False
    sequence: bool = True


def infer(a: Recurrent, x: Value, *rest: Value | None) -> Sequence[Type]:
    w, bias, r, late, hidden, cell = loop_f32.with_absent(rest)
    if w is None or r is None or len(x.shape) != 2 or len(r.shape) != 2:
        raise TinycError(f"{a.cell} of {list(x.shape)}: [steps, numbers] and weights are needed")
    rows, units = r.shape
    if rows != GATES[a.cell] * units or w.shape != (rows, x.shape[1]):
        raise TinycError(f"{a.cell} weights {list(w.shape)} and {list(r.shape)} do not fit input {list(x.shape)}")
    check_bias(bias, rows)
    check_bias(late, units)
    if (a.cell == "gru" and cell is not None) or (a.cell == "lstm" and late is not None):
        raise TinycError("a GRU has no cell, and an LSTM no late bias")
    if any(state is not None and state.elements != units for state in (hidden, cell)):
        raise TinycError(f"the states that {a.cell} begins with must have {units} numbers")
    return [Type((x.shape[0] if a.sequence else 1, units), x.dtype)]


def float_ref(a: Recurrent, x: Array, *rest: Array | None) -> tuple[Array, ...]:
    return (float_steps(a, x, *rest)[0],)


def float_steps(a: Any, x: Array, *rest: Array | None) -> tuple[Array, Array, Array]:
    """(y, hidden state and cell [U] after the step that is last in time); a: also of `recurrent_kept`."""
    *weights, hidden, cell = loop_f32.with_absent(rest)
    alone = (None if state is None else state[None] for state in (hidden, cell))
    y, h, c = _side_by_side(a, x[None], *weights, *alone)
    return y[0], h[0], c[0]


def forward(a: Recurrent, x: Array, *rest: Array | None) -> Array:
    """y [samples, T or 1, U]; what has no axis of samples is the same for all."""
    *weights, hidden, cell = loop_f32.with_absent(rest)
    samples = max(len(v) for v in (x, hidden, cell) if v is not None and v.ndim == 3)
    states = (None if state is None else _repeated(state, samples) for state in (hidden, cell))
    return _side_by_side(a, _repeated(x, samples), *weights, *states)[0]


def _repeated(v: Array, samples: int) -> Array:
    return v if v.ndim == 3 else np.stack([v] * samples)


def _side_by_side(
    a: Any, x: Array, w: Array | None, bias: Array | None, r: Array | None, late: Array | None, *states: Array | None
) -> tuple[Array, Array, Array]:
    """`float_steps` of samples [N,T,I], each as if it were alone: columns of the sums."""
    assert w is not None
    assert r is not None
    count, samples, clip = GATES[a.cell], len(x), getattr(a, "clip", 0.0)
    units = len(r) // count
    firsts = exact.product(x.reshape(-1, x.shape[-1]), w.T) + (0.0 if bias is None else bias)
    in_time = firsts.reshape(samples, -1, units, count).transpose(1, 3, 2, 0)
    behind = 0.0 if late is None else late[:, None]
    h, c = (np.zeros((units, samples)) if state is None else state.reshape(samples, units).T for state in states)
    rows = []
    for p in in_time[::-1] if a.reverse else in_time:
        q = exact.product(r, h).reshape(units, count, samples).transpose(1, 0, 2)
        if a.cell == "lstm":
            c = exact.logistic(p[1] + q[1]) * c + exact.logistic(p[0] + q[0]) * exact.tanh(p[2] + q[2])
            c = np.clip(c, -clip, clip) if clip else c
            h = exact.logistic(p[3] + q[3]) * exact.tanh(c)
        else:
            n = exact.tanh(p[2] + exact.logistic(p[1] + q[1]) * (q[2] + behind))
            h = n + exact.logistic(p[0] + q[0]) * (h - n)
        rows.append(h.T)
    y = np.ascontiguousarray(in_order(a, rows).transpose(1, 0, 2), np.float32)
    return y, np.asarray(h.T, np.float32), np.asarray(c.T, np.float32)


def in_order(a: Any, rows: Sequence[Array]) -> Array:
    """y of the hidden states in the order of time."""
    return np.stack(rows[::-1] if a.reverse and a.sequence else rows if a.sequence else rows[-1:])


@dataclass(frozen=True, slots=True)
class Sums:
    """The integer weights of a step: acc = bias + w (x in int16) + r (hidden in int16), in units that differ by row, of
    which factor and `power` say what they are: v = acc * 2^lift * factor / 2^16 is in steps of 1 / 2^(power - 16 +
    lift). Of the candidate of a GRU both sides come one by one, the second with its `late` bias.

    w int8 [rows,I]; r int8 [rows,U], of 4 bits in [-8, 7]; bias, factor int32 [rows]; late int32 [U] or None.
    x: (mult, add, shift).
    """

    w: Array
    r: Array
    bias: _Ints
    factor: _Ints
    late: _Ints | None
    power: int
    x: tuple[int, int, int]

    @property
    def under(self) -> int:
        """log2 of the steps of v in 1/8, of rows that are lifted by `lift`."""
        return self.power - 19 + self.lift

    @property
    def lift(self) -> int:
        """Of rows that are not lifted by 8, so that 13 bits are left between two places of the table."""
        return max(0, 32 - self.power)

    @property
    def over(self) -> int:
        return self.power - 19 + _OVER

    def input(self, x: Array) -> _Ints:
        """x as it is multiplied."""
        mult, add, shift = self.x
        return (x.astype(np.int64) * mult + add) >> shift

    def v(self, acc: _Ints, row: int, gate: int) -> _Ints:
        """What goes into the gate of each unit; row: within a unit, as factors have it."""
        factor = self.factor.reshape(-1, len(self.factor) // self.r.shape[1])[:, row]
        return ((acc << (_OVER if gate in _LIFTED else self.lift)) * factor) >> 16


@dataclass(frozen=True, slots=True)
class RecurrentParams:
    """Integers of the layer, the same for every kernel. attrs: a Recurrent, or the attributes of `recurrent_kept`.

    bits: behind the point of the hidden state that is multiplied, an int16: as many as the packed products of tc_dsp.h
    leave. y: (mult, add, shift) of the output, from Q0.29 of an LSTM or Q11.20 of a GRU. hidden, cell: from the states
    that the layer begins with.
    """

    attrs: Any
    sums: Sums
    bits: int
    y: tuple[int, int, int]
    y_range: tuple[int, int]
    hidden: Begin
    cell: Begin

    @property
    def down(self) -> int:
        """From the hidden state as it is made to what is multiplied."""
        return (_HIDDEN_BITS if self.attrs.cell == "lstm" else MEMORY) - self.bits

    def run(self, x: Array, hidden: Array | None, cell: Array | None) -> Array:
        return self.steps(x, hidden, cell)[0]

    def steps(self, x: Array, hidden: Array | None, cell: Array | None) -> tuple[Array, _Ints, _Ints]:
        """(y, what is multiplied next, memory after the last step)"""
        s, lstm = self.sums, self.attrs.cell == "lstm"
        units = s.r.shape[1]
        memory = self.hidden.read(hidden, units)
        h = _sat16(_rounded(memory, MEMORY - self.bits))
        memory = self.cell.read(cell, units) if lstm else memory
        firsts = s.bias + s.input(x) @ s.w.T.astype(np.int64)
        r = s.r.astype(np.int64)
        rows = []
        for first in firsts[::-1] if self.attrs.reverse else firsts:
            p, q = (sums.reshape(units, -1).T for sums in (first, r @ h))
            output, h, memory = (self._lstm if lstm else self._gru)(p, q, memory)
            mult, add, shift = self.y
            rows.append(np.clip((((output * mult) >> 16) + add) >> shift, *self.y_range))
        dtype = np.int8 if self.y_range[1] == 127 else np.int16
        return in_order(self.attrs, rows).astype(dtype), h, memory

    def _lstm(self, p: _Ints, q: _Ints, cell: _Ints) -> tuple[_Ints, _Ints, _Ints]:
        """(hidden state in Q0.29 and half a step of it, as it is multiplied, cell in Q11.20)"""
        s = self.sums
        i, f, g, o = (
            gates.on_chord(s.v(p[k] + q[k], k, k), s.over if k in _LIFTED else s.under) for k in range(GATES["lstm"])
        )
        half = ((cell * f) >> 16) + ((i * (g - _MIDDLE) + (1 << 10)) >> 10)
        cell = np.clip(2 * half, -_INT32, _INT32 - 1)
        hidden = o * (gates.on_chord(cell, 16) - _MIDDLE) + (1 << (self.down - 1))
        return hidden, hidden >> self.down, cell

    def _gru(self, p: _Ints, q: _Ints, memory: _Ints) -> tuple[_Ints, _Ints, _Ints]:
        """(hidden state in Q11.20, as it is multiplied, the first again)"""
        s = self.sums
        update = gates.on_chord(s.v(p[0] + q[0], 0, 0), s.over)
        reset = gates.on_chord(s.v(p[1] + q[1], 1, 1), s.under)
        late = 0 if s.late is None else s.late
        inner = s.v(p[2], 2, 1) + 2 * ((s.v(q[2] + late, 2, 1) * reset) >> 16)
        n = gates.on_chord(inner, s.under) - _MIDDLE
        memory = 2 * ((((memory - (n << 6)) * update) >> 16) + (n << 5)) + 1
        return memory, _sat16(_rounded(memory, self.down)), memory


@dataclass(frozen=True, slots=True)
class Begin:
    """From a state that is given to Q11.20: requantize(state - zero, mult, shift), within [-most, most]; a mult of 0
    where none is given."""

    mult: int = 0
    shift: int = 0
    zero: int = 0
    most: int = MOST_MEMORY

    def read(self, state: Array | None, units: int) -> _Ints:
        """[U]"""
        if state is None:
            return np.zeros(units, np.int64)
        moved = requantize(state.reshape(-1).astype(np.int64) - self.zero, self.mult, self.shift, Rounding.SINGLE)
        return np.asarray(np.clip(moved, -self.most, self.most), np.int64)


def _rounded(v: _Ints, down: int) -> _Ints:
    return (v + (1 << (down - 1))) >> down


def _sat16(v: _Ints) -> _Ints:
    return np.asarray(np.clip(v, -32768, 32767))


def prepare(site: Site) -> RecurrentParams:
    """TinycError for values that the integer layer does not take, or where a sum could leave its integer."""
    if not (is_integer(site) or is_narrow(site)):
        kinds = "int8 or int16 and constant weights of int8 or int4"
        raise TinycError(f"{site.attrs.cell} of {site.x(_X).dtype}: the integer layer takes {kinds}", site.node.where)
    hidden, most = _beginning(site, _HIDDEN)
    cell, _ = _beginning(site, _CELL)
    return loop_params(site, max(1.0, most), hidden, cell)


def _beginning(site: Site, index: int) -> tuple[Begin, float]:
    """How a state that is given begins, and how large it can be."""
    if not site.has(index):
        return Begin(), 0.0
    scale, zero = site.scale_zero(site.x(index))
    low, high = INT_RANGE[site.x(index).dtype]
    most = scale * max(high - zero, zero - low)
    if most * 2.0**MEMORY >= MOST_MEMORY:
        raise TinycError(f"the state '{site.x(index).name}' begins beyond 1024", site.node.where)
    return Begin(*quantize_multiplier(scale * 2.0**MEMORY), zero), most


def loop_params(site: Site, most: float, hidden: Begin, cell: Begin) -> RecurrentParams:
    """The integers of a layer whose hidden state never leaves [-most, most]."""
    rows = _joined(site)
    for bits in range(15, 0, -1):
        sums = rows.sums(site, bits, most)
        if sums is not None:
            break
    else:
        raise TinycError("the sums over the hidden state leave what the kernels can hold", site.node.where)
    lstm = site.attrs.cell == "lstm"
    half = 1 << (_HIDDEN_BITS - bits - 1) if lstm else 0
    y = _output(site, _HIDDEN_BITS if lstm else MEMORY, half)
    return RecurrentParams(site.attrs, sums, bits, y, INT_RANGE[site.y().dtype], hidden, cell)


def _output(site: Site, point: int, half: int) -> tuple[int, int, int]:
    """(mult, add, shift) from a hidden state with `point` bits behind the point, which `half` was added to."""
    scale, zero = site.scale_zero(site.y())
    factor = 2.0 ** (16 - point) / scale
    shift = min(14 - math.floor(math.log2(factor)), 22 if site.y().dtype == "s8" else 14)
    if shift < 1:
        raise TinycError("the output's scale is too small for the hidden state", site.node.where)
    mult = min(round(factor * 2.0**shift), 32767)
    return mult, (zero << shift) + (1 << (shift - 1)) - ((half * mult) >> 16), shift


@dataclass(frozen=True, slots=True)
class _Joined:
    """Weights of x and of the hidden state with one step for both, which differs by row: an accumulator takes either.

    w, r: reals [rows,...], w times `ratio`; step [rows]: of their integers; gain [rows]: of what goes into the gate.
    """

    w: npt.NDArray[np.float64]
    r: npt.NDArray[np.float64]
    ratio: float
    step: npt.NDArray[np.float64]
    gain: npt.NDArray[np.float64]

    def sums(self, site: Site, bits: int, most: float) -> Sums | None:
        """With so many bits of the hidden state; None if they are too many."""
        finest = 14 - math.floor(math.log2(float((self.step * self.gain).max())))
        power = min(finest, _MOST_POWER - 15) + bits
        factor = np.clip(np.rint(self.step * self.gain * 2.0 ** (power - bits)), 1, 32767)
        step = factor * 2.0 ** (bits - power) / self.gain
        levels = _LEVELS[site.x(_W).dtype]
        w, r = (np.clip(np.rint(part / step[:, None]), *levels).astype(np.int64) for part in (self.w, self.r))
        scale, zero = site.scale_zero(site.x(_X))
        x_factor = scale * 2.0**bits / self.ratio
        shift = 14 - math.floor(math.log2(x_factor))
        if power < _LEAST_POWER or not 1 <= shift <= 31:
            return None
        mult = min(round(x_factor * 2.0**shift), 32767)
        x = (mult, (1 << (shift - 1)) - zero * mult, shift)
        unit = step * 2.0**-bits
        bias = np.rint(_real_bias(site) / unit)
        late = np.rint(site.const(_LATE) / unit[2::3]) if site.has(_LATE) else None
        sums = Sums(w.astype(np.int8), r.astype(np.int8), bias, factor.astype(np.int64), late, power, x)
        return _proved(sums, site, most * 2.0**bits)


def _proved(sums: Sums, site: Site, most: float) -> Sums | None:
    """The sums, if all that they multiply fits int16 and none can leave the packed products."""
    ends = sums.input(np.array(INT_RANGE[site.x(_X).dtype]))
    if most > 2**15 or np.abs(ends).max() >= 2**15:
        return None
    w, back = sums.w.astype(np.float64), np.abs(sums.r.astype(np.float64)).sum(axis=1) * (most + 1)
    greatest = np.maximum(w * ends[0], w * ends[1]).sum(axis=1)
    least = np.minimum(w * ends[0], w * ends[1]).sum(axis=1)
    late = np.zeros(len(w)) if sums.late is None else np.repeat(np.abs(sums.late), 3)
    worst = np.maximum(np.abs(sums.bias + greatest), np.abs(sums.bias + least)) + back + late
    most_packed = _PACKED[site.x(_W).dtype]
    if max(worst.max(), (np.abs(sums.bias) + np.maximum(np.abs(greatest), np.abs(least))).max()) >= most_packed:
        return None
    late_bias = None if sums.late is None else sums.late.astype(np.int64)
    return replace(sums, bias=sums.bias.astype(np.int64), late=late_bias)


def _joined(site: Site) -> _Joined:
    scales = [_row_scales(site, index) for index in (_W, _R)]
    ratio = float(np.median(scales[1] / scales[0]))
    w, r = (site.const(index) * scale[:, None] for index, scale in zip((_W, _R), scales, strict=True))
    step = np.maximum(scales[0] * ratio, scales[1])
    step = np.maximum(step, step.max() * 2.0**-14)
    count = GATES[site.attrs.cell]
    gain = np.where(np.arange(len(step)) % count == _CANDIDATE, 2.0, 1.0)  # tanh(x) is logistic of 2 x
    return _Joined(w * ratio, r, ratio, step, gain)


def _real_bias(site: Site) -> npt.NDArray[np.float64]:
    if not site.has(_B):
        return np.zeros(site.x(_W).shape[0])
    return site.const(_B) * (site.scale_zero(site.x(_X))[0] * _row_scales(site, _W))


def have_one_step(w: Quant, r: Quant) -> bool:
    """Whether the scales of all rows of w are those of r but for one factor, so that an accumulator takes the integers
    of both as they are. Those of other weights are rounded once more: see `_Joined`."""
    ratios = np.asarray(r.scale, np.float64) / np.asarray(w.scale, np.float64)
    return bool(ratios.max() <= ratios.min() * (1 + _SAME_STEP))


def _row_scales(site: Site, index: int) -> npt.NDArray[np.float64]:
    """[rows] of weights with a scale for each row."""
    quant = site.x(index).quant
    if quant is None or any(quant.zero) or (quant.axis != 0 and len(quant.scale) != 1):
        raise TinycError(f"weights '{site.x(index).name}' need symmetric scales, one for each row", site.node.where)
    return np.broadcast_to(np.asarray(quant.scale, np.float64), site.x(index).shape[:1])


def int_ref(p: RecurrentParams, x: Array, *rest: Array | None) -> tuple[Array, ...]:
    _, _, _, _, hidden, cell = loop_f32.with_absent(rest)
    return (p.run(x, hidden, cell),)


def macs(site: Site) -> int:
    """Products with weights, of all steps."""
    return site.x(_X).shape[0] * (site.x(_W).elements + site.x(_R).elements)


def is_integer(site: Site) -> bool:
    """int8 or int16 input and output, constant int8 weights"""
    return weights_are(site, "s8") and _outside(site)


def is_narrow(site: Site) -> bool:
    """int8 or int16 input and output, constant int4 weights"""
    return weights_are(site, "s4") and _outside(site)


def _outside(site: Site) -> bool:
    states = {site.x(k).dtype for k in (_HIDDEN, _CELL) if site.has(k)}
    return one_width(site) and states <= {site.x(_X).dtype}


def one_width(site: Site) -> bool:
    """input and output both int8, or both int16"""
    return site.x(_X).dtype == site.y().dtype and site.y().dtype in ("s8", "s16")


def weights_are(site: Site, dtype: DType) -> bool:
    """Whether both weights are constants of that type."""
    return all(site.is_const(k) and site.x(k).dtype == dtype for k in (_W, _R))


def is_lstm(site: Site) -> bool:
    """an LSTM"""
    return bool(site.attrs.cell == "lstm")


def is_gru(site: Site) -> bool:
    """a GRU"""
    return bool(site.attrs.cell == "gru")


@dataclass(frozen=True, slots=True)
class Vector:
    """What a step multiplies, and the weights that go with it. at: where the hidden state begins; taps: in all."""

    at: int
    taps: int

    @classmethod
    def by_eights(cls, p: RecurrentParams) -> Vector:
        """As vectors take taps; both sides of a GRU have sums of their own."""
        inputs, units = p.sums.w.shape[1], p.sums.r.shape[1]
        at = inputs if p.attrs.cell == "lstm" else inputs + -inputs % vectors.EIGHT
        return cls(at, at + units + -(at + units) % vectors.EIGHT)

    @classmethod
    def of(cls, p: RecurrentParams) -> Vector:
        """Packed words hold two taps, and of a row that is in no pair four of one side."""
        inputs, units = p.sums.w.shape[1], p.sums.r.shape[1]
        if p.attrs.cell == "lstm":
            return cls(inputs, inputs + units + (inputs + units) % 2)
        at = inputs + -inputs % 4
        return cls(at, at + units + -units % 4)

    def rows(self, p: RecurrentParams) -> Array:
        """int8 [units, rows, taps]"""
        w, r = p.sums.w, p.sums.r
        padded = np.zeros((len(w), self.taps), np.int8)
        padded[:, : w.shape[1]] = w
        padded[:, self.at : self.at + r.shape[1]] = r
        return padded.reshape(r.shape[1], -1, self.taps)


def _starts(p: RecurrentParams) -> npt.NDArray[np.int32]:
    """[units, 4] what the accumulators of a unit begin with."""
    bias = p.sums.bias.reshape(p.sums.r.shape[1], -1)
    if p.attrs.cell == "gru":
        late = np.zeros(len(bias)) if p.sums.late is None else p.sums.late
        bias = np.concatenate([bias, late[:, None]], axis=1)
    return bias.astype(np.int32)


def _factors(p: RecurrentParams) -> npt.NDArray[np.int16]:
    """[units, rows of a unit]"""
    return p.sums.factor.reshape(p.sums.r.shape[1], -1).astype(np.int16)


def scratch(site: Site, p: RecurrentParams) -> int:
    """What the layer remembers, int32, and two vectors of int16."""
    return 4 * p.sums.r.shape[1] + 4 * Vector.of(p).taps


def lower(site: Site, p: RecurrentParams) -> Call:
    """tc_lstm_loop, tc_gru_loop: all steps."""
    return Call(arguments(site), Struct("tc_recurrent_s8_t", fields(site, p)))


def lower_mve(site: Site, p: RecurrentParams) -> Call:
    """tc_lstm_loop_mve, tc_gru_loop_mve: all steps."""
    return Call(arguments(site), Struct("tc_recurrent_mve_t", vector_fields(site, p)))


def lower_asm(site: Site, p: RecurrentParams) -> Call:
    """The function that is written for the layer."""
    return Call(arguments(site), Struct("tc_recurrent_packed_t", packed_fields(site, p)))


def arguments(site: Site) -> tuple[Arg, ...]:
    """Without states that are left."""
    count = 2 if is_lstm(site) else 1
    before = loop_f32.states_before(site, (_HIDDEN, _CELL)[:count])
    return (Params(), In(_X), *before, Out(), *[0] * count, Scratch())


def fields(site: Site, p: RecurrentParams) -> Fields:
    """Of tc_recurrent_s8_t."""
    rows = Vector.of(p).rows(p).transpose(0, 2, 1)
    w = Const(rows, "[units][taps][rows of a unit]", "w")
    if weights_are(site, "s4"):
        pairs = rows.reshape(len(rows), -1, 2, rows.shape[2]).transpose(0, 1, 3, 2)
        w = Const(pack_nibbles(pairs).view(np.int8), "[units][taps / 2][rows of a unit] int4, two in a byte", "w")
    return _fields(site, p) | {
        "w": w,
        "bias": Const(_starts(p), "[units][4]", "bias"),
        "factors": Const(_factors(p), "[units][rows of a unit]", "factors"),
    }


def packed_fields(site: Site, p: RecurrentParams) -> Fields:
    """Of tc_recurrent_packed_t."""
    words = packed.stream(loop_layer(site, p), Vector.of(p).rows(p), _starts(p), _factors(p))
    return {"stream": Const(words, "tc_recurrent_packed.h", "stream")} | _fields(site, p)


def vector_fields(site: Site, p: RecurrentParams) -> Fields:
    """Of tc_recurrent_mve_t."""
    vector = Vector.by_eights(p)
    whole, first, second = slice(None), slice(vector.at), slice(vector.at, None)
    parts = (whole,) * 4 if p.attrs.cell == "lstm" else (whole, whole, first, second)
    words = vectors.constants(_starts(p), _factors(p))
    return _fields(site, p) | {
        "cell.state_at": vector.at,
        "cell.taps": vector.taps,
        "w": Const(vectors.weights(vector.rows(p), parts, weights_are(site, "s4")), "tc_recurrent_mve.h", "w"),
        "constants": Const(words, "[units / 4][start, factor][sum][4]", "scaling"),
    }


def loop_layer(site: Site, p: RecurrentParams) -> packed.LoopLayer:
    """What the code in assembly depends on."""
    vector, s, wide = Vector.of(p), p.sums, site.y().dtype == "s16"
    walks = _walks(site)
    x_walk, y_walk = (tuple((2 if wide else 1) * step for step in walk) for walk in walks)
    return packed.LoopLayer(
        p.attrs.cell,
        s.r.shape[1],
        s.w.shape[1],
        vector.at,
        vector.taps,
        site.x(_X).shape[0],
        s.over,
        s.lift,
        s.under,
        p.down,
        s.x,
        p.y,
        (x_walk[0], x_walk[1]),
        (y_walk[0], y_walk[1]),
        wide,
        weights_are(site, "s4"),
        site.core,
    )


def _walks(site: Site) -> tuple[tuple[int, int], tuple[int, int]]:
    """Elements of x, and of y: where the first step in time is, and from step to step."""
    steps, in_c = site.x(_X).shape
    units, back, sequence = site.y().shape[1], site.attrs.reverse, site.attrs.sequence
    x = ((steps - 1) * in_c, -in_c) if back else (0, in_c)
    y = ((steps - 1) * units, -units) if back else (0, units)
    return x, y if sequence else (0, 0)


def _fields(site: Site, p: RecurrentParams) -> Fields:
    """The fields of the tc_recurrent_t called `cell`."""
    s, vector, wide = p.sums, Vector.of(p), int(site.y().dtype == "s16")
    steps, in_c = site.x(_X).shape
    states = [site.x(k).dtype for k in (_HIDDEN, _CELL) if site.has(k)]
    fields: Fields = {
        "table": Const(gates.logistic_chords(), "[128] chords of logistic from -8 on, rise << 16 | Q15", "logistic"),
        "steps": steps,
        "units": s.r.shape[1],
        "in_c": in_c,
        "state_at": vector.at,
        "taps": vector.taps,
        "over": s.over,
        "lift": s.lift,
        "under": s.under,
        "down": p.down,
        "begin_down": MEMORY - p.bits,
        "x_wide": wide,
        "y_wide": wide,
        "state_wide": int("s16" in states),
    }
    for name, walk in zip("xy", _walks(site), strict=True):
        fields |= dict(zip((f"{name}_first", f"{name}_step"), walk, strict=True))
    for name, scaling in (("x", s.x), ("y", p.y)):
        fields |= dict(zip((f"{name}_mult", f"{name}_add", f"{name}_shift"), scaling, strict=True))
    for name, state in (("hidden", p.hidden), ("cell", p.cell)):
        fields |= {f"{name}_mult": state.mult, f"{name}_shift": state.shift, f"{name}_zero": state.zero}
    fields["hidden_most"] = p.hidden.most
    return {f"cell.{name}": value for name, value in fields.items()}


def constant_bytes(site: Site, p: RecurrentParams) -> int:
    """Of weights, biases, factors and table."""
    weights = Vector.of(p).rows(p).nbytes // (2 if weights_are(site, "s4") else 1)
    return weights + _starts(p).nbytes + 8 * p.sums.r.shape[1] + 512 + _STRUCT


def of_units(site: Site, p: RecurrentParams) -> Units:
    """Products, units and steps in time."""
    steps = site.x(_X).shape[0]
    return {"product": macs(site), "unit": steps * p.sums.r.shape[1], "step": steps}


def cost_asm(site: Site, p: RecurrentParams) -> Cost:
    states = sum(site.has(k) for k in (_HIDDEN, _CELL)) + len(site.node.outputs) - 1
    return packed.cost(loop_layer(site, p), constant_bytes(site, p), states)


def vector_loop(site: Site, p: RecurrentParams) -> vectors.VectorLoop:
    """What the cost with Helium depends on."""
    vector, (steps, inputs) = Vector.by_eights(p), site.x(_X).shape
    states = sum(site.has(k) for k in (_HIDDEN, _CELL)) + len(site.node.outputs) - 1
    narrow = weights_are(site, "s4")
    return vectors.VectorLoop(p.attrs.cell, p.sums.r.shape[1], inputs, vector.at, vector.taps, steps, states, narrow)


def scratch_mve(site: Site, p: RecurrentParams) -> int:
    return vector_loop(site, p).scratch_bytes


def cost_mve(site: Site, p: RecurrentParams) -> Cost:
    return vectors.cost(vector_loop(site, p), constant_bytes(site, p))


def special(site: Site, p: RecurrentParams) -> SpecializedKernel:
    narrow = "_w4" if weights_are(site, "s4") else ""
    return packed.special(f"tc_{p.attrs.cell}_loop{narrow}_asm", loop_layer(site, p))


def loops(
    is_s8: Condition,
    is_s4: Condition,
    with_helium: Offering,
    with_dsp: Offering,
    portable: Callable[[str], Offering],
) -> Iterator[Kernel]:
    """The kernels of both cells, of weights of 8 and of 4 bits. portable: by the name of the kernel, whose cost was
    counted."""
    for bits, kind in (("", is_s8), ("_w4", is_s4)):
        cells = ((f"tc_lstm_loop{bits}", is_lstm), (f"tc_gru_loop{bits}", is_gru))
        for name, is_cell in cells:
            yield Kernel(f"{name}_mve", with_helium, isa=frozenset({"mve"}), when=(kind, is_cell))
        for name, is_cell in cells:
            yield Kernel(f"{name}_asm", with_dsp, isa=frozenset({"dsp"}), when=(kind, is_cell), written=True)
        for name, is_cell in cells:
            yield Kernel(name, portable(name), when=(kind, is_cell))


def _portable(name: str) -> Offering:
    return offered(lower, scratch=scratch, cost=CountedCost(name, of_units, flash=constant_bytes))


_MVE = offered(lower_mve, scratch=scratch_mve, cost=cost_mve)
_ASM = offered(lower_asm, scratch=scratch, cost=cost_asm, specialize=special)

OP = Op(
    name="recurrent",
    attrs=Recurrent,
    infer=infer,
    float_ref=float_ref,
    prepare=prepare,
    int_ref=int_ref,
    quant_in=(Observed(), ROWS_OF_W, Bias(), ROWS_OF_R, Unquantized(), Observed(), Observed()),
    quant_out=(Observed(),),
    kernels=(
        *loops(is_integer, is_narrow, _MVE, _ASM, _portable),
        Kernel(
            "tc_recurrent_f32",
            offered(loop_f32.lower, scratch=loop_f32.scratch, cost=loop_f32.cost("tc_recurrent_f32")),
            when=(in_float32,),
        ),
    ),
    macs=macs,
    traits=frozenset({Trait.ANY_TYPE, Trait.ALL_AT_ONCE, Trait.INT16}),
    float32=Float32(loop_f32.ref),
    batched=Batched(forward),
)
