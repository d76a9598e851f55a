# SPDX-License-Identifier: Apache-2.0
"""lstm with Helium (MVE): four units of a gate at a time.

A step is two functions. The first makes what goes into the gates: VMLADAVA.S8 for 16 taps of one row, then four sums
side by side in a vector. The second makes cell and hidden state of four units, whose gates come from the table by
gathers. The hidden state that a step reads is the output of the step before.

Scaling is that of the definition: VQRDMULH is the doubling product, and VRSHL rounds halves up, so 1 comes off
negative numbers before.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tinyc.base.dataclass import dataclass
from tinyc.ir.graph import Array
from tinyc.kernel.kernel import SpecializedKernel
from tinyc.kernels.form.function import MVE, LayerFunction
from tinyc.kernels.mve.dot import LANES
from tinyc.kernels.mve.four_rows import four_rows, shift_down, spread_sums, sum_rows
from tinyc.kernels.mve.lanes import STREAM
from tinyc.machine.cores import CORTEX_M55
from tinyc.machine.thumb import Asm, Work, naked_function

NAME = "tc_lstm_s8_mve"
MOST_LEFT = 14  # of `left`: 3 * 2^15 * 2^14 < 2^31
NO_CLIP = 32767
_GATES = 4
_SCALING = ("r5", "r8", "r10", "r12")  # left, multiplier, whether the shift goes down, minus how far
_GATES_PARAMETERS = ("const int32_t *stream", "const int8_t *x", "const int8_t *hidden", "int16_t *q")
_CELLS_PARAMETERS = ("const uint16_t *table", "const int16_t *q", "int16_t *cell", "int8_t *y")
_CALLS = Work(30, 40)  # around both calls of a step
_HALF = 1 << 30  # multiplier of 1/2

Factor = tuple[int, int]


class Side(NamedTuple):
    """What a gate gets from x or from the hidden state: weights int8 [gates, H, n], int32 biases [gates, H], and a
    factor of each gate."""

    weights: Array
    bias: npt.NDArray[np.int32]
    mult: npt.NDArray[np.int32]
    shift: npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class LstmLayer:
    """What the code depends on. grows: some sums are scaled up before the product. clip: of the cell; NO_CLIP: none."""

    in_c: int
    units: int
    grows: bool
    forget: Factor
    add: Factor
    out: Factor
    left: int
    clip: int
    hidden_zero: int

    @property
    def quads(self) -> int:
        return -(-self.units // LANES)

    @property
    def scratch_bytes(self) -> int:
        """What goes into the gates, int16 [quads][gates][4]."""
        return 2 * _GATES * LANES * self.quads


def stream(sides: Sequence[Side]) -> npt.NDArray[np.int32]:
    """Words: of each gate the scaling of both sums, four words each; then of each four units, of x and of the hidden
    state, four biases and the weights of each 16 taps, 16 bytes of each unit."""
    words: list[npt.NDArray[np.int32]] = []
    for gate in range(_GATES):
        for side in sides:
            by = int(side.shift[gate])
            words.append(np.array([max(by, 0), side.mult[gate], by < 0, min(by, 0)], np.int32))
        for first, side in product(range(0, sides[0].weights.shape[1], LANES), sides):
            quad = slice(first, first + LANES)
            words.append(four_rows(side.weights[gate, quad], side.bias[gate, quad]))
    return np.concatenate(words)


def table(entries: npt.NDArray[np.uint16]) -> npt.NDArray[np.uint16]:
    """The table of logistic, [257]: the last entry twice, for what lies beyond it is read by the rule of all others."""
    return np.append(entries, entries[-1])


# ---- what goes into the gates ----


def _gates(in_c: int, units: int, grows: bool) -> tuple[str, Work]:
    """The naked function `@_gates`. Registers: r1 x, r3 hidden, r7 where sums go, r9 scaling, r11 stream; q0 what x
    gives; q3 inputs; q1 and q2 weights."""
    asm = Asm(CORTEX_M55)
    quads = -(-units // LANES)
    asm.save("{r4-r11, lr}", frame=12)
    asm.op("mov", STREAM, "r0")
    asm.op("mov", "r7", "r3")
    asm.op("mov", "r3", "r2")
    asm.op("movs", "r5", f"#{_GATES}")
    asm.op("str", "r5", "[sp]")
    with asm.loop("gate", _GATES):
        asm.op("mov", "r9", STREAM)
        asm.add(STREAM, STREAM, 32)
        asm.constant("r5", quads)
        asm.op("str", "r5", "[sp, #4]")
        with asm.loop("quad", quads):
            asm.note("four units: their sums over x, scaled to int16")
            sum_rows(asm, "r1", in_c)
            asm.op("ldm", "r9", "{" + ", ".join(_SCALING) + "}")
            _scaled(asm, "q0", "q1", grows)
            asm.note("and over the hidden state")
            sum_rows(asm, "r3", units)
            asm.op("ldrd", *_SCALING[:2], "[r9, #16]")
            asm.op("ldrd", *_SCALING[2:], "[r9, #24]")
            _scaled(asm, "q3", "q1", grows)
            asm.op("vqadd.s16", "q0", "q0", "q3")
            asm.op("vstrh.32", "q0", "[r7]", f"#{2 * _GATES * LANES}")
            asm.count_down("r5", "[sp, #4]", "quad")
        asm.add("r7", "r7", 2 * LANES - 2 * _GATES * LANES * quads, "r5")
        asm.count_down("r5", "[sp]", "gate")
    asm.restore()
    return naked_function("@_gates", _GATES_PARAMETERS, asm), asm.work()


def _scaled(asm: Asm, target: str, temp: str, grows: bool) -> None:
    """The bottom halves of target's lanes = the sums, scaled and saturated to int16."""
    spread_sums(asm, target)
    left, mult, down, shift = _SCALING
    if grows:
        asm.op("vshl.s32", target, left)
    asm.op("vqrdmulh.s32", target, target, mult)
    asm.op("vshr.s32", temp, target, "#31")
    asm.op("vmla.s32", target, temp, down)
    asm.op("vrshl.s32", target, shift)
    asm.op("vqmovnb.s32", target, target)


