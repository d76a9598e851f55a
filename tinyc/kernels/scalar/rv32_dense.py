# SPDX-License-Identifier: Apache-2.0
"""fully_connected on RV32IM, int8 and int4 weights (tc_rv32_dense.h says how).

With int8 weights a word holds the weights of an input for four outputs, and two multiplications make four products:
MUL of the word, and MULH of two of its bytes with the input times 2^24, which drops the byte below them. A sum of each
holds two dot products, of 16 bits over a segment of inputs; the segments' sums are taken apart and added up. Where
a segment's dot product may not fit, a part of a weight is taken off and added on its own (`pairs.fitted`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from tinyc.base.dataclass import dataclass
from tinyc.kernel.kernel import (
    Call,
    Const,
    Cost,
    In,
    Kernel,
    Offer,
    Once,
    Out,
    Params,
    Refused,
    SpecializedKernel,
    Struct,
    WrittenCode,
    offered,
    only_if,
    writing,
)
from tinyc.kernel.site import Site
from tinyc.kernel.types import is_s8, is_s8_w4
from tinyc.kernel.windows import ConvParams
from tinyc.kernels.form.function import LayerFunction
from tinyc.kernels.matrix import Matrix
from tinyc.kernels.requantize import Int64s
from tinyc.kernels.scalar.layer import nibble_words
from tinyc.kernels.scalar.loops.costs import ARMV7M_SHARE
from tinyc.kernels.scalar.pairs import Fitted, fitted
from tinyc.kernels.scalar.rv32_blocks import part
from tinyc.kernels.scalar.rv32_finish import ISA, PROVED, ChannelFinish, finished, is_proved, out_fields
from tinyc.kernels.stream import matrix_of
from tinyc.kernels.tile.shape import tile_text
from tinyc.machine.riscv import SAVED, RiscvAsm, RiscvFrame
from tinyc.machine.work import Work

_LANES, _WORDS = 12, 3  # outputs of a call, and words of their weights
_SEGMENTS = (16, 8)  # inputs
_FEW = 64  # outputs, for which code counts more than an instruction for each weight
_MOST_PIXELS = 2  # of a convolution: three pixels share products (rv32_blocks.py)
_MOST_SEGMENTS = 128  # eight bytes of stack each
_LARGEST = 2**15 - 1  # outputs and inputs, whose places fit int16
_NIBBLES = 8  # outputs of a word of int4 weights
_NIBBLE_FOUR = 4  # inputs of a turn
# Instructions of the C code around, counted on the emulated core: of an output, of an input, of a block, and
# of a call.
_STORE, _START, _BLOCK, _CALL = 25, 4, 30, 30


# ---- the functions of up to twelve outputs ----

_SEGMENT_SUMS = ("s0", "s1", "s2", "s3", "s4", "s5")  # of each word: by MUL, by MULH
_SUMS = ("s6", "s7", "s8", "s9", "s10", "s11")  # of all segments' sums
_HIGH = ("t0", "t1", "t2", "t3", "t4", "t5")  # of their upper halves
_X, _X_HIGH, _MASK, _ODD = "a5", "a6", "a2", "a4"
_STARTS = ("ra", "t6")  # of a segment's sums; later words of weights, two in turn
_SCALE, _LEAST, _GREATEST = "s0", "s1", "s2"  # when all segments are done
_NAMES = (*SAVED, "ra", "x", "starts", "left", "channels", "y", "out", "fixes", "raised", "end")


@dataclass(frozen=True, slots=True)
class DenseTile:
    """What a function makes: segments of so many inputs, words of weights for four outputs each. finish: how sums
    become bytes, but for the scale and the clamp, which are in memory."""

    segment: int
    words: int
    finish: ChannelFinish

    @property
    def lanes(self) -> int:
        return 4 * self.words

    @property
    def name(self) -> str:
        return f"{self.segment}x{self.lanes}{'_sign' * self.finish.sign}{'_add' * self.finish.adds}"


class _DenseWriter:
    """a0 inputs, a1 weights, a2 segments, then the mask, a3 starts of the segments."""

    def __init__(self, tile: DenseTile) -> None:
        self.tile, self.asm = tile, RiscvAsm()
        self.frame = RiscvFrame([*_NAMES, "sums"], above=4 * (tile.lanes - 1))
        self.sums, self.high = _SUMS[: 2 * tile.words], _HIGH[: 2 * tile.words]

    def write(self) -> RiscvAsm:
        asm, tile = self.asm, self.tile
        self._enter()
        with asm.loop("block", "block", aligned=False):
            self._begin()
            with asm.loop("segment", "segment", aligned=False, of_call=True):
                asm.note("products of a segment")
                asm.words("lw", _STARTS, "a3")
                for tap in range(tile.segment):
                    self._tap(tap)
                self._join()
                asm.op("lw", _ODD, self.frame.at("end"))
                asm.add("a0", "a0", tile.segment)
                asm.add("a1", "a1", tile.lanes * tile.segment)
                asm.add("a3", "a3", 8)
                asm.branch("bne", "segment", "a3", _ODD)
            self._take_apart()
            self._bytes()
            asm.branch("bnez", "block", _ODD)
        asm.op("lw", "a0", self.frame.at("out"))
        asm.op("lw", "a1", self.frame.at("fixes"))
        asm.op("sw", "a1", "0(a0)")
        asm.restore()
        self._fix()
        return asm

    def _lane(self, lane: int) -> str:
        """Where an output's sum is in the end."""
        word, place = divmod(lane, 4)
        return (self.high if place > 1 else self.sums)[2 * word + place % 2]

    def _enter(self) -> None:
        asm = self.asm
        asm.save(self.frame.size, (*SAVED, "ra"), ("a0", "a3", "a4", "a5", "a6", "a7"))
        asm.op("lw", "t0", "0(a7)")
        asm.op("slli", "t1", "a2", "15")
        asm.op("slli", "t2", "a2", "3")
        asm.op("add", "t2", "t2", "a3")
        asm.words("sw", ("t0", "t1", "t2"), "sp", self.frame.place("fixes"))
        asm.op("lui", _MASK, "0xff010")
        asm.add(_MASK, _MASK, -0x100)

    def _begin(self) -> None:
        """The sums of segments begin at -2^15 for each."""
        asm = self.asm
        for register, name in (("a0", "x"), ("a3", "starts"), ("t6", "raised")):
            asm.op("lw", register, self.frame.at(name))
        for total, high in zip(self.sums, self.high, strict=True):
            asm.op("sub", total, "zero", "t6")
            asm.op("li", high, "0")

    def _tap(self, tap: int) -> None:
        """An input times its weights. The first adds to the starts; from the second on a word is loaded one ahead."""
        asm, words = self.asm, self.tile.words
        places = [f"{4 * (words * tap + word)}(a1)" for word in range(words)]
        registers = ["a7"] * words if tap == 0 else [("a7", _STARTS[0])[word % 2] for word in range(words)]
        asm.op("lb", _X, f"{tap}(a0)")
        asm.op("lw", registers[0], places[0])
        asm.op("slli", _X_HIGH, _X, "24")
        for word, register in enumerate(registers):
            if tap and word + 1 < words:
                asm.op("lw", registers[word + 1], places[word + 1])
            elif tap == 0 and word:
                asm.op("lw", register, places[word])
            asm.op("and", _ODD, register, _MASK)
            asm.op("mul", register, register, _X)
            asm.op("mulh", _ODD, _ODD, _X_HIGH)
            sums = _SEGMENT_SUMS[2 * word : 2 * word + 2]
            for total, start, product in zip(sums, _STARTS, (register, _ODD), strict=True):
                asm.op("add", total, start if tap == 0 else total, product)

    def _join(self) -> None:
        """Adds the segment's sums."""
        asm = self.asm
        asm.note("the segment's sums")
        for word in range(self.tile.words):
            whole, odd = _SEGMENT_SUMS[2 * word : 2 * word + 2]
            asm.op("slli", _X, odd, "8")
            asm.op("sub", whole, whole, _X)
            for number, total in ((2 * word, whole), (2 * word + 1, odd)):
                asm.op("add", self.sums[number], self.sums[number], total)
                asm.op("srai", total, total, "16")
                asm.op("add", self.high[number], self.high[number], total)

    def _take_apart(self) -> None:
        """The dot products of all segments, and what was taken off weights."""
        asm = self.asm
        asm.note("the dot products")
        for total, high in zip(self.sums, self.high, strict=True):
            asm.op("slli", "a0", high, "16")
            asm.op("sub", total, total, "a0")
        asm.op("lw", "a0", self.frame.at("fixes"))
        asm.op("lh", "a4", "0(a0)")
        asm.add("a0", "a0", 2)
        asm.branch("bnez", "fix", "a4")
        asm.enter("whole")
        asm.op("sw", "a0", self.frame.at("fixes"))

    def _fix(self) -> None:
        """a4 times [output, input, weight] from a0 on, by sums in memory; a3 the inputs."""
        asm, registers = self.asm, [self._lane(lane) for lane in range(self.tile.lanes)]
        asm.note("what was taken off weights")
        sums = self.frame.place("sums")
        with asm.loop("fix", "fixed", aligned=False, of_call=True):
            asm.words("sw", registers, "sp", sums)
            asm.op("lw", "a3", self.frame.at("x"))
        with asm.loop("next", "fix", aligned=False, of_call=True):
            for register, place in (("a5", 2), ("a6", 0), ("a7", 4)):
                asm.op("lh", register, f"{place}(a0)")
            asm.op("add", "a5", "a5", "a3")
            asm.op("lb", "a5", "0(a5)")
            asm.op("add", "a6", "a6", "sp")
            asm.op("lw", "t6", f"{sums}(a6)")
            asm.op("mul", "a5", "a5", "a7")
            asm.add("a0", "a0", 6)
            asm.add("a4", "a4", -1)
            asm.op("add", "t6", "t6", "a5")
            asm.op("sw", "t6", f"{sums}(a6)")
            asm.branch("bnez", "next", "a4")
        with asm.loop("fixed", "fixed", aligned=False, of_call=True):
            asm.words("lw", registers, "sp", sums)
            asm.branch("j", "whole")

    def _bytes(self) -> None:
        """a4: how many blocks are left."""
        asm, tile = self.asm, self.tile
        asm.note("requantize and store")
        for register, name in (("a4", "out"), ("a0", "channels"), ("a3", "y")):
            asm.op("lw", register, self.frame.at(name))
        asm.words("lw", (_SCALE, _LEAST, _GREATEST), "a4", 4)
        for lane in range(tile.lanes):
            total = self._lane(lane)
            for register, place in tile.finish.registers("a4", "a5", "a6", "a7"):
                asm.op("lw", register, f"{16 * lane + place}(a0)")
            asm.op("sll", total, total, _SCALE)
            asm.op("add", total, total, "a4")
            tile.finish.write(asm, total, ("a5", "a6", "a7"))
            asm.clamp(total, _LEAST, _GREATEST)
            asm.op("sb", total, f"{lane}(a3)")
        asm.op("lw", _ODD, self.frame.at("left"))
        asm.add("a0", "a0", 16 * tile.lanes)
        asm.add("a3", "a3", tile.lanes)
        asm.add(_ODD, _ODD, -1)
        for register, name in ((_ODD, "left"), ("a0", "channels"), ("a3", "y")):
            asm.op("sw", register, self.frame.at(name))


