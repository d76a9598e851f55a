# SPDX-License-Identifier: Apache-2.0
"""The table of instructions: what each is to the clock, what it does to its operands, and what it means.

Everything that knows instructions asks here: the emitter and `tinyc profile` for kinds and for what is read and written
(`op.py`), the timing rules for kinds (`cores.py`), the interpreter for meanings (`interpret.py`). A row serves all
mnemonics that its pattern matches; the first row that does is taken. Rows without a meaning are those that only
compilers write.

A meaning takes the values of the operands that are read, in their order, as unsigned 32-bit numbers (with `updates`,
first the old values of the results), and gives the result, or the results low word first, of which 32 bits count.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from enum import Enum, auto

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.base.float32 import fma
from tinyc.machine.instruction import UNKNOWN


class Kind(Enum):
    """Kinds of instructions that cores time differently."""

    ALU = auto()
    MUL = auto()  # mul, and every product of the DSP extension
    MLA = auto()  # mla, mls
    MULL = auto()  # smull, umull
    MLAL = auto()  # smlal, umlal
    DIV = auto()
    LOAD = auto()  # one register
    LOADS = auto()  # ldrd, ldm, pop
    STORE = auto()
    STORES = auto()
    BRANCH = auto()  # to an address in the instruction
    CALL = auto()  # bl
    INDIRECT = auto()  # bx, blx, and data instructions with pc as the result
    TABLE = auto()  # tbb, tbh
    IT = auto()
    FP = auto()
    FP_MAC = auto()
    FP_DIV = auto()  # vdiv, vsqrt
    FP_LOAD = auto()
    FP_STORE = auto()
    FP_PAIR = auto()  # vmov of two core registers
    VECTOR = auto()  # of MVE
    PREDICATE = auto()  # of MVE: vmsr p0, vctp, vpst
    SYSTEM = auto()
    UNKNOWN = auto()

    __hash__ = object.__hash__  # asked for millions of times: Enum's own is a function in Python


BRANCHES = frozenset({Kind.BRANCH, Kind.CALL, Kind.INDIRECT, Kind.TABLE})
MEMORY = frozenset({Kind.LOAD, Kind.LOADS, Kind.STORE, Kind.STORES, Kind.FP_LOAD, Kind.FP_STORE})
PRODUCTS = frozenset({Kind.MUL, Kind.MLA, Kind.MULL, Kind.MLAL})

Meaning = Callable[..., int | tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Row:
    """What all instructions of a row share."""

    kind: Kind
    results: int = 1  # leading operands that are written
    updates: bool = False  # these are read, too
    unary: bool = False  # with two operands, the first is not read (`adds r0, #1` reads r0)
    # Those of a sum (`add`), a difference (`sub`, `rsb`) or of a result alone (`nz`); empty: none are set.
    flags: str = ""
    meaning: Meaning | None = None
    size: int = 4  # bytes of an access
    signed: bool = False  # an access extends by its sign
    status: bool = False  # the first operand of a store is its result
    moves_pairs: bool = False  # with more than two operands, two registers are moved
    pair_kind: Kind = Kind.FP_PAIR  # of moves of pairs
    counts: bool = False  # a branch that counts down
    conditional: bool = False  # a branch that always depends on what it reads
    carries: bool = False  # `meaning` takes the carry flag last
    sets: frozenset[str] = frozenset()  # `ge` of PSR, a bit for each byte, which `meaning` gives last
    takes: frozenset[str] = frozenset()  # the same, which it takes last

    @property
    def loads(self) -> bool:
        return self.kind in (Kind.LOAD, Kind.LOADS, Kind.FP_LOAD)


# ---- numbers ----


def s32(value: int) -> int:
    """The low 32 bits as a signed number."""
    return (value & 0xFFFFFFFF ^ 0x80000000) - 0x80000000


def s16(value: int) -> int:
    """The low half as a signed number."""
    return (value & 0xFFFF ^ 0x8000) - 0x8000


def s8(value: int) -> int:
    """The low byte as a signed number."""
    return (value & 0xFF ^ 0x80) - 0x80


def low(value: int) -> int:
    return s16(value)


def high(value: int) -> int:
    return s16(value >> 16)


def _saturate(value: int, bits: int) -> int:
    return max(-(1 << (bits - 1)), min(s32(value), (1 << (bits - 1)) - 1))


def _halves(bottom: int, top: int) -> int:
    return (top & 0xFFFF) << 16 | bottom & 0xFFFF


def _dual(a: int, b: int) -> int:
    return low(a) * low(b) + high(a) * high(b)


_HALF: dict[str, Callable[[int], int]] = {"b": low, "t": high}


def _half_product(first: str, second: str) -> Meaning:
    return lambda a, b, acc=0: _HALF[first](a) * _HALF[second](b) + s32(acc)


def _word_half_product(half: str) -> Meaning:
    return lambda a, b, acc=0: (s32(a) * _HALF[half](b) >> 16) + s32(acc)


def _high_product(rounded: bool, sign: int = 1) -> Meaning:
    return lambda a, b, acc=0: (s32(acc) * 2**32 + sign * s32(a) * s32(b) + rounded * 0x80000000) >> 32


def _field(value: int, first: int, width: int) -> int:
    return value >> first & ((1 << width) - 1)


def _insert(old: int, value: int, first: int, width: int) -> int:
    mask = ((1 << width) - 1) << first
    return old & ~mask | value << first & mask


def _sign_field(value: int, first: int, width: int) -> int:
    field = _field(value, first, width)
    return field - (field >> (width - 1) << width)


def _reverse(value: int) -> int:
    return int.from_bytes((value & 0xFFFFFFFF).to_bytes(4, "little"), "big")


def _divide(a: int, b: int) -> int:
    a, b = s32(a), s32(b)
    return 0 if b == 0 else (abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1)


def _long(low_word: int, high_word: int) -> int:
    return (high_word << 32 | low_word & 0xFFFFFFFF) & (1 << 64) - 1


def _two(value: int) -> tuple[int, int]:
    return value & 0xFFFFFFFF, value >> 32 & 0xFFFFFFFF


def fused(acc: int, a: int, b: int) -> int:
    """acc + a * b of float32, rounded once."""
    x, y, z = (np.array([value & 0xFFFFFFFF], np.uint32).view(np.float32) for value in (a, b, acc))
    return int(fma(x, y, z).view(np.uint32)[0])


# ---- rows ----


def _arithmetic() -> list[tuple[str, Row]]:
    """Data processing of the core, each with a twin that sets flags."""
    plain: list[tuple[str, Meaning, str, bool]] = [
        ("add", lambda a, b: a + b, "add", False),
        ("addw", lambda a, b: a + b, "add", False),
        ("sub", lambda a, b: a - b, "sub", False),
        ("subw", lambda a, b: a - b, "sub", False),
        ("rsb", lambda a, b: b - a, "rsb", False),
        ("and", lambda a, b: a & b, "nz", False),
        ("orr", lambda a, b: a | b, "nz", False),
        ("orn", lambda a, b: a | ~b, "nz", False),
        ("eor", lambda a, b: a ^ b, "nz", False),
        ("bic", lambda a, b: a & ~b, "nz", False),
        ("mul", lambda a, b: a * b, "nz", False),
        ("mov", lambda a: a, "nz", True),
        ("mvn", lambda a: ~a, "nz", True),
        ("neg", lambda a: -a, "nz", True),
        ("lsl", lambda a, by: a << (by & 0xFF), "nz", False),
        ("lsr", lambda a, by: a >> (by & 0xFF), "nz", False),
        ("asr", lambda a, by: s32(a) >> (by & 0xFF), "nz", False),
        ("ror", lambda a, by: a >> (by & 31) | a << (32 - (by & 31)), "nz", False),
    ]
    rows = []
    for name, meaning, flags, unary in plain:
        kind = Kind.MUL if name == "mul" else Kind.ALU
        rows.append((name, Row(kind, meaning=meaning, unary=unary)))
        rows.append((name + "s", Row(kind, meaning=meaning, unary=unary, flags=flags)))
    carrying: list[tuple[str, Meaning, str]] = [
        ("adc", lambda a, b, carry: a + b + carry, "add"),
        ("sbc", lambda a, b, carry: a - b - 1 + carry, "sub"),
    ]
    for name, meaning, flags in carrying:
        rows.append((name, Row(Kind.ALU, meaning=meaning, carries=True)))
        rows.append((name + "s", Row(Kind.ALU, meaning=meaning, flags=flags, carries=True)))
    compares: list[tuple[str, Meaning, str]] = [
        ("cmp", lambda a, b: a - b, "sub"),
        ("cmn", lambda a, b: a + b, "add"),
        ("tst", lambda a, b: a & b, "nz"),
        ("teq", lambda a, b: a ^ b, "nz"),
    ]
    return rows + [(name, Row(Kind.ALU, 0, flags=flags, meaning=meaning)) for name, meaning, flags in compares]


def _products() -> list[tuple[str, Row]]:
    """Multiplications, most of the DSP extension."""
    halves = [(a, b) for a in "bt" for b in "bt"]
    return [
        *((f"smla{a}{b}", Row(Kind.MUL, meaning=_half_product(a, b))) for a, b in halves),
        *((f"smul{a}{b}", Row(Kind.MUL, meaning=_half_product(a, b))) for a, b in halves),
        *((f"smlaw{half}", Row(Kind.MUL, meaning=_word_half_product(half))) for half in "bt"),
        *((f"smulw{half}", Row(Kind.MUL, meaning=_word_half_product(half))) for half in "bt"),
        ("smlad", Row(Kind.MUL, meaning=lambda a, b, acc: _dual(a, b) + s32(acc))),
        ("smuad", Row(Kind.MUL, meaning=_dual)),
        ("smmla", Row(Kind.MUL, meaning=_high_product(False))),
        ("smmlar", Row(Kind.MUL, meaning=_high_product(True))),
        ("smmul", Row(Kind.MUL, meaning=_high_product(False))),
        ("smmulr", Row(Kind.MUL, meaning=_high_product(True))),
        ("smmls", Row(Kind.MUL, meaning=_high_product(False, -1))),
        ("smmlsr", Row(Kind.MUL, meaning=_high_product(True, -1))),
        ("mla", Row(Kind.MLA, meaning=lambda a, b, acc: a * b + acc)),
        ("mls", Row(Kind.MLA, meaning=lambda a, b, acc: acc - a * b)),
        ("smulls?", Row(Kind.MULL, 2, meaning=lambda a, b: _two(s32(a) * s32(b)))),
        ("umulls?", Row(Kind.MULL, 2, meaning=lambda a, b: _two(a * b))),
        ("smlals?", Row(Kind.MLAL, 2, True, meaning=lambda lo, hi, a, b: _two(_long(lo, hi) + s32(a) * s32(b)))),
        ("umlals?", Row(Kind.MLAL, 2, True, meaning=lambda lo, hi, a, b: _two(_long(lo, hi) + a * b))),
        ("umaal", Row(Kind.MLAL, 2, True, meaning=lambda lo, hi, a, b: _two(a * b + lo + hi))),
        (r"smlald\w*|smlsld\w*|smlal\w+", Row(Kind.MUL, 2, True)),
        (r"smul\w+|smla\w+|smls\w+|smm\w+|smu\w+|usada?8", Row(Kind.MUL)),
        ("sdiv", Row(Kind.DIV, meaning=_divide)),
        ("udiv", Row(Kind.DIV, meaning=lambda a, b: a // b if b else 0)),
    ]


def _bytes(a: int, b: int, byte: Callable[[int, int], int], flag: Callable[[int, int], bool]) -> tuple[int, int]:
    """A result of bytes, and which of them have the flag."""
    pairs = [(a >> 8 * k & 0xFF, b >> 8 * k & 0xFF) for k in range(4)]
    return (
        sum((byte(x, y) & 0xFF) << 8 * k for k, (x, y) in enumerate(pairs)),
        sum(flag(x, y) << k for k, (x, y) in enumerate(pairs)),
    )


def _select(a: int, b: int, flags: int) -> int:
    """Bytes of a where the flag is set, else of b."""
    mask = sum((flags >> k & 1) * (0xFF << 8 * k) for k in range(4))
    return a & mask | b & ~mask


def _in_bytes() -> list[tuple[str, Row]]:
    """Comparisons of four bytes, and the choice between them."""
    ge = frozenset({"ge"})
    return [
        ("ssub8", Row(Kind.ALU, sets=ge, meaning=lambda a, b: _bytes(a, b, int.__sub__, lambda x, y: s8(x) >= s8(y)))),
        ("uadd8", Row(Kind.ALU, sets=ge, meaning=lambda a, b: _bytes(a, b, int.__add__, lambda x, y: x + y > 0xFF))),
        ("sel", Row(Kind.ALU, takes=ge, meaning=_select)),
    ]


def _packing() -> list[tuple[str, Row]]:
    """Halves and bytes of words, fields and saturation."""
    rows: list[tuple[str, Meaning, bool]] = [
        ("movw", lambda a: a, True),
        ("sxtb", s8, True),
        ("sxth", s16, True),
        ("uxtb", lambda a: a & 0xFF, True),
        ("uxth", lambda a: a & 0xFFFF, True),
        ("sxtb16", lambda a: _halves(s8(a), s8(a >> 16)), True),
        ("uxtb16", lambda a: a & 0x00FF00FF, True),
        ("sxtab", lambda a, b: a + s8(b), False),
        ("sxtah", lambda a, b: a + s16(b), False),
        ("uxtab", lambda a, b: a + (b & 0xFF), False),
        ("uxtah", lambda a, b: a + (b & 0xFFFF), False),
        ("sxtab16", lambda a, b: _halves(a + s8(b), (a >> 16) + s8(b >> 16)), False),
        ("pkhbt", lambda a, b: _halves(a, b >> 16), False),
        ("pkhtb", lambda a, b: _halves(b, a >> 16), False),
        ("sadd16", lambda a, b: _halves(a + b, (a >> 16) + (b >> 16)), False),
        ("ssub16", lambda a, b: _halves(a - b, (a >> 16) - (b >> 16)), False),
        ("qadd16", lambda a, b: _halves(*(_saturate(s16(a >> by) + s16(b >> by), 16) for by in (0, 16))), False),
        ("qadd", lambda a, b: max(-(1 << 31), min(s32(a) + s32(b), (1 << 31) - 1)), False),
        ("ssat", lambda bits, a: _saturate(a, bits), False),
        ("usat", lambda bits, a: max(0, min(s32(a), (1 << bits) - 1)), False),
        ("ubfx", _field, False),
        ("sbfx", _sign_field, False),
        ("clz", lambda a: 32 - (a & 0xFFFFFFFF).bit_length(), True),
        ("rev", _reverse, True),
    ]
    return [
        *((name, Row(Kind.ALU, unary=unary, meaning=meaning)) for name, meaning, unary in rows),
        *_in_bytes(),
        ("movt", Row(Kind.ALU, updates=True, unary=True, meaning=_halves)),
        ("bfi", Row(Kind.ALU, updates=True, meaning=_insert)),
        ("bfc", Row(Kind.ALU, updates=True, meaning=lambda old, first, width: _insert(old, 0, first, width))),
        (r"[su]xt[bh]\d*|rev\w*|rbit", Row(Kind.ALU, unary=True)),
        ("adr", Row(Kind.ALU, unary=True)),
        (r"nop|pld\w*", Row(Kind.ALU, 0)),
    ]


_ACCESSES: list[tuple[str, Row]] = [
    (r"ldrd|ldm\w*|pop", Row(Kind.LOADS)),
    (r"ldrsb\w*", Row(Kind.LOAD, size=1, signed=True)),
    (r"ldrsh\w*", Row(Kind.LOAD, size=2, signed=True)),
    (r"ldrb\w*|ldab\w*|ldaexb|ldaeb", Row(Kind.LOAD, size=1)),
    (r"ldrh\w*|ldah\w*|ldaexh", Row(Kind.LOAD, size=2)),
    (r"ldr\w*|lda\w*", Row(Kind.LOAD)),
    (r"strd|stm\w*|push", Row(Kind.STORES)),
    (r"strexb", Row(Kind.STORE, size=1, status=True)),
    (r"strexh", Row(Kind.STORE, size=2, status=True)),
    (r"strex\w*", Row(Kind.STORE, status=True)),
    (r"strb\w*|stlb", Row(Kind.STORE, size=1)),
    (r"strh\w*|stlh", Row(Kind.STORE, size=2)),
    (r"str\w*|stl\w*", Row(Kind.STORE)),
]

_BRANCHES: list[tuple[str, Row]] = [
    (r"cbn?z", Row(Kind.BRANCH, conditional=True)),
    ("b", Row(Kind.BRANCH)),
    ("le", Row(Kind.BRANCH, counts=True)),
    (r"bl", Row(Kind.CALL)),
    (r"blx|bx|bxns|blxns", Row(Kind.INDIRECT)),
    (r"tb[bh]", Row(Kind.TABLE)),
    (r"it[te]*", Row(Kind.IT)),
]

_VECTORS: list[tuple[str, Row]] = [
    (r"vpstt?t?t?|vptt?t?t?\.\w+|vctp\.\d+|vcmp\.i\d+|vmsr", Row(Kind.PREDICATE, 0)),
    ("vpsel", Row(Kind.VECTOR)),
    (r"v(?:ldr|str)[bhw]t?\.\w+|vst4\d\.\w+|vld2\d\.\w+", Row(Kind.VECTOR, 0)),
    (r"vcvtn?\.\w+\.\w+", Row(Kind.VECTOR, unary=True)),
    (r"vmov\.i\d+|vmovl[bt]\.\w+|vdup\.\d+|vabs\.s\d+", Row(Kind.VECTOR, unary=True)),
    (r"vdupt\.\d+|vnegt\.s\d+", Row(Kind.VECTOR, updates=True, unary=True)),
    (r"vml\w+\.s\d+|vsubt\.i\d+", Row(Kind.VECTOR, updates=True)),
    ("vmrs", Row(Kind.FP, unary=True)),
    (r"v\w+\.[siu]\d+", Row(Kind.VECTOR)),
]

_FLOATS: list[tuple[str, Row]] = [
    (r"vldr|vldm\w*|vpop", Row(Kind.FP_LOAD)),
    (r"vstr|vstm\w*|vpush", Row(Kind.FP_STORE)),
    (r"vdiv|vsqrt", Row(Kind.FP_DIV, unary=True)),
    ("vfma", Row(Kind.FP_MAC, updates=True, unary=True, meaning=fused)),
    (r"vn?ml[as]|vfn?m[as]", Row(Kind.FP_MAC, updates=True, unary=True)),
    ("vmov", Row(Kind.FP, unary=True, moves_pairs=True)),
    (r"vcmpe?|vmsr", Row(Kind.FP, 0, unary=True)),
    (r"v\w+", Row(Kind.FP, unary=True)),
]

_SYSTEM: list[tuple[str, Row]] = [
    ("msr", Row(Kind.SYSTEM, 0)),
    ("mrs", Row(Kind.SYSTEM, unary=True)),
    (r"dsb|dmb|isb|cps\w*|svc|bkpt|udf", Row(Kind.SYSTEM)),
]

TABLE: tuple[tuple[str, Row], ...] = (
    *(_ACCESSES + _BRANCHES + _arithmetic() + _products()),
    *(_packing() + _SYSTEM + _FLOATS),
)
_UNKNOWN = Row(Kind.UNKNOWN)
_OTHER = Row(Kind.ALU)


@functools.cache
def row_of(mnemonic: str) -> Row:
    """The row of a mnemonic, without condition and width but with its types (`vadd.i32`)."""
    if mnemonic == UNKNOWN:
        return _UNKNOWN
    for pattern, row in _VECTORS:
        if re.fullmatch(pattern, mnemonic):
            return row
    name = mnemonic.partition(".")[0]
    return next((row for pattern, row in TABLE if re.fullmatch(pattern, name)), _OTHER)
