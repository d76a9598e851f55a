# SPDX-License-Identifier: Apache-2.0
"""Code for cores that wait for results, or begin two instructions in a cycle: results stay, cycles fall, and of single
loads the pointer moves once."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from tests.ops.weighted import Layer, graph_of
from tinyc.base.numerics import Numerics
from tinyc.board import load_board
from tinyc.choose.select import candidates
from tinyc.machine.cores import CORES, written_for
from tinyc.machine.dual_issue import CortexM7, CortexM33
from tinyc.machine.interpret import Machine
from tinyc.machine.lines import Line, line_of
from tinyc.machine.list_schedule import Addresses, Pipeline, better, dependences, scheduled
from tinyc.machine.listing import assembled
from tinyc.machine.memory import Area, Bytes
from tinyc.machine.op import Decoded
from tinyc.machine.schedule import apart
from tinyc.machine.single_loads import single_loads
from tinyc.machine.thumb import Asm
from tinyc.ops.conv2d import Conv2D

M7, M33 = CORES["cortex-m7"], CORES["cortex-m33"]
assert isinstance(M7, CortexM7)
assert isinstance(M33, CortexM33)
CORE_NAMES = ("cortex-m4", "cortex-m7", "cortex-m33")
POINT = Layer("conv2d", Conv2D(), (1, 4, 4, 8), (16, 1, 1, 8))
KERNEL = "tc_conv2d_s8_asm"
DATA, MORE, STACK = 0x20000000, 0x20001000, 0x30000000
REGISTERS = ("r4", "r5", "r6", "r7", "r8", "r9")


def line(text: str) -> Line:
    mnemonic, _, operands = text.partition(" ")
    for opening in "[{":
        if opening in operands:
            before, bracket, rest = operands.partition(opening)
            return line_of(mnemonic, (*(part for part in before.rstrip(", ").split(", ") if part), bracket + rest))
    return line_of(mnemonic, tuple(operands.split(", ")))


def lines(text: str) -> list[Line]:
    return [line(part.strip()) for part in text.split(";")]


def texts(lines_of_code: Sequence[Line]) -> list[str]:
    return [" ".join(one.text.split()) for one in lines_of_code]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("ldm r0!, {r1, r2, r3}", "ldr r1, [r0]; ldr r2, [r0, #4]; ldr r3, [r0, #8]; add r0, r0, #12"),
        ("ldm r0, {r1, r2}", "ldr r1, [r0]; ldr r2, [r0, #4]"),
        (
            "ldrd r1, r2, [r0], #8; ldr r3, [r0], #4",
            "ldr r1, [r0]; ldr r2, [r0, #4]; ldr r3, [r0, #8]; add r0, r0, #12",
        ),
        ("ldr r1, [r0, #4]!; strb r1, [r0, #1]", "ldr r1, [r0, #4]; strb r1, [r0, #5]; add r0, r0, #4"),
        ("ldr r1, [r0], #4; mov r2, r0", "ldr r1, [r0]; add r0, r0, #4; mov r2, r0"),  # who reads it, needs it
        ("ldr r9, [r0], #4; ldr r1, [r9], #4; ldr r9, [r0]", None),  # the pointer is another one then
        ("ldr r0, [r0], #4", "ldr r0, [r0], #4"),
        ("ldm r0!, {r1, r2}; stm r0!, {r1, r2}", "ldr r1, [r0]; ldr r2, [r0, #4]; add r0, r0, #8; stm r0!, {r1, r2}"),
        ("ldr r1, [r0], #-4; ldr r2, [r0], #-4", "ldr r1, [r0]; ldr r2, [r0, #-4]; sub r0, r0, #8"),
    ],
)
def test_single_loads(before: str, after: str | None) -> None:
    reloaded = texts(list(single_loads(lines(before))))
    if after is not None:
        assert reloaded == texts(lines(after))
    assert all("ldm" not in text and "4096" not in text.partition("]")[0] for text in reloaded)


def test_a_pointer_that_is_loaded_again_does_not_move_on() -> None:
    reloaded = texts(list(single_loads(lines("ldr r1, [r9], #8; ldr r9, [r0]; ldr r2, [r9]"))))
    assert reloaded == ["ldr r1, [r9]", "add r9, r9, #8", "ldr r9, [r0]", "ldr r2, [r9]"]


def test_a_pointer_moves_before_no_offset_reaches() -> None:
    moved = list(single_loads(lines("; ".join(["ldm r0!, {r1, r2, r3}"] * 1000))))
    moves = [one for one in texts(moved) if one.startswith("add")]
    assert sum(int(one.rpartition("#")[2]) for one in moves) == 12000
    assert all(int(one.rpartition("#")[2]) <= 4095 for one in moves)
    assert len(moves) == 3


PRODUCTS = "; ".join(
    f"ldm r0!, {{r9, r10, r11}}; ldrd r12, r14, [sp, #{8 * step}]; smlad r5, r14, r9, r5; smlad r1, r12, r9, r1; "
    "smlad r6, r14, r10, r6; smlad r2, r12, r10, r2; smlad r7, r14, r11, r7; smlad r3, r12, r11, r3"
    for step in range(16)
)


def cycles(lines_of_code: Sequence[Line], core: str) -> float:
    return sum(CORES[core].costs([one.op for one in lines_of_code]))


def test_products_hide_their_loads_on_the_m7() -> None:
    """One product begins in a cycle, with a load beside it: 96 products, and 3 cycles until the first."""
    before = lines(PRODUCTS)
    after = better(tuple(before), M7, Addresses(constants=frozenset({"r0"})))
    assert cycles(before, "cortex-m7") >= 1.5 * 96
    assert cycles(after, "cortex-m7") <= 96 + 6


def test_nothing_waits_on_the_m33() -> None:
    before = lines("; ".join(f"ldr r{4 + n}, [r0, #{4 * n}]; sxtb16 r{4 + n}, r{4 + n}" for n in range(6)))
    after = better(tuple(before), M33, Addresses())
    assert (cycles(before, "cortex-m33"), cycles(after, "cortex-m33")) == (18, 12)
    assert len(after) == len(before)


def test_what_is_stored_and_loaded_keeps_its_order() -> None:
    ops = [one.op for one in lines("strb r1, [r2]; ldr r3, [r4]; add r2, r2, #4; ldr r5, [r2, #-4]")]
    graph = dependences(ops, M7, Addresses())
    assert graph[0].keys() == {1, 2, 3}  # the byte may be in either word; its base moves between
    constant = dependences(ops, M7, Addresses(constants=frozenset({"r4"})))
    assert 1 not in constant[0]
    apart = [one.op for one in lines("str r1, [r2, #4]; ldr r3, [r2, #8]; str r4, [sp, #4]")]
    assert not dependences(apart, M7, Addresses(own_stack=True))[0]


def test_a_jump_stays_at_the_end() -> None:
    ops = [one.op for one in lines("ldr r1, [r0]; add r1, r1, #1; subs r3, r3, #1; bne 1b")]
    assert scheduled(ops, M7, Addresses()).numbers[-1] == 3


def random_text(rng: random.Random) -> str:
    a, b, c = (rng.choice(REGISTERS) for _ in range(3))
    first, second = rng.sample(REGISTERS, 2)
    base, place = rng.choice(("r0", "r1", "sp")), 4 * rng.randrange(4)
    some = "{" + ", ".join(sorted(rng.sample(REGISTERS, rng.choice((2, 3, 4))))) + "}"
    forms = (
        f"add {a}, {b}, {c}",
        f"adds {a}, {b}, #1",
        f"adc {a}, {b}, {c}",
        f"smlad {a}, {b}, {c}, {a}",
        f"sxtb16 {a}, {b}",
        f"ssat {a}, #8, {b}, asr #3",
        f"ldr {a}, [{base}, #{place}]",
        f"ldrsb {a}, [{base}, #{place + 1}]",
        f"str {a}, [{base}, #{place}]",
        f"strb {a}, [{base}, #{place + 2}]",
        f"ldr {a}, [r2], #4",
        f"str {a}, [r2], #4",
        f"ldr {a}, [r2, #4]!",
        f"ldm r2!, {some}",
        f"stm r2!, {some}",
        f"ldm r0, {some}",
        f"ldrd {first}, {second}, [r2], #8",
        f"strd {first}, {second}, [{base}, #{place}]",
    )
    return rng.choice(forms)


def a_loop(core: str, body: list[Line], rng: random.Random) -> Asm:
    asm = Asm(CORES[core])
    asm.op("push", "{r4-r11, lr}")
    for register in REGISTERS:
        asm.op("movw", register, f"#{rng.randrange(1 << 16)}")
    asm.op("sub", "sp", "sp", "#64")
    for at in range(0, 64, 4):
        asm.op("str", rng.choice(REGISTERS), f"[sp, #{at}]")
    asm.op("movw", "r10", "#3")
    asm.op("adds", "r11", "r10", "#0")
    with asm.loop("turn", 3):
        for one in body:
            mnemonic, _, operands = one.text.partition(" ")
            asm.op(mnemonic, operands.strip())
        asm.op("subs", "r10", "r10", "#1")
        asm.branch("bne", "turn")
    for at, register in enumerate(REGISTERS):
        asm.op("str", register, f"[r0, #{4 * at}]")
    asm.op("add", "sp", "sp", "#64")
    asm.op("pop", "{r4-r11, pc}")
    return asm


def run(asm: Asm) -> tuple[bytes, bytes]:
    """What a call leaves in memory."""
    data = Area("data", DATA, bytearray(range(64)))
    more = Area("more", MORE, bytearray(at & 0xFF for at in range(2048)))
    stack = Area("stack", STACK, bytearray(256))
    program = assembled([".syntax unified", *asm.text()], 0x100)
    Machine(program, Bytes([data, more, stack])).call(0x100, [DATA, DATA + 8, MORE], stack)
    return bytes(data.data), bytes(more.data)


@pytest.mark.parametrize("core", ["cortex-m7", "cortex-m33"])
def test_random_code_gives_the_same(core: str) -> None:
    faster = 0
    for seed in range(60):
        rng = random.Random(seed)
        body = [line(random_text(rng)) for _ in range(16)]
        asm = a_loop(core, body, rng)
        before, written = run(asm), sum(CORES[core].costs(ops_of(asm)))
        asm.reorder()
        assert run(asm) == before, (seed, texts(body))
        faster += sum(CORES[core].costs(ops_of(asm))) < written
    assert faster > 30


def keep_their_order(ops: Sequence[Decoded]) -> set[tuple[int, int]]:
    """Pairs of instructions whose order matters, each asked by itself."""
    pairs = set()
    for second, op in enumerate(ops):
        for first, earlier in enumerate(ops[:second]):
            flags = (earlier.row.flags and (op.row.flags or op.row.carries)) or (earlier.row.carries and op.row.flags)
            registers = earlier.writes & (op.reads | op.writes) or earlier.reads & op.writes
            stores = earlier.is_memory and op.is_memory and not (earlier.row.loads and op.row.loads)
            between = frozenset[str]().union(*(one.writes for one in ops[first:second]))
            if flags or registers or (stores and (between & earlier.address or not apart(earlier, op, own_stack=True))):
                pairs.add((first, second))
    return pairs


@pytest.mark.parametrize("core", [M7, M33], ids=lambda core: core.name)
def test_what_keeps_its_order_follows_from_the_dependences(core: Pipeline) -> None:
    for seed in range(100):
        rng = random.Random(seed)
        ops = [line(random_text(rng)).op for _ in range(20)]
        behind = [set(later) for later in dependences(ops, core, Addresses(own_stack=True))]
        for number in reversed(range(len(ops))):
            behind[number] = behind[number].union(*(behind[later] for later in behind[number]))
        reached = {(number, later) for number, those in enumerate(behind) for later in those}
        assert keep_their_order(ops) <= reached, seed


def test_accesses_wait_only_for_the_last_of_those_that_wait_for_each_other() -> None:
    count = 40
    ops = [line(f"{('ldr', 'str')[n % 2]} r4, [r{n % 2}, #{4 * n}]").op for n in range(2 * count)]
    assert sum(map(len, dependences(ops, M7, Addresses()))) <= 4 * count


def ops_of(asm: Asm) -> list[Decoded]:
    return [item.op for item in asm.items if isinstance(item, Line)]


def test_a_core_without_rules_is_written_for_by_those_of_the_m4() -> None:
    cores = [written_for(name) for name in ("cortex-m7", "cortex-m4", "cortex-m55", "cortex-m3")]
    cores += [written_for("cortex-m4", slow_flash=True), written_for("cortex-m7", slow_flash=True)]
    assert [core.name for core in cores] == ["Cortex-M7", "Cortex-M4", *["about Cortex-M4"] * 3, "Cortex-M7"]


def test_what_is_about_right_only_is_written_the_same() -> None:
    """By the M4's rules on another core, or beside slow flash: only what is compared differs."""
    graph, isa = graph_of(POINT), load_board("cortex-m4").isa
    offers = [
        candidates(graph, isa, Numerics.TFLM, {"layer": KERNEL}, core=core)["layer"][0].offer
        for core in (written_for("cortex-m4"), written_for("cortex-m4", slow_flash=True))
    ]
    texts = [offer.special().text for offer in offers if offer.special]
    assert texts[0] == texts[1]
    assert offers[0].cost == offers[1].cost


