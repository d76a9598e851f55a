# SPDX-License-Identifier: Apache-2.0
"""The charts of a report's page, as SVG that takes the page's own colour of text."""

from __future__ import annotations

import math
import re
import tempfile
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tinyc.base.dataclass import dataclass
from tinyc.base.escape import Html, visible
from tinyc.explain.drawing import drawing
from tinyc.explain.front_plot import COLORS, LARGEST_DOT, WIDE, corners
from tinyc.explain.treemap import treemap
from tinyc.verify.report import LayerReport, MemoryReport, Report, UnprovedReport

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_INK = "#010203"  # becomes the page's colour of text
_BAR, _OTHER, _EDGE = "#4a8fc2", "#c08a3e", "#888888"
_MOST_BARS = 40
LETTERS = 26
_FEWEST_LETTERS = 5  # of a name's end: fewer say nothing
HELD = {"input": "#7a9e7e", "tensor": _BAR, "output": "#b56576", "scratch": "#a8a294", "state": "#c9a227"}
_LABEL_SHARE = 0.05  # of the arena, below which nothing is named
_LETTER_WIDTH, _LINE_HEIGHT = 0.075, 0.2  # inches, of text in tiles
# Multiply-accumulates a cycle at most, by the instructions that multiply: SMLAD two in a cycle; MLA one in a cycle, on
# Cortex-M3 in two; MULS and ADDS, or MUL and ADD, two instructions for one.
PEAKS = {"Cortex-M0+": 0.5, "Cortex-M3": 0.5, "Cortex-M4": 2.0, "Cortex-M7": 2.0, "Cortex-M33": 2.0, "Hazard3": 0.5}
LOAD_BYTES = 4  # a cycle: a word of memory without wait states


def time_chart(report: Report | UnprovedReport) -> Html | None:
    """Modelled cycles of each layer, else instructions; None where neither was counted."""
    costs = [(layer, cost_of(layer)) for layer in report.layers]
    if not any(cost for _, cost in costs):
        return None
    unit = "cycles" if any(layer.cycles for layer in report.layers) else "instructions"
    rows = [(numbered(str(layer.step), layer.name, LETTERS + 3), cost or 0) for layer, cost in costs]
    return bars(rows, unit, f"{unit} of each layer")


def flash_chart(report: Report | UnprovedReport) -> Html | None:
    """Constants of each layer, and all code, as areas; None where no compiler told the size."""
    if report.flash is None:
        return None
    rows = [(("code", ""), report.flash.code_bytes)]
    rows += [((str(layer.step), layer.name), layer.const_bytes) for layer in report.layers if layer.const_bytes]
    tiles = treemap([size for _, size in rows], 9, 4)

    def draw(axes: Axes) -> None:
        from matplotlib.patches import Rectangle  # noqa: PLC0415

        for tile in tiles:
            name, size = rows[tile.index]
            colour = _OTHER if tile.index == 0 else _BAR
            place = (tile.x, tile.y)
            axes.add_patch(Rectangle(place, tile.width, tile.height, facecolor=colour, edgecolor="white", alpha=0.85))
            letters, lines = int(tile.width / _LETTER_WIDTH) - 1, int(tile.height / _LINE_HEIGHT)
            if letters > 2 and lines:
                named = numbered(*name, letters)
                said = f"{named}\n{size:,}" if lines > 1 else named
                middle = (tile.x + tile.width / 2, tile.y + tile.height / 2)
                axes.annotate(said, middle, ha="center", va="center", color=_INK, parse_math=False, fontsize=8)
        axes.set_xlim(0, 9)
        axes.set_ylim(4, 0)
        axes.set_axis_off()

    return _chart((9, 4), draw, "bytes of flash as areas: code, and constants of each layer")


