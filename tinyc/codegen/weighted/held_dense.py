"""fully_connected of one row on Cortex-M with DSP and FPU, the inputs held in FPU registers as they are.

`dense.py` unpacks all inputs once, to twice their bytes of scratch, and makes four outputs at a time. Here 128 inputs
at a time lie in 32 FPU registers; each word is unpacked again for every eight outputs. No scratch, and eight
accumulators for each input fetched make up for the unpacking.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tinyc.codegen.finish import GROUP, Finish, Way
from tinyc.codegen.stream import Matrix, packed
from tinyc.codegen.thumb import Asm, Work, naked_function
from tinyc.codegen.weighted.layer import NEEDS_FPU
from tinyc.kernels import Call, Const, Cost, In, Kernel, Out, Special
from tinyc.ops.base import Site
from tinyc.ops.windows import ConvParams, conv_params, is_s8

NAME = "tc_fully_connected_s8_fpu_asm"

_OUTPUTS = 8  # at a time
_ACC = tuple(f"r{1 + i}" for i in range(_OUTPUTS))
_WEIGHTS = ("r11", "r12", "r14")
_HELD = 32  # words of four inputs in FPU registers
_UNSAVED = 16  # FPU registers that a function need not save
_MOST_INPUTS = 2**15
_CALL = Work(10, 16)
_PARAMETERS = ("const int32_t *stream", "const int8_t *x", "int8_t *y")
_SLOTS = {"y": 0, "groups": 4, "x": 8, "at": 12, "end": 16}
_FRAME = 20  # with nine saved registers, a multiple of 8


@dataclass(frozen=True, slots=True)
class Layer:
    """What the code depends on. in_c: a multiple of 4."""

    in_c: int
    out_c: int
    way: Way

    @property
    def words(self) -> int:
        return self.in_c // 4

    @property
    def groups(self) -> int:
        return -(-self.out_c // _OUTPUTS)

    @property
    def rest(self) -> int:
        """Outputs of a last group that is not full."""
        return self.out_c % _OUTPUTS

    @property
    def group_words(self) -> int:
        return _OUTPUTS + 2 * self.in_c + _OUTPUTS * self.way.constants


def _at(name: str) -> str:
    return f"[sp, #{_SLOTS[name]}]" if _SLOTS[name] else "[sp]"


def _registers(count: int, first: int = 0) -> str:
    return "{" + ", ".join(f"s{first + i}" for i in range(count)) + "}"


def function(name: str, layer: Layer) -> tuple[str, Work]:
    """The naked function, and what a call executes."""
    asm = Asm()
    held = min(layer.words, _HELD)
    saved = _registers(held - _UNSAVED, _UNSAVED) if held > _UNSAVED else ""
    asm.op("push", "{r4-r11, lr}")
    if saved:
        asm.op("vpush", saved)
    asm.op("sub", "sp", "sp", f"#{_FRAME}")
    asm.op("str", "r2", _at("y"))
    asm.constant("r9", layer.groups)
    asm.op("str", "r9", _at("groups"))
    if layer.words <= _HELD:
        asm.op("vldmia", "r1", _registers(layer.words))
    else:
        asm.op("str", "r1", _at("x"))
        asm.add("r1", "r1", layer.in_c, "r9")
        asm.op("str", "r1", _at("end"))
    executed = asm.size
    asm.label("group", aligned=True)
    start = asm.size
    asm.op("ldm", "r0!", "{r1-r8}")
    again = _sums(asm, layer) - start
    start = asm.size
    if layer.rest:
        asm.op("ldr", "r9", _at("groups"))
        asm.op("cmp", "r9", "#1")
        asm.branch("beq.w", "rest")
    again += asm.size - start
    start = asm.size
    if layer.groups > 1 or not layer.rest:
        _finish(asm, layer, _OUTPUTS)
        asm.op("ldr", "r9", _at("groups"))
        asm.op("subs", "r9", "r9", "#1")
        asm.op("str", "r9", _at("groups"))
        asm.branch("bne.w", "group")
    executed += layer.groups * again + layer.out_c // _OUTPUTS * (asm.size - start)
    start = asm.size
    if layer.rest:
        asm.label("rest")
        _finish(asm, layer, layer.rest)
    asm.op("add", "sp", "sp", f"#{_FRAME}")
    if saved:
        asm.op("vpop", saved)
    asm.op("pop", "{r4-r11, pc}")
    return naked_function(name, _PARAMETERS, asm), executed + asm.size - start


def _sums(asm: Asm, layer: Layer) -> Work:
    """Eight accumulators over all inputs; the size of the code, loops as often as they are executed."""
    if layer.words <= _HELD:
        _steps(asm, layer.words)
        return asm.size
    asm.op("ldr", "r9", _at("x"))
    turns, rest = divmod(layer.words, _HELD)
    if rest:
        asm.op("vldmia", "r9!", _registers(rest))
    asm.op("str", "r9", _at("at"))
    _steps(asm, rest)
    before = asm.size
    asm.label("turn", aligned=True)
    start = asm.size
    asm.op("ldr", "r9", _at("at"))
    asm.op("vldmia", "r9!", _registers(_HELD))
    asm.op("str", "r9", _at("at"))
    _steps(asm, _HELD)
    asm.op("ldr", "r9", _at("at"))
    asm.op("ldr", "r10", _at("end"))
    asm.op("cmp", "r9", "r10")
    asm.branch("bne.w", "turn")
    return before + turns * (asm.size - start)


def _steps(asm: Asm, words: int) -> None:
    """The first `words` FPU registers times weights. An input word is fetched one step ahead of its use."""
    left = 8 * words
    ready: list[str] = []

    def weight() -> str:
        nonlocal left
        if not ready:
            ready.extend(_WEIGHTS[: min(left, len(_WEIGHTS))])
            left -= len(ready)
            asm.load_multiple("r0", tuple(ready))
        return ready.pop(0)

    raw, other = "r9", "r10"
    if words:
        asm.op("vmov", raw, "s0")
    for word in range(words):
        for odd in range(2):
            x = raw if odd else other
            asm.op("sxtb16", x, raw, *(("ror #8",) if odd else ()))
            if odd and word + 1 < words:
                asm.op("vmov", other, f"s{word + 1}")
            for output in range(0, _OUTPUTS, 2):
                over, under = _ACC[output : output + 2]
                w = weight()
                asm.op("smlad", over, x, w, over)
                asm.op("sxtb16", w, w)
                asm.op("smlad", under, x, w, under)
        raw, other = other, raw


def _finish(asm: Asm, layer: Layer, outputs: int) -> None:
    """Scales and stores; constants come for two outputs at a time where they are two words each."""
    count = layer.way.constants
    asm.op("ldr", "r14", _at("y"))
    ready: list[str] = []
    for output in range(outputs):
        if not ready:
            ready = ["r9", "r10", "r11", "r12"] if count == 2 else ["r9", "r10", "r11"]
            asm.load_multiple("r0", ready)
        constants, ready = tuple(ready[:count]), ready[count:]
        below = _ACC[output + 1] if output + 1 < _OUTPUTS else ""
        layer.way.emit(asm, output % GROUP, _ACC[output], below, constants, constants[1])
        asm.op("strb", _ACC[output], "[r14], #1")
    asm.op("str", "r14", _at("y"))


# ---- the kernel ----


@dataclass(frozen=True, slots=True)
class Plan:
    """The function of a layer and the proof behind its constants."""

    layer: Layer
    finish: Finish
    matrix: Matrix
    text: str
    executed: Work


def plan(site: Site, p: ConvParams) -> Plan:
    """The function that runs the layer. ValueError where `takes` would have said no."""
    matrix = Matrix.of(p, p.w)
    finish = packed(matrix)
    if finish is None:
        raise ValueError(f"{site.node.name}: no requantization is proved")
    layer = Layer(p.w.shape[1], p.w.shape[0], finish.way)
    fast, executed = function("@", layer)
    return Plan(layer, finish, matrix, _text(layer, fast), executed)


def _text(layer: Layer, fast: str) -> str:
    way = layer.way
    low, high = way.clamp or (-128, 127)
    shifts = way.shifts[:2] if way.shifts else (0, 0)
    fields = {
        "in_c": layer.in_c,
        "out_c": layer.out_c,
        "halve": int(way.halve),
        "twice": int(way.double),
        "sign": int(way.sign),
        "varies": int(way.shifts is None),
        "shift": "{" + ", ".join(map(str, shifts)) + "}",
        "y_min": low,
        "y_max": high,
    }
    body = "\n".join(f"        .{field} = {value}," for field, value in fields.items())
    return f"""/* fully_connected {layer.in_c} -> {layer.out_c}, int8 weights, two outputs over each other.
 * stream: tc_dense_held.h. x: word aligned.
 */