@dataclass(frozen=True, slots=True)
class DenseFunction:
    """The function of a tile, and what it executes: a call, each block of outputs, and segment of one; for a block with
    fixes, and each of them. Its bytes."""

    kernel: SpecializedKernel
    call: Work
    block: Work
    segment: Work
    fixed: Work
    fix: Work
    code_bytes: int


def dense(tile: DenseTile) -> DenseFunction:
    """Inputs times words of weights -> bytes: tc_rv32_dense_t (tc_rv32_dense.h)."""
    return writing(_dense_function, tile)


def _dense_function(tile: DenseTile) -> DenseFunction:
    asm = _DenseWriter(tile).write()
    parameters = (
        *("const int8_t *x", "const int32_t *w", "int32_t segments", "const uint32_t *starts", "int32_t count"),
        *("const int32_t *channels", "int8_t *y", "tc_rv32_dense_out_t *p"),
    )
    contract = f"/* tc_rv32_dense_t of segments of {tile.segment} inputs, and {tile.lanes} outputs. */"
    sizes = f"{tile.segment}, {tile.words}, {int(tile.finish.sign)}"
    called = f"tc_rv32_dense(x, w, segments, starts, count, channels, y, p, {sizes})"
    kernel = part(f"tc_rv32_dense_{tile.name}", contract, parameters, asm, called, "tc_rv32_dense.h")
    call, block, segment, fixed, fix = (asm.work(unit) for unit in ("", "block", "segment", "fixed", "fix"))
    return DenseFunction(kernel, call, block, segment, fixed, fix, asm.code_bytes)


