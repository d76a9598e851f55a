# SPDX-License-Identifier: Apache-2.0
"""add and sub on Cortex-M with DSP: y = saturate((a * x0 + b * x1 + c) >> shift) to int8, in assembly.

Compilers turn multiplications by a constant into shifts and sums, and spill; here it is five and a half instructions
per element: four elements are loaded as a word, two ANDs put each into the upper byte of a half, and SMLAW multiplies
a half by the factor, which is kept times 2^8, and drops 16 bits of zeros.
"""

from __future__ import annotations

from functools import lru_cache

from tinyc.kernel.kernel import Cost, Fetches, SpecializedKernel, WrittenCode
from tinyc.machine.cores import Core
from tinyc.machine.thumb import Asm, Work, naked_function

NAME = "tc_add_linear_s8_asm"

_PARAMETERS = ("const tc_add_linear_s8_dsp_t *p", "const int8_t *x0", "const int8_t *x1", "int8_t *y")
_TURN = 32  # elements
_ODD = 0xFF00FF00  # bytes 1 and 3 of a word
_CALL = Work(12, 18)
_STRUCT = 16  # bytes of the parameters


def fits(a: int, b: int) -> bool:
    """Whether the functions take these factors."""
    return max(abs(a), abs(b)) < 2**23


def specialize(shift: int, core: Core) -> SpecializedKernel:
    """The function for every layer with this shift: p as for tc_add_linear_s8_dsp. y may be x0 or x1."""
    asm = _function(shift, core)
    name = f"{NAME}_{shift}"
    text = f"""/* y[i] = saturate((a * x0[i] + b * x1[i] + c) >> {shift}) to int8: tc_add_linear_s8_dsp.h.
 * a and b: less than 2^23. y may be x0 or x1.
 */
#if TC_DSP_ASM
{naked_function(name, _PARAMETERS, asm)}#else
static void {name}({", ".join(_PARAMETERS)})
{{
    for (int32_t i = 0; i < p->n; i++) {{
        y[i] = (int8_t)tc_ssat8((p->b * x1[i] + (p->a * x0[i] + p->c)) >> {shift});
    }}
}}
#endif"""
    return SpecializedKernel(name, text, ("tc_add_linear_s8_dsp.h",))


def cost(shift: int, elements: int, core: Core) -> Cost:
    """Exact but for the step around the call."""
    asm = _function(shift, core)
    whole = asm.work() + elements // _TURN * asm.work("turn") + elements % _TURN * asm.work("last") + _CALL
    code = WrittenCode((NAME, shift), asm.code_bytes)
    fetches = Fetches.around(_STRUCT, code.size, whole.instructions)
    return Cost(whole.instructions, code.size + _STRUCT, 0, whole.cycles, fetches, code)


@lru_cache(maxsize=32)
def _function(shift: int, core: Core) -> Asm:
    """The assembly; units: a `turn` of the loop, an element of the rest (`last`).

    r0: a, r12: b, r14: c, r1 and r2: inputs, r3: output, [sp]: where the turns end, [sp, #4]: where all ends.
    In the turns r11: the mask of odd bytes, and a and b times 2^8.
    """
    asm = Asm(core)
    asm.note("registers and arguments to the stack")
    asm.op("push", "{r4-r11, lr}")
    asm.op("sub", "sp", "sp", "#12")
    asm.op("ldm", "r0", "{r4-r7}")
    asm.op("add", "r8", "r1", "r4")
    asm.op("bic", "r4", "r4", f"#{_TURN - 1}")
    asm.op("add", "r4", "r4", "r1")
    asm.op("strd", "r4", "r8", "[sp]")
    for target, source in (("r0", "r5"), ("r12", "r6"), ("r14", "r7")):
        asm.op("mov", target, source)
    asm.op("cmp", "r1", "r4")
    asm.branch("beq.w", "rest")
    asm.op("mov", "r11", f"#{_ODD:#x}")
    for factor in ("r0", "r12"):
        asm.op("lsl", factor, factor, "#8")
    with asm.loop("turn", "turn"):
        asm.note(f"{_TURN} elements: loads, products, saturation, store")
        for first in range(0, _TURN, 4):
            _four(asm, shift, first)
        for pointer in ("r1", "r2", "r3"):
            asm.op("add", pointer, pointer, f"#{_TURN}")
        asm.op("ldr", "r4", "[sp]")
        asm.until_equal("r1", "r4", "turn")
    for factor in ("r0", "r12"):
        asm.op("asr", factor, factor, "#8")
    asm.label("rest")
    asm.op("ldr", "r8", "[sp, #4]")
    asm.op("cmp", "r1", "r8")
    asm.branch("beq.w", "done")
    with asm.loop("one", "last", of_call=True):
        asm.note("an element of the rest")
        asm.op("ldrsb", "r4", "[r1], #1")
        asm.op("ldrsb", "r5", "[r2], #1")
        asm.op("mla", "r4", "r4", "r0", "r14")
        asm.op("mla", "r4", "r5", "r12", "r4")
        asm.op("ssat", "r4", "#8", "r4", f"asr #{shift}")
        asm.op("strb", "r4", "[r3], #1")
        asm.until_equal("r1", "r8", "one")
    asm.label("done")
    asm.note("return")
    asm.op("add", "sp", "sp", "#12")
    asm.op("pop", "{r4-r11, pc}")
    asm.reorder()  # before it is kept, so that it costs the same before and after it is printed
    return asm


def _four(asm: Asm, shift: int, first: int) -> None:
    """Four elements; all are read before one is written."""
    asm.op("ldr", "r4", f"[r1, #{first}]")
    asm.op("ldr", "r5", f"[r2, #{first}]")
    asm.op("and", "r6", "r11", "r4", "lsl #8")  # elements 0, 2
    asm.op("and", "r7", "r11", "r5", "lsl #8")
    asm.op("and", "r4", "r4", "r11")  # 1, 3
    asm.op("and", "r5", "r5", "r11")
    sums = (("b", "r8", "r6", "r7"), ("b", "r9", "r4", "r5"), ("t", "r6", "r6", "r7"), ("t", "r4", "r4", "r5"))
    for half, total, left, _ in sums:
        asm.op(f"smlaw{half}", total, "r0", left, "r14")
    for half, total, _, right in sums:
        asm.op(f"smlaw{half}", total, "r12", right, total)
    for _, total, _, _ in sums:
        asm.op("ssat", total, "#8", total, f"asr #{shift}")
    for i, (_, total, _, _) in enumerate(sums):
        asm.op("strb", total, f"[r3, #{first + i}]")
