# SPDX-License-Identifier: Apache-2.0
"""Loops of recurrent layers on Cortex-M with DSP: a function in assembly for each layer, weights in the order of use.

Everything of a unit is done in registers: its rows are multiplied with the step's vector (the input as int16, behind it
the hidden state), two rows over each other in a word, then come the gates and the state that the next step reads, in
the other of two vectors. Of weights of 4 bits four are in a half of a word, and one AND brings one of either half on
top, so that sums are times 2^12. tc_recurrent.h says what is computed, tc_recurrent_packed.h what the stream holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from tinyc.base.dataclass import dataclass
from tinyc.ir.graph import Array
from tinyc.kernel.kernel import Cost, Fetches, SpecializedKernel, WrittenCode
from tinyc.kernels.form.function import LayerFunction, twin
from tinyc.kernels.int4_words import NIBBLE_MASK, top
from tinyc.machine.cores import Core
from tinyc.machine.frame import Frame
from tinyc.machine.thumb import Asm, Naked, Work

_PARAMETERS = ("const tc_recurrent_packed_t *layer", "const void *x", "void *y", "int32_t *memory")
_X = ("r6", "r7", "r8", "r9")  # a chunk of the vector
_W = ("r10", "r11", "r12", "r14")
_NARROW_W, _ONE, _MASK = ("r10", "r11"), "r12", "r14"  # of 4 bits: words, one weight of each half, and what it takes
_TOP = 12  # lift of weights of 4 bits
_CHUNK = 8  # taps
_UNROLLED = 12  # chunks of a unit that are written one after the other; of more, so many as `_TURN` turn
_TURN = 8
_OVER = (("r2", "lstm"), ("r4", "lstm"), ("r2", "gru"))  # accumulators that come times 2^8
_HALF = 16
_MIDDLE = 1 << 14  # of tanh, in the table of logistic
_FIRST = ("half", "y_mult", "unit", "memory", "y", "next", "table", "y_add")  # come to registers with one LDM
_FIRST_AT = "{r6-r12, r14}"
_SLOTS = (*_FIRST, "vector", "stream", "x", "left")
_CALL, _PER_UNIT = Work(40, 60), Work(40, 60)  # of the C function around it


@dataclass(frozen=True, slots=True)
class LoopLayer:
    """What the code depends on, with the meanings of tc_recurrent_t. x, y: (mult, add, shift); x_walk, y_walk: bytes of
    the first step, and from step to step; wide: x and y have 16 bits. begins: of states that are found or kept, how
    many. narrow: weights have 4 bits."""

    cell: str
    units: int
    in_c: int
    state_at: int
    taps: int
    steps: int
    over: int
    lift: int
    under: int
    down: int
    x: tuple[int, int, int]
    y: tuple[int, int, int]
    x_walk: tuple[int, int]
    y_walk: tuple[int, int]
    wide: bool
    narrow: bool
    core: Core

    @property
    def parts(self) -> tuple[int, ...]:
        """Taps that accumulators go over: a GRU has sums of its own over the hidden state."""
        return (self.taps,) if self.cell == "lstm" else (self.state_at, self.taps - self.state_at)

    @property
    def words_behind_factors(self) -> int:
        """Of an LSTM whose last taps leave two registers of the vector free when its last words are loaded, that many:
        the factors come with these."""
        rest = self.taps % _CHUNK
        return {0: 4, 6: 2}.get(rest, 0) if self.cell == "lstm" and not self.narrow else 0

    @property
    def scratch_bytes(self) -> int:
        return 4 * self.units + 4 * self.taps


def chunks(taps: int, single: bool) -> Iterator[int]:
    """Taps by eights, then by four, and where all rows are in pairs by twos."""
    yield from [_CHUNK] * (taps // _CHUNK)
    rest = taps % _CHUNK
    if rest:
        yield from ([4] if rest <= 4 else [_CHUNK]) if single else [rest]


def stream(layer: LoopLayer, w: Array, bias: Array, factors: Array) -> npt.NDArray[np.int32]:
    """Words of tc_recurrent_packed.h. w int8 [units, rows, taps]; bias [units, 4]; factors [units, rows]."""
    if layer.narrow:
        return _narrow_stream(layer, w, bias, factors)
    units = layer.units
    rows = w.astype(np.int64)
    begin = bias.astype(np.int64)
    begin[:, 0] = 256 * begin[:, 0] + begin[:, 1]
    pairs = [_halves(256 * rows[:, 0] + rows[:, 1])]
    if layer.cell == "lstm":
        begin[:, 2] = 256 * begin[:, 2] + begin[:, 3]
        pairs.append(_halves(256 * rows[:, 2] + rows[:, 3]))
    parts = [begin]
    at = 0
    for part in layer.parts:
        for count in chunks(part, layer.cell == "gru"):
            columns = [pair[:, at // 2 : (at + count) // 2] for pair in pairs]
            parts.append(np.stack(columns, axis=2).reshape(units, -1))
            if layer.cell == "gru":
                quads = rows[:, 2, at : at + count].reshape(units, -1, 4)[:, :, [0, 2, 1, 3]]
                parts.append(((quads & 0xFF) << np.array([0, 8, 16, 24])).sum(axis=2))
            at += count
    words = np.concatenate(parts, axis=1)
    end = words.shape[1] - layer.words_behind_factors
    return _words([words[:, :end], _factors(factors), words[:, end:]])


def _narrow_stream(layer: LoopLayer, w: Array, bias: Array, factors: Array) -> npt.NDArray[np.int32]:
    """The same of weights of 4 bits."""
    rows, parts, at = w.astype(np.int64), [bias.astype(np.int64) << _TOP], 0
    for part in layer.parts:
        for count in chunks(part, layer.cell == "gru"):
            some = rows[:, :, at : at + count].reshape(layer.units, rows.shape[1], -1, 2)
            if layer.cell == "lstm":
                parts.append(_tops(some.transpose(0, 2, 1, 3)))
            else:  # of two pairs of taps z and r each; of n up to four pairs
                parts.append(_tops(some[:, :2].reshape(layer.units, 2, -1, 2, 2).transpose(0, 2, 3, 1, 4)))
                parts.append(_tops(np.pad(some[:, 2:], ((0, 0), (0, 0), (0, 4 - some.shape[2]), (0, 0)))))
            at += count
    return _words([*parts, _factors(factors)])


def _tops(weights: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Words [units, words] of weights [units, words, ..., 2], the last axis in the halves of a word, the four others of
    a word from its top on."""
    fours = weights.reshape(len(weights), -1, 4, 2) & 15
    return np.asarray((fours << (np.array([12, 8, 4, 0])[:, None] + np.array([0, _HALF]))).sum(axis=(2, 3)))


