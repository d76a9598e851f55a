# SPDX-License-Identifier: Apache-2.0
"""A build's report as one page of HTML that needs nothing else."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from typing import Any

from tinyc.base.escape import Html
from tinyc.base.templates import render
from tinyc.explain.graph_drawing import BOX_HEIGHT, BOX_WIDTH, MARGIN, graph_drawing
from tinyc.explain.report_charts import (
    arena_chart,
    cost_of,
    efficiency_chart,
    flash_chart,
    front_chart,
    memory_chart,
    roofline_chart,
    time_chart,
)
from tinyc.verify.report import Integers, LayerReport, Report, UnprovedReport
from tinyc.verify.verdict import judge


def report_page(report: Report | UnprovedReport) -> str:
    """The page. Same report, same bytes. Raises TinycError if Matplotlib is missing."""
    charts = {
        "time": time_chart(report),
        "memory": memory_chart(report),
        "arena": arena_chart(report),
        "flash": flash_chart(report),
        "efficiency": efficiency_chart(report),
        "roofline": roofline_chart(report),
        "front": front_chart(report),
    }
    whole = sum(cost_of(layer) or 0 for layer in report.layers)
    values = {
        "r": report,
        "accuracy": judge(report),
        "proof": report.verify if isinstance(report, Report) else None,
        "run": report if isinstance(report, Report) else None,
        "charts": charts,
        "unit": "cycles" if any(layer.cycles for layer in report.layers) else "instructions",
        "whole": whole,
        "g": graph_drawing(report),
        "left": MARGIN,
        "box_width": BOX_WIDTH,
        "box_height": BOX_HEIGHT,
        "share": lambda layer: _share(layer, whole),
        "refused": _refused,
        "fused": [layer for layer in report.layers if len(layer.made_of) > 1],
        "repeat": shlex.join(["tinyc", "build", report.model, *report.arguments]),
        "has_sqnr": any(layer.sqnr_db is not None for layer in report.layers),
    }
    return render("report/page.html.j2", values, FILTERS)


def _share(layer: LayerReport, whole: int) -> Html:
    cost = cost_of(layer)
    return Html(f"{100 * cost / whole:.1f} %" if cost is not None and whole else "")


def _refused(layer: LayerReport) -> list[tuple[str, str]]:
    """What kernels ask for -> which do, for kernels that do not take the layer."""
    by_reason: dict[str, list[str]] = {}
    for other in layer.alternatives:
        if other.asks:
            by_reason.setdefault(other.asks, []).append(other.kernel)
    return [(asks, ", ".join(kernels)) for asks, kernels in by_reason.items()]


def _integers(integers: Integers) -> str:
    """`int8, scale 0.0235, zero point -128`."""
    width = _DTYPES.get(integers.dtype, integers.dtype)
    if integers.scale is None:
        return f"{width}, {integers.scales} scales"
    return f"{width}, scale {integers.scale:.6g}, zero point {integers.zero}"


def _number(value: int | None) -> Html:
    return Html("" if value is None else f"{value:,}")


_DTYPES = {"s4": "int4", "s8": "int8", "s16": "int16", "s32": "int32", "f32": "float32", "bool": "bool"}
FILTERS: Mapping[str, Callable[..., Any]] = {
    "number": _number,
    "decimal": lambda value, digits=1: Html(f"{value:.{digits}f}"),
    "integers": _integers,
    "shape": lambda shape: Html(" x ".join(map(str, shape))),
}
