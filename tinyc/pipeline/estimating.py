# SPDX-License-Identifier: Apache-2.0
"""From a model file to what it will cost on a board; nothing is compiled, run or written."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from tinyc.base.dataclass import dataclass
from tinyc.base.one_thread import one_thread
from tinyc.board import Board, load_board
from tinyc.explain.boundaries import Boundary, boundaries
from tinyc.explain.estimate import Estimate, estimate
from tinyc.explain.memory_map import MemoryMap, map_of
from tinyc.options.build import Options
from tinyc.pipeline.integers import make_integers
from tinyc.pipeline.lowering import Lowered, lower_integers
from tinyc.pipeline.progress import Progress


@dataclass(frozen=True, slots=True)
class MappedEstimate:
    """An estimate, what lies where in its arena, and of every step whether it runs by rows, and why."""

    estimate: Estimate
    memory_map: MemoryMap
    boundaries: tuple[Boundary, ...]

    def to_json(self) -> dict[str, Any]:
        """The estimate's keys, and `map`."""
        own = {**self.memory_map.to_json(), "boundaries": [asdict(one) for one in self.boundaries]}
        return self.estimate.to_json() | {"map": own}


@one_thread
def estimate_model(path: Path, options: Options, progress: Progress) -> Estimate:
    """The Estimate of a model with these options. A float model without calibration data gets made-up ranges: its costs
    are those of its shapes. Raises TinycError for a model that cannot be compiled; one that is too large for the
    board is no error: `Estimate.problem` says what is missing."""
    board = load_board(options.board)
    return _estimated(path, _lowered(path, board, options, progress), board, options)


@one_thread
def map_model(path: Path, options: Options, progress: Progress) -> MappedEstimate:
    """The same with the map of the arena."""
    board = load_board(options.board)
    lowered = _lowered(path, board, options, progress)
    said = boundaries(lowered.graph, lowered.choices, lowered.plan)
    return MappedEstimate(_estimated(path, lowered, board, options), map_of(lowered.graph, lowered.plan), said)


def _lowered(path: Path, board: Board, options: Options, progress: Progress) -> Lowered:
    quiet = replace(progress, on_warning=lambda message: None)  # that ranges are made up does not matter here
    return lower_integers(make_integers(path, board, options, quiet), board, options, quiet)


def _estimated(path: Path, lowered: Lowered, board: Board, options: Options) -> Estimate:
    return estimate(path.name, lowered.program, board, ram=options.ram)