# ---- cell and hidden state ----


def _cells(layer: LstmLayer) -> tuple[str, Work]:
    """The naked function `@_cells`. Registers: r0 table, r1 what goes into the gates, r2 cell, r3 y, r4 table behind
    its first entry, r5 3, r6 512, r7 -512, r8 256, r9 -256, r10 and r11 multipliers, r12 the zero point, lr units
    left; q7 2^15."""
    asm = Asm(CORTEX_M55)
    asm.save("{r4-r11, lr}", "{d8-d15}")
    asm.op("adds", "r4", "r0", "#2")
    for register, value in (("r5", 3), ("r6", 512), ("r8", 256)):
        asm.constant(register, value)
    asm.op("rsb", "r7", "r6", "#0")
    asm.op("rsb", "r9", "r8", "#0")
    asm.constant("r10", layer.add[0])
    asm.constant("r11", layer.out[0])
    asm.constant("r12", layer.hidden_zero)
    asm.op("vmov.i32", "q7", f"#{1 << 15}")
    asm.constant("lr", layer.units)
    with asm.loop("units", layer.quads):
        _cell(asm, layer)
        _shown(asm, layer)
        asm.op("adds", "r1", f"#{2 * _GATES * LANES}")
        asm.op("subs", "lr", "lr", f"#{LANES}")
        asm.branch("bgt.w", "units")
    asm.restore()
    return naked_function("@_cells", _CELLS_PARAMETERS, asm), asm.work()