def roofline_chart(report: Report | UnprovedReport) -> Html | None:
    """Multiply-accumulates a cycle over those for each byte that a layer has to touch, under what the core can do at
    most; None where cycles are not modelled, or nothing is known of the core."""
    core = (report.cycle_model or "").partition(",")[0] if isinstance(report, Report) else ""
    points = [(layer, _touched(layer)) for layer in report.layers if layer.macs and layer.cycles]
    if core not in PEAKS or not points:
        return None
    peak = PEAKS[core]

    def draw(axes: Axes) -> None:
        most = max(4.0, *(2 * layer.macs / touched for layer, touched in points))
        least = min(0.1, *(layer.macs / touched / 2 for layer, touched in points))
        edge = [least, min(max(peak / LOAD_BYTES, least), most), most]
        axes.plot(edge, [min(peak, LOAD_BYTES * x) for x in edge], color=_OTHER, linewidth=2)
        for layer, touched in points:
            axes.scatter([layer.macs / touched], [layer.macs / (layer.cycles or 1)], color=_BAR, zorder=3)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_ylim(min(layer.macs / (layer.cycles or 1) for layer, _ in points) / 2, 2 * peak)
        _name_points(axes, [((n.macs / b, n.macs / (n.cycles or 1)), n.step) for n, b in points])
        axes.set_xlabel("multiply-accumulates for each byte of weights, input and output")
        axes.set_ylabel("multiply-accumulates a cycle")
        axes.grid(color=_EDGE, alpha=0.3)

    return _chart((9, 3.6), draw, f"multiply-accumulates a cycle of each layer, and the most that a {core} can do")


def _touched(layer: LayerReport) -> int:
    """Bytes that a layer has to read or write at least once, elements of activations taken as one byte."""
    shapes = (*layer.input_shapes, layer.output_shape)
    return max(layer.const_bytes + sum(math.prod(shape) for shape in shapes), 1)


def memory_chart(report: Report | UnprovedReport) -> Html | None:
    """Bytes of the arena that hold something, over time; None for a report that does not tell."""
    memory = report.memory
    if memory is None or not memory.live:
        return None

    def draw(axes: Axes) -> None:
        share = memory.moments / len(memory.live)
        edges = [share * at for at in range(len(memory.live) + 1)]
        axes.stairs(memory.live, edges, fill=True, color=_BAR, alpha=0.85)
        _frame_time(axes, report, memory)
        axes.set_ylabel("bytes in use")

    return _chart((9, 2.4), draw, "bytes of the arena in use over time, and its size")


def arena_chart(report: Report | UnprovedReport) -> Html | None:
    """Which bytes of the arena hold what, and when: tensors by the step that makes them. None where steps run row by
    row, and for a report that does not tell."""
    memory = report.memory
    if memory is None or not memory.holds:
        return None

    def draw(axes: Axes) -> None:
        from matplotlib.patches import Patch, Rectangle  # noqa: PLC0415

        for held in memory.holds:
            place, wide, high = (held.born, held.first), held.dies - held.born, held.end - held.first
            colour = HELD.get(held.kind, _EDGE)
            axes.add_patch(Rectangle(place, wide, high, facecolor=colour, edgecolor=_EDGE, linewidth=0.7, alpha=0.7))
            if held.kind != "scratch" and high > _LABEL_SHARE * report.arena_bytes:
                name = "in" if held.kind == "input" else str(held.born)
                axes.annotate(name, (held.born + 0.5, held.first + high / 2), ha="center", va="center", color=_INK)
        _frame_time(axes, report, memory)
        axes.set_ylabel("place in the arena")
        kinds = [kind for kind in HELD if any(held.kind == kind for held in memory.holds)]
        entries = [Patch(color=HELD[kind], alpha=0.7, label=kind) for kind in kinds]
        axes.legend(
            handles=entries, frameon=False, labelcolor=_INK, loc="lower left", bbox_to_anchor=(0, 1), ncols=len(kinds)
        )

    return _chart((9, 3.6), draw, "which bytes of the arena hold what, over time")


def _frame_time(axes: Axes, report: Report | UnprovedReport, memory: MemoryReport) -> None:
    """Time from left to right, bytes from bottom to top, and a line where the arena ends."""
    from matplotlib.ticker import MaxNLocator  # noqa: PLC0415

    slow = report.slow.bytes if report.slow is not None else 0
    axes.axhline(report.arena_bytes, color=_OTHER, linewidth=1.5)
    axes.set_xlim(0, max(memory.moments, 1))
    axes.set_ylim(0, max(report.arena_bytes + slow, 1) * 1.05)
    axes.set_xlabel("calls of layers, as they run" if report.groups else "step")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def efficiency_chart(report: Report | UnprovedReport) -> Html | None:
    """Instructions per multiply-accumulate over the size of a layer; None where nothing was counted."""
    points = [(layer, layer.instructions) for layer in report.layers if layer.macs and layer.instructions]
    if not points:
        return None

    def draw(axes: Axes) -> None:
        axes.scatter([layer.macs for layer, _ in points], [n / layer.macs for layer, n in points], color=_BAR, zorder=3)
        axes.set_xscale("log")
        axes.margins(0.08)
        axes.set_ylim(0, 1.2 * max(n / layer.macs for layer, n in points))
        _name_points(axes, [((layer.macs, n / layer.macs), layer.step) for layer, n in points])
        axes.set_xlabel("multiply-accumulates of the layer")
        axes.set_ylabel("instructions for each")
        axes.grid(color=_EDGE, alpha=0.3)

    return _chart((9, 3.2), draw, "instructions per multiply-accumulate of each layer, by its size")


