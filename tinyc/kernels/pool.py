# SPDX-License-Identifier: Apache-2.0
"""Averages over all pixels on Cortex-M with DSP: sums of eight channels at a time in assembly, two int16 to a word."""

from __future__ import annotations

from math import ceil
from typing import NamedTuple

from tinyc.kernel.counted import Units, counted_each
from tinyc.kernel.kernel import Call, Cost, Fetches, In, Out, SpecializedKernel, writing
from tinyc.kernel.site import Site
from tinyc.kernels.form.function import LayerFunction
from tinyc.machine.cores import Core
from tinyc.machine.thumb import Asm, Naked, Work

_MOST_PIXELS = 255  # sums of int8 that fit int16: 255 * 128 < 2^15
_TURN = 8  # pixels per turn of the loop, or less
_PAIR_REACH = 255  # bytes that a load moves its pointer on: of LDR, and what LDRD is used for


def sums_fit(pixels: int) -> bool:
    """Whether a function of this module can sum so many pixels."""
    return 1 <= pixels <= _MOST_PIXELS


def global_pool(
    family: str, pixels: int, channels: int, finish: str, includes: tuple[str, ...], core: Core
) -> SpecializedKernel:
    """The C function `family_<shape>(x, y)`: x [pixels][channels] -> y [channels], `finish` of each channel's sum.

    finish: C statements that turn int32_t `sum` into the output value, in `sum`.
    """
    return _function(pixels, channels, finish, core).named(f"{family}_{pixels}x{channels}", *includes)


def global_pool_call() -> Call:
    """One call for the whole image."""
    return Call((In(0), Out()))


class GlobalSums(NamedTuple):
    """What an average of an image executes. summed: all calls of the assembly. units: that, and what the C around it
    repeats, whose instructions are counted."""

    summed: Work
    units: Units
    code_bytes: int

    def cost(self, whole: Cost) -> Cost:
        """whole: what was counted; the cycles of the assembly are its own."""
        cycles = self.summed.cycles + (whole.instructions - self.summed.instructions) * 3 // 2
        fetches = Fetches.around(0, self.code_bytes, whole.instructions)
        return Cost(whole.instructions, self.code_bytes, 0, max(cycles, whole.instructions), fetches)


def finish_work(family: str, site: Site) -> Work:
    """Of the C that makes an output of a sum, as it was counted of the family."""
    each = ceil(counted_each(family, "channel", site))
    return Work(each, each * 3 // 2)


def sums_of(pixels: int, channels: int, core: Core) -> GlobalSums:
    """Of the function `global_pool`."""
    function, executed = writing(_sums_function, pixels, channels, core)
    summed, single = channels // 8 * executed, channels % 8
    units = {"summed": summed.instructions, "single": single * pixels, "channel": channels}
    return GlobalSums(summed, units, 4 * function.lines + 120)


def _function(pixels: int, channels: int, finish: str, core: Core) -> LayerFunction:
    fast, _ = writing(_sums_function, pixels, channels, core)
    contract = f"/* The average of {pixels} pixels of {channels} channels: x [pixels][channels] -> y [channels]. */"
    twin = f"""static void @_sums(const int8_t *x, int32_t *sums)
{{
    for (int32_t c = 0; c < 8; c++) {{
        sums[c] = 0;
        for (int32_t i = 0; i < {pixels}; i++) {{
            sums[c] += x[i * {channels} + c];
        }}
    }}
}}
"""
    driver = f"""{finish_text(finish, "TC_ALONE")}

static void @(const int8_t *x, int8_t *y)
{{
    int32_t c = 0;

    for (; c + 8 <= {channels}; c += 8) {{
        int32_t sums[8];
        @_sums(x + c, sums);
        for (int32_t i = 0; i < 8; i++) {{
            y[c + i] = @_finish(sums[i]);
        }}
    }}
    for (; c < {channels}; c++) {{
        int32_t sum = 0;
        for (int32_t i = 0; i < {pixels}; i++) {{
            sum += x[i * {channels} + c];
        }}
        y[c] = @_finish(sum);
    }}
}}"""
    return LayerFunction(contract, fast.text, twin, driver)


def finish_text(finish: str, how: str = "inline") -> str:
    """C text of `@_finish`, from a sum to the output. finish: the statements between. how: `TC_ALONE` where compilers
    would have it in the code for every channel of a loop that they unroll."""
    return f"""static {how} int8_t @_finish(int32_t sum)
{{
{finish}
    return (int8_t)sum;
}}"""


def _sums_function(pixels: int, channels: int, core: Core) -> tuple[Naked, Work]:
    """`@_sums(x, sums)`: int32 sums of eight channels; and what a call executes."""
    asm = Asm(core)
    asm.save("{r4-r8, lr}")
    asm.note("sums of two channels in a word")
    for register in ("r4", "r5", "r6", "r7"):
        asm.op("mov", register, "#0")
    turn = max(n for n in range(1, _TURN + 1) if pixels % n == 0)
    asm.constant("r8", pixels // turn)
    with asm.loop("turn", pixels // turn):
        for _ in range(turn):
            asm.piece(_pixel, channels)
        asm.count_down("r8", "", "turn")
    asm.note("store, as int32")
    for even, odd in (("r4", "r5"), ("r6", "r7")):
        asm.op("sxth", "r2", even)
        asm.op("sxth", "r3", odd)
        asm.op("asr", even, even, "#16")
        asm.op("asr", odd, odd, "#16")
        asm.op("stm", "r1!", f"{{r2, r3, {even}, {odd}}}")
    asm.restore()
    asm.reorder()
    return Naked("@_sums", ("const int8_t *x", "int32_t *sums"), asm), asm.work() + 1


def _pixel(asm: Asm, channels: int) -> None:
    """Adds eight channels; r0 goes on to the next pixel."""
    if channels % 4 == 0 and channels <= 4 * _PAIR_REACH:
        asm.op("ldrd", "r2", "r3", f"[r0], #{channels}")
    elif channels <= _PAIR_REACH:
        asm.op("ldr", "r3", "[r0, #4]")
        asm.op("ldr", "r2", f"[r0], #{channels}")
    else:
        asm.op("ldr", "r3", "[r0, #4]")
        asm.op("ldr", "r2", "[r0]")
        asm.add("r0", "r0", channels, "r12")
    for even, odd, word in (("r4", "r5", "r2"), ("r6", "r7", "r3")):
        asm.op("sxtab16", even, even, word)
        asm.op("sxtab16", odd, odd, word, "ror #8")
