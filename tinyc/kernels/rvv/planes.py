# SPDX-License-Identifier: Apache-2.0
"""conv2d of few output channels with RISC-V's vectors: lanes are pixels (tc_conv2d_s8_rvv_planes.h)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tinyc.base.dataclass import dataclass
from tinyc.kernel.dsp import Fields
from tinyc.kernel.kernel import Call, Const, Cost, In, Kernel, Out, Params, Scratch, Struct, offered, only_if
from tinyc.kernel.site import Site
from tinyc.kernel.types import is_s8
from tinyc.kernel.windows import ConvParams, Window
from tinyc.kernels.rvv import ISA
from tinyc.kernels.rvv.conv import finish_of, is_proved
from tinyc.kernels.rvv.costs import bytes_cost
from tinyc.kernels.rvv.finish import INSTRUCTIONS, PROVED
from tinyc.kernels.scalar.conv import geometry, is_whole
from tinyc.kernels.scalar.layer import by_lanes
from tinyc.kernels.scalar.rv32_conv import takes
from tinyc.kernels.stream import matrix_of

_BLOCK = 32  # TC_RVV_BLOCK
_LANES = 3  # channels beside each other
_FOURS = 4  # taps of a turn
_AHEAD = 3  # pixels that are read before they are written, at least


@dataclass(frozen=True, slots=True)
class Planes:
    """Where a block's inputs lie: [k_h][phases][in_c][columns]. extra: columns beyond those of the block's pixels."""

    window: Window
    in_c: int
    phases: int
    columns: int
    extra: int

    @classmethod
    def of(cls, site: Site, p: ConvParams) -> Planes:
        window = Window.of(p.attrs, *p.w.shape[1:3])
        reach = (window.kernel.w - 1) * window.dilation.w
        extra = reach // window.stride.w
        pixels = site.y().shape[2] * (site.y().shape[1] if is_whole(site) else 1)
        return cls(window, p.w.shape[3], min(window.stride.w, reach + 1), min(pixels, _BLOCK) + extra, extra)

    @property
    def bytes(self) -> int:
        return self.window.kernel.h * self.phases * self.in_c * self.columns

    def offsets(self) -> npt.NDArray[np.int64]:
        """Of every tap [k_h * k_w * in_c]."""
        k_h, k_w = self.window.kernel
        row, column, channel = np.indices((k_h, k_w, self.in_c)).reshape(3, -1)
        at = column * self.window.dilation.w
        phase, index = at % self.window.stride.w, at // self.window.stride.w
        return np.asarray(((row * self.phases + phase) * self.in_c + channel) * self.columns + index)


def small_planes(site: Site) -> bool:
    """constant weights, one group, and planes of 32 pixels within 32 KiB"""
    if not takes(site):
        return False
    (_, k_h, k_w, in_c), a = site.x(1).shape, site.attrs
    reach = (k_w - 1) * a.dilation.w
    return bool(k_h * min(a.stride.w, reach + 1) * in_c * (_BLOCK + reach // a.stride.w) < 2**15)


def _weights(taps: npt.NDArray[np.int64]) -> npt.NDArray[np.int8]:
    """Weights [ceil(O / 3)][K][3], K rounded up to a multiple of 4."""
    return by_lanes(np.pad(taps, ((0, 0), (0, -taps.shape[1] % _FOURS))).astype(np.int8), _LANES)


def lower(site: Site, p: ConvParams) -> Call:
    """tc_conv2d_s8_rvv_planes: one output row from k_h input rows, or all pixels at once."""
    sizes, rows, flow = geometry(site, p, _AHEAD, "window.")
    finish, planes = finish_of(site, p), Planes.of(site, p)
    taps = matrix_of(p).taps[: len(p.bias)] * finish.live[: len(p.bias), None]
    weights, offsets = _weights(taps), planes.offsets()
    common = finish.fields(taps, "")
    constants = common["out.constants"]
    assert isinstance(constants, Const)
    fields: Fields = {
        **common,
        "out.w": Const(weights, "[out_c / 3][k_h][k_w][in_c][3]", "w"),
        "out.constants": Const(np.pad(constants.data.ravel(), (0, _LANES - 1)), constants.layout, "channels"),
        "out.taps": weights.shape[1],
        "offsets": Const(np.pad(offsets, (0, -len(offsets) % _FOURS)).astype(np.int16), "[k_h][k_w][in_c]", "offsets"),
        **sizes,
        **{"phases": planes.phases, "columns": planes.columns, "extra": planes.extra},
    }
    return Call((Params(), In(0), Out(), Scratch()), Struct("tc_conv2d_s8_rvv_planes_t", fields), rows, flow)


def scratch(site: Site, p: ConvParams) -> int:
    """The planes."""
    return Planes.of(site, p).bytes


def cost(site: Site, p: ConvParams) -> Cost:
    """Estimate, from counts on the emulated core with registers of 128 bits."""
    planes, out_c = Planes.of(site, p), len(p.bias)
    taps = -(-matrix_of(p).taps.shape[1] // _FOURS) * _FOURS
    _, out_h, out_w, _ = site.y().shape
    blocks = -(-out_h * out_w // _BLOCK) if is_whole(site) else out_h * -(-out_w // _BLOCK)
    laid = planes.window.kernel.h * planes.phases * (6 * planes.in_c + 50)
    groups = -(-out_c // _LANES)
    each = groups * (10.75 * taps + 3 * INSTRUCTIONS[finish_of(site, p).way] + 42) + laid + 60
    flash = groups * _LANES * taps + 2 * taps + int(finish_of(site, p).constants.shape[0]) * 4 * out_c
    fetches = bytes_cost(blocks * each, flash)
    return Cost(fetches.instructions, flash, planes.bytes)


KERNELS = (
    Kernel(
        "tc_conv2d_s8_rvv_planes",
        only_if(is_proved, PROVED, offered(lower, scratch=scratch, cost=cost)),
        isa=ISA,
        when=(is_s8, small_planes),
        asks=PROVED,
        includes=("tc_rvv.h",),
    ),
)
