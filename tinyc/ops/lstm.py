# SPDX-License-Identifier: Apache-2.0
"""lstm: T steps of a long short-term memory, int8 with an int16 cell, whose state lasts from run to run.

x [1,T,I]; weights [H,I] and recurrent weights [H,H] and biases [H] of the gates i, f, g, o; hidden [1,H]; cell [1,H].

    i, f, o = logistic(w x + r hidden + b), g = tanh(w x + r hidden + b), each with its own weights
    cell = clip(f * cell + i * g), hidden = o * tanh(cell), y[t] = hidden

Hochreiter and Schmidhuber, "Long short-term memory" (1997), with forget gates.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tinyc.base import exact
from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Rounding
from tinyc.base.requantize import quantize_multiplier, requantize
from tinyc.ir.graph import Array, Value
from tinyc.kernel.counted import CountedCost, Units
from tinyc.kernel.dsp import pack, pad_taps
from tinyc.kernel.float32 import Float32
from tinyc.kernel.kernel import (
    Call,
    Const,
    Cost,
    In,
    Kernel,
    Out,
    Params,
    Scratch,
    SpecializedKernel,
    Struct,
    offered,
    planned,
)
from tinyc.kernel.site import Site, Type
from tinyc.kernel.windows import check_bias
from tinyc.kernels.float32 import recurrent
from tinyc.kernels.mve import lstm as mve
from tinyc.ops import gates
from tinyc.ops.op import Bias, Observed, Op, SameAs, Trait, Unquantized

GATES = "ifgo"
_X, _W, _R, _B, _HIDDEN, _CELL = 0, 1, 5, 9, 13, 14  # inputs of the node
_GATE_SCALE = 2.0**-12  # of what goes into a gate: Q3.12
_UNIT = 2.0**-15  # of what comes out of it: Q0.15
_INT32 = 2**31
_MOST_TAPS = 512  # of a dot product: 512 * 127 * 128 < 2^23, as tc_dsp.h asks


@dataclass(frozen=True, slots=True)
class Lstm:
    """clip: bound of the cell's reals, 0 for none. time_major: x is [T,1,I]."""

    clip: float = 0.0
    time_major: bool = False


def infer(a: Lstm, x: Value, *rest: Value | None) -> Sequence[Type]:
    shapes = [value.shape if value is not None else () for value in rest]
    hidden, cell = rest[_HIDDEN - 1], rest[_CELL - 1]
    if len(rest) != _CELL or hidden is None or cell is None or len(x.shape) != 3:
        raise TinycError(f"LSTM of {list(x.shape)}: [1, steps, numbers] and all weights are needed")
    units = shapes[0][0] if shapes[0] else 0
    steps, batch = (x.shape[0], x.shape[1]) if a.time_major else (x.shape[1], x.shape[0])
    fits = all(shapes[k] == (units, x.shape[2]) for k in range(4)) and all(s == (units, units) for s in shapes[4:8])
    if batch != 1 or not fits or hidden.elements != units or cell.elements != units:
        raise TinycError(f"LSTM weights {list(shapes[0])} do not fit input {list(x.shape)} of batch 1")
    for bias in rest[_B - 1 : _HIDDEN - 1]:
        check_bias(bias, units)
    shape = (steps, 1, units) if a.time_major else (1, steps, units)
    return [Type(shape, x.dtype), Type(hidden.shape, hidden.dtype), Type(cell.shape, cell.dtype)]


def float_ref(a: Lstm, x: Array, *rest: Array | None) -> tuple[Array, ...]:
    w, r, b = rest[:4], rest[4:8], [0.0 if bias is None else bias for bias in rest[8:12]]
    before = [np.asarray(rest[k], np.float32) for k in (_HIDDEN - 1, _CELL - 1)]
    hidden, cell = (np.asarray(state.reshape(-1), np.float64) for state in before)
    rows = []
    for step in x.reshape(-1, x.shape[-1]):
        i, f, g, o = (_times(w[k], step) + _times(r[k], hidden) + b[k] for k in range(4))
        cell = exact.logistic(f) * cell + exact.logistic(i) * exact.tanh(g)
        cell = np.clip(cell, -a.clip, a.clip) if a.clip else cell
        hidden = exact.logistic(o) * exact.tanh(cell)
        rows.append(hidden)
    lead = (len(rows), 1) if a.time_major else (1, len(rows))
    states = (now.reshape(state.shape) for now, state in zip((hidden, cell), before, strict=True))
    return tuple(np.asarray(v, np.float32) for v in (np.reshape(rows, (*lead, -1)), *states))


