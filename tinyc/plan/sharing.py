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
_NONE = -1  # no form
_Exchanges = Sequence[tuple[int, int]]  # (layer, number of its new form)


@dataclass(frozen=True, slots=True, eq=False)
class Functions:
    """The functions that several layers may have. Of one that some layers have longer than others, as padding, the
    longest is there: what it has more than the next shorter one counts as a function, too. keys: of the code, by
    number. numbers: by key and size, those that are there with it. sizes: bytes, whole numbers, float64[functions]."""

    keys: Sequence[Hashable]
    numbers: Mapping[tuple[Hashable, int], Sequence[int]]
    sizes: Floats


def functions_of(layers: Iterable[Iterable[Mapping[Hashable, Sequence[int]]]]) -> Functions:
    """layers: of each the bytes of the code that its forms may share, by key, whole and by rows."""
    users: dict[Hashable, int] = {}
    sizes: dict[Hashable, set[int]] = {}
    for ways in layers:
        every = [item for own in ways for item in own.items()]
        for key, own_sizes in every:
            sizes.setdefault(key, set()).update(own_sizes)
        for key in dict.fromkeys(key for key, _ in every):
            users[key] = users.get(key, 0) + 1
    keys, numbers, more = list[Hashable](), dict[tuple[Hashable, int], Sequence[int]](), list[int]()
    for key in (key for key, count in users.items() if count > 1):
        first, shorter = len(keys), 0
        for size in sorted(sizes[key]):
            keys.append(key)
            more.append(size - shorter)
            numbers[key, size], shorter = range(first, len(keys)), size
    return Functions(keys, numbers, np.array(more, np.float64))


@dataclass(frozen=True, slots=True, eq=False)
class Ways:
    """The forms that a layer may have. cycles: int64[forms]; own_bytes: beside all functions, the same; alone_bytes:
    with the functions that no other layer may have; has: 1 for those of the others that a form has, float64[forms,
    functions]; fastest: by function, the number of the form with it that takes fewest cycles, or -1."""

    forms: tuple[Form, ...]
    cycles: Ints
    own_bytes: Ints
    alone_bytes: Ints
    has: Floats
    fastest: Ints

    @classmethod
    def of(cls, forms: Sequence[Form], functions: Functions) -> Ways:
        own_bytes = np.array([form.cost.own_bytes for form in forms], np.int64)
        alone_bytes, has = own_bytes.copy(), np.zeros((len(forms), len(functions.sizes)))
        for number, form in enumerate(forms):
            for code in form.cost.codes:
                if numbers := functions.numbers.get((code.key, code.size)):
                    has[number, numbers] = 1
                else:
                    alone_bytes[number] += code.size
        cycles = np.array([form.cycles for form in forms], np.int64)
        with_each = np.where(has > 0, cycles[:, None], np.iinfo(np.int64).max)
        fastest = np.where(has.any(axis=0), with_each.argmin(axis=0), _NONE)
        return cls(tuple(forms), cycles, own_bytes, alone_bytes, has, fastest)

    def number(self, form: Form) -> int:
        """Which of the forms it is."""
        return next(number for number, own in enumerate(self.forms) if own is form)


def shared_code(forms: Sequence[Form], ways: Sequence[Ways], functions: Functions, price: float) -> frozenset[Hashable]:
    """Keys of the functions that several layers have, where all forms are exchanged for what is worth more. ways:
    of each layer the forms that it may have. price: cycles for which a byte of flash is taken."""
    cut = _Cut(forms, ways, functions.sizes, price)
    together = _Together.of(ways)
    for _ in range(_ROUNDS):
        before = cut.value
        for layer in range(len(ways)):
            cut.improve(layer)
        for function in range(len(together.starts) - 1):
            cut.take(cut.useful(together, function))
        for function in cut.several:
            cut.take(cut.without(function))
        if cut.value >= before:
            break
    return frozenset(functions.keys[function] for function in cut.several)


@dataclass(frozen=True, slots=True, eq=False)
class _Together:
    """For each function that several layers may have, those, and of each its fastest form with it, one function behind
    the other: their numbers, and cycles and own bytes of the form. starts: where each function's are, and behind them
    how many there are."""

    layers: Ints
    forms: Ints
    cycles: Ints
    own_bytes: Ints
    starts: Ints

    @classmethod
    def of(cls, ways: Sequence[Ways]) -> _Together:
        has_one = np.array([own.fastest != _NONE for own in ways]).T
        has_one = has_one & (has_one.sum(axis=1, keepdims=True) > 1)
        functions, layers = np.nonzero(has_one)
        forms = np.array([own.fastest for own in ways])[layers, functions]
        pairs = list(zip(layers.tolist(), forms.tolist(), strict=True))
        cycles = np.array([ways[layer].cycles[form] for layer, form in pairs], np.int64)
        own_bytes = np.array([ways[layer].own_bytes[form] for layer, form in pairs], np.int64)
        return cls(layers, forms, cycles, own_bytes, np.flatnonzero(np.diff(functions, prepend=-1, append=-1)))


