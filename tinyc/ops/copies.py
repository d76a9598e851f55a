# SPDX-License-Identifier: Apache-2.0
"""Kernels that copy runs of bytes: one in C, and for each kind of core the same with a loop over bytes of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tinyc.kernel.counted import SCALE, counts, kind_of
from tinyc.kernel.kernel import Cost, Kernel, Offer, Once, Refused, RowForm, SpecializedKernel, WrittenCode
from tinyc.kernel.site import Site
from tinyc.loops.expression import Element
from tinyc.loops.lines import LINE, LoopLines
from tinyc.loops.written import WORD_CORES, LoopCore, LoopFunction
from tinyc.machine.work import Work

Runs = Callable[[Site, Any], Mapping[int, int]]  # how many runs of so many bytes
MOVES = ("const {}_t *p", "const void *x", "void *y")  # of most of them


def with_loops(
    kernel: Kernel, runs: Runs, parameters: Sequence[str] = MOVES, text: str = "", counted_as: str = ""
) -> tuple[Kernel, ...]:
    """The kernel, and before it those whose runs a loop copies.

    kernel: its header has a function `<name>_by`, with what copies a run behind these parameters. text: of the
    functions, where a call is more than that; `@` stands for the name, `copy` for what copies. counted_as: the kernel
    whose runs were counted, where it is another.
    """
    declared = [parameter.format(kernel.name) for parameter in parameters]
    arguments = ", ".join(parameter.split()[-1].lstrip("*") for parameter in declared)
    body = text or f"static void @({', '.join(declared)})\n{{\n    {kernel.name}_by({arguments}, copy);\n}}"
    return (
        *(_with_loop(kernel, runs, (counted_as or kernel.name, ending, on), body) for ending, on in WORD_CORES.items()),
        kernel,
    )


def _with_loop(kernel: Kernel, runs: Runs, how: tuple[str, str, LoopCore], body: str) -> Kernel:
    _, ending, on = how
    name, loop = f"{kernel.name}_{ending}", _loop(ending)

    def special(site: Site) -> SpecializedKernel:
        line = loop.line(on, site.core)
        copy = _copy(line, f"tc_copy_{ending}")
        own = body.replace("@", name).replace("copy)", f"{copy.name})")
        includes = (f"{kernel.name}.h", *line.includes)
        return SpecializedKernel(name, f"/* As {kernel.name}. */\n{own}", includes, (line, copy))

    def offer(site: Site, params: Any) -> Offer | Refused:
        plain = kernel.offer(site, params)
        if isinstance(plain, Refused):
            return plain
        cost = _cost(site, plain.cost, runs(site, params), how)
        written = Once(lambda: special(site))

        def forms() -> tuple[RowForm, ...]:
            return tuple(
                replace(form, cost=_moved(form.cost, plain.cost, cost), special=written)
                for form in plain.row_forms()
                if not form.function
            )

        return replace(plain, cost=cost, special=written, row_forms=Once(forms))

    return replace(kernel, name=name, offer=offer, isa=on.isa, written=True)


def _loop(ending: str) -> LoopFunction:
    says = "y[i] = x0[i], in bytes; y may lie before x0."
    return LoopFunction(f"tc_copied_{ending}", says, Element(0, ctype="void"), "", (), LoopLines((), 1))


def _copy(line: SpecializedKernel, name: str) -> SpecializedKernel:
    """The loop with the arguments of tc_copy."""
    text = f"""/* As tc_copy. */
TC_INLINE void {name}(void *to, const void *from, int32_t bytes)
{{
    {line.name}(bytes, from, (int8_t *)to);
}}"""
    return SpecializedKernel(name, text)


def _cost(site: Site, plain: Cost, runs: Mapping[int, int], how: tuple[str, str, LoopCore]) -> Cost:
    """The cost in C, with the loops in place of what C takes for runs and their bytes."""
    (kernel, ending, on), kind = how, kind_of(site.isa)
    loop = _loop(ending)
    each, asm = counts()[kernel][kind], on.code(loop, site.core)
    copied = sum(count * (each["run"] + each["byte"] * size) for size, count in runs.items())
    work = Work(0, 0)
    for size, count in runs.items():
        work += count * (on.executed(loop, asm, size) + LINE)
    code = WrittenCode(("tc_copied", ending), asm.code_bytes)
    instructions = plain.instructions + round(on.share * work.instructions - SCALE[kind] * copied)
    cycles = plain.cycles + round(on.share * work.cycles - SCALE[kind] * copied * 1.5)
    return Cost(instructions, plain.flash_bytes + code.size, plain.scratch_bytes, cycles, code=code)


def _moved(form: Cost, plain: Cost, whole: Cost) -> Cost:
    """Of a form whose calls copy the same runs."""
    return replace(
        form,
        instructions=form.instructions + whole.instructions - plain.instructions,
        cycles=form.cycles + whole.cycles - plain.cycles,
        flash_bytes=form.flash_bytes + whole.flash_bytes - plain.flash_bytes,
        code=whole.code,
    )
