# SPDX-License-Identifier: Apache-2.0
"""C text that makes whole layers row by row: one hand-made library whose steps call the row forms of kernels.

Every row has a place of its own. During a call all bytes but those that the form may touch are poisoned for the
address sanitizer; on other machines the bytes between the places are compared with a pattern after each layer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tinyc.emit.headers import with_included
from tinyc.emit.text import c_array, c_float, c_int
from tinyc.ir.graph import Array, Graph
from tinyc.kernel.kernel import (
    Accumulator,
    Arg,
    Const,
    In,
    Kernel,
    Out,
    Params,
    RowForm,
    RowIndex,
    Rows,
    Scratch,
    Struct,
)

GAP = 24  # bytes around each place
_CTYPES = {"int8": "int8_t", "uint8": "uint8_t", "int16": "int16_t", "int32": "int32_t", "int64": "int64_t"}
_CTYPES["float32"] = "float"


@dataclass(frozen=True)
class Case:
    """A one-node graph with a row form of one of its kernels. in_place: the input whose rows the output replaces."""

    graph: Graph
    kernel: Kernel
    form: RowForm
    in_place: int | None = None

    @property
    def rows(self) -> Rows:
        assert self.form.call.rows is not None
        return self.form.call.rows

    @property
    def inputs(self) -> list[int]:
        """Numbers of the node's inputs that the form is given rows of."""
        return sorted({arg.index for arg in self.form.call.args if isinstance(arg, In)})

    def tensor_bytes(self, index: int) -> int:
        """Of the node's input number `index`."""
        (node,) = self.graph.nodes
        return self.graph.values[node.inputs[index]].size_bytes

    def row_bytes(self, index: int) -> int:
        """Of a row of the node's input number `index`."""
        return self.tensor_bytes(index) // self.rows.in_h

    @property
    def function(self) -> str:
        """The C function."""
        return self.form.special().name if self.form.special else self.form.function or self.kernel.name

    @property
    def out_rows(self) -> int:
        return 1 if self.form.accumulator_bytes else self.rows.out_h

    @property
    def name(self) -> str:
        place = "" if self.in_place is None else f", in place of input {self.in_place}"
        phase = f", phase {self.rows.phase}" if self.rows.phase else ""
        return f"{self.function}, {self.form.scratch_bytes} bytes of scratch{place}{phase}"