def test_layers_are_chosen_and_written_for_the_core() -> None:
    """The same kernel of the same layer: another order, and other cycles."""
    graph, isa = graph_of(POINT), load_board("cortex-m7").isa
    choices = [candidates(graph, isa, Numerics.TFLM, {"layer": KERNEL}, core=written_for(name)) for name in CORE_NAMES]
    offers = [own["layer"][0].offer for own in choices]
    texts = [offer.special().text for offer in offers if offer.special]
    assert len(set(texts)) == len({own["layer"][0].cost.cycles for own in choices}) == len(CORE_NAMES)


@pytest.mark.parametrize("core", [M7, M33], ids=lambda core: core.name)
def test_no_order_takes_fewer_cycles_than_the_bound(core: Pipeline) -> None:
    near = 0
    for seed in range(100):
        rng = random.Random(seed)
        ops = [line(random_text(rng)).op for _ in range(20)]
        cycles, bound = scheduled(ops, core, Addresses(own_stack=True)).cycles, core.least(ops)
        assert bound <= cycles
        near += cycles <= 1.5 * bound
        for _ in range(5):
            rng.shuffle(ops)
            assert bound == core.least(ops) <= sum(core.costs(ops))
    assert near > 10


def test_an_instruction_waits_for_all_that_it_sees() -> None:
    """By the definition: each as early as its operands are there, which is asked of each of the last seven."""
    for seed in range(200):
        rng = random.Random(seed)
        ops = [line(random_text(rng)).op for _ in range(20)]
        begun: list[int] = []
        free, end = None, 0
        for number, op in enumerate(ops):
            seen = range(max(0, number - 7), number)
            ready = max([begun[n] + M7.lag(ops[n], op) for n in seen if ops[n].writes & op.touched], default=0)
            last = begun[-1] if begun else 0
            if free is not None and ready <= last and M7.pairs(M7.pairing(free), M7.pairing(op)):
                begun.append(last)
                free = None
            else:
                begun.append(max(ready, end, last))
                end, free = begun[-1] + M7.alone(op), op if M7.alone(op) == 1 else None
        assert sum(M7.costs(ops)) == end
