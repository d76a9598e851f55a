# SPDX-License-Identifier: Apache-2.0
"""Writes docs/benchmarks.md: builds, proves and measures the ten MLPerf Tiny models, beside what other tools need.

    python bench/tables.py [--board cortex-m4 ...] [--model kws ...] [--samples 0]

Also writes docs/benchmarks.json, the same figures for scripts/peer_plot.py. Between markers the page belongs to
this script, one section for each board; the rest is written by hand. The text is the same for the same compiler,
tools and models, but for the line that gives seconds. Exit code 1 when a byte differs or an accuracy gate fails.
The models are looked for in TINYC_MODELS, by default shared/models beside the checkout; they are not part of tinyc.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from peers import LIVE, MODELS, Peer, read_peers

from tinyc.base.errors import TinycError
from tinyc.options.build import Options
from tinyc.pipeline.building import build
from tinyc.pipeline.progress import Progress
from tinyc.verify.report import Accuracy, Report

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "benchmarks.md"
FIGURES = ROOT / "docs" / "benchmarks.json"
INPUTS = {
    "kws": "kws_inputs_dev",
    "vww": "vww_inputs_synthetic",
    "ic": "ic_inputs_synthetic",
    "ad": "ad_inputs_dev",
    "sww": "sww_inputs_dev",
}
FILES = {"person": "person_detect_int8", "mobilenet": "mobilenet96_int8"}  # of LIVE, beside the folder of the others
TOO_LARGE = {"cortex-m55": ("mobilenet",)}  # of LIVE, for the flash of a board
TITLES = {
    "kws": "keyword spotting",
    "vww": "visual wake words",
    "ic": "image classification",
    "ad": "anomaly detection",
    "sww": "streaming wake word",
    "person": "person detection",
    "mobilenet": "MobileNetV1-0.25",
}
# Least top-1 and agreement with the float model (shares), and output SQNR (dB), on the 300 inputs.
KWS_GATES = (0.91, 0.98, 27.0)


@dataclass(frozen=True, slots=True)
class Measured:
    """One model built for one board."""

    model: str
    report: Report
    seconds: float


def main() -> int:
    args = _arguments()
    folder = Path(os.environ.get("TINYC_MODELS", ROOT.parent / "shared" / "models")) / "mlperf_tiny"
    if not folder.is_dir():
        print(f"no models in {folder}; set TINYC_MODELS", file=sys.stderr)
        return 2
    good = True
    for board in args.board or ["cortex-m4"]:
        live = tuple(model for model in LIVE if model not in TOO_LARGE.get(board, ()))
        came = [
            [measure(folder, model, quantized, board, args.samples) for model in args.model or models]
            for quantized, models in ((True, MODELS + live), (False, MODELS))
        ]
        text = section(board, *came)
        if args.model:  # part of a section is for looking at
            print(text)
        else:
            write_section(args.page, board, text)
            write_figures(args.figures, board, came[0])
        good &= all(one.report.passed for group in came for one in group) and not gate_failures(came[1])
    return 0 if good else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Write docs/benchmarks.md")
    parser.add_argument("--board", action="append", help="may be repeated (default cortex-m4)")
    parser.add_argument("--model", action="append", choices=MODELS + LIVE, help="only these, printed and not written")
    parser.add_argument("--samples", type=int, default=0, help="inputs to prove each model on; 0, the default: all")
    parser.add_argument("--page", type=Path, default=PAGE)
    parser.add_argument("--figures", type=Path, default=FIGURES)
    return parser.parse_args()


def measure(folder: Path, model: str, quantized: bool, board: str, samples: int) -> Measured:
    """Build and prove one model as a user would, on the published inputs.

    An int8 model must give the bytes of TensorFlow Lite Micro; a float model is calibrated with the same inputs.
    """
    with tempfile.TemporaryDirectory(prefix="tinyc-bench-") as out:
        path, inputs, expected = files_of(folder, model, quantized, Path(out))
        options = Options(
            board,
            calibration=None if quantized else inputs,
            inputs=inputs,
            expect=expected if quantized else None,
            samples=samples,
        )
        print(f"{board}: {path.name}", file=sys.stderr)
        began = time.perf_counter()
        report, _ = build(path, Path(out) / model, options, Progress())
    assert isinstance(report, Report)
    return Measured(model, report, time.perf_counter() - began)


def files_of(folder: Path, model: str, quantized: bool, scratch: Path) -> tuple[Path, Path, str]:
    """The model's file, its inputs, and the outputs of TensorFlow Lite Micro as `expect` takes them."""
    if model in MODELS:
        inputs = folder / f"{INPUTS[model]}.npz"
        expected = folder / f"{INPUTS[model].replace('_inputs_', '_')}_ref_outputs.npz"
        path = folder / (f"{model}_int8.tflite" if quantized else f"{model}_fp32.onnx")
        return path, inputs, f"{expected}:int8_tflm"
    stem = folder.parent / "zoo" / FILES[model]
    with np.load(f"{stem}_io.npz", allow_pickle=False) as held:
        data = {"x": held["in0"][:, 0], "y": held["out0_tflm"][:, 0]}
    for name, array in data.items():
        np.savez(scratch / f"{name}.npz", **{name: array})
    return stem.with_suffix(".tflite"), scratch / "x.npz", f"{scratch / 'y.npz'}:y"


