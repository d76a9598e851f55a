"""fully_connected on Cortex-M with DSP: a function in assembly for each layer, weights in the order of use.

`tc_fully_connected_s8_asm` keeps int8 weights, `tc_fully_connected_s8_w16_asm` widens them to int16;
`tc_fully_connected_s8_rolled_asm` is the first with less code, for boards with slow flash. One row of inputs is a
pixel, so more than one of them is a 1x1 convolution.
"""

from __future__ import annotations

from tinyc.codegen.stream import Fit, Matrix, packed, wide
from tinyc.codegen.weighted.layer import CHANNEL_LIMIT, TAP_LIMIT, Piece, Plan, call, cost, special
from tinyc.codegen.weighted.taps import Layer, Run
from tinyc.kernels import Condition, Kernel, Rows
from tinyc.ops.base import Site
from tinyc.ops.windows import ConvParams, conv_params, is_s8


def plan(site: Site, p: ConvParams, fit: Fit, rolled: bool = False) -> Plan:
    """The function that runs the layer. ValueError where `takes_...` says no."""
    matrix = Matrix.of(p, p.w)
    finish = fit(matrix)
    if finish is None:
        raise ValueError(f"{site.node.name}: no requantization is proved")
    out_c, in_c = p.w.shape
    batch = site.y().elements // out_c
    layer = Layer(
        k_h=1,
        runs=(Run(0, in_c),),
        pixel_bytes=in_c,
        out_c=out_c,
        aligned=in_c % 4 == 0 or batch == 1,
        alone=batch == 1,
        way=finish.way,
        rolled=rolled,
    )
    rows = Rows(1, 1, 1, 1, 0, 1, site.x(0).size_bytes, site.y().size_bytes, None)
    return Plan(layer, (Piece(0, batch, None),), batch, 0, rows, finish, matrix)


def takes(site: Site, fit: Fit) -> bool:
    """Whether `plan` makes the layer with this fit."""
    out_c, in_c = site.x(1).shape
    if out_c > CHANNEL_LIMIT or in_c >= TAP_LIMIT:
        return False
    p = conv_params(site, 0)
    return fit(Matrix.of(p, p.w)) is not None


def takes_wide(site: Site) -> bool:
    """constant weights, at most 4092 outputs, and a requantization that is proved for int16 weights"""
    return site.is_const(1) and takes(site, wide)


def takes_packed(site: Site) -> bool:
    """constant weights, at most 4092 outputs, and a requantization that is proved for packed int8 weights"""
    return site.is_const(1) and takes(site, packed)


def takes_rolled(site: Site) -> bool:
    """one row of inputs, constant weights, at most 4092 outputs, and a requantization that is proved for packed int8
    weights"""
    if not site.is_const(1):
        return False
    return site.y().elements == site.x(1).shape[0] and takes_packed(site)


def _kernel(name: str, fit: Fit, takes: Condition, rolled: bool = False) -> Kernel:
    def work(site: Site, p: ConvParams) -> Plan:
        return plan(site, p, fit, rolled)

    return Kernel(
        name,
        lambda site, p: call(work(site, p)),
        isa=frozenset({"dsp"}),
        when=(is_s8, takes),
        scratch=lambda site, p: work(site, p).scratch_bytes,
        specialize=lambda site, p: special(work(site, p), name),
        cost=lambda site, p: cost(work(site, p)),
        slow_flash=rolled,
    )


KERNELS = (
    _kernel("tc_fully_connected_s8_asm", packed, takes_packed),
    _kernel("tc_fully_connected_s8_w16_asm", wide, takes_wide),
    _kernel("tc_fully_connected_s8_rolled_asm", packed, takes_rolled, rolled=True),
)
