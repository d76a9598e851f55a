# SPDX-License-Identifier: Apache-2.0
"""A step of the library as values that its template lays out: which pointers, which call, for which rows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from tinyc.base.dataclass import dataclass
from tinyc.base.escape import C
from tinyc.emit.program import Program, RowStep, RowTable, Step
from tinyc.emit.text import CTYPE, c_float, c_int, const_cast, element_ctype
from tinyc.kernel.kernel import Accumulator, Arg, Call, Const, Copied, In, Out, Params, RowIndex, Rows, Scratch


@dataclass(frozen=True, slots=True)
class KernelCall:
    """`function(arguments);`"""

    function: C
    arguments: C


@dataclass(frozen=True, slots=True)
class Pointer:
    """A pointer into the arena. name, at: the variable and its address; writes: whether the step writes there."""

    name: C
    ctype: C
    at: C
    writes: bool


@dataclass(frozen=True, slots=True)
class InputRows:
    """Pointers to the input rows of a call: an array of `count`, or with 0 the pointer to the one row, at `at`.

    find: how the array is filled. `one`: its only element is `at`. Else by a function of tc_rows.h, tc_row_table.h:
    `rows` (rows one after the other), `table` (each has its place), `places` (a table for each call).
    arguments: of that function.
    """

    name: C
    ctype: C
    count: int
    find: Literal["", "one", "rows", "table", "places"] = ""
    at: C = C()
    arguments: C = C()


@dataclass(frozen=True, slots=True)
class Copying:
    """A constant that a step copies to its scratch: `bytes` bytes of `symbol` to `at`."""

    symbol: C
    at: C
    bytes: int


@dataclass(frozen=True, slots=True)
class Body:
    """Of a step that makes its whole output. rows: the loop of a kernel that makes one row, or a few, per call;
    window: the arguments that find its input rows. copies: what is copied before."""

    pointers: tuple[Pointer, ...]
    call: KernelCall
    rows: Rows | None = None
    window: C = C()
    copies: tuple[Copying, ...] = ()


@dataclass(frozen=True, slots=True)
class RowBody:
    """Of a step that makes one row, or a few, per call. output: where row `r` lies, or, of several rows, row `row`.

    most: the first row of the last window, of several rows. spare_calls: the condition on r under which `spare` is
    called instead. collects: the layer takes row after row and writes its output after the last one, `last`.
    """

    output: Pointer
    windows: tuple[InputRows, ...]
    call: KernelCall
    rows: Rows
    most: int
    collects: bool
    last: int
    spare_calls: C = C()
    spare: KernelCall | None = None

    @property
    def several(self) -> bool:
        return self.rows.out_rows > 1

    @property
    def uses_r(self) -> bool:
        """Whether the number of the call means anything: all rows may lie at one place."""
        texts = [self.output.at, self.spare_calls, self.call.arguments]
        texts += [text for window in self.windows for text in (window.at, window.arguments)]
        texts += [self.spare.arguments] if self.spare is not None else []
        return self.several or self.collects or any(re.search(r"\br\b", text) for text in texts)

    @property
    def to_fill(self) -> tuple[InputRows, ...]:
        """Windows that have to be filled."""
        return tuple(window for window in self.windows if window.find)


@dataclass(frozen=True, slots=True)
class StepView:
    """A step, its C names and its body. fields: of its parameter struct. is_late: they are set in each
    call, for constants that some point to lie apart from the code."""

    s: Step
    name: C
    params: C
    fields: tuple[tuple[C, C], ...]
    is_late: bool
    whole: Body | None
    row: RowBody | None


def view(program: Program, step: Step) -> StepView:
    struct = step.call.params
    fields = tuple((C(name), C(_field(program, v))) for name, v in struct.fields.items()) if struct else ()
    return StepView(
        step,
        C(f"{program.name}_step_{step.index}_{step.node.op}"),
        C(_params(program, step)),
        fields,
        _takes_address(program, step),
        _body(program, step) if step.row_step is None else None,
        _row_body(program, step, step.row_step) if step.row_step is not None else None,
    )


def input_row(program: Program, table: RowTable) -> C:
    """The address of row `row` of the model's input, in a function that calls the arena `base`."""
    return C(_row_at(program, table, "row", "base"))


def _params(program: Program, step: Step) -> str:
    return f"{program.name}_step_{step.index}_params"


def _is_apart(program: Program, const: Const) -> bool:
    return program.blob is not None and program.symbol_of(const) in program.blob.offsets


def _takes_address(program: Program, step: Step) -> bool:
    """Whether its parameters get addresses in each call."""
    values = step.call.params.fields.values() if step.call.params else ()
    return any(isinstance(value, Const) and _is_apart(program, value) for value in values)


