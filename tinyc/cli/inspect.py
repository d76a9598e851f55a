# SPDX-License-Identifier: Apache-2.0
"""`tinyc inspect`: what a model file holds, and what keeps it from being compiled."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from tinyc.cli.listing import Listing, ListingColumn, figures, text
from tinyc.cli.options import ColorOption, Json, Model, Verbose, with_model_options
from tinyc.cli.output import Color, Output, guarded, plural
from tinyc.explain.documents import github, import_cases, sarif
from tinyc.explain.inspection import Inspection, TensorFacts, inspect_model
from tinyc.load import other_signatures
from tinyc.options.build import Options


class FindingFormat(StrEnum):
    """Formats in which findings can be printed."""

    SARIF = "sarif"
    GITHUB = "github"


@with_model_options(only=("outputs", "signature"))
def command(
    model: Model,
    options: Options,
    form: Annotated[
        FindingFormat | None,
        typer.Option("--format", help="Print what keeps MODEL from being imported as this.", show_default=False),
    ] = None,
    json: Json = False,
    verbose: Verbose = False,
    color: ColorOption = Color.AUTO,
) -> None:
    """Show the graph of MODEL: operators, shapes, quantization, MACs; compiles nothing."""
    with guarded(color, json, verbose, form is not None) as out:
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
        _show(out, inspection, verbose)


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
