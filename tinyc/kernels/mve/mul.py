# SPDX-License-Identifier: Apache-2.0
"""mul with Helium (MVE): the proved scaling of tc_mul_lines.h, four elements to a vector.

Doubled products with their high words rounded are what VQRDMULH gives. The last shift rounds (finish.py says why), so
half of what it divides by comes off the addend first.
"""

from __future__ import annotations

from tinyc.base.dataclass import dataclass
from tinyc.kernel.kernel import Cost, SpecializedKernel
from tinyc.kernels.form.function import MVE, LayerFunction, twin
from tinyc.kernels.mve.finish import half
from tinyc.machine.cores import CORTEX_M55
from tinyc.machine.thumb import Asm, Work, naked_function

NAME = "tc_mul_s8_mve"
_PARAMETERS = ("const tc_mul_s8_dsp_t *p", "const int8_t *x0", "const int8_t *x1", "int8_t *y")
_TURN = 16  # elements
_CALL = Work(10, 16)  # around a line


@dataclass(frozen=True, slots=True)
class MulLine:
    """What the code depends on. shift: the last one. twice: doubled products, with rounding. one: x1 is a number for
    the whole line."""

    shift: int
    twice: bool
    one: bool

    @property
    def twin(self) -> str:
        """The function of tc_mul_lines.h that gives the same."""
        return f"tc_mul_{'number' if self.one else 'pairs'}{'_twice' if self.twice else ''}_{self.shift}"


def special(line: MulLine) -> SpecializedKernel:
    """The function for every layer with such lines: p as for tc_mul_s8_dsp, but for `line`."""
    name = f"{NAME}_{line.twin.removeprefix('tc_mul_')}"
    function = LayerFunction(
        f"/* As {line.twin} of tc_mul_lines.h: n3 elements. y may be an input that does not repeat. */",
        naked_function("@_line", _PARAMETERS, _line(line)),
        twin("@_line", _PARAMETERS, f"{line.twin}(p, x0, x1, y);"),
        twin("@", _PARAMETERS, "tc_mul_lines(p, x0, x1, y, @_line);").rstrip(),
        MVE,
    )
    return function.called(name, "tc_mul_lines.h", "tc_mve.h")


def cost(line: MulLine, size: int, lines: int) -> Cost:
    """Of so many lines of `size` elements. Exact but for the loops around the lines; cycles are an upper bound for a
    Cortex-M55."""
    asm = _line(line)
    whole = asm.work() + size // _TURN * asm.work("turn") + -(-(size % _TURN) // 4) * asm.work("four") + _CALL
    return Cost(lines * whole.instructions + 30, 4 * len(asm.text()) + 150, 0, lines * whole.cycles + 40)


def _line(line: MulLine) -> Asm:
    """The assembly; units: a `turn` of the loop, `four` elements of the rest.

    r1 and r2: inputs, r3: output, r4: elements left, r5 and r6: minus the zero points, or with `one` r5 what is added
    to x0 times q2, r7: addend, r8: start, r12: multiplier; q3: multiplier.
    """
    asm = Asm(CORTEX_M55)
    asm.save("{r4-r8, lr}")
    asm.op("ldr", "r4", "[r0, #36]")
    asm.op("ldrd", "r5", "r6", "[r0, #40]")
    asm.op("ldr", "r12", "[r0, #48]")
    asm.op("ldrd", "r7", "r8", "[r0, #52]")
    asm.add("r7", "r7", -half(line.shift), "lr")
    if line.one:
        asm.op("ldrsb", "r2", "[r2]")
        asm.op("subs", "r2", "r2", "r6")
        asm.op("vdup.32", "q2", "r2")
        asm.op("mls", "r5", "r5", "r2", "r8")
    else:
        asm.op("rsb", "r5", "r5", "#0")
        asm.op("rsb", "r6", "r6", "#0")
    if not line.twice:
        asm.op("vdup.32", "q3", "r12")
    asm.op("lsrs", "lr", "r4", f"#{_TURN.bit_length() - 1}")
    asm.branch("beq", "rest")
    with asm.loop("turn", "turn", of_call=True):
        asm.note(f"{_TURN} elements: products, scaling, saturation")
        for _ in range(0, _TURN, 4):
            _four(asm, line, "")
        asm.branch("le", "turn", "lr")
    asm.label("rest")
    asm.op("ands", "r4", "r4", f"#{_TURN - 1}")
    asm.branch("beq", "done")
    with asm.loop("four", "four", of_call=True):
        asm.note("up to four of the rest")
        asm.op("vctp.32", "r4")
        _four(asm, line, "t")
        asm.op("subs", "r4", "r4", "#4")
        asm.branch("bgt.w", "four")
    asm.label("done")
    asm.restore()
    return asm


def _four(asm: Asm, line: MulLine, when: str) -> None:
    """Four elements, or with `t` those of the predicate; all are read before one is written."""
    if when:
        asm.op("vpst" if line.one else "vpstt")
    asm.op(f"vldrb{when}.s32", "q0", "[r1]", "#4")
    if line.one:
        asm.op("vmlas.s32", "q0", "q2", "r5")
    else:
        asm.op(f"vldrb{when}.s32", "q1", "[r2]", "#4")
        asm.op("vadd.i32", "q0", "q0", "r5")
        asm.op("vadd.i32", "q1", "q1", "r6")
        asm.op("vmul.i32", "q0", "q0", "q1")
        asm.op("vadd.i32", "q0", "q0", "r8")
    if line.twice:
        asm.op("vshr.s32", "q1", "q0", "#31")
        asm.op("vqrdmulh.s32", "q0", "q0", "r12")
        asm.op("vadd.i32", "q0", "q0", "q1")
    else:
        asm.op("vmulh.s32", "q0", "q0", "q3")
    asm.op("vadd.i32", "q0", "q0", "r7")
    asm.op("vqrshrnb.s32", "q0", "q0", f"#{line.shift}")
    asm.op("vqmovnb.s16", "q0", "q0")
    if when:
        asm.op("vpst")
    asm.op(f"vstrb{when}.32", "q0", "[r3]", "#4")
