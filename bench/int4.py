# SPDX-License-Identifier: Apache-2.0
"""Writes the tables of docs/figures.md: the five int8 MLPerf Tiny models with int4 weights, beside themselves in int8.

    python bench/int4.py [--board cortex-m4] [--model kws ...]

Every weight of a model is rounded to 4 bits: what that does to accuracy is the quantizer's matter. Both are planned
layer by layer (`--prefer time`) with the same options, proved byte for byte and counted. First without kernels that
widen weights in flash: neither to int16 nor by exact fast convolutions. Then with all kernels. Then within a budget of
flash, what the first int8 library takes. With --model the text is printed, not written.
"""

from __future__ import annotations

import argparse
import bisect
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from peers import MODELS
from tables import INPUTS, ROOT, write_section

from tinyc.base.errors import TinycError
from tinyc.choose.select import Choice, offered
from tinyc.ir.graph import Graph, Node, Quant, read_only
from tinyc.kernel.kernel import Once
from tinyc.options.build import Options
from tinyc.passes.dead_channels import drop_dead_channels
from tinyc.pipeline import integers, lowering
from tinyc.pipeline.building import build
from tinyc.pipeline.progress import Progress
from tinyc.verify.report import LayerReport, Report

PAGE = ROOT / "docs" / "figures.md"
OUT_AXIS = {"conv2d": 0, "depthwise_conv2d": 2, "fully_connected": 0}

Reports = Mapping[str, Report]


def _widens(kernel: str) -> bool:
    """Whether a kernel takes more flash than the weights: int16, or factors of fast convolutions."""
    return "_w16_" in kernel or kernel.startswith("tc_conv2d_3x3")


def _whole(choice: Choice) -> Choice:
    """The kernel for the whole layer alone: its forms by rows may be fast convolutions."""
    return replace(choice, offer=replace(choice.offer, row_forms=Once(lambda: ())))


def as_int4(graph: Graph) -> Graph:
    """The graph with int4 weights wherever an operator takes them: per channel the largest weight becomes 7."""
    for node in graph.nodes:
        if node.op in OUT_AXIS and graph.values[node.inputs[1]].dtype == "s8" and node.inputs[1] in graph.consts:
            graph = _with_int4_weights(graph, node)
    return graph


def _with_int4_weights(graph: Graph, node: Node) -> Graph:
    axis, name = OUT_AXIS[node.op], node.inputs[1]
    w, value = graph.consts[name].astype(np.float64), graph.values[name]
    out_c = w.shape[axis]
    rest = tuple(i for i in range(w.ndim) if i != axis)
    factor = np.maximum(np.abs(w).max(axis=rest), 1) / 7
    along = [-1 if i == axis else 1 for i in range(w.ndim)]
    assert value.quant is not None
    scales = (np.broadcast_to(value.quant.scale, out_c) * factor).astype(np.float32)
    quant = Quant(tuple(map(float, scales)), (0,) * out_c, axis)
    values = {**graph.values, name: replace(value, dtype="s4", quant=quant)}
    consts = {**graph.consts, name: read_only(np.clip(np.rint(w / factor.reshape(along)), -7, 7).astype(np.int8))}
    if len(node.inputs) > 2 and node.inputs[2]:
        bias = node.inputs[2]
        consts[bias] = read_only(np.rint(graph.consts[bias] / factor).astype(np.int32))
    return replace(graph, values=values, consts=consts)


@contextmanager
def _weights_of(bits: int, packed: bool = False) -> Iterator[None]:
    """Models are compiled with weights of 8 or 4 bits; packed: without kernels that widen them."""
    reduce = drop_dead_channels

    def fewer(*args: Any, **more: Any) -> Any:
        choices = offered(*args, **more)
        if not packed:
            return choices
        without_wide = {name: [c for c in some if not _widens(c.kernel.name)] for name, some in choices.items()}
        return {name: list(map(_whole, some or choices[name])) for name, some in without_wide.items()}

    with ExitStack() as stack:
        if bits == 4:
            rounded = patch.object(integers, "drop_dead_channels", lambda graph, n: as_int4(reduce(graph, n)))
            stack.enter_context(rounded)
        stack.enter_context(patch.object(lowering, "offered", fewer))
        yield


def measure(folder: Path, model: str, board: str, bits: int, packed: bool = False, budget: int | None = None) -> Report:
    """The report of a build. TinycError if a byte differs from the reference."""
    options = Options(board=board, prefer="time", inputs=folder / f"{INPUTS[model]}.npz", samples=1, flash=budget)
    with tempfile.TemporaryDirectory(prefix="tinyc-int4-") as out, _weights_of(bits, packed):
        report, _ = build(folder / f"{model}_int8.tflite", Path(out) / model, options, Progress())
    assert isinstance(report, Report)
    if not report.passed:
        raise TinycError(f"{model}: outputs differ from the reference")
    return report


