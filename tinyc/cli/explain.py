# SPDX-License-Identifier: Apache-2.0
"""`tinyc explain`: what a word of a report or an error stands for."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tinyc.cli.options import ColorOption, Json, Verbose
from tinyc.cli.output import Color, Output, guarded
from tinyc.explain.words import Meaning, explain, explain_layer

Word = Annotated[
    str,
    typer.Argument(
        metavar="WORD",
        help="A kernel, an operator, an exit code, the message of an error, in quotation marks, or a library's folder.",
        show_default=False,
    ),
]
Layer = Annotated[
    str | None,
    typer.Argument(metavar="[LAYER]", help="Of a folder: the layer's name, or its step's number.", show_default=False),
]


def command(
    word: Word, layer: Layer = None, json: Json = False, verbose: Verbose = False, color: ColorOption = Color.AUTO
) -> None:
    """Say what WORD stands for: a kernel, an operator, an exit code, an error; or which code runs a LAYER.

    An operator is one of tinyc, ONNX or TFLite. Of a layer of the library in the folder WORD it says file and line of
    each part.
    """
    with guarded(color, json, verbose) as out:
        meanings = explain(word) if layer is None else (explain_layer(Path(word), layer),)
        out.json({"word": word, "meanings": [meaning.to_json() for meaning in meanings]})
        for number, meaning in enumerate(meanings):
            if number:
                out.result("")
            _show(out, meaning)


def _show(out: Output, meaning: Meaning) -> None:
    out.result(f"{meaning.name}: {meaning.kind}")
    out.result(f"  {meaning.says}")
    if meaning.of and meaning.kind != "layer":
        out.result(f"  {'computes' if meaning.kind == 'kernel' else 'becomes'}: {', '.join(meaning.of)}")
    if meaning.kind == "kernel":
        out.result(f"  core: {', '.join(meaning.core) or 'any'}")
        out.result(f"  takes: {'; '.join(meaning.takes) or 'everything'}")
    if meaning.kernels and meaning.kind != "layer":
        out.result(f"  kernels, best first where costs are equal: {', '.join(meaning.kernels)}")
    if meaning.tile:
        out.result(f"  tile: {meaning.tile}")
    if meaning.places:
        places = [(str(place), place.part) for place in meaning.places]
        width = max(len(place) for place, _ in places)
        out.result("  its code:", *(f"    {place:<{width}}  {part}" for place, part in places))
    if meaning.contract:
        out.result("", *(f"  {line}" for line in meaning.contract.splitlines()))
