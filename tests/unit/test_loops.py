# SPDX-License-Identifier: Apache-2.0
"""Loops over elements: random expressions give on every core, by what its instructions mean, and in C with sanitizers,
what NumPy gives; nothing is read or written beyond the elements, and the counts are those of what ran."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from tests.ops.sanitized import sanitized
from tinyc.emit.headers import with_included
from tinyc.loops.expression import (
    AddProduct,
    Centred,
    Element,
    Extreme,
    HighSum,
    Nearest,
    Negative,
    Node,
    Number,
    OneLess,
    Param,
    Plus,
    Real,
    Saturate,
    SaturatedSum,
    Scaled,
    TableEntry,
    Where,
    has_words,
    loads,
    operands,
    result_type,
)
from tinyc.loops.helium import has_floats
from tinyc.loops.lines import LoopLines
from tinyc.loops.registers import NoRegisterError, Registers
from tinyc.loops.written import DSP, HELIUM, THUMB2, LoopCore, LoopFunction
from tinyc.machine.cores import CORES, CORTEX_M55, Core
from tinyc.machine.interpret import Machine
from tinyc.machine.listing import assembled, functions_in
from tinyc.machine.memory import Area, Bytes
from tinyc.machine.thumb import naked_function

TYPES = {"int8_t": np.int8, "int16_t": np.int16, "int32_t": np.int32, "float": np.float32}
CODE, STACK, APART = 0x10000, 0xC000, 0x1000  # where things are, and from one object to the next
ON: list[tuple[LoopCore, Core]] = [(DSP, CORES[name]) for name in ("cortex-m4", "cortex-m7", "cortex-m33")]
ON += [(HELIUM, CORTEX_M55), (THUMB2, CORES["cortex-m3"]), (THUMB2, CORES["cortex-m4"])]


@dataclass(frozen=True)
class Case:
    """A loop with its numbers."""

    function: LoopFunction
    params: Mapping[str, int]
    inputs: list[np.ndarray]
    count: int

    @property
    def expected(self) -> np.ndarray:
        values = meaning(self.function.root, self.params, self.inputs)
        return np.broadcast_to(values, (self.count,)).astype(TYPES[result_type(self.function.root)])

    @property
    def fields(self) -> bytes:
        return struct.pack(f"<{1 + len(self.params)}i", self.count, *self.params.values())


def meaning(node: Node | int, params: Mapping[str, int], inputs: list[np.ndarray]) -> np.ndarray:
    """An expression in NumPy."""
    match node:
        case int():
            value = np.array([node])
        case Param(name):
            value = np.array([params[name]])
        case Element(number, ctype="float"):
            value = inputs[number]
        case Element(number):
            value = inputs[number].astype(np.int64)
        case AddProduct(start, x, factor):
            value = meaning(start, params, inputs) + meaning(x, params, inputs) * meaning(factor, params, inputs)
        case SaturatedSum(a, b):
            value = np.clip(meaning(a, params, inputs) + meaning(b, params, inputs), -32768, 32767)
        case Saturate(x, shift, zero, least, most):
            limits = [int(meaning(limit, params, inputs)[0]) for limit in (shift, zero, least, most)]
            value = np.clip((meaning(x, params, inputs) >> limits[0]) + limits[1], limits[2], limits[3])
        case Extreme(a, b, largest):
            sides = [meaning(side, params, inputs) for side in (a, b)]
            value = np.maximum(*sides) if largest else np.minimum(*sides)
        case Where(condition, a, b):
            sides = [meaning(side, params, inputs) for side in (condition, a, b)]
            value = np.where(sides[0] != 0, sides[1], sides[2])
        case _:
            value = of_words(node, params, inputs)
    return np.asarray(value)


def of_words(node: Node, params: Mapping[str, int], inputs: list[np.ndarray]) -> np.ndarray:
    """What expressions of words have, or of high ones."""
    values = [meaning(each, params, inputs) for each in operands(node)]
    match node:
        case TableEntry():
            value = values[0].reshape(-1, 256)[np.arange(len(values[1])), 128 + values[1]]
        case Number(number) | Real(number):
            value = np.array([number])
        case Plus() | Centred():
            value = values[0] + values[1]
        case HighSum(twice=twice):
            product = values[0] * values[1]
            value = ((2 * product + 2**31 if twice else product) >> 32) + values[2]
        case OneLess():
            value = values[0] - (values[1] < 0)
        case Negative():
            value = np.minimum(values[0], 0)
        case Scaled(_, factor):
            value = values[0].astype(np.float32) * np.float32(factor.value)
        case Nearest(_, least):
            value = np.rint(np.where(values[0] > least.value, values[0], least.value)).astype(np.int64)
        case _:
            raise ValueError(node)
    return np.asarray(value)


def drawn_bytes(seed: int) -> Case:
    """A choice between the bytes of two inputs, of which the second may be one number, or by a third; or a copy."""
    rng = np.random.default_rng(seed)
    count, kind = int(rng.integers(1, 100)), seed % 4
    root: Node = Extreme(Element(0), Element(1, one=kind == 1), bool(rng.integers(2)))
    if kind == 2:
        root = Where(Element(0), Element(1), Element(2))
    if kind == 3:
        root = Element(0)
    sizes = {1: [count, 1], 2: [count] * 3, 3: [count]}.get(kind, [count] * 2)
    inputs = [rng.integers(-128, 128, size).astype(np.int8) for size in sizes]
    if kind == 2:
        inputs[0] *= rng.integers(0, 2, count).astype(np.int8)  # where half is 0
    name = f"bytes_{seed}"
    return Case(LoopFunction(name, "y", root, "", (), LoopLines((), count)), {}, inputs, count)


def drawn(seed: int) -> Case:
    """A sum of products of one input or two, of which the second may be one number, shifted: often beyond int8."""
    rng = np.random.default_rng(seed)
    count, shift = int(rng.integers(1, 100)), int(rng.integers(1, 25))
    kind = seed % 3  # one input, two, one and a number
    most = min(2**22, 2 ** (shift + int(rng.integers(0, 2))))
    params = {"a": int(rng.integers(-most, most)), "c": int(rng.integers(-(2**29), 2**29)) >> 30 - shift}
    total: Node = Param("c")
    if kind:
        params = {"a": params["a"], "b": int(rng.integers(-most, most)), "c": params["c"]}
    if kind == 2:
        total = AddProduct(total, Element(1, one=True), Param("b"))
    total = AddProduct(total, Element(0), Param("a"))
    if kind == 1:
        total = AddProduct(total, Element(1), Param("b"))
    sizes = [count, *([1 if kind == 2 else count] if kind else [])]
    inputs = [rng.integers(-128, 128, size).astype(np.int8) for size in sizes]
    name = f"loop_{seed}"
    function = LoopFunction(name, "y", Saturate(total, shift), f"{name}_t", tuple(params), LoopLines((), count))
    return Case(function, params, inputs, count)


def drawn_products(seed: int) -> Case:
    """Products of two inputs, of which the second may be one number, scaled by high words, or twice them."""
    rng = np.random.default_rng(seed)
    count, shift, one, twice = int(rng.integers(1, 70)), int(rng.integers(1, 17)), seed % 2 == 1, seed % 4 > 1
    minus = {name: int(rng.integers(-127, 129)) for name in ("x0_minus", "x1_minus")}
    params = {
        **minus,
        "start": int(rng.integers(-2000, 2000)),
        "mult": int(rng.integers(2**30, 2**31)),
        "add": int(rng.integers(-128, 128)) << shift,
    }
    minus0, minus1, start, mult, add = map(Param, params)
    x0, x1 = Element(0), Centred(Element(1, one), minus1)
    total = AddProduct(start, Centred(x0, minus0), x1)
    if one:
        total = AddProduct(AddProduct(start, x1, minus0), x0, x1)
    root = Saturate(HighSum(total, mult, OneLess(add, total) if twice else add, twice), shift)
    inputs = [rng.integers(-128, 128, size).astype(np.int8) for size in (count, 1 if one else count)]
    name = f"products_{seed}"
    function = LoopFunction(name, "y", root, f"{name}_t", tuple(params), LoopLines((), count))
    return Case(function, params, inputs, count)


def drawn_halves(seed: int) -> Case:
    """Sums of int16, of which many are too large."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 60))
    inputs = [rng.integers(-32768, 32768, count).astype(np.int16) for _ in range(2)]
    root = SaturatedSum(Element(0, ctype="int16_t"), Element(1, ctype="int16_t"))
    return Case(LoopFunction(f"halves_{seed}", "y", root, "", (), LoopLines((), count)), {}, inputs, count)


