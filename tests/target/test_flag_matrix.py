# SPDX-License-Identifier: Apache-2.0
"""scripts/flag_matrix.py: a short run finds nothing, and what is wrong is found."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))

import flag_matrix

from tests.ops.harness import OneStepPlan
from tests.ops.one_node import one_node, tensor
from tinyc.base.numerics import Numerics
from tinyc.choose.select import select
from tinyc.emit.library import Info, emit_library
from tinyc.emit.lower import lower
from tinyc.ops.transpose import Transpose


def compiler_of(name: str, board: str) -> flag_matrix.Compiler:
    compilers = [c for c in flag_matrix.compilers() if c.name.startswith(name) and c.board == board]
    if not compilers:
        pytest.skip(f"{name} for {board} is not installed")
    return compilers[0]


def built(case: flag_matrix.Case, compiler: flag_matrix.Compiler, level: str) -> str | None:
    with tempfile.TemporaryDirectory() as folder:
        for file, text in case.files.items():
            Path(folder, file).write_text(text)
        return flag_matrix.run(case, compiler, level, Path(folder))


def transposing_case() -> flag_matrix.Case:
    graph = one_node("transpose", Transpose((0, 2, 1)), [tensor("x", (1, 5, 2), 0.1, 7)], 0.1, 7)
    choices = select(graph, frozenset({"thumb2"}), Numerics.TFLM)
    program = lower(graph, OneStepPlan(graph, 0).plan(choices), Numerics.TFLM, "turn")
    files = emit_library(program, Info("turn", "0" * 64, "test"))
    return flag_matrix.Case(
        "turn", program, files, [[bytes(range(10))]], [[bytes([0, 2, 4, 6, 8, 1, 3, 5, 7, 9])]], False
    )


@pytest.mark.parametrize("level", ["-O0", "-Os", "-O2 -flto"])
def test_a_step_that_compilers_drop(level: str) -> None:
    assert built(transposing_case(), compiler_of("arm-none-eabi-gcc", "cortex-m4"), level) is None


def test_what_is_wrong_is_found() -> None:
    case, gcc = transposing_case(), compiler_of("arm-none-eabi-gcc", "cortex-m4")
    assert built(replace(case, expected=[[bytes(10)]]), gcc, "-O1") == "other bytes than the reference"
    broken = {**case.files, "turn.c": case.files["turn.c"].replace("tc_transpose(", "memset(")}
    assert "does not build" in str(built(replace(case, files=broken), gcc, "-O1"))
    version = subprocess.run(["arm-none-eabi-gcc", "-dumpfullversion"], capture_output=True, text=True, check=True)
    if version.stdout.startswith("12.2"):
        unguarded = {**case.files, "tc_begin.h": '#include "tc_compiler.h"\n', "tc_end.h": "\n"}
        assert built(replace(case, files=unguarded), gcc, "-Os") == "other bytes than the reference"


@pytest.mark.parametrize(
    ("name", "board", "seed"), [("arm-none-eabi-gcc", "cortex-m4", 0), ("clang", "cortex-m4", 1), ("gcc", "host", 2)]
)
def test_a_network(name: str, board: str, seed: int) -> None:
    tally = flag_matrix.Tally()
    compiler = replace(compiler_of(name, board), levels=("-O1", "-Os"))
    flag_matrix.try_network(seed, [compiler], tally)
    assert (tally.cases, sum(tally.runs.values()), tally.wrong) == (1, 2, [])


@pytest.mark.slow
@pytest.mark.parametrize("first", [1000, 1005, 1010, 1015])
def test_many_networks(first: int) -> None:
    assert flag_matrix.main(["--networks", "5", "--first", str(first), "--no-kernels"]) == 0


LEVELS = ("-O2", "-O0", "-O1,-Os", "-O3", "-O2 -flto,-Os -flto")  # -O0 takes as long as all others


@pytest.mark.slow
@pytest.mark.parametrize("levels", LEVELS)
@pytest.mark.parametrize("board", ["cortex-m4", "cortex-m0plus"])
def test_all_kernels(board: str, levels: str) -> None:
    only = ["--only", "arm-none-eabi-gcc", "--board", board, f"--levels={levels}"]
    assert flag_matrix.main(["--kernels", *only]) == 0


def test_no_level_is_left_out() -> None:
    """Of those at which `test_all_kernels` builds."""
    assert sorted(",".join(LEVELS).split(",")) == sorted(flag_matrix.LEVELS + flag_matrix.LTO)
