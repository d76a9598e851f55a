# SPDX-License-Identifier: Apache-2.0
"""`tinyc explain`: what a word of a report or an error stands for."""

from __future__ import annotations

from typing import Annotated

import typer

from tinyc.cli.options import ColorOption, Json, Verbose
from tinyc.cli.output import Color, Output, guarded
from tinyc.explain.words import Meaning, explain

Word = Annotated[
    str,
    typer.Argument(
        metavar="WORD",
        help="A kernel, an operator, an exit code, or the message of an error, in quotation marks.",
        show_default=False,
    ),
]


def command(word: Word, json: Json = False, verbose: Verbose = False, color: ColorOption = Color.AUTO) -> None:
    """Say what WORD stands for: a kernel, an operator of tinyc, ONNX or TFLite, an exit code, an error."""
    with guarded(color, json, verbose) as out:
        meanings = explain(word)
        out.json({"word": word, "meanings": [meaning.to_json() for meaning in meanings]})
        for number, meaning in enumerate(meanings):
            if number:
                out.result("")
            _show(out, meaning)


def _show(out: Output, meaning: Meaning) -> None:
    out.result(f"{meaning.name}: {meaning.kind}")
    out.result(f"  {meaning.says}")
    if meaning.of:
        out.result(f"  {'computes' if meaning.kind == 'kernel' else 'becomes'}: {', '.join(meaning.of)}")
    if meaning.kind == "kernel":
        out.result(f"  core: {', '.join(meaning.core) or 'any'}")
        out.result(f"  takes: {'; '.join(meaning.takes) or 'everything'}")
    if meaning.kernels:
        out.result(f"  kernels, best first where costs are equal: {', '.join(meaning.kernels)}")
    if meaning.contract:
        out.result("", *(f"  {line}" for line in meaning.contract.splitlines()))
