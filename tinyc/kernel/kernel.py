# SPDX-License-Identifier: Apache-2.0
"""What the compiler knows about a C kernel, and how a step of the generated library calls it.

A kernel is one `static` function in a header of runtime_c/, which bears its name or is shared by kernels that differ in
little (`Kernel.header`), or a family of such functions, each written for one layer (`Kernel.written`): shapes as
constants, loops unrolled. An operator lists its kernels best first; of those whose conditions hold on the board,
`select` takes the cheapest.

Two kinds of call:

* whole tensor: the function gets the input and output tensors as they lie in the arena;
* rows: the function computes output row(s) from pointers to the input rows that they need. The step
  (or, when layers are streamed, the schedule) says where the rows are; rows beyond the border are
  pointers to a constant row of zero points, so no kernel tests for the vertical border.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import field, replace
from functools import lru_cache
from typing import Any, Generic, ParamSpec, TypeVar

from tinyc.base.dataclass import dataclass
from tinyc.ir.graph import Array
from tinyc.kernel.site import Site

P = ParamSpec("P")
T = TypeVar("T")
W = TypeVar("W")
STREAM = "stream"  # role of what a kernel reads from its first word to the last
SCRATCH_ALIGN = 16  # of every kernel's scratch
# From the end of a layer to the first instruction of another core's part of the next one, and back: two messages
# through a mailbox of the chip, and the calls around them.
HANDOVER_CYCLES = 200
Condition = Callable[[Site], bool]  # its docstring is the message: what the kernel asks for


@dataclass(frozen=True, slots=True)
class Const:
    """A constant array that goes to flash. `layout` is said in the generated comment: `[out_c][k_h][k_w][in_c]`.

    array: the constant, or how it is made: of kernels that are not chosen nobody asks for `data`.
    """

    array: Array | Once[Array]
    layout: str = ""
    role: str = "w"  # last part of the C name: w, bias, mult, shift, lut, pad ...

    @property
    def data(self) -> Array:
        return self.array() if isinstance(self.array, Once) else self.array


@dataclass(frozen=True, slots=True)
class Struct:
    """A `const` parameter struct of C type `ctype`; fields are ints, floats, Consts or names of C enums."""

    ctype: str
    fields: Mapping[str, int | float | str | Const]


@dataclass(frozen=True, slots=True)
class In:
    """Argument: the node's input number `index`, a tensor in the arena; a constant input is passed as its Const."""

    index: int


@dataclass(frozen=True, slots=True)
class Out:
    """Argument: the step's output number `index`."""

    index: int = 0


@dataclass(frozen=True, slots=True)
class Scratch:
    """Argument: `void *` to the scratch bytes of this step."""


@dataclass(frozen=True, slots=True)
class Params:
    """Argument: `const` pointer to the step's parameter struct."""


@dataclass(frozen=True, slots=True)
class Accumulator:
    """Argument of an accumulating row form: `void *` to its bytes, which last from the first row to the last."""


@dataclass(frozen=True, slots=True)
class RowIndex:
    """Argument of a row form: `int32_t`, the number of the row that the call makes (accumulating: consumes)."""


@dataclass(frozen=True, slots=True)
class Copied:
    """Argument: a constant that the step copies to its scratch, from byte `at` on, before the first call."""

    const: Const
    at: int


Arg = In | Out | Scratch | Params | Accumulator | RowIndex | Const | Copied | int


@dataclass(frozen=True, slots=True)
class Across:
    """How a call goes along its rows, from left to right, piece by piece.

    Before piece i it has read (and keeps what it needs of) the first `ahead` + i * columns * stride columns of all rows
    of its window; then it writes output columns [i * columns, (i + 1) * columns) of its output rows. in_step, out_step:
    bytes of a column.
    """

    columns: int
    ahead: int
    stride: int
    in_step: int
    out_step: int