def _times(matrix: Array | None, vector: Array) -> Array:
    return exact.product(np.asarray(matrix), vector[:, None])[:, 0]


@dataclass(frozen=True, slots=True)
class LstmParams:
    """Integers of the layer. Of gate k: sat16(requantize(in_bias[k] + w[k] x, in_mult[k], in_shift[k])) plus
    sat16(requantize(state_bias[k] + r[k] hidden, state_mult[k], state_shift[k])), saturated, is its Q3.12 input.

    w int8 [4,H,I]; r int8 [4,H,H]; in_bias, state_bias int32 [4,H] with the zero points folded in. forget, add, out:
    (mult, shift) of f * cell, of i * g, and of o * tanh(cell). left: bits from the cell's scale to Q3.12.
    """

    time_major: bool
    w: Array
    r: Array
    in_bias: npt.NDArray[np.int32]
    state_bias: npt.NDArray[np.int32]
    in_mult: npt.NDArray[np.int32]
    in_shift: npt.NDArray[np.int32]
    state_mult: npt.NDArray[np.int32]
    state_shift: npt.NDArray[np.int32]
    forget: tuple[int, int]
    add: tuple[int, int]
    out: tuple[int, int]
    left: int
    cell_min: int
    cell_max: int
    hidden_zero: int
    rounding: Rounding

    def run(self, x: Array, hidden: Array, cell: Array) -> tuple[Array, ...]:
        h, c = hidden.reshape(-1).astype(np.int64), cell.reshape(-1).astype(np.int64)
        w, r = self.w.astype(np.int64), self.r.astype(np.int64)
        rows = []
        for step in x.reshape(-1, x.shape[-1]).astype(np.int64):
            first = self._scaled(self.in_bias + w @ step, self.in_mult, self.in_shift)
            second = self._scaled(self.state_bias + r @ h, self.state_mult, self.state_shift)
            q = _sat16(first + second)
            i, f, g, o = gates.logistic(q[0]), gates.logistic(q[1]), gates.tanh(q[2]), gates.logistic(q[3])
            c = _sat16(self._product(f, c, self.forget)) + _sat16(self._product(i, g, self.add))
            c = np.clip(_sat16(c), self.cell_min, self.cell_max)
            h = np.clip(self._product(o, gates.tanh(c, self.left), self.out) + self.hidden_zero, -128, 127)
            rows.append(h)
        lead = (len(rows), 1) if self.time_major else (1, len(rows))
        y = np.reshape(rows, (*lead, -1)).astype(np.int8)
        return y, h.astype(np.int8).reshape(hidden.shape), c.astype(np.int16).reshape(cell.shape)

    def _scaled(self, acc: Array, mult: Array, shift: Array) -> Array:
        return _sat16(requantize(acc, mult[:, None], shift[:, None], self.rounding))

    def _product(self, a: Array, b: Array, factor: tuple[int, int]) -> Array:
        return requantize(a * b, *factor, self.rounding)


def _sat16(v: Array) -> Array:
    return np.asarray(np.clip(v, -32768, 32767))


