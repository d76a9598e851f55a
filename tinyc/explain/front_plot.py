# SPDX-License-Identifier: Apache-2.0
"""What boards and options trade, as a picture: time to the right, RAM upwards, flash as the size of a dot; or, of one
library's front, flash upwards, and RAM as the size."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from tinyc.base.dataclass import dataclass
from tinyc.base.escape import visible
from tinyc.explain.drawing import drawing

COLORS = ("#4a8fc2", "#b56576", "#7a9e7e", "#c9a227", "#7f8fc9", "#5aa7a7", "#d98c5f", "#6d597a")
BEATEN = 0.25  # opacity of points that another beats
LARGEST_DOT = 220.0  # square points
WIDE = 6.0  # an axis whose ends are further apart is logarithmic


@dataclass(frozen=True, slots=True)
class PlotPoint:
    """A point of the picture. series: what is drawn in one color. best: no other of the series is better."""

    series: str
    time: float
    ram_bytes: int
    flash_bytes: int
    best: bool


def plot_front(dots: Sequence[PlotPoint], path: Path, title: str, unit: str, flash_up: bool = False) -> None:
    """Draw the dots into `path`; unit: of their times. Raises TinycError as `drawing` does."""
    heights = {dot: dot.flash_bytes if flash_up else dot.ram_bytes for dot in dots}
    areas = {dot: dot.ram_bytes if flash_up else dot.flash_bytes for dot in dots}
    labels = ("flash, bytes", "RAM (arena)") if flash_up else ("RAM (arena), bytes", "flash")
    largest = max(areas.values(), default=1)
    with drawing(path, (8.0, 5.0)) as figure:
        axes = figure.subplots()
        for number, name in enumerate(dict.fromkeys(dot.series for dot in dots)):
            own = [dot for dot in dots if dot.series == name]
            color = COLORS[number % len(COLORS)]
            for best, shown in ((False, BEATEN), (True, 0.85)):
                some = [dot for dot in own if dot.best == best]
                sizes = [LARGEST_DOT * areas[dot] / largest for dot in some]
                label = visible(name) if best else None
                across, up = [dot.time for dot in some], [heights[dot] for dot in some]
                axes.scatter(across, up, s=sizes, color=color, alpha=shown, label=label, edgecolors="white")
            front = sorted(corners((dot.time, heights[dot]) for dot in own))
            axes.plot([x for x, _ in front], [y for _, y in front], color=color, linewidth=1, alpha=0.6)
        for scale, values in (
            (axes.set_xscale, [d.time for d in dots]),
            (axes.set_yscale, list(heights.values())),
        ):
            if values and min(values) > 0 and max(values) / min(values) > WIDE:
                scale("log")
        axes.set_xlabel(unit)
        axes.set_ylabel(labels[0])
        axes.set_title(visible(title))
        axes.grid(visible=True, color="#e6e2d8", linewidth=0.6)
        axes.set_axisbelow(True)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        if dots:
            axes.legend(frameon=False, title=f"area of a dot: {labels[1]}", loc="upper left", bbox_to_anchor=(1.0, 1.0))


def corners(ends: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Those that no other is as near the lower left in one number and nearer in the other."""
    places = set(ends)
    return [(t, r) for t, r in places if not any(a <= t and b <= r and (a, b) != (t, r) for a, b in places)]
