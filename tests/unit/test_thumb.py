# SPDX-License-Identifier: Apache-2.0
"""The assembler text builder."""

from __future__ import annotations

import pytest

from tinyc.machine.cores import CORTEX_M4
from tinyc.machine.lines import Line
from tinyc.machine.thumb import Asm, Work, naked_function


def test_branches_know_their_direction():
    asm = Asm(CORTEX_M4)
    asm.branch("b", "end")
    with asm.loop("again", 1, of_call=True):
        asm.branch("bne.w", "again")
    asm.label("end")
    assert asm.text() == ["b      1f", ".p2align 2", "2:", "bne.w  2b", "1:"]
    assert asm.work() == Work(instructions=2, cycles=4)  # a taken branch refills the pipeline: 2 cycles each


@pytest.mark.parametrize(
    ("value", "lines"),
    [
        (0, ["mov    r1, r2"]),
        (4095, ["add    r1, r2, #4095"]),
        (-8, ["sub    r1, r2, #8"]),
        (4096, ["movw   r1, #4096", "add    r1, r2, r1"]),
        (-70000, ["movw   r1, #61072", "movt   r1, #65534", "add    r1, r2, r1"]),
    ],
)
def test_add(value, lines):
    asm = Asm(CORTEX_M4)
    asm.add("r1", "r2", value)
    assert asm.text() == lines
    assert asm.work() == Work(len(lines), len(lines))


def test_add_of_nothing_in_place_is_nothing():
    asm = Asm(CORTEX_M4)
    asm.add("r1", "r1", 0)
    assert asm.work() == Work()


def test_large_add_in_place_wants_a_register():
    with pytest.raises(ValueError, match="another register"):
        Asm(CORTEX_M4).add("r1", "r1", 5000)


def test_load_multiple_takes_the_instruction_for_the_count():
    asm = Asm(CORTEX_M4)
    asm.load_multiple("r0", ["r1"])
    asm.load_multiple("r0", ["r1", "r2"])
    asm.load_multiple("r0", ["r1", "r2", "r9"])
    asm.load_multiple("r0", ["r1", "r2", "r9"], advance=False)
    assert asm.text() == [
        "ldr    r1, [r0], #4",
        "ldrd   r1, r2, [r0], #8",
        "ldm    r0!, {r1, r2, r9}",
        "ldm    r0, {r1, r2, r9}",
    ]


def test_naked_function_has_its_lines_as_strings():
    asm = Asm(CORTEX_M4)
    asm.op("bx", "lr")
    text = naked_function("f", ["int32_t a", "int8_t *b"], asm)
    assert "static TC_NAKED void f(\n    int32_t a TC_UNUSED,\n    int8_t *b TC_UNUSED)" in text
    assert '"bx     lr' in text
    assert text.count("#pragma GCC diagnostic push") == text.count("#pragma GCC diagnostic pop") == 1


def test_a_function_that_is_printed_again_is_the_same():
    asm = Asm(CORTEX_M4)
    with asm.loop("again", 9):
        for at in range(0, 32, 8):
            asm.op("ldr", "r4", f"[r0, #{at}]")
            asm.op("add", "r5", "r5", "r4")
            asm.op("str", "r5", f"[r1, #{at}]")
            asm.op("ldr", "r6", f"[r0, #{at + 4}]")
            asm.op("mul", "r6", "r6", "r5")
        asm.branch("bne.w", "again")
    asm.op("bx", "lr")
    first = naked_function("f", [], asm)
    assert all(naked_function("f", [], asm) == first for _ in range(3))


def test_cycles_are_counted_by_the_rules_of_the_core():
    asm = Asm(CORTEX_M4)
    counted = []
    for line in (
        ("ldr", "r4", "[r0, #4]"),
        ("ldr", "r5", "[r0, #8]"),  # overlaps
        ("ldr", "r6", "[r5]"),  # its address is the load before
        ("ldm", "r0!", "{r4-r7, r9}"),
        ("add", "r1", "sp", "#8"),
        ("stm", "r1", "{r2-r5}"),  # its address was just computed
        ("smlad", "r2", "r3", "r4", "r2"),
        ("vmov", "r10", "r11", "s0", "s1"),
        ("pop", "{r4-r11, pc}"),
    ):
        before = asm.work()
        asm.op(*line)
        counted.append((asm.work() - before).cycles)
    assert counted == [2, 1, 2, 6, 1, 6, 1, 2, 10 + 2]


