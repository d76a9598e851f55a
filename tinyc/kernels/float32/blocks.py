# SPDX-License-Identifier: Apache-2.0
"""Sums of products of conv2d and fully_connected in float32 on Cortex-M with FPU: blocks of output channels and pixels.

A block is `outputs` output channels of `pixels` pixels side by side, an accumulator in an FPU register for each. Taps
come one after the other: weights of all outputs by one VLDM, inputs of a pixel by another, then a VFMA for every
accumulator; 32 registers bound how many taps that can be at a time (`_taps`). The functions serve all layers; which
parts of a row they make is said in C (`matrix.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tinyc.base.dataclass import dataclass
from tinyc.kernel.kernel import SpecializedKernel
from tinyc.kernels.float32.arguments import HEADER, at
from tinyc.kernels.float32.vectors import VectorBlock, block_code
from tinyc.kernels.form.function import MVE_FLOAT, VFMA, LayerFunction, twin, where
from tinyc.machine.cores import Core
from tinyc.machine.thumb import Asm, Work, fpu_registers, naked_function
from tinyc.machine.work import CALL

_REGISTERS = 32
_UNSAVED = 16  # FPU registers that a function need not save
_MOST_TAPS = 8  # in a turn of the loop
_WORDS = 4  # of the core that VMOV and STM take at a time


B = TypeVar("B", "FloatBlock", "Channels")


@dataclass(frozen=True, slots=True)
class FloatBlock:
    """outputs: 4 or 8, times pixels: accumulators. turn: taps of a turn, 4 or 8. act: none, relu or relu6."""

    outputs: int
    pixels: int
    turn: int
    act: str
    core: Core

    @property
    def name(self) -> str:
        """Of its function."""
        return f"tc_block_f32_{self.outputs}x{self.pixels}_t{self.turn}{'_' + self.act if self.act else ''}"

    @property
    def sums(self) -> int:
        return self.outputs * self.pixels

    @property
    def taps(self) -> int:
        """Taps whose weights come by one VLDM, at least 1; and as many inputs of each pixel as fill the registers."""
        return min(self.turn, max(1, min(16, _REGISTERS - self.sums - self.inputs * self.pixels) // self.outputs))

    @property
    def inputs(self) -> int:
        """Inputs of a pixel that come by one VLDM."""
        return min(self.turn, _MOST_TAPS // self.pixels)

    def work(self, unit: str = CALL) -> Work:
        """What a call executes, and beside it for each `turn` (of taps of a row), `tap` (one of the rest), `row`
        that is there, and `group` of pixels."""
        return _function(self).work(unit)


@dataclass(frozen=True, slots=True)
class Channels:
    """A block of a depthwise layer: 4 or 8 channels, each with weights of its own, of `pixels` pixels; turn: taps of a
    turn."""

    outputs: int
    pixels: int
    turn: int
    act: str
    core: Core

    @property
    def name(self) -> str:
        """Of its function."""
        return f"tc_channels_f32_{self.outputs}x{self.pixels}_t{self.turn}{'_' + self.act if self.act else ''}"

    def work(self, unit: str = CALL) -> Work:
        """As `Block.work`, without `tap`."""
        return _channel_function(self).work(unit)


def _pointer(pixel: int) -> str:
    return f"r{2 + pixel}"


def _function(block: FloatBlock) -> Asm:
    return _framed(block, _row)


def _channel_function(block: Channels) -> Asm:
    return _framed(block, _channel_row)


def _framed(block: B, row: Callable[[Asm, B], None]) -> Asm:
    """r0: the arguments, r1: weights, r2 and r3: inputs, r4: turns, r5: rows, r6: rows left, r7: outputs, r8: groups of
    pixels left, r9: bytes from the begin of a row, r10: those between two pixels."""
    asm = Asm(block.core)
    asm.note("registers and arguments")
    asm.save("{r4-r11, lr}", fpu_registers(_UNSAVED, _REGISTERS - _UNSAVED))
    asm.op("ldr", "r7", at("y"))
    asm.op("ldr", "r8", at("count"))
    asm.op("ldr", "r9", at("offset"))
    asm.op("ldr", "r10", at("step"))
    with asm.loop("group", "group", of_call=True):
        asm.note("accumulators begin with the biases")
        asm.op("ldr", "r4", at("bias"))
        for pixel in range(block.pixels):
            asm.op("vldmia", "r4", fpu_registers(pixel * block.outputs, block.outputs))
        asm.op("ldr", "r1", at("w"))
        asm.op("ldr", "r5", at("rows"))
        asm.op("ldr", "r6", at("k_h"))
        with asm.loop("row", "row", of_call=True):
            asm.note("a row of the window, unless it lies outside the image")
            asm.op("ldr", "r2", "[r5], #4")
            asm.op("cmp", "r2", "#0")
            asm.branch("beq.w", "outside")
            asm.op("add", "r2", "r2", "r9")
            if block.pixels > 1:
                asm.op("add", "r3", "r2", "r10")
            row(asm, block)
            asm.op("ldr", "r11", at("skip"))
            asm.op("add", "r1", "r1", "r11")
            asm.op("subs", "r6", "r6", "#1")
            asm.branch("bne.w", "row")
        asm.label("finish")
        store(asm, block)
        asm.op("mla", "r9", "r10", "r11", "r9")
        asm.op("subs", "r8", "r8", "#1")
        asm.branch("bne.w", "group")
    asm.note("return")
    asm.restore()
    asm.note("a row outside the image")
    asm.label("outside")
    asm.op("ldr", "r11", at("row"))
    asm.op("add", "r1", "r1", "r11")
    asm.op("subs", "r6", "r6", "#1")
    asm.branch("bne.w", "row")
    asm.branch("b.w", "finish")
    return asm


def _row(asm: Asm, block: FloatBlock) -> None:
    """One kernel row: `turns` times some taps, then `rest` single ones; a row outside the image is skipped."""
    asm.op("ldr", "r4", at("turns"))
    asm.op("cmp", "r4", "#0")
    asm.branch("beq.w", "rest")
    with asm.loop("turn", "turn", of_call=True):
        asm.note(f"products: {block.turn} taps")
        _taps(asm, block)
        asm.op("subs", "r4", "r4", "#1")
        asm.branch("bne.w", "turn")
    asm.label("rest")
    asm.op("ldr", "r4", at("rest"))
    asm.op("cmp", "r4", "#0")
    asm.branch("beq.w", "behind")
    with asm.loop("tap", "tap", of_call=True):
        asm.note("products: a tap")
        asm.op("vldmia", "r1!", fpu_registers(block.sums, block.outputs))
        for pixel in range(block.pixels):
            register = f"s{block.sums + block.outputs + pixel}"
            asm.op("vldmia", f"{_pointer(pixel)}!", f"{{{register}}}")
        for pixel in range(block.pixels):
            _products(asm, block, pixel, f"s{block.sums + block.outputs + pixel}", block.sums)
        asm.op("subs", "r4", "r4", "#1")
        asm.branch("bne.w", "tap")
    asm.label("behind")


def _channel_row(asm: Asm, block: Channels) -> None:
    """One kernel row: `turns` times some taps, whose inputs lie `tap` bytes apart."""
    weights = block.outputs * block.pixels
    inputs = weights + block.outputs
    asm.op("ldr", "r4", at("turns"))
    asm.op("ldr", "r11", at("tap"))
    with asm.loop("turn", "turn", of_call=True):
        asm.note(f"products: {block.turn} taps")
        for _ in range(block.turn):
            asm.op("vldmia", "r1!", fpu_registers(weights, block.outputs))
            for pixel in range(block.pixels):
                asm.op("vldmia", _pointer(pixel), fpu_registers(inputs, block.outputs))
                asm.op("add", _pointer(pixel), _pointer(pixel), "r11")
                for output in range(block.outputs):
                    registers = pixel * block.outputs + output, inputs + output, weights + output
                    asm.op("vfma.f32", *(f"s{register}" for register in registers))
        asm.op("subs", "r4", "r4", "#1")
        asm.branch("bne.w", "turn")


def _taps(asm: Asm, block: FloatBlock) -> None:
    """The taps of a turn."""
    weights = block.sums
    inputs = weights + block.taps * block.outputs
    for tap in range(block.turn):
        if tap % block.inputs == 0:
            for pixel in range(block.pixels):
                first = inputs + pixel * block.inputs
                asm.op("vldmia", f"{_pointer(pixel)}!", fpu_registers(first, block.inputs))
        if tap % block.taps == 0:
            asm.op("vldmia", "r1!", fpu_registers(weights, block.taps * block.outputs))
        for pixel in range(block.pixels):
            x = f"s{inputs + pixel * block.inputs + tap % block.inputs}"
            _products(asm, block, pixel, x, weights + tap % block.taps * block.outputs)


def _products(asm: Asm, block: FloatBlock, pixel: int, x: str, weights: int) -> None:
    for output in range(block.outputs):
        asm.op("vfma.f32", f"s{pixel * block.outputs + output}", x, f"s{weights + output}")


def store(asm: Asm, block: FloatBlock | Channels) -> None:
    """Outputs to their pixels, clipped in core registers: of numbers that are not negative, bits compare as they do."""
    asm.note("clip and store")
    asm.op("ldr", "r11", at("y_step"))
    if block.act == "relu6":
        asm.op("ldr", "r12", at("six"))
    for pixel in range(block.pixels):
        first = pixel * block.outputs
        if not block.act:
            asm.op("vstmia", "r7", fpu_registers(first, block.outputs))
        for word in range(0, block.outputs if block.act else 0, _WORDS):
            registers = [f"r{1 + i}" for i in range(_WORDS)]
            for i in range(0, _WORDS, 2):
                asm.op("vmov", *registers[i : i + 2], f"s{first + word + i}", f"s{first + word + i + 1}")
            for register in registers:
                _clip(asm, block, register)
            asm.op("strd", registers[0], registers[1], f"[r7, #{4 * word}]")
            asm.op("strd", registers[2], registers[3], f"[r7, #{4 * word + 8}]")
        asm.op("add", "r7", "r7", "r11")
    asm.constant("r11", block.pixels)


def _clip(asm: Asm, block: FloatBlock | Channels, register: str) -> None:
    asm.op("bic", register, register, register, "asr #31")
    if block.act == "relu6":
        asm.op("cmp", register, "r12")
        asm.op("it", "gt")
        asm.op("movgt", register, "r12")


def block_function(block: FloatBlock | Channels | VectorBlock) -> SpecializedKernel:
    """The function of a block, which layers share."""
    if isinstance(block, VectorBlock):
        return _vector_function(block)
    asm = _function(block) if isinstance(block, FloatBlock) else _channel_function(block)
    parameters = ("const tc_block_f32_t *p",)
    fast = naked_function(block.name, parameters, asm)
    portable = twin(block.name, parameters, _twin(block), shared=True)
    return LayerFunction(_contract(block), fast, portable, isa=VFMA).called(block.name, HEADER)


def _contract(block: FloatBlock | Channels | VectorBlock) -> str:
    """What a turn of the outer loop makes, in words."""
    pixels = "a pixel" if block.pixels == 1 else f"{block.pixels} pixels"
    return f"/* {block.outputs} outputs of {pixels} at a time: {HEADER}. */"


def _twin(block: FloatBlock | Channels | VectorBlock) -> str:
    """The call of the same in plain C."""
    twin = "tc_channels_f32" if isinstance(block, Channels) else "tc_block_f32"
    acts = f"{int(bool(block.act))}, {int(block.act == 'relu6')}"
    return f"{twin}(p, {block.outputs}, {block.pixels}, {block.turn}, {acts});"


def _vector_function(block: VectorBlock) -> SpecializedKernel:
    fast = naked_function(f"{block.name}_mve", ("tc_block_f32_t *p",), block_code(block))
    driver = f"""static TC_UNUSED void {block.name}(tc_block_f32_t *p)
{{
{where(MVE_FLOAT, f"    {block.name}_mve(p);{chr(10)}    if (!p->flushed) return;{chr(10)}")}
    {_twin(block)}
}}"""
    return LayerFunction(_contract(block), fast, driver=driver, isa=MVE_FLOAT).called(block.name, HEADER)
