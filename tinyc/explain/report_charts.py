# SPDX-License-Identifier: Apache-2.0
"""The charts of a report's page, as SVG that takes the page's own colour of text."""

from __future__ import annotations

import re
import tempfile
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tinyc.base.escape import Html, visible
from tinyc.explain.drawing import drawing
from tinyc.verify.report import LayerReport, Report, UnprovedReport

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_INK = "#010203"  # becomes the page's colour of text
_BAR, _OTHER, _EDGE = "#4a8fc2", "#c08a3e", "#888888"
_MOST_BARS = 40
_LETTERS = 26


def time_chart(report: Report | UnprovedReport) -> Html | None:
    """Modelled cycles of each layer, else instructions; None where neither was counted."""
    costs = [(layer, cost_of(layer)) for layer in report.layers]
    if not any(cost for _, cost in costs):
        return None
    unit = "cycles" if any(layer.cycles for layer in report.layers) else "instructions"
    rows = [(_label(layer), cost or 0) for layer, cost in costs]
    return _bars(rows, unit, f"{unit} of each layer")


def flash_chart(report: Report | UnprovedReport) -> Html | None:
    """Constants of each layer, and all code; None where no compiler told the size."""
    if report.flash is None:
        return None
    rows = [("code", report.flash.code_bytes)]
    rows += [(_label(layer), layer.const_bytes) for layer in report.layers if layer.const_bytes]
    return _bars(rows, "bytes of flash", "bytes of flash: code, and constants of each layer", first=_OTHER)


def arena_chart(report: Report | UnprovedReport) -> Html:
    """Where the output of each step lies in the arena, and where the arena ends."""
    count = len(report.layers)

    def draw(axes: Axes) -> None:
        from matplotlib.patches import Rectangle  # noqa: PLC0415
        from matplotlib.ticker import MaxNLocator  # noqa: PLC0415

        for layer in report.layers:
            first, end = layer.arena
            axes.add_patch(Rectangle((layer.step - 0.4, first), 0.8, end - first, facecolor=_BAR, edgecolor=_EDGE))
        axes.axhline(report.arena_bytes, color=_OTHER, linewidth=1.5)
        axes.set_xlim(-0.6, max(count, 1) - 0.4)
        axes.set_ylim(0, max(report.arena_bytes, 1) * 1.05)
        axes.set_xlabel("step")
        axes.set_ylabel("bytes of the arena")
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))

    return _chart((9, 3.2), draw, "place of each step's output in the arena")


def efficiency_chart(report: Report | UnprovedReport) -> Html | None:
    """Instructions per multiply-accumulate over the size of a layer; None where nothing was counted."""
    points = [(layer, layer.instructions) for layer in report.layers if layer.macs and layer.instructions]
    if not points:
        return None

    def draw(axes: Axes) -> None:
        axes.scatter([layer.macs for layer, _ in points], [n / layer.macs for layer, n in points], color=_BAR, zorder=3)
        for (macs, n), steps in _steps_at(points).items():
            axes.annotate(steps, (macs, n / macs), (5, 5), textcoords="offset points", color=_INK)
        axes.set_xscale("log")
        axes.margins(0.08)
        axes.set_ylim(0, 1.2 * max(n / layer.macs for layer, n in points))
        axes.set_xlabel("multiply-accumulates of the layer")
        axes.set_ylabel("instructions for each")
        axes.grid(color=_EDGE, alpha=0.3)

    return _chart((9, 3.2), draw, "instructions per multiply-accumulate of each layer, by its size")


def _steps_at(points: Sequence[tuple[LayerReport, int]]) -> dict[tuple[int, int], str]:
    """MACs and instructions -> the steps that have them; of many the first."""
    found: dict[tuple[int, int], list[str]] = {}
    for layer, n in points:
        found.setdefault((layer.macs, n), []).append(str(layer.step))
    return {at: ", ".join(steps[:4]) + (", ..." if len(steps) > 4 else "") for at, steps in found.items()}


def cost_of(layer: LayerReport) -> int | None:
    """Cycles, else instructions."""
    return layer.cycles if layer.cycles is not None else layer.instructions


def _label(layer: LayerReport) -> str:
    name = visible(layer.name)
    return f"{layer.step} {name if len(name) <= _LETTERS else '...' + name[3 - _LETTERS :]}"


def _bars(rows: Sequence[tuple[str, int]], unit: str, title: str, first: str = _BAR) -> Html:
    """A bar for each row, in order; of many the largest, and the rest as one."""
    if len(rows) > _MOST_BARS:
        kept = sorted(sorted(range(len(rows)), key=lambda i: -rows[i][1])[: _MOST_BARS - 1])
        rest = sum(size for i, (_, size) in enumerate(rows) if i not in set(kept))
        rows = [*(rows[i] for i in kept), (f"{len(rows) - len(kept)} others", rest)]

    def draw(axes: Axes) -> None:
        sizes = [size for _, size in rows]
        axes.barh(range(len(rows)), sizes, color=[first, *[_BAR] * (len(rows) - 1)])
        axes.set_yticks(range(len(rows)), [name for name, _ in rows], parse_math=False)
        axes.invert_yaxis()
        axes.set_xlabel(unit)
        axes.set_xlim(0, max(*sizes, 1) * 1.18)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        for place, size in enumerate(sizes):
            axes.annotate(f" {size:,}", (size, place), va="center", color=_INK)

    return _chart((9, 0.9 + 0.27 * len(rows)), draw, title)


def _chart(inches: tuple[float, float], draw: Callable[[Axes], None], title: str) -> Html:
    """The drawing as an SVG element with a name for those who do not see it."""
    with tempfile.TemporaryDirectory(prefix="tinyc-") as folder, warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")  # the reader's fonts count
        file = Path(folder) / "chart.svg"
        with drawing(file, inches) as figure:
            axes = figure.subplots()
            draw(axes)
            _ink(axes)
        text = file.read_text(encoding="utf-8")
    mark = re.sub(r"\W+", "-", title)
    text = text[text.index("<svg") :].replace(_INK, "currentColor")
    text = re.sub(r'\b(id="|href="#|url\(#)', rf"\g<1>{mark}-", text)
    text = re.sub(r'^<svg [^>]*?viewBox="([^"]*)"[^>]*>', rf'<svg viewBox="\1" role="img" aria-label="{title}">', text)
    return Html(text)


def _ink(axes: Axes) -> None:
    """Text and lines of the axes in the page's colour, on nothing."""
    axes.figure.patch.set_alpha(0)
    axes.patch.set_alpha(0)
    axes.tick_params(colors=_INK)
    for label in (axes.xaxis.label, axes.yaxis.label):
        label.set_color(_INK)
    for spine in axes.spines.values():
        spine.set_color(_INK)
    axes.spines[["top", "right"]].set_visible(False)