def _field(program: Program, value: int | float | str | Const) -> str:
    if isinstance(value, Const):
        return program.symbol_of(value)
    if isinstance(value, float):
        return c_float(value)
    return c_int(value) if isinstance(value, int) else value


# ---- a step that makes its whole output ----


def _body(program: Program, step: Step) -> Body:
    rows = step.call.rows
    pointers = tuple(_pointer(program, step, arg) for arg in step.call.args if isinstance(arg, In | Out))
    own = program.fetches.get(step.index)
    copied = (arg for arg in step.call.args if isinstance(arg, Copied) and (own is None or arg.const is not own.const))
    copies = tuple(_copying(program, step, arg) for arg in copied)
    if rows is None:
        return Body(pointers, _call(program, step), copies=copies)
    if rows.out_h == rows.k_h == 1 and rows.begins(0) == 0:
        return Body(pointers, _call(program, step, rows="&x"), copies=copies)
    y = step.outputs[0].value
    elements = rows.out_row_bytes * y.elements // y.size_bytes
    first = f"r * {rows.stride} - {rows.pad_top}"
    window = f"rows, x, {first}, {rows.dilation}, {rows.window_rows}, {rows.in_h}, {rows.in_row_bytes}"
    call = _call(program, step, rows="rows", advance=f" + r * {elements}")
    return Body(pointers, call, rows, C(f"{window}, {_padding(program, rows)}"), copies)


def _copying(program: Program, step: Step, arg: Copied) -> Copying:
    at = C(f"arena + {step.scratch_offset + arg.at}")
    return Copying(C(program.symbol_of(arg.const)), at, arg.const.data.nbytes)


def _pointer(program: Program, step: Step, arg: In | Out) -> Pointer:
    place = step.place(arg)
    # Pointers to rows are pointers to bytes, whatever is in them.
    by_rows = isinstance(arg, In) and step.call.rows is not None
    ctype = "int8_t" if by_rows else CTYPE[place.value.dtype]
    return Pointer(C(_local(step, arg)), C(ctype), C(program.address(place.offset or 0)), isinstance(arg, Out))


def _call(program: Program, step: Step, rows: str = "", advance: str = "") -> KernelCall:
    """The call; in a row call `rows` stands for the input and `advance` leads to the output row."""
    args = [_argument(program, step, arg, rows, advance) for arg in step.call.args]
    return KernelCall(C(step.function), C(", ".join(args)))


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
            return "&params" if _takes_address(program, step) else f"&{_params(program, step)}"
        case Const() | Copied():
            return _constant(program, step, arg)
        case int():
            return c_int(arg)
        case Accumulator() | RowIndex():
            raise ValueError(f"{step.function}: an argument of a row form in a call for the whole tensor")


def _constant(program: Program, step: Step, arg: Const | Copied) -> str:
    """Where a constant is when the step's kernel runs: in flash, fetched, or copied to scratch."""
    own, const = program.fetches.get(step.index), arg.const if isinstance(arg, Copied) else arg
    if own is not None and const is own.const:
        at = own.at
    elif isinstance(arg, Copied):
        at = step.scratch_offset + arg.at
    else:
        return program.symbol_of(const)
    return f"{const_cast(element_ctype(const.data))}(arena + {at})"


def _padding(program: Program, rows: Rows) -> str:
    return program.symbol_of(rows.pad) if rows.pad is not None else "NULL"


# ---- a step that makes a row per call, or a few ----


def _row_body(program: Program, step: Step, row: RowStep) -> RowBody:
    form, rows = row.form, step.call.rows
    assert rows is not None  # of every row form
    collects, several = form.accumulator_bytes > 0, rows.out_rows > 1
    ctype = C(CTYPE[step.outputs[0].value.dtype])
    number = "row" if several else "0" if collects else "r"
    windows = tuple(_windows(program, step, row, rows))
    names = {index: _row_name(row, rows, index) for index in row.inputs}
    has_spare = row.spare is not None and row.spare.special is not None
    return RowBody(
        output=Pointer(C("y"), ctype, C(_row_at(program, row.output, number)), writes=True),
        windows=windows,
        call=_row_call(program, step, row, step.function, step.call, names),
        rows=rows,
        most=rows.out_h - rows.out_rows,
        collects=collects,
        last=rows.in_h - 1,
        spare_calls=C(_among(row.spare_calls)) if has_spare else C(),
        spare=_spare_call(program, step, row, names) if has_spare else None,
    )


