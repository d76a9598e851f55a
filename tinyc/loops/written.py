# SPDX-License-Identifier: Apache-2.0
"""The function of a loop over a layer's elements: assembly where the core takes it, the same in C elsewhere; and what a
call costs, counted from that."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType, ModuleType
from typing import Any

from tinyc.base.dataclass import dataclass
from tinyc.kernel.kernel import Call, Condition, Cost, Fetches, Kernel, SpecializedKernel, WrittenCode, offered, writing
from tinyc.kernel.site import Site
from tinyc.kernels.form.function import LayerFunction, twin
from tinyc.kernels.rvv import ISA as VECTORS_ISA
from tinyc.kernels.scalar.loops.costs import ARMV7M_SHARE
from tinyc.loops import (
    dsp,
    dsp_packed,
    helium,
    helium_packed,
    plain,
    thumb_words,
    vectors,
    vectors_packed,
)
from tinyc.loops.expression import Node, has_words, is_packed, loads, numbers, result_type
from tinyc.loops.lines import AROUND, CODE_BYTES, LINE, LoopLines
from tinyc.machine.assembly import Assembly
from tinyc.machine.cores import Core
from tinyc.machine.work import Work

_WORD = 4  # bytes of a field


@dataclass(frozen=True, slots=True)
class LoopCore:
    """A kind of core that loops are written for. Modules have `code`, `work`, `CALL` and `GUARD`."""

    isa: frozenset[str]
    header: str  # in runtime_c/, with the macro of its functions
    sums: ModuleType  # of loops over sums of products of bytes
    packed: ModuleType  # of loops over elements as short as bytes
    words: ModuleType | None = None  # of loops over words of 32 bits
    by_core: bool = False  # whether the code is another on every core
    share: float = 1.0  # its instructions on the scale of costs
    short: int = 0  # lines of at most so many bytes are written without a loop
    guard: str = ""  # the macro, where it is not that of the modules

    def module(self, root: Node) -> ModuleType:
        """What writes the loop of an expression."""
        if has_words(root):
            assert self.words is not None
            return self.words
        return self.packed if is_packed(root) else self.sums

    def work(self, loop: LoopFunction, asm: Assembly) -> Work:
        """What a call executes of a line's code."""
        return self.executed(loop, asm, loop.lines.size)

    def executed(self, loop: LoopFunction, asm: Assembly, elements: int) -> Work:
        """What the code executes for so many elements."""
        executed: Work = self.module(loop.root).work(asm, elements, loop.root)
        return executed

    def macro(self, root: Node) -> str:
        """Of the preprocessor, whether there are the instructions."""
        module = self.module(root)
        return self.guard or str(module.GUARD_FLOAT if module is helium and helium.has_floats(root) else module.GUARD)

    def code(self, loop: LoopFunction, core: Core) -> Assembly:
        """The assembly of a loop."""
        more = [core] if self.by_core else [size] if (size := self.straight(loop)) else []
        return writing(_code, self.module(loop.root), loop.root, loop.fields, *more)

    def straight(self, loop: LoopFunction) -> int:
        """Elements of a line whose code has no loop, or 0."""
        is_short = bool(loop.lines.outer) and is_packed(loop.root) and loop.lines.size <= self.short
        return loop.lines.size if is_short else 0


DSP = LoopCore(frozenset({"dsp"}), "tc_dsp.h", dsp, dsp_packed, by_core=True)
HELIUM = LoopCore(frozenset({"mve"}), "tc_mve.h", helium, helium_packed, helium, short=128)
HELIUM_FLOAT = replace(HELIUM, isa=frozenset({"mve", "fpu"}))
VECTORS = LoopCore(VECTORS_ISA, "tc_rvv.h", vectors, vectors_packed, vectors, share=ARMV7M_SHARE)
LOOP_CORES: Mapping[str, LoopCore] = MappingProxyType(  # by the ending of their functions' names
    {
        "mve": HELIUM,
        "dsp": DSP,
        "rvv": VECTORS,
    }
)
THUMB2 = LoopCore(
    frozenset({"thumb2"}), "tc_copy.h", dsp, dsp_packed, thumb_words, by_core=True, guard=thumb_words.GUARD
)
# Those that copy bytes, and compute in words, by loops of their own.
WORD_CORES: Mapping[str, LoopCore] = MappingProxyType({"mve": HELIUM, "thumb2": THUMB2, "rvv": VECTORS})


