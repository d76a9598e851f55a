# SPDX-License-Identifier: Apache-2.0
"""The meanings of vector instructions (MVE), of those that kernels use: lanes of 8, 16 or 32 bits in 16 bytes."""

from __future__ import annotations

import functools
import math
import operator
import re
import struct
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np

from tinyc.machine.memory import Fault
from tinyc.machine.op import Decoded
from tinyc.machine.operands import Address, Immediate, Lane, Operand, Other, Register, RegisterList
from tinyc.machine.table import Kind, fused, s32

_BYTES = 16
_ALL = 0xFFFF
_NAME = re.compile(r"v([a-z]+?)(?:\.([fsiu]?)(\d+))?")
_ACCESS = re.compile(r"v(ldr|str)([bhw])(t?)\.([su]?)(\d+)")
_SIZES = {"b": 1, "h": 2, "w": 4}
_SIGN, _INFINITE, _NAN, _LEAST_NORMAL = 0x80000000, 0x7F800000, 0x7FC00000, 0x00800000
_INPUT_FLUSHED, _RESULT_FLUSHED = 0x80, 0x08  # IDC and UFC of FPSCR
_FPSCR_AT_RESET = 4 << 16  # LTPSIZE


def _saturate(value: int, bits: int) -> int:
    return max(-(1 << (bits - 1)), min(value, (1 << (bits - 1)) - 1))


def _shift(value: int, by: int) -> int:
    by = (by & 0xFF ^ 0x80) - 0x80
    return value << by if by >= 0 else value >> -by


def _shift_rounding(value: int, by: int) -> int:
    by = (by & 0xFF ^ 0x80) - 0x80
    return value << by if by >= 0 else value + (1 << -by >> 1) >> -by


_LANES: dict[str, Callable[..., int]] = {  # of signed lanes of the sources
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "max": max,
    "min": min,
    "mulh": lambda a, b: a * b >> 32,
    "rmulh": lambda a, b: a * b + (1 << 31) >> 32,
    "qdmulh": lambda a, b: _saturate(2 * a * b >> 32, 32),
    "qrdmulh": lambda a, b: _saturate(2 * a * b + (1 << 31) >> 32, 32),
    "dup": lambda a: a,
    "mov": lambda a: a,
    "abs": abs,
    "neg": operator.neg,
}
_LIMITED: dict[str, Callable[..., int]] = {"qadd": operator.add}  # saturated to the lane
_MASKED = frozenset({"dupt", "negt", "subt"})  # only the lanes of the predicate
_ON_RESULT: dict[str, Callable[..., int]] = {  # first those of the result
    "mla": lambda old, a, b: old + a * b,
    "mlas": lambda old, a, b: old * a + b,
    "shl": _shift,
    "rshl": _shift_rounding,
}


def _as_float(bits: int) -> float:
    return float(struct.unpack("<f", struct.pack("<I", bits))[0])


def _real(bits: int) -> Fraction:
    """A finite number of float32."""
    return Fraction(*_as_float(bits).as_integer_ratio())


def _without_subnormals(acc: int, a: int, b: int) -> tuple[int, int]:
    """(acc + a * b of float32, bits of FPSCR), as Helium computes it whatever FPSCR says: subnormal numbers are zero,
    and what is not a number is always the same. (Armv8-M Architecture Reference Manual, StandardFPSCRValue)"""
    given = [value & 0xFFFFFFFF for value in (acc, a, b)]
    small = [0 < value & ~_SIGN < _LEAST_NORMAL for value in given]
    taken = [value & _SIGN if each else value for value, each in zip(given, small, strict=True)]
    flags = _INPUT_FLUSHED if any(small) else 0
    sum_ = fused(*taken)
    size = sum_ & ~_SIGN
    if size > _INFINITE:
        return _NAN, flags
    if 0 < size < _LEAST_NORMAL or (
        size == _LEAST_NORMAL and abs(_real(taken[0]) + _real(taken[1]) * _real(taken[2])) < _real(_LEAST_NORMAL)
    ):  # tiny before it is rounded
        return sum_ & _SIGN, flags | _RESULT_FLUSHED
    return sum_, flags


