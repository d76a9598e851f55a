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
from tinyc.loops.expression import AddProduct, Element, Extreme, Node, Param, Saturate, Where, loads
from tinyc.loops.lines import LoopLines
from tinyc.loops.registers import NoRegisterError, Registers
from tinyc.loops.written import DSP, HELIUM, LoopCore, LoopFunction
from tinyc.machine.cores import CORES, CORTEX_M55, Core
from tinyc.machine.interpret import Machine
from tinyc.machine.listing import assembled, functions_in
from tinyc.machine.memory import Area, Bytes
from tinyc.machine.thumb import naked_function

CODE, STACK, APART = 0x8000, 0x3000, 0x400  # where things are, and from one object to the next
ON: list[tuple[LoopCore, Core]] = [(DSP, CORES[name]) for name in ("cortex-m4", "cortex-m7", "cortex-m33")]
ON.append((HELIUM, CORTEX_M55))


@dataclass(frozen=True)
class Case:
    """A loop with its numbers."""

    function: LoopFunction
    params: Mapping[str, int]
    inputs: list[np.ndarray]
    count: int

    @property
    def expected(self) -> np.ndarray:
        return np.broadcast_to(meaning(self.function.root, self.params, self.inputs), (self.count,)).astype(np.int8)

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
        case Element(number):
            value = inputs[number].astype(np.int64)
        case AddProduct(start, x, factor):
            value = meaning(start, params, inputs) + meaning(x, params, inputs) * params[factor.name]
        case Saturate(x, shift, zero, least, most):
            limits = [int(meaning(limit, params, inputs)[0]) for limit in (shift, zero, least, most)]
            value = np.clip((meaning(x, params, inputs) >> limits[0]) + limits[1], limits[2], limits[3])
        case Extreme(a, b, largest):
            sides = [meaning(side, params, inputs) for side in (a, b)]
            value = np.maximum(*sides) if largest else np.minimum(*sides)
        case Where(condition, a, b):
            sides = [meaning(side, params, inputs) for side in (condition, a, b)]
            value = np.where(sides[0] != 0, sides[1], sides[2])
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


CASES = [*map(drawn, range(60)), *map(drawn_bytes, range(60))]


@pytest.mark.parametrize(("on", "core"), ON, ids=[core.name for _, core in ON])
def test_every_core_gives_what_numpy_gives(on: LoopCore, core: Core) -> None:
    for case in CASES:
        asm = on.code(case.function, core)
        (lines,) = functions_in(naked_function("f", (), asm)).values()
        objects = [*([case.fields] if case.params else []), *(x.tobytes() for x in case.inputs)]
        areas = [Area(str(k), APART * (1 + k), bytearray(data), False) for k, data in enumerate(objects)]
        areas.append(Area("y", APART * (1 + len(areas)), bytearray(case.count), True))
        stack = Area("stack", STACK, bytearray(256))
        machine = Machine(assembled(lines, CODE), Bytes([*areas, stack]))
        count = [] if case.params else [case.count]
        machine.call(CODE, [*count, *(area.start for area in areas)], stack)
        np.testing.assert_array_equal(np.frombuffer(areas[-1].data, np.int8), case.expected, str(case.function.root))
        counted = on.module(case.function.root).work(asm, case.count).instructions
        # A branch forward is counted as not taken: what is jumped over is counted where there is nothing to do.
        assert 0 <= counted - sum(machine.executed.values()) <= 5


def test_c_gives_what_numpy_gives(tmp_path: Path) -> None:
    lines = ['#include "tc_math.h"', "#include <stdio.h>", "#include <stdlib.h>"]
    body, requests = [], b""
    for case in CASES:
        written = case.function.written(DSP, CORES["cortex-m4"])
        lines += [declared.text for declared in written.parts]
        lines.append(written.text.replace(f"#if {DSP.numbers.GUARD}", "#if 0"))
        names = [f"x{load.number}" for load in loads(case.function.root)]
        struct = case.function.struct or "int32_t"
        body.append(f"    {{\n        {struct} p;\n        if (!fread(&p, sizeof p, 1, stdin)) return 1;")
        for name, x in zip(names, case.inputs, strict=True):
            body.append(f"        int8_t *{name} = malloc({x.size});")
            body.append(f"        if (!fread({name}, {x.size}, 1, stdin)) return 1;")
        body.append(f"        int8_t *y = malloc({case.count});")
        first = "&p" if case.params else "p"
        body.append(f"        {case.function.name}({', '.join([first, *names, 'y'])});")
        body.append(f"        fwrite(y, {case.count}, 1, stdout);")
        body += [f"        free({name});" for name in (*names, "y")] + ["    }"]
        requests += case.fields + b"".join(x.tobytes() for x in case.inputs)
    (tmp_path / "unit.c").write_text("\n".join([*lines, "int main(void)", "{", *body, "    return 0;", "}", ""]))
    for name, text in with_included(["tc_math.h"]).items():
        (tmp_path / name).write_text(text)
    assert sanitized(tmp_path, ["unit.c"], requests) == b"".join(case.expected.tobytes() for case in CASES)


def test_a_value_takes_the_register_of_an_operand_that_dies() -> None:
    registers = Registers(["r4", "r5", "r6"], {"a": 1, "b": 2, "c": 1, "d": 1})
    assert [registers.define(name) for name in "ab"] == ["r4", "r5"]
    assert registers.define("c", ["b", "a"]) == "r4"  # b is read again
    assert registers.define("d", ["c", "b"]) == "r4"
    assert registers.define("e") == "r5"
    registers.define("f")
    with pytest.raises(NoRegisterError):
        registers.define("g")
