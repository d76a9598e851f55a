# SPDX-License-Identifier: Apache-2.0
"""recurrent_kept: an LSTM or GRU that goes on where the last run ended. Inputs and y as `recurrent` has them; further
outputs are hidden [1,U] and, of an LSTM, cell [1,U] after the step that is last in time.

In integers both states have 16 bits and zero point 0, whatever x and y have: a cell adds up small numbers over many
runs, which 8 bits would round away. The hidden state never leaves [-1, 1], so it is limited to that where it is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Rounding
from tinyc.base.requantize import quantize_multiplier, requantize
from tinyc.ir.graph import Array, DType, Value
from tinyc.kernel.counted import CountedCost
from tinyc.kernel.float32 import Float32
from tinyc.kernel.kernel import Arg, Call, Condition, In, Kernel, Offering, Out, Params, Scratch, Struct, offered
from tinyc.kernel.site import Site, Type
from tinyc.kernel.types import in_float32
from tinyc.kernels.float32 import recurrent_loop as loop_f32
from tinyc.ops import recurrent as loop
from tinyc.ops.op import Bias, Observed, Op, Trait, Unquantized
from tinyc.ops.recurrent import (
    MEMORY,
    MOST_MEMORY,
    ROWS_OF_R,
    ROWS_OF_W,
    Begin,
    Fields,
    RecurrentParams,
    is_gru,
    is_lstm,
)

_X, _HIDDEN, _CELL = 0, 5, 6  # inputs of the node
_ONE = 1 << MEMORY


@dataclass(frozen=True, slots=True)
class RecurrentKept:
    """As `Recurrent`. clip: bound of the cell's reals after each step, 0 for none. In integers the cell keeps to it
    from run to run, as its scale is that of what calibration saw; tanh of what is beyond is 1 anyway."""

    cell: Literal["lstm", "gru"]
    reverse: bool = False
    sequence: bool = True
    clip: float = 0.0


def infer(a: RecurrentKept, x: Value, *rest: Value | None) -> Sequence[Type]:
    (y,) = loop.infer(loop.Recurrent(a.cell, a.reverse, a.sequence), x, *rest)
    state_type: DType = "f32" if x.dtype == "f32" else "s16"
    return [y, *[Type((1, y.shape[1]), state_type)] * len(_states(a))]


def _states(a: RecurrentKept) -> tuple[int, ...]:
    """The inputs that are states."""
    return (_HIDDEN, _CELL) if a.cell == "lstm" else (_HIDDEN,)


def float_ref(a: RecurrentKept, x: Array, *rest: Array | None) -> tuple[Array, ...]:
    y, *states = loop.float_steps(a, x, *rest)
    return (y, *(state.reshape(1, -1) for state in states[: len(_states(a))]))


def float32_ref(a: RecurrentKept, x: Array, *rest: Array | None) -> tuple[Array, ...]:
    y, *states = loop_f32.steps(a, x, *rest)
    return (y, *(state.reshape(1, -1) for state in states[: len(_states(a))]))


@dataclass(frozen=True, slots=True)
class StatefulParams:
    """Integers of the layer. keep, cell_keep: (mult, shift) to the states, from what is multiplied of an LSTM, from
    Q11.20 of a GRU, and of a cell from Q11.20."""

    loop: RecurrentParams
    keep: tuple[int, int]
    cell_keep: tuple[int, int]

    def run(self, x: Array, hidden: Array | None, cell: Array | None) -> tuple[Array, ...]:
        y, h, memory = self.loop.steps(x, hidden, cell)
        if self.loop.attrs.cell == "gru":
            return y, _stored(memory, self.keep)
        return y, _stored(h, self.keep), _stored(memory, self.cell_keep)


def _stored(v: Array, by: tuple[int, int]) -> Array:
    return np.clip(requantize(v, *by, Rounding.SINGLE), -32768, 32767).astype(np.int16).reshape(1, -1)


def prepare(site: Site) -> StatefulParams:
    """TinycError for values that the integer layer does not take, or where a sum could leave its integer."""
    if not (is_stateful(site) or is_narrow(site)):
        message = f"{site.attrs.cell} of {site.x(_X).dtype}: the integer layer takes int8 or int16, and states of int16"
        raise TinycError(message, site.node.where)
    cell = site.attrs.cell == "lstm"
    params = loop.loop_params(
        site, 1.0, _into(site, _HIDDEN, _ONE), _into(site, _CELL, MOST_MEMORY) if cell else Begin()
    )
    return StatefulParams(
        params,
        _out_of(site, 1, params.bits if cell else MEMORY),
        _out_of(site, 2, MEMORY) if cell else (0, 0),
    )


def _into(site: Site, index: int, most: int) -> Begin:
    """From a state's integers to Q11.20."""
    if not site.has(index):
        return Begin()
    scale, _ = site.scale_zero(site.x(index))
    if scale * 2.0 ** (15 + MEMORY) > MOST_MEMORY:
        raise TinycError(f"the state '{site.x(index).name}' may be beyond 1024", site.node.where)
    return Begin(*quantize_multiplier(scale * 2.0**MEMORY), 0, most)