def _windows(program: Program, step: Step, row: RowStep, rows: Rows) -> Iterator[InputRows]:
    for index, table in sorted(row.inputs.items()):
        place = step.inputs[index]
        assert place is not None
        name = C(_input_name(row, index))
        if row.form.direct and rows.stays_inside:
            yield InputRows(name, C(CTYPE[place.value.dtype]), 0, at=C(_direct_at(program, rows, table)))
        else:
            yield _window(program, rows, table, name, 1 if row.form.direct else rows.window_rows)


def _input_name(row: RowStep, index: int) -> str:
    return "x" if len(row.inputs) == 1 else f"x{index}"


def _row_name(row: RowStep, rows: Rows, index: int) -> str:
    """What the kernel is given for an input."""
    return _input_name(row, index) + ("[0]" if row.form.direct and not rows.stays_inside else "")


def _direct_at(program: Program, rows: Rows, table: RowTable) -> str:
    number = "r" if table.of_call else _first_row(program, rows)
    return _row_at(program, table, f"({number})" if number != "r" and table.table is None else number)


def _window(program: Program, rows: Rows, table: RowTable, name: C, count: int) -> InputRows:
    ctype, pad = C("int8_t"), _padding(program, rows)
    first = "r" if table.of_call else _first_row(program, rows)
    is_one = rows.window_rows == 1 and rows.stays_inside
    if is_one:
        number = first if first == "r" or table.table is not None else f"({first})"
        return InputRows(name, ctype, count, "one", at=C(_row_at(program, table, number)))
    if table.table is None:
        where = f"(const int8_t *)({program.address(table.base)})"
        window = f"{first}, {rows.dilation}, {rows.window_rows}, {rows.in_h}"
        return InputRows(name, ctype, count, "rows", arguments=C(f"{name}, {where}, {window}, {table.step}, {pad}"))
    symbol = program.symbol_of(table.table)
    if table.of_call:
        places = f"{symbol} + {table.of_call} * r, {table.unit}, {table.of_call}"
        return InputRows(name, ctype, count, "places", arguments=C(f"{name}, arena, {places}, {pad}"))
    window = f"{first}, {rows.dilation}, {rows.window_rows}, {rows.in_h}"
    arguments = C(f"{name}, {_base(program, table)}, {symbol}, {table.unit}, {window}, {pad}")
    return InputRows(name, ctype, count, "table", arguments=arguments)


def _spare_call(program: Program, step: Step, row: RowStep, names: Mapping[int, str]) -> KernelCall:
    """Of the kernel with less scratch, for calls in which too many bytes are alive."""
    assert row.spare is not None
    assert row.spare.special is not None
    return _row_call(program, step, row, row.spare.special().name, row.spare.call, names)


def _row_call(
    program: Program, step: Step, row: RowStep, function: str, call: Call, names: Mapping[int, str]
) -> KernelCall:
    args = [_row_argument(program, step, row, arg, names) for arg in call.args]
    return KernelCall(C(function), C(", ".join(args)))


def _row_argument(program: Program, step: Step, row: RowStep, arg: Arg, names: Mapping[int, str]) -> str:
    match arg:
        case In():
            return names[arg.index]
        case Out():
            return "y"
        case Scratch():
            return _row_at(program, row.scratch, "r" if step.split is None else "core")
        case Accumulator():
            return f"arena + {row.accumulator}"
        case RowIndex():
            return "r"
        case _:
            return _argument(program, step, arg, "", "")


def _among(turns: Sequence[int]) -> str:
    """A C condition on r, the number of the call."""
    first, end = turns[0], turns[-1] + 1
    if end - first == len(turns):
        return " && ".join([f"r >= {first}"] * (first > 0) + [f"r < {end}"])
    return f"(0x{sum(1 << turn for turn in turns):x}u >> r & 1u) != 0"


def _row_at(program: Program, table: RowTable, row: str, arena: str = "arena") -> str:
    """The address of a row."""
    if table.table is not None:
        return f"{_base(program, table, arena)} + {table.unit} * {program.symbol_of(table.table)}[{row}]"
    at = program.address(table.base, arena)
    if table.step == 0 or row == "0":
        return at
    return f"{at} {'-' if table.step < 0 else '+'} {row} * {abs(table.step)}"


def _base(program: Program, table: RowTable, arena: str = "arena") -> str:
    """What the places of a table are counted from."""
    return program.address(table.base).split()[0] if table.base else arena


def _first_row(program: Program, rows: Rows) -> str:
    """The first input row of the window of output row r (of several: from row `first` on)."""
    if rows.starts is not None:
        return f"{program.symbol_of(rows.starts)}[r]"
    number = "r" if rows.out_rows == 1 else "first"
    text = number if rows.stride == 1 else f"{number} * {rows.stride}"
    return text + (f" {'-' if rows.pad_top > 0 else '+'} {abs(rows.pad_top)}" if rows.pad_top else "")