def _cell(asm: Asm, layer: LstmLayer) -> None:
    """The cells of four units, in memory and in the bottom halves of q5."""
    asm.note("forget gate times cell")
    asm.op("vldrh.s32", "q0", "[r1, #8]")
    _logistic(asm, "q1")
    _access(asm, layer, "vldrh{}.s32", "q0", "[r2]")
    asm.op("vmul.i32", "q1", "q1", "q0")
    _requantize(asm, "q1", "q2", layer.forget, "")
    asm.op("vqmovnb.s32", "q5", "q1")
    asm.note("input gate times candidate")
    asm.op("vldrh.s32", "q0", "[r1]")
    _logistic(asm, "q6")
    asm.op("vldrh.s32", "q0", "[r1, #16]")
    asm.op("vmul.i32", "q0", "q0", "r5")
    _tanh(asm, "q1")
    asm.op("vmul.i32", "q1", "q1", "q6")
    _requantize(asm, "q1", "q2", layer.add, "r10")
    asm.op("vqmovnb.s32", "q1", "q1")
    asm.op("vqadd.s16", "q5", "q5", "q1")
    if layer.clip < NO_CLIP:
        asm.constant("r12", layer.clip)
        asm.op("vdup.16", "q1", "r12")
        asm.op("rsb", "r12", "r12", "#0")
        asm.op("vdup.16", "q2", "r12")
        asm.op("vmin.s16", "q5", "q5", "q1")
        asm.op("vmax.s16", "q5", "q5", "q2")
        asm.constant("r12", layer.hidden_zero)
    _access(asm, layer, "vstrh{}.32", "q5", "[r2]", "#8")


def _shown(asm: Asm, layer: LstmLayer) -> None:
    """The hidden state of four units."""
    asm.note("output gate times tanh of the cell")
    asm.op("vmovlb.s16", "q0", "q5")
    asm.op("vmul.i32", "q0", "q0", "r5")
    if layer.left > 0:
        asm.op("vshl.i32", "q0", "q0", f"#{layer.left}")
    elif layer.left < 0:
        asm.op("vrshr.s32", "q0", "q0", f"#{-layer.left}")
    _tanh(asm, "q6")
    asm.op("vldrh.s32", "q0", "[r1, #24]")
    _logistic(asm, "q1")
    asm.op("vmul.i32", "q1", "q1", "q6")
    _requantize(asm, "q1", "q2", layer.out, "r11")
    if layer.hidden_zero:
        asm.op("vadd.i32", "q1", "q1", "r12")
    asm.op("vqmovnb.s32", "q1", "q1")
    asm.op("vqmovnb.s16", "q1", "q1")
    _access(asm, layer, "vstrb{}.32", "q1", "[r3]", "#4")


def _access(asm: Asm, layer: LstmLayer, op: str, *operands: str) -> None:
    """A load or store of four units, or of those that there are."""
    if layer.units % LANES:
        asm.op("vctp.32", "lr")
        asm.op("vpst")
    asm.op(op.format("t" if layer.units % LANES else ""), *operands)


def _logistic(asm: Asm, target: str) -> None:
    """target = the logistic function, Q0.15, of q0 in Q3.12, which never reaches the table's end."""
    asm.op("vmul.i32", "q0", "q0", "r5")
    asm.op("vabs.s32", target, "q0")
    _interpolate(asm, target, 9, ("r6", "r7"))
    asm.op("vrshr.s32", target, target, "#10")
    asm.op("vpt.s32", "lt", "q0", "zr")
    asm.op("vsubt.i32", target, "q7", target)


def _tanh(asm: Asm, target: str) -> None:
    """target = tanh, Q0.15, of q0 in steps of 1 / (3 * 4096)."""
    asm.op("vabs.s32", target, "q0")
    asm.op("vmov.i32", "q2", f"#{255 << 8:#x}")
    asm.op("vmin.s32", target, target, "q2")
    _interpolate(asm, target, 8, ("r8", "r9"))
    asm.op("vrshr.s32", target, target, "#8")
    asm.op("vsub.i32", target, target, "q7")
    asm.op("vpt.s32", "lt", "q0", "zr")
    asm.op("vnegt.s32", target, target)