#if TC_DSP_ASM
{NEEDS_FPU}{fast}#else
static void @({", ".join(_PARAMETERS)})
{{
    static const tc_dense_held_t layer = {{
{body}
    }};
    tc_dense_held(&layer, stream, x, y);
}}
#endif"""


def specialize(site: Site, p: ConvParams) -> Special:
    """The function of the layer."""
    work = plan(site, p)
    digest = hashlib.sha256(work.text.encode()).hexdigest()[:6]
    name = f"{NAME}_i{work.layer.in_c}_o{work.layer.out_c}_{digest}"
    return Special(name, work.text.replace("@", name), ("tc_dense_held.h",))


def lower(site: Site, p: ConvParams) -> Call:
    """The whole tensor."""
    return Call((Const(_stream(plan(site, p)), "stream of tc_dense_held.h", "stream"), In(0), Out()))


def _stream(work: Plan) -> npt.NDArray[np.int32]:
    """The words of the layer."""
    layer, finish, matrix = work.layer, work.finish, work.matrix
    spare = layer.groups * _OUTPUTS - len(matrix.taps)
    taps = np.pad(matrix.taps * finish.live[:, None], ((0, spare), (0, 0)))
    halves = 256 * taps[0::2] + taps[1::2]  # [O / 2, I]
    fours = halves.reshape(len(halves), -1, 4)
    words = np.stack([(fours[..., i] & 0xFFFF) | (fours[..., i + 2] << 16) for i in range(2)], axis=-1)
    weights = words.reshape(layer.groups, _OUTPUTS // 2, -1).transpose(0, 2, 1).reshape(layer.groups, -1)
    start = np.pad(finish.start_values(matrix.p.bias.astype(np.int64)), (0, spare)).reshape(layer.groups, -1)
    constants = np.pad(finish.constants(), ((0, spare), (0, 0))).reshape(layer.groups, -1)
    rows = np.concatenate([start, weights, constants], axis=1)
    return (rows.ravel() & 0xFFFFFFFF).astype(np.uint32).view(np.int32)


def cost(site: Site, p: ConvParams) -> Cost:
    """Exact but for the step around the call; code counted as all 32-bit instructions."""
    work = plan(site, p)
    whole = work.executed + _CALL
    flash = 4 * (work.layer.groups * work.layer.group_words + work.text.count("\\n"))
    return Cost(whole.instructions, flash, 0, whole.cycles)


def takes(site: Site) -> bool:
    """one row of inputs, their number a multiple of 4 below 32768, constant weights, and a requantization that is
    proved for packed int8 weights"""
    if not site.is_const(1):
        return False
    out_c, in_c = site.x(1).shape
    if in_c % 4 or in_c >= _MOST_INPUTS or site.y().elements != out_c:
        return False
    p = conv_params(site, 0)
    return packed(Matrix.of(p, p.w)) is not None


KERNELS = (
    Kernel(
        NAME,
        lower,
        isa=frozenset({"dsp", "fpu"}),
        when=(is_s8, takes),
        specialize=specialize,
        cost=cost,
    ),
)
