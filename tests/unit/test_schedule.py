# SPDX-License-Identifier: Apache-2.0
"""The order of instructions: what may change places, what a better place saves, and that results stay."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence

import pytest

from tinyc.machine.cores import CORTEX_M4
from tinyc.machine.interpret import Machine
from tinyc.machine.lines import Line, emitted
from tinyc.machine.listing import assembled
from tinyc.machine.memory import Area, Bytes
from tinyc.machine.op import Decoded
from tinyc.machine.schedule import BasicBlock, BlockOrder, cycles_on, free
from tinyc.machine.thumb import Asm

DATA, STACK = 0x20000000, 0x30000000


def op(text: str) -> Decoded:
    mnemonic, _, operands = text.partition(" ")
    return emitted(mnemonic, operands)


@pytest.mark.parametrize(
    ("first", "second", "may"),
    [
        ("add r0, r1, r2", "add r3, r1, r2", True),
        ("add r0, r1, r2", "add r3, r0, r2", False),  # needs the result
        ("add r0, r1, r2", "add r1, r3, r2", False),  # overwrites what is read
        ("add r0, r1, r2", "add r0, r3, r2", False),  # overwrites the result
        ("subs r0, r0, #1", "adds r1, r1, #1", False),  # the flags of the last count
        ("subs r0, r0, #1", "add r1, r1, #1", True),
        ("cmp r0, r1", "adc r2, r2, r3", False),
        ("ldr r0, [r1]", "ldr r2, [r3]", True),
        ("ldr r0, [r1], #4", "ldr r2, [r1]", False),
        ("strb r0, [r1]", "ldrb r2, [r3]", False),  # may be the same byte
        ("strb r0, [r1, #1]", "ldrb r2, [r1, #2]", True),
        ("str r0, [r1, #4]", "ldrb r2, [r1, #7]", False),
        ("strd r0, r1, [r2, #4]", "str r3, [r2, #8]", False),
        ("strd r0, r1, [r2, #4]", "str r3, [r2, #12]", True),
        ("str r0, [r2], #4", "str r3, [r2, #12]", False),
        ("str r0, [r2, r4]", "str r3, [r2, #12]", False),
        ("add sp, sp, #8", "add r0, r1, r2", False),
        ("it ne", "add r0, r1, r2", False),
    ],
)
def test_what_may_change_places(first: str, second: str, may: bool) -> None:
    assert free(op(first), op(second)) is may


def test_the_stack_is_apart_where_nothing_else_points_to_it() -> None:
    assert not free(op("str r0, [sp, #4]"), op("strb r1, [r2]"))
    assert free(op("str r0, [sp, #4]"), op("strb r1, [r2]"), own_stack=True)
    assert not free(op("str r0, [sp, #4]"), op("ldr r1, [sp, #4]"), own_stack=True)


def loop(lines: list[str]) -> Asm:
    asm = Asm(CORTEX_M4)
    with asm.loop("turn", 10):
        for line in lines:
            mnemonic, _, operands = line.partition(" ")
            asm.op(mnemonic, *operands.split(", ")) if "[" not in operands else _access(asm, mnemonic, operands)
        asm.branch("bne", "turn")
    asm.op("bx", "lr")
    return asm


def _access(asm: Asm, mnemonic: str, operands: str) -> None:
    register, _, place = operands.partition(", ")
    asm.op(mnemonic, register, place)


@pytest.mark.parametrize(
    ("lines", "saved"),
    [
        (["subs r3, r3, #1", "strb r0, [r1]", "strb r2, [r1, #1]", "add r4, r4, #1"], 1),  # stores
        (["add r4, r4, #1", "add r5, r5, #1", "subs r3, r3, #1"], 1),  # flags
        (["subs r3, r3, #1", "ldr r0, [r1]", "add r4, r4, #1", "ldr r2, [r1, #4]", "add r5, r5, #1"], 1),  # loads
        (["subs r3, r3, #1", "str r0, [r1]", "ldr r2, [r1, #4]", "add r4, r4, #1", "add r5, r5, #1"], 1),  # load up
        (["subs r3, r3, #1", "strb r0, [r1], #1", "strb r2, [r1]"], 0),  # nothing may move
    ],
)
def test_a_better_place_saves_cycles(lines: list[str], saved: int) -> None:
    asm = loop(lines)
    before = asm.work()
    asm.reorder()
    after = asm.work()
    assert (before - after).cycles == 10 * saved
    assert before.instructions == after.instructions


REGISTERS = ("r4", "r5", "r6", "r7", "r8", "r9")


def random_line(rng: random.Random) -> str:
    a, b, c = (rng.choice(REGISTERS) for _ in range(3))
    base, place = rng.choice(("r0", "r1", "sp")), 4 * rng.randrange(4)
    forms = (
        f"add {a}, {b}, {c}",
        f"adds {a}, {b}, #1",
        f"adc {a}, {b}, {c}",
        f"smlad {a}, {b}, {c}, {a}",
        f"ldr {a}, [{base}, #{place}]",
        f"ldrb {a}, [{base}, #{place + 1}]",
        f"str {a}, [{base}, #{place}]",
        f"strb {a}, [{base}, #{place + 2}]",
        f"ldr {a}, [r2], #4",
        f"str {a}, [r2], #4",
    )
    return rng.choice(forms)


def run(asm: Asm) -> tuple[bytes, bytes]:
    """What a call leaves in memory: 64 bytes that two registers point to, and what the third has written."""
    data = Area("data", DATA, bytearray(range(64)))
    more = Area("more", DATA + 0x1000, bytearray(range(200)))
    stack = Area("stack", STACK, bytearray(256))
    program = assembled([".syntax unified", *asm.text()], 0x100)
    machine = Machine(program, Bytes([data, more, stack]))
    machine.call(0x100, [DATA, DATA + 8, DATA + 0x1000], stack)
    return bytes(data.data), bytes(more.data)


@pytest.mark.parametrize("seed", range(8))
def test_what_a_move_saves_is_what_the_whole_piece_takes_less(seed: int) -> None:
    rng = random.Random(seed)
    ops = [item.op for item in loop([random_line(rng) for _ in range(6)]).items if isinstance(item, Line)][:-1]

    def of_all(order: Sequence[int]) -> int:
        run = [*(ops[number] for number in order), *([block.behind] if block.behind else [])]
        each = sum(cycles_on(CORTEX_M4)(op, last) for op, last in zip(run, [block.before, *run], strict=False))
        return each + CORTEX_M4.taken(ops[-1], None, [ops[number] for number in order[-3:-1]])

    last = len(ops) - 1
    for before, behind in ((None, None), (ops[1], ops[2])):
        block = BasicBlock(CORTEX_M4, tuple(ops), before, behind, taken=True)
        for at, to in itertools.permutations(range(last), 2):
            order = [*rng.sample(range(last), last), last]
            moved = [*order[:at], *order[at + 1 :]]
            moved.insert(to, order[at])
            assert BlockOrder(block, order).saved(at, to) == of_all(order) - of_all(moved)


def test_results_stay() -> None:
    """Random code: two bases that overlap, one that moves, and the stack."""
    rng = random.Random(9)
    saved = 0
    for _ in range(60):
        asm = Asm(CORTEX_M4)
        asm.op("push", "{r4-r11, lr}")
        asm.op("sub", "sp", "sp", "#28")
        for number, register in enumerate(REGISTERS):
            asm.constant(register, 0x01020304 * (number + 1))
        for place in range(4):
            asm.op("str", "r4", f"[sp, #{4 * place}]")
        asm.op("cmp", "r4", "r5")
        asm.constant("r3", 2)
        with asm.loop("turn", 2):
            for _ in range(12):
                mnemonic, _, operands = random_line(rng).partition(" ")
                if "[" in operands:
                    _access(asm, mnemonic, operands)
                else:
                    asm.op(mnemonic, *operands.split(", "))
            asm.op("subs", "r3", "r3", "#1")
            asm.branch("bne", "turn")
        for register in REGISTERS:
            asm.op("str", register, "[r2], #4")
        asm.op("add", "sp", "sp", "#28")
        asm.op("pop", "{r4-r11, pc}")
        result, before = run(asm), asm.work()
        asm.reorder()
        assert run(asm) == result
        assert asm.work().cycles <= before.cycles
        saved += asm.work().cycles < before.cycles
    assert saved > 20


def test_comments_and_labels_stay_where_they_are() -> None:
    asm = loop(["subs r3, r3, #1", "strb r0, [r1]", "strb r2, [r1, #1]", "add r4, r4, #1"])
    places = [number for number, item in enumerate(asm.items) if not isinstance(item, Line)]
    asm.reorder()
    assert [number for number, item in enumerate(asm.items) if not isinstance(item, Line)] == places
