# SPDX-License-Identifier: Apache-2.0
"""svdf with Helium (MVE): four filters, then four units at a time.

What the filters remember moves by one number as a whole, vector by vector; the newest numbers, which are dot products
of 16 taps at a time, are scattered to their places behind. The filters of a unit lie one behind the other, and so do
their weights over time, so that a unit is one dot product, modulo 2^32 as in the definition.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tinyc.base.dataclass import dataclass
from tinyc.ir.graph import Array
from tinyc.kernel.kernel import SpecializedKernel
from tinyc.kernels.form.function import MVE, LayerFunction, twin
from tinyc.kernels.mve.dot import LANES
from tinyc.kernels.mve.four_rows import SUMS, four_rows, shift_down, spread_sums, sum_rows
from tinyc.kernels.mve.lanes import STREAM, clamp_bytes
from tinyc.machine.cores import CORTEX_M55
from tinyc.machine.thumb import Asm, Work, naked_function

NAME = "tc_svdf_s8_mve"
_VECTOR = 16  # bytes
_UNROLLED = 8  # vectors
_CALLS = Work(20, 28)  # around both calls


@dataclass(frozen=True, slots=True)
class SvdfLayer:
    """What the code depends on. bytes: of a number that is remembered, 1 or 2."""

    in_c: int
    filters: int
    rank: int
    memory: int
    bytes: int
    into: tuple[int, int]
    out: tuple[int, int]
    y_zero: int
    clamp: tuple[int, int]

    @property
    def units(self) -> int:
        return self.filters // self.rank

    @property
    def lanes(self) -> int:
        """Numbers that are remembered in a vector."""
        return _VECTOR // self.bytes

    @property
    def ctype(self) -> str:
        return f"int{8 * self.bytes}_t"

    @property
    def letter(self) -> str:
        """Of loads and stores."""
        return "bh"[self.bytes - 1]


class SvdfWeights(NamedTuple):
    """features int8 [F, n] with int32 biases [F]; times int8 or int16 [F, M]; int32 biases [U] of the outputs."""

    features: Array
    feature_bias: npt.NDArray[np.int32]
    times: Array
    bias: npt.NDArray[np.int32]


def stream(p: SvdfWeights) -> npt.NDArray[np.int32]:
    """Words: where the newest numbers of four filters are, in numbers; of each four filters biases and features
    (`four_rows`); of each four units their biases, then their weights over time one behind the other, up to a word."""
    memory = p.times.shape[1]
    words = [np.arange(LANES, dtype=np.int32) * memory]
    for first in range(0, len(p.features), LANES):
        words.append(four_rows(p.features[first : first + LANES], p.feature_bias[first : first + LANES]))
    times = p.times.reshape(len(p.bias), -1)
    for first in range(0, len(p.bias), LANES):
        bias = np.zeros(LANES, np.int32)
        biases = p.bias[first : first + LANES]
        bias[: len(biases)] = biases
        data = np.ascontiguousarray(times[first : first + LANES]).tobytes()
        words += [bias, np.frombuffer(data + bytes(-len(data) % 4), np.int32)]
    return np.concatenate(words)


def _moved(count: int, layer: SvdfLayer) -> tuple[str, Work]:
    """The naked function `@_moved(before, after)`: so many numbers, from the second on. after may be before."""
    asm = Asm(CORTEX_M55)
    letter, bits = layer.letter, 8 * layer.bytes
    whole, rest = divmod(count, layer.lanes)
    asm.save("{r4, lr}")
    asm.op("adds", "r0", f"#{layer.bytes}")
    if whole:
        asm.constant("lr", whole)
        with asm.loop("vector", whole):
            asm.op(f"vldr{letter}.u{bits}", "q0", "[r0]", f"#{_VECTOR}")
            asm.op(f"vstr{letter}.{bits}", "q0", "[r1]", f"#{_VECTOR}")
            asm.branch("le", "vector", "lr")
    if rest:
        asm.op("movs", "r2", f"#{rest}")
        asm.op(f"vctp.{bits}", "r2")
        asm.op("vpstt")
        asm.op(f"vldr{letter}t.u{bits}", "q0", "[r0]")
        asm.op(f"vstr{letter}t.{bits}", "q0", "[r1]")
    asm.restore()
    return naked_function("@_moved", (f"const {layer.ctype} *before", f"{layer.ctype} *after"), asm), asm.work()


def _units(layer: SvdfLayer) -> tuple[str, Work]:
    """The naked function `@_units`. Registers: r1 x, r3 y, r7 what is remembered, r8 multiplier, r9 where the newest
    numbers of four filters begin, r10 filters or units left, r11 stream; q4 their places from there."""
    asm = Asm(CORTEX_M55)
    asm.save("{r4-r11, lr}", "{d8-d9}")
    asm.op("mov", STREAM, "r0")
    asm.op("mov", "r7", "r2")
    asm.op("vldrw.u32", "q4", f"[{STREAM}]", f"#{_VECTOR}")
    asm.add("r9", "r2", layer.bytes * (layer.memory - 1), "r10")
    asm.constant("r8", layer.into[0])
    asm.constant("r10", layer.filters)
    with asm.loop("filters", -(-layer.filters // LANES)):
        _newest(asm, layer)
        asm.op("subs", "r10", "r10", f"#{LANES}")
        asm.branch("bgt.w", "filters")
    asm.constant("r8", layer.out[0])
    asm.constant("r9", layer.y_zero)
    quads, rest = divmod(layer.units, LANES)
    if quads:
        asm.constant("r10", quads)
        with asm.loop("units", quads):
            _outputs(asm, layer, LANES)
            asm.op("subs", "r10", "r10", "#1")
            asm.branch("bgt.w", "units")
    if rest:
        _outputs(asm, layer, rest)
    asm.restore()
    return naked_function("@_units", _parameters(layer), asm), asm.work()


def _parameters(layer: SvdfLayer) -> tuple[str, ...]:
    return ("const int32_t *stream", "const int8_t *x", f"{layer.ctype} *state", "int8_t *y")


def _newest(asm: Asm, layer: SvdfLayer) -> None:
    """The newest numbers of four filters."""
    asm.note("four filters: sums over x, scaled, behind what they remember")
    sum_rows(asm, "r1", layer.in_c)
    spread_sums(asm, "q0")
    shift = layer.into[1]
    if shift > 0:
        asm.op("vshl.i32", "q0", "q0", f"#{shift}")
    asm.op("vqrdmulh.s32", "q0", "q0", "r8")
    shift_down(asm, "q0", "q1", max(-shift, 0))
    asm.op("vqmovnb.s32", "q0", "q0")
    if layer.bytes == 1:
        asm.op("vqmovnb.s16", "q0", "q0")
    when = "t" if layer.filters % LANES else ""
    if when:
        asm.op("vctp.32", "r10")
        asm.op("vpst")
    place = "[r9, q4, uxtw #1]" if layer.bytes == 2 else "[r9, q4]"
    asm.op(f"vstr{layer.letter}{when}.32", "q0", place)
    asm.add("r9", "r9", LANES * layer.bytes * layer.memory, "r12")


def _outputs(asm: Asm, layer: SvdfLayer, count: int) -> None:
    """The outputs of so many units."""
    asm.note(f"units: {count} sums over time, scaled to int8")
    taps = layer.rank * layer.memory
    asm.op("ldm", f"{STREAM}!", "{" + ", ".join(SUMS) + "}")
    if taps % layer.lanes:
        asm.op("movs", "r12", f"#{taps % layer.lanes}")
        asm.op(f"vctp.{8 * layer.bytes}", "r12")
    for number, total in enumerate(SUMS[:count]):
        _over_time(asm, layer, total, f"unit {number} of {count}")
    asm.add(STREAM, STREAM, -count * taps * layer.bytes % 4)
    spread_sums(asm, "q0")
    asm.op("vqrdmulh.s32", "q0", "q0", "r8")
    shift_down(asm, "q0", "q1", -layer.out[1])
    asm.op("vqadd.s32", "q0", "q0", "r9")
    asm.op("vqmovnb.s32", "q0", "q0")
    asm.op("vqmovnb.s16", "q0", "q0")
    clamp_bytes(asm, layer.clamp, ["q0"], "q1")
    if count < LANES:
        asm.op("movs", "r12", f"#{count}")
        asm.op("vctp.32", "r12")
        asm.op("vpst")
    asm.op(f"vstrb{'t' if count < LANES else ''}.32", "q0", "[r3]", f"#{LANES}")


def _over_time(asm: Asm, layer: SvdfLayer, total: str, name: str) -> None:
    """total += what a unit's filters remember times its weights; both go on behind them."""
    letter, bits = layer.letter, 8 * layer.bytes
    whole, rest = divmod(layer.rank * layer.memory, layer.lanes)

    def products(when: str, by: int) -> None:
        asm.op(f"vldr{letter}{when}.u{bits}", "q0", "[r7]", f"#{by}")
        asm.op(f"vldr{letter}{when}.u{bits}", "q1", f"[{STREAM}]", f"#{by}")
        asm.op(f"vmladava.s{bits}", total, "q0", "q1")

    if whole > _UNROLLED:
        asm.constant("lr", whole)
        with asm.loop(name, whole):
            products("", _VECTOR)
            asm.branch("le", name, "lr")
    else:
        for _ in range(whole):
            products("", _VECTOR)
    if rest:
        asm.op("vpstt")
        products("t", rest * layer.bytes)


