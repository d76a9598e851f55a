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
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tinyc.base import exact
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Rounding, quantize_multiplier, requantize
from tinyc.ir.graph import Array, Value
from tinyc.kernel.dsp import pack, pad_taps
from tinyc.kernel.float32 import Float32, in_float32
from tinyc.kernel.kernel import Arg, Call, Const, Cost, In, Kernel, Out, Params, Scratch, Struct, offered
from tinyc.kernel.site import Site, Type
from tinyc.kernel.windows import check_bias
from tinyc.kernels.float32 import recurrent_loop as loop_f32
from tinyc.ops import gates
from tinyc.ops.op import Bias, Kept, Observed, Op, Trait

GATES = {"lstm": 4, "gru": 3}
_X, _W, _B, _R, _LATE, _HIDDEN, _CELL = range(7)  # inputs of the node
_GATE = 12  # bits behind the point of what goes into a gate
MEMORY = 20  # bits behind the point of the cell of an LSTM and of the hidden state that a GRU mixes
MOST_MEMORY = 2**30
_PACKED = 2**23  # sums of products that tc_dsp.h can take
_INT32 = 2**31
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
    w, bias, r, late, hidden, cell = loop_f32.with_absent(rest)
    assert w is not None
    assert r is not None
    count = GATES[a.cell]
    units = len(r) // count
    firsts = exact.product(x, w.T) + (0.0 if bias is None else bias)
    h, c = (np.zeros(units) if state is None else state.reshape(-1) for state in (hidden, cell))
    rows = []
    for first in firsts[::-1] if a.reverse else firsts:
        p, q = (sums.reshape(units, count).T for sums in (first, exact.product(r, h[:, None])))
        if a.cell == "lstm":
            c = exact.logistic(p[1] + q[1]) * c + exact.logistic(p[0] + q[0]) * exact.tanh(p[2] + q[2])
            h = exact.logistic(p[3] + q[3]) * exact.tanh(c)
        else:
            n = exact.tanh(p[2] + exact.logistic(p[1] + q[1]) * (q[2] + (0.0 if late is None else late)))
            h = n + exact.logistic(p[0] + q[0]) * (h - n)
        rows.append(h)
    y, h, c = (np.asarray(v, np.float32) for v in (in_order(a, rows), h, c))
    return y, h, c


def in_order(a: Any, rows: Sequence[Array]) -> Array:
    """y of the hidden states in the order of time."""
    return np.stack(rows[::-1] if a.reverse and a.sequence else rows if a.sequence else rows[-1:])


@dataclass(frozen=True, slots=True)
class Sums:
    """What goes into the gates: rounded((in_bias + w x) * in_factor + (r hidden) * state_factor) / 2^shift), Q3.12 and
    not yet limited. Of the candidate of a GRU both sides come one by one, the second with its `late` bias.

    w int8 [rows,I]; r int8 [rows,U]; in_bias, in_factor, state_factor int32 [rows]; late int32 [U] or None.
    """

    w: Array
    r: Array
    in_bias: npt.NDArray[np.int32]
    in_factor: npt.NDArray[np.int32]
    state_factor: npt.NDArray[np.int32]
    late: npt.NDArray[np.int32] | None
    shift: int

    def scaled(self, v: _Ints) -> _Ints:
        """The nearest integers to v / 2^shift, halves up."""
        return (v + (1 << (self.shift - 1))) >> self.shift