def prepare(site: Site) -> LstmParams:
    """TinycError for values that the integer layer does not take, or where a sum could leave int32.

    y has the hidden state's integers whatever its own scale is, as in TensorFlow's runtimes: converters give both
    directions of a bidirectional layer one scale for y, behind which their outputs are joined.
    """
    x, hidden, cell = site.x(_X), site.x(_HIDDEN), site.x(_CELL)
    if not is_s8(site):
        raise TinycError(
            f"LSTM of {x.dtype} with hidden state {hidden.dtype} and cell {cell.dtype}: the integer layer takes int8, "
            "int8 and int16, and constant int8 weights, with the numerics tflm or single",
            site.node.where,
        )
    (x_scale, x_zero), (h_scale, h_zero) = site.scale_zero(x), site.scale_zero(hidden)
    c_scale, c_zero = site.scale_zero(cell)
    power = round(math.log2(c_scale))
    if c_zero or abs(c_scale - 2.0**power) > 1e-6 * c_scale:
        raise TinycError("LSTM needs a cell whose scale is a power of two, and zero point 0", site.node.where)
    w = np.stack([site.const(_W + k) for k in range(4)])
    r = np.stack([site.const(_R + k) for k in range(4)])
    bias = np.stack([_bias(site, k, w.shape[1]) for k in range(4)])
    in_bias = bias - x_zero * w.astype(np.int64).sum(axis=2)
    state_bias = -h_zero * r.astype(np.int64).sum(axis=2)
    into = [quantize_multiplier(x_scale * _scale(site, _W + k) / _GATE_SCALE) for k in range(4)]
    back = [quantize_multiplier(h_scale * _scale(site, _R + k) / _GATE_SCALE) for k in range(4)]
    for folded, weights, factors in ((in_bias, w, into), (state_bias, r, back)):
        worst = np.abs(folded) + 128 * np.abs(weights.astype(np.int64)).sum(axis=2)
        if any(int(worst[k].max()) << max(factors[k][1], 0) >= _INT32 for k in range(4)):
            raise TinycError("a sum of LSTM, scaled up, could leave int32", site.node.where)
    clip = min(int(site.attrs.clip / c_scale), 32767) if site.attrs.clip > 0 else None
    return LstmParams(
        time_major=site.attrs.time_major,
        w=w,
        r=r,
        in_bias=in_bias.astype(np.int32),
        state_bias=state_bias.astype(np.int32),
        in_mult=np.array([m for m, _ in into], np.int32),
        in_shift=np.array([s for _, s in into], np.int32),
        state_mult=np.array([m for m, _ in back], np.int32),
        state_shift=np.array([s for _, s in back], np.int32),
        forget=quantize_multiplier(_UNIT),
        add=quantize_multiplier(_UNIT * _UNIT / c_scale),
        out=quantize_multiplier(_UNIT * _UNIT / h_scale),
        left=power + 12,
        cell_min=-32768 if clip is None else -clip,
        cell_max=32767 if clip is None else clip,
        hidden_zero=h_zero,
        rounding=site.builtin_rounding,
    )


def _scale(site: Site, index: int) -> float:
    scale, zero = site.scale_zero(site.x(index))
    if zero:
        raise TinycError(
            f"weights '{site.x(index).name}' need a symmetric quantization (zero point 0)", site.node.where
        )
    return scale


def _bias(site: Site, gate: int, units: int) -> npt.NDArray[np.int64]:
    return site.const(_B + gate).astype(np.int64) if site.has(_B + gate) else np.zeros(units, np.int64)


def int_ref(p: LstmParams, x: Array, *rest: Array | None) -> tuple[Array, ...]:
    return p.run(x, np.asarray(rest[_HIDDEN - 1]), np.asarray(rest[_CELL - 1]))


def _steps(site: Site) -> int:
    return site.x(_X).elements // site.x(_X).shape[-1]


def macs(site: Site) -> int:
    """Products with weights, of all steps."""
    return 4 * _steps(site) * (site.x(_W).elements + site.x(_R).elements)


def is_s8(site: Site) -> bool:
    """int8 input, output and hidden state, int16 cell, constant int8 weights; numerics tflm or single"""
    weights = all(site.is_const(k) and site.x(k).dtype == "s8" for k in range(_W, _B))
    kinds = tuple(value.dtype for value in (site.x(_X), site.x(_HIDDEN), site.x(_CELL), site.y()))
    return weights and kinds == ("s8", "s8", "s16", "s8") and not site.numerics.scales_in_float


