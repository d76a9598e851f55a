# SPDX-License-Identifier: Apache-2.0
"""A limit of RAM is kept by the arena as the library has it, with what lies behind the planned one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.unit.networks import random_network
from tinyc.base.errors import TinycError
from tinyc.board import load_board
from tinyc.options.build import Options
from tinyc.pipeline.compiling import compile_model
from tinyc.pipeline.progress import Progress
from tinyc.pipeline.proving import check_ram
from tinyc.quantize import UNPROVEN

M4 = load_board("cortex-m4")


@pytest.mark.parametrize("words", [{"weights_blob": True}, {"stream_weights": 400}], ids=str)
def test_what_lies_behind_the_planned_arena_counts(tmp_path: Path, words: dict[str, Any]) -> None:
    """The address of a blob of weights, and buffers of --stream-weights: an arena of 648 bytes was built for 640."""
    model = tmp_path / "model.onnx"
    model.write_bytes(random_network(3).SerializeToString())
    options = Options("cortex-m4", prefer="time", recipe=UNPROVEN, **words)
    usual = compile_model(model, M4, options, Progress())
    arena_bytes = usual.program.arena_bytes
    assert arena_bytes > usual.plan.arena_bytes
    same = replace(options, ram=arena_bytes)
    check_ram(compile_model(model, M4, same, Progress()), same)
    less = compile_model(model, M4, replace(options, ram=arena_bytes - 1), Progress())
    assert less.program.arena_bytes < arena_bytes
    with pytest.raises(TinycError, match=f"takes {arena_bytes:,} bytes, --ram is {arena_bytes - 1:,}: 1 too few"):
        check_ram(usual, replace(options, ram=arena_bytes - 1))