@dataclass(frozen=True, slots=True)
class RecurrentParams:
    """Integers of the layer, the same for every kernel. attrs: a Recurrent, or the attributes of `recurrent_kept`.

    bits: behind the point of the hidden state that is multiplied, an int16: as many as the packed products of tc_dsp.h
    leave. begin, cell_begin: (factor, zero point) from the int8 that a state begins with to Q11.20. y: (mult, shift,
    zero point) of the output, from Q0.30 of an LSTM or Q11.20 of a GRU.
    """

    attrs: Any
    sums: Sums
    bits: int
    begin: tuple[int, int]
    cell_begin: tuple[int, int]
    y: tuple[int, int, int]

    def run(self, x: Array, hidden: Array | None, cell: Array | None) -> Array:
        count, units = GATES[self.attrs.cell], self.sums.r.shape[1]
        memory = _begun(cell if count == 4 else hidden, self.cell_begin if count == 4 else self.begin, units)
        return self.steps(x, _begun(hidden, self.begin, units), memory)[0]

    def steps(self, x: Array, hidden: _Ints, memory: _Ints) -> tuple[Array, _Ints, _Ints]:
        """(y, what is multiplied next, memory after the last step), from states in Q11.20."""
        s, count = self.sums, GATES[self.attrs.cell]
        h = self._narrow(hidden, MEMORY)
        firsts = (s.in_bias + x.astype(np.int64) @ s.w.T.astype(np.int64)) * s.in_factor
        r = s.r.astype(np.int64)
        rows = []
        for first in firsts[::-1] if self.attrs.reverse else firsts:
            second = r @ h
            if count == 4:
                made, memory = _lstm(s.scaled(first + second * s.state_factor), memory)
                h = self._narrow(made, 30)
            else:
                made = memory = self._gru(first, second, memory)
                h = self._narrow(made, MEMORY)
            mult, shift, zero = self.y
            rows.append(np.clip(requantize(made, mult, shift, Rounding.SINGLE) + zero, -128, 127))
        return in_order(self.attrs, rows).astype(np.int8), h, memory

    def _gru(self, first: _Ints, second: _Ints, memory: _Ints) -> _Ints:
        """The hidden state, Q11.20."""
        s = self.sums
        p, q = first.reshape(-1, 3), second.reshape(-1, 3)
        factor = s.state_factor.reshape(-1, 3)
        update, reset = (s.scaled(p[:, k] + q[:, k] * factor[:, k]) for k in (0, 1))
        seen = s.scaled((q[:, 2] + (0 if s.late is None else s.late)) * factor[:, 2])
        inner = s.scaled(p[:, 2]) + _by_unit(gates.logistic(_sat16(reset)), seen)
        candidate = gates.tanh(_sat16(inner)) << (MEMORY - 15)
        return candidate + _by_unit(gates.logistic(_sat16(update)), memory - candidate)

    def _narrow(self, v: _Ints, point: int) -> _Ints:
        """The hidden state as it is multiplied, of one with `point` bits behind the point."""
        down = point - self.bits
        return _sat16((v + (1 << (down - 1))) >> down)


def _begun(state: Array | None, by: tuple[int, int], units: int) -> _Ints:
    """A state in Q11.20; zeros where none is given."""
    factor, zero = by
    return np.zeros(units, np.int64) if state is None else (state.reshape(-1).astype(np.int64) - zero) * factor


def _lstm(q: _Ints, memory: _Ints) -> tuple[_Ints, _Ints]:
    """(hidden state in Q0.30, cell in Q11.20)"""
    i, f, g, o = _sat16(q).reshape(-1, 4).T
    added = (gates.logistic(i) * gates.tanh(g) + (1 << 9)) >> 10
    memory = np.clip(_by_unit(gates.logistic(f), memory) + added, -MOST_MEMORY, MOST_MEMORY)
    shown = gates.tanh(_sat16((memory + (1 << 7)) >> (MEMORY - _GATE)))
    return gates.logistic(o) * shown, memory


def _by_unit(share: _Ints, v: _Ints) -> _Ints:
    """v times a Q0.15."""
    return (share * v + (1 << 14)) >> 15


def _sat16(v: _Ints) -> _Ints:
    return np.asarray(np.clip(v, -32768, 32767))


