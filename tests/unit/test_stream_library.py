# SPDX-License-Identifier: Apache-2.0
"""The C text of streamed plans: built with all warnings and the sanitizers, its bytes are the reference's."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.ops.harness import HOST_ISA, run_program
from tests.ops.one_node import one_node, tensor
from tests.ops.sanitized import WARNINGS, sanitized
from tests.unit.stream_cases import NUMERICS, integer_graph, random_sample, smallest_plan, window_plan
from tinyc.emit.library import Info, emit_library
from tinyc.emit.lower import lower
from tinyc.kernel.site import RELU
from tinyc.ops.clip import Clip
from tinyc.plan.problem import WHOLE
from tinyc.plan.rows import without_time_padding
from tinyc.reference.interpreter import run_int
from tinyc.run.native import load_library

CORES = {"dsp": HOST_ISA, "plain": frozenset[str]()}


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("seed", [0, 3, 6, 9])
def test_bytes_of_a_streamed_library(seed: int, core: str) -> None:
    graph = integer_graph(seed)
    plan = smallest_plan(graph, CORES[core])
    assert plan is not None
    inputs = [random_sample(graph, seed + n) for n in range(3)]
    outputs = run_program(graph, lower(graph, plan, NUMERICS, "unit"), inputs)
    for sample, got in zip(inputs, outputs, strict=True):
        reference = run_int(graph, sample, NUMERICS)
        for name, array in zip(graph.outputs, got, strict=True):
            np.testing.assert_array_equal(array, reference[name])


@pytest.mark.parametrize("seed", [0, 4, 9])
def test_bytes_of_a_library_that_takes_rows(seed: int, tmp_path: Path) -> None:
    """Through Python, on arenas of noise: row after row, and several windows one after another."""
    graph = integer_graph(seed)
    plan = smallest_plan(graph, HOST_ISA, by_rows=True)
    assert plan is not None
    program = lower(graph, plan, NUMERICS, "unit")
    for name, text in emit_library(program, Info("unit", "0" * 64, "host")).items():
        (tmp_path / name).write_text(text)
    library = load_library(tmp_path)
    samples = [random_sample(graph, seed + n)[graph.inputs[0]] for n in range(4)]
    for sample in samples:
        reference = run_int(graph, {graph.inputs[0]: sample}, NUMERICS)
        for name, got in zip(graph.outputs, library.run(sample.reshape(library.inputs[0].sample_shape)), strict=True):
            np.testing.assert_array_equal(got.ravel(), reference[name].ravel())


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize(("seed", "hop"), [(5, 1), (5, 4), (4, 3), (9, 5)])
def test_an_incremental_library_in_python_is_a_function_of_one_window(seed: int, hop: int, tmp_path: Path) -> None:
    """Each window after a reset; one that is no whole number of hops begins with rows that are out of it at the end."""
    graph = without_time_padding(integer_graph(seed))
    plan = window_plan(graph, hop, HOST_ISA)
    for name, text in emit_library(lower(graph, plan, NUMERICS, "unit"), Info("unit", "0" * 64, "host")).items():
        (tmp_path / name).write_text(text)
    library = load_library(tmp_path)
    assert library.hop_rows == hop
    x = library.inputs[0]
    assert hop == 1 or library.rows % hop
    samples = np.stack([random_sample(graph, seed + n)[graph.inputs[0]].reshape(x.sample_shape) for n in range(3)])
    for sample, got in zip(samples, library(samples), strict=True):
        reference = run_int(graph, {graph.inputs[0]: sample.reshape(x.shape)}, NUMERICS)[graph.outputs[0]]
        np.testing.assert_array_equal(got.ravel(), reference.ravel())


def test_rows_outside_the_input_are_refused(tmp_path: Path) -> None:
    graph = integer_graph(0)
    plan = smallest_plan(graph, by_rows=True)
    assert plan is not None
    assert plan.problem.by_rows
    files = emit_library(lower(graph, plan, NUMERICS, "unit"), Info("unit", "0" * 64, "host"))
    rows = plan.problem.tensors[graph.inputs[0]].rows
    main = f"""
#include <stdio.h>
#include "unit.h"
static unit_arena_t arena;
static const int8_t row[UNIT_INPUT_0_ROW_SIZE];
int main(void)
{{
    printf("%d %d %d %d %d", unit_push_row(&arena, -1, row), unit_push_row(&arena, {rows}, row),
           unit_push_row(NULL, 0, row), unit_push_row((uint8_t *)&arena + 1, 0, row), unit_push_row(&arena, 0, row));
    return 0;
}}
"""
    for name, text in (files | {"main.c": main}).items():
        (tmp_path / name).write_text(text)
    assert sanitized(tmp_path, ["main.c", "unit.c"], b"") == b"2 2 1 1 0"


@pytest.mark.parametrize("hop", [0, 6])
def test_no_warning_where_rows_come_and_every_layer_runs_whole(hop: int, tmp_path: Path) -> None:
    x = tensor("x", (1, 6, 5, 4), 0.1, 3)
    graph = one_node("clip", Clip(RELU), [x], 0.1, 3)
    plan = window_plan(graph, hop) if hop else smallest_plan(graph, by_rows=True)
    assert plan is not None
    assert hop or plan.turns == ((0, WHOLE),)
    files = emit_library(lower(graph, plan, NUMERICS, "unit"), Info("unit", "0" * 64, "host"))
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    subprocess.run(["gcc", "-std=c99", *WARNINGS, "-c", "unit.c"], cwd=tmp_path, check=True, timeout=120)
