# SPDX-License-Identifier: Apache-2.0
"""The cheapest groups and forms of layers within a number of bytes of arena and of flash.

best[j][f], the least weight of layers 0 .. j-1 in f bytes of flash, is the minimum over i of best[i] and what the group
[i, j) adds: a multiple-choice knapsack (`base/knapsack.py`) along a shortest path. It is exact up to `GRAIN`, so more
flash or more arena never gives a worse cut. Prices of flash would stop at the convex hull of time over flash.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tinyc.plan.answer import Partition
from tinyc.plan.liveness import Load
from tinyc.plan.problem import Form, Layer
from tinyc.plan.rows.cuts import Measured, Weigh
from tinyc.plan.uses import Ints

GRAIN = 64  # bytes; sums of flash are compared in these
_NEVER = 2**60  # of a weight: nothing fits


@dataclass(frozen=True, slots=True, eq=False)
class _Option:
    """A form, and what it takes of flash in grains, beyond the least that its layer takes in any form."""

    size: int
    weight: int
    form: Form


_Options = tuple[_Option, ...]  # undominated in size and weight, least weight first


class InFlash:
    """The cheapest cuts of groups that take at most `flash_bytes`."""

    def __init__(self, measured: Sequence[Measured], weigh: Weigh, flash_bytes: int) -> None:
        self.measured = sorted(measured, key=lambda one: one.stop)
        self.weigh = weigh
        self._least: dict[str, int] = {}  # grains of each layer
        for layer in (layer for one in self.measured for layer in one.layers):
            sizes = [_grains(form) for form in (*layer.whole_forms, *layer.row_forms)]
            self._least[layer.node] = min(*sizes, self._least.get(layer.node, sizes[0]))
        self.states = flash_bytes // GRAIN + 1 - sum(self._least.values())
        self._ranked: dict[int, tuple[_Option, ...]] = {}  # of forms, by their id
        self._known: dict[tuple[object, ...], _Options] = {}  # by id of the forms, live bytes, and arena

    def cheapest(self, arena: int) -> Partition | None:
        """Of least weight within `arena` live bytes; None if none fits."""
        if self.states < 1:
            return None
        count = max(one.stop for one in self.measured)
        best = [np.full(self.states, _NEVER, np.int64) for _ in range(count + 1)]
        last = [np.full(self.states, -1, np.int64) for _ in range(count + 1)]
        best[0][:] = 0
        seen = set()
        for number, own in enumerate(self.measured):
            options = self._fitting(own, arena)
            alike = (own.start, *map(id, options or ()))
            if options is None or alike in seen or not _may_help(options, best[own.start], best[own.stop]):
                continue
            seen.add(alike)
            after = _sums(options, best[own.start])[-1]
            better = after < best[own.stop]
            best[own.stop][better], last[own.stop][better] = after[better], number
        return self._traced(best, last, arena)

    def smallest(self, allowed: Callable[[Partition], bool]) -> tuple[int, Partition] | None:
        """(bytes, cut) of the fewest bytes whose cheapest cut is allowed; None if none is."""
        needs = sorted({need for own in self.measured for need in _needs(own)})
        low, high, best = 0, len(needs), None
        while low < high:
            middle = (low + high) // 2
            cut = self.cheapest(needs[middle])
            if cut is not None and allowed(cut):
                best, high = (needs[middle], cut), middle
            else:
                low = middle + 1
        return best

    def _fitting(self, own: Measured, arena: int) -> list[_Options] | None:
        """The options of each layer of a group; None where a layer has none."""
        if own.need > arena:
            return None
        options = []
        for layer, load in zip(own.layers, own.loads, strict=True):
            forms = layer.whole_forms if own.is_whole else layer.row_forms
            key = (id(forms), *load.fullest.items(), arena)
            if key not in self._known:
                self._known[key] = tuple(_undominated(self._options(layer, forms), load, arena))
            if not self._known[key]:
                return None
            options.append(self._known[key])
        return options

    def _options(self, layer: Layer, forms: tuple[Form, ...]) -> tuple[_Option, ...]:
        """Of the forms, least weight first."""
        if id(forms) not in self._ranked:
            least = self._least[layer.node]
            options = [_Option(_grains(form) - least, self.weigh(form), form) for form in forms]
            self._ranked[id(forms)] = tuple(sorted(options, key=lambda o: (o.weight, o.size)))
        return self._ranked[id(forms)]

    def _traced(self, best: Sequence[Ints], last: Sequence[Ints], arena: int) -> Partition | None:
        stop, state, weight = len(best) - 1, self.states - 1, int(best[-1][-1])
        if weight >= _NEVER:
            return None
        groups, forms = [], []
        while stop:
            own = self.measured[int(last[stop][state])]
            options = self._fitting(own, arena)
            assert options is not None
            sums = _sums(options, best[own.start])
            for before, after, layer in reversed(list(zip(sums[:-1], sums[1:], options, strict=True))):
                taken = next(o for o in layer if o.size <= state and before[state - o.size] + o.weight == after[state])
                forms.append(taken.form)
                state -= taken.size
            groups.append(own.group)
            stop = own.start
        return Partition(tuple(groups[::-1]), tuple(forms[::-1]), weight)


def _needs(own: Measured) -> Iterator[int]:
    for layer, load in zip(own.layers, own.loads, strict=True):
        for form in layer.whole_forms if own.is_whole else layer.row_forms:
            yield max(load.need(form), own.need)


def _grains(form: Form) -> int:
    return -(-form.flash_bytes // GRAIN)


def _undominated(options: Sequence[_Option], load: Load, arena: int) -> Iterator[_Option]:
    """Those that fit beside the load, each smaller than those before it."""
    size = _NEVER
    for option in options:
        if option.size < size and load.need(option.form) <= arena:
            size = option.size
            yield option


def _may_help(options: Sequence[_Options], before: Ints, known: Ints) -> bool:
    """Whether the least that the layers may weigh, in the least that they may take, is anywhere below what is known."""
    weight, size = sum(own[0].weight for own in options), sum(own[-1].size for own in options)
    return size < len(known) and bool((before[: len(before) - size] + weight < known[size:]).any())


def _sums(options: Sequence[_Options], before: Ints) -> list[Ints]:
    """The least weights by state: before the group, and after each of its layers."""
    sums = [before]
    for own in options:
        after = np.full(len(before), _NEVER, np.int64)
        for option in own:
            if option.size < len(before):
                shifted = sums[-1][: len(before) - option.size] + option.weight
                np.minimum(after[option.size :], shifted, out=after[option.size :])
        sums.append(after)
    return sums
