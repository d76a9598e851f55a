# SPDX-License-Identifier: Apache-2.0
"""From the model file to the C text of the library; needs no tool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path

from tinyc.base.dataclass import dataclass
from tinyc.base.one_thread import one_thread
from tinyc.board import Board
from tinyc.choose.select import Choice
from tinyc.emit.library import Info, blob_of, emit_library
from tinyc.emit.program import Program
from tinyc.frontend import Camera, Joined
from tinyc.ir.graph import Graph
from tinyc.kernels.scalar.loops.headers import cores_of
from tinyc.options.build import Options
from tinyc.options.recipe import ActivationScales
from tinyc.options.words import shaping
from tinyc.pipeline.integers import IntegerModel, make_integers
from tinyc.pipeline.lowering import Lowered, lower_offers, offers_of
from tinyc.pipeline.progress import Progress
from tinyc.pipeline.weights import check_same_code
from tinyc.pipeline.within_flash import within_flash
from tinyc.plan.answer import Plan
from tinyc.quantize import Calibration as CalibrationInputs
from tinyc.verify.report import Change


@dataclass(frozen=True, slots=True)
class Compiled:
    """A model after the stages that need no tool: the integer graph, the program, and the library's text.

    What is also in IntegerModel is explained there.
    """

    path: Path
    sha256: str
    float_graph: Graph | None
    graph: Graph
    program: Program
    files: Mapping[str, str]
    calibration: CalibrationInputs | None
    plan: Plan
    choices: Mapping[str, Sequence[Choice]] = field(default_factory=dict)  # the kernels that may run each node
    changes: tuple[Change, ...] = ()
    quantized_from: Graph | None = None
    front: Joined | None = None
    blob: bytes | None = None  # the constants, where they are apart from the code
    activations: ActivationScales | None = None
    camera: Camera | None = None
    flash_reserve: int | None = None  # of the limit of flash, where compiling said how much


@one_thread
def compile_model(path: Path, board: Board, options: Options, progress: Progress) -> Compiled:
    """Everything from the model file to the C text of the library. Writes nothing, and runs no compiler but for a limit
    of flash (`within_flash.py`)."""
    return compile_integers(make_integers(path, board, options, progress), board, options, progress)


@one_thread
def compile_integers(model: IntegerModel, board: Board, options: Options, progress: Progress) -> Compiled:
    """From the integer graph to the C text of the library for a board."""
    progress = progress.warning_once()
    offers = offers_of(model, board, options, progress)

    def library(options: Options) -> Compiled:
        return _emitted(model, lower_offers(offers, model, board, options, progress), board, options, progress)

    return library(options) if options.flash is None else within_flash(library, board, options, progress)


def _emitted(model: IntegerModel, lowered: Lowered, board: Board, options: Options, progress: Progress) -> Compiled:
    program = lowered.program
    with progress.stage("emit"):
        loops = cores_of(board.core, board.isa)
        info = Info(model.path.name, model.sha256, board.name, options=shaping(options), loops=loops)
        files = emit_library(program, info)
        constants = blob_of(program, info) if options.weights_blob else None
        if options.like is not None and constants is not None:
            check_same_code(options.like, program.name, files, constants)
    return Compiled(
        model.path,
        model.sha256,
        model.float_graph,
        lowered.graph,
        program,
        files,
        model.calibration,
        lowered.plan,
        lowered.choices,
        model.changes,
        model.quantized_from,
        model.front,
        constants,
        model.activations,
        model.camera,
        options.flash_reserve,
    )