def test_conditional_branches_are_taken_backwards_only():
    asm = Asm(CORTEX_M4)
    asm.branch("beq.w", "end")
    asm.label("end")
    assert asm.work() == Work(1, 1)
    asm.branch("beq.w", "end")
    assert asm.work() == Work(2, 3)


def test_loops_and_jumps_say_how_often_code_runs():
    """Two groups of three turns; the second group leaves in its middle."""
    asm = Asm(CORTEX_M4)
    asm.op("nop")
    with asm.loop("group", 2):
        asm.op("nop")
        with asm.loop("turn", 3):
            asm.op("nop")
            asm.branch("bne.w", "turn")
        asm.leave("beq.w", "done")
        asm.op("nop")
        asm.branch("b.w", "group")
    asm.label("done")
    asm.op("bx", "lr")
    counted = [often for item, often in zip(asm.items, asm.executions(), strict=True) if isinstance(item, Line)]
    assert counted == [1, 2, 6, 6, 2, 1, 1, 1]
    assert asm.work().instructions == sum(counted)


def test_a_subroutine_runs_as_often_as_it_is_called_wherever_it_stands():
    asm = Asm(CORTEX_M4)
    asm.branch("b.w", "start")
    asm.label("inner")
    asm.op("bx", "lr")
    asm.label("start")
    asm.branch("bl", "outer")
    with asm.loop("again", 4):
        asm.branch("bl", "inner")
        asm.branch("bne.w", "again")
    asm.op("pop", "{r4, pc}")
    asm.label("outer")
    asm.branch("b.w", "inner")
    counted = [often for item, often in zip(asm.items, asm.executions(), strict=True) if isinstance(item, Line)]
    assert counted == [1, 5, 1, 4, 4, 1, 1]


def test_units_are_counted_apart():
    asm = Asm(CORTEX_M4)
    with asm.loop("pair", "pair"):
        asm.branch("bl", "gather")
        asm.branch("bpl.w", "pair")
    with asm.per("last"):
        asm.branch("bl", "gather")
    asm.op("bx", "lr")
    asm.label("gather")
    asm.op("nop")
    asm.op("bx", "lr")
    assert [asm.work(unit).instructions for unit in ("", "pair", "last")] == [1, 4, 3]


def test_what_runs_for_one_unit_cannot_run_for_another():
    asm = Asm(CORTEX_M4)
    with pytest.raises(ValueError, match="for each pair"), asm.per("pair"), asm.per("row"):
        pass


def test_work_is_added_and_multiplied():
    one = Work(2, 3)
    assert 3 * (one + 1) == Work(9, 12)
    assert one + one - one == one


@pytest.mark.parametrize(
    ("saved", "restored", "lines"),
    [
        ({"frame": 8}, {}, ["push   {r4, lr}", "sub    sp, sp, #8", "add    sp, sp, #8", "pop    {r4, pc}"]),
        ({"frame": 512}, {}, ["push   {r4, lr}", "subw   sp, sp, #512", "addw   sp, sp, #512", "pop    {r4, pc}"]),
        ({"vectors": "{d8-d9}"}, {}, ["push   {r4, lr}", "vpush  {d8-d9}", "vpop   {d8-d9}", "pop    {r4, pc}"]),
        (
            {"core": "{r1, r4, lr}", "frame": 4},
            {"core": "{r4, lr}", "beside": 4},
            ["push   {r1, r4, lr}", "sub    sp, sp, #4", "add    sp, sp, #8", "pop    {r4, pc}"],
        ),
        ({"core": "{r4, r5}"}, {}, ["push   {r4, r5}", "pop    {r4, r5}", "bx     lr"]),
        (
            {"first": "{d8-d9}"},
            {},
            ["vpush  {d8-d9}", "push   {r4, lr}", "pop    {r4, lr}", "vpop   {d8-d9}", "bx     lr"],
        ),
    ],
)
def test_what_is_saved_is_restored(saved, restored, lines):
    asm = Asm(CORTEX_M4)
    lists = (saved.get("first", ""), saved.get("core", "{r4, lr}"), saved.get("vectors", ""))
    asm.save(*lists, frame=saved.get("frame", 0))
    asm.restore(**restored)
    assert asm.text() == lines


def test_high_registers_come_back_before_the_rest():
    asm = Asm(CORTEX_M4)
    asm.save("{r3-r7, lr}", "{r4-r7}")
    asm.restore(keep=1)
    asm.op("pop", "{r3}")
    asm.restore("{r4-r7, lr}")
    assert asm.text() == [
        *("push   {r3-r7, lr}", "push   {r4-r7}", "pop    {r4-r7}"),
        *("pop    {r3}", "pop    {r4-r7, pc}"),
    ]
