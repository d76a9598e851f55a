# SPDX-License-Identifier: Apache-2.0
"""Compiled libraries, run by the meanings of their instructions (`tinyc/machine/interpret.py`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from kernel_cases import Together, write_library
from unwound import Rv32Watched, Tables, Told, Watched, frames, learn

from tests.ops.harness import OneStepPlan
from tests.ops.row_harness import Layer, Layers, cases
from tests.ops.row_program import Case
from tinyc.base.numerics import Numerics
from tinyc.board import Board
from tinyc.board.instruction_set import RISCV
from tinyc.choose.select import ask
from tinyc.ir.graph import Graph, Node
from tinyc.kernel.kernel import Refused
from tinyc.kernel.site import Site
from tinyc.machine.cores import written_for
from tinyc.machine.instruction import Instruction
from tinyc.machine.interpret import Code, Program
from tinyc.machine.lines import emitted
from tinyc.machine.listing import (
    assembled,
    assembled_plain,
    disassembled,
    disassembled_riscv,
    for_macro,
    functions_in,
)
from tinyc.machine.memory import Area, Bytes
from tinyc.machine.riscv import BITS
from tinyc.machine.rv32_table import parse_riscv
from tinyc.ops import all_ops
from tinyc.toolchain.compilers import Toolchain
from tinyc.toolchain.disassembly import disassemble
from tinyc.toolchain.elf import Elf, read_elf

_CODE, _OWN = 0x10000, 0x4000000  # where the linker puts all, and where functions from the text are
_LEAST_SHARE = 0.9  # of the instructions, at least, have a caller that a debugger can find
_ARENA, _STACK, _STACK_BYTES = 0x20000000, 0x30000000, 8192
_MISREAD = frozenset({"tc_mean_s8_mve"})  # ends in C, with long shifts
_HELPERS = """
typedef unsigned size_t;
void *memcpy(void *to, const void *from, size_t n)
{ for (size_t i = 0; i < n; i++) ((char *)to)[i] = ((const char *)from)[i]; return to; }
void *memmove(void *to, const void *from, size_t n)
{ if (to < from) return memcpy(to, from, n); while (n--) ((char *)to)[n] = ((const char *)from)[n]; return to; }
void *memset(void *to, int value, size_t n)
{ for (size_t i = 0; i < n; i++) ((char *)to)[i] = (char)value; return to; }
"""


def outputs_of(
    network: Together, board: Board, compiler: Toolchain, numerics: Numerics, folder: Path, core: str = "cortex-m4"
) -> list[bytes]:
    """The bytes of every output of the graph, after a run of the library that is compiled for the board. core: whose
    order instructions have.

    Every tensor, every constant and the scratch are objects of their own; an access beyond one is a Fault. So is an
    instruction of a function in assembly at which a debugger would not find the caller as it is."""
    program, graph = write_library(network, folder, board.isa, numerics, written_for(core)), network.graph
    places = OneStepPlan(graph, 0)
    sizes = {name: (places.offset(name), graph.values[name].size_bytes) for name in (*graph.inputs, *graph.outputs)}
    start = places.scratch_offset("")
    sizes["scratch"] = start, program.arena_bytes - start
    areas = {name: Area(name, _ARENA + at, bytearray(b"\xa5" * size)) for name, (at, size) in sizes.items()}
    for name, data in zip(graph.inputs, network.requests[0], strict=True):
        areas[name].data[:] = data
    assert _called(folder, "all", "all_run", areas.values(), compiler) == 0
    return [bytes(areas[name].data) for name in graph.outputs]


def check_rows_interpreted(name: str, layer: Layer, board: Board, compiler: Toolchain, folder: Path) -> int:
    """Assert that the row forms in assembly give the reference's bytes, where every row of a tensor is an object of its
    own; how many there are. For a core with Helium only those with vectors: the others are as elsewhere, and the
    disassembler misreads what compilers make of C for such a core."""
    assembly_cases = [
        case for case in cases(layer[0], isa=board.isa, all_forms=True, scalar=False) if _is_assembly(case)
    ]
    assembly_cases = [case for case in assembly_cases if "mve" in case.kernel.isa or "mve" not in board.isa]
    assembly_cases = [case for case in assembly_cases if case.kernel.name not in _MISREAD]
    if not assembly_cases:
        return 0
    work = Layers.of_cases({name: layer}, [name] * len(assembly_cases), assembly_cases, Numerics.TFLM)
    for file, text in work.program.files().items():
        (folder / file).write_text(text)
    areas = {at: Area(f"{at}", _ARENA + at, bytearray(b"\xa5" * size)) for at, size in work.program.places}
    tensors = [at for case in work.program.tensors for at in case]
    for at, data in zip(tensors, work.inputs[0], strict=True):
        areas[at].data[:] = data
    _called(folder, "unit", "unit_all", areas.values(), compiler)
    work.compare(0, [bytes(areas[at].data) for at in work.program.results])
    return len(assembly_cases)


def _is_assembly(case: Case) -> bool:
    return case.form.special is not None and "__asm__" in case.form.special().text


def _called(folder: Path, name: str, entry: str, areas: Iterable[Area], compiler: Toolchain) -> int:
    """What the function gives that gets the arena, of the library in the folder; the areas are what the arena holds."""
    elf = linked(folder, compiler, name)
    stack = Area("stack", _STACK, bytearray(_STACK_BYTES))
    memory = Bytes([*areas, stack, *_constants(elf)])
    text = "".join(file.read_text() for file in sorted(folder.glob(f"{name}*.[ch]")))
    told, tables = Told(), frames(folder / f"{name}.elf")
    if elf.machine == RISCV.elf:
        machine: Rv32Watched | Watched = Rv32Watched(_riscv_program(elf, text, tables, told), memory, told)
    else:
        machine = Watched(_program(elf, text, tables, told), memory, told)
    assert told.share > _LEAST_SHARE
    return machine.call(elf.symbol(entry).address, [_ARENA], stack)


def run_alone(folder: Path, compiler: Toolchain, objects: Sequence[tuple[int, bytes]]) -> list[bytes]:
    """What objects at these places of the arena are after a call of `unit_run`, which gets the arena."""
    areas = [Area(f"object {number}", _ARENA + at, bytearray(data)) for number, (at, data) in enumerate(objects)]
    _called(folder, "unit", "unit_run", areas, compiler)
    return [bytes(area.data) for area in areas]


def linked(folder: Path, compiler: Toolchain, name: str = "all") -> Elf:
    """The library by itself. The compiler's own code has no vectors: the disassembler does not know them."""
    helpers, program_file = folder / "helpers.c", folder / f"{name}.elf"
    helpers.write_text(_HELPERS)
    flags = ["-std=c99", "-g1", "-O1", "-ffreestanding", "-fno-builtin", "-fno-tree-vectorize", "-fno-branch-count-reg"]
    places = ["-nostdlib", f"-Wl,-Ttext={_CODE:#x}", f"-Wl,-e,{name}_run", "-Wl,--no-warn-rwx-segments"]
    compiler.run(
        [*flags, *places, helpers, folder / f"{name}.c", "-lgcc", "-o", program_file], "linking the library alone"
    )
    return read_elf(program_file)