def prepare(site: Site) -> RecurrentParams:
    """TinycError for values that the integer layer does not take, or where a sum could leave its integer."""
    if not is_s8(site):
        raise TinycError(
            f"{site.attrs.cell} of {site.x(_X).dtype}: the integer layer takes int8 and constant int8 weights",
            site.node.where,
        )
    begin, most = _beginning(site, _HIDDEN)
    cell_begin, _ = _beginning(site, _CELL)
    return made(site, most, begin, cell_begin)


def made(site: Site, most: float, begin: tuple[int, int], cell_begin: tuple[int, int]) -> RecurrentParams:
    """The integers of a layer whose hidden state never leaves [-most, most]."""
    scale, zero = site.scale_zero(site.y())
    if most / scale >= _INT32 / 2:
        raise TinycError("the output's scale is too small for the hidden state", site.node.where)
    point = 30 if site.attrs.cell == "lstm" else MEMORY
    bits = _state_bits(site, most)
    y = (*quantize_multiplier(2.0**-point / scale), zero)
    return RecurrentParams(site.attrs, _sums(site, bits), bits, begin, cell_begin, y)


def _beginning(site: Site, index: int) -> tuple[tuple[int, int], float]:
    """(factor to Q11.20, zero point) of a state that is given, and the largest |hidden state| there can be."""
    if not site.has(index):
        return (0, 0), 1.0
    scale, zero = site.scale_zero(site.x(index))
    most = scale * max(127 - zero, 128 + zero)
    if most * 2.0**MEMORY >= MOST_MEMORY:
        raise TinycError(f"the state '{site.x(index).name}' begins beyond 1024", site.node.where)
    return (round(scale * 2.0**MEMORY), zero), max(1.0, most)


def _state_bits(site: Site, most: float) -> int:
    """Bits behind the point that the hidden state can have in packed products, and in int16."""
    widest = int(np.abs(site.const(_R).astype(np.int64)).sum(axis=1).max())
    fitting = [k for k in range(1, 16) if most * 2**k <= 2**15 and widest * (most * 2**k + 1) < _PACKED]
    if not fitting:
        raise TinycError("the sums over the hidden state leave what the kernels can hold", site.node.where)
    return fitting[-1]


def _sums(site: Site, bits: int) -> Sums:
    w, r = site.const(_W), site.const(_R)
    x_scale, x_zero = site.scale_zero(site.x(_X))
    into = x_scale * _row_scales(site, _W) * 2.0**_GATE
    back = _row_scales(site, _R) * 2.0 ** (_GATE - bits)
    shift = min(31, 30 - math.floor(math.log2(max(into.max(), back.max()))))
    if shift < 1:
        raise TinycError("the inputs of the gates leave int32", site.node.where)
    factors = [np.minimum(np.rint(f * 2.0**shift), _INT32 - 1).astype(np.int64) for f in (into, back)]
    bias = site.const(_B).astype(np.int64) if site.has(_B) else np.zeros(len(w), np.int64)
    in_bias = bias - x_zero * w.astype(np.int64).sum(axis=1)
    late = np.rint(site.const(_LATE) * 2.0**bits / _row_scales(site, _R)[2::3]) if site.has(_LATE) else None
    firsts = np.abs(in_bias) + 128.0 * np.abs(w.astype(np.int64)).sum(axis=1)
    seconds = _PACKED + (0.0 if late is None else np.abs(late).max())
    worst = ((firsts * factors[0] + seconds * factors[1]) / 2.0**shift).max()
    if max(firsts.max(), seconds) >= _INT32 or worst >= _INT32 / 4:
        raise TinycError("the inputs of the gates leave int32", site.node.where)
    return Sums(
        w,
        r,
        in_bias.astype(np.int32),
        factors[0].astype(np.int32),
        factors[1].astype(np.int32),
        None if late is None else late.astype(np.int32),
        shift,
    )


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


def is_s8(site: Site) -> bool:
    """int8 input and output, constant int8 weights"""
    states = all(site.x(k).dtype == "s8" for k in (_HIDDEN, _CELL) if site.has(k))
    return weights_are_s8(site) and states and site.x(_X).dtype == site.y().dtype == "s8"