def _interpolate(asm: Asm, target: str, bits: int, powers: Sequence[str]) -> None:
    """target = the table at target, whose lowest `bits` lie between two entries. powers: 2^bits and its negative."""
    asm.op("vshr.u32", "q2", target, f"#{bits}")
    asm.op("vldrh.u32", "q3", "[r0, q2, uxtw #1]")
    asm.op("vldrh.u32", "q4", "[r4, q2, uxtw #1]")
    asm.op("vmla.s32", target, "q2", powers[1])
    asm.op("vsub.i32", "q4", "q4", "q3")
    asm.op("vmul.i32", target, target, "q4")
    asm.op("vmla.s32", target, "q3", powers[0])


def _requantize(asm: Asm, vector: str, temp: str, factor: Factor, mult: str) -> None:
    """vector times a factor below 1, rounded twice. mult: a register with its multiplier, where that is not 1/2."""
    value, shift = factor
    if value == _HALF:
        asm.op("vrshr.s32", vector, vector, "#1")
    else:
        asm.op("vqrdmulh.s32", vector, vector, mult)
    shift_down(asm, vector, temp, -shift)


# ---- the layer ----


def special(layer: LstmLayer, steps: int) -> SpecializedKernel:
    """The function for all steps, and its twin."""
    contract = f"""/* LSTM, {steps} steps from {layer.in_c} numbers to {layer.units} units.
 * x [{steps}][{layer.in_c}]. y [{steps}][{layer.units}]. hidden may be hidden_before, cell may be cell_before.
 * stream, table: tc_lstm_s8_mve.h. scratch: {layer.scratch_bytes} bytes, aligned to 4.
 */"""
    fast = f"{_gates(layer.in_c, layer.units, layer.grows)[0]}\n{_cells(layer)[0]}"
    driver = f"""\
static void @(const int32_t *stream, const uint16_t *table, const int8_t *x, const int8_t *hidden_before,
    const int16_t *cell_before, int8_t *y, int8_t *hidden, int16_t *cell, void *scratch)
{{
    const int8_t *from = hidden_before;

    for (int32_t u = 0; u < {layer.units}; u++) {{
        cell[u] = cell_before[u];
    }}
    for (int32_t step = 0; step < {steps}; step++, x += {layer.in_c}, y += {layer.units}) {{
        @_gates(stream, x, from, (int16_t *)scratch);
        @_cells(table, (const int16_t *)scratch, cell, y);
        from = y;
    }}
    for (int32_t u = 0; u < {layer.units}; u++) {{
        hidden[u] = from[u];
    }}
}}"""
    function = LayerFunction(contract, fast, _twin(layer), driver, MVE)
    return function.named(f"{NAME}_{layer.in_c}x{layer.units}", "tc_lstm_s8_mve.h")


def _twin(layer: LstmLayer) -> str:
    factors = ((name, getattr(layer, name)) for name in ("forget", "add", "out"))
    fields: dict[str, int] = {"units": 1, "left": layer.left, "hidden_zero": layer.hidden_zero, "rounds": 2}
    fields |= {"cell_min": -layer.clip - (layer.clip == NO_CLIP), "cell_max": layer.clip}
    for name, (mult, shift) in factors:
        fields |= {f"{name}_mult": mult, f"{name}_shift": shift}
    lines = "".join(f"        p.{name} = {value};\n" for name, value in fields.items())
    return f"""static void @_gates({", ".join(_GATES_PARAMETERS)})
{{
    tc_mve_lstm_gates(stream, x, hidden, q, {layer.in_c}, {layer.units});
}}

static void @_cells({", ".join(_CELLS_PARAMETERS)})
{{
    tc_lstm_t p;

    p.table = table;
{lines.replace("        ", "    ")}    tc_mve_lstm_cells(&p, q, cell, y, {layer.units});
}}
"""


def work(layer: LstmLayer, steps: int) -> tuple[Work, int]:
    """What a call executes, but for the step around it, and bytes of code."""
    parts = (_gates(layer.in_c, layer.units, layer.grows), _cells(layer))
    each = parts[0][1] + parts[1][1] + _CALLS
    whole = Work(steps * each.instructions + 10 * layer.units, steps * each.cycles + 12 * layer.units)
    return whole, 4 * sum(text.count("\\n") for text, _ in parts) + 120
