# SPDX-License-Identifier: Apache-2.0
"""conv2d and fully_connected with RISC-V's vectors: a tap times its weights of many channels (tc_rvv.h)."""

from __future__ import annotations

from tinyc.kernel.kernel import Call, Cost, In, Kernel, Out, Params, Scratch, Struct, offered, only_if
from tinyc.kernel.site import Site
from tinyc.kernel.types import is_s8
from tinyc.kernel.windows import ConvParams
from tinyc.kernels.rvv import ISA
from tinyc.kernels.rvv.costs import Vectors, vectors_cost
from tinyc.kernels.rvv.finish import INSTRUCTIONS, PROVED, VectorFinish, vector_finish
from tinyc.kernels.scalar.conv import geometry, groups_of
from tinyc.kernels.scalar.rv32_conv import takes
from tinyc.kernels.stream import matrix_of

_PIXELS = 3


def finish_of(site: Site, p: ConvParams) -> VectorFinish:
    """The layer's requantization, where `is_proved` holds."""
    finish = matrix_of(p).once(vector_finish)
    if finish is None:
        raise ValueError(f"{site.node.name}: no requantization is proved")
    return finish


def is_proved(site: Site, p: ConvParams) -> bool:
    """Whether there is a requantization."""
    return matrix_of(p).once(vector_finish) is not None


def lower(site: Site, p: ConvParams) -> Call:
    """tc_conv2d_s8_rvv: one output row from k_h input rows, or all pixels at once."""
    sizes, rows, flow = geometry(site, p, _PIXELS, "window.")
    taps = matrix_of(p).taps[: len(p.bias)]
    fields = {**finish_of(site, p).fields(taps, "[k_h][k_w][in_c][out_c]"), **sizes}
    return Call((Params(), In(0), Out(), Scratch()), Struct("tc_conv2d_s8_rvv_t", fields), rows, flow)


def scratch(site: Site, p: ConvParams) -> int:
    """The taps of three pixels."""
    return _PIXELS * matrix_of(p).taps.shape[1]


def cost(site: Site, p: ConvParams) -> Cost:
    """Estimate, from counts on the emulated core."""
    out_c, taps = len(p.bias), matrix_of(p).taps.shape[1]
    k_h, k_w = p.w.shape[1:3]
    groups = groups_of(site, _PIXELS)
    each = 9.5 * taps + 3 * INSTRUCTIONS[finish_of(site, p).way] + 35  # of some channels
    gathered = _PIXELS * k_h * (25 + 8 * (k_w * p.w.shape[3] // 128))
    return vectors_cost(Vectors(out_c, groups * each, groups * (gathered + 40)), _bytes(site, p), scratch(site, p))


def _bytes(site: Site, p: ConvParams) -> int:
    return p.w.size + int(finish_of(site, p).constants.shape[0]) * 4 * len(p.bias)


def takes_dense(site: Site) -> bool:
    """constant weights"""
    return site.is_const(1)


def lower_dense(site: Site, p: ConvParams) -> Call:
    """tc_fully_connected_s8_rvv: the whole tensor."""
    fields = finish_of(site, p).fields(matrix_of(p).taps[: len(p.bias)], "[in_c][out_c]")
    sizes = {"batch": site.y().elements // len(p.bias)}
    return Call((Params(), In(0), Out()), Struct("tc_fully_connected_s8_rvv_t", {**fields, **sizes}))


def dense_cost(site: Site, p: ConvParams) -> Cost:
    """Estimate, from counts on the emulated core."""
    out_c, in_c = p.w.shape
    batch = site.y().elements // out_c
    each = 5.5 * in_c + INSTRUCTIONS[finish_of(site, p).way] + 35
    return vectors_cost(Vectors(out_c, batch * each, 20 * batch), _bytes(site, p), 0)


CONV2D = (
    Kernel(
        "tc_conv2d_s8_rvv",
        only_if(is_proved, PROVED, offered(lower, scratch=scratch, cost=cost)),
        isa=ISA,
        when=(is_s8, takes),
        asks=PROVED,
        includes=("tc_rvv.h",),
    ),
)
DENSE = (
    Kernel(
        "tc_fully_connected_s8_rvv",
        only_if(is_proved, PROVED, offered(lower_dense, cost=dense_cost)),
        isa=ISA,
        when=(is_s8, takes_dense),
        asks=PROVED,
        includes=("tc_rvv.h",),
    ),
)