def _normal(bits: int) -> float:
    """A float32, zero in place of a subnormal number."""
    return _as_float(bits & _SIGN if 0 < bits & ~_SIGN < _LEAST_NORMAL else bits)


def _bits(value: float) -> int:
    """Of the float32 next to it, zero in place of a subnormal number, and what is not a number always the same."""
    with np.errstate(over="ignore"):
        bits = int(np.float32(value).view(np.uint32))
    if math.isnan(value):
        return _NAN
    return bits & _SIGN if 0 < bits & ~_SIGN < _LEAST_NORMAL else bits


def _larger(a: float, b: float) -> float:
    """That which is a number where one is not."""
    return b if math.isnan(a) else a if math.isnan(b) else max(a, b)


def _nearest(a: float) -> int:
    """Halves to even; 0 of what is not a number."""
    return 0 if math.isnan(a) else _saturate(round(max(-(2.0**40), min(a, 2.0**40))), 32)


_OF_FLOATS: dict[str, Callable[..., int]] = {  # of lanes as they lie there
    "vmul.f32": lambda a, b: _bits(_normal(a) * _normal(b)),
    "vmaxnm.f32": lambda a, b: _bits(_larger(_normal(a), _normal(b))),
    "vcvt.f32.s32": lambda a: _bits(float(s32(a))),
    "vcvtn.s32.f32": lambda a: _nearest(_normal(a)),
}


