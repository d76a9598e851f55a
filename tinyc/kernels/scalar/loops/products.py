# SPDX-License-Identifier: Apache-2.0
"""Sums of products that stay in registers: sums[lane][i] = sum over taps of x[tap][i] * w[tap][lane], modulo 2^32.

`ProductsCore.write` is the loop of all cores. What its words come to on a core (how a weight is addressed, whether a
product may overwrite its factors, how many output channels, "lanes", have registers) is the core's own class of these.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Generic, TypeVar

from tinyc.base.dataclass import dataclass

A = TypeVar("A")  # what the words are written to: assembly, or statements in C


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


class ProductsCore(Generic[A]):
    """A core's words for the loop. lanes: output channels that have registers. batches: lanes whose weights are loaded
    before the first of them is multiplied. begins: whether sums begin with a product, and not with 0."""

    loop: Products
    asm: A
    lanes = 4
    begins = False

    @property
    def batches(self) -> tuple[tuple[int, ...], ...]:
        return tuple((lane,) for lane in range(self.lanes))

    def enter(self) -> None:
        """Saves what is the caller's. Sums become 0 where no product begins them."""
        raise NotImplementedError

    def products(self) -> AbstractContextManager[None]:
        """Of `many` the dot products, one after the other."""
        raise NotImplementedError

    def unless_done(self) -> AbstractContextManager[None]:
        """Where sums begin with a product: what is left out where a dot product has one turn."""
        raise NotImplementedError

    def turns(self) -> AbstractContextManager[None]:
        """The turns of a dot product, or those behind the first."""
        raise NotImplementedError

    def inputs(self, tap: int) -> None:
        """Loads those of a tap."""
        raise NotImplementedError

    def weight(self, tap: int, lane: int) -> None:
        """Loads or unpacks it."""
        raise NotImplementedError

    def multiply(self, tap: int, lane: int, number: int, sets: bool) -> None:
        """The sum of a lane and an input gets their product, alone or added."""
        raise NotImplementedError

    def step(self) -> None:
        """To the next turn's inputs and weights, as far as loads have not moved on."""

    def store(self) -> None:
        """The sums of a dot product."""
        raise NotImplementedError

    def leave(self) -> None:
        """Back to the caller."""

    def write(self) -> A:
        """The function, in the words of the core."""
        self.enter()
        with self.products() if self.loop.many else nullcontext():
            if self.begins:
                self._turn(sets=True)
                with self.unless_done(), self.turns():
                    self._turn(sets=False)
            else:
                with self.turns():
                    self._turn(sets=False)
            self.store()
        self.leave()
        return self.asm

    def _turn(self, sets: bool) -> None:
        """sets: whether its first tap begins the sums."""
        for tap in range(self.loop.taps):
            self.inputs(tap)
            for lanes in self.batches:
                for lane in lanes:
                    self.weight(tap, lane)
                for lane in lanes:
                    for number in range(self.loop.inputs):
                        self.multiply(tap, lane, number, sets and tap == 0)
        self.step()
