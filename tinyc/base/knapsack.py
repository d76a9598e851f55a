# SPDX-License-Identifier: Apache-2.0
"""One option of each class, least weight in all, within a size: the multiple-choice knapsack problem.

Sinha and Zoltners (1979). `exact` keeps the undominated sums, in effort that grows with classes times limit. `greedy`
makes the exchanges that save most for their size, in effort that does not grow with the limit.
"""

from __future__ import annotations

import heapq
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
        kept = _undominated(sizes, weights, limit)
        if not len(kept):
            return None
        size, weight = sizes[kept], weights[kept]
        steps.append(np.divmod(kept, len(options)))
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


def greedy(classes: Sequence[Sequence[Item]], limit: int) -> list[int] | None:
    """As `exact`, but not the best: less than the best exchange of one class is lost. None if nothing fits.

    Of each class only the options on the lower convex hull of (size, weight) are looked at, from the smallest on.
    """
    hulls = [_hull(options) for options in classes]
    left = limit - sum(options[hull[0]][0] for options, hull in zip(classes, hulls, strict=True))
    at = [0] * len(classes)

    def step(index: int) -> tuple[float, int]:
        now, other = hulls[index][at[index] : at[index] + 2]
        return _slope(classes[index][now], classes[index][other]), index

    queue = [step(index) for index, hull in enumerate(hulls) if len(hull) > 1]
    heapq.heapify(queue)
    while queue:
        _, index = heapq.heappop(queue)
        now, other = hulls[index][at[index] : at[index] + 2]
        more = classes[index][other][0] - classes[index][now][0]
        if more > left:
            continue
        left, at[index] = left - more, at[index] + 1
        if at[index] + 1 < len(hulls[index]):
            heapq.heappush(queue, step(index))
    return None if left < 0 else [hull[chosen] for hull, chosen in zip(hulls, at, strict=True)]


def _hull(options: Sequence[Item]) -> list[int]:
    """The options on the lower convex hull, from the least size to the least weight."""
    hull: list[int] = []
    for index in sorted(range(len(options)), key=lambda i: options[i]):
        if hull and options[index][1] >= options[hull[-1]][1]:
            continue
        while len(hull) > 1 and _slope(options[hull[-2]], options[index]) <= _slope(
            options[hull[-2]], options[hull[-1]]
        ):
            hull.pop()
        hull.append(index)
    return hull


def _slope(small: Item, large: Item) -> float:
    """Weight that a unit of size adds (it saves: below 0)."""
    return (large[1] - small[1]) / (large[0] - small[0])
