# SPDX-License-Identifier: Apache-2.0
"""The twin of depthwise functions for RV32IM (tc_rv32_taps.h): which taps a channel has, how its weights lie, and how
late outputs are written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tinyc.kernels.form.function import described_twin
from tinyc.kernels.scalar.rv32_finish import ChannelFinish

HEADER = "tc_rv32_taps.h"


def taps_twin(
    parameters: Sequence[str], places: tuple[str, str], fields: Mapping[str, int], finish: ChannelFinish
) -> str:
    """The function in C. places: what it calls the rows, and what is beside them. fields: of tc_rv32_taps_t but those
    of the finish; what is left out is 0."""
    x, pad = places
    scale = {"scale": finish.scale, "sign": finish.sign, "y_min": finish.low, "y_max": finish.high}
    every = {name: int(value) for name, value in {**fields, **scale}.items()}
    return described_twin(
        "@", parameters, "tc_rv32_taps_t", every, f"tc_rv32_taps(&layer, w, channels, {pad}, {x}, y);"
    )