@dataclass(frozen=True, slots=True)
class Rows:
    """The vertical geometry of a row call. Output row r reads input rows r*stride - pad_top + k*dilation."""

    in_h: int
    out_h: int
    k_h: int
    stride: int
    pad_top: int
    dilation: int
    in_row_bytes: int
    out_row_bytes: int
    # A row of zero points that stands for rows outside the tensor. None: rows outside are null pointers, which the
    # kernel skips (pooling), or there are none.
    pad: Const | None
    out_rows: int = 1  # output rows that come from one call
    # A call has read all of its input before it writes any output, so its output may take the place of rows that only
    # it still needs.
    buffered: bool = False
    across: Across | None = None  # a call's way along its rows; None: it may read any of them until it ends
    phase: int = 0  # of row forms: the first call makes so many rows fewer, so that every other one makes later rows
    # Of row forms that make one row, without dilation: the first input row of the window of each output row, where that
    # is not r*stride - pad_top, because the image grows.
    starts: Const | None = None

    @property
    def calls(self) -> int:
        """Calls that make all rows."""
        return -(-(self.out_h + self.phase) // self.out_rows)

    @property
    def window_rows(self) -> int:
        """Pointers to input rows of a call."""
        return (self.out_rows - 1) * self.stride + self.k_h

    def output_rows(self, call: int) -> range:
        """The output rows that come from a call."""
        first = call * self.out_rows - self.phase
        return range(max(first, 0), min(first + self.out_rows, self.out_h))

    def begins(self, row: int) -> int:
        """The first input row of an output row's window; < 0 where that begins above the tensor."""
        return row * self.stride - self.pad_top if self.starts is None else int(self.starts.data[row])

    @property
    def stays_inside(self) -> bool:
        """Whether no window leaves the tensor."""
        reach = (self.k_h - 1) * self.dilation
        ends = [self.begins(row) for row in ((0, self.out_h - 1) if self.starts is None else range(self.out_h))]
        return min(ends) >= 0 and max(ends) + reach < self.in_h


@dataclass(frozen=True, slots=True)
class Call:
    """One kernel call. For a row call, In is replaced by the row pointers and Out by the output row.

    flow: how one call for the whole tensor (or for one row that is all of it) goes through its input by
    itself, first row to last; a row may be a pixel, or whatever is read at a time. It tells the planner how
    far the output may overlap the input.
    """

    args: tuple[Arg, ...]
    params: Struct | None = None
    rows: Rows | None = None
    flow: Rows | None = None


def call_consts(call: Call) -> tuple[Const, ...]:
    """Every constant array that a call refers to, in a stable order."""
    consts = [arg.const if isinstance(arg, Copied) else arg for arg in call.args if isinstance(arg, Const | Copied)]
    if call.params is not None:
        consts += [field for field in call.params.fields.values() if isinstance(field, Const)]
    if call.rows is not None:
        consts += [const for const in (call.rows.pad, call.rows.starts) if const is not None]
    return tuple(consts)


def buffered_flow(count: int, at_a_time: int, in_bytes: int, out_bytes: int) -> Rows:
    """The flow of a kernel that makes `count` pieces of out_bytes from as many of in_bytes, in order,
    and has read `at_a_time` of them completely before it writes their outputs."""
    return Rows(count, count, 1, 1, 0, 1, in_bytes, out_bytes, None, at_a_time, buffered=True)


def no_scratch(site: Site, params: Any) -> int:
    """0: the kernel works in its inputs, outputs and registers."""
    return 0


@dataclass(frozen=True, slots=True)
class SpecializedKernel:
    """A C function written for one layer. Layers with the same name and text share it."""

    name: str  # the C function, telling kernel and shape (`tc_conv2d_1x1_s8_dsp_i64_o64`)
    text: str  # its `static` definition, contract in a comment above
    includes: tuple[str, ...] = ()  # headers of runtime_c/ that it needs
    parts: tuple[SpecializedKernel, ...] = ()  # functions that it calls, which other layers may call too
    tile: str = ""  # of its inner loop, in words; empty where it says none
    # What a compiler makes of C that grows with the layer, all that the step needs; 0 of all other, which is measured
    # by kernel.
    compiled_bytes: int = field(default=0, compare=False)
    array_bytes: int = field(default=0, compare=False)  # of its C, on the stack


@dataclass(frozen=True, slots=True)
class Fetches:
    """What a layer takes out of flash in an inference.

    data_bytes: of constants, each time that they are read. loops: of code, (bytes, turns); a cache may hold the bytes
    from the first turn on. stream: (bytes, readings) of the constant STREAM, which is part of data_bytes.
    """

    data_bytes: int
    loops: tuple[tuple[int, int], ...] = ()
    stream: tuple[int, int] = (0, 0)

    @classmethod
    def around(cls, data_bytes: int, code_bytes: int, instructions: int) -> Fetches:
        """Of a function that is mostly in one loop: it turns as often as all instructions, of 4 bytes, say."""
        return cls(data_bytes, ((code_bytes, -(-4 * instructions // max(code_bytes, 1))),))


@dataclass(frozen=True, slots=True)
class WrittenCode:
    """The functions written for a layer, or other flash that layers share. key: equal where that is, of any layer.
    size: bytes, estimated. once: the same where one layer alone has it; None: as many."""

    key: Hashable
    size: int
    once: int | None = None

    @property
    def alone_bytes(self) -> int:
        """Where one layer has it."""
        return self.size if self.once is None else self.once


@dataclass(frozen=True, slots=True)
class Cost:
    """What a layer costs with a kernel. Code that layers share is counted for each."""

    instructions: int  # executed in an inference
    flash_bytes: int  # constants and code
    scratch_bytes: int
    cycles: int = -1  # without wait states, of the core that is written for; not given: what is usual for compiled C
    fetches: Fetches | None = None  # for boards with slow flash; None: what `choose/slow_flash.py` takes for usual
    code: WrittenCode | None = field(default=None, compare=False)  # what of it is written for the layer, if any is
    ram_code: int = 0  # bytes of code that are worth their place in RAM (`--ram-code`)
    ram_consts: int = 0  # the same of constants
    waits: int = 0  # of the cycles, those for slow flash
    # What else layers share: functions in C, a row of padding, tables, a second function.
    others: tuple[WrittenCode, ...] = field(default=(), compare=False)
    code_part: int | None = field(default=None, compare=False)  # bytes of flash_bytes that stand for these; None: all

    def __post_init__(self) -> None:
        if self.cycles < 0:
            object.__setattr__(self, "cycles", self.instructions * 3 // 2)

    def shared(self, layers: Mapping[Hashable, int]) -> Cost:
        """The same with a part of the bytes that layers share, no more than what one alone has: parts are at most what
        is there. layers: how many may have them, by their key."""
        if not self.codes or self.code_part is not None:
            return self
        counts = {code.key: layers.get(code.key, 1) for code in self.codes}
        single = [code for code in self.codes if counts[code.key] == 1]
        several = [code for code in self.codes if counts[code.key] > 1]
        part = sum(min(code.size // counts[code.key], code.alone_bytes) for code in several)
        return replace(
            self,
            flash_bytes=self.own_bytes + sum(code.alone_bytes for code in single) + part,
            ram_code=self.ram_code // (counts[self.code.key] if self.code is not None else 1),
            code=self.code if self.code in several else None,
            others=tuple(code for code in self.others if code in several),
            code_part=part,
        )

    @property
    def codes(self) -> tuple[WrittenCode, ...]:
        """What is there for the layer, and may be for others."""
        return self.others if self.code is None else (self.code, *self.others)

    @property
    def own_bytes(self) -> int:
        """Bytes of flash beside those."""
        part = sum(code.alone_bytes for code in self.codes) if self.code_part is None else self.code_part
        return self.flash_bytes - part

    def with_code(self, size: int) -> Cost:
        """The same with so many bytes of compiled code around the kernel."""
        return replace(self, flash_bytes=self.flash_bytes + size)

    def beside(self, codes: Iterable[WrittenCode]) -> Cost:
        """The same with what else layers share."""
        more = tuple(codes)
        flash = self.flash_bytes + sum(code.alone_bytes for code in more)
        return replace(self, flash_bytes=flash, others=(*self.others, *more)) if more else self

    def slower(self, times: float) -> Cost:
        """The same with so many times the instructions and cycles."""
        return replace(self, instructions=round(self.instructions * times), cycles=round(self.cycles * times))

    def in_scratch(self, size: int) -> Cost:
        """The same with so many bytes of scratch."""
        return self if self.scratch_bytes == size else replace(self, scratch_bytes=size)


def flash_of(costs: Iterable[Cost]) -> int:
    """Bytes of flash of layers together: what they share is there once."""
    own, sizes, users = 0, dict[Hashable, int](), dict[Hashable, list[int]]()
    for cost in costs:
        own += cost.own_bytes
        for code in {code.key: code for code in cost.codes}.values():
            sizes[code.key] = max(code.size, sizes.get(code.key, 0))
            users.setdefault(code.key, []).append(code.alone_bytes)
    return own + sum(alone[0] if len(alone) == 1 else sizes[key] for key, alone in users.items())


class Once(Generic[T]):
    """A value that is made when it is first asked for, and kept: `value()`."""

    __slots__ = ("_make", "_value")

    def __init__(self, make: Callable[[], T]) -> None:
        self._make: Callable[[], T] | None = make
        self._value: T

    def __call__(self) -> T:
        if self._make is not None:
            self._value, self._make = self._make(), None
        return self._value


@dataclass(frozen=True, slots=True)
class RowForm:
    """How a streamed group calls a kernel: its input rows lie anywhere in the arena, and a call makes one output row,
    or several.

    In(i) is an array of row pointers (`const int8_t *const *`), Out() the pointer to the output row. Rows outside the
    tensor are pointers to rows.pad, or null pointers where there is none. An elementwise kernel gets rows of each of
    its tensor inputs.

    Several rows (rows.out_rows > 1, without dilation): Out() is an array of so many row pointers (`int8_t *const *`).
    Where a call makes fewer rows, the window is that of out_rows rows that hold them, never beyond the last. Those that
    are not made have the pointer of one that is, and the kernel leaves there what it makes of the last row with that
    pointer. Input rows that only others need may be anything then.
    """

    call: Call  # `call.rows` is the vertical geometry
    scratch_bytes: int
    cost: Cost  # of the whole tensor made this way, scratch included
    special: Once[SpecializedKernel] | None = None  # the function written for the layer, of a family of them
    # Inputs whose dying row (one of the topmost of the window, as many as there are output rows) may be exactly an
    # output row's bytes: they have the same number of bytes, and what is written over has been read.
    inplace: tuple[int, ...] = ()
    # > 0: a call consumes one input row, in order, and adds it into these bytes (4-byte aligned). They belong to the
    # layer from row 0, where the kernel clears them, to the last row, where it writes Out(), which may not overlap
    # them. Then k_h is 1 and out_h is in_h.
    accumulator_bytes: int = 0
    direct: bool = False  # k_h is 1, and In(i) is the pointer to the row (or to rows.pad) itself
    function: str = ""  # the C function, where it is not `special` and has another name than the kernel
    includes: tuple[str, ...] = ()  # that function's headers; without one the kernel's are beside these
    only_own_rows: bool = False  # rows that a call does not make take no time
    lone_row: tuple[int, int] = (0, 0)  # of two rows, what a call for one takes beyond half: instructions, cycles
    in_c: str = ""  # what its C is, where that is not the kernel's: a word of `choose/compiled_code.py`


@dataclass(frozen=True, slots=True)
class CoreSplit:
    """A layer that runs whole, the calls of a row form shared out to cores: each makes rows of the one output, in
    scratch bytes of its own."""

    form: RowForm
    cores: int

    @property
    def calls(self) -> int:
        """Calls that make all rows."""
        assert self.form.call.rows is not None  # of every row form
        return self.form.call.rows.calls

    @property
    def part(self) -> int:
        """The most calls of a core; it is the first one's."""
        return -(-self.calls // self.cores)

    @property
    def inplace(self) -> tuple[int, ...]:
        """Inputs whose bytes may be the output's: each row takes the place of what only its own call reads."""
        rows = self.form.call.rows
        assert rows is not None  # of every row form
        alone = rows.k_h == rows.stride == 1 and rows.pad_top == 0 and rows.starts is None
        return self.form.inplace if alone and rows.in_row_bytes == rows.out_row_bytes else ()

    def time_of(self, cycles: int) -> int:
        """Cycles until the last core has made its part. cycles: of all calls, one after the other."""
        return -(-cycles * self.part // self.calls) + HANDOVER_CYCLES

    @property
    def scratch_step(self) -> int:
        """Bytes from the scratch of a core to that of the next one."""
        return -(-self.form.scratch_bytes // SCRATCH_ALIGN) * SCRATCH_ALIGN


@dataclass(frozen=True, slots=True)
class Refused:
    """A kernel does not take a layer. asks: what it asks for, in the words of `Kernel.asks`."""

    asks: str


@dataclass(frozen=True, slots=True)
class Offer:
    """What a kernel offers for one layer. It is made once; every stage that comes later asks it and not the kernel.
    What only the chosen kernel needs is made when it is asked for."""

    scratch_bytes: int
    cost: Cost
    call: Once[Call]
    special: Once[SpecializedKernel] | None = None  # the function written for the layer; None: one C function for all
    # Ways to make its rows one at a time in a streamed group, with several scratch sizes at several costs, beside that
    # of `Call.rows` where it makes one row per call.
    row_forms: Once[tuple[RowForm, ...]] = field(default_factory=lambda: Once(tuple))
    copies: bool = False  # the layer runs whole, with constants in its scratch
    split: CoreSplit | None = None  # the layer runs whole, on several cores


def writing(write: Callable[P, T], *layer: P.args, **named: P.kwargs) -> T:
    """What `write` writes for a layer, which follows from its arguments alone. It is written once: several kernels ask
    for it, and layers that are alike."""
    if named:
        raise TypeError("a layer is told of by arguments in order")
    result: T = _writing(write, layer)
    return result


@lru_cache(maxsize=1 << 12)
def _writing(write: Callable[..., Any], layer: tuple[Hashable, ...]) -> Any:
    return write(*layer)


Offering = Callable[["Site", Any], Offer | Refused]


def offered(
    lower: Callable[[Site, Any], Call],
    *,
    cost: Callable[[Site, Any], Cost],
    scratch: Callable[[Site, Any], int] = no_scratch,
    specialize: Callable[[Site, Any], SpecializedKernel] | None = None,
    row_forms: Callable[[Site, Any], tuple[RowForm, ...]] | None = None,
) -> Offering:
    """`Kernel.offer` of functions that share no work: each gives one part of the Offer."""

    def offer(site: Site, params: Any) -> Offer:
        return Offer(
            scratch(site, params),
            cost(site, params),
            Once(lambda: lower(site, params)),
            None if specialize is None else Once(lambda: specialize(site, params)),
            Once(lambda: () if row_forms is None else row_forms(site, params)),
        )

    return offer


def planned(
    plan: Callable[[Site, Any], W | None],
    asks: str,
    *,
    call: Callable[[W, Site, Any], Call],
    cost: Callable[[W, Site, Any], Cost],
    special: Callable[[W, Site, Any], SpecializedKernel],
) -> Offering:
    """`Kernel.offer` of a function written for the layer: all parts of the Offer come from one plan of it.

    plan: None where the layer is refused; asks says what for.
    """

    def offer(site: Site, params: Any) -> Offer | Refused:
        work = plan(site, params)
        if work is None:
            return Refused(asks)
        whole = cost(work, site, params)
        return Offer(
            whole.scratch_bytes,
            whole,
            Once(lambda: call(work, site, params)),
            Once(lambda: special(work, site, params)),
        )

    return offer


def only_if(holds: Callable[[Site, Any], bool], asks: str, offering: Offering) -> Offering:
    """`Kernel.offer` that is refused, with what it asks for, where something does not hold."""

    def offer(site: Site, params: Any) -> Offer | Refused:
        return offering(site, params) if holds(site, params) else Refused(asks)

    return offer


@dataclass(frozen=True, slots=True)
class Kernel:
    """A C function, where it may be used, and what it offers there."""

    name: str  # of the C function; with `written`, of a family of functions
    offer: Offering  # what it costs and how it is called, for a node that fits `when`
    isa: frozenset[str] = frozenset()  # features that the core must have (`dsp`)
    when: tuple[Condition, ...] = ()  # conditions on the node
    asks: str = ""  # what `offer` may still refuse for, in words
    # Inputs whose bytes may be the output's bytes (same start), because every element is read before it is written.
    # They have the output's shape, or (shrinks) more elements.
    inplace: tuple[int, ...] = ()
    shrinks: bool = False
    header: str = ""  # of runtime_c/, with the function; empty: named as it is
    includes: tuple[str, ...] = field(default=())  # further headers of runtime_c/, beside tc_math.h
    written: bool = False  # each function of the family is written for its layer
    slow_flash: bool = False  # for boards with slow flash only, where others wait for their code
    # Features of cores on which other kernels take less of everything: there it runs where it is asked for by name.
    beaten_with: frozenset[str] = frozenset()
    # It may take words at addresses that depend on more than where pixels and rows begin, by its attributes
    # (`emit/alignment.py`).
    anywhere: bool = False
    # How many constants there are depends on their values, so that other ones may not take their place
    # (`--weights-blob`).
    sized_by_values: bool = False

    @property
    def own_header(self) -> str:
        """The header of runtime_c/ with the function; there is none where functions are written for their layers."""
        return self.header or f"{self.name}.h"

    @property
    def headers(self) -> tuple[str, ...]:
        """Headers of runtime_c/ that a call needs; a function written for the layer brings its own."""
        return self.includes if self.written else (*self.includes, self.own_header)

    def with_row_forms(self, row_forms: Callable[[Site, Any], tuple[RowForm, ...]]) -> Kernel:
        """The same kernel with these row forms."""

        def offer(site: Site, params: Any) -> Offer | Refused:
            plain_offer = self.offer(site, params)
            if isinstance(plain_offer, Refused):
                return plain_offer
            return replace(plain_offer, row_forms=Once(lambda: row_forms(site, params)))

        return replace(self, offer=offer)


@dataclass(frozen=True, slots=True)
class Tiled:
    """One way to compute an operator, with a choice of tiles: how many outputs are made together, where their inputs
    wait, how weights lie. Each is a Kernel, and the cheapest of those that take a layer runs it.

    what: in words, what they share.
    """

    what: str
    tiles: tuple[Kernel, ...]

    @property
    def isa(self) -> frozenset[str]:
        """What all of them ask of the core."""
        return frozenset.intersection(*(kernel.isa for kernel in self.tiles))

    @property
    def when(self) -> tuple[Condition, ...]:
        """What all of them ask of the node."""
        return tuple(test for test in self.tiles[0].when if all(test in kernel.when for kernel in self.tiles))
