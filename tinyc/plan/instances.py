# SPDX-License-Identifier: Apache-2.0
"""Allocation problems of bare rectangles: the CSV format of MiniMalloc's benchmark, and generated ones.

A rectangle is a buffer: alive [lower, upper) in time, `size` bytes. Nothing may overlap, nothing is in place, so these
problems test `arena.place` and `exact.prove` alone. Format: https://github.com/google/minimalloc, whose paper is
Moffitt, "MiniMalloc" (ASPLOS 2023).
"""

from __future__ import annotations

import csv
import random
from collections.abc import Sequence
from pathlib import Path

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.base.files import read_text
from tinyc.plan.blocks import Block, Layout, Member, conflicts

COLUMNS = ("id", "lower", "upper", "size")


@dataclass(frozen=True, slots=True)
class Instance:
    """Buffers to place. capacity: bytes that are known to suffice (None: unknown); live_bytes: a lower bound."""

    name: str
    layout: Layout
    live_bytes: int
    capacity: int | None = None


def read_instance(path: Path) -> Instance:
    """A MiniMalloc CSV file: a header and one buffer per line, `id,lower,upper,size`; more columns are ignored.

    The capacity is the number in a name like `A.1048576.csv`. Raises TinycError with the line that is wrong.
    """
    try:
        lines = read_text(path).splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise TinycError(f"{path}: cannot be read: {error}") from error
    reader = csv.DictReader(lines)
    missing = [column for column in COLUMNS if column not in (reader.fieldnames or ())]
    if missing:
        raise TinycError(f"{path}:1: no column '{missing[0]}'", hint=f"the first line must name {', '.join(COLUMNS)}")
    buffers, names = [], []
    for row in reader:
        try:
            born, dies, size = (int(row[column]) for column in COLUMNS[1:])
        except (TypeError, ValueError):
            raise TinycError(f"{path}:{reader.line_num}: lower, upper and size must be integers") from None
        if dies <= born or size < 1:
            raise TinycError(f"{path}:{reader.line_num}: a buffer needs lower < upper and a size of 1 or more")
        buffers.append((born, dies, size))
        names.append(row["id"])
    if not buffers:
        raise TinycError(f"{path}: holds no buffer")
    parts = path.name.split(".")
    capacity = int(parts[-2]) if len(parts) > 2 and parts[-2].isdecimal() else None
    return _instance(parts[0], buffers, capacity, names)


def write_instance(instance: Instance, folder: Path, offsets: Sequence[int] | None = None) -> Path:
    """The instance as a MiniMalloc CSV file in `folder`, with a column of offsets if they are given; its path."""
    capacity = "" if instance.capacity is None else f".{instance.capacity}"
    path = folder / f"{instance.name}{capacity}.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS if offsets is None else (*COLUMNS, "offset"))
        for i, block in enumerate(instance.layout.blocks):
            row = (block.members[0].name, block.born, block.dies, block.size)
            writer.writerow(row if offsets is None else (*row, offsets[i]))
    return path


def crowded(seed: int, count: int, steps: int, sizes: Sequence[int]) -> Instance:
    """Many short lifetimes and a few long ones; each size is one of `sizes` times 1 to 8."""
    rng = random.Random(seed)
    buffers = []
    for _ in range(count):
        born = rng.randrange(steps - 1)
        mean = steps / 20 if rng.random() < 0.85 else steps / 3
        length = min(steps - born, 1 + int(rng.expovariate(1 / mean)))
        buffers.append((born, born + length, rng.choice(sizes) * rng.randrange(1, 9)))
    return _instance(f"crowded-{count}-{seed}", buffers, None)


def perfect(seed: int, count: int, steps: int, capacity: int) -> Instance:
    """A rectangle of `steps` by `capacity` cut into `count` pieces, shuffled: offsets without a wasted byte exist."""
    rng = random.Random(seed)
    pieces = [(0, steps, 0, capacity)]
    while len(pieces) < count:
        pieces.sort(key=lambda p: (p[1] - p[0]) * (p[3] - p[2]))
        born, dies, low, high = pieces.pop(rng.randrange(len(pieces) // 2, len(pieces)))
        if dies - born > 1 and (rng.random() < 0.5 or high - low < 2):
            cut = rng.randrange(born + 1, dies)
            pieces += [(born, cut, low, high), (cut, dies, low, high)]
        elif high - low > 1:
            cut = rng.randrange(low + 1, high)
            pieces += [(born, dies, low, cut), (born, dies, cut, high)]
        else:
            pieces.append((born, dies, low, high))
    buffers = [(born, dies, high - low) for born, dies, low, high in pieces]
    rng.shuffle(buffers)
    return _instance(f"perfect-{count}-{seed}", buffers, capacity)


def _instance(
    name: str, buffers: Sequence[tuple[int, int, int]], capacity: int | None, names: Sequence[str] = ()
) -> Instance:
    called = names or [f"b{i}" for i in range(len(buffers))]
    blocks = tuple(
        Block((Member(label, 0, size, born, dies),), align=1)
        for label, (born, dies, size) in zip(called, buffers, strict=True)
    )
    return Instance(name, Layout(blocks, conflicts(blocks, {})), _live_bytes(buffers), capacity)


def _live_bytes(buffers: Sequence[tuple[int, int, int]]) -> int:
    """Most bytes alive at once."""
    events = sorted([(dies, -size) for _, dies, size in buffers] + [(born, size) for born, _, size in buffers])
    live = most = 0
    for _, change in events:
        live += change
        most = max(most, live)
    return most