def weights_are_s8(site: Site) -> bool:
    """constant int8 weights"""
    return all(site.is_const(k) and site.x(k).dtype == "s8" for k in (_W, _R))


def is_lstm(site: Site) -> bool:
    """an LSTM"""
    return bool(site.attrs.cell == "lstm")


def is_gru(site: Site) -> bool:
    """a GRU"""
    return bool(site.attrs.cell == "gru")


def fits_dots(site: Site) -> bool:
    """weights in [-127, 127], sums of products with an input below 2^23"""
    narrow = all(int(site.const(k).min()) >= -127 for k in (_W, _R))
    return narrow and 128 * int(np.abs(site.const(_W).astype(np.int64)).sum(axis=1).max()) < _PACKED


def _rows(p: RecurrentParams, block: int) -> int:
    """Rows of weights, up to a multiple of the block."""
    return len(p.sums.w) + -len(p.sums.w) % block


def _words(p: RecurrentParams, rows: int) -> int:
    """Of scratch: what goes into the gates, the late sums of a GRU, and the memory."""
    units = p.sums.r.shape[1]
    return rows + (units if GATES[p.attrs.cell] == 4 else units + -(-rows // 3))


def scratch(site: Site, p: RecurrentParams) -> int:
    """The hidden state too, all of it int32."""
    return 4 * (_words(p, _rows(p, 4)) + p.sums.r.shape[1])


def lower(site: Site, p: RecurrentParams) -> Call:
    """tc_lstm_loop_s8, tc_gru_loop_s8: all steps."""
    return Call(_arguments(site), Struct("tc_recurrent_s8_t", fields(site, p)))


def fields(site: Site, p: RecurrentParams) -> Fields:
    """Of tc_recurrent_s8_t."""
    rows = _rows(p, 4)
    w, r = (
        np.pad(part, ((0, rows - len(part)), (0, 0))).reshape(rows // 4, 4, -1).transpose(0, 2, 1)
        for part in (p.sums.w, p.sums.r)
    )
    return _fields(site, p, rows) | {
        "w": Const(w, "[rows / 4][in_c][4]", "w"),
        "r": Const(r, "[rows / 4][units][4]", "r"),
    }


def scratch_dsp(site: Site, p: RecurrentParams) -> int:
    """Input and hidden state as int16 too."""
    return 4 * _words(p, _rows(p, 8)) + sum(2 * pad_taps(part).shape[1] for part in (p.sums.w, p.sums.r))


def lower_dsp(site: Site, p: RecurrentParams) -> Call:
    """tc_lstm_loop_s8_dsp, tc_gru_loop_s8_dsp: all steps."""
    return Call(_arguments(site), Struct("tc_recurrent_s8_dsp_t", fields_dsp(site, p)))


def fields_dsp(site: Site, p: RecurrentParams) -> Fields:
    """Of tc_recurrent_s8_dsp_t."""
    rows = _rows(p, 8)
    w, r = (pad_taps(np.pad(part, ((0, rows - len(part)), (0, 0)))) for part in (p.sums.w, p.sums.r))
    # The hidden state lies in memory order, where tc_dsp.h has taps (0, 2), (1, 3) side by side.
    turned = r.reshape(rows, -1, 4)[:, :, [0, 2, 1, 3]].reshape(r.shape)
    return _fields(site, p, rows) | {
        "w": Const(pack(w, 8), "[rows][in_c], packed by 8 rows (tc_dsp.h)", "w"),
        "r": Const(pack(turned, 8), "[rows][units], packed by 8 rows (tc_dsp.h)", "r"),
        "in_words": w.shape[1] // 4,
        "state_words": r.shape[1] // 4,
    }


def _arguments(site: Site) -> tuple[Arg, ...]:
    return (Params(), In(_X), *loop_f32.states_before(site), Out(), Scratch())


def _fields(site: Site, p: RecurrentParams, rows: int) -> Fields:
    """The fields of the tc_recurrent_t called `cell`."""
    s, units = p.sums, p.sums.r.shape[1]
    steps, in_c = site.x(_X).shape
    back, spare = p.attrs.reverse, (0, rows - len(s.w))
    factors = np.stack([np.pad(s.in_factor, spare), np.pad(s.state_factor, spare)], axis=1)
    found: Fields = {
        "in_bias": Const(np.pad(s.in_bias, spare), "[rows]", "in_bias"),
        "factors": Const(factors, "[rows] in, state", "factors"),
        "late": "0" if s.late is None else Const(s.late, "[units]", "late"),
        "table": Const(gates.logistic_table(), "[256] logistic(i / 24), Q0.16", "logistic"),
        "steps": steps,
        "units": units,
        "in_c": in_c,
        "rows": rows,
        "shift": s.shift,
        "down": (30 if GATES[p.attrs.cell] == 4 else MEMORY) - p.bits,
        "begin_down": MEMORY - p.bits,
        "x_first": (steps - 1) * in_c if back else 0,
        "x_step": -in_c if back else in_c,
        "y_first": (steps - 1) * units if back and p.attrs.sequence else 0,
        "y_step": (-units if back else units) if p.attrs.sequence else 0,
    }
    found |= dict(zip(("hidden_factor", "hidden_zero"), p.begin, strict=True))
    found |= dict(zip(("cell_factor", "cell_zero"), p.cell_begin, strict=True))
    found |= dict(zip(("y_mult", "y_shift", "y_zero"), p.y, strict=True))
    return {f"cell.{name}": value for name, value in found.items()}


def _cost(site: Site, p: RecurrentParams, per_mac: float, scratch_bytes: int) -> Cost:
    """An estimate: each product, each row, each unit."""
    steps, rows, units = site.x(_X).shape[0], len(p.sums.w), p.sums.r.shape[1]
    executed = int(per_mac * macs(site)) + steps * (17 * rows + 150 * units)
    return Cost(executed, p.sums.w.nbytes + p.sums.r.nbytes + 12 * rows + 1900, scratch_bytes)


def cost(site: Site, p: RecurrentParams) -> Cost:
    return _cost(site, p, 2.75, scratch(site, p))


def cost_dsp(site: Site, p: RecurrentParams) -> Cost:
    return _cost(site, p, 1.0, scratch_dsp(site, p))


_PORTABLE = offered(lower, scratch=scratch, cost=cost)
_DSP = offered(lower_dsp, scratch=scratch_dsp, cost=cost_dsp)
_ROWS = Observed(axis=0, symmetric=True)

OP = Op(
    name="recurrent",
    attrs=Recurrent,
    infer=infer,
    float_ref=float_ref,
    prepare=prepare,
    int_ref=int_ref,
    quant_in=(Observed(), _ROWS, Bias(), _ROWS, Kept(), Observed(), Observed()),
    quant_out=(Observed(),),
    kernels=(
        Kernel("tc_lstm_loop_s8_dsp", _DSP, isa=frozenset({"dsp"}), when=(is_s8, is_lstm, fits_dots)),
        Kernel("tc_gru_loop_s8_dsp", _DSP, isa=frozenset({"dsp"}), when=(is_s8, is_gru, fits_dots)),
        Kernel("tc_lstm_loop_s8", _PORTABLE, when=(is_s8, is_lstm)),
        Kernel("tc_gru_loop_s8", _PORTABLE, when=(is_s8, is_gru)),
        Kernel(
            "tc_recurrent_f32",
            offered(loop_f32.lower, scratch=loop_f32.scratch, cost=loop_f32.cost),
            when=(in_float32,),
        ),
    ),
    macs=macs,
    traits=frozenset({Trait.ANY_TYPE, Trait.ALL_AT_ONCE}),
    float32=Float32(loop_f32.ref),
)
