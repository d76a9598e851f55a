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

from collections.abc import Hashable, Iterator, Sequence

from tinyc.plan.problem import Form

_ROUNDS = 20  # of all layers; few are enough


def shared_code(forms: Sequence[Form], ways: Sequence[Sequence[Form]], price: float) -> frozenset[Hashable]:
    """Keys of the code that several layers have, where all forms are exchanged for what is worth more. ways: of each
    layer the forms that it may have. price: cycles for which a byte of flash is taken."""
    sums = _Sums(forms, ways, price)
    together = list(sums.by_function(ways))
    for _ in range(_ROUNDS):
        before = sums.value
        for index, own in enumerate(ways):
            sums.take([(index, min(own, key=lambda form, index=index: sums.with_form(index, form)))])  # type: ignore[misc]
        for exchanges in together:
            sums.take(sums.useful(exchanges))
        for number in sums.several:
            sums.take(sums.without(number, ways))
        if sums.value >= before:
            break
    return frozenset(sums.shared)


class _Sums:
    """Cycles and bytes of forms together."""

    def __init__(self, forms: Sequence[Form], ways: Sequence[Sequence[Form]], price: float) -> None:
        self.forms, self.price = list(forms), price
        self._numbers: dict[Hashable, int] = {}  # of functions: their keys are compared slowly
        self._codes: dict[int, list[tuple[int, int]]] = {}  # number and bytes of each function, by id of the form
        self._own_bytes: dict[int, int] = {}  # bytes beside these
        for own in (forms, *ways):
            for form in own:
                if id(form) not in self._codes:
                    codes = ((code.key, code.size) for code in form.cost.codes)
                    self._codes[id(form)] = [(self._number(key), size) for key, size in codes]
                    self._own_bytes[id(form)] = form.cost.own_bytes
        self._users = [0] * len(self._numbers)
        self.cycles = self.flash_bytes = 0
        for form in forms:
            self._count(form, 1)

    def _number(self, key: Hashable) -> int:
        return self._numbers.setdefault(key, len(self._numbers))

    @property
    def value(self) -> float:
        """Cycles, and those that the bytes are worth."""
        return self.cycles + self.price * self.flash_bytes

    @property
    def shared(self) -> list[Hashable]:
        """Keys of the functions of several layers."""
        return [key for key, number in self._numbers.items() if self._users[number] > 1]

    def by_function(self, ways: Sequence[Sequence[Form]]) -> Iterator[list[tuple[int, Form]]]:
        """For each function, the fastest form with it of every layer that may have it."""
        fastest: list[dict[int, Form]] = [{} for _ in self._users]
        for index, own in enumerate(ways):
            for form in own:
                for number, _ in self._codes[id(form)]:
                    by_layer = fastest[number]
                    if index not in by_layer or form.cycles < by_layer[index].cycles:
                        by_layer[index] = form
        return (list(users.items()) for users in fastest if len(users) > 1)

    @property
    def several(self) -> list[int]:
        """Numbers of the functions of several layers."""
        return [number for number, users in enumerate(self._users) if users > 1]

    def without(self, number: int, ways: Sequence[Sequence[Form]]) -> list[tuple[int, Form]]:
        """For each layer whose form has the function, the form without it that is worth most; none where one has no
        other."""
        exchanges = []
        for index, form in enumerate(self.forms):
            if all(number != own for own, _ in self._codes[id(form)]):
                continue
            others = [way for way in ways[index] if all(number != own for own, _ in self._codes[id(way)])]
            if not others:
                return []
            exchanges.append((index, min(others, key=lambda way, index=index: self.with_form(index, way))))  # type: ignore[misc]
        return exchanges

    def take(self, exchanges: Sequence[tuple[int, Form]]) -> None:
        """Makes the exchanges, if all together are worth more."""
        before, value = [(index, self.forms[index]) for index, _ in exchanges], self.value
        self._put(exchanges)
        if self.value >= value:
            self._put(before)

    def with_form(self, index: int, form: Form) -> float:
        """The value with another form of a layer."""
        old = self.forms[index]
        had, has = self._codes[id(old)], self._codes[id(form)]
        flash_bytes = self.flash_bytes + self._own_bytes[id(form)] - self._own_bytes[id(old)]
        flash_bytes += sum([size for number, size in has if not self._users[number]])
        flash_bytes -= sum([code[1] for code in had if self._users[code[0]] == 1 and code not in has])
        return self.cycles + form.cycles - old.cycles + self.price * flash_bytes

    def useful(self, exchanges: Sequence[tuple[int, Form]]) -> list[tuple[int, Form]]:
        """Those of the exchanges that are worth more where their code is there anyway."""

        def gain(index: int, form: Form) -> float:
            old = self.forms[index]
            left = self._own_bytes[id(old)] + sum(
                size for number, size in self._codes[id(old)] if self._users[number] == 1
            )
            return old.cycles - form.cycles + self.price * (left - self._own_bytes[id(form)])

        return [(index, form) for index, form in exchanges if gain(index, form) > 0]

    def _put(self, exchanges: Sequence[tuple[int, Form]]) -> None:
        for index, form in exchanges:
            self._count(self.forms[index], -1)
            self.forms[index] = form
            self._count(form, 1)

    def _count(self, form: Form, sign: int) -> None:
        self.cycles += sign * form.cycles
        self.flash_bytes += sign * self._own_bytes[id(form)]
        for number, size in self._codes[id(form)]:
            others = self._users[number] - (sign < 0)
            self._users[number] += sign
            if not others:  # the only user comes, or goes
                self.flash_bytes += sign * size
