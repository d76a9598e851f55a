# SPDX-License-Identifier: Apache-2.0
"""`tinyc inspect`: what a model file holds, and what keeps it from being compiled; or what a word stands for."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from tinyc.base.errors import Loc, TinycError
from tinyc.cli.listing import Listing, ListingColumn, figures, text
from tinyc.cli.options import ColorOption, Json, Verbose, with_model_options
from tinyc.cli.output import Color, Output, guarded, plural
from tinyc.cli.words import show_word
from tinyc.explain.documents import github, import_cases, sarif
from tinyc.explain.inspection import Inspection, TensorFacts, inspect_model
from tinyc.load import other_signatures
from tinyc.options.build import Options


class FindingFormat(StrEnum):
    """Formats in which findings can be printed."""

    SARIF = "sarif"
    GITHUB = "github"


What = Annotated[
    str,
    typer.Argument(
        metavar="WHAT",
        help="A model: a .onnx or .tflite file. Or a kernel, an operator, an exit code, the message of an error in "
        "quotation marks, or a library's folder.",
        show_default=False,
    ),
]
Layer = Annotated[
    str | None,
    typer.Argument(metavar="[LAYER]", help="Of a folder: the layer's name, or its step's number.", show_default=False),
]


@with_model_options(only=("outputs", "signature"))
def command(
    model: What,
    options: Options,
    layer: Layer = None,
    form: Annotated[
        FindingFormat | None,
        typer.Option("--format", help="Print what keeps MODEL from being imported as this.", show_default=False),
    ] = None,
    json: Json = False,
    verbose: Verbose = False,
    color: ColorOption = Color.AUTO,
) -> None:
    """Show the graph of a model, or what a kernel, an operator, an exit code or an error stands for; compiles nothing.

    Of a LAYER of the library in the folder WHAT it says file and line of each part of the code.
    """
    with guarded(color, json, verbose, form is not None) as out:
        if layer is not None or not _is_model(model):
            if form is not None:
                raise TinycError("--format is of a model", Loc(model), "give a .onnx or .tflite file, or leave it out")
            show_word(out, model, layer)
        else:
            _inspect(out, Path(model), options, form)


def _is_model(what: str) -> bool:
    """Whether it is the name of a model's file, or of any other that is there."""
    return what.endswith((".onnx", ".tflite")) or (os.path.exists(what) and not os.path.isdir(what))


def _inspect(out: Output, model: Path, options: Options, form: FindingFormat | None) -> None:
    if options.signature is None and (others := other_signatures(model)):
        out.warn(others)
    inspection = inspect_model(model, options.outputs, options.signature)
    out.json(inspection.to_json())
    if form is FindingFormat.SARIF:
        out.document(sarif(inspection))
    elif form is FindingFormat.GITHUB:
        out.document(github("tinyc inspect", import_cases(inspection)))
    if inspection.problems:
        _show_problems(out, inspection)
        raise typer.Exit(1)
    _show(out, inspection, out.verbose)


def _show(out: Output, inspection: Inspection, verbose: bool) -> None:
    for kind, tensors in (("input", inspection.inputs), ("output", inspection.outputs), ("state", inspection.states)):
        for tensor in tensors:
            out.result(f"{kind} '{tensor.name}' {_shape(tensor)} {_quant(tensor)}")
    layer = ListingColumn("layer", "sentence" if verbose else "text")  # of several nodes of the file
    words = text("operator", "output", "quantization")
    rows = Listing(*figures("#"), *words, *figures("MACs", "constants"), layer)
    for node in inspection.nodes:
        rows.add(
            str(node.index),
            node.op,
            _shape(node.outputs[0]),
            _quant(node.outputs[0]),
            f"{node.macs:,}" if node.macs else "-",
            f"{node.const_bytes:,}" if node.const_bytes else "-",
            node.name if not verbose else "; ".join(node.origin),
        )
    out.result("", rows, "")
    operators = plural(len(inspection.nodes), "operator")
    out.result(f"{operators}, {inspection.macs:,} MACs, {inspection.const_bytes:,} bytes of constants")


def _show_problems(out: Output, inspection: Inspection) -> None:
    out.result(f"{inspection.model} cannot be compiled: {plural(len(inspection.problems), 'problem')}")
    for problem in inspection.problems:
        out.result(f"  {problem.where or inspection.model}: {problem.message}")
        if problem.hint:
            out.result(f"    hint: {problem.hint}")


def _shape(tensor: TensorFacts) -> str:
    return "x".join(map(str, tensor.shape)) or "scalar"


def _quant(tensor: TensorFacts) -> str:
    if tensor.scale is not None:
        zero = tensor.zero_point or 0
        shifted = f"(q {'-' if zero > 0 else '+'} {abs(zero)})" if zero else "q"
        return f"{tensor.dtype} {tensor.scale:.5g} * {shifted}"
    return f"{tensor.dtype}, {plural(tensor.scales, 'scale')}" if tensor.scales else tensor.dtype