def measure_all(folder: Path, model: str, board: str) -> Reports:
    """One model in every way that the tables compare."""
    packed = measure(folder, model, board, 8, packed=True)
    budget = packed.flash.code_bytes + packed.flash.const_bytes
    return {
        "packed": packed,
        "int8": measure(folder, model, board, 8),
        "int4": measure(folder, model, board, 4),
        "int4, packed": measure(folder, model, board, 4, packed=True),
        "int8, budget": measure(folder, model, board, 8, budget=budget),
        "int4, budget": measure(folder, model, board, 4, budget=budget),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description="Write what int4 weights cost into docs/figures.md")
    parser.add_argument("--board", default="cortex-m4")
    parser.add_argument("--model", action="append", choices=MODELS, help="only these, printed and not written")
    parser.add_argument("--page", type=Path, default=PAGE)
    args = parser.parse_args()
    folder = Path(os.environ.get("TINYC_MODELS", ROOT.parent / "shared" / "models")) / "mlperf_tiny"
    if not folder.is_dir():
        print(f"no models in {folder}; set TINYC_MODELS", file=sys.stderr)
        return 2
    reports_by_model = {model: measure_all(folder, model, args.board) for model in args.model or MODELS}
    text = "\n\n".join([_models_table(reports_by_model), _layers_table(reports_by_model)]) + "\n"
    if args.model:
        print(text)
    else:
        write_section(args.page, f"int4 on {args.board}", text, "bench/int4.py")
    return 0


# ---- tables ----

_PAIRS = (("packed", "int4, packed"), ("int8", "int4"), ("int8, budget", "int4, budget"))
_BANDS = (1, 16, 32, 64)  # least channels of the layers that are compared together
_TITLES = ("weights kept as they are", "same options", "same flash budget")


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _models_table(by_model: Mapping[str, Reports]) -> str:
    head = ["million instructions (cycles), flash bytes"]
    head += [f"{title}: {bits}" for title in _TITLES for bits in ("int8", "int4")]
    rows = []
    for model, reports in by_model.items():
        cells = [_cell(reports[name], reports[pair[0]]) for pair in _PAIRS for name in pair]
        rows.append([model, *cells])
    return _table(head, rows)


def _cell(report: Report, reference: Report) -> str:
    instructions, cycles = report.instructions or 0, report.cycles or 0
    more = "" if report is reference else f" **{instructions / (reference.instructions or 1) - 1:+.1%}**"
    flash = report.flash.code_bytes + report.flash.const_bytes
    return f"{instructions / 1e6:.3f}{more} ({cycles / 1e6:.3f}), {flash:,}"


def _kind(layer: LayerReport) -> str | None:
    """Which layers are compared together; None for those without weights."""
    op = layer.op.split()[0]  # "conv2d + relu"
    if op not in OUT_AXIS:
        return None
    if op != "conv2d":
        return op.replace("_", " ").replace(" conv2d", "")
    taps = layer.macs // max(1, int(np.prod(layer.output_shape))) // layer.input_shapes[0][-1]
    return f"conv2d of {taps} taps, {_band(layer.input_shapes[0][-1])} channels"


def _band(channels: int) -> str:
    at = bisect.bisect(_BANDS, channels) - 1
    return f"{_BANDS[at]} to {_BANDS[at + 1] - 1}" if at + 1 < len(_BANDS) else f"{_BANDS[at]} or more"


def _layers_table(by_model: Mapping[str, Reports]) -> str:
    """The layers of each kind in all models: instructions with weights kept as they are, cycles with all kernels; and
    the layer whose cycles grow most."""
    sums: dict[str, list[int]] = {}
    most: dict[str, float] = {}
    for reports in by_model.values():
        for place, name in enumerate((*_PAIRS[0], *_PAIRS[1])):
            for layer in reports[name].layers:
                if kind := _kind(layer):
                    figure = layer.instructions if place < 2 else layer.cycles
                    sums.setdefault(kind, [0, 0, 0, 0])[place] += figure or 0
        for a, b in zip(*(reports[name].layers for name in _PAIRS[1]), strict=True):
            if (kind := _kind(a)) and a.cycles and b.cycles:
                most[kind] = max(most.get(kind, -1.0), b.cycles / a.cycles - 1)
    rows = [
        [kind, f"{a:,}", f"{b:,}", f"{b / a - 1:+.1%}", f"{c:,}", f"{d:,}", f"{d / c - 1:+.1%}", f"{most[kind]:+.1%}"]
        for kind, (a, b, c, d) in sorted(sums.items())
    ]
    as_they_are, free = (
        ("instructions, weights kept as they are: int8", "int4", ""),
        ("cycles, same options: int8", "int4", ""),
    )
    return _table(["layers", *as_they_are, *free, "most of a layer"], rows)


if __name__ == "__main__":
    sys.exit(main())
