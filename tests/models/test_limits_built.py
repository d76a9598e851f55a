# SPDX-License-Identifier: Apache-2.0
"""Limits of flash and RAM are kept by what is built, and a larger one is never worth less: compiled sizes, and cycles
of counted instructions, not estimates."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tinyc.base.errors import TinycError
from tinyc.board import load_board
from tinyc.explain.estimate import estimate
from tinyc.options.build import Options
from tinyc.pipeline.choosing import WORTH
from tinyc.pipeline.compiling import Compiled, compile_integers
from tinyc.pipeline.integers import IntegerModel, make_integers
from tinyc.pipeline.lowering import Lowered, lower_integers
from tinyc.pipeline.progress import Progress
from tinyc.pipeline.proving import prove

BOARD = "cortex-m4"
# A compiler makes more or less of C than estimated, and only some libraries are compiled for a limit: one may be passed
# over for another that is worth less; cycles of kernels in C are estimated, too.
TOLERANCE = 0.05
LIMITS = 8  # of each kind


@pytest.mark.slow
@pytest.mark.parametrize("model", ["kws", "ad", "sww", "vww", "ic"])
def test_a_larger_limit_is_never_worth_less_when_built(models_dir: Path, tmp_path: Path, model: str) -> None:
    file = models_dir / "mlperf_tiny" / f"{model}_int8.tflite"
    integers = make_integers(file, load_board(BOARD), Options(BOARD), Progress())
    ends = [_lowered(integers, prefer=prefer) for prefer in ("flash", "ram", "time")]
    sizes = [estimate(model, end.program, load_board(BOARD)) for end in ends]
    flashes, arenas = (
        np.geomspace(min(own), 1.1 * max(own), LIMITS).astype(int).tolist()
        for own in ([size.flash_bytes for size in sizes], [size.arena_bytes for size in sizes])
    )
    values, built = np.full((LIMITS, LIMITS), np.inf), dict[object, tuple[int, int, int]]()
    for (i, flash), (j, ram) in itertools.product(enumerate(flashes), enumerate(arenas)):
        options = Options(BOARD, samples=1, flash=flash, ram=ram)
        try:
            compiled = compile_integers(integers, load_board(BOARD), options, Progress())
        except TinycError:  # nothing is within the limits
            continue
        if compiled.program.arena_bytes > ram:
            continue
        key = tuple(sorted(compiled.files.items()))
        if key not in built and (figures := _figures(compiled, options)) is not None:
            built[key] = figures
        if key not in built:
            continue
        cycles, flash_bytes, arena_bytes = built[key]
        assert flash_bytes <= flash
        assert arena_bytes <= ram
        values[i, j] = WORTH["balanced"].of(cycles, flash_bytes, arena_bytes)
    assert np.isfinite(values).sum() >= LIMITS**2 // 2
    assert len(built) > 1
    better = np.minimum.accumulate(np.minimum.accumulate(values, axis=0), axis=1)
    there = np.isfinite(better)
    assert np.exp(values[there] - better[there]).max() <= 1 + TOLERANCE


def _lowered(integers: IntegerModel, **words: Any) -> Lowered:
    return lower_integers(integers, load_board(BOARD), Options(BOARD, **words), Progress())


def _figures(compiled: Compiled, options: Options) -> tuple[int, int, int] | None:
    """Cycles, bytes of flash and of arena of a library that is built; None where none is compiled within its limit,
    which ends a build with an error."""
    try:
        report = prove(compiled, load_board(BOARD), options, Progress())
    except TinycError as error:
        if "the compiled library takes" not in error.message:
            raise
        return None
    assert report.flash is not None
    assert report.cycles is not None
    return report.cycles, report.flash.code_bytes + report.flash.const_bytes, report.arena_bytes
