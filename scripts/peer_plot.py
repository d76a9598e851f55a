# SPDX-License-Identifier: Apache-2.0
"""Draws docs/images/peers.svg: tinyc beside other tools and desktop runs.

From docs/benchmarks.json (`make bench`, bench/board_estimates.py), bench/peers.toml and docs/desktop.json
(bench/desktop.py).

    python scripts/peer_plot.py        # needs `pip install tinyc[plot]`

Four panels for Cortex-M4: instructions, arena, code; and cycles on one board, where ours are estimated with the waits
of its flash, with the error that such estimates had, and the others' were published. Each bar is relative to a free
baseline, which is 1 in each panel; lower is better. Below, if there are figures of desktop runs, milliseconds of one
inference on the board and on a desktop. The same figures give the same file.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "bench"))

from peers import MODELS, Peer, Published, read_peers  # noqa: E402  beside tables.py, which is no package

from tinyc.machine.cores import SLOW_FLASH_SHARES  # noqa: E402

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BOARD = "cortex-m4"
ESTIMATES = "board estimates"
PICTURE = ROOT / "docs" / "images" / "peers.svg"
FIGURES = ROOT / "docs" / "benchmarks.json"
DESKTOP = ROOT / "docs" / "desktop.json"
COLORS = ("#1b6ca8", "#9aa5b1", "#e0a458", "#7a9e7e", "#b56576")  # ours first
TOP = 2.0  # no bar is higher; what would be says how high


@dataclass(frozen=True, slots=True)
class Panel:
    """One diagram. rows: name -> value by model, the first is tinyc, the second the baseline; unit divides ours."""

    title: str
    rows: Mapping[str, Mapping[str, float]]
    unit: float
    unit_name: str
    shares: tuple[float, float] | None = None  # of the truth that ours may be, least and most; drawn as error bars


def panels(
    ours: Mapping[str, Mapping[str, Any]],
    estimated: Mapping[str, float],
    peers: Sequence[Peer],
    published: Published,
) -> list[Panel]:
    """The four panels of the picture; a tool is left out where it has no figures. estimated: our cycles on the board
    of the published ones, by model."""

    def mine(key: str) -> dict[str, Mapping[str, float]]:
        return {"tinyc": {model: ours[model][key] for model in MODELS if ours[model][key] is not None}}

    instructions = {peer.name: peer.instructions.get(BOARD, {}) for peer in peers}
    arenas = {_arena_name(peer): peer.arena_bytes for peer in peers}
    code = {peer.name: peer.code_bytes for peer in peers}
    cycles = {name: {m: v * 1e6 for m, v in row.items()} for name, row in published.cycles.items()}
    baseline = "microTVM + CMSIS-NN (v1.0)"
    chosen = [baseline, "Bosch HALE (v1.2)", "Plumerai (v1.1)", "ST X-CUBE-AI 9 (v1.2)"]
    return [
        Panel("instructions of one inference", mine("instructions") | instructions, 1e6, "M"),
        Panel("arena (RAM without stack)", mine("arena_bytes") | arenas, 1e3, "kB"),
        Panel("code", mine("code_bytes") | {k: v for k, v in code.items() if v}, 1e3, "kB"),
        Panel(
            f"cycles on a {published.board}: ours estimated, others published",
            {"tinyc (estimated)": estimated} | {name: cycles[name] for name in chosen},
            1e6,
            "M",
            SLOW_FLASH_SHARES,
        ),
    ]


def _arena_name(peer: Peer) -> str:
    return f"{peer.name} (without inputs, outputs)" if peer.name == "IREE" else peer.name


def desktop_rows(reports: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """Milliseconds of one inference, run -> model: the board first, then each desktop run of int8 and float files."""
    rows: dict[str, dict[str, float]] = {}
    for model in (model for report in reports for model in report["models"]):
        name, arithmetic = model["model"].split("_")[0], "int8" if model["model"].endswith(".tflite") else "float32"
        board = model["boards"][0]
        if arithmetic == "int8":
            rows.setdefault(f"tinyc on {board['board']} (modelled)", {})[name] = board["milliseconds"]
        for ref in model["references"]:
            if ref["kind"] == "c" and arithmetic != "int8":
                continue  # the same library as that of the int8 file, nearly
            label = f"{ref['name']}, {ref['arithmetic']}, {ref['device']}"
            rows.setdefault(label, {})[name] = ref["latency"]["median_us"] / 1000
    return rows


def draw(panels: Sequence[Panel], desktop: Mapping[str, Mapping[str, float]], picture: Path) -> None:
    """Write the SVG file; its bytes depend on the arguments alone."""
    import matplotlib as mpl  # noqa: PLC0415  an optional extra

    mpl.use("svg")
    mpl.rcParams.update({"svg.hashsalt": "tinyc", "svg.fonttype": "none", "font.size": 9, "font.family": "sans-serif"})
    from matplotlib import pyplot as plt  # noqa: PLC0415

    figure = plt.figure(figsize=(10, 9.2 if desktop else 6.4), layout="constrained")
    grid = figure.add_gridspec(3 if desktop else 2, 2)
    for place, panel in enumerate(panels):
        _draw_panel(figure.add_subplot(grid[place // 2, place % 2]), panel)
    if desktop:
        _draw_desktop(figure.add_subplot(grid[2, :]), desktop)
    figure.suptitle("MLPerf Tiny int8 models on Cortex-M4, baseline = 1, lower is better", fontsize=11)
    picture.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(picture, format="svg", metadata={"Date": None, "Creator": None})
    plt.close(figure)


def _draw_panel(axes: Axes, panel: Panel) -> None:
    own, baseline = list(panel.rows.values())[:2]
    models = [model for model in MODELS if model in own and model in baseline]
    width = 0.8 / len(panel.rows)
    highest = max(row[model] / baseline[model] for row in panel.rows.values() for model in models if model in row)
    top = min(highest, TOP)
    for index, (name, row) in enumerate(panel.rows.items()):
        for place, model in enumerate(models):
            if model not in row:
                continue
            height = row[model] / baseline[model]
            x = place + (index - (len(panel.rows) - 1) / 2) * width
            label = name if place == 0 else None
            bar = min(height, top)
            axes.bar(x, bar, width * 0.92, color=COLORS[index], label=label)
            if index == 0 and panel.shares is not None:
                low, high = (height / share - bar for share in reversed(panel.shares))
                reach: list[list[float]] = [[0], [high - low]]
                axes.errorbar(x, bar + low, yerr=reach, color="#222222", linewidth=0.8, capsize=2)
                bar += high
            text = f"{own[model] / panel.unit:.3g} {panel.unit_name}" if index == 0 else f"{height:.1f}"
            if index == 0:  # upright: it is wider than the bar
                axes.text(x, bar + 0.03 * top, text, ha="center", va="bottom", rotation=90, fontsize=7)
            elif height > top:
                axes.text(x, top * 1.02, text, ha="center", fontsize=7)
    axes.axhline(1, color="#555555", linewidth=0.7, linestyle="--", zorder=0)
    axes.set_xticks(range(len(models)), models)
    axes.set_xlim(-0.55, len(models) - 0.45)
    axes.set_ylim(0, top * 1.6)
    axes.set_title(panel.title, fontsize=10, loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(fontsize=7, frameon=False, loc="upper right", ncols=2)


def _draw_desktop(axes: Axes, rows: Mapping[str, Mapping[str, float]]) -> None:
    width = 0.8 / len(rows)
    for index, (name, row) in enumerate(rows.items()):
        places = [MODELS.index(model) + (index - (len(rows) - 1) / 2) * width for model in row]
        axes.bar(places, list(row.values()), width * 0.92, color=COLORS[index % len(COLORS)], label=name)
        for place, value in zip(places, row.values(), strict=True):
            axes.text(place, value * 1.1, f"{value:.2g}", ha="center", fontsize=7)
    axes.set_yscale("log")
    axes.set_ylim(top=max(value for row in rows.values() for value in row.values()) * 30)
    axes.set_xticks(range(len(MODELS)), MODELS)
    axes.set_title("milliseconds of one inference, board and desktop (log scale)", fontsize=10, loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(fontsize=7, frameon=False, loc="upper right", ncols=2)


def main() -> int:
    peers, published = read_peers()
    if not FIGURES.is_file():
        print("docs/benchmarks.json is missing: run `make bench` first", file=sys.stderr)
        return 2
    figures = json.loads(FIGURES.read_text(encoding="utf-8"))
    estimated = figures[ESTIMATES][published.board]
    desktop = desktop_rows(json.loads(DESKTOP.read_text(encoding="utf-8"))) if DESKTOP.is_file() else {}
    try:
        draw(panels(figures[BOARD], estimated, peers, published), desktop, PICTURE)
    except ImportError:
        print("matplotlib is missing: pip install tinyc[plot]", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
