# SPDX-License-Identifier: Apache-2.0
"""Firmware of the toy library, built once for each board, compiler and variant."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
import toy
from kernel_cases import KernelLibrary
from machines import Build

from tests.shared_folder import SharedFolder
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.board import load_board
from tinyc.toolchain.compile import Checks, Firmware, Sources, compile_firmware
from tinyc.toolchain.compilers import find_toolchain


@pytest.fixture(scope="session")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """build(board, toolchain, variant, dump_steps=, sanitize=) -> Firmware; skips without the compiler."""

    @cache
    def build_once(
        board_name: str,
        toolchain: str,
        variant: toy.Variant = toy.Variant.NONE,
        dump_steps: bool = False,
        sanitize: bool = False,
    ) -> Firmware:
        folder: Path = tmp_path_factory.mktemp("toy")
        board = load_board(board_name)
        try:
            compiler = find_toolchain(board, toolchain)
        except TinycError as error:
            pytest.skip(error.message)
        library = toy.write_library(folder / "library", variant)
        return compile_firmware(
            Sources(library, "toy"), board, compiler, "balanced", folder, Checks(dump_steps, sanitize)
        )

    return build_once


@pytest.fixture(scope="session")
def kernel_library(shared_folder: SharedFolder) -> Callable[..., KernelLibrary]:
    """kernel_library(isa, numerics) -> KernelLibrary: all kernels of a core."""

    @cache
    def library(isa: frozenset[str], numerics: Numerics = Numerics.TFLM) -> KernelLibrary:
        return KernelLibrary.shared(shared_folder, isa, numerics)

    return library
