# SPDX-License-Identifier: Apache-2.0
"""Draws docs/images/quantize.svg: accuracy against bytes of weights, for mixed 4- and 8-bit weights.

    python scripts/quantize_curve.py MODELS [--figures FILE.json]      # needs `pip install tinyc[plot]`

MODELS is the folder of published MLPerf Tiny models. Every second development input calibrates, the others test. With
--figures, the measured points are written there, or drawn from there if the file exists.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "bench"))

from quantizers import Task, load  # noqa: E402  beside the other benchmarks

from tinyc.explain.diagnosis import integer_outputs  # noqa: E402
from tinyc.options.recipe import Recipe  # noqa: E402
from tinyc.passes.weights import has_weights  # noqa: E402
from tinyc.quantize import Calibration, quantize, weight_bytes  # noqa: E402
from tinyc.quantize.augment import augmented  # noqa: E402
from tinyc.quantize.layerwise import Memo  # noqa: E402
from tinyc.quantize.mixed import within  # noqa: E402
from tinyc.quantize.recipe import FittingData, carry_out, draft_of, drafts  # noqa: E402

PICTURE = ROOT / "docs" / "images" / "quantize.svg"
MODELS = {"kws": "keywords (kws)", "ic": "pictures (ic)"}
SHARES = (0.5, 0.55, 0.6, 0.7, 0.85, 1.0)  # of the bytes of int8 weights
COLORS = ("#1b6ca8", "#e0a458")
_TARGETS = {"agreement": 90, "sqnr_db": 18}


def measure(task: Task) -> list[dict[str, Any]]:
    """A point for every share of bytes: what `quantize` makes, the sensitivities measured once for all."""
    calibration = Calibration(task.fit, "first half", True, task.path)
    full = sum(task.graph.values[node.inputs[1]].elements for node in task.graph.nodes if has_weights(node))
    recipe = Recipe("mse", equalize=False, rounding="learned", weights="auto", weight_bytes=full)
    first = quantize(task.graph, calibration, recipe)
    varied, memo = augmented(task.graph, calibration, recipe.seed), Memo()
    draft = draft_of(drafts(task.graph, varied), first.plan)
    data = FittingData(calibration, varied)
    points = []
    for share in SHARES:
        bits = within(first.sensitivities, int(share * full))
        integer = carry_out(first.plan, draft, data, bits, memo=memo)
        quant = integer.values[integer.outputs[0]].quant
        assert quant is not None  # every output is an integer
        outputs = quant.dequantize(integer_outputs(integer, task.test))
        row = task.row("", outputs, weight_bytes(integer), 0.0)
        points.append({"bytes": row.weight_bytes, "sqnr_db": row.sqnr_db, "agreement": row.agreement})
        sys.stdout.write(f"{task.name} {share:.0%} {points[-1]}\n")
        sys.stdout.flush()
    return points


def draw(figures: dict[str, list[dict[str, Any]]], picture: Path) -> None:
    """Write the SVG file; its bytes depend on the figures alone."""
    import matplotlib as mpl  # noqa: PLC0415  an optional extra

    mpl.use("svg")
    mpl.rcParams.update({"svg.hashsalt": "tinyc", "svg.fonttype": "none", "font.size": 9, "font.family": "sans-serif"})
    from matplotlib import pyplot as plt  # noqa: PLC0415

    figure, panels = plt.subplots(1, 2, figsize=(8.4, 3.2))
    titles = {"agreement": "same decision as the float model, %", "sqnr_db": "output signal to noise, dB"}
    for panel, (key, title) in zip(panels, titles.items(), strict=True):
        for (model, points), color in zip(figures.items(), COLORS, strict=True):
            most = max(point["bytes"] for point in points)
            x = [100 * point["bytes"] / most for point in points]
            panel.plot(x, [point[key] for point in points], "o-", color=color, label=MODELS[model], markersize=4)
        panel.axhline(_TARGETS[key], color="#9aa5b1", linewidth=0.8, linestyle=":")
        panel.set_title(title, fontsize=9)
        panel.set_xlabel("bytes of weights, % of int8")
        panel.grid(color="#e3e8ec", linewidth=0.6)
        for side in ("top", "right"):
            panel.spines[side].set_visible(False)
    panels[0].legend(frameon=False, loc="lower right")
    figure.tight_layout()
    figure.savefig(picture, format="svg", metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=Path)
    parser.add_argument("--figures", type=Path)
    given = parser.parse_args()
    if given.figures is not None and given.figures.exists():
        figures = json.loads(given.figures.read_text(encoding="utf-8"))
    else:
        figures = {name: measure(load(given.models, name, swap=False)) for name in MODELS}
        if given.figures is not None:
            given.figures.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    draw(figures, PICTURE)


if __name__ == "__main__":
    main()
