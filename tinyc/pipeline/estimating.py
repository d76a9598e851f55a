# SPDX-License-Identifier: Apache-2.0
"""From a model file to what it will cost on a board; nothing is compiled, run or written."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tinyc.base.one_thread import one_thread
from tinyc.board import load_board
from tinyc.explain.estimate import Estimate, estimate
from tinyc.options.build import Options
from tinyc.pipeline.integers import make_integers
from tinyc.pipeline.lowering import lower_integers
from tinyc.pipeline.progress import Progress


@one_thread
def estimate_model(path: Path, options: Options, progress: Progress) -> Estimate:
    """The Estimate of a model with these options. A float model without calibration data gets made-up ranges: its costs
    are those of its shapes. Raises TinycError for a model that cannot be compiled; one that is too large for the
    board is no error: `Estimate.problem` says what is missing."""
    board = load_board(options.board)
    quiet = replace(progress, on_warning=lambda message: None)  # that ranges are made up does not matter here
    made = make_integers(path, board, options, quiet)
    program = lower_integers(made, board, options, quiet).program
    return estimate(path.name, program, board, optimize=options.optimize)