def drawn_words(seed: int) -> Case:
    """v times one factor, below 0 times another of its own, or of all."""
    rng = np.random.default_rng(seed)
    count, shift, one = int(rng.integers(1, 40)), int(rng.integers(1, 23)), bool(rng.integers(2))
    most = min(2**21, 2 ** (shift + 1))
    params = {
        "less": int(rng.integers(-127, 129)),
        "c": int(rng.integers(-(2**29), 2**29)) >> 22 - shift,
        "a": int(rng.integers(-most, most)),
    }
    v = Plus(Element(0), Param("less"))
    more = Element(1, one, "int32_t")
    root = Saturate(AddProduct(AddProduct(Param("c"), Negative(v), more), v, Param("a")), shift)
    inputs = [rng.integers(-128, 128, count).astype(np.int8), rng.integers(-most, most, 1 if one else count)]
    inputs[1] = inputs[1].astype(np.int32)
    name = f"words_{seed}"
    function = LoopFunction(name, "y", root, f"{name}_t", tuple(params), LoopLines((), count))
    return Case(function, params, inputs, count)


def drawn_floats(seed: int) -> Case:
    """Integers to float32, or back, some of which are infinite or no number."""
    rng = np.random.default_rng(seed)
    count, zero = int(rng.integers(1, 40)), int(rng.integers(-128, 128))
    scale = float(np.float32(10.0 ** rng.uniform(-4, 1)))
    if seed % 2:
        ctype = ("int8_t", "int16_t", "int32_t")[seed // 2 % 3]
        limits = np.iinfo(TYPES[ctype])
        inputs = [rng.integers(limits.min // 2, limits.max // 2, count).astype(TYPES[ctype])]
        root: Node = Scaled(Plus(Element(0, ctype=ctype), Number(-zero)), Real(scale))
    else:
        x = Scaled(Element(0, ctype="float"), Real(scale))
        root = Saturate(Nearest(x, Real(float(-128 - zero))), 0, Number(zero))
        inputs = [np.float32(rng.normal(0, 200 / scale, count))]
        inputs[0][rng.random(count) < 0.1] = rng.choice(np.float32([np.inf, -np.inf, np.nan, 3e9 / scale, 0]))
    return Case(LoopFunction(f"floats_{seed}", "y", root, "", (), LoopLines((), count)), {}, inputs, count)


def drawn_tables(seed: int) -> Case:
    """Bytes, each by a table of its own."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 11))
    inputs = [rng.integers(-128, 128, size).astype(np.int8) for size in (count, 256 * count)]
    root = TableEntry(Element(1), Element(0))
    return Case(LoopFunction(f"tables_{seed}", "y", root, "", (), LoopLines((), count)), {}, inputs, count)


CASES = [*map(drawn, range(60)), *map(drawn_bytes, range(60))]  # that every kind of core has
DRAWS = (drawn_products, drawn_halves, drawn_words, drawn_floats, drawn_tables)
FURTHER = [case for draw in DRAWS for case in map(draw, range(24))]


def takes(on: LoopCore, root: Node) -> bool:
    """Whether a kind of core has such loops."""
    if has_words(root):
        return on.words is not None and (on is HELIUM or not has_floats(root))
    return on is not THUMB2


@pytest.mark.parametrize(("on", "core"), ON, ids=[f"{core.name} {on.header}" for on, core in ON])
def test_every_core_gives_what_numpy_gives(on: LoopCore, core: Core) -> None:
    for case in (case for case in (*CASES, *FURTHER) if takes(on, case.function.root)):
        asm = on.code(case.function, core)
        (lines,) = functions_in(naked_function("f", (), asm)).values()
        objects = [*([case.fields] if case.params else []), *(x.tobytes() for x in case.inputs)]
        areas = [Area(str(k), APART * (1 + k), bytearray(data), False) for k, data in enumerate(objects)]
        areas.append(Area("y", APART * (1 + len(areas)), bytearray(case.expected.nbytes), True))
        stack = Area("stack", STACK, bytearray(256))
        machine = Machine(assembled(lines, CODE), Bytes([*areas, stack]))
        count = [] if case.params else [case.count]
        machine.call(CODE, [*count, *(area.start for area in areas)], stack)
        result = np.frombuffer(areas[-1].data, case.expected.dtype)
        np.testing.assert_array_equal(result, case.expected, str(case.function.root))
        counted = on.work(case.function, asm).instructions
        # A branch forward is counted as not taken: what is jumped over is counted where there is nothing to do.
        assert 0 <= counted - sum(machine.executed.values()) <= 5


def test_c_gives_what_numpy_gives(tmp_path: Path) -> None:
    lines = ['#include "tc_math.h"', "#include <stdio.h>", "#include <stdlib.h>"]
    body, requests = [], b""
    for case in (*CASES, *FURTHER):
        on = HELIUM if has_words(case.function.root) else DSP
        written = case.function.written(on, CORES["cortex-m4"])
        lines += [declared.text for declared in written.parts]
        lines.append(written.text.replace(f"#if {on.macro(case.function.root)}", "#if 0"))
        names = {f"x{load.number}": load.ctype.replace("void", "int8_t") for load in loads(case.function.root)}
        struct = case.function.struct or "int32_t"
        body.append(f"    {{\n        {struct} p;\n        if (!fread(&p, sizeof p, 1, stdin)) return 1;")
        for (name, ctype), x in zip(names.items(), case.inputs, strict=True):
            body.append(f"        {ctype} *{name} = malloc({x.nbytes});")
            body.append(f"        if (!fread({name}, {x.nbytes}, 1, stdin)) return 1;")
        body.append(f"        {result_type(case.function.root)} *y = malloc({case.expected.nbytes});")
        first = "&p" if case.params else "p"
        body.append(f"        {written.name}({', '.join([first, *names, 'y'])});")
        body.append(f"        fwrite(y, {case.expected.nbytes}, 1, stdout);")
        body += [f"        free({name});" for name in (*names, "y")] + ["    }"]
        requests += case.fields + b"".join(x.tobytes() for x in case.inputs)
    (tmp_path / "unit.c").write_text("\n".join([*lines, "int main(void)", "{", *body, "    return 0;", "}", ""]))
    for name, text in with_included(["tc_math.h"]).items():
        (tmp_path / name).write_text(text)
    assert sanitized(tmp_path, ["unit.c"], requests) == b"".join(case.expected.tobytes() for case in (*CASES, *FURTHER))


def test_a_value_takes_the_register_of_an_operand_that_dies() -> None:
    registers = Registers(["r4", "r5", "r6"], {"a": 1, "b": 2, "c": 1, "d": 1})
    assert [registers.define(name) for name in "ab"] == ["r4", "r5"]
    assert registers.define("c", ["b", "a"]) == "r4"  # b is read again
    assert registers.define("d", ["c", "b"]) == "r4"
    assert registers.define("e") == "r5"
    registers.define("f")
    with pytest.raises(NoRegisterError):
        registers.define("g")