def _constants(elf: Elf) -> list[Area]:
    """Every object of the ELF file by itself, and the code with the constants between."""
    parts = [(one.name, one.address, one.size) for one in elf.symbols if one.size and not one.is_function]
    parts += [(one.name, one.address, one.size) for one in elf.sections if one.executable]
    return [Area(name, at, bytearray(elf.read(at, size)), writable=False) for name, at, size in parts]


def _program(elf: Elf, text: str, tables: Tables, told: Told) -> Program:
    """What the compiler made; but functions in assembly are taken from the text. told: is told of these."""
    program, written, start = dict(disassembled(disassemble(elf))), functions_in(text), _OWN
    for symbol in elf.symbols:
        if symbol.is_function and symbol.name in written:
            own = assembled(written[symbol.name], start)
            learn(told, elf, tables[symbol.address], symbol.address, own, written[symbol.name])
            program |= own
            program[symbol.address] = Code(emitted("b", ""), 0, start)
            start = max(own) + 64
    return program


def _riscv_program(elf: Elf, text: str, tables: Tables, told: Told) -> Program:
    """What the compiler made for RV32; functions in assembly are taken from the text, as without bit manipulation."""
    program, start = dict(disassembled_riscv(disassemble(elf))), _OWN
    written = functions_in(for_macro(text, BITS, holds=False))
    for symbol in elf.symbols:
        if symbol.is_function and symbol.name in written:
            own = assembled_plain(written[symbol.name], start, parse_riscv)
            learn(told, elf, tables[symbol.address], symbol.address, own, written[symbol.name])
            program |= own
            program[symbol.address] = Code(parse_riscv(Instruction(0, bytes(4), "j", "")), 0, start)
            start = max(own) + 64
    return program


def for_core(network: Together, board: Board, core: str) -> Together:
    """Those of the nodes whose kernel is for the core, too."""
    written = written_for(core)

    def is_for(node: Node) -> bool:
        site = Site(network.graph, node, Numerics.TFLM, written, board.isa)
        kernels = {kernel.name: kernel for kernel in all_ops()[node.op].every_kernel}
        return not isinstance(ask(kernels[network.prefer[node.name]], site, board.isa), Refused)

    return network.of(tuple(node for node in network.graph.nodes if is_for(node)))


def in_assembly(network: Together, feature: str, every: int = 1) -> Together:
    """Only the nodes whose kernel is a function written for the layer, for a core with this feature; of these every so
    many. Of a core with Helium without what compilers end in long shifts, which the disassembler misreads."""
    graph = network.graph
    written = {k.name for op in all_ops().values() for k in op.every_kernel if k.written and feature in k.isa}
    written -= _MISREAD
    nodes = tuple(node for node in graph.nodes if network.prefer[node.name] in written)[::every]
    used = {name for node in nodes for name in (*node.inputs, *node.outputs) if name}
    inputs = tuple(name for name in graph.inputs if name in used)
    values = {name: value for name, value in graph.values.items() if name in used}
    consts = {name: array for name, array in graph.consts.items() if name in used}
    outputs = tuple(name for name in graph.outputs if name in used)
    return Together(
        Graph("all", inputs, outputs, nodes, values, consts),
        {node.name: network.prefer[node.name] for node in nodes},
        {name: network.inputs[name] for name in inputs},
    )
