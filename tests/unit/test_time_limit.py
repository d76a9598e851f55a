# SPDX-License-Identifier: Apache-2.0
"""A limit of time that the proof's run does not keep is told."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.unit.networks import random_network
from tinyc.board import load_board
from tinyc.options.build import Options
from tinyc.pipeline.compiling import compile_model
from tinyc.pipeline.progress import Progress
from tinyc.pipeline.proving import prove
from tinyc.quantize import UNPROVEN

M4 = load_board("cortex-m4")


def test_a_run_that_takes_longer_is_warned_of(tmp_path: Path) -> None:
    """Estimates may be too low: on a Cortex-M0+ compiled for size a network took twice its limit, untold."""
    model = tmp_path / "model.onnx"
    model.write_bytes(random_network(3).SerializeToString())
    options = Options("cortex-m4", recipe=UNPROVEN)
    compiled = compile_model(model, M4, options, Progress())
    told: list[str] = []
    cycles = prove(compiled, M4, replace(options, time="100M"), Progress(on_warning=told.append)).cycles
    assert cycles is not None
    prove(compiled, M4, replace(options, time=str(cycles)), Progress(on_warning=told.append))
    assert not [each for each in told if "--time" in each]
    prove(compiled, M4, replace(options, time=str(cycles - 1)), Progress(on_warning=told.append))
    assert f"the run took {cycles:,} modelled cycles, 1 too many" in told[-1]
