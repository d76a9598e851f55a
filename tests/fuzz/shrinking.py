# SPDX-License-Identifier: Apache-2.0
"""A smaller case with the same defect: pieces are left out as long as it stays.

Delta debugging after Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", IEEE TSE 2002.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tests.fuzz.case import Case, Outcome

MOST_TRIES = 40  # cases; of a slow target each takes seconds


def smaller(found: Outcome, pieces: int, run: Callable[[Case], Outcome], most: int = MOST_TRIES) -> Outcome:
    """The outcome of the smallest case that `run` finds to fail with the same signature."""
    kept = list(range(pieces) if found.case.kept is None else found.case.kept)
    best, parts, tries = found, 2, 0
    while len(kept) > 1 and tries < most:
        size = -(-len(kept) // parts)
        for start in range(0, len(kept), size):
            fewer = kept[:start] + kept[start + size :]
            tries += 1
            outcome = run(replace(found.case, kept=tuple(fewer)))
            if outcome.failed and outcome.signature == found.signature:
                best, kept, parts = outcome, fewer, max(parts - 1, 2)
                break
            if tries >= most:
                break
        else:
            if parts >= len(kept):
                break
            parts = min(2 * parts, len(kept))
    return best
