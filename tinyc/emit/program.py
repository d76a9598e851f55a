# SPDX-License-Identifier: Apache-2.0
"""The program that the templates print: steps, constants, and where everything lies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from tinyc.base.dataclass import dataclass
from tinyc.base.numerics import Numerics
from tinyc.choose.select import Choice
from tinyc.emit.constants import ConstantArray, key_of
from tinyc.ir.graph import Labels, Node, Value
from tinyc.kernel.kernel import Call, Const, CoreSplit, Cost, In, Out, RowForm, SpecializedKernel
from tinyc.options.build import Optimize
from tinyc.plan.answer import SLOW


@dataclass(frozen=True, slots=True)
class Place:
    """A tensor in the arena, bytes [offset, offset + value.size_bytes), or a constant in flash. Offsets from SLOW on
    are of the slow part.

    rows: where each row of a streamed tensor starts, if they do not lie one after another; offset is the lowest.
    """

    value: Value
    offset: int | None
    rows: tuple[int, ...] = ()

    @property
    def end(self) -> int:
        """One past the last byte in use."""
        if self.rows:
            return max(self.rows) + self.value.size_bytes // len(self.rows)
        return (self.offset or 0) + self.value.size_bytes

    @property
    def first(self) -> int:
        """Its offset in its own part of the arena."""
        return (self.offset or 0) - (SLOW if self.is_slow else 0)

    @property
    def is_slow(self) -> bool:
        """Whether it lies in the slow part."""
        return (self.offset or 0) >= SLOW


@dataclass(frozen=True, slots=True)
class RowTable:
    """Where the rows of a tensor (or the scratch of a step, row by row) lie in the arena.

    table: offsets from base on in units of `unit` bytes, a constant of the library; None: row r is at base + r * step.
    base, of tables: 0, or where the slow part begins. of_call: > 0:
    the table has so many places for each call of a step, those of its window, LOST for a row outside the tensor.
    """

    base: int
    step: int
    unit: int = 1
    table: Const | None = None
    of_call: int = 0

    def place_of(self, row: int) -> int:
        """Where a row lies in the arena, where each has one place."""
        return self.base + (row * self.step if self.table is None else int(self.table.data[row]) * self.unit)


@dataclass(frozen=True, slots=True)
class RowStep:
    """What a step is in a streamed group: a function that makes row r, or the rows of call r. inputs: by the number of
    the argument. spare: how it makes those of the calls in `spare_calls`. Of a step on several cores, which is no part
    of a group: scratch, by the number of the core."""

    form: RowForm
    inputs: Mapping[int, RowTable]
    output: RowTable
    scratch: RowTable
    accumulator: int
    spare: RowForm | None = None
    spare_calls: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Stream:
    """Steps that run row by row. order: pairs (step, row), a constant of the library; (number of steps, i): move i."""

    steps: tuple[int, ...]
    turns: int
    order: Const


@dataclass(frozen=True, slots=True)
class RowMoves:
    """Rows that go to other places between the turns. table: triples (from, to, bytes), in units of `unit` bytes."""

    unit: int
    table: Const


@dataclass(frozen=True, slots=True)
class RowInput:
    """The model's only input, given row by row.

    rows: where each row goes; LOST in its table: nowhere, nobody reads it. order: all turns of the library, as in
    Stream. turns: how many of them have run when row r has been given.
    """

    count: int
    row_bytes: int
    rows: RowTable
    loses_rows: bool
    order: Const
    turns: Const


@dataclass(frozen=True, slots=True)
class Incremental:
    """A library over a sliding window: each call takes `hop` new rows of the input, and keeps what later calls need."""

    hop: int
    window: int  # rows that one output is computed of
    row_bytes: int
    places: RowTable  # where the new rows go; LOST in its table, as in RowInput: nowhere
    loses_rows: bool
    order: Const  # of one call, as in Stream
    turns: int  # of one call, as in Stream
    moves: Const | None  # triples (from, to, bytes) that make the rows of this call those of the past, in order
    seen: int  # where the library counts the rows that it was given, an int32
    extra_bytes: int  # for that, and for rows that change places

    @property
    def calls(self) -> int:
        """How many calls give one window."""
        return -(-self.window // self.hop)


@dataclass(frozen=True, slots=True)
class ProgramState:
    """State of the library: where it lies from run to run, what `_reset` writes there, and where the last step that
    computes it leaves it; None: in its place."""

    place: Place
    initial: bytes
    data: Const | None  # the initial bytes in flash, where they are not all alike
    computed: Place | None


@dataclass(frozen=True, slots=True)
class Push:
    """A library that takes samples in any number. samples: the model's input, the new samples of a run; held: those
    before them, None where windows do not overlap. counters: where two int32 lie, how many samples have come, and how
    many runs are missing until the output means something; primed, missing: after a reset."""

    samples: Place
    held: Place | None
    counters: int
    missing: int
    primed: int


@dataclass(frozen=True, slots=True)
class Blob:
    """Constants that lie apart from the code. slot: where in the arena their address is; offsets: of each, from their
    first byte, by its C name; size_bytes: of the file (`blob.py`)."""

    slot: int
    offsets: Mapping[str, int]
    size_bytes: int


@dataclass(frozen=True, slots=True)
class InRam:
    """What start-up code copies to RAM, by C names, so that it does not wait for flash. budget: bytes that it may
    take. size: bytes that it takes, estimated."""

    functions: frozenset[str]
    constants: frozenset[str]
    budget: int
    size: int


@dataclass(frozen=True, slots=True)
class Fetch:
    """A constant that comes to RAM while the step before runs. symbol: its C name; at: its place in the arena."""

    symbol: str
    const: Const
    at: int

    @property
    def size_bytes(self) -> int:
        return self.const.data.nbytes


LOST = 0xFFFF  # in a table of rows: a row that has no place


@dataclass(frozen=True, slots=True)
class Step:
    """One kernel call of the library, or with `call.rows` one loop of calls over the rows of an image.

    row_step: the step belongs to a streamed group, or several cores run it, and the call is for one row.
    """

    index: int
    node: Node
    choice: Choice
    call: Call
    inputs: tuple[Place | None, ...]  # as the node's: None for an absent optional one
    outputs: tuple[Place, ...]
    scratch_offset: int
    macs: int
    const_bytes: int  # of the constants that this step is the first to use
    special: SpecializedKernel | None = None  # the function written for this layer
    bottom_up: bool = False
    row_step: RowStep | None = None

    @property
    def title(self) -> str:
        """`conv2d + relu`."""
        act = str(getattr(self.node.attrs, "act", ""))
        return f"{self.node.op} + {act}" if act else self.node.op

    @property
    def cost(self) -> Cost:
        """What its kernel says that it costs."""
        return self.row_step.form.cost if self.row_step is not None else self.choice.offer.cost

    @property
    def function(self) -> str:
        """The C function that the step calls."""
        if self.row_step is not None and self.row_step.form.function:
            return self.row_step.form.function
        return self.special.name if self.special else self.choice.kernel.name

    @property
    def scratch_bytes(self) -> int:
        return self.row_step.form.scratch_bytes if self.row_step and self.is_streamed else self.choice.scratch_bytes

    @property
    def split(self) -> CoreSplit | None:
        """How several cores run it together."""
        return self.choice.offer.split

    @property
    def is_streamed(self) -> bool:
        """Whether it makes its output row by row, between turns of other steps."""
        return self.row_step is not None and self.split is None

    @property
    def headers(self) -> tuple[str, ...]:
        """Headers of runtime_c/ that it needs."""
        own = self.special.includes if self.special else ()
        if self.row_step is None:
            rows = ("tc_rows.h",) if self.call.rows is not None else ()
            return (
                *self.choice.kernel.headers,
                *own,
                *rows,
                *(("tc_row_table.h",) if self.choice.offer.copies else ()),
            )
        form = self.row_step.form
        kernel = () if form.function else self.choice.kernel.headers
        spare = self.row_step.spare
        other = spare.special().includes if spare and spare.special else ()
        return (*kernel, *form.includes, *own, *other, "tc_rows.h", "tc_row_table.h")

    @property
    def specials(self) -> tuple[SpecializedKernel, ...]:
        """The functions written for the layer, those first that others call."""
        spare = self.row_step.spare.special if self.row_step and self.row_step.spare else None
        own = [special for special in (self.special, spare() if spare else None) if special]
        return tuple(function for special in own for function in (*special.parts, special))

    @property
    def live_bytes(self) -> int:
        """Bytes of its inputs, outputs and scratch together; of a streamed step, those that one row takes."""
        if self.row_step is not None and self.is_streamed:
            form, rows = self.row_step.form, self.call.rows
            assert rows is not None
            window = rows.window_rows * rows.in_row_bytes * len(self.row_step.inputs)
            return window + rows.out_rows * rows.out_row_bytes + form.scratch_bytes + form.accumulator_bytes
        tensors = [place for place in (*self.inputs, *self.outputs) if place and place.offset is not None]
        return sum(place.value.size_bytes for place in tensors) + self.scratch_bytes

    def place(self, arg: In | Out) -> Place:
        """Where an argument of the call lies; only tensors in the arena are passed as In."""
        place = self.inputs[arg.index] if isinstance(arg, In) else self.outputs[arg.index]
        if place is None or place.offset is None:
            raise ValueError(f"{self.choice.kernel.name}: input {arg.index} is not in the arena; pass its Const")
        return place


@dataclass(frozen=True, slots=True)
class Program:
    """Everything that the templates print."""

    name: str
    numerics: Numerics
    steps: tuple[Step, ...]
    symbols: tuple[ConstantArray, ...]
    inputs: tuple[Place, ...]
    outputs: tuple[Place, ...]
    arena_bytes: int
    arena_lower_bound_bytes: int
    arena_align: int
    input_perms: Mapping[str, tuple[int, ...]]
    streams: tuple[Stream, ...] = ()
    row_input: RowInput | None = None
    incremental: Incremental | None = None
    states: tuple[ProgramState, ...] = ()
    moves: RowMoves | None = None
    push: Push | None = None
    slow_bytes: int = 0  # of the arena's slow part, which arena_bytes does not count
    blob: Blob | None = None
    in_ram: InRam | None = None
    fetches: Mapping[int, Fetch] = field(default_factory=dict)  # by the step that reads them
    labels: Mapping[str, Labels] = field(default_factory=dict)  # of outputs, by the value's name
    optimize: Optimize = "speed"  # what the C compiler is told

    @property
    def kind(self) -> str:
        """What it computes in: `integer`, or `float32` where nothing has a scale."""
        places = [place for step in self.steps for place in (*step.inputs, *step.outputs) if place is not None]
        return "integer" if any(place.value.dtype != "f32" for place in places) else "float32"

    @property
    def arithmetic(self) -> str:
        """Whose integers it computes, in a word; or float32."""
        return "float32" if self.kind == "float32" else self.numerics.value

    @property
    def state_offset(self) -> int:
        """Where in the arena what lasts from run to run begins; it is the arena's end."""
        return min((state.place.offset or 0 for state in self.states), default=self.arena_bytes)

    def address(self, offset: int, arena: str = "arena") -> str:
        """C of a place, in a function that calls the arena so."""
        return f"{self.name}_slow + {offset - SLOW}" if offset >= SLOW else f"{arena} + {offset}"

    @property
    def first_fetch(self) -> Fetch | None:
        """What a run begins with."""
        return next(iter(self.fetches.values()), None)

    @property
    def fetch_bytes(self) -> int:
        """Of the buffers, which are the end of the arena."""
        return self.arena_bytes - min((fetch.at for fetch in self.fetches.values()), default=self.arena_bytes)

    @property
    def fetched_symbols(self) -> frozenset[str]:
        return frozenset(fetch.symbol for fetch in self.fetches.values())

    def fetch_after(self, step: int) -> Fetch | None:
        """What is fetched while a step runs that has fetched its own."""
        return next((fetch for index, fetch in self.fetches.items() if index > step), None)

    @property
    def cores(self) -> int:
        """The most that run a step together."""
        return max((step.split.cores for step in self.steps if step.split), default=1)

    @property
    def splits(self) -> Mapping[int, CoreSplit]:
        """How several cores run steps together, by the step."""
        return {step.index: step.split for step in self.steps if step.split}

    def stream_of(self, step: int) -> Stream | None:
        """The streamed group that the step belongs to."""
        return next((stream for stream in self.streams if step in stream.steps), None)

    def symbol_of(self, const: Const) -> str:
        """The C name of a constant of some step. Equal contents share one name; a padding row is a prefix."""
        key = key_of(const)
        return next(symbol.name for symbol in self.symbols if symbol.key == key)

    @property
    def specials(self) -> tuple[SpecializedKernel, ...]:
        """The functions written for layers of this model, each once, before those that call them."""
        functions: dict[str, SpecializedKernel] = {}
        for step in self.steps:
            for special in step.specials:
                if functions.setdefault(special.name, special) != special:
                    raise ValueError(f"two different functions are called {special.name}")
        return tuple(functions.values())

    @property
    def headers(self) -> tuple[str, ...]:
        """Kernel headers in use, in the order in which steps need them."""
        names: dict[str, None] = {}
        for step in self.steps:
            names.update(dict.fromkeys(step.headers))
        if self.fetches or self.incremental is not None:
            names["tc_row_table.h"] = None  # copies constants, moves rows
        return tuple(names)
