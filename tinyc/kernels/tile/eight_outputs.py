# SPDX-License-Identifier: Apache-2.0
"""The assembly of fully_connected of one row, eight outputs at a time, inputs held where one instruction fetches them.

Two ways to hold them. `words`: up to 128 inputs at a time in 32 FPU registers as they are, four in each; a word is
unpacked again for every eight outputs, and nothing but the registers is needed. `pairs`: all inputs unpacked once, the
first 64 in FPU registers (if there are any), the others on the stack; a fetch is all that a pair takes.
"""

from __future__ import annotations

from typing import Literal

from tinyc.base.dataclass import dataclass
from tinyc.kernels.finish import Requantization
from tinyc.kernels.matrix import GROUP
from tinyc.kernels.stream import in_fours
from tinyc.machine.cores import Core
from tinyc.machine.thumb import Asm, Naked, Work, fpu_registers

OUTPUTS = 8  # at a time
PARAMETERS = ("const int32_t *stream", "const int8_t *x", "int8_t *y")

_ACC = tuple(f"r{1 + i}" for i in range(OUTPUTS))
_WEIGHTS = ("r11", "r12", "r14")
_LOADED = _ACC[2:]  # words of inputs, before there are accumulators
_FPU_REGISTERS = 32
_UNSAVED = 16  # FPU registers that a function need not save
_SLOTS = {"y": 0, "groups": 4, "x": 8, "at": 12, "end": 16}
_FRAME = {"words": 20, "pairs": 12}  # with nine saved registers, a multiple of 8

Hold = Literal["words", "pairs"]