def _factors(factors: Array) -> npt.NDArray[np.int64]:
    return _halves(np.pad(factors.astype(np.int64), ((0, 0), (0, 4 - factors.shape[1]))))


def _words(parts: Sequence[npt.NDArray[np.int64]]) -> npt.NDArray[np.int32]:
    """The stream of parts [units, words]: the last unit comes first."""
    words = np.concatenate(parts, axis=1)
    return words[::-1].astype(np.uint64).astype(np.uint32).view(np.int32).reshape(-1)


def _halves(values: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """[..., n / 2] words of pairs of int16."""
    return (values[..., 0::2] & 0xFFFF) | ((values[..., 1::2] & 0xFFFF) << 16)


def special(family: str, layer: LoopLayer) -> SpecializedKernel:
    """The loop, and the function around it that reads and leaves states."""
    cell = layer.cell
    contract = (
        f"""/* {layer.steps} steps of {layer.units} units, {layer.in_c} numbers: tc_{cell}_loop.h, packed weights. */"""
    )
    bits = "_w4" if layer.narrow else ""
    portable = twin("@_steps", _PARAMETERS, f"tc_{cell}_packed{bits}_steps(layer, x, y, memory);")
    function = LayerFunction(contract, _function(layer)[0].text, portable, _around(cell))
    return function.named(f"{family}_u{layer.units}_i{layer.in_c}", "tc_dsp.h", "tc_recurrent_packed.h")


def _around(cell: str) -> str:
    lstm = cell == "lstm"
    before = "const void *hidden_before" + (", const void *cell_before" if lstm else "")
    after = "int16_t *hidden_after" + (", int16_t *cell_after" if lstm else "")
    begins = "    tc_recurrent_begins_cell(p, cell_before, memory);\n" if lstm else ""
    states = "hidden_after, cell_after" if lstm else "hidden_after"
    return f"""static void @(const tc_recurrent_packed_t *layer, const void *x, {before}, void *y, {after},
    void *scratch)
{{
    const tc_recurrent_t *p = &layer->cell;
    int32_t *memory = (int32_t *)scratch;

    tc_recurrent_begins(p, hidden_before, memory);
{begins}    @_steps(layer, x, y, memory);
    tc_{cell}_loop_keeps(p, memory, {states});
}}"""


def cost(layer: LoopLayer, constants: int, states: int) -> Cost:
    """Exact but for the function around the loop. states: that are found or left."""
    naked, loop = _function(layer)
    whole = loop + _CALL + layer.units * (1 + states) * _PER_UNIT
    code = WrittenCode(("recurrent", layer), naked.code_bytes)
    fetches = Fetches(constants * layer.steps, ((code.size, layer.steps * layer.units),))
    return Cost(whole.instructions, code.size + constants, layer.scratch_bytes, whole.cycles, fetches, code)


def _function(layer: LoopLayer) -> tuple[Naked, Work]:
    """The naked function, and what a call executes."""
    asm, frame = Asm(layer.core), Frame(_SLOTS)
    asm.note("registers and arguments to the stack")
    asm.save("{r4-r11, lr}", frame=frame.size)
    _begin(asm, frame, layer)
    with asm.loop("step", layer.steps):
        _input(asm, frame, layer)
        asm.op("ldr", "r0", frame.at("stream"))
        asm.constant("r8", layer.units)
        asm.op("str", "r8", frame.at("unit"))
        asm.op("cmp", "r8", "#0")  # sets the carry, as counting down and loops that end with equal pointers do
        with asm.loop("unit", layer.units):
            _unit(asm, frame, layer)
            asm.op("subs", "r8", "r8", "#1")
            asm.op("str", "r8", frame.at("unit"))
            asm.branch("bne.w", "unit")
        _next_step(asm, frame, layer)
        asm.count_down("r4", frame.at("left"), "step")
    asm.note("return")
    asm.restore()
    asm.reorder()
    return Naked("@_steps", _PARAMETERS, asm), asm.work()


def _begin(asm: Asm, frame: Frame, layer: LoopLayer) -> None:
    """The slots. Units are counted down to 1: what is stored by their number begins an element earlier."""
    asm.op("ldrd", "r4", "r5", "[r0]")
    asm.op("str", "r4", frame.at("stream"))
    asm.add("r5", "r5", 4 * 64, "r6")
    asm.op("str", "r5", frame.at("table"))
    asm.add("r1", "r1", layer.x_walk[0], "r6")
    asm.op("str", "r1", frame.at("x"))
    asm.add("r2", "r2", layer.y_walk[0] - (2 if layer.wide else 1), "r6")
    asm.op("str", "r2", frame.at("y"))
    asm.add("r4", "r3", 4 * layer.units, "r6")
    asm.op("str", "r4", frame.at("vector"))
    asm.op("sub", "r3", "r3", "#4")
    asm.op("str", "r3", frame.at("memory"))
    asm.add("r4", "r4", 2 * (layer.taps + layer.state_at) - 2, "r6")
    asm.op("str", "r4", frame.at("next"))
    half = 1 << (layer.down - 1)
    for slot, value in (("half", half), ("y_mult", layer.y[0]), ("y_add", layer.y[1]), ("left", layer.steps)):
        asm.constant("r4", value)
        asm.op("str", "r4", frame.at(slot))


def _input(asm: Asm, frame: Frame, layer: LoopLayer) -> None:
    """x to int16 in the step's vector, four numbers at a time."""
    asm.note("the input, scaled")
    asm.op("ldr", "r0", frame.at("x"))
    asm.op("ldr", "r1", frame.at("vector"))
    mult, add, _ = layer.x
    asm.constant("r2", mult)
    asm.constant("r3", add)
    turns, rest = divmod(layer.in_c, 4)
    if turns > 1:
        asm.constant("r12", turns)
        with asm.loop("input", turns):
            _scaled(asm, layer, 4)
            asm.count_down("r12", "", "input")
    else:
        rest = layer.in_c
    _scaled(asm, layer, rest)


def _scaled(asm: Asm, layer: LoopLayer, count: int) -> None:
    """The next numbers; four of them are stored as two words."""
    registers, shift = ("r4", "r5", "r6", "r7"), layer.x[2]
    for first in range(0, count, 4):
        used = registers[: count - first]
        for register in used:
            asm.op("ldrsh" if layer.wide else "ldrsb", register, "[r0]", "#2" if layer.wide else "#1")
        for register in used:
            asm.op("mla", register, register, "r2", "r3")
        if len(used) == len(registers):
            for low, high in (("r4", "r5"), ("r6", "r7")):
                if shift != _HALF:
                    asm.op("lsl" if shift < _HALF else "asr", high, high, f"#{abs(_HALF - shift)}")
                asm.op("pkhtb", low, high, low, f"asr #{shift}")
            asm.op("strd", "r4", "r6", "[r1]", "#8")
            continue
        for register in used:
            asm.op("asr", register, register, f"#{shift}")
            asm.op("strh", register, "[r1]", "#2")


def _next_step(asm: Asm, frame: Frame, layer: LoopLayer) -> None:
    """The pointers of the next step; the vectors change places."""
    for slot, step in (("x", layer.x_walk[1]), ("y", layer.y_walk[1])):
        if step:
            asm.op("ldr", "r4", frame.at(slot))
            asm.add("r4", "r4", step, "r5")
            asm.op("str", "r4", frame.at(slot))
    state = 2 * layer.state_at - 2
    asm.op("ldr", "r4", frame.at("vector"))
    asm.op("ldr", "r5", frame.at("next"))
    asm.add("r4", "r4", state, "r6")
    asm.add("r5", "r5", -state, "r6")
    asm.op("str", "r4", frame.at("next"))
    asm.op("str", "r5", frame.at("vector"))


def _unit(asm: Asm, frame: Frame, layer: LoopLayer) -> None:
    """Ends with the unit's number in r8. The carry is set all the while."""
    asm.note("a unit: products")
    asm.op("ldm", "r0!", "{r2-r5}")
    asm.op("ldr", "r1", frame.at("vector"))
    if layer.narrow:
        asm.op("mov", _MASK, f"#{NIBBLE_MASK:#x}")
    if layer.cell == "lstm":
        _products(asm, frame, layer, 0, layer.taps, "")
    else:
        _products(asm, frame, layer, 0, layer.state_at, "r4")
        _products(asm, frame, layer, layer.state_at, layer.taps - layer.state_at, "r5")
    asm.note("gates")
    if not layer.narrow:
        asm.op("sub", "r2", "r2", "r3")
        if layer.cell == "lstm":
            asm.op("sub", "r4", "r4", "r5")
    if not layer.words_behind_factors:
        asm.op("ldrd", "r6", "r7", "[r0]", "#8")
    (_lstm if layer.cell == "lstm" else _gru)(asm, layer)


def _products(asm: Asm, frame: Frame, layer: LoopLayer, first: int, taps: int, single: str) -> None:
    """The accumulators over taps of the vector from `first` on. single: that of the row which is in no pair. The
    factors may come with the last weights, to r6 and r7."""
    chunk = _narrow_chunk if layer.narrow else _chunk
    counts = list(chunks(taps, bool(single)))
    turns = (taps // _CHUNK - 1) // _TURN if taps // _CHUNK > _UNROLLED else 0
    if turns:
        label = f"turn{first}"
        with asm.loop(label, turns):
            for _ in range(_TURN):
                chunk(asm, _CHUNK, single)
            asm.op("ldr", "r6", frame.at("vector"))
            asm.add("r6", "r6", 2 * (first + turns * _TURN * _CHUNK), "r7")
            asm.until_equal("r1", "r6", label)
    left = counts[turns * _TURN :]
    for number, count in enumerate(left, 1):
        chunk(asm, count, single, *([True] if layer.words_behind_factors and number == len(left) else []))


def _chunk(asm: Asm, count: int, single: str, factors: bool = False) -> None:
    """Taps of the vector times the weights of all rows of the unit."""
    x = _X[: count // 2]
    asm.load_multiple("r1", x)
    pairs = [("r2", "r3", pair) for pair in x]
    if not single:
        pairs = [(*accumulators, pair) for pair in x for accumulators in (("r2", "r3"), ("r4", "r5"))]
    for at in range(0, len(pairs), len(_W)):
        some = pairs[at : at + len(_W)]
        with_factors = factors and at + len(_W) >= len(pairs)
        asm.load_multiple("r0", (*(_X[:2] if with_factors else ()), *_W[: len(some)]))
        for w, (over, under, pair) in zip(_W, some, strict=False):
            asm.op("smlad", over, pair, w, over)
            asm.op("sxtb16", w, w)
            asm.op("smlad", under, pair, w, under)
    if single:
        words = _W[: count // 4]
        asm.load_multiple("r0", words)
        for number, w in enumerate(words):
            asm.op("sxtb16", _W[2], w)
            asm.op("sxtb16", w, w, "ror #8")
            asm.op("smlad", single, x[2 * number], _W[2], single)
            asm.op("smlad", single, x[2 * number + 1], w, single)


def _narrow_chunk(asm: Asm, count: int, single: str) -> None:
    """`_chunk` of weights of 4 bits."""
    x = _X[: count // 2]
    asm.load_multiple("r1", x)
    uses = [(acc, pair) for pair in x for acc in (("r2", "r3") if single else ("r2", "r3", "r4", "r5"))]
    words = [uses[at : at + 4] for at in range(0, len(uses), 4)]
    if single:
        words.append([(single, pair) for pair in x])
    for at in range(0, len(words), len(_NARROW_W)):
        some = words[at : at + len(_NARROW_W)]
        asm.load_multiple("r0", _NARROW_W[: len(some)])
        for w, word in zip(_NARROW_W, some, strict=False):
            for place, (acc, pair) in enumerate(word):
                top(asm, place, _ONE, w, _MASK)
                asm.op("smlad", acc, pair, _ONE, acc)


def _gate(asm: Asm, v: str, shift: int, temp: str = "r1") -> None:
    """v = logistic of v, Q15, in the low half of the register."""
    asm.op("ssat", temp, "#7", v, f"asr #{shift}")
    asm.op("ldr", temp, f"[r12, {temp}, lsl #2]")
    asm.op("ubfx", v, v, f"#{shift - 13}", "#13")
    asm.op("smlawt", v, v, temp, temp)


def _weighed(asm: Asm, layer: LoopLayer, *rows: tuple[str, str, str]) -> None:
    """What goes into the gates: (accumulator, half, factors) of each row; then the slots come in."""
    for v, half, factor in rows:
        over = (v, layer.cell) in _OVER
        lift = (8 if over else layer.lift) - (_TOP if layer.narrow else 8 if over else 0)
        if lift:
            asm.op("lsl" if lift > 0 else "asr", v, v, f"#{abs(lift)}")
        asm.op(f"smulw{half}", v, v, factor)
    asm.op("ldm", "sp", _FIRST_AT)


def _lstm(asm: Asm, layer: LoopLayer) -> None:
    """From the sums in r2-r5, those of i and g times 2^8."""
    _weighed(asm, layer, ("r2", "b", "r6"), ("r3", "t", "r6"), ("r4", "b", "r7"), ("r5", "t", "r7"))
    for v, shift in (("r2", layer.over), ("r3", layer.under), ("r4", layer.over), ("r5", layer.under)):
        _gate(asm, v, shift)
    asm.note("cell and hidden state")
    asm.op("ldr", "r1", "[r9, r8, lsl #2]")
    asm.op("sub", "r4", "r4", f"#{_MIDDLE}")
    asm.op("smulbb", "r2", "r2", "r4")
    asm.op("smulwb", "r3", "r1", "r3")
    asm.op("adc", "r3", "r3", "r2", "asr #10")
    asm.op("qadd", "r3", "r3", "r3")
    asm.op("str", "r3", "[r9, r8, lsl #2]")
    _gate(asm, "r3", 16)
    asm.op("sub", "r3", "r3", f"#{_MIDDLE}")
    asm.op("smlabb", "r5", "r5", "r3", "r6")
    asm.op("asr", "r6", "r5", f"#{layer.down}")
    _put(asm, layer, "r6", "r5")


def _gru(asm: Asm, layer: LoopLayer) -> None:
    """From z (times 2^8), r, and n over input and state in r2-r5."""
    _weighed(asm, layer, ("r2", "b", "r6"), ("r3", "t", "r6"), ("r4", "b", "r7"), ("r5", "b", "r7"))
    _gate(asm, "r2", layer.over)
    _gate(asm, "r3", layer.under)
    asm.op("smulwb", "r5", "r5", "r3")
    asm.op("add", "r4", "r4", "r5", "lsl #1")
    _gate(asm, "r4", layer.under)
    asm.note("hidden state")
    asm.op("ldr", "r5", "[r9, r8, lsl #2]")
    asm.op("sub", "r4", "r4", f"#{_MIDDLE}")
    asm.op("sxth", "r4", "r4")
    asm.op("sub", "r5", "r5", "r4", "lsl #6")
    asm.op("smulwb", "r5", "r5", "r2")
    asm.op("add", "r5", "r5", "r4", "lsl #5")
    asm.op("adc", "r5", "r5", "r5")
    asm.op("str", "r5", "[r9, r8, lsl #2]")
    asm.op("add", "r6", "r6", "r5")
    asm.op("ssat", "r6", "#16", "r6", f"asr #{layer.down}")
    _put(asm, layer, "r6", "r5")


def _put(asm: Asm, layer: LoopLayer, hidden: str, value: str) -> None:
    """The hidden state into the next vector, and y."""
    asm.op("strh", hidden, "[r11, r8, lsl #1]")
    asm.op("smlawb", value, value, "r7", "r14")
    asm.op("ssat", value, "#16" if layer.wide else "#8", value, f"asr #{layer.y[2]}")
    if layer.wide:
        asm.op("strh", value, "[r10, r8, lsl #1]")
    else:
        asm.op("strb", value, "[r10, r8]")