def special(layer: SvdfLayer) -> SpecializedKernel:
    """The function of the layer, and its twin."""
    count = layer.filters * layer.memory - 1
    first = "    @_moved(before, after);\n" if layer.memory > 1 else "    (void)before;\n"
    moved = _moved(count, layer)[0] if layer.memory > 1 else ""
    sizes = ", ".join(map(str, (layer.in_c, layer.filters, layer.rank, layer.memory)))
    factors = ", ".join(map(str, (*layer.into, *layer.out, layer.y_zero, *layer.clamp)))
    contract = f"""/* SVDF of {layer.filters} filters of {layer.memory} numbers over {layer.in_c}, rank {layer.rank}.
 * x [{layer.in_c}]. before, after [{layer.filters}][{layer.memory}]: may be the same. y [{layer.units}].
 * stream: tc_svdf_s8_mve.h.
 */"""
    units_twin = twin(
        "@_units",
        _parameters(layer),
        f"static const tc_mve_svdf_t p = {{{sizes}, {factors}}};",
        f"tc_mve_svdf_{layer.ctype[:-2]}(&p, stream, x, state, y);",
    )
    driver = f"""static void @(const int32_t *stream, const int8_t *x, const {layer.ctype} *before, int8_t *y,
    {layer.ctype} *after)
{{
{first}    @_units(stream, x, after, y);
}}"""
    portable = (_moved_twin(layer, count) if layer.memory > 1 else "") + units_twin
    function = LayerFunction(contract, moved + _units(layer)[0], portable, driver, MVE)
    return function.named(f"{NAME}_{layer.in_c}x{layer.filters}x{layer.memory}", "tc_svdf_s8_mve.h")


def _moved_twin(layer: SvdfLayer, count: int) -> str:
    return f"""static void @_moved(const {layer.ctype} *before, {layer.ctype} *after)
{{
    for (int32_t i = 0; i < {count}; i++) {{
        after[i] = before[i + 1];
    }}
}}

"""


def work(layer: SvdfLayer) -> tuple[Work, int]:
    """What a call executes, but for the step around it, and bytes of code."""
    functions = [_units(layer), *([_moved(layer.filters * layer.memory - 1, layer)] if layer.memory > 1 else [])]
    whole = _CALLS
    for _, executed in functions:
        whole = whole + executed
    return whole, 4 * sum(text.count("\n") for text, _ in functions) + 40
