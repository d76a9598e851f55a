# SPDX-License-Identifier: Apache-2.0
"""A depthwise layer on RV32IM whose function is written for it: what surrounds the code of a tile.

A tile says how outputs are made: how many pixels and channels at a time, what stays in registers, how weights are
packed (rv32_depthwise.py, rv32_taps.py, rv32_columns.py). Here are cost, call, function, twin (tc_rv32_taps.h), and the
row in place of its input, for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from tinyc.base.dataclass import dataclass
from tinyc.kernel.kernel import (
    Call,
    Const,
    Cost,
    Fetches,
    In,
    Kernel,
    Offer,
    Once,
    Out,
    Refused,
    RowForm,
    SpecializedKernel,
    WrittenCode,
)
from tinyc.kernel.site import Site
from tinyc.kernel.windows import ConvParams, Window, row_geometry
from tinyc.kernels.form.function import RV32, LayerFunction, described_twin
from tinyc.kernels.scalar.loops.costs import ARMV7M_SHARE
from tinyc.kernels.scalar.rv32_finish import ISA, PROVED, ChannelFinish, finished
from tinyc.kernels.stream import depthwise_matrix_of
from tinyc.machine.riscv import RiscvAsm

_HEADER = "tc_rv32_taps.h"


@dataclass(frozen=True, slots=True)
class DepthwiseTile:
    """How the outputs of a layer are made."""

    code: RiscvAsm
    name: str  # of the function; a digest comes behind
    kernel: str  # size of the window, `3x3`
    extent: str  # what a call makes, in words
    fields: Mapping[str, int]  # of the tc_rv32_taps_t of its twin but those of the finish; what is left out is 0
    weights: Once[npt.NDArray[np.int8]]
    layout: str  # of the weights
    weight_bytes: int
    tile: str  # in words
    reads_pad: bool = False  # it gets a pixel of zero points, for taps outside the image
    is_whole: bool = False  # a call makes the whole image, and not a row
    in_place: bool = False  # a row may take the place of its input row


def depthwise_kernel(
    name: str, tile_of: Callable[[Site, ConvParams, ChannelFinish], DepthwiseTile], *when: Callable[[Site], bool]
) -> Kernel:
    """The layers that such a tile makes."""

    def offer(site: Site, p: ConvParams) -> Offer | Refused:
        proved = finished(depthwise_matrix_of(p), p.bias)
        if proved is None:
            return Refused(PROVED)
        finish, channels = proved.finish, proved.const
        tile = tile_of(site, p, finish)
        cost = _cost(site, p, tile)
        call, special = Once(lambda: _call(site, p, tile, channels)), Once(lambda: _special(tile, finish))

        def row_forms() -> tuple[RowForm, ...]:
            return (RowForm(call(), 0, cost, special, inplace=(0,)),) if tile.in_place else ()

        return Offer(0, cost, call, special, Once(row_forms))

    return Kernel(name, offer, isa=ISA, when=when, asks=PROVED, written=True)


def _cost(site: Site, p: ConvParams, tile: DepthwiseTile) -> Cost:
    """On the scale of `rv32_conv.cost`."""
    asm, calls = tile.code, 1 if tile.is_whole else site.y().shape[1]
    executed = int(calls * asm.work().instructions * ARMV7M_SHARE)
    constants = tile.weight_bytes + (16 + tile.reads_pad) * len(p.bias)
    code = WrittenCode((tile.name, asm), asm.code_bytes)  # alike layers have one (`writing`)
    fetches = Fetches.around(constants, asm.code_bytes, executed)
    return Cost(executed, constants + asm.code_bytes, 0, fetches=fetches, code=code)


def _call(site: Site, p: ConvParams, tile: DepthwiseTile, channels: Const) -> Call:
    """The whole image, or one output row from k_h input rows."""
    pad = (Const(np.full(len(p.bias), p.x_zero, np.int8), "[in_c] of x_zero", "pad"),) if tile.reads_pad else ()
    rows = None if tile.is_whole else row_geometry(site, Window.of(p.attrs, *p.w.shape[:2]), p.x_zero)
    return Call((Const(tile.weights, tile.layout, "w"), channels, *pad, In(0), Out()), rows=rows)


def _special(tile: DepthwiseTile, finish: ChannelFinish) -> SpecializedKernel:
    """The function, and the same in C."""
    parameters = (
        *("const int8_t *w", "const int32_t *channels"),
        *(("const int8_t *pad",) if tile.reads_pad else ()),
        *("const int8_t *x" if tile.is_whole else "const int8_t *const *x", "int8_t *y"),
    )
    scale = {"scale": finish.scale, "sign": finish.sign, "y_min": finish.low, "y_max": finish.high}
    fields = {name: int(value) for name, value in {**tile.fields, **scale}.items()}
    rows = f"{'pad' if tile.reads_pad else 'NULL'}, {'&x' if tile.is_whole else 'x'}"
    taps = f"tc_rv32_taps(&layer, w, channels, {rows}, y);"
    portable = described_twin("@", parameters, "tc_rv32_taps_t", fields, taps)
    contract = f"/* depthwise_conv2d {tile.kernel} on RV32IM ({_HEADER}): {tile.extent}. */"
    function = LayerFunction(contract, tile.code.function("@", parameters), portable, isa=RV32, tile=tile.tile)
    return function.named(tile.name, "tc_rv32.h", _HEADER)
