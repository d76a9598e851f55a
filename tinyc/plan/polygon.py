# SPDX-License-Identifier: Apache-2.0
"""What no cut within a number of live bytes is below, without its table.

At a price of a byte of flash in cycles, the cheapest cut takes of each layer the form that is cheapest at it: no
knapsack is needed. In the plane of flash and cycles no cut lies below the line of its cost (H. Everett, Generalized
Lagrange multiplier method, 1963), nor below the polygon of the lines of many prices. A worth is concave, and has its
least value in a corner of the polygon.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.plan.worth import Floats, Limits, Worth

_LESS = 1 - 2.0**-40  # sums are rounded
# Of a byte of flash, in cycles, descending: from more than what a byte saves to nothing.
PRICES: Floats = np.append(np.geomspace(1e6, 1e-2, 72), 0.0)


@dataclass(frozen=True, eq=False)
class Polygon:
    """The lines below which no cut lies. costs: by price, the least cycles with flash at that price, float64[prices].
    least_bytes: of flash."""

    costs: Floats
    least_bytes: int

    @classmethod
    def of(cls, sums: Floats, least_bytes: int) -> Polygon:
        """sums: the costs, which rounding may have made more."""
        return cls(sums * _LESS, least_bytes)

    @cached_property
    def corners(self) -> Floats:
        """Bytes of flash, ascending: where the lines of neighbours meet."""
        meet: Floats = -np.diff(self.costs) / -np.diff(PRICES)
        return meet

    def value(self, worth: Worth, limits: Limits, arena_bytes: int, spare_bytes: int) -> float | None:
        """What a cut is worth at best in an arena; None where none is within the limits. spare_bytes: of flash, that a
        cut may take less than it is counted for."""
        low, high = float(self.least_bytes), np.inf
        if limits.flash_bytes is not None:
            high = limits.flash_bytes + spare_bytes
        if limits.cycles is not None:
            if self.costs[-1] > limits.cycles:
                return None
            low = max(low, float(np.max((self.costs[:-1] - limits.cycles) / PRICES[:-1])))
        if low > high:
            return None
        inside = self.corners[(self.corners > low) & (self.corners < high)]
        flash = np.concatenate(([low], inside, [high] if high < np.inf else []))
        cycles = (self.costs - PRICES * flash[:, None]).max(axis=1)
        return float(worth.of_all(cycles, np.maximum(flash - spare_bytes, 0), arena_bytes).min())
