# SPDX-License-Identifier: Apache-2.0
"""The inner loops of cores without DSP: every core's table gives the sums that numpy gives, run by what instructions
mean, with objects that end where the contract says, and with a debugger that looks for the caller at each instruction;
and so does the C, on this computer with sanitizers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from interpreted import run_alone

from tests.ops.sanitized import sanitized
from tinyc.base.errors import TinycError
from tinyc.board import load_board
from tinyc.emit.headers import header_text, with_included
from tinyc.kernels.scalar.loops import products
from tinyc.kernels.scalar.loops.costs import ARMV7M_SHARE, executed
from tinyc.kernels.scalar.loops.headers import ALL, NAMES, cores_of, loops_of
from tinyc.kernels.scalar.loops.products import Products
from tinyc.kernels.scalar.loops.rv32 import Rv32Pairs
from tinyc.kernels.scalar.loops.thumb1 import Thumb1Pairs, Thumb1Products
from tinyc.kernels.scalar.loops.thumb2 import Thumb2Pairs, Thumb2Products
from tinyc.toolchain.compilers import find_toolchain

MACROS = {"cortex-m3": "TC_SCALAR_THUMB2", "cortex-m0plus": "TC_SCALAR_THUMB1", "riscv32imc": "TC_RV32_ASM"}
LANES = {"cortex-m3": 4, "cortex-m0plus": 2, "riscv32imc": 8, "": 4}  # of products of tiles; "": the C
APART = 0x4000  # from one object to the next


@dataclass(frozen=True)
class Call:
    """A call with the objects `a` to `c` and what the last of them is then."""

    header: str
    text: str
    objects: tuple[np.ndarray, ...]
    expected: np.ndarray
    adjoin: bool = False  # whether the last object lies right behind the first


def _words(seed: int, *shape: int, bits: int = 32) -> np.ndarray:
    """Signed numbers of so many bits."""
    return np.random.default_rng(seed).integers(-(1 << bits - 1), 1 << bits - 1, shape)


def _modulo(sums: np.ndarray) -> np.ndarray:
    return (sums & 0xFFFFFFFF).astype(np.uint32).view(np.int32).ravel()


def _dot(board: str, taps: int) -> Call:
    x, w = _words(1, taps, 2), _words(2, taps, 8, bits=8)
    expected = _modulo(np.einsum("ti,tl->li", x, w[:, :4]))
    objects = (x.astype(np.int32), w.astype(np.int8).ravel()[:-4], np.zeros(8, np.int32))
    return Call("tc_scalar_dot.h", f"tc_scalar_dot4(a, b, {taps // 2}, c)", objects, expected)


def _dense(board: str, taps: int) -> Call:
    x, w = _words(3, taps), _words(4, taps, 4, bits=8)
    objects = (x.astype(np.int32), w.astype(np.int8), np.zeros(4, np.int32))
    return Call("tc_scalar_dense.h", f"tc_scalar_dense4(a, b, {taps // 4}, c)", objects, _modulo(x @ w))


def _nibbles(board: str, taps: int) -> Call:
    x, w = _words(5, taps, 2), _words(6, taps, 4, bits=4)
    places = np.array([[28, 24, 12, 8], [20, 16, 4, 0]])
    words = ((w.reshape(-1, 2, 4) & 15) << places).sum(axis=(1, 2)).astype(np.uint32)
    expected = _modulo(np.einsum("ti,tl->li", x, w))
    text = f"tc_scalar_nibbles4(a, b, (const int32_t *)a + {2 * taps}, c)"
    return Call("tc_scalar_nibbles.h", text, (x.astype(np.int32), words, np.zeros(8, np.int32)), expected)


def _tiles(narrow: bool, four: bool) -> Callable[[str, int], Call]:
    """Three dot products; four: the form of RV32 for four lanes."""

    def call_of(board: str, taps: int) -> Call:
        lanes = 4 if four else LANES[board]
        x, w = _words(7, 3, taps, 2, bits=16 if narrow else 32), _words(8, 2, 3, taps, 4, bits=16)
        used = np.concatenate([w[0], w[1]], axis=2)[:, :, :lanes]
        kind = "narrow_products" if narrow else "products"
        text = f"tc_scalar_{kind}{'4' * four}(a, b, {taps * (4 if narrow else 8)}, c)"
        weights = w.astype(np.int16)[: 2 if lanes == 8 else 1]
        flat = weights.ravel()[: weights.size - (4 - lanes if lanes < 4 else 0)]
        objects = (x.astype(np.int16 if narrow else np.int32), flat, np.zeros(6 * lanes, np.int32))
        expected = _modulo(np.einsum("pti,ptl->pli", x, used))
        return Call(f"tc_scalar_{kind}.h", text, objects, expected, adjoin=True)

    return call_of


def _pairs(segment: int) -> Callable[[str, int], Call]:
    def call_of(board: str, taps: int) -> Call:
        words = taps // 4 * segment
        x, w = _words(9, words // segment, 1 + 2 * segment), _words(10, 2, words, 4) & 0xFFFFFFFF
        start, pairs = x[:, 0], x[:, 1:].reshape(-1, segment, 2)
        by_segment = w.transpose(1, 0, 2).reshape(-1, segment, 8)
        low, high = by_segment & 0x00FF00FF, by_segment >> 8 & 0x00FF00FF
        sums = start[:, None] + (pairs[:, :, :1] * low + pairs[:, :, 1:] * high).sum(axis=1)
        expected = _modulo((_modulo(sums).reshape(sums.shape).astype(np.int64) >> 16).sum(axis=0))
        objects = (x.astype(np.int32), w.astype(np.uint32), np.zeros(8, np.int32))
        return Call("tc_scalar_pair_sums.h", f"tc_scalar_pairs_{segment}(a, b, {words}, c)", objects, expected)

    return call_of


def _columns(stride: int) -> Callable[[str, int], Call]:
    def call_of(board: str, taps: int) -> Call:
        n = taps + 1
        whole = -(-n // 3) * 3 if stride == 1 else n
        count = whole + 2 if stride == 1 else 2 * n + 1
        x, w = _words(11, count, 3, bits=8), _words(12, 3, 3, bits=8)
        bytes_of = x & 0xFF
        column = bytes_of[:, 0] | bytes_of[:, 1] << 8 | bytes_of[:, 2] << 24
        sums = [sum((x[stride * i + k] * w[:, k]).sum() for k in range(3)) for i in range(whole)]
        expected = np.concatenate([np.array(sums, np.int32), _modulo(column[whole:])])
        objects = (w.astype(np.int8), np.zeros(4, np.int8), _modulo(column))
        return Call("tc_scalar_columns.h", f"tc_scalar_dw3x3_{stride}(c, a, {n})", objects, expected)

    return call_of


MAKERS: Mapping[str, Callable[[str, int], Call]] = {
    "dot": _dot,
    "dense": _dense,
    "nibbles": _nibbles,
    "tiles": _tiles(False, False),
    "narrow tiles": _tiles(True, False),
    "narrow tiles of four": _tiles(True, True),
    "pairs of 2": _pairs(2),
    "pairs of 4": _pairs(4),
    "columns": _columns(1),
    "columns, stride 2": _columns(2),
}


def _calls(board: str) -> Sequence[Call]:
    """Calls with one turn of the loop, and with several."""
    calls = []
    for name, make in MAKERS.items():
        if (name == "narrow tiles of four") <= (board == "riscv32imc"):
            calls += [make(board, 4), make(board, 12)]
    here = {function.core for header in NAMES for function in loops_of(header).functions}
    assert here == set(MACROS.values())
    cores = {header: {function.core for function in loops_of(header).functions} for header in NAMES}
    return [call for call in calls if not board or MACROS[board] in cores[call.header]]


@pytest.mark.parametrize("board_name", MACROS)
def test_every_core_by_what_its_instructions_mean(board_name: str, tmp_path: Path) -> None:
    board = load_board(board_name)
    try:
        compiler = find_toolchain(board, "gcc")
    except TinycError as error:
        pytest.skip(error.message)
    calls, macro = _calls(board_name), MACROS[board_name]
    assert len(calls) >= 10
    for name, text in with_included(["tc_scalar.h"]).items():
        (tmp_path / name).write_text(text)
    functions = {function.name: function.text for header in NAMES for function in _of(header, macro)}
    shared = [loops_of(header).calls.get(macro, "") for header in NAMES]
    (tmp_path / "unit.h").write_text("\n".join(['#include "tc_scalar.h"', *functions.values(), *shared]))
    for number, call in enumerate(calls):
        places = [0, APART, call.objects[0].nbytes if call.adjoin else 2 * APART]
        names = "\n".join(f"    void *{name} = arena + {at};" for name, at in zip("abc", places, strict=True))
        body = f"{names}\n    (void)a, (void)b, (void)c;\n    {call.text};\n    return {number};\n"
        (tmp_path / "unit.c").write_text(f'#include "unit.h"\nint unit_run(char *arena)\n{{\n{body}}}\n')
        data = [(at, one.tobytes()) for at, one in zip(places, call.objects, strict=True)]
        output = run_alone(tmp_path, compiler, data)
        assert output[2] == call.expected.tobytes(), call.text


def _of(header: str, macro: str) -> list:
    return [function for function in loops_of(header).functions if function.core == macro]


def test_the_c_of_other_machines(tmp_path: Path) -> None:
    calls = _calls("")
    lines = [
        "#include <stdio.h>",
        "#include <stdlib.h>",
        *(f'#include "{name}"' for name in NAMES),
        "int main(void)",
        "{",
    ]
    for call in calls:
        sizes = [one.nbytes for one in call.objects]
        first = sizes[0] + sizes[2] if call.adjoin else sizes[0]
        lines.append(f"    {{\n        char *const a = malloc({first}), *const b = malloc({sizes[1]});")
        lines.append(f"        char *const c = {f'a + {sizes[0]}' if call.adjoin else f'malloc({sizes[2]})'};")
        reads = [f"fread({name}, 1, {size}, stdin) != {size}" for name, size in zip("abc", sizes, strict=True)]
        lines.append(f"        if ({' || '.join(reads)}) return 1;")
        lines.append(f"        {_typed(call.text)};\n        fwrite(c, 1, {sizes[2]}, stdout);")
        lines.append(f"        free(a);\n        free(b);{'' if call.adjoin else ' free(c);'}\n    }}")
    (tmp_path / "unit.c").write_text("\n".join([*lines, "    return 0;", "}", ""]))
    for name, text in with_included(NAMES).items():
        (tmp_path / name).write_text(text)
    requests = b"".join(one.tobytes() for call in calls for one in call.objects)
    assert sanitized(tmp_path, ["unit.c"], requests) == b"".join(call.expected.tobytes() for call in calls)


def _typed(text: str) -> str:
    """Pointers without a type, as parameters take them."""
    head, _, arguments = text.partition("(")
    for name in "abc":
        arguments = arguments.replace(f"{name},", f"(void *){name},").replace(f"{name})", f"(void *){name})")
    return f"{head}({arguments}".replace("(const int32_t *)a", "(const int32_t *)(void *)a")


def _instructions(core: Thumb1Products | Thumb2Products | Thumb1Pairs | Thumb2Pairs) -> int:
    return core.asm.work("segment" if hasattr(core, "segment") else "turn").instructions


@pytest.mark.parametrize(
    ("loop", "thumb2", "thumb1"),
    [
        (products.DOT, 28, 26),
        (products.DENSE, 35, 54),
        (products.NIBBLES, 57, 58),
        (products.TILES, 54, 50),
        (products.NARROW_TILES, 58, 64),
    ],
)
def test_instructions_of_a_turn(loop: Products, thumb2: int, thumb1: int) -> None:
    """Of four lanes of inputs on ARMv7-M, of two (one input: of four) on ARMv6-M."""
    cores = Thumb2Products(loop), Thumb1Products(loop)
    for core in cores:
        core.write()
    assert tuple(map(_instructions, cores)) == (thumb2, thumb1)


@pytest.mark.parametrize("board_name", [*MACROS, "host"])
def test_a_library_has_the_loops_of_its_core(board_name: str) -> None:
    board = load_board(board_name)
    expected_cores = {MACROS[board_name]} if board_name in MACROS else set()
    assert cores_of(board.core, board.isa) == expected_cores
    for name in NAMES:
        text = header_text(name, cores_of(board.core, board.isa))
        assert {macro for macro in ALL if macro in text} == expected_cores & {f.core for f in loops_of(name).functions}
        assert loops_of(name).plain in text


def test_what_a_call_executes_is_read_off_its_functions() -> None:
    """A call of eight outputs comes to four functions of two on Arm; of RV32 there is one, on ARMv7-M's scale."""
    thumb2, thumb1, rv32 = frozenset({"thumb2"}), frozenset[str](), frozenset({"rv32m"})
    cores = Thumb2Pairs(4), Thumb1Pairs(4), Rv32Pairs(4)
    for core in cores:
        core.write()
    for core, isa, share in zip(cores, (thumb2, thumb1, rv32), (4, 4 * 0.5, ARMV7M_SHARE), strict=True):
        call, segment = (core.asm.work(unit).instructions for unit in ("", "segment"))
        assert executed("tc_scalar_pairs_4", isa, segment=10) == pytest.approx(share * (call + 10 * segment))
    assert executed("tc_scalar_dense4", thumb2, turn=3) == 7 + 3 * 35
    assert executed("tc_scalar_dense4", rv32, turn=3) == 7 + 3 * 35  # C there, taken for as good
    with pytest.raises(ValueError, match="turns by turn"):
        executed("tc_scalar_dense4", thumb2, segment=3)