def _name_points(axes: Axes, points: Sequence[tuple[tuple[float, float], int]]) -> None:
    """Steps beside their points, of many at one point the first; no label lies over another, over a point or the right
    edge, where a corner of its point is free. The scales of the axes have to be set before."""
    by_place: dict[tuple[float, float], list[str]] = {}
    for at, step in points:
        by_place.setdefault(at, []).append(str(step))
    axes.autoscale_view()
    points_of = 72 / axes.figure.dpi
    dots = {at: tuple(map(float, axes.transData.transform(at) * points_of)) for at in by_place}
    taken = [(x - 3, y - 3, x + 3, y + 3) for x, y in dots.values()]
    edge = axes.bbox.x1 * points_of
    taken.append((edge, 0.0, math.inf, math.inf))
    for at, steps in by_place.items():
        text = ", ".join(steps[:4]) + (", ..." if len(steps) > 4 else "")
        x, y = dots[at]
        corner, box = _free_corner((x, y), 5.5 * len(text), taken)
        taken.append(box)
        side = "left" if corner[0] > 0 else "right"
        axes.annotate(text, at, corner, textcoords="offset points", ha=side, va="center", color=_INK)


_Box = tuple[float, float, float, float]  # left, bottom, right, top, in points


def _free_corner(dot: tuple[float, float], wide: float, taken: Sequence[_Box]) -> tuple[tuple[int, int], _Box]:
    """Where a label `wide` points long lies beside a dot: from the dot to the middle of the label's nearer side, and
    its box; the first of the corners where nothing is, else the first."""
    corners = []
    for right, up in ((6, 8), (-6, 8), (6, -8), (-6, -8), (8, 0), (-8, 0)):
        left = dot[0] + right - (wide if right < 0 else 0)
        box = (left, dot[1] + up - 5, left + wide, dot[1] + up + 5)
        corners.append(((right, up), box))
        if not any(box[0] < b[2] and b[0] < box[2] and box[1] < b[3] and b[1] < box[3] for b in taken):
            return corners[-1]
    return corners[0]


def front_chart(report: Report | UnprovedReport) -> Html | None:
    """Flash over time of all that the library can be, the arena as the dot's area; None where nobody asked for it."""
    if report.front is None:
        return None
    points = report.front.points
    timed = all(point.milliseconds is not None for point in points)
    drawn = [
        PlotDot(
            "built" if point.built else "by rows" if point.by_rows else "layer by layer",
            point.milliseconds if point.milliseconds is not None and timed else point.cycles,
            point.flash_bytes,
            point.arena_bytes,
        )
        for point in points
    ]
    units = "milliseconds" if timed else "instructions", "bytes of flash"
    return dots(drawn, units, "what the library can be: flash over time", joined=False)


def cost_of(layer: LayerReport) -> int | None:
    """Cycles, else instructions."""
    return layer.cycles if layer.cycles is not None else layer.instructions


def numbered(number: str, name: str, letters: int) -> str:
    """`2 …blocks.0.3/Conv`, in at most so many letters; the number alone where there is no room for more."""
    room = letters - len(number) - 1
    return f"{number} {cut(visible(name), room)}" if name and room >= _FEWEST_LETTERS else number


def cut(name: str, letters: int = LETTERS) -> str:
    """The end of a name, which tells things apart."""
    return name if len(name) <= letters else f"…{name[1 - letters :]}"


