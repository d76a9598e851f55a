# SPDX-License-Identifier: Apache-2.0
"""Sums of products of conv2d and fully_connected in float32 with Helium: blocks of output channels and pixels.

Four channels lie in a vector, and their accumulators stay in vectors over all taps: of a tap, each vector of weights is
loaded once and multiplied by an input of every pixel, which is in a core register (VFMA of a vector by a scalar).

Helium's products take subnormal numbers for zero, whatever FPSCR says, but they set its bits IDC and UFC when they do.
So the functions clear these bits, and where they find one set at the end, the whole part is computed once more without
vectors: the bytes are those of all other cores, and where no number is subnormal that costs five instructions a call.
"""

from __future__ import annotations

from tinyc.base.dataclass import dataclass
from tinyc.kernels.float32.arguments import at
from tinyc.machine.cores import CORTEX_M55
from tinyc.machine.thumb import Asm, Work
from tinyc.machine.work import CALL

VECTORS = 8
LANES = 4
FLUSHED = 0x88  # FPSCR: IDC (a subnormal input was taken for zero) and UFC (a result)
_TURN = 4  # taps of a turn of the loop


@dataclass(frozen=True, slots=True)
class VectorBlock:
    """outputs: output channels, in fours, times pixels (1 to 3): accumulators, of which six vectors at most. act: none,
    relu or relu6."""

    outputs: int
    pixels: int
    act: str

    def __post_init__(self) -> None:
        if self.outputs % LANES or self.parts * self.pixels > VECTORS - 2:
            raise ValueError(f"{self.outputs} outputs of {self.pixels} pixels are too many for the registers")

    @property
    def name(self) -> str:
        """Of its function."""
        return f"tc_vectors_f32_{self.outputs}x{self.pixels}{'_' + self.act if self.act else ''}"

    @property
    def turn(self) -> int:
        """Taps of a turn."""
        return _TURN

    @property
    def parts(self) -> int:
        """Vectors of a pixel's accumulators."""
        return self.outputs // LANES

    def work(self, unit: str = CALL) -> Work:
        """What a call executes, and beside it for each `turn` (of taps of a row), `tap` (one of the rest), `row`
        that is there, and `group` of pixels."""
        return block_code(self).work(unit)


def begin(asm: Asm) -> None:
    """Saves what the caller keeps, and clears the bits of FPSCR that tell of subnormal numbers."""
    asm.note("registers and arguments")
    asm.save("{r4-r11, lr}", "{s16-s31}")
    asm.op("vmrs", "r5", "fpscr")
    asm.op("bic", "r5", "r5", f"#{FLUSHED}")
    asm.op("vmsr", "fpscr", "r5")


def end(asm: Asm) -> None:
    """Says whether numbers were taken for zero, and goes back."""
    asm.note("was a number subnormal?")
    asm.op("vmrs", "r5", "fpscr")
    asm.op("and", "r5", "r5", f"#{FLUSHED}")
    asm.op("str", "r5", at("flushed"))
    asm.restore()


def block_code(block: VectorBlock) -> Asm:
    """r0: the arguments, r1: weights, r2 to r4: inputs, r5 to r10: inputs of a tap, and what is needed between, r11:
    rows, r12: rows left, lr: turns."""
    asm = Asm(CORTEX_M55)
    begin(asm)
    asm.op("ldrd", "r5", "r6", at("y"))
    asm.op("strd", "r5", "r6", at("y_at"))
    asm.op("ldr", "r7", at("count"))
    with asm.loop("group", "group", of_call=True):
        asm.op("str", "r7", at("left"))
        asm.note("accumulators begin with the biases")
        asm.op("ldrd", "r1", "r5", at("w"))
        asm.op("ldrd", "r11", "r12", at("rows"))
        for pixel in range(block.pixels):
            for part in range(block.parts):
                asm.op("vldrw.u32", _sum(block, pixel, part), f"[r5, #{16 * part}]")
        with asm.loop("row", "row", of_call=True):
            asm.note("a row of the window, unless it lies outside the image")
            asm.op("ldr", "r2", "[r11], #4")
            asm.op("cmp", "r2", "#0")
            asm.branch("beq.w", "outside")
            asm.op("ldrd", "r5", "r6", at("offset_at"))
            asm.op("add", "r2", "r2", "r5")
            for pixel in range(1, block.pixels):
                asm.op("add", f"r{2 + pixel}", f"r{1 + pixel}", "r6")
            _row(asm, block)
            asm.op("ldr", "r5", at("skip"))
            asm.op("add", "r1", "r1", "r5")
            asm.op("subs", "r12", "r12", "#1")
            asm.branch("bne.w", "row")
        asm.label("finish")
        _store(asm, block)
        asm.op("ldr", "r7", at("left"))
        asm.op("subs", "r7", "r7", "#1")
        asm.branch("bne.w", "group")
    end(asm)
    asm.note("a row outside the image")
    asm.label("outside")
    asm.op("ldr", "r5", at("row"))
    asm.op("add", "r1", "r1", "r5")
    asm.op("subs", "r12", "r12", "#1")
    asm.branch("bne.w", "row")
    asm.branch("b.w", "finish")
    return asm


