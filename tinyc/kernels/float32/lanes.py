# SPDX-License-Identifier: Apache-2.0
"""Sums of products of depthwise_conv2d in float32 with Helium: four channels of some pixels of a row at a time.

Accumulators of all pixels stay in vectors over the rows of the window. Of a kernel row with few taps all weights lie in
vectors beside them, and an input is loaded once for all pixels whose windows it is in; of longer rows, weights come
one after the other. Windows that are cut off at the image's sides are written with the taps that are left. Subnormal
numbers: `vectors.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tinyc.base.dataclass import dataclass
from tinyc.kernel.kernel import SpecializedKernel
from tinyc.kernels.float32.arguments import HEADER, at
from tinyc.kernels.float32.vectors import LANES, VECTORS, begin, clip, end
from tinyc.kernels.form.function import MVE_FLOAT, LayerFunction
from tinyc.machine.cores import CORTEX_M55
from tinyc.machine.thumb import Asm, Work, naked_function
from tinyc.machine.work import CALL

_REACH = 508  # bytes from a register that VLDRW and VSTRW go
_VECTOR = 16
_INPUT = f"q{VECTORS - 1}"

_HELD = 5  # taps of a kernel row whose weights are in vectors together


def pixels_together(k_w: int) -> int:
    """Output pixels of a block, at most."""
    return VECTORS - 1 - k_w if k_w <= _HELD else VECTORS - 2


@dataclass(frozen=True, slots=True)
class Lanes:
    """Four channels of some pixels.

    spans: of each pixel, the taps of a row [left, right) that are in the image. stride: columns from pixel to pixel.
    column: bytes of one, of input and output.
    """

    spans: tuple[tuple[int, int], ...]
    k_w: int
    stride: int
    column: int
    act: str

    @property
    def taps(self) -> range:
        """Taps of a row that any pixel needs."""
        return range(min(left for left, _ in self.spans), max(right for _, right in self.spans))

    @property
    def first(self) -> int:
        """The column of the first input, from where the first window would begin."""
        return min(pixel * self.stride + left for pixel, (left, _) in enumerate(self.spans))

    def work(self, unit: str = CALL) -> Work:
        """What a call executes, and beside it for each `group` of pixels, four channels (`channel`) of one, and `row`
        of the windows of these."""
        return lanes_code(self).work(unit)


@dataclass(slots=True)
class _Walk:
    """Addresses of columns by a register that moves no more than it must."""

    asm: Asm
    base: str
    temp: str
    column: int
    place: int = 0  # where the register is, from the first column

    def to(self, column: int) -> str:
        """The address of a column."""
        offset = column * self.column
        if abs(offset - self.place) > _REACH:
            self.asm.add(self.base, self.base, offset - self.place, self.temp)
            self.place = offset
        return f"[{self.base}, #{offset - self.place}]" if offset != self.place else f"[{self.base}]"


def lanes_code(lanes: Lanes) -> Asm:
    """r0: the arguments, r1: weights, r2: inputs, r3: rows, r5: bytes from a row's begin, r6: biases, r7: outputs, r8:
    weights of rows that are not there, r9: bytes to the next channels, r10 and r4: rows and how many, r11: fours of
    channels left, lr: rows left."""
    asm, pixels = Asm(CORTEX_M55), len(lanes.spans)
    begin(asm)
    asm.op("ldrd", "r5", "r6", at("y"))
    asm.op("strd", "r5", "r6", at("y_at"))
    asm.op("ldr", "r7", at("count"))
    with asm.loop("group", "group", of_call=True):
        asm.op("str", "r7", at("left"))
        asm.op("ldrd", "r1", "r6", at("w"))
        asm.op("ldrd", "r10", "r4", at("rows"))
        asm.op("ldrd", "r7", "r5", at("y_at"))
        asm.op("ldrd", "r11", "r9", at("turns"))
        asm.op("ldr", "r8", at("skip"))
        asm.add("r1", "r1", _VECTOR * lanes.taps.start)
        with asm.loop("channel", "channel", of_call=True):
            _four(asm, lanes)
            for register in ("r5", "r6", "r7"):
                asm.op("add", register, register, "r9")
            asm.op("mov", "r9", f"#{_VECTOR}")
            asm.op("subs", "r11", "r11", "#1")
            asm.branch("bne.w", "channel")
        asm.op("ldrd", "r5", "r6", at("y_at"))
        asm.add("r5", "r5", pixels * lanes.column, "r7")
        asm.add("r6", "r6", pixels * lanes.stride * lanes.column, "r7")
        asm.op("strd", "r5", "r6", at("y_at"))
        asm.op("ldr", "r7", at("left"))
        asm.op("subs", "r7", "r7", "#1")
        asm.branch("bne.w", "group")
    end(asm)
    return asm


def _four(asm: Asm, lanes: Lanes) -> None:
    """Four channels of the pixels: rows, clip, store."""
    sums = [f"q{pixel}" for pixel in range(len(lanes.spans))]
    asm.note("accumulators begin with the biases")
    for vector in sums:
        asm.op("vldrw.u32", vector, "[r6]")
    asm.op("mov", "r3", "r10")
    asm.op("mov", "lr", "r4")
    asm.op("cmp", "lr", "#0")
    asm.branch("beq.w", "store")
    with asm.loop("row", "row", of_call=True):
        asm.note("products: a row of the window")
        asm.op("ldr", "r2", "[r3], #4")
        asm.op("add", "r2", "r2", "r5")
        walk = _Walk(asm, "r2", "r12", lanes.column)
        if lanes.k_w <= _HELD:
            _row_of_inputs(asm, lanes, walk)
        else:
            _row_of_weights(asm, lanes, walk)
        asm.branch("le", "row", "lr")
    asm.label("store")
    asm.note("clip and store")
    asm.op("add", "r1", "r1", "r8")
    clip(asm, sums, lanes.act, _INPUT, "r12")
    asm.op("mov", "r2", "r7")
    walk = _Walk(asm, "r2", "r12", lanes.column)
    for pixel, vector in enumerate(sums):
        asm.op("vstrw.32", vector, walk.to(pixel))


def _weights(lanes: Lanes) -> Iterator[tuple[int, int]]:
    """(tap, bytes to the next that is needed), of a row."""
    for tap in lanes.taps:
        yield tap, _VECTOR * (1 if tap + 1 < lanes.taps.stop else lanes.k_w - len(lanes.taps) + 1)


def _users(lanes: Lanes, column: int) -> Iterator[tuple[int, int]]:
    """(pixel, tap) of the windows that hold a column."""
    for pixel, (left, right) in enumerate(lanes.spans):
        tap = column - pixel * lanes.stride
        if left <= tap < right:
            yield pixel, tap


def _row_of_inputs(asm: Asm, lanes: Lanes, walk: _Walk) -> None:
    """All weights of a row, then input by input: each chain goes from left to right."""
    held = {}
    for tap, step in _weights(lanes):
        held[tap] = f"q{len(lanes.spans) + tap - lanes.taps.start}"
        asm.op("vldrw.u32", held[tap], "[r1]", f"#{step}")
    last = max(pixel * lanes.stride + right for pixel, (_, right) in enumerate(lanes.spans))
    for column in range(lanes.first, last):
        users = list(_users(lanes, column))
        if users:
            asm.op("vldrw.u32", _INPUT, walk.to(column - lanes.first))
        for pixel, tap in users:
            asm.op("vfma.f32", f"q{pixel}", _INPUT, held[tap])


def _row_of_weights(asm: Asm, lanes: Lanes, walk: _Walk) -> None:
    """Weight by weight, each with its input of every pixel."""
    weights = f"q{VECTORS - 2}"
    for tap, step in _weights(lanes):
        asm.op("vldrw.u32", weights, "[r1]", f"#{step}")
        for pixel, (left, right) in enumerate(lanes.spans):
            if left <= tap < right:
                asm.op("vldrw.u32", _INPUT, walk.to(pixel * lanes.stride + tap - lanes.first))
                asm.op("vfma.f32", f"q{pixel}", _INPUT, weights)


def lanes_function(lanes: Lanes) -> SpecializedKernel:
    """The function of a block, for cores that have the instructions; others call the same in C."""
    fast = naked_function("@", ("tc_block_f32_t *p",), lanes_code(lanes))
    contract = f"/* {LANES} channels of {len(lanes.spans)} pixels at a time: {HEADER}. */"
    return LayerFunction(contract, fast, isa=MVE_FLOAT).named(f"tc_lanes_f32_k{lanes.k_w}x{len(lanes.spans)}", HEADER)


def balanced(count: int, most: int) -> Sequence[int]:
    """`count` in as few parts as there can be of at most `most`, none larger than another by more than 1."""
    parts = -(-count // most)
    return [count // parts + (number < count % parts) for number in range(parts)]
