# SPDX-License-Identifier: Apache-2.0
"""One option of each class, least weight in all, within a size: the multiple-choice knapsack problem.

Sinha and Zoltners (1979). The undominated sums are kept, in effort that grows with classes times limit.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Item = tuple[int, float]  # size, weight; weights below 2^53, in sums too, are exact
Indices = npt.NDArray[np.int64]
Weights = npt.NDArray[np.float64]


def exact(classes: Sequence[Sequence[Item]], limit: int) -> list[int] | None:
    """Which option of each class, by index, with sizes of at most `limit` together; None if there is no such choice."""
    size, weight = np.zeros(1, np.int64), np.zeros(1)
    steps: list[tuple[Indices, Indices]] = []  # of each class: the sum before, the option
    for options in classes:
        more, heavier = (np.array(column) for column in zip(*options, strict=True))
        sizes, weights = (size[:, None] + more).ravel(), (weight[:, None] + heavier).ravel()
        undominated = _undominated(sizes, weights, limit)
        if not len(undominated):
            return None
        size, weight = sizes[undominated], weights[undominated]
        steps.append(np.divmod(undominated, len(options)))
    at, taken = int(weight.argmin()), []
    for before, option in reversed(steps):
        taken.append(int(option[at]))
        at = int(before[at])
    return taken[::-1]


def _undominated(sizes: Indices, weights: Weights, limit: int) -> Indices:
    """Where the sums within the limit stand that no other one beats in both size and weight, by size."""
    order = np.lexsort((weights, sizes))
    order = order[: np.searchsorted(sizes[order], limit, side="right")]
    sorted_weights = weights[order]
    lighter = np.ones(len(order), np.bool_)
    lighter[1:] = sorted_weights[1:] < np.minimum.accumulate(sorted_weights)[:-1]
    return order[lighter]
