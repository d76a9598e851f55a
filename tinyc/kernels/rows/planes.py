# SPDX-License-Identifier: Apache-2.0
"""The assembly of one output row of a depthwise convolution with two or three kernel rows, from row pointers.

Bytes of four channels at a time are brought together on the stack (of long rows in scratch), then each channel makes
its outputs. Two kernel rows lie over each other, a word per column; a third row lies by pairs of columns. So an output
takes five multiplications for 3x3 taps. A word has bytes of two channels, and SXTB16 takes out those of one. Each word
is loaded once for all outputs that registers have room for: a whole row of up to five, else a few at a time. Few words
wait in registers of the FPU, not on the stack.

    r0 ... r9 accumulators and weights (of long rows the first accumulator's is the output), r10 r11 columns and
    constants, r12 what is padding (of long rows the planes), r14 stream.

Weights come before a start value where they are narrow, behind it where not, so LDM asks for the lower registers for
what comes first.

All bytes of four channels are read before their outputs are written, so the output row may be an input row.
"""

from __future__ import annotations

from collections.abc import Sequence

from tinyc.kernels.depthwise.plane_channels import MASKS, Cursor, MacStep, multiply, tops
from tinyc.kernels.matrix import GROUP
from tinyc.kernels.rows.plane_layer import PAIR_REACH, RowLayer
from tinyc.machine.frame import Frame
from tinyc.machine.thumb import Asm, Naked, Work

_LOW, _HIGH = ("r0", "r1", "r2", "r3", "r4"), ("r5", "r6", "r7", "r8", "r9")
_COLUMNS = ("r10", "r11")
_TOGETHER = 3  # of what registers hold, in a turn of the loop over a long row
_BYTE = 255  # the largest immediate of a short CMP
_ROR = ((), ("ror #8",))  # of SXTB16, for the even and the odd channel of a word


def row_function(name: str, layer: RowLayer) -> tuple[Naked, Work]:
    """C text of the naked function `name(stream, x, y, scratch)`, and what a call executes."""
    asm = _Writer(layer).write()
    asm.reorder()
    return Naked(name, layer.parameters, asm), asm.work()


