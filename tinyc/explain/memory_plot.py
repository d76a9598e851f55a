# SPDX-License-Identifier: Apache-2.0
"""The memory map as a picture: steps from left to right, bytes from bottom to top, a rectangle per tenant."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tinyc.base.escape import visible
from tinyc.explain.drawing import drawing
from tinyc.explain.memory_map import MemoryMap, Tenant

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLORS = {"input": "#7a9e7e", "tensor": "#4a8fc2", "output": "#b56576", "scratch": "#d9d4c7", "state": "#c9a227"}
TENSORS = ("#4a8fc2", "#8ab6d6", "#5aa7a7", "#7f8fc9", "#a9cce3")  # neighbours in time are told apart
PEAK = "#e0a458"
NAMED_STEPS = 60  # with more, steps are numbered
LABEL_SHARE = 0.05  # of the picture's height: lower rectangles get no text
LETTERS_ACROSS = 130  # a line of text as wide as the axes
MIN_LETTERS = 7


def plot_map(memory_map: MemoryMap, path: Path, title: str) -> None:
    """Draw the map into `path`; the same map gives the same file.

    Raises TinycError if Matplotlib is missing, the format is unknown or the file cannot be written.
    """
    across = min(16.0, 4 + 0.45 * min(len(memory_map.moments), 40))
    with drawing(path, (across, 5.5)) as figure:
        axes = figure.subplots()
        ordered = sorted(memory_map.tenants, key=lambda t: (t.born, t.at))
        names = list(dict.fromkeys(tenant.name for tenant in ordered))
        for tenant in ordered:
            color = TENSORS[names.index(tenant.name) % len(TENSORS)] if tenant.kind == "tensor" else COLORS[tenant.kind]
            _draw(axes, memory_map, tenant, color)
        _hatch_handovers(axes, ordered)
        _frame(axes, memory_map, title)


def _draw(axes: Axes, memory_map: MemoryMap, tenant: Tenant, color: str) -> None:
    from matplotlib.patches import Rectangle  # noqa: PLC0415

    start = max(tenant.born, -0.4)  # a model's input is there before step 0
    width, count = tenant.dies - start, len(memory_map.moments)
    edge, line = ("none", 0.0) if count > NAMED_STEPS else ("white", 0.8)
    corner = (start, tenant.at)
    axes.add_patch(Rectangle(corner, width, tenant.size, facecolor=color, edgecolor=edge, linewidth=line))
    free = max(width - 1, 1)  # in its last step a newer tenant often lies over it
    letters = int(LETTERS_ACROSS * free / count)
    if tenant.kind != "scratch" and letters >= MIN_LETTERS and tenant.size > LABEL_SHARE * memory_map.arena_bytes:
        text = f"{visible(tenant.name)[-letters:]}\n{tenant.size:,}"
        middle = (start + free / 2, tenant.at + tenant.size / 2)
        axes.text(*middle, text, ha="center", va="center", fontsize=6.5, clip_on=True, zorder=5, parse_math=False)


def _hatch_handovers(axes: Axes, tenants: Sequence[Tenant]) -> None:
    """Mark where two tenants have the same bytes in the same step: the newer takes the place of the older."""
    from matplotlib.patches import Rectangle  # noqa: PLC0415

    for i, old in enumerate(tenants):
        for new in tenants[i + 1 :]:
            start, stop = max(old.born, new.born), min(old.dies, new.dies)
            low, high = max(old.at, new.at), min(old.end, new.end)
            if start < stop and low < high:
                shape = Rectangle((start, low), stop - start, high - low, fill=False, hatch="////", linewidth=0)
                shape.set_edgecolor((1, 1, 1, 0.75))
                axes.add_patch(shape)


def _frame(axes: Axes, memory_map: MemoryMap, title: str) -> None:
    """Axes, the peak, the bound and the legend."""
    from matplotlib.lines import Line2D  # noqa: PLC0415
    from matplotlib.patches import Patch  # noqa: PLC0415

    count = len(memory_map.moments)
    for step in memory_map.peak:
        axes.axvspan(step, step + 1, color=PEAK, alpha=0.3, zorder=0, linewidth=0)
    axes.axhline(memory_map.arena_bytes, color=PEAK, linewidth=1.5)
    axes.axhline(memory_map.lower_bound_bytes, color="black", linewidth=1, linestyle="--")
    axes.set_xlim(-0.4, count)
    axes.set_ylim(0, (memory_map.arena_bytes + memory_map.slow_bytes) * 1.04)
    axes.set_ylabel("bytes of the arena")
    if count <= NAMED_STEPS:
        axes.set_xticks([i + 0.5 for i in range(count)], [f"{i} {m.op}" for i, m in enumerate(memory_map.moments)])
        axes.tick_params(axis="x", rotation=60, length=0)
        for label in axes.get_xticklabels():
            label.set_horizontalalignment("right")
            label.set_rotation_mode("anchor")
    else:
        axes.set_xlabel("steps")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.set_title(visible(title), loc="left", parse_math=False)
    used = [kind for kind in COLORS if any(t.kind == kind for t in memory_map.tenants)]
    entries: list[Patch | Line2D] = [Patch(color=COLORS[kind], label=kind) for kind in used]
    entries.append(
        Patch(facecolor=COLORS["tensor"], edgecolor="white", hatch="////", label="output over used-up input")
    )
    entries.append(Patch(color=PEAK, alpha=0.5, label=f"peak: {memory_map.arena_bytes:,} bytes"))
    bound = f"lower bound: {memory_map.lower_bound_bytes:,}"
    entries.append(Line2D([], [], color="black", linestyle="--", linewidth=1, label=bound))
    axes.legend(handles=entries, loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)
