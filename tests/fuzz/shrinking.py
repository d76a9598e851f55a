# SPDX-License-Identifier: Apache-2.0
"""A smaller case with the same defect: pieces are left out as long as it stays.

Delta debugging after Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", IEEE TSE 2002.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tests.fuzz.case import Case, Outcome

MOST_TRIES = 40  # cases; of a slow target each takes seconds


def smaller(outcome_before: Outcome, pieces: int, run: Callable[[Case], Outcome], most: int = MOST_TRIES) -> Outcome:
    """The outcome of the smallest case that `run` finds to fail with the same signature."""
    entries = list(range(pieces) if outcome_before.case.subset is None else outcome_before.case.subset)
    best, parts, tries = outcome_before, 2, 0
    while len(entries) > 1 and tries < most:
        size = -(-len(entries) // parts)
        for start in range(0, len(entries), size):
            fewer = entries[:start] + entries[start + size :]
            tries += 1
            outcome = run(replace(outcome_before.case, subset=tuple(fewer)))
            if outcome.failed and outcome.signature == outcome_before.signature:
                best, entries, parts = outcome, fewer, max(parts - 1, 2)
                break
            if tries >= most:
                break
        else:
            if parts >= len(entries):
                break
            parts = min(2 * parts, len(entries))
    return best
