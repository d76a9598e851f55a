# SPDX-License-Identifier: Apache-2.0
"""The interpreter of RV32's instructions: what it computes, what it refuses, and that it counts what `work` counts."""

from __future__ import annotations

import struct

import pytest

from tinyc.kernels.scalar.rv32_blocks import BROAD, TALL, PixelTile, blocks
from tinyc.kernels.scalar.rv32_dense import DenseTile, dense
from tinyc.kernels.scalar.rv32_finish import ChannelFinish
from tinyc.machine.interpret_rv32 import Rv32Machine
from tinyc.machine.listing import assembled_plain, for_macro, functions_in
from tinyc.machine.memory import Area, Bytes, Fault
from tinyc.machine.riscv import BITS, RiscvAsm
from tinyc.machine.rv32_table import parse_riscv

CODE, DATA = 0x8000, 0x2000


def run(*lines: str, arguments: tuple[int, ...] = (), data: bytes = bytes(16)) -> tuple[int, bytes]:
    """a0 and the data at DATA after a function of these lines."""
    area, stack = Area("data", DATA, bytearray(data)), Area("stack", 0x3000, bytearray(256))
    machine = Rv32Machine(assembled_plain(lines, CODE, parse_riscv), Bytes([area, stack]))
    return machine.call(CODE, arguments, stack), bytes(area.data)


@pytest.mark.parametrize(
    ("line", "a", "b", "result"),
    [
        ("mulh   a0, a0, a1", 0x80000000, 0x80000000, 0x40000000),
        ("mulhsu a0, a0, a1", 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF),
        ("mulhu  a0, a0, a1", 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFE),
        ("mul    a0, a0, a1", 0xFFFFFFFF, 3, 0xFFFFFFFD),
        ("div    a0, a0, a1", -7 & 0xFFFFFFFF, 2, -3 & 0xFFFFFFFF),
        ("div    a0, a0, a1", 7, 0, 0xFFFFFFFF),
        ("rem    a0, a0, a1", -7 & 0xFFFFFFFF, 2, 0xFFFFFFFF),
        ("rem    a0, a0, a1", 7, 0, 7),
        ("sra    a0, a0, a1", 0x80000000, 35, 0xF0000000),
        ("srli   a0, a0, 4", 0x80000000, 0, 0x08000000),
        ("slt    a0, a0, a1", 0xFFFFFFFF, 0, 1),
        ("sltu   a0, a0, a1", 0xFFFFFFFF, 0, 0),
        ("max    a0, a0, a1", 0xFFFFFFFF, 0, 0),
        ("sub    a0, zero, a0", 1, 0, 0xFFFFFFFF),
        ("lui    a0, 0xfffff", 0, 0, 0xFFFFF000),
    ],
)
def test_computes_what_the_manual_says(line: str, a: int, b: int, result: int) -> None:
    assert run(line, "ret", arguments=(a, b))[0] == result


def test_jumps_loads_and_stores() -> None:
    """A loop that adds signed bytes, and one branch that is not taken."""
    lines = ("mv a2, zero", "1:", "lb a3, 0(a0)", "add a2, a2, a3", "addi a0, a0, 1", "bne a0, a1, 1b")
    lines += ("bltz a2, 1f", "li a2, 0", "1:", "sw a2, 0(a1)", "mv a0, a2", "ret")
    sum_of_bytes, data = run(*lines, arguments=(DATA, DATA + 4), data=bytes([1, 0xFF, 0xFB, 2]) + bytes(12))
    assert sum_of_bytes == -3 & 0xFFFFFFFF
    assert data[4:8] == b"\xfd\xff\xff\xff"


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (("lw a0, 2(a0)", "ret"), "no multiple of 4"),
        (("lw a0, 16(a0)", "ret"), "in no object"),
        (("add a0, a0, t0", "ret"), "reads t0, which it has not set"),
        (("li s3, 1", "ret"), "s3 is not as it was"),
        (("addi sp, sp, -16", "ret"), "stack pointer is not as it was"),
        (("sw t0, 0(a0)", "ret"), "reads t0"),
        (("lw ra, 0(a0)", "ret"), "here is no code"),
    ],
)
def test_faults(lines: tuple[str, ...], message: str) -> None:
    with pytest.raises(Fault, match=message):
        run(*lines, arguments=(DATA,))


