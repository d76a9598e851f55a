# SPDX-License-Identifier: Apache-2.0
"""Which code layers of a model share.

A function of several layers is in flash once, so that what a layer's form takes depends on the others'. A table of cuts
needs forms whose bytes do not: it counts a set of functions once for all layers, and every other one for each that has
it, which is at least what the cut takes. The sets that are worth a table are those that good cuts have: of a cut the
forms are exchanged, at the price of its bytes, first of single layers, then of all at once that may have a function,
until nothing is worth more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence

from tinyc.plan.problem import Form

_ROUNDS = 20  # of all layers; few are enough


def shared_code(forms: Sequence[Form], ways: Sequence[Sequence[Form]], price: float) -> frozenset[Hashable]:
    """Keys of the code that several layers have, where all forms are exchanged for what is worth more. ways: of each
    layer the forms that it may have. price: cycles for which a byte of flash is taken."""
    sums = _Sums(forms, price)
    for _ in range(_ROUNDS):
        before = sums.value
        for index, own in enumerate(ways):
            sums.take([(index, min(own, key=lambda form, index=index: sums.with_form(index, form)))])  # type: ignore[misc]
        for together in _by_function(ways):
            sums.take(sums.useful(together))
        if sums.value >= before:
            break
    return frozenset(key for key, count in sums.users.items() if count > 1)


def _by_function(ways: Sequence[Sequence[Form]]) -> Iterator[list[tuple[int, Form]]]:
    """For each function, the fastest form with it of every layer that may have it."""
    fastest: dict[Hashable, dict[int, Form]] = {}
    for index, own in enumerate(ways):
        for form in own:
            for code in form.cost.codes:
                known = fastest.setdefault(code.key, {})
                if index not in known or form.cycles < known[index].cycles:
                    known[index] = form
    for users in fastest.values():
        if len(users) > 1:
            yield list(users.items())


class _Sums:
    """Cycles and bytes of forms together."""

    def __init__(self, forms: Sequence[Form], price: float) -> None:
        self.forms, self.price = list(forms), price
        self.users: Counter[Hashable] = Counter()
        self.cycles = self.flash_bytes = 0
        for form in forms:
            self._count(form, 1)

    @property
    def value(self) -> float:
        """Cycles, and those that the bytes are worth."""
        return self.cycles + self.price * self.flash_bytes

    def take(self, exchanges: Sequence[tuple[int, Form]]) -> None:
        """Makes the exchanges, if all together are worth more."""
        before, value = [(index, self.forms[index]) for index, _ in exchanges], self.value
        self.put(exchanges)
        if self.value >= value:
            self.put(before)

    def with_form(self, index: int, form: Form) -> float:
        """The value with another form of a layer."""
        old = self.forms[index]
        self.put([(index, form)])
        value = self.value
        self.put([(index, old)])
        return value

    def useful(self, exchanges: Sequence[tuple[int, Form]]) -> list[tuple[int, Form]]:
        """Those of the exchanges that are worth more where their code is there anyway."""

        def gain(index: int, form: Form) -> float:
            old = self.forms[index]
            left = old.cost.own_bytes + sum(code.size for code in old.cost.codes if self.users[code.key] == 1)
            return old.cycles - form.cycles + self.price * (left - form.cost.own_bytes)

        return [(index, form) for index, form in exchanges if gain(index, form) > 0]

    def put(self, exchanges: Sequence[tuple[int, Form]]) -> None:
        for index, form in exchanges:
            self._count(self.forms[index], -1)
            self.forms[index] = form
            self._count(form, 1)

    def _count(self, form: Form, sign: int) -> None:
        self.cycles += sign * form.cycles
        self.flash_bytes += sign * form.cost.own_bytes
        for code in form.cost.codes:
            without = self.users[code.key] - (sign < 0)
            self.users[code.key] += sign
            if not without:  # the only user comes, or goes
                self.flash_bytes += sign * code.size
