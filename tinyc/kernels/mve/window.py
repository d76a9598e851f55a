# SPDX-License-Identifier: Apache-2.0
"""depthwise_conv2d of one window that is the whole image, with Helium (MVE): lanes are channels.

Such layers are what streaming models keep of their past: [time, channels] becomes [channels]. Products of int8 are
int16, and as many of them are added up as fit there whatever the input is; then they go to sums of int32, those of
even channels and those of odd ones, which is how narrowing puts them together again.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tinyc.base.dataclass import dataclass
from tinyc.kernel.kernel import Call, Const, Cost, In, Kernel, Out, SpecializedKernel, planned
from tinyc.kernel.site import Site
from tinyc.kernel.types import is_s8
from tinyc.kernel.windows import ConvParams
from tinyc.kernels.form.function import MVE, LayerFunction, twin
from tinyc.kernels.form.plan import LayerPlan
from tinyc.kernels.mve.dot import BYTE_REACH, LANES
from tinyc.kernels.mve.finish import PROVED, LaneFinish, LaneRequantization, lanes
from tinyc.kernels.mve.lanes import STREAM, load_constants, narrow, scale_vectors, set_power, to_bytes
from tinyc.kernels.stream import as_words, depthwise_matrix_of
from tinyc.kernels.tile.shape import tile_text
from tinyc.machine.cores import CORTEX_M55
from tinyc.machine.thumb import Asm, Work, naked_function

NAME = "tc_depthwise_conv2d_s8_window_mve"
_MOST_TAPS = 64
_EIGHT = 2 * LANES
_MOST_SUM = 255  # of weights' sizes: 255 * 128 < 2^15
_CALL = Work(12, 18)
_POWER = "r5"
_PARAMETERS = ("const int32_t *stream", "const int8_t *x", "int8_t *y")


@dataclass(frozen=True)
class WindowLayer:
    """What the code depends on. groups: so many taps at a time have sums that fit int16."""

    channels: int
    groups: tuple[int, ...]
    requant: LaneRequantization

    @property
    def taps(self) -> int:
        return sum(self.groups)

    @property
    def chunks(self) -> int:
        return -(-self.channels // _EIGHT)

    @property
    def is_partial(self) -> bool:
        return self.channels % _EIGHT != 0


WindowPlan = LayerPlan[WindowLayer, LaneFinish]


def takes(site: Site) -> bool:
    """constant weights, one output per input channel, one window over the whole image, not padded, of 2 to 64 taps"""
    if not site.is_const(1) or site.x(1).shape[2] != site.x(0).shape[3]:
        return False
    k_h, k_w, _ = site.x(1).shape
    whole = site.x(0).shape[1:3] == (k_h, k_w) and site.y().shape[1:3] == (1, 1) and not any(site.attrs.pad)
    return bool(whole and site.attrs.dilation == (1, 1) and 2 <= k_h * k_w <= _MOST_TAPS)


def plan(site: Site, p: ConvParams) -> WindowPlan | None:
    """None where no requantization is proved."""
    matrix = depthwise_matrix_of(p)
    finish = matrix.once(lanes)
    if finish is None:
        return None
    channels = p.w.shape[-1]
    taps = matrix.taps[:channels] * finish.live[:channels, None]
    return WindowPlan(WindowLayer(channels, _groups(taps), finish.requant), finish, matrix)


def _groups(taps: npt.NDArray[np.int64]) -> tuple[int, ...]:
    """How many of the taps [C, T] are added up before their sums go to int32, from the first on."""
    groups: list[int] = []
    room = np.zeros(len(taps), np.int64)
    for tap in np.abs(taps).T:
        if groups and (tap <= room).all():
            groups[-1] += 1
        else:
            groups.append(1)
            room = np.full(len(taps), _MOST_SUM)
        room = room - tap
    return tuple(groups)


def _stream(work: WindowPlan) -> npt.NDArray[np.int32]:
    """Of each eight channels: weights [taps][8], then the vectors of constants of the even and of the odd ones."""
    layer, count = work.layer, _EIGHT * work.layer.chunks
    taps = np.zeros((layer.taps, count), np.int8)
    live = work.finish.live[: layer.channels, None]
    taps[:, : layer.channels] = (work.matrix.taps[: layer.channels] * live).T
    constants = work.finish.constants(work.matrix.p.bias.astype(np.int64))[:, : layer.channels]
    constants = np.pad(constants, ((0, 0), (0, count - layer.channels)))
    words = as_words(constants)
    parts = []
    for first in range(0, count, _EIGHT):
        parts.append(np.ascontiguousarray(taps[:, first : first + _EIGHT]).view(np.int32).ravel())
        parts += [words[:, first + odd : first + _EIGHT : 2].ravel() for odd in (0, 1)]
    return np.concatenate(parts)


def _function(layer: WindowLayer) -> tuple[str, Work]:
    """The naked function `@`. Registers: r1 x of the chunk, r2 y, r3 channels left, r4 x, r5 2^scale, r6 weights, r11
    stream; q0 and q1 factors, q4 sums of int16, q2 and q3 sums of even and of odd channels."""
    asm = Asm(CORTEX_M55)
    when = "t" if layer.is_partial else ""
    asm.save("{r4-r6, r11, lr}", "{d8-d9}")
    asm.op("mov", STREAM, "r0")
    set_power(asm, layer.requant, _POWER)
    if layer.is_partial:
        asm.constant("r3", layer.channels)
    asm.constant("lr", layer.chunks)
    with asm.loop("eight", layer.chunks):
        if layer.is_partial:
            asm.op("vctp.16", "r3")
            asm.op("sub", "r3", "r3", f"#{_EIGHT}")
        asm.op("mov", "r4", "r1")
        asm.op("mov", "r6", STREAM)
        asm.op("add", STREAM, STREAM, f"#{_EIGHT * layer.taps}")
        _sums(asm, layer, when)
        asm.note("requantize and store")
        for start, sums in (("q0", "q2"), ("q4", "q3")):
            load_constants(asm, start, 0, True)
            asm.op("vmla.s32", start, sums, _POWER)
            scale_vectors(asm, layer.requant, [(start, sums)], "q1", True)
        narrow(asm, layer.requant, "q0", "q0", False)
        narrow(asm, layer.requant, "q0", "q4", True)
        to_bytes(asm, layer.requant, ["q0"], "q1")
        asm.op("add", "r1", "r1", f"#{_EIGHT}")
        if when:
            asm.op("vpst")
        asm.op(f"vstrb{when}.16", "q0", "[r2]", f"#{_EIGHT}")
        asm.branch("le", "eight", "lr")
    asm.restore()
    return naked_function("@", _PARAMETERS, asm), asm.work()


def _sums(asm: Asm, layer: WindowLayer, when: str) -> None:
    """q2, q3 = the sums of eight channels."""
    moves = layer.channels <= BYTE_REACH
    for number, taps in enumerate(layer.groups):
        asm.note(f"{taps} taps")
        for tap in range(taps):
            if when:
                asm.op("vpst")
            asm.op(f"vldrb{when}.s16", "q0", "[r4]", *([f"#{layer.channels}"] if moves else []))
            asm.op("vldrb.s16", "q1", "[r6]", f"#{_EIGHT}")
            if not moves:
                asm.add("r4", "r4", layer.channels, "r12")
            asm.op("vmul.i16", "q0" if tap else "q4", "q0", "q1")
            if tap:
                asm.op("vadd.i16", "q4", "q4", "q0")
        if number:
            asm.op("vmovlb.s16", "q0", "q4")
            asm.op("vmovlt.s16", "q1", "q4")
            asm.op("vadd.i32", "q2", "q2", "q0")
            asm.op("vadd.i32", "q3", "q3", "q1")
        else:
            asm.op("vmovlb.s16", "q2", "q4")
            asm.op("vmovlt.s16", "q3", "q4")


def special(work: WindowPlan, site: Site, p: ConvParams) -> SpecializedKernel:
    """The function and its twin."""
    layer = work.layer
    contract = f"""/* Depthwise, {layer.taps} taps that are the whole image, {layer.channels} channels.
 * x [{layer.taps}][{layer.channels}]. y [{layer.channels}]. stream: tc_mve.h.
 */"""
    portable = twin(
        "@",
        _PARAMETERS,
        f"static const tc_mve_requant_t requant = {layer.requant.c_text};",
        f"tc_mve_window(&requant, stream, x, y, {layer.taps}, {layer.channels});",
    )
    tile = tile_text(1, _EIGHT, "taps from the rows", "int8 weights, eight channels of a tap")
    function = LayerFunction(contract, _function(layer)[0], portable, isa=MVE, tile=tile)
    return function.named(f"{NAME}_{layer.taps}x{layer.channels}", "tc_mve.h")


def call(work: WindowPlan, site: Site, p: ConvParams) -> Call:
    """One call for the image."""
    return Call((Const(_stream(work), "stream of tc_mve.h", "stream"), In(0), Out()))


def cost(work: WindowPlan, site: Site, p: ConvParams) -> Cost:
    """Exact but for the step around the call; cycles are an upper bound for a Cortex-M55."""
    text, executed = _function(work.layer)
    whole = executed + _CALL
    stream = work.layer.chunks * _EIGHT * (work.layer.taps + 4 * work.layer.requant.constants)
    return Cost(whole.instructions, stream + 4 * text.count("\\n"), 0, whole.cycles)


KERNEL = Kernel(
    NAME,
    planned(plan, PROVED, call=call, cost=cost, special=special),
    isa=frozenset({"mve"}),
    when=(is_s8, takes),
    asks=PROVED,
    written=True,
)
