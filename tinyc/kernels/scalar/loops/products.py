# SPDX-License-Identifier: Apache-2.0
"""Sums of products that stay in registers: sums[lane][i] = sum over taps of x[tap][i] * w[tap][lane], modulo 2^32.

`write` is the loop of all cores. What its words come to on a core (how a weight is addressed, whether a product may
overwrite its factors, how many output channels, "lanes", have registers) is the core's table: a `ProductsCore`.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

from tinyc.base.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Products:
    """What a loop computes.

    inputs: words that share a weight, 1 or 2. taps: of a turn of the loop. weight: type of the weights, `s8`, `s16` or
    `s4`. apart: weights from one tap to the next, those of further lanes among them. narrow: inputs are int16.
    many: dot products one after the other, as many as lie in x before the sums.
    """

    inputs: int
    taps: int
    weight: str
    apart: int
    narrow: bool = False
    many: bool = False

    @property
    def weight_bytes(self) -> int:
        """0 where two are in a byte."""
        return {"s4": 0, "s8": 1, "s16": 2}[self.weight]

    @property
    def tap_bytes(self) -> int:
        """Of the inputs of a tap."""
        return (2 if self.narrow else 4) * self.inputs

    @property
    def turn_bytes(self) -> int:
        """Of inputs."""
        return self.taps * self.tap_bytes

    @property
    def turn_weights(self) -> int:
        """Bytes of weights that a turn goes on by."""
        return self.taps * self.apart * self.weight_bytes


# Three pixels in two words; two of the eight weights of a tap are of other calls.
DOT = Products(inputs=2, taps=2, weight="s8", apart=8)
NIBBLES = Products(inputs=2, taps=4, weight="s4", apart=4)
DENSE = Products(inputs=1, taps=4, weight="s8", apart=4)
TILES = Products(inputs=2, taps=4, weight="s16", apart=4, many=True)
NARROW_TILES = Products(inputs=2, taps=4, weight="s16", apart=4, narrow=True, many=True)


class ProductsCore(Protocol):
    """A core's words for `write`. batches: lanes whose weights are loaded before the first of them is multiplied.
    begins: whether sums begin with a product, and not with 0."""

    @property
    def loop(self) -> Products: ...

    @property
    def batches(self) -> tuple[tuple[int, ...], ...]: ...

    @property
    def begins(self) -> bool: ...

    def enter(self) -> None:
        """Saves what is the caller's. Sums become 0 where no product begins them."""

    def products(self) -> AbstractContextManager[None]:
        """The dot products, one after the other."""

    def unless_done(self) -> AbstractContextManager[None]:
        """What is left out where a dot product has one turn."""

    def turns(self) -> AbstractContextManager[None]:
        """The turns of a dot product, or those behind the first."""

    def inputs(self, tap: int) -> None:
        """Loads those of a tap."""

    def weight(self, tap: int, lane: int) -> None:
        """Loads or unpacks it."""

    def multiply(self, tap: int, lane: int, number: int, sets: bool) -> None:
        """The sum of a lane and an input gets their product, alone or added."""

    def step(self) -> None:
        """To the next turn's inputs and weights, as far as loads have not moved on."""

    def store(self) -> None:
        """The sums of a dot product."""

    def leave(self) -> None:
        """Back to the caller."""


def write(core: ProductsCore) -> None:
    """The function, in the words of a core."""
    core.enter()
    with core.products():
        if core.begins:
            _turn(core, sets=True)
            with core.unless_done(), core.turns():
                _turn(core, sets=False)
        else:
            with core.turns():
                _turn(core, sets=False)
        core.store()
    core.leave()


def _turn(core: ProductsCore, sets: bool) -> None:
    """sets: whether its first tap begins the sums."""
    for tap in range(core.loop.taps):
        core.inputs(tap)
        for lanes in core.batches:
            for lane in lanes:
                core.weight(tap, lane)
            for lane in lanes:
                for number in range(core.loop.inputs):
                    core.multiply(tap, lane, number, sets and tap == 0)
    core.step()