def _sum(block: VectorBlock, pixel: int, part: int) -> str:
    return f"q{pixel * block.parts + part}"


def _row(asm: Asm, block: VectorBlock) -> None:
    """One kernel row: `turns` times some taps, then `rest` single ones."""
    asm.op("ldr", "lr", at("turns"))
    asm.op("cmp", "lr", "#0")
    asm.branch("beq.w", "rest")
    with asm.loop("turn", "turn", of_call=True):
        asm.note(f"products: {_TURN} taps")
        if block.pixels == 1:
            asm.op("ldm", "r2!", "{r5-r8}")
            for tap in range(_TURN):
                _products(asm, block, [f"r{5 + tap}"])
        else:
            for _ in range(0, _TURN, 2):
                for pixel in range(block.pixels):
                    asm.op("ldrd", f"r{5 + 2 * pixel}", f"r{6 + 2 * pixel}", f"[r{2 + pixel}]", "#8")
                for tap in range(2):
                    _products(asm, block, [f"r{5 + 2 * pixel + tap}" for pixel in range(block.pixels)])
        asm.branch("le", "turn", "lr")
    asm.label("rest")
    asm.op("ldr", "lr", at("rest"))
    asm.op("cmp", "lr", "#0")
    asm.branch("beq.w", "behind")
    with asm.loop("tap", "tap", of_call=True):
        for pixel in range(block.pixels):
            asm.op("ldr", f"r{5 + pixel}", f"[r{2 + pixel}]", "#4")
        _products(asm, block, [f"r{5 + pixel}" for pixel in range(block.pixels)])
        asm.branch("le", "tap", "lr")
    asm.label("behind")


def _products(asm: Asm, block: VectorBlock, inputs: list[str]) -> None:
    """Of one tap. inputs: of each pixel."""
    for part in range(block.parts):
        weights = f"q{VECTORS - 2 + part % 2}"
        asm.op("vldrw.u32", weights, "[r1]", "#16")
        for pixel, value in enumerate(inputs):
            asm.op("vfma.f32", _sum(block, pixel, part), weights, value)


def clip(asm: Asm, vectors: list[str], act: str, spare: str, temp: str) -> None:
    """By bits, which compare as numbers do where none is negative. What is not a number has no sign here, and stays."""
    if act:
        asm.op("vmov.i32", spare, "#0")
        for vector in vectors:
            asm.op("vmax.s32", vector, vector, spare)
    if act == "relu6":
        asm.op("ldr", temp, at("six"))
        for vector in vectors:
            asm.op("vpt.f32", "ge", vector, temp)
            asm.op("vdupt.32", vector, temp)


def _store(asm: Asm, block: VectorBlock) -> None:
    """Outputs to their pixels; y and offset move on."""
    asm.note("clip and store")
    sums = [_sum(block, pixel, part) for pixel in range(block.pixels) for part in range(block.parts)]
    clip(asm, sums, block.act, f"q{VECTORS - 1}", "r7")
    asm.op("ldrd", "r5", "r6", at("y_at"))
    asm.op("ldr", "r7", at("y_step"))
    asm.op("ldr", "r8", at("step"))
    for pixel in range(block.pixels):
        for part in range(block.parts):
            asm.op("vstrw.32", _sum(block, pixel, part), f"[r5, #{16 * part}]")
        asm.op("add", "r5", "r5", "r7")
        asm.op("add", "r6", "r6", "r8")
    asm.op("strd", "r5", "r6", at("y_at"))