def scratch(site: Site, p: LstmParams) -> int:
    """What goes into the gates, int16."""
    return 8 * p.w.shape[1]


def lower(site: Site, p: LstmParams) -> Call:
    """tc_lstm_s8: all steps, the states over the old ones or elsewhere."""
    fields = _cell_fields(site, p) | {
        "w": Const(p.w.transpose(1, 2, 0), "[units][in_c][4]", "w"),
        "r": Const(p.r.transpose(1, 2, 0), "[units][units][4]", "r"),
        "in_bias": Const(p.in_bias.T, "[units][4]", "in_bias"),
        "state_bias": Const(p.state_bias.T, "[units][4]", "state_bias"),
    }
    return Call(_ARGUMENTS, Struct("tc_lstm_s8_t", fields))


_ARGUMENTS = (Params(), In(_X), In(_HIDDEN), In(_CELL), Out(0), Out(1), Out(2), Scratch())


def _cell_fields(site: Site, p: LstmParams) -> dict[str, int | float | str | Const]:
    """The fields of the tc_lstm_t called `cell`."""
    scaling = np.stack([p.in_mult, p.in_shift, p.state_mult, p.state_shift], axis=1)
    fields: dict[str, int | float | str | Const] = {
        "scaling": Const(scaling, "[4] gates: in, state", "scaling"),
        "table": Const(gates.logistic_table(), "[256] logistic(i / 24), Q0.16", "logistic"),
        "steps": _steps(site),
        "units": p.w.shape[1],
        "in_c": p.w.shape[2],
        "left": p.left,
        "cell_min": p.cell_min,
        "cell_max": p.cell_max,
        "hidden_zero": p.hidden_zero,
        "rounds": p.rounding.code,
    }
    for name, (mult, shift) in (("forget", p.forget), ("add", p.add), ("out", p.out)):
        fields |= {f"{name}_mult": mult, f"{name}_shift": shift}
    return {f"cell.{name}": value for name, value in fields.items()}


def fits_dots(site: Site) -> bool:
    """weights in [-127, 127], at most 512 inputs and units"""
    narrow = all(int(site.const(k).min()) >= -127 for k in range(_W, _B))
    return narrow and max(*site.x(_W).shape, site.x(_R).shape[1]) <= _MOST_TAPS


def _rows(weights: Array) -> tuple[Array, int]:
    """[4,U,K] as rows [U][4], zeros up to a multiple of eight rows and of four taps; and words of four taps."""
    rows = pad_taps(weights.transpose(1, 0, 2).reshape(-1, weights.shape[2]))
    return np.pad(rows, ((0, -len(rows) % 8), (0, 0))), rows.shape[1] // 4


def scratch_dsp(site: Site, p: LstmParams) -> int:
    """Input and hidden state as int16, and what goes into the gates."""
    (rows, in_words), (_, state_words) = _rows(p.w), _rows(p.r)
    return 8 * in_words + 8 * state_words + 2 * len(rows)


def lower_dsp(site: Site, p: LstmParams) -> Call:
    """tc_lstm_s8_dsp: all steps."""
    (w, in_words), (r, state_words) = _rows(p.w), _rows(p.r)
    spare = len(w) - p.in_bias.size
    fields = _cell_fields(site, p) | {
        "w": Const(pack(w, 8), "[rows][in_c], packed by 8 rows (tc_dsp.h)", "w"),
        "r": Const(pack(r, 8), "[rows][units], packed by 8 rows (tc_dsp.h)", "r"),
        "in_bias": Const(np.pad(p.in_bias.T.ravel(), (0, spare)), "[units][4]", "in_bias"),
        "state_bias": Const(np.pad(p.state_bias.T.ravel(), (0, spare)), "[units][4]", "state_bias"),
        "rows": len(w),
        "in_words": in_words,
        "state_words": state_words,
    }
    return Call(_ARGUMENTS, Struct("tc_lstm_s8_dsp_t", fields))


