# SPDX-License-Identifier: Apache-2.0
"""add and sub with Helium (MVE): y = saturate((a * x0 + b * x1 + c) >> shift) to int8, four elements to a vector.

Narrowing shifts round (finish.py says why not otherwise), so half of what they divide by comes off c first. A
shift beyond 16 takes both narrowings: to int16, of which nothing is lost, then to int8.
"""

from __future__ import annotations

from functools import lru_cache

from tinyc.kernel.kernel import Cost, SpecializedKernel
from tinyc.machine.cores import CORTEX_M55
from tinyc.machine.thumb import Asm, Work, naked_function

NAME = "tc_add_linear_s8_mve"
SHIFTS = range(1, 25)

_PARAMETERS = ("const tc_add_linear_s8_dsp_t *p", "const int8_t *x0", "const int8_t *x1", "int8_t *y")
_TURN = 16  # elements
_CALL = Work(12, 18)


def offset(shift: int) -> int:
    """What comes off c, so that the sums round down."""
    return (1 << (shift - 1)) + (1 << 15 if shift > 16 else 0)


def specialize(shift: int) -> SpecializedKernel:
    """The function for every layer with this shift: p as for tc_add_linear_s8_dsp. y may be x0 or x1."""
    asm = _function(shift)
    name = f"{NAME}_{shift}"
    text = f"""/* y[i] = saturate((a * x0[i] + b * x1[i] + c) >> {shift}) to int8; y may be x0 or x1.
 * tc_add_linear_s8_dsp.h has the parameters. */
#if TC_MVE_ASM
{naked_function(name, _PARAMETERS, asm)}#else
static void {name}({", ".join(_PARAMETERS)})
{{
    for (int32_t i = 0; i < p->n; i++) {{
        y[i] = (int8_t)tc_clamp((p->b * x1[i] + (p->a * x0[i] + p->c)) >> {shift}, -128, 127);
    }}
}}
#endif"""
    return SpecializedKernel(name, text, ("tc_add_linear_s8_dsp.h", "tc_mve.h"))


def cost(shift: int, elements: int) -> Cost:
    """Exact but for the step around the call; cycles are an upper bound for a Cortex-M55."""
    asm = _function(shift)
    whole = asm.work() + elements // _TURN * asm.work("turn") + -(-(elements % _TURN) // 4) * asm.work("four") + _CALL
    return Cost(whole.instructions, 4 * len(asm.text()) + 16, 0, whole.cycles)


@lru_cache(maxsize=32)
def _function(shift: int) -> Asm:
    """The assembly; units: a `turn` of the loop, `four` elements of the rest.

    r1 and r2: inputs, r3: output, r5: elements left, r6: b, r7: c; q3: a.
    """
    asm = Asm(CORTEX_M55)
    asm.op("push", "{r4-r7, lr}")
    asm.op("ldrd", "r5", "r4", "[r0]")
    asm.op("ldrd", "r6", "r7", "[r0, #8]")
    asm.op("vdup.32", "q3", "r4")
    asm.constant("r4", offset(shift))
    asm.op("sub", "r7", "r7", "r4")
    asm.op("lsrs", "lr", "r5", "#4")
    asm.branch("beq", "rest")
    with asm.loop("turn", "turn", of_call=True):
        asm.note(f"{_TURN} elements: loads, products, saturation, store")
        for _ in range(0, _TURN, 4):
            _four(asm, shift, False)
        asm.branch("le", "turn", "lr")
    asm.label("rest")
    asm.op("ands", "r5", "r5", f"#{_TURN - 1}")
    asm.branch("beq", "done")
    with asm.loop("four", "four", of_call=True):
        asm.note("up to four of the rest")
        asm.op("vctp.32", "r5")
        _four(asm, shift, True)
        asm.op("subs", "r5", "r5", "#4")
        asm.branch("bgt.w", "four")
    asm.label("done")
    asm.op("pop", "{r4-r7, pc}")
    return asm


def _four(asm: Asm, shift: int, partial: bool) -> None:
    """Four elements, or with `partial` those of the predicate; all are read before one is written."""
    when = "t" if partial else ""
    if partial:
        asm.op("vpstt")
    asm.op(f"vldrb{when}.s32", "q0", "[r1]", "#4")
    asm.op(f"vldrb{when}.s32", "q1", "[r2]", "#4")
    asm.op("vmlas.s32", "q0", "q3", "r7")
    asm.op("vmla.s32", "q0", "q1", "r6")
    asm.op("vqrshrnb.s32", "q0", "q0", f"#{min(shift, 16)}")
    if shift > 16:
        asm.op("vqrshrnb.s16", "q0", "q0", f"#{shift - 16}")
    else:
        asm.op("vqmovnb.s16", "q0", "q0")
    if partial:
        asm.op("vpst")
    asm.op(f"vstrb{when}.32", "q0", "[r3]", "#4")
