# SPDX-License-Identifier: Apache-2.0
"""signal_history: what a state remembers of the samples that came: the last of those before and of the new ones.

x [lines, n] and state [lines, h], any type -> the next state [lines, h]: of each line the last h of state and x, one
after the other. Further inputs are not read: they are what others have computed of the state, so that it is written
over its old bytes behind them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.ir.graph import Array, Value
from tinyc.kernel.counted import counted
from tinyc.kernel.kernel import Call, Cost, In, Kernel, Out, offered
from tinyc.kernel.site import Site, Type
from tinyc.ops.copies import with_loops
from tinyc.ops.movement import element_bytes, need_one_quant
from tinyc.ops.op import Op, SameAs, Trait, Unquantized
from tinyc.ops.signals import no_reals


@dataclass(frozen=True, slots=True)
class SignalHistory:
    """No attributes."""


def infer(a: SignalHistory, x: Value, state: Value, *after: Value) -> Sequence[Type]:
    if not x.shape or len(x.shape) != len(state.shape) or x.shape[:-1] != state.shape[:-1] or x.dtype != state.dtype:
        raise TinycError(
            f"a history {state.dtype} {list(state.shape)} of a tensor {x.dtype} {list(x.shape)}: they may differ in "
            "the length of their lines alone"
        )
    return [Type(state.shape, state.dtype)]


@dataclass(frozen=True, slots=True)
class HistoryParams:
    """Nothing is prepared."""


def prepare(site: Site) -> HistoryParams:
    need_one_quant(site, site.node.inputs[:2])
    return HistoryParams()


def int_ref(p: HistoryParams, x: Array, state: Array, *after: Array) -> tuple[Array, ...]:
    return (np.ascontiguousarray(np.concatenate([state, x], axis=-1)[..., -state.shape[-1] :]),)


def lower(site: Site, p: HistoryParams) -> Call:
    """tc_signal_history, in bytes."""
    x, y = site.x(0), site.y()
    width = element_bytes(x)
    return Call((In(0), In(1), y.elements // y.shape[-1], width * x.shape[-1], width * y.shape[-1], Out()))


def runs(site: Site, p: HistoryParams) -> Mapping[int, int]:
    """Of each line what stays, and what is new."""
    y, width = site.y(), element_bytes(site.x(0))
    taken = min(site.x(0).shape[-1], y.shape[-1])
    return copied((taken, y.shape[-1] - taken), y.elements // y.shape[-1], width)


def copied(parts: Iterable[int], lines: int, width: int) -> Mapping[int, int]:
    """How many runs of so many bytes: of each line these, in elements of `width` bytes."""
    return {width * part: lines * count for part, count in Counter(parts).items()}


def history_cost(site: Site, own: Mapping[int, int]) -> Cost:
    """Of runs that are copied as tc_signal_history copies them."""
    whole = sum(size * count for size, count in own.items())
    return counted("tc_signal_history", site, {"run": sum(own.values()), "byte": whole})


def cost(site: Site, p: HistoryParams) -> Cost:
    return history_cost(site, runs(site, p))


_PARAMETERS = ("const void *x", "const void *before", "int32_t lines", "int32_t fresh", "int32_t held", "void *after")


OP = Op(
    name="signal_history",
    attrs=SignalHistory,
    infer=infer,
    float_ref=no_reals,
    prepare=prepare,
    int_ref=int_ref,
    quant_in=(Unquantized(),),
    quant_out=(SameAs(1),),
    kernels=with_loops(Kernel("tc_signal_history", offered(lower, cost=cost)), runs, _PARAMETERS),
    updates=((0, 1),),
    traits=frozenset({Trait.ANY_TYPE}),
)
