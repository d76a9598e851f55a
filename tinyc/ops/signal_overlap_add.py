# SPDX-License-Identifier: Apache-2.0
"""signal_overlap_add: frames that overlap put together to a stream; each sum saturates.

x int16 [.., k, n], state int16 [lines, n] -> y int16 [.., k step] and the next state. For each frame in turn: it is
added to the state, whose first `step` samples are put out and make way for zeros at its end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tinyc.base.errors import TinycError
from tinyc.ir.graph import Array, Value
from tinyc.kernel.kernel import Call, Cost, In, Kernel, Out, offered
from tinyc.kernel.site import Site, Type
from tinyc.ops.op import Kept, Op, Trait
from tinyc.ops.signals import need, need_between, need_length, no_reals


@dataclass(frozen=True, slots=True)
class SignalOverlapAdd:
    step: int


def infer(a: SignalOverlapAdd, x: Value, state: Value) -> Sequence[Type]:
    need(x, "the input", "s16")
    need(state, "the state", "s16")
    if len(x.shape) < 2:
        raise TinycError(f"overlap-add of a tensor {list(x.shape)}: it takes frames by samples")
    need_between("the step of the frames", a.step, 1, x.shape[-1])
    need_length(state, "the state", x.elements // x.shape[-2])
    return [Type((*x.shape[:-2], x.shape[-2] * a.step), "s16"), Type(state.shape, "s16")]


@dataclass(frozen=True, slots=True)
class OverlapParams:
    step: int


def prepare(site: Site) -> OverlapParams:
    return OverlapParams(site.attrs.step)


def int_ref(p: OverlapParams, x: Array, state: Array) -> tuple[Array, ...]:
    count, size = x.shape[-2:]
    frames = x.reshape(-1, count, size).astype(np.int32)
    held = state.reshape(-1, size).astype(np.int32)
    y = np.zeros((len(frames), count * p.step), np.int16)
    for k in range(count):
        held = np.clip(held + frames[:, k], -32768, 32767)
        y[:, k * p.step : (k + 1) * p.step] = held[:, : p.step]
        held = np.concatenate([held[:, p.step :], np.zeros((len(held), p.step), np.int32)], axis=1)
    return y.reshape(*x.shape[:-2], -1), held.astype(np.int16).reshape(state.shape)


def lower(site: Site, p: OverlapParams) -> Call:
    count, size = site.x(0).shape[-2:]
    return Call((In(0), In(1), site.x(0).elements // (count * size), count, size, p.step, Out(0), Out(1)))


def cost(site: Site, p: OverlapParams) -> Cost:
    return Cost(16 * site.x(0).elements + 60, 220, 0)


OP = Op(
    name="signal_overlap_add",
    attrs=SignalOverlapAdd,
    infer=infer,
    float_ref=no_reals,
    prepare=prepare,
    int_ref=int_ref,
    quant_in=(Kept(),),
    quant_out=(Kept(),),
    kernels=(Kernel("tc_signal_overlap_add_s16", offered(lower, cost=cost)),),
    updates=((1, 1),),
    traits=frozenset({Trait.ANY_TYPE}),
)