class VectorUnit:
    """Executes vector instructions by means of a machine's registers (words s0 ... s31, r0 ... lr) and memory."""

    def __init__(
        self,
        read: Callable[[str], int],
        write: Callable[[str, int], None],
        load: Callable[[int, int], int],
        store: Callable[[int, int, int], None],
        address_of: Callable[[str], int],
    ) -> None:
        """found: what is in a register, whether the code has set it or not."""
        self._read, self._write, self._load, self._store, self._address_of = read, write, load, store, address_of
        self._predicate, self._fpscr = _ALL, _FPSCR_AT_RESET

    @staticmethod
    def takes(op: Decoded) -> bool:
        """Whether it is an instruction for `execute`."""
        first = op.operands[0] if op.operands else None
        if op.instruction.mnemonic == "vmrs":
            return isinstance(first, Register)
        is_vector = isinstance(first, Register) and first.name.startswith("q")
        return op.kind in (Kind.VECTOR, Kind.PREDICATE) or is_vector or isinstance(first, Lane)

    def execute(self, op: Decoded) -> None:
        name = op.instruction.mnemonic
        if name in ("vmrs", "vmsr"):
            self._move_status(name, op.operands)
        elif name.startswith(("vpst", "vpt", "vctp", "vcmp")):
            self._set_predicate(name, op.operands)
        elif match := _ACCESS.fullmatch(name):
            self._access(match, op.operands)
        elif name.startswith("vst4"):
            self._interleave(int(name[4]), op.operands)
        elif name.startswith("vld2"):
            self._deinterleave(int(name[4]), op.operands)
        elif meaning := _OF_FLOATS.get(name):
            sources = (self._lanes(operand, 32, signed=False) for operand in op.operands[1:])
            self._set(op.operands[0], 32, [meaning(*lanes) for lanes in zip(*sources, strict=True)])
        else:
            self._compute(name, op.operands)

    # ---- vectors as numbers ----

    def _lanes(self, operand: Operand, bits: int, signed: bool = True) -> list[int]:
        """The lanes of a vector, from the lowest; of a register of the core or a number, all the same."""
        count = 8 * _BYTES // bits
        words = [operand.value] if isinstance(operand, Immediate) else [self._read(word) for word in operand.words]
        whole = sum(word << 32 * i for i, word in enumerate(words))
        parts = [whole >> bits * i & (1 << bits) - 1 for i in range(count)]
        if len(words) == 1:
            parts = parts[:1] * count
        sign = signed << (bits - 1)
        return [(part ^ sign) - sign for part in parts]

    def _set(self, vector: Operand, bits: int, lanes: Sequence[int]) -> None:
        whole = sum((lane & (1 << bits) - 1) << bits * i for i, lane in enumerate(lanes))
        for i, word in enumerate(vector.words):
            self._write(word, whole >> 32 * i)

    # ---- instructions ----

    def _set_predicate(self, name: str, operands: Sequence[Operand]) -> None:
        if name == "vpt.f32":
            assert operands[0] == Other("ge"), name
            pairs = zip(*(self._lanes(operand, 32, signed=False) for operand in operands[1:]), strict=True)
            self._predicate = sum(0xF << 4 * i for i, (a, b) in enumerate(pairs) if _as_float(a) >= _as_float(b))
        elif name.startswith("vpt."):
            assert operands[0] == Other("lt"), name
            bits = int(name.partition(".")[2][1:])
            of_lane = (1 << bits // 8) - 1
            zeros = [0] * (8 * _BYTES // bits)
            sides = [zeros if each == Other("zr") else self._lanes(each, bits) for each in operands[1:]]
            lanes = enumerate(zip(*sides, strict=True))
            self._predicate = sum(of_lane << k * bits // 8 for k, (a, b) in lanes if a < b)
        elif name == "vcmp.i8":
            assert operands[0] == Other("ne"), name
            assert operands[2] == Other("zr"), name
            self._predicate = sum((lane != 0) << k for k, lane in enumerate(self._lanes(operands[1], 8)))
        elif name.startswith("vctp"):
            size = int(name.partition(".")[2]) // 8
            self._predicate = (1 << min(self._read(operands[0].words[0]) * size, _BYTES)) - 1

    def _move_status(self, name: str, operands: Sequence[Operand]) -> None:
        """FPSCR from or to a register, or the predicate from one."""
        if name == "vmrs":
            self._write(operands[0].words[0], self._fpscr)
        elif operands[0] == Other("fpscr"):
            self._fpscr = self._read(operands[1].words[0])
        else:
            self._predicate = self._read(operands[1].words[0]) & _ALL

    def _compute(self, name: str, operands: Sequence[Operand]) -> None:
        match = _NAME.fullmatch(name)
        assert match is not None, name
        stem, bits = match[1], int(match[3] or 32)
        result, *sources = operands
        if stem.startswith("mladav"):
            self._dot(stem == "mladava", bits, operands)
        elif stem.startswith(("qmovn", "qrshrn")):
            self._narrow(stem, bits, operands)
        elif stem.startswith("movl"):  # every second lane, twice as wide
            self._set(result, 2 * bits, self._lanes(sources[0], bits)[stem == "movlt" :: 2])
        elif isinstance(result, Lane):  # the first register goes to the second lane that is named
            for lane, source in zip((operands[1], result), operands[2:], strict=True):
                self._write(lane.words[0], self._read(source.words[0]))
        elif stem == "psel":
            pairs = enumerate(zip(*(self._lanes(operand, 8) for operand in sources), strict=True))
            self._set(result, 8, [a if self._predicate >> k & 1 else b for k, (a, b) in pairs])
        elif stem == "fma":
            columns = zip(*(self._lanes(operand, bits) for operand in operands), strict=True)
            lanes_and_flags = [_without_subnormals(*lanes) for lanes in columns]
            self._fpscr |= functools.reduce(operator.or_, (flags for _, flags in lanes_and_flags))
            self._set(result, bits, [lane for lane, _ in lanes_and_flags])
        elif stem in _MASKED:
            columns = zip(*(self._lanes(operand, bits) for operand in sources), strict=True)
            each = [_LANES[stem[:-1]](*lanes) for lanes in columns]
            pairs = enumerate(zip(self._lanes(result, bits), each, strict=True))
            self._set(result, bits, [new if self._predicate >> k * bits // 8 & 1 else old for k, (old, new) in pairs])
        elif stem in ("shr", "rshr"):
            by = sources[1]
            assert isinstance(by, Immediate)
            half = 1 << by.value >> 1 if stem == "rshr" else 0
            lanes = self._lanes(sources[0], bits, signed=match[2] == "s")
            self._set(result, bits, [lane + half >> by.value for lane in lanes])
        elif stem in _LIMITED:
            columns = zip(*(self._lanes(operand, bits) for operand in sources), strict=True)
            self._set(result, bits, [_saturate(_LIMITED[stem](*lanes), bits) for lanes in columns])
        else:
            shifts = stem in ("shl", "rshl")
            taken = sources if stem in _LANES else [result, *sources[-1 if shifts else -2 :]]
            columns = zip(*(self._lanes(operand, bits) for operand in taken), strict=True)
            self._set(result, bits, [(_LANES | _ON_RESULT)[stem](*lanes) for lanes in columns])

    def _dot(self, adds: bool, bits: int, operands: Sequence[Operand]) -> None:
        total, a, b = operands
        sum_ = sum(x * y for x, y in zip(self._lanes(a, bits), self._lanes(b, bits), strict=True))
        self._write(total.words[0], sum_ + (s32(self._read(total.words[0])) if adds else 0))

    def _narrow(self, stem: str, bits: int, operands: Sequence[Operand]) -> None:
        """Lanes to the lower or upper halves of the result's lanes, shifted with rounding and saturated."""
        result, source, *by = operands
        down = by[0].value if by and isinstance(by[0], Immediate) else 0
        narrowed = [_saturate(lane + (1 << down >> 1) >> down, bits // 2) for lane in self._lanes(source, bits)]
        for word in result.words:  # the other half stays, and may be nothing yet
            self._write(word, self._address_of(word))
        lanes = self._lanes(result, bits // 2)
        lanes[stem.endswith("t") :: 2] = narrowed
        self._set(result, bits // 2, lanes)

    # ---- memory ----

    def _access(self, match: re.Match[str], operands: Sequence[Operand]) -> None:
        size, bits = _SIZES[match[2]], int(match[5])
        loads, mask = match[1] == "ldr", self._predicate if match[3] else _ALL
        vector, place = operands[:2]
        assert isinstance(place, Address)
        lanes = [0] * (8 * _BYTES // bits) if loads else self._lanes(vector, bits)
        for number, address in enumerate(self._addresses(place, operands[2:], size, bits)):
            if not mask >> number * (bits // 8) & 1:
                continue
            if address % size:
                raise Fault(f"{address:#x} is no multiple of {size}")
            if loads:
                value, sign = self._load(address, size), (match[4] == "s") << (8 * size - 1)
                lanes[number] = (value ^ sign) - sign
            else:
                self._store(address, size, lanes[number])
        if loads:
            self._set(vector, bits, lanes)

    def _addresses(self, place: Address, after: Sequence[Operand], size: int, bits: int) -> list[int]:
        """Of each lane; the base moves."""
        if place.base.startswith("q"):
            base = Register(place.base)
            addresses = [lane + place.offset & 0xFFFFFFFF for lane in self._lanes(base, 32, signed=False)]
            if place.writeback:
                self._set(base, 32, addresses)
            return addresses
        start = self._read(place.base)
        if place.index:
            offsets = self._lanes(Register(place.index), bits, signed=False)
            return [start + (offset << place.shift) & 0xFFFFFFFF for offset in offsets]
        if after and isinstance(after[0], Immediate):
            self._write(place.base, start + after[0].value)
        return [start + place.offset + size * number for number in range(8 * _BYTES // bits)]

    def _interleave(self, part: int, operands: Sequence[Operand]) -> None:
        """VST4: a quarter of the bytes of four vectors, so that the four parts together store them in turn."""
        vectors, place = operands
        assert isinstance(vectors, RegisterList)
        assert isinstance(place, Address)
        base = self._read(place.base)
        for number, name in enumerate(vectors.names):
            for element, byte in enumerate(self._lanes(Register(name), 8)):
                if element // 4 == part:
                    self._store(base + 4 * element + number, 1, byte)
        if place.writeback:
            self._write(place.base, base + 4 * _BYTES)

    def _deinterleave(self, part: int, operands: Sequence[Operand]) -> None:
        """VLD2 of words: half of the words of two vectors, which come in turn; the outer or the inner ones."""
        vectors, place = operands
        assert isinstance(vectors, RegisterList)
        assert isinstance(place, Address)
        base = self._read(place.base)
        for offset in ((0, 4, 24, 28), (8, 12, 16, 20))[part]:
            vector = Register(vectors.names[offset // 4 % 2])
            self._write(vector.words[offset // 8], self._load(base + offset, 4))
        if place.writeback:
            self._write(place.base, base + 2 * _BYTES)
