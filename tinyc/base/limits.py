# SPDX-License-Identifier: Apache-2.0
"""How much a model may make the compiler hold or compute, known from shapes before anything of that size is made.

Every tensor and every constant goes through here once, whatever the file's format. What a file brings along is bounded
by the file's own size (`base.files.MAX_BYTES`); what it asks for is bounded by the figures below, and messages name
them. docs/reliability.md, Limits, says what they mean for a user.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import Loc, TinycError

MAX_ELEMENTS = 1 << 24  # of a tensor: 16 MiB in int8, more than the RAM of any microcontroller
MAX_ACTIVATIONS = 1 << 25  # of all that a model computes; the float reference holds them, and sums of them, at once
MAX_STORED = 1 << 26  # of all constants that the file holds: 64 MiB in int8
MAX_FOLDED = 1 << 25  # of all constants that are computed when a model is loaded
MAX_PRODUCTS = 1 << 32  # multiplications in one of them
MAX_MACS = 1 << 34  # of an inference: half a minute at 500 million in a second
_HINT = "no microcontroller holds that: export the model with smaller shapes (docs/reliability.md, Limits)"


def check_shape(what: str, shape: Sequence[int], where: Loc | None, most: int = MAX_ELEMENTS) -> int:
    """The elements of a tensor of that shape; TinycError with the figure if they are more than `most`, and for sizes
    below 1. `what` has that shape, for the message: `input 'x'`."""
    if any(size < 1 for size in shape):
        raise TinycError(f"{what} has an impossible shape {list(shape)}", where)
    count = math.prod(shape)
    if count > most:
        raise TinycError(_too_much(f"{what} of shape {list(shape)[:8]}", count, most), where, _HINT)
    return count


def check_activations(values: Iterable[tuple[str, Sequence[int], Loc | None]]) -> None:
    """Raise TinycError if a tensor that the model computes, or all together, are beyond the limits; values: name, shape
    and place."""
    total = 0
    for name, shape, where in values:
        total += check_shape(f"tensor '{name}'", shape, where)
        if total > MAX_ACTIVATIONS:
            raise TinycError(_too_much("the tensors up to this one together", total, MAX_ACTIVATIONS), where, _HINT)


def check_macs(macs: int, where: Loc | None) -> None:
    """Raise TinycError if an inference takes too many multiply-accumulates."""
    if macs > MAX_MACS:
        raise TinycError(
            f"the model takes {macs:,} multiply-accumulates up to this operator, beyond tinyc's limit of {MAX_MACS:,}",
            where,
            _HINT.replace("holds", "computes"),
        )


@dataclass(slots=True)
class Constants:
    """Elements of the constants that are held so far; `what` they are. Each, and all together, have a limit."""

    what: str
    each: int
    most: int
    elements: int = 0

    @classmethod
    def folded(cls) -> Constants:
        """Those that are computed when a model is loaded."""
        return cls("computed", MAX_ELEMENTS, MAX_FOLDED)

    @classmethod
    def stored(cls) -> Constants:
        """Those that the file holds; many may share bytes of it."""
        return cls("stored", MAX_STORED, MAX_STORED)

    def take(self, name: str, shape: Sequence[int], where: Loc | None) -> None:
        """Count a constant that is about to be made. TinycError if it, or all together, are beyond the limits."""
        count = math.prod(max(size, 0) for size in shape)
        self.elements += count
        if count > self.each:
            raise TinycError(_too_much(f"constant '{name}' of shape {list(shape)[:8]}", count, self.each), where, _HINT)
        if self.elements > self.most:
            message = _too_much(f"the constants {self.what} up to '{name}' together", self.elements, self.most)
            raise TinycError(message, where, _HINT)


def check_products(name: str, products: int, where: Loc | None) -> None:
    """Raise TinycError if a constant would take too many multiplications to compute."""
    if products > MAX_PRODUCTS:
        raise TinycError(
            f"constant '{name}' takes {products:,} multiplications to compute; tinyc's limit is {MAX_PRODUCTS:,}",
            where,
            "compute it when the model is exported (docs/reliability.md, Limits)",
        )


def _too_much(what: str, count: int, most: int) -> str:
    return f"{what} would have {count:,} elements ({4 * count:,} bytes as floats), beyond tinyc's limit of {most:,}"