def _code(module: ModuleType, root: Node, fields: tuple[str, ...], *more: Core | int) -> Assembly:
    asm: Assembly = module.code(root, fields, *more)
    return asm


@dataclass(frozen=True, slots=True)
class LoopFunction:
    """A loop as a C function `name(p, x0, ..., y)`, or of bytes `name(n, x0, ..., y)`.

    name: but for a digest, where numbers are in the code. says: its comment. struct: the type of p, with the number of
    elements, n, then `fields`. lines: of the output; one without outer loops is all of it. consts_bytes: of constants
    that are inputs.
    """

    name: str
    says: str
    root: Node
    struct: str
    fields: tuple[str, ...]
    lines: LoopLines
    consts_bytes: int = 0

    @property
    def parameters(self) -> Sequence[str]:
        """As they are declared."""
        inputs = (f"const {load.ctype} *x{load.number}" for load in loads(self.root))
        first = f"const {self.struct} *p" if self.fields else "int32_t n"
        return (first, *inputs, f"{result_type(self.root)} *y")

    @property
    def count(self) -> tuple[str, str]:
        """The first argument of a line, and its number of elements."""
        return ("p", "p->n") if self.fields else ("n", "n")

    def written(self, on: LoopCore, core: Core) -> SpecializedKernel:
        """The function of all lines, in assembly for one kind of core."""
        line = self.line(on, core)
        if not self.lines.outer:
            return line
        name, text = self.lines.text(line.name, self.parameters, self.count)
        return SpecializedKernel(name, text, line.includes, (*line.parts, line))

    def line(self, on: LoopCore, core: Core) -> SpecializedKernel:
        """The function of a line."""
        asm, size = on.code(self, core), on.straight(self)
        own = "@" if numbers(self.root) else f"{self.name}_{size}" if size else self.name
        body = [f"    {statement}" for statement in plain.statements(self.root)]
        other = twin(own, self.parameters, f"for (int32_t i = 0; i < {self.count[1]}; i++) {{", *body, "}")
        function = LayerFunction(
            f"/* {self.says} */", asm.function(own, self.parameters), other, isa=on.macro(self.root)
        )
        if own == "@":
            return function.named(self.name, on.header)
        fields = ", ".join(("n", *self.fields))
        declared = SpecializedKernel(self.struct, f"typedef struct {{\n    int32_t {fields};\n}} {self.struct};")
        return function.called(own, on.header, parts=(declared,) if self.fields else ())

    def cost(self, on: LoopCore, core: Core) -> Cost:
        """Exact but for the step around the call."""
        asm = on.code(self, core)
        whole = on.work(self, asm)
        loops = len(self.lines.outer)
        if loops:
            whole = self.lines.count * (whole + LINE) + AROUND
        else:
            whole += on.module(self.root).CALL
        data = (_WORD * (1 + len(self.fields)) if self.fields else 0) + self.consts_bytes
        around = CODE_BYTES + 16 * loops if loops else 0
        code = WrittenCode((self.name, self.root, on.straight(self)), asm.code_bytes)
        instructions, cycles = int(whole.instructions * on.share), int(whole.cycles * on.share)
        fetches = Fetches.around(data, code.size, instructions)
        return Cost(instructions, code.size + around + data, 0, cycles, fetches, code)


def loop_kernel(
    name: str,
    on: LoopCore,
    loop_of: Callable[[Site, Any], LoopFunction],
    lower: Callable[[Site, Any], Call],
    when: tuple[Condition, ...],
    inplace: tuple[int, ...] = (0, 1),
) -> Kernel:
    """The kernel of an elementwise operator; the output may lie over any input of `inplace` that does not repeat.
    name: of the family of functions."""
    return Kernel(
        name,
        offered(
            lower,
            cost=lambda site, p: loop_of(site, p).cost(on, site.core),
            specialize=lambda site, p: loop_of(site, p).written(on, site.core),
        ),
        isa=on.isa,
        when=when,
        inplace=inplace,
        written=True,
    )
