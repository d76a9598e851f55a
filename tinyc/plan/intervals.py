# SPDX-License-Identifier: Apache-2.0
"""Intervals of bytes, or of distances between places."""

from __future__ import annotations

from collections.abc import Iterable

Interval = tuple[int, int]  # (low, high); of what is forbidden without its ends, of bytes half-open


def joined(intervals: Iterable[Interval], touching: bool = False) -> list[Interval]:
    """The same numbers as fewest intervals, ascending; empty ones are left out.

    Those that only touch are one with `touching`, as bytes are; distances stay apart, since the one between two that
    are forbidden is allowed.
    """
    spans: list[Interval] = []
    for low, high in sorted(intervals):
        if low >= high:
            continue
        if spans and low < spans[-1][1] + touching:
            spans[-1] = (spans[-1][0], max(spans[-1][1], high))
        else:
            spans.append((low, high))
    return spans
