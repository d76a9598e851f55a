# SPDX-License-Identifier: Apache-2.0
"""Prints what depthwise layers on a Cortex-M4 take to turn the image into planes of int16, and what planes of all
channels would take of RAM.

    python bench/conversions.py [--model kws ...]

Would the layer before write the planes, this is the most that it could save. `--prefer time`; cycles by the rules of
docs/cycles.md, of the functions with and without that part.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import patch

from peers import MODELS
from tables import ROOT, as_table

from tinyc.base.errors import TinycError
from tinyc.board import load_board
from tinyc.choose.select import Choice
from tinyc.kernels.depthwise import depthwise, planes
from tinyc.kernels.depthwise.plane_layer import PlaneLayer
from tinyc.options.build import Options
from tinyc.pipeline.compiling import Compiled, compile_model
from tinyc.pipeline.progress import Progress

BOARD = "cortex-m4"
_CHOICES = {
    "": depthwise.fast,
    "_low_scratch": depthwise.least_scratch,
    "_bands": depthwise.banded,
    "_pairs": depthwise.paired,
}


def main() -> int:
    parser = argparse.ArgumentParser(description="Print what the planes of depthwise layers cost")
    parser.add_argument("--model", action="append", choices=MODELS)
    args = parser.parse_args()
    folder = Path(os.environ.get("TINYC_MODELS", ROOT.parent / "shared" / "models")) / "mlperf_tiny"
    if not folder.is_dir():
        print(f"no models in {folder}; set TINYC_MODELS", file=sys.stderr)
        return 2
    board = load_board(BOARD)
    rows = []
    for model in args.model or MODELS:
        options = Options(board=BOARD, prefer="time")
        compiled = compile_model(folder / f"{model}_int8.tflite", board, options, Progress())
        rows.append(measure(model, compiled))
    head = ("model", "cycles of planes", "of depthwise layers", "of all layers", "image", "as planes", "arena")
    print(as_table(head, rows))
    return 0


def measure(model: str, compiled: Compiled) -> Sequence[str]:
    """A row: the cycles, their shares, the bytes of the image that grows most, those of its planes, and the arena."""
    chosen = [step.choice for step in compiled.program.steps]
    whole = sum(choice.cost.cycles for choice in chosen)
    layers = [(choice, layer) for choice in chosen if (layer := _layer(choice)) is not None]
    spent = sum(_conversion(layer) for _, layer in layers)
    own = sum(choice.cost.cycles for choice, _ in layers)
    if not layers:
        return (model, "0", "-", "0 %", "-", "-", f"{compiled.plan.arena_bytes:,}")
    image, planes_bytes = max(((c.site.x(0).size_bytes, _all_planes(layer)) for c, layer in layers), key=lambda b: b[1])
    shares = f"{spent / own:.1%}", f"{spent / whole:.1%}"
    return (model, f"{spent:,.0f}", *shares, f"{image:,}", f"{planes_bytes:,}", f"{compiled.plan.arena_bytes:,}")


def _layer(choice: Choice) -> PlaneLayer | None:
    """What the function over planes depends on; None of other kernels."""
    if not choice.kernel.name.startswith(depthwise.NAME):
        return None
    choices = _CHOICES.get(choice.kernel.name.removeprefix(depthwise.NAME))
    work = None if choices is None else depthwise.plan(choice.site, choice.params, choices)
    return None if work is None else work.layer


def _conversion(layer: PlaneLayer) -> int:
    """Cycles of a call that load the image, unpack and store it, and move rows from band to band."""
    with (
        patch.object(planes._Writer, "_unpack_row", lambda writer: None),
        patch.object(planes._Writer, "_carry", lambda writer: None),
    ):
        without = planes.function(layer).work()
    return planes.function(layer).work().cycles - without.cycles


def _all_planes(layer: PlaneLayer) -> int:
    """Bytes of the planes of all channels, padding included."""
    rows = (layer.out_h - 1) * layer.stride_h + layer.k_h
    return layer.channels * rows * layer.pitch


if __name__ == "__main__":
    try:
        sys.exit(main())
    except TinycError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)
