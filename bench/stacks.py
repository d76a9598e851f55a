# SPDX-License-Identifier: Apache-2.0
"""How deep the stack of compiled functions can get: frames as debuggers are told of them, along all calls.

    python bench/stacks.py [BOARD ...]

compiles the layers of the tests with every kernel that takes them, and writes into tinyc/explain/measured_costs.json
what their steps take, where that is more than what proofs of models (`bench/estimates.py`) said of the kernel.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from elftools.dwarf.callframe import FDE
from elftools.elf.elffile import ELFFile
from tables import ROOT

sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "target")]

from kernel_cases import Together, roomy, together, write_library  # noqa: E402  as tests run all kernels

from tinyc.base.errors import TinycError  # noqa: E402
from tinyc.base.numerics import Numerics  # noqa: E402
from tinyc.board import Board, load_board  # noqa: E402
from tinyc.explain.estimate import assembly_stack_bytes  # noqa: E402
from tinyc.toolchain.compile import Sources, compile_firmware  # noqa: E402
from tinyc.toolchain.compilers import find_toolchain  # noqa: E402
from tinyc.toolchain.disassembly import disassemble  # noqa: E402
from tinyc.toolchain.elf import Elf  # noqa: E402

COSTS = ROOT / "tinyc" / "explain" / "measured_costs.json"
BOARDS = ("cortex-m4", "cortex-m7", "cortex-m33", "cortex-m55", "cortex-m3", "cortex-m0plus", "riscv32imc")


def main() -> int:
    costs = json.loads(COSTS.read_text(encoding="utf-8"))
    for name in sys.argv[1:] or BOARDS:
        board = load_board(name)
        stacks = costs["stack"].setdefault(board.core, {})
        for numerics in (Numerics.TFLM, Numerics.LITERT):
            for kernel, size in steps_of(together(board.isa, numerics), board, numerics):
                stacks[kernel] = max(stacks.get(kernel, 0), size)
    COSTS.write_text(json.dumps(costs, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return 0


def steps_of(network: Together, board: Board, numerics: Numerics) -> Iterator[tuple[str, int]]:
    """The kernel of each step and the bytes that it takes beside functions in assembly; what does not fit the machine
    is compiled in halves."""
    try:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            program = write_library(network, folder, board.isa, numerics)
            toolchain = find_toolchain(board, "gcc")
            firmware = compile_firmware(Sources(folder, "all"), roomy(board), toolchain, "speed", folder / "firmware")
            elf = firmware.read_elf()
            depths, functions = depths_of(firmware.elf, elf), elf.step_functions("all")
    except TinycError as error:
        if "does not fit the board" not in error.message or len(network.graph.nodes) == 1:
            raise
        for half in network.halves():
            yield from steps_of(half, board, numerics)
        return
    for step in program.steps:
        deepest = depths.get(functions[step.index].name, 0)
        yield step.choice.kernel.name, max(deepest - assembly_stack_bytes(step), 0)


_CALLS = re.compile(r"(bl?|jal|j|c\.jal|c\.j)")  # beside branches within the function, whose targets are no functions
_INDIRECT = re.compile(r"(blx|bx|jalr|c\.jalr|jr)")
_TARGET = re.compile(r"(?:.*, *)?#?(-?)0x([0-9a-f]+)")


def depths_of(path: Path, elf: Elf) -> Mapping[str, int]:
    """Bytes of stack that each function of a firmware takes at most, with all that it calls. A call through a pointer
    may reach any function whose own calls are none."""
    frames = dict(_frames(path))
    calls: dict[str, set[str]] = {}
    starts = {symbol.address & ~1: symbol.name for symbol in elf.symbols if symbol.address & ~1 in frames}
    indirect: set[str] = set()
    for address, instruction in disassemble(elf).items():
        symbol = elf.function_at(address)
        if symbol is None:
            continue
        name = symbol.name
        if _CALLS.fullmatch(instruction.mnemonic):
            match = _TARGET.fullmatch(instruction.operands)
            target = None if match is None else int(match[2], 16) * (-1 if match[1] else 1)
            for place in () if target is None else (target, address + target):
                if place in starts and place != symbol.address & ~1:
                    calls.setdefault(name, set()).add(starts[place])
        elif _INDIRECT.fullmatch(instruction.mnemonic) and instruction.operands not in ("lr", "ra"):
            indirect.add(name)
    own = {starts[at]: size for at, size in frames.items() if at in starts}
    leaf = max((size for name, size in own.items() if name not in calls and name.startswith("tc_")), default=0)
    depth_by_function: dict[str, int] = {}

    def depth(name: str, above: frozenset[str]) -> int:
        if name not in depth_by_function:
            inner = [depth(other, above | {name}) for other in calls.get(name, ()) if other not in above]
            depth_by_function[name] = own.get(name, 0) + max([*inner, leaf * (name in indirect)], default=0)
        return depth_by_function[name]

    return {name: depth(name, frozenset()) for name in own}


def _frames(path: Path) -> Iterator[tuple[int, int]]:
    """Start of each function and the most bytes between its stack pointer and its caller's."""
    with path.open("rb") as stream:
        dwarf = ELFFile(stream).get_dwarf_info()
        entries = [
            *(dwarf.CFI_entries() if dwarf.has_CFI() else ()),
            *(dwarf.EH_CFI_entries() if dwarf.has_EH_CFI() else ()),
        ]
        for entry in entries:
            if isinstance(entry, FDE):
                rows = entry.get_decoded().table
                yield entry.header["initial_location"] & ~1, max((row["cfa"].offset or 0 for row in rows), default=0)


if __name__ == "__main__":
    sys.exit(main())
