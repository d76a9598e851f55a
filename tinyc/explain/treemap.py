# SPDX-License-Identifier: Apache-2.0
"""Rectangles whose areas are given, without gaps in one rectangle, none of them long and thin.

The squarified layout of Bruls, Huizing and van Wijk, "Squarified Treemaps" (2000): the largest first, in rows along the
shorter side; a row takes the next item for as long as its worst proportion gets better by that.
"""

from __future__ import annotations

from collections.abc import Sequence

from tinyc.base.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class TreemapTile:
    """The place of item `index`."""

    index: int
    x: float
    y: float
    width: float
    height: float


def treemap(sizes: Sequence[int], width: float, height: float) -> tuple[TreemapTile, ...]:
    """A tile for each positive size, of width * height * size / sum(sizes), the largest first."""
    order = sorted((i for i, size in enumerate(sizes) if size > 0), key=lambda i: (-sizes[i], i))
    unit = width * height / sum(sizes[i] for i in order) if order else 0.0
    left = [(i, sizes[i] * unit) for i in order]
    x = y = 0.0
    tiles: list[TreemapTile] = []
    while left:
        side = min(width, height)
        count = 1
        while count < len(left) and _worst(left[: count + 1], side) <= _worst(left[:count], side):
            count += 1
        row, left = left[:count], left[count:]
        thick = sum(area for _, area in row) / side
        at = 0.0
        for index, area in row:
            length = area / thick
            tiles.append(
                TreemapTile(index, x, y + at, thick, length)
                if width >= height
                else TreemapTile(index, x + at, y, length, thick)
            )
            at += length
        if width >= height:
            x, width = x + thick, width - thick
        else:
            y, height = y + thick, height - thick
    return tuple(tiles)


def _worst(row: Sequence[tuple[int, float]], side: float) -> float:
    """The longest side over the shortest of any tile of a row along a side."""
    areas = [area for _, area in row]
    thick = sum(areas) / side
    return max(max(area / thick / thick, thick * thick / area) for area in areas)