def bars(rows: Sequence[tuple[str, int]], unit: str, title: str) -> Html:
    """A bar for each row, in order; of many the largest, and the rest as one."""
    if len(rows) > _MOST_BARS:
        largest = sorted(sorted(range(len(rows)), key=lambda i: -rows[i][1])[: _MOST_BARS - 1])
        rest = sum(size for i, (_, size) in enumerate(rows) if i not in set(largest))
        rows = [*(rows[i] for i in largest), (f"{len(rows) - len(largest)} others", rest)]

    def draw(axes: Axes) -> None:
        sizes = [size for _, size in rows]
        axes.barh(range(len(rows)), sizes, color=_BAR)
        axes.set_yticks(range(len(rows)), [name for name, _ in rows], parse_math=False)
        axes.invert_yaxis()
        axes.set_xlabel(unit)
        axes.set_xlim(0, max(*sizes, 1) * 1.18)
        for place, size in enumerate(sizes):
            axes.annotate(f"{size:,}", (size, place), (4, 0), textcoords="offset points", va="center", color=_INK)

    return _chart((9, 0.9 + 0.27 * len(rows)), draw, title)


@dataclass(frozen=True, slots=True)
class PlotDot:
    """series: what is drawn in one colour; area: of the dot, beside the others'."""

    series: str
    x: float
    y: float
    area: int


def dots(points: Sequence[PlotDot], units: tuple[str, str], title: str, joined: bool = True) -> Html:
    """Dots by x and y, a colour for each series. joined: a line through those that none is left of and below."""
    largest = max(*(dot.area for dot in points), 1)

    def draw(axes: Axes) -> None:
        for number, name in enumerate(dict.fromkeys(dot.series for dot in points)):
            own, colour = [dot for dot in points if dot.series == name], COLORS[number % len(COLORS)]
            sizes = [max(LARGEST_DOT * dot.area / largest, 9) for dot in own]
            drawn = axes.scatter([d.x for d in own], [d.y for d in own], s=sizes, color=colour, alpha=0.7)
            drawn.set_label(f" {name}")  # Matplotlib leaves out those that begin with _
            if joined:
                front = sorted(corners((dot.x, dot.y) for dot in own))
                axes.plot([x for x, _ in front], [y for _, y in front], color=colour, linewidth=1)
        for scale, values in ((axes.set_xscale, [d.x for d in points]), (axes.set_yscale, [d.y for d in points])):
            if min(values) > 0 and max(values) / min(values) > WIDE:
                scale("log")
        axes.set_xlabel(units[0])
        axes.set_ylabel(units[1])
        axes.grid(color=_EDGE, alpha=0.3)
        legend = axes.legend(frameon=False, labelcolor=_INK, loc="upper left", bbox_to_anchor=(1.0, 1.0))
        for text in legend.get_texts():
            text.set_parse_math(False)

    return _chart((9, 3.6), draw, title)


def _chart(inches: tuple[float, float], draw: Callable[[Axes], None], title: str) -> Html:
    """The drawing as an SVG element with a name for those who do not see it."""
    with tempfile.TemporaryDirectory(prefix="tinyc-") as folder, warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")  # the reader's fonts count
        file = Path(folder) / "chart.svg"
        with drawing(file, inches) as figure:
            axes = figure.subplots()
            draw(axes)
            _plain_numbers(axes)
            _ink(axes)
        text = file.read_text(encoding="utf-8")
    mark = re.sub(r"\W+", "-", title)
    text = text[text.index("<svg") :].replace(_INK, "currentColor")
    text = re.sub(r'\b(id="|href="#|url\(#)', rf"\g<1>{mark}-", text)
    text = re.sub(r'^<svg [^>]*?viewBox="([^"]*)"[^>]*>', rf'<svg viewBox="\1" role="img" aria-label="{title}">', text)
    return Html(text)


def _plain_numbers(axes: Axes) -> None:
    """Axes by powers get marks at 1, 2 and 5 of each power, written as numbers; all write thousands with commas."""
    from matplotlib.ticker import LogFormatter, LogLocator, ScalarFormatter  # noqa: PLC0415

    for axis in (axes.xaxis, axes.yaxis):
        if axis.get_scale() == "log":
            axis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=12))
            axis.set_minor_formatter(lambda *_: "")
        if isinstance(axis.get_major_formatter(), LogFormatter | ScalarFormatter):
            axis.set_major_formatter(lambda value, _: f"{value:,.0f}" if abs(value) >= 1000 else f"{value:g}")


def _ink(axes: Axes) -> None:
    """Text and lines of the axes in the page's colour, on nothing."""
    axes.figure.patch.set_alpha(0)
    axes.patch.set_alpha(0)
    axes.tick_params(which="both", colors=_INK, labelcolor=_INK)
    for label in (axes.xaxis.label, axes.yaxis.label):
        label.set_color(_INK)
    for spine in axes.spines.values():
        spine.set_color(_INK)
    axes.spines[["top", "right"]].set_visible(False)