class _Writer:
    """Writes one function."""

    def __init__(self, layer: RowLayer) -> None:
        self.layer = layer
        self.asm = Asm(layer.core)
        words = (*("first", "second", "third")[: layer.k_h], "channel", "y", "out", "z", "planes", "end")
        self.frame = Frame(words, above=layer.stack_bytes, first="[sp, #0]")
        self.at = self.frame.at
        self.sums, self.weights = (_LOW, _HIGH) if layer.bits == 16 else (_HIGH, _LOW)
        self.out = self.weights[0] if layer.is_short else self.sums[0]

    def write(self) -> Asm:
        layer, asm = self.layer, self.asm
        self._enter()
        with asm.loop("group", layer.groups):
            self._unpack()
            if layer.is_short:
                self._whole_row()
            else:
                self._halves()
            self._next_group()
        asm.label("done")
        asm.note("return")
        asm.restore()
        return asm

    def _enter(self) -> None:
        layer, asm = self.layer, self.asm
        asm.note("registers and arguments to the stack")
        asm.save("{r4-r11, lr}", frame=self.frame.size)
        rows = [f"r{4 + i}" for i in range(layer.k_h)]
        asm.load_multiple("r1", rows, advance=False)
        channel, y = f"r{4 + layer.k_h}", f"r{5 + layer.k_h}"
        asm.op("mov", channel, "#0")
        asm.op("mov", y, "r2")
        asm.op("stm", "sp", "{" + ", ".join((*rows, channel, y)) + "}")
        asm.op("ldr", "r12", "[r0]")
        asm.op("str", "r12", self.at("z"))
        asm.op("add", "r14", "r0", "#4")
        if not layer.on_stack:
            asm.op("str", "r3", self.at("planes"))
        if layer.is_short:
            asm.op("sxtb16", "r12", "r12")
            return
        asm.note("words of the planes that are padding: they stay the same for all channels")
        self._to_planes("r3")
        planes = Cursor(asm, "r3", 0, PAIR_REACH)
        for word in [w for w in range(layer.columns + layer.chunks * layer.has_single) if layer.is_padding(w)]:
            for at in (layer.place(word), layer.place(word) + layer.beside):
                asm.op("str", "r12", planes.at(at))

    def _to_planes(self, register: str) -> None:
        if self.layer.on_stack:
            self.asm.add(register, "sp", self.frame.top)
        else:
            self.asm.op("ldr", register, self.at("planes"))

    # ---- unpacking: r0 ... r2 rows, r3 planes, words of channels 0 and 1 in r4 ... r6, of 2 and 3 in r7 r8 r10 ----

    def _unpack(self) -> None:
        """Four channels of the rows to the planes."""
        layer, asm = self.layer, self.asm
        asm.note("loads: four channels of the rows to planes")
        registers = [f"r{i}" for i in range(layer.k_h + 2)]
        *rows, channel, y = registers
        asm.op("ldm", "sp", "{" + ", ".join(registers) + "}")
        for register in (*rows, y):
            asm.op("add", register, register, channel)
        asm.op("str", y, self.at("out"))
        asm.op("add", channel, channel, f"#{GROUP}")
        asm.op("str", channel, self.at("channel"))
        chunks = [chunk for chunk in range(layer.chunks) if self._real(chunk)]
        if not layer.in_fpu:
            self._to_planes("r3")
            if chunks[0]:
                asm.op("add", "r3", "r3", f"#{chunks[0] * layer.chunk_bytes}")
        for chunk in chunks:
            self._chunk(chunk, last=chunk == chunks[-1])

    def _real(self, chunk: int) -> list[int]:
        """Columns of a chunk that are in the image and that windows reach."""
        return [i for i in range(2) if self.layer.is_real(2 * chunk + i) and 2 * chunk + i < self.layer.columns]

    def _chunk(self, chunk: int, last: bool) -> None:
        """Two columns; r3 moves to the next."""
        layer, asm = self.layer, self.asm
        columns = self._real(chunk)
        for i in columns:
            self._load(f"r{10 + i}", "r0", 2 * chunk + i)
            self._load(f"r{7 + i}", "r1", 2 * chunk + i)
        if layer.has_single:
            self._load("r6", "r2", 2 * chunk)
            self._load("r9", "r2", 2 * chunk + 1)
        for i in columns:
            asm.op("pkhbt", f"r{4 + i}", f"r{10 + i}", f"r{7 + i}", "lsl #16")
            asm.op("pkhtb", f"r{7 + i}", f"r{7 + i}", f"r{10 + i}", "asr #16")
        halves = [[f"r{4 + i}" for i in columns], [f"r{7 + i}" for i in columns]]
        if layer.has_single:
            asm.op("pkhtb", "r10", "r9", "r6", "asr #16")
            asm.op("pkhbt", "r6", "r6", "r9", "lsl #16")
            halves = [[*halves[0], "r6"], [*halves[1], "r10"]]
        if layer.in_fpu:
            words = [2 * chunk + i for i in columns] + [layer.columns + chunk] * layer.has_single
            for pair, half in enumerate(halves):
                self._move([(layer.fpu_place(word, pair), half[i]) for i, word in enumerate(words)], to_core=False)
        elif len(columns) == 2:
            asm.op("stm", "r3" if last else "r3!", "{" + ", ".join(halves[0] + halves[1]) + "}")
        else:
            self._store_column(columns, halves)
            if not last:
                asm.op("add", "r3", "r3", f"#{layer.chunk_bytes}")

    def _move(self, pairs: Sequence[tuple[int, str]], to_core: bool) -> None:
        """Between registers of the FPU, by number, and of the core."""
        left = list(pairs)
        while left:
            (first, register), *others = left
            beside = others[:1] if others and others[0][0] == first + 1 else []
            single, core = [f"s{first + i}" for i in range(1 + len(beside))], [register, *(name for _, name in beside)]
            self.asm.op("vmov", *(core + single if to_core else single + core))
            left = left[1 + len(beside) :]

    def _store_column(self, columns: Sequence[int], halves: Sequence[Sequence[str]]) -> None:
        """The words of a chunk with one column in the image, to the planes at r3."""
        layer, asm = self.layer, self.asm
        at = 4 * columns[0]
        for half in halves:
            if len(half) == 2 and columns == [1]:
                asm.op("strd", *half, f"[r3, #{at}]")
            else:
                for register, offset in zip(half, (at, at + 8 - 4 * columns[0]), strict=False):
                    asm.op("str", register, f"[r3, #{offset}]")
            at += layer.beside

    def _load(self, register: str, pointer: str, column: int) -> None:
        """Four channels of a column."""
        layer = self.layer
        offset = (column - layer.pad_left) * layer.channels
        self.asm.op("ldr", register, f"[{pointer}, #{offset}]" if layer.is_real(column) else self.at("z"))

    # ---- channels ----

    def _whole_row(self) -> None:
        """Rows whose outputs registers hold: channels one by one."""
        layer, asm = self.layer, self.asm
        if layer.rest:
            self._compare_channel()
            asm.branch("beq.w", f"channel{GROUP - layer.rest}", taken=1)
        for channel in range(GROUP):
            asm.label(f"channel{channel}")
            self._weights()
            self._products(Cursor(asm, "sp", 0, PAIR_REACH), channel, 0, layer.out_w)
            asm.op("ldr", self.out, self.at("out"))
            self._finish(self.sums[-layer.out_w :], self.weights[1:], channel, last=True)

    def _halves(self) -> None:
        """Longer rows: two channels, then the other two."""
        layer, asm, out = self.layer, self.asm, self.out
        self._to_planes("r12")
        asm.op("ldr", out, self.at("out"))
        if layer.rest:
            self._compare_channel()
            asm.branch("bne", "full", taken=layer.groups - 1)
            if layer.rest < 3:
                asm.note("the last channels: the first of them, or the first two, are done")
                asm.op("add", "r12", "r12", f"#{layer.beside}")
                asm.op("add", out, out, "#2")
            if layer.rest % 2:
                asm.branch("b.w", "second")
            asm.label("full")
        with asm.loop("half", 2 * layer.groups - bool(layer.rest) - (layer.rest == 1), of_call=True):
            for channel in range(2):
                if channel:
                    asm.label("second")
                self._long_row(channel)
            asm.op("add", "r12", "r12", f"#{layer.beside}")
            asm.op("add", out, out, "#2")
            asm.op("ldr", "r1", self.at("out"))
            asm.op("add", "r1", "r1", f"#{GROUP}")
            asm.until_equal(out, "r1", "half")

    def _long_row(self, channel: int) -> None:
        """A channel, some outputs at a time: three times as many are a turn of a loop, where there are several."""
        layer, asm, out = self.layer, self.asm, self.out
        self._weights()
        turns = layer.out_w // (_TOGETHER * self._together)
        looped = turns > 1 and self._together * layer.stride_w % 2 == 0
        turn = _TOGETHER * self._together
        columns, outputs = turn * layer.stride_w // 2 * layer.chunk_bytes, turn * layer.channels
        if looped:
            asm.add("r10", "r12", turns * columns)
            asm.op("str", "r10", self.at("end"))
            with asm.loop(f"outputs{channel}", turns):
                self._outputs(channel, 0, turn)
                asm.add(out, out, outputs)
                asm.add("r12", "r12", columns)
                asm.op("ldr", "r10", self.at("end"))
                asm.until_equal("r12", "r10", f"outputs{channel}")
        done = turns * looped
        self._outputs(channel, done * turn, layer.out_w, done * turn)
        if done * turn == layer.out_w:
            asm.op("add", "r14", "r14", f"#{4 * layer.requant.constants}")
        asm.add(out, out, -done * outputs, "r10")
        asm.add("r12", "r12", -done * columns, "r10")

    @property
    def _needs(self) -> int:
        """Registers that outputs of long rows are scaled with."""
        requant = self.layer.requant
        return 2 if requant.base is not None else requant.constants + requant.sign

    @property
    def _together(self) -> int:
        """Outputs of long rows whose sums registers hold."""
        return len(self.sums) + 1 - self._needs

    def _outputs(self, channel: int, first: int, end: int, begin: int = 0) -> None:
        """Outputs `first` to `end` of a long row; the output and r12 are at output `begin`."""
        layer, asm = self.layer, self.asm
        planes = Cursor(asm, "r12", 0, PAIR_REACH)
        start = 4 if layer.bits < 16 else 4 * (1 + layer.weight_words)
        for at in range(first, end, self._together):
            count = min(self._together, end - at)
            if at or end < layer.out_w:
                asm.op("ldr", self.sums[-1], f"[r14, #-{start}]")
            self._products(planes, channel, at, count, begin * layer.stride_w // 2 * layer.chunk_bytes)
            free = (*self.sums[1 : self._needs - 1], *_COLUMNS)
            place = channel + (at - begin) * layer.channels
            self._finish(self.sums[-count:], free, place, last=at + count == layer.out_w)
        planes.move(0)

    def _compare_channel(self) -> None:
        """Whether all channels are done with these four. r1: channels that are begun. Uses r2."""
        self.asm.op("ldr", "r1", self.at("channel"))
        if self.layer.channels <= _BYTE:
            self.asm.op("cmp", "r1", f"#{self.layer.channels}")
            return
        self.asm.constant("r2", self.layer.channels)
        self.asm.op("cmp", "r1", "r2")

    def _weights(self) -> None:
        """Of a channel, and its start value in the last accumulator."""
        layer, asm = self.layer, self.asm
        asm.note("a channel: its start value and weights")
        weights = self.weights[: layer.weight_words]
        if layer.bits == 16:
            asm.load_multiple("r14", (self.sums[-1], *weights))
            return
        each = 16 // layer.bits
        packed = [weights[min(first + each, len(weights)) - 1] for first in range(0, len(weights), each)]
        asm.load_multiple("r14", (*packed, self.sums[-1]))
        asm.op("mov", _COLUMNS[0], f"#{MASKS[layer.bits]:#x}")
        alone = len(weights) % each == 1  # nothing is beside the weights of the last word
        tops(asm, weights[: len(weights) - alone], packed, _COLUMNS[0], layer.bits)

    def _products(self, planes: Cursor, channel: int, first: int, outputs: int, begin: int = 0) -> None:
        """All of some outputs: each word is loaded once. begin: the byte of the planes that `planes` is at."""
        layer, asm = self.layer, self.asm
        macs = layer.macs(first, outputs)
        sums, begun = self.sums[-outputs:], set[int]()
        asm.note("products")
        for words in _by_pairs(layer, list(dict.fromkeys(mac.x for mac in macs))):
            registers = self._load_words(planes, channel, words, begin)
            steps = list[MacStep]()
            for mac in macs:
                if mac.x in words:
                    to = sums[mac.out]
                    x = registers[words.index(mac.x)]
                    steps.append((mac.op, to, x, self.weights[mac.w], to if mac.out in begun else self.sums[-1]))
                    begun.add(mac.out)
            asm.piece(multiply, tuple(steps))

    def _load_words(self, planes: Cursor, channel: int, words: Sequence[int], begin: int) -> Sequence[str]:
        """A channel's words in registers, one or two."""
        layer, asm = self.layer, self.asm
        if layer.is_held(words[0]):
            return ("r12",)
        top = self.frame.top if planes.register == "sp" else -begin
        places = [top + layer.place(word) + channel // 2 * layer.beside for word in words]
        registers = _COLUMNS[: len(words)]
        if layer.in_fpu:
            numbers = [layer.fpu_place(word, channel // 2) for word in words]
            self._move(list(zip(numbers, registers, strict=True)), to_core=True)
        elif len(places) == 2 and places[1] == places[0] + 4:
            asm.op("ldrd", *registers, planes.at(places[0]))
        else:
            for register, place in zip(registers, places, strict=True):
                asm.op("ldr", register, planes.at(place))
        for register in registers:
            asm.op("sxtb16", register, register, *_ROR[channel % 2])
        return registers

    def _finish(self, sums: Sequence[str], free: Sequence[str], at: int, last: bool) -> None:
        """Scales and stores some outputs of a channel, `at` bytes behind the output; `last`: the stream moves to the
        next channel."""
        layer, asm, requant = self.layer, self.asm, self.layer.requant
        asm.note("requantize and store")
        constants = tuple(free[: requant.constants])
        asm.load_multiple("r14", constants, advance=last)
        if requant.base is not None:
            constants = (free[0], free[1])
            requant.load_base(asm, free[1])
        for i in requant.emit_each(asm, sums, constants, free[-1]):
            place = at + i * layer.channels
            asm.op("strb", sums[i], f"[{self.out}, #{place}]" if place else f"[{self.out}]")

    def _next_group(self) -> None:
        layer, asm = self.layer, self.asm
        if layer.groups == 1:
            return
        asm.note("the next four channels")
        self._compare_channel()
        if layer.rest:
            # The last group loads the four channels that end with the last, and makes `rest` of them.
            asm.leave("beq.w", "done")
            asm.constant("r2", layer.channels - GROUP)
            asm.op("cmp", "r1", "r2")
            asm.op("it", "hi")
            asm.op("movhi", "r1", "r2")
            asm.op("str", "r1", self.at("channel"))
            asm.branch("b.w", "group")
        else:
            asm.branch("bne.w", "group")


def _by_pairs(layer: RowLayer, words: list[int]) -> list[list[int]]:
    """Words in their order, two together where they are loaded: the second load takes less."""
    pairs = list[list[int]]()
    for word in words:
        joins = pairs and len(pairs[-1]) == 1 and not (layer.is_held(word) or layer.is_held(pairs[-1][0]))
        pairs = [*pairs[:-1], [*pairs[-1], word]] if joins else [*pairs, [word]]
    return pairs
