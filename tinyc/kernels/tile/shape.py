# SPDX-License-Identifier: Apache-2.0
"""The shape of a register tile: the accumulators that one pass over the taps fills, and where its inputs come from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

# Where int16 taps wait, which every group of channels reads: at the bottom of the stack, at addresses that are
# immediates; the first of them in registers of the FPU; or in scratch, where a register walks over them.
Inputs = Literal["stack", "FPU registers", "scratch"]


@dataclass(frozen=True, slots=True)
class Tile:
    """Pixels by channels. Taps of more than a stack's immediates reach are in scratch all the same.

    short: all steps are a loop, that a small cache holds the code of four channels.
    """

    pixels: int
    channels: int
    inputs: Inputs
    short: bool = False

    @property
    def shape(self) -> str:
        """In words: `2 pixels x 4 channels`."""
        return f"{self.pixels} pixel{'s' * (self.pixels > 1)} x {self.channels} channels"


TWO_PIXELS = Tile(2, 4, "stack")
TWO_PIXELS_FPU = Tile(2, 4, "FPU registers")
TWO_PIXELS_SHORT = Tile(2, 4, "scratch", short=True)
FOUR_PIXELS = Tile(4, 2, "stack", short=True)
ONE_PIXEL = Tile(1, 4, "scratch")
ONE_PIXEL_SHORT = Tile(1, 4, "scratch", short=True)
ONE_PIXEL_STACK = Tile(1, 4, "stack")
