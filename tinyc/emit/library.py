# SPDX-License-Identifier: Apache-2.0
"""Program -> the text of the generated library: `<name>.h`, `<name>.c`, `<name>_weights.h`, kernels."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tinyc import __version__
from tinyc.base import paths
from tinyc.base.escape import C, float_literal
from tinyc.base.templates import render
from tinyc.emit.program import LOST, Place, Program, RowStep, RowTable, Step
from tinyc.ir.graph import INT_RANGE, Array, Value
from tinyc.kernel.kernel import Accumulator, Arg, Call, Const, In, Out, Params, RowIndex, Rows, Scratch

_CTYPE = {
    "f32": "float",
    "s4": "int8_t",
    "s8": "int8_t",
    "u8": "uint8_t",
    "s16": "int16_t",
    "s32": "int32_t",
    "u32": "uint32_t",
    "u64": "uint32_t",  # two words, the low one first: the arena aligns to 4 bytes
    "bool": "uint8_t",
}
_NUMPY_CTYPE = {
    "int8": "int8_t",
    "uint8": "uint8_t",
    "int16": "int16_t",
    "uint16": "uint16_t",
    "int32": "int32_t",
    "uint32": "uint32_t",
    "int64": "int64_t",
    "float32": "float",
}
_LINE = 110
_UNPROVED = "/* NOT PROVED: written by `tinyc build --no-proof` and never run; `tinyc verify` proves it. */\n"
_DIGEST = "@digest@"  # where in the template the digest of the text goes


@dataclass(frozen=True, slots=True)
class Info:
    """What the banner says beyond the Program: nothing that changes between runs or machines."""

    model: str
    sha256: str
    board: str
    version: str = __version__


@dataclass(frozen=True, slots=True)
class _Port:
    """A model input or output in the header."""

    kind: str
    index: int
    place: Place

    @property
    def value(self) -> Value:
        return self.place.value

    @property
    def offset(self) -> int:
        return self.place.offset or 0

    @property
    def prefix(self) -> str:
        return f"{self.kind.upper()}_{self.index}"

    @property
    def ctype(self) -> str:
        return _CTYPE[self.value.dtype]

    @property
    def quant(self) -> tuple[float, int] | None:
        return self.value.quant.per_tensor if self.value.quant else None

    @property
    def range(self) -> tuple[int, int]:
        return INT_RANGE[self.value.dtype]


@dataclass(frozen=True, slots=True)
class _StepText:
    s: Step
    notes: tuple[C, ...]
    fields: tuple[tuple[C, C], ...]
    body: tuple[C, ...]


def emit_library(program: Program, info: Info) -> dict[str, str]:
    """File name -> text of every file of the library. Same program and info, same bytes."""
    given = program.row_input
    context = {
        "lost": LOST,
        "new_row": _input_row(program, program.incremental.places) if program.incremental else "",
        "input_row": _input_row(program, given.rows) if given else "",
        "p": program,
        "P": program.name.upper(),
        "info": info,
        "ports": [_Port("input", i, place) for i, place in enumerate(program.inputs)]
        + [_Port("output", i, place) for i, place in enumerate(program.outputs)],
        "steps": [_step_text(program, step) for step in program.steps],
        "specials": [C(special.text) for special in program.specials],
        "const_bytes": sum(symbol.const.data.nbytes for symbol in program.symbols),
        "macs": sum(step.macs for step in program.steps),
    }
    files = {
        f"{program.name}.h": render("library/model.h.j2", context, _FILTERS),
        f"{program.name}.c": render("library/model.c.j2", context, _FILTERS),
        f"{program.name}_weights.h": render("library/weights.h.j2", context, _FILTERS),
    }
    if program.specials:
        files[f"{program.name}_kernels.h"] = render("library/kernels.h.j2", context, _FILTERS)
    source = f"{program.name}.c"
    before, _, after = files[source].rpartition(_DIGEST)
    files[source] = f"{before}{digest_of(files):08x}{after}"
    return files | _kernel_files(program)


def marked_unproved(files: Mapping[str, str], name: str) -> dict[str, str]:
    """The files of a library that nobody has run, with a header that begins by saying so. What `digest_of` saw stays:
    a proof made later is of the same library."""
    header = f"{name}.h"
    return {**files, header: _UNPROVED + files[header]}


def digest_of(files: Mapping[str, str]) -> int:
    """32 bits that tell generated text from other generated text."""
    whole = hashlib.sha256("".join(text for _, text in sorted(files.items())).encode())
    return int.from_bytes(whole.digest()[:4], "big")


def _kernel_files(program: Program) -> dict[str, str]:
    """The kernel headers in use and what they include, copied as they are."""
    found: dict[str, str] = {}
    pending = ["tc_begin.h", "tc_end.h", "tc_math.h", *program.headers]
    while pending:
        name = pending.pop()
        if name not in found:
            found[name] = (paths.runtime_dir() / name).read_text(encoding="utf-8")
            pending += _included(found[name])
    return dict(sorted(found.items()))


def _included(text: str) -> list[str]:
    return [line.split('"')[1] for line in text.splitlines() if line.startswith('#include "tc_')]


def _step_text(program: Program, step: Step) -> _StepText:
    struct = step.call.params
    fields = tuple((C(name), C(_field(program, v))) for name, v in struct.fields.items()) if struct else ()
    lines = _body(program, step) if step.row_step is None else _row_body(program, step, step.row_step)
    body = tuple(C(f"    {line}".rstrip()) for line in lines)
    return _StepText(step, tuple(map(C, _notes(step))), fields, body)


def _field(program: Program, value: int | float | str | Const) -> str:
    if isinstance(value, Const):
        return program.symbol_of(value)
    if isinstance(value, float):
        return c_float(value)
    return c_int(value) if isinstance(value, int) else value


def _notes(step: Step) -> Iterator[str]:
    inputs = [place for place in step.inputs if place is not None and place.offset is not None]
    for label, places in (("x", inputs), ("y", step.outputs)):
        for place in places:
            yield f"{label} {dims(place.value.shape)} {place.value.dtype}{meaning(place.value)}   arena {span(place)}"
    if step.row_step is not None:
        yield from _row_notes(step.row_step)
    elif step.scratch_bytes:
        yield f"scratch [{step.scratch_offset}, {step.scratch_offset + step.scratch_bytes})"
    yield f"{step.macs:,} MAC" if step.macs else "no MAC"


def _row_notes(row: RowStep) -> Iterator[str]:
    form = row.form
    if form.accumulator_bytes:
        yield f"sums [{row.accumulator}, {row.accumulator + form.accumulator_bytes}), from the first row to the last"
    if form.scratch_bytes and row.scratch.table is None and row.scratch.step == 0:
        yield f"scratch [{row.scratch.base}, {row.scratch.base + form.scratch_bytes})"
    elif form.scratch_bytes:
        yield f"scratch {form.scratch_bytes} bytes, elsewhere for each row"


def _row_body(program: Program, step: Step, row: RowStep) -> Iterator[str]:
    """One row of a streamed layer, or a few: pointers to the rows, the call, the hook."""
    form, rows = row.form, step.call.rows
    assert rows is not None  # of every row form
    made = "0" if form.accumulator_bytes else "r"
    (y,) = step.outputs
    several = rows.out_rows > 1
    if several:
        yield from _several_rows(program, rows, row.output, _CTYPE[y.value.dtype])
    else:
        yield f"{_CTYPE[y.value.dtype]} *y = {cast(_CTYPE[y.value.dtype])}({_row_at(program, row.output, made)});"
    names = {}
    for index, table in sorted(row.inputs.items()):
        place = step.inputs[index]
        assert place is not None
        local = "x" if len(row.inputs) == 1 else f"x{index}"
        names[index] = local
        if form.direct and not rows.stays_inside:
            names[index] = f"{local}[0]"
            yield f"const int8_t *{local}[1];"
        elif form.direct:
            ctype = _CTYPE[place.value.dtype]
            row_number = "r" if table.of_call else _first_row(program, rows)
            row_number = f"({row_number})" if row_number != "r" and table.table is None else row_number
            yield f"const {ctype} *{local} = {const_cast(ctype)}({_row_at(program, table, row_number)});"
        else:
            yield f"const int8_t *{local}[{rows.window_rows}];"
    yield ""
    if not form.direct or not rows.stays_inside:
        for index, table in sorted(row.inputs.items()):
            yield _find_rows(program, rows, table, "x" if len(row.inputs) == 1 else f"x{index}")
    if form.accumulator_bytes == 0 and rows.calls == 1 and not several:
        yield "(void)r;"  # there is only one row
    yield from _row_call(program, step, row, names)
    if several:
        yield f"for (int32_t k = 0; k < {rows.out_rows}; k++) {{"
        yield "    if (first + k >= 0 && first + k >= made) {"
        yield f"        {program.name.upper()}_AFTER_ROW({step.index}, y[k], {rows.out_row_bytes});"
        yield "    }"
        yield "}"
    elif form.accumulator_bytes:
        yield f"if (r == {rows.in_h - 1}) {{"
        yield f"    {program.name.upper()}_AFTER_ROW({step.index}, y, {rows.out_row_bytes});"
        yield "}"
    else:
        yield f"{program.name.upper()}_AFTER_ROW({step.index}, y, {rows.out_row_bytes});"


def _row_call(program: Program, step: Step, row: RowStep, names: Mapping[int, str]) -> Iterator[str]:
    """The call of the kernel; in tight turns, of the one with less scratch."""

    def text(function: str, call: Call) -> str:
        return f"{function}({', '.join(_row_argument(program, step, row, arg, names) for arg in call.args)});"

    if row.spare is None or row.spare.special is None:
        yield text(step.function, step.call)
        return
    yield f"if ({_among(row.tight)}) {{  /* where more bytes are alive */"
    yield f"    {text(row.spare.special.name, row.spare.call)}"
    yield "} else {"
    yield f"    {text(step.function, step.call)}"
    yield "}"


def _among(turns: Sequence[int]) -> str:
    """A C condition on r, the number of the call."""
    first, end = turns[0], turns[-1] + 1
    if end - first == len(turns):
        return " && ".join([f"r >= {first}"] * (first > 0) + [f"r < {end}"])
    return f"(0x{sum(1 << turn for turn in turns):x}u >> r & 1u) != 0"


def _several_rows(program: Program, rows: Rows, table: RowTable, ctype: str) -> Iterator[str]:
    """made: the first row that the call makes; first: of its window; y: of all rows of the window."""
    most = rows.out_h - rows.out_rows
    yield f"const int32_t made = r * {rows.out_rows}{f' - {rows.phase}' if rows.phase else ''};"
    yield f"const int32_t first = made < {most} ? made : {most};"
    yield f"{ctype} *y[{rows.out_rows}];"
    yield f"for (int32_t k = 0; k < {rows.out_rows}; k++) {{"
    yield "    const int32_t least = made > 0 ? made : 0;"
    yield "    const int32_t row = first + k > least ? first + k : least;"
    yield f"    y[k] = {cast(ctype)}({_row_at(program, table, 'row')});"
    yield "}"


def _row_at(program: Program, table: RowTable, row: str) -> str:
    """The address of a row."""
    if table.table is not None:
        return f"arena + {table.unit} * {program.symbol_of(table.table)}[{row}]"
    if table.step == 0 or row == "0":
        return f"arena + {table.base}"
    return f"arena + {table.base} {'-' if table.step < 0 else '+'} {row} * {abs(table.step)}"


def _input_row(program: Program, table: RowTable) -> C:
    """The address of row `row` of the model's input, in a function that calls the arena `base`."""
    return C(_row_at(program, table, "row").replace("arena", "base"))


