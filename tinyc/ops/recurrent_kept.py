# SPDX-License-Identifier: Apache-2.0
"""recurrent_kept: an LSTM or GRU that goes on where the last run ended. Inputs and y as `recurrent` has them; further
outputs are hidden [1,U] and, of an LSTM, cell [1,U] after the step that is last in time.

In integers both states have 16 bits and zero point 0, whatever x and y have: a cell adds up small numbers over many
runs, which 8 bits would round away. The hidden state never leaves [-1, 1], so it is limited to that where it is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tinyc.base.errors import TinycError
from tinyc.base.numerics import Rounding, quantize_multiplier, requantize
from tinyc.ir.graph import Array, DType, Value
from tinyc.kernel.float32 import Float32, in_float32
from tinyc.kernel.kernel import Arg, Call, In, Kernel, Out, Params, Scratch, Struct, offered
from tinyc.kernel.site import Site, Type
from tinyc.kernels.float32 import recurrent_loop as loop_f32
from tinyc.ops import recurrent as loop
from tinyc.ops.op import Bias, Kept, Observed, Op, Trait
from tinyc.ops.recurrent import MEMORY, MOST_MEMORY, Fields, RecurrentParams, fits_dots, is_gru, is_lstm

_X, _HIDDEN, _CELL = 0, 5, 6  # inputs of the node
_ONE = 1 << MEMORY


@dataclass(frozen=True, slots=True)
class RecurrentKept:
    """As `Recurrent`."""

    cell: Literal["lstm", "gru"]
    reverse: bool = False
    sequence: bool = True


def infer(a: RecurrentKept, x: Value, *rest: Value | None) -> Sequence[Type]:
    (y,) = loop.infer(loop.Recurrent(a.cell, a.reverse, a.sequence), x, *rest)
    kept: DType = "f32" if x.dtype == "f32" else "s16"
    return [y, *[Type((1, y.shape[1]), kept)] * len(_states(a))]


def _states(a: RecurrentKept) -> tuple[int, ...]:
    """The inputs that are states."""
    return (_HIDDEN, _CELL) if a.cell == "lstm" else (_HIDDEN,)


def float_ref(a: RecurrentKept, x: Array, *rest: Array | None) -> tuple[Array, ...]:
    y, *kept = loop.float_steps(a, x, *rest)
    return (y, *(state.reshape(1, -1) for state in kept[: len(_states(a))]))


def float32_ref(a: RecurrentKept, x: Array, *rest: Array | None) -> tuple[Array, ...]:
    y, *kept = loop_f32.steps(a, x, *rest)
    return (y, *(state.reshape(1, -1) for state in kept[: len(_states(a))]))


@dataclass(frozen=True, slots=True)
class KeptParams:
    """Integers of the layer. begin, cell_begin: (mult, shift) from a state to Q11.20, (0, 0) of zeros; keep, cell_keep:
    to the states, from what is multiplied of an LSTM, from Q11.20 of a GRU, and of a cell from Q11.20."""

    loop: RecurrentParams
    begin: tuple[int, int]
    cell_begin: tuple[int, int]
    keep: tuple[int, int]
    cell_keep: tuple[int, int]

    def run(self, x: Array, hidden: Array | None, cell: Array | None) -> tuple[Array, ...]:
        units = self.loop.sums.r.shape[1]
        h = np.clip(_rescaled(hidden, self.begin, units), -_ONE, _ONE)
        if self.loop.attrs.cell == "gru":
            y, _, memory = self.loop.steps(x, h, h)
            return y, _sat16(_rescaled(memory, self.keep, units))
        c = np.clip(_rescaled(cell, self.cell_begin, units), -MOST_MEMORY, MOST_MEMORY)
        y, h, c = self.loop.steps(x, h, c)
        return y, _sat16(_rescaled(h, self.keep, units)), _sat16(_rescaled(c, self.cell_keep, units))


def _rescaled(v: Array | None, by: tuple[int, int], units: int) -> Array:
    """[U]; zeros of None."""
    return np.zeros(units, np.int64) if v is None else requantize(v.reshape(-1), *by, Rounding.SINGLE)


def _sat16(v: Array) -> Array:
    return np.clip(v, -32768, 32767).astype(np.int16).reshape(1, -1)


def prepare(site: Site) -> KeptParams:
    """TinycError for values that the integer layer does not take, or where a sum could leave its integer."""
    if not is_kept_s8(site):
        message = f"{site.attrs.cell} of {site.x(_X).dtype}: the integer layer takes int8, and states of int16"
        raise TinycError(message, site.node.where)
    made = loop.made(site, 1.0, (0, 0), (0, 0))
    hidden_point = made.bits if site.attrs.cell == "lstm" else MEMORY
    cell = site.attrs.cell == "lstm"
    return KeptParams(
        made,
        _into(site, _HIDDEN),
        _into(site, _CELL) if cell else (0, 0),
        _out_of(site, 1, hidden_point),
        _out_of(site, 2, MEMORY) if cell else (0, 0),
    )


def _into(site: Site, index: int) -> tuple[int, int]:
    """(mult, shift) from a state's integers to Q11.20."""
    if not site.has(index):
        return 0, 0
    scale, _ = site.scale_zero(site.x(index))
    if scale * 2.0 ** (15 + MEMORY) > MOST_MEMORY:
        raise TinycError(f"the state '{site.x(index).name}' may be beyond 1024", site.node.where)
    return quantize_multiplier(scale * 2.0**MEMORY)


