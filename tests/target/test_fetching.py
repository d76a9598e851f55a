# SPDX-License-Identifier: Apache-2.0
"""Weights that come while the step before runs: by copies at once on emulated boards, by a late DMA on the host."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import cast

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.ops.harness import run_program
from tests.target.machines import target_for
from tinyc.base.errors import TinycError
from tinyc.board import load_board
from tinyc.emit.fetching import with_fetches
from tinyc.emit.program import RowInput
from tinyc.options.build import Options
from tinyc.pipeline.compiling import Compiled, compile_model
from tinyc.pipeline.progress import Progress
from tinyc.pipeline.proving import prove
from tinyc.reference.interpreter import run_int

BUDGET = 12_288
# Copies when it is waited for, and not before; until then there is something else. A copy that is waited for without
# having been started, or for another place, and one that is started while another runs, end the program.
LATE = """
#include <stdint.h>
#include <stdlib.h>
static uint8_t *dma_to;
static const uint8_t *dma_from;
static int dma_bytes;
static void dma_start(uint8_t *to, const void *from, int bytes)
{
    if (dma_to != NULL) exit(3);
    for (int i = 0; i < bytes; i++) to[i] = 0xA5;
    dma_to = to;
    dma_from = (const uint8_t *)from;
    dma_bytes = bytes;
}
static void dma_wait(const uint8_t *to, int bytes)
{
    if (dma_to != to || dma_bytes != bytes) exit(4);
    for (int i = 0; i < bytes; i++) dma_to[i] = dma_from[i];
    dma_to = NULL;
}
#define UNIT_FETCH(to, from, bytes) dma_start(to, from, bytes)
#define UNIT_FETCHED(to, bytes) dma_wait(to, bytes)
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Dense layers of 64, 64, 48, 48 and 16."""
    random, widths, nodes, weights = np.random.default_rng(2), (64, 64, 48, 48, 16), [], []
    for number, (before, after) in enumerate(pairwise(widths)):
        for name, shape in ((f"w{number}", (after, before)), (f"b{number}", (after,))):
            weights.append(numpy_helper.from_array(random.normal(0, 0.2, shape).astype(np.float32), name))
        nodes.append(helper.make_node("Gemm", [f"x{number}", f"w{number}", f"b{number}"], [f"y{number}"], transB=1))
        nodes.append(helper.make_node("Relu", [f"y{number}"], [f"x{number + 1}"]))
    ends = [(f"x{number}", width) for number, width in ((0, widths[0]), (len(widths) - 1, widths[-1]))]
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, width]) for name, width in ends]
    path = tmp_path_factory.mktemp("fetch") / "unit.onnx"
    onnx.save(helper.make_model(helper.make_graph(nodes, "unit", ports[:1], ports[1:], weights)), path)
    return path


def _compiled(model: Path, board: str, **others: object) -> tuple[Compiled, Options]:
    asked = replace(Options(board=board, prefer="time", stream_weights=BUDGET, samples=2), **others)  # type: ignore[arg-type]
    return compile_model(model, load_board(board), asked, Progress()), asked


def _inputs(compiled: Compiled) -> list[dict[str, np.ndarray]]:
    random = np.random.default_rng(1)
    values = [compiled.graph.values[name] for name in compiled.graph.inputs]
    return [{v.name: random.integers(-128, 128, v.shape).astype(np.int8) for v in values} for _ in range(3)]


@pytest.mark.parametrize("board", ["cortex-m4", "nucleo-l4r5zi"])
def test_a_dma_that_is_late(model: Path, board: str, tmp_path: Path) -> None:
    compiled, _ = _compiled(model, board)
    program = compiled.program
    assert len(program.fetches) >= 3
    assert 0 < program.fetch_bytes <= BUDGET
    assert program.arena_bytes >= compiled.plan.arena_bytes + program.fetch_bytes
    (tmp_path / "dma.h").write_text(LATE)
    inputs = _inputs(compiled)
    outputs_by_sample = run_program(compiled.graph, program, inputs, f"clang -include {tmp_path / 'dma.h'}")
    usual = run_program(compiled.graph, program, inputs)
    for sample, late, at_once in zip(inputs, outputs_by_sample, usual, strict=True):
        reference = run_int(compiled.graph, sample, program.numerics)
        for name, one, other in zip(compiled.graph.outputs, late, at_once, strict=True):
            np.testing.assert_array_equal(one, reference[name])
            np.testing.assert_array_equal(other, reference[name])


@pytest.mark.parametrize(("board", "emulator"), [("cortex-m4", "qemu"), ("nucleo-l4r5zi", "unicorn")])
@pytest.mark.parametrize("others", [{}, {"ram_code": 2048}, {"weights_blob": True}], ids=str)
def test_boards_give_the_bytes_of_the_reference(
    model: Path, board: str, emulator: str, others: dict[str, object]
) -> None:
    target_for(board, emulator)
    compiled, asked = _compiled(model, board, emulator=emulator, **others)
    report = prove(compiled, load_board(board), asked, Progress())
    assert report.passed
    assert report.arena_bytes == compiled.program.arena_bytes


def test_what_cannot_be_fetched(model: Path) -> None:
    warnings: list[str] = []
    asked = Options(board="cortex-m4", stream_weights=100)
    compiled = compile_model(model, load_board("cortex-m4"), asked, Progress(on_warning=warnings.append))
    assert not compiled.program.fetches
    assert any("fit half of --stream-weights 100" in warning for warning in warnings)
    with pytest.raises(TinycError, match="for libraries that take their whole input"):
        with_fetches(replace(_compiled(model, "cortex-m4")[0].program, row_input=cast(RowInput, object())), BUDGET)