def test_the_other_side_of_a_switch() -> None:
    """A clamp without and with bit manipulation."""
    asm = RiscvAsm()
    asm.clamp("a0", "a1", "a2")
    asm.op("ret")
    text = asm.function("clamp", ("int32_t a",))
    for holds, length in ((False, 5), (True, 3)):
        lines = functions_in(for_macro(text, BITS, holds))["clamp"]
        assert sum(not line.endswith(":") for line in lines) == length
        for value, clamped in ((-9, -5), (3, 3), (99, 7)):
            assert run(*lines, arguments=(value, -5 & 0xFFFFFFFF, 7))[0] == clamped & 0xFFFFFFFF


@pytest.mark.parametrize("tile", [BROAD, TALL], ids=lambda tile: tile.name)
@pytest.mark.parametrize("fours", [1, 2, 5])
def test_runs_as_often_as_work_says(tile: PixelTile, fours: int) -> None:
    """Two blocks with no weights: nothing is clamped."""
    code = assembled_plain(
        functions_in(for_macro(blocks(tile).kernel.text, BITS, holds=False))[blocks(tile).kernel.name],
        CODE,
        parse_riscv,
    )
    channels = 2 * tile.lanes
    sizes = {"x": 16 * tile.words * fours, "w": 4 * fours * channels, "p": 24, "y": tile.pixels * channels}
    sizes |= {"places": 4 * tile.pixels, "channels": 16 * channels}
    areas = {name: Area(name, 0x1000 * (2 + i), bytearray(size)) for i, (name, size) in enumerate(sizes.items())}
    areas["p"].data[:] = struct.pack("<6i", areas["channels"].start, channels, 11, 0, -128, 127)
    areas["places"].data[:] = struct.pack(f"<{tile.pixels}i", *(channels * i for i in range(tile.pixels)))
    areas["y"].data[:] = b"\xa5" * len(areas["y"].data)
    stack = Area("stack", 0x80000, bytearray(512))
    machine = Rv32Machine(code, Bytes([*areas.values(), stack]))
    starts = [areas[name].start for name in ("x", "w", "p", "y", "places")]
    machine.call(CODE, [*starts[:2], fours, starts[2], 2, *starts[3:]], stack)
    assert bytes(areas["y"].data) == bytes(tile.pixels * channels)
    assert machine.executed.total() == blocks(tile).work(fours, 2).instructions


def test_fixes_too() -> None:
    """Two blocks of fully connected outputs with no weights; one with two weights that were taken off."""
    tile = DenseTile(8, 2, ChannelFinish(0, sign=True, adds=False, low=0, high=0))
    code = assembled_plain(
        functions_in(for_macro(dense(tile).kernel.text, BITS, holds=False))[dense(tile).kernel.name], CODE, parse_riscv
    )
    segments, channels = 3, 2 * tile.lanes
    sizes = {"x": 8 * segments, "w": 8 * segments * channels, "starts": 8 * segments, "channels": 16 * channels}
    sizes |= {"y": channels, "out": 16, "fixes": 16}
    areas = {name: Area(name, 0x1000 * (2 + i), bytearray(size)) for i, (name, size) in enumerate(sizes.items())}
    starts = {name: area.start for name, area in areas.items()}
    areas["x"].data[5] = 3
    areas["w"].data[:] = struct.pack("<i", 0x808080) * (len(areas["w"].data) // 4)
    odd = [(0x8000 - 128 * total) & 0xFFFFFFFF for total in (3, 0, 0)]
    both = [word for one in odd for word in ((one * 0x10101 + 0x80000000) & 0xFFFFFFFF, one)]
    areas["starts"].data[:] = struct.pack("<6I", *both)
    areas["channels"].data[:] = struct.pack("<4i", 0, 1 << 30, 0, 0) * channels
    areas["out"].data[:] = struct.pack("<4i", starts["fixes"], 2, -128, 127)
    areas["fixes"].data[:] = struct.pack("<8h", 2, 4, 5, 7, 12, 5, -2, 0)
    stack = Area("stack", 0x80000, bytearray(512))
    machine = Rv32Machine(code, Bytes([*areas.values(), stack]))
    arguments = [
        starts["x"],
        starts["w"],
        segments,
        starts["starts"],
        2,
        starts["channels"],
        starts["y"],
        starts["out"],
    ]
    machine.call(CODE, arguments, stack)
    assert bytes(areas["y"].data) == bytes([0, 21, 0, 248, *bytes(12)])  # 3 * -2 is below 0
    costs = dense(tile)
    blocks = 2 * (costs.block.instructions + segments * costs.segment.instructions)
    fixes = costs.fixed.instructions + 2 * costs.fix.instructions
    below = 1  # outputs that are below 0
    assert machine.executed.total() == costs.call.instructions + blocks + fixes + below
