# SPDX-License-Identifier: Apache-2.0
"""bench/mca.py: turns of a loop are what two runs differ by; and what LLVM's models make of an LDM."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

import mca  # noqa: E402
from schedules import Piece  # noqa: E402

from tinyc.base.errors import TinycError  # noqa: E402
from tinyc.machine.list_schedule import Addresses  # noqa: E402

PRODUCTS = ("smlad r4, r5, r6, r4", "smlad r7, r5, r6, r7", "add r8, r8, #1")
MANY = ("ldm r0!, {r4, r5, r6, r7}",)


def mca_program() -> str:
    program = shutil.which("llvm-mca")
    if program is None:
        pytest.skip("llvm-mca is not installed")
    return program


@pytest.mark.parametrize(("lines", "cycles"), [(PRODUCTS, 3), (MANY, 5)])
def test_our_cycles_are_those_of_a_turn(lines: tuple[str, ...], cycles: int) -> None:
    assert mca.our_cycles("cortex-m4", Piece("f", lines, Addresses())) == cycles


@pytest.mark.parametrize("core", mca.SCHEDULED)
def test_products_and_an_addition_take_what_our_rules_say(core: str) -> None:
    theirs = mca.mca_cycles(mca_program(), mca.SCHEDULED[core], PRODUCTS)
    assert theirs == pytest.approx(mca.our_cycles(core, Piece("f", PRODUCTS, Addresses())), abs=0.05)


def test_llvm_takes_an_ldm_for_one_cycle_which_the_page_says() -> None:
    assert mca.mca_cycles(mca_program(), mca.SCHEDULED["cortex-m4"], MANY) == pytest.approx(1, abs=0.05)


def test_what_llvm_does_not_know_is_said() -> None:
    with pytest.raises(TinycError, match="no cycles of a slice for cortex-m4"):
        mca.mca_cycles(mca_program(), mca.SCHEDULED["cortex-m4"], ("no_such_instruction r0",))
