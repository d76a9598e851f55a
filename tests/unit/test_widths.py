# SPDX-License-Identifier: Apache-2.0
"""How wide instructions are made: as good as the best of all choices, by the timing rules themselves."""

from __future__ import annotations

import itertools
import random
import re

import pytest

from tinyc.machine.cores import CORES, CORTEX_M4
from tinyc.machine.instruction import Instruction
from tinyc.machine.op import Decoded, parse
from tinyc.machine.thumb import Asm
from tinyc.machine.widths import LONG, SHORT, Slot, choose

M4 = CORES["cortex-m4"]
LINES = {  # text, what it may take, whether it takes several cycles by itself
    "short": ("adds", "r0, r0, #1", (SHORT, LONG), False),
    "long": ("smlad", "r0, r1, r2, r0", (LONG,), False),
    "slow": ("ldrd", "r4, r5, [r9]", (LONG,), True),
    "fixed": ("nop", "", (SHORT,), False),
}


def cycles(kinds: tuple[str, ...], widths: tuple[int, ...]) -> int:
    """By the rules of the M4, from a word on."""
    ops: list[Decoded] = []
    address = 0x100
    for kind, width in zip(kinds, widths, strict=True):
        name, operands, _, _ = LINES[kind]
        ops.append(parse(Instruction(address, bytes(width), name, operands)))
        address += width
    return sum(M4.costs(ops))


def test_the_choice_is_the_best_of_all() -> None:
    """Least cycles, and of these the fewest bytes."""
    rng = random.Random(5)
    for _ in range(150):
        kinds = tuple(rng.choices(list(LINES), weights=[3, 6, 1, 1], k=9))
        slots = [Slot(LINES[kind][2], slow=LINES[kind][3]) for kind in kinds]
        every = itertools.product(*(slot.widths for slot in slots))
        best = min((cycles(kinds, widths), sum(widths)) for widths in every)
        chosen = tuple(choose(slots))
        assert (cycles(kinds, chosen), sum(chosen)) == best


def test_it_is_widened_where_it_runs_less_often() -> None:
    """Of two short instructions, both of which shift the loop, one must be wide; none costs cycles either way."""
    slots = [Slot((SHORT, LONG)), Slot((), 100, aligned=True), *[Slot((LONG,), 100)] * 4]
    assert choose(slots) == [LONG, 0, LONG, LONG, LONG, LONG]  # no filling up, which would run


def test_what_is_never_reached_from_above_is_filled_up() -> None:
    slots = [Slot((SHORT, LONG)), Slot((), 100, aligned=True, falls=False), *[Slot((LONG,), 100)] * 4]
    assert choose(slots)[0] == SHORT


def test_a_place_that_is_jumped_to_wants_its_long_instruction_on_a_word() -> None:
    slots = [Slot((SHORT, LONG)), Slot((), 10), Slot((LONG,), 10)]
    assert choose(slots) == [LONG, 0, LONG]
    slots = [Slot((SHORT, LONG)), Slot((LONG,)), Slot((LONG,), returns=True), Slot((LONG,))]
    assert choose(slots)[0] == LONG  # behind a call


def test_text_has_wide_instructions_in_loops_only_where_they_pay() -> None:
    asm = Asm(CORTEX_M4)
    with asm.loop("turn", 100):
        asm.op("ldr", "r0", "[r1]")
        for _ in range(3):
            asm.op("smlad", "r4", "r0", "r2", "r4")
        asm.op("subs", "r3", "r3", "#1")
        asm.op("mov", "r5", "r4")
        asm.branch("bne", "turn")
    asm.op("bx", "lr")
    wide = [line.split()[0] for line in asm.text() if re.search(r"\.w\b", line)]
    assert wide == ["ldr.w"]


@pytest.mark.parametrize("distance", [50, 80])
def test_a_far_branch_is_wide(distance: int) -> None:
    """Conditional branches reach 256 bytes; 4 a line is the most that lies between."""
    asm = Asm(CORTEX_M4)
    asm.branch("beq", "end", taken=1)
    for _ in range(distance):
        asm.op("smlad", "r4", "r0", "r2", "r4")
    asm.label("end")
    slots = asm._slots()
    assert slots[0].widths == ((SHORT, LONG) if distance == 50 else (LONG,))