def gate_failures(floats: Sequence[Measured]) -> list[str]:
    """Which gates the keyword model misses, in words."""
    kws = next((one.report.accuracy for one in floats if one.model == "kws"), None)
    if kws is None:
        return []
    reached = (kws.top1_int or 0.0, kws.agreement or 0.0, kws.sqnr_db or 0.0)
    names = ("top-1", "agreement", "SQNR")
    return [
        f"{name} {value:.4g} is below {least:g}"
        for name, value, least in zip(names, reached, KWS_GATES, strict=True)
        if value < least
    ]


def section(board: str, ints: Sequence[Measured], floats: Sequence[Measured]) -> str:
    """The Markdown of one board."""
    first = ints[0].report
    peers, _ = read_peers()
    parts = [
        f"{first.machine}, {first.toolchain}, compiled for {first.optimize}, tinyc {first.tinyc}.",
        f"### int8 TFLite models ({board})",
        _costs(ints),
        f"Modelled cycles: {first.cycle_model}." if first.cycle_model else "",
        f"### Float ONNX models, quantized by tinyc ({board})",
        _costs(floats),
        _accuracies(floats),
        _gates(floats),
        *_against(board, ints, peers),
        _seconds([*ints, *floats]),
    ]
    return "\n\n".join(parts) + "\n"


def _costs(measured: Sequence[Measured]) -> str:
    head = (
        "model",
        "MACs",
        "instructions",
        "per MAC",
        "modelled cycles",
        "arena",
        "lower bound",
        "stack",
        "code",
        "constants",
        "bytes compared",
        "different",
    )
    return as_table(head, [_cost_row(one.model, one.report) for one in measured])


def _cost_row(model: str, report: Report) -> list[str]:
    counted = report.instructions
    return [
        f"{model}, {TITLES[model]}",
        _number(report.macs),
        _number(counted),
        "-" if counted is None else f"{counted / report.macs:.2f}",
        _number(report.cycles),
        _number(report.arena_bytes),
        _number(report.arena_lower_bound_bytes),
        _number(report.stack_bytes),
        _number(report.flash.code_bytes),
        _number(report.flash.const_bytes),
        f"{report.verify.output_bytes:,} of {report.verify.inputs} inputs",
        _number(report.verify.mismatches),
    ]


def _accuracies(measured: Sequence[Measured]) -> str:
    head = ("model", "inputs", "output SQNR", "same arg max as float", "top-1 float", "top-1 int8")
    return as_table(head, [_accuracy_row(one.model, one.report.accuracy) for one in measured])


def _accuracy_row(model: str, accuracy: Accuracy | None) -> list[str]:
    if accuracy is None:
        return [model, *["-"] * 5]
    classes = model != "ad"  # its 640 outputs are a reconstruction
    return [
        model,
        str(accuracy.inputs),
        "no error" if accuracy.sqnr_db is None else f"{accuracy.sqnr_db:.1f} dB",
        _percent(accuracy.agreement if classes else None),
        _percent(accuracy.top1_float if classes else None),
        _percent(accuracy.top1_int if classes else None),
    ]