def _out_of(site: Site, output: int, point: int) -> tuple[int, int]:
    """(mult, shift) from integers with `point` bits behind the point to a state's."""
    scale, _ = site.scale_zero(site.y(output))
    if scale * 2.0**30 < 1:
        raise TinycError(f"the scale of the state '{site.y(output).name}' is too small", site.node.where)
    return quantize_multiplier(2.0**-point / scale)


def int_ref(p: StatefulParams, x: Array, *rest: Array | None) -> tuple[Array, ...]:
    *_, hidden, cell = loop_f32.with_absent(rest)
    return p.run(x, hidden, cell)


def is_stateful(site: Site) -> bool:
    """int8 or int16 input and output, constant int8 weights, int16 states with zero point 0"""
    return loop.weights_are(site, "s8") and _outside(site)


def is_narrow(site: Site) -> bool:
    """int8 or int16 input and output, constant int4 weights, int16 states with zero point 0"""
    return loop.weights_are(site, "s4") and _outside(site)


def _outside(site: Site) -> bool:
    states = [site.x(k) for k in _states(site.attrs) if site.has(k)]
    states += [site.y(1 + k) for k in range(len(_states(site.attrs)))]
    wide = all(v.dtype == "s16" and v.quant is not None and not any(v.quant.zero) for v in states)
    return wide and loop.one_width(site)


def unclipped(site: Site) -> bool:
    """no bound of the cell"""
    return site.attrs.clip == 0


def lower(site: Site, p: StatefulParams) -> Call:
    """tc_lstm_loop, tc_gru_loop: all steps, the states over the old ones or elsewhere."""
    return Call(_arguments(site), Struct("tc_recurrent_s8_t", loop.fields(site, p.loop) | _fields(p)))


def lower_mve(site: Site, p: StatefulParams) -> Call:
    """tc_lstm_loop_mve, tc_gru_loop_mve: all steps."""
    return Call(_arguments(site), Struct("tc_recurrent_mve_t", loop.vector_fields(site, p.loop) | _fields(p)))


def lower_asm(site: Site, p: StatefulParams) -> Call:
    """The function that is written for the layer."""
    return Call(_arguments(site), Struct("tc_recurrent_packed_t", loop.packed_fields(site, p.loop) | _fields(p)))


def lower_f32(site: Site, p: object) -> Call:
    """tc_lstm_kept_f32, tc_gru_kept_f32."""
    return Call(_arguments(site), loop_f32.struct(site))


def _arguments(site: Site) -> tuple[Arg, ...]:
    states = _states(site.attrs)
    before = loop_f32.states_before(site, states)
    return (Params(), In(_X), *before, *(Out(k) for k in range(1 + len(states))), Scratch())


def _fields(p: StatefulParams) -> Fields:
    pairs = {"hidden_keep": p.keep, "cell_keep": p.cell_keep}
    return {
        f"cell.{name}_{part}": value
        for name, pair in pairs.items()
        for part, value in zip(("mult", "shift"), pair, strict=True)
    }


def _portable(name: str) -> Offering:
    cost = CountedCost(
        name,
        lambda site, p: loop.of_units(site, p.loop),
        flash=lambda site, p: loop.constant_bytes(site, p.loop),
    )
    return offered(lower, scratch=lambda site, p: loop.scratch(site, p.loop), cost=cost)


_MVE = offered(
    lower_mve,
    scratch=lambda site, p: loop.scratch_mve(site, p.loop),
    cost=lambda site, p: loop.cost_mve(site, p.loop),
)
_ASM = offered(
    lower_asm,
    scratch=lambda site, p: loop.scratch(site, p.loop),
    cost=lambda site, p: loop.cost_asm(site, p.loop),
    specialize=lambda site, p: loop.special(site, p.loop),
)


def _f32_kernel(name: str, *when: Condition) -> Kernel:
    offer = offered(lower_f32, scratch=loop_f32.scratch, cost=loop_f32.cost(name))
    return Kernel(name, offer, when=(in_float32, *when))


OP = Op(
    name="recurrent_kept",
    attrs=RecurrentKept,
    infer=infer,
    float_ref=float_ref,
    prepare=prepare,
    int_ref=int_ref,
    quant_in=(Observed(), ROWS_OF_W, Bias(), ROWS_OF_R, Unquantized(), Observed(), Observed()),
    quant_out=(Observed(), Observed(), Observed()),
    kernels=(
        *loop.loops(is_stateful, is_narrow, _MVE, _ASM, _portable),
        _f32_kernel("tc_lstm_kept_f32", is_lstm, unclipped),
        _f32_kernel("tc_gru_kept_f32", is_gru),
    ),
    macs=loop.macs,
    updates=((1, _HIDDEN), (2, _CELL)),
    traits=frozenset({Trait.ANY_TYPE, Trait.ALL_AT_ONCE, Trait.INT16}),
    float32=Float32(float32_ref),
)
