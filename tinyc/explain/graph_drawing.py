# SPDX-License-Identifier: Apache-2.0
"""The model as boxes below each other, in the order in which its steps run; lines at the side lead past boxes.

All is in pixels. A report from before `reads` was written has boxes alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from tinyc.base.dataclass import dataclass
from tinyc.base.escape import Html
from tinyc.explain.report_charts import cost_of, cut
from tinyc.verify.report import LayerReport, Report, UnprovedReport

BOX_WIDTH, BOX_HEIGHT, ROW = 340, 46, 64  # ROW: from the top of a box to the top of the next
MARGIN = 14  # left of the boxes, for the mark of steps that run row by row
_LANE, _LANES_WIDTH = 14, 168  # between two lines; of all of them at most, however many there are
LETTERS = 34


@dataclass(frozen=True, slots=True)
class Box:
    """step: None of what is no step, the inputs and the outputs. bar: a share of the whole cost, as pixels."""

    step: int | None
    y: int
    title: str
    name: str = ""
    shape: str = ""
    share: str = ""
    bar: int = 0

    @property
    def said(self) -> str:
        """For those who do not see it."""
        return ", ".join(part for part in (f"step {self.title}", self.name, self.share) if part)


@dataclass(frozen=True, slots=True)
class Drawing:
    """lines: paths of SVG; each ends at a box that reads. groups: (y, height) of steps that run row by row."""

    width: int
    height: int
    boxes: tuple[Box, ...]
    lines: tuple[Html, ...]
    groups: tuple[tuple[int, int], ...]


def graph_drawing(report: Report | UnprovedReport) -> Drawing:
    """Boxes for the inputs, each layer, and the outputs."""
    layers = report.layers
    whole = sum(cost_of(layer) or 0 for layer in layers)
    row_of = {layer.step: row for row, layer in enumerate(layers, 1)}
    boxes = [Box(None, 0, "inputs"), *(_box(layer, row, whole) for row, layer in enumerate(layers, 1))]
    boxes.append(Box(None, (len(layers) + 1) * ROW, "outputs"))
    readers = _readers(layers, row_of) if any(layer.reads for layer in layers) else {}
    lanes = _lanes(readers)
    spacing = min(_LANE, _LANES_WIDTH / max(len(set(lanes.values())), 1))
    lines = [_line(source, row, lanes.get(source, 0) * spacing) for source in readers for row in readers[source]]
    return Drawing(
        width=MARGIN + BOX_WIDTH + 2 * _LANE + round(spacing * len(set(lanes.values()))),
        height=(len(layers) + 1) * ROW + BOX_HEIGHT,
        boxes=tuple(boxes),
        lines=tuple(lines),
        groups=tuple(
            (row_of[group.first] * ROW, (row_of[group.last] - row_of[group.first]) * ROW + BOX_HEIGHT)
            for group in report.groups
            if group.first in row_of and group.last in row_of
        ),
    )


def _box(layer: LayerReport, row: int, whole: int) -> Box:
    cost = cost_of(layer)
    share = cost / whole if cost is not None and whole else None
    return Box(
        layer.step,
        row * ROW,
        cut(f"{layer.step}: {layer.op}", LETTERS),
        cut(layer.name),
        " x ".join(map(str, layer.output_shape)),
        "" if share is None else f"{100 * share:.1f} %",
        round((share or 0) * BOX_WIDTH),
    )


def _readers(layers: Sequence[LayerReport], row_of: dict[int, int]) -> dict[int, list[int]]:
    """Row of a box -> rows of the boxes that read what it makes; what nobody reads is an output."""
    readers: dict[int, list[int]] = {}
    for row, layer in enumerate(layers, 1):
        for step in dict.fromkeys(layer.reads):
            source = row_of.get(step, 0)
            if source < row:
                readers.setdefault(source, []).append(row)
    for row in range(1, len(layers) + 1):
        if row not in readers:
            readers[row] = [len(layers) + 1]
    return readers


def _lanes(readers: dict[int, list[int]]) -> dict[int, int]:
    """Row of a box whose output skips boxes -> its lane at the side, the nearest that is free as far as it is read."""
    ends: list[int] = []
    lanes = {}
    for source, rows in sorted(readers.items()):
        if max(rows) == source + 1:
            continue
        free = next((lane for lane, end in enumerate(ends) if end <= source), len(ends))
        ends[free:] = [max(rows), *ends[free + 1 :]]
        lanes[source] = free
    return lanes


def _line(source: int, row: int, lane: float) -> Html:
    if row == source + 1:
        return Html(f"M{MARGIN + BOX_WIDTH // 2} {source * ROW + BOX_HEIGHT}V{row * ROW - 2}")
    right = MARGIN + BOX_WIDTH
    y, end = source * ROW + BOX_HEIGHT * 2 // 3, row * ROW + BOX_HEIGHT // 3
    x = round(right + _LANE + lane, 1)
    return Html(f"M{right} {y}H{x - 6:g}q6 0 6 6V{end - 6}q0 6 -6 6H{right + 2}")
