# SPDX-License-Identifier: Apache-2.0
"""Sums in general registers -> int8 in vectors: the instructions of a LaneRequantization (finish.py)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from tinyc.kernels.mve.finish import LaneRequantization
from tinyc.machine.thumb import Asm

STREAM = "r11"


class ScalePower(NamedTuple):
    """A general register that has 2^scale, or unless `ready` gets it."""

    register: str
    ready: bool


Constants = Literal["each", "shared", "stay"]
"""Each quad has its own, and the stream goes on behind them; all share those that it goes on behind; or the stream
stays where it is, for the next quad that has the same."""


def scale_sums(
    asm: Asm,
    requant: LaneRequantization,
    quads: Sequence[Sequence[str]],
    free: Sequence[str],
    power: ScalePower,
    constants: Constants = "each",
) -> list[str]:
    """Vectors of scaled sums, before the last shift, one for each four registers of `quads`.

    free: vectors that may be overwritten, `needed` of them or more. power: made once the first quad is in a vector.
    """
    shared, stays = constants == "shared", constants == "stay"
    together = shared and len(free) >= (2 * len(quads) + 1 if requant.sign else 0)
    spare = list(free)
    vectors: list[tuple[str, str]] = []
    for number, quad in enumerate(quads):
        data, start = spare.pop(0), spare.pop(0)
        asm.op("vmov", f"{data}[2]", f"{data}[0]", quad[0], quad[2])
        asm.op("vmov", f"{data}[3]", f"{data}[1]", quad[1], quad[3])
        if not vectors and not power.ready:
            set_power(asm, requant, power.register)
        moves = not stays and (number == len(quads) - 1 or not shared)
        load_constants(asm, start, 0, moves)
        asm.op("vmla.s32", start, data, power.register)
        if not together:
            scale_vectors(asm, requant, [(start, data)], spare[0] if requant.sign else data, moves)
        if not (together and requant.sign):
            spare.insert(0, data)
        vectors.append((start, data))
    if together:
        scale_vectors(asm, requant, vectors, spare[0], not stays)
    return [start for start, _ in vectors]


def set_power(asm: Asm, requant: LaneRequantization, register: str) -> None:
    """register = 2^scale."""
    asm.op("mov", register, f"#{1 << requant.scale}")


def needed(requant: LaneRequantization, quads: int) -> int:
    """Vectors that `scale_sums` takes at least."""
    return quads + 1 + int(requant.sign)


def scale_vectors(
    asm: Asm, requant: LaneRequantization, vectors: Sequence[tuple[str, str]], temp: str, moves: bool
) -> None:
    """Product, sign, add and shift of vectors with equal constants; each with another one that is free."""
    if requant.sign:
        for start, data in vectors:
            asm.op("vshr.s32", data, start, "#31")
    load_constants(asm, temp, 1, moves)
    for start, _ in vectors:
        asm.op("vrmulh.s32" if requant.sign else "vmulh.s32", start, start, temp)
    if requant.sign:
        for start, data in vectors:
            asm.op("vadd.i32", start, start, data)
    if requant.add:
        load_constants(asm, temp, 2, moves)
        for start, _ in vectors:
            asm.op("vadd.i32", start, start, temp)
    if requant.shift is None:
        load_constants(asm, temp, 3, moves)
        for start, _ in vectors:
            asm.op("vshl.s32", start, start, temp)


def load_constants(asm: Asm, target: str, index: int, moves: bool) -> None:
    """A vector of constants; `moves`: the stream stands there, and goes on."""
    if moves:
        asm.op("vldrw.u32", target, f"[{STREAM}]", "#16")
    else:
        asm.op("vldrw.u32", target, f"[{STREAM}, #{16 * index}]" if index else f"[{STREAM}]")


def narrow(asm: Asm, requant: LaneRequantization, target: str, source: str, top: bool) -> None:
    """The bottom or top halves of target = the vector after the last shift, saturated to int16."""
    half = "t" if top else "b"
    if requant.shift is None:
        asm.op(f"vqmovn{half}.s32", target, source)
    else:
        asm.op(f"vqrshrn{half}.s32", target, source, f"#{requant.shift}")


def to_bytes(asm: Asm, requant: LaneRequantization, vectors: Sequence[str], temp: str) -> None:
    """The low bytes of the halves of vectors = outputs."""
    for vector in vectors:
        asm.op("vqmovnb.s16", vector, vector)
    clamp_bytes(asm, requant.clamp, vectors, temp)


def clamp_bytes(asm: Asm, clamp: tuple[int, int] | None, vectors: Sequence[str], temp: str) -> None:
    """Bytes of vectors within bounds, where these are narrower than int8. temp: a vector that is free."""
    for bound, op, end in zip(clamp or (), ("vmax.s8", "vmin.s8"), (-128, 127), strict=False):
        if bound != end:
            asm.op("vmov.i8", temp, f"#{bound & 0xFF}")
            for vector in vectors:
                asm.op(op, vector, vector, temp)