class _Cut:
    """A form of each layer, and what they take together."""

    def __init__(self, forms: Sequence[Form], ways: Sequence[Ways], sizes: Floats, price: float) -> None:
        self._ways, self._sizes, self._price = ways, sizes, price
        self._numbers = np.array([own.number(form) for own, form in zip(ways, forms, strict=True)])
        pairs = list(zip(ways, self._numbers.tolist(), strict=True))
        self._has = np.array([own.has[number] for own, number in pairs])  # of each layer's form, as in `Ways`
        self._alone_bytes = np.array([own.alone_bytes[number] for own, number in pairs])
        self._cycles = np.array([own.cycles[number] for own, number in pairs])
        self._count()

    def _count(self) -> None:
        """What follows from the forms."""
        self._users = self._has.sum(axis=0)  # of each function
        self.value = self._value(self._users, self._alone_bytes.sum(), self._cycles.sum())
        self._values: dict[int, Floats] = {}  # with each of a layer's forms
        self._useful: tuple[list[int], Flags] | None = None  # which exchanges are, and how many for each function

    def _value(self, users: Floats, alone_bytes: int, cycles: int) -> float:
        """Cycles, and those that the bytes are worth."""
        return float(cycles + self._price * (alone_bytes + self._sizes @ (users > 0)))

    @property
    def several(self) -> list[int]:
        """Numbers of the functions of several layers."""
        numbers: list[int] = np.flatnonzero(self._users > 1).tolist()
        return numbers

    def improve(self, layer: int) -> None:
        """Takes the form of a layer that is worth most."""
        values = self.values(layer)
        best = int(values.argmin())
        if values[best] < self.value:
            self._put([(layer, best)])

    def values(self, layer: int) -> Floats:
        """The value with each of a layer's forms."""
        if layer not in self._values:
            ways = self._ways[layer]
            nobody = self._users == self._has[layer]  # but perhaps the layer itself
            own_bytes = ways.alone_bytes + ways.has @ (self._sizes * nobody)
            others = self._alone_bytes.sum() - self._alone_bytes[layer] + self._sizes @ ~nobody
            cycles = self._cycles.sum() - self._cycles[layer] + ways.cycles
            self._values[layer] = cycles + self._price * (others + own_bytes)
        return self._values[layer]

    def without(self, function: int) -> _Exchanges:
        """For each layer whose form has the function, the form without it that is worth most; none where one has no
        other."""
        exchanges = []
        for layer in np.flatnonzero(self._has[:, function]).tolist():
            has = self._ways[layer].has[:, function]
            if has.all():
                return []
            exchanges.append((layer, int(np.where(has, np.inf, self.values(layer)).argmin())))
        return exchanges

    def useful(self, together: _Together, function: int) -> _Exchanges:
        """Those of a function's exchanges that are worth more where their code is there anyway."""
        if self._useful is None:
            layers = together.layers
            left = self._alone_bytes + self._has @ (self._sizes * (self._users == 1))
            gains = self._cycles[layers] - together.cycles + self._price * (left[layers] - together.own_bytes)
            gainful = (gains > 0) & (together.forms != self._numbers[layers])
            self._useful = np.diff(np.append(0, gainful.cumsum())[together.starts]).tolist(), gainful
        counts, gainful = self._useful
        if not counts[function]:
            return []
        start = together.starts[function]
        places = start + np.flatnonzero(gainful[start : together.starts[function + 1]])
        return list(zip(together.layers[places].tolist(), together.forms[places].tolist(), strict=True))

    def take(self, exchanges: _Exchanges) -> None:
        """Makes the exchanges, if all together are worth more."""
        new = [(layer, number) for layer, number in exchanges if number != self._numbers[layer]]
        if not new:
            return
        layers = [layer for layer, _ in new]
        users = self._users - self._has[layers].sum(axis=0)
        alone_bytes = self._alone_bytes.sum() - self._alone_bytes[layers].sum()
        cycles = self._cycles.sum() - self._cycles[layers].sum()
        for layer, number in new:
            ways = self._ways[layer]
            users += ways.has[number]
            alone_bytes += ways.alone_bytes[number]
            cycles += ways.cycles[number]
        if self._value(users, alone_bytes, cycles) < self.value:
            self._put(new)

    def _put(self, exchanges: _Exchanges) -> None:
        for layer, number in exchanges:
            ways = self._ways[layer]
            self._numbers[layer], self._has[layer] = number, ways.has[number]
            self._alone_bytes[layer], self._cycles[layer] = ways.alone_bytes[number], ways.cycles[number]
        self._count()
