# SPDX-License-Identifier: Apache-2.0
"""signal_stacker: features of `left` frames before, of one, and of `right` after it, side by side, every `step` frames.

x int16 [C], state int16 [(left + right) C], due int32 [] -> stacked int16 [(left + 1 + right) C], valid bool [], and
both states of the next run. The first frame stands for those before it. `due`: frames until the next output, counting
this one; 0 before the first frame. Where nothing is due the output is 0 here (TensorFlow Lite Micro leaves what the
arena held).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.ir.graph import Array, Value
from tinyc.kernel.kernel import Call, Cost, In, Kernel, Out, Params, Struct, offered
from tinyc.kernel.site import Site, Type
from tinyc.ops.copies import with_loops
from tinyc.ops.op import Op, Trait, Unquantized
from tinyc.ops.signal_history import copied, history_cost
from tinyc.ops.signals import need, need_between, need_length, no_reals

_MOST_FRAMES = 4096
_ZERO = 2  # instructions of an element that is cleared


@dataclass(frozen=True, slots=True)
class SignalStacker:
    left: int
    right: int
    step: int


def infer(a: SignalStacker, x: Value, state: Value, due: Value) -> Sequence[Type]:
    need(x, "the input", "s16")
    need(state, "the state", "s16")
    need(due, "the count of frames", "s32")
    need_between("the left context", a.left, 0, _MOST_FRAMES)
    need_between("the right context", a.right, 0, _MOST_FRAMES)
    need_between("the step of the stacker", a.step, 1, a.left + 1 + a.right)
    if a.left + a.right < 1:
        raise TinycError("a stacker without context stacks nothing")
    need_length(state, "the state", (a.left + a.right) * x.elements)
    need_length(due, "the count of frames", 1)
    stacked = ((a.left + 1 + a.right) * x.elements,)
    return [Type(stacked, "s16"), Type((), "bool"), Type(state.shape, "s16"), Type((), "s32")]


@dataclass(frozen=True, slots=True)
class StackerParams:
    right: int
    step: int


def prepare(site: Site) -> StackerParams:
    return StackerParams(site.attrs.right, site.attrs.step)


def int_ref(p: StackerParams, x: Array, state: Array, due: Array) -> tuple[Array, ...]:
    frame, held, left = x.reshape(-1), state.reshape(-1), int(due)
    if left <= 0:
        held, left = np.resize(frame, len(held)), p.right + 1
    joined = np.concatenate([held, frame])
    is_due = left == 1
    y = joined if is_due else np.zeros_like(joined)
    after = joined[len(frame) :].reshape(state.shape)
    return y, np.asarray(is_due), after, np.asarray(p.step if is_due else left - 1, np.int32)


def lower(site: Site, p: StackerParams) -> Call:
    fields: dict[str, int | float | str] = {
        "channels": site.x(0).elements,
        "held": site.x(1).elements,
        "right": p.right,
        "step": p.step,
    }
    struct = Struct("tc_signal_stacker_s16_t", fields)
    return Call((Params(), In(0), In(1), In(2), Out(0), Out(1), Out(2), Out(3)), struct)


def runs(site: Site, p: StackerParams) -> Mapping[int, int]:
    """What was held, twice, and the frame."""
    return copied((site.x(1).elements, site.x(0).elements, site.x(1).elements), 1, 2)


def cost(site: Site, p: StackerParams) -> Cost:
    """With an output of zeros, which most steps have."""
    copies = history_cost(site, runs(site, p))
    return replace(copies, instructions=copies.instructions + _ZERO * site.y(0).elements)


_PARAMETERS = (
    *("const {}_t *p", "const int16_t *x", "const int16_t *before", "const int32_t *due"),
    *("int16_t *y", "uint8_t *ready", "int16_t *after", "int32_t *next"),
)


OP = Op(
    name="signal_stacker",
    attrs=SignalStacker,
    infer=infer,
    float_ref=no_reals,
    prepare=prepare,
    int_ref=int_ref,
    quant_in=(Unquantized(),),
    quant_out=(Unquantized(),),
    kernels=with_loops(
        Kernel("tc_signal_stacker_s16", offered(lower, cost=cost)), runs, _PARAMETERS, counted_as="tc_signal_history"
    ),
    updates=((2, 1), (3, 2)),
    traits=frozenset({Trait.ANY_TYPE}),
)
