# SPDX-License-Identifier: Apache-2.0
"""The shape of a register tile: the accumulators that one pass over the taps fills, and where its inputs come from."""

from __future__ import annotations

from typing import Literal

from tinyc.base.dataclass import dataclass

# Where int16 taps wait, which every group of channels reads: at the bottom of the stack, at addresses that are
# immediates; the first of them in registers of the FPU; or in scratch, where a register walks over them.
Inputs = Literal["stack", "FPU registers", "scratch"]


@dataclass(frozen=True, slots=True)
class Tile:
    """Pixels by channels. Taps of more than a stack's immediates reach are in scratch all the same.

    short: all steps are a loop, that a small cache holds the code of four channels. of_any: the code is the same for
    any number of channels of 1x1 weights; turn: then the steps that are written one after the other, a power of two.
    takes_one: whether such code makes a single pixel for less than two.
    """

    pixels: int
    channels: int
    inputs: Inputs
    short: bool = False
    of_any: bool = False
    turn: int = 8
    takes_one: bool = False

    def text(self, inputs: Inputs, weights: str) -> str:
        """In words. inputs: where taps wait after all."""
        return tile_text(
            self.pixels, self.channels, f"taps {'on the' if inputs == 'stack' else 'in'} {inputs}", weights
        )


def tile_text(pixels: int, channels: int, inputs: str, weights: str) -> str:
    """A tile in words: accumulators, inputs, weights."""
    return f"{_count(pixels, 'pixel')} x {_count(channels, 'channel')}; {inputs}; {weights}"


def fast_tile_text(tiles: int, outputs: tuple[int, int], channels: int, weights: str) -> str:
    """The same of an exact fast form. outputs: rows and columns of its output tile."""
    what = f"{_count(tiles, 'tile')} of {outputs[0]}x{outputs[1]} outputs x {_count(channels, 'channel')}"
    return f"{what}; factors in scratch; {weights}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number > 1)}"


TWO_PIXELS = Tile(2, 4, "stack")
TWO_PIXELS_FPU = Tile(2, 4, "FPU registers")
TWO_PIXELS_SHORT = Tile(2, 4, "scratch", short=True)
TWO_PIXELS_OF_ANY = Tile(2, 4, "stack", of_any=True)
TWO_PIXELS_OF_ANY_LONG = Tile(2, 4, "stack", of_any=True, turn=16, takes_one=True)
FOUR_PIXELS = Tile(4, 2, "stack", short=True)
ONE_PIXEL = Tile(1, 4, "scratch")
ONE_PIXEL_SHORT = Tile(1, 4, "scratch", short=True)
ONE_PIXEL_STACK = Tile(1, 4, "stack")