@dataclass(frozen=True, slots=True)
class ResidentLayer:
    """What the code depends on. in_c: a multiple of 4. fpu: there are FPU registers; `words` needs them."""

    in_c: int
    out_c: int
    requant: Requantization
    hold: Hold
    core: Core
    fpu: bool = True

    pixel_bytes = 0
    nibbles = False
    together = OUTPUTS
    ended = False

    @property
    def slots(self) -> tuple[int, ...]:
        """The taps in the order of use."""
        return in_fours(self.in_c)

    def tap_place(self, tap: int) -> tuple[int, int]:
        """The only row of inputs, and the tap's byte there."""
        return 0, tap

    @property
    def words(self) -> int:
        return self.in_c // 4

    @property
    def held(self) -> int:
        """FPU registers in use."""
        return min(self.words if self.hold == "words" else self.in_c // 2, _FPU_REGISTERS) if self.fpu else 0

    @property
    def words_frame(self) -> int:
        """Bytes of stack before the pairs, those of the constants of all outputs behind the others."""
        return _FRAME[self.hold] + 4 * self.requant.head_words

    @property
    def frame(self) -> int:
        """Bytes of stack below the saved registers; pairs on the stack are as even in number as those in registers."""
        return self.words_frame + (4 * (self.in_c // 2 - self.held) if self.hold == "pairs" else 0)

    @property
    def groups(self) -> int:
        return -(-self.out_c // OUTPUTS)

    @property
    def rest(self) -> int:
        """Outputs of a last group that is not full."""
        return self.out_c % OUTPUTS

    @property
    def group_words(self) -> int:
        return OUTPUTS + 2 * self.in_c + self.requant.words(OUTPUTS)


def _at(name: str) -> str:
    return f"[sp, #{_SLOTS[name]}]" if _SLOTS[name] else "[sp]"


def function(name: str, layer: ResidentLayer) -> tuple[Naked, Work]:
    """The naked function, and what a call executes."""
    asm = Asm(layer.core)
    saved = fpu_registers(_UNSAVED, layer.held - _UNSAVED) if layer.held > _UNSAVED else ""
    asm.note("registers and arguments to the stack")
    asm.save("{r4-r11, lr}", saved, frame=layer.frame)
    if layer.requant.common:
        asm.op("ldrd", "r9", "r10", "[r0], #8")
        asm.op("strd", "r9", "r10", _common(layer))
    asm.op("str", "r2", _at("y"))
    asm.constant("r9", layer.groups)
    asm.op("str", "r9", _at("groups"))
    asm.note("loads: the inputs to where they stay")
    _hold(asm, layer)
    with asm.loop("group", layer.groups):
        asm.note(f"products: {OUTPUTS} outputs")
        asm.op("ldm", "r0!", "{r1-r8}")
        _sums(asm, layer)
        if layer.rest:
            asm.op("ldr", "r9", _at("groups"))
            asm.op("cmp", "r9", "#1")
            asm.leave("beq.w", "rest")
        if layer.groups > 1 or not layer.rest:
            asm.piece(_finish, layer.requant, OUTPUTS, _common(layer))
            asm.count_down("r9", _at("groups"), "group")
    if layer.rest:
        asm.label("rest")
        asm.piece(_finish, layer.requant, layer.rest, _common(layer))
    asm.note("return")
    asm.restore()
    asm.reorder()
    return Naked(name, PARAMETERS, asm), asm.work()


def _hold(asm: Asm, layer: ResidentLayer) -> None:
    """The inputs to where they stay, or, where they are fetched for every group, the ends of them."""
    if layer.hold == "pairs":
        _unpack(asm, layer)
    elif layer.words <= _FPU_REGISTERS:
        asm.op("vldmia", "r1", fpu_registers(0, layer.words))
    else:
        asm.op("str", "r1", _at("x"))
        asm.add("r1", "r1", layer.in_c, "r9")
        asm.op("str", "r1", _at("end"))


def _unpack(asm: Asm, layer: ResidentLayer) -> None:
    """Every word of inputs as two pairs: inputs 0 and 2 of it, then 1 and 3."""
    for first in range(0, layer.words, len(_LOADED)):
        loaded = _LOADED[: layer.words - first]
        asm.load_multiple("r1", loaded)
        for word, raw in enumerate(loaded, first):
            asm.piece(_pairs_of, raw)
            if 2 * word < layer.held:
                asm.op("vmov", f"s{2 * word}", f"s{2 * word + 1}", "r9", raw)
            else:
                asm.op("strd", "r9", raw, _pair_at(layer, 2 * word))


def _pairs_of(asm: Asm, raw: str) -> None:
    """The pairs of a word, to r9 and to the word's own register."""
    asm.op("sxtb16", "r9", raw)
    asm.op("sxtb16", raw, raw, "ror #8")


def _pair_at(layer: ResidentLayer, pair: int) -> str:
    return f"[sp, #{layer.words_frame + 4 * (pair - layer.held)}]"


def _common(layer: ResidentLayer) -> str:
    """Where mult and add of all outputs wait."""
    return f"[sp, #{_FRAME[layer.hold]}]"


def _sums(asm: Asm, layer: ResidentLayer) -> None:
    """Eight accumulators over all inputs."""
    if layer.hold == "pairs":
        _pair_steps(asm, layer)
    elif layer.words <= _FPU_REGISTERS:
        _word_steps(asm, layer.words)
    else:
        _word_turns(asm, layer)


def _word_turns(asm: Asm, layer: ResidentLayer) -> None:
    asm.op("ldr", "r9", _at("x"))
    turns, rest = divmod(layer.words, _FPU_REGISTERS)
    if rest:
        asm.op("vldmia", "r9!", fpu_registers(0, rest))
    asm.op("str", "r9", _at("at"))
    _word_steps(asm, rest)
    with asm.loop("turn", turns):
        asm.op("ldr", "r9", _at("at"))
        asm.op("vldmia", "r9!", fpu_registers(0, _FPU_REGISTERS))
        asm.op("str", "r9", _at("at"))
        _word_steps(asm, _FPU_REGISTERS)
        asm.op("ldr", "r9", _at("at"))
        asm.op("ldr", "r10", _at("end"))
        asm.until_equal("r9", "r10", "turn")


def _word_steps(asm: Asm, words: int) -> None:
    """The first `words` FPU registers times weights.

    A word and one of its pairs take two registers. The odd pair takes the place of the word, so that the other register
    is free for a weight then, before the next word comes, which is an instruction before it is used.
    """
    weights = _Weights(asm, 8 * words)
    raw, pair = "r9", "r10"
    if words:
        asm.op("vmov", raw, "s0")
    for word in range(words):
        asm.op("sxtb16", pair, raw)
        weights.multiply(pair, _WEIGHTS)
        asm.op("sxtb16", raw, raw, "ror #8")
        following = ("vmov", pair, f"s{word + 1}") if word + 1 < words else ()
        weights.multiply(raw, (pair, *_WEIGHTS), following)
        raw, pair = pair, raw


def _pair_steps(asm: Asm, layer: ResidentLayer) -> None:
    """All pairs times weights. They are fetched by twos; the first one leaves its register to a weight."""
    weights = _Weights(asm, 4 * (layer.in_c // 2))
    for pair in range(0, layer.in_c // 2, 2):
        if pair < layer.held:
            asm.op("vmov", "r9", "r10", f"s{pair}", f"s{pair + 1}")
        else:
            asm.op("ldrd", "r9", "r10", _pair_at(layer, pair))
        weights.multiply("r9", _WEIGHTS)
        weights.multiply("r10", ("r9", *_WEIGHTS))


class _Weights:
    """The weights of all outputs, left of them to be loaded; those in `_ready` are loaded."""

    def __init__(self, asm: Asm, left: int) -> None:
        self._asm, self._left = asm, left
        self._ready: tuple[str, ...] = ()

    def multiply(self, x: str, free: tuple[str, ...], following: tuple[str, ...] = ()) -> None:
        """A pair of inputs times the weights of all outputs.

        free: registers for weights, all but the last three only for the products here. following: an instruction that
        goes before the last.
        """
        weights: list[tuple[tuple[str, ...], str]] = []
        for output in range(0, OUTPUTS, 2):
            loaded: tuple[str, ...] = ()
            if not self._ready:
                loaded = (_WEIGHTS if output + 2 == OUTPUTS and following else free)[: self._left]
                self._left, self._ready = self._left - len(loaded), loaded
            weights.append((loaded, self._ready[0]))
            self._ready = self._ready[1:]
        asm, last = self._asm, len(weights) - 1
        for number, (loaded, w) in enumerate(weights):
            asm.piece(_over, number, x, loaded, w)
            if following and number == last:
                asm.op(*following)
            asm.piece(_under, number, x, w)


def _over(asm: Asm, number: int, x: str, loaded: tuple[str, ...], w: str) -> None:
    """A pair of inputs times the upper weights in w, which is loaded with others if it is not yet; then w has the lower
    ones. number: of the pair of outputs."""
    acc = _ACC[2 * number]
    if loaded:
        asm.load_multiple("r0", loaded)
    asm.op("smlad", acc, x, w, acc)
    asm.op("sxtb16", w, w)


def _under(asm: Asm, number: int, x: str, w: str) -> None:
    """The same pair of inputs times the lower weights."""
    acc = _ACC[2 * number + 1]
    asm.op("smlad", acc, x, w, acc)


def _finish(asm: Asm, requant: Requantization, outputs: int, common: str) -> None:
    """Scales and stores; constants come for two outputs at a time where they are two words each. common: where those of
    all outputs wait, if there are any."""
    asm.note("requantize and store")
    asm.op("ldr", "r14", _at("y"))
    registers = ("r9", "r10", "r11", "r12")
    in_turn = requant.constants_in_turn(asm, "r0", registers, OUTPUTS, common=(common,))
    for output, constants in zip(range(outputs), in_turn, strict=False):
        below = _ACC[output + 1] if output + 1 < OUTPUTS else ""
        free = registers[0] if requant.common else constants[1]
        requant.emit(asm, output % GROUP, _ACC[output], below, constants, free)
        asm.op("strb", _ACC[output], "[r14], #1")
    asm.op("str", "r14", _at("y"))
