# SPDX-License-Identifier: Apache-2.0
"""Which code layers of a model share.

A function of several layers is in flash once, so that what a layer's form takes depends on the others'. A table of cuts
needs forms whose bytes do not: it counts a set of functions once for all layers, and every other one for each that has
it, which is at least what the cut takes. The sets that are worth a table are those that good cuts have: of a cut the
forms are exchanged, at the price of its bytes, first of single layers, then of all at once that may have a function,
then of all at once that have one, until nothing is worth more. (Functions are facilities that may be opened, layers
are served by them: such exchanges are the local search for that problem, M. R. Korupolu, C. G. Plaxton, R. Rajaraman,
Analysis of a local search heuristic for facility location problems, 1998.)
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from tinyc.base.dataclass import dataclass
from tinyc.plan.problem import Form
from tinyc.plan.uses import Ints
from tinyc.plan.worth import Floats

Flags = npt.NDArray[np.bool_]

_ROUNDS = 20  # of all layers; few are enough
_Exchanges = Sequence[tuple[int, int]]  # (layer, number of its new form)


def functions_of(layers: Iterable[Iterable[Sequence[Form]]]) -> dict[Hashable, int]:
    """The functions that several layers may have, by the key of their code, numbered. layers: of each its forms."""
    users: dict[Hashable, int] = {}
    for ways in layers:
        for key in {code.key: 0 for forms in ways for form in forms for code in form.cost.codes}:
            users[key] = users.get(key, 0) + 1
    return {key: number for number, key in enumerate(key for key, count in users.items() if count > 1)}


@dataclass(frozen=True, slots=True, eq=False)
class Ways:
    """The forms that a layer may have. cycles: int64[forms]; own_bytes: beside all functions, the same; alone_bytes:
    with the functions that no other layer may have; has: which of the others a form has, bool[forms, functions]; sizes:
    their bytes, int64[forms, functions]: some take none where several layers have them."""

    forms: tuple[Form, ...]
    cycles: Ints
    own_bytes: Ints
    alone_bytes: Ints
    has: Flags
    sizes: Ints

    @classmethod
    def of(cls, forms: Sequence[Form], functions: Mapping[Hashable, int]) -> Ways:
        """functions: by key, the numbers of those that several layers may have."""
        own_bytes = np.array([form.cost.own_bytes for form in forms], np.int64)
        alone_bytes, sizes = own_bytes.copy(), np.zeros((len(forms), len(functions)), np.int64)
        has = np.zeros(sizes.shape, np.bool_)
        for number, form in enumerate(forms):
            for code in form.cost.codes:
                if code.key in functions:
                    has[number, functions[code.key]], sizes[number, functions[code.key]] = True, code.size
                else:
                    alone_bytes[number] += code.size
        cycles = np.array([form.cycles for form in forms], np.int64)
        return cls(tuple(forms), cycles, own_bytes, alone_bytes, has, sizes)

    def number(self, form: Form) -> int:
        """Which of the forms it is."""
        return next(number for number, own in enumerate(self.forms) if own is form)

    def fastest_with_each(self) -> list[int | None]:
        """By function, the number of the form with it that takes fewest cycles; None where no form has it."""
        cycles = np.where(self.has, self.cycles[:, None], np.iinfo(np.int64).max)
        fastest: list[int] = cycles.argmin(axis=0).tolist()
        return [form if self.has[form, function] else None for function, form in enumerate(fastest)]


def shared_code(forms: Sequence[Form], ways: Sequence[Ways], price: float) -> frozenset[int]:
    """Numbers of the functions that several layers have, where all forms are exchanged for what is worth more. ways:
    of each layer the forms that it may have. price: cycles for which a byte of flash is taken."""
    cut = _Cut(forms, ways, price)
    together = cut.by_function()
    for _ in range(_ROUNDS):
        before = cut.value
        for layer in range(len(ways)):
            cut.take([(layer, int(cut.values(layer).argmin()))])
        for exchanges in together:
            cut.take(cut.useful(exchanges))
        for function in cut.several:
            cut.take(cut.without(function))
        if cut.value >= before:
            break
    return frozenset(cut.several)


class _Cut:
    """A form of each layer, and what they take together."""

    def __init__(self, forms: Sequence[Form], ways: Sequence[Ways], price: float) -> None:
        self.ways, self.price = ways, price
        self.numbers = [own.number(form) for own, form in zip(ways, forms, strict=True)]
        self._users = np.zeros(ways[0].sizes.shape[1], np.int64)  # of each function
        self.cycles = self.flash_bytes = 0
        for layer in range(len(ways)):
            self._add(layer)

    @property
    def value(self) -> float:
        """Cycles, and those that the bytes are worth."""
        return self.cycles + self.price * self.flash_bytes

    @property
    def several(self) -> list[int]:
        """Numbers of the functions of several layers."""
        numbers: list[int] = np.flatnonzero(self._users > 1).tolist()
        return numbers

    def by_function(self) -> list[_Exchanges]:
        """For each function that several layers may have, the fastest form with it of every layer that may."""
        fastest = zip(*(own.fastest_with_each() for own in self.ways), strict=True)
        every = [[(layer, form) for layer, form in enumerate(own) if form is not None] for own in fastest]
        return [exchanges for exchanges in every if len(exchanges) > 1]

    def values(self, layer: int) -> Floats:
        """The value with each of a layer's forms."""
        ways, old = self.ways[layer], self.numbers[layer]
        nobody = self._users == ways.has[old]  # but perhaps the layer itself
        flash_bytes = ways.alone_bytes + ways.sizes @ nobody
        cycles = self.cycles + ways.cycles - ways.cycles[old]
        values: Floats = cycles + self.price * (self.flash_bytes + flash_bytes - flash_bytes[old])
        return values

    def without(self, function: int) -> _Exchanges:
        """For each layer whose form has the function, the form without it that is worth most; none where one has no
        other."""
        exchanges = []
        for layer, (ways, number) in enumerate(zip(self.ways, self.numbers, strict=True)):
            has = ways.has[:, function]
            if not has[number]:
                continue
            if has.all():
                return []
            exchanges.append((layer, int(np.where(has, np.inf, self.values(layer)).argmin())))
        return exchanges

    def useful(self, exchanges: _Exchanges) -> _Exchanges:
        """Those of the exchanges that are worth more where their code is there anyway."""
        alone = self._users == 1

        def gain(layer: int, new: int) -> float:
            ways, old = self.ways[layer], self.numbers[layer]
            left = ways.alone_bytes[old] + ways.sizes[old] @ alone
            return float(ways.cycles[old] - ways.cycles[new] + self.price * (left - ways.own_bytes[new]))

        return [(layer, new) for layer, new in exchanges if new != self.numbers[layer] and gain(layer, new) > 0]

    def take(self, exchanges: _Exchanges) -> None:
        """Makes the exchanges, if all together are worth more."""
        before, value = [(layer, self.numbers[layer]) for layer, _ in exchanges], self.value
        if before == exchanges:
            return
        self._put(exchanges)
        if self.value >= value:
            self._put(before)

    def _put(self, exchanges: _Exchanges) -> None:
        for layer, number in exchanges:
            if number != self.numbers[layer]:
                self._remove(layer)
                self.numbers[layer] = number
                self._add(layer)

    def _add(self, layer: int) -> None:
        ways, number = self.ways[layer], self.numbers[layer]
        self.flash_bytes += int(ways.alone_bytes[number] + ways.sizes[number] @ (self._users == 0))
        self.cycles += int(ways.cycles[number])
        self._users += ways.has[number]

    def _remove(self, layer: int) -> None:
        ways, number = self.ways[layer], self.numbers[layer]
        self._users -= ways.has[number]
        self.flash_bytes -= int(ways.alone_bytes[number] + ways.sizes[number] @ (self._users == 0))
        self.cycles -= int(ways.cycles[number])