def _gates(measured: Sequence[Measured]) -> str:
    if not any(one.model == "kws" for one in measured):
        return ""
    failures = gate_failures(measured)
    top1, agreement, sqnr = KWS_GATES
    gates = f"kws gates (top-1 {top1:.0%}, agreement {agreement:.0%}, SQNR {sqnr:g} dB)"
    return f"{gates}: {'MISSED: ' + '; '.join(failures) if failures else 'held'}."


def _against(board: str, measured: Sequence[Measured], peers: Sequence[Peer]) -> list[str]:
    """A table per figure, tools side by side; nothing for a board on which nobody was measured."""
    there = [peer for peer in peers if board in peer.instructions]
    if not there:
        return []
    ours = {one.model: one.report for one in measured}
    figures: list[tuple[str, Callable[[Report], int | None], Callable[[Peer], Mapping[str, int]]]] = [
        ("instructions", lambda r: r.instructions, lambda p: p.instructions[board]),
    ]
    if board == "cortex-m4":  # sizes were measured for this core
        figures += [
            ("arena bytes", lambda r: r.arena_bytes, lambda p: p.arena_bytes),
            ("stack bytes", lambda r: r.stack_bytes, lambda p: p.stack_bytes),
            ("code bytes", lambda r: r.flash.code_bytes, lambda p: p.code_bytes),
            ("flash bytes", lambda r: r.flash.code_bytes + r.flash.const_bytes, lambda p: p.flash_bytes),
        ]
    parts = [f"### Beside other tools, the same int8 models ({board})"]
    for title, mine, theirs in figures:
        rows = [["tinyc", *(_number(mine(report)) for report in ours.values())]]
        for peer in there:
            if theirs(peer):
                rows.append([peer.name, *(_beside(theirs(peer).get(m), mine(r)) for m, r in ours.items())])
        parts.append(as_table((title, *ours), rows))
    parts.append("In brackets: how many times what tinyc needs. How the others were measured:")
    parts.append("\n".join(f"* {peer.name}: {peer.how}." for peer in there))
    return parts


def _beside(theirs: int | None, mine: int | None) -> str:
    if theirs is None:
        return "-"
    return f"{theirs:,} ({theirs / mine:.2f})" if mine else f"{theirs:,}"


def _seconds(measured: Sequence[Measured]) -> str:
    parts = [f"{one.report.model} {one.seconds:.0f}" for one in measured]
    return f"Seconds from model to proof, all inputs, on the machine that wrote this: {', '.join(parts)}."


def as_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table, numbers to the right of the first column."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def write_section(page: Path, part: str, text: str, script: str = "bench/tables.py", title: str | None = None) -> None:
    """Replace one part of the page, of a board or of another script; a part that is not there goes to the end."""
    begin, end = f"<!-- {part}: written by {script} -->", f"<!-- end of {part} -->"
    block = f"{begin}\n\n{text}\n{end}"
    old = page.read_text(encoding="utf-8") if page.is_file() else "# Benchmarks\n"
    pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    if not pattern.search(old):
        old = f"{old.rstrip()}\n\n## {title or part}\n\n{begin}{end}\n"
    page.write_text(pattern.sub(lambda _: block, old), encoding="utf-8")


def write_figures(file: Path, board: str, measured: Sequence[Measured]) -> None:
    """Put what the int8 models cost on the board into the JSON file; other boards stay as they are."""
    figures = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    figures[board] = {
        one.model: {
            "instructions": one.report.instructions,
            "cycles": one.report.cycles,
            "arena_bytes": one.report.arena_bytes,
            "stack_bytes": one.report.stack_bytes,
            "code_bytes": one.report.flash.code_bytes,
            "flash_bytes": one.report.flash.code_bytes + one.report.flash.const_bytes,
        }
        for one in measured
    }
    file.write_text(json.dumps(figures, indent=2, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except TinycError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)