def _first_row(program: Program, rows: Rows) -> str:
    """The first input row of the window of output row r (of several: from row `first` on)."""
    if rows.starts is not None:
        return f"{program.symbol_of(rows.starts)}[r]"
    number = "r" if rows.out_rows == 1 else "first"
    text = number if rows.stride == 1 else f"{number} * {rows.stride}"
    return text + (f" {'-' if rows.pad_top > 0 else '+'} {abs(rows.pad_top)}" if rows.pad_top else "")


def _find_rows(program: Program, rows: Rows, table: RowTable, local: str) -> str:
    """The pointers of a window, or of the one row."""
    pad = program.symbol_of(rows.pad) if rows.pad is not None else "NULL"
    first = "r" if table.of_call else _first_row(program, rows)
    if table.of_call and table.table is not None and not (rows.window_rows == 1 and rows.stays_inside):
        places = f"{program.symbol_of(table.table)} + {table.of_call} * r"
        return f"tc_row_places({local}, arena, {places}, {table.unit}, {table.of_call}, {pad});"
    if rows.window_rows == 1 and rows.stays_inside:
        row = first if first == "r" or table.table is not None else f"({first})"
        return f"{local}[0] = (const int8_t *)({_row_at(program, table, row)});"
    window = f"{first}, {rows.dilation}, {rows.window_rows}, {rows.in_h}"
    if table.table is not None:
        symbol = program.symbol_of(table.table)
        return f"tc_row_table({local}, arena, {symbol}, {table.unit}, {window}, {pad});"
    return f"tc_rows({local}, (const int8_t *)(arena + {table.base}), {window}, {table.step}, {pad});"


