# SPDX-License-Identifier: Apache-2.0
"""`tinyc quantize`: a float model in integers, how accurate it is, where it loses, and saved for other runtimes."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from tinyc.base.escape import visible
from tinyc.cli.listing import FactList, Listing, figures, text
from tinyc.cli.options import ColorOption, Json, Model, Verbose, with_model_options
from tinyc.cli.output import Color, Output, guarded, plural
from tinyc.cli.running import run_stages
from tinyc.explain.diagnosis import Diagnosis
from tinyc.options.build import Options
from tinyc.pipeline.quantizing import QuantizeReport, Saved, plot_ranges, quantize_file
from tinyc.quantize.score import MOST_DB

_SHOWN = 4  # numbers of an output
_NO_RATIO = 200.0  # dB, what `sqnr_db` says of no noise; without a signal it says less than the negative of it
_NOT_HERE = (  # they change what is built of the quantized model, or how it is proved
    "board",
    "inputs",
    "samples",
    "name",
    "numerics",
    "prefer",
    "time",
    "ram",
    "ram_code",
    "stream_weights",
    "cores",
    "input_rows",
    "toolchain",
    "emulator",
    "precision",
    "float_layers",
    "float_fallback",
    "incremental",
    "hop",
    "stream_unpadded",
    "weights_blob",
    "frontend",
    "picture",
)


@with_model_options(without=_NOT_HERE)
def command(
    model: Model,
    options: Options,
    evaluate: Annotated[
        Path | None,
        typer.Option(
            "--evaluate", "-e", help="Test inputs, `y` with labels or wanted outputs.", show_default="calibration data"
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="Save as QDQ ONNX (.onnx) or int8 TFLite (.tflite).")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", help="Draw the ranges of all layers (.svg, .png); needs matplotlib.")
    ] = None,
    json: Json = False,
    verbose: Verbose = False,
    color: ColorOption = Color.AUTO,
) -> None:
    """Quantize the float MODEL, measure it beside the float model, and say which layer loses most.

    --flash is here what the weights may take.
    """
    with guarded(color, json, verbose) as out_to:
        work = functools.partial(quantize_file, model, options, evaluate, out)
        report = run_stages(out_to, work, options.effort)
        if plot is not None:
            plot_ranges(report.diagnosis, plot)
        out_to.json(report.to_json())
        show(out_to, report)


def show(out: Output, report: QuantizeReport) -> None:
    """Layers, totals, the layer where the error is born, and what was saved."""
    out.result(_layers(report.diagnosis), "", _totals(report), "")
    worst = report.diagnosis
    if worst.worst:
        out.result(f"most is lost in: {worst.worst}\n  {worst.advice}")
    if report.saved is not None:
        out.result(_saved(report.saved))


def _layers(diagnosis: Diagnosis) -> Listing:
    rows = Listing(
        *text("layer", "operator"),
        *figures("bits", "SQNR dB", "alone dB", "weights dB", "values dB", "range", "beyond it"),
    )
    for layer in diagnosis.layers:
        rows.add(
            layer.name,
            layer.op,
            f"w{layer.bits} a{layer.value_bits}" if layer.bits is not None else f"a{layer.value_bits}",
            *(decibels(diagnosis) for diagnosis in (layer.sqnr_db, layer.own_db, layer.weights_db, layer.values_db)),
            f"{layer.lo:.3g}..{layer.hi:.3g}",
            f"{layer.clipped:.2%}" if layer.clipped else "-",
            style="bold" if layer.name == diagnosis.worst else "",
        )
    return rows


def decibels(ratio: float | None) -> str:
    """A signal to noise ratio; `-` where there is none: no signal that varies, or no noise at all."""
    return "-" if ratio is None or abs(ratio) >= _NO_RATIO or ratio == MOST_DB else f"{ratio:.1f}"


def _totals(report: QuantizeReport) -> FactList:
    rows = FactList()
    diagnosis = report.diagnosis
    ways = [report.method + (", tensor by tensor" if report.searched else "")]
    ways += ["equalized"] if report.equalized else []
    ways += ["learned rounding"] if report.learned else []
    ways += [f"headroom {report.headroom:g}"] if report.headroom > 1 else []
    rows.add("calibration", f"{report.calibration}, {plural(report.samples, 'sample')}: {', '.join(ways)}")
    others = report.other_weight_bytes
    whole, of_int8 = report.weight_bytes + others, report.int8_bytes + others
    share = f" ({whole / of_int8:.0%} of int8)" if of_int8 else ""
    only = f", {others:,} of them in layers that know 8 bits alone" if others else ""
    rows.add("weights", f"{whole:,} bytes{share}{only}")
    rows.add("integers", report.integers)
    if report.int16_layers:
        rows.add("on int16", ", ".join(report.int16_layers))
    rows.add("evaluated on", f"{report.evaluated_on}, {plural(diagnosis.samples, 'input')}")
    unproven = not report.proven and report.evaluated_on == report.calibration
    unit = "" if diagnosis.sqnr_db is None else " dB"
    seen = ", on the calibration inputs" if report.evaluated_on == report.calibration else ""
    said = ", on made-up inputs: accuracy is not measured (--calibration, --evaluate)" if unproven else seen
    rows.add("output SQNR", f"{decibels(diagnosis.sqnr_db)}{unit}{said}")
    for name, value in _of_outputs(diagnosis):
        rows.add(name, f"{value}{said}")
    if diagnosis.agreement is not None:
        rows.add("agreement", f"{diagnosis.agreement:.1%} with the float model{seen}")
    for quality in diagnosis.qualities:
        shown = [quality.float_model, quality.integer_model]
        words = [f"{value:.2%}" if quality.name == "top-1" else f"{value:.4g}" for value in shown]
        rows.add(quality.name, f"float {words[0]} -> integers {words[1]}{seen}")
    return rows


def _of_outputs(diagnosis: Diagnosis) -> Iterator[tuple[str, str]]:
    """What each output has where there are several, and each of the quantities that one holds, the least first."""
    for output in diagnosis.outputs:
        if len(diagnosis.outputs) > 1:
            yield f"output '{visible(output.name)}'", f"{decibels(output.sqnr_db)} dB"
        each = sorted(output.quantities.items(), key=lambda one: one[1])
        if len(each) > 1:
            said = ", ".join(f"{index}: {decibels(db)} dB" for index, db in each[:_SHOWN])
            more = f" and {len(each) - _SHOWN} more" if len(each) > _SHOWN else ""
            yield f"numbers of '{visible(output.name)}'", f"least {said}{more}"


def _saved(saved: Saved) -> str:
    if saved.equal is None:
        return f"saved: {saved.path}, {saved.bytes:,} bytes; no installed runtime could run it, so it is not compared"
    return (
        f"saved: {saved.path}, {saved.bytes:,} bytes; {saved.runtime} gives {saved.equal:.2%} of the integers, "
        f"the largest difference is {plural(saved.largest_step or 0, 'step')}"
    )