def _out_of(site: Site, output: int, point: int) -> tuple[int, int]:
    """(mult, shift) from integers with `point` bits behind the point to a state's."""
    scale, _ = site.scale_zero(site.y(output))
    if scale * 2.0**30 < 1:
        raise TinycError(f"the scale of the state '{site.y(output).name}' is too small", site.node.where)
    return quantize_multiplier(2.0**-point / scale)


def int_ref(p: KeptParams, x: Array, *rest: Array | None) -> tuple[Array, ...]:
    *_, hidden, cell = loop_f32.with_absent(rest)
    return p.run(x, hidden, cell)


def is_kept_s8(site: Site) -> bool:
    """int8 input and output, constant int8 weights, int16 states with zero point 0"""
    kept = [site.x(k) for k in _states(site.attrs) if site.has(k)]
    kept += [site.y(1 + k) for k in range(len(_states(site.attrs)))]
    wide = all(v.dtype == "s16" and v.quant is not None and not any(v.quant.zero) for v in kept)
    return wide and loop.weights_are_s8(site) and site.x(_X).dtype == site.y().dtype == "s8"


def lower(site: Site, p: KeptParams) -> Call:
    """tc_lstm_kept_s8, tc_gru_kept_s8: all steps, the states over the old ones or elsewhere."""
    return Call(_arguments(site), Struct("tc_recurrent_kept_s8_t", _fields(p, loop.fields(site, p.loop))))


def lower_dsp(site: Site, p: KeptParams) -> Call:
    """tc_lstm_kept_s8_dsp, tc_gru_kept_s8_dsp."""
    return Call(_arguments(site), Struct("tc_recurrent_kept_s8_dsp_t", _fields(p, loop.fields_dsp(site, p.loop))))


def lower_f32(site: Site, p: object) -> Call:
    """tc_lstm_kept_f32, tc_gru_kept_f32."""
    return Call(_arguments(site), loop_f32.struct(site))


def _arguments(site: Site) -> tuple[Arg, ...]:
    states = _states(site.attrs)
    before = loop_f32.states_before(site, states)
    return (Params(), In(_X), *before, *(Out(k) for k in range(1 + len(states))), Scratch())


def _fields(p: KeptParams, inner: Fields) -> Fields:
    found: Fields = {f"layer.{name}": value for name, value in inner.items()}
    pairs = {"hidden": p.begin, "cell": p.cell_begin, "hidden_keep": p.keep, "cell_keep": p.cell_keep}
    for name, (mult, shift) in pairs.items():
        found |= {f"kept.{name}_mult": mult, f"kept.{name}_shift": shift}
    return found


_PORTABLE = offered(
    lower, scratch=lambda site, p: loop.scratch(site, p.loop), cost=lambda site, p: loop.cost(site, p.loop)
)
_DSP = offered(
    lower_dsp, scratch=lambda site, p: loop.scratch_dsp(site, p.loop), cost=lambda site, p: loop.cost_dsp(site, p.loop)
)
_F32 = offered(lower_f32, scratch=loop_f32.scratch, cost=loop_f32.cost)
_ROWS = Observed(axis=0, symmetric=True)

OP = Op(
    name="recurrent_kept",
    attrs=RecurrentKept,
    infer=infer,
    float_ref=float_ref,
    prepare=prepare,
    int_ref=int_ref,
    quant_in=(Observed(), _ROWS, Bias(), _ROWS, Kept(), Observed(), Observed()),
    quant_out=(Observed(), Observed(), Observed()),
    kernels=(
        Kernel("tc_lstm_kept_s8_dsp", _DSP, isa=frozenset({"dsp"}), when=(is_kept_s8, is_lstm, fits_dots)),
        Kernel("tc_gru_kept_s8_dsp", _DSP, isa=frozenset({"dsp"}), when=(is_kept_s8, is_gru, fits_dots)),
        Kernel("tc_lstm_kept_s8", _PORTABLE, when=(is_kept_s8, is_lstm)),
        Kernel("tc_gru_kept_s8", _PORTABLE, when=(is_kept_s8, is_gru)),
        Kernel("tc_lstm_kept_f32", _F32, when=(in_float32, is_lstm)),
        Kernel("tc_gru_kept_f32", _F32, when=(in_float32, is_gru)),
    ),
    macs=loop.macs,
    updates=((1, _HIDDEN), (2, _CELL)),
    traits=frozenset({Trait.ANY_TYPE, Trait.ALL_AT_ONCE}),
    float32=Float32(float32_ref),
)
