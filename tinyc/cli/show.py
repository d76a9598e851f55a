# SPDX-License-Identifier: Apache-2.0
"""A Report as text for people."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tinyc.cli.listing import FactList, Listing, figures, text
from tinyc.cli.output import Output, plural
from tinyc.explain.cycles import CORES_ERROR
from tinyc.verify.report import Report, UnprovedReport
from tinyc.verify.verdict import Grade, judge

if TYPE_CHECKING:
    from tinyc.pipeline.user_build import BuildProof


def show_report(out: Output, report: Report | UnprovedReport, folder: Path) -> None:
    """Per layer, totals, the verdicts, and where the library is."""
    out.result(f"{report.name} for {report.board}: {report.model}, numerics {report.numerics}", "")
    out.result(_layers(report), "", _totals(report), "")
    show_verdict(out, report)
    out.result(f"library: {folder}/{report.name}.h, {report.name}.c (report.json beside them)")


def show_verdict(out: Output, report: Report | UnprovedReport | BuildProof) -> None:
    """Two lines: whether the bytes are equal, on what, against what, with the first layer that differs; and how near
    the integers are to the float model."""
    facts = FactList()
    style, word, sentence = _proved(report)
    facts.add("proved", sentence, word, style)
    if isinstance(report, Report | UnprovedReport):
        verdict = judge(report)
        word, style = _GRADES[verdict.grade]
        reasons = f"{'; '.join(verdict.reasons)}: " if verdict.reasons else ""
        facts.add("accuracy", f"{reasons}{verdict.says}", word, style)
        if verdict.remedy:
            facts.add("", verdict.remedy)
    out.result(facts)


def _proved(report: Report | UnprovedReport | BuildProof) -> tuple[str, str, str]:
    """Style, word and sentence."""
    if isinstance(report, UnprovedReport):
        return "bold red", "NOT PROVED", "nothing was run (--no-proof)"
    verify = report.verify
    what = f"{plural(verify.output_bytes, 'output byte')} of {plural(verify.inputs, 'input')}"
    against = f"{what} on {report.machine} against {verify.against}"
    if verify.mismatches == 0:
        return "bold green", "yes", f"{against}: all equal"
    return (
        "bold red",
        "DIFFERENT",
        f"{against}: {verify.mismatches:,} differ\nfirst difference: {verify.first_difference}",
    )


_GRADES: Mapping[Grade, tuple[str, str]] = {
    "good": ("good", "bold green"),
    "doubtful": ("DOUBTFUL", "bold yellow"),
    "bad": ("BAD", "bold red"),
    "unknown": ("", "dim"),
}


def _layers(report: Report | UnprovedReport) -> Listing:
    timed = isinstance(report, Report) and report.cycles is not None
    rows = Listing(
        *figures("step"),
        *text("layer", "operator", "kernel", "output"),
        *figures("MACs", "constants", "arena", "instructions", "per MAC", spare=("per MAC",)),
        *figures(*["cycles"] * timed),
    )
    for layer in report.layers:
        rows.add(
            layer.step,
            layer.name,
            layer.op,
            layer.kernel,
            "x".join(map(str, layer.output_shape[1:] or layer.output_shape)),
            f"{layer.macs:,}" if layer.macs else "-",
            f"{layer.const_bytes:,}" if layer.const_bytes else "-",
            f"{'slow ' if layer.in_slow else ''}{layer.arena[0]}..{layer.arena[1]}",
            "-" if layer.instructions is None else f"{layer.instructions:,}",
            f"{layer.instructions / layer.macs:.2f}" if layer.instructions and layer.macs else "",
            *([f"{layer.cycles:,}"] if layer.cycles is not None else []),
        )
    return rows


def _totals(report: Report | UnprovedReport) -> FactList:
    rows = FactList()
    flash = report.flash
    if flash is not None:
        total = flash.code_bytes + flash.const_bytes
        rows.add("flash", f"{total:,} bytes: code {flash.code_bytes:,}, constants {flash.const_bytes:,}")
    rows.add("arena", f"{report.arena_bytes:,} bytes (lower bound {report.arena_lower_bound_bytes:,})")
    if report.slow is not None:
        slow = report.slow
        how = "counted" if slow.counted else "estimated"
        rows.add(slow.memory, f"{slow.bytes:,} bytes of arena beside it; {slow.waits:,} cycles of waits, {how}")
    if report.ram_code is not None:
        copied = report.ram_code
        total = copied.code_bytes + copied.const_bytes
        said = f"code {copied.code_bytes:,}, constants {copied.const_bytes:,}, of {copied.budget:,} allowed"
        rows.add("copied to RAM", f"{total:,} bytes by start-up code: {said}")
    if report.state_bytes:
        rows.add("state", f"{report.state_bytes:,} bytes of it, kept from run to run")
    if report.calls > 1:
        each = f"{report.macs // report.calls:,} MACs each"
        if isinstance(report, Report) and report.instructions is not None:
            each = f"{report.instructions // report.calls:,} instructions and {each}"
        rows.add("incremental", f"{report.calls} calls for a window, {each}")
    if report.groups:
        parts = [f"{g.first} to {g.last}" if g.first < g.last else f"{g.first}" for g in report.groups]
        rows.add("row by row", f"{'the input and ' if report.input_rows else ''}steps {', '.join(parts)}")
    if isinstance(report, Report):
        _add_measured(rows, report)
    rows.add("MACs", f"{report.macs:,}")
    if report.toolchain is not None:
        rows.add("compiler", f"{report.toolchain}, for {report.optimize}")
    if report.calibration is not None:
        calibration = report.calibration
        rows.add("calibration", f"{calibration.source}, {plural(calibration.samples, 'sample')}")
    return rows


def _add_measured(rows: FactList, report: Report) -> None:
    if report.stack_bytes is not None:
        rows.add("stack", f"{report.stack_bytes:,} bytes, measured")
    if report.instructions is not None:
        per_mac = f", {report.instructions / report.macs:.2f} per MAC" if report.macs else ""
        rows.add("instructions", f"{report.instructions:,} an inference{per_mac} ({report.machine})")
    if report.cycles is not None:
        rows.add("cycles", f"{report.cycles:,} modelled ({report.cycle_model})")
    if report.cycles_on_cores is not None:
        rows.add(f"on {report.cores} cores", f"{report.cycles_on_cores:,} modelled, {CORES_ERROR}")
    if report.energy is not None:
        rows.add("energy", report.energy.said)