# ---- layers with int8 weights ----


@dataclass(frozen=True, slots=True)
class _Dense:
    """How a layer is computed: its weights in segments of inputs, of which the tile says how many, as what most
    outputs are made by."""

    fit: Fitted
    tile: DenseTile
    in_c: int
    batch: int

    @property
    def segment(self) -> int:
        return self.tile.segment

    @property
    def segments(self) -> int:
        return self.fit.taps.shape[1] // self.segment

    @property
    def blocks(self) -> tuple[tuple[DenseTile, int], ...]:
        """What makes the outputs, and how often: as many at a time as the tile has lanes, then the rest."""
        whole, rest = divmod(len(self.fit.taps), self.tile.lanes)
        blocks = [(self.tile, whole)]
        blocks += [(replace(self.tile, words=-(-rest // 4)), 1)] if rest else []
        return tuple(one for one in blocks if one[1])

    @property
    def executed(self) -> int:
        """Instructions, all in all."""
        sums = 0
        for tile, count in self.blocks:
            costs = dense(tile)
            block = costs.block.instructions + costs.segment.instructions * self.segments
            sums += count * block + costs.call.instructions + _CALL
        costs, fixes = dense(self.tile), self.fit.fixes
        fixed = len(np.unique(fixes[:, 0] // self.tile.lanes)) * costs.fixed.instructions
        return self.batch * (sums + _START * self.in_c + fixed + len(fixes) * costs.fix.instructions)

    @property
    def held_bytes(self) -> int:
        """Of inputs that are copied, so that the last segment is whole."""
        padded = self.segments * self.segment
        return 0 if padded == self.in_c else padded

    def words(self) -> npt.NDArray[np.int32]:
        """Of each block [inputs][words]: bytes 0 to 2 the weight plus 128, byte 3 the weight."""
        parts, done = [], 0
        for tile, count in self.blocks:
            taps = self.fit.taps[done : done + count * tile.lanes]
            done += len(taps)
            taps = np.pad(taps, ((0, -len(taps) % tile.lanes), (0, 0)))
            lanes = taps.reshape(count, tile.lanes, -1).transpose(0, 2, 1)
            fours = lanes.reshape(*lanes.shape[:2], tile.words, 4) + np.array([128, 128, 128, 0])
            words: Int64s = (fours << 8 * np.arange(4)).sum(axis=3)
            parts.append(words.ravel())
        return np.concatenate(parts).astype(np.int32)

    def fixes(self) -> npt.NDArray[np.int16]:
        """Of each block how many there are, then [byte of the output in the block's sums, input, weight]."""
        parts, done = [], 0
        for tile, count in self.blocks:
            for first in range(done, done + count * tile.lanes, tile.lanes):
                own = self.fit.fixes[(self.fit.fixes[:, 0] >= first) & (self.fit.fixes[:, 0] < first + tile.lanes)]
                parts += [np.array([len(own)]), ((own - np.array([first, 0, 0])) * np.array([4, 1, 1])).ravel()]
            done += count * tile.lanes
        return np.concatenate(parts).astype(np.int16)


def takes(site: Site) -> bool:
    """constant weights, fewer than 32767 inputs and outputs"""
    return site.is_const(1) and max(site.x(1).shape) < _LARGEST


def takes_pixels(site: Site) -> bool:
    """constant 1x1 weights, one group, stride 1, no padding, at most two pixels, fewer than 32767 channels"""
    a, y = site.attrs, site.y()
    few = y.elements <= _MOST_PIXELS * y.shape[3] and site.x(1).shape[1:3] == (1, 1)
    return few and takes(site) and a.groups == 1 and tuple(a.stride) == (1, 1) and not any(a.pad)


def _best(site: Site, p: ConvParams) -> _Dense | None:
    """The cheapest of the segments; None where there are too many of each, or no requantization is proved."""
    return matrix_of(p).once(_cheapest, site.y().elements // len(p.bias))


def _cheapest(matrix: Matrix, batch: int) -> _Dense | None:
    proved = finished(matrix, matrix.p.bias[: len(matrix.p.w)])
    if proved is None:
        return None
    w, finish = matrix.p.w, replace(proved.finish, scale=0, low=0, high=0)
    few = len(w) <= _FEW and len(w) % _LANES and len(w) % 8 == 0  # then one function is enough
    tiles = [DenseTile(segment, 2 if few else _WORDS, finish) for segment in _SEGMENTS]
    plans = [_Dense(fitted(w, tile.segment // 4), tile, w.shape[1], batch) for tile in tiles]
    fitting = (one for one in plans if one.segments <= _MOST_SEGMENTS)
    return min(fitting, key=lambda one: one.executed, default=None)


def _special(work: _Dense) -> SpecializedKernel:
    """The function of the layer."""
    parts = tuple(dense(tile).kernel for tile, _ in work.blocks)
    tiles = ", ".join(f"{{{tile.lanes}, {count}, {dense(tile).kernel.name}}}" for tile, count in work.blocks)
    held = f"    int8_t held[{work.held_bytes}];\n" if work.held_bytes else ""
    head = f"/* tc_fully_connected_s8_rv32 (tc_rv32_dense.h) of {work.in_c} inputs in segments of {work.segment}. */"
    driver = f"""static void @(const tc_fully_connected_s8_rv32_t *p, const int8_t *x, int8_t *y)
{{
    uint32_t starts[{2 * work.segments}];
{held}    static const tc_rv32_segments_t segments = {{
        {work.segments}, {work.segment}, {{{tiles}}}}};
    tc_fully_connected_s8_rv32(p, &segments, x, y, starts, {"held" if held else 0});
}}"""
    stem = f"tc_fully_connected_s8_rv32_{work.segments}x{work.segment}"
    headers = ("tc_rv32.h", "tc_rv32_dense.h")
    tile = tile_text(1, work.tile.lanes, "inputs as bytes", "int8 weights, four channels in a word")
    array_bytes = 8 * work.segments + work.held_bytes
    return LayerFunction(head, driver=driver, tile=tile, array_bytes=array_bytes).named(stem, *headers, parts=parts)


def _lower(site: Site, p: ConvParams, work: _Dense) -> Call:
    proved = finished(matrix_of(p), p.bias)
    assert proved is not None
    even = np.pad(proved.constants, ((0, -len(p.bias) % 4), (0, 0)))
    fields = {
        "w": Const(work.words(), "[block][inputs][words] of four int8 weights, the first three plus 128", "w"),
        "fixes": Const(work.fixes(), "[block] of how many, then [4 * output, input, weight]", "fixes"),
        **out_fields(matrix_of(p), p.bias),
        "out.channels": replace(proved.const, array=even),
        "out.scale": proved.finish.scale,
        "batch": work.batch,
        "in_c": work.in_c,
    }
    return Call((Params(), In(0), Out()), Struct("tc_fully_connected_s8_rv32_t", fields))


def _cost(work: _Dense) -> Cost:
    size = sum(dense(tile).code_bytes for tile, _ in work.blocks)
    out_c, taps = work.fit.taps.shape
    flash = -(-out_c // 4) * 4 * (taps + 16) + 2 * work.fixes().size + size
    return Cost(int(work.executed * ARMV7M_SHARE), flash, 0, code=WrittenCode(("tc_dense_rv32", work.tile), size))


def _offer(site: Site, p: ConvParams) -> Offer | Refused:
    work = _best(site, p)
    if work is None:
        return Refused(_ASKS)
    return Offer(0, _cost(work), Once(lambda: _lower(site, p, work)), Once(lambda: _special(work)))


# ---- layers with int4 weights ----

_NIBBLE_SUMS = ("t3", "t4", "t5", "t6", "a4", "a5", "a6", "a7")


def _nibbles_asm() -> RiscvAsm:
    """a0 inputs, a1 weights, a2 the end of the inputs; t0 an input, t1 a word, t2 a product."""
    asm = RiscvAsm()
    asm.op("slli", "a2", "a2", "2")
    asm.op("add", "a2", "a2", "a0")
    asm.words("lw", _NIBBLE_SUMS, "a3")
    with asm.loop("inputs", "four", aligned=False):
        for tap in range(_NIBBLE_FOUR):
            asm.op("lw", "t1", f"{4 * tap}(a1)")
            asm.op("lb", "t0", f"{tap}(a0)")
            for lane, total in enumerate(_NIBBLE_SUMS):
                if lane:
                    asm.op("srai", "t1", "t1", "4")
                asm.op("mul", "t2", "t0", "t1")
                asm.op("add", total, total, "t2")
        asm.add("a0", "a0", _NIBBLE_FOUR)
        asm.add("a1", "a1", 4 * _NIBBLE_FOUR)
        asm.branch("bne", "inputs", "a0", "a2")
    asm.words("sw", _NIBBLE_SUMS, "a3")
    asm.op("ret")
    return asm


def _nibbles_special(site: Site, p: ConvParams) -> SpecializedKernel:
    """The function of every layer with int4 weights."""
    parameters = ("const int8_t *x", "const int32_t *w", "int32_t fours", "int32_t *sums")
    contract = "/* x [4 * fours] times w [4 * fours] >> 0, 4, ... 28, added to sums [8]. fours > 0. */"
    call = "tc_rv32_dense_nibbles(x, w, fours, sums)"
    sums = part("tc_rv32_dense_nibbles8", contract, parameters, _nibbles_asm(), call, "tc_rv32_dense.h")
    text = f"""/* tc_fully_connected_s8_w4_rv32 (tc_rv32_dense.h). */
static void tc_fully_connected_s8_w4_rv32_8(const tc_fully_connected_s8_w4_rv32_t *p, const int8_t *x, int8_t *y)
{{
    tc_fully_connected_s8_w4_rv32(p, {sums.name}, x, y);
}}"""
    headers = ("tc_rv32.h", "tc_rv32_dense.h")
    tile = tile_text(1, _NIBBLES, "inputs as bytes", "int4 weights, eight channels in a word")
    return SpecializedKernel("tc_fully_connected_s8_w4_rv32_8", text, headers, (sums,), tile)


def _lower_nibbles(site: Site, p: ConvParams) -> Call:
    """tc_fully_connected_s8_w4_rv32: the whole tensor."""
    out_c, in_c = p.w.shape
    weights = Const(nibble_words(p.w), "[out_c / 8][in_c] of eight outputs, int4", "w")
    sizes = {"batch": site.y().elements // out_c, "in_c": in_c}
    fields = {"w": weights, **out_fields(matrix_of(p), p.bias), **sizes}
    return Call((Params(), In(0), Out()), Struct("tc_fully_connected_s8_w4_rv32_t", fields))


def _nibbles_cost(site: Site, p: ConvParams) -> Cost:
    (out_c, in_c), asm = p.w.shape, _nibbles_asm()
    blocks, batch = -(-out_c // _NIBBLES), site.y().elements // out_c
    block = asm.work().instructions + asm.work("four").instructions * (in_c / _NIBBLE_FOUR) + _BLOCK
    executed = batch * (blocks * block + _STORE * out_c + _START * in_c)
    size = asm.code_bytes
    flash = blocks * _NIBBLES * in_c // 2 + 16 * out_c + size
    return Cost(int(executed * ARMV7M_SHARE), flash, 0, code=WrittenCode("tc_dense_rv32_w4", size))


_ASKS = f"{PROVED}, and at most {_MOST_SEGMENTS} segments of inputs"
CONV2D = (Kernel("tc_conv2d_pixels_s8_rv32", _offer, isa=ISA, when=(is_s8, takes_pixels), asks=_ASKS, written=True),)
KERNELS = (
    Kernel("tc_fully_connected_s8_rv32", _offer, isa=ISA, when=(is_s8, takes), asks=_ASKS, written=True),
    Kernel(
        "tc_fully_connected_s8_w4_rv32",
        only_if(is_proved, PROVED, offered(_lower_nibbles, cost=_nibbles_cost, specialize=_nibbles_special)),
        isa=ISA,
        when=(is_s8_w4, takes),
        asks=PROVED,
        written=True,
    ),
)
