# SPDX-License-Identifier: Apache-2.0
"""fully_connected of one row on Cortex-M with DSP, eight outputs at a time, inputs held where one instruction fetches
them: as they are in FPU registers, or unpacked in these and on the stack (`tile/eight_outputs.py`).

`tile/one_pixel.py` unpacks all inputs once, to twice their bytes of scratch or stack, and makes four outputs at a
time. Here eight accumulators for each input fetched make up for unpacking again, or for what the fetch costs.
"""

from __future__ import annotations

from functools import partial

from tinyc.base.dataclass import dataclass
from tinyc.kernel.kernel import Call, Const, Cost, In, Kernel, Out, SpecializedKernel, WrittenCode, planned
from tinyc.kernel.site import Site
from tinyc.kernel.windows import ConvParams
from tinyc.kernels.finish import Finish
from tinyc.kernels.form.function import LayerFunction, twin
from tinyc.kernels.form.plan import WrittenPlan
from tinyc.kernels.stream import PACKED, matrix_of, stream, twin_text
from tinyc.kernels.tile.eight_outputs import OUTPUTS, PARAMETERS, Hold, ResidentLayer, function
from tinyc.kernels.tile.shape import tile_text
from tinyc.machine.thumb import Work

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


ResidentPlan = WrittenPlan[ResidentLayer, Finish]


def plan(site: Site, p: ConvParams, form: ResidentForm) -> ResidentPlan | None:
    """The function that runs the layer; None where no requantization is proved."""
    matrix = matrix_of(p)
    finish = PACKED.finish_of(matrix)
    if finish is None:
        return None
    layer = ResidentLayer(p.w.shape[1], p.w.shape[0], finish.requant, form.hold, site.core, form.fpu)
    return ResidentPlan(layer, finish, matrix, *function("@", layer))


def _function(layer: ResidentLayer, finish: Finish, fast: str) -> LayerFunction:
    contract = f"""/* fully_connected {layer.in_c} -> {layer.out_c}, int8 weights, two outputs over each other.
 * stream: tc_stream.h. x: word aligned.
 */"""
    call = twin("@", PARAMETERS, "tc_stream_pixels(&@_layer, stream, &x, 0, 1, y, 1, NULL);")
    held = "inputs in FPU registers" if layer.held else "inputs on the stack"
    tile = tile_text(1, OUTPUTS, held, PACKED.weights)
    return LayerFunction(contract, fast, f"{twin_text(finish, layer)}\n{call}", fpu=layer.held > 0, tile=tile)


def special(work: ResidentPlan, form: ResidentForm) -> SpecializedKernel:
    """The function of the layer."""
    written = _function(work.layer, work.finish, work.function.text)
    return written.named(f"{form.name}_i{work.layer.in_c}_o{work.layer.out_c}", "tc_stream.h")


def call(work: ResidentPlan) -> Call:
    """The whole tensor."""
    words = stream(work.matrix, work.finish, work.layer.slots, OUTPUTS)
    return Call((Const(words, "stream of tc_stream.h", "stream"), In(0), Out()))


def cost(work: ResidentPlan) -> Cost:
    """Exact but for the step around the call; code counted as all 32-bit instructions."""
    whole = work.executed + _CALL
    code = WrittenCode(work.layer, work.function.code_bytes)
    words = work.layer.requant.head_words + work.layer.groups * work.layer.group_words
    flash = 4 * words + code.size
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
            PACKED.asks,
            call=lambda work, site, p: call(work),
            cost=lambda work, site, p: cost(work),
            special=lambda work, site, p: special(work, form),
        ),
        isa=frozenset({"dsp", "fpu"} if form.fpu else {"dsp"}),
        when=(PACKED.takes, few_inputs, takes) if form.hold == "pairs" else (PACKED.takes, takes),
        asks=PACKED.asks,
        written=True,
    )


KERNELS = tuple(_kernel(form) for form in FORMS)