def of_units(site: Site, p: LstmParams) -> Units:
    """Products, units and steps in time."""
    steps = _steps(site)
    return {"product": macs(site), "unit": steps * p.w.shape[1], "step": steps}


def weight_bytes(site: Site, p: LstmParams) -> int:
    """Of weights and biases."""
    return p.w.nbytes + p.r.nbytes + 32 * p.w.shape[1]


def rounds_twice(site: Site) -> bool:
    """the numerics tflm, which round twice"""
    return site.builtin_rounding is Rounding.DOUBLE


_MVE_ASKS = "a cell whose numbers, scaled up to Q3.12, stay in int32"


def plan_mve(site: Site, p: LstmParams) -> mve.LstmLayer | None:
    """None where tanh of the cell could leave int32, or a factor inside the cell is 1 or more."""
    if p.left > mve.MOST_LEFT or any(shift > 0 for _, shift in (p.forget, p.add, p.out)):
        return None
    grows = bool(max(p.in_shift.max(), p.state_shift.max()) > 0)
    units, in_c = p.w.shape[1:]
    clip = p.cell_max if p.cell_min == -p.cell_max else mve.NO_CLIP
    return mve.LstmLayer(in_c, units, grows, p.forget, p.add, p.out, p.left, clip, p.hidden_zero)


def _stream(p: LstmParams) -> npt.NDArray[np.int32]:
    return mve.stream(
        (
            mve.Side(p.w, p.in_bias, p.in_mult, p.in_shift),
            mve.Side(p.r, p.state_bias, p.state_mult, p.state_shift),
        )
    )


def lower_mve(work: mve.LstmLayer, site: Site, p: LstmParams) -> Call:
    """tc_lstm_s8_mve: all steps."""
    weights = Const(_stream(p), "stream of tc_lstm_s8_mve.h", "stream")
    table = Const(mve.table(gates.logistic_table()), "[257] logistic(i / 24), Q0.16", "logistic")
    return Call((weights, table, *_ARGUMENTS[1:]))


def cost_mve(work: mve.LstmLayer, site: Site, p: LstmParams) -> Cost:
    """Exact but for the steps around the calls; cycles are an upper bound for a Cortex-M55."""
    executed, code = mve.work(work, _steps(site))
    return Cost(executed.instructions, _stream(p).nbytes + 514 + code, work.scratch_bytes, executed.cycles)


def special_mve(work: mve.LstmLayer, site: Site, p: LstmParams) -> SpecializedKernel:
    return mve.special(work, _steps(site))


_WEIGHTS = (Observed(symmetric=True),) * 8

OP = Op(
    name="lstm",
    attrs=Lstm,
    infer=infer,
    float_ref=float_ref,
    prepare=prepare,
    int_ref=int_ref,
    quant_in=(Observed(), *_WEIGHTS, *(Bias(),) * 4, Unquantized(), Unquantized()),
    quant_out=(SameAs(_HIDDEN), SameAs(_HIDDEN), Unquantized()),
    kernels=(
        Kernel(
            mve.NAME,
            planned(plan_mve, _MVE_ASKS, call=lower_mve, cost=cost_mve, special=special_mve),
            isa=frozenset({"mve"}),
            when=(is_s8, rounds_twice),
            asks=_MVE_ASKS,
            written=True,
        ),
        Kernel(
            "tc_lstm_s8_dsp",
            offered(lower_dsp, scratch=scratch_dsp, cost=CountedCost("tc_lstm_s8_dsp", of_units, flash=weight_bytes)),
            isa=frozenset({"dsp"}),
            when=(is_s8, fits_dots),
        ),
        Kernel(
            "tc_lstm_s8",
            offered(lower, scratch=scratch, cost=CountedCost("tc_lstm_s8", of_units, flash=weight_bytes)),
            when=(is_s8,),
        ),
        recurrent.LSTM,
    ),
    macs=macs,
    updates=((1, _HIDDEN), (2, _CELL)),
    traits=frozenset({Trait.ANY_TYPE, Trait.ALL_AT_ONCE}),
    float32=Float32(recurrent.lstm_ref),
)