def _row_argument(program: Program, step: Step, row: RowStep, arg: Arg, names: Mapping[int, str]) -> str:
    match arg:
        case In():
            return names[arg.index]
        case Out():
            return "y"
        case Scratch():
            return _row_at(program, row.scratch, "r")
        case Accumulator():
            return f"arena + {row.accumulator}"
        case RowIndex():
            return "r"
        case _:
            return _argument(program, step, arg, "", "")


def _body(program: Program, step: Step) -> Iterator[str]:
    for arg in step.call.args:
        if isinstance(arg, In | Out):
            place = step.place(arg)
            make = const_cast if isinstance(arg, In) else cast
            const = "const " if isinstance(arg, In) else ""
            # Pointers to rows are pointers to bytes, whatever is in them.
            by_rows = isinstance(arg, In) and step.call.rows is not None
            ctype = "int8_t" if by_rows else _CTYPE[place.value.dtype]
            yield f"{const}{ctype} *{_local(step, arg)} = {make(ctype)}(arena + {place.offset});"
    if step.call.rows is None:
        yield _kernel_call(program, step)
    elif step.call.rows.out_h == step.call.rows.k_h == 1:
        yield _kernel_call(program, step, rows="&x")
    else:
        yield from _row_loop(program, step, step.call.rows)