class RowProgram:
    """A library `unit` of hand-made steps, one per case: each makes its layer from rows and joins them to an output."""

    def __init__(self, cases: Sequence[Case]) -> None:
        self.cases = list(cases)
        self._size = 0
        self._gaps: list[tuple[int, int]] = []
        self.tensors = [[self._place(case.tensor_bytes(i)) for i in case.inputs] for case in cases]
        self.results = [self._place(case.out_rows * case.rows.out_row_bytes) for case in cases]
        self.texts = [self._case(number, case) for number, case in enumerate(cases)]
        self._place(0)

    @property
    def arena_bytes(self) -> int:
        return self._size

    @property
    def places(self) -> list[tuple[int, int]]:
        """(offset, bytes) of every tensor, row, scratch and accumulator, from the first to the last."""
        ends = [end for _, end in self._gaps]
        begins = [begin for begin, _ in self._gaps[1:]]
        return [(end, begin - end) for end, begin in zip(ends, begins, strict=False) if begin > end]

    def ports(self, number: int, sample: Mapping[str, Array]) -> list[bytes]:
        """The bytes of each of a case's inputs."""
        case = self.cases[number]
        (node,) = case.graph.nodes
        return [np.ascontiguousarray(sample[node.inputs[i]]).tobytes() for i in case.inputs]

    def _place(self, size: int, align: int = 8) -> int:
        """Offset of `size` new bytes; those before them belong to nobody."""
        start = -(-(self._size + GAP) // align) * align
        self._gaps.append((self._size, start))
        self._size = start + size
        return start

    def _row_places(self, rows: int, size: int) -> list[int]:
        """Rows lie to words as in a tensor: the second of 5-byte rows starts one byte past a word."""
        starts = []
        for row in range(rows):
            shift = row * size % 4
            start = self._place(size + shift) + shift
            starts.append(start)
            self._gaps.append((start - shift, start))
        return starts

    def _case(self, number: int, case: Case) -> str:
        rows, form = case.rows, case.form
        x_rows = {i: self._row_places(rows.in_h, case.row_bytes(i)) for i in case.inputs}
        y_rows = []
        for row in range(case.out_rows):
            top = rows.begins(row)  # where several are made, as many of the topmost
            if case.in_place is not None and 0 <= top < rows.in_h:
                assert rows.in_row_bytes == rows.out_row_bytes
                y_rows.append(x_rows[case.in_place][top])
            else:
                y_rows += self._row_places(1, rows.out_row_bytes)
        scratch = self._place(form.scratch_bytes, 16) if form.scratch_bytes else 0
        accumulator = self._place(form.accumulator_bytes, 4) if form.accumulator_bytes else 0
        return "\n".join(_case_text(self, number, case, _Places(x_rows, y_rows, scratch, accumulator)))

    def files(self) -> dict[str, str]:
        """File name -> text: `unit.h`, `unit.c`, the headers that it includes."""
        includes: dict[str, None] = {"tc_math.h": None, "tc_rows.h": None}
        texts: dict[str, None] = {}
        for case in self.cases:
            includes.update(dict.fromkeys(case.form.includes))
            if case.form.special is None and not case.form.function:
                includes.update(dict.fromkeys((*case.kernel.includes, f"{case.kernel.name}.h")))
            elif case.form.special is not None:
                includes.update(dict.fromkeys(case.form.special().includes))
                texts.update(dict.fromkeys(part.text for part in (*case.form.special().parts, case.form.special())))
        copied = with_included(includes)
        head = "\n".join(f'#include "{name}"' for name in includes)
        body = "\n\n".join(
            [_HEAD.replace("@INCLUDES@", head), *texts, self._gaps_text(), *self.texts, self._run_text()]
        )
        return {**copied, "unit.h": self._header(), "unit.c": body}

    def _gaps_text(self) -> str:
        words = ", ".join(f"{{{begin}, {end}}}" for begin, end in self._gaps if begin < end)
        return _GAPS.replace("@GAPS@", words).replace("@BYTES@", str(self._size))

    def _places(self) -> Iterator[tuple[int, int]]:
        for case, places in zip(self.cases, self.tensors, strict=True):
            for i, place in zip(case.inputs, places, strict=True):
                yield place, case.tensor_bytes(i)

    def _header(self) -> str:
        ports = list(self._places())
        lines = [
            f"#define UNIT_ARENA_BYTES {self._size}",
            "#define UNIT_ARENA_ALIGN 16",
            f"#define UNIT_INPUT_COUNT {len(ports)}",
            f"#define UNIT_OUTPUT_COUNT {len(self.cases)}",
            f"#define UNIT_STEP_COUNT {len(self.cases)}",
            "#define UNIT_OK 0",
            "int unit_run(void *arena);",
            "const char *unit_version(void);",
            "void *unit_input(void *arena, int index);",
            "const void *unit_output(const void *arena, int index);",
            "extern const int unit_input_bytes[];",
            "extern const int unit_output_bytes[];",
        ]
        for i, (_, size) in enumerate(ports):
            lines += [f"#define UNIT_INPUT_{i}_BYTES {size}", f"int8_t *unit_input_{i}(void *arena);"]
        for i, case in enumerate(self.cases):
            size = case.out_rows * case.rows.out_row_bytes
            lines += [
                f"#define UNIT_OUTPUT_{i}_BYTES {size}",
                f"const int8_t *unit_output_{i}(const void *arena);",
                f"#define UNIT_STEP_{i}_OUTPUT_OFFSET {self.results[i]}",
                f"#define UNIT_STEP_{i}_OUTPUT_BYTES {size}",
            ]
        return "#ifndef UNIT_H\n#define UNIT_H\n#include <stdint.h>\n" + "\n".join(lines) + "\n#endif\n"

    def _run_text(self) -> str:
        ports = list(self._places())
        gets = "\n".join(
            f"int8_t *unit_input_{i}(void *arena) {{ return (int8_t *)arena + {at}; }}"
            for i, (at, _) in enumerate(ports)
        )
        reads = "\n".join(
            f"const int8_t *unit_output_{i}(const void *arena) {{ return (const int8_t *)arena + {at}; }}"
            for i, at in enumerate(self.results)
        )
        steps = "\n".join(
            f"    unit_spread_{i}(base);\n    unit_step_{i}(base);\n    unit_join_{i}(base);"
            for i in range(len(self.cases))
        )
        return f"""{gets}
{reads}
static const int unit_inputs[] = {{{", ".join(str(at) for at, _ in ports)}}};
static const int unit_outputs[] = {{{", ".join(map(str, self.results))}}};
const int unit_input_bytes[] = {{{", ".join(str(size) for _, size in ports)}}};
const int unit_output_bytes[] = {{{", ".join(str(c.out_rows * c.rows.out_row_bytes) for c in self.cases)}}};
void *unit_input(void *arena, int index) {{ return (uint8_t *)arena + unit_inputs[index]; }}
const void *unit_output(const void *arena, int index) {{ return (const uint8_t *)arena + unit_outputs[index]; }}
const char *unit_version(void) {{ return "rows"; }}
void unit_all(void *arena);
void unit_all(void *arena)
{{
    uint8_t *base = (uint8_t *)arena;
{steps}
}}
int unit_run(void *arena)
{{
    uint8_t *base = (uint8_t *)arena; /* the steps again: what is called from another function would count as theirs */
    unit_fill(base);
{steps}
    return unit_damage(base);
}}
"""


@dataclass(frozen=True)
class _Places:
    """Where a case's bytes lie in the arena: rows of its inputs and outputs, scratch, accumulators."""

    x_rows: Mapping[int, Sequence[int]]
    y_rows: Sequence[int]
    scratch: int
    accumulator: int


def _case_text(program: RowProgram, number: int, case: Case, places: _Places) -> Iterator[str]:
    """Constants, row tables, and three functions: rows from the tensors, the layer, the result from its rows."""
    rows, call = case.rows, case.form.call
    consts: list[str] = []

    def const(value: Const) -> str:
        name = f"c{number}_{len(consts)}"
        ctype = _CTYPES[value.data.dtype.name]
        consts.append(f"static const {ctype} {name}[{value.data.size}] UNIT_ALIGNED = {{\n{c_array(value.data)}\n}};")
        return name

    pad = const(rows.pad) if rows.pad is not None else "NULL"
    assert rows.pad is None or rows.pad.data.nbytes >= rows.in_row_bytes
    params = _params(number, call.params, const) if call.params else ""
    names = {id(arg): const(arg) for arg in call.args if isinstance(arg, Const)}
    yield from consts
    yield params
    for i in case.inputs:
        yield f"static const int32_t x{number}_{i}[] = {{{', '.join(map(str, places.x_rows[i]))}}};"
    if rows.starts is not None:
        yield f"static const int32_t s{number}[] = {{{', '.join(map(str, rows.starts.data))}}};"
    yield f"static const int32_t y{number}[] = {{{', '.join(map(str, places.y_rows))}}};"
    yield f"static void unit_spread_{number}(uint8_t *arena)\n{{"
    for i, tensor in zip(case.inputs, program.tensors[number], strict=True):
        yield f"    unit_spread(arena, {tensor}, x{number}_{i}, {rows.in_h}, {case.row_bytes(i)});"
    yield "}"
    yield f"static void unit_join_{number}(uint8_t *arena)\n{{"
    yield f"    unit_join(arena, {program.results[number]}, y{number}, {case.out_rows}, {rows.out_row_bytes});\n}}"
    yield from _step_text(number, case, places, pad, names)


def _step_text(number: int, case: Case, places: _Places, pad: str, names: Mapping[int, str]) -> Iterator[str]:
    """The layer: a call per row. pad: the row of zero points; names: of the constants among the arguments."""
    rows, form = case.rows, case.form
    calls, out = (rows.in_h, "0") if form.accumulator_bytes else (rows.calls, "r")
    first, several = "r", rows.out_rows > 1
    yield f"static TC_NOINLINE void unit_step_{number}(uint8_t *arena)\n{{"
    yield f"    for (int32_t r = 0; r < {calls}; r++) {{"
    yield "        UNIT_CLOSE(arena);"
    if several:
        yield f"        const int32_t made = r * {rows.out_rows} - {rows.phase}, most = {rows.out_h - rows.out_rows};"
        yield "        const int32_t first = made < most ? made : most;"
        yield f"        int8_t *y[{rows.out_rows}];"
        yield f"        for (int32_t k = 0; k < {rows.out_rows}; k++) {{"
        yield "            const int32_t least = made < 0 ? 0 : made, row = first + k < least ? least : first + k;"
        yield f"            y[k] = (int8_t *)arena + y{number}[row];"
        yield f"            UNIT_OPEN(y[k], {rows.out_row_bytes});"
        yield "        }"
        first = "first"
    for i in case.inputs:
        yield f"        const int8_t *rows{i}[{rows.window_rows}];"
        yield f"        for (int32_t k = 0; k < {rows.window_rows}; k++) {{"
        start = f"s{number}[{first}]" if rows.starts is not None else f"{first} * {rows.stride} - {rows.pad_top}"
        yield f"            const int32_t row = {start} + k * {rows.dilation};"
        yield f"            const int inside = row >= 0 && row < {rows.in_h};"
        yield f"            rows{i}[k] = inside ? (const int8_t *)arena + x{number}_{i}[row] : {pad};"
        yield f"            if (inside) {{ UNIT_OPEN(rows{i}[k], {case.row_bytes(i)}); }}"
        yield "        }"
    if not several:
        yield f"        UNIT_OPEN(arena + y{number}[{out}], {rows.out_row_bytes});"
    if form.scratch_bytes:
        yield f"        UNIT_OPEN(arena + {places.scratch}, {form.scratch_bytes});"
        yield f"        UNIT_STALE(arena + {places.scratch}, {form.scratch_bytes});"
    if form.accumulator_bytes:
        yield f"        UNIT_OPEN(arena + {places.accumulator}, {form.accumulator_bytes});"
    words = {
        Out(): "y" if several else f"(void *)(arena + y{number}[{out}])",
        Scratch(): f"arena + {places.scratch}",
        Accumulator(): f"arena + {places.accumulator}",
        RowIndex(): "r",
        Params(): f"&p{number}",
    }

    def text(arg: Arg) -> str:
        if isinstance(arg, In):
            return f"(const void *)rows{arg.index}[0]" if form.direct else f"rows{arg.index}"
        if isinstance(arg, Const):
            return names[id(arg)]
        return c_int(arg) if isinstance(arg, int) else words[arg]

    yield f"        {case.function}({', '.join(map(text, form.call.args))});"
    yield "    }\n    UNIT_OPEN(arena, UNIT_ARENA_BYTES);\n}"


def _params(number: int, struct: Struct, const: Callable[[Const], str]) -> str:
    def field(value: int | float | str | Const) -> str:
        if isinstance(value, Const):
            return const(value)
        return c_float(value) if isinstance(value, float) else c_int(value) if isinstance(value, int) else value

    lines = "\n".join(f"    .{name} = {field(value)}," for name, value in struct.fields.items())
    return f"static const {struct.ctype} p{number} = {{\n{lines}\n}};"


_HEAD = """#include <stddef.h>
#include <stdint.h>
#include "unit.h"
@INCLUDES@

#define UNIT_ALIGNED __attribute__((aligned(4))) /* as the library's constants */

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define UNIT_CLOSE(arena) __asan_poison_memory_region(arena, UNIT_ARENA_BYTES)
#define UNIT_OPEN(at, size) __asan_unpoison_memory_region(at, size)
#define UNIT_STALE(at, size) unit_stale(at, size)
/* Scratch holds nothing that lasts. */
static inline void unit_stale(uint8_t *at, int32_t size)
{
    for (int32_t i = 0; i < size; i++) {
        at[i] = (uint8_t)(91 * i + 77);
    }
}
#else
#define UNIT_CLOSE(arena) ((void)0)
#define UNIT_OPEN(at, size) ((void)0)
#define UNIT_STALE(at, size) ((void)0)
#endif

static TC_NOINLINE void unit_spread(uint8_t *arena, int32_t from, const int32_t *rows, int32_t count, int32_t size)
{
    for (int32_t r = 0; r < count; r++) {
        for (int32_t i = 0; i < size; i++) {
            arena[rows[r] + i] = arena[from++];
        }
    }
}

static TC_NOINLINE void unit_join(uint8_t *arena, int32_t to, const int32_t *rows, int32_t count, int32_t size)
{
    for (int32_t r = 0; r < count; r++) {
        for (int32_t i = 0; i < size; i++) {
            arena[to++] = arena[rows[r] + i];
        }
    }
}
"""

_GAPS = """static const int32_t unit_gaps[][2] = {@GAPS@, {@BYTES@, @BYTES@}};

/* Writes the pattern between the places, which overlap nothing else. */
static void unit_fill(uint8_t *arena)
{
    for (int32_t i = 0; unit_gaps[i][0] != @BYTES@; i++) {
        for (int32_t at = unit_gaps[i][0]; at < unit_gaps[i][1]; at++) {
            arena[at] = 0xA5;
        }
    }
}

/* How many bytes between the places have changed. */
static int unit_damage(const uint8_t *arena)
{
    int found = 0;
    for (int32_t i = 0; unit_gaps[i][0] != @BYTES@; i++) {
        for (int32_t at = unit_gaps[i][0]; at < unit_gaps[i][1]; at++) {
            found += arena[at] != 0xA5;
        }
    }
    return found;
}
"""
