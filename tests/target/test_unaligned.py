# SPDX-License-Identifier: Apache-2.0
"""Unaligned accesses to memory: none where the compiler is told so, or the core has none.

A build for a small model with every access looked at is among the quick tests: tests/cli/test_user_build.py."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from kernel_cases import KernelLibrary, Together, together, write_library

from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.board import Board, load_board
from tinyc.emit.alignment import unaligned_between, unaligned_steps
from tinyc.emit.program import Program
from tinyc.emit.text import ranges
from tinyc.options.build import Options
from tinyc.pipeline.compiling import compile_model
from tinyc.pipeline.progress import Progress
from tinyc.run.linked import LinkedRun, run_linked
from tinyc.toolchain.compilers import find_toolchain
from tinyc.toolchain.elf import read_elf


def linked(folder: Path, name: str, board: Board, *flags: str) -> Path:
    """A program of the library in the folder, built with these flags."""
    try:
        gcc = find_toolchain(board, "gcc")
    except TinycError as error:
        pytest.skip(error.message)
    command = [*gcc.command, *gcc.target_flags, *flags, "-ffreestanding", "-nostdlib", f"-Wl,-e,{name}_run"]
    subprocess.run([*command, f"{name}.c", "-lgcc", "-o", "all.elf"], cwd=folder, check=True)
    return folder / "all.elf"


PARTS = 12  # of all kernels, one by one in libraries of their own


def run_all(folder: Path, board_name: str, *flags: str) -> tuple[Together, LinkedRun]:
    """Every kernel of the board in one library, built with these flags and called."""
    board = load_board(board_name)
    network = together(board.isa, Numerics.TFLM)
    return network, run(network, folder, board, *flags)[1]


def run(network: Together, folder: Path, board: Board, *flags: str) -> tuple[Program, LinkedRun]:
    program = write_library(network, folder, board.isa, Numerics.TFLM)
    return program, run_linked(read_elf(linked(folder, "all", board, *flags)), program, board, network.requests)


def aligned_run(network: Together, folder: Path, board: Board, *flags: str) -> Program:
    """Assert that steps of which the library says nothing made no unaligned access."""
    program, ran = run(network, folder, board, *flags)
    said = unaligned_steps(program)
    seen = {step for step, count in ran.in_steps.items() if count}
    others = {program.steps[step].choice.kernel.name for step in seen - set(said)}
    assert not others
    return program


@pytest.mark.slow
@pytest.mark.parametrize(
    ("board", "flags"),
    [
        ("cortex-m4", ("-O1", "-mno-unaligned-access")),
        ("cortex-m4", ("-Os", "-mno-unaligned-access")),
        ("cortex-m3", ("-O2", "-mno-unaligned-access")),
        ("cortex-m0plus", ("-O2",)),
    ],
)
def test_none(tmp_path: Path, board: str, flags: tuple[str, ...]) -> None:
    assert run_all(tmp_path, board, *flags)[1].unaligned == 0


@pytest.mark.slow
def test_they_are_seen(tmp_path: Path) -> None:
    assert run_all(tmp_path, "cortex-m4", "-O2")[1].unaligned > 0


# ---- what a library says of itself ----


@pytest.mark.parametrize("first", [0, *(pytest.param(first, marks=pytest.mark.slow) for first in range(1, PARTS))])
def test_steps_that_say_none_make_none(
    kernel_library: Callable[..., KernelLibrary], tmp_path: Path, first: int
) -> None:
    """Of the kernels of a Cortex-M4 every so many: what is called once becomes part of its step, and has others."""
    board = load_board("cortex-m4")
    whole = kernel_library(board.isa).network
    program = aligned_run(whole.of(whole.graph.nodes[first::PARTS]), tmp_path, board, "-O2")
    assert 0 < len(unaligned_steps(program)) < len(program.steps) / 2


@pytest.mark.slow
@pytest.mark.parametrize(("name", "level"), [("cortex-m4", "-O2"), ("cortex-m3", "-Os")])
def test_all_steps_that_say_none_make_none(
    kernel_library: Callable[..., KernelLibrary], tmp_path: Path, name: str, level: str
) -> None:
    board = load_board(name)
    aligned_run(kernel_library(board.isa).network, tmp_path, board, level)


@pytest.mark.parametrize(
    ("name", "steps"),
    [
        ("ad", ()),
        pytest.param("kws", (0,), marks=pytest.mark.slow),
        pytest.param("sww", None, marks=pytest.mark.slow),
        pytest.param("ic", None, marks=pytest.mark.slow),
        pytest.param("vww", None, marks=pytest.mark.slow),
    ],
)
def test_models(models_dir: Path, tmp_path: Path, name: str, steps: tuple[int, ...] | None) -> None:
    """The header names all steps that make some. steps: those, where they are known for long."""
    board = load_board("cortex-m4")
    compiled = compile_model(models_dir / "mlperf_tiny" / f"{name}_int8.tflite", board, Options(board.name), Progress())
    for file, text in compiled.files.items():
        (tmp_path / file).write_text(text)
    program = compiled.program
    said = unaligned_steps(program)
    assert steps in (None, said)
    header = " ".join(compiled.files[f"{program.name}.h"].replace("\n *", " ").split())
    places = [f"in step{'s' * (len(said) > 1)} {ranges(said)}"] * bool(said)
    places += ["between the steps"] * unaligned_between(program)
    words = f"accesses to memory {' and '.join(places)} may be unaligned"
    assert (words if places else "The library makes no unaligned accesses") in header
    elf = read_elf(linked(tmp_path, program.name, board, "-O2"))
    sample = [bytes(place.value.size_bytes) for place in program.inputs]
    ran = run_linked(elf, program, board, [sample])
    assert {step for step, count in ran.in_steps.items() if count} <= set(said)
    if not said and not unaligned_between(program):
        assert ran.unaligned == 0
