# SPDX-License-Identifier: Apache-2.0
"""The function of a weighted layer's pixels, by the loop that its tile has."""

from __future__ import annotations

from tinyc.kernel.kernel import writing
from tinyc.kernels.tile.any_shape import AnyShapeWriter
from tinyc.kernels.tile.four_pixels import FourPixelWriter
from tinyc.kernels.tile.groups import GroupWriter, PixelWork
from tinyc.kernels.tile.layer import WeightedLayer
from tinyc.kernels.tile.odd_row import OddRowWriter
from tinyc.kernels.tile.one_pixel import OnePixelStackWriter, OnePixelWriter
from tinyc.kernels.tile.two_pixels import TwoPixelWriter
from tinyc.machine.thumb import Naked


def _writer(layer: WeightedLayer) -> GroupWriter | AnyShapeWriter:
    if layer.tile.of_any:
        return AnyShapeWriter(layer)
    if layer.tile.pixels == 1:
        return OnePixelWriter(layer) if layer.in_scratch else OnePixelStackWriter(layer)
    if layer.odd:
        return OddRowWriter(layer)
    return (TwoPixelWriter if layer.tile.pixels == 2 else FourPixelWriter)(layer)


def tile_code(layer: WeightedLayer) -> tuple[GroupWriter | AnyShapeWriter, PixelWork]:
    """The function for as many pixels as the tile has, or more (four pixels: for any number), and what it executes."""
    return writing(_code, layer)


def _code(layer: WeightedLayer) -> tuple[GroupWriter | AnyShapeWriter, PixelWork]:
    writer = _writer(layer)
    work = writer.write()
    if layer.of_most_channels == layer:
        return writer, work
    return tile_code(layer.of_most_channels)[0], work


def tile_function(name: str, layer: WeightedLayer) -> tuple[Naked, PixelWork]:
    """The naked function `name`, and what it executes."""
    writer, work = tile_code(layer)
    return Naked(name, writer.parameters, writer.asm), work
