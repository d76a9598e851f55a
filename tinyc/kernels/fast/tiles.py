# SPDX-License-Identifier: Apache-2.0
"""What the assembly of exact fast convolutions (`bilinear.py`) depends on.

It works on two neighbouring tiles by four output channels at a time. Three functions per layer; tc_tiles.h
calls them tile pair by tile pair and has their portable twins. `transforms.py` writes the first two, `products.py` the
third:

* vertical: columns of int8 input, all channels, to sums over rows: strip [step][product row][column], a step
  being two channels of one word, channels (0, 2) and (1, 3) of each four;
* horizontal: a strip to factors [product][step][tile], products in the order of use; it also moves the strip's
  last columns to its front, where the next pair needs them;
* products: factors times weights, sums of products, and the requantization.
"""

from __future__ import annotations

from tinyc.base.dataclass import dataclass
from tinyc.kernels.fast.bilinear import BilinearForm
from tinyc.kernels.finish import Requantization
from tinyc.kernels.matrix import GROUP
from tinyc.kernels.stream import PACKED, WIDE
from tinyc.kernels.tile.shape import fast_tile_text
from tinyc.machine.cores import Core

INVERSES = {3: 2863311531, 9: 954437177}  # of odd factors, modulo 2^32


@dataclass(frozen=True, slots=True)
class TileInputs:
    """What the code of the inputs depends on, and that of int8 weights."""

    core: Core
    form: BilinearForm
    in_c: int

    @property
    def quads(self) -> int:
        return -(-self.in_c // 4)

    @property
    def steps(self) -> int:
        """Words of two channels per product, tile and output channel."""
        return 2 * self.quads

    @property
    def columns(self) -> int:
        """Input columns of a pair of tiles."""
        form = self.form.across
        return form.n + form.m * form.stride

    @property
    def carried(self) -> int:
        """Columns that the next pair of tiles uses again."""
        return self.columns - 2 * self.form.across.m * self.form.stride

    @property
    def strip_words(self) -> int:
        return self.steps * self.form.products * self.columns

    @property
    def products(self) -> int:
        return self.form.products * self.form.across.products

    @property
    def factor_words(self) -> int:
        return self.products * self.steps * 2


@dataclass(frozen=True, slots=True)
class Tiles(TileInputs):
    """What the code of the products depends on. requant: from sums to int8, for outputs that are raised least. divided:
    sums are divided by the form's odd factor first. inline: every product has its own code, not a subroutine."""

    out_c: int
    requant: Requantization
    divided: bool
    inline: bool

    @property
    def inputs(self) -> TileInputs:
        """What layers of other outputs have, too."""
        return TileInputs(self.core, self.form, self.in_c)

    @property
    def text(self) -> str:
        """The register tile in words."""
        weights = (PACKED if self.requant.packed else WIDE).weights
        return fast_tile_text(2, (self.form.m, self.form.across.m), GROUP, weights)

    @property
    def groups(self) -> int:
        return self.out_c // GROUP

    @property
    def lowers(self) -> bool:
        """Whether raised sums are shifted down first; else their multiples pass through the scaling."""
        return self.requant.takes_no_multiples

    @property
    def raises(self) -> tuple[int, ...]:
        """The raises for which there are constants."""
        down, across = self.form.raised, self.form.across.raised
        return (0,) if self.lowers else tuple(sorted({a + b for a in down for b in across}))

    @property
    def words_per_step(self) -> int:
        """Weights of four output channels."""
        return GROUP // 2 if self.requant.packed else GROUP

    @property
    def group_words(self) -> int:
        """Words of the stream for four output channels: start values and weights."""
        return GROUP + self.products * self.steps * self.words_per_step

    @property
    def finish_words(self) -> int:
        """Words of constants for four output channels."""
        return len(self.raises) * GROUP * self.requant.constants
