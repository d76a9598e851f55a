# SPDX-License-Identifier: Apache-2.0
"""signal_overlap_add: frames that overlap put together to a stream; each sum saturates.

x int16 [.., k, n], state int16 [lines, n] -> y int16 [.., k step] and the next state. For each frame in turn: it is
added to the state, whose first `step` samples are put out and make way for zeros at its end.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.ir.graph import Array, Value
from tinyc.kernel.counted import CountedCost, Units
from tinyc.kernel.kernel import Call, Cost, In, Kernel, Out, SpecializedKernel, WrittenCode, offered
from tinyc.kernel.site import Site, Type
from tinyc.loops.expression import Element, SaturatedSum
from tinyc.loops.lines import AROUND, CODE_BYTES, LINE, LoopLines
from tinyc.loops.written import LOOP_CORES, LoopCore, LoopFunction
from tinyc.machine.work import Work
from tinyc.ops.op import Op, Trait, Unquantized
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


_NAME = "tc_signal_overlap_add_s16"
_ARGUMENTS = "x, before, lines, frames, size, step, y, after"
_CLEARED = Work(2, 3)  # of a sample that becomes 0


def of_samples(site: Site, p: OverlapParams) -> Units:
    """Samples of the frames, those that become 0, and frames."""
    x, frames = site.x(0), site.x(0).elements // site.x(0).shape[-1]
    return {"element": x.elements, "cleared": frames * p.step, "line": frames}


def _sums(ending: str, size: int) -> LoopFunction:
    """The loop of so many sums."""
    root = SaturatedSum(Element(0, ctype="int16_t"), Element(1, ctype="int16_t"))
    says = "y[i] = x0[i] + x1[i], limited to int16; y may lie before x0."
    return LoopFunction(f"tc_sums_s16_{ending}", says, root, "", (), LoopLines((), size))


def _with_loop(ending: str, on: LoopCore) -> Kernel:
    def special(site: Site, p: OverlapParams) -> SpecializedKernel:
        line = _sums(ending, 1).line(on, site.core)
        declared = (
            "const int16_t *x, const int16_t *before, int32_t lines, int32_t frames, int32_t size, int32_t step,\n"
            "    int16_t *y, int16_t *after"
        )
        text = f"""/* As {_NAME}. */
static void {_NAME}_{ending}(
    {declared})
{{
    {_NAME}_by({_ARGUMENTS}, {line.name});
}}"""
        return SpecializedKernel(f"{_NAME}_{ending}", text, (f"{_NAME}.h", *line.includes), (line,))

    def cost(site: Site, p: OverlapParams) -> Cost:
        size = site.x(0).shape[-1]
        asm = on.code(_sums(ending, 1), site.core)
        each = p.step * _CLEARED
        for count in filter(None, (p.step, size - p.step)):
            each += LINE + on.work(_sums(ending, count), asm)
        whole = site.x(0).elements // size * each + AROUND
        instructions, cycles = int(whole.instructions * on.share), int(whole.cycles * on.share)
        code = WrittenCode((_NAME, ending), asm.code_bytes)
        return Cost(instructions, asm.code_bytes + 2 * CODE_BYTES, 0, cycles, code=code)

    return Kernel(f"{_NAME}_{ending}", offered(lower, cost=cost, specialize=special), isa=on.isa, written=True)


OP = Op(
    name="signal_overlap_add",
    attrs=SignalOverlapAdd,
    infer=infer,
    float_ref=no_reals,
    prepare=prepare,
    int_ref=int_ref,
    quant_in=(Unquantized(),),
    quant_out=(Unquantized(),),
    kernels=(
        *(_with_loop(ending, LOOP_CORES[ending]) for ending in ("mve", "dsp", "rvv")),
        Kernel(_NAME, offered(lower, cost=CountedCost(_NAME, of_samples))),
    ),
    updates=((1, 1),),
    traits=frozenset({Trait.ANY_TYPE}),
)
