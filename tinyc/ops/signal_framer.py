# SPDX-License-Identifier: Apache-2.0
"""signal_framer: a stream of samples cut into frames that overlap.

x int16 [.., k step], state int16 [lines, h], missing int32 [] -> frames int16 [.., k, size], valid bool [], and both
states of the next run. `missing` counts the steps that have to come before there is a frame; frames that are not
there yet are 0 here (TensorFlow Lite Micro leaves what the arena held), and valid says whether all are there.

h is what lies before the new samples when a frame is cut: size - step with samples from before the stream, as prefill
asks for, else that and as much as makes whole steps of it all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.ir.graph import Array, Value
from tinyc.kernel.kernel import Call, Cost, In, Kernel, Out, Params, Struct, offered
from tinyc.kernel.site import Site, Type
from tinyc.ops.copies import with_loops
from tinyc.ops.op import Op, Trait, Unquantized
from tinyc.ops.signal_history import copied, history_cost
from tinyc.ops.signals import need, need_length, no_reals


@dataclass(frozen=True, slots=True)
class SignalFramer:
    size: int
    step: int
    prefill: bool = False

    @property
    def held(self) -> int:
        """Samples of a line that last from run to run."""
        whole = self.size if self.prefill else -(-self.size // self.step) * self.step
        return whole - self.step

    @property
    def missing(self) -> int:
        """Steps that bring no frame when a stream begins."""
        return 0 if self.prefill else self.held // self.step


def infer(a: SignalFramer, x: Value, state: Value, missing: Value) -> Sequence[Type]:
    need(x, "the input", "s16")
    need(state, "the state", "s16")
    need(missing, "the count of missing steps", "s32")
    if not 0 < a.step < a.size:
        raise TinycError(f"frames of {a.size} samples every {a.step}: a step is shorter than a frame, and at least 1")
    if not x.shape or x.shape[-1] % a.step:
        raise TinycError(f"the input {list(x.shape)} does not consist of whole steps of {a.step} samples")
    need_length(state, "the state", x.elements // x.shape[-1] * a.held)
    need_length(missing, "the count of missing steps", 1)
    frames = (*x.shape[:-1], x.shape[-1] // a.step, a.size)
    return [Type(frames, "s16"), Type((), "bool"), Type(state.shape, "s16"), Type((), "s32")]


def prepare(site: Site) -> SignalFramer:
    a = site.attrs
    return SignalFramer(a.size, a.step, a.prefill)


def int_ref(p: SignalFramer, x: Array, state: Array, missing: Array) -> tuple[Array, ...]:
    lines, count, due = x.reshape(-1, x.shape[-1]), x.shape[-1] // p.step, int(missing)
    held = state.reshape(len(lines), -1)
    joined = np.concatenate([held, lines], axis=1)
    frames = np.zeros((len(lines), count, p.size), np.int16)
    for k in range(max(due, 0), count):
        frames[:, k] = joined[:, k * p.step : k * p.step + p.size]
    after = joined[:, joined.shape[1] - p.held :].reshape(state.shape)
    left = np.asarray(max(due - count, 0), np.int32)
    return frames.reshape(*x.shape[:-1], count, p.size), np.asarray(due <= 0), after, left


def lower(site: Site, p: SignalFramer) -> Call:
    x = site.x(0)
    fields: dict[str, int | float | str] = {
        "lines": x.elements // x.shape[-1],
        "samples": x.shape[-1],
        "size": p.size,
        "step": p.step,
        "held": p.held,
    }
    struct = Struct("tc_signal_framer_s16_t", fields)
    return Call((Params(), In(0), In(1), In(2), Out(0), Out(1), Out(2), Out(3)), struct)


def runs(site: Site, p: SignalFramer) -> Mapping[int, int]:
    """Of each line every frame, of samples before and of new ones, and what lasts."""
    samples = site.x(0).shape[-1]
    parts = []
    for at in range(0, samples, p.step):
        old = min(max(p.held - at, 0), p.size)
        parts += [old, p.size - old]
    taken = min(samples, p.held)
    return copied((*filter(None, parts), taken, p.held - taken), site.x(0).elements // samples, 2)


def cost(site: Site, p: SignalFramer) -> Cost:
    return history_cost(site, runs(site, p))


_PARAMETERS = (
    *("const {}_t *p", "const int16_t *x", "const int16_t *before", "const int32_t *missing"),
    *("int16_t *frames", "uint8_t *ready", "int16_t *after", "int32_t *left"),
)


OP = Op(
    name="signal_framer",
    attrs=SignalFramer,
    infer=infer,
    float_ref=no_reals,
    prepare=prepare,
    int_ref=int_ref,
    quant_in=(Unquantized(),),
    quant_out=(Unquantized(),),
    kernels=with_loops(
        Kernel("tc_signal_framer_s16", offered(lower, cost=cost)), runs, _PARAMETERS, counted_as="tc_signal_history"
    ),
    updates=((2, 1), (3, 2)),
    traits=frozenset({Trait.ANY_TYPE}),
)
