# SPDX-License-Identifier: Apache-2.0
"""Damage to files: bytes anywhere, words of a flatbuffer, fields of a protobuf that keep their type."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from google.protobuf.message import Message

EXTREMES = [0, 1, 2, 0xFF, 0xFFFF, 0x10000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFE, 0xFFFFFFFF, 0x7F800000, 0x7FC00000]
NUMBERS = [0, 1, -1, 2, 3, 7, 255, 1 << 15, 1 << 31, -(1 << 31), (1 << 63) - 1, -(1 << 63)]
WORDS = ["", "x", "t0", "c0", "Conv", "Relu", "Gather", "Loop", "no such thing", "é\n\x07", "a" * 3000]


def cut_or_flipped(content: bytes, rng: np.random.Generator) -> bytes:
    """Some bytes changed, a stretch of noise, or the end missing; of nothing, nothing."""
    if not content:
        return content
    copy = bytearray(content)
    kind = rng.integers(3)
    if kind == 0:
        del copy[rng.integers(len(copy)) :]
    elif kind == 1:
        for at in rng.integers(len(copy), size=rng.integers(1, 6)):
            copy[at] ^= 1 << int(rng.integers(8))
    else:
        at = rng.integers(len(copy))
        copy[at : at + 16] = rng.bytes(16)
    return bytes(copy)


def mutate(message: Message, rng: np.random.Generator) -> None:
    """Change one randomly chosen field, somewhere in the message, to something that still has its type."""
    fields = message.ListFields()
    if not fields:
        return
    field, value = fields[rng.integers(len(fields))]
    try:
        repeated = field.is_repeated
    except AttributeError:  # protobuf before 6
        repeated = field.label == field.LABEL_REPEATED
    if repeated:
        _mutate_list(value, field, rng)
    elif field.message_type is not None:
        mutate(value, rng)
    elif rng.random() < 0.2:
        message.ClearField(field.name)
    else:
        _try_set(lambda new: setattr(message, field.name, new), value, rng)


def _mutate_list(items: object, field: object, rng: np.random.Generator) -> None:
    count = len(items)  # type: ignore[arg-type]
    at = int(rng.integers(count))
    if field.message_type is not None and rng.random() < 0.75:  # type: ignore[attr-defined]
        mutate(items[at], rng)  # type: ignore[index]
    elif rng.random() < 0.4:
        del items[at]  # type: ignore[attr-defined]
    elif rng.random() < 0.4:
        items.append(items[int(rng.integers(count))])  # type: ignore[attr-defined]
    elif field.message_type is None:  # type: ignore[attr-defined]
        _try_set(lambda new: items.__setitem__(at, new), items[at], rng)  # type: ignore[attr-defined, index]


def _try_set(put: object, old: object, rng: np.random.Generator) -> None:
    if isinstance(old, str):
        new: object = WORDS[rng.integers(len(WORDS))]
    elif isinstance(old, bytes):
        new = rng.bytes(int(rng.integers(40)))
    elif isinstance(old, float):
        new = float(rng.choice([0.0, -1.0, np.nan, np.inf, -np.inf, 1e30, 1e-40]))
    else:
        new = NUMBERS[rng.integers(len(NUMBERS))]
    try:
        put(new)  # type: ignore[operator]
    except ValueError:  # out of the field's range
        return


def damaged(content: bytes, count: int, seed: int) -> Iterator[bytes]:
    """Copies with some bits flipped, words replaced by extremes, stretches of noise, or the end cut off."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        copy = bytearray(content)
        kind = rng.integers(4)
        if kind == 0:
            del copy[rng.integers(len(copy)) :]
        elif kind == 1:
            for at in rng.integers(len(copy), size=rng.integers(1, 6)):
                copy[at] ^= 1 << int(rng.integers(8))
        elif kind == 2:
            for word in rng.integers(len(copy) // 4, size=rng.integers(1, 4)):
                copy[4 * word : 4 * word + 4] = EXTREMES[rng.integers(len(EXTREMES))].to_bytes(4, "little")
        else:
            at, size = rng.integers(len(copy)), rng.integers(1, 64)
            copy[at : at + size] = rng.bytes(min(size, len(copy) - at))
        yield bytes(copy)
