# SPDX-License-Identifier: Apache-2.0
"""A C function written for one layer: contract, functions in assembly, their twins in C, and what calls them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from tinyc.base.dataclass import dataclass
from tinyc.kernel.kernel import SpecializedKernel

# Macros of tc_compiler.h: whether there are the instructions of a function in assembly.
DSP, MVE, RV32 = "TC_DSP_ASM", "TC_MVE_ASM", "TC_RV32_ASM"
VFMA, MVE_FLOAT = "TC_VFMA_ASM", "TC_MVE_FLOAT_ASM"

Fields = Mapping[str, int | str]
Tables = Mapping[str, tuple[str, Sequence[int]]]  # type of an element, and the elements
NO_TABLES: Tables = MappingProxyType({})

_PER_LINE = 24  # numbers of a table
_NEEDS_FPU = """#ifndef __ARM_FP
#error this code holds values in FPU registers: compile for a core with an FPU
#endif
"""


@dataclass(frozen=True, slots=True)
class LayerFunction:
    """C text in which `@` stands for the function's name. All texts end as their last line does; fast and twin with a
    newline.

    contract: the comment above. fast: functions in assembly, for cores with the instructions of `isa`; fpu: they hold
    values in registers of the FPU. twin: the same functions in C, for all others; the host runs them. driver: C that
    calls these, where the function itself is not one of them. tile: of the inner loop, in words. array_bytes: of the
    driver, on the stack.
    """

    contract: str
    fast: str = ""
    twin: str = ""
    driver: str = ""
    isa: str = DSP
    fpu: bool = False
    tile: str = ""
    array_bytes: int = 0

    @property
    def text(self) -> str:
        """All of it."""
        if not self.fast:
            return f"{self.contract}\n{self.driver}"
        either = where(self.isa, _NEEDS_FPU * self.fpu + self.fast, self.twin)
        return "\n\n".join(filter(None, (f"{self.contract}\n{either}", self.driver)))

    def named(self, stem: str, *includes: str, parts: Sequence[SpecializedKernel] = ()) -> SpecializedKernel:
        """The function, called by the stem and a digest that tells different texts apart."""
        digest = hashlib.sha256(self.text.encode()).hexdigest()[:6]
        return self.called(f"{stem}_{digest}", *includes, parts=parts)

    def called(self, name: str, *includes: str, parts: Sequence[SpecializedKernel] = ()) -> SpecializedKernel:
        """The function under a name that nothing else has. includes: headers that it needs. parts: functions that it
        calls and others may call too."""
        text = self.text.replace("@", name)
        return SpecializedKernel(name, text, includes, tuple(parts), self.tile, array_bytes=self.array_bytes)


def where(isa: str, fast: str, other: str = "") -> str:
    """C text for cores with these instructions, and for others."""
    return f"#if {isa}\n{fast}{f'#else{chr(10)}{other}' if other else ''}#endif"


def apart(functions: Iterable[str]) -> str:
    """Functions with empty lines around them."""
    return "\n" + "\n".join(functions) + "\n"


def twin(name: str, parameters: Iterable[str], *lines: str, shared: bool = False) -> str:
    """A function in C. lines: its statements. shared: among layers, perhaps with nobody who calls it."""
    body = "".join(f"    {line}\n" for line in lines)
    return f"static {'TC_UNUSED ' * shared}void {name}({', '.join(parameters)})\n{{\n{body}}}\n"


def described(ctype: str, fields: Fields, tables: Tables = NO_TABLES, prefix: str = "") -> list[str]:
    """The lines that define the struct `layer`, which tells a twin of its layer, and the tables that it points to.
    tables: fields that are arrays. prefix: of all names, where several functions share them."""
    pointers = {table: f"{prefix}{table}" for table in tables}
    own = (f"    .{field} = {value}," for field, value in {**fields, **pointers}.items())
    return [
        *(line for table, (each, values) in tables.items() for line in _array(each, pointers[table], values)),
        *(f"static const {ctype} {prefix}layer = {{", *own, "};"),
    ]


def described_twin(
    name: str, parameters: Iterable[str], ctype: str, fields: Fields, *lines: str, tables: Tables = NO_TABLES
) -> str:
    """A function in C whose statements know `layer`, which is `described`."""
    return twin(name, parameters, *described(ctype, fields, tables), *lines)


def _array(ctype: str, name: str, values: Sequence[int]) -> Sequence[str]:
    rows = (", ".join(map(str, values[at : at + _PER_LINE])) for at in range(0, len(values), _PER_LINE))
    return [f"static const {ctype} {name}[{len(values)}] = {{", *(f"    {row}," for row in rows), "};"]
