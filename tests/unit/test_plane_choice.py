# SPDX-License-Identifier: Apache-2.0
"""Depthwise functions over planes that are not written, since others are quicker: they would not have been taken."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from tinyc.kernels.depthwise import depthwise
from tinyc.kernels.depthwise.plane_layer import PlaneLayer
from tinyc.kernels.depthwise.planes import function
from tinyc.kernels.finish import Requantization
from tinyc.machine.cores import CORES

WINDOWS = ((3, 3), (3, 3), (5, 5), (2, 2), (1, 3), (3, 1), (1, 7), (7, 7))
REQUANTIZATIONS = (
    Requantization(shifts=(11,) * 4, base=-261121),
    Requantization(shifts=(8,) * 4, sign=True, clamp=(0, 127)),
    Requantization(sign=True, drops=True),
)


def layers(seed: int, core: str) -> Iterator[PlaneLayer]:
    """Some layers, half of them square, upright and in one band."""
    pick = random.Random(seed)
    for _ in range(40):
        (k_h, k_w), stride, square = pick.choice(WINDOWS), pick.choice((1, 1, 2)), pick.random() < 0.5
        out_h, pad_top, channels = pick.randint(1, 26), pick.randrange(k_h), pick.choice((4, 5, 16, 30, 64))
        out_w = out_h if square else pick.randint(1, 26)
        pad_left = min(pad_top, k_w - 1) if square else pick.randrange(k_w)
        in_h = max(1, (out_h - 1) * stride + k_h - 2 * pad_top)
        in_w = max(1, (out_w - 1) * stride + k_w - 2 * pad_left)
        yield PlaneLayer(
            in_h=in_h,
            in_w=in_w,
            out_h=out_h,
            out_w=out_w,
            k_h=k_h,
            k_w=k_w,
            stride_h=stride,
            stride_w=stride,
            pad_top=pad_top,
            pad_left=pad_left,
            in_step=channels,
            in_row=in_w * channels,
            out_step=channels,
            out_row=out_w * channels,
            channels=channels,
            band=out_h,
            requant=pick.choice(REQUANTIZATIONS),
            core=CORES[core],
            bits=pick.choice((8, 16)),
        )


@pytest.mark.parametrize("core", ["cortex-m3", "cortex-m4", "cortex-m7", "cortex-m33"])
def test_no_function_that_is_not_written_would_be_taken(core: str) -> None:
    left_out = 0
    for layer in layers(seed=len(core), core=core):
        for choices in (depthwise.fast, depthwise.banded, depthwise.paired, depthwise.short):
            fitting = [one for one in choices(layer) if depthwise._fits(one)]
            written = [one for one in fitting if not depthwise._is_slower(one, fitting)]
            if len(written) == len(fitting):
                continue
            cost = {one: (function(one).work().cycles, one.scratch_bytes) for one in fitting}
            assert min(fitting, key=cost.__getitem__) == min(written, key=cost.__getitem__), layer
            left_out += len(fitting) - len(written)
    assert left_out > 20
