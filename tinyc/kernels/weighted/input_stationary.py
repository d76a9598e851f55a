# SPDX-License-Identifier: Apache-2.0
"""fully_connected of one row on Cortex-M with DSP, eight outputs at a time, inputs held where one instruction fetches
them: as they are in FPU registers, or unpacked in these and on the stack (`input_stationary_code.py`).

`dense.py` unpacks all inputs once, to twice their bytes of scratch or stack, and makes four outputs at a time. Here
eight accumulators for each input fetched make up for unpacking again, or for what the fetch costs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from tinyc.kernel.kernel import Call, Const, Cost, In, Kernel, Out, SpecializedKernel, WrittenCode, planned
from tinyc.kernel.site import Site
from tinyc.kernel.windows import ConvParams, is_s8
from tinyc.kernels.finish import Finish
from tinyc.kernels.form.function import LayerFunction, described, twin
from tinyc.kernels.matrix import Matrix
from tinyc.kernels.stream import PROVED, matrix_of, packed
from tinyc.kernels.weighted.input_stationary_code import OUTPUTS, PARAMETERS, Hold, ResidentLayer, function
from tinyc.machine.thumb import Naked, Work

_MOST_INPUTS = 2**15
_MOST_PAIRS = 256  # inputs that are unpacked: stack, and code for each
_CALL = Work(10, 16)


@dataclass(frozen=True, slots=True)
class ResidentForm:
    """A kernel: how it holds inputs, and whether it has FPU registers for them."""

    name: str
    hold: Hold
    fpu: bool


FORMS = (
    ResidentForm("tc_fully_connected_s8_fpu_asm", "words", True),
    ResidentForm("tc_fully_connected_s8_fpu_pairs_asm", "pairs", True),
    ResidentForm("tc_fully_connected_s8_pairs_asm", "pairs", False),
)


@dataclass(frozen=True, slots=True)
class ResidentPlan:
    """The function of a layer and the proof behind its constants."""

    layer: ResidentLayer
    finish: Finish
    matrix: Matrix
    function: Naked
    executed: Work


def plan(site: Site, p: ConvParams, form: ResidentForm) -> ResidentPlan | None:
    """The function that runs the layer; None where no requantization is proved."""
    matrix = matrix_of(p)
    finish = matrix.once(packed)
    if finish is None:
        return None
    layer = ResidentLayer(p.w.shape[1], p.w.shape[0], finish.requant, form.hold, site.core, form.fpu)
    return ResidentPlan(layer, finish, matrix, *function("@", layer))


def _function(layer: ResidentLayer, fast: str) -> LayerFunction:
    requant = layer.requant
    fields = {
        "in_c": layer.in_c,
        "out_c": layer.out_c,
        "halve": int(requant.halve),
        "twice": int(requant.double),
        **requant.described(2),
    }
    contract = f"""/* fully_connected {layer.in_c} -> {layer.out_c}, int8 weights, two outputs over each other.
 * stream: tc_dense_held.h. x: word aligned.
 */"""
    portable = twin("@", PARAMETERS, *described("tc_dense_held_t", fields), "tc_dense_held(&layer, stream, x, y);")
    return LayerFunction(contract, fast, portable, fpu=layer.held > 0)


def special(work: ResidentPlan, form: ResidentForm) -> SpecializedKernel:
    """The function of the layer."""
    written = _function(work.layer, work.function.text)
    return written.named(f"{form.name}_i{work.layer.in_c}_o{work.layer.out_c}", "tc_dense_held.h")


def call(work: ResidentPlan) -> Call:
    """The whole tensor."""
    return Call((Const(_stream(work), "stream of tc_dense_held.h", "stream"), In(0), Out()))


def _stream(work: ResidentPlan) -> npt.NDArray[np.int32]:
    """The words of the layer."""
    layer, finish, matrix = work.layer, work.finish, work.matrix
    spare = layer.groups * OUTPUTS - len(matrix.taps)
    taps = np.pad(matrix.taps * finish.live[:, None], ((0, spare), (0, 0)))
    halves = 256 * taps[0::2] + taps[1::2]  # [O / 2, I]
    fours = halves.reshape(len(halves), -1, 4)
    words = np.stack([(fours[..., i] & 0xFFFF) | (fours[..., i + 2] << 16) for i in range(2)], axis=-1)
    weights = words.reshape(layer.groups, OUTPUTS // 2, -1).transpose(0, 2, 1).reshape(layer.groups, -1)
    start = np.pad(finish.start_values(matrix.p.bias.astype(np.int64)), (0, spare)).reshape(layer.groups, -1)
    constants = np.pad(finish.constants(), ((0, spare), (0, 0))).reshape(layer.groups, -1)
    rows = np.concatenate([start, weights, constants], axis=1)
    return (rows.ravel() & 0xFFFFFFFF).astype(np.uint32).view(np.int32)


def cost(work: ResidentPlan) -> Cost:
    """Exact but for the step around the call; code counted as all 32-bit instructions."""
    whole = work.executed + _CALL
    code = WrittenCode(work.layer, work.function.code_bytes)
    flash = 4 * work.layer.groups * work.layer.group_words + code.size
    return Cost(whole.instructions, flash, 0, whole.cycles, code=code)


def takes(site: Site) -> bool:
    """one row of inputs, their number a multiple of 4 below 32768, constant weights"""
    if not site.is_const(1):
        return False
    out_c, in_c = site.x(1).shape
    return in_c % 4 == 0 and in_c < _MOST_INPUTS and site.y().elements == out_c


def few_inputs(site: Site) -> bool:
    """at most 256 inputs"""
    return site.x(1).shape[1] <= _MOST_PAIRS


def _kernel(form: ResidentForm) -> Kernel:
    return Kernel(
        form.name,
        planned(
            partial(plan, form=form),
            PROVED[packed],
            call=lambda work, site, p: call(work),
            cost=lambda work, site, p: cost(work),
            special=lambda work, site, p: special(work, form),
        ),
        isa=frozenset({"dsp", "fpu"} if form.fpu else {"dsp"}),
        when=(is_s8, few_inputs, takes) if form.hold == "pairs" else (is_s8, takes),
        asks=PROVED[packed],
        written=True,
    )


KERNELS = tuple(_kernel(form) for form in FORMS)