def _row_loop(program: Program, step: Step, rows: Rows) -> Iterator[str]:
    pad = program.symbol_of(rows.pad) if rows.pad is not None else "NULL"
    count = (rows.out_rows - 1) * rows.stride + rows.k_h
    yield f"const int8_t *rows[{count}];"
    yield ""
    by = (
        f" {'-' if step.bottom_up else '+'}= {rows.out_rows}" if rows.out_rows > 1 else "--" if step.bottom_up else "++"
    )
    if step.bottom_up:
        yield f"for (int32_t r = {rows.out_h - rows.out_rows}; r >= 0; r{by}) {{"
    else:
        yield f"for (int32_t r = 0; r < {rows.out_h}; r{by}) {{"
    yield (
        f"    tc_rows(rows, x, r * {rows.stride} - {rows.pad_top}, {rows.dilation}, {count}, "
        f"{rows.in_h}, {rows.in_row_bytes}, {pad});"
    )
    y = step.outputs[0].value
    elements = rows.out_row_bytes * y.elements // y.size_bytes
    yield f"    {_kernel_call(program, step, rows='rows', advance=f' + r * {elements}')}"
    yield "}"


def _kernel_call(program: Program, step: Step, rows: str = "", advance: str = "") -> str:
    """The call; in a row call `rows` stands for the input and `advance` leads to the output row."""
    args = [_argument(program, step, arg, rows, advance) for arg in step.call.args]
    return f"{step.function}({', '.join(args)});"


