# SPDX-License-Identifier: Apache-2.0
"""Accesses that are watched: counted, and the code runs as it does unwatched."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from tinyc.run import accesses
from tinyc.run.unicorn import load_unicorn

# Five times round: r0 += 1; if (r2 <= 255) r4 = *r3; then an unaligned load, and LDRD if `refused`.
LOOP = [0x2000, 0x2205, 0x3001, 0x2AFF, 0xBFD8, 0x681C, 0x3A01, 0xD1F9]
LOAD_AT_ODD = [0x681D]  # ldr r5, [r3]
LOAD_TWO = [0xE9D3, 0x6700]  # ldrd r6, r7, [r3]
CODE, DATA = 0x1000, 0x2000


@pytest.fixture(params=["c", "python"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "python":
        monkeypatch.setattr(accesses, "build_trace_library", lambda version: None)
    elif accesses.build_trace_library(None) is None:
        pytest.skip("there is no C compiler")


def core(r3: int, *halves: int) -> tuple[Any, Any, int]:
    unicorn, arm = load_unicorn(), load_unicorn("unicorn.arm_const")
    engine = unicorn.Uc(unicorn.UC_ARCH_ARM, unicorn.UC_MODE_THUMB, cpu=arm.UC_CPU_ARM_CORTEX_M4)
    engine.mem_map(CODE, 0x1000)
    engine.mem_map(DATA, 0x1000)
    engine.mem_write(CODE, b"".join(struct.pack("<H", half) for half in halves))
    engine.reg_write(arm.UC_ARM_REG_R3, r3)
    return engine, arm, CODE + 2 * len(halves)


def test_blocks_of_it_are_run_as_they_stand(way: None) -> None:
    """A hook of accesses must not make the instructions behind an IT block disappear."""
    engine, arm, end = core(DATA, *LOOP)
    with accesses.watched(engine) as counts:
        engine.emu_start(CODE | 1, end, count=1000)
    assert engine.reg_read(arm.UC_ARM_REG_R0) == 5
    assert (counts.unaligned, counts.refused) == (0, None)


def test_unaligned_accesses_are_counted(way: None) -> None:
    engine, _, end = core(DATA + 1, *LOOP, *LOAD_AT_ODD)
    with accesses.watched(engine) as counts:
        engine.emu_start(CODE | 1, end, count=1000)
    assert (counts.unaligned, counts.refused) == (6, None)


def test_what_cores_refuse_stops_the_engine(way: None) -> None:
    engine, arm, end = core(DATA + 2, *LOAD_TWO, *LOOP)
    with accesses.watched(engine) as counts:
        engine.emu_start(CODE | 1, end, count=1000)
    assert counts.refused == DATA + 2
    assert engine.reg_read(arm.UC_ARM_REG_R0) == 0