def _local(step: Step, arg: In | Out) -> str:
    alone = sum(type(other) is type(arg) for other in step.call.args) == 1
    letter = "x" if isinstance(arg, In) else "y"
    return letter if alone else f"{letter}{arg.index}"


def _argument(program: Program, step: Step, arg: Arg, rows: str, advance: str) -> str:
    match arg:
        case In():
            return rows or _local(step, arg)
        case Out():
            return _local(step, arg) + advance
        case Scratch():
            return f"arena + {step.scratch_offset}"
        case Params():
            return f"&{program.name}_p{step.index}"
        case Const():
            return program.symbol_of(arg)
        case int():
            return c_int(arg)
        case Accumulator() | RowIndex():
            raise ValueError(f"{step.function}: an argument of a row form in a call for the whole tensor")


def c_int(value: int) -> str:
    """A C literal of type int: the least int32 has no literal of its own."""
    return "(-2147483647 - 1)" if value == -(2**31) else str(value)


def c_float(value: float) -> str:
    """A C literal of the nearest float."""
    if np.isinf(np.float32(value)):
        raise ValueError("infinity has no C literal")
    return f"{float_literal(value)}f"


def c_array(data: Array) -> str:
    """The elements in C order, wrapped to lines."""
    flat = data.ravel()
    texts = map(c_float, flat.tolist()) if flat.dtype.kind == "f" else map(c_int, flat.tolist())
    lines, line = [], "   "
    for text in texts:
        if len(line) + len(text) + 2 > _LINE:
            lines.append(line)
            line = "   "
        line += f" {text},"
    return "\n".join([*lines, line])


def dims(shape: tuple[int, ...]) -> str:
    """`[1,49,10,64]`."""
    return f"[{','.join(map(str, shape))}]"


def span(place: Place) -> str:
    """`[31360, 39360)`."""
    return f"[{place.offset}, {place.end})"


def meaning(value: Value) -> str:
    """`  0.0235 * (q + 128)`; nothing for values without one scale."""
    if value.quant is None or len(value.quant.scale) != 1:
        return ""
    scale, zero = value.quant.per_tensor
    return f"  {scale:.6g} * (q {'-' if zero > 0 else '+'} {abs(zero)})" if zero else f"  {scale:.6g} * q"


def layer(step: Step) -> str:
    """The user's own layers behind a step: `'conv1' node 3 (CONV_2D), 'relu1' node 4 (RELU)`."""
    return ", ".join(f"'{at.name}' node {at.node} ({at.op})" for at in step.node.origin) or f"'{step.node.name}'"


def cast(ctype: str) -> str:
    """Cast of a byte pointer; through `void *` where the alignment grows, which the plan guarantees."""
    return f"({ctype} *)" if ctype in ("int8_t", "uint8_t") else f"({ctype} *)(void *)"


def const_cast(ctype: str) -> str:
    """`cast` for a pointer to const."""
    return f"(const {ctype} *)" if ctype in ("int8_t", "uint8_t") else f"(const {ctype} *)(const void *)"


def table_row(step: Step) -> str:
    """A step's line in the table on top of the library, without its layer."""
    (y, *_) = step.outputs
    return f"{step.index:>4}  {step.title:<30}  {dims(y.value.shape):<21}  {span(y):<15} {step.macs:>10,}"


def _c(made: Callable[..., str]) -> Callable[..., C]:
    """A filter of what is made of numbers and of tinyc's own words alone."""
    return lambda *values: C(made(*values))


_FILTERS: Mapping[str, Callable[..., Any]] = {
    "c_array": _c(c_array),
    "c_float": _c(c_float),
    "c_plus": _c(lambda v: f" {'-' if v < 0 else '+'} {abs(v)}" if v else ""),
    "c_define_int": _c(lambda v: f"({v})" if v < 0 else str(v)),
    "cast": _c(cast),
    "const_cast": _c(const_cast),
    "ctype": _c(lambda dtype: _NUMPY_CTYPE[dtype.name]),
    "dims": _c(dims),
    "layer": layer,
    "meaning": _c(meaning),
    "span": _c(span),
    "table_row": _c(table_row),
    "thousands": _c(lambda n: f"{n:,}"),
}
